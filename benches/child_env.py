"""``child_env`` and Hermes' own ``_inject_session_context_env``, side by side on the same environment of 60 variables.

``python benches/child_env.py [--rounds N]``. Each gets a copy of the same dict: Hermes' function changes it, ours makes
it. The session modules are Hermes' own and the same file, adapted, in the same state. Contenders take turns; what is
printed is the median of the rounds and the ratio of the medians. Both results are compared in the same run, for each
state. Exits with 1 if ours is slower than expected anywhere.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextvars import Context
from types import ModuleType

from hermes_env_bridge import child_env
from hermes_env_bridge._find import HERMES, OWN
from hermes_env_bridge._install import adapt
from hermes_env_bridge.parity.target import installed_version

VARIABLES, BATCH, EXPECTED = 60, 300, 2.5

Environment = dict[str, str]


def nothing_bound(_module: ModuleType) -> None:
    """A process that has never bound a session."""


def bound(module: ModuleType) -> None:
    """A task with a session, as a gateway binds it."""
    module.set_session_vars(platform="telegram", chat_id="42", user_id="7", session_key="telegram:42", session_id="S1")


def unbound(module: ModuleType) -> None:
    """A task without a session, in a process that has bound some."""
    bound(module)
    module.reset_session_vars()


def base() -> Environment:
    """An environment like a gateway's, with what another session has left in it."""
    given = {"HERMES_SESSION_KEY": "stale", "HERMES_SESSION_ID": "stale", "PATH": os.environ["PATH"]}
    return given | {f"VARIABLE_{at:02}": "x" * (at + 10) for at in range(VARIABLES - len(given))}


def microseconds(make: Callable[[], Environment]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    for _ in range(BATCH):
        make()
    return (time.perf_counter() - start) / BATCH * 1e6


def compare(
    state: Callable[[ModuleType], None], original: ModuleType, adapted: ModuleType, rounds: int
) -> tuple[float, float]:
    """The median times of Hermes' function and of ours in *state*. Raises AssertionError if they differ."""
    inject = importlib.import_module("tools.environments.local")._inject_session_context_env
    inherited = base()

    def hermes() -> Environment:
        env = dict(inherited)
        inject(env)
        return env

    def ours() -> Environment:
        return child_env(inherited)

    def measure() -> tuple[float, float]:
        state(original)
        state(adapted)
        assert hermes() == ours()
        assert inherited == base()
        pairs = [(microseconds(hermes), microseconds(ours)) for _ in range(rounds)]
        theirs, our = zip(*pairs, strict=True)
        return statistics.median(theirs), statistics.median(our)

    return Context().run(measure)


def main() -> int:
    """Print the comparison; return 1 if ours is not as fast as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    original = importlib.import_module(HERMES)
    assert original.__file__ is not None
    adapted = adapt(original.__file__, "bench_adapted")
    # The module in use, for ours; Hermes' function imports its own by its name.
    sys.modules[OWN] = adapted
    print(
        f"\nthe environment of a child, {VARIABLES} variables, hermes-agent {installed_version()}, "
        f"{platform.python_implementation()} {platform.python_version()}; µs, median of {rounds} rounds of {BATCH}\n"
    )
    print(f"  {'state':<16}{'Hermes':>9}{'ours':>9}   ours is faster (expected: {EXPECTED} times)")
    slowest = float("inf")
    for state in (nothing_bound, bound, unbound):
        theirs, ours = compare(state, original, adapted, rounds)
        slowest = min(slowest, theirs / ours)
        named = state.__name__.replace("_", " ")
        print(f"  {named:<16}{theirs:9.2f}{ours:9.2f}   {theirs / ours:.2f} times, results equal")
    return 0 if slowest >= EXPECTED else 1


if __name__ == "__main__":
    sys.exit(main())
