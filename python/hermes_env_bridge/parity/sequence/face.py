"""What can be seen of a module without calling it: its names and the signatures of its functions."""

from __future__ import annotations

import inspect
from types import FunctionType, ModuleType
from typing import Any

from ..report import Check
from .shape import Shape

NAME = "names and signatures"
_Parameters = list[tuple[str, str, object]]


def missing_names(shape: Shape, subject: ModuleType) -> list[str]:
    """The names of the reference, entries of the map included, that *subject* lacks, told a line each."""
    lines = [f"{name} is missing" for name in shape.own_names if not hasattr(subject, name)]
    entries = getattr(subject, "_VAR_MAP", {})
    return lines + [f"_VAR_MAP[{name!r}] is missing" for name in shape.names if name not in entries]


def compare_face(shape: Shape, reference: ModuleType, subject: ModuleType) -> Check:
    """The names, and for each function its parameters with defaults, and that it is documented."""
    differences = missing_names(shape, subject)
    if list(getattr(subject, "_VAR_MAP", {})) != list(shape.names):
        differences.append("the map's names are others or in another order")
    exported = set(getattr(subject, "__all__", [name for name in vars(subject) if not name.startswith("_")]))
    public = [name for name in shape.functions if not name.startswith("_")]
    differences += [f"{name} is not exported to a star import" for name in public if name not in exported]
    present = [name for name in shape.functions if hasattr(subject, name)]
    for name in present:
        differences += _compare_function(name, reference, subject)
    plain = sum(isinstance(getattr(subject, name), FunctionType) for name in present)
    compared = len(shape.own_names) + len(shape.names) + 1 + len(public) + 2 * len(present)
    return Check(NAME, compared, tuple(differences), f"{plain} of {len(present)} functions are plain Python")


def _compare_function(name: str, reference: ModuleType, subject: ModuleType) -> list[str]:
    one, other = getattr(reference, name), getattr(subject, name)
    lines = []
    if one.__doc__ and not other.__doc__:
        lines.append(f"{name} has no documentation")
    ours, theirs = _parameters(one, reference), _parameters(other, subject)
    if ours != theirs:
        lines.append(f"{name} takes {theirs} instead of {ours}")
    return lines


def _parameters(function: Any, module: ModuleType) -> _Parameters:
    """Name, kind and default of each parameter; a module's own sentinel is told by a word."""
    unset = vars(module)["_UNSET"]
    return [
        (parameter.name, parameter.kind.description, "_UNSET" if parameter.default is unset else parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]
