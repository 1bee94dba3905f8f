"""What a parity run compared, and how that is told to a person and to a program."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Check:
    """One thing that was run with Hermes' own module and with the drop-in.

    ``compared`` counts the single comparisons made; ``differences`` says, a line each, where the two
    did not agree. ``note`` is for a reader: what the check did, or what is Hermes' own behaviour.
    """

    name: str
    compared: int
    differences: tuple[str, ...] = ()
    note: str = ""

    @property
    def ok(self) -> bool:
        """True if something was compared and nothing differed."""
        return self.compared > 0 and not self.differences


@dataclass(frozen=True)
class Section:
    """One part of a parity run: its checks, what it skipped and why, and how long it took."""

    title: str
    checks: tuple[Check, ...]
    seconds: float
    skipped: tuple[str, ...] = ()
    facts: dict[str, str | int | float] = field(default_factory=dict)

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
        return sum(len(check.differences) for check in self.checks)


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

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, for ``--json``."""
        return {
            "ok": self.ok,
            "subject": self.subject,
            "reference": self.reference,
            "environment": self.environment,
            "sections": [
                {
                    "title": section.title,
                    "ok": section.ok,
                    "compared": section.compared,
                    "differences": section.differences,
                    "seconds": round(section.seconds, 2),
                    "skipped": list(section.skipped),
                    "facts": section.facts,
                    "checks": [
                        {
                            "name": check.name,
                            "ok": check.ok,
                            "compared": check.compared,
                            "differences": list(check.differences),
                            "note": check.note,
                        }
                        for check in section.checks
                    ],
                }
                for section in self.sections
            ],
        }

    def write_json(self, path: Path) -> None:
        """Write :meth:`to_json` to *path*, which is created or replaced."""
        path.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")

    def to_text(self, *, differences_shown: int = 5) -> str:
        """The report for a person: a verdict, then each section with its checks as a table."""
        lines = [
            f"parity: {self.subject}",
            f"against {self.reference}",
            f"on      {self.environment}",
        ]
        for section in self.sections:
            verdict = "equal" if section.ok else "DIFFERENT"
            lines += ["", f"{section.title}: {verdict}  ({section.compared:,} compared, {section.seconds:.1f} s)"]
            lines += [f"  {name}: {value}" for name, value in section.facts.items()]
            width = max((len(check.name) for check in section.checks), default=0)
            for check in section.checks:
                count = len(check.differences)
                state = f"{count} DIFFER" if count else "equal" if check.compared else "NOTHING COMPARED"
                note = f"  {check.note}" if check.note else ""
                lines.append(f"  {check.name:<{width}}  {check.compared:>9,}  {state}{note}")
                lines += [f"      {difference}" for difference in check.differences[:differences_shown]]
                if count > differences_shown:
                    lines.append(f"      and {count - differences_shown} more (all of them with --json FILE)")
            lines += [f"  skipped: {reason}" for reason in section.skipped]
        compared = sum(section.compared for section in self.sections)
        differences = sum(section.differences for section in self.sections)
        verdict = "no difference" if self.ok else "NOT EQUAL"
        lines += ["", f"result: {verdict}; {compared:,} comparisons, {differences:,} differences"]
        return "\n".join(lines)
