"""``hermes-env-bridge parity``: runs the parts, prints the report."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from hermes_env_bridge import __version__

from . import concurrency, suites, tools
from .report import Report, Section
from .target import Target, installed_target, installed_version, targets_of

PARTS = ("differential", "tools", "concurrency", "suites")

DESCRIPTION = """\
Runs real Hermes on the drop-in and compares it with Hermes' own, unmodified module, in four parts:

  differential  random sequences of every operation, both modules side by side, compared after each step
  tools         Hermes' own tools, each driven with both modules
  concurrency   concurrent sessions whose real child processes report the identity that they see
  suites        the tests that ship in Hermes' source distribution, with both modules

exit status: 0 if nothing differs, 1 if something does, 2 if the comparison could not be made
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``parity`` to *parser*."""
    parser.add_argument(
        "--oracle",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="compare with this session_context.py as well; with --only differential, instead (may be repeated)",
    )
    parser.add_argument(
        "--only", action="append", choices=PARTS, default=[], metavar="PART", help="run this part (may be repeated)"
    )
    parser.add_argument(
        "--steps", type=int, default=100_000, help="steps of each differential run (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the differential runs (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the whole report to FILE")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(".cache/parity"),
        metavar="FOLDER",
        help="where Hermes' source distribution is kept (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Make the comparison that *arguments* ask for, print the report, and return the exit status."""
    parts = arguments.only or list(PARTS)
    version = installed_version()
    targets = _targets(parts, arguments.oracle)
    sections: list[Section] = []
    # A differential run has a process of its own: an install is for a whole process.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        running = [pool.submit(compare, target, arguments.steps, arguments.seed) for target in targets]
        if "tools" in parts:
            sections.append(_told(tools.run()))
        if "concurrency" in parts:
            sections.append(_told(concurrency.run()))
        if "suites" in parts:
            sections.append(_told(suites.run(version=version, cache=arguments.cache)))
        sections = [*(_told(future.result()) for future in running), *sections]
    report = Report(
        subject=f"hermes_env_bridge {__version__}",
        reference=f"hermes-agent {version}" + "".join(f", {path.name}" for path in arguments.oracle),
        environment=f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}, "
        f"{os.cpu_count()} CPUs",
        sections=tuple(sections),
    )
    print(report.to_text())
    if arguments.json:
        report.write_json(arguments.json)
    return 0 if report.ok else 1


def compare(target: Target, steps: int, seed: int) -> Section:
    """One differential run, in a process that has not imported a session module yet."""
    from . import differential  # needs hypothesis, which the other parts do not

    reference, subject = target.load()
    return differential.run(reference, subject, steps=steps, seed=seed, title=f"differential: {target.title}")


def _targets(parts: list[str], oracles: list[Path]) -> list[Target]:
    if "differential" not in parts:
        return []
    given = [target for oracle in oracles for target in targets_of(oracle)]
    return given if oracles and parts == ["differential"] else [installed_target(), *given]


def _told(section: Section) -> Section:
    """Tells on stderr that a part is done, for who is waiting."""
    state = "equal" if section.ok else "DIFFERENT"
    print(
        f"{section.title}: {state}, {section.compared:,} compared, {section.seconds:.0f} s", file=sys.stderr, flush=True
    )
    return section
