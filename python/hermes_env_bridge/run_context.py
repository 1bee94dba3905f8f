"""The Omnius run context: which run a task works for, on which surface, for whom, and in which chat.

It is kept in one real context variable: tasks, ``asyncio.to_thread`` and copied contexts have it as they have any
other, a bare thread or executor has not. It identifies a run and permits nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from contextvars import Token, copy_context
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, TypeVarTuple, cast

from hermes_env_bridge._core import OmniusRunContext, TelegramRunContext
from hermes_env_bridge._find import HERMES, OWN
from hermes_env_bridge._run_scope import RUNS, Entered, RunScope, innermost, unbound_context
from hermes_env_bridge.children import bridged_pairs

if TYPE_CHECKING:
    import asyncio

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Ts = TypeVarTuple("_Ts")


class NoRunContextError(LookupError):
    """A run context is needed where none is entered."""


def get_omnius_run_context() -> OmniusRunContext | None:
    """Return the run for which the caller works, None outside of one. The environment is never asked."""
    entered = innermost()
    return None if entered is None else entered.run


def require_omnius_run_context() -> OmniusRunContext:
    """Return the run for which the caller works. Raises :class:`NoRunContextError` outside of one."""
    run = get_omnius_run_context()
    if run is None:
        raise NoRunContextError(
            "this needs a run context, and none is entered here; enter one where the run starts, with "
            "run_with_omnius_context, omnius_context or an adapter of hermes_env_bridge.entry, and hand it to threads, "
            "executors and callbacks with hermes_env_bridge.bind, since they inherit nothing"
        )
    return run


def get_telegram_run_context() -> TelegramRunContext | None:
    """Return the Telegram chat for which the caller works, None outside of a run and in a run that works for none."""
    run = get_omnius_run_context()
    return None if run is None else run.telegram


def is_omnius_run_finished() -> bool:
    """Whether the run for which the caller works is over, as in a callback or a task that has outlived it."""
    entered = innermost()
    return entered is not None and entered.finished


def run_with_omnius_context(
    run: OmniusRunContext, function: Callable[[*_Ts], _R], /, *args: *_Ts, bind_hermes: bool = False
) -> _R:
    """Call *function* with *args* for *run*; return what it returns.

    If that is a coroutine or a generator, sync or async, what is returned is one that works for the run at each of its
    steps, and for nobody between them. The session that is bound stays as it is; with *bind_hermes* it is the one that
    corresponds to the run. What *function* binds in context variables stays inside, as in a task of its own.

    Raises TypeError if *run* is no record.
    """
    return cast(_R, RunScope(run, copy_context(), bind_hermes=bind_hermes).call(function, *args))


class omnius_context:  # noqa: N801 - a context manager, named as the functions are
    """``with omnius_context(run):`` and ``async with``: work for *run* up to the end of the block.

    Leaving never raises, in whatever context and order it happens, and takes the run from no context but the one in
    which it was entered. In a generator the block is entered for whoever takes its values too, as with every context
    variable; :func:`run_with_omnius_context` is for that.
    """

    def __init__(self, run: OmniusRunContext) -> None:
        """Raises TypeError if *run* is no record."""
        self._entered = Entered(run)
        self._token: Token[tuple[Entered, ...]] | None = None

    def __enter__(self) -> OmniusRunContext:
        """Enter, and return the record. Raises RuntimeError for a second time."""
        if self._token is not None:
            raise RuntimeError("this omnius_context was entered before; make one for each block")
        self._token = RUNS.set((*_reachable(RUNS.get()), self._entered))
        return self._entered.run

    def __exit__(self, *_error: object) -> None:
        """Take the run from those that are entered in this context, if it was entered in this very one."""
        self._entered.finished = True
        runs = RUNS.get()
        try:
            RUNS.reset(cast(Any, self._token))
        except (RuntimeError, TypeError, ValueError):
            return  # left before, never entered, or entered in another context, whose copy this may be
        RUNS.set(tuple(entered for entered in runs if entered is not self._entered))

    async def __aenter__(self) -> OmniusRunContext:
        """As for ``with``."""
        return self.__enter__()

    async def __aexit__(self, *_error: object) -> None:
        """As for ``with``."""
        self.__exit__()


def _reachable(runs: tuple[Entered, ...]) -> tuple[Entered, ...]:
    """Without what nobody can come back to: what is below a run that is over, which is left already."""
    over = [at for at, entered in enumerate(runs) if entered.finished]
    return runs[over[-1] :] if over else runs


def spawn_detached(coroutine: Coroutine[Any, Any, _R]) -> asyncio.Task[_R]:
    """Return a task that works for no run and no session: for a worker that outlives the run in which it starts.

    Its jobs carry what they need, such as functions from :func:`bind`. Raises RuntimeError outside of an event loop.
    """
    import asyncio  # here, since whoever imports the package may need no event loop, and it takes long

    return asyncio.get_running_loop().create_task(coroutine, context=unbound_context())


def run_context_of_session(
    *, run_id: str, tool_context: str | None = None, project_root: str | None = None, chat_type: str | None = None
) -> OmniusRunContext:
    """Return the run that corresponds to the session of Hermes that this task has bound.

    *run_id*, *tool_context* (needed where there is a chat) and *project_root* are what Hermes' variables do not have.
    *chat_type*, as Hermes calls it, stands in where the version has no such variable or it is empty. Raises ValueError,
    which names the field, if no run corresponds.
    """
    bound = _bound()
    if chat_type is not None and not bound.get("HERMES_SESSION_CHAT_TYPE"):
        bound["HERMES_SESSION_CHAT_TYPE"] = chat_type
    return OmniusRunContext.from_session_vars(
        bound, run_id=run_id, tool_context=tool_context, project_root=project_root
    )


def _bound() -> dict[str, str]:
    """What the task has bound, as text, in whatever session module is there."""
    module = sys.modules.get(OWN) or sys.modules.get(HERMES)
    return {} if module is None else bridged_pairs(module=module)
