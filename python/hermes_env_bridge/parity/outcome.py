"""What became of a scenario with each of the two session modules, and whether that is the same."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias

from .modules import DROP_IN, MODULES, ORIGINAL
from .report import Check

# What a scenario saw: each label names what was asked and in which state, each value is plain JSON data.
Observations: TypeAlias = dict[str, Any]


class NotDrivenError(Exception):
    """Raised by a scenario that cannot run in this installation; the message is the reason."""


class WorkerError(RuntimeError):
    """A scenario, or the process that it ran in, failed; the message says how."""


# What a scenario saw, or why it saw nothing.
Outcome: TypeAlias = Observations | NotDrivenError | WorkerError


class Pair(NamedTuple):
    """The outcomes of one scenario."""

    original: Outcome
    drop_in: Outcome

    def failures(self) -> tuple[str, ...]:
        """Say, a line for each module, why there are no observations with it; empty if there are both."""
        both = zip(MODULES, self, strict=True)
        return tuple(f"{module}: {outcome}" for module, outcome in both if isinstance(outcome, Exception))


def compare(title: str, pair: Pair) -> Check | str:
    """Return the check of *pair* or, if the scenario was not driven for one reason with both modules, that reason."""
    match pair:
        case Pair(dict() as original, dict() as drop_in):
            return compare_observations(title, original, drop_in)
        case Pair(NotDrivenError() as reason, NotDrivenError() as other) if str(reason) == str(other):
            return f"{title}: {reason}"
    return Check(title, 0, pair.failures())


def compare_observations(title: str, original: Observations, drop_in: Observations, *, note: str = "") -> Check:
    """Return the check of two sets of observations: every label is one comparison.

    A scenario that saw the same under every label with Hermes' own module shows nothing, which is a difference.
    """
    # As JSON text, because to Python True is 1 and 1 is 1.0.
    own, ours = ({label: json.dumps(seen[label], sort_keys=True) for label in seen} for seen in (original, drop_in))
    labels = list(dict.fromkeys([*own, *ours]))
    differences = [
        f"{label}: {_excerpt(own.get(label, 'nothing observed'), ours.get(label, 'nothing observed'))}"
        for label in labels
        if own.get(label) != ours.get(label)
    ]
    if len(own) > 1 and len(set(own.values())) == 1:
        differences.append(f"nothing shown: all {len(own)} answers of Hermes' own are the same")
    return Check(title, len(labels), tuple(differences), note)


def _excerpt(original: str, drop_in: str, width: int = 70) -> str:
    """Show two texts from shortly before the place where they part."""
    pairs = enumerate(zip(original, drop_in, strict=False))
    parting = next((at for at, (own, ours) in pairs if own != ours), min(len(original), len(drop_in)))
    start = max(0, parting - width // 2)
    shown = [("..." if start else "") + text[start : start + width] for text in (original, drop_in)]
    return f"{ORIGINAL} {shown[0]}, {DROP_IN} {shown[1]}"
