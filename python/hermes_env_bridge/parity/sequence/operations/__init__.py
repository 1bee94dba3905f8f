"""Every kind of operation that a differential run can do on both sides."""

from __future__ import annotations

from . import flows, surroundings, variables, verbs
from .operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *verbs.CATALOGUE.operations,
    *variables.CATALOGUE.operations,
    *surroundings.CATALOGUE.operations,
    *flows.CATALOGUE.operations,
)

__all__ = ["OPERATIONS", "Operation"]
