"""What went wrong for people, a test each; on ours, and on Hermes' own module where it has the feature.

The numbers are those of the reports that the project was designed from.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import Session, fresh

KEY = "HERMES_SESSION_KEY"


def test_p01_a_cleared_session_does_not_come_back_from_the_environment(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "stale")
    assert sc.get_session_env(KEY, "d") == "stale"
    tokens = sc.bind(session_key="live")
    assert sc.get_session_env(KEY, "d") == "live"
    sc.clear_session_vars(tokens)
    assert sc.get_session_env(KEY, "d") == ""
    sc.reset_session_vars()
    assert sc.get_session_env(KEY, "d") == "stale"


def test_p02_what_a_bind_is_not_given_is_empty_and_masks_the_environment(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_SESSION_THREAD_ID", "17")
    sc.bind(platform="telegram", chat_id="1")
    assert sc.get_session_env("HERMES_SESSION_THREAD_ID", "d") == ""


def test_p03_to_thread_and_a_copied_context_carry_the_session_and_a_bare_executor_does_not(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "stale")

    async def turn() -> tuple[str, str, str]:
        sc.bind(session_key="A")

        def read() -> str:
            return sc.get_session_env(KEY)  # type: ignore[no-any-return]

        loop = asyncio.get_running_loop()
        bare = await loop.run_in_executor(None, read)
        return bare, await asyncio.to_thread(read), await loop.run_in_executor(None, copy_context().run, read)

    inherits = bool(getattr(sys.flags, "thread_inherit_context", 0))
    assert asyncio.run(turn()) == ("A" if inherits else "stale", "A", "A")


def test_p04_a_task_inherits_the_session_in_which_it_was_made_until_it_resets(sc: Session) -> None:
    name = "HERMES_SESSION_CHAT_ID"
    seen: list[object] = []

    async def second() -> None:
        seen.append(sc.get_session_env(name))
        sc.reset_session_vars()
        seen.append(sc.get_session_env(name))
        seen.append(sc.bridge({name: "mirror", "HERMES_SESSION_KEY": "mirror", "PATH": "/bin"}))

    async def first() -> None:
        sc.bind(chat_id="A")
        await asyncio.create_task(second())
        seen.append(sc.get_session_env(name))

    asyncio.run(first())
    assert seen == ["A", "", {"PATH": "/bin"}, "A"]


def test_p05_a_clear_leaves_a_scheduled_jobs_target_and_a_reset_does_not(sc: Session) -> None:
    name = "HERMES_CRON_AUTO_DELIVER_CHAT_ID"
    sc._VAR_MAP[name].set("42")
    sc.clear_session_vars(sc.bind())
    assert sc.get_session_env(name, "d") == "42"
    sc.reset_session_vars()
    assert sc.get_session_env(name, "d") == "d"


def test_p06_a_job_that_unsets_its_target_shows_the_next_one_the_environment(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "HERMES_CRON_AUTO_DELIVER_PLATFORM"
    monkeypatch.setenv(name, "tg")
    sc._VAR_MAP[name].set("x")
    sc._VAR_MAP[name].set(sc._UNSET)
    assert sc.get_session_env(name) == "tg"


def test_p07_the_cron_flag_is_unset_unless_stated_and_empty_for_a_human_turn(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "HERMES_CRON_SESSION" not in sc._VAR_MAP:
        pytest.skip("the cron flag came after Hermes 0.19.0, whose module this is")
    monkeypatch.setenv("HERMES_CRON_SESSION", "1")
    sc.bind(platform="telegram")
    assert sc.get_session_env("HERMES_CRON_SESSION") == "1"
    assert "HERMES_CRON_SESSION" not in sc.bridge(dict(os.environ))
    sc.bind(platform="telegram", cron_session="")
    assert sc.get_session_env("HERMES_CRON_SESSION") == ""
    assert sc.bridge(dict(os.environ))["HERMES_CRON_SESSION"] == ""


def test_p08_a_delegated_child_does_not_write_the_process_wide_id(sc: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    if sc.kind != "own":
        pytest.skip("delegated children came after Hermes 0.19.0, whose module this is")
    delegation = ModuleType("agent.delegation_context")
    delegated = contextvars.ContextVar("delegated", default=False)
    delegation.is_delegated_child_context = delegated.get  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "agent", ModuleType("agent"))
    monkeypatch.setitem(sys.modules, "agent.delegation_context", delegation)
    monkeypatch.setenv("HERMES_SESSION_ID", "before")
    sc.set_current_session_id("parent")

    def child() -> str:
        delegated.set(True)
        sc.set_current_session_id("child")
        return sc.get_session_env("HERMES_SESSION_ID")  # type: ignore[no-any-return]

    assert copy_context().run(child) == "child"
    assert (os.environ["HERMES_SESSION_ID"], sc.get_session_env("HERMES_SESSION_ID")) == ("parent", "parent")


@pytest.mark.parametrize(("closed", "seen"), [(False, "gen"), (True, "outer")])
def test_p10_an_async_generator_that_is_left_early_never_raises_and_restores_if_closed(
    sc: Session, closed: bool, seen: str
) -> None:
    scoped = sc.scoped_current_session_id

    async def generator() -> Any:
        with scoped("gen"):
            yield 1
            yield 2

    async def consume() -> str:
        sc._SESSION_ID.set("outer")
        running = generator()
        async with contextlib.aclosing(running) if closed else contextlib.nullcontext():
            async for _ in running:
                break
        return sc.get_session_env("HERMES_SESSION_ID")  # type: ignore[no-any-return]

    assert asyncio.run(consume()) == seen


def test_p11_a_clear_does_not_look_at_tokens_of_another_context_used_ones_or_none(sc: Session) -> None:
    tokens = Context().run(sc.module.set_session_vars)
    assert tokens
    given: object
    for given in (tokens, tokens, [], None):
        sc.clear_session_vars(given)
        assert sc.get_session_env(KEY, "d") == ""


def test_p12_declaring_a_stateless_channel_does_not_latch_the_process(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "mine")
    sc.declare_stateless_channel()
    assert not sc.async_delivery_supported()
    assert not sc.session_context_engaged()
    assert sc.bridge(dict(os.environ))[KEY] == "mine"


def test_p13_a_board_workers_marker_decides_and_an_empty_one_does_not(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sc.kind == "own":
        sc.bind(async_delivery=True)
        monkeypatch.setenv("HERMES_KANBAN_TASK", "t1")
        assert not sc.async_delivery_supported()
        monkeypatch.setenv("HERMES_KANBAN_TASK", "")
        assert sc.async_delivery_supported()
    sc.bind(async_delivery=0)
    assert not sc.async_delivery_supported()
    assert sc._SESSION_ASYNC_DELIVERY.get() is False
    sc.clear_session_vars([])
    assert sc.async_delivery_supported()


def test_p14_a_later_bind_replaces_the_declaration_in_this_context_only(sc: Session) -> None:
    def turn() -> tuple[bool, bool]:
        sc.declare_stateless_channel()
        declared = sc.async_delivery_supported()
        sc.bind(platform="mobile", async_delivery=True)
        return declared, sc.async_delivery_supported()

    other = copy_context()
    other.run(sc.declare_stateless_channel)
    assert copy_context().run(turn) == (False, True)
    assert not other.run(sc.async_delivery_supported)


def test_p15_an_id_that_a_bind_is_not_given_is_empty_in_reads_and_for_children(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_SESSION_ID", "S1")
    sc.bind(platform="telegram", chat_id="1")
    assert sc.get_session_env("HERMES_SESSION_ID") == ""
    assert sc.bridge(dict(os.environ))["HERMES_SESSION_ID"] == ""


def test_p16_the_bound_value_comes_before_the_environment_and_empty_is_final(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_SESSION_ID", "B")
    sc.bind(session_id="A")
    assert sc.get_session_env("HERMES_SESSION_ID") == "A"
    sc.clear_session_vars([])
    assert not sc.get_session_env("HERMES_SESSION_ID")


def test_p18_a_handler_reads_the_session_of_the_thread_that_calls_it(sc: Session) -> None:
    def handler() -> str:
        return sc.get_session_env(KEY, "nobody")  # type: ignore[no-any-return]

    def serve(key: str) -> tuple[str, str]:
        sc.bind(session_key=key)
        first = handler()
        sc.bind(session_key=key + "/2")
        return first, handler()

    with ThreadPoolExecutor(2) as pool:
        served = [pool.submit(Context().run, serve, key) for key in ("1:41", "2:77")]
        assert [future.result() for future in served] == [("1:41", "1:41/2"), ("2:77", "2:77/2")]
    assert fresh(handler) == "nobody"


def test_p19_only_set_current_session_id_writes_the_process_environment(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(os.environ)
    sc.bind(platform="discord", chat_id="c", thread_id="t", session_key="k", session_id="i")
    sc.declare_stateless_channel()
    sc.clear_session_vars([])
    sc.reset_session_vars()
    assert dict(os.environ) == before
    monkeypatch.setenv("HERMES_SESSION_ID", "")
    sc.set_current_session_id("i")
    assert dict(os.environ) == before | {"HERMES_SESSION_ID": "i"}


def test_p21_private_names_work_as_tests_and_plugins_use_them(sc: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    sc.bind(session_id="x")
    for var in sc._VAR_MAP.values():
        var.set(sc._UNSET)
    assert sc.session_context_engaged()
    with monkeypatch.context() as patch:
        patch.setattr(sc.module, "_session_context_engaged", False)
        assert not sc.session_context_engaged()
    assert sc.session_context_engaged()
    token = sc._SESSION_ID.set("x")
    sc._SESSION_ID.reset(token)
    assert copy_context().run(sc._SESSION_ID.get) is sc._UNSET


@pytest.mark.parametrize(
    ("keywords", "messaging"),
    [
        ({"platform": "telegram"}, True),
        ({"platform": "api_server"}, False),
        ({"source": "desktop"}, False),
        ({"source": "myplug"}, True),
        ({"platform": " CLI "}, False),
        ({"platform": "api_server", "source": "telegram"}, True),
        ({"platform": None, "source": 0}, False),
    ],
)
def test_p22_either_of_platform_and_source_makes_a_turn_a_chat(
    sc: Session, keywords: dict[str, object], messaging: bool
) -> None:
    sc.bind(**keywords)
    assert sc.session_is_messaging_surface() is messaging


def test_p22_a_process_wide_platform_replaces_the_sessions_but_not_its_source(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_PLATFORM", "cli")
    sc.bind(platform="telegram")
    assert not sc.session_is_messaging_surface()
    sc.bind(platform="telegram", source="telegram")
    assert sc.session_is_messaging_surface()


def test_p23_a_platform_that_nobody_listed_is_a_chat(sc: Session) -> None:
    sc.bind(platform="wecom")
    assert sc.session_is_messaging_surface()
    assert isinstance(sc.NON_MESSAGING_SESSION_SURFACES, frozenset)
    assert "" in sc.NON_MESSAGING_SESSION_SURFACES


def test_p24_a_pooled_thread_keeps_what_a_job_bound_unless_the_job_has_its_own_context(sc: Session) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(copy_context().run, lambda: sc.bind(session_key="job0")).result()
        assert pool.submit(sc.get_session_env, KEY, "d").result() == "d"
        pool.submit(lambda: sc.bind(session_key="job1")).result()
        assert pool.submit(sc.get_session_env, KEY).result() == "job1"


def test_p25_a_thread_starts_as_the_interpreter_says(sc: Session) -> None:
    sc.bind(session_key="A")
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(sc.get_session_env(KEY, "none")))
    thread.start()
    thread.join()
    assert seen == ["A" if getattr(sys.flags, "thread_inherit_context", 0) else "none"]


def test_p26_an_ingress_that_resets_sees_nothing_of_the_context_that_its_callback_was_made_in(sc: Session) -> None:
    seen: list[str] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def on_next_message() -> None:
            seen.append(sc.get_session_env(KEY, "none"))
            sc.reset_session_vars()
            seen.append(sc.get_session_env(KEY, "none"))
            done.set()

        context = copy_context()
        context.run(lambda: sc.bind(session_key="A"))
        context.run(loop.call_soon, on_next_message)
        await done.wait()

    asyncio.run(serve())
    assert seen == ["A", "none"]


def test_x04_the_environment_is_never_cached(sc: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "HERMES_SESSION_PROFILE"
    seen = []
    for value in ("a", "b"):
        monkeypatch.setenv(name, value)
        seen.append(sc.get_session_env(name, "d"))
    monkeypatch.delenv(name)
    assert [*seen, sc.get_session_env(name, "d")] == ["a", "b", "d"]


PROCESSES = """
import multiprocessing, os, pickle, sys
from concurrent.futures import ProcessPoolExecutor
from contextvars import copy_context

import hermes_env_bridge as bridge

if sys.argv[2] == "install":
    bridge.install()
from hermes_env_bridge import session_context as sc

NAMES = "HERMES_SESSION_KEY", "HERMES_SESSION_CHAT_ID", "HERMES_CRON_AUTO_DELIVER_PLATFORM"

def read():
    return [sc.get_session_env(name, "none") for name in NAMES]

def rebound(mapping):
    snapshot = bridge.Snapshot.from_mapping(mapping)
    return snapshot.run(read), snapshot.run(bridge.snapshot) == snapshot, read()

if __name__ == "__main__":
    try:
        pickle.dumps(copy_context())
    except TypeError:
        print("a context cannot be pickled")
    sc.set_session_vars(session_key="A")
    taken = bridge.snapshot()
    parent = read()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
        assert pool.submit(taken.run, read).result() == parent == ["A", "", "none"]
        again, same, ambient = pool.submit(rebound, taken.to_mapping()).result()
        assert again == parent and same, again
        print(ambient)
"""


@pytest.mark.parametrize("module", ["install", "own"])
@pytest.mark.parametrize(
    ("method", "ambient"),
    [("fork", "['A', '', 'none']"), ("spawn", "['none', 'none', 'none']"), ("forkserver", "['none', 'none', 'none']")],
)
def test_x07_a_session_goes_to_another_process_as_data_with_its_states_and_is_bound_there(
    method: str, ambient: str, module: str, tmp_path: Path
) -> None:
    program = tmp_path / "processes.py"
    program.write_text(PROCESSES)
    result = subprocess.run(
        [sys.executable, str(program), method, module], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stdout) == (0, f"a context cannot be pickled\n{ambient}\n"), result.stderr
