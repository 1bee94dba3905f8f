"""The names that a session's skills hand on to its sandboxed children, under the policy ``"minimal"``.

The list belongs to the task: a name that is added is there for this task and what it starts from then on, never for a
sibling or for whoever started it. It does not end with a session: a task or a thread that goes on to serve another one
calls :func:`clear`. A credential is never on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextvars import ContextVar

from hermes_env_bridge import _core
from hermes_env_bridge._core import Credentials

_names: ContextVar[frozenset[str]] = ContextVar("hermes_env_bridge.passthrough", default=frozenset())


def allow(names: Iterable[str], *, credentials: Credentials | None = None) -> frozenset[str]:
    """Add *names* to this task's list, and return those that were refused because they are credentials.

    Which are is told by *credentials*, by default the installed Hermes' lists. Raises RuntimeError, with nothing added,
    if those cannot be read, and TypeError for one name in the place of several.
    """
    given = _core.names("names", names)
    if credentials is None:
        from hermes_env_bridge.credentials import hermes_credentials

        credentials = hermes_credentials("program")
    stripped = {name.strip() for name in given} - {""}
    refused = frozenset(name for name in stripped if credentials.is_credential(name))
    _names.set(_names.get() | (stripped - refused))
    return refused


def clear() -> None:
    """Empty this task's list."""
    _names.set(frozenset())


def names() -> frozenset[str]:
    """Return this task's list, with what the installed Hermes' own list has if that is in use."""
    hermes = sys.modules.get("tools.env_passthrough")
    return _names.get() | (frozenset() if hermes is None else frozenset(hermes.get_all_passthrough()))
