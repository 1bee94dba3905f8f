"""The differential run: equal modules are equal, and every fault is found, told shortly, and leaves no trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hermes_env_bridge.parity import differential
from hermes_env_bridge.parity.report import Section
from hermes_env_bridge.parity.sequence.operations import OPERATIONS
from hermes_env_bridge.parity.sequence.scene import Scene

MODEL = Path(__file__).with_name("session_model.py")
CODE = compile(MODEL.read_text(encoding="utf-8"), str(MODEL), "exec")
Load = Callable[..., ModuleType]

FAULTS = (
    "a bind is whole or nothing",
    "a caller's default is ignored",
    "a child writes the environment",
    "a foreign token is accepted",
    "a late token is accepted",
    "a scope resets by token",
    "an empty marker counts",
    "an omitted cron flag is cleared",
    "calls inside are bound early",
    "clear opts out of delivery",
    "clear resets by token",
    "clear touches the cron target",
    "clear unsets",
    "declaring latches",
    "delivery is not a bool",
    "environment before variable",
    "equality instead of identity",
    "getenv is bypassed",
    "hooks are silenced wholly",
    "no tokens",
    "old value is the default",
    "one value for each thread",
    "one value for everybody",
    "reset spares the cron target",
    "the environment is cached",
    "the environment of the import",
    "the hook comes first",
    "the latch gates reads",
    "the latch has a private copy",
    "the map has a private copy",
    "the map is read-only",
    "the sentinel unsets",
    "truth instead of identity",
    "values are made texts",
    "what is omitted stays",
)


@pytest.fixture
def load() -> Iterator[Load]:
    """Executes the model again, with a fault or none, as a module of its own."""
    names: list[str] = []

    def make(fault: str = "", name: str = "model_with_fault") -> ModuleType:
        module = ModuleType(name)
        vars(module)["FAULT"] = fault
        sys.modules[name] = module
        names.append(name)
        exec(CODE, vars(module))
        return module

    yield make
    for name in names:
        sys.modules.pop(name, None)


def differences(section: Section) -> list[str]:
    return [line for check in section.checks for line in check.differences]


@pytest.mark.parametrize("fault", ["", "none, but wrapped"])
def test_equal_modules_show_no_difference(load: Load, fault: str) -> None:
    section = differential.run(load(name="model"), load(fault), steps=1500, seed=1)

    assert section.ok, differences(section)
    assert section.facts["steps"] >= 1500  # type: ignore[operator]
    assert all(check.compared for check in section.checks)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found_and_told_in_a_few_steps(load: Load, fault: str) -> None:
    section = differential.run(load(name="model"), load(fault), steps=8000, seed=0)

    (bad,) = [check for check in section.checks if not check.ok]
    assert bad.name not in (differential.MACHINERY, differential.COVERAGE), bad.differences
    *steps, what, reference, subject = bad.differences
    assert len(steps) <= 4, steps
    assert what.startswith("=> ")
    assert reference.startswith("   reference: ")
    assert subject.startswith("   subject: ")
    assert reference.removeprefix("   reference") != subject.removeprefix("   subject")


def test_same_seed_same_run(load: Load) -> None:
    sections = [differential.run(load(name="model"), load("no tokens"), steps=500, seed=5) for _ in range(2)]

    assert sections[0].checks == sections[1].checks
    assert sections[0].facts == sections[1].facts


def test_difference_that_cannot_be_repeated_is_one(load: Load) -> None:
    section = differential.run(load(name="model"), load("a read fails once"), steps=3000, seed=0)

    (bad,) = [check for check in section.checks if not check.ok]
    assert bad.name == differential.MACHINERY
    assert any("a read that fails once" in line for line in bad.differences)


def test_missing_name_is_told_and_nothing_run(load: Load) -> None:
    subject = load()
    del vars(subject)["declare_stateless_channel"], vars(subject)["_VAR_MAP"]["HERMES_SESSION_ID"]

    section = differential.run(load(name="model"), subject, steps=100)

    assert "declare_stateless_channel is missing" in differences(section)
    assert "_VAR_MAP['HERMES_SESSION_ID'] is missing" in differences(section)
    assert section.skipped


def test_other_signature_is_told(load: Load) -> None:
    subject = load()

    def get_session_env(name: str, default: str = "other") -> str:
        """Otherwise the same."""
        return name + default

    vars(subject)["get_session_env"] = get_session_env

    section = differential.run(load(name="model"), subject, steps=1)

    assert any(line.startswith("get_session_env takes") for line in section.checks[0].differences)


def test_kind_that_never_comes_is_a_difference(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = [
        replace(each, make=lambda *drawn: None) if each.kind == "variable.get" else each for each in OPERATIONS
    ]
    monkeypatch.setattr(differential, "OPERATIONS", operations)

    section = differential.run(load(name="model"), load(), steps=10)

    assert differences(section) == ["never executed: variable.get"]


def _state(*modules: ModuleType) -> list[Any]:
    agent = [sys.modules.get(name) for name in ("agent", "agent.runtime_cwd", "agent.delegation_context")]
    maps = [dict(module._VAR_MAP) for module in modules]
    return [os.environ, dict(os.environ), os.getenv, agent, [dict(vars(module)) for module in modules], maps]


@pytest.mark.parametrize("interrupted", [False, True])
def test_process_and_modules_are_left_as_they_were(
    load: Load, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    reference, subject = load(name="model"), load()
    reference._session_context_engaged = True  # type: ignore[attr-defined]
    monkeypatch.setenv("HERMES_SESSION_ID", "before")
    monkeypatch.setitem(sys.modules, "agent", ModuleType("agent"))
    before = _state(reference, subject)
    observe = Scene.look_around

    def interrupt(self: Scene) -> None:
        if self.steps.total() > 300:
            raise KeyboardInterrupt
        observe(self)

    if interrupted:
        monkeypatch.setattr(Scene, "look_around", interrupt)
        with pytest.raises(KeyboardInterrupt):
            differential.run(reference, subject, steps=800)
    else:
        assert differential.run(reference, subject, steps=800).ok

    after = _state(reference, subject)
    assert after[0] is before[0]
    assert after[1:] == before[1:]
    assert reference.get_session_env("HERMES_SESSION_ID") == "before"
    # A child inherits the process's environment itself, not what Python thinks of it.
    child = "import os; print(os.environ['HERMES_SESSION_ID'], 'HERMES_SESSION_KEY' in os.environ)"
    told = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["before", "False"]
