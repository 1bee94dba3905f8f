"""Gives ``ThreadPoolExecutor.submit`` and ``threading.Thread`` the context at the moment when work is handed over."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from types import MethodType
from typing import Any

# Those that run a target.
_RUNS = (threading.Thread.run, threading.Timer.run)

_patches: list[_Patch] = []


def carry() -> None:
    """Have each job of a thread pool, and each thread that a program starts, run in a copy of the submitter's context.

    Threads that the standard library starts for its own code (those of a pool, a queue, a server) are left alone: they
    serve whoever comes. So are threads to which Python gives a context by itself, from 3.14.
    """
    if not _patches:
        _patches.append(_Patch(ThreadPoolExecutor, "submit", _carrying_submit))
        _patches.append(_Patch(threading.Thread, "start", _carrying_start))


def stop() -> None:
    """Undo :func:`carry`. A patch that somebody has put on top of ours stays, and ours carries nothing."""
    while _patches:
        _patches.pop().undo()


class _Patch:
    """A method of *owner* replaced by ``carrying(method, ...)``."""

    def __init__(self, owner: type, name: str, carrying: Callable[..., Any]) -> None:
        self.owner, self.name = owner, name
        self.original: Callable[..., Any] = getattr(owner, name)
        self.active = True

        @functools.wraps(self.original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            if not self.active:
                return self.original(*args, **kwargs)
            return carrying(self.original, *args, **kwargs)

        self.replacement = replacement
        setattr(owner, name, replacement)

    def undo(self) -> None:
        self.active = False
        if getattr(self.owner, self.name) is self.replacement:
            setattr(self.owner, self.name, self.original)


def _carrying_submit(
    submit: Callable[..., Any], pool: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    # A thread that the pool starts for this job must not be the job's for ever.
    return Context().run(submit, pool, copy_context().run, fn, *args, **kwargs)


def _carrying_start(start: Callable[[threading.Thread], None], thread: threading.Thread) -> None:
    # Two frames up, beyond the replacement, is whoever starts the thread. A program's thread can be started from there
    # as well, if its start is a callback; and the library's own code by a program, as its target.
    starter = sys._getframe(2).f_globals.get("__name__", "")
    if _has_a_context(thread) or (_is_library(starter) and _runs_the_library(thread)):
        return start(thread)
    run, context = thread.run, copy_context()
    own = vars(thread).get("run")

    def put_back() -> None:
        if own is None:
            vars(thread).pop("run", None)
        else:
            vars(thread)["run"] = own

    def carried_run() -> None:
        put_back()
        context.run(run)

    vars(thread)["run"] = carried_run
    try:
        start(thread)
    except BaseException:
        put_back()
        raise


def _has_a_context(thread: threading.Thread) -> bool:
    """Whether Python itself gives the thread a context: its starter's, or the one that it was made with."""
    if sys.version_info < (3, 14):
        return False
    return bool(sys.flags.thread_inherit_context) or getattr(thread, "_context", None) is not None


def _runs_the_library(thread: threading.Thread) -> bool:
    """Whether what the thread runs is the standard library's, or overrides that."""
    if type(thread).run not in _RUNS:
        return _is_of_the_library(type(thread), "run")
    target = thread.function if isinstance(thread, threading.Timer) else getattr(thread, "_target", None)
    while isinstance(target, functools.partial):
        target = target.func
    owner = getattr(target, "__self__", None)
    if isinstance(target, MethodType):
        return _is_of_the_library(type(owner), target.__name__)
    return _is_library(getattr(target, "__module__", None) or "")


def _is_of_the_library(owner: type, method: str) -> bool:
    made = (base.__module__ for base in owner.__mro__ if method in vars(base))
    return any(module != "threading" and _is_library(module) for module in made)


def _is_library(module: str) -> bool:
    return module != "__main__" and module.partition(".")[0] in sys.stdlib_module_names
