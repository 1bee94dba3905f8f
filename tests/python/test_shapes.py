"""Session modules of shapes that no release has: adapted, they do what they did."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hostile import Fork
from hostile_differing import DIFFERENT
from hostile_others import FORKS
from shape_driver import DifferenceError, compare, draw
from shapes import shape

from hermes_env_bridge import SessionVar
from hermes_env_bridge._install import adapt
from hermes_env_bridge._rewrite import rewrite
from hermes_env_bridge.parity import differential

SHAPES = 220
STEPS = 80
BATCH = 20


class Hooks(ModuleType):
    """What the shapes' hooks are imported from; the driver replaces ``heard``."""

    def heard(self, *call: Any) -> None:
        raise AssertionError(f"nobody listens to {call}")


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Hooks:
    module = Hooks("shape_hooks")
    monkeypatch.setitem(sys.modules, "shape_hooks", module)
    return module


def imported(path: Path, name: str) -> ModuleType:
    """The module in the file as an import makes it: it can be found by its name while its code runs."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def check(source: str, path: Path, steps: int, seed: int, hooks: Hooks, *, shorten: bool = True) -> None:
    """Compare the module of that source, plain and adapted."""
    path.write_text(source, encoding="utf-8")
    name = path.stem
    plain, adapted = partial(imported, path, name), partial(adapt, str(path), name)
    compare(plain, adapted, draw(Random(seed), steps), hooks, shorten=shorten)


@pytest.mark.parametrize("first", range(0, SHAPES, BATCH))
def test_a_random_shape_does_what_it_did(first: int, tmp_path: Path, hooks: Hooks) -> None:
    for seed in range(first, first + BATCH):
        made = shape(seed)
        path = tmp_path / f"shape_{seed}.py"
        check(made.source, path, STEPS, seed, hooks)
        assert rewrite(ast.parse(made.source)).verbs == made.native, f"seed {seed}: {made.traits}\n{made.source}"
        variables = adapt(str(path), path.stem)._VAR_MAP.values()
        assert {type(variable) for variable in variables} == {SessionVar}


def test_the_shapes_are_of_every_kind() -> None:
    made = [shape(seed) for seed in range(SHAPES)]
    assert len({each.source for each in made}) == SHAPES
    traits = Counter(trait for each in made for trait in each.traits)
    for kind in (
        "import",
        "sentinel",
        "default",
        "storage",
        "map",
        "latch",
        "hook",
        "missing",
        "bind",
        "clear",
        "reset",
    ):
        assert sum(trait.startswith(f"{kind}: ") for trait in traits) >= 4, kind
    assert sum(trait.endswith(" variables") for trait in traits) >= 20
    functions = Counter(name for each in made for name in each.native)
    for verb in ("set_session_vars", "clear_session_vars", "reset_session_vars", "get_session_env"):
        assert functions[verb] >= 30, f"{verb} is hardly ever native"
        assert functions[verb] <= SHAPES - 30, f"{verb} is hardly ever the module's own"


PARITY = [seed for seed in range(SHAPES) if shape(seed).parity][:8]


@pytest.mark.parametrize("seed", PARITY)
def test_the_parity_run_finds_no_difference(seed: int, tmp_path: Path, hooks: Hooks) -> None:
    path = tmp_path / "shape.py"
    path.write_text(shape(seed).source, encoding="utf-8")
    hooks.heard = lambda *_call: None  # type: ignore[method-assign]
    section = differential.run(imported(path, "plain"), adapt(str(path), "adapted"), steps=500, seed=seed)
    # A short run does not come to every kind of step.
    checks = [check for check in section.checks if check.name != differential.COVERAGE]
    assert {check.name: check.differences for check in checks if check.differences} == {}
    assert int(section.facts["steps"]) >= 500


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.title)
def test_a_hostile_fork_does_what_it_did(fork: Fork, tmp_path: Path, hooks: Hooks) -> None:
    check(fork.source, tmp_path / "fork.py", 200, 1, hooks)


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.title)
def test_what_is_left_to_a_forks_own_code_is_reported(fork: Fork) -> None:
    assert rewrite(ast.parse(fork.source)).verbs == fork.native


@pytest.mark.parametrize("fork", DIFFERENT, ids=lambda fork: fork.title)
@pytest.mark.xfail(strict=True, reason="a difference that the README lists", raises=(DifferenceError, AttributeError))
def test_a_fork_that_differs(fork: Fork, tmp_path: Path, hooks: Hooks) -> None:
    check(fork.source, tmp_path / "fork.py", 200, 1, hooks, shorten=False)


TOLD_APART = (
    "a bind that strips",
    "a bind that stringifies",
    "a bind that turns None into the empty text",
    "a bind that takes itself back if a value has no truth",
    "a clear that restores by tokens",
    "a clear that removes the environment too",
    "a clear to None that says how many",
    "a reset that skips",
    "a read without the environment",
    "a read that tests the truth",
    "a read that asks the environment first",
    "a read that logs and counts",
    "asynchronous verbs",
)


@pytest.mark.parametrize("title", TOLD_APART)
def test_the_comparison_tells_a_fork_from_the_standard_module(title: str, tmp_path: Path, hooks: Hooks) -> None:
    """Otherwise it would say nothing that an adapted fork equals its own plain one."""
    found = {fork.title: fork for fork in FORKS}
    standard, other = tmp_path / "standard.py", tmp_path / "other.py"
    standard.write_text(found["the standard module"].source, encoding="utf-8")
    other.write_text(found[title].source, encoding="utf-8")
    steps = draw(Random(1), 200)
    with pytest.raises(DifferenceError, match=r"=> (the result|the environment|in context)"):
        compare(partial(imported, standard, "m"), partial(imported, other, "m"), steps, hooks, shorten=False)
