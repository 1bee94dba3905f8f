"""What the guard cannot see, and the wrappers that show it some of that."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_env_bridge.unaudited import guarded_context

PROGRAM = Path(__file__).with_name("unaudited_spawns.py")

UNSEEN = [
    "fork_exec",
    "the C library",
    "putenv",
    "a command line",
    "bare spawn",
    "bare spawn pool",
    "bare spawn executor",
    "bare forkserver",
    "bare uvloop",
    "bare uvloop shell",
]
WRAPPED = [
    "guarded spawn",
    "guarded spawn pool",
    "guarded spawn executor",
    "guarded forkserver",
    "guarded forkserver executor",
    "guarded uvloop",
    "guarded uvloop shell",
]


def start(way: str, mode: str, tmp_path: Path) -> Any:
    if "uvloop" in way:
        pytest.importorskip("uvloop")
    told = subprocess.run(
        [sys.executable, str(PROGRAM), way, str(tmp_path / "out"), mode],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


@pytest.mark.parametrize("way", UNSEEN)
def test_a_spawn_that_raises_no_event_is_not_seen(way: str, tmp_path: Path) -> None:
    assert start(way, "block", tmp_path) == {"got": "stale", "refused": None, "foreign": 0}


@pytest.mark.parametrize("way", WRAPPED)
def test_a_wrapper_shows_it_to_the_guard(way: str, tmp_path: Path) -> None:
    assert start(way, "warn", tmp_path) == {"got": "stale", "refused": None, "foreign": 1}
    assert start(way, "block", tmp_path) == {"got": None, "refused": ["HERMES_SESSION_KEY"], "foreign": 1}


@pytest.mark.parametrize("way", ["guarded spawn", "guarded uvloop"])
def test_a_wrapper_lets_everything_pass_where_the_guard_is_off(way: str, tmp_path: Path) -> None:
    assert start(way, "off", tmp_path) == {"got": "stale", "refused": None, "foreign": 0}


def test_a_guarded_context_is_one_of_its_method_and_there_is_none_for_fork() -> None:
    for method in ("spawn", "forkserver"):
        context = guarded_context(method)
        assert context.get_start_method() == method
        plain: Any = multiprocessing.get_context(method)
        assert issubclass(context.Process, plain.Process)
        assert context.get_context() is context.get_context(method) is context
        for other in ("spawn", "forkserver"):
            assert type(context.get_context(other)) is type(guarded_context(other))
        assert context.get_context("fork") is multiprocessing.get_context("fork")
    with pytest.raises(ValueError, match="'fork' is no start method"):
        guarded_context("fork")
