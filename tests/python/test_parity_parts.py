"""The parts of a parity run that drive real Hermes: they compare something, and they can turn red."""

from __future__ import annotations

import importlib.util
import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes_env_bridge.parity import concurrency, suites, tools
from hermes_env_bridge.parity.faults import FAULTS
from hermes_env_bridge.parity.modules import DROP_IN, ORIGINAL
from hermes_env_bridge.parity.outcome import NotDrivenError, Pair, WorkerError, compare, compare_observations
from hermes_env_bridge.parity.report import Check, Section
from hermes_env_bridge.parity.worker import Batch, launch

needs_hermes = pytest.mark.skipif(importlib.util.find_spec("gateway") is None, reason="hermes-agent is not installed")


TOOL = "tools.make_run_env"


def customize(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have workers run *code* before anything else."""
    (folder / "sitecustomize.py").write_text(f"{code}\n")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(tools.__file__).parents[3]}")


def test_a_section_that_compared_nothing_is_not_ok() -> None:
    assert not Section("empty", (), 0.0).ok
    assert not Section("idle", (Check("nothing", 0),), 0.0).ok
    assert not tools.run(only=()).ok


@pytest.mark.parametrize(
    ("original", "drop_in", "compared", "differing"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, 2, []),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, 2, ["b"]),
        ({"a": 1, "b": 2}, {"a": 1}, 2, ["b"]),
        ({"a": 1}, {"a": 1, "b": 2}, 2, ["b"]),
        ({"a": True, "b": 1.0}, {"a": 1, "b": 1}, 2, ["a", "b"]),
        ({"a": ""}, {"a": None}, 1, ["a"]),
        ({"a": 1, "b": 1}, {"a": 1, "b": 1}, 2, ["nothing shown"]),
        ({}, {}, 0, []),
    ],
)
def test_observations_are_compared_by_label_and_by_type(
    original: dict[str, object], drop_in: dict[str, object], compared: int, differing: list[str]
) -> None:
    check = compare_observations("a tool", original, drop_in)
    assert check.compared == compared
    assert [difference.partition(":")[0] for difference in check.differences] == differing
    assert check.ok == (compared > 0 and not differing)


def test_a_worker_that_fails_is_a_difference() -> None:
    check = compare("a tool", Pair({"a": 1}, WorkerError("it ended")))
    assert isinstance(check, Check)
    assert not check.ok
    assert check.differences == ("drop-in: it ended",)


def test_a_tool_is_skipped_only_when_both_modules_give_the_same_reason() -> None:
    reason = NotDrivenError("no way in")
    assert compare("a tool", Pair(reason, NotDrivenError("no way in"))) == "a tool: no way in"
    for other in ({"a": 1}, NotDrivenError("another"), WorkerError("no way in")):
        check = compare("a tool", Pair(other, reason))
        assert isinstance(check, Check)
        assert not check.ok


@needs_hermes
def test_a_worker_has_an_empty_home_and_inherits_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SESSION_KEY", "inherited")
    observations = launch(Batch((TOOL,)), ORIGINAL)[TOOL]
    assert isinstance(observations, dict)
    seen = observations["_make_run_env({}), never bound, no mirror"]
    assert "HERMES_SESSION_KEY" not in seen
    assert seen["HOME"] == "<root>/home"
    assert seen["HERMES_HOME"] == "<root>/home/.hermes"


@needs_hermes
def test_a_worker_that_takes_too_long_is_ended() -> None:
    outcome = launch(Batch((TOOL,)), ORIGINAL, timeout=0.01)[TOOL]
    assert isinstance(outcome, WorkerError)
    assert "still running" in str(outcome)


@needs_hermes
def test_scenarios_before_and_after_one_that_fails_are_kept() -> None:
    without_keywords, absent = "concurrency.own_environments", "tools.absent"
    outcomes = launch(Batch((without_keywords, TOOL, absent)), ORIGINAL)
    assert str(outcomes[without_keywords]).startswith("TypeError: own_environments() missing")
    assert isinstance(outcomes[TOOL], dict)
    assert str(outcomes[absent]).startswith("its process ended with status 1: KeyError: 'absent'")


@needs_hermes
def test_a_process_that_breaks_after_its_last_scenario_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    customize(tmp_path, monkeypatch, "import atexit, os\natexit.register(os._exit, 3)")
    outcome = launch(Batch((TOOL,)), ORIGINAL)[TOOL]
    assert isinstance(outcome, WorkerError)
    assert "ended with status 3" in str(outcome)


@needs_hermes
@pytest.mark.parametrize(
    ("module", "customization"),
    [(DROP_IN, "hermes_env_bridge.install = lambda: None"), (ORIGINAL, "hermes_env_bridge.install()")],
)
def test_nothing_is_compared_with_itself(
    module: str, customization: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    customize(tmp_path, monkeypatch, f"import hermes_env_bridge\n{customization}")
    outcome = launch(Batch((TOOL,)), module)[TOOL]
    assert isinstance(outcome, WorkerError)
    assert f"the {module} module is not in place" in str(outcome)


@needs_hermes
def test_the_tools_are_equal_on_the_drop_in() -> None:
    section = tools.run(only=("approval", "make_run_env"))
    assert section.ok, section.checks
    assert section.compared > 400


FAULTY_TOOLS = {
    "truthy-read": "approval",
    "clear-unsets": "make_run_env",
    "latch-stuck": "make_run_env",
    "process-wide": "make_run_env",
    "cwd-dropped": "terminal_ui",
}


@needs_hermes
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_drop_in_turns_the_tools_red(fault: str) -> None:
    (check,) = tools.run(only=(FAULTY_TOOLS[fault],), fault=fault).checks
    assert 0 < len(check.differences) < check.compared


@needs_hermes
def test_concurrent_sessions_keep_their_identity_on_the_drop_in() -> None:
    section = concurrency.run(sessions=8, commands=1)
    assert section.ok, section.checks
    own, shared = section.checks
    assert own.compared == 8 * 4 * 9
    assert "Hermes' own leak" in shared.note


@needs_hermes
@pytest.mark.parametrize(
    ("fault", "difference"),
    [
        ("process-wide", r"^drop-in: [1-9]\d* foreign"),
        ("truthy-read", r"^drop-in: missing: session \d once cleared"),
        ("latch-stuck", r'HERMES_SESSION_KEY: original "<unset>", drop-in "mirror-of-another"'),
    ],
)
def test_a_fault_in_the_drop_in_turns_concurrency_red(fault: str, difference: str) -> None:
    section = concurrency.run(sessions=4, commands=1, fault=fault)
    assert any(re.search(difference, line) for check in section.checks for line in check.differences)


SUITE = """
from pathlib import Path

import gateway.session_context
import pytest


def test_passes(): pass


def test_fails(): assert False


@pytest.mark.skip(reason="always")
def test_is_skipped(): pass


@pytest.fixture
def broken(): raise OSError


def test_has_an_error(broken): pass


def test_happens_once(): Path(__file__).with_name("once").open("x")
"""

READER = """
import os
from gateway import session_context


def test_a_cleared_session_reads_as_empty():
    os.environ["HERMES_SESSION_KEY"] = "mirror"
    session_context.clear_session_vars(session_context.set_session_vars(session_key="key"))
    assert session_context.get_session_env("HERMES_SESSION_KEY") == ""


def test_passes(): pass
"""


def archive(cache: Path, files: Mapping[str, str]) -> None:
    """Write the source distribution 0 with *files* among its tests."""
    cache.mkdir()
    with tarfile.open(cache / "hermes_agent-0.tar.gz", "w:gz") as members:
        for path, text in {"pyproject.toml": "", **{f"tests/{file}": text for file, text in files.items()}}.items():
            member = tarfile.TarInfo(f"hermes_agent-0/{path}")
            member.size = len(text.encode())
            members.addfile(member, io.BytesIO(text.encode()))


@needs_hermes
def test_outcomes_are_compared_by_test_and_unstable_ones_are_listed(tmp_path: Path) -> None:
    archive(tmp_path / "cache", {"test_dispatch_session_id.py": SUITE})
    section = suites.run(version="0", cache=tmp_path / "cache", baselines=2)
    assert section.ok, section.checks
    assert section.compared == 4
    assert [section.facts[f"{name} with both"] for name in ("passed", "failed", "error", "skipped")] == [1, 1, 1, 1]
    (unstable,) = (line for line in section.skipped if "unstable" in line)
    assert unstable.startswith("tests/test_dispatch_session_id.py::test_happens_once: ")
    assert "1 passed" in unstable
    assert "1 failed" in unstable


@needs_hermes
def test_a_fault_in_the_drop_in_turns_the_suites_red(tmp_path: Path) -> None:
    archive(tmp_path / "cache", {"test_found_by_its_import.py": READER})
    section = suites.run(version="0", cache=tmp_path / "cache", baselines=1, fault="clear-unsets")
    (check,) = section.checks
    assert check.compared == 2
    assert check.differences == (
        "tests/test_found_by_its_import.py::test_a_cleared_session_reads_as_empty: original passed, drop-in failed",
    )


def test_a_distribution_without_tests_of_the_module_is_not_ok(tmp_path: Path) -> None:
    archive(
        tmp_path / "cache", {"test_other.py": "def test_passes(): pass", "test_live_system_guard_self_test.py": SUITE}
    )
    section = suites.run(version="0", cache=tmp_path / "cache")
    assert not section.ok
    assert "no tests of the session module" in section.checks[0].differences[0]
