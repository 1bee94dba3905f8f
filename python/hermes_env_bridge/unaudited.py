"""Puts spawns before the guard that raise no audit event: those of ``multiprocessing`` and of uvloop.

Nothing here is done unless it is asked for. What is wrapped is judged as :func:`hermes_env_bridge.guard` says at the
moment of the spawn.
"""

from __future__ import annotations

import asyncio
import multiprocessing.context
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from hermes_env_bridge._guard import check_spawn
from hermes_env_bridge._planned import by_items

_Loop = TypeVar("_Loop", bound=asyncio.AbstractEventLoop)


class SpawnProcess(multiprocessing.context.SpawnProcess):
    """A process of the start method ``spawn``, judged by the environment of this process, which it inherits."""

    def start(self) -> None:
        """Start the process, unless the guard refuses it."""
        check_spawn("multiprocessing spawn")
        super().start()


class ForkServerProcess(multiprocessing.context.ForkServerProcess):
    """A process of the start method ``forkserver``, judged by the environment that this process has now.

    What it has in fact is what the server inherited when it was started, with the first of these processes.
    """

    def start(self) -> None:
        """Start the process, unless the guard refuses it."""
        check_spawn("multiprocessing forkserver")
        super().start()


class SpawnContext(multiprocessing.context.SpawnContext):
    """A ``multiprocessing`` context whose processes, pools' and executors' too, the guard sees."""

    Process: ClassVar[Any] = SpawnProcess

    def get_context(self, method: str | None = None) -> Any:
        """The context of *method*, by default this one, guarded where there is a guarded one."""
        return _context(self, method)


class ForkServerContext(multiprocessing.context.ForkServerContext):
    """A ``multiprocessing`` context whose processes, pools' and executors' too, the guard sees."""

    Process: ClassVar[Any] = ForkServerProcess

    def get_context(self, method: str | None = None) -> Any:
        """The context of *method*, by default this one, guarded where there is a guarded one."""
        return _context(self, method)


_CONTEXTS: dict[str, type[SpawnContext | ForkServerContext]] = {"spawn": SpawnContext, "forkserver": ForkServerContext}


def _context(context: multiprocessing.context.BaseContext, method: str | None) -> multiprocessing.context.BaseContext:
    if method is None or method == context.get_start_method():
        return context
    return guarded_context(method) if method in _CONTEXTS else multiprocessing.get_context(method)


def guarded_context(method: str) -> SpawnContext | ForkServerContext:
    """Return what ``multiprocessing.get_context(method)`` returns, with processes that the guard sees.

    Raises ValueError for another method than "spawn" and "forkserver". A process of "fork" has no environment of its
    own but the whole context of the task: see :func:`hermes_env_bridge.threads.after_fork_in_child`.
    """
    if method not in _CONTEXTS:
        raise ValueError(f"{method!r} is no start method that inherits an environment; choose from spawn, forkserver")
    return _CONTEXTS[method]()


def guard_loop(loop: _Loop) -> _Loop:
    """Have the guard see the children of *loop*, which starts them by itself as uvloop does, and return *loop*.

    Not for asyncio's own loops, whose children the guard sees anyway and would see twice. Doing it again changes
    nothing.
    """
    for name in ("subprocess_exec", "subprocess_shell"):
        spawn = getattr(loop, name)
        if not isinstance(spawn, _Guarded):
            setattr(loop, name, _Guarded(f"{type(loop).__module__}.{name}", spawn))
    return loop


class _Guarded:
    def __init__(self, what: str, spawn: Callable[..., Awaitable[Any]]) -> None:
        self.what = what
        self.spawn = spawn

    def __call__(self, *args: Any, **options: Any) -> Awaitable[Any]:
        check_spawn(self.what, options.get("env"), by_items)
        return self.spawn(*args, **options)
