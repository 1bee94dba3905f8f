"""What can be compared: a session module of Hermes, and ours for it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import hermes_env_bridge
from hermes_env_bridge._find import HERMES, find
from hermes_env_bridge._install import adapt, install

from .release import Release

OWN_FILE = Path(hermes_env_bridge.__file__).with_name("session_context.py")

# What a comparison cannot do without; everything else is compared where it is.
_NEEDED = ("_VAR_MAP", "_UNSET", "set_session_vars", "clear_session_vars", "get_session_env")


class TargetError(RuntimeError):
    """A file cannot be compared; the message says which and why."""


@dataclass(frozen=True)
class Target:
    """A pair of modules to compare: the file of the reference, and how ours is made.

    ``label`` is what it is called in the table, where a row has little room.
    """

    title: str
    label: str
    reference: Path
    subject: str  # "installed", "adapted" or "own"

    def load_subject(self) -> ModuleType:
        """Ours. Raises what reading and running the file raise; for the installed one, ``InstallError``."""
        if self.subject == "installed":
            return install()
        if self.subject == "adapted":
            return adapt(str(self.reference), "parity_adapted")
        return load(OWN_FILE, "parity_own")

    def load_reference(self) -> ModuleType:
        """The reference, unchanged and with its own state. Raises what reading and running the file raise."""
        return load(self.reference, "parity_reference")


def installed_version() -> str:
    """The version of the installed Hermes; raises ``PackageNotFoundError`` if there is none."""
    return importlib.metadata.version("hermes-agent")


def installed_target() -> Target:
    """The installed Hermes' module and the drop-in in its place; raises ``InstallError`` if there is no such module."""
    title = "the drop-in installed over Hermes' module"
    return Target(title, f"{installed_version()} (installed)", Path(find(HERMES)), "installed")


def targets_of_files(oracles: Sequence[Path]) -> list[Target]:
    """Each file adapted and, where it has the shape of the package's own module, that as well.

    Raises :class:`TargetError` for the first file that cannot be compared.
    """
    own = _shape(load(OWN_FILE, "parity_own_shape"))
    targets: list[Target] = []
    for oracle, name in _named(oracles).items():
        targets.append(Target(f"{name}, adapted", name, oracle, "adapted"))
        if _shape(examine(oracle)) == own:
            title = f"the package's own module against {name}"
            targets.append(Target(title, f"{name} (own)", oracle, "own"))
    return targets


def target_of_release(release: Release) -> Target:
    """The session module of *release*, adapted; raises what fetching it raises, and :class:`TargetError`."""
    file = release.session_module()
    examine(file)
    return Target(f"Hermes {release.version}, adapted", release.version, file, "adapted")


def examine(path: Path) -> ModuleType:
    """The module in the file at *path*; raises :class:`TargetError` if it is none that can be compared."""
    try:
        module = load(path, "parity_examined")
    except (Exception, SystemExit) as error:  # the file's own code runs, and may do anything
        raise TargetError(f"{path}: {type(error).__name__}: {error}") from error
    missing = [name for name in _NEEDED if not hasattr(module, name)]
    if missing:
        raise TargetError(f"{path}: not a session module of Hermes: it has no {', '.join(missing)}")
    entries = module._VAR_MAP
    if not isinstance(entries, dict) or not entries:
        raise TargetError(f"{path}: its _VAR_MAP is no dict with entries")
    for name, variable in entries.items():
        if not isinstance(variable, ContextVar):
            raise TargetError(f"{path}: _VAR_MAP[{name!r}] is no context variable")
    return module


def load(path: Path, name: str) -> ModuleType:
    """The module in the file at *path* as it is, under another *name* and so with its own state."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _named(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each of *paths*: as much of its end as tells them apart."""
    different = list(dict.fromkeys(paths))
    for depth in range(1, max((len(path.parts) for path in different), default=0) + 1):
        names = {path: "/".join(path.parts[-depth:]) for path in different}
        if len(set(names.values())) == len(different):
            return names
    return {}


def _shape(module: ModuleType) -> tuple[object, ...]:
    """What two modules that can stand in for each other have in common."""
    return tuple(module._VAR_MAP), tuple(inspect.signature(module.set_session_vars).parameters)
