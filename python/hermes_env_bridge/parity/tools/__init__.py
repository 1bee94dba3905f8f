"""Hermes' own tools on top of the session module: real functions of Hermes, with both modules, results equal."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from ..outcome import compare
from ..report import Check, Section
from ..worker import Batch, Scenario, drive
from . import children, entrances, jobs, messages, surface, turns
from .tool import Tool

# The tools of one file share a worker, which imports Hermes once. Whole turns take longest and come first, so that
# they do not run alone at the end.
_BATCHES: tuple[tuple[Tool, ...], ...] = (
    turns.TOOLS,
    jobs.TOOLS,
    children.TOOLS,
    entrances.TOOLS,
    messages.TOOLS,
    surface.TOOLS,
)

TOOLS = tuple(tool for batch in _BATCHES for tool in batch)

SCENARIOS: Mapping[str, Scenario] = {tool.name: tool.drive for tool in TOOLS}


def run(*, only: Collection[str] = tuple(SCENARIOS), fault: str = "", processes: int = 2) -> Section:
    """Drive the tools with both modules and return what was equal.

    *only* names scenarios of :data:`SCENARIOS`; *fault* names one of :data:`~..faults.FAULTS` to plant in the
    drop-in; *processes* workers run at a time.
    """
    start = time.monotonic()
    chosen = [[tool for tool in batch if tool.name in only] for batch in _BATCHES]
    batches = [Batch(tuple(f"tools.{tool.name}" for tool in batch)) for batch in chosen if batch]
    pairs = drive(batches, fault=fault, processes=processes)
    results = [compare(tool.title, pairs[f"tools.{tool.name}"]) for batch in chosen for tool in batch]
    checks = tuple(result for result in results if isinstance(result, Check))
    skipped = tuple(result for result in results if isinstance(result, str))
    return Section("Hermes' own tools on top", checks, time.monotonic() - start, skipped)
