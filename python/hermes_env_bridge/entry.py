"""Where runs start: an adapter for each surface, to decorate a handler or a job with.

An adapter resets whatever identity it is called with, both session and run, enters the run, and says so: one record
when the run starts and one when it ends, both on the logger ``hermes_env_bridge.run`` at level INFO, with the
attributes ``run_id`` and ``surface``. The last one has the ``outcome`` (``completed``, ``failed`` or ``cancelled``) and
the ``duration`` in seconds.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast

from hermes_env_bridge._core import OmniusRunContext, TelegramRunContext
from hermes_env_bridge._run_scope import RunScope, unbound_context

if TYPE_CHECKING:
    from hermes_env_bridge._core import _Surface

_F = TypeVar("_F", bound=Callable[..., Any])

_log = logging.getLogger("hermes_env_bridge.run")


class Run(RunScope):
    """One run from an entry point on: nothing inherited is entered in it, and it says when it starts and ends."""

    def __init__(self, run: OmniusRunContext, *, bind_hermes: bool = False) -> None:
        """Enter *run*, and with *bind_hermes* the session of Hermes that corresponds."""
        super().__init__(run, unbound_context(), bind_hermes=bind_hermes)
        self._fields = {"run_id": run.run_id, "surface": run.surface}
        self._since: float | None = None

    def begin(self) -> None:
        """Say that the run starts."""
        if self._since is None:
            self._since = time.monotonic()
            _log.info("run started", extra=self._fields)

    def end(self, error: BaseException | None) -> None:
        """Say how the run has ended."""
        super().end(error)
        duration = time.monotonic() - (self._since or time.monotonic())
        _log.info("run ended", extra=self._fields | {"outcome": _outcome(error), "duration": duration})


def _outcome(error: BaseException | None) -> str:
    if error is None:
        return "completed"
    return "cancelled" if isinstance(error, asyncio.CancelledError | GeneratorExit) else "failed"


class Fields(TypedDict, total=False):
    """What can be stated of all runs of an entry point."""

    project_root: str
    owner_kind: str
    owner_id: str


def telegram(
    chat: Callable[..., TelegramRunContext], /, *, bind_hermes: bool = False, **fields: Unpack[Fields]
) -> Callable[[_F], _F]:
    """Decorate the handler of a message; *chat* is called with the handler's arguments and describes the message.

    Each run has a random id. With *bind_hermes* the corresponding session of Hermes is bound as well.
    """

    def describe(*args: Any, **keywords: Any) -> OmniusRunContext:
        return new_run("telegram", telegram=chat(*args, **keywords), **fields)

    return describing(describe, bind_hermes=bind_hermes)


def api(*, bind_hermes: bool = False, **fields: Unpack[Fields]) -> Callable[[_F], _F]:
    """Decorate the handler of a request; :class:`hermes_env_bridge.asgi.RunContextMiddleware` is for a whole server."""
    return _undescribed("api", bind_hermes, fields)


def tui(*, bind_hermes: bool = False, **fields: Unpack[Fields]) -> Callable[[_F], _F]:
    """Decorate what does a turn at the terminal."""
    return _undescribed("tui", bind_hermes, fields)


def scheduler(*, bind_hermes: bool = False, **fields: Unpack[Fields]) -> Callable[[_F], _F]:
    """Decorate a job of the scheduler."""
    return _undescribed("scheduler", bind_hermes, fields)


def background(*, bind_hermes: bool = False, **fields: Unpack[Fields]) -> Callable[[_F], _F]:
    """Decorate work that goes on behind another run."""
    return _undescribed("background", bind_hermes, fields)


def describing(describe: Callable[..., OmniusRunContext], /, *, bind_hermes: bool = False) -> Callable[[_F], _F]:
    """Decorate a function whose every call is a run; *describe* is called with its arguments and returns the record.

    Functions, coroutine functions and generator functions of both kinds can be decorated. What *describe* raises is
    raised by the call, and nothing is run.
    """

    def decorate(function: _F) -> _F:
        def call(*args: Any, **keywords: Any) -> Any:
            return Run(describe(*args, **keywords), bind_hermes=bind_hermes).call(function, *args, **keywords)

        async def call_async(*args: Any, **keywords: Any) -> Any:
            return await call(*args, **keywords)

        # What calls handlers asks of which kind they are.
        wrapper = call_async if inspect.iscoroutinefunction(function) else call
        return cast(_F, functools.wraps(function)(wrapper))

    return decorate


def new_run(surface: _Surface, **fields: Any) -> OmniusRunContext:
    """Return a record with a random id; *fields* are keywords of :class:`OmniusRunContext`."""
    return OmniusRunContext(run_id=str(uuid.uuid4()), surface=surface, **fields)


def _undescribed(surface: _Surface, bind_hermes: bool, fields: Fields) -> Callable[[_F], _F]:
    return describing(lambda *_args, **_keywords: new_run(surface, **fields), bind_hermes=bind_hermes)
