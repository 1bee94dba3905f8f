"""The commands of the command line, a module each, with ``DESCRIPTION``, ``add_arguments(parser)`` and ``run``."""

from __future__ import annotations

import sys

NAME = "hermes-env-bridge"


def refuse(command: str, why: Exception | str, *, debug: bool = False) -> int:
    """Say in a line on stderr why *command* cannot be done, with *debug* an exception's traceback; return 2."""
    if debug and isinstance(why, Exception):
        import traceback

        traceback.print_exception(why)
        return 2
    # An exception that is not made for a reader may say nothing but its name.
    unnamed = isinstance(why, Exception) and not isinstance(why, (RuntimeError, OSError))
    text = f"{type(why).__name__}: {why}" if unnamed else str(why)
    print(f"{NAME} {command}".rstrip() + ":", *text.split(), file=sys.stderr)
    return 2
