"""Scenarios of real Hermes in a process of their own, on Hermes' own session module or on the drop-in.

``python -m hermes_env_bridge.parity.worker --module original|drop-in SCENARIO...`` is the process; its standard
output is one JSON document a line for each scenario, whatever Hermes prints. :func:`drive` is the other end.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from . import child
from .faults import FAULTS
from .modules import DROP_IN, MODULES, put_in_place, session
from .outcome import NotDrivenError, Observations, Outcome, Pair, WorkerError

Scenario: TypeAlias = Callable[..., Observations]


@dataclass(frozen=True)
class Batch:
    """Scenarios that run one after the other in one process, each with *options* as its keywords.

    A scenario is named ``MODULE.NAME``, the entry NAME in SCENARIOS of that module of this package.
    """

    scenarios: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def drive(batches: Sequence[Batch], *, fault: str = "", processes: int = 2) -> dict[str, Pair]:
    """Run every batch on both modules, in *processes* at a time, and return the outcomes of each scenario.

    *fault* names one of :data:`~.faults.FAULTS`, planted in the drop-in first.
    """
    jobs = [(batch, module) for batch in batches for module in MODULES]
    with ThreadPoolExecutor(processes) as pool:
        finished = list(pool.map(lambda job: launch(*job, fault=fault), jobs))
    found = {
        (name, module): outcome
        for (_, module), outcomes in zip(jobs, finished, strict=True)
        for name, outcome in outcomes.items()
    }
    return {name: Pair(*(found[name, module] for module in MODULES)) for batch in batches for name in batch.scenarios}


def launch(batch: Batch, module: str, *, fault: str = "", timeout: float = 300.0) -> dict[str, Outcome]:
    """Run *batch* on *module* in a process with an empty home of its own, and return each scenario's outcome.

    A scenario has failed if the process did not get to its end: in *timeout* seconds, or at all.
    """
    command = [sys.executable, "-m", __name__, "--module", module, "--options", json.dumps(batch.options)]
    if fault and module == DROP_IN:
        command += ["--fault", fault]
    with tempfile.TemporaryDirectory(prefix="parity-", ignore_cleanup_errors=True) as folder:
        root = Path(folder).resolve()
        ended = child.run([*command, *batch.scenarios], root, child.prepare_home(root), timeout)
    # The temporary folder is the one thing that differs between two workers by construction.
    lines = ended.output.replace(str(root), "<root>").split("\n")
    results = [json.loads(line) for line in lines[:-1]]  # the last is empty, or cut off
    outcomes = {result["scenario"]: _outcome(result) for result in results}
    lost = [name for name in batch.scenarios if name not in outcomes]
    if ended.status is None:
        how = f"its process was still running after {timeout:g} s"
    else:
        how = f"its process ended with status {ended.status}: {ended.last_words}"
    if ended.status != 0 and not lost:
        lost = [batch.scenarios[-1]]  # all have answered, and what they left behind broke the process at its end
    return outcomes | dict.fromkeys(lost, WorkerError(how))


def _outcome(result: Mapping[str, Any]) -> Outcome:
    match result:
        case {"observations": dict() as observations}:
            return observations
        case {"not driven": reason}:
            return NotDrivenError(reason)
    return WorkerError(result["failed"])


# In the worker.


def main(arguments: Sequence[str] | None = None) -> int:
    """Run scenarios and print their results; return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.worker", description=__doc__)
    parser.add_argument("scenarios", nargs="+", metavar="MODULE.NAME", help="the entry NAME in that module's SCENARIOS")
    parser.add_argument("--module", choices=MODULES, required=True)
    parser.add_argument("--options", type=json.loads, default={}, help="keywords of the scenarios, as JSON")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="plant this fault in the module first")
    chosen = parser.parse_args(arguments)
    with _results() as results:
        put_in_place(chosen.module)
        if chosen.fault:
            FAULTS[chosen.fault](session())
        for name in chosen.scenarios:
            # A line at a time: what follows may end the process.
            print(json.dumps({"scenario": name, **_result(_find(name), chosen.options)}), file=results, flush=True)
    return 0


@contextlib.contextmanager
def _results() -> Iterator[TextIO]:
    """Yield the real standard output; everything else that this process prints goes to standard error."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as results:
        os.dup2(2, 1)
        yield results


def _find(scenario: str) -> Scenario:
    module, _, name = scenario.partition(".")
    scenarios: Mapping[str, Scenario] = importlib.import_module(f"{__package__}.{module}").SCENARIOS
    return scenarios[name]


def _result(scenario: Scenario, options: Mapping[str, Any]) -> dict[str, Any]:
    """Run *scenario* and return what it observed, why it was not driven, or how it failed."""
    try:
        return {"observations": scenario(**options)}
    except NotDrivenError as reason:
        return {"not driven": str(reason)}
    except Exception as error:
        return {"failed": child.last_words("".join(traceback.format_exception(error)))}


if __name__ == "__main__":
    sys.exit(main())
