"""What a parity run compared, and how that is told to a person and to a program."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .table import LEGEND, WIDTH, Row, group_of, table

# Colours a verdict, which is good or not.
Paint = Callable[[str, bool], str]


def _plain(text: str, good: bool) -> str:
    return text


@dataclass(frozen=True)
class Check:
    """One thing that was run with Hermes' own module and with the drop-in.

    ``compared`` counts the single comparisons made; ``differences`` says, a line each, where the two
    did not agree. If it is ``a_sequence``, the lines are the steps to one difference. ``note`` is for a
    reader: what the check did, or what is Hermes' own behaviour.
    """

    name: str
    compared: int
    differences: tuple[str, ...] = ()
    note: str = ""
    a_sequence: bool = False

    @property
    def ok(self) -> bool:
        """True if something was compared and nothing differed."""
        return self.compared > 0 and not self.differences

    @property
    def count(self) -> int:
        """The number of differences."""
        return min(len(self.differences), 1) if self.a_sequence else len(self.differences)

    def to_json(self) -> dict[str, Any]:
        """The check as plain data."""
        return {
            "name": self.name,
            "ok": self.ok,
            "compared": self.compared,
            "differences": list(self.differences),
            "note": self.note,
        }

    def to_text(self, width: int, shown: int, paint: Paint) -> Iterator[str]:
        """The check for a person, its name padded to *width*, and at most *shown* differences; a sequence whole."""
        state = f"{self.count} DIFFER" if self.count else "equal" if self.compared else "NOTHING COMPARED"
        note = f"  {self.note}" if self.note else ""
        yield f"  {self.name:<{width}}  {self.compared:>9,}  {paint(state, self.ok)}{note}"
        lines = self.differences if self.a_sequence else self.differences[:shown]
        yield from (f"      {line}" for line in lines)
        if len(lines) < len(self.differences):
            yield f"      and {len(self.differences) - len(lines)} more (all of them with --json FILE)"


@dataclass(frozen=True)
class Section:
    """One part of a parity run: its checks, what it skipped and why, and how long it took.

    ``label`` is what a differential run is called in the table of all of them.
    """

    title: str
    checks: tuple[Check, ...]
    seconds: float
    skipped: tuple[str, ...] = ()
    facts: dict[str, str | int | float] = field(default_factory=dict)
    label: str = ""

    @property
    def ok(self) -> bool:
        """True if the section has checks and every one of them is ok."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def compared(self) -> int:
        """The number of comparisons made in all checks."""
        return sum(check.compared for check in self.checks)

    @property
    def differences(self) -> int:
        """The number of differences found in all checks."""
        return sum(check.count for check in self.checks)

    @property
    def row(self) -> Row:
        """The section in the table."""
        steps: Counter[str] = Counter()
        found: Counter[str] = Counter()
        for check in self.checks:
            if group := group_of(check.name):
                steps[group] += check.compared
                found[group] += check.count
        return Row(self.label, steps, found, self.differences)

    def to_json(self) -> dict[str, Any]:
        """The section as plain data."""
        return {
            "title": self.title,
            "ok": self.ok,
            "compared": self.compared,
            "differences": self.differences,
            "seconds": round(self.seconds, 2),
            "skipped": list(self.skipped),
            "facts": self.facts,
            "checks": [check.to_json() for check in self.checks],
        }

    def headline(self, paint: Paint) -> str:
        """The verdict in a line."""
        verdict = paint("equal" if self.ok else "DIFFERENT", self.ok)
        return f"{self.title}: {verdict}  ({self.compared:,} compared, {self.seconds:.1f} s)"

    def to_text(self, shown: int, paint: Paint) -> Iterator[str]:
        """The section for a person: the verdict, the facts, and the checks as a table."""
        yield self.headline(paint)
        yield from (f"  {name}: {value}" for name, value in self.facts.items())
        width = max((len(check.name) for check in self.checks), default=0)
        for check in self.checks:
            yield from check.to_text(width, shown, paint)
        yield from (f"  skipped: {reason}" for reason in self.skipped)


@dataclass(frozen=True)
class Report:
    """A whole parity run."""

    subject: str
    reference: str
    environment: str
    sections: tuple[Section, ...]

    @property
    def ok(self) -> bool:
        """True if there are sections and every one of them is ok."""
        return bool(self.sections) and all(section.ok for section in self.sections)

    @property
    def rows(self) -> list[Row]:
        """The table of the differential runs; empty if there are not several."""
        rows = [section.row for section in self.sections if section.label]
        return rows if len(rows) > 1 else []

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, for ``--json``."""
        return {
            "ok": self.ok,
            "subject": self.subject,
            "reference": self.reference,
            "environment": self.environment,
            "table": [row.to_json() for row in self.rows],
            "sections": [section.to_json() for section in self.sections],
        }

    def write_json(self, path: Path) -> None:
        """Write :meth:`to_json` to *path*, which is created or replaced."""
        path.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")

    def to_text(self, *, differences_shown: int = 5, paint: Paint = _plain) -> str:
        """The report for a person: what was compared, each section with its checks, and the verdict.

        With several differential runs there is the table of them, and those that are equal have a line each.
        """
        tabled = [section for section in self.sections if self.rows and section.label and section.ok]
        whole = [section for section in self.sections if section not in tabled]
        blocks: list[list[str]] = [
            self._head(),
            [section.headline(paint) for section in tabled],
            *(list(section.to_text(differences_shown, paint)) for section in whole),
            [*table(self.rows), LEGEND] if self.rows else [],
            [self._verdict(paint)],
        ]
        return "\n\n".join("\n".join(block) for block in blocks if block)

    def _head(self) -> list[str]:
        against = textwrap.wrap(f"against {self.reference}", WIDTH, subsequent_indent=" " * len("against "))
        return [f"parity: {self.subject}", *against, f"on      {self.environment}"]

    def _verdict(self, paint: Paint) -> str:
        compared = sum(section.compared for section in self.sections)
        differences = sum(section.differences for section in self.sections)
        verdict = paint("no difference" if self.ok else "NOT EQUAL", self.ok)
        return f"result: {verdict}; {compared:,} comparisons, {differences:,} differences"
