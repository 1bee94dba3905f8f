"""What went wrong for people with the context of a run, a test each.

The numbers are those of the reports that the project was designed from.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import hermes_env_bridge
from hermes_env_bridge import (
    OmniusRunContext,
    TelegramRunContext,
    bind,
    entry,
    get_omnius_run_context,
    get_telegram_run_context,
    is_omnius_run_finished,
    omnius_context,
    run_context,
    run_with_omnius_context,
    spawn_detached,
)


def record(run_id: str, **fields: Any) -> OmniusRunContext:
    return OmniusRunContext(run_id=run_id, surface="api", **fields)


def seen() -> str | None:
    run = get_omnius_run_context()
    return None if run is None else run.run_id


def test_c01_interleaved_runs_always_read_their_own_project() -> None:
    async def work() -> set[str | None]:
        found = set()
        for _ in range(200):
            run = get_omnius_run_context()
            found.add(run and run.project_root)
            await asyncio.sleep(0)
        return found

    async def main() -> list[Any]:
        runs = [record("r", project_root=root) for root in ("/a", "/b")]
        return await asyncio.gather(*(run_with_omnius_context(run, work) for run in runs))

    assert asyncio.run(main()) == [{"/a"}, {"/b"}]


def test_c02_isolation_does_not_serialise_runs() -> None:
    """Each of eight waits inside for the other seven, as tasks and as threads."""

    async def main() -> None:
        arrived = asyncio.Barrier(8)
        async with asyncio.timeout(30):
            await asyncio.gather(*(run_with_omnius_context(record(str(n)), arrived.wait) for n in range(8)))

    asyncio.run(main())
    arrived = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        waits = [pool.submit(run_with_omnius_context, record(str(n)), arrived.wait, 30) for n in range(8)]
        assert sorted(wait.result() for wait in waits) == list(range(8))


def test_c03_a_queued_callback_sees_its_caller_unless_it_is_bound() -> None:
    jobs: list[Callable[[], str | None]] = []
    with omnius_context(record("A")):
        jobs += [seen, bind(seen)]
    with omnius_context(record("B")):
        assert [job() for job in jobs] == ["B", "A"]


def test_c04_a_bound_listener_sees_its_run_whoever_fires_it_and_is_told_when_that_has_ended() -> None:
    listeners: list[Callable[[], tuple[str | None, bool]]] = []

    def look() -> tuple[str | None, bool]:
        return seen(), is_omnius_run_finished()

    def emit() -> list[tuple[str | None, bool]]:
        return [listener() for listener in listeners]

    with omnius_context(record("A")):
        listeners += [look, bind(look)]
        assert emit() == [("A", False), ("A", False)]
    assert emit() == [(None, False), ("A", True)]
    assert run_with_omnius_context(record("B"), emit) == [("B", False), ("A", True)]


def test_c05_nothing_changes_the_context_without_an_end() -> None:
    public = [name for name in dir(run_context) if not name.startswith("_")]
    assert not [name for name in public if name.startswith(("set", "enter", "attach", "activate"))]
    for name in hermes_env_bridge.__all__:
        assert not name.startswith(("set_omnius", "enter"))


def test_c07_a_timer_set_before_a_throw_still_has_the_run_and_the_caller_has_none() -> None:
    async def main() -> tuple[str | None, str | None]:
        loop = asyncio.get_running_loop()
        late = loop.create_future()

        def start() -> None:
            loop.call_later(0.01, lambda: late.set_result(seen()))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError), omnius_context(record("A")):
            start()
        return seen(), await late

    assert asyncio.run(main()) == (None, "A")


def test_c09_a_jobs_project_is_nowhere_in_a_run_that_starts_meanwhile() -> None:
    child = "import os; print(os.getcwd(), dict(os.environ))"

    async def main() -> None:
        before = os.getcwd()
        started, done = asyncio.Event(), asyncio.Event()

        @entry.scheduler(project_root="/repo", bind_hermes=True)
        async def job() -> str | None:
            started.set()
            await done.wait()
            run = get_omnius_run_context()
            return run and run.project_root

        @entry.api(bind_hermes=True)
        async def request() -> tuple[str, str]:
            run = get_omnius_run_context()
            assert run is not None
            output = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", child], text=True)
            return run.to_json(), output

        going = asyncio.create_task(job())
        await started.wait()
        for told in await request():
            assert "/repo" not in told
        assert os.getcwd() == before
        done.set()
        assert await going == "/repo"

    asyncio.run(main())


def test_c10_a_later_message_changes_nothing_in_a_run_that_is_going() -> None:
    def message(thread: int) -> OmniusRunContext:
        chat = TelegramRunContext(
            chat_id=1, chat_type="supergroup", thread_id=thread, session_key="k", tool_context="t"
        )
        return OmniusRunContext(run_id="r", surface="telegram", telegram=chat)

    async def thread() -> int | None:
        chat = get_telegram_run_context()
        return chat and chat.thread_id

    async def first() -> list[int | None]:
        before = await thread()
        second = await asyncio.create_task(run_with_omnius_context(message(18), thread))
        return [before, second, await thread()]

    assert asyncio.run(run_with_omnius_context(message(17), first)) == [17, 18, 17]
    chat = message(17).telegram
    assert chat is not None
    with pytest.raises(AttributeError):
        chat.thread_id = 18  # type: ignore[misc]


def test_c11_a_call_can_say_its_owner_and_has_none_outside_of_a_run() -> None:
    def headers() -> dict[str, str]:
        run = get_omnius_run_context()
        return {} if run is None else {"omnius-run-context": run.to_json()}

    told = run_with_omnius_context(record("r", owner_kind="user", owner_id="u7"), headers)
    assert OmniusRunContext.from_json(told["omnius-run-context"]).owner_id == "u7"
    assert headers() == {}


def test_c12_a_stream_that_is_left_early_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def stream() -> AsyncIterator[int]:
        async with omnius_context(record("A")):
            yield 1
            yield 2

    async def other() -> set[str | None]:
        found = set()
        for _ in range(20):
            found.add(seen())
            await asyncio.sleep(0)
        return found

    async def leave() -> None:
        async for _ in stream():
            break
        gc.collect()
        await asyncio.sleep(0)

    async def main() -> set[str | None]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: pytest.fail(str(context)))
        bystander = asyncio.create_task(run_with_omnius_context(record("B"), other))
        await asyncio.create_task(leave())
        assert seen() is None
        return set(await bystander)

    with caplog.at_level(logging.INFO):
        assert asyncio.run(main()) == {"B"}
    assert not caplog.records


def test_c12_leaving_a_block_elsewhere_or_out_of_order_never_raises_and_takes_no_other_run() -> None:
    first, second, elsewhere = (omnius_context(record(run_id)) for run_id in "ABC")
    first.__enter__()
    second.__enter__()
    copied = contextvars.copy_context()
    first.__exit__(None, None, None)
    first.__exit__(None, None, None)
    assert seen() == "B"
    second.__exit__(None, None, None)
    assert seen() is None
    assert copied.run(seen) == "B"
    copied.run(second.__exit__, None, None, None)
    assert copied.run(seen) == "B"

    run_with_omnius_context(record("D"), elsewhere.__enter__)
    with omnius_context(record("E")):
        elsewhere.__exit__(None, None, None)
        assert seen() == "E"


def test_c13_a_detached_worker_does_each_job_for_the_run_that_ordered_it() -> None:
    async def main() -> list[str | None]:
        jobs: asyncio.Queue[Callable[[], str | None] | None] = asyncio.Queue()

        async def worker() -> list[str | None]:
            did = [seen()]
            while (job := await jobs.get()) is not None:
                did.append(job())
            return did

        with omnius_context(record("A")):
            task = spawn_detached(worker())
            jobs.put_nowait(bind(seen))
        with omnius_context(record("B")):
            jobs.put_nowait(bind(seen))
            jobs.put_nowait(seen)
        jobs.put_nowait(None)
        return await task

    assert asyncio.run(main()) == [None, "A", "B", None]


def test_c14_what_outlives_a_run_does_not_keep_its_record() -> None:
    """A record can hold ids and texts alone; a pool's thread that was started in a run does not keep its context."""

    class Big(str):
        __slots__ = ("__weakref__",)

    jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def worker() -> None:
        while (job := jobs.get()) is not None:
            job()

    def start(pool: list[threading.Thread]) -> None:
        pool.append(threading.Thread(target=worker))
        pool[0].start()

    message = Big("a message")
    kept = weakref.ref(message)
    run = record("A", owner_id=message)
    pool: list[threading.Thread] = []
    run_with_omnius_context(run, start, pool)
    del message, run
    gc.collect()
    assert kept() is None
    jobs.put(None)
    pool[0].join()
    for wrong in (object(), ["a message"]):
        with pytest.raises(TypeError):
            record("A", owner_id=wrong)
