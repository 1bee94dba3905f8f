"""Which line of a program is at work, seen from below the standard library."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import FrameType

_HERE = os.path.dirname(__file__) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_PACKAGES = tuple(_LIBRARY + name + os.sep for name in ("site-packages", "dist-packages"))


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of code; ``str`` shows it as ``file:line in function``."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """The site for a person."""
        return f"{self.file}:{self.line} in {self.function}"


# What code does that no Python function called: a thread's, or atexit's, own call of a function in C.
_NO_CODE = CallSite("<no Python code>", 0, "<native code>")


def call_site(frame: FrameType | None, *skipped: str) -> CallSite:
    """The innermost line that is neither in the standard library, nor in this package, nor in one of *skipped* files.

    Where there is none, as for a library function that a pool's thread runs by itself, it is *frame*'s own.
    """
    inner = frame
    while inner is not None:
        file = inner.f_code.co_filename
        if not (_is_library(file) or file.startswith(_HERE) or file in skipped):
            return _site(inner)
        inner = inner.f_back
    return _NO_CODE if frame is None else _site(frame)


def _is_library(file: str) -> bool:
    return file.startswith("<frozen ") or (file.startswith(_LIBRARY) and not file.startswith(_PACKAGES))


def _site(frame: FrameType) -> CallSite:
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
