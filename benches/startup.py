"""What the drop-in adds to the start of a program: ``hermes --version``, with and without it, taking turns.

``python benches/startup.py [--runs N]``. What is printed is the median of the runs of each, and the difference. Both
must print the same, in every run. Bytecode is cached, as it is where the package is installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
WITHOUT = (str(BIN / "hermes"), "--version")
WITH = (str(BIN / "hermes-env-bridge"), "run", *WITHOUT)
EXPECTED = 0.060


def seconds(command: tuple[str, ...], printed: set[str]) -> float:
    """Run *command*, add what it prints to *printed*, and return how long it took. Raises if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    taken = time.perf_counter() - start
    printed.add(result.stdout)
    return taken


def main() -> int:
    """Print the medians; return 1 if the difference is more than expected or the two print different things."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="runs of each (default: %(default)s)")
    runs = parser.parse_args().runs
    printed: set[str] = set()
    for command in (WITHOUT, WITH):
        seconds(command, printed)  # writes the bytecode, and fills the file system's cache
    pairs = [(seconds(WITHOUT, printed), seconds(WITH, printed)) for _ in range(runs)]
    without, with_it = (statistics.median(times) for times in zip(*pairs, strict=True))
    more = with_it - without
    print(f"hermes --version, median of {runs} runs each: {without * 1e3:.0f} ms without the drop-in, ", end="")
    print(f"{with_it * 1e3:.0f} ms with it: {more * 1e3:.0f} ms more (expected: under {EXPECTED * 1e3:.0f})")
    if len(printed) != 1:
        print("they do not print the same:", *sorted(printed), sep="\n", file=sys.stderr)
    return 0 if more < EXPECTED and len(printed) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
