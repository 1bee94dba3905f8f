"""Plants each fault of this folder in a copy of the project, builds it, and sees that parity turns red.

``make mutants``, or ``python tests/mutants/run.py [NAME …]``. A fault is a patch whose first line says what goes wrong.
The differential part of parity has to find it; where the fault is in the package's own session module, which takes no
part when there is a Hermes, the same comparison of that module with the tests' model. Exits with 1 if a fault is
missed, and first of all if the comparison is red without one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATCHES = sorted(Path(__file__).parent.glob("*.patch"))
WORK = ROOT / "target" / "mutants"
TREE = WORK / "tree"
PARITY = ("parity", "--only", "differential", "--steps", "20000")


class PatchError(Exception):
    """A patch does not apply, or what it makes does not build: it has to be written anew."""


def copy_project() -> None:
    """Put the tracked files of the project, as they are now, into the tree."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    shutil.rmtree(TREE, ignore_errors=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, TREE / name)


def plant(patch: Path) -> None:
    """Apply the patch to the tree."""
    run(["git", "apply", str(patch)], env=os.environ | {"GIT_CEILING_DIRECTORIES": str(TREE.parent)})


def build() -> None:
    """Build the tree's extension and put it into its package."""
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(WORK / "build"),
        "PYO3_PYTHON": sys.executable,
        "PYO3_BUILD_EXTENSION_MODULE": "1",
        "RUSTFLAGS": "-A warnings",
    }
    run(
        ["cargo", "rustc", "--quiet", "--locked", "--lib", "--crate-type", "cdylib", "--features", "python"],
        environment,
    )
    built = next(
        path for path in (WORK / "build" / "debug").glob("libhermes_env_bridge.*") if path.suffix in (".so", ".dylib")
    )
    shutil.copy2(built, TREE / "python" / "hermes_env_bridge" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}")


def run(command: list[str], env: dict[str, str]) -> None:
    result = subprocess.run(command, cwd=TREE, env=env, capture_output=True, text=True, check=False)
    if result.returncode:
        raise PatchError(result.stderr.strip())


def parity() -> tuple[bool, str]:
    """Whether the differential part finds a difference, and in which operation."""
    status, output = compare([sys.executable, "-m", "hermes_env_bridge", *PARITY])
    differs = [line.split("  ")[1].strip() for line in output.splitlines() if line.endswith("DIFFER")]
    return status == 1, ", ".join(differs)


def own_module() -> tuple[bool, str]:
    """Whether the package's own module differs from the tests' model."""
    status, _ = compare([sys.executable, "-m", "pytest", "-q", "-x", "tests/python/test_own_module.py"])
    return status == 1, "the package's own module"


def compare(command: list[str]) -> tuple[int, str]:
    """Run the comparison on the tree's package; its status is 0 or 1 unless it could not be made."""
    environment = os.environ | {"PYTHONPATH": str(TREE / "python")}
    result = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        raise PatchError(result.stderr.strip() or result.stdout.strip())
    return result.returncode, result.stdout


def try_fault(patch: Path) -> bool:
    """Plant, build, compare, and print a row; returns whether the fault was found."""
    start = time.monotonic()
    copy_project()
    plant(patch)
    build()
    found, where = own_module() if "b/python/hermes_env_bridge/session_context.py" in patch.read_text() else parity()
    seconds = time.monotonic() - start
    print(f"{'found' if found else 'MISSED':<7} {patch.stem:<46} {seconds:4.0f} s  {where}", flush=True)
    return found


def main(names: list[str]) -> int:
    """Try the named faults, or all; return the exit status."""
    chosen = [patch for patch in PATCHES if not names or patch.stem in names]
    if not chosen:
        print(f"no such fault; there are {', '.join(patch.stem for patch in PATCHES)}", file=sys.stderr)
        return 2
    copy_project()
    build()
    for red, where in (parity(), own_module()):
        if red:
            print(f"parity is red without any fault: {where}", file=sys.stderr)
            return 1
    missed = 0
    for patch in chosen:
        try:
            missed += not try_fault(patch)
        except PatchError as error:
            print(f"BROKEN  {patch.stem}: {error}", flush=True)
            missed += 1
    print(f"{len(chosen) - missed} of {len(chosen)} faults found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
