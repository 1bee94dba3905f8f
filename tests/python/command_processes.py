"""Real processes of the command line, for the tests of its commands."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

import hermes_env_bridge

BIN = Path(sys.executable).parent
MODULE = [sys.executable, "-m", "hermes_env_bridge"]
SCRIPT = [str(BIN / "hermes-env-bridge")]
SOURCES = Path(hermes_env_bridge.__file__).parents[1]


def start(words: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[str]:
    """A process, with nothing of Hermes in the environment but *env*."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PYTHONPATH"))}
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=cwd, env=clean | dict(env), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def run(words: Sequence[str | Path], cwd: Path, stdin: str = "", **env: str) -> tuple[int, str, str]:
    """The exit status, what is written to stdout and what to stderr."""
    process = start(words, cwd, env)
    out, err = process.communicate(stdin, timeout=30)
    return process.returncode, out, err


def alike(words: Sequence[str], cwd: Path, stdin: str = "", **env: str) -> tuple[int, str, str]:
    """What ``python`` does with *words*, after ``run`` was seen to do the same, however it is called."""
    plain = run([sys.executable, *words], cwd, stdin, **env)
    for bridge in (MODULE, SCRIPT):
        assert run([*bridge, "run", *words], cwd, stdin, **env) == plain
    return plain


def refused(words: Sequence[str | Path], cwd: Path, **env: str) -> str:
    """The one line on stderr of a command that cannot be done."""
    status, out, err = run([*MODULE, *words], cwd, **env)
    assert (status, out, err.count("\n")) == (2, "", 1), (status, out, err)
    assert err.startswith("hermes-env-bridge"), err
    return err


def hopeless(folder: Path) -> None:
    """Put a package into *folder* that is found before Hermes and is no session module."""
    (folder / "gateway").mkdir()
    (folder / "gateway" / "__init__.py").touch()
    (folder / "gateway" / "session_context.py").write_text("nothing = 1\n")


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def bare_environment(folder: Path) -> Path:
    """The interpreter of a new virtual environment in *folder*, in which nothing is installed."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"
