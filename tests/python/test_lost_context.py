"""Reads that fall through in a task or thread that never bound a session, and sessions bound without an id."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from contextvars import Context, copy_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import fresh, hermes_file, run_python

from hermes_env_bridge import Snapshot, _core, guard, report, session_context, snapshot
from hermes_env_bridge._install import adapt

KEY = "HERMES_SESSION_KEY"


@pytest.fixture(autouse=True)
def engaged(in_use: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in which a session was bound, elsewhere; the guard is off again afterwards."""
    monkeypatch.setattr(in_use, "_session_context_engaged", True)
    report(reset=True)
    yield
    guard("off")
    report(reset=True)


def read(name: str = KEY) -> str:
    return session_context.get_session_env(name, "d")


def lost() -> list[tuple[str, tuple[str, ...], int]]:
    return [(s.site.function, s.names, s.count) for s in report().sites if s.kind == "lost read"]


def test_a_read_in_a_thread_that_lost_the_session_is_counted_by_its_line() -> None:
    def approve() -> None:
        for _ in range(3):
            read()

    def turn() -> None:
        session_context.set_session_vars(session_key="A", session_id="i")
        read()
        thread = threading.Thread(target=approve)
        thread.start()
        thread.join()

    guard("off", reads="count")
    fresh(turn)
    (site,) = report().sites
    assert (site.kind, site.names, site.count) == ("lost read", (KEY,), 3)
    assert (Path(site.site.file), site.site.function) == (Path(__file__), "read")


def test_a_read_in_a_task_that_was_made_before_the_session_is_counted() -> None:
    async def receive(queue: asyncio.Queue[Any]) -> str:
        await queue.get()
        return read()

    async def main() -> str:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        receiver = asyncio.create_task(receive(queue))
        session_context.set_session_vars(session_key="A", session_id="i")
        await queue.put(None)
        return await receiver

    guard("off", reads="count")
    assert fresh(asyncio.run, main()) == "d"
    assert lost() == [("read", (KEY,), 1)]


@pytest.mark.parametrize(
    "before",
    [
        lambda: session_context.set_session_vars(session_key="A", session_id="i"),
        lambda: session_context.clear_session_vars([]),
        lambda: session_context.reset_session_vars(),
        lambda: session_context.declare_stateless_channel(),
        lambda: session_context._VAR_MAP["HERMES_CRON_AUTO_DELIVER_PLATFORM"].set("telegram"),
    ],
    ids=["bound", "cleared", "reset", "declared stateless", "a variable alone"],
)
def test_a_read_in_a_task_that_has_said_what_it_is_is_not_lost(before: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_CRON_SESSION", "1")

    def turn() -> tuple[str, str]:
        before()
        read()
        return read("HERMES_CRON_SESSION"), copy_context().run(read, "HERMES_CRON_SESSION")

    guard("off", reads="count")
    fresh(turn)
    assert lost() == []


def test_a_read_of_what_is_no_session_variable_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SESSION_ELSE", "x")
    guard("off", reads="count")
    assert fresh(read, "HERMES_SESSION_ELSE") == "x"
    assert lost() == []


def test_nothing_is_lost_before_a_session_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_context, "_session_context_engaged", False)
    guard("off", reads="count")
    fresh(read)
    assert lost() == []


def test_the_read_returns_what_it_returns_without_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    guard("off", reads="warn")
    assert fresh(read) == "d"
    monkeypatch.setenv(KEY, "from the environment")
    assert fresh(read) == "from the environment"


@pytest.mark.parametrize(("mode", "reads", "logged"), [("warn", None, 0), ("off", "count", 0), ("off", "warn", 3)])
def test_it_is_logged_on_request_the_first_time_and_whenever_the_count_has_doubled(
    mode: Any, reads: Any, logged: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "a secret")
    guard(mode, reads=reads)
    with caplog.at_level(logging.WARNING, "hermes_env_bridge.guard"):
        for _ in range(7):
            fresh(read)
    assert [count for *_, count in lost()] == [7]
    assert len(caplog.records) == logged
    assert "a secret" not in caplog.text
    assert not logged or KEY in caplog.text


def test_turned_off_it_counts_nothing() -> None:
    guard("warn")
    guard("off")
    fresh(read)
    guard("warn", reads="off")
    fresh(read)
    assert report().sites == ()


def test_a_handler_that_reads_the_session_does_not_go_round_in_circles() -> None:
    class Tagging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            read("HERMES_SESSION_ID")

    logger, handler = logging.getLogger("hermes_env_bridge.guard"), Tagging()
    logger.addHandler(handler)
    try:
        guard("off", reads="warn")
        fresh(read)
    finally:
        logger.removeHandler(handler)
    assert {names for _, names, _ in lost()} == {(KEY,), ("HERMES_SESSION_ID",)}


def test_what_a_watcher_raises_stops_no_read_and_no_bind() -> None:
    told = run_python(
        "from hermes_env_bridge import _core, session_context as sc\n"
        "def no(*given): raise OSError('watcher')\n"
        "_core.watch(no, no)\n"
        "sc.set_session_vars(session_key='k')\n"
        "import contextvars\n"
        "print(contextvars.Context().run(sc.get_session_env, 'HERMES_SESSION_KEY', 'd'))"
    )
    assert told.stdout == "d\n"
    assert told.stderr.count("OSError: watcher") == 2


def test_reads_of_hermes_own_module_adapted_are_watched_too() -> None:
    module = adapt(str(hermes_file()), "watched_session_context")
    guard("off", reads="count")
    module.set_session_vars(session_key="A")
    thread = threading.Thread(target=module.get_session_env, args=(KEY,))
    thread.start()
    thread.join()
    assert [(site.kind, site.names) for site in report().sites] == [("lost read", (KEY,))]


def test_in_an_installed_hermes_the_site_is_the_callers_and_not_the_modules() -> None:
    told = run_python(
        "import hermes_env_bridge as h, contextvars\n"
        "sc = h.install()\n"
        "h.guard('warn', reads='count')\n"
        "def bind(): sc.set_session_vars(platform='telegram')\n"
        "def approve(): sc.get_session_env('HERMES_SESSION_KEY')\n"
        "contextvars.Context().run(bind)\n"
        "contextvars.Context().run(approve)\n"
        "for site in h.report().sites: print(site.kind, site.site.function, *site.names)"
    )
    assert told.stdout.splitlines() == [
        "bind without an id bind HERMES_SESSION_ID",
        "lost read approve HERMES_SESSION_KEY",
    ], told.stderr


# P15


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        ({"platform": "telegram", "chat_id": "1"}, 1),
        ({"platform": "telegram", "session_id": ""}, 1),
        ({"platform": "telegram", "session_id": "S1"}, 0),
        ({}, 0),
    ],
)
def test_p15_a_session_that_is_bound_without_an_id_is_counted_where_it_is_bound(
    given: dict[str, Any], counted: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HERMES_SESSION_ID", "S1")

    def handle_message() -> None:
        session_context.set_session_vars(**given)

    guard("off", reads="warn")
    fresh(handle_message)
    sites = report().sites
    assert [(s.kind, s.site.function.rpartition(".")[2], s.count) for s in sites] == [
        ("bind without an id", "handle_message", 1)
    ] * counted
    assert ("bound without an id" in caplog.text) == bool(counted)
    assert os.environ["HERMES_SESSION_ID"] == "S1"


def test_a_session_that_is_restored_without_an_id_is_counted_once_where_it_is_restored() -> None:
    def make(**given: str) -> Snapshot:
        session_context.set_session_vars(**given)  # type: ignore[arg-type]
        return snapshot()

    def work(of: Snapshot) -> None:
        with of.bound():
            pass

    kept = [fresh(make, platform="telegram"), fresh(make, platform="telegram", session_id="S1")]
    guard("off", reads="count")
    for each in kept:
        fresh(work, each)
    assert [(s.kind, s.site.function.rpartition(".")[2], s.count) for s in report().sites] == [
        ("bind without an id", "work", 1)
    ]


def test_a_watch_takes_two_watchers_or_none() -> None:
    seen: list[object] = []
    _core.watch(seen.append, None)
    fresh(read)
    _core.watch(None, None)
    assert seen == []
    assert Context().run(read) == "d"
