"""A Python program, found as a shell and ``python`` find it, and run as ``__main__`` in this process."""

from __future__ import annotations

import builtins
import os
import runpy
import sys
import zipimport
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType

# What `python NAME` takes for a file. Everything else is a command, as in a shell.
FILES = (".py", ".pyc", ".pyw", ".pyz", ".zip")

RUNPY_AS_MAIN = "_run_module_as_main"

# Loaded from files before any program starts, or ours.
KEPT = ("__main__", "encodings", "sitecustomize", "usercustomize", "hermes_env_bridge")


class ProgramError(RuntimeError):
    """There is no such program, or it cannot run in this process. The message says why and what to do."""


@dataclass(frozen=True)
class Program:
    """What is to run: a module by its name, or else a file or a folder (or archive) with a ``__main__`` by its path."""

    name: str
    arguments: list[str]
    is_module: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether the path is one from which a ``__main__`` can be imported."""
        return not self.is_module and (os.path.isdir(self.name) or _is_archive(self.name))

    def set_up(self) -> None:
        """Make ``sys.argv`` and the first entry of ``sys.path`` what the program would find without us."""
        sys.argv = ["-m" if self.is_module else self.name, *self.arguments]
        if self.is_folder:
            # Python adds this one even with -P, which keeps it from adding one for ourselves.
            sys.path[: 0 if sys.flags.safe_path else 1] = [_absolute(self.name)]
        elif not sys.flags.safe_path:
            sys.path[0] = os.getcwd() if self.is_module else os.path.dirname(os.path.realpath(self.name))

    def make_way(self) -> None:
        """Forget what we have imported of the standard library where the program's own folder has the same name.

        Modules that are part of the interpreter were there before us, and would be without us.
        """
        folder = sys.path[0] if sys.path and not sys.flags.safe_path else ""
        if not os.path.isdir(folder):
            return
        for name, module in list(sys.modules.items()):
            loader = getattr(getattr(module, "__spec__", None), "loader", None)
            if "." in name or name in KEPT or not isinstance(loader, SourceFileLoader):
                continue
            own = os.path.join(folder, name)
            if os.path.isfile(own + ".py") or os.path.isfile(os.path.join(own, "__init__.py")):
                for loaded in [each for each in sys.modules if each == name or each.startswith(name + ".")]:
                    del sys.modules[loaded]

    def execute(self) -> None:
        """Run the program as ``__main__`` to its end. Raises whatever it raises, shown without our part of the way."""
        main = _new_main()
        try:
            if self.is_module or self.is_folder:
                # What `python` itself calls for these, so even the traceback is the same.
                getattr(runpy, RUNPY_AS_MAIN)(self.name if self.is_module else "__main__", self.is_module)
            else:
                exec(_code_of(_absolute(self.name), main), main.__dict__)
        except SystemExit:
            raise
        except BaseException as error:
            _show_from(error, _below_us(error.__traceback__))
            raise


def find_program(words: list[str]) -> Program:
    """The program that *words* name, with the rest of them as its arguments. Raises :class:`ProgramError`."""
    name, *arguments = words
    if name == "-m":
        if not arguments:
            raise ProgramError("-m needs the name of a module")
        return Program(arguments[0], arguments[1:], is_module=True)
    if name.endswith(FILES):
        if not os.path.exists(name):
            raise ProgramError(f"there is no file {name}")
        return Program(name, arguments)
    path = name if os.sep in name else _command(name)
    _refuse_if_not_ours(path)
    return Program(path, arguments)


def on_path(name: str) -> str | None:
    """The file that a shell runs for the command *name*, or None."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _command(name: str) -> str:
    """The file of the command *name*, from PATH, else from beside the interpreter, which need not be on it."""
    path = on_path(name)
    if path is None:
        path = os.path.join(os.path.dirname(sys.executable), name)
        if not os.path.isfile(path):
            here = f"; for the one in this folder say {os.path.join('.', name)}" if os.path.exists(name) else ""
            raise ProgramError(f"there is no command {name} on PATH, nor beside {sys.executable}{here}")
    return path


def _refuse_if_not_ours(path: str) -> None:
    """Raises :class:`ProgramError` if what is at *path* is no Python program, or one of another environment."""
    if os.path.isdir(path):
        return
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise ProgramError(f"{path} cannot be read: {error.strerror}") from error
    if not head.startswith(b"#!"):
        if b"\0" in head and not _is_archive(path):
            raise ProgramError(f"{path} is no Python program, so nothing can be installed in it; run it as it is")
        return
    interpreter, any_python = _interpreter(head.decode(errors="replace"), path)
    base = os.path.basename(interpreter)
    if not base.startswith(("python", "pypy")):
        raise ProgramError(f"{path} is a script for {base}, not for Python; run it as it is")
    if any_python and base in ("python", "python3", f"python3.{sys.version_info.minor}"):
        return
    if _environment(interpreter) != _environment(sys.executable):
        raise ProgramError(
            f"{path} runs on {interpreter}, which is not this environment's ({sys.executable}); "
            "install hermes-env-bridge there and use that one's"
        )


def _interpreter(head: str, path: str) -> tuple[str, bool]:
    """The interpreter that a script's first lines name, and whether ``env`` looks for it."""
    first, second, *_ = [*head.splitlines()[:2], "", ""]
    words = first[2:].split() or [""]
    if second.startswith("'''exec' "):
        # What pip and uv write for a path that is too long or has a space: a shell script that is Python as well.
        if "$(dirname" in second:
            return os.path.join(os.path.dirname(os.path.realpath(path)), "python"), False
        import shlex

        words = shlex.split(second.removeprefix("'''exec' "))
    if os.path.basename(words[0]) == "env":
        named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return (named or [""])[0], True
    return words[0], False


def _environment(interpreter: str) -> str:
    """The folder of the virtual environment that *interpreter* is of, else the interpreter itself."""
    folder = os.path.dirname(interpreter)
    for root in (folder, os.path.dirname(folder)):
        if os.path.isfile(os.path.join(root, "pyvenv.cfg")):
            return os.path.realpath(root)
    return os.path.realpath(interpreter)


def _is_archive(path: str) -> bool:
    try:
        zipimport.zipimporter(path)
    except ImportError:
        return False
    return True


def _absolute(path: str) -> str:
    """*path*, made absolute and not otherwise changed, as ``python`` makes it."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _new_main() -> ModuleType:
    """A module like the one in which ``python`` runs a program, in the place of the one in which we run."""
    ours = vars(sys.modules["__main__"])
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    # Which of these there are depends on the version of Python.
    main.__dict__.update(
        {name: empty for name, empty in (("__annotations__", {}), ("__cached__", None)) if name in ours}
    )
    sys.modules["__main__"] = main
    return main


def _code_of(path: str, main: ModuleType) -> CodeType:
    """The code of the file at *path*, which *main* is to know as its own."""
    main.__file__ = path
    if path.endswith(".pyc"):
        main.__loader__ = loader = SourcelessFileLoader("__main__", path)
        code = loader.get_code("__main__")
        assert code is not None  # None is what a module without code has, and this one has a file.
        return code
    main.__loader__ = SourceFileLoader("__main__", path)
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _below_us(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_globals is globals():
        traceback = traceback.tb_next
    return traceback


def _show_from(error: BaseException, traceback: TracebackType | None) -> None:
    """Let the interpreter, which is about to show *error*, show it with *traceback*.

    All else (the exit status, a death by SIGINT, the hook that the program may have set) stays the interpreter's.
    """
    hook = sys.excepthook

    def show(kind: type[BaseException], value: BaseException, whole: TracebackType | None) -> None:
        sys.excepthook = hook
        if value is error:
            value.__traceback__ = sys.last_traceback = whole = traceback
        hook(kind, value, whole)

    sys.excepthook = show
