"""Node's ``AsyncLocalStorage`` is the reference: every step of a program sees here what it sees there."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from programs import PROGRAMS, World, generate

FOLDER = Path(__file__).parents[1] / "programs"


def test_the_programs_are_the_generated_ones() -> None:
    assert json.loads((FOLDER / "programs.json").read_text()) == [generate(seed) for seed in range(PROGRAMS)]


def test_every_step_sees_what_it_sees_in_node() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip(f"{PROGRAMS} programs are not compared: there is no node")
    result = subprocess.run(
        [node, FOLDER / "node.mjs"],
        input=json.dumps([generate(seed) for seed in range(4 * PROGRAMS)]),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    seen_in_node = json.loads(result.stdout)
    assert len(seen_in_node) == 4 * PROGRAMS
    for seed, expected in enumerate(seen_in_node):
        assert asyncio.run(World().run(generate(seed))) == expected, f"program {seed}"
    # They are not programs in which nothing can be seen.
    assert sum(seen != ["none"] for program in seen_in_node for seen in program.values()) > 1000
