"""Starts programs with the identity of the task that starts them.

:func:`run`, :func:`call`, :func:`check_call`, :func:`check_output`, :class:`Popen`, :func:`create_subprocess_exec` and
:func:`create_subprocess_shell` are those of ``subprocess`` and ``asyncio``, and take the keywords of
:func:`hermes_env_bridge.child_env` besides. The identity is the one that is bound at the call. ``env`` is what the
environment is made of, by default ``os.environ``; all of it is checked before anything is started.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from asyncio.subprocess import Process
from collections.abc import Iterable, Mapping
from typing import Any

from hermes_env_bridge import _core
from hermes_env_bridge._core import child_env

__all__ = [
    "Popen",
    "call",
    "check_call",
    "check_output",
    "create_subprocess_exec",
    "create_subprocess_shell",
    "prepared",
    "run",
]

Word = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# What belongs to child_env; it gets cwd as well, which the spawn itself needs too.
_OPTIONS = ("policy", "allow", "deny", "extra", "credentials", "delegated", "home", "module")


class Popen(subprocess.Popen[Any]):
    """``subprocess.Popen`` with the environment of :func:`hermes_env_bridge.child_env`.

    Raises what both raise; nothing is started if the environment cannot be made.
    """

    def __init__(self, args: Word | Iterable[Word], *positional: Any, **keywords: Any) -> None:
        """Start *args*."""
        args = _whole(args)
        super().__init__(args, *positional, **prepared(args, keywords))


def run(args: Word | Iterable[Word], **keywords: Any) -> subprocess.CompletedProcess[Any]:
    """``subprocess.run`` with the environment of :func:`hermes_env_bridge.child_env`; raises what both raise."""
    args = _whole(args)
    return subprocess.run(args, **prepared(args, keywords))


def call(args: Word | Iterable[Word], **keywords: Any) -> int:
    """``subprocess.call`` with the environment of :func:`hermes_env_bridge.child_env`; raises what both raise."""
    args = _whole(args)
    return subprocess.call(args, **prepared(args, keywords))


def check_call(args: Word | Iterable[Word], **keywords: Any) -> int:
    """``subprocess.check_call`` with the environment of :func:`hermes_env_bridge.child_env`.

    Raises what both raise.
    """
    args = _whole(args)
    return subprocess.check_call(args, **prepared(args, keywords))


def check_output(args: Word | Iterable[Word], **keywords: Any) -> Any:
    """``subprocess.check_output`` with the environment of :func:`hermes_env_bridge.child_env`.

    Raises what both raise.
    """
    args = _whole(args)
    return subprocess.check_output(args, **prepared(args, keywords))


async def create_subprocess_exec(program: Word, *args: Word, **keywords: Any) -> Process:
    """``asyncio.create_subprocess_exec`` with the environment of :func:`hermes_env_bridge.child_env`.

    Raises what both raise.
    """
    return await asyncio.create_subprocess_exec(program, *args, **prepared([program, *args], keywords))


async def create_subprocess_shell(command: str | bytes, **keywords: Any) -> Process:
    """``asyncio.create_subprocess_shell`` with the environment of :func:`hermes_env_bridge.child_env`.

    Raises what both raise.
    """
    return await asyncio.create_subprocess_shell(command, **prepared(command, keywords))


def prepared(args: Word | Iterable[Word], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the *keywords* of a spawn of *args* with the environment in ``env``, and what it was made of taken out.

    For other functions that start a program. Raises what :func:`hermes_env_bridge.child_env` raises.
    """
    options = {name: value for name, value in keywords.items() if name in _OPTIONS}
    if isinstance(cwd := keywords.get("cwd"), (str, bytes, os.PathLike)):
        options["cwd"] = os.path.abspath(os.fsdecode(cwd))
    env = child_env(keywords.get("env"), **options)
    args = _whole(args)
    words = [args] if isinstance(args, (str, bytes, os.PathLike)) else args
    _core.check_env(env, [os.fsdecode(word) for word in words], os.name == "nt")
    return {name: value for name, value in keywords.items() if name not in _OPTIONS} | {"env": env}


def _whole(args: Word | Iterable[Word]) -> Word | list[Word]:
    """What is read more than once."""
    return args if isinstance(args, (str, bytes, os.PathLike)) else list(args)
