"""Puts the drop-in in the place of an installed Hermes' session module."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source, spec_from_file_location
from pathlib import Path
from types import ModuleType

from hermes_env_bridge import _core
from hermes_env_bridge._module import SessionModule
from hermes_env_bridge._rewrite import rewrite

HERMES = "gateway.session_context"
OWN = "hermes_env_bridge.session_context"

_lock = threading.RLock()
_installed: Drop | None = None


class InstallError(RuntimeError):
    """The drop-in cannot be put in place; nothing was changed. The message says why and what to do."""


class Drop:
    """An adapted module, and the finder that hands it out under each of its names."""

    def __init__(self, names: Sequence[str], path: str) -> None:
        """Adapt the file at *path* for the first of *names*; nothing is put in place yet."""
        self.names = tuple(names)
        self.path = path
        self.module = adapt(path, self.names[0])
        self.spec = self.module.__spec__

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer the import system for our names, and for no other."""
        if name not in self.names:
            return None
        return spec_from_file_location(name, self.path, loader=_OneModule(name, self.path, self))


class _OneModule(SourceFileLoader):
    """Loads the same module object, as it is, whenever and under whatever name it is asked for."""

    def __init__(self, name: str, path: str, drop: Drop) -> None:
        super().__init__(name, path)
        self.drop = drop

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.drop.module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just written the spec of the name that was asked for.
        module.__spec__ = self.drop.spec


def adapt(path: str, name: str) -> ModuleType:
    """Run the session module in the file at *path* over our variables and return it, as a module called *name*.

    Its own code makes the variables and stays its own, but for what has a known form and runs natively. The module is
    not put into ``sys.modules``. Raises what reading, parsing and running the file raise.
    """
    rewritten = rewrite(ast.parse(decode_source(Path(path).read_bytes()), path))
    module = SessionModule(name)
    spec = spec_from_file_location(name, path)
    module.__spec__ = spec
    module.__loader__ = spec.loader if spec else None
    module.__file__ = path
    module.__package__ = name.rpartition(".")[0]
    module.__dict__[rewritten.native] = _core
    code = compile(rewritten.tree, path, "exec", dont_inherit=True)
    _core.Slot().collect(lambda: exec(code, module.__dict__))
    return module


def install(*, module: str = HERMES) -> ModuleType:
    """Put the drop-in in place of the installed Hermes' session module, and return it.

    *module* is the name under which programs import it. From then on that name and
    ``hermes_env_bridge.session_context`` are one module: the installed file's own code over our variables. The file is
    found without importing its package. Installing again returns the same module.

    Raises :class:`InstallError`, with nothing changed, if there is no such file, or if the original or the package's
    own module has been imported before: those who did would go on with another session than the rest.
    """
    global _installed
    with _lock:
        if _installed is not None:
            if _installed.names[0] != module:
                raise InstallError(f"the drop-in is installed for {_installed.names[0]}; call uninstall() first")
            return _installed.module
        _refuse_if_imported(module)
        drop = Drop((module, OWN), find(module))
        sys.meta_path.insert(0, drop)
        _set_own(drop.module)
        _core.set_live(drop.module.__dict__)
        _installed = drop
        return drop.module


def uninstall() -> None:
    """Take the drop-in away again, so that the next import finds Hermes' own module. Does nothing if there is none.

    What has been imported from the drop-in goes on using it.
    """
    global _installed
    with _lock:
        if _installed is None:
            return
        sys.meta_path.remove(_installed)
        for name in _installed.names:
            if sys.modules.get(name) is _installed.module:
                del sys.modules[name]
            package, _, attribute = name.rpartition(".")
            if getattr(sys.modules.get(package), attribute, None) is _installed.module:
                delattr(sys.modules[package], attribute)
        _installed = None


def _set_own(module: ModuleType) -> None:
    package, _, attribute = OWN.rpartition(".")
    sys.modules[OWN] = module
    setattr(sys.modules[package], attribute, module)


def _refuse_if_imported(module: str) -> None:
    for name in (module, OWN):
        imported = sys.modules.get(name)
        if imported is not None:
            importers = ", ".join(_importers(imported)) or "code that kept no reference"
            raise InstallError(
                f"{name} has been imported already, by {importers}; "
                "call hermes_env_bridge.install() before anything else is imported"
            )


def _importers(module: ModuleType) -> list[str]:
    """The modules that hold *module*, or something that it defines."""
    defined = {
        id(value) for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__
    }
    defined |= {id(value) for name, value in vars(module).items() if name.startswith("_SESSION_")} | {id(module)}
    return sorted(
        name
        for name, other in list(sys.modules.items())
        if other is not module and any(id(value) in defined for value in list(getattr(other, "__dict__", {}).values()))
    )


def find(module: str) -> str:
    """Return the file of *module*, found one component at a time without importing a package.

    Raises :class:`InstallError` if there is none, or if it is no Python source file.
    """
    parts = module.split(".")
    path: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        found = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None:
            raise InstallError(
                f"no module {name} on sys.path, so there is no {module} to replace; install hermes-agent, or use "
                f"{OWN}, which needs none"
            )
        path = spec.submodule_search_locations
    if spec is None or spec.origin is None or not spec.has_location or not spec.origin.endswith(".py"):
        raise InstallError(
            f"{module} is not a Python source file ({spec and spec.origin}); nothing can be put in its place"
        )
    return spec.origin
