"""What is put in the place of things: of the module's globals, of its map's entries, of the ``agent`` package."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, NoReturn

from ..comparison import Stop
from ..shape import Shape
from ..world import ABSENT, World
from .values import Untruthful

Make = Callable[[World], Any]


class Box:
    """Has ``get`` and ``set`` as a variable has them, and one value for everybody."""

    def __init__(self, world: World, value: object) -> None:
        """A box that holds *value* and records its use in *world*."""
        self._world = world
        self._value = value

    def get(self) -> object:
        """The value; the read is recorded."""
        self._world.record("Box.get")
        return self._value

    def set(self, value: object) -> str:
        """Keep *value*; the write is recorded. The result is no token."""
        self._world.record("Box.set", value)
        self._value = value
        return "no token"


class Refusing:
    """Can be read and not written."""

    def get(self) -> str:
        """Always the same text."""
        return "refusing"

    def set(self, value: object) -> NoReturn:
        """Raises RuntimeError."""
        raise RuntimeError("refused")


class Watched(dict[Any, Any]):
    """A map that records how it is used."""

    def __init__(self, world: World) -> None:
        """A copy of *world*'s map."""
        super().__init__(world.map)
        self._world = world

    def get(self, key: Any, default: Any = None) -> Any:
        """As a dict does it, recorded."""
        self._world.record("map.get", key)
        return super().get(key, default)

    def values(self) -> Any:
        """As a dict does it, recorded."""
        self._world.record("map.values")
        return super().values()


class Renaming(dict[Any, Any]):
    """A map whose ``get`` always answers with the entry of one name."""

    def get(self, key: Any, default: Any = None) -> Any:
        """The first entry, whatever is asked for."""
        return next(iter(self.values()), default)


class Environ(dict[str, Any]):
    """A replaced ``os.environ`` that answers for names it does not have."""

    def __missing__(self, key: str) -> str:
        """A text made up for *key*."""
        return f"missing {key}"


class BrokenEnviron(dict[str, Any]):
    """A replaced ``os.environ`` that fails."""

    def get(self, key: str, default: Any = None) -> NoReturn:
        """Raises OSError."""
        raise OSError(5, "no environment", key)

    def __setitem__(self, key: str, value: Any) -> NoReturn:
        """Raises OSError."""
        raise OSError(5, "no environment", key)


class Surfaces:
    """A set of surfaces that is no set, and holds what begins with a ``t``."""

    def __contains__(self, item: object) -> bool:
        """True for what begins with a ``t``."""
        return str(item).startswith("t")

    def __iter__(self) -> Iterator[str]:
        """Raises TypeError."""
        raise TypeError("cannot be walked")


ENVIRONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a plain dict": lambda plain: plain,
    "a plain dict with odd values": lambda plain: _updated(plain, HERMES_SESSION_KEY=7, HERMES_KANBAN_TASK=None),
    "a dict that invents": Environ,
    "a dict that fails": BrokenEnviron,
    "an ordered dict": OrderedDict,
    "a read-only view": MappingProxyType,
    "no mapping": lambda plain: object(),
}


def _updated(plain: dict[str, Any], **values: object) -> dict[str, Any]:
    plain.update(values)
    return plain


def failing(error: BaseException) -> Callable[..., Any]:
    """A function that raises *error*, whatever it is called with."""

    def fail(*_positional: object, **_keywords: object) -> NoReturn:
        raise error

    return fail


def recording(world: World, name: str, result: object) -> Callable[..., Any]:
    """A function that records its calls and returns *result*."""

    def fake(*positional: object, **keywords: object) -> object:
        world.record(name, list(positional), sorted(keywords))
        return result

    return fake


def passing(world: World, name: str) -> Callable[..., Any]:
    """A function that records its calls and passes them on to the module's own function *name*."""

    def fake(*positional: Any, **keywords: Any) -> object:
        world.record(name, [value if isinstance(value, str) else type(value).__name__ for value in positional])
        return world.function[name](*positional, **keywords)

    return fake


GETENVS: dict[str, Make] = {
    "a fake": lambda world: lambda key, default=None: f"fake {key}",
    "a recording one": lambda world: recording(world, "getenv", "recorded"),
    "a failing one": lambda world: failing(OSError("no getenv")),
    "one that is true to os.environ": lambda world: lambda key, default=None: world.environ.get(key, default),
    "None": lambda world: None,
}


@dataclass(frozen=True)
class Patch:
    """A replacement of the global *name* of the module; ``ABSENT`` takes the global away."""

    name: str
    text: str
    make: Make

    def apply(self, world: World) -> None:
        """Do it to *world*'s module."""
        value = self.make(world)
        if value is not ABSENT:
            setattr(world.module, self.name, value)
        elif self.name in world.namespace:
            delattr(world.module, self.name)


def _namespace(world: World) -> SimpleNamespace:
    store = {"HERMES_SESSION_KEY": "of another os"}
    return SimpleNamespace(environ=store, getenv=lambda key, default=None: store.get(key, default))


_PATCHES: dict[str, dict[str, Make]] = {
    "get_session_env": {
        "a fake": lambda world: lambda name, default="": f"patched {name}",
        "one that passes on": lambda world: passing(world, "get_session_env"),
        "a failing one": lambda world: failing(RuntimeError("patched")),
        "None": lambda world: None,
        "<deleted>": lambda world: ABSENT,
    },
    "_runtime_cwd": {
        "a recording one": lambda world: recording(world, "_runtime_cwd", None),
        "a failing one": lambda world: failing(RuntimeError("no cwd")),
        "<deleted>": lambda world: ABSENT,
    },
    "_VAR_MAP": {
        "an empty dict": lambda world: {},
        "its first two entries": lambda world: dict(list(world.map.items())[:2]),
        "a dict subclass that records": Watched,
        "a dict subclass with a get of its own": lambda world: Renaming(world.map),
        "an ordered dict": lambda world: OrderedDict(reversed(world.map.items())),
        "a read-only view": lambda world: MappingProxyType(world.map),
        "None": lambda world: None,
        "<deleted>": lambda world: ABSENT,
    },
    "_UNSET": {"another object": lambda world: Patch, "None": lambda world: None, "''": lambda world: ""},
    "os": {"a namespace": _namespace, "an empty namespace": lambda world: SimpleNamespace()},
    "_SESSION_VARS": {
        "its first three": lambda world: world.original("_SESSION_VARS")[:3],
        "nothing": lambda world: (),
        "reversed, a list": lambda world: list(reversed(world.original("_SESSION_VARS"))),
        "with a real variable": lambda world: (world.spares[1], *world.original("_SESSION_VARS")[1:]),
        "with an object without set": lambda world: (*world.original("_SESSION_VARS")[:2], object()),
    },
    # A module from which one of its own variables is deleted is broken. There ours binds nothing, where the original
    # has bound the variables before that one; see the README's list.
    "_SESSION_ASYNC_DELIVERY": {
        "a real variable": lambda world: world.spares[2],
        "a box": lambda world: Box(world, False),
        "an object without get": lambda world: object(),
    },
    "_SESSION_ID": {
        "a real variable": lambda world: world.spares[3],
        "a box": lambda world: Box(world, "boxed"),
    },
    "_SESSION_KEY": {"a real variable": lambda world: world.spares[1], "None": lambda world: None},
    "_SESSION_PLATFORM": {
        "another of the variables": lambda world: world.namespace["_SESSION_CHAT_ID"],
    },
    "NON_MESSAGING_SESSION_SURFACES": {
        "a smaller set": lambda world: frozenset({"telegram"}),
        "an empty set": lambda world: set(),
        "a list": lambda world: ["", "cli", "telegram"],
        "a text": lambda world: "telegram, cli",
        "an object with __contains__": lambda world: Surfaces(),
        "None": lambda world: None,
        "<deleted>": lambda world: ABSENT,
    },
    "session_context_engaged": {
        "always true": lambda world: lambda: True,
        "always false": lambda world: lambda: "",
        "one that passes on": lambda world: passing(world, "session_context_engaged"),
    },
    "async_delivery_supported": {"a fake": lambda world: lambda: "patched"},
    "set_session_vars": {"one that passes on": lambda world: passing(world, "set_session_vars")},
    "clear_session_vars": {"a fake": lambda world: recording(world, "clear_session_vars", None)},
    "reset_session_vars": {"a fake": lambda world: recording(world, "reset_session_vars", "reset")},
}
# These are put in place even where a version looks elsewhere: then nothing may change.
_ANYWHERE = frozenset({"os", "_runtime_cwd"})


def patches(shape: Shape) -> tuple[Patch, ...]:
    """Every replacement that makes sense for modules of *shape*."""
    names = [name for name in _PATCHES if name in _ANYWHERE or shape.has(name)]
    return tuple(Patch(name, text, make) for name in names for text, make in _PATCHES[name].items())


ENTRIES: dict[str, Make] = {
    "a real variable": lambda world: world.spares[0],
    "a box that holds a text": lambda world: Box(world, "boxed"),
    "a box that holds the sentinel": lambda world: Box(world, world.unset),
    "another of the variables": lambda world: next(iter(world.variables.values())),
    "an object that refuses": lambda world: Refusing(),
    "an object without get": lambda world: object(),
    "None": lambda world: None,
    "<deleted>": lambda world: ABSENT,
}


def _hook(world: World, name: str) -> Callable[..., Any]:
    return recording(world, name, None)


def _meddling(world: World) -> Callable[..., None]:
    def hook(*positional: object) -> None:
        world.record("hook", list(positional))
        next(iter(world.variables.values())).set("from the hook")

    return hook


def _runtime(setter: Any, clearer: Any) -> ModuleType:
    module = ModuleType("agent.runtime_cwd")
    vars(module).update(set_session_cwd=setter, clear_session_cwd=clearer)
    return module


RUNTIMES: dict[str, Make] = {
    "absent": lambda world: None,
    "recording": lambda world: _runtime(_hook(world, "set cwd"), _hook(world, "clear cwd")),
    "failing": lambda world: _runtime(failing(OSError("set")), failing(OSError("clear"))),
    "stopping": lambda world: _runtime(failing(Stop("set")), failing(Stop("clear"))),
    "without functions": lambda world: ModuleType("agent.runtime_cwd"),
    "with None for functions": lambda world: _runtime(None, None),
    "meddling": lambda world: _runtime(_meddling(world), _meddling(world)),
}


def _delegation(is_child: Callable[[], object]) -> ModuleType:
    module = ModuleType("agent.delegation_context")
    vars(module).update(is_delegated_child_context=is_child)
    return module


DELEGATIONS: dict[str, Make] = {
    "absent": lambda world: None,
    "no child": lambda world: _delegation(recording(world, "is child", False)),
    "a child": lambda world: _delegation(recording(world, "is child", True)),
    "a child by truth": lambda world: _delegation(lambda: ["yes"]),
    "failing": lambda world: _delegation(failing(OSError("delegation"))),
    "stopping": lambda world: _delegation(failing(Stop("delegation"))),
    "without truth": lambda world: _delegation(Untruthful),
    "without functions": lambda world: ModuleType("agent.delegation_context"),
}
PACKAGES = ("with attributes", "with attributes", "without attributes", "attributes only", "failing")


def agent_package(world: World, runtime: str, delegation: str, package: str) -> dict[str, Any]:
    """The modules of an ``agent`` package of that kind; None is one that cannot be imported."""
    parts = {"runtime_cwd": RUNTIMES[runtime](world), "delegation_context": DELEGATIONS[delegation](world)}
    agent = ModuleType("agent")
    present = {name: part for name, part in parts.items() if part is not None}
    if not present:
        return {}
    if package != "without attributes":
        vars(agent).update(present)
    if package == "failing":
        vars(agent).clear()
        vars(agent).update(__name__="agent", __getattr__=failing(OSError("lazy")))
    submodules = {} if package == "attributes only" else {f"agent.{name}": part for name, part in parts.items()}
    return {"agent": agent, **submodules}
