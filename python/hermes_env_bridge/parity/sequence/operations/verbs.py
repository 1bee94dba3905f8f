"""Calls of the module's own functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn

from hypothesis.strategies import integers, sampled_from

from ..actors import Actor
from ..comparison import Stop, outcome
from ..scene import Deed, Scene
from ..world import MARK, UNKNOWN_NAMES, World
from .operation import Catalogue
from .values import ANY, BOOLS, CRON, FRESH, OMITTED, POOL, Text, call, given, real

CATALOGUE = Catalogue()
_MASKS = integers(0, 2**24 - 1)
_FLAVOURS = integers(0, 2 * len(POOL))


def invoke(name: str, /, *positional: Any, **keywords: Any) -> Deed:
    """The deed of calling the module's function *name* as its callers do: by the module's attribute."""

    def act(world: World) -> object:
        function = world.namespace[name]
        return function(*[real(world, value) for value in positional], **_real(world, keywords))

    return Deed(lambda: call(name, *positional, **keywords), act)


def _real(world: World, keywords: dict[str, Any]) -> dict[str, Any]:
    return {key: real(world, value) for key, value in keywords.items()}


def _value(scene: Scene, keyword: str, flavour: int) -> Any:
    """The value for *keyword*: a new text, or one that *flavour* picks; always one that suits the keyword."""
    if keyword == "async_delivery":
        return BOOLS[flavour % len(BOOLS)]
    if keyword == "cron_session":
        return given(scene, CRON[flavour % len(CRON)])
    return POOL[flavour % len(POOL)] if flavour else scene.fresh(f".{keyword}")


def _bound(deed: Deed) -> Deed:
    """*deed*, whose result is remembered with the tokens in it."""

    def act(world: World) -> object:
        tokens: Any = deed.act(world)
        world.binds.append(tokens)
        for token in tokens if isinstance(tokens, list) else ():
            world.keep(token)
        return tokens

    return Deed(deed.text, act)


@CATALOGUE.add("set_session_vars", _MASKS, _FLAVOURS, weight=9)
def set_by_keyword(scene: Scene, _actor: Actor, mask: int, flavour: int) -> Deed:
    """Any subset of the keywords."""
    chosen = [(index, key) for index, key in enumerate(scene.shape.keywords) if mask >> index & 1]
    values = {key: _value(scene, key, flavour and flavour + 7 * index) for index, key in chosen}
    return _bound(invoke("set_session_vars", **{k: v for k, v in values.items() if v is not OMITTED}))


@CATALOGUE.add("set_session_vars, by position", integers(0, 24), _FLAVOURS)
def set_by_position(scene: Scene, _actor: Actor, count: int, flavour: int) -> Deed:
    """The first few, or all, by position."""
    values = [_value(scene, key, flavour and flavour + index) for index, key in enumerate(scene.shape.keywords[:count])]
    return _bound(invoke("set_session_vars", *[True if value is OMITTED else value for value in values]))


@CATALOGUE.add("set_session_vars, wrongly", integers(0, 3), weight=1)
def set_wrongly(scene: Scene, _actor: Actor, fault: int) -> Deed:
    """With an argument that there is not, one too many, or one given twice: nothing may change."""
    first = scene.shape.keywords[0]
    if fault == 0:
        return invoke("set_session_vars", nonsense="x")
    if fault == 1:
        return invoke("set_session_vars", **{first: "x", "Session_Key": "y"})
    if fault == 2:
        return invoke("set_session_vars", *["x"] * (len(scene.shape.keywords) + 1))
    return invoke("set_session_vars", "x", **{first: "y"})


@CATALOGUE.add("clear_session_vars", integers(0, 11), weight=6)
def clear(_scene: Scene, _actor: Actor, which: int) -> Deed:
    """With nothing, with tokens of whichever bind and context, with what is no token, or twice."""
    if which < 4:
        return invoke("clear_session_vars", ([], None, (), 5)[which])
    if which == 4:
        return invoke("clear_session_vars", tokens=[])
    if which == 5:
        return invoke("clear_session_vars")
    times = 2 if which == 6 else 1

    def act(world: World) -> object:
        tokens = world.binds[-1 - which % len(world.binds)] if world.binds else []
        return [world.namespace["clear_session_vars"](tokens) for _ in range(times)]

    return Deed(lambda: f"clear_session_vars(the tokens of bind {-1 - which})" + ", twice" * (times - 1), act)


@CATALOGUE.add("reset_session_vars", integers(0, 15), weight=4, needs="reset_session_vars")
def reset(_scene: Scene, _actor: Actor, wrongly: int) -> Deed:
    """As it should be called, and seldom with an argument too many."""
    return invoke("reset_session_vars", *["x"] * (wrongly == 15))


@CATALOGUE.add("get_session_env", integers(0, 60), integers(0, 6), weight=6)
def read(scene: Scene, _actor: Actor, index: int, style: int) -> Deed:
    """Every name, known or not, with every kind of default."""
    names = (*scene.shape.names, *UNKNOWN_NAMES, "HERMES_ADDED", "HERMES_PLATFORM", "PATH", "")
    name = names[index % len(names)]
    if style == 5:
        return invoke("get_session_env", name, default=MARK)
    if style == 6:
        return invoke("get_session_env", default=None, name=name)
    return invoke("get_session_env", name, *((), ("d",), (None,), (MARK,), ("",))[style])


_BAD_NAMES: tuple[Any, ...] = (
    None,
    3,
    b"HOME",
    [],
    {},
    "\0",
    "a=b",
    "\ud800",
    "\udcff",
    Text("HERMES_SESSION_KEY"),
    1.5,
)


@CATALOGUE.add("get_session_env, odd names", sampled_from(_BAD_NAMES), integers(0, 3))
def read_oddly(_scene: Scene, _actor: Actor, name: Any, style: int) -> Deed:
    """Names that are no names, and calls that are no calls."""
    if style == 2:
        return replace(invoke("get_session_env"), loose=True)
    if style == 3:
        return replace(invoke("get_session_env", name, "d", "one too many"), loose=True)
    return invoke("get_session_env", name, *["d"] * style)


@CATALOGUE.add("set_current_session_id", ANY, weight=5, needs="set_current_session_id")
def set_current(scene: Scene, _actor: Actor, value: Any) -> Deed:
    """With texts that can go to the environment and with what cannot."""
    return invoke("set_current_session_id", given(scene, value))


@CATALOGUE.add("declare_stateless_channel", weight=3, needs="declare_stateless_channel")
def declare(_scene: Scene, _actor: Actor) -> Deed:
    """Only this context's answer may change, and no latch."""
    return invoke("declare_stateless_channel")


@CATALOGUE.add("async_delivery_supported", sampled_from(("", "t1", "0", None)), needs="async_delivery_supported")
def supported(_scene: Scene, _actor: Actor, marker: str | None) -> Deed:
    """With and without the marker of a board worker."""
    return _with_variable("HERMES_KANBAN_TASK", marker, "async_delivery_supported")


_SURFACES = sampled_from((None, "", "telegram", "CLI", " cli ", "  ", "nobody knows"))


@CATALOGUE.add("session_is_messaging_surface", _SURFACES, needs="session_is_messaging_surface")
def surface(_scene: Scene, _actor: Actor, platform: str | None) -> Deed:
    """With and without a platform for the whole process."""
    return _with_variable("HERMES_PLATFORM", platform, "session_is_messaging_surface")


def _with_variable(name: str, value: str | None, function: str) -> Deed:
    def act(world: World) -> object:
        if value is None:
            world.environ.pop(name, None)
        else:
            world.environ[name] = value
        return world.namespace[function]()

    return Deed(lambda: f"os.environ[{name!r}] = {value!r}; {function}()", act)


class _Failing:
    @property
    def scope_id(self) -> NoReturn:
        raise RuntimeError("no scope")


class _Stopping:
    @property
    def parent_chat_id(self) -> NoReturn:
        raise Stop("no chat")


_SOURCES = (
    None,
    SimpleNamespace(scope_id="g", parent_chat_id="p"),
    SimpleNamespace(scope_id=7),
    SimpleNamespace(scope_id="", parent_chat_id=None),
    SimpleNamespace(parent_chat_id=Text("p")),
    SimpleNamespace(scope_id=[1]),
    _Failing(),
    _Stopping(),
    object(),
)
_METADATA: tuple[Any, ...] = (None, {}, {"a": 1}, {"scope_id": "old", "z": 2}, [], [("a", 1)], "text", 5)


@CATALOGUE.add("source_route_metadata", sampled_from(_SOURCES), sampled_from(_METADATA), needs="source_route_metadata")
def route(_scene: Scene, _actor: Actor, source: Any, metadata: Any) -> Deed:
    """Sources with all, some and none of the anchors, and metadata that is and is not a mapping."""
    return invoke("source_route_metadata", source, metadata)


def _scoped(world: World, value: Any) -> Any:
    arguments = () if value is OMITTED else (real(world, value),)
    return world.namespace["scoped_current_session_id"](*arguments)


_SCOPED = "scoped_current_session_id _SESSION_ID"
_SCOPE_VALUES = sampled_from((FRESH, OMITTED, None, "", FRESH, FRESH, 5))


@CATALOGUE.add("scoped_current_session_id: entered", _SCOPE_VALUES, weight=3, needs=_SCOPED)
def enter_scope(scene: Scene, _actor: Actor, value: Any) -> Deed:
    """Entered here and left by a later step, perhaps by somebody else."""
    value = given(scene, value)

    def act(world: World) -> object:
        scope = _scoped(world, value)
        world.scopes.append(scope)
        return scope.__enter__()

    return Deed(lambda: f"scoped_current_session_id({value!r}).__enter__()", act)


@CATALOGUE.add("scoped_current_session_id: left", integers(0, 3), integers(0, 3), weight=3, needs=_SCOPED)
def leave_scope(scene: Scene, _actor: Actor, back: int, how: int) -> Deed | None:
    """Left in any order and context, with and without an exception, and sometimes twice."""
    if not scene.reference.scopes:
        return None
    index = max(len(scene.reference.scopes) - 1 - back, 0)
    error = (None, None, KeyError("inside"), Stop("inside"))[how]

    def act(world: World) -> object:
        scope = world.scopes[index] if how == 1 else world.scopes.pop(index)
        return scope.__exit__(type(error) if error else None, error, None)

    return Deed(lambda: f"scope {index}.__exit__({error!r})" + " and kept" * (how == 1), act)


_BODIES: dict[str, Callable[[World], object]] = {
    "pass": lambda world: None,
    "read": lambda world: world.namespace["get_session_env"]("HERMES_SESSION_ID", MARK),
    "rebind": lambda world: world.namespace["set_session_vars"](session_id="rebound"),
    "clear": lambda world: world.namespace["clear_session_vars"]([]),
    "set the variable": lambda world: world.keep(world.namespace["_SESSION_ID"].set("inner")),
    "divide by zero": lambda world: 1 // 0,
}


_WAYS = sampled_from([(body, way) for way in range(3) for body in _BODIES])


@CATALOGUE.add("scoped_current_session_id: around", _SCOPE_VALUES, _WAYS, needs=_SCOPED)
def around(scene: Scene, _actor: Actor, value: Any, way: tuple[str, int]) -> Deed:
    """Around a body, nested in another, or as a decorator."""
    value = given(scene, value)
    body, how = way

    def act(world: World) -> object:
        if how == 2:
            return _scoped(world, value)(lambda: outcome(lambda: _BODIES[body](world)))()
        with _scoped(world, value), _scoped(world, "nested" if how else None):
            return _BODIES[body](world)

    style = ("with {}: {}", "with {}, nested: {}", "decorated by {}: {}")[how]
    return Deed(lambda: style.format(f"scoped_current_session_id({value!r})", body), act)
