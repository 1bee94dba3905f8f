"""Who comes and who goes: new actors, actors that finish, and generators that are left in the middle."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextvars import copy_context
from typing import Any

from hypothesis.strategies import integers, sampled_from

from ..actors import Actor, drive
from ..comparison import outcome
from ..scene import Deed, Scene
from ..stage import KINDS
from ..world import World
from .operation import Catalogue
from .values import UNSET, real

CATALOGUE = Catalogue()
_VARIABLES = integers(0, 59)


def _arrival(kind: str) -> None:
    @CATALOGUE.add(f"actor: new {kind}", weight=5 if kind == "task" else 3)
    def arrive(scene: Scene, actor: Actor) -> Deed | None:
        """Made by the acting one; everything is then compared in the new one."""
        if scene.stage.full:
            return None
        born = scene.stage.spawn(kind, actor)
        return Deed(lambda: f"made by {actor.name}", lambda world: None, actor=born)


for _kind in KINDS:
    _arrival(_kind)


@CATALOGUE.add("actor: finished", weight=2)
def finish(scene: Scene, actor: Actor) -> Deed | None:
    """The acting one leaves; everything is then compared in the first, which never does."""
    first = scene.stage.actors[0]
    if actor is first:
        return None
    scene.stage.finish(actor)
    return Deed(lambda: f"{actor.name} has finished", lambda world: None, actor=first)


async def _in_scope(world: World, _label: str, value: Any) -> AsyncGenerator[int, None]:
    with world.namespace["scoped_current_session_id"](real(world, value)):
        yield 1
        yield 2


async def _by_token(world: World, label: str, value: Any) -> AsyncGenerator[int, None]:
    token = world.variables[label].set(real(world, value))
    try:
        yield 1
        yield 2
    finally:
        world.variables[label].reset(token)


async def _by_verbs(world: World, _label: str, value: Any) -> AsyncGenerator[int, None]:
    tokens = world.namespace["set_session_vars"](real(world, value))
    try:
        yield 1
        yield 2
    finally:
        world.namespace["clear_session_vars"](tokens)


_BODIES: dict[str, Callable[[World, str, Any], AsyncGenerator[int, None]]] = {
    "resetting by token": _by_token,
    "around set and clear": _by_verbs,
    "in a scoped session id": _in_scope,
}


def _body(scene: Scene, text: str) -> str:
    if text == "in a scoped session id" and not scene.shape.has("scoped_current_session_id"):
        return "resetting by token"
    return text


_BEGINNINGS = sampled_from([(text, value) for value in ("g", None, UNSET) for text in _BODIES])


@CATALOGUE.add("generator: begun", _BEGINNINGS, _VARIABLES)
def begin(scene: Scene, _actor: Actor, beginning: tuple[str, Any], index: int) -> Deed:
    """An async generator, run to its first yield; later steps go on with it wherever they are."""
    text, value = beginning
    text = _body(scene, text)
    label = scene.shape.variables[index % len(scene.shape.variables)]

    def act(world: World) -> object:
        generator = _BODIES[text](world, label, value)
        world.generators.append(generator)
        return drive(anext(generator))

    return Deed(lambda: f"a generator {text} begun, {label}, {value!r}", act)


@CATALOGUE.add("generator: continued", integers(0, 3))
def proceed(scene: Scene, _actor: Actor, back: int) -> Deed | None:
    """To its next yield or to its end."""
    count = len(scene.reference.generators)
    if not count:
        return None
    index = max(count - 1 - back, 0)
    return Deed(lambda: f"generator {index} continued", lambda world: drive(anext(world.generators[index], "ended")))


@CATALOGUE.add("generator: left", integers(0, 3), integers(0, 1))
def leave(scene: Scene, _actor: Actor, back: int, how: int) -> Deed | None:
    """Closed here, or as a loop does it with an abandoned one: in a task, so in a copy of a context."""
    count = len(scene.reference.generators)
    if not count:
        return None
    index = max(count - 1 - back, 0)

    def act(world: World) -> object:
        closing = world.generators.pop(index).aclose()
        return copy_context().run(drive, closing) if how else drive(closing)

    return Deed(lambda: f"generator {index} closed" + ", in a copied context" * how, act)


@CATALOGUE.add("generator: broken off", sampled_from(tuple(_BODIES)), _VARIABLES)
def break_off(scene: Scene, _actor: Actor, text: str, index: int) -> Deed:
    """``async for ...: break`` with nobody to close it but the interpreter's hook."""
    text = _body(scene, text)
    label = scene.shape.variables[index % len(scene.shape.variables)]

    async def consume(world: World) -> None:
        async for _ in _BODIES[text](world, label, "g"):
            break

    def act(world: World) -> object:
        ends: list[object] = []
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(
            firstiter=None,
            finalizer=lambda left: ends.append(outcome(lambda: copy_context().run(drive, left.aclose()))),
        )
        try:
            drive(consume(world))
        finally:
            sys.set_asyncgen_hooks(*hooks)
        return ends

    return Deed(lambda: f"async for over a generator {text}, broken off, {label}", act)
