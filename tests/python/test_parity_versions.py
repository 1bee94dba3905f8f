"""Parity with versions that are not installed: what is fetched, what is refused, and the table of them all."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("hypothesis")

from hermes_env_bridge.__main__ import main
from hermes_env_bridge.parity import contest, release, target
from hermes_env_bridge.parity.progress import Progress, paint_for
from hermes_env_bridge.parity.release import Release, ReleaseError, released_versions
from hermes_env_bridge.parity.report import Check, Report, Section
from hermes_env_bridge.parity.sequence.operations import OPERATIONS
from hermes_env_bridge.parity.table import GROUPS, Row, group_of, table
from hermes_env_bridge.parity.target import Target, target_of_release, targets_of_files

OLD = ("0.13.0", "0.16.0")

VERBS = """
from contextvars import ContextVar
_UNSET = object()
_VAR_MAP = {"HERMES_SESSION_KEY": ContextVar("HERMES_SESSION_KEY", default=_UNSET)}
def set_session_vars(session_key=""): return [_VAR_MAP["HERMES_SESSION_KEY"].set(session_key)]
def clear_session_vars(tokens): _VAR_MAP["HERMES_SESSION_KEY"].set("")
def get_session_env(name, default=""): return default
"""

# Behind a version's own code: the drop-in made of the file is not what the reference is.
UNLIKE = """
if __name__ != "parity_reference":
    def get_session_env(name: str, default: str = "") -> str:
        \"\"\"Whatever the variables are.\"\"\"
        return ""
"""

BAD_FILES = {
    "is not there": (None, "No such file"),
    "is a folder": ("", "Is a directory"),
    "is binary": (b"\x7fELF\0\xff\xfe", "null bytes"),
    "is in no encoding": (b"name = '\xff'", "utf-8"),
    "has a syntax error": (b"def set_session_vars(:", "SyntaxError"),
    "fails": (b"import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
    "ends the interpreter": (b"import sys; sys.exit('enough')", "enough"),
    "is another module": (b"value = 1", "it has no _VAR_MAP, _UNSET, set_session_vars"),
    "has no map": (VERBS.replace("_VAR_MAP", "_MAP").encode(), "it has no _VAR_MAP"),
    "has no read": (VERBS.replace("get_session_env", "get").encode(), "it has no get_session_env"),
    "has a list for a map": (f"{VERBS}_VAR_MAP = ['HERMES_SESSION_KEY']".encode(), "its _VAR_MAP is no dict"),
    "has an empty map": (f"{VERBS}_VAR_MAP = {{}}".encode(), "its _VAR_MAP is no dict with entries"),
    "has a map of texts": (f"{VERBS}_VAR_MAP['HERMES_SESSION_KEY'] = ''".encode(), "is no context variable"),
}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for releases, for all tests here."""
    return tmp_path_factory.mktemp("cache")


def parity(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "hermes_env_bridge", "parity", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run the command, which has to refuse, and return the line that it says."""
    assert main(["parity", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


@pytest.mark.parametrize("fault", BAD_FILES)
def test_a_file_that_cannot_be_compared_is_refused_in_a_line(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, reason = BAD_FILES[fault]
    file = tmp_path / "session_context.py"
    if content == "":
        file.mkdir()
    elif isinstance(content, bytes):
        file.write_bytes(content)
    line = refusal(capsys, "--only", "differential", "--oracle", file)
    assert line.startswith(f"hermes-env-bridge parity: {file}: ")
    assert reason in line


def test_the_file_of_those_tests_is_refused_for_its_fault_only(tmp_path: Path) -> None:
    file = tmp_path / "session_context.py"
    file.write_text(VERBS)
    assert [each.label for each in targets_of_files([file])] == ["session_context.py"]


def test_a_refusal_has_a_traceback_only_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parity", "--only", "differential", "--oracle", "absent.py", "--debug"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert "TargetError: absent.py: FileNotFoundError" in said


@pytest.mark.parametrize("version", ["0.12.99", "0.13.*", "../../0.13.0", "newest", ""])
def test_a_version_that_does_not_exist_is_refused_in_a_line(
    version: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(cache.iterdir())
    line = refusal(capsys, "--hermes", version, "--cache", cache)
    assert line.startswith(f"hermes-env-bridge parity: hermes-agent {version}".rstrip())
    assert set(cache.iterdir()) == before


@pytest.mark.parametrize("content", [b"no archive", None])
def test_a_wheel_without_the_module_is_refused(content: bytes | None, tmp_path: Path) -> None:
    wheel = tmp_path / "hermes_agent-1-py3-none-any.whl"
    if content:
        wheel.write_bytes(content)
    else:
        with zipfile.ZipFile(wheel, "w") as members:
            members.writestr("gateway/__init__.py", "")
    with pytest.raises(ReleaseError, match=r"^hermes-agent 1: no gateway/session_context\.py in .*\.whl"):
        Release("1", tmp_path).session_module()
    assert list(tmp_path.iterdir()) == [wheel]


def test_versions_that_no_part_compares_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--only leaves it out" in refusal(capsys, "--hermes", "0.13.0", "--only", "tools")


def test_a_report_that_cannot_be_written_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hermes_env_bridge.parity.tools.run", lambda: Section("tools", (Check("a tool", 1),), 0.0))
    path = tmp_path / "absent" / "report.json"
    assert main(["parity", "--only", "tools", "--json", str(path)]) == 2
    assert str(path) in capsys.readouterr().err.splitlines()[-1]


def test_all_releases_are_found_the_oldest_first() -> None:
    versions = released_versions()
    assert versions[:2] == ["0.13.0", "0.14.0"]
    assert versions.index("0.18.2") < versions.index("0.19.0")


def test_what_was_fetched_is_not_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Release(OLD[0], cache).session_module()
    monkeypatch.setattr(release, "_pip", lambda *arguments: pytest.fail("pip was called"))
    assert Release(OLD[0], cache).session_module() == first
    assert Release(OLD[0], cache).wheel().parent == cache


def test_old_versions_are_equal_in_one_run(cache: Path, tmp_path: Path) -> None:
    result = tmp_path / "report.json"
    options = ["--steps", 400, "--cache", cache, "--json", result]
    done = parity("--hermes", OLD[0], "--hermes", OLD[1], "--hermes", OLD[0], *options)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(result.read_text())
    assert report["reference"] == f"hermes-agent {OLD[0]}, {OLD[1]}"
    assert [row["version"] for row in report["table"]] == list(OLD)
    for row, section in zip(report["table"], report["sections"], strict=True):
        assert row["steps"] == section["facts"]["steps"] >= 400
        assert row["steps"] == sum(cell["steps"] for cell in row["groups"].values())
        assert row["differences"] == 0
    assert done.stdout.count("equal") == len(OLD)  # the table tells the rest
    assert "\x1b" not in done.stdout + done.stderr


def test_a_fork_that_differs_is_a_number_in_its_row(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "fork.py"
    original = Release(OLD[0], cache).session_module()
    file.write_text(original.read_text() + UNLIKE)
    done = parity("--hermes", OLD[0], "--oracle", file, "--steps", 300, "--cache", cache)
    assert done.returncode == 1, done.stdout + done.stderr
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("fork.py  "))
    assert row[-1] == "1"
    (cell,) = (cell for cell in row if "!" in cell)
    assert cell.endswith("!1")
    assert "result: NOT EQUAL" in done.stdout
    assert "=> " in done.stdout


def test_a_drop_in_that_cannot_be_made_is_a_difference(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = target_of_release(Release(OLD[0], cache))
    monkeypatch.setattr(target, "adapt", lambda *arguments: 1 / 0)
    section = contest.run(chosen, 10, 0)
    assert [check.differences for check in section.checks] == [("ZeroDivisionError: division by zero",)]
    assert (section.row.label, section.row.differences) == (OLD[0], 1)


def test_every_operation_is_in_a_group_and_no_group_is_empty() -> None:
    groups = {operation.kind: group_of(operation.kind) for operation in OPERATIONS}
    assert [kind for kind, group in groups.items() if group is None] == []
    assert set(groups.values()) == set(GROUPS)
    for kind, group in groups.items():
        assert [name for name, beginnings in GROUPS.items() if kind.startswith(beginnings)] == [group], kind


def section(label: str, *checks: Check) -> Section:
    return Section(f"differential: {label}", checks, 1.0, facts={"seed": 0}, label=label)


BIND = Check("set_session_vars", 70, a_sequence=True)
FIRST = section("0.1.0", Check("names and signatures", 9), BIND, Check("set_session_vars, wrongly", 30))
SECOND = section("0.2.0", replace(BIND, differences=("1. one", "2. two", "=> other")), Check("actor: new task", 5))
SIGNATURE = section("0.3.0", Check("names and signatures", 9, ("a is missing", "b is missing")))


def test_the_table_has_steps_and_differences_of_each_group_and_totals() -> None:
    header, first, second, third, total = (line.split() for line in table([s.row for s in (FIRST, SECOND, SIGNATURE)]))
    assert header == ["version", *GROUPS, "steps", "differ"]
    assert first == ["0.1.0", "100=", *"-------", "-", "100", "0"]
    assert second == ["0.2.0", "70!1", *"-------", "5=", "75", "1"]
    assert third == ["0.3.0", *"---------", "0", "2"]
    assert total == ["all", "170!1", *"-------", "5=", "175", "3"]


def test_the_table_fits_its_width_whatever_the_labels() -> None:
    steps = Counter(dict.fromkeys(GROUPS, 250_000))
    lines = table([Row("0.1.0", steps, Counter(), 0), Row(f"a/{'long/' * 30}fork.py", steps, Counter(), 0)])
    assert {len(line) for line in lines} == {120}
    assert lines[2].startswith("...")
    assert "/fork.py 250,000=" in lines[2]


def test_the_table_shows_labels_whole_where_a_narrower_gap_has_room_for_them() -> None:
    steps = Counter(dict.fromkeys(GROUPS, 25_000))
    for label in ("0.1.0", "session_context_001.py (own)"):
        lines = table([Row(label, steps, Counter(), 0)])
        assert lines[1].startswith(label)
        assert max(map(len, lines)) <= 120


def test_a_report_of_several_runs_tells_equal_ones_in_the_table_only() -> None:
    text = Report("subject", "reference", "environment", (FIRST, SECOND)).to_text(differences_shown=1)
    assert text.count("seed: 0") == 1
    assert "      1. one\n      2. two\n      => other" in text  # a sequence is told whole, and is one difference
    assert "result: NOT EQUAL; 184 comparisons, 1 differences" in text
    assert "steps  differ" not in Report("subject", "reference", "environment", (FIRST,)).to_text()


def test_files_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "session_context.py" for folder in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(VERBS)
    labels = [each.label for each in targets_of_files([*paths, paths[0]])]
    assert labels == ["one/session_context.py", "two/session_context.py"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Made:
    value = 250


@pytest.mark.parametrize(("stream", "moves"), [(io.StringIO, False), (Terminal, True)])
def test_progress_moves_on_a_terminal_only(
    stream: Callable[[], io.StringIO], moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    told = stream()
    with Progress(told, Made(), 1000) as progress:
        progress.done(FIRST)
    assert "differential: 0.1.0: equal, 109 compared, 1 s\n" in told.getvalue()
    assert ("250 of 1,000 random steps (25%)" in told.getvalue()) == moves
    assert ("\x1b[2K" in told.getvalue()) == moves
    assert "\x1b[3" not in told.getvalue()


@pytest.mark.parametrize(
    ("stream", "environ", "colored"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colour_is_for_a_terminal_and_can_be_refused(
    stream: io.StringIO, environ: dict[str, str], colored: bool
) -> None:
    paint = paint_for(stream, environ)
    assert (paint("equal", True) != "equal") == colored
    assert (paint("equal", True) != paint("equal", False)) == colored


def test_a_target_of_a_release_is_its_file_adapted(cache: Path) -> None:
    file = Release(OLD[0], cache).session_module()
    assert target_of_release(Release(OLD[0], cache)) == Target(f"Hermes {OLD[0]}, adapted", OLD[0], file, "adapted")
