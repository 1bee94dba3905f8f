"""Forks whose clear, reset and read do otherwise than Hermes' own, and those whose every verb is of another kind."""

from __future__ import annotations

from hostile import BIND, BINDS, CLEAR, READ, RESET, VARIABLES, fork
from hostile_mended import MENDED

FORKS = [
    *BINDS,
    *MENDED,
    fork(
        "a clear that restores by tokens",
        clear="""
def clear_session_vars(tokens):
    for token in reversed(tokens):
        token.var.reset(token)
""",
    ),
    fork(
        "a clear that removes the environment too",
        clear="""
def clear_session_vars(tokens):
    for name, var in _VAR_MAP.items():
        os.environ.pop(name, None)
        var.set("")
""",
    ),
    fork(
        "a clear to None that says how many",
        clear="""
def clear_session_vars(tokens):
    for count, var in enumerate((A, B, C), 1):
        var.set(None)
    return count
""",
    ),
    fork(
        "a reset that skips",
        reset="""
def reset_session_vars():
    for name, var in _VAR_MAP.items():
        if not name.endswith("_KEY"):
            var.set(_UNSET)
""",
    ),
    fork(
        "a read without the environment",
        read="""
def get_session_env(name, default=""):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value is not _UNSET:
            return value
    return default
""",
    ),
    fork(
        "a read that tests the truth",
        read="""
def get_session_env(name, default=""):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value:
            return value
    return os.getenv(name, default)
""",
    ),
    fork(
        "a read that compares instead of asking for identity",
        read="""
def get_session_env(name, default=""):
    var = _VAR_MAP.get(name)
    if var is not None:
        value = var.get()
        if value != _UNSET:
            return value
    return os.getenv(name, default)
""",
    ),
    fork(
        "a read that asks the environment first",
        read="""
def get_session_env(name, default=""):
    return os.environ.get(name) or _VAR_MAP.get(name, FLAG).get(default)
""",
    ),
    fork(
        "a read that logs and counts",
        read="""
def get_session_env(name, default=""):
    var = _VAR_MAP.get(name)
    LOG.append(name) if len(LOG) < 9 else None
    if var is not None:
        value = var.get()
        if value is not _UNSET:
            return value.strip() if isinstance(value, str) else value
    return os.getenv(name, default)
""",
    ),
    fork(
        "verbs in a wrapper",
        native="bind clear reset read",
        bind="""
import functools
def audited(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        LOG.append((function.__name__, A.get())) if len(LOG) < 20 else None
        return function(*args, **kwargs)
    return inner
"""
        + "".join("@audited" + part for part in (BIND, CLEAR, RESET)),
        clear="",
        reset="",
        read="@functools.lru_cache(maxsize=1)" + READ.replace("default):", "default):\n    LOG.append(name)"),
    ),
    fork("asynchronous verbs", bind=BIND.replace("def", "async def"), clear=CLEAR.replace("def", "async def")),
    fork(
        "a bind that exec generates, as dataclasses does",
        bind="""
_fields = {"a": A, "b": B, "c": C}
exec(
    "def set_session_vars(" + ", ".join(f"{name}=_UNSET" for name in _fields) + "):\\n"
    "    tokens = [" + ", ".join(f"_fields[{name!r}].set({name})" for name in _fields) + "]\\n"
    "    return tokens\\n"
)
""",
    ),
    fork(
        "verbs that are methods of an object",
        bind="class Session:\n    log = LOG"
        + "".join(part.replace("(", "(self, ", 1) for part in (BIND, CLEAR, READ)).replace("\n", "\n    ")
        + "\n_session = Session()\nset_session_vars = _session.set_session_vars\n"
        "clear_session_vars = _session.clear_session_vars\nget_session_env = _session.get_session_env\n",
        clear="",
        read="",
    ),
    fork(
        "verbs under a condition, and lambdas",
        bind="if os.sep:" + BIND.replace("\n", "\n    ") + "\n",
        read="get_session_env = lambda name, default='': (v.get() if (v := _VAR_MAP.get(name)) else os.getenv(name))\n",
    ),
    fork(
        "builtins that are the module's own",
        bind="""
def zip(*sequences):
    return [(B, "zipped")]
bool = str
def set_session_vars(a="", b="", c=""):
    tokens = [var.set(value) for var, value in zip((A, B), (a, b))]
    tokens.append(FLAG.set(bool(c)))
    return tokens
""",
    ),
    fork(
        "variables of a class of its own, which read one another",
        variables="""
class Watched:
    def __init__(self, name, default):
        self.name, self.inner = name, ContextVar(name, default=default)
    def get(self, *default):
        return self.inner.get(*default)
    def set(self, value):
        LOG.append([other.get() for other in (A, B, C)]) if len(LOG) < 40 else None
        return self.inner.set(value)
A = ContextVar("HERMES_SESSION_PLATFORM", default=_UNSET)
B = Watched("HERMES_SESSION_CHAT_ID", _UNSET)
C = ContextVar("HERMES_SESSION_KEY", default=_UNSET)
FLAG = Watched("HERMES_SESSION_ASYNC_DELIVERY", _UNSET)
""",
    ),
    fork(
        "variables that one module shares with another's context variable",
        variables=VARIABLES + '\nC = __import__("contextvars").ContextVar("HERMES_SESSION_KEY", default=_UNSET)\n',
    ),
    fork(
        "variables without a default",
        variables=VARIABLES.replace(", default=_UNSET", ""),
    ),
    fork(
        "hooks that are there, that are not, and that lack the name",
        also={"set_session_vars": ("import", "import", "import", "bind")},
        bind="""
def set_session_vars(a="", b="", c=""):
    from os.path import join as joined
    try:
        from no_such_hooks import heard
    except ImportError as error:
        LOG.append(str(error)) if len(LOG) < 9 else None
    try:
        from os.path import no_such_name
    except ImportError as error:
        LOG.append(str(error)) if len(LOG) < 9 else None
    tokens = [A.set(joined("a", "b")), B.set(b)]
    tokens = [B.set(b), C.set(c)]
    return tokens
""",
    ),
    fork(
        "a map that answers for names that it has not got",
        names="""
class Lenient(dict):
    def get(self, name, default=None):
        return super().get(name.upper() if isinstance(name, str) else name, A)
_VAR_MAP = Lenient({"HERMES_SESSION_PLATFORM": A, "HERMES_SESSION_CHAT_ID": B})
LOG = []
""",
    ),
]
