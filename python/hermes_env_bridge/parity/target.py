"""What can be compared: a session module of Hermes, and ours for it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import hermes_env_bridge
from hermes_env_bridge._install import HERMES, adapt, find, install

OWN_FILE = Path(hermes_env_bridge.__file__).with_name("session_context.py")


@dataclass(frozen=True)
class Target:
    """A pair of modules to compare: the file of the reference, and how ours is made."""

    title: str
    reference: Path
    subject: str  # "installed", "adapted" or "own"

    def load(self) -> tuple[ModuleType, ModuleType]:
        """The reference, unchanged and with its own state, and the subject.

        Raises what reading and running the file raise; for the installed one, ``InstallError``.
        """
        if self.subject == "installed":
            subject = install()
        elif self.subject == "adapted":
            subject = adapt(str(self.reference), "parity_adapted")
        else:
            subject = load(OWN_FILE, "parity_own")
        return load(self.reference, "parity_reference"), subject


def installed_version() -> str:
    """The version of the installed Hermes; raises ``PackageNotFoundError`` if there is none."""
    return importlib.metadata.version("hermes-agent")


def installed_target() -> Target:
    """The installed Hermes' module and the drop-in in its place."""
    return Target("the drop-in installed over Hermes' module", Path(find(HERMES)), "installed")


def targets_of(oracle: Path) -> list[Target]:
    """The file adapted and, where it has the shape of the package's own module, that as well."""
    targets = [Target(f"{oracle.name}, adapted", oracle, "adapted")]
    if _shape(load(oracle, "parity_shape")) == _shape(load(OWN_FILE, "parity_own_shape")):
        targets.append(Target(f"the package's own module against {oracle.name}", oracle, "own"))
    return targets


def load(path: Path, name: str) -> ModuleType:
    """The module in the file at *path* as it is, under another *name* and so with its own state."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _shape(module: ModuleType) -> tuple[object, ...]:
    """What two modules that can stand in for each other have in common."""
    return tuple(module._VAR_MAP), tuple(inspect.signature(module.set_session_vars).parameters)
