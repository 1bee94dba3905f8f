"""What was learnt of a session module: its variables, their keywords, and which of its verbs run natively."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import FunctionType, ModuleType
from typing import Any

from hermes_env_bridge._core import VARIABLES, SessionVar
from hermes_env_bridge._rewrite import Rewritten

VERBS = ("set_session_vars", "clear_session_vars", "reset_session_vars", "get_session_env")


@dataclass(frozen=True)
class VariableProfile:
    """One variable: its environment name, the module's name for it, the keyword that binds it, and whether it is ours.

    ``attribute`` and ``keyword`` are None where there is none, or where the module's own code decides.
    """

    name: str
    attribute: str | None
    keyword: str | None
    ours: bool


@dataclass(frozen=True)
class VerbProfile:
    """One function of the module. ``native`` is true if everything it does to variables is a native call; ``reason``
    says, where it is not, why.
    """

    name: str
    native: bool
    reason: str


@dataclass(frozen=True)
class Profile:
    """A session module, as it was learnt."""

    module: str
    path: str
    variables: tuple[VariableProfile, ...]
    verbs: tuple[VerbProfile, ...]

    def to_json(self) -> dict[str, Any]:
        """The profile as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        """The profile for a person: a line for each variable and verb."""
        lines = [f"{self.module} ({self.path})"]
        for variable in self.variables:
            keyword = f"keyword {variable.keyword}" if variable.keyword else "no keyword"
            lines.append(f"  {variable.name}: {keyword}{'' if variable.ours else ', not ours'}")
        for verb in self.verbs:
            lines.append(f"  {verb.name}: {'native' if verb.native else f'the own code: {verb.reason}'}")
        return "\n".join(lines)


def profile_of(module: ModuleType, rewritten: Rewritten) -> Profile:
    """What *rewritten* and the module that came of it say."""
    attributes = {id(value): name for name, value in vars(module).items() if isinstance(value, SessionVar)}
    keywords = {id(variable): keyword for keyword, variable in _bound(module, rewritten)}
    variables = tuple(
        VariableProfile(name, attributes.get(id(var)), keywords.get(id(var)), type(var) is SessionVar)
        for name, var in module._VAR_MAP.items()
    )
    functions = [name for name, value in vars(module).items() if isinstance(value, FunctionType)]
    verbs = tuple(_verb(name, rewritten) for name in functions if _is_of(module, name))
    return Profile(module.__name__, str(module.__file__), variables, verbs)


def own_profile(module: ModuleType) -> Profile:
    """The profile of the package's own module, whose verbs are native calls as they are written."""
    attributes = {id(value): name for name, value in vars(module).items() if isinstance(value, SessionVar)}
    keywords = dict(VARIABLES)
    variables = tuple(
        VariableProfile(name, attributes.get(id(var)), keywords.get(name), type(var) is SessionVar)
        for name, var in module._VAR_MAP.items()
    )
    verbs = tuple(VerbProfile(name, True, "") for name in VERBS)
    return Profile(module.__name__, str(module.__file__), variables, verbs)


def _bound(module: ModuleType, rewritten: Rewritten) -> list[tuple[str, Any]]:
    bound = []
    for keyword, (name, place) in rewritten.keywords.items():
        found = getattr(module, name, None)
        if place is not None:
            found = found[place] if isinstance(found, tuple) and place < len(found) else None
        if found is not None:
            bound.append((keyword, found))
    return bound


def _verb(name: str, rewritten: Rewritten) -> VerbProfile:
    if name in rewritten.own:
        return VerbProfile(name, False, rewritten.own[name])
    return VerbProfile(name, True, "")


def _is_of(module: ModuleType, name: str) -> bool:
    return getattr(vars(module)[name], "__module__", None) == module.__name__
