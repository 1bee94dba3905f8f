"""A run of each request to an ASGI server: Starlette, FastAPI, or any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hermes_env_bridge._core import OmniusRunContext
from hermes_env_bridge.entry import Run, new_run

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class RunContextMiddleware:
    """Makes a run of each HTTP request and WebSocket, up to the end of its response, however it is streamed.

    What a request is made of says nothing about who sent it until somebody has checked that: the middleware belongs
    inside the one that authenticates, and *describe* takes the owner from what that one has put into the scope.
    """

    def __init__(
        self, app: App, describe: Callable[[Scope], OmniusRunContext] | None = None, *, bind_hermes: bool = False
    ) -> None:
        """Wrap *app*; *describe* makes the record from the connection's scope, else it has a random id and ``api``.

        With *bind_hermes* the corresponding session of Hermes is bound as well.
        """
        self.app = app
        self._describe = describe or (lambda _scope: new_run("api"))
        self._bind_hermes = bind_hermes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection; what is none, the server's own start and stop, is passed on as it is."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        await Run(self._describe(scope), bind_hermes=self._bind_hermes).call(self.app, scope, receive, send)
