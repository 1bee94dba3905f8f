"""One session module in a comparison: its variables, wherever they are kept, and how its values are told."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, Token
from functools import partial
from types import ModuleType
from typing import Any


class Thing:
    """A value of no use, told from others by identity."""

    def __init__(self, text: str, truth: bool = True) -> None:
        self.text, self.truth = text, truth

    def __repr__(self) -> str:
        return f"Thing({self.text})"

    def __bool__(self) -> bool:
        return self.truth


class Doubtful:
    """A value whose truth cannot be asked for."""

    def __repr__(self) -> str:
        return "Doubtful"

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")


MARK = Thing("mark")


class Side:
    """One of the two modules, with what belongs to it."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.namespace = vars(module)
        self.map: Any = self.namespace["_VAR_MAP"]
        self.unset = self.namespace.get("_UNSET", MARK)
        self.names = [name for name in self.map if isinstance(name, str)]
        self.variables = _variables(module)
        self.labels: dict[int, str] = {}
        for label, variable in self.variables.items():
            self.labels.setdefault(id(variable), label)
        self.functions = {
            name: value
            for name, value in self.namespace.items()
            if callable(value) and not isinstance(value, type) and getattr(value, "__module__", "") == module.__name__
        }
        self.tokens: list[Any] = []
        self.results: list[Any] = []
        self.contexts = [Context()]

    def plain(self, value: Any, depth: int = 0) -> Any:
        """The value without what is this side's own."""
        if value is self.unset:
            return "<unset>"
        if id(value) in self.labels:
            return "<variable>", self.labels[id(value)]
        if isinstance(value, Token):
            return "<token>", self.plain(value.var), self.plain(value.old_value, depth + 1)
        if isinstance(value, BaseException):
            return "<raised>", type(value).__name__, self.text(str(value))
        if depth < 6 and isinstance(value, Mapping):
            return type(value), [(self.plain(k, depth + 1), self.plain(v, depth + 1)) for k, v in value.items()]
        if depth < 6 and isinstance(value, list | tuple):
            return type(value), [self.plain(item, depth + 1) for item in value]
        if isinstance(value, Thing | Doubtful) or value is Token.MISSING:
            return id(value)
        if isinstance(value, str | bytes | int | float | None):
            return type(value), self.text(value) if isinstance(value, str) else value
        return "<object>", type(value).__name__

    def text(self, text: str) -> str:
        """A message, without addresses and with variables and tokens called by the names of the real ones."""
        for ours, theirs in (
            ("hermes_env_bridge.", "_contextvars."),
            ("SessionVar", "ContextVar"),
            ("SessionToken", "Token"),
        ):
            text = text.replace(ours, theirs)
        return re.sub(r"0x[0-9a-fA-F]+", "0x", text)

    def digest(self) -> dict[str, Any]:
        """What every variable and every read answers in this context."""
        seen = {f"{label}.get": self.asked(partial(variable.get, MARK)) for label, variable in self.variables.items()}
        read = self.namespace.get("get_session_env")
        if callable(read) and not inspect.iscoroutinefunction(read):
            for name in [*self.names[:12], "NO_SUCH_NAME"]:
                seen[f"read {name}"] = self.asked(partial(read, name, MARK))
        for name in ("_session_context_engaged", "BINDS", "LOG"):
            seen[name] = self.plain(self.namespace.get(name, MARK))
        return seen

    def asked(self, ask: Callable[[], Any]) -> Any:
        """What the call returns or raises, plain."""
        try:
            return self.plain(ask())
        except Exception as error:
            return self.plain(error)

    def keep(self, result: Any) -> None:
        """Remember tokens, and results in which there are some."""
        found = [result] if isinstance(result, Token) else list(result) if isinstance(result, list | tuple) else []
        tokens = [token for token in found if isinstance(token, Token)]
        if tokens:
            self.tokens += tokens
            self.results.append(result)


def _variables(module: ModuleType) -> dict[str, Any]:
    """Every variable that can be reached from the module, by how it is reached."""
    found: dict[str, Any] = {}

    def look(label: str, value: Any) -> None:
        if isinstance(value, ContextVar):
            found[label] = value

    for key, value in module._VAR_MAP.items():
        look(f"map[{key!r}]", value)
    for name, value in list(vars(module).items()):
        look(name, value)
        look(f"{name}.__self__", getattr(value, "__self__", None))
        for index, default in enumerate(getattr(value, "__defaults__", None) or ()):
            look(f"{name}.__defaults__[{index}]", default)
        if not isinstance(value, ModuleType) and hasattr(value, "__dict__") and not isinstance(value, ContextVar):
            for inner, held in list(vars(value).items()):
                look(f"{name}.{inner}", held)
    return found
