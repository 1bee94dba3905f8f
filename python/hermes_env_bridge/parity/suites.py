"""The tests that ship in Hermes' source distribution, run on the installed Hermes with both modules.

Loaded as a pytest plugin, this module also writes down the outcome of each test.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import child
from .faults import FAULTS
from .modules import DROP_IN, ORIGINAL, SESSION_MODULE, in_place, session
from .release import Release, ReleaseError
from .report import Check, Section

# The test files that reach the session module, and how: found by running every file of the 0.19.0 distribution
# once with the module's functions and its map wrapped. The longest come first, so that none is left at the end.
TEST_FILES: Mapping[str, str] = {
    "test_background_review_session_isolation.py": "builds agents, which set the current session id",
    "test_tui_gateway_server.py": "binds and clears sessions in 20 tests, and reads them in others",
    "test_timezone.py": "runs code with a child's environment, and reads the session key",
    "test_copilot_initiator.py": "builds agents in 11 tests, which set the current session id",
    "test_lazy_session_regressions.py": "binds and clears sessions of terminal UIs",
    "test_honcho_client_concurrency.py": "builds a child's environment",
    "test_plugin_skills.py": "reads the platform to tell disabled skills",
    "test_get_tool_definitions_cache_isolation.py": "asks tools that are offered by platform",
    "test_dispatch_session_id.py": "dispatches tools under a session id",
    "test_model_tools.py": "asks tools that are offered by platform",
    "test_windows_subprocess_no_window_flags.py": "builds a child's environment",
    "test_subprocess_home_isolation.py": "builds children's environments in 9 tests",
    "test_session_workspace_binding.py": "groups sessions by workspace; calls nothing of the module today",
}

# This one signals every process it can reach and counts on a guard in a conftest that is not in the distribution.
_NEVER = frozenset({"test_live_system_guard_self_test.py"})

_CONFIGURATION = "pyproject.toml"
_TIMEOUT = 300.0

# Variables that tell the test process where to write the outcomes, and which fault to plant, if any.
_OUTCOMES_FILE = "PARITY_OUTCOMES"
_FAULT = "PARITY_FAULT"

# The outcome of each test by its id, in one run.
Outcomes = dict[str, str]


class SuiteError(RuntimeError):
    """The tests could not be unpacked or run; the message says why."""


@dataclass
class Tests:
    """Unpacked tests: the folder that pytest takes for the source tree, the files, and how they are run.

    *processes* files run at a time, with *fault*, one of :data:`~.faults.FAULTS` or empty, in the drop-in.
    """

    root: Path
    processes: int
    fault: str = ""
    files: list[str] = field(default_factory=list)
    started: Iterator[int] = field(default_factory=itertools.count)


@dataclass
class Result:
    """The outcomes of one file of tests: of each run with Hermes' own module, and of the one with the drop-in."""

    file: str
    own: list[Outcomes]
    drop_in: Outcomes

    def _baselines(self) -> dict[str, Counter[str]]:
        ids = dict.fromkeys(test for outcomes in (*self.own, self.drop_in) for test in outcomes)
        return {test: Counter(outcomes.get(test, "not run") for outcomes in self.own) for test in ids}

    def differences(self) -> list[str]:
        """Say which tests that are stable with Hermes' own module had another outcome with the drop-in."""
        return [
            f"{test}: {ORIGINAL} {outcome}, {DROP_IN} {self.drop_in.get(test, 'not run')}"
            for test, counts in self._baselines().items()
            for outcome in counts
            if len(counts) == 1 and outcome != self.drop_in.get(test, "not run")
        ]

    def unstable(self) -> list[str]:
        """Say which tests had more than one outcome with Hermes' own module."""
        return [
            f"{test}: unstable with Hermes' own module: " + ", ".join(f"{n} {name}" for name, n in counts.items())
            for test, counts in self._baselines().items()
            if len(counts) > 1
        ]

    def check(self) -> Check:
        """Return the check of the file: every test that is stable is one comparison."""
        stable = sum(len(counts) == 1 for counts in self._baselines().values())
        note = TEST_FILES.get(self.file, "imports the module")
        return Check(f"tests/{self.file}", stable, tuple(self.differences()), note)


def run(*, version: str, cache: Path, baselines: int = 3, fault: str = "", processes: int = 2) -> Section:
    """Run Hermes' own tests of *version*, *baselines* times with its own module and once with the drop-in.

    The source distribution is fetched into *cache* unless it is there. The outcome of every test has to be the
    same; ids whose outcome differs between the baselines are listed as skipped. *fault* names one of
    :data:`~.faults.FAULTS` to plant in the drop-in; *processes* files run at a time.
    """
    start = time.monotonic()
    title = "Hermes' own tests"
    try:
        with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
            tests = Tests(Path(folder).resolve(), processes, fault)
            absent = unpack(Release(version, cache).source_distribution(), tests)
            results = run_tests(tests, baselines)
    except (SuiteError, ReleaseError, OSError, tarfile.TarError) as error:
        return Section(title, (Check("tests of the distribution", 0, (str(error),)),), time.monotonic() - start)
    unstable = [line for result in results for line in result.unstable()]
    skipped = [f"tests/{file}: not in the distribution of {version}" for file in absent] + unstable
    facts: dict[str, str | int | float] = {"baseline runs": baselines, "unstable with Hermes' own": len(unstable)}
    facts |= {f"{outcome} with both": count for outcome, count in agreed(results).items()}
    checks = tuple(result.check() for result in results)
    return Section(title, checks, time.monotonic() - start, tuple(skipped), facts)


def unpack(archive: Path, tests: Tests) -> list[str]:
    """Unpack the test files that reach the module, and pytest's configuration, from *archive* into *tests*.

    Files that import the module are added to those of :data:`TEST_FILES`. Returns the names of the files in
    that list which this distribution does not have. Raises :class:`SuiteError` if it has none.
    """
    found: set[str] = set()
    with tarfile.open(archive) as members:
        for member in members:
            path = member.name.partition("/")[2]
            content = members.extractfile(member) if member.isfile() else None
            if content is not None and _wanted(path, data := content.read()):
                target = tests.root / path
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(data)
                found.add(path.removeprefix("tests/"))
    tests.files += [file for file in TEST_FILES if file in found]
    tests.files += sorted(found - set(TEST_FILES) - {_CONFIGURATION})
    if not tests.files or _CONFIGURATION not in found:
        raise SuiteError(f"{archive.name} has no tests of the session module")
    return [file for file in TEST_FILES if file not in found]


def _wanted(path: str, source: bytes) -> bool:
    folder, _, file = path.rpartition("/")
    if folder != "tests" or not file.startswith("test_") or file in _NEVER:
        return path == _CONFIGURATION
    return file in TEST_FILES or SESSION_MODULE.encode() in source or b"from gateway import session_context" in source


def run_tests(tests: Tests, baselines: int) -> list[Result]:
    """Run every file *baselines* times with Hermes' own module and once with the drop-in.

    Raises :class:`SuiteError` if pytest does not get to its end, or if tests were run on the other module.
    """
    runs = [(file, module) for file in tests.files for module in (*[ORIGINAL] * baselines, DROP_IN)]
    outcomes = dict(enumerate(_run_files(tests, runs)))
    results = []
    for file in tests.files:
        mine = [(runs[number][1], outcomes[number]) for number in outcomes if runs[number][0] == file]
        results.append(Result(file, [seen for module, seen in mine if module == ORIGINAL], mine[-1][1]))
    # A few runs can miss that a test is unstable; before it counts as a difference, Hermes' own gets more of them.
    doubtful = [result for result in results if result.differences()]
    again = [result for result in doubtful for _ in range(2 * baselines)]
    for result, seen in zip(again, _run_files(tests, [(result.file, ORIGINAL) for result in again]), strict=True):
        result.own.append(seen)
    return results


def agreed(results: Iterable[Result]) -> Counter[str]:
    """Count the outcomes of the tests that had the same one in every run with either module."""
    counts = Counter(dict.fromkeys(("passed", "failed", "error", "skipped"), 0))
    for result in results:
        differing = {line.partition(": ")[0] for line in (*result.differences(), *result.unstable())}
        counts.update(outcome for test, outcome in result.drop_in.items() if test not in differing)
    return counts


def _run_files(tests: Tests, runs: list[tuple[str, str]]) -> list[Outcomes]:
    with ThreadPoolExecutor(tests.processes) as pool:
        return list(pool.map(lambda run: _run_file(tests, *run), runs))


def _run_file(tests: Tests, file: str, module: str) -> Outcomes:
    """Run one file in a process with an empty home, and return the outcomes."""
    folder = tests.root / f"run-{next(tests.started)}"
    outcomes = folder / "outcomes.jsonl"
    environment = child.prepare_home(folder) | {_OUTCOMES_FILE: str(outcomes)}
    # Hermes reads a separate `-p` in any command line as its profile option, hence the attached form; our plugin, given
    # as anybody would give it, sees to that itself.
    plugins = [f"-p{__name__}", "-pno:cacheprovider"]
    if module == DROP_IN:
        plugins = ["-p", f"{__name__.split('.')[0]}.pytest_plugin", *plugins]
        environment |= {_FAULT: tests.fault}
    # -P: the folder that pytest is started in is no place to import from; Hermes is the installed one.
    command = [sys.executable, "-P", "-m", "pytest", "-q", *plugins, f"--basetemp={folder / 'pytest'}"]
    command += [f"--rootdir={tests.root}", f"--config-file={tests.root / _CONFIGURATION}"]
    ended = child.run([*command, str(tests.root / "tests" / file)], folder, environment, _TIMEOUT)
    if ended.status not in (0, 1):
        ending = "was still running" if ended.status is None else f"ended with status {ended.status}"
        raise SuiteError(f"pytest {ending} in {file} on the {module} module: {ended.last_words}")
    return _read(outcomes, file, module)


def _read(path: Path, file: str, module: str) -> Outcomes:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    used = [line["module"] for line in lines if "module" in line]
    if used not in ([module], ["none"]):
        raise SuiteError(f"{file} was to run on the {module} module and ran on {used or 'an unknown one'}")
    # A test can have several lines; the last word is that of its clean-up.
    return {line["test"]: line["outcome"] for line in lines if "test" in line}


# In the test process, as a plugin of pytest.


def pytest_configure() -> None:
    """Plant the fault that this run is for, once the drop-in is in place."""
    fault = os.environ.pop(_FAULT, "")
    if fault:
        FAULTS[fault](session())


def _write(line: Mapping[str, str]) -> None:
    with Path(os.environ[_OUTCOMES_FILE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pytest_runtest_logreport(report: Any) -> None:
    """Write down what became of a test: the outcome of its call, and of the phases around it that did not pass."""
    outcome = str(report.outcome)
    if hasattr(report, "wasxfail"):
        outcome = "xpassed" if outcome == "passed" else "xfailed"
    elif outcome == "failed" and report.when != "call":
        outcome = "error"
    if report.when == "call" or outcome != "passed":
        _write({"test": report.nodeid, "outcome": outcome})


def pytest_collectreport(report: Any) -> None:
    """Write down a file that could not be collected, as one test with an error."""
    if report.failed:
        _write({"test": f"{report.nodeid} (collection)", "outcome": "error"})


def pytest_sessionfinish() -> None:
    """Write down which session module the tests ran on."""
    _write({"module": in_place()})
