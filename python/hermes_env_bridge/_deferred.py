"""Refuses results whose code has not run yet, and would run in another context than the call that made them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any


def refuse_deferred(function: Callable[..., Any], result: object, instead: str) -> None:
    """Raise TypeError, which says what to do *instead*, if *result* of *function* is a coroutine, a generator or alike.

    A future is none: what it waits for, a task's code among it, has its context already.
    """
    if not (inspect.isgenerator(result) or inspect.isasyncgen(result) or isinstance(result, Awaitable)):
        return
    if inspect.iscoroutine(result):
        result.close()
    else:
        import asyncio  # who gets here has it; who imports the package may need no event loop

        if asyncio.isfuture(result):
            return
    raise TypeError(
        f"{function!r} returned a {type(result).__name__}, whose code would run without the session; {instead}"
    )
