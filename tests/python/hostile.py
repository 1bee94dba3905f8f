"""Forks of a small session module, written by hand, whose verbs do otherwise than Hermes' own.

Each is the standard module with some of its parts replaced; ``native`` says what of it has a known form all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import os
from contextvars import ContextVar, copy_context

_UNSET = object()
_session_context_engaged = False
"""
VARIABLES = """
A = ContextVar("HERMES_SESSION_PLATFORM", default=_UNSET)
B = ContextVar("HERMES_SESSION_CHAT_ID", default=_UNSET)
C = ContextVar("HERMES_SESSION_KEY", default=_UNSET)
FLAG = ContextVar("HERMES_SESSION_ASYNC_DELIVERY", default=_UNSET)
"""
MAP = """
_VAR_MAP = {"HERMES_SESSION_PLATFORM": A, "HERMES_SESSION_CHAT_ID": B, "HERMES_SESSION_KEY": C}
LOG = []
"""
BIND = """
def set_session_vars(a="", b="", c="", async_delivery=True):
    global _session_context_engaged
    _session_context_engaged = True
    tokens = [A.set(a), B.set(b), C.set(c), FLAG.set(bool(async_delivery))]
    return tokens
"""
CLEAR = """
def clear_session_vars(tokens):
    for var in (A, B, C):
        var.set("")
    FLAG.set(_UNSET)
"""
RESET = """
def reset_session_vars():
    for var in _VAR_MAP.values():
        var.set(_UNSET)
    FLAG.set(_UNSET)
"""
READ = """
def get_session_env(name, default=""):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value is not _UNSET:
            return value
    return os.getenv(name, default)
"""
# The verb that each part holds, and the native call in the standard one.
VERBS = {
    "bind": ("set_session_vars", "bind"),
    "clear": ("clear_session_vars", "fill"),
    "reset": ("reset_session_vars", "fill"),
    "read": ("get_session_env", "read"),
}
STANDARD = {"variables": VARIABLES, "names": MAP, "bind": BIND, "clear": CLEAR, "reset": RESET, "read": READ}


@dataclass(frozen=True)
class Fork:
    """A fork: what it does otherwise, its source, and the native calls that its functions make."""

    title: str
    source: str
    native: dict[str, tuple[str, ...]]


def fork(title: str, native: str = "", also: dict[str, tuple[str, ...]] | None = None, **parts: str) -> Fork:
    """The standard module with these parts; of the verbs in them, those in *native* have a known form nevertheless."""
    left = [verb for verb in VERBS if verb not in parts or verb in native.split()]
    made = {VERBS[verb][0]: (VERBS[verb][1],) for verb in left}
    return Fork(title, HEAD + "".join((STANDARD | parts).values()), made | (also or {}))


BINDS = [
    fork("the standard module"),
    fork(
        "a bind that strips",
        bind="""
def set_session_vars(a="", b="", c=""):
    tokens = [A.set(a.strip()), B.set(b.strip()), C.set(c)]
    return tokens
""",
    ),
    fork(
        "a bind that stringifies",
        bind="""
def set_session_vars(a="", b="", c=""):
    tokens = [var.set(str(value)) for var, value in zip((A, B, C), (a, b, c))]
    tokens.append(FLAG.set(bool(a)))
    return tokens
""",
    ),
    fork(
        "a bind that audits before each set",
        bind="""
def set_session_vars(a="", b="", c=""):
    tokens = []
    for var, value in ((A, a), (B, b), (C, c)):
        LOG.append((var.name, value, A.get(), B.get()))
        tokens.append(var.set(value))
    return tokens
""",
    ),
    fork(
        "a bind that raises on empty, half way",
        bind="""
def _checked(value):
    if not value:
        raise ValueError("empty")
    return value
def set_session_vars(a="", b="", c=""):
    tokens = [A.set(_checked(a)), B.set(_checked(b)), C.set(_checked(c))]
    return tokens
""",
    ),
    fork(
        "a bind that turns None into the empty text",
        bind="""
def set_session_vars(a="", b="", c=""):
    tokens = [A.set(a or ""), B.set("" if b is None else b), C.set(c)]
    return tokens
""",
    ),
    fork(
        "a bind that turns None into the empty text first",
        bind="""
def set_session_vars(a="", b="", c=""):
    a, b = ("" if value is None else value for value in (a, b))
    tokens = [A.set(a), B.set(b), C.set(c)]
    return tokens
""",
    ),
    fork(
        "a bind that skips what is not given",
        bind="""
def set_session_vars(**given):
    known = {"a": A, "b": B, "c": C}
    return [known[key].set(value) for key, value in given.items() if key in known]
""",
    ),
    fork(
        "a keyword that fills two variables, and one variable filled twice",
        native="bind",
        bind="""
def set_session_vars(a="", b="", c=""):
    tokens = [A.set(a), B.set(a), C.set(c), A.set(b), A.set(c)]
    return tokens
""",
    ),
    fork(
        "a bind that pairs with a list of values",
        native="bind",
        bind="""
def set_session_vars(a="", b="", c="", async_delivery=True):
    values = [a, b, c]
    tokens = [var.set(value) for var, value in zip((A, B, C), values)]
    tokens.append(FLAG.set(bool(async_delivery)))
    return tokens
""",
    ),
    fork(
        "a bind that nests",
        bind="""
_STACK = ContextVar("STACK", default=())
def set_session_vars(a="", b="", c=""):
    _STACK.set((*_STACK.get(), (A.get(), B.get(), C.get())))
    return [var.set(value) for var, value in zip((A, B, C), (a, b, c))]
""",
        clear="""
def clear_session_vars(tokens):
    stack = _STACK.get()
    for var, value in zip((A, B, C), stack[-1] if stack else ("", "", "")):
        var.set(value)
    _STACK.set(stack[:-1])
""",
    ),
    fork(
        "a bind that takes itself back if a value has no truth",
        native="bind",
        bind="""
def set_session_vars(a="", b="", c="", async_delivery=True):
    before = A.get()
    try:
        tokens = [A.set(a), B.set(b), FLAG.set(bool(async_delivery))]
    except ValueError:
        LOG.append((A.get() is a, B.get() is b))
        A.set(before)
        raise
    return tokens
""",
    ),
    fork(
        "a bind that reads what it has just set",
        bind="""
def set_session_vars(a="", b="", c=""):
    tokens = [A.set(a), B.set(A.get()), C.set(get_session_env("HERMES_SESSION_CHAT_ID"))]
    return tokens
""",
    ),
    fork(
        "a bind under a lock, in a context manager",
        native="bind",
        bind="""
import contextlib, threading
_LOCK = threading.RLock()
@contextlib.contextmanager
def set_session_vars(a="", b="", c=""):
    with _LOCK:
        tokens = [A.set(a), B.set(b), C.set(c)]
    try:
        yield tokens
    finally:
        for token in tokens:
            token.var.reset(token)
""",
    ),
    fork(
        "a latch with a counter, and one that a list holds",
        native="bind",
        bind="""
BINDS = 0
_latched = [False]
def set_session_vars(a="", b="", c=""):
    global BINDS, _session_context_engaged
    BINDS += 1
    _latched[0] = _session_context_engaged = BINDS > 2
    tokens = [A.set(a), B.set(b)]
    return tokens
def engaged():
    return BINDS, _latched, _session_context_engaged
""",
    ),
]
