"""Plays random operations on two session modules of any shape, and compares everything that can be seen.

Needs ``_VAR_MAP`` and no other name: functions are called by their signatures, variables are found wherever they are
kept. A step is a few numbers, so the first sequence that differs can be shortened by leaving steps out.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, Token, copy_context
from functools import partial
from random import Random
from types import ModuleType
from typing import Any

from shape_side import Doubtful, Side, Thing

Step = tuple[int, ...]
Load = Callable[[], ModuleType]


POOL: tuple[Any, ...] = (
    "",
    "a",
    " b ",
    "c" * 3,
    None,
    True,
    False,
    0,
    7,
    ("t",),
    Thing("x"),
    Thing("y", False),
    Doubtful(),
)
ENVIRONMENT = ("", "from the environment", "other")
CONTEXTS = 4
WIDTH = 64


def draw(random: Random, count: int) -> list[Step]:
    """A sequence of that many steps."""
    return [tuple(random.randrange(1 << 16) for _ in range(WIDTH)) for _ in range(count)]


class DifferenceError(AssertionError):
    """The two modules do not agree."""


class Play:
    """Both modules, from their first step on."""

    def __init__(self, plain: ModuleType, adapted: ModuleType, hooks: Any = None) -> None:
        self.sides = (Side(plain), Side(adapted))
        self.hooks = hooks
        self.story: list[str] = []
        self.environment = dict(os.environ)
        self.same("the variables", [list(side.variables) for side in self.sides])
        self.same("the functions", [list(side.functions) for side in self.sides])
        self.operations = [
            *[self.call] * (12 if self.sides[0].functions else 0),
            *[self.set, self.set, self.set, self.reset, self.environ, self.environ, self.spawn],
            *[self.replace, self.patch, self.latch],
        ]

    def play(self, steps: list[Step]) -> None:
        """Make the steps. Raises :class:`DifferenceError`."""
        try:
            for step in steps:
                self.step(step)
            for at in range(len(self.sides[0].contexts)):
                self.same(f"in context {at}", [side.contexts[at].run(side.digest) for side in self.sides])
        finally:
            self.put_environment(self.environment)

    def step(self, step: Step) -> None:
        """Make one step on both sides."""
        which, where, route, *numbers = step
        text, act = self.operations[which % len(self.operations)](tuple(numbers))
        at = where % len(self.sides[0].contexts)
        before = dict(os.environ)
        after: list[Any] = []
        seen: list[Any] = []
        for side in self.sides:
            self.put_environment(before)
            calls: list[Any] = []
            if self.hooks is not None:
                self.hooks.heard = _listener(side, calls)
            seen.append(_by_route(route, side.contexts[at], partial(_done, side, act)))
            after.append([dict(os.environ), calls])
        self.story.append(f"context {at}: {text}")
        self.same("the result, and what is seen afterwards", seen)
        self.same("the environment and the hooks' calls", after)

    def put_environment(self, wanted: dict[str, str]) -> None:
        """Make the environment this one."""
        for name in os.environ.keys() - wanted.keys():
            del os.environ[name]
        for name, value in wanted.items():
            if os.environ.get(name) != value:
                os.environ[name] = value

    def same(self, what: str, pair: list[Any]) -> None:
        """Raise :class:`DifferenceError` unless both are the same."""
        if pair[0] != pair[1]:
            lines = [f"{number}. {line}" for number, line in enumerate(self.story, 1)]
            raise DifferenceError("\n".join([*lines, f"=> {what}", *_apart(*pair)]))

    # Each operation returns how it is told, and what is done on a side.

    def call(self, numbers: Step) -> tuple[str, Callable[[Side], Any]]:
        first = self.sides[0]
        name = list(first.functions)[numbers[0] % len(first.functions)]
        try:
            parameters = list(inspect.signature(first.functions[name]).parameters.values())
        except ValueError:
            parameters = []
        positional: list[Callable[[Side], Any]] = []
        keywords: dict[str, Callable[[Side], Any]] = {}
        told = []
        in_order = True
        for parameter, number in zip(parameters, numbers[2:], strict=False):
            text, value = self.value(parameter.name, number >> 3)
            if parameter.kind is parameter.VAR_KEYWORD:
                keywords[self.any_keyword(number)] = value
            elif parameter.kind is parameter.VAR_POSITIONAL or (
                parameter.default is not parameter.empty and number % 3 == 0
            ):
                in_order = False
                continue
            elif in_order and number % 3 == 1 and parameter.kind is not parameter.KEYWORD_ONLY:
                positional.append(value)
            else:
                in_order = False
                keywords[parameter.name] = value
            told.append(f"{parameter.name}={text}")
        if numbers[1] % 40 == 0:
            keywords["no_such_keyword"] = lambda _side: "x"

        def act(side: Side) -> Any:
            function = side.namespace.get(name) or side.functions[name]
            arguments = [value(side) for value in positional]
            return function(*arguments, **{key: value(side) for key, value in keywords.items()})

        return f"{name}({', '.join(told)})", act

    def any_keyword(self, number: int) -> str:
        """What a bind that takes any keyword may know: the end of a variable's name."""
        words = [name.rpartition("_")[2].lower() for name in self.sides[0].names]
        return words[number % len(words)] if words else "x"

    def value(self, parameter: str, number: int) -> tuple[str, Callable[[Side], Any]]:
        """A value that suits a parameter of that name."""
        if parameter == "name":
            names = [*self.sides[0].names, "NO_SUCH_NAME"]
            name = names[number % len(names)]
            return repr(name), lambda _side: name
        if parameter in ("tokens", "token"):
            return self.kept(parameter, number)
        if number % 17 == 0:
            return "_UNSET", lambda side: side.unset
        value = POOL[number % len(POOL)]
        return repr(value), lambda _side: value

    def kept(self, parameter: str, number: int) -> tuple[str, Callable[[Side], Any]]:
        """Tokens from before; none if there are none."""

        def find(side: Side) -> Any:
            among = side.results if parameter == "tokens" else side.tokens
            return among[-1 - number % min(len(among), 3)] if among else ([] if parameter == "tokens" else None)

        return f"kept {parameter} -{1 + number % 3}", find

    def set(self, numbers: Step) -> tuple[str, Callable[[Side], Any]]:
        label = self.label(numbers[0])
        text, value = self.value("value", numbers[1])
        return f"{label}.set({text})", lambda side: side.variables[label].set(value(side))

    def reset(self, numbers: Step) -> tuple[str, Callable[[Side], Any]]:
        text, token = self.kept("token", numbers[0])

        def act(side: Side) -> None:
            kept = token(side)
            if kept is not None:
                kept.var.reset(kept)

        return f"reset({text})", act

    def environ(self, numbers: Step) -> tuple[str, Callable[[Side], Any]]:
        names = [*self.sides[0].names, "NO_SUCH_NAME"]
        name, value = names[numbers[0] % len(names)], ENVIRONMENT[numbers[1] % len(ENVIRONMENT)]
        if not name or numbers[2] % 3 == 0:
            return f"del os.environ[{name!r}]", lambda _side: os.environ.pop(name, None) if name else None
        return f"os.environ[{name!r}] = {value!r}", lambda _side: os.environ.__setitem__(name, value)

    def spawn(self, numbers: Step) -> tuple[str, Callable[[Side], Any]]:
        def act(side: Side) -> None:
            made = Context() if numbers[0] % 4 == 0 else copy_context()
            if len(side.contexts) < CONTEXTS:
                side.contexts.append(made)
            else:
                side.contexts[1 + numbers[1] % (CONTEXTS - 1)] = made

        return f"a new context ({numbers[0] % 4})", act

    def replace(self, numbers: Step) -> tuple[str, Callable[[Side], Any]]:
        """Another variable under a name of the map, if that is a dict."""
        label = self.label(numbers[0])
        names = self.sides[0].names
        name = names[numbers[1] % len(names)] if names and numbers[2] % 4 else "ADDED_NAME"

        def act(side: Side) -> None:
            if isinstance(side.map, dict):
                side.map[name] = side.variables[label]

        return f"_VAR_MAP[{name!r}] = {label}", act

    def patch(self, numbers: Step) -> tuple[str, Callable[[Side], Any]]:
        """Another variable under a global name."""
        labels = [name for name in self.sides[0].variables if name in self.sides[0].namespace]
        if not labels:
            return "nothing", lambda _side: None
        name, label = labels[numbers[0] % len(labels)], self.label(numbers[1])
        return f"module.{name} = {label}", lambda side: setattr(side.module, name, side.variables[label])

    def latch(self, numbers: Step) -> tuple[str, Callable[[Side], Any]]:
        """The latch written from outside, if there is one."""
        value = numbers[0] % 2 == 0

        def act(side: Side) -> None:
            if hasattr(side.module, "_session_context_engaged"):
                setattr(side.module, "_session_context_engaged", value)  # noqa: B010

        return f"_session_context_engaged = {value}", act

    def label(self, number: int) -> str:
        labels = list(self.sides[0].variables)
        return labels[number % len(labels)]


def _listener(side: Side, calls: list[Any]) -> Callable[..., None]:
    """A hook that remembers its calls, and what could be seen from inside of them."""

    def heard(*call: Any) -> None:
        calls.append((side.plain(call), side.digest()))

    return heard


def _done(side: Side, act: Callable[[Side], Any]) -> Any:
    """What the act returns or raises, and what is seen afterwards."""
    try:
        result = act(side)
        side.keep(result)
        result = _driven(side, result)
        outcome = side.plain(result)
    except Exception as error:
        outcome = side.plain(error)
    return outcome, side.digest()


def _driven(side: Side, result: Any) -> Any:
    """The result of a coroutine, the items of a generator, what is seen in a context manager; else the result."""
    if isinstance(result, Coroutine):
        try:
            result.send(None)
        except StopIteration as stopped:
            side.keep(stopped.value)
            return "returned", stopped.value
        return "awaits"
    if isinstance(result, Generator):
        return "yielded", list(result)
    if isinstance(result, contextlib.AbstractContextManager) and not isinstance(result, Token):
        with result as entered:
            return "entered", entered, side.digest()
    return result


def _by_route(route: int, context: Context, job: Callable[[], Any]) -> Any:
    """The job's result: mostly in the context itself, seldom in a copy of it or in a thread."""
    if route % 16 == 0:
        return context.run(lambda: copy_context().run(job))
    if route % 16 == 1:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(context.run(job)))
        thread.start()
        thread.join()
        return results[0]
    return context.run(job)


def _apart(one: Any, other: Any) -> list[str]:
    """Where two values differ, as far down as both have the same form."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one if one[key] != other[key] for line in [f"   {key}:", *_apart(one[key], other[key])]]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [line for a, b in zip(one, other, strict=True) if a != b for line in _apart(a, b)]
    return [f"   plain:   {one!r}", f"   adapted: {other!r}"]


def compare(plain: Load, adapted: Load, steps: list[Step], hooks: Any = None, *, shorten: bool = True) -> None:
    """Play the steps on fresh modules. Raises :class:`DifferenceError`, with the shortest sequence that was found."""

    def fails(chosen: list[Step]) -> DifferenceError | None:
        try:
            Play(plain(), adapted(), hooks).play(chosen)
        except DifferenceError as difference:
            return difference
        return None

    found = fails(steps)
    if found is None:
        return
    while (
        shorten and (shorter := next((kept for kept in _shorter(steps) if fails(kept) is not None), None)) is not None
    ):
        steps, found = shorter, fails(shorter) or found
    raise found


def _shorter(steps: list[Step]) -> Generator[list[Step]]:
    """The sequence without one of its parts, large parts first."""
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield steps[:start] + steps[start + size :]
        size //= 2
