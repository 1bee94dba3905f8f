"""The guard at the edges of a process: code without Python frames, the end of the interpreter, and no drop-in."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest
from command_processes import MODULE, SCRIPT, run
from conftest import run_python

ENGAGED = """
import contextvars, os, subprocess, sys
import hermes_env_bridge as h
from hermes_env_bridge import session_context as sc
contextvars.Context().run(sc.set_session_vars, session_key="A", session_id="i")
"""


@pytest.mark.parametrize("mode", ["warn", "block"])
@pytest.mark.parametrize("bound", [False, True], ids=["no session", "a session"])
def test_a_spawn_without_a_python_function_below_it_is_judged_as_any_other(mode: str, bound: bool) -> None:
    told = run_python(
        f"""{ENGAGED if bound else "import os, hermes_env_bridge as h"}
import atexit, _thread, time
h.guard({mode!r})
os.set_blocking(1, True)
read, write = os.pipe()
os.set_inheritable(write, True)
command = f"echo thread; echo >&{{write}}"
os.environ.pop("HERMES_SESSION_KEY", None)
_thread.start_new_thread(os.system, (command,))
os.read(read, 1)
atexit.register(os.system, "echo atexit")
atexit.register(subprocess.call if {bound} else os.system, "true")
"""
    )
    assert (told.stdout, told.stderr) == ("thread\natexit\n", "")


def test_a_foreign_spawn_without_a_python_function_below_it_is_told_of_and_refused() -> None:
    told = run_python(
        f"""{ENGAGED}
import atexit
os.environ["HERMES_SESSION_KEY"] = "stale"
h.guard(sys.argv[1])
atexit.register(lambda: print(h.report()))
atexit.register(os.system, "echo ran")
""",
        "block",
    )
    assert "ForeignIdentityError" in told.stderr
    assert "no Python code" in told.stdout
    assert "spawns 1, foreign 1" in told.stdout
    assert "ran\n" not in told.stdout


def test_a_lost_read_without_a_python_function_below_it_is_counted() -> None:
    told = run_python(
        f"""{ENGAGED}
import _thread, atexit
from hermes_env_bridge import _core
h.guard("off", reads="count")
atexit.register(lambda: print([(site.kind, site.site.function) for site in h.report().sites]))
atexit.register(contextvars.Context().run, _core.read, sc._VAR_MAP, "HERMES_SESSION_KEY", sc._UNSET, "")
"""
    )
    assert (told.stdout, told.stderr) == ("[('lost read', '<native code>')]\n", "")


@pytest.mark.parametrize("mode", ["warn", "block"])
def test_a_spawn_while_the_interpreter_is_taken_apart_passes_without_a_word(mode: str) -> None:
    told = run_python(
        f"""{ENGAGED}
class Resource:
    system = staticmethod(os.system)
    def __del__(self): self.system("echo cleaned")
h.guard({mode!r})
sys.resource_ = Resource()
"""
    )
    assert (told.stdout, told.stderr) == ("cleaned\n", "")


def test_a_read_while_the_interpreter_is_taken_apart_says_nothing() -> None:
    told = run_python(
        f"""{ENGAGED}
class Reader:
    read, map, name, unset = staticmethod(h._core.read), sc._VAR_MAP, "HERMES_SESSION_KEY", sc._UNSET
    def __del__(self): self.read(self.map, self.name, self.unset, "d")
h.guard("warn", reads="warn")
sys.resource_ = Reader()
"""
    )
    assert (told.stdout, told.stderr) == ("", "")


@pytest.mark.parametrize("call", ["os.execvp('nowhere-to-be-found', args)", "os.execv('/nonexistent', args)"])
def test_each_exec_that_fails_is_counted_and_a_search_of_path_once(call: str) -> None:
    told = run_python(
        f"""{ENGAGED}
os.environ["PATH"] = "/nonexistent:/nowhere:/bin"
h.guard("warn")
args, counts = ["x"], []
for _ in range(3):
    os.environ["HERMES_SESSION_KEY"] = "stale"
    try: {call}
    except OSError: counts.append((h.report().spawns, h.report().foreign))
print(counts)
"""
    )
    assert told.stdout == "[(1, 1), (2, 2), (3, 3)]\n"


def test_a_foreign_exec_after_a_clean_one_that_failed_is_told_of() -> None:
    told = run_python(
        f"""{ENGAGED}
h.guard("warn")
args = ["x"]
for env in ({{}}, {{"HERMES_SESSION_KEY": "stale"}}):
    try: os.execve("/nonexistent", args, env)
    except OSError: pass
print(h.report().foreign)
"""
    )
    assert told.stdout == "1\n"


@pytest.mark.parametrize("key", ["stale", ""])
def test_none_stands_for_the_process_environment_where_os_environ_was_replaced_before_the_import(key: str) -> None:
    told = run_python(
        f"""
import os
real = os.environ
os.environ = dict(real) | {{"HERMES_SESSION_KEY": "never handed over"}}
{ENGAGED}
real.pop("HERMES_SESSION_KEY", None)
if {key!r}: real["HERMES_SESSION_KEY"] = {key!r}
h.guard("warn")
os.system("true")
subprocess.run(["true"])
print(h.report().spawns, h.report().foreign)
"""
    )
    assert told.stdout == f"2 {2 if key else 0}\n"


def test_without_the_drop_in_the_guard_judges_nothing_and_child_env_says_that_it_knows_no_session() -> None:
    told = run_python(
        """
import contextvars, os, subprocess, sys
import hermes_env_bridge as h
sc = h.install()
h.guard("block")
def turn(key):
    sc.set_session_vars(session_key=key, session_id="i")
    subprocess.run(["true"], env={**os.environ, "HERMES_SESSION_KEY": "mine"}, check=True)
contextvars.Context().run(turn, "mine")
try: contextvars.Context().run(turn, "another's")
except h.ForeignIdentityError: print("refused")
h.uninstall()
print(h.report().engaged)
contextvars.Context().run(turn, "another's")
print(h.report().engaged, h.child_env({"HERMES_SESSION_KEY": "k"}))
contextvars.Context().run(turn, "another's")
print(h.report().engaged, h.report().spawns)
"""
    )
    assert told.stdout.splitlines() == [
        "refused",
        "False",
        "False {'HERMES_SESSION_KEY': 'k'}",
        "False 2",
    ], told.stderr
    refused, warned = told.stderr.splitlines()
    assert refused.startswith("refused a child")
    assert warned.startswith("the drop-in was uninstalled")


def test_the_own_module_that_comes_back_after_an_uninstall_is_judged() -> None:
    told = run_python(
        f"""{ENGAGED}
for name in ("hermes_env_bridge.session_context",): del sys.modules[name]
del h.session_context
h.install(); h.uninstall()
from hermes_env_bridge import session_context as again
h.guard("warn")
contextvars.Context().run(subprocess.run, ["true"], env={{"HERMES_SESSION_KEY": "stale"}})
print(again is sc, h.report().foreign)
"""
    )
    assert told.stdout == "True 1\n", told.stderr


# A word that is no mode.


@pytest.mark.parametrize("words", [["doctor"], ["run", "program.py"], ["env"], ["explain"]])
@pytest.mark.parametrize("start", [MODULE, SCRIPT], ids=["module", "script"])
def test_the_command_line_refuses_a_word_that_is_no_mode_in_a_line(
    start: list[str], words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text("print('ran')")
    status, out, err = run([*start, *words], tmp_path, HERMES_ENV_BRIDGE_GUARD="blok")
    assert (status, out) == (2, "")
    assert err.startswith(f"hermes-env-bridge {words[0]}: HERMES_ENV_BRIDGE_GUARD is no mode of the guard: 'blok'; set")
    assert err.count("\n") == 1


def test_a_child_with_a_word_that_is_no_mode_says_so_and_goes_on_with_hermes_own_module(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(
        "import os, subprocess, sys\n"
        "env = {**os.environ, 'HERMES_ENV_BRIDGE_GUARD': 'blok'}\n"
        "code = 'import gateway.session_context as s; print(type(s._SESSION_ID).__name__)'\n"
        "sys.exit(subprocess.call([sys.executable, '-c', code], env=env))\n"
    )
    status, out, err = run([*SCRIPT, "run", "--children", "parent.py"], tmp_path)
    assert (status, out, err.count("\n")) == (0, "ContextVar\n", 1)
    assert err.startswith("hermes-env-bridge: a child runs without the drop-in: HERMES_ENV_BRIDGE_GUARD is no mode")


def test_a_program_of_another_name_still_ends_with_the_error(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import hermes_env_bridge")
    words = [sys.executable, "program.py", "-m", "hermes_env_bridge"]
    status, _, err = run(words, tmp_path, HERMES_ENV_BRIDGE_GUARD="blok")
    assert status == 1
    assert err.splitlines()[-1].startswith("ValueError: HERMES_ENV_BRIDGE_GUARD is no mode")


def test_a_refusal_is_the_same_in_another_process() -> None:
    import copy
    import pickle

    from hermes_env_bridge import ForeignIdentityError

    refused = ForeignIdentityError("saw it", ("HERMES_SESSION_KEY",))
    refused.add_note("a note")
    for same in (pickle.loads(pickle.dumps(refused)), copy.copy(refused)):
        assert type(same) is ForeignIdentityError
        assert (same.errno, same.strerror, same.names) == (errno.EPERM, "saw it", ("HERMES_SESSION_KEY",))
        assert (str(same), same.__notes__) == (str(refused), ["a note"])
