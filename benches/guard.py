"""What the guard costs a clean spawn, a read and any other audited event; and that what is timed is right."""

from __future__ import annotations

import argparse
import contextvars
import os
import platform
import sys
import time
import timeit
from collections import ChainMap
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from hermes_env_bridge import ForeignIdentityError, child_env, guard, report, session_context

VARIABLES = 60
SPAWN = ("os.posix_spawn", "/bin/true", ["/bin/true"])


def environment() -> dict[str, str]:
    """An environment of a usual size, with the session in it as Hermes bridges it."""
    env = {f"VARIABLE_{number}": "value" for number in range(VARIABLES)}
    for name, variable in session_context._VAR_MAP.items():
        if (value := variable.get()) is not session_context._UNSET:
            env[name] = str(value)
    return env


def microseconds(call: Callable[[], Any], number: int) -> float:
    """Processor time of one call, in the best of seven rounds."""
    return min(timeit.repeat(call, timer=time.thread_time, number=number, repeat=7)) / number * 1e6


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=5000, help="calls in a round (default: %(default)s)")
    number = parser.parse_args().number
    contextvars.copy_context().run(_measure, number)


def _measure(number: int) -> None:
    session_context.set_session_vars(
        platform="telegram", chat_id="42", session_key="k", session_id="i", cron_session=""
    )
    full = environment()
    for name in [name for name in os.environ if name not in ("PATH", "HOME")]:
        del os.environ[name]
    os.environ.update({name: value for name, value in full.items() if name.startswith("VARIABLE_")})
    read = session_context.get_session_env
    rows: list[tuple[str, Callable[[], Any]]] = [
        ("a spawn: no environment", lambda: sys.audit(*SPAWN, None)),
        ("a spawn: os.environ", lambda: sys.audit(*SPAWN, os.environ)),
        ("a spawn: a dict with the session", lambda: sys.audit(*SPAWN, full)),
        ("a spawn: the same, made by child_env", lambda: sys.audit(*SPAWN, stated)),
        ("a spawn: the same in bytes", lambda: sys.audit(*SPAWN, encoded)),
        ("a spawn: a view", lambda: sys.audit(*SPAWN, view)),
        ("a spawn: a ChainMap", lambda: sys.audit(*SPAWN, layers)),
        ("walking through that ChainMap", lambda: dict(layers.items())),
        ("another audited event", lambda: sys.audit("open", "file", "r", 0)),
        ("a read that finds a value", lambda: read("HERMES_SESSION_KEY")),
        ("a read that falls through", lambda: read("HERMES_CRON_AUTO_DELIVER_PLATFORM")),
    ]
    guard("warn")  # which marks what child_env makes
    stated, encoded = child_env({}, extra=full), {os.fsencode(n): os.fsencode(v) for n, v in full.items()}
    view, layers = MappingProxyType(full), ChainMap({}, full)
    guard("off")
    off = [microseconds(call, number) for _, call in rows]
    guard("block")
    report(reset=True)
    on = [microseconds(call, number) for _, call in rows]
    seen = report()
    assert (seen.foreign, seen.refused, seen.sites) == (0, 0, ()), seen
    try:
        sys.audit(*SPAWN, full | {"HERMES_SESSION_KEY": "another's"})
    except ForeignIdentityError:
        pass
    else:
        raise AssertionError("a foreign identity passed")
    print(f"CPython {platform.python_version()}, {VARIABLES} variables and {len(full) - VARIABLES} of the session\n")
    print(f"| {'µs':36} | {'off':>6} | {'on':>6} |\n|{'-' * 38}|{'-' * 7}:|{'-' * 7}:|")
    for (name, _), without, with_guard in zip(rows, off, on, strict=True):
        print(f"| {name:36} | {without:6.2f} | {with_guard:6.2f} |")


if __name__ == "__main__":
    main()
