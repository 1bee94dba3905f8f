"""Which code runs natively, and that the rest is left alone."""

from __future__ import annotations

import ast
import contextvars
from pathlib import Path

import pytest
from conftest import OWN_FILE, fresh, hermes_file, load

from hermes_env_bridge import SessionVar
from hermes_env_bridge._install import adapt
from hermes_env_bridge._rewrite import rewrite

HEAD = """
import os
from contextvars import ContextVar
_UNSET = object()
A = ContextVar("A", default=_UNSET)
B = ContextVar("B", default=_UNSET)
FLAG = ContextVar("FLAG", default=_UNSET)
_VAR_MAP = {"A": A, "B": B}
"""

NATIVE = {
    "a list of sets": """
def bind(a='', b=''):
    return_value = [A.set(a), B.set(b)]
    return return_value
""",
    "sets by zip, of a list": """
def bind(a='', b=''):
    given = [a, b]
    t = [v.set(x) for v, x in zip((A, B), given)]
    t.append(FLAG.set(bool(a)))
    return t
""",
    "sets by zip, of a generator": """
def bind(a='', b=''):
    given = (y for y in (a, b, a))
    t = [v.set(x) for v, x in zip((A, B), given)]
    t.append(FLAG.set(bool(a)))
    return [*t, next(given, 'used up')]
""",
    "a loop over a tuple": """
def clear(t):
    for v in (A, B):
        v.set('')
""",
    "a loop over the map, and a flag": """
def reset():
    for v in _VAR_MAP.values():
        v.set(_UNSET)
    FLAG.set(_UNSET)
""",
    "a read": """
def read(name, default=''):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value is not _UNSET:
            return value
    return os.getenv(name, default)
""",
}

OWN = {
    "a flag that is given the loop variable": """
def clear():
    for v in (A, B):
        v.set('')
    FLAG.set(v)
""",
    "a loop that sets its own variable": """
def clear():
    for v in (A, B):
        v.set(v)
""",
    "a default that is a local of the read": """
def read(name, default=''):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value is not _UNSET:
            return value
    return os.getenv(name, var)
""",
    "a flag that is the truth of the tokens": """
def bind(a='', b=''):
    t = [v.set(x) for v, x in zip((A, B), (a, b))]
    t.append(FLAG.set(bool(t)))
    return t
""",
    "a read that overwrites its argument": """
def read(name, default=''):
    name = _VAR_MAP.get(name)
    if name is not None:
        value = name.get()
        if value is not _UNSET:
            return value
    return os.getenv(name, default)
""",
    "a bind that rolls back": """
def bind(a='', b=''):
    t = []
    try:
        t = [v.set(x) for v, x in zip((A, B), (a, b))]
        t.append(FLAG.set(bool(Odd(a))))
    except RuntimeError:
        for v, k in zip((A, B), t):
            v.reset(k)
    return t
class Odd:
    def __init__(self, a):
        self.a = a
    def __bool__(self):
        raise RuntimeError
""",
    "a loop variable that is a global": """
last = None
def clear():
    global last
    for last in (A, B):
        last.set('')
def read():
    return last
""",
    "a class body": """
def clear():
    class K:
        for v in (A, B):
            v.set('')
    return K.v
""",
    "locals that are looked at": """
def clear():
    for v in (A, B):
        v.set('')
    return sorted(locals())
""",
    "an os that is local": """
def read(name='A', default=''):
    if default == 'x':
        import os
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value is not _UNSET:
            return value
    return os.getenv(name, default)
""",
    "a bool from a star import": """
from os.path import *
def bind(a='', b=''):
    t = [v.set(x) for v, x in zip((A, B), (a, b))]
    t.append(FLAG.set(bool(a)))
    return t
""",
    "a bind that strips": """
def bind(a='', b=''):
    return [A.set(a.strip()), B.set(b)]
""",
    "a bind that stringifies": """
def bind(a='', b=''):
    t = [A.set(str(a)), B.set(b)]
    return t
""",
    "a bind that audits": """
def bind(a='', b=''):
    t = []
    for v, x in ((A, a), (B, b)):
        log.append(x)
        t.append(v.set(x))
    return t
log = []
""",
    "a read without the environment": """
def read(name, default=''):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value is not _UNSET:
            return value
    return default
""",
    "a read that tests the truth": """
def read(name, default=''):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value:
            return value
    return os.getenv(name, default)
""",
    "a clear that uses its loop variable later": """
def clear():
    for v in (A, B):
        v.set('')
    return v
""",
    "a shadowed builtin": """
def zip(a, b):
    return [(B, '1')]
bool = str
def bind(a='', b=''):
    vals = (a, b)
    t = [v.set(x) for v, x in zip((A, B), vals)]
    t.append(FLAG.set(bool(a)))
    return t
""",
    "a value that reads a variable": """
def bind(a='', b=''):
    t = [A.set(a), B.set(A.get())]
    return t
""",
}


def kinds(source: str) -> set[str]:
    """The native calls that functions of the module make."""
    verbs = rewrite(ast.parse(HEAD + source)).verbs
    return {kind for made in verbs.values() for kind in made}


@pytest.mark.parametrize("name", list(NATIVE))
def test_a_known_form_is_native(name: str) -> None:
    assert kinds(NATIVE[name])


@pytest.mark.parametrize("name", list(OWN))
def test_any_other_form_stays_the_modules_own(name: str) -> None:
    assert kinds(OWN[name]) == set()


def test_an_iterable_that_runs_code_between_variables_finds_the_first_one_set(tmp_path: Path) -> None:
    path = tmp_path / "fork.py"
    path.write_text(
        HEAD
        + """
log = []
class Lazy(dict):
    def values(self):
        yield A
        log.append(A.get())
        A.set('between')
        yield B
LAZY = Lazy()
def clear():
    for v in LAZY.values():
        v.set('')
"""
    )
    assert rewrite(ast.parse(path.read_text())).verbs == {"clear": ("fill",)}
    for module in (load(path, "plain"), adapt(str(path), "adapted")):
        context = contextvars.Context()
        context.run(module.clear)
        assert (module.log, context.run(module.A.get), context.run(module.B.get)) == ([""], "between", "")


def test_values_that_read_a_variable_find_the_ones_before_set(tmp_path: Path) -> None:
    path = tmp_path / "fork.py"
    path.write_text(
        HEAD
        + """
def seen():
    yield 'first'
    yield A.get()
def bind(values):
    t = [v.set(x) for v, x in zip((A, B), values)]
    t.append(FLAG.set(bool(values)))
    return t
"""
    )
    assert rewrite(ast.parse(path.read_text())).verbs == {"bind": ("bind",)}
    for module in (load(path, "plain"), adapt(str(path), "adapted")):
        context = contextvars.Context()
        tokens = context.run(module.bind, module.seen())
        assert (context.run(module.A.get), context.run(module.B.get), len(tokens)) == ("first", "first", 3)


@pytest.mark.parametrize("name", [*NATIVE, *OWN])
def test_native_or_not_the_module_does_what_it_did(name: str, tmp_path: Path) -> None:
    path = tmp_path / "fork.py"
    path.write_text(HEAD + (NATIVE | OWN)[name])
    plain, adapted = load(path, "plain"), adapt(str(path), "adapted")

    def behaviour(module: object) -> list[object]:
        unset = module._UNSET  # type: ignore[attr-defined]
        seen: list[object] = []
        for call in ("bind", "clear", "reset", "read"):
            function = getattr(module, call, None)
            if function is None:
                continue
            for arguments in (("A", "x"), ("A",), ("B",), ()):
                try:
                    result = function(*arguments)
                except (TypeError, NameError, LookupError) as error:
                    result = f"{type(error)}: {error}".replace("SessionVar", "ContextVar")
                seen.append(
                    len(result)
                    if isinstance(result, list)
                    else "unset"
                    if result is unset
                    else getattr(result, "name", result)
                )
                values = [v.get() for v in module._VAR_MAP.values()]  # type: ignore[attr-defined]
                seen.append(["unset" if value is unset else getattr(value, "name", value) for value in values])
        return seen

    assert fresh(behaviour, adapted) == fresh(behaviour, plain)
    assert type(adapted.A) is SessionVar
    assert type(plain.A) is contextvars.ContextVar


@pytest.mark.parametrize(
    "source",
    [
        "import contextvars\nV = contextvars.ContextVar('V')\n",
        "import contextvars as c\nV = c.ContextVar('V', default=1)\n",
        "from contextvars import ContextVar as Var, copy_context\nV: Var[int] = Var('V')\n",
        "def make():\n    import contextvars\n    return contextvars.ContextVar('V')\nV = make()\n",
        "import contextvars\nclass Holder:\n    var = contextvars.ContextVar('V')\nV = Holder().var\n",
        "import contextvars\ndef get(var=contextvars.ContextVar('V')):\n    return var\nV = get()\n",
    ],
)
def test_every_variable_is_ours_wherever_it_is_made_and_kept(source: str, tmp_path: Path) -> None:
    path = tmp_path / "fork.py"
    path.write_text(source)
    assert type(adapt(str(path), "fork").V) is SessionVar


def test_the_variables_of_a_module_are_bound_in_one_write() -> None:
    module = adapt(str(hermes_file()), "adapted")

    def entries() -> int:
        module.set_session_vars(platform="x")
        return len(contextvars.copy_context())

    assert fresh(entries) < len(module._VAR_MAP)


def test_the_verbs_of_the_installed_hermes_are_native() -> None:
    verbs = rewrite(ast.parse(hermes_file().read_text())).verbs
    assert verbs["set_session_vars"] == ("bind", "import")
    assert verbs["clear_session_vars"] == ("fill", "import")
    assert verbs["reset_session_vars"] == ("fill", "import")
    assert verbs["get_session_env"] == ("read",)


def test_a_traceback_shows_the_files_own_line(tmp_path: Path) -> None:
    path = tmp_path / "fork.py"
    path.write_text(HEAD + "def bind(a='', b=''):\n    t = [A.set(a), missing.set(b)]\n    return t\n")
    module = adapt(str(path), "fork")
    with pytest.raises(NameError) as raised:
        module.bind()
    assert raised.traceback[-1].path == path
    assert "missing.set(b)" in str(raised.traceback[-1].statement)


def test_the_packages_own_module_needs_no_rewriting() -> None:
    assert rewrite(ast.parse(OWN_FILE.read_text())).verbs == {}
