"""What is done with single variables and with tokens."""

from __future__ import annotations

import contextvars
import copy
import pickle
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis.strategies import integers, sampled_from

from ..actors import Actor
from ..comparison import brief, outcome
from ..scene import Deed, Scene
from ..world import MARK, World
from .operation import Catalogue
from .values import ANY, UNSET, given, real

CATALOGUE = Catalogue()
_VARIABLES = integers(0, 59)
_BACK = integers(0, 40)


def _name(scene: Scene, index: int) -> str:
    """The variable that *index* means; any of them, with the delivery flag a little more often."""
    labels = scene.shape.variables
    return labels[index % len(labels)]


def _on_variable(label: str, text: str, act: Callable[[World, Any], object], *, loose: bool = False) -> Deed:
    return Deed(lambda: f"{label}{text}", lambda world: act(world, world.variables[label]), loose)


def _on_token(scene: Scene, back: int, text: str, act: Callable[[World, Any], object]) -> Deed | None:
    """A deed with the token kept *back* tokens ago, or None if none was ever kept."""
    tokens = scene.reference.tokens
    if not tokens:
        return None
    index = max(len(tokens) - 1 - back, 0)
    return Deed(lambda: text.format(f"token {index}"), lambda world: act(world, world.tokens[index]))


@CATALOGUE.add("variable.get", _VARIABLES, integers(0, 2))
def get(scene: Scene, _actor: Actor, index: int, style: int) -> Deed:
    """With no default, None, and another object."""
    default = ((), (None,), (MARK,))[style]
    text = f".get({', '.join(map(repr, default))})"
    return _on_variable(_name(scene, index), text, lambda world, variable: variable.get(*default))


@CATALOGUE.add("variable.set", _VARIABLES, ANY, weight=6)
def put(scene: Scene, _actor: Actor, index: int, value: Any) -> Deed:
    """Any value in any variable; the token is kept."""
    value = given(scene, value)

    def act(world: World, variable: Any) -> object:
        return world.keep(variable.set(real(world, value)))

    return _on_variable(_name(scene, index), f".set({brief(value)})", act)


@CATALOGUE.add("variable.set, to the sentinel", _VARIABLES, weight=3)
def unset(scene: Scene, actor: Actor, index: int) -> Deed:
    """Not the same as never set: the variable's own default is one, but a caller's default tells them apart."""
    return put(scene, actor, index, UNSET)


@CATALOGUE.add("token reset by its own variable", _BACK, weight=8)
def reset(scene: Scene, _actor: Actor, back: int) -> Deed | None:
    """In time, late, a second time, in another context."""
    return _on_token(scene, back, "{0}.var.reset({0})", lambda world, token: _take_back(token))


@CATALOGUE.add("token reset by any variable", _VARIABLES, _BACK)
def reset_elsewhere(scene: Scene, _actor: Actor, index: int, back: int) -> Deed | None:
    """Mostly not the variable that made it."""
    label = _name(scene, index)
    return _on_token(scene, back, f"{label}.reset({{}})", lambda world, token: world.variables[label].reset(token))


_NO_TOKENS = ("None", "a text", "a list", "a real variable's token", "the variable itself", "Token.MISSING")


@CATALOGUE.add("reset without a token", _VARIABLES, sampled_from(_NO_TOKENS), weight=1)
def reset_nothing(scene: Scene, _actor: Actor, index: int, what: str) -> Deed:
    """Whatever is no token of such a variable is refused in the same way."""

    def act(world: World, variable: Any) -> object:
        real_token = world.spares[0].set("x")
        world.spares[0].reset(real_token)
        things: tuple[Any, ...] = (None, "text", [], real_token, variable, contextvars.Token.MISSING)
        return variable.reset(things[_NO_TOKENS.index(what)])

    return _on_variable(_name(scene, index), f".reset({what})", act, loose=what != "a real variable's token")


def _take_back(token: Any) -> object:
    return token.var.reset(token)


@CATALOGUE.add("tokens of a bind reset in reverse", integers(0, 3), weight=4)
def unwind(scene: Scene, _actor: Actor, back: int) -> Deed | None:
    """All of them, whatever each of them does."""
    if not scene.reference.binds:
        return None
    index = max(len(scene.reference.binds) - 1 - back, 0)

    def act(world: World) -> object:
        tokens = world.binds[index]
        return [len(tokens), *[outcome(partial(_take_back, token)) for token in reversed(tokens)]]

    return Deed(lambda: f"for t in reversed(the tokens of bind {index}): t.var.reset(t)", act)


@CATALOGUE.add("token looked at", _BACK)
def look(scene: Scene, _actor: Actor, back: int) -> Deed | None:
    """Its variable, its old value, its classes, its text."""

    def act(world: World, token: Any) -> object:
        classes = [isinstance(token, contextvars.Token), type(token).MISSING is contextvars.Token.MISSING]
        equal = [token == token, token != world.tokens, token in [token], outcome(lambda: len({token}))]
        return [token.var, token.old_value, *classes, *equal, world.names.plain(repr(token))]

    return _on_token(scene, back, "{0}.var, {0}.old_value, repr({0}), isinstance({0}, Token), ...", act)


_TOKEN_FAULTS: dict[str, Callable[[Any], object]] = {
    "made by its class": lambda token: type(token)(),
    "its variable replaced": lambda token: setattr(token, "var", None),
    "its old value replaced": lambda token: setattr(token, "old_value", None),
    "given an attribute": lambda token: setattr(token, "nonsense", None),
    "called": lambda token: token(),
    "ordered": lambda token: token < token,
}


@CATALOGUE.add("token misused", _BACK, sampled_from(tuple(_TOKEN_FAULTS)), weight=1)
def misuse_token(scene: Scene, _actor: Actor, back: int, fault: str) -> Deed | None:
    """What no token allows; the kind of exception must be the same."""
    deed = _on_token(scene, back, f"{{}}: {fault}", lambda world, token: _TOKEN_FAULTS[fault](token))
    return deed and Deed(deed.text, deed.act, loose=True)


@CATALOGUE.add("token as a context manager", _BACK, weight=1)
def enter_token(scene: Scene, _actor: Actor, back: int) -> Deed | None:
    """Where the interpreter's tokens are context managers, ours are; elsewhere neither is."""

    def act(world: World, token: Any) -> object:
        with token as entered:
            return entered is token

    deed = _on_token(scene, back, "with {}: pass", act)
    # Before 3.14 the message names the class, in words that differ between interpreters' own checks.
    return deed and Deed(deed.text, deed.act, loose=sys.version_info < (3, 14))


_VARIABLE_FAULTS: dict[str, Callable[[Any], object]] = {
    "get(1, 2)": lambda variable: variable.get(1, 2),
    "get(default=1)": lambda variable: variable.get(default=1),
    "set()": lambda variable: variable.set(),
    "set(1, 2)": lambda variable: variable.set(1, 2),
    "set(value=1)": lambda variable: variable.set(value=1),
    "reset()": lambda variable: variable.reset(),
    "reset(1, 2)": lambda variable: variable.reset(1, 2),
    "name = 'x'": lambda variable: setattr(variable, "name", "x"),
    "del name": lambda variable: delattr(variable, "name"),
    "nonsense = 1": lambda variable: setattr(variable, "nonsense", 1),
    "a new one of no name": lambda variable: type(variable)(),
    "a new one of name 5": lambda variable: type(variable)(5),
    "a new one with two positionals": lambda variable: type(variable)("x", 1),
    "variable()": lambda variable: variable(),
    "variable < variable": lambda variable: variable < variable,
    "a subclass": lambda variable: type("Sub", (type(variable),), {}),
}


@CATALOGUE.add("variable misused", _VARIABLES, sampled_from(tuple(_VARIABLE_FAULTS)))
def misuse(scene: Scene, _actor: Actor, index: int, fault: str) -> Deed:
    """Calls that are wrong; the kind of exception must be the same."""
    fails = _VARIABLE_FAULTS[fault]
    return _on_variable(_name(scene, index), f": {fault}", lambda world, variable: fails(variable), loose=True)


_COPIES: dict[str, Callable[[Any], object]] = {
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    **{f"pickle, protocol {n}": lambda thing, n=n: pickle.dumps(thing, n) for n in (0, 2, 5)},  # type: ignore[misc]
}
_HOWS = sampled_from(tuple(_COPIES))


@CATALOGUE.add("variable copied or pickled", _VARIABLES, _HOWS, weight=1)
def duplicate(scene: Scene, _actor: Actor, index: int, how: str) -> Deed:
    """Refused, in the same words."""
    return _on_variable(_name(scene, index), f": {how}", lambda world, variable: _COPIES[how](variable))


@CATALOGUE.add("token copied or pickled", _BACK, _HOWS, weight=1)
def duplicate_token(scene: Scene, _actor: Actor, back: int, how: str) -> Deed | None:
    """Refused, in the same words."""
    return _on_token(scene, back, f"{{}}: {how}", lambda world, token: _COPIES[how](token))


@CATALOGUE.add("variable looked at", _VARIABLES, _VARIABLES)
def look_at_variable(scene: Scene, _actor: Actor, index: int, second: int) -> Deed:
    """Its name, class, text, hash, equality, and membership among the others."""
    other = _name(scene, second)

    def act(world: World, variable: Any) -> object:
        others = list(world.variables.values())
        return [
            variable.name,
            isinstance(variable, contextvars.ContextVar),
            world.names.plain(repr(variable)),
            type(variable)[str],
            hash(variable) == hash(variable),
            variable == world.variables[other],
            variable != world.variables[other],
            others.index(variable),
            len({variable, *others}) == len(others),
            variable in world.map.values(),
            bool(variable),
        ]

    return _on_variable(_name(scene, index), f" looked at, beside {other}", act)


_FRESH_VARIABLES = sampled_from(("no default", "default None", "the sentinel"))


@CATALOGUE.add("variable made by the class", _FRESH_VARIABLES, integers(0, 2), weight=1)
def make_variable(_scene: Scene, _actor: Actor, default: str, style: int) -> Deed:
    """A new variable made by the class of the module's variables works like them."""

    def act(world: World) -> object:
        kind = world.names.variable_type
        defaults = {"no default": {}, "default None": {"default": None}}.get(default, {"default": world.unset})
        variable: Any = kind("MADE", **defaults)
        before = outcome(lambda: variable.get())
        token = variable.set("x")
        seen = [before, variable.get(), variable.name, token.old_value, token.var is variable]
        if style:
            variable.reset(token)
        if style == 2:
            seen.append(outcome(lambda: variable.reset(token)))
        return [*seen, outcome(variable.get)]

    return Deed(lambda: f"a new variable of the same class, {default}", act)
