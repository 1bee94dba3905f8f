"""Forks that were adapted wrongly once: their form is nearly a known one."""

from __future__ import annotations

from hostile import HEAD, READ, STANDARD, Fork, fork

MENDED = [
    fork(
        "a bind whose values are read one by one",
        bind="""
def set_session_vars(async_delivery=True):
    values = (var.get() for var in (C, A, B))
    tokens = [var.set(value) for var, value in zip((A, B, C), values)]
    tokens.append(FLAG.set(bool(async_delivery)))
    return tokens
""",
    ),
    fork(
        "a read that puts the value where the default was",
        read="""
def get_session_env(name, default=""):
    var = _VAR_MAP.get(name)
    if var is not None:
        default = var.get()
        if default is not _UNSET:
            return default
    return os.getenv(name, default)
""",
    ),
    fork(
        "a read that puts the variable where the name was",
        read="""
def get_session_env(name, default=""):
    name = _VAR_MAP.get(name)
    if name is not None:
        value = name.get()
        if value is not _UNSET:
            return value
    return os.getenv(name, default)
""",
    ),
    fork(
        "a clear that leaves its last variable behind as a global",
        clear="""
var = None
def clear_session_vars(tokens):
    global var
    for var in (A, B, C):
        var.set("")
def last():
    return var
""",
    ),
    fork(
        "a clear that sets each variable to itself",
        clear="""
def clear_session_vars(tokens):
    for var in (A, B, C):
        var.set(var)
""",
    ),
    fork(
        "a clear whose flag becomes the last variable",
        clear="""
def clear_session_vars(tokens):
    for var in (A, B, C):
        var.set("")
    FLAG.set(var)
""",
    ),
    fork(
        "a clear over variables that are made one by one",
        clear="""
def _variables():
    for var in (A, B, C):
        LOG.append(A.get())
        yield var
def clear_session_vars(tokens):
    variables = _variables()
    for var in variables:
        var.set("")
""",
    ),
    fork(
        "a clear that says what its locals are",
        clear="""
def clear_session_vars(tokens):
    for var in (A, B, C):
        var.set("")
    return sorted(locals())
""",
    ),
    fork(
        "a clear in the body of a class",
        clear="""
def clear_session_vars(tokens):
    class Done:
        for var in (A, B, C):
            var.set("")
    return Done.var
""",
    ),
    fork(
        "a builtin hidden by an exception's name",
        bind="""
def set_session_vars(a="", b="", c=""):
    try:
        raise ValueError(a)
    except ValueError as bool:
        try:
            tokens = [A.set(a), FLAG.set(bool(c))]
        except TypeError as error:
            return str(error)
    return tokens
""",
    ),
    Fork(
        "a module that looks itself up where it will be",
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        + HEAD
        + "".join(STANDARD.values())
        + "\n@dataclass\nclass Session:\n    platform: str = ''\n",
        fork("").native,
    ),
    fork(
        "a read whose module has forgotten to import os",
        read=READ.replace("os.getenv", "os.getenv") + "\ndel os\n",
    ),
    fork(
        "a read with a default that is not there",
        read=READ.replace("(name, default)\n", "(name, NO_SUCH_NAME)\n"),
    ),
    fork(
        "a clear to a new tuple for each",
        clear="""
def clear_session_vars(tokens):
    for var in (A, B, C):
        var.set((tokens,))
def same():
    return A.get() is B.get()
""",
    ),
    fork(
        "a clear with a name that is not there, after the loop",
        native="clear",
        clear="""
def clear_session_vars(tokens):
    for var in (A, B, C):
        var.set("")
    NO_SUCH_NAME.set(_UNSET)
""",
    ),
    fork(
        "a bind with a value that is not there",
        bind="""
def set_session_vars(a="", b="", c=""):
    tokens = [A.set(a), B.set(NO_SUCH_NAME), C.set(c)]
    return tokens
""",
    ),
    fork(
        "a value that a set of another variable changes",
        variables="""
SERIAL = 0
class Counted:
    def __init__(self, name, default):
        self.name, self.inner = name, ContextVar(name, default=default)
    def get(self, *default):
        return self.inner.get(*default)
    def set(self, value):
        global SERIAL
        SERIAL += 1
        return self.inner.set(value)
A = Counted("HERMES_SESSION_PLATFORM", _UNSET)
B = ContextVar("HERMES_SESSION_CHAT_ID", default=_UNSET)
C = ContextVar("HERMES_SESSION_KEY", default=_UNSET)
FLAG = ContextVar("FLAG", default=_UNSET)
""",
        bind="""
def set_session_vars(a="", b="", c=""):
    tokens = [A.set(a), B.set(SERIAL)]
    return tokens
""",
    ),
    fork(
        "a verb that is defined again",
        read=READ
        + "_first = get_session_env\ndef get_session_env(name, default=''):\n    return str(_first(name, default))\n",
    ),
    fork(
        "a list of its own globals",
        read=READ
        + "__all__ = [name for name in globals() if not name.startswith('__')]\ndef names():\n    return __all__\n",
        native="read",
    ),
    fork(
        "a map of what looks like a variable, a real one among it",
        variables="""
import contextvars as _plain
REAL = _plain.__dict__["Context"]  # some other name of the module
A = ContextVar("HERMES_SESSION_PLATFORM", default=_UNSET)
B = ContextVar("HERMES_SESSION_CHAT_ID", default=_UNSET)
C = ContextVar("HERMES_SESSION_KEY", default=_UNSET)
FLAG = ContextVar("FLAG", default=_UNSET)
FOUND = sorted(name for name, value in globals().items() if isinstance(value, ContextVar))
""",
        read=READ + "\ndef found():\n    return FOUND\n",
        native="read",
    ),
]
