"""The guard on the spawn sites of the installed Hermes, as ``docs/guard.md`` lists them."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hermes_spawns import OTHERS, OURS, SITES

DOCUMENT = (Path(__file__).parents[2] / "docs" / "guard.md").read_text()

# What a child has for the session's id, by what the document says of the site.
CHILD = {"leaks": [OTHERS], "right": [OURS], "none": ["nothing"]}

LISTED = dict(re.findall(r"^\| `([\w/.]+\.py:[^`]+)`(?:, [^|]*)? +\| (\w+) +\|", DOCUMENT, re.MULTILINE))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("hermes")
    program = str(Path(__file__).with_name("hermes_spawns.py"))
    run = subprocess.run(
        [sys.executable, program, str(root)], cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads((root / "told.json").read_text())


def test_the_document_lists_every_site_that_is_run() -> None:
    assert set(LISTED) == set(SITES)
    assert set(LISTED.values()) == set(CHILD)


@pytest.mark.parametrize("site", SITES)
def test_a_spawn_site_of_hermes_does_what_the_document_says(site: str, told: Any) -> None:
    seen = told[site]
    own = [leak for leak in seen["leaks"] if leak.startswith((site.partition(" ")[0], ":"))]
    assert ("leaks" if own else LISTED[site]) == LISTED[site], seen
    assert bool(own) == (LISTED[site] == "leaks"), seen
    assert CHILD[LISTED[site]][0] in seen["got"], seen
    # The terminal's own child calls exec in a fork, where it is seen, and counted.
    assert seen["spawns"] or "(pty)" in site


SPAWNS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {
        "system",
        "popen",
        "posix_spawn",
        "posix_spawnp",
        "execv",
        "execve",
        "execvp",
        "execvpe",
        "spawnv",
        "spawnve",
    },
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "pty": {"spawn"},
    "multiprocessing": {"Process", "Pool"},
    "ptyprocess.PtyProcess": {"spawn"},
}


_STARTING = {name for names in SPAWNS.values() for name in names}


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls that start a process."""
    names = {name: name for name in SPAWNS} | {"PtyProcess": "ptyprocess.PtyProcess"}
    called = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname and alias.name in SPAWNS}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _STARTING:
            called.append((node, node.func))
    for call, method in called:
        if method.attr in SPAWNS.get(names.get(ast.unparse(method.value), ""), ()):
            yield call


def test_the_documents_counts_of_all_sites_are_those_of_the_installed_hermes() -> None:
    total, with_env, files = 0, 0, 0
    for file in importlib.metadata.files("hermes-agent") or ():
        source = Path(str(file.locate())).read_bytes() if file.suffix == ".py" else b""
        if re.search(rb"subprocess|spawn|os\.(system|popen|exec)|multiprocessing", source):
            found = list(calls(ast.parse(source)))
            total += len(found)
            with_env += sum(any(keyword.arg == "env" for keyword in call.keywords) for call in found)
            files += bool(found)
    assert f"{total} calls in {files} files" in DOCUMENT
    assert f"{total - with_env} of them state no environment" in DOCUMENT
