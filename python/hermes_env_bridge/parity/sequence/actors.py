"""Who acts in a differential run: contexts, tasks and threads, each doing one thing at a time when told to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from queue import SimpleQueue
from typing import Any, Protocol

from .comparison import Raised

Job = Callable[[], Any]


class Actor(Protocol):
    """Somebody with a context of their own."""

    name: str

    def run(self, job: Job) -> Any:
        """What *job* returns or raises when this actor does it."""

    def end(self) -> None:
        """Let the actor finish."""


class ContextActor:
    """A context that is entered for each job."""

    def __init__(self, name: str, context: Context) -> None:
        """An actor whose jobs run in *context*."""
        self.name = name
        self.context = context

    def run(self, job: Job) -> Any:
        """What *job* returns or raises inside the context."""
        return self.context.run(job)

    def end(self) -> None:
        """Nothing is running between jobs, so nothing has to stop."""


class ThreadActor:
    """A thread that waits for a job, does it in its own base context, and waits again."""

    def __init__(self, name: str, parent: Actor) -> None:
        """Let *parent* start the thread."""
        self.name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._results: SimpleQueue[object] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        # By the parent, since an interpreter may let the thread inherit its starter's context.
        parent.run(self._thread.start)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._results.put(caught(job))

    def run(self, job: Job) -> Any:
        """What *job* returns or raises in the thread."""
        self._jobs.put(job)
        return released(self._results.get())

    def end(self) -> None:
        """Let the thread finish, and wait until it has."""
        self._jobs.put(None)
        self._thread.join()


class TaskActor:
    """An asyncio task made by another actor, which awaits a job, does it, and awaits the next."""

    def __init__(self, name: str, parent: Actor, loop: asyncio.AbstractEventLoop) -> None:
        """Let *parent* create the task on *loop*."""
        self.name = name
        self._loop = loop
        self._next: asyncio.Future[Callable[[], Awaitable[object]] | None] = loop.create_future()
        self._done: asyncio.Future[object] = loop.create_future()
        self._task: asyncio.Task[None] = parent.run(lambda: loop.create_task(self._serve()))

    async def _serve(self) -> None:
        while (make := await self._next) is not None:
            self._next = self._loop.create_future()
            try:
                result = await make()
            except BaseException as error:
                result = Raised(error)
            self._done.set_result(result)

    def run(self, job: Job) -> Any:
        """What *job* returns or raises in the task."""

        async def plain() -> object:
            return job()

        return self.run_awaited(plain)

    def run_awaited(self, make: Callable[[], Awaitable[object]]) -> Any:
        """What the awaitable that *make* returns gives or raises when the task awaits it."""
        self._done = self._loop.create_future()
        self._next.set_result(make)
        return released(self._loop.run_until_complete(self._done))

    def end(self) -> None:
        """Let the task finish."""
        self._next.set_result(None)
        self._loop.run_until_complete(self._task)


def caught(job: Job) -> object:
    """What *job* returns, or what it raises as a value, to be carried to another thread."""
    try:
        return job()
    except BaseException as error:
        return Raised(error)


def released(result: object) -> object:
    """*result*, or the exception that it carries, raised."""
    if isinstance(result, Raised):
        raise result.error
    return result


def drive(awaitable: Awaitable[Any]) -> Any:
    """What *awaitable* gives or raises; it is one that never has to wait."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waited")
