"""What an adapted session module gets for ``contextvars``: the same names, with our variables for its own.

``ContextVar`` and ``Token`` here make ours, and take both ours and Python's own for an instance, as the module's code
expects that has real variables among its own.
"""

from __future__ import annotations

import contextvars
from contextvars import Context, copy_context
from types import GenericAlias
from typing import Any

from hermes_env_bridge._core import SessionToken, SessionVar

__all__ = ["Context", "ContextVar", "Token", "copy_context"]


class _StandIn(type):
    """The class of a class that stands in for one of ``contextvars``."""

    ours: Any
    real: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.ours(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, (cls.real, cls.ours))

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.ours, name)


class ContextVar(metaclass=_StandIn):
    """Makes a variable of ours; real ones count as instances too."""

    ours = SessionVar
    real = contextvars.ContextVar
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init_subclass__(cls) -> None:
        """Refused, as a real one's."""
        raise TypeError("type 'ContextVar' is not an acceptable base type")


class Token(metaclass=_StandIn):
    """The class of tokens; real ones count as instances too."""

    ours = SessionToken
    real = contextvars.Token
    MISSING = contextvars.Token.MISSING
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init_subclass__(cls) -> None:
        """Refused, as a real one's."""
        raise TypeError("type 'Token' is not an acceptable base type")
