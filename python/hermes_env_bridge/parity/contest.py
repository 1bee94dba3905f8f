"""One differential run, in a process of its own that has not imported a session module yet."""

from __future__ import annotations

import time
from dataclasses import replace
from multiprocessing.sharedctypes import Synchronized

from .report import Check, Section
from .target import Target

_made: Synchronized[int] | None = None


def count_in(made: Synchronized[int]) -> None:
    """Count the steps that this process makes in *made*, which other processes have as well."""
    global _made
    _made = made


def run(target: Target, steps: int, seed: int) -> Section:
    """The section of *target*; that ours cannot be made of a file which runs as it is, is a difference."""
    from . import differential  # needs hypothesis, which the other parts do not

    title = f"differential: {target.title}"
    start = time.perf_counter()
    try:
        subject = target.load_subject()
    except Exception as error:
        failed = Check("the drop-in is made", 1, (f"{type(error).__name__}: {error}",))
        return Section(title, (failed,), time.perf_counter() - start, label=target.label)
    section = differential.run(target.load_reference(), subject, steps=steps, seed=seed, title=title, tell=_count)
    return replace(section, label=target.label)


def _count(steps: int) -> None:
    if _made is not None:
        with _made.get_lock():
            _made.value += steps
