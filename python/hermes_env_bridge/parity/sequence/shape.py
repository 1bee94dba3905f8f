"""What one version of the module has, found by looking at it."""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from types import ModuleType


class Shape:
    """The functions, variables, mapped names and keywords of a version of the module."""

    def __init__(self, module: ModuleType) -> None:
        """The shape of *module*."""
        namespace = vars(module)
        self._namespace = dict(namespace)
        self.functions = tuple(
            name
            for name, value in namespace.items()
            if inspect.isroutine(value) and value.__module__ == module.__name__
        )
        self.names: tuple[str, ...] = tuple(namespace["_VAR_MAP"])
        self.globals = tuple(name for name, value in namespace.items() if isinstance(value, ContextVar))
        by_attribute = {id(namespace[name]) for name in self.globals}
        self.mapped_only = tuple(name for name, var in namespace["_VAR_MAP"].items() if id(var) not in by_attribute)
        self.variables = self.globals + tuple(map(mapped, self.mapped_only))
        self.keywords = tuple(inspect.signature(namespace["set_session_vars"]).parameters)
        self.own_names = tuple(name for name, value in namespace.items() if self._is_own(module, name, value))

    @staticmethod
    def _is_own(module: ModuleType, name: str, value: object) -> bool:
        if name.startswith("__"):
            return False
        # Imported classes and helpers are no part of the module's face; imported modules are patched by callers.
        origin = getattr(value, "__module__", module.__name__)
        return inspect.ismodule(value) or origin == module.__name__ or not callable(value)

    def has(self, *names: str) -> bool:
        """True if the module has all these names."""
        return self._namespace.keys() >= set(names)


def mapped(name: str) -> str:
    """How a variable that only the map holds is called."""
    return f"_VAR_MAP[{name!r}]"
