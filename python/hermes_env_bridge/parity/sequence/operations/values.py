"""The values that operations pass to both sides."""

from __future__ import annotations

from typing import Any, NoReturn

from hypothesis.strategies import sampled_from

from ..comparison import brief
from ..scene import Scene
from ..world import World


class Placeholder:
    """Stands for something that each side has an own one of, or that has to be made on the spot."""

    def __init__(self, text: str) -> None:
        """A placeholder that is shown as *text*."""
        self._text = text

    def __repr__(self) -> str:
        """The text."""
        return self._text


class Text(str):
    """A ``str`` of a class of its own, which must not become a plain one."""


class Untruthful:
    """Has no truth value."""

    def __bool__(self) -> NoReturn:
        """Raises RuntimeError."""
        raise RuntimeError("no truth value")


class Unspeakable:
    """Cannot be made a text."""

    def __str__(self) -> NoReturn:
        """Raises LookupError."""
        raise LookupError("no text")

    def __repr__(self) -> str:
        """A text after all, for reports."""
        return "<Unspeakable>"


class Alike:
    """Says that it equals everything, so that a test by ``==`` instead of ``is`` shows."""

    def __eq__(self, other: object) -> bool:
        """Always true."""
        return True

    def __hash__(self) -> int:
        """The same for all."""
        return 1


FRESH = Placeholder("<a new text>")
UNSET = Placeholder("_UNSET")
OMITTED = Placeholder("<omitted>")

_TEXTS = ("", "a", " ", "telegram", " CLI ", "api_server", "desktop", "Ünï☃", "\udcff", "\ud800", "a\0b", "x" * 5000)
_OBJECTS: tuple[Any, ...] = (None, 0, 7, True, False, 1.5, b"bytes", [], ["list"], {"k": 1}, Text("sub"), object())
_ODD = (Untruthful(), Unspeakable(), Alike())
SHARED: tuple[Any, ...] = (*_TEXTS, *_OBJECTS, *_ODD)
POOL: tuple[Any, ...] = (UNSET, *SHARED)
ANY = sampled_from((FRESH, "", *POOL, *[FRESH] * 12))

BOOLS: tuple[Any, ...] = (True, False, OMITTED, 0, "", "x", None, [], UNSET, _ODD[0], 1)
CRON: tuple[Any, ...] = (OMITTED, "", "1", UNSET, None, FRESH, 5, False)


def given(scene: Scene, value: Any) -> Any:
    """*value* with a new text in the place of ``FRESH``."""
    return scene.fresh() if value is FRESH else value


def real(world: World, value: Any) -> Any:
    """*value* with the world's own sentinel in the place of ``UNSET``."""
    return world.unset if value is UNSET else value


def call(name: str, /, *positional: Any, **keywords: Any) -> str:
    """How a call is told."""
    parts = [brief(value) for value in positional] + [f"{key}={brief(value)}" for key, value in keywords.items()]
    return f"{name}({', '.join(parts)})"
