"""A kind of operation: how often it comes, what is drawn for it, and what it then does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis.strategies import SearchStrategy, integers

from ..actors import Actor
from ..scene import Deed, Scene
from ..shape import Shape

Maker = TypeVar("Maker", bound=Callable[..., Deed | None])

# Every step draws the same number of choices. Hypothesis deletes up to five of them at once, so a step that
# takes exactly as many can be taken out of a sequence without a change to any other.
_UNUSED = integers(0, 1)


@dataclass(frozen=True)
class Operation:
    """One kind. ``make`` makes a deed of what was drawn, or returns None if there is nothing to do it with."""

    kind: str
    weight: int
    drawn: tuple[SearchStrategy[Any], SearchStrategy[Any]]
    arguments: int
    make: Callable[..., Deed | None]
    needs: frozenset[str]

    def possible(self, shape: Shape) -> bool:
        """True if modules of *shape* have what the operation needs."""
        return shape.has(*self.needs)

    def plan(self, scene: Scene, actor: Actor, drawn: tuple[Any, Any]) -> Deed | None:
        """The deed for *actor*, or None."""
        return self.make(scene, actor, *drawn[: self.arguments])


class Catalogue:
    """Operations in the order in which they are written."""

    def __init__(self) -> None:
        """A catalogue without operations."""
        self.operations: list[Operation] = []

    def add(self, kind: str, *drawn: SearchStrategy[Any], weight: int = 2, needs: str = "") -> Callable[[Maker], Maker]:
        """Add the decorated function. It takes the scene, the acting actor and what was *drawn*, at most two things."""

        def register(make: Maker) -> Maker:
            names = frozenset(needs.split())
            first, second = (*drawn, _UNUSED, _UNUSED)[:2]
            self.operations.append(Operation(kind, weight, (first, second), len(drawn), make, names))
            return make

        return register
