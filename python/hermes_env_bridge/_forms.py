"""The forms of statements that can be one native call, and how code is matched with them.

A form matches statement by statement, with the names of variables, keywords and locals taken as parameters.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Form:
    """Statements that can be one native call.

    In the source of a form, a name in capitals stands for a plain expression (a name, a constant, a tuple of names or
    ``name.values()``), the same one wherever it occurs; a name with a leading underscore stands for a local name that
    is used nowhere else in the function. Any other name stands for itself.
    """

    verb: str
    statements: tuple[ast.stmt, ...]
    native: tuple[ast.stmt, ...]

    @classmethod
    def of(cls, verb: str, statements: str, native: str) -> Form:
        """Parse a form's source."""
        return cls(verb, tuple(ast.parse(statements).body), tuple(ast.parse(native).body))


# `native` names the module of native calls; the name is chosen anew for each module that is rewritten.
FORMS = (
    Form.of(
        "bind",
        """
TOKENS = [_var.set(_value) for _var, _value in zip(VARS, VALUES)]
TOKENS.append(FLAG.set(bool(STATED)))
""",
        "TOKENS = native.bind(VARS, VALUES, FLAG, STATED)",
    ),
    Form.of(
        "fill",
        """
for _var in VARS:
    _var.set(VALUE)
FLAG.set(STATED)
""",
        "native.fill(VARS, VALUE, FLAG, STATED)",
    ),
    Form.of(
        "fill",
        """
for _var in VARS:
    _var.set(VALUE)
""",
        "native.fill(VARS, VALUE)",
    ),
    Form.of(
        "read",
        """
_var = VARS.get(NAME)
if _var is not None and (_value := _var.get()) is not UNSET:
    return _value
return os.getenv(NAME, DEFAULT)
""",
        "return native.read(VARS, NAME, UNSET, DEFAULT, os)",
    ),
    Form.of(
        "read",
        """
import os
_var = VARS.get(NAME)
if _var is not None:
    _value = _var.get()
    if _value is not UNSET:
        return _value
return os.getenv(NAME, DEFAULT)
""",
        "return native.read(VARS, NAME, UNSET, DEFAULT)",
    ),
    Form.of(
        "read",
        """
_var = VARS.get(NAME)
if _var is not None:
    _value = _var.get()
    if _value is not UNSET:
        return _value
return os.getenv(NAME, DEFAULT)
""",
        "return native.read(VARS, NAME, UNSET, DEFAULT, os)",
    ),
)


class FillIn(ast.NodeTransformer):
    def __init__(self, found: dict[str, ast.expr]) -> None:
        self.found = found

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self.found.get(node.id)
        if found is None:
            return node
        return ast.Name(found.id, node.ctx) if isinstance(found, ast.Name) else found


def matches(pattern: Any, node: Any, found: dict[str, ast.expr]) -> bool:
    """Whether *node* has the pattern's form; *found* collects what its parameters stand for."""
    if isinstance(pattern, ast.Name) and (pattern.id.isupper() or pattern.id.startswith("_")):
        if not isinstance(node, ast.expr) or not is_plain(node):
            return False
        if pattern.id.startswith("_") and not isinstance(node, ast.Name):
            return False
        known = found.setdefault(pattern.id, node)
        return ast.dump(_as_load(known)) == ast.dump(_as_load(node))
    if isinstance(pattern, ast.AST):
        return type(pattern) is type(node) and all(
            matches(getattr(pattern, name, None), getattr(node, name, None), found)
            for name in pattern._fields
            if name not in ("ctx", "type_comment", "kind")
        )
    if isinstance(pattern, list):
        return (
            isinstance(node, list)
            and len(pattern) == len(node)
            and all(matches(p, n, found) for p, n in zip(pattern, node, strict=True))
        )
    return bool(pattern == node)


def is_plain(node: ast.expr) -> bool:
    """Whether evaluating the expression early, once or twice makes no difference."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Tuple(elts=elements):
            return all(isinstance(element, ast.Name | ast.Constant) for element in elements)
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="values"), args=[], keywords=[]):
            return True
    return False


def is_single(node: ast.expr | None) -> bool:
    """Whether every evaluation gives the same object, which a tuple of names does not."""
    return node is None or isinstance(node, ast.Name | ast.Constant)


def names_in(tree: ast.AST) -> Iterator[ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def _as_load(node: ast.expr) -> ast.expr:
    return ast.Name(node.id, ast.Load()) if isinstance(node, ast.Name) else node


def copied(statement: ast.stmt) -> ast.stmt:
    """A copy that stands nowhere yet."""
    copied = copy.deepcopy(statement)
    for node in ast.walk(copied):
        for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            node.__dict__.pop(attribute, None)
    return copied


def located(statement: ast.stmt, at: ast.stmt) -> ast.stmt:
    """The statement, with what is new in it on the line of *at*, for tracebacks."""
    for node in ast.walk(statement):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, at)
    return statement
