"""``hermes-env-bridge parity``: runs the parts, prints the report."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from multiprocessing import get_context
from pathlib import Path

from hermes_env_bridge import __version__
from hermes_env_bridge._find import InstallError

from . import concurrency, contest, suites, tools
from .progress import Progress, paint_for
from .release import Release, ReleaseError, released_versions
from .report import Report, Section
from .target import Target, TargetError, installed_target, installed_version, target_of_release, targets_of_files

PARTS = ("differential", "tools", "concurrency", "suites")
EVERY = "all"

DESCRIPTION = """\
Runs real Hermes on the drop-in and compares it with Hermes' own, unmodified module, in four parts:

  differential  random sequences of every operation, both modules side by side, compared after each step
  tools         Hermes' own tools, each driven with both modules
  concurrency   concurrent sessions whose real child processes report the identity that they see
  suites        the tests that ship in Hermes' source distribution, with both modules

examples:
  hermes-env-bridge parity                                       the installed Hermes, all parts
  hermes-env-bridge parity --hermes 0.17.0 --hermes 0.18.2       the session modules of two releases
  hermes-env-bridge parity --hermes all --steps 50000            of every release
  hermes-env-bridge parity --only differential --oracle FILE     of a fork

exit status: 0 if nothing differs, 1 if something does, 2 if the comparison could not be made
"""


class UsageError(RuntimeError):
    """The arguments ask for what cannot be done."""


_IMPOSSIBLE = (UsageError, ReleaseError, TargetError, InstallError, PackageNotFoundError, OSError)


@dataclass(frozen=True)
class Plan:
    """What a run consists of: the parts, the targets of the differential one, and the Hermes it takes.

    ``installed`` is the version of the installed Hermes, or empty if nothing needs one.
    """

    parts: list[str]
    targets: list[Target]
    installed: str

    @property
    def reference(self) -> str:
        """What is compared with."""
        installed = [f"{self.installed} (installed)"] if self.installed else []
        labels = [target.label for target in self.targets if target.subject == "adapted"]
        return f"hermes-agent {', '.join(installed + labels)}"


def positive(text: str) -> int:
    """The number that *text* is, for argparse; raises ValueError if it is none, or is not above zero."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``parity`` to *parser*."""
    parser.add_argument(
        "--hermes",
        action="append",
        default=[],
        metavar="VERSION",
        help=f"compare the session module of this release, fetched by pip, or of {EVERY} releases; without --only, "
        "nothing else but what --oracle names (may be repeated)",
    )
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
        "--steps", type=positive, default=100_000, help="steps of each differential run (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the differential runs (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the whole report to FILE")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(".cache/parity"),
        metavar="FOLDER",
        help="where what is fetched of Hermes' releases is kept (default: %(default)s)",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of what made it impossible")


def run(arguments: argparse.Namespace) -> int:
    """Make the comparison that *arguments* ask for, print the report, and return the exit status."""
    try:
        plan = _plan(arguments)
    except _IMPOSSIBLE as error:
        return _refuse(error, arguments.debug)
    report = Report(
        subject=f"hermes_env_bridge {__version__}",
        reference=plan.reference,
        environment=f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}, "
        f"{os.cpu_count()} CPUs",
        sections=tuple(_sections(plan, arguments)),
    )
    print(report.to_text(paint=paint_for(sys.stdout)))
    if arguments.json:
        try:
            report.write_json(arguments.json)
        except OSError as error:
            return _refuse(error, arguments.debug)
    return 0 if report.ok else 1


def _refuse(error: Exception, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    else:
        print("hermes-env-bridge parity:", *str(error).split(), file=sys.stderr)
    return 2


def _plan(arguments: argparse.Namespace) -> Plan:
    """What *arguments* ask for; raises one of ``_IMPOSSIBLE``."""
    parts = arguments.only or (["differential"] if arguments.hermes else list(PARTS))
    named = arguments.hermes or arguments.oracle
    targets: list[Target] = []
    if "differential" in parts:
        if importlib.util.find_spec("hypothesis") is None:
            raise UsageError("the differential part needs hypothesis; pip install 'hermes-env-bridge[parity]'")
        targets = _targets_of_releases(arguments.hermes, arguments.cache) + targets_of_files(arguments.oracle)
        if not named or len(parts) > 1:
            targets.insert(0, installed_target())
    elif named:
        raise UsageError("--hermes and --oracle name what the differential part compares, and --only leaves it out")
    needed = not named or len(parts) > 1
    return Plan(parts, targets, installed_version() if needed else "")


def _targets_of_releases(versions: list[str], cache: Path) -> list[Target]:
    listed = [each for version in versions for each in (released_versions() if version == EVERY else [version])]
    # Fetched side by side, and told in the order in which they were asked for.
    with ThreadPoolExecutor(4) as pool:
        fetched = pool.map(lambda version: target_of_release(Release(version, cache)), dict.fromkeys(listed))
        return list(fetched)


def _sections(plan: Plan, arguments: argparse.Namespace) -> list[Section]:
    """The sections of the report, those of the differential part first."""
    context = get_context("spawn")
    made = context.Value("q")
    # A differential run has a process of its own: an install is for a whole process.
    pool = ProcessPoolExecutor(
        2, mp_context=context, max_tasks_per_child=1, initializer=contest.count_in, initargs=(made,)
    )
    with Progress(sys.stderr, made, len(plan.targets) * arguments.steps) as progress, pool:

        def tell(running: Future[Section]) -> None:
            if not running.exception():
                progress.done(running.result())

        running = [pool.submit(contest.run, target, arguments.steps, arguments.seed) for target in plan.targets]
        for each in running:
            each.add_done_callback(tell)
        others = []
        for section in _others(plan, arguments.cache):
            progress.done(section)
            others.append(section)
        return [*(each.result() for each in running), *others]


def _others(plan: Plan, cache: Path) -> Iterator[Section]:
    """The sections of the other parts, each when it is done."""
    if "tools" in plan.parts:
        yield tools.run()
    if "concurrency" in plan.parts:
        yield concurrency.run()
    if "suites" in plan.parts:
        yield suites.run(version=plan.installed, cache=cache)
