"""How far a parity run is, told to who is waiting: a line for what is done and, on a terminal, one that moves."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, TextIO

from .report import Paint, Section

_EVERY = 0.5
_GREEN, _RED, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"
_ERASE = "\r\x1b[2K"


class Counter(Protocol):
    """A number that processes share, as ``multiprocessing.Value`` makes it."""

    value: int


def paint_for(stream: TextIO, environ: Mapping[str, str] = os.environ) -> Paint:
    """What colours a verdict: green or red on a terminal, and nothing elsewhere or where ``NO_COLOR`` is set."""
    colored = is_terminal(stream, environ) and not environ.get("NO_COLOR")

    def paint(text: str, good: bool) -> str:
        return f"{_GREEN if good else _RED}{text}{_PLAIN}" if colored else text

    return paint


def is_terminal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """True if lines on *stream* can be erased again."""
    return stream.isatty() and environ.get("TERM") != "dumb"


class Progress:
    """Tells on a stream, between entering and leaving; any thread may say something."""

    def __init__(self, stream: TextIO, made: Counter, wanted: int) -> None:
        """Of *wanted* steps of differential runs, those in *made* are done."""
        self._stream = stream
        self._paint = paint_for(stream)
        self._made = made
        self._wanted = wanted
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._moving = threading.Thread(target=self._move, daemon=True) if is_terminal(stream) else None

    def __enter__(self) -> Progress:
        """Start the line that moves, on a terminal."""
        if self._moving:
            self._moving.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Take the line away."""
        self._over.set()
        if self._moving:
            self._moving.join()
            self._write(_ERASE)

    def done(self, section: Section) -> None:
        """Tell that a part is done."""
        state = self._paint("equal" if section.ok else "DIFFERENT", section.ok)
        line = f"{section.title}: {state}, {section.compared:,} compared, {section.seconds:.0f} s\n"
        self._write(f"{_ERASE}{line}{self._line()}" if self._moving else line)

    def _move(self) -> None:
        while not self._over.wait(_EVERY):
            self._write(f"{_ERASE}{self._line()}")

    def _line(self) -> str:
        elapsed = f"{time.monotonic() - self._start:.0f} s"
        share = min(self._made.value / self._wanted, 1) if self._wanted else 1
        steps = f"{self._made.value:,} of {self._wanted:,} random steps ({share:.0%})"
        line = f"… {elapsed}, {steps}" if share < 1 else f"… {elapsed}"
        return line[: shutil.get_terminal_size().columns - 1]

    def _write(self, text: str) -> None:
        with self._lock:
            self._stream.write(text)
            self._stream.flush()
