"""Random sequences of everything that can be done with the module, compared step by step with the original.

Hypothesis makes the sequences and shortens the first one on which the two sides do not agree.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from types import ModuleType
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from .report import Check, Section
from .sequence.comparison import Stop
from .sequence.face import compare_face, missing_names
from .sequence.operations import OPERATIONS, Operation
from .sequence.scene import DifferenceError, Scene
from .sequence.shape import Shape
from .sequence.stage import DIRECTLY, LIMIT, ROUTES

TITLE = "differential"
MACHINERY = "the machinery itself"
COVERAGE = "every kind of step was made"

_BATCHES = 4
# From the eleventh on, Hypothesis fills up with variations of what it had, which find little that is new here.
_SEQUENCES_AT_ONCE = 10

Drawn = tuple[Operation, tuple[int, str], tuple[Any, Any]]
# Is called now and then with the number of steps that were made since the last time.
Tell = Callable[[int], object]
# Most steps are made directly, and by the first actor more than by others; the simplest comes first.
_PLACES = st.sampled_from(
    [(0, DIRECTLY)] * 30
    + [(index, DIRECTLY) for index in range(1, LIMIT)] * 14
    + [(index, route) for route in ROUTES[1:] for index in range(0, LIMIT, 2)]
)


# Whether there is another step. The simplest answer has to be no, and it has to be drawn after every step, or
# Hypothesis could not take single steps out.
_GO_ON = st.integers(0, 14)


@st.composite
def _step(draw: st.DrawFn, operations: st.SearchStrategy[Operation]) -> Drawn:
    operation = draw(operations)
    first, second = operation.drawn
    return operation, draw(_PLACES), (draw(first), draw(second))


@st.composite
def _batch(draw: st.DrawFn, step: st.SearchStrategy[Drawn]) -> list[Drawn]:
    """Some steps, drawn at once: a rule for each would cost as much as the step itself."""
    steps: list[Drawn] = []
    while draw(_GO_ON):
        steps.append(draw(step))
    return steps


class _Sequence(RuleBasedStateMachine):
    """One sequence of steps in a scene. It has no rules yet: see :func:`_machine`."""

    scene: ClassVar[Scene]

    def __init__(self) -> None:
        super().__init__()
        self.scene.begin()

    def make_steps(self, batch: list[Drawn]) -> None:
        """Each operation on both sides. Raises :class:`DifferenceError`."""
        for drawn in batch:
            self._make_step(*drawn)

    def _make_step(self, operation: Operation, place: tuple[int, str], values: tuple[Any, Any]) -> None:
        index, route = place
        actor = self.scene.stage.pick(index, route)
        deed = operation.plan(self.scene, actor, values)
        if deed is not None:
            self.scene.perform(operation.kind, deed, actor, route)

    def teardown(self) -> None:
        """Look at every actor once more, unless the sequence was stopped, and clean up."""
        try:
            if sys.exc_info()[1] is None:
                self.scene.look_around()
        finally:
            self.scene.end()


def _machine(scene: Scene, operations: list[Operation]) -> type[RuleBasedStateMachine]:
    """A state machine for *scene* whose steps are these operations, each as often as its weight says."""
    weighted = st.sampled_from([each for each in operations for _ in range(each.weight)])
    steps = rule(batch=_batch(_step(weighted)))(_Sequence.make_steps)
    return type("Sequence", (_Sequence,), {"scene": scene, "steps": steps})


def _theme(operations: list[Operation], number: int) -> list[Operation]:
    """All the operations for every fourth number, else a random half, so that each gets the room it needs."""
    if number % 4 == 0:
        return operations
    random = Random(number)
    return [each for index, each in enumerate(operations) if index == 0 or random.random() < 0.5]


class _Run:
    """A whole run: sequences until enough steps were made or one of them failed."""

    def __init__(self, scene: Scene, steps: int, first_seed: int, tell: Tell) -> None:
        self.scene = scene
        self._tell = tell
        self.differences: dict[str, tuple[str, ...]] = {}
        self._steps = steps
        self._seed = first_seed
        self._round = 0
        self.operations = [operation for operation in OPERATIONS if operation.possible(scene.shape)]

    def go(self) -> None:
        """Run until enough, or until the first difference; what is rare gets some more time to happen."""
        while not self.differences and self.made < self._steps:
            self._sequences()
        patience = 10
        while not self.differences and self.never() and patience:
            self._sequences()
            patience -= 1

    @property
    def made(self) -> int:
        """The number of steps made, up to the first difference."""
        return self.scene.steps.total()

    def never(self) -> list[str]:
        """The kinds of operation, and the ways of doing one, that never came, told a line each."""
        kinds = [each.kind for each in self.operations if not self.scene.steps[each.kind]]
        routes = [route for route in ROUTES if not self.scene.routes[route]]
        return [f"never executed: {name}" for name in kinds + routes]

    def _sequences(self) -> None:
        machine = _machine(self.scene, _theme(self.operations, self._round))
        options = settings(
            max_examples=_SEQUENCES_AT_ONCE,
            stateful_step_count=_BATCHES,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            report_multiple_bugs=False,
            print_blob=False,
            derandomize=False,
        )
        self._round += 1
        before = self.made
        try:
            run_state_machine_as_test(seed(self._seed * 1_000_003 + self._round)(machine), settings=options)
        except DifferenceError as different:
            self.differences[different.kind] = tuple(different.lines)
        except (Exception, Stop) as error:
            first = self.scene.first
            self.differences[MACHINERY] = (f"{type(error).__name__}: {error}", *(first.lines if first else ()))
        self._tell(self.made - before)


def run(
    reference: ModuleType,
    subject: ModuleType,
    *,
    steps: int = 100_000,
    seed: int = 0,
    title: str = TITLE,
    tell: Tell = int,
) -> Section:
    """Compare *subject* with *reference* over at least *steps* operations, the same ones for the same *seed*.

    (The same code, too: Hypothesis also tries the constants that it finds in what is imported.) Both modules, and
    the process, are left as they were. A difference ends the run: the check of the operation that showed it has
    the shortest sequence found, a step a line. *tell* is called now and then with the number of steps made since.
    """
    start = time.perf_counter()
    shape = Shape(reference)
    face = compare_face(shape, reference, subject)
    if missing_names(shape, subject):
        return Section(title, (face,), time.perf_counter() - start, ("random sequences: names are missing",))
    scene = Scene(reference, subject)
    whole = _Run(scene, steps, seed, tell)
    try:
        whole.go()
    finally:
        scene.close()
    facts: dict[str, str | int | float] = {
        "steps": whole.made,
        "seed": seed,
        "sequences": scene.sequences,
        "values compared": scene.values,
        "ways": _told(scene.routes),
    }
    return Section(title, (face, *_checks(whole)), time.perf_counter() - start, facts=facts)


def _told(routes: Counter[str]) -> str:
    return ", ".join(f"{count:,} {route}" for route, count in routes.most_common())


def _checks(whole: _Run) -> list[Check]:
    counts = whole.scene.steps
    checks = [
        # The shortest sequence may end with a kind that had not come before the first difference.
        Check(each.kind, counts[each.kind] or 1, whole.differences.get(each.kind, ()), a_sequence=True)
        for each in whole.operations
        if counts[each.kind] or each.kind in whole.differences
    ]
    # After a difference the run was over too early to say that something never came.
    never = () if whole.differences else tuple(whole.never())
    checks.append(Check(COVERAGE, len(whole.operations) + len(ROUTES), never))
    known = {each.kind for each in whole.operations}
    others = {kind: lines for kind, lines in whole.differences.items() if kind not in known}
    checks += [Check(kind, 1, lines, a_sequence=True) for kind, lines in others.items()]
    return checks
