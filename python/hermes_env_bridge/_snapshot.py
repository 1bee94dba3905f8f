"""The session of a task as plain data, for another task, another process or another machine."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, ParamSpec, TypeVar, final

from hermes_env_bridge import _core
from hermes_env_bridge._core import ASYNC_DELIVERY, SESSION_CWD, SESSION_HEADER
from hermes_env_bridge._deferred import refuse_deferred
from hermes_env_bridge._find import OWN
from hermes_env_bridge._module import ABSENT, State, engage, held, never_bound, session_module, state_of, unset_of

__all__ = ["SESSION_HEADER", "Change", "Snapshot", "snapshot"]

CWD_MODULE = "agent.runtime_cwd"

_P = ParamSpec("_P")
_T = TypeVar("_T")

Unknown = Literal["keep", "refuse"]

# A snapshot that was restored here without the names that the session module does not have, and what was bound of it.
_restored: ContextVar[tuple[dict[str, Any], Snapshot] | None] = ContextVar("hermes_env_bridge.restored", default=None)


@dataclass(frozen=True)
class Change:
    """A variable that differs between two snapshots, with its state in each: "unset", "cleared" or "set"."""

    name: str
    before: State
    after: State

    def __str__(self) -> str:
        """The change for a person, without values."""
        return f"{self.name}: {self.before} -> {self.after}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """What a session held at one moment: plain data that keeps unset, cleared and set apart.

    :func:`snapshot` takes one; ``Snapshot()`` is that of a task in which nothing is bound. Snapshots are immutable,
    equal if they hold the same, hashable, and can be pickled if their values can. Names that the session module in use
    does not have are kept: a snapshot can pass through a process whose Hermes is older.

    A session is text. Where a caller has bound another object, or text that UTF-8 cannot carry (a lone surrogate),
    ``pickle`` and :meth:`restore` keep it as it is; mappings, JSON and headers raise TypeError or ValueError, which
    name the variable. ``repr`` and messages name variables, never values.
    """

    # By name, what is bound, in whatever variable; never changed.
    _values: dict[str, Any] = field(default_factory=dict)
    # A JSON object: what a text that was read had beside the variables.
    _fields: str = "{}"

    def to_mapping(self) -> dict[str, str]:
        """The snapshot as text by name: what is unset is not there, what is cleared is ``""``.

        Whether a completion can be delivered later, if that is stated, is ``HERMES_SESSION_ASYNC_DELIVERY`` (``1`` or
        ``0``); the working directory ``HERMES_SESSION_CWD``. Raises TypeError for a value that is no text, ValueError
        for one that UTF-8 cannot carry.
        """
        return _core.snapshot_to_mapping(self._values)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, str]) -> Snapshot:
        """The snapshot of what :meth:`to_mapping` returned.

        Raises TypeError for what is no text, ValueError for what is no snapshot's.
        """
        return cls(_core.snapshot_from_mapping(mapping))

    def to_json(self) -> str:
        """The snapshot as JSON, on one line. Raises what :meth:`to_mapping` raises."""
        return _core.snapshot_to_json(self._values, self._fields)

    @classmethod
    def from_json(cls, text: str, *, max_bytes: int | None = None, max_depth: int | None = None) -> Snapshot:
        """The snapshot of what :meth:`to_json` returned, there or in Rust.

        The text may have 64 KiB and nest 16 deep unless other limits are given. Raises ValueError for a text that is
        larger, deeper or no snapshot's.
        """
        for limit, given in (("max_bytes", max_bytes), ("max_depth", max_depth)):
            if given is not None and given < 0:
                raise ValueError(f"{limit} is a limit, so not negative")
        return cls(*_core.snapshot_from_json(text, max_bytes, max_depth))

    def to_header(self) -> str:
        """The snapshot as the value of a header, percent-encoded: visible ASCII, at most 8 KiB.

        Raises what :meth:`to_mapping` raises, and ValueError if it is larger.
        """
        return _core.snapshot_to_header(self._values)

    @classmethod
    def from_header(cls, header: str) -> Snapshot:
        """The snapshot of what :meth:`to_header` returned. Raises ValueError for any other text."""
        return cls(_core.snapshot_from_header(header))

    def inject(self, carrier: MutableMapping[str, Any]) -> None:
        """Put the snapshot into *carrier*, such as a message's headers, as one header called ``hermes-session``.

        It takes the place of one that is there, in whatever case. Raises what :meth:`to_header` raises, with nothing
        changed.
        """
        _core.snapshot_inject(self._values, carrier)

    @classmethod
    def extract(cls, carrier: Mapping[str, Any]) -> Snapshot | None:
        """The snapshot in *carrier*, None if there is none; the header's name is read in any case.

        A header is a claim: read it only where everybody who can write it may speak for every session, and never decide
        by it what somebody is allowed to do. Raises TypeError for a header that is no text and for headers that are
        pairs or whose names are bytes, ValueError for one that is there twice, or is none of ours.
        """
        values = _core.snapshot_extract(carrier)
        return None if values is None else cls(values)

    def state(self, name: str) -> State:
        """What the snapshot holds for *name*: "unset", "cleared" or "set"."""
        return state_of(self._values.get(name, ABSENT))

    def unknown_names(self) -> tuple[str, ...]:
        """The names and fields of the snapshot that the session module in use does not have, in order."""
        return self._beside(variables_of(session_module(), self._has_cwd()))

    def diff(self, other: Snapshot) -> tuple[Change, ...]:
        """The variables that *other* holds otherwise than this, in order."""
        names = sorted(self._values.keys() | other._values.keys())
        differing = (name for name in names if self._values.get(name, ABSENT) != other._values.get(name, ABSENT))
        return tuple(Change(name, self.state(name), other.state(name)) for name in differing)

    def restore(self, *, unknown: Unknown = "keep", masking: Container[str] = ()) -> None:
        """Bind all of the snapshot in this context, and nothing else: what it has not is unset.

        Trips the latch if anything is bound. A name that the session module in use does not have cannot be bound. Such
        names are kept for a :func:`snapshot` of the same session; with *unknown* ``"refuse"`` they are a LookupError,
        and nothing is changed.

        *masking* is for a worker, whose environment is nobody's: a variable that stays unset is cleared here if its
        name is in *masking* (``os.environ``). A :func:`snapshot` of the same session still has it unset.
        """
        if unknown not in ("keep", "refuse"):
            raise ValueError(f"unknown is 'keep' or 'refuse', not {unknown!r}")
        module = session_module()
        variables = variables_of(module, self._has_cwd())
        beside = self._beside(variables)
        if beside and unknown == "refuse":
            raise LookupError(f"{module.__name__} has no {', '.join(beside)}; keep what is unknown, or update Hermes")
        if self._values:
            engage(module)
        bound = {name: value for name, value in self._values.items() if name in variables}
        masked = {name: "" for name in module._VAR_MAP.keys() & variables if name in masking and name not in bound}
        _bind(module, bound | masked, is_bind=bool(self._values))
        _restored.set((bound | masked, self) if beside or masked else None)

    def context(self) -> Context:
        """A copy of this context in which the snapshot is restored, for what takes one: a task, a timer, a callback."""
        context = copy_context()
        context.run(self.restore)
        return context

    def run(self, function: Callable[_P, _T], /, *args: _P.args, **keywords: _P.kwargs) -> _T:
        """Call *function* with the snapshot restored, and return what it returns. Nothing that it binds comes back.

        Raises TypeError if that is a coroutine, a generator or anything else that is awaited (but for a future), whose
        code would run outside; for those there are :meth:`bound` and :meth:`context`.
        """
        result = self.context().run(function, *args, **keywords)
        refuse_deferred(
            function,
            result,
            "await it in `with snapshot.bound():`, or give snapshot.context() to asyncio.create_task",
        )
        return result

    @contextmanager
    def bound(self, *, unknown: Unknown = "keep", masking: Container[str] = ()) -> Iterator[None]:
        """:meth:`restore` the snapshot for a ``with`` statement; afterwards, what was there before is there again."""
        put_back = remember()
        self.restore(unknown=unknown, masking=masking)
        try:
            yield
        finally:
            put_back()

    def _beside(self, variables: Mapping[str, Any]) -> tuple[str, ...]:
        names = (name for name in self._values if name not in variables)
        return (*sorted(names), *json.loads(self._fields))

    def _has_cwd(self) -> bool:
        return SESSION_CWD in self._values

    def __hash__(self) -> int:
        """Of names and text; another object need not be hashable."""
        return hash(frozenset((name, value) for name, value in self._values.items() if isinstance(value, str)))

    def __repr__(self) -> str:
        """Names and states, without values."""
        states = [f"{name} {self.state(name)}" for name in sorted(self._values)]
        return f"<Snapshot: {', '.join(states) or 'nothing bound'}>"


def snapshot() -> Snapshot:
    """What the session module in use holds in this task: the installed one, or the package's own.

    Where neither was imported nothing is bound. With the session goes whether a completion can be delivered later, and
    the working directory that ``agent.runtime_cwd`` pins, if Hermes has that.
    """
    values = _holding()
    restored = _restored.get()
    if restored is not None and _is_same(restored[0], values):
        return restored[1]
    return Snapshot(values)


def remember() -> Callable[[], None]:
    """Return what puts back, in whatever context it is called, what this one holds now.

    It sets and does not reset by token, because an async generator that is left early runs its exit in another context.
    """
    values, restored = _holding(), _restored.get()

    def put_back() -> None:
        _bind(session_module(), values)
        _restored.set(restored)

    return put_back


def _holding() -> dict[str, Any]:
    """What this context holds, by name."""
    module = sys.modules.get(OWN)
    if module is None:
        return {}
    unset = unset_of(module)
    holding = {name: held(variable, unset) for name, variable in variables_of(module).items()}
    if holding.get(SESSION_CWD) == "":
        del holding[SESSION_CWD]  # as good as unset: Hermes tells them apart nowhere
    return {name: value for name, value in holding.items() if value is not ABSENT}


def _bind(module: ModuleType, values: Mapping[str, Any], *, is_bind: bool = False) -> None:
    """Have this context hold *values* and nothing else."""
    variables, unset = variables_of(module), unset_of(module)
    each = (values[name] if name in values else never_bound(var, unset) for name, var in variables.items())
    _core.assign(tuple(variables.values()), tuple(each), is_bind)


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[name] is other[name] for name in one)


def variables_of(module: ModuleType, load_cwd: bool = False) -> dict[str, Any]:
    """What holds a session, by name: the variables of *module*, and those that stand beside its map.

    The working directory's is another module's, which is imported only if *load_cwd*.
    """
    if load_cwd:
        with suppress(Exception):  # a bind does without it too
            importlib.import_module(CWD_MODULE)
    beside = {
        ASYNC_DELIVERY: getattr(module, "_SESSION_ASYNC_DELIVERY", None),
        SESSION_CWD: getattr(sys.modules.get(CWD_MODULE), "_SESSION_CWD", None),
    }
    named = {name: variable for name, variable in module._VAR_MAP.items() if isinstance(name, str)}
    return {name: variable for name, variable in beside.items() if isinstance(variable, ContextVar)} | named
