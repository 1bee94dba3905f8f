"""The session states in which Hermes is asked, and the process environments around them."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from .modules import SESSION_NAMES


def identity(tag: str) -> dict[str, str]:
    """Return keywords for ``set_session_vars`` with every value marked by *tag*."""
    fields = ("source", "chat_id", "chat_name", "thread_id", "user_id", "user_name", "session_id", "message_id")
    keywords = {field: f"{field}-{tag}" for field in (*fields, "profile", "ui_session_id")}
    return keywords | {"platform": "telegram", "session_key": f"agent:main:telegram:dm:{tag}"}


def _bound_twice(module: Any) -> None:
    module.set_session_vars(**identity("a"))
    module.set_session_vars(platform="discord", chat_id="chat_id-b")


def _reset(module: Any) -> None:
    module.set_session_vars(**identity("a"))
    module.reset_session_vars()


def _unset_key(module: Any) -> None:
    module.set_session_vars(**identity("a"))
    module._VAR_MAP["HERMES_SESSION_KEY"].set(module._UNSET)


def _late_token(module: Any) -> None:
    tokens = module.set_session_vars(**identity("a"))
    token = module._VAR_MAP["HERMES_SESSION_KEY"].set("for a moment")
    module.clear_session_vars(tokens)
    module._VAR_MAP["HERMES_SESSION_KEY"].reset(token)


def _cron_delivery(module: Any) -> None:
    for field in ("PLATFORM", "CHAT_ID", "THREAD_ID"):
        # With spaces and capitals, because readers strip and lower some of them.
        module._VAR_MAP[f"HERMES_CRON_AUTO_DELIVER_{field}"].set(f"  {field.rpartition('_')[2].title()} ")


# Each is entered with the session module, in an empty context with the latch off.
STATES: Mapping[str, Callable[[Any], object]] = {
    "never bound": lambda module: None,
    "bound": lambda module: module.set_session_vars(**identity("a")),
    "bound partly": lambda module: module.set_session_vars(platform="discord", chat_id="7"),
    "bound stateless": lambda module: module.set_session_vars(**identity("a"), async_delivery=False),
    "bound to nothing": lambda module: module.set_session_vars(),
    "bound twice": _bound_twice,
    "bound to None": lambda module: module.set_session_vars(**dict.fromkeys(identity("a"))),
    "bound to other types": lambda module: module.set_session_vars(
        platform=7, chat_id=["x", 1], thread_id=0, user_id=False, session_key=("k",), session_id=1.5
    ),
    "cleared": lambda module: module.clear_session_vars(module.set_session_vars(**identity("a"))),
    "reset": _reset,
    "beside a bound session": lambda module: contextvars.Context().run(module.set_session_vars, **identity("b")),
    "one variable": lambda module: module._VAR_MAP["HERMES_SESSION_KEY"].set("alone"),
    "one variable unset": _unset_key,
    "token reset after clear": _late_token,
    "stateless channel": lambda module: module.declare_stateless_channel(),
    "current session id": lambda module: module.set_current_session_id("current"),
    "cron delivery": _cron_delivery,
}

_FOREIGN = {name: f"foreign {name}" for name in SESSION_NAMES}


@contextlib.contextmanager
def _getenv_replaced() -> Iterator[None]:
    getenv = os.getenv

    def replacement(name: str, default: Any = None) -> Any:
        return f"patched {name}" if name in SESSION_NAMES else getenv(name, default)

    with mock.patch.object(os, "getenv", replacement):
        yield


# The process environments around a state: none of a session, another session's mirror, and the two ways in
# which tests replace them.
SURROUNDINGS: Mapping[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
    "no mirror": contextlib.nullcontext,
    "foreign mirror": lambda: mock.patch.dict(os.environ, _FOREIGN),
    "os.environ replaced": lambda: mock.patch.object(os, "environ", dict(os.environ) | _FOREIGN),
    "os.getenv replaced": _getenv_replaced,
}
