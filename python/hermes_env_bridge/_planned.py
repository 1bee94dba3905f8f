"""What a child of this task has to have of the session, and which values its spawner stated on purpose."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hermes_env_bridge import _core
from hermes_env_bridge._module import session_module

# What writes through to the environment that a child inherits which is given none. ``os.environ`` may be patched, also
# before this is imported, and its other face, where there is one, seldom is.
PROCESS: Any = os.environb if os.supports_bytes_environ else os.environ

_ENVIRON: Any = type(PROCESS)

# How what starts a child reads a mapping.
Reading = Callable[[Any], dict[Any, Any]]


class _Marked(str):
    """The value of an owned name in an environment that ``child_env`` made.

    The mark goes wherever the value goes: into a copy of the environment, a merge with another, a thread that has no
    session. It is lost when the value is written to ``os.environ``, encoded or pickled, and replacing the value
    replaces it: what is in the environment then has come from anywhere.
    """

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Marked:
        """The value itself, as for any text."""
        return self

    def __reduce_ex__(self, protocol: Any) -> tuple[type[str], tuple[str]]:
        """Plain text: another process has its own spawners."""
        return str, (str(self),)


class Stated(_Marked):
    """A value that the spawner added: it is right in any child."""

    __slots__ = ()


class Carried(_Marked):
    """A value of the session in which the environment was made: it is right in a child of that, and of no session."""

    __slots__ = ()


def marked(env: dict[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Mark in *env* what ``child_env`` took from *extra* and from this task's session, and return *env*.

    What it merely kept is not marked: it is there because of nobody's decision.
    """
    for name, text in _core.bound(session_module()):
        if name in env:
            if name in extra:
                env[name] = Stated(env[name])
            elif text is not None and env[name] == text:
                env[name] = Carried(text)
    return env


def planned() -> dict[str, str | None]:
    """What a child of this task has to have under each owned name: its text, or None for nothing.

    Raises what a bound value raises that cannot be made a text.
    """
    return _core.planned(session_module())


def is_process(env: Any) -> bool:
    """Whether *env* is one of the two faces of this process' own environment."""
    return type(env) is _ENVIRON and (env is PROCESS or env._data is PROCESS._data)


def by_items(env: Any) -> dict[Any, Any]:
    """Read *env* as ``subprocess`` does; it hands on what has no items, for ``os.posix_spawn`` may take it."""
    return _only(env.items()) if hasattr(env, "items") else by_lists(env)


def by_lists(env: Any) -> dict[Any, Any]:
    """Read *env* as ``os.posix_spawn`` and ``os.exec*`` do."""
    return _only(zip(env.keys(), env.values(), strict=True))


def _only(items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    listed = list(items)
    read = dict(listed)
    if len(read) != len(listed):
        raise ValueError("an environment has a name twice, and a child gets both")
    return read


def judge(env: Any, read: Reading) -> tuple[tuple[str, ...], bool, bool]:
    """Judge the environment of a child of this task, a mapping that is *read* so.

    Returns the names of session variables whose values are another session's or stale, whether any value is marked, and
    whether the child gets nothing of the identity that the task has. Raises what reading the mapping raises, and what
    :func:`planned` raises.
    """
    if type(env) is not dict:
        # What os.environ keeps it in can be looked at while another thread writes.
        env = env._data if type(env) is _ENVIRON else read(env)
    return _core.judge(session_module(), env, Stated, Carried)
