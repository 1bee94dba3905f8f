"""Hands the session on to threads, and takes it back from what goes on working afterwards.

Python carries a task's context into tasks, ``asyncio.to_thread`` and ``run_coroutine_threadsafe``; a bare thread and
``loop.run_in_executor`` start without (a thread has it from the start where ``sys.flags.thread_inherit_context`` is
set). What is here carries it where the work is handed over. Nothing that the work binds comes back.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any, ParamSpec, TypeVar, cast

from hermes_env_bridge import _core, passthrough
from hermes_env_bridge._core import ASYNC_DELIVERY, SESSION_CWD
from hermes_env_bridge._deferred import refuse_deferred
from hermes_env_bridge._module import LATCH, never_bound, session_module, unset_of
from hermes_env_bridge._snapshot import variables_of

__all__ = ["GROUPS", "ContextExecutor", "Timer", "after_fork_in_child", "bind", "to_thread", "unset", "unset_after"]

P = ParamSpec("P")
T = TypeVar("T")

GROUPS: dict[str, tuple[str, ...]] = {
    "session": tuple(name for name, keyword in _core.VARIABLES if keyword is not None),
    "cron_delivery": tuple(name for name, keyword in _core.VARIABLES if keyword is None),
}
"""The names of variables by group: what a bind fills, and where a scheduled job delivers, which the job itself sets."""


def bind(function: Callable[P, T]) -> Callable[P, T]:
    """Return *function* so that it runs in the context of this call, whoever calls it: a callback, a thread, a pool.

    Each call has a copy of that context to itself, so calls may run side by side, and none sees what another has bound.
    A coroutine function runs as a task of its own. Raises TypeError for a generator function, whose body runs in the
    context of whoever iterates. So does a call of a plain function that returns a coroutine or a generator.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function!r} makes generators, which run in the context of their consumer; bind that one")
    context = copy_context()
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def bound_coroutine(*args: Any, **options: Any) -> Any:
            import asyncio  # who gets here has it; who imports the package may need no event loop

            return await asyncio.create_task(function(*args, **options), context=context.copy())

        return cast("Callable[P, T]", bound_coroutine)

    @functools.wraps(function)
    def bound(*args: P.args, **options: P.kwargs) -> T:
        result = context.copy().run(function, *args, **options)
        refuse_deferred(function, result, "bind the function that makes it, or one that awaits or consumes it")
        return result

    return bound


class ContextExecutor(ThreadPoolExecutor):
    """A ``ThreadPoolExecutor`` whose jobs run in a copy of the context in which they were submitted.

    Its threads start empty, so none keeps the identity of the job that happened to create it.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit *fn*, with the context that is current now."""
        submit: Callable[..., Future[T]] = super().submit
        return Context().run(submit, copy_context().run, fn, *args, **kwargs)


async def to_thread(function: Callable[..., T], /, *args: Any, executor: Executor | None = None, **keywords: Any) -> T:
    """Run *function* in a thread, in a copy of this task's context, and return what it returns.

    As ``asyncio.to_thread``, with an *executor* of threads of one's own if there is one, whose threads start empty.
    """
    call = functools.partial(copy_context().run, function, *args, **keywords)
    import asyncio

    return await Context().run(asyncio.get_running_loop().run_in_executor, executor, call)


class Timer(threading.Timer):
    """A ``threading.Timer`` whose function runs in a copy of the context in which the timer was started."""

    def start(self) -> None:
        """Start the timer, with the context that is current now."""
        self.function = bind(self.function)
        super().start()


def unset(*names: str) -> None:
    """Make variables ones that were never bound in this task, so that reads fall back to the environment.

    *names* are environment names or names of :data:`GROUPS`; without any, every variable. With the group "session", and
    without any names, the working directory and whether a completion can be delivered are unset too. For the end of a
    job on a thread that is used again: a variable set to ``""`` would tell the next job that there is no such value.
    Raises LookupError, with nothing changed, for a name that the session module has not got.
    """
    module = session_module()
    variables = variables_of(module)
    chosen: list[str] = []
    for given in names or variables:
        beside = (ASYNC_DELIVERY, SESSION_CWD) if given == "session" else ()
        group = (*GROUPS[given], *beside) if given in GROUPS else None
        chosen += [given] if group is None else [name for name in group if name in variables]
    unknown = [name for name in chosen if name not in variables]
    if unknown:
        known = f"a group ({', '.join(GROUPS)}) or a variable of {module.__name__}"
        raise LookupError(f"{', '.join(unknown)} cannot be unset: give {known}")
    unset_values = (never_bound(variables[name], unset_of(module)) for name in chosen)
    _core.assign(tuple(variables[name] for name in chosen), tuple(unset_values), False)


@contextmanager
def unset_after(*names: str) -> Iterator[None]:
    """Call :func:`unset` at the end of the ``with`` block, however it ends."""
    try:
        yield
    finally:
        unset(*names)


def after_fork_in_child() -> None:
    """Make a forked child a run of its own: nothing is bound in this task, and no session was ever bound here.

    The list of :mod:`hermes_env_bridge.passthrough` is empty.

    That is how a child of the start methods "spawn" and "forkserver" begins. A forked one has its parent's session and
    latch until it calls this, first of all: as the ``initializer`` of a pool, or by
    ``os.register_at_fork(after_in_child=…)``.
    """
    module = session_module()
    if hasattr(module, "reset_session_vars"):
        module.reset_session_vars()
    unset()
    passthrough.clear()
    if hasattr(module, LATCH):
        setattr(module, LATCH, False)
    _core.set_engaged(False)
