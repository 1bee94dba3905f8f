"""``hermes-env-bridge env``, in real processes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from command_processes import SCRIPT, executable, hopeless, refused, run

KEY = "HERMES_SESSION_KEY"


def env(folder: Path, *words: str, **variables: str) -> tuple[int, str]:
    status, out, err = run([*SCRIPT, "env", *words], folder, **variables)
    assert err == ""
    return status, out


def test_names_are_shown_and_values_only_if_they_are_asked_for(tmp_path: Path) -> None:
    status, out = env(tmp_path, "--set", "ADDED=secret", **{KEY: "secret"})
    assert status == 0
    assert {KEY, "ADDED", "PATH"} <= set(out.split())
    assert "secret" not in out
    assert f"\n{KEY}=secret\n" in "\n" + env(tmp_path, "--values", **{KEY: "secret"})[1]


def test_a_process_that_has_bound_sessions_strips_what_a_fresh_one_keeps_and_says_why(tmp_path: Path) -> None:
    told = {}
    for words in ((), ("--engaged",)):
        _, out = env(tmp_path, "--explain", *words, **{KEY: "secret"})
        assert "secret" not in out
        told[words] = next(line for line in out.splitlines() if line.startswith(KEY))
    assert told[()].startswith(f"{KEY}: keep: no session was ever bound")
    assert told[("--engaged",)].startswith(f"{KEY}: strip: sessions were bound")


def test_json_has_every_name_with_what_is_decided_and_why(tmp_path: Path) -> None:
    words = ("--json", "--policy", "minimal", "--deny", "HOME", "--allow", "OTHER")
    _, out = env(tmp_path, *words, **{KEY: "x", "OTHER": "x", "PATH": "/bin"})
    told = {each["name"]: each["action"] for each in json.loads(out)}
    assert {name: told[name] for name in (KEY, "OTHER", "PATH", "HOME")} == {
        KEY: "strip",
        "OTHER": "keep",
        "PATH": "keep",
        "HOME": "strip",
    }


def test_the_credentials_that_hermes_keeps_from_a_terminal_stay(tmp_path: Path) -> None:
    _, out = env(tmp_path, "--credentials", "terminal", OPENAI_API_KEY="sk", NOTION_TOKEN="n")
    assert "NOTION_TOKEN" in out.split()
    assert "OPENAI_API_KEY" not in out.split()


def test_what_is_exported_is_what_a_shell_reads_byte_for_byte(tmp_path: Path) -> None:
    odd = b"it's\n$HOME\xff"
    environment: dict[bytes, bytes] = {b"ODD": odd, b"NO-NAME": b"x", b"PATH": os.environb[b"PATH"]}
    exported = subprocess.run([*SCRIPT, "env", "--export"], env=environment, capture_output=True, check=True).stdout
    script = exported + b'printf %s "$ODD"'
    assert subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout == odd


def test_a_command_runs_with_that_environment_in_the_place_of_the_process(tmp_path: Path) -> None:
    script = f'printf "%s/%s" "${{{KEY}-absent}}" "$A"; exit 7'
    words = ("--policy", "detached", "--set", "A=b=c", "--", "sh", "-c", script)
    assert env(tmp_path, *words, **{KEY: "stale"}) == (7, "absent/b=c")
    # A reader that goes away ends a writer, as everywhere.
    endless = [*SCRIPT, "env", "--", "yes"]
    with subprocess.Popen(endless, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == -13


def test_a_command_that_cannot_be_run_has_a_shells_status(tmp_path: Path) -> None:
    executable(tmp_path / "noexec", "x").chmod(0o644)
    for command, expected in (("nosuch", 127), ("", 127), (str(tmp_path / "noexec"), 126)):
        status, out, err = run([*SCRIPT, "env", "--", command], tmp_path)
        assert (status, out, err.count("\n")) == (expected, "", 1)
        assert err.startswith(f"hermes-env-bridge env: {command}: ")


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path) -> None:
    assert "'x' is no NAME=VALUE" in refused(["env", "--set", "x"], tmp_path)
    assert "has the empty name" in refused(["env", "--set", "=x"], tmp_path)
    for shown in ("--explain", "--values", "--export", "--json"):
        said = refused(["env", shown, "--", "PATH"], tmp_path)
        assert f"{shown} shows the environment and 'PATH' is a command to run in it; give one of them" in said
    assert "invalid choice: 'all'" in refused(["env", "--policy", "all"], tmp_path)
    hopeless(tmp_path)
    assert "is no session module" in refused(["env"], tmp_path, PYTHONPATH=str(tmp_path))
