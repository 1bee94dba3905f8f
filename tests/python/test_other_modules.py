"""install() for modules under other names, behind a re-export, and the hopeless, which change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODULE = """
import os
from contextvars import ContextVar
_UNSET = object()
_KEY = ContextVar("MY_KEY", default=_UNSET)
_CHAT = ContextVar("MY_CHAT", default=_UNSET)
_VAR_MAP = {"MY_KEY": _KEY, "MY_CHAT": _CHAT}
_session_context_engaged = False

def session_context_engaged():
    return _session_context_engaged

def set_session_vars(key="", chat=""):
    global _session_context_engaged
    _session_context_engaged = True
    return [_KEY.set(key), _CHAT.set(chat)]

def get_session_env(name, default=""):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value is not _UNSET:
            return value
    return os.getenv(name, default)
"""


def run(folder: Path, files: dict[str, str | bytes], code: str) -> Any:
    """What *code* prints as JSON with *files* on the path."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    start = "import json, os, sys, hermes_env_bridge as bridge\n"
    result = subprocess.run(
        [sys.executable, "-c", start + code],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_module_under_another_name_is_installed_there(tmp_path: Path) -> None:
    assert run(
        tmp_path,
        {"core/__init__.py": "", "core/session_context.py": MODULE},
        """
m = bridge.install(module="core.session_context")
import core.session_context as c, hermes_env_bridge.session_context as own
c.set_session_vars(key="k")
print(json.dumps([c is m is own, type(c._KEY).__name__, bridge._core.engaged(), bridge.explain("MY_KEY").state]))
""",
    ) == [True, "SessionVar", True, "set"]


@pytest.mark.parametrize(
    "front",
    [
        "from core.session import *\nfrom core.session import _VAR_MAP, _UNSET\n",
        "from core.session import set_session_vars, get_session_env, _VAR_MAP\n",
    ],
)
def test_behind_a_re_export_the_real_module_is_replaced(tmp_path: Path, front: str) -> None:
    assert run(
        tmp_path,
        {"core/__init__.py": "", "core/session.py": MODULE, "face/__init__.py": "", "face/session.py": front},
        """
m = bridge.install(module="face.session")
import face.session as f, core.session as c
f.set_session_vars(key="k")
print(json.dumps([c is m, f.set_session_vars is c.set_session_vars, type(c._KEY).__name__,
                  f.get_session_env("MY_KEY"), bridge.install(module="face.session") is m, bridge.profile().module]))
""",
    ) == [True, True, "SessionVar", "k", True, "core.session"]


HOPELESS: dict[str, tuple[str | bytes, str]] = {
    "a syntax error": ("def broken(:\n", "SyntaxError"),
    "no text": (b"\x00\x01\xff\xfe", "cannot be run"),
    "no map": ("def set_session_vars(): pass\n", "has no _VAR_MAP"),
    "a map that is none": ("_VAR_MAP = 3\ndef set_session_vars(): pass\n", "is no mapping but int"),
    "no verbs": ("import os\nos.environ['TOUCHED'] = '1'\n_VAR_MAP = {}\n", "has none of set_session_vars"),
    "a variable that is none": (
        "_VAR_MAP = {'MY_KEY': object()}\ndef set_session_vars(): pass\n",
        "'MY_KEY' to what is no ContextVar",
    ),
    "it raises": (
        "import os\nos.environ['TOUCHED'] = '1'\n_VAR_MAP = {}\ndef set_session_vars(): pass\nraise KeyError('x')\n",
        "KeyError",
    ),
    "an import that fails": (
        "import no_such_thing\n_VAR_MAP = {}\ndef set_session_vars(): pass\n",
        "ModuleNotFoundError",
    ),
}


@pytest.mark.parametrize("name", list(HOPELESS))
def test_the_hopeless_is_refused_in_a_line_that_names_it_and_nothing_is_changed(tmp_path: Path, name: str) -> None:
    source, says = HOPELESS[name]
    message, unchanged, own = run(
        tmp_path,
        {"odd/__init__.py": "", "odd/session.py": source},
        """
before = (dict(os.environ), list(sys.meta_path), sorted(n for n in sys.modules if n.startswith(("odd", "gateway"))))
try: bridge.install(module="odd.session")
except bridge.InstallError as error: message = str(error)
else: message = "installed"
after = (dict(os.environ), list(sys.meta_path), sorted(n for n in sys.modules if n.startswith(("odd", "gateway"))))
import hermes_env_bridge.session_context as own
print(json.dumps([message, before == after, own.__name__]))
""",
    )
    assert says in message
    assert "odd.session" in message
    assert "run without the bridge" in message
    assert unchanged
    assert own == "hermes_env_bridge.session_context"


def test_what_is_no_source_file_is_refused(tmp_path: Path) -> None:
    messages = run(
        tmp_path,
        {"gone/__init__.py": ""},
        """
messages = []
for module in ("gone.session", "nowhere.session", "sys", "itertools"):
    try: bridge.install(module=module)
    except bridge.InstallError as error: messages.append(str(error))
print(json.dumps(messages))
""",
    )
    assert [m for m in messages if "gone.session" in m]
    assert "no module nowhere on sys.path" in messages[1]
    assert len(messages) == 4


def test_what_counts_as_a_variable_counts_real_ones_too(tmp_path: Path) -> None:
    source = (
        "import contextvars\nfrom contextvars import Token\nREAL = contextvars.Context().run\n"
        "from real import X\n_UNSET = object()\n_KEY = contextvars.ContextVar('KEY', default=_UNSET)\n"
        "_VAR_MAP = {v.name: v for v in list(globals().values()) if isinstance(v, contextvars.ContextVar)}\n"
        "def set_session_vars(key='', x=''):\n    return [v.set(a) for v, a in ((_KEY, key), (X, x))]\n"
        "def clear_session_vars(tokens):\n"
        "    for t in tokens:\n        if isinstance(t, Token):\n            t.var.reset(t)\n"
    )
    assert run(
        tmp_path,
        {
            "odd/__init__.py": "",
            "odd/session.py": source,
            "real.py": "from contextvars import ContextVar\nX = ContextVar('X', default='none')\n",
        },
        """
m = bridge.install(module="odd.session")
tokens = m.set_session_vars("k", "x")
seen = [sorted(m._VAR_MAP), m.X.get()]
m.clear_session_vars(tokens)
print(json.dumps([*seen, m.X.get(), m._KEY.get() is m._UNSET, type(m._KEY).__name__]))
""",
    ) == [["KEY", "X"], "x", "none", True, "SessionVar"]


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise GeneratorExit", "_VAR_MAP = 3"])
def test_a_module_that_is_refused_leaves_nothing_behind(tmp_path: Path, ending: str) -> None:
    source = (
        "import logging, os, sys\nimport odd.helper\nos.environ['TOUCHED'] = '1'\nsys.path.append('/nowhere')\n"
        "logging.getLogger().addHandler(logging.NullHandler())\n_VAR_MAP = {}\ndef set_session_vars(): pass\n"
    )
    message, unchanged = run(
        tmp_path,
        {"odd/__init__.py": "", "odd/helper.py": "", "odd/session.py": source + ending + "\n"},
        """
import logging
def state(): return [dict(os.environ), list(sys.path), logging.getLogger().handlers[:], sorted(sys.modules)]
before = state()
try: bridge.install(module="odd.session")
except bridge.InstallError as error: message = str(error)
print(json.dumps([message, before == state()]))
""",
    )
    assert "odd.session" in message
    assert unchanged


def test_stubs_and_blocks_in_sys_modules_are_refused_and_stay(tmp_path: Path) -> None:
    messages = run(
        tmp_path,
        {},
        """
import types
class Slotted: __slots__ = ()
messages = []
for stub in (types.SimpleNamespace(get_session_env=1), Slotted(), None):
    sys.modules["gateway.session_context"] = stub
    try: bridge.install()
    except bridge.InstallError as error: messages.append([str(error), sys.modules["gateway.session_context"] is stub])
print(json.dumps(messages))
""",
    )
    assert [kept for _, kept in messages] == [True] * 3
    assert "imported already" in messages[0][0]
    assert "is blocked" in messages[2][0]


def test_a_file_beside_a_module_that_is_no_package_is_not_taken(tmp_path: Path) -> None:
    message = run(
        tmp_path,
        {"front.py": "", "session_context.py": MODULE},
        """
try: bridge.install(module="front.session_context")
except bridge.InstallError as error: print(json.dumps(str(error)))
""",
    )
    assert "front is no package" in message


def test_a_sentinel_of_another_name_is_explained_too(tmp_path: Path) -> None:
    assert run(
        tmp_path,
        {"core/__init__.py": "", "core/session.py": MODULE.replace("_UNSET", "_NOTHING")},
        """
m = bridge.install(module="core.session")
seen = [bridge.explain("MY_KEY").state]
m.set_session_vars(key="k")
print(json.dumps([*seen, bridge.explain("MY_KEY", values=True).value, bridge.explain("MY_CHAT").state]))
""",
    ) == ["unset", "k", "cleared"]
