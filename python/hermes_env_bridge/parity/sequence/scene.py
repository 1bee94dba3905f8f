"""One sequence of operations: two worlds, the actors in them, and the comparison after each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType

from .actors import Actor
from .comparison import Comparison, Raised, outcome, show
from .process import Process
from .shape import Shape
from .stage import DIRECTLY, Stage
from .world import UNKNOWN_NAMES, World

BEFORE = "before any step"
_DIGEST_EVERY = 8
_ENVIRONMENT_NAMES = (*UNKNOWN_NAMES, "HERMES_PLATFORM", "HERMES_KANBAN_TASK", "HERMES_SESSION_ID")


class DifferenceError(AssertionError):
    """The two sides did not agree. ``lines`` are the steps that led there and what was seen."""

    def __init__(self, kind: str, lines: list[str]) -> None:
        """A difference that a step of that kind showed."""
        super().__init__("\n".join(lines))
        self.kind = kind
        self.lines = lines


@dataclass(frozen=True)
class Deed:
    """What is done on each side, and how it is told.

    ``loose`` compares an exception by its type only; ``actor`` is who does it, if not the one drawn.
    """

    text: Callable[[], str]
    act: Callable[[World], object]
    loose: bool = False
    actor: Actor | None = None


class Scene:
    """Both sides, used for one sequence after the other between :meth:`begin` and :meth:`end`."""

    def __init__(self, reference: ModuleType, subject: ModuleType) -> None:
        """A scene for these two modules, which have the shape of the first."""
        self.shape = Shape(reference)
        self._process = Process({*_ENVIRONMENT_NAMES, *self.shape.names})
        self.reference = World("reference", reference, self.shape, self._process)
        self.subject = World("subject", subject, self.shape, self._process)
        self.worlds = (self.reference, self.subject)
        self.comparison = Comparison(self.reference.names, self.subject.names)
        self.stage = Stage()
        # Of the whole run, up to the first difference: what comes after that only shortens it.
        self.first: DifferenceError | None = None
        self.values = 0
        self.sequences = 0
        self.steps: Counter[str] = Counter()
        self.routes: Counter[str] = Counter()

    def begin(self) -> None:
        """Start a sequence: empty contexts, modules and environments as at the start."""
        self.comparison.begin()
        for world in self.worlds:
            world.begin()
        self.stage.begin()
        self.patched: list[str] = []
        self.serial = 0
        self._story: list[Callable[[], str]] = []
        self._kind = BEFORE

    def end(self) -> None:
        """End a sequence: every actor finishes, and both modules are as they were."""
        self.stage.end()
        for world in self.worlds:
            world.restore()
            world.forget()

    def close(self) -> None:
        """Leave the process as it was before."""
        try:
            self.end()
            self.stage.close()
        finally:
            self._process.close()

    def fresh(self, hint: str = "") -> str:
        """A text that is used nowhere else in this sequence, and that neither side may copy."""
        self.serial += 1
        text = f"s{self.serial}{hint}"
        self.comparison.share(text)
        return text

    def perform(self, kind: str, deed: Deed, actor: Actor, wish: str) -> None:
        """Do *deed* on both sides and compare. Raises :class:`DifferenceError`."""
        actor = deed.actor or actor
        route = DIRECTLY if deed.actor else self.stage.route(actor, wish)
        place = actor.name if route == DIRECTLY else f"{actor.name}, {route}"
        self._story.append(lambda: f"{place}: {deed.text()}")
        self._kind = kind
        if self.first is None:
            self.sequences += len(self._story) == 1
            self.steps[kind] += 1
            self.routes[route] += 1
        self.stage.perform(actor, route, lambda: self._both(deed))
        if route != DIRECTLY:
            self._digest(actor)
        if len(self._story) % _DIGEST_EVERY == 0:
            self.look_around()

    def look_around(self) -> None:
        """Compare the variables in every actor's context. Raises :class:`DifferenceError`."""
        for actor in self.stage.actors:
            self._digest(actor)

    def _both(self, deed: Deed) -> None:
        results: list[object] = []
        seen: list[list[object]] = []
        for world in self.worlds:
            world.enter()
            try:
                results.append(outcome(partial(deed.act, world)))
                seen.append(world.observe())
            finally:
                world.leave()
        self._compare_results(deed, results)
        self._compare_seen(self.reference.probes, seen, "")

    def _digest(self, actor: Actor) -> None:
        seen = actor.run(lambda: [world.digest() for world in self.worlds])
        self._compare_seen(self.shape.variables, seen, f" in {actor.name}")

    def _compare_results(self, deed: Deed, results: list[object]) -> None:
        one, other = results
        if deed.loose and isinstance(one, Raised) and isinstance(other, Raised):
            same = type(one.error) is type(other.error)
        else:
            same = self.comparison.same(one, other)
        if not same:
            raise self._different("the result", one, other)

    def _compare_seen(self, labels: tuple[str, ...], seen: list[list[object]], where: str) -> None:
        if self.first is None:
            self.values += len(labels)
        index = self.comparison.first_difference(*seen)
        if index >= 0:
            raise self._different(f"afterwards{where}, {labels[index]}", seen[0][index], seen[1][index])

    def _different(self, what: str, one: object, other: object) -> DifferenceError:
        lines = [f"{number}. {tell()}" for number, tell in enumerate(self._story, 1)]
        lines.append(f"=> {what}")
        for world, value in zip(self.worlds, (one, other), strict=True):
            lines.append(f"   {world.title}: {show(world.names, value)}")
        different = DifferenceError(self._kind, lines)
        self.first = self.first or different
        return different
