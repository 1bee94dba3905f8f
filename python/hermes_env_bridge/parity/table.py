"""The table of a report: a row for each differential run, a column for each group of operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# The groups of operations, and how the names of their kinds begin.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "bind": ("set_session_vars",),
    "clear": ("clear_session_vars", "reset_session_vars"),
    "read": ("get_session_env",),
    "others": (
        "set_current_session_id",
        "scoped_current_session_id",
        "declare_stateless_channel",
        "async_delivery_supported",
        "session_is_messaging_surface",
        "source_route_metadata",
    ),
    "vars": ("variable",),
    "tokens": ("token", "reset without a token"),
    "module": ("latch", "global", "map"),
    "environ": ("os.", "agent package", "child environment"),
    "tasks": ("actor", "generator"),
}

WIDTH = 120
LEGEND = (
    "steps made: `=` without a difference, `!N` with N, `-` none (the version has no such operation, or stopped before)"
)


def group_of(kind: str) -> str | None:
    """The group that a kind of operation belongs to; None for what is no operation."""
    return next((group for group, beginnings in GROUPS.items() if kind.startswith(beginnings)), None)


@dataclass(frozen=True)
class Row:
    """One run: the steps of each group, and the differences that they showed.

    ``differences`` counts all of the run, also those of no group, as in the signatures.
    """

    label: str
    steps: Counter[str]
    found: Counter[str]
    differences: int

    def to_json(self) -> dict[str, Any]:
        """The row as plain data; a group that has no steps is not in it."""
        groups = {
            group: {"steps": self.steps[group], "differences": self.found[group]}
            for group in GROUPS
            if self.steps[group]
        }
        return {
            "version": self.label,
            "groups": groups,
            "steps": self.steps.total(),
            "differences": self.differences,
        }

    def cells(self) -> list[str]:
        """The row as it is printed, but for its label."""
        groups = [self._cell(group) for group in GROUPS]
        return [*groups, f"{self.steps.total():,}", f"{self.differences:,}"]

    def _cell(self, group: str) -> str:
        steps, found = self.steps[group], self.found[group]
        return f"{steps:,}!{found}" if found else f"{steps:,}=" if steps else "-"


def table(rows: Iterable[Row], width: int = WIDTH) -> list[str]:
    """The lines of the table of *rows*, totals last; labels are shortened if it would not fit *width*."""
    rows = list(rows)
    lines = [[*GROUPS, "steps", "differ"], *(row.cells() for row in [*rows, _total(rows)])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    labels = ["version", *(row.label for row in rows), "all"]
    longest = max(map(len, labels))
    room = width - sum(widths)
    gap = 2 if longest <= room - 2 * len(widths) else 1
    first = min(longest, max(room - gap * len(widths), len("version")))
    return [
        (" " * gap).join([_shortened(label, first).ljust(first), *map(str.rjust, cells, widths)])
        for label, cells in zip(labels, lines, strict=True)
    ]


def _total(rows: list[Row]) -> Row:
    steps: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for row in rows:
        steps += row.steps
        found += row.found
    return Row("all", steps, found, sum(row.differences for row in rows))


def _shortened(label: str, room: int) -> str:
    """*label*, without its beginning if it is too long: of a path, the end tells more."""
    return label if len(label) <= room else f"...{label[3 - room :]}"
