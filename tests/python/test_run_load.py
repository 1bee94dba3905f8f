"""Ten thousand runs at once."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from hermes_env_bridge import (
    OmniusRunContext,
    bind,
    get_omnius_run_context,
    omnius_context,
    run_with_omnius_context,
)

RUNS = 10_000
HOPS = 20


def record(run_id: int) -> OmniusRunContext:
    return OmniusRunContext(run_id=str(run_id), surface="background")


def test_c06_ten_thousand_concurrent_runs_of_twenty_hops_see_their_own_run_alone() -> None:
    count: Counter[str] = Counter()

    def look(mine: int) -> None:
        run = get_omnius_run_context()
        count["missing" if run is None else "own" if run.run_id == str(mine) else "foreign"] += 1

    def look_and_tell(mine: int, told: asyncio.Future[None]) -> None:
        look(mine)
        told.set_result(None)

    def look_outside() -> None:
        count["outside"] += get_omnius_run_context() is not None

    async def look_later(mine: int) -> None:
        await asyncio.sleep(0)
        look(mine)

    async def stream(mine: int) -> AsyncIterator[None]:
        for _ in range(2):
            await asyncio.sleep(0)
            look(mine)
            yield

    async def hops(mine: int, callbacks: asyncio.Queue[object], pool: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        for hop in range(HOPS):
            match (mine + hop) % 8:
                case 0:
                    await asyncio.sleep(0)
                case 1:
                    timer = loop.create_future()
                    loop.call_later(0.001, look_and_tell, mine, timer)
                    await timer
                case 2:
                    await asyncio.create_task(look_later(mine))
                case 3:
                    await loop.run_in_executor(pool, bind(look), mine)
                case 4:
                    called = loop.create_future()
                    callbacks.put_nowait(functools.partial(bind(look_and_tell), mine, called))
                    await called
                case 5:
                    async for _ in run_with_omnius_context(record(mine), stream, mine):
                        look(mine)
                case 6:
                    other = mine + RUNS
                    run_with_omnius_context(record(other), look, other)
                    await run_with_omnius_context(record(other), look_later, other)
                case _:
                    async with omnius_context(record(mine + RUNS)):
                        await look_later(mine + RUNS)
            look(mine)

    async def call_back(callbacks: asyncio.Queue[object]) -> None:
        while (callback := await callbacks.get()) is not None:
            look_outside()
            assert callable(callback)
            callback()
            look_outside()

    async def churn() -> None:
        for _ in range(3):
            look_outside()
            await asyncio.sleep(0)

    async def main() -> None:
        callbacks: asyncio.Queue[object] = asyncio.Queue()
        other = asyncio.create_task(call_back(callbacks))
        with ThreadPoolExecutor(4) as pool:
            async with asyncio.TaskGroup() as group:
                for n in range(RUNS):
                    group.create_task(run_with_omnius_context(record(n), hops, n, callbacks, pool))
                    group.create_task(churn())
            await asyncio.get_running_loop().run_in_executor(pool, look_outside)
        callbacks.put_nowait(None)
        await other
        look_outside()

    asyncio.run(main())
    assert (count["foreign"], count["missing"], count["outside"]) == (0, 0, 0)
    # Threads count at once with others, so a few may be lost.
    assert count["own"] > RUNS * HOPS
