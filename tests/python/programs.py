"""Small programs of nesting, throwing, timers, tasks, queues and listeners, and what each of their steps sees.

``python tests/python/programs.py > tests/programs/programs.json`` writes those that are compared with Node.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

from hermes_env_bridge import OmniusRunContext, bind, get_omnius_run_context, omnius_context, run_with_omnius_context

Step = dict[str, Any]
Body = list[Step]

PROGRAMS = 60
RUNS = "ABCDE"
NAMES = "xyz"


def generate(seed: int) -> Body:
    """A program; which one depends on *seed* alone.

    Nothing in it depends on which of two tasks is first: queues and listeners are used in its main flow only.
    """
    choose = random.Random(seed)
    labels = count()

    def body(depth: int, kind: str, caught: bool) -> Body:
        steps = [step(depth, kind, caught) for _ in range(choose.randint(1, 4))]
        return [see(), *steps, see()]

    def see() -> Step:
        return {"op": "see", "label": f"s{next(labels)}"}

    def step(depth: int, kind: str, caught: bool) -> Step:
        ops = ["see"]
        if kind != "callback":
            ops += ["wait"]
        if kind == "main":
            ops += ["drain", "emit"] * 2
        if caught:
            ops += ["throw"]
        if depth < 4:
            ops += ["run"] * 4 + ["try"] * 2 + ["later", "task"]
            if kind == "main":
                ops += ["push", "on"] * 2
        op = choose.choice(ops)
        inner: dict[str, Callable[[], Step]] = {
            "see": see,
            "wait": lambda: {"op": op, "timer": choose.random() < 0.5},
            "drain": lambda: {"op": op, "queue": choose.choice(NAMES)},
            "emit": lambda: {"op": op, "event": choose.choice(NAMES)},
            "throw": lambda: {"op": op},
            "run": lambda: {"op": op, "id": choose.choice(RUNS), "body": body(depth + 1, kind, caught)},
            "try": lambda: {"op": op, "body": body(depth + 1, kind, True)},
            "later": lambda: {"op": op, "body": body(depth + 2, "callback", False)},
            "task": lambda: {"op": op, "body": body(depth + 2, "task", False)},
            "push": lambda: {"op": op, "queue": choose.choice(NAMES), **callback(depth)},
            "on": lambda: {"op": op, "event": choose.choice(NAMES), **callback(depth)},
        }
        return inner[op]()

    def callback(depth: int) -> Step:
        return {"bound": choose.random() < 0.5, "body": body(depth + 2, "callback", False)}

    main = body(0, "main", False)
    return [*main, *({"op": op, name: each} for op, name in (("drain", "queue"), ("emit", "event")) for each in NAMES)]


class ThrownError(Exception):
    """What a program throws."""


class World:
    """One run of a program, on asyncio."""

    def __init__(self) -> None:
        self.seen: dict[str, list[str]] = defaultdict(list)
        self.queues: dict[str, list[Callable[[], None]]] = defaultdict(list)
        self.listeners: dict[str, list[Callable[[], None]]] = defaultdict(list)
        self.pending: list[asyncio.Future[None]] = []

    async def run(self, program: Body) -> dict[str, list[str]]:
        await self.work(program)
        while self.pending:
            await self.pending.pop(0)
        self.see("outside")
        return {label: sorted(seen) for label, seen in self.seen.items()}

    def see(self, label: str) -> None:
        run = get_omnius_run_context()
        self.seen[label].append("none" if run is None else run.run_id)

    def callback(self, step: Step) -> Callable[[], None]:
        def call() -> None:
            self.call(step["body"])

        return bind(call) if step["bound"] else call

    def later(self, body: Body) -> None:
        done = asyncio.get_running_loop().create_future()
        self.pending.append(done)

        def call() -> None:
            self.call(body)
            done.set_result(None)

        asyncio.get_running_loop().call_later(0.001, call)

    def plain(self, step: Step) -> None:
        match step["op"]:
            case "see":
                self.see(step["label"])
            case "throw":
                raise ThrownError
            case "later":
                self.later(step["body"])
            case "task":
                self.pending.append(asyncio.create_task(self.work(step["body"])))
            case "push":
                self.queues[step["queue"]].append(self.callback(step))
            case "drain":
                for job in self.queues.pop(step["queue"], []):
                    job()
            case "on":
                self.listeners[step["event"]].append(self.callback(step))
            case "emit":
                for listener in self.listeners[step["event"]]:
                    listener()
            case _:
                raise ValueError(step["op"])

    def call(self, body: Body) -> None:
        for step in body:
            match step["op"]:
                case "run" if step["id"] in "ABC":
                    run_with_omnius_context(record(step["id"]), self.call, step["body"])
                case "run":
                    with omnius_context(record(step["id"])):
                        self.call(step["body"])
                case "try":
                    with contextlib.suppress(ThrownError):
                        self.call(step["body"])
                case _:
                    self.plain(step)

    async def work(self, body: Body) -> None:
        for step in body:
            match step["op"]:
                case "run" if step["id"] in "ABC":
                    await run_with_omnius_context(record(step["id"]), self.work, step["body"])
                case "run":
                    async with omnius_context(record(step["id"])):
                        await self.work(step["body"])
                case "try":
                    with contextlib.suppress(ThrownError):
                        await self.work(step["body"])
                case "wait":
                    await asyncio.sleep(0.001 if step["timer"] else 0)
                case _:
                    self.plain(step)


def record(run_id: str) -> OmniusRunContext:
    return OmniusRunContext(run_id=run_id, surface="background")


if __name__ == "__main__":
    json.dump([generate(seed) for seed in range(PROGRAMS)], sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
