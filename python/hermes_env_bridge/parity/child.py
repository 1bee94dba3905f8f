"""A child process with an empty home of its own, which is ended when its time is up."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# What a child may inherit: enough to find the interpreter, the packages and the shell, nothing of a session.
_INHERITED = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT")


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit status, or None if its time was up, and all that it printed."""

    status: int | None
    output: str
    errors: str

    @property
    def last_words(self) -> str:
        """The last lines on standard error or, if there are none, on standard output."""
        return last_words(self.errors) or last_words(self.output) or "it printed nothing"


def last_words(text: str, lines: int = 5) -> str:
    """Return the last *lines* of *text* on one line, the very last one, which names the error, first."""
    return " < ".join(line.strip() for line in reversed(text.strip().splitlines()[-lines:]))


def prepare_home(root: Path) -> dict[str, str]:
    """Create a fresh user's folders, and ``work`` to start in, below *root*; return the environment for them.

    Raises :class:`FileExistsError` if *root* already has them.
    """
    home, temporary, trusted, work = root / "home", root / "tmp", root / "trusted", root / "work"
    for folder in (home / ".hermes", temporary, trusted, work):
        folder.mkdir(parents=True)
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return environment | {
        "HOME": str(home),
        "HERMES_HOME": str(home / ".hermes"),
        "TMPDIR": str(temporary),
        # A folder without certificates: none is trusted, and reading the system's takes each client 40 ms.
        "SSL_CERT_DIR": str(trusted),
        # Sets of names iterate in one order, so that two runs print the same.
        "PYTHONHASHSEED": "0",
    }


def run(command: Sequence[str], root: Path, environment: dict[str, str], timeout: float) -> Ended:
    """Run *command* in the ``work`` folder of :func:`prepare_home` and wait for it, *timeout* seconds at most.

    When the time is up, the child is killed with all that it started in its process group.
    """
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=root / "work",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return Ended(None, *process.communicate())
    return Ended(process.returncode, output, errors)
