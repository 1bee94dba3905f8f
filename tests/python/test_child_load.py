"""Many sessions at once, each with children of its own, while another thread rewrites the environment."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context

import pytest

from hermes_env_bridge import session_context, spawn

SESSIONS, CHILDREN = 500, 10

# How many children run at a time.
RUNNING = 16

COMMAND = ("/bin/sh", "-c", 'printf %s "$HERMES_SESSION_KEY/$HERMES_SESSION_ID"')


@contextmanager
def environment_in_motion() -> Iterator[None]:
    """Another thread writes other sessions' names, and names that nobody knows, all the time."""
    stop = threading.Event()

    def write() -> None:
        for at in itertools.cycle(range(1000)):
            if stop.is_set():
                return
            os.environ["HERMES_SESSION_KEY"] = f"foreign{at}"
            os.environ[f"IN_MOTION_{at % 50}"] = "x"
            os.environ.pop(f"IN_MOTION_{(at + 25) % 50}", None)
            os.environ.pop("HERMES_SESSION_KEY")
            time.sleep(0)  # lets go of the interpreter, which this would otherwise have most of the time

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()
        for at in range(50):
            os.environ.pop(f"IN_MOTION_{at}", None)


async def by_asyncio() -> bytes:
    process = await spawn.create_subprocess_exec(*COMMAND, stdout=subprocess.PIPE)
    return (await process.communicate())[0]


def blocking() -> bytes:
    said: bytes = spawn.run(COMMAND, stdout=subprocess.PIPE).stdout
    return said


async def by_thread() -> bytes:
    said: Future[bytes] = Future()
    context = copy_context()

    def work() -> None:
        try:
            said.set_result(context.run(blocking))
        except BaseException as error:
            said.set_exception(error)

    threading.Thread(target=work).start()
    return await asyncio.wrap_future(said)


async def by_executor(pool: ThreadPoolExecutor) -> bytes:
    return await asyncio.get_running_loop().run_in_executor(pool, copy_context().run, blocking)


async def session(at: int, slots: asyncio.Semaphore, pool: ThreadPoolExecutor) -> Counter[str]:
    """What the children of one session said: whether it was their own session, another one, or none."""
    session_context.set_session_vars(session_key=f"K{at}", session_id=f"I{at}")
    counted: Counter[str] = Counter()
    for child in range(CHILDREN):
        async with slots:
            try:
                said = await (by_asyncio, by_thread, lambda: by_executor(pool))[child % 3]()
            except Exception as error:
                counted[f"{type(error).__name__}: {error}"] += 1
                continue
        counted["own" if said == b"K%d/I%d" % (at, at) else "missing" if said == b"/" else "foreign"] += 1
    return counted


def test_every_child_of_many_concurrent_sessions_has_its_own_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HERMES_SESSION_KEY", raising=False)
    monkeypatch.setattr(session_context, "_session_context_engaged", False)

    async def every_session() -> Counter[str]:
        slots = asyncio.Semaphore(RUNNING)
        with ThreadPoolExecutor(RUNNING) as pool:
            tasks = [asyncio.create_task(session(at, slots, pool)) for at in range(SESSIONS)]
            return sum(await asyncio.gather(*tasks), Counter())

    with environment_in_motion():
        assert asyncio.run(every_session()) == {"own": SESSIONS * CHILDREN}
