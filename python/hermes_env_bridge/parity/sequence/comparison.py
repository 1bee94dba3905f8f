"""When two values, one from each side, count as the same, and how they are shown."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Sequence
from contextvars import Context, Token
from types import GenericAlias, ModuleType
from typing import Any

_BRIEFLY = reprlib.Repr()
_BRIEFLY.maxstring = _BRIEFLY.maxother = 120

_TEXTS = frozenset({str, bytes})


class Stop(BaseException):
    """A ``BaseException`` of the run's own, for what must not be swallowed as an ``Exception`` is."""


class Raised:
    """The outcome of a call that did not return."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        """The outcome of a call that raised *error*."""
        self.error = error


def outcome(call: Callable[[], object]) -> object:
    """What *call* returns, or :class:`Raised`; an interrupt by the user is let through."""
    try:
        return call()
    except (Exception, Stop) as error:
        return Raised(error)


class Names:
    """What one side calls the things that both have: its sentinel, its variables, its classes."""

    def __init__(self, unset: object, variable: Any, module: ModuleType) -> None:
        """The names of a side with that sentinel, one of its variables, and its module."""
        self.unset = unset
        self._symbols: dict[int, tuple[object, str]] = {}
        self.variable_type = type(variable)
        self.token_type: type[object] = type(Context().run(variable.set, None))
        self._words: dict[str, str] = {repr(unset): "<unset>", module.__name__: "<module>"}
        for kind, word in (
            (self.variable_type, "ContextVar"),
            (self.token_type, "Token"),
            (type(module), "module"),
        ):
            for name in (kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}"):
                self._words[name] = word
        longest_first = sorted(map(re.escape, self._words), key=len, reverse=True)
        self._own = re.compile(r"(?<![\w.])(?:" + "|".join(longest_first) + r")(?!\w)")
        self.add(unset, "_UNSET")
        self.add(Token.MISSING, "Token.MISSING")

    def add(self, thing: object, symbol: str) -> None:
        """Let *thing*, by identity, count as *symbol*."""
        self._symbols[id(thing)] = (thing, symbol)

    def symbol(self, thing: object) -> str | None:
        """The symbol of *thing*, or None if it has none."""
        found = self._symbols.get(id(thing))
        return found[1] if found is not None else None

    def is_token(self, thing: object) -> bool:
        """True if *thing* is a token, of the interpreter's own class or of this side's."""
        return isinstance(thing, (Token, self.token_type))

    def plain(self, text: str) -> str:
        """*text* without addresses, and with this side's own names replaced by common ones."""
        return re.sub(r"0x[0-9a-fA-F]+", "0x", self._own.sub(lambda found: self._words[found.group()], text))


class Comparison:
    """Compares a value of the reference with one of the subject.

    Objects that both sides were given are compared by identity, since nothing may be coerced or
    copied on the way; what each side made itself is compared by type and content.
    """

    def __init__(self, reference: Names, subject: Names) -> None:
        """Compare values of the two sides that these names belong to."""
        self.reference = reference
        self.subject = subject
        self._shared: dict[int, object] = {}

    def begin(self) -> None:
        """Forget the objects shared before."""
        self._shared.clear()

    def share(self, thing: object) -> None:
        """Both sides are given *thing*: from now on only that very object counts as equal to it."""
        self._shared[id(thing)] = thing

    def first_difference(self, left: Sequence[object], right: Sequence[object]) -> int:
        """The index of the first pair that is not the same, or -1. The two are equally long."""
        ours, theirs = self.reference.unset, self.subject.unset
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            # The two commonest pairs first: this loop is the hot one.
            if one is other or (one is ours and other is theirs):
                continue
            if not self.same(one, other):
                return index
        return -1

    def same(self, one: object, other: object) -> bool:
        """True if *one*, of the reference, and *other*, of the subject, cannot be told apart."""
        if one is other:
            return True
        if type(one) is str and type(other) is str:
            return id(one) not in self._shared and self._same_text(one, other)
        symbol = self.reference.symbol(one)
        if symbol is not None or self.subject.symbol(other) is not None:
            return symbol == self.subject.symbol(other)
        if isinstance(one, Raised) or isinstance(other, Raised):
            return self._same_error(one, other)
        if id(one) in self._shared or id(other) in self._shared:
            return False
        if self.reference.is_token(one):
            return self.subject.is_token(other) and self._same_token(one, other)
        return type(one) is type(other) and self._same_content(one, other)

    def _same_text(self, one: str, other: str) -> bool:
        if one == other:
            return True
        return " at 0x" in one and self.reference.plain(one) == self.subject.plain(other)

    def _same_content(self, one: Any, other: Any) -> bool:
        if isinstance(one, (list, tuple)):
            return len(one) == len(other) and self.first_difference(one, other) < 0
        if isinstance(one, dict):
            # In order: a child can see the order of its environment.
            if one == other and list(one) == list(other) and _TEXTS.issuperset(map(type, one.values())):
                return True
            return self._same_content([*one.items()], [*other.items()])
        if isinstance(one, GenericAlias):
            origins = (one.__origin__, other.__origin__)
            own = (self.reference.variable_type, self.subject.variable_type)
            return origins == own and bool(one.__args__ == other.__args__)
        return bool(one == other)

    def _same_token(self, one: Any, other: Any) -> bool:
        return self.same(one.var, other.var) and self.same(one.old_value, other.old_value)

    def _same_error(self, one: object, other: object) -> bool:
        if not (isinstance(one, Raised) and isinstance(other, Raised)):
            return False
        if type(one.error) is not type(other.error):
            return False
        ours, theirs = str(one.error), str(other.error)
        return ours == theirs or self.reference.plain(ours) == self.subject.plain(theirs)


def show(names: Names, value: Any) -> str:
    """*value*, of the side that *names* belongs to, for a person."""
    if isinstance(value, Raised):
        return f"raised {type(value.error).__name__}({_cut(names.plain(str(value.error)))!r})"
    symbol = names.symbol(value)
    if symbol is not None:
        return symbol
    if names.is_token(value):
        return f"<token of {show(names, value.var)}, before: {show(names, value.old_value)}>"
    if type(value) in (list, tuple):
        return f"[{', '.join(show(names, item) for item in value)}]"
    return names.plain(brief(value))


def brief(value: object) -> str:
    """The ``repr`` of *value* cut to a length that fits a line, whatever its class does."""
    try:
        return _cut(repr(value)) if isinstance(value, (dict, list, tuple)) else _BRIEFLY.repr(value)
    except (Exception, Stop) as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def _cut(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
