"""The environment of a child process: the identity of the task that starts it, and nobody else's.

:func:`child_env` makes it. The rule is Hermes' own by default: what the task has bound goes to its children, cleared
variables as empty ones; what it has not bound is inherited only as long as no session was ever bound in the process.
:mod:`hermes_env_bridge.spawn` starts programs with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any, Literal

from hermes_env_bridge import _core, passthrough
from hermes_env_bridge._core import Credentials, child_env
from hermes_env_bridge._module import session_module

if TYPE_CHECKING:
    from hermes_env_bridge.credentials import Spawn

__all__ = [
    "Decision",
    "InvalidEnvError",
    "bridged_pairs",
    "child_env",
    "launch_home",
    "owned_names",
    "owns",
    "shell_exports",
    "shell_unset",
]

Policy = Literal["inherit", "detached", "minimal"]

_WINDOWS = os.name == "nt"
_UNSTATED: Any = object()
_SPAWNS = "'terminal', 'program' and 'model'"

# The process' own, whatever is written to os.environ later.
_LAUNCH_HOME = os.environ.get("HERMES_HOME")


class InvalidEnvError(ValueError):
    """No program can be started with such an environment. Says which variable it is, never what is in it.

    ``size`` is what is too much and ``limit`` what would be allowed, if it is a matter of size; else both are None.
    """

    def __init__(self, message: str, name: str = "", size: int | None = None, limit: int | None = None) -> None:
        """Take what is said, and of which variable."""
        super().__init__(message, name, size, limit)
        self.name = name
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        """What is said."""
        return str(self.args[0])


@dataclass(frozen=True)
class Decision:
    """What a child gets under one name, "set", "empty", "strip", "keep" or "absent", and why. Never the value."""

    name: str
    action: str
    why: str

    def __str__(self) -> str:
        """The decision for a person, in a line."""
        return f"{self.name}: {self.action}: {self.why}"


@dataclass(frozen=True)
class _Spec:
    """What a spawner asks for; the native side reads the fields."""

    policy: str
    allow: list[str]
    deny: list[str]
    extra: dict[str, str]
    credentials: Credentials | None
    passthrough: list[str]
    delegated: bool
    home: str | None
    cwd: str | None
    windows: bool


def _planned(
    base: Mapping[str, str] | None = None,
    *,
    policy: Policy = "inherit",
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
    credentials: Credentials | Spawn | None = None,
    delegated: bool | None = None,
    home: str | os.PathLike[str] | None = _UNSTATED,
    cwd: str | os.PathLike[str] | None = None,
    windows: bool = _WINDOWS,
    module: ModuleType | None = None,
    explain: bool = False,
) -> dict[str, str] | tuple[dict[str, str], tuple[Decision, ...]]:
    """Do what :func:`child_env` does, for any arguments."""
    source = session_module() if module is None else module
    if not hasattr(source, "_VAR_MAP"):
        raise TypeError(f"module is a session module, and {source!r} is none: it has no _VAR_MAP")
    inherited = _copy(os.environ if base is None else base)
    if home is None:
        home = inherited.get("HERMES_HOME") or _LAUNCH_HOME
    if isinstance(credentials, str):
        from hermes_env_bridge.credentials import hermes_credentials

        credentials = hermes_credentials(credentials)
    if delegated is None:
        delegated = policy != "inherit" and _is_delegated()
    spec = _Spec(
        policy=_instance("policy", policy, str, "'inherit', 'detached' or 'minimal'"),
        allow=_core.names("allow", allow),
        deny=_core.names("deny", deny),
        extra=dict(_instance("extra", {} if extra is None else extra, Mapping, "a mapping of names to values")),
        credentials=_instance("credentials", credentials, (Credentials, NoneType), f"Credentials, or one of {_SPAWNS}"),
        passthrough=sorted(passthrough.names()) if policy == "minimal" else [],
        delegated=_instance("delegated", delegated, bool, "True, False or None"),
        home=None if home is _UNSTATED or home is None else _path("home", home),
        cwd=None if cwd is None else _absolute(_path("cwd", cwd), windows),
        windows=_instance("windows", windows, bool, "True or False"),
    )
    planned = _core.plan(inherited, _core.bound(source), _core.engaged_of(source), spec)
    env = _core.marked({name: value for name, _, _, value in planned if value is not None}, spec.extra)
    if not explain:
        return env
    return env, tuple(Decision(name, action, why) for name, action, why, _ in planned)


def bridged_pairs(*, module: ModuleType | None = None) -> dict[str, str]:
    """Return name and value of each session variable that this task has bound, as its children get them.

    To hand on where a child's environment is a fixed table: a container's, an MCP server's, SSH's.
    """
    return {name: value for name, value in _core.bound(module or session_module()) if value is not None}


def owned_names(*, module: ModuleType | None = None) -> tuple[str, ...]:
    """Return the names whose values are decided anew for each child.

    The session variables, those of *module* among them, a board worker's claim, and the mark of a descendant. What is
    saved of one child's environment (a shell's state, a configuration) must leave them out.
    """
    variables = [name for name in list((module or session_module())._VAR_MAP) if isinstance(name, str)]
    return tuple(dict.fromkeys([*variables, *_core.owned_names()]))


def owns(name: str, *, module: ModuleType | None = None) -> bool:
    """Return whether *name* is one of :func:`owned_names`, or one of a later version's claim."""
    return _core.owns(name) or name in (module or session_module())._VAR_MAP


def shell_exports(env: Mapping[str, str] | None = None) -> str:
    """Return a line ``export NAME='value'`` for each variable of *env*, by default :func:`bridged_pairs`.

    For any POSIX shell, which gets each value whole. Raises InvalidEnvError for a name that no shell takes and for a
    value with a NUL. Text that is not UTF-8 has its bytes as ``os.fsdecode`` gives them, so write it with
    ``os.fsencode``.
    """
    return _core.shell_exports(bridged_pairs() if env is None else dict(env))


def shell_unset(names: Iterable[str] | None = None) -> str:
    """Return a line ``unset NAME`` for each of *names*, by default :func:`owned_names`.

    What a shell that lives longer than one child's identity must forget before it is told the next one's.
    """
    return _core.shell_unset(owned_names() if names is None else names)


def launch_home() -> str | None:
    """Return the ``HERMES_HOME`` with which this process was started, whatever has been written to it since."""
    return _LAUNCH_HOME


def _copy(base: Mapping[str, str]) -> dict[str, str]:
    """A copy of *base* that no other thread can disturb."""
    if base is os.environ and (copy := _core.environ()) is not None:
        return copy
    if base.__class__ is dict:
        return base.copy()
    if not isinstance(base, Mapping):
        raise TypeError(f"an environment is a mapping of names to values, not {type(base).__name__}")
    copied = {}
    for name in _list(base):
        try:
            copied[name] = base[name]
        except KeyError:  # taken out meanwhile
            continue
    return copied


def _list(base: Mapping[str, str]) -> list[str]:
    while True:
        try:
            return list(base)
        except RuntimeError as error:
            if "changed size" not in str(error) and "keys changed" not in str(error):
                raise


def _instance(what: str, given: Any, kind: type | tuple[type, ...], expected: str) -> Any:
    """*given*. Raises TypeError if that is not of *kind*."""
    if not isinstance(given, kind):
        raise TypeError(f"{what} is {expected}, not {type(given).__name__}")
    return given


def _path(what: str, given: object) -> str:
    path = given.__fspath__() if isinstance(given, os.PathLike) else given
    if not isinstance(path, str):
        raise TypeError(f"{what} is a str or a path of one, not {type(given).__name__}")
    if not path:
        raise ValueError(f"{what} is a directory, and the empty path is none; leave it out instead")
    return path


def _absolute(cwd: str, windows: bool) -> str:
    """What the child would make of it is something else; another system's paths are left alone."""
    return os.path.abspath(cwd) if windows == _WINDOWS else cwd


def _is_delegated() -> bool:
    """What the installed Hermes says of this task; a child whose ancestry cannot be told is marked."""
    delegation = sys.modules.get("agent.delegation_context")
    if delegation is None:
        return False
    try:
        return bool(delegation.is_delegated_child_context())
    except Exception:
        return True
