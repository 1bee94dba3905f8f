"""Where a run is entered: a context of its own, in which all of the run's work is done."""

from __future__ import annotations

import importlib
import inspect
import sys
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from types import TracebackType
from typing import Any, Protocol

from hermes_env_bridge._core import OmniusRunContext
from hermes_env_bridge._find import HERMES, OWN


class Entered:
    """A run that was entered, and whether that is over."""

    __slots__ = ("finished", "run")

    def __init__(self, run: OmniusRunContext) -> None:
        """Raises TypeError if *run* is no record."""
        if not isinstance(run, OmniusRunContext):
            raise TypeError(f"a run context is an OmniusRunContext, not {type(run).__name__}")
        self.run = run
        self.finished = False


# The runs that are entered in a context, the innermost one last.
RUNS: ContextVar[tuple[Entered, ...]] = ContextVar("OMNIUS_RUN_CONTEXT", default=())


def innermost() -> Entered | None:
    """The run for which the caller works."""
    runs = RUNS.get()
    return runs[-1] if runs else None


class RunScope:
    """A run in a context of its own, from its begin to its end."""

    def __init__(self, run: OmniusRunContext, context: Context, *, bind_hermes: bool) -> None:
        """Enter *run* in *context*, and with *bind_hermes* the session of Hermes that corresponds."""
        self.entered = Entered(run)
        self._context = context
        context.run(RUNS.set, (self.entered,))
        if bind_hermes:
            context.run(_bind_session, run)

    def begin(self) -> None:
        """The work begins; called inside, maybe twice."""

    def end(self, error: BaseException | None) -> None:
        """The work is over; *error* is what it raised. Called inside."""
        self.entered.finished = True

    def __enter__(self) -> None:
        """Begin."""
        self._context.run(self.begin)

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """End."""
        self._context.run(self.end, error)

    def call(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """Call *function* inside; if it returns a coroutine or a generator, the steps of that are inside too."""
        if inspect.iscoroutinefunction(function):
            return self._await(function(*args, **keywords))
        # Nothing of a generator runs before its first step.
        if inspect.isasyncgenfunction(function):
            return self._stream(function(*args, **keywords))
        if inspect.isgeneratorfunction(function):
            return self._generate(function(*args, **keywords))
        self._context.run(self.begin)
        try:
            result = self._context.run(function, *args, **keywords)
        except BaseException as error:
            self._context.run(self.end, error)
            raise
        if isinstance(result, Coroutine):
            return self._await(result)
        if isinstance(result, AsyncGenerator):
            return self._stream(result)
        if isinstance(result, Generator):
            return self._generate(result)
        self._context.run(self.end, None)
        return result

    async def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        with self:
            return await _inside(self._context, coroutine)

    async def _stream(self, generator: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
        with self:
            step = generator.asend(None)
            try:
                while True:
                    made = await _inside(self._context, step)
                    try:
                        step = generator.asend((yield made))
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step = generator.athrow(error)
            except StopAsyncIteration:
                return
            finally:
                await _inside(self._context, generator.aclose())

    def _generate(self, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        with self:
            step: Callable[[Any], Any] = generator.send
            given: Any = None
            try:
                while True:
                    made = self._context.run(step, given)
                    try:
                        step, given = generator.send, (yield made)
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        step, given = generator.throw, error
            except StopIteration as stop:
                return stop.value
            finally:
                self._context.run(generator.close)


class _Steps(Protocol):
    """What a coroutine and the awaitables of an async generator have in common."""

    def send(self, value: Any, /) -> Any: ...

    def throw(self, error: BaseException, /) -> Any: ...

    def close(self) -> None: ...


@types.coroutine
def _inside(context: Context, steps: Any) -> Generator[Any, Any, Any]:
    """Await *steps*, each in *context*, so that nothing that happens there shows between them."""
    inner: _Steps = steps
    step, value = inner.send, None
    while True:
        try:
            awaited = context.run(step, value)
        except StopIteration as stop:
            return stop.value
        try:
            step, value = inner.send, (yield awaited)
        except GeneratorExit:
            context.run(inner.close)
            raise
        except BaseException as error:
            step, value = inner.throw, error


def unbound_context() -> Context:
    """Return a copy of the current context in which no run and no session is entered."""
    context = copy_context()
    context.run(_reset)
    return context


def _reset() -> None:
    RUNS.set(())
    modules = [sys.modules[name] for name in (OWN, HERMES) if name in sys.modules]
    for module in modules:
        if hasattr(module, "reset_session_vars"):
            module.reset_session_vars()
        else:  # an older version of Hermes
            for variable in module._VAR_MAP.values():
                variable.set(module._UNSET)


def _bind_session(run: OmniusRunContext) -> None:
    """Bind the session that corresponds to *run*, as far as the version of Hermes has variables for it."""
    module = sys.modules.get(OWN) or sys.modules.get(HERMES) or importlib.import_module(OWN)
    known = inspect.signature(module.set_session_vars).parameters
    module.set_session_vars(**{key: value for key, value in run.to_session_vars().items() if key in known})
