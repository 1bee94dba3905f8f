"""install() over the real Hermes, each case in an interpreter of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import run_python

START = "import sys, hermes_env_bridge as bridge\n"


def run(code: str) -> str:
    """What *code* prints after the package is imported; fails the test if it fails."""
    result = run_python(START + code)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_one_module_serves_every_import_path() -> None:
    assert (
        run("""
m = bridge.install()
import gateway.session_context as a
from gateway import session_context as b
import hermes_env_bridge.session_context as c
from hermes_env_bridge import session_context as d
import importlib
e = importlib.import_module("gateway.session_context")
print(all(x is m for x in (a, b, c, d, e, sys.modules["gateway.session_context"], bridge.session_context)))
""")
        == "True"
    )


def test_install_imports_no_package_of_hermes() -> None:
    assert (
        run("""
before = set(sys.modules)
bridge.install()
print(sorted(n for n in set(sys.modules) - before if n.split(".")[0] in ("gateway", "agent", "hermes_cli", "tools")))
""")
        == "[]"
    )


def test_the_variables_are_ours_and_everything_else_is_the_installed_versions() -> None:
    assert (
        run("""
m = bridge.install()
print(all(type(v) is bridge.SessionVar for v in (*m._VAR_MAP.values(), m._SESSION_ASYNC_DELIVERY)))
print(len(m.set_session_vars()), hasattr(m, "scoped_current_session_id"), m.__file__.endswith("session_context.py"))
import inspect
print(list(inspect.signature(m.set_session_vars).parameters)[3], inspect.getsource(m).startswith('\"\"\"'))
""")
        == "True\n13 False True\nchat_name True"
    )


def test_installing_twice_gives_the_same_module_also_from_two_threads() -> None:
    assert (
        run("""
import threading
made, start = [], threading.Barrier(4)
def go():
    start.wait()
    made.append(bridge.install())
threads = [threading.Thread(target=go) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
finders = sum(type(f).__name__ == "Replacement" for f in sys.meta_path)
print(len({id(m) for m in made}), finders, bridge.install() is made[0])
""")
        == "1 1 True"
    )


def test_reload_and_deletion_keep_the_state() -> None:
    assert (
        run("""
import importlib
m = bridge.install()
import gateway.session_context as g
g.set_session_vars(session_key="k")
print(importlib.reload(g) is m, g.get_session_env("HERMES_SESSION_KEY"), g.__spec__.name, g.__name__)
del sys.modules["gateway.session_context"], sys.modules["hermes_env_bridge.session_context"]
import gateway.session_context as again, hermes_env_bridge.session_context as own
print(again is m, own is m, again.get_session_env("HERMES_SESSION_KEY"), again.session_context_engaged())
""")
        == "True k gateway.session_context gateway.session_context\nTrue True k True"
    )


TREES = {
    "an import circle": {
        "gateway/__init__.py": "",
        "gateway/other.py": "import gateway.session_context as seen\n",
        "gateway/session_context.py": "import gateway.other\n",
    },
    "a package that imports it": {
        "gateway/__init__.py": "from gateway import session_context as seen\n",
        "gateway/helper.py": "X = 1\n",
        "gateway/session_context.py": "from .helper import X\n",
    },
    "a module that looks itself up": {
        "gateway/__init__.py": "",
        "gateway/session_context.py": (
            "from __future__ import annotations\nimport dataclasses, sys\n"
            "@dataclasses.dataclass\nclass Kept:\n    x: int = 1\nme = sys.modules[__name__]\n"
        ),
    },
}
SESSION = (
    "import contextvars\n_UNSET = object()\n_KEY = contextvars.ContextVar('KEY', default=_UNSET)\n"
    "_VAR_MAP = {'KEY': _KEY}\ndef set_session_vars(key=''):\n    return [_KEY.set(key)]\n"
)


@pytest.mark.parametrize("name", list(TREES))
def test_there_is_one_module_whatever_the_files_import_meanwhile(tmp_path: Path, name: str) -> None:
    for file, source in TREES[name].items():
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(source + (SESSION if file.endswith("session_context.py") else ""))
    output = run(f"""
sys.path.insert(0, {str(tmp_path)!r})
m = bridge.install()
import gateway.session_context as g, gateway
others = [getattr(sys.modules.get(n), "seen", m) for n in ("gateway.other", "gateway")]
print(g is m, gateway.session_context is m, [o is m for o in others], type(m._KEY).__name__, getattr(m, "me", m) is m)
""")
    assert output == "True True [True, True] SessionVar True"


def test_a_finder_that_was_lost_is_put_back_and_uninstall_never_fails() -> None:
    assert (
        run("""
m = bridge.install()
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "Replacement"]
bridge.install()
import gateway.session_context as g
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "Replacement"]
bridge.uninstall(); bridge.uninstall()
print(g is m)
""")
        == "True"
    )


@pytest.mark.parametrize("module", ["", ".relative", "a..b", "hermes_env_bridge.session_context"])
def test_what_is_no_module_to_replace_is_refused_by_name(module: str) -> None:
    output = run(f"""
try: bridge.install(module={module!r})
except bridge.InstallError as error: print(error)
""")
    assert output.startswith(repr(module))


def test_the_own_module_imported_again_is_the_first_one_with_one_latch() -> None:
    assert (
        run("""
import importlib
first = importlib.import_module("hermes_env_bridge.session_context")
del sys.modules["hermes_env_bridge.session_context"]
again = importlib.import_module("hermes_env_bridge.session_context")
first.set_session_vars(session_key="z")
print(again is first, again.get_session_env("HERMES_SESSION_KEY"))
print(again.session_context_engaged(), bridge._core.engaged())
""")
        == "True z\nTrue True"
    )


def test_string_patches_reach_the_module_through_its_package() -> None:
    assert (
        run("""
from unittest import mock
bridge.install()
with mock.patch("gateway.session_context.get_session_env", return_value="patched"):
    from gateway.session_context import get_session_env
    print(get_session_env("X"))
with mock.patch("gateway.session_context._session_context_engaged", True):
    print(bridge._core.engaged())
print(bridge._core.engaged())
""")
        == "patched\nTrue\nFalse"
    )


def test_uninstall_gives_back_hermes_own_module() -> None:
    assert (
        run("""
m = bridge.install()
import gateway.session_context
bridge.uninstall(); bridge.uninstall()
import gateway.session_context as g
import hermes_env_bridge.session_context as own
import contextvars
print(g is m, type(g._SESSION_ID) is contextvars.ContextVar, own is m, own.__name__)
""")
        == "False True False hermes_env_bridge.session_context"
    )


def test_installing_after_an_import_names_who_imported() -> None:
    output = run("""
import types
exec("from gateway.session_context import get_session_env", types.ModuleType("__dict__").__dict__)
late = types.ModuleType("my_plugin"); sys.modules["my_plugin"] = late
exec("from gateway.session_context import get_session_env", late.__dict__)
before = list(sys.meta_path)
try: bridge.install()
except bridge.InstallError as error: print(error)
print(sys.meta_path == before, type(sys.modules["gateway.session_context"]).__name__)
""")
    assert "gateway.session_context has been imported already, by" in output
    assert "my_plugin" in output
    assert "call hermes_env_bridge.install() before" in output
    assert output.endswith("True module")


def test_installing_after_the_packages_own_module_was_imported_is_refused() -> None:
    output = run("""
import hermes_env_bridge.session_context
try: bridge.install()
except bridge.InstallError as error: print(error)
""")
    assert output.startswith("hermes_env_bridge.session_context has been imported already, by")
    assert "__main__" in output or "hermes_env_bridge" in output


@pytest.mark.parametrize("call", ["child_env()", "owned_names()", "snapshot().unknown_names()"])
def test_installing_after_a_call_that_needed_a_session_module_says_so(call: str) -> None:
    output = run(f"""
bridge.{call}
try: bridge.install()
except bridge.InstallError as error: print(error)
""")
    assert "by hermes_env_bridge for child_env(), snapshot() or another call that asked whose session it is" in output


def test_no_hermes_is_an_error_that_says_how_to_go_on() -> None:
    output = run("""
try: bridge.install(module="no_such_agent.session_context")
except bridge.InstallError as error: print(error)
import hermes_env_bridge.session_context as sc
print(sc.__name__)
""")
    assert output.startswith("no module no_such_agent on sys.path")
    assert "use hermes_env_bridge.session_context" in output
    assert output.endswith("hermes_env_bridge.session_context")


def test_hermes_own_file_loaded_by_path_has_its_own_state() -> None:
    assert (
        run("""
import importlib.util
m = bridge.install()
spec = importlib.util.spec_from_file_location("copy", m.__file__)
copy = importlib.util.module_from_spec(spec); spec.loader.exec_module(copy)
m.set_session_vars(session_key="k")
print(copy is m, copy.get_session_env("HERMES_SESSION_KEY", "none"), copy.session_context_engaged())
""")
        == "False none False"
    )


def test_hermes_child_environment_follows_the_drop_in() -> None:
    assert (
        run("""
import os
sc = bridge.install()
os.environ["HERMES_SESSION_KEY"] = "stale"
from tools.environments.local import hermes_subprocess_env
seen = [hermes_subprocess_env().get("HERMES_SESSION_KEY")]
import contextvars
contextvars.Context().run(sc.set_session_vars)
seen.append(hermes_subprocess_env().get("HERMES_SESSION_KEY"))
sc.set_session_vars(session_key="mine")
seen.append(hermes_subprocess_env().get("HERMES_SESSION_KEY"))
print(seen)
""").splitlines()[-1]
        == "['stale', None, 'mine']"
    )


def test_the_plugin_in_a_conftest_installs_or_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import gateway.session_context as g\n"
        "def test_ours():\n    assert type(g._SESSION_ID).__name__ == 'SessionVar'\n"
    )
    for early, outcome in (("", "1 passed"), ("import gateway.session_context\n", "has been imported already")):
        (tmp_path / "conftest.py").write_text(f"{early}pytest_plugins = ['hermes_env_bridge.pytest_plugin']\n")
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert outcome in result.stdout + result.stderr
        assert "Traceback" not in result.stdout + result.stderr


@pytest.mark.parametrize("plugin", [True, False])
def test_a_suite_runs_on_the_drop_in_with_the_plugin_alone(tmp_path: Path, plugin: bool) -> None:
    (tmp_path / "conftest.py").write_text("import gateway.session_context\n")
    (tmp_path / "test_it.py").write_text(
        "from gateway.session_context import _SESSION_ID, set_session_vars, get_session_env\n"
        "def test_ours():\n"
        "    set_session_vars(session_id='x')\n"
        "    assert get_session_env('HERMES_SESSION_ID') == 'x'\n"
        "    assert type(_SESSION_ID).__name__ == 'SessionVar'\n"
    )
    arguments = ["-p", "hermes_env_bridge.pytest_plugin"] if plugin else []
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert ("1 passed" if plugin else "1 failed") in result.stdout, result.stdout + result.stderr
