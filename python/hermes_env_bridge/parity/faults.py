"""Faults to plant in the drop-in, each of which a comparison has to show."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any


def _truthy_read(module: Any) -> None:
    def get_session_env(name: str, default: str = "") -> Any:
        variable = module._VAR_MAP.get(name)
        value = variable.get() if variable is not None else None
        return value if value and value is not module._UNSET else os.getenv(name, default)

    module.get_session_env = get_session_env


def _clear_unsets(module: Any) -> None:
    module.clear_session_vars = lambda tokens: module.reset_session_vars()


def _latch_stuck(module: Any) -> None:
    module.session_context_engaged = lambda: False


def _process_wide(module: Any) -> None:
    bind = module.set_session_vars
    shared = {name: _SharedVariable(module._UNSET) for name in module._VAR_MAP}

    def set_session_vars(**keywords: Any) -> Any:
        for name, variable in shared.items():
            keyword = name.removeprefix("HERMES_").removeprefix("SESSION_").lower()
            variable.set(keywords.get(f"session_{keyword}", keywords.get(keyword, "")))
        return bind(**keywords)

    module._VAR_MAP.update(shared)
    module.set_session_vars = set_session_vars


class _SharedVariable:
    """A variable with one value for all contexts; its token is the value before."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self) -> Any:
        return self._value

    def set(self, value: Any) -> Any:
        old, self._value = self._value, value
        return old

    def reset(self, old: Any) -> None:
        self._value = old


def _cwd_dropped(module: Any) -> None:
    bind = module.set_session_vars
    module.set_session_vars = lambda **keywords: bind(**keywords | {"cwd": ""})


# Each breaks the session module that it is given in one way.
FAULTS: Mapping[str, Callable[[Any], None]] = {
    # A read takes a value that is set but empty for one that is not set.
    "truthy-read": _truthy_read,
    # A cleared session reads the process environment, as if nothing had ever been bound.
    "clear-unsets": _clear_unsets,
    # The process never learns that it has sessions, so that children inherit its environment.
    "latch-stuck": _latch_stuck,
    # All contexts share one identity, the one that was bound last.
    "process-wide": _process_wide,
    # The working directory of a session is not passed on to the agent.
    "cwd-dropped": _cwd_dropped,
}
