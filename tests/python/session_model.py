"""A session module of the newest shape, for tests of the comparison and of the package's own module.

It is no product code. The tests execute it twice, once as it should be and once with ``FAULT`` naming
the one thing it is to do wrong, and want the fault to be found.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from types import GenericAlias, MappingProxyType
from typing import Any, NoReturn

FAULT: str = globals().get("FAULT", "")

_UNSET: Any = object()
_session_context_engaged: bool = False
_private_latch = False
_environ_of_import = os.environ
_seen_environment: dict[str, Any] = {}


class _Storage(threading.local):
    """What the faulty variables keep outside of contexts."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}


_EVERYBODY: dict[str, Any] = {}
_THREAD = _Storage()


class Mark:
    """A token of a :class:`Variable`, around a real one."""

    __hash__ = None  # type: ignore[assignment]
    MISSING = Token.MISSING

    def __init__(self, *parts: Any) -> None:
        if len(parts) != 2:
            raise RuntimeError("Tokens can only be created by ContextVars")
        object.__setattr__(self, "_parts", parts)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return Token

    @property
    def var(self) -> Any:
        """The variable that made it."""
        return vars(self)["_parts"][0]

    @property
    def old_value(self) -> Any:
        """What the variable had in this context before."""
        old = vars(self)["_parts"][1].old_value
        return _UNSET if FAULT == "old value is the default" and old is Token.MISSING else old

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(name)

    def __repr__(self) -> str:
        return repr(vars(self)["_parts"][1])

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("cannot pickle 'Mark' object")


class Variable:
    """Around a real variable, and so equal to one unless a fault says otherwise."""

    def __init__(self, name: str, *, default: Any = Token.MISSING) -> None:
        options = {} if default is Token.MISSING else {"default": default}
        self.__dict__["_real"] = ContextVar(name, **options)

    __class_getitem__: Any = classmethod(GenericAlias)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("not a base class")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return ContextVar

    @property
    def _kept(self) -> dict[str, Any]:
        return _EVERYBODY if FAULT == "one value for everybody" else _THREAD.values

    @property
    def name(self) -> str:
        """The name of the variable."""
        return str(vars(self)["_real"].name)

    def get(self, *default: Any) -> Any:
        """The value here."""
        if self.name in self._kept:
            return self._kept[self.name]
        if FAULT == "a caller's default is ignored" and len(default) == 1:
            return self.get()
        return vars(self)["_real"].get(*default)

    def set(self, value: Any, /) -> Mark:
        """Set it here, and return a token."""
        if FAULT in ("one value for everybody", "one value for each thread"):
            self._kept[self.name] = value
        if FAULT == "the sentinel unsets" and value is _UNSET:
            token = vars(self)["_real"].set(value)
            vars(self)["_real"].reset(token)
            return Mark(self, token)
        return Mark(self, vars(self)["_real"].set(value))

    def reset(self, token: Any, /) -> None:
        """Take back what made *token*."""
        inner = vars(token)["_parts"][1] if type(token) is Mark else token
        try:
            vars(self)["_real"].reset(inner)
        except RuntimeError:
            if FAULT != "a late token is accepted":
                raise
            vars(self)["_real"].set(inner.old_value)
        except ValueError:
            if FAULT != "a foreign token is accepted":
                raise
            vars(self)["_real"].set(inner.old_value)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(name)

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(name)

    def __repr__(self) -> str:
        return repr(vars(self)["_real"])

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("cannot pickle 'Variable' object")


_WRAPPED = (
    "none, but wrapped",
    "one value for everybody",
    "one value for each thread",
    "a late token is accepted",
    "a foreign token is accepted",
    "old value is the default",
    "a caller's default is ignored",
    "the sentinel unsets",
)
_Kind: Callable[..., Any] = Variable if FAULT in _WRAPPED else ContextVar

_KEYWORDS = (
    *("platform", "source", "chat_id", "chat_type", "chat_name", "thread_id", "user_id", "user_id_alt", "user_name"),
    *("scope_id", "session_key", "session_id", "ui_session_id", "message_id", "profile"),
    *("browser_control_principal", "browser_control_transport_family", "cron_session", "parent_chat_id"),
)


def _attribute(keyword: str) -> str:
    bare = keyword.startswith(("browser_", "cron_"))
    return "_" + (keyword if bare else f"session_{keyword.removeprefix('session_')}").upper()


def _variable(attribute: str) -> str:
    name = attribute.removeprefix("_").replace("SESSION_UI_SESSION", "UI_SESSION")
    return f"HERMES_{name}"


_SESSION_VARS = tuple(_Kind(_variable(_attribute(keyword)), default=_UNSET) for keyword in _KEYWORDS)
globals().update(zip(map(_attribute, _KEYWORDS), _SESSION_VARS, strict=True))
_SESSION_ID: Any = _SESSION_VARS[_KEYWORDS.index("session_id")]
_SESSION_ASYNC_DELIVERY = _Kind("HERMES_SESSION_ASYNC_DELIVERY", default=_UNSET)
_CRON_AUTO_DELIVER_PLATFORM = _Kind("HERMES_CRON_AUTO_DELIVER_PLATFORM", default=_UNSET)
_CRON_AUTO_DELIVER_CHAT_ID = _Kind("HERMES_CRON_AUTO_DELIVER_CHAT_ID", default=_UNSET)
_CRON_AUTO_DELIVER_THREAD_ID = _Kind("HERMES_CRON_AUTO_DELIVER_THREAD_ID", default=_UNSET)
_CRON_TARGET = (_CRON_AUTO_DELIVER_PLATFORM, _CRON_AUTO_DELIVER_CHAT_ID, _CRON_AUTO_DELIVER_THREAD_ID)
_VAR_MAP: Any = {each.name: each for each in (*_SESSION_VARS, *_CRON_TARGET)}
_map_of_import = dict(_VAR_MAP)
if FAULT == "the map is read-only":
    _VAR_MAP = MappingProxyType(_map_of_import)

NON_MESSAGING_SESSION_SURFACES = frozenset(
    {"", "api_server", "cli", "codex", "desktop", "gateway", "kanban", "local", "msgraph_webhook", "tool"}
    | {"tui", "webhook"}
)


def session_context_engaged() -> bool:
    """Whether a session was ever bound."""
    return _private_latch if FAULT == "the latch has a private copy" else _session_context_engaged


def _engage() -> None:
    global _session_context_engaged, _private_latch
    _session_context_engaged = _private_latch = True


def _runtime_cwd(func: str, *args: Any) -> None:
    """Tell the agent, if there is one."""
    ignored: type[BaseException] = BaseException if FAULT == "hooks are silenced wholly" else Exception
    try:
        from agent import runtime_cwd  # type: ignore[import-not-found, import-untyped, unused-ignore]

        getattr(runtime_cwd, func)(*args)
    except ignored:
        pass


def _is_delegated_child() -> Any:
    try:
        from agent.delegation_context import is_delegated_child_context  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return bool(is_delegated_child_context()) and FAULT != "a child writes the environment"
    except Exception:
        return False


def set_current_session_id(session_id: str) -> None:
    """Change the id of the session here and, unless this is a delegated child, in the environment."""
    if FAULT == "environment before variable":
        if not _is_delegated_child():
            os.environ["HERMES_SESSION_ID"] = session_id
        _SESSION_ID.set(session_id)
        return
    _SESSION_ID.set(session_id)
    if not _is_delegated_child():
        os.environ["HERMES_SESSION_ID"] = session_id


@contextlib.contextmanager
def scoped_current_session_id(session_id: str | None = None) -> Iterator[None]:
    """Another id for a while."""
    before = _SESSION_ID.get()
    token = None if session_id is None else _SESSION_ID.set(session_id)
    try:
        yield
    finally:
        if FAULT == "a scope resets by token" and token is not None:
            _SESSION_ID.reset(token)
        else:
            _SESSION_ID.set(before)


def source_route_metadata(source: Any, metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """*metadata* with what *source* knows of the route."""
    anchors: dict[str, Any] = {}
    for key in ("scope_id", "parent_chat_id"):
        value = getattr(source, key, None)
        if value:
            anchors[key] = value if FAULT == "anchors are no texts" else str(value)
    return {**(metadata or {}), **anchors} if anchors else metadata


def set_session_vars(
    platform: str = "",
    source: str = "",
    chat_id: str = "",
    chat_type: str = "",
    chat_name: str = "",
    thread_id: str = "",
    user_id: str = "",
    user_id_alt: str = "",
    user_name: str = "",
    scope_id: str = "",
    session_key: str = "",
    session_id: str = "",
    message_id: str = "",
    profile: str = "",
    browser_control_principal: str = "",
    browser_control_transport_family: str = "",
    cwd: str = "",
    async_delivery: bool = True,
    ui_session_id: str = "",
    cron_session: Any = _UNSET,
    parent_chat_id: str = "",
) -> list:  # type: ignore[type-arg]  # the signature is compared
    """Bind a session."""
    given = locals()
    _engage()
    if FAULT == "the hook comes first":
        _runtime_cwd("set_session_cwd", cwd)
    if FAULT == "a bind is whole or nothing":
        bool(async_delivery)
    if FAULT == "an omitted cron flag is cleared" and cron_session is _UNSET:
        given["cron_session"] = ""
    values: list[Any] = [given[keyword] for keyword in _KEYWORDS]
    if FAULT == "values are made texts":
        values = [value if value is _UNSET else str(value) for value in values]
    pairs = list(zip(_SESSION_VARS, values, strict=False))
    if FAULT == "what is omitted stays":
        pairs = [(variable, value) for variable, value in pairs if value != ""]
    tokens = [variable.set(value) for variable, value in pairs]
    tokens.append(
        _SESSION_ASYNC_DELIVERY.set(async_delivery if FAULT == "delivery is not a bool" else bool(async_delivery))
    )
    if FAULT != "the hook comes first":
        _runtime_cwd("set_session_cwd", cwd)
    return [] if FAULT == "no tokens" else tokens


def clear_session_vars(tokens: list) -> None:  # type: ignore[type-arg]
    """Mark the session as over."""
    if FAULT == "clear resets by token" and tokens:
        for token in tokens:
            with contextlib.suppress(RuntimeError, ValueError):
                token.var.reset(token)
        return
    cleared = _VAR_MAP.values() if FAULT == "clear touches the cron target" else _SESSION_VARS
    for variable in cleared:
        variable.set(_UNSET if FAULT == "clear unsets" else "")
    _SESSION_ASYNC_DELIVERY.set(False if FAULT == "clear opts out of delivery" else _UNSET)
    _runtime_cwd("clear_session_cwd")


def reset_session_vars() -> None:
    """As if nothing had been bound here."""
    for variable in _SESSION_VARS if FAULT == "reset spares the cron target" else _VAR_MAP.values():
        variable.set(_UNSET)
    _SESSION_ASYNC_DELIVERY.set(_UNSET)
    _runtime_cwd("clear_session_cwd")


def _is_unset(value: Any) -> bool:
    if FAULT == "truth instead of identity":
        return not value
    return bool(value == _UNSET) if FAULT == "equality instead of identity" else value is _UNSET


def get_session_env(name: str, default: str = "") -> str:
    """The value bound here, else the environment's, else *default*."""
    if FAULT == "a read fails once":
        _seen_environment["reads"] = _seen_environment.get("reads", 0) + 1
        if _seen_environment["reads"] == 3000:
            raise RuntimeError("a read that fails once")
    variables = _map_of_import if FAULT == "the map has a private copy" else _VAR_MAP
    variable = variables.get(name)
    if variable is not None and not _is_unset(value := variable.get()):
        return value  # type: ignore[no-any-return]
    if FAULT == "the latch gates reads" and _session_context_engaged and variable is not None:
        return default
    if FAULT == "the environment of the import":
        return _environ_of_import.get(name, default)
    if FAULT == "the environment is cached" and isinstance(name, str):
        return _seen_environment.setdefault(name, os.getenv(name, default))  # type: ignore[no-any-return]
    if FAULT == "getenv is bypassed":
        return os.environ.get(name, default)
    return os.getenv(name, default)


_read_of_import = get_session_env


def _reader() -> Callable[..., str]:
    return _read_of_import if FAULT == "calls inside are bound early" else get_session_env


def session_is_messaging_surface() -> bool:
    """Whether a person reads what is sent."""
    platform = os.getenv("HERMES_PLATFORM") or _reader()("HERMES_SESSION_PLATFORM", "")
    told = [platform, _reader()("HERMES_SESSION_SOURCE", "")]
    # One after the other: what comes after a chat is not looked at.
    words = (str(each or "").strip() for each in told)
    if FAULT != "surfaces keep their case":
        words = (word.lower() for word in words)
    return any(word and word not in NON_MESSAGING_SESSION_SURFACES for word in words)


def declare_stateless_channel() -> None:
    """Nothing can be delivered later."""
    _SESSION_ASYNC_DELIVERY.set(False)
    if FAULT == "declaring latches":
        _engage()


def async_delivery_supported() -> bool:
    """Whether something can be delivered later."""
    marker = os.environ.get("HERMES_KANBAN_TASK")
    if marker is not None if FAULT == "an empty marker counts" else marker:
        return False
    value = _SESSION_ASYNC_DELIVERY.get()
    return True if value is _UNSET else bool(value)
