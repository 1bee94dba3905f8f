"""The class of a session module: writes to its latch reach the native side."""

from __future__ import annotations

import sys
from contextvars import Context, ContextVar
from types import ModuleType
from typing import Any

from hermes_env_bridge import _core

LATCH = "_session_context_engaged"


class SessionModule(ModuleType):
    """A module whose ``_session_context_engaged`` is the process' latch.

    The truth for Python is the entry in the module's namespace. A write to the attribute (``monkeypatch.setattr``
    included) is told to Rust at once, a ``global`` statement's at the next call that asks.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Set the attribute; tell the native side if it is the latch."""
        super().__setattr__(name, value)
        if name == LATCH:
            _core.set_engaged(_truth(value))


def _truth(value: object) -> bool:
    """What cannot be judged counts as engaged: that way nothing foreign is inherited."""
    try:
        return bool(value)
    except Exception:
        return True


def held(variable: Any, unset: object, absent: object) -> Any:
    """What this context holds for *variable*, or *absent* if it was never bound here.

    Never bound is: no value, the sentinel *unset*, or what a context variable holds in an empty context, which is the
    sentinel whatever the module calls it. Raises what a fork's own kind of variable raises.
    """
    value = variable.get(absent) if isinstance(variable, ContextVar) else variable.get()
    if value is unset or value is absent:
        return absent
    return absent if isinstance(variable, ContextVar) and value is _own_default(variable, absent) else value


def _own_default(variable: Any, absent: object) -> Any:
    try:
        return Context().run(variable.get)
    except LookupError:
        return absent


_adopted: dict[str, ModuleType] = {}


def adopt(namespace: dict[str, Any]) -> None:
    """Make the module with this namespace a :class:`SessionModule`, and its latch the process' own.

    A module that is imported again after it was deleted from ``sys.modules`` gives way to the first one, so that there
    is one latch. Does nothing for code that runs in a namespace which no imported module has: its state is its own.
    """
    name = namespace["__name__"]
    module = sys.modules.get(name)
    if module is None or module.__dict__ is not namespace:
        return
    first = _adopted.setdefault(name, module)
    if first is not module:
        sys.modules[name] = first
        return
    module.__class__ = SessionModule
    _core.set_live(namespace)
