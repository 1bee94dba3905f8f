"""Hermes' module, raw context variables and ours, side by side in one run.

``make bench``, or ``python benches/session_context.py [--oracle FILE] [--rounds N]``. The reference is the installed
Hermes' own module, and with ``--oracle`` any other session_context.py as well; ours is the same file, adapted. *raw* is
the least that plain ``contextvars`` can do for the operation: one variable for each of the session's, and nothing else
(no environment, no latch, no hook).

Each operation runs in a context of its own, with the garbage collector on; contenders take turns within a round. What
is printed is the median of the rounds and the ratio of the medians. Every operation's result is checked, for each
contender, in the same run.
"""

from __future__ import annotations

import argparse
import contextvars
import importlib
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import hermes_env_bridge
from hermes_env_bridge._find import HERMES, find
from hermes_env_bridge._install import adapt
from hermes_env_bridge.parity.target import installed_version, load

BATCH = 200
READS = ("HERMES_SESSION_PLATFORM", "HERMES_SESSION_CHAT_ID", "HERMES_SESSION_KEY", "HERMES_SESSION_USER_ID")
VALUES = ("telegram", "42", "telegram:42", "7")
IN_ENVIRONMENT, ABSENT = "HERMES_SESSION_PROFILE", "HERMES_SESSION_MESSAGE_ID"


class Raw:
    """The same operations on plain context variables."""

    reset_session_vars = None

    def __init__(self, names: list[str]) -> None:
        """Make a variable for each of *names*."""
        self.by_name = {name: contextvars.ContextVar[str](name, default="") for name in names}
        given = dict(zip(READS, VALUES, strict=True))
        self.pairs = [(variable, given.get(name, "")) for name, variable in self.by_name.items()]

    def set_session_vars(self, **_keywords: Any) -> list[contextvars.Token[str]]:
        """Set every variable."""
        return [variable.set(value) for variable, value in self.pairs]

    def clear_session_vars(self, _tokens: object) -> None:
        """Set every variable to the empty string."""
        for variable, _ in self.pairs:
            variable.set("")

    def get_session_env(self, name: str, _default: str = "") -> str:
        """Read one variable."""
        return self.by_name[name].get()


def bind(module: Any) -> Any:
    """A session as a gateway binds it, keyword by keyword."""
    return module.set_session_vars(
        platform="telegram",
        chat_id="42",
        chat_name="chat",
        thread_id="",
        user_id="7",
        user_name="user",
        session_key="telegram:42",
        message_id="9",
        profile="",
        async_delivery=True,
    )


def turn(module: Any) -> list[str]:
    """What a message does: it drops what it inherited, binds, reads its route, and clears."""
    if module.reset_session_vars is not None:
        module.reset_session_vars()
    tokens = bind(module)
    route = [module.get_session_env(name) for name in READS]
    module.clear_session_vars(tokens)
    return route


Operation = tuple[Callable[[Any], object], Callable[[Any], object], Callable[[Any, Any], bool]]

# Before the timing, what is timed, and whether its result is right.
OPERATIONS: dict[str, Operation] = {
    "read, set": (bind, lambda m: m.get_session_env(READS[1]), lambda m, r: r == "42"),
    "read, environment has it": (
        lambda m: m.reset_session_vars(),
        lambda m: m.get_session_env(IN_ENVIRONMENT),
        lambda m, r: r == "from the environment",
    ),
    "read, nobody has it": (
        lambda m: m.reset_session_vars(),
        lambda m: m.get_session_env(ABSENT, "default"),
        lambda m, r: r == "default",
    ),
    "set": (
        lambda m: m.clear_session_vars([]),
        bind,
        lambda m, r: len(r) > 10 and m.get_session_env(READS[2]) == VALUES[2],
    ),
    "clear": (bind, lambda m: m.clear_session_vars([]), lambda m, r: m.get_session_env(READS[2], "default") == ""),
    "reset": (bind, lambda m: m.reset_session_vars(), lambda m, r: m.get_session_env(READS[2], "default") == "default"),
    "whole turn, fresh context": (
        lambda m: None,
        turn,
        lambda m, r: r == list(VALUES) and m.get_session_env(READS[2], "") == "",
    ),
}


def time_one(operation: Operation, module: Any) -> float:
    """Microseconds of one operation, each time in a context that was just prepared, after its result was checked.

    A context variable that is set to what it holds already does next to nothing, so no context is used twice.
    """
    prepare, timed, is_right = operation
    prepared = contextvars.Context()
    prepared.run(prepare, module)
    checked = prepared.copy()
    result = checked.run(timed, module)
    if not checked.run(is_right, module, result):
        raise AssertionError(f"wrong result: {result!r}")
    contexts = [prepared.copy() for _ in range(BATCH)]
    start = time.perf_counter()
    for context in contexts:
        context.run(timed, module)
    return (time.perf_counter() - start) / BATCH * 1e6


def compare(title: str, contenders: dict[str, Any], rounds: int) -> None:
    """Print a row for each operation: the median of each contender, and how many times ours is faster."""
    print(f"\n{title}, µs, median of {rounds} rounds of {BATCH}\n")
    print(f"  {'operation':<28}{'Hermes':>9}{'ours':>9}{'raw':>9}   ours is faster")
    for name, operation in OPERATIONS.items():
        needs_reset = name in ("reset", "read, environment has it", "read, nobody has it")
        running = {k: m for k, m in contenders.items() if not (needs_reset and m.reset_session_vars is None)}
        times: dict[str, list[float]] = {contender: [] for contender in running}
        for _ in range(rounds):
            for contender, module in running.items():
                times[contender].append(time_one(operation, module))
        median = {contender: statistics.median(values) for contender, values in times.items()}
        raw = f"{median['raw']:9.2f}" if "raw" in median else f"{'-':>9}"
        ratio = median["Hermes"] / median["ours"]
        print(f"  {name:<28}{median['Hermes']:9.2f}{median['ours']:9.2f}{raw}   {ratio:.1f} times, results right")


def contenders_of(path: Path) -> dict[str, Any]:
    """The file as it is, the file adapted, and raw variables for the names that it binds."""
    reference: ModuleType = load(path, "bench_reference")
    bound = len(contextvars.Context().run(reference.set_session_vars))
    return {
        "Hermes": reference,
        "ours": adapt(str(path), "bench_ours"),
        "raw": Raw([*READS, *(f"HERMES_SESSION_{n}" for n in range(bound - len(READS)))]),
    }


def main() -> None:
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--rounds", type=int, default=100)
    arguments = parser.parse_args()
    os.environ[IN_ENVIRONMENT] = "from the environment"
    for name in (ABSENT, *READS):
        os.environ.pop(name, None)
    # The hooks that set and clear call are there, as they are in Hermes.
    importlib.import_module("agent.runtime_cwd")

    print(
        f"hermes_env_bridge {hermes_env_bridge.__version__}, {platform.python_implementation()} "
        f"{platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    )
    compare(f"hermes-agent {installed_version()}", contenders_of(Path(find(HERMES))), arguments.rounds)
    for oracle in arguments.oracle:
        compare(oracle.name, contenders_of(oracle), arguments.rounds)


if __name__ == "__main__":
    main()
