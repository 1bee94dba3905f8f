"""Puts the drop-in in the place of an installed Hermes' session module."""

from __future__ import annotations

import ast
import importlib
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes_env_bridge import _core, _module
from hermes_env_bridge._find import HERMES, OWN, InstallError, find, names_bound, re_exported
from hermes_env_bridge._module import SessionModule
from hermes_env_bridge._profile import VERBS, Profile, own_profile, profile_of
from hermes_env_bridge._rewrite import Rewritten, rewrite

_ABSENT: Any = object()
_WITHOUT = f"run without the bridge, or use {OWN}, which needs no Hermes"

_lock = threading.RLock()
_installed: Replacement | None = None
_asked_for = ""


class Replacement:
    """An adapted module, and the finder that hands it out under each of its names."""

    def __init__(self, names: Sequence[str], path: str, tree: ast.Module) -> None:
        """Adapt the file at *path* for the first of *names*; nothing is put in place yet."""
        self.names = tuple(names)
        self.path = path
        self.rewritten = rewrite(tree)
        self.module = _run(self.rewritten, path, self.names[0])
        # Whoever loads by the module's own spec gets the module, and does not run the file again.
        self.spec = self.find_spec(self.names[0])
        self.module.__spec__ = self.spec
        self.module.__loader__ = self.spec.loader if self.spec else None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer the import system for our names, and for no other."""
        if name not in self.names:
            return None
        return spec_from_file_location(name, self.path, loader=_OneModule(name, self.path, self))


class _OneModule(SourceFileLoader):
    """Loads the same module object, as it is, whenever and under whatever name it is asked for."""

    def __init__(self, name: str, path: str, replacement: Replacement) -> None:
        super().__init__(name, path)
        self.replacement = replacement

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.replacement.module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just written the spec of the name that was asked for.
        module.__spec__ = self.replacement.spec


def adapt(path: str, name: str) -> ModuleType:
    """Run the session module in the file at *path* over our variables and return it, as a module called *name*.

    Its own code makes the variables and stays its own, but for what has a known form and runs natively. The module is
    not put into ``sys.modules``. Raises what reading, parsing and running the file raise.
    """
    return _run(rewrite(_parse(path)), path, name)


def _parse(path: str) -> ast.Module:
    return ast.parse(decode_source(Path(path).read_bytes()), path)


def _run(rewritten: Rewritten, path: str, name: str) -> ModuleType:
    module = SessionModule(name)
    spec = spec_from_file_location(name, path)
    module.__spec__ = spec
    module.__loader__ = spec.loader if spec else None
    module.__file__ = path
    module.__package__ = name.rpartition(".")[0]
    module.__dict__[rewritten.native] = _core
    module.__cached__ = spec.cached if spec else None
    code = compile(rewritten.tree, path, "exec", dont_inherit=True)
    with _importable(name, module):
        _core.Slot().collect(lambda: exec(code, module.__dict__))
    return module


@contextmanager
def _importable(name: str, module: ModuleType) -> Iterator[None]:
    """Have *module* in ``sys.modules`` while its code runs: that may ask for it, or import what imports it.

    Afterwards the entry is as it was, so that the import system binds the module in its package when it is imported.
    """
    before = sys.modules.get(name, module)
    sys.modules[name] = module
    try:
        yield
        if sys.modules.get(name) is not module:
            raise ImportError(f"{name} puts another object in its own place in sys.modules")
    finally:
        sys.modules.pop(name, None)
        if before is not module:
            sys.modules[name] = before


def install(*, module: str = HERMES, executors: bool = False) -> ModuleType:
    """Put the drop-in in place of the installed Hermes' session module, and return it.

    *module* is the name under which programs import it. From then on that name and
    ``hermes_env_bridge.session_context`` are one module: the installed file's own code over our variables. The file is
    found without importing its package. Installing again returns the same module.

    Where that file only re-exports another module's session, the drop-in takes that one's place, and the re-exporting
    module is imported as it is.

    With *executors*, jobs of a ``ThreadPoolExecutor`` and threads that a program starts run in a copy of the context in
    which they were submitted or started, until :func:`uninstall`; see ``docs/threads.md``.

    Raises :class:`InstallError`, with nothing changed, if there is no such file or it is no session module, or if the
    original or the package's own module has been imported before: those who did would go on with another session than
    the rest.
    """
    global _installed, _asked_for
    if not all(module.split(".")) or module == OWN:
        raise InstallError(f"{module!r} is no name of a module to replace; give one such as {HERMES!r}")
    with _lock:
        if _installed is None:
            _refuse_if_imported(module)
            replacement = _learn(module)
            sys.meta_path.insert(0, replacement)
            _set_own(replacement.module)
            _core.set_live(replacement.module.__dict__)
            _installed, _asked_for = replacement, module
            _module.uninstalled = False
        elif module not in (_asked_for, *_installed.names):
            raise InstallError(f"the drop-in is installed for {_asked_for}; call uninstall() first")
        elif _installed not in sys.meta_path:
            sys.meta_path.insert(0, _installed)
        if executors:
            from hermes_env_bridge import _carry

            _carry.carry()
        return _installed.module


def uninstall() -> None:
    """Take the drop-in away again, so that the next import finds Hermes' own module. Does nothing if there is none.

    Executors and threads are what they were before ``install(executors=True)``. What has been imported from the drop-in
    goes on using it. The guard has no session to judge by then, and lets everything pass; the first ``child_env`` logs
    that it knows of no session.
    """
    global _installed
    with _lock:
        if _installed is None:
            return
        if (carry := sys.modules.get("hermes_env_bridge._carry")) is not None:
            carry.stop()
        if _installed in sys.meta_path:
            sys.meta_path.remove(_installed)
        for name in _installed.names:
            if sys.modules.get(name) is _installed.module:
                del sys.modules[name]
            package, _, attribute = name.rpartition(".")
            if getattr(sys.modules.get(package), attribute, None) is _installed.module:
                delattr(sys.modules[package], attribute)
        _core.set_live(None)
        _module.uninstalled = True
        _installed = None


def profile() -> Profile:
    """What was learnt of the session module in use: the installed one, else the package's own."""
    if _installed is None:
        return own_profile(importlib.import_module(OWN))
    return profile_of(_installed.module, _installed.rewritten)


def _learn(module: str) -> Replacement:
    """The installed module, adapted. Raises :class:`InstallError` if it is no session module."""
    path = find(module)
    with _sealed():
        try:
            tree = _parse(path)
            if (real := re_exported(tree, module)) is not None:
                _refuse_if_imported(real)
                return _learn(real)
            _refuse_if_hopeless(module, path, names_bound(tree))
            replacement = Replacement((module, OWN), path, tree)
            _refuse_if_not_a_session(replacement.module)
        except (InstallError, KeyboardInterrupt):
            raise
        except BaseException as error:
            what = f"{type(error).__name__}: {error}"
            raise InstallError(f"{module} ({path}) cannot be run: {what}; {_WITHOUT}") from error
    return replacement


@contextmanager
def _sealed() -> Iterator[None]:
    """If what is inside fails, undo what the code of a module that is refused has done to the process."""
    environment, modules = dict(os.environ), dict(sys.modules)
    lists: list[tuple[list[Any], list[Any]]] = [
        (kept, list(kept)) for kept in (sys.path, sys.meta_path, sys.path_hooks, logging.getLogger().handlers)
    ]
    try:
        yield
    except BaseException:
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        for each, before in lists:
            each[:] = before
        for name in [name for name in sys.modules if name not in modules]:
            imported = sys.modules.pop(name)
            package, _, attribute = name.rpartition(".")
            if package in modules and vars(modules[package]).get(attribute) is imported:
                delattr(modules[package], attribute)
        raise


def _refuse_if_hopeless(module: str, path: str, names: set[str] | None) -> None:
    """Raises before anything is run, where the source alone shows that it is no session module."""
    if names is not None:
        if "_VAR_MAP" not in names:
            raise InstallError(f"{module} ({path}) has no _VAR_MAP, so it is no session module; {_WITHOUT}")
        if not names.intersection(VERBS):
            raise InstallError(f"{module} ({path}) has none of {', '.join(VERBS)}; {_WITHOUT}")


def _refuse_if_not_a_session(module: ModuleType) -> None:
    variables = getattr(module, "_VAR_MAP", None)
    named = f"{module.__name__} ({module.__file__})"
    if not isinstance(variables, Mapping):
        raise InstallError(f"{named} has a _VAR_MAP that is no mapping but {type(variables).__name__}; {_WITHOUT}")
    if not any(callable(getattr(module, verb, None)) for verb in VERBS):
        raise InstallError(f"{named} has none of {', '.join(VERBS)}; {_WITHOUT}")
    odd = [name for name, variable in variables.items() if not isinstance(variable, ContextVar)]
    if odd:
        raise InstallError(f"{named} maps {odd[0]!r} to what is no ContextVar; {_WITHOUT}")


def _set_own(module: ModuleType) -> None:
    package, _, attribute = OWN.rpartition(".")
    sys.modules[OWN] = module
    setattr(sys.modules[package], attribute, module)


def _refuse_if_imported(module: str) -> None:
    for name in (module, OWN):
        imported = sys.modules.get(name, _ABSENT)
        if imported is None:
            raise InstallError(f"the import of {name} is blocked: sys.modules has None for it; {_WITHOUT}")
        if imported is not _ABSENT:
            importers = ", ".join(_importers(imported)) or "code that kept no reference"
            if importers == __package__:
                importers += " for child_env(), snapshot() or another call that asked whose session it is"
            raise InstallError(
                f"{name} has been imported already, by {importers}; "
                "call hermes_env_bridge.install() before anything else is imported"
            )


def _importers(module: Any) -> list[str]:
    """The modules that hold *module*, or something that it defines; *module* may be a stub of any kind."""
    own = _namespace(module)
    name = getattr(module, "__name__", None)
    defined = {id(value) for value in own.values() if getattr(value, "__module__", None) == name}
    defined |= {id(value) for key, value in own.items() if key.startswith("_SESSION_")} | {id(module)}
    return sorted(
        key
        for key, other in list(sys.modules.items())
        if other is not module and any(id(value) in defined for value in list(_namespace(other).values()))
    )


def _namespace(module: Any) -> dict[str, Any]:
    """What a module holds; nothing for an object that has no namespace, or will not show it."""
    try:
        return dict(vars(module))
    except Exception:
        return {}
