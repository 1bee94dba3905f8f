"""Which layer answers a read in this task, what a child process gets, and why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hermes_env_bridge import _core
from hermes_env_bridge._module import ABSENT, held, session_module, state_of, unset_of


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
        value = "" if self.value is None else f"; value: {self.value!r}"
        return f"{self.name}: answered by {self.layer}: {self.why}; for a child: {self.child}: {self.child_why}{value}"


@dataclass(frozen=True)
class SessionExplanation:
    """Every variable of the session module in this task, explained."""

    module: str
    engaged: bool
    async_delivery: bool
    variables: tuple[Explanation, ...]

    def to_json(self) -> dict[str, Any]:
        """The explanations as plain data."""
        return vars(self) | {"variables": [variable.to_json() for variable in self.variables]}

    def __str__(self) -> str:
        """The explanations for a person: what holds for the session, then a line for each variable."""
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
    return _explain(session_module(), name, values)


def explain_all(*, values: bool = False) -> SessionExplanation:
    """Explain every variable of the session module, in its order; with their values only with *values*."""
    module = session_module()
    delivery = getattr(module, "async_delivery_supported", None)
    return SessionExplanation(
        module=module.__name__,
        engaged=_engaged(module),
        async_delivery=delivery() if delivery else True,
        variables=tuple(_explain(module, name, values) for name in list(module._VAR_MAP) if isinstance(name, str)),
    )


def _explain(module: ModuleType, name: str, values: bool) -> Explanation:
    variable = module._VAR_MAP.get(name)
    value = ABSENT if variable is None else held(variable, unset_of(module))
    word = state_of(value)
    state = {"unset": None, "cleared": False, "set": True}[word]
    rule = (variable is not None, name in os.environ, _engaged(module))
    layer, why, child, child_why = _by_rule(state, *rule)
    if state and _is_empty_for_a_child(value):
        _, _, child, child_why = _by_rule(False, *rule)
    answer = (value if state is not None else os.environ.get(name)) if values else None
    return Explanation(name, word, layer, why, child, child_why, answer)


def _by_rule(state: bool | None, known: bool, in_environment: bool, engaged: bool) -> tuple[str, str, str, str]:
    return _core.explain(known, state, in_environment, engaged)


def _is_empty_for_a_child(value: object) -> bool:
    """Whether a child gets the empty text for a bound value: Hermes hands on None so, and what is empty as text."""
    try:
        return value is None or not str(value)
    except Exception:
        return False


def _engaged(module: ModuleType) -> bool:
    """The latch; a module that is too old to have one strips nothing."""
    engaged = getattr(module, "session_context_engaged", None)
    return bool(engaged()) if engaged else False
