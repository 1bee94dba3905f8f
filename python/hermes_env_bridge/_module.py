"""The session module in use, and its class: writes to its latch reach the native side."""

from __future__ import annotations

import importlib
import sys
from contextvars import Context, ContextVar
from types import ModuleType
from typing import Any, Literal

from hermes_env_bridge import _core
from hermes_env_bridge._find import OWN

LATCH = "_session_context_engaged"

# What a variable holds that was never bound here.
ABSENT: Any = object()

State = Literal["unset", "cleared", "set"]


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


def session_module() -> ModuleType:
    """The session module in use: the installed one, or the package's own."""
    return sys.modules.get(OWN) or importlib.import_module(OWN)


def engage(module: ModuleType) -> None:
    """A session is bound in this process, as *module* says it where it has a latch."""
    if hasattr(module, LATCH):
        setattr(module, LATCH, True)
    else:
        _core.set_engaged(True)


def unset_of(module: ModuleType | None) -> Any:
    """The sentinel of *module*, if it has one."""
    return getattr(module, "_UNSET", ABSENT)


def held(variable: Any, unset: object) -> Any:
    """What this context holds for *variable*, or ``ABSENT`` if it was never bound here.

    Never bound is: no value, the sentinel *unset*, or what a context variable holds in an empty context, which is the
    sentinel whatever the module calls it. Raises what a fork's own kind of variable raises.
    """
    value = variable.get(ABSENT) if isinstance(variable, ContextVar) else variable.get()
    if value is unset or value is ABSENT:
        return ABSENT
    return ABSENT if value is never_bound(variable, ABSENT) else value


def never_bound(variable: Any, unset: Any) -> Any:
    """What *variable* holds where it was never bound: its own default, or *unset* for what has none."""
    if not isinstance(variable, ContextVar):
        return unset
    try:
        return Context().run(variable.get)
    except LookupError:
        return unset


def state_of(value: object) -> State:
    """The state of a variable that holds *value*: ``""`` alone is cleared; None and 0 are values, as for a read."""
    if value is ABSENT:
        return "unset"
    return "cleared" if isinstance(value, str) and not len(value) else "set"


_adopted: dict[str, ModuleType] = {}

# The drop-in was taken away again, and the sessions of whatever came in its place are not known here.
uninstalled = False


def adopt(namespace: dict[str, Any]) -> None:
    """Make the module with this namespace a :class:`SessionModule`, and its latch the process' own.

    A module that is imported again after it was deleted from ``sys.modules`` gives way to the first one, so that there
    is one latch. Does nothing for code that runs in a namespace which no imported module has: its state is its own.
    """
    name = namespace["__name__"]
    module = sys.modules.get(name)
    if module is None or module.__dict__ is not namespace:
        return
    if uninstalled and name == OWN:
        import logging

        logging.getLogger("hermes_env_bridge").warning(
            "the drop-in was uninstalled, so the package's own module is in use, in which no session is bound; "
            "call install() again for children to have theirs"
        )
    first = _adopted.setdefault(name, module)
    if first is not module:
        sys.modules[name] = first
        _core.set_live(first.__dict__)
        return
    module.__class__ = SessionModule
    _core.set_live(namespace)
