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
                except TypeError as error:
                    result = str(error)
                seen.append(
                    len(result)
                    if isinstance(result, list)
                    else "unset"
                    if result is unset
                    else getattr(result, "name", result)
                )
                values = [v.get() for v in module._VAR_MAP.values()]  # type: ignore[attr-defined]
                seen.append(["unset" if value is unset else value for value in values])
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
