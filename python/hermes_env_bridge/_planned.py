"""What a child of this task has to have of the session, and which values its spawner stated on purpose."""

from __future__ import annotations

import os
from typing import Any

from hermes_env_bridge import _core
from hermes_env_bridge._module import session_module

_ENVIRON: Any = type(os.environ)


class Stated(str):
    """The value of an owned name in an environment that :func:`stated` marked.

    The mark goes wherever the value goes: into a copy of the environment, a merge with another, a thread that has no
    session. It is lost when the value is written to ``os.environ``, encoded or pickled, and replacing the value
    replaces it: what is in the environment then is nobody's statement any more.
    """

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Stated:
        """The value itself, as for any text."""
        return self

    def __reduce_ex__(self, protocol: Any) -> tuple[type[str], tuple[str]]:
        """Plain text: another process has its own spawners."""
        return str, (str(self),)


def stated(env: dict[str, str]) -> dict[str, str]:
    """Mark what *env* has under owned names as what its spawner wants, and return *env*."""
    for name in owned():
        if name in env:
            env[name] = Stated(env[name])
    return env


def owned() -> list[str]:
    """The names of the session module in use, which a child has from its task or not at all."""
    return [name for name in list(session_module()._VAR_MAP) if isinstance(name, str)]


def planned() -> dict[str, str | None]:
    """What a child of this task has to have under each owned name: its text, or None for nothing.

    Raises what a bound value raises that cannot be made a text.
    """
    return _core.planned(session_module())


def judge(env: Any) -> tuple[tuple[str, ...], bool, bool]:
    """Judge the environment of a child of this task, a mapping as ``subprocess`` takes it.

    Returns the owned names whose values are another session's or stale, whether the spawner stated any value, and
    whether the child gets nothing of the identity that the task has. Raises what reading the mapping raises, and what
    :func:`planned` raises.
    """
    if type(env) is not dict:
        # What os.environ keeps it in can be looked at while another thread writes.
        env = env._data if type(env) is _ENVIRON else dict(env.items())
    return _core.judge(session_module(), env, Stated)
