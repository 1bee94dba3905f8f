"""What a shell is asked to say about its environment."""

from __future__ import annotations

from collections.abc import Iterable

from .modules import SESSION_NAMES

UNSET = "<unset>"

# Prints the variables of Hermes that a shell has, whatever their names.
LIST_HERMES = "env | grep HERMES | sort"


def show(names: Iterable[str] = SESSION_NAMES) -> str:
    """Return a command that prints a line for each of *names*: its value, or :data:`UNSET`, told from empty."""
    return "; ".join(f'printf "%s=%s\\n" {name} "${{{name}-{UNSET}}}"' for name in names)


def shown(output: str) -> dict[str, str]:
    """Return the values in the *output* of :func:`show`."""
    parts = (line.partition("=") for line in output.splitlines())
    return {name: value for name, found, value in parts if found}
