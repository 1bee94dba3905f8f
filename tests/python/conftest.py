"""Session modules to test: ours, and Hermes' own to show that it behaves so too."""

from __future__ import annotations

import contextvars
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import hermes_env_bridge
from hermes_env_bridge import _core, session_context
from hermes_env_bridge._install import adapt

# What the caller's shell has of a session would be read by every module that is tested.
for _name in [name for name in os.environ if name.startswith("HERMES_")]:
    del os.environ[_name]

# A shell ignores SIGINT for what it runs in the background, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

OWN_FILE = Path(hermes_env_bridge.__file__).with_name("session_context.py")


def hermes_file() -> Path:
    """The session module of the installed Hermes, found without importing Hermes."""
    package = PathFinder.find_spec("gateway")
    assert package is not None, "hermes-agent is not installed"
    assert package.submodule_search_locations is not None
    return Path(package.submodule_search_locations[0]) / "session_context.py"


def load(path: Path, name: str) -> ModuleType:
    """The module in *path*, unchanged, under another name and so with its own state."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


MODULES: dict[str, Callable[[], ModuleType]] = {
    "own": lambda: load(OWN_FILE, "own_session_context"),
    "adapted": lambda: adapt(str(hermes_file()), "adapted_session_context"),
    "original": lambda: load(hermes_file(), "original_session_context"),
}


class Session:
    """A session module, with skips that say what an older Hermes lacks."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.module = MODULES[kind]()

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self.module, name):
            pytest.skip(f"{name} came after Hermes 0.19.0, whose module this is")
        return getattr(self.module, name)

    def bind(self, **keywords: Any) -> list[Any]:
        """``set_session_vars``, skipping the test if the module has not got a keyword."""
        try:
            return self.module.set_session_vars(**keywords)  # type: ignore[no-any-return]
        except TypeError as error:
            pytest.skip(f"not in Hermes 0.19.0, whose module this is: {error}")

    def bridge(self, env: dict[str, str]) -> dict[str, str]:
        """The environment that a child gets, by Hermes' rule."""
        for name, var in self.module._VAR_MAP.items():
            value = var.get()
            if value is not self.module._UNSET:
                env[name] = "" if value is None else str(value)
            elif self.module.session_context_engaged():
                env.pop(name, None)
        return env


@pytest.fixture(params=list(MODULES))
def sc(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session module in which nothing is bound yet, with an environment that has none of its names."""
    session = Session(request.param)
    for name in [*session.module._VAR_MAP, "HERMES_PLATFORM", "HERMES_KANBAN_TASK"]:
        monkeypatch.delenv(name, raising=False)
    return session


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The package's own module, live, with no session bound in the process and none of its names in the environment."""
    # Other tests have loaded modules of which each has made its latch the process' own.
    _core.set_live(session_context.__dict__)
    monkeypatch.setattr(session_context, "_session_context_engaged", False)
    for name in session_context._VAR_MAP:
        monkeypatch.setenv(name, "")  # so that it is put back whatever the test writes
        del os.environ[name]
    return session_context


def fresh(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """Call *function* in an empty context."""
    return contextvars.Context().run(function, *args, **keywords)


def run_python(code: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run *code* in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )
