"""Finds a session module's file, and reads in its source whether it is one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import resolve_name

from hermes_env_bridge._profile import VERBS

HERMES = "gateway.session_context"
OWN = "hermes_env_bridge.session_context"


class InstallError(RuntimeError):
    """The drop-in cannot be put in place; nothing was changed. The message says why and what to do."""


def find(module: str) -> str:
    """Return the file of *module*, found one component at a time without importing a package.

    Raises :class:`InstallError` if there is none, or if it is no Python source file.
    """
    parts = module.split(".")
    path: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        if depth > 1 and path is None:
            raise InstallError(
                f"{parts[depth - 2]} is no package, so there is no {module} to replace; use {OWN} without it"
            )
        try:
            found = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
            spec = next((spec for spec in found if spec is not None), None)
        except Exception as error:
            raise InstallError(
                f"a finder on sys.meta_path fails for {name}: {type(error).__name__}: {error}"
            ) from error
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


def re_exported(tree: ast.Module, module: str) -> str | None:
    """The module from which *module* only re-exports its session, if it makes none of its own."""
    if {"_VAR_MAP", *VERBS} & made(tree):
        return None
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name in ("*", *VERBS) for alias in node.names):
            package = module.rpartition(".")[0]
            return resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
    return None


def made(tree: ast.Module) -> set[str]:
    """The names, attributes among them, that the module's code defines or assigns, and not those it imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
    return names


def names_bound(tree: ast.Module) -> set[str] | None:
    """The names that the module's code binds, None if it may bind any (an exec, its own namespace, a star import)."""
    imported: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="exec" | "globals" | "vars" | "setattr") | ast.alias(name="*"):
                return None
            case ast.alias(name=name, asname=asname):
                imported.add(asname or name)
    return imported | made(tree)
