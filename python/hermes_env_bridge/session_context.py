"""Whose session is this: task-local session variables, in the shape of Hermes Agent's ``gateway.session_context``.

Each variable holds one of three states for the running task: *unset*, so that a read falls back to ``os.environ``;
*cleared* (``""``), which masks the environment; or *set*. A session is bound and cleared whole. Tasks, copied contexts
and ``asyncio.to_thread`` inherit it; a bare thread and ``loop.run_in_executor`` do not.

After :func:`hermes_env_bridge.install` this name and ``gateway.session_context`` are one module, made from the
installed Hermes' own file; what follows serves where there is no Hermes. Functions look up each other, the variables
and ``os`` in this module at every call, so whatever is patched here is what they use.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermes_env_bridge import _core
from hermes_env_bridge._core import SessionVar as ContextVar
from hermes_env_bridge._module import adopt

_declared = _core.declare(__name__)

# Default of every variable: "never bound here". Compared by identity; "" is another state.
_UNSET: Any = _declared.unset

# Was a session ever bound in this process? A child then inherits no session variable that its task has not bound.
# Writing the attribute tells the native side.
_session_context_engaged: bool = _declared.engaged

# What makes up a session, in the order in which set_session_vars passes the values.
_SESSION_VARS = (
    _SESSION_PLATFORM,
    _SESSION_SOURCE,
    _SESSION_CHAT_ID,
    _SESSION_CHAT_TYPE,
    _SESSION_CHAT_NAME,
    _SESSION_THREAD_ID,
    _SESSION_USER_ID,
    _SESSION_USER_ID_ALT,
    _SESSION_USER_NAME,
    _SESSION_SCOPE_ID,
    _SESSION_KEY,
    _SESSION_ID,
    _SESSION_UI_SESSION_ID,
    _SESSION_MESSAGE_ID,
    _SESSION_PROFILE,
    _BROWSER_CONTROL_PRINCIPAL,
    _BROWSER_CONTROL_TRANSPORT_FAMILY,
    _CRON_SESSION,
    _SESSION_PARENT_CHAT_ID,
) = _declared.session

# Whether a completion can be delivered after the turn. A capability, which no child gets, so not in _VAR_MAP.
_SESSION_ASYNC_DELIVERY: ContextVar[Any] = _declared.async_delivery

# Where a scheduled job delivers; the job sets them itself.
(
    _CRON_AUTO_DELIVER_PLATFORM,
    _CRON_AUTO_DELIVER_CHAT_ID,
    _CRON_AUTO_DELIVER_THREAD_ID,
) = _declared.cron_delivery

# What can be read by name, and what a child is given. Walked at every call: entries may be added and replaced.
_VAR_MAP: dict[str, ContextVar[Any]] = {var.name: var for var in (*_declared.session, *_declared.cron_delivery)}

# Surfaces on which no people chat, in lower case. A surface that is not listed counts as one on which they do.
NON_MESSAGING_SESSION_SURFACES = _core.NON_MESSAGING_SESSION_SURFACES


def session_context_engaged() -> bool:
    """Return whether a session was ever bound in this process."""
    return _session_context_engaged


def _runtime_cwd(func: str, *args: Any) -> None:
    """Call ``agent.runtime_cwd.<func>(*args)`` if there is one; what it raises, short of an exit, is its own affair."""
    # A plain try: it costs a third of contextlib.suppress, on every bind and clear.
    try:  # noqa: SIM105
        getattr(_core.import_from("agent", "runtime_cwd"), func)(*args)
    except Exception:
        pass


def _is_delegated_child() -> bool:
    try:
        return bool(_core.import_from("agent.delegation_context", "is_delegated_child_context")())
    except Exception:
        return False


def set_current_session_id(session_id: str) -> None:
    """Bind the session id here and, unless this is a delegated child, in ``os.environ`` for readers of that.

    Raises what ``os.environ`` raises for a value that it cannot hold (TypeError, ValueError); the variable then
    holds it all the same.
    """
    _SESSION_ID.set(session_id)
    if not _is_delegated_child():
        os.environ["HERMES_SESSION_ID"] = session_id


@contextmanager
def scoped_current_session_id(session_id: str | None = None) -> Iterator[None]:
    """Put the session id back on exit that was bound on entry, after binding *session_id* unless it is None.

    Never touches ``os.environ``. The id is set back and not reset by token, because an async generator that is left
    early runs its exit in another context.
    """
    before = _SESSION_ID.get()
    if session_id is not None:
        _SESSION_ID.set(session_id)
    try:
        yield
    finally:
        _SESSION_ID.set(before)


def source_route_metadata(source: Any, metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return *metadata* with the source's ``scope_id`` and ``parent_chat_id``, as text, where it has them.

    The very object is returned if there is nothing to add.
    """
    routes: dict[str, Any] = {}
    for key in ("scope_id", "parent_chat_id"):
        route = getattr(source, key, None)
        if route:
            routes[key] = str(route)
    return {**(metadata or {}), **routes} if routes else metadata


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
) -> list:  # type: ignore[type-arg]  # the annotation is part of the signature that callers inspect
    """Bind a session in this task: what is not given is cleared, ``cron_session`` left unset. Latches the process.

    Values are kept as they are. Returns a token for each variable, in order, and one for async delivery; give them to
    :func:`clear_session_vars` in a ``finally``.
    """
    global _session_context_engaged
    _session_context_engaged = True
    values = (
        platform,
        source,
        chat_id,
        chat_type,
        chat_name,
        thread_id,
        user_id,
        user_id_alt,
        user_name,
        scope_id,
        session_key,
        session_id,
        ui_session_id,
        message_id,
        profile,
        browser_control_principal,
        browser_control_transport_family,
        cron_session,
        parent_chat_id,
    )
    tokens = _core.bind(_SESSION_VARS, values, _SESSION_ASYNC_DELIVERY, async_delivery)
    _runtime_cwd("set_session_cwd", cwd)
    return tokens


def clear_session_vars(tokens: list) -> None:  # type: ignore[type-arg]
    """Clear the session of this task: each variable masks the environment; async delivery is unstated again.

    *tokens* are not looked at: nothing is restored. A scheduled job's delivery variables are left alone.
    """
    _core.fill(_SESSION_VARS, "", _SESSION_ASYNC_DELIVERY, _UNSET)
    _runtime_cwd("clear_session_cwd")


def reset_session_vars() -> None:
    """Make every variable one that was never bound in this task.

    For the first line of a task that was started by another session's: it inherited that one's identity.
    """
    _core.fill(_VAR_MAP.values(), _UNSET, _SESSION_ASYNC_DELIVERY, _UNSET)
    _runtime_cwd("clear_session_cwd")


def get_session_env(name: str, default: str = "") -> str:
    """Return what this task bound under *name*, ``""`` included; else what ``os.getenv(name, default)`` returns."""
    return _core.read(_VAR_MAP, name, _UNSET, default, os)  # type: ignore[no-any-return]


def session_is_messaging_surface() -> bool:
    """Return whether people chat on the channel of this turn: an unknown surface counts as such a channel.

    Asks ``HERMES_PLATFORM``, else the session's platform, and the session's source.
    """
    platform = os.getenv("HERMES_PLATFORM") or get_session_env("HERMES_SESSION_PLATFORM", "")
    surfaces = (platform, get_session_env("HERMES_SESSION_SOURCE", ""))
    return _core.is_messaging(surfaces, lambda surface: surface in NON_MESSAGING_SESSION_SURFACES)


def declare_stateless_channel() -> None:
    """State that no completion can be delivered after this turn. Does not latch the process, unlike a bind."""
    _SESSION_ASYNC_DELIVERY.set(False)


def async_delivery_supported() -> bool:
    """Return whether a completion can be delivered after this turn.

    Not if the session stated so, and not in a board worker (``HERMES_KANBAN_TASK``); else yes.
    """
    return _core.async_delivery(os, _SESSION_ASYNC_DELIVERY, _UNSET)


adopt(globals())
