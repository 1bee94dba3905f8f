"""Rewrites a session module's syntax tree so that it runs on our variables, and its verbs natively.

Two things are changed and all else is left as it is:

- an import from ``contextvars`` is answered by :mod:`hermes_env_bridge._contextvars`, which alone makes every variable
  of the module one of ours;
- a run of statements that has a known form (:mod:`hermes_env_bridge._forms`) becomes one native call with the same
  effect.

What has no known form (a bind that strips or audits, a read without the environment) stays the module's own code.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hermes_env_bridge._forms import FORMS, FillIn, Form, copied, is_single, located, matches, names_in

STAND_IN = "hermes_env_bridge._contextvars"


@dataclass(frozen=True)
class Rewritten:
    """A rewritten tree, and what was learnt of it.

    ``native`` is the name under which it finds the native calls. ``verbs`` says for each function that makes any of
    which kinds they are; ``own`` says for each function that still uses variables itself where it does. ``keywords``
    has for each argument of a bind the name of the variable that it fills, or the name of a tuple and the place in it.
    """

    tree: ast.Module
    native: str
    verbs: dict[str, tuple[str, ...]]
    own: dict[str, str]
    keywords: dict[str, tuple[str, int | None]]


def rewrite(tree: ast.Module) -> Rewritten:
    """Rewrite *tree*, which is changed, and return it with what is needed to run it."""
    bound = set(_bound_names(tree))
    # A name that the interpreter clears last when it shuts down, after the objects that may still read.
    native = "__hermes_env_bridge_native__"
    while native in bound | {node.id for node in names_in(tree)}:
        native += "_"
    _Imports().visit(tree)
    # A star import may bring any name.
    shadowed = set(dir(builtins)) if "*" in bound else set(dir(builtins)) & bound
    there = bound - {node.id for node in names_in(tree) if isinstance(node.ctx, ast.Del)}
    functions = [_Function(f, native, shadowed, there) for f in tree.body if isinstance(f, ast.FunctionDef)]
    # Of two functions with one name the later one is the module's.
    made = {function.name: function.rewrite() for function in functions}
    verbs = {name: kinds for name, kinds in made.items() if kinds}
    own = {name: place for name, place in {f.name: f.own_use() for f in functions}.items() if place}
    keywords = {name: variable for function in functions for name, variable in function.keywords.items()}
    return Rewritten(ast.fix_missing_locations(tree), native, verbs, own, keywords)


class _Imports(ast.NodeTransformer):
    """Answers imports from ``contextvars``, wherever they stand."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.module == "contextvars" and node.level == 0:
            node.module = STAND_IN
        return node

    def visit_Import(self, node: ast.Import) -> ast.Import:
        for alias in node.names:
            if alias.name == "contextvars":
                alias.name, alias.asname = STAND_IN, alias.asname or alias.name
        return node


@dataclass
class _Function:
    """Rewrites one function, block by block."""

    function: ast.FunctionDef
    native: str
    shadowed: set[str]
    there: set[str]
    kinds: list[str] = field(default_factory=list)
    keywords: dict[str, tuple[str, int | None]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.name

    def own_use(self) -> str:
        """Where the function still reads or changes the session by itself; empty if it does not.

        What it does to one variable of the module is a native call as it stands.
        """
        local = set(_bound_names(self.function))
        changed: set[str] = set()
        for node in ast.walk(self.function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get" | "set" | "reset" as method)):
                    changed |= {name} if method == "set" else set()
                    if name in local or method == "reset" or (method == "get" and node.args) or len(changed) > 1:
                        return f"line {node.lineno}, .{method}(), is part of no known form"
        return ""

    def rewrite(self) -> tuple[str, ...]:
        # Code that looks at its own names sees which of them there are.
        if not {"locals", "vars", "dir", "eval", "exec"} & {node.id for node in names_in(self.function)}:
            self.function.body = self._block(self.function.body, outermost=True)
        return tuple(self.kinds)

    def _block(self, statements: list[ast.stmt], outermost: bool = False) -> list[ast.stmt]:
        rewritten: list[ast.stmt] = []
        while statements:
            replacement, used = self._first(statements, outermost)
            rewritten += replacement
            statements = statements[used:]
        return rewritten

    def _first(self, statements: list[ast.stmt], outermost: bool) -> tuple[list[ast.stmt], int]:
        """What the statements start with, rewritten, and how many of them that was.

        A bind of two statements is known where nothing can look at the tokens of the first if the second fails.
        """
        for form in FORMS:
            found = self._match(form, statements) if outermost or form.verb != "bind" else None
            if found is not None:
                self.kinds.append(form.verb)
                self._note_zip(found)
                return self._instance(form, found, statements[0]), len(form.statements)
        first = statements[0]
        replacement = self._list_of_sets(first) or self._imported(first)
        if replacement is not None:
            return [located(replacement, first)], 1
        if isinstance(first, ast.ClassDef):
            return [first], 1  # names bound in its body are its attributes
        for name in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(first, name, None), list):
                setattr(first, name, self._block(block))
        for handler in getattr(first, "handlers", ()):
            handler.body = self._block(handler.body)
        return [first], 1

    def _match(self, form: Form, statements: Sequence[ast.stmt]) -> dict[str, ast.expr] | None:
        candidates = statements[: len(form.statements)]
        found: dict[str, ast.expr] = {}
        if len(candidates) < len(form.statements):
            return None
        if not all(matches(p, c, found) for p, c in zip(form.statements, candidates, strict=True)):
            return None
        spelled = {n.id for s in form.statements for n in names_in(s)}
        if {"zip", "bool"} & spelled & self.shadowed:
            return None
        own_import = any(isinstance(s, ast.Import) for s in form.statements)
        scratch = {v.id for k, v in found.items() if k.startswith("_") and isinstance(v, ast.Name)}
        scratch |= {"os"} if own_import else set()
        inside = sum(n.id in scratch for s in candidates for n in names_in(s))
        everywhere = sum(n.id in scratch for n in names_in(self.function))
        if inside != everywhere or scratch & self._declared():
            return None
        given = {n.id for k, v in found.items() if not k.startswith("_") and k != "TOKENS" for n in names_in(v)}
        given |= spelled & {"os"} if not own_import else set()
        tokens = found.get("TOKENS")
        results = {tokens.id} if isinstance(tokens, ast.Name) else set()
        # What the call is given has to be there, and the same, before the first statement: an argument, or a name
        # that the function does not bind. The values of a bind are looked up at once in the original too.
        values = found.get("VALUES")
        early = given - ({values.id} if isinstance(values, ast.Name) else set()) - self._parameters()
        unsafe = given & (scratch | results) or early & self._stored()
        missing = early - self.there
        return None if unsafe or missing or not is_single(found.get("VALUE")) else found

    def _declared(self) -> set[str]:
        """Names that the function declares to be another scope's."""
        return {name for n in ast.walk(self.function) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}

    def _parameters(self) -> set[str]:
        return {node.arg for node in ast.walk(self.function.args) if isinstance(node, ast.arg)}

    def _stored(self) -> set[str]:
        """Names that the function's body binds or deletes."""
        deleted = {node.id for node in names_in(self.function) if isinstance(node.ctx, ast.Del)}
        return deleted | {name for statement in self.function.body for name in _bound_names(statement)}

    def _instance(self, form: Form, found: dict[str, ast.expr], at: ast.stmt) -> list[ast.stmt]:
        fill_in = FillIn(found | {"native": ast.Name(self.native, ast.Load())})
        statements = [fill_in.visit(copied(statement)) for statement in form.native]
        return [located(statement, at) for statement in statements]

    def _list_of_sets(self, statement: ast.stmt) -> ast.stmt | None:
        """``tokens = [A.set(a), B.set(b), …, F.set(bool(f))]`` as one bind; the last may be like the others."""
        match statement:
            case ast.Assign(targets=[ast.Name()], value=ast.List(elts=[_, _, *_] as sets)):
                pass
            case _:
                return None
        pairs = [_set_call(call) for call in sets]
        if any(pair is None for pair in pairs):
            return None
        *plain, last = [pair for pair in pairs if pair is not None]
        truth = _truth_of(last[1]) if "bool" not in self.shadowed else None
        if truth is not None:
            flag: list[ast.expr] = [last[0], truth]
        else:
            plain, flag = [*plain, last], []
        # A global could be another one when the variables before it are set.
        arguments = self._parameters() - self._stored()
        if not all(isinstance(v, ast.Constant) or (isinstance(v, ast.Name) and v.id in arguments) for _, v in plain):
            return None
        if not {node.id for variable, _ in [*plain, last] for node in names_in(variable)} <= self.there:
            return None
        self.kinds.append("bind")
        for variable, value in plain:
            if isinstance(variable, ast.Name) and isinstance(value, ast.Name):
                self.keywords[value.id] = (variable.id, None)
        variables = ast.Tuple([variable for variable, _ in plain], ast.Load())
        values = ast.Tuple([value for _, value in plain], ast.Load())
        return ast.Assign(statement.targets, self._call("bind", variables, values, *flag))

    def _note_zip(self, found: dict[str, ast.expr]) -> None:
        """Which argument fills which variable, where a tuple of arguments is paired with a tuple of variables."""
        variables, values = found.get("VARS"), found.get("VALUES")
        for node in ast.walk(self.function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=elements)):
                    if isinstance(values, ast.Name) and values.id == name:
                        values = ast.Tuple(elements, ast.Load())
        if isinstance(variables, ast.Name) and isinstance(values, ast.Tuple):
            for place, value in enumerate(values.elts):
                if isinstance(value, ast.Name):
                    self.keywords[value.id] = (variables.id, place)

    def _imported(self, statement: ast.stmt) -> ast.stmt | None:
        """``from module import name`` in a function, which mostly finds it imported already."""
        match statement:
            case ast.ImportFrom(module=str(module), names=[ast.alias(name=name, asname=asname)], level=0) if (
                name != "*" and module != STAND_IN
            ):
                target = ast.Name(asname or name, ast.Store())
                self.kinds.append("import")
                call = self._call("import_from", ast.Constant(module), ast.Constant(name))
                return ast.Assign([target], call)
        return None

    def _call(self, function: str, *arguments: ast.expr) -> ast.Call:
        return ast.Call(ast.Attribute(ast.Name(self.native, ast.Load()), function, ast.Load()), list(arguments), [])


def _set_call(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name() as variable, attr="set"), args=[value], keywords=[]):
            return variable, value
    return None


def _truth_of(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Name(id="bool"), args=[ast.Name() as value], keywords=[]):
            return value
    return None


def _bound_names(tree: ast.AST) -> Iterator[str]:
    """Names that the code binds, at any depth."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition(".")[0]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
