"""One side of a differential run: a module, and everything process-wide that it can see."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextvars import Context, ContextVar
from functools import partial
from types import ModuleType
from typing import Any

from .actors import drive
from .comparison import Names, Raised, Stop, outcome
from .process import AGENT_MODULES, Process
from .shape import Shape, mapped

LATCH = "_session_context_engaged"
SPARES = 4

# The environment of each sequence at its start. It is put into the world's own dict only, never into the
# process, so that a side which reads the process behind Python's back is seen to.
_START = {b"HOME": b"/h", b"HERMES_SESSION_KEY": b"mirror", b"HERMES_CRON_SESSION": b"1", b"ODD": b"\xff\xe9"}
_CHILD_BASE = {"HERMES_SESSION_KEY": "inherited", "PATH": "/bin", "HERMES_SESSION_ID": "inherited", "ODD": "\udcff"}
UNKNOWN_NAMES = ("HOME", "ODD", "HERMES_UNKNOWN")


class Mark:
    """A value that no side can have made itself."""

    def __init__(self, text: str) -> None:
        """A mark that is shown as *text*."""
        self._text = text

    def __repr__(self) -> str:
        """The text."""
        return self._text


MARK = Mark("<the default>")
ABSENT = Mark("<absent>")


def child_environment(module: ModuleType, env: dict[str, str]) -> dict[str, str]:
    """*env* as a child is given it: bound values written as text, unset ones removed once the latch is on.

    Raises whatever an entry of the map raises when it is read or made a text.
    """
    namespace = vars(module)
    engaged = namespace.get("session_context_engaged", bool)()
    for name, variable in namespace["_VAR_MAP"].items():
        value = variable.get()
        if value is not namespace["_UNSET"]:
            env[name] = "" if value is None else str(value)
        elif engaged:
            env.pop(name, None)
    return env


class World:
    """One side. Between :meth:`enter` and :meth:`leave` the process is as this side left it."""

    def __init__(self, title: str, module: ModuleType, shape: Shape, process: Process) -> None:
        """The side of *module*, which has *shape* and uses *process* when it is its turn."""
        self.title = title
        self.module = module
        self.shape = shape
        self.namespace = vars(module)
        self.unset: Any = self.namespace["_UNSET"]
        self.map: dict[Any, Any] = self.namespace["_VAR_MAP"]
        self.function: dict[str, Callable[..., Any]] = {name: self.namespace[name] for name in shape.functions}
        self.variables = self._find_variables()
        self.spares = [ContextVar(f"SPARE_{number}", default=self.unset) for number in range(SPARES)]
        self.names = self._name_things()
        self._process = process
        self._saved = dict(self.namespace)
        self._saved_map = dict(self.map)
        self._digest_probes = [partial(variable.get, MARK) for variable in self.variables.values()]
        probes = self._make_reads() | self._make_answers()
        self._probes = tuple(probes.values())
        self.probes = tuple(probes)
        self.begin()

    def _find_variables(self) -> dict[str, Any]:
        by_attribute = {name: self.namespace[name] for name in self.shape.globals}
        return by_attribute | {mapped(name): self.map[name] for name in self.shape.mapped_only}

    def _name_things(self) -> Names:
        names = Names(self.unset, self.variables[self.shape.variables[0]], self.module)
        for label, variable in [*self.variables.items(), *((spare.name, spare) for spare in self.spares)]:
            names.add(variable, label)
        return names

    def begin(self) -> None:
        """Start a sequence: nothing kept, the latch off, an environment of its own, no ``agent`` package."""
        self.tokens: list[Any] = []
        self.binds: list[Any] = []
        self.scopes: list[Any] = []
        self.generators: list[Any] = []
        self.calls: list[object] = []
        self.backing: dict[Any, Any] = dict(_START)
        self.environ: Any = self._process.environ_over(self.backing)
        self.getenv: Callable[..., Any] = self._process.getenv
        self.agent: dict[str, Any] = dict.fromkeys(AGENT_MODULES)
        if self.shape.has(LATCH):
            setattr(self.module, LATCH, False)

    def restore(self) -> None:
        """Give the module back every global and every entry of its map as they were at the start."""
        for name in [name for name in self.namespace if name not in self._saved and not name.startswith("__")]:
            delattr(self.module, name)
        for name, value in self._saved.items():
            if self.namespace.get(name, ABSENT) is not value:
                setattr(self.module, name, value)
        self.restore_map()

    def original(self, name: str) -> Any:
        """The global *name* as it was at the start."""
        return self._saved[name]

    def restore_map(self) -> None:
        """Give the module's own map back its entries, in their order."""
        if list(self.map.items()) != list(self._saved_map.items()):
            self.map.clear()
            self.map.update(self._saved_map)

    def restore_global(self, name: str) -> None:
        """Give the module back the global *name*, or take it away if the module never had it."""
        if name in self._saved:
            setattr(self.module, name, self._saved[name])
        elif name in self.namespace:
            delattr(self.module, name)

    def forget(self) -> None:
        """Close what was left open, where it can write into nobody's context."""
        self.agent = dict.fromkeys(AGENT_MODULES)
        self.enter()
        try:
            for scope in self.scopes:
                outcome(partial(Context().run, scope.__exit__, None, None, None))
            for generator in self.generators:
                outcome(partial(Context().run, drive, generator.aclose()))
        finally:
            self.leave()

    def enter(self) -> None:
        """Let the process have this side's environment and its ``agent`` package."""
        self._process.lend(self.environ, self.getenv, self.agent)

    def leave(self) -> None:
        """Give the process its own back."""
        self._process.take_back()

    def _make_reads(self) -> dict[str, Callable[[], object]]:
        probes: dict[str, Callable[[], object]] = {}
        for label, variable in self.variables.items():
            probes[f"{label}.get()"] = variable.get
            # With a default of the caller's, a variable that was never set differs from one set to the sentinel.
            probes[f"{label}.get({MARK})"] = partial(variable.get, MARK)
        read = self.function["get_session_env"]
        for name in (*self.shape.names, *UNKNOWN_NAMES):
            probes[f"get_session_env({name!r}, {MARK})"] = partial(read, name, MARK)
        return probes

    def _make_answers(self) -> dict[str, Callable[[], object]]:
        probes: dict[str, Callable[[], object]] = {}
        for name in ("session_context_engaged", "async_delivery_supported", "session_is_messaging_surface"):
            if name in self.function:
                probes[f"{name}()"] = self.function[name]
        probes[LATCH] = partial(getattr, self.module, LATCH, ABSENT)
        probes["the child environment"] = lambda: child_environment(self.module, _CHILD_BASE.copy())
        probes["os.environ"] = lambda: dict(self.backing)
        probes["the calls made"] = self._take_calls
        return probes

    def _take_calls(self) -> object:
        calls, self.calls = self.calls, []
        return calls

    def observe(self) -> list[object]:
        """Everything that can be seen here, in the order of ``probes``."""
        return _ask(self._probes)

    def digest(self) -> list[object]:
        """The value of every variable here, ``MARK`` where it was never set."""
        return _ask(self._digest_probes)

    def record(self, *call: object) -> None:
        """Remember a call of a fake, together with the state that could be seen from inside of it."""
        state = (getattr(self.module, LATCH, ABSENT), dict(self.backing), self.digest())
        self.calls.append((*call, *state))

    def keep(self, token: Any) -> Any:
        """Remember *token* for later operations, and return it."""
        self.tokens.append(token)
        return token

    def replace_environ(self, make: Callable[[dict[str, Any]], Any]) -> None:
        """Put what *make* builds over a plain copy of the environment in the place of ``os.environ``."""
        copy = {_text(key): _text(value) for key, value in self.backing.items()}
        self.environ = make(copy)
        self.backing = self.environ if isinstance(self.environ, dict) else copy
        self.enter()

    def renew_environ(self) -> None:
        """Put a genuine ``os.environ`` with the content of the start in place, and the genuine ``os.getenv``."""
        self.backing = dict(_START)
        self.environ = self._process.environ_over(self.backing)
        self.replace_getenv(self._process.getenv)

    def replace_getenv(self, fake: Callable[..., Any]) -> None:
        """Put *fake* in the place of ``os.getenv``."""
        self.getenv = fake
        self.enter()

    def replace_agent(self, modules: dict[str, Any]) -> None:
        """Put *modules* in the place of the ``agent`` package; what it lacks cannot be imported."""
        self.agent = {name: modules.get(name) for name in AGENT_MODULES}
        self.enter()


def _text(part: Any) -> Any:
    return os.fsdecode(part) if isinstance(part, bytes) else part


def _ask(probes: Iterable[Callable[[], object]]) -> list[object]:
    """What each of *probes* returns, or raises: to raise is an answer too."""
    answers: list[object] = []
    for probe in probes:
        try:
            answers.append(probe())
        except (Exception, Stop) as error:
            answers.append(Raised(error))
    return answers
