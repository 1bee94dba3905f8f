"""The actors of one sequence, and the ways in which one of them gets a job done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context

from .actors import Actor, ContextActor, Job, TaskActor, ThreadActor, caught, released

LIMIT = 6
KINDS = ("copied context", "empty context", "task", "thread")

DIRECTLY, COPIED, EMPTY, NESTED, POOL, POOL_COPIED, THREAD, CALLBACK, AWAITED_POOL, TO_THREAD, CHILD_TASK = ROUTES = (
    "directly",
    "in a copied context",
    "in an empty context",
    "inside another's context",
    "in a bare executor job",
    "in an executor job with its context copied",
    "in a new thread",
    "in a callback of the loop",
    "in an awaited executor job",
    "in asyncio.to_thread",
    "in an awaited child task",
)
# What somebody who cannot await does instead.
_UNAWAITED = {AWAITED_POOL: POOL, TO_THREAD: POOL_COPIED, CHILD_TASK: COPIED}


class Stage:
    """The actors, single-stepped: only one of them, and nothing else, ever runs."""

    def __init__(self) -> None:
        """A stage without actors, with a loop of its own."""
        self._loop = asyncio.new_event_loop()
        self._pool: ThreadPoolExecutor | None = None
        self._born = 0
        self.actors: list[Actor] = []
        self._awaited: dict[str, Callable[[TaskActor, Job], object]] = {
            AWAITED_POOL: lambda actor, job: actor.run_awaited(lambda: self._loop.run_in_executor(self._executor, job)),
            TO_THREAD: self._to_thread,
            CHILD_TASK: self._child_task,
        }

    def begin(self) -> None:
        """Start a sequence with one actor, whose context is empty."""
        self._born = 0
        self.actors = [ContextActor("main", Context())]

    def end(self) -> None:
        """Let every actor finish, the latest first, and the executor too."""
        while self.actors:
            self.actors.pop().end()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def close(self) -> None:
        """End what is left and close the loop."""
        self.end()
        self._loop.close()

    def pick(self, index: int, wish: str) -> Actor:
        """The actor that *index* means, whatever their number; if there is one, one that can do as *wish* says."""
        able = [actor for actor in self.actors if isinstance(actor, TaskActor)] if wish in _UNAWAITED else []
        among = able or self.actors
        return among[index % len(among)]

    @property
    def full(self) -> bool:
        """True if there may be no more actors."""
        return len(self.actors) >= LIMIT

    def spawn(self, kind: str, parent: Actor) -> Actor:
        """A new actor of *kind*, made by *parent*."""
        self._born += 1
        name = f"{kind} {self._born}"
        actor: Actor
        if kind == "task":
            actor = TaskActor(name, parent, self._loop)
        elif kind == "thread":
            actor = ThreadActor(name, parent)
        else:
            actor = ContextActor(name, Context() if kind == "empty context" else parent.run(copy_context))
        self.actors.append(actor)
        return actor

    def finish(self, actor: Actor) -> None:
        """Let *actor* finish and leave."""
        self.actors.remove(actor)
        actor.end()

    def route(self, actor: Actor, wish: str) -> str:
        """The way *actor* takes when *wish* is asked for: not everybody can await or has somebody to nest in."""
        if wish == NESTED and self._other(actor) is None:
            return DIRECTLY
        return wish if isinstance(actor, TaskActor) else _UNAWAITED.get(wish, wish)

    def perform(self, actor: Actor, route: str, job: Job) -> None:
        """Let *actor* get *job* done by *route*; what the job raises is raised."""
        if route == DIRECTLY:
            actor.run(job)
        elif route == CALLBACK:
            self._callback(actor, job)
        elif route in self._awaited:
            assert isinstance(actor, TaskActor)
            self._awaited[route](actor, job)
        else:
            actor.run(lambda: self._indirectly(actor, route, job))

    def _indirectly(self, actor: Actor, route: str, job: Job) -> None:
        if route == COPIED:
            copy_context().run(job)
        elif route == EMPTY:
            Context().run(job)
        elif route == POOL:
            self._executor.submit(job).result()
        elif route == POOL_COPIED:
            self._executor.submit(copy_context().run, job).result()
        elif route == THREAD:
            _in_new_thread(job)
        else:
            other = self._other(actor)
            assert other is not None
            other.run(job)

    def _other(self, actor: Actor) -> ContextActor | None:
        others = [other for other in self.actors if isinstance(other, ContextActor) and other is not actor]
        return others[-1] if others else None

    @property
    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
            self._loop.set_default_executor(self._pool)
        return self._pool

    def _to_thread(self, actor: TaskActor, job: Job) -> object:
        assert self._executor
        return actor.run_awaited(lambda: asyncio.to_thread(job))

    def _child_task(self, actor: TaskActor, job: Job) -> object:
        async def body() -> None:
            job()

        return actor.run_awaited(lambda: self._loop.create_task(body()))

    def _callback(self, actor: Actor, job: Job) -> None:
        results: list[object] = []
        actor.run(lambda: self._loop.call_soon(lambda: results.append(caught(job))))
        while not results:
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        released(results.pop())


def _in_new_thread(job: Job) -> None:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(caught(job)))
    thread.start()
    thread.join()
    released(results.pop())
