"""The process-wide places that both sides of a differential run use in turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

AGENT_MODULES = ("agent", "agent.runtime_cwd", "agent.delegation_context")


class Process:
    """The caller's ``os.environ``, ``os.getenv`` and ``agent`` package, lent to one side at a time."""

    def __init__(self, written: Iterable[str]) -> None:
        """*written* are the names of environment variables that a run may write."""
        # Through the dicts: a type checker objects to the assignment of a function, and these are the hot path.
        self._os = vars(os)
        self.environ = os.environ
        self.getenv: Callable[..., Any] = os.getenv
        self._agent = {name: sys.modules[name] for name in AGENT_MODULES if name in sys.modules}
        self._written = tuple(written)

    def environ_over(self, backing: dict[bytes, bytes]) -> Any:
        """A genuine ``os.environ`` whose content is *backing*."""
        own: Any = self.environ
        return type(own)(backing, own.encodekey, own.decodekey, own.encodevalue, own.decodevalue)

    def lend(self, environ: Any, getenv: Callable[..., Any], agent: dict[str, Any]) -> None:
        """Put one side's objects in place."""
        self._os["environ"] = environ
        self._os["getenv"] = getenv
        sys.modules.update(agent)

    def take_back(self) -> None:
        """Put the caller's own objects in place."""
        self._os["environ"] = self.environ
        self._os["getenv"] = self.getenv
        for name in AGENT_MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(self._agent)

    def close(self) -> None:
        """Leave the process as it was: a genuine environment writes through to the process when it is written."""
        self.take_back()
        for name in self._written:
            if name in self.environ:
                os.putenv(name, self.environ[name])
            else:
                os.unsetenv(name)
