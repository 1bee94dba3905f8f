"""What is changed around the module's functions: its globals, its map, the environment, the ``agent`` package."""

from __future__ import annotations

from typing import Any

from hypothesis.strategies import integers, sampled_from

from ..actors import Actor
from ..scene import Deed, Scene
from ..world import ABSENT, LATCH, World, child_environment
from .fakes import DELEGATIONS, ENTRIES, ENVIRONS, GETENVS, PACKAGES, RUNTIMES, agent_package, patches
from .operation import Catalogue
from .values import POOL, real

CATALOGUE = Catalogue()
_NAMES = integers(0, 59)


@CATALOGUE.add("latch written", sampled_from((False, True, 0, 1, "", "yes", None, [])), weight=4, needs=LATCH)
def write_latch(_scene: Scene, _actor: Actor, value: Any) -> Deed:
    """As an attribute of the module, the way tests do it."""
    return Deed(lambda: f"{LATCH} = {value!r}", lambda world: setattr(world.module, LATCH, value))


@CATALOGUE.add("latch deleted", weight=1, needs=LATCH)
def delete_latch(_scene: Scene, _actor: Actor) -> Deed:
    """Until it is written again its readers fail."""
    return Deed(lambda: f"del {LATCH}", lambda world: delattr(world.module, LATCH))


@CATALOGUE.add("latch read", integers(0, 1), weight=1, needs=f"{LATCH} session_context_engaged")
def read_latch(_scene: Scene, _actor: Actor, style: int) -> Deed:
    """By the function and by the attribute."""
    if style:
        return Deed(lambda: LATCH, lambda world: getattr(world.module, LATCH))
    return Deed(lambda: "session_context_engaged()", lambda world: world.module.session_context_engaged())


@CATALOGUE.add("global replaced", integers(0, 79), weight=6)
def patch(scene: Scene, _actor: Actor, index: int) -> Deed:
    """A function, the map, a variable, ``os``: whatever callers replace, later calls must see."""
    possible = patches(scene.shape)
    chosen = possible[index % len(possible)]
    if chosen.name not in scene.patched:
        scene.patched.append(chosen.name)
    return Deed(lambda: f"{chosen.name} = {chosen.text}", chosen.apply)


@CATALOGUE.add("global restored", integers(0, 9), weight=7)
def unpatch(scene: Scene, _actor: Actor, back: int) -> Deed | None:
    """One that was replaced before."""
    if not scene.patched:
        return None
    name = scene.patched.pop(-1 - back % len(scene.patched))
    return Deed(lambda: f"{name} restored", lambda world: world.restore_global(name))


@CATALOGUE.add("map entry changed", _NAMES, sampled_from(tuple(ENTRIES)), weight=4)
def change_entry(scene: Scene, _actor: Actor, index: int, text: str) -> Deed:
    """Replaced, added or deleted in the module's own map, which everybody shares."""
    names = (*scene.shape.names, "HERMES_ADDED", "HERMES_UNKNOWN")
    name = names[index % len(names)]

    def act(world: World) -> None:
        entry = ENTRIES[text](world)
        if entry is ABSENT:
            world.map.pop(name, None)
        else:
            world.map[name] = entry

    return Deed(lambda: f"_VAR_MAP[{name!r}] = {text}", act)


@CATALOGUE.add("map restored", weight=4)
def restore_map(_scene: Scene, _actor: Actor) -> Deed:
    """All its entries, in their order."""
    return Deed(lambda: "_VAR_MAP restored", lambda world: world.restore_map())


_TEXTS = ("", "mirror", "1", "telegram", "\udcff", "Ünï", "a\0b", None, 5)


@CATALOGUE.add("os.environ edited", _NAMES, sampled_from(_TEXTS), weight=5)
def edit(scene: Scene, _actor: Actor, index: int, value: Any) -> Deed:
    """A known or unknown name set, or with None deleted."""
    names = (*scene.shape.names, "HERMES_PLATFORM", "HERMES_KANBAN_TASK", "HERMES_UNKNOWN")
    name = names[index % len(names)]

    def act(world: World) -> None:
        if value is None:
            world.environ.pop(name, None)
        else:
            world.environ[name] = value

    return Deed(lambda: f"os.environ[{name!r}] = {value!r}", act)


@CATALOGUE.add("os.environ replaced", sampled_from(tuple(ENVIRONS)), weight=2)
def replace_environ(_scene: Scene, _actor: Actor, text: str) -> Deed:
    """By another object over the same content."""
    return Deed(lambda: f"os.environ = {text}", lambda world: world.replace_environ(ENVIRONS[text]))


@CATALOGUE.add("os.getenv replaced", sampled_from(tuple(GETENVS)), weight=1)
def replace_getenv(_scene: Scene, _actor: Actor, text: str) -> Deed:
    """By another function."""
    return Deed(lambda: f"os.getenv = {text}", lambda world: world.replace_getenv(GETENVS[text](world)))


@CATALOGUE.add("os.environ and os.getenv restored", weight=3)
def restore_environ(_scene: Scene, _actor: Actor) -> Deed:
    """Genuine again, with the content of the start."""
    return Deed(lambda: "os.environ and os.getenv restored", lambda world: world.renew_environ())


_DELEGATIONS = sampled_from([(name, package) for package in PACKAGES for name in (*DELEGATIONS, "a child")])


@CATALOGUE.add("agent package replaced", sampled_from(tuple(RUNTIMES)), _DELEGATIONS, weight=6)
def replace_agent(_scene: Scene, _actor: Actor, runtime: str, second: tuple[str, str]) -> Deed:
    """The hooks that the module looks up at each call: there, absent, failing, incomplete."""
    delegation, package = second
    return Deed(
        lambda: f"agent {package}: runtime_cwd {runtime}, delegation_context {delegation}",
        lambda world: world.replace_agent(agent_package(world, runtime, delegation, package)),
    )


@CATALOGUE.add("child environment", integers(0, 2**24 - 1), integers(0, len(POOL)), weight=3)
def bridge(scene: Scene, _actor: Actor, mask: int, flavour: int) -> Deed:
    """Built from an environment that has some of the names already, with one variable bound oddly."""
    base = {name: f"old {name}" for index, name in enumerate(scene.shape.names) if mask >> index & 1}
    label = scene.shape.variables[mask % len(scene.shape.variables)]
    value = POOL[flavour - 1] if flavour else None

    def act(world: World) -> object:
        if flavour:
            world.keep(world.variables[label].set(real(world, value)))
        return child_environment(world.module, {"PATH": "/bin", **base, "LAST": "\udcff"})

    return Deed(lambda: f"the child environment of {sorted(base)}" + f" after {label}.set(...)" * bool(flavour), act)
