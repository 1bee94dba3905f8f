"""``run`` beside plain ``python``, in real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_processes import (
    BIN,
    MODULE,
    SCRIPT,
    SOURCES,
    alike,
    bare_environment,
    executable,
    hopeless,
    refused,
    run,
    start,
)

import hermes_env_bridge

WHOSE = "import gateway.session_context as s; print(type(s._SESSION_ID).__name__, flush=True)\n"

# A program each, that behaves the same with and without the drop-in.
PROGRAMS = {
    "ends": "print('done')",
    "what it finds": "'''Doc.'''\nimport sys\n"
    "print(sys.argv, sys.path, sorted(globals()), __name__, __doc__, __package__, __builtins__)\n"
    "print(__file__, __cached__, __spec__ and (__spec__.name, __spec__.origin), type(__loader__), __loader__.path)\n"
    "print(sys.modules['__main__'].__dict__ is globals(), globals().get('__annotations__'))",
    "reads stdin": "import sys\nprint(input(), sys.stdin.read())",
    "exit status": "import sys\nsys.exit(3)",
    "exit status of more than a byte": "raise SystemExit(259)",
    "exit without a status": "import sys\nsys.exit()",
    "exit with a text": "import sys\nsys.exit('gone wrong')",
    "exit at once": "import os, atexit\natexit.register(print, 'never')\nos._exit(7)",
    "raises": "def f():\n    raise ValueError('no')\nf()",
    "raises while it handles": "try:\n    {}[1]\nexcept KeyError as e:\n    raise OSError('no') from e",
    "raises a group": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "is no Python": "x = = 1",
    "is in Latin-1": "# coding: latin-1\nprint('é')",
    "is interrupted": "raise KeyboardInterrupt",
    "interrupts itself": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
    "terminates itself": "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)",
    "has a hook of its own": "import sys\n"
    "sys.excepthook = lambda *a: print(a[0], a[2].tb_lineno, a[2] is a[1].__traceback__)\n1/0",
    "looks at the hook after it failed": "import atexit, sys\n"
    "atexit.register(lambda: print(sys.excepthook is sys.__excepthook__, sys.last_traceback.tb_lineno))\n1/0",
    "ends after its threads": "import atexit, threading, time\natexit.register(print, 'atexit')\n"
    "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')",
    "fails in a thread": "import threading\nt = threading.Thread(target=lambda: 1/0, name='t')\nt.start(); t.join()",
    "warns": "import warnings\nwarnings.warn('look')",
    "shows its source": "import inspect\ndef f(): pass\nprint(inspect.getsource(f))",
    "pickles": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
    "spawns": "import multiprocessing as m\ndef f(): print('child', __name__, flush=True)\n"
    "if __name__ == '__main__':\n    p = m.get_context('spawn').Process(target=f)\n    p.start(); p.join()",
}


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment in which nothing is installed."""
    return bare_environment(tmp_path_factory.mktemp("bare"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_behaves_as_without_the_drop_in(name: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_bytes(PROGRAMS[name].encode("latin-1"))
    status, out, err = alike(["program.py", "-m", "--children", "--", "é"], tmp_path, "first\nsecond")
    assert (status, out, err) != (0, "", "") or name == "exit without a status"
    if name == "raises":
        assert err.splitlines()[1] == f'  File "{tmp_path}/program.py", line 3, in <module>'


def test_a_module_a_package_a_folder_an_archive_and_bytecode_behave_as_without(tmp_path: Path) -> None:
    shows = PROGRAMS["what it finds"].replace(", __loader__.path", "") + "\nimport other; print(other)\n"
    for folder in (tmp_path / "package" / "inner", tmp_path / "folder"):
        folder.mkdir(parents=True)
        (folder / "__main__.py").write_text(shows)
        (folder / "other.py").touch()
    (tmp_path / "package" / "__init__.py").write_text("import sys; print(sys.argv)")
    (tmp_path / "package" / "raises.py").write_text("from . import nothing")
    (tmp_path / "other.py").touch()
    shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path / "folder")
    code = "import py_compile; py_compile.compile('other.py', 'compiled.pyc')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    for words in (["-m", "package.inner", "-x"], ["./folder", "a"], ["archive.zip"], ["compiled.pyc"]):
        assert alike(words, tmp_path)[0] == 0, words
    (tmp_path / "link.py").symlink_to("folder/__main__.py")
    assert alike(["./link.py"], tmp_path, PYTHONSAFEPATH="1")[0] == 1
    assert alike(["folder/../link.py"], tmp_path)[0] == 0
    assert "No module named package.__main__" in alike(["-m", "package"], tmp_path)[2]
    assert "No module named nowhere" in alike(["-m", "nowhere"], tmp_path)[2]
    assert "cannot import name" in alike(["-m", "package.raises"], tmp_path)[2]
    assert "can't find '__main__'" in alike(["./package"], tmp_path)[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("handled", [True, False])
def test_a_signal_does_what_it_does_without(number: signal.Signals, handled: bool, tmp_path: Path) -> None:
    handler = f"signal.signal({int(number)}, lambda *a: sys.exit(9))\n" if handled else ""
    program = f"import signal, sys, time\n{handler}print('ready', flush=True)\ntime.sleep(20)\n"
    (tmp_path / "program.py").write_text(program)
    results = []
    for words in ([], [*MODULE[1:], "run"]):
        process = start([sys.executable, *words, "program.py"], tmp_path, {})
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)  # so that it is asleep, and not just back from printing
        process.send_signal(number)
        results.append((*process.communicate(timeout=10), process.returncode))
    assert results[0] == results[1]
    assert results[0][2] == (9 if handled else -number)


def test_the_drop_in_is_there_before_anything_of_hermes(tmp_path: Path) -> None:
    program = "import sys; print([m for m in ('gateway', 'argparse') if m in sys.modules])\n" + WHOSE
    (tmp_path / "program.py").write_text(program)
    for words in (["program.py"], ["-m", "program"], ["--", "program.py"], ["--", "-m", "program"]):
        assert run([*SCRIPT, "run", *words], tmp_path) == (0, "[]\nSessionVar\n", "")


def test_hermes_itself_runs_as_without(tmp_path: Path) -> None:
    env = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HERMES_HOME": str(tmp_path / "home")}
    plain = run(["hermes", "--version"], tmp_path, **env)
    assert plain[0] == 0
    assert "0.19.0" in plain[1]
    assert run([*SCRIPT, "run", "hermes", "--version"], tmp_path, **env) == plain
    assert alike(["-m", "hermes_cli.main", "--version"], tmp_path, **env) == plain
    wrong = run(["hermes", "no-such-command"], tmp_path, **env)
    assert wrong[0] == 2
    assert run([*SCRIPT, "run", "hermes", "no-such-command"], tmp_path, **env) == wrong


@pytest.mark.parametrize(
    "head",
    [
        # The kernel ends an interpreter's path at a space; there pip writes the last form.
        *([] if " " in sys.executable else [f"#!{sys.executable}"]),
        "#!/usr/bin/env python3",
        "#!/usr/bin/env -S FLAG=1 python3 -u",
        f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''",
    ],
)
def test_a_command_runs_as_the_shell_runs_it(head: str, tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "tool", f"{head}\nimport sys\nprint(sys.argv, sys.path, __file__)\n")
    env = {"PATH": f"{tmp_path}/bin{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"}
    plain = run(["tool", "-x"], tmp_path, **env)
    assert plain[0] == 0
    assert run([*SCRIPT, "run", "tool", "-x"], tmp_path, **env) == plain
    assert run([*SCRIPT, "run", "bin/tool", "-x"], tmp_path, **env) == run(["bin/tool", "-x"], tmp_path, **env)


def test_a_command_that_is_not_on_path_is_found_beside_the_interpreter(tmp_path: Path) -> None:
    status, out, _ = run([*MODULE, "run", "hermes-env-bridge", "--version"], tmp_path, PATH="/nowhere")
    assert (status, out) == (0, f"hermes-env-bridge {hermes_env_bridge.__version__}\n")


def test_what_cannot_run_is_refused_in_a_line(tmp_path: Path, bare: Path) -> None:
    env = {"PATH": f"{tmp_path}{os.pathsep}{bare.parent}{os.pathsep}{os.environ['PATH']}"}
    executable(tmp_path / "script", "#!/bin/sh\necho no\n")
    executable(bare.parent / "elsewhere", f"#!{bare}\nprint()\n")
    relocatable = "'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''"
    executable(bare.parent / "movable", f"#!/bin/sh\n{relocatable}\nprint()\n")
    (tmp_path / "here").touch()
    said = {
        "script": "is a script for sh, not for Python",
        "elsewhere": f"runs on {bare}, which is not this environment's",
        "movable": f"runs on {bare}, which is not this environment's",
        "true": "is no Python program",
        "nothing": "there is no command nothing on PATH",
        "here": "for the one in this folder say ./here",
        "./nothing": "cannot be read: No such file",
        "nothing.py": "there is no file nothing.py",
        "-m": "-m needs the name of a module",
        "-c": "unrecognized arguments: -c; see hermes-env-bridge run --help",
        "--children": "name a program to run",
    }
    for word, why in said.items():
        assert why in refused(["run", word], tmp_path, **env), word


def test_a_hermes_that_cannot_be_replaced_keeps_the_program_from_starting(tmp_path: Path) -> None:
    hopeless(tmp_path)
    (tmp_path / "program.py").write_text("print('started')")
    for words in (["run", "program.py"], ["explain"]):
        assert f"{tmp_path}/gateway/session_context.py) has no _VAR_MAP" in refused(words, tmp_path)
    for words in (["run", "--debug", "program.py"], ["explain", "--debug"], ["doctor", "--debug"]):
        status, out, err = run([*MODULE, *words], tmp_path)
        assert (status, out) == (2, "")
        assert err.startswith("Traceback")


FAMILY = """
import subprocess, sys
kin = int(sys.argv[1])
print(kin, "sitecustomize" in sys.modules, [p for p in sys.path if "bridge/commands" in p])
import gateway.session_context as s
print(type(s._SESSION_ID).__name__, flush=True)
if kin:
    sys.exit(subprocess.run([sys.executable, "family.py", str(kin - 1)]).returncode)
"""


def test_children_and_their_children_have_the_drop_in_if_asked_for(tmp_path: Path) -> None:
    (tmp_path / "family.py").write_text(FAMILY)
    for asked in ([], ["--children"]):
        status, out, err = run([*SCRIPT, "run", *asked, "family.py", "2"], tmp_path)
        kind = "SessionVar" if asked else "ContextVar"
        expected = f"2 False []\nSessionVar\n1 False []\n{kind}\n0 False []\n{kind}\n"
        assert (status, out, err) == (0, expected, "")


def child(folder: Path, code: str, python: Path | str = sys.executable, **env: str) -> tuple[int, str, str]:
    """What a child with *code* does, of a program that runs with ``--children``."""
    (folder / "child.py").write_text(code)
    (folder / "parent.py").write_text("import subprocess, sys\nsys.exit(subprocess.call(sys.argv[1:]))")
    return run([*MODULE, "run", "--children", "parent.py", str(python), "child.py"], folder, **env)


def test_a_sitecustomize_that_is_there_runs_as_before(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys; sys.stderr.write('theirs\\n')")
    code = f"import sitecustomize; print(sitecustomize.__file__)\n{WHOSE}"
    status, out, err = child(tmp_path, code, PYTHONPATH=str(tmp_path / "site"))
    assert (status, out) == (0, f"{tmp_path}/site/sitecustomize.py\nSessionVar\n")
    assert err == "theirs\n" * 2  # the program's own, and the child's


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("import hermes_env_bridge as h; print(h.install().__name__)\n" + WHOSE, "gateway.session_context\nSessionVar"),
        ("import hermes_env_bridge as h; h.install(); h.uninstall()\n" + WHOSE, "ContextVar"),
        ("import hermes_env_bridge.session_context as s; print(s.__name__)\n" + WHOSE, "gateway.session_context\nSess"),
        ("import importlib.util as u; print(u.find_spec('gateway.session_context').name)\n" + WHOSE, "gateway.session"),
        (f"import subprocess; subprocess.call({[*MODULE, 'run', '--children', 'x.py']})", "SessionVar"),
        ("import sys; print('hermes_env_bridge' in sys.modules)", "False"),
    ],
)
def test_a_child_may_use_the_bridge_in_its_own_way(code: str, printed: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(f"import os, sys; assert os.environ['PYTHONPATH'].count('children') == 1\n{WHOSE}")
    status, out, err = child(tmp_path, code)
    assert (status, err) == (0, "")
    assert out.startswith(printed)


def test_a_child_that_cannot_have_the_drop_in_goes_on_without(tmp_path: Path, bare: Path) -> None:
    (tmp_path / "kin").mkdir()
    hopeless(tmp_path / "kin")
    code = "import sys; sys.path.insert(0, 'kin')\nimport gateway.session_context as s; print(s.nothing)"
    assert child(tmp_path, code, bare) == (0, "1\n", "")  # the package is not there: nothing to tell
    status, out, err = child(tmp_path, code)
    assert (status, out, err.count("\n")) == (0, "1\n", 1)
    assert err.startswith("hermes-env-bridge: a child runs without the drop-in: gateway.session_context (")
    no_hermes = "import hermes_env_bridge.session_context as s; print(s.__name__)"
    assert child(tmp_path, no_hermes, bare, PYTHONPATH=str(SOURCES)) == (0, "hermes_env_bridge.session_context\n", "")


@pytest.mark.parametrize("name", ["token", "copy", "json", "ast"])
def test_a_programs_own_module_comes_before_the_standard_library_that_we_have_imported(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / f"{name}.py").write_text("OWN = True\n")
    (tmp_path / "program.py").write_text(f"import {name}\nprint({name}.OWN)\n")
    assert run([*SCRIPT, "run", "program.py"], tmp_path) == (0, "True\n", "")
