"""The command line's own words: help, errors, ``doctor`` and ``explain``, in real processes."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_processes import MODULE, SCRIPT, SOURCES, bare_environment, executable, hopeless, refused, run

import hermes_env_bridge


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment in which nothing is installed."""
    return bare_environment(tmp_path_factory.mktemp("bare"))


def test_every_command_says_what_is_wrong_in_a_line(tmp_path: Path) -> None:
    assert "name a command; the commands are run, doctor" in refused([], tmp_path)
    assert "there is no 'dcotor'; the commands are" in refused(["dcotor"], tmp_path)
    for command in ("doctor", "env", "explain", "parity"):
        assert f"--nope; see hermes-env-bridge {command} --help" in refused([command, "--nope"], tmp_path)


def test_help_has_examples_and_status_and_version_work(tmp_path: Path) -> None:
    for words in ([], ["run"], ["doctor"], ["env"], ["explain"], ["parity"]):
        status, out, err = run([*SCRIPT, *words, "--help"], tmp_path)
        assert (status, err) == (0, "")
        assert "examples:\n  hermes-env-bridge" in out
        assert "exit status:" in out or not words
    assert run([*MODULE, "--version"], tmp_path) == run([*SCRIPT, "--version"], tmp_path)


def doctor(folder: Path, *words: str, python: Path | str = sys.executable, **env: str) -> tuple[int, dict[str, Any]]:
    status, out, err = run([python, "-m", "hermes_env_bridge", "doctor", "--json", *words], folder, **env)
    assert err == ""
    told: dict[str, Any] = json.loads(out)
    assert told["status"] == status
    return status, told


def test_doctor_says_what_is_there(tmp_path: Path) -> None:
    status, told = doctor(tmp_path, PATH="/nowhere")
    assert (status, told["advice"], told["error"], told["installable"]) == (0, [], None, True)
    assert told["hermes"]["version"] == "0.19.0"
    assert told["hermes"]["path"] == told["profile"]["path"]
    assert told["interpreter"]["executable"] == sys.executable
    assert Path(told["extension"]["file"]).name.startswith("_core")
    assert {verb["name"] for verb in told["profile"]["verbs"] if verb["native"]} >= {"set_session_vars"}
    status, out, _ = run([*SCRIPT, "doctor"], tmp_path, PATH="/nowhere")
    assert status == 0
    for line in ("hermes-agent 0.19.0", "drop-in      can be installed", "HERMES_SESSION_KEY", "nothing, all is well"):
        assert line in out
    assert "\x1b[" not in out


def test_doctor_advises_on_a_session_left_in_the_environment_and_hides_it(tmp_path: Path) -> None:
    env = {"HERMES_SESSION_KEY": "secret", "HERMES_HOME": str(tmp_path), "PATH": "/nowhere"}
    status, told = doctor(tmp_path, **env)
    assert status == 1
    assert told["environment"] == [
        {"name": "HERMES_HOME", "is_session": False},
        {"name": "HERMES_SESSION_KEY", "is_session": True},
    ]
    assert len(told["advice"]) == 1
    assert told["advice"][0].startswith("HERMES_SESSION_KEY: in the environment")
    assert "secret" not in run([*SCRIPT, "doctor"], tmp_path, **env)[1]
    assert "HERMES_SESSION_KEY='secret' (a session)" in run([*SCRIPT, "doctor", "--show-values"], tmp_path, **env)[1]
    assert doctor(tmp_path, "--show-values", **env)[1]["environment"][1]["value"] == "secret"


def test_doctor_advises_on_another_hermes(tmp_path: Path, bare: Path) -> None:
    executable(tmp_path / "bin" / "hermes", f"#!{bare}\nprint()\n")
    shutil.copytree(Path(hermes_env_bridge._find.find("gateway.session_context")).parent, tmp_path / "gateway")
    status, told = doctor(tmp_path, PATH=f"{tmp_path}/bin")
    assert status == 1
    assert f"gateway is imported from {tmp_path}/gateway/session_context.py, not from what pip" in told["advice"][0]
    assert f"the command hermes is not this interpreter's: {tmp_path}/bin/hermes runs on {bare}" in told["advice"][1]


def test_doctor_says_why_the_drop_in_cannot_be_installed(tmp_path: Path, bare: Path) -> None:
    status, told = doctor(tmp_path, python=bare, PYTHONPATH=str(SOURCES), PATH="/nowhere")
    assert (status, told["installable"], told["hermes"]) == (2, False, {"version": None, "path": None})
    assert told["error"].startswith("no module gateway on sys.path")
    assert told["advice"][0].startswith("Hermes is not in this interpreter: pip install hermes-agent")
    assert told["profile"]["module"] == "hermes_env_bridge.session_context"
    hopeless(tmp_path)
    status, told = doctor(tmp_path, PATH="/nowhere")
    assert status == 2
    assert "has no _VAR_MAP" in told["error"]
    assert told["advice"][0].startswith("run your Hermes without the drop-in")


@pytest.mark.parametrize(("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_doctor_is_coloured_on_a_terminal_only(env: dict[str, str], colored: bool, tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    subprocess.run([*SCRIPT, "doctor"], stdout=end, env=clean | env, cwd=tmp_path, check=False)
    os.close(end)
    assert (b"\x1b[32mcan be installed\x1b[0m" in os.read(terminal, 1 << 16)) is colored
    os.close(terminal)


def test_explain_tells_every_variable_or_the_named(tmp_path: Path, bare: Path) -> None:
    env = {"HERMES_SESSION_KEY": "secret"}
    status, out, err = run([*SCRIPT, "explain"], tmp_path, **env)
    assert (status, err) == (0, "")
    assert out.startswith("gateway.session_context: no session was ever bound")
    assert "\n  HERMES_SESSION_KEY: answered by environment" in out
    assert "secret" not in out
    every = json.loads(run([*SCRIPT, "explain", "--json"], tmp_path, **env)[1])
    assert (every["module"], every["engaged"], len(every["variables"])) == ("gateway.session_context", False, 15)
    named = ["HERMES_SESSION_KEY", "HERMES_SESSION_ID"]
    status, out, _ = run([*MODULE, "explain", *named, "--values"], tmp_path, **env)
    assert [line.partition(":")[0] for line in out.splitlines()] == named
    assert "value: 'secret'" in out
    told = json.loads(run([*MODULE, "explain", "--values", "--json", *named], tmp_path, **env)[1])
    assert [(each["layer"], each["child"], each.get("value")) for each in told["variables"]] == [
        ("environment", "keep", "secret"),
        ("default", "absent", None),
    ]
    own = run([bare, *MODULE[1:], "explain", "--json"], tmp_path, PYTHONPATH=str(SOURCES))
    assert json.loads(own[1])["module"] == "hermes_env_bridge.session_context"
