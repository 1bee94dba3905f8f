"""Which layer answers a read in this task, what a child process gets, and why."""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hermes_env_bridge import _core

OWN = "hermes_env_bridge.session_context"


@dataclass(frozen=True)
class Explanation:
    """A read, explained.

    ``state`` is what the task holds: "unset", "cleared" or "set". ``layer`` is what answers: "task", "environment" or
    "default". ``child`` is what a child process gets by Hermes' rule: "set", "empty", "strip", "keep" or "absent".
    ``value`` is what a read returns, if values were asked for, else None; it does not show in ``repr``.
    """

    name: str
    state: str
    layer: str
    why: str
    child: str
    child_why: str
    value: Any = None

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain data; the value is there only if it was asked for and there is one."""
        told = {key: value for key, value in vars(self).items() if key != "value"}
        return told if self.value is None else told | {"value": str(self.value)}

    def __repr__(self) -> str:
        """The explanation without its value, which may be a secret."""
        return f"<Explanation of {self.name}: {self.state}, answered by {self.layer}, for a child {self.child}>"

    def __str__(self) -> str:
        """The explanation for a person, in a line."""
        value = "" if self.value is None else f"; value: {self.value}"
        return f"{self.name}: answered by {self.layer}: {self.why}; for a child: {self.child}: {self.child_why}{value}"


@dataclass(frozen=True)
class Snapshot:
    """Every variable of the session module in this task, explained."""

    module: str
    engaged: bool
    async_delivery: bool
    variables: tuple[Explanation, ...]

    def to_json(self) -> dict[str, Any]:
        """The snapshot as plain data."""
        return vars(self) | {"variables": [variable.to_json() for variable in self.variables]}

    def __str__(self) -> str:
        """The snapshot for a person: what holds for the session, then a line for each variable."""
        latch = "sessions were bound in this process" if self.engaged else "no session was ever bound in this process"
        delivery = "can" if self.async_delivery else "cannot"
        head = f"{self.module}: {latch}; a completion {delivery} be delivered later"
        return "\n".join([head, *(f"  {variable}" for variable in self.variables)])


def explain(name: str, *, values: bool = False) -> Explanation:
    """Explain what ``get_session_env(name)`` returns in this task, and what a child would get.

    The value is in the answer only with *values*. Any name can be asked for; one that is no session variable is read
    from the environment. Raises TypeError if *name* is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name to explain is a str, not {type(name).__name__}")
    return _explain(_module(), name, values)


def snapshot(*, values: bool = False) -> Snapshot:
    """Explain every variable of the session module, in its order; with their values only with *values*."""
    module = _module()
    delivery = getattr(module, "async_delivery_supported", None)
    return Snapshot(
        module=module.__name__,
        engaged=_engaged(module),
        async_delivery=delivery() if delivery else True,
        variables=tuple(_explain(module, name, values) for name in list(module._VAR_MAP)),
    )


def to_json_text(told: Explanation | Snapshot) -> str:
    """The JSON of an explanation or a snapshot, indented."""
    return json.dumps(told.to_json(), indent=2)


def _explain(module: ModuleType, name: str, values: bool) -> Explanation:
    variable = module._VAR_MAP.get(name)
    held = module._UNSET if variable is None else variable.get()
    # "" alone is cleared; None and 0 are values, as for a read.
    state = None if held is module._UNSET else not (isinstance(held, str) and held == "")
    layer, why, child, child_why = _core.explain(variable is not None, state, name in os.environ, _engaged(module))
    word = {None: "unset", False: "cleared", True: "set"}[state]
    return Explanation(name, word, layer, why, child, child_why, module.get_session_env(name, None) if values else None)


def _engaged(module: ModuleType) -> bool:
    """The latch; a module that is too old to have one strips nothing."""
    engaged = getattr(module, "session_context_engaged", None)
    return bool(engaged()) if engaged else False


def _module() -> ModuleType:
    """The session module in use: the installed one, or the package's own."""
    return sys.modules.get(OWN) or importlib.import_module(OWN)
