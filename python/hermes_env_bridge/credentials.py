"""Which names are credentials, by the installed Hermes.

The lists are Hermes' own, read at run time; what is made of them is in :func:`hermes_env_bridge.child_env`.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal, get_args

from hermes_env_bridge._core import Credentials

__all__ = ["Credentials", "Spawn", "hermes_credentials"]

# What is started: a command of the terminal and the code tools, any other program, a program that calls models itself.
Spawn = Literal["terminal", "program", "model"]

_SOURCE = "tools.environments.local"

_made: dict[str, tuple[Any, Any, Credentials]] = {}


def hermes_credentials(spawn: Spawn = "terminal") -> Credentials:
    """Return the credentials that Hermes keeps from what is started.

    ``"terminal"``: a command that a model writes gets no blocked name. ``"program"``: any other program gets none of
    the names either that Hermes always strips. ``"model"``: a program that calls models itself gets the blocked names,
    since it needs their keys, and none of the others.

    Raises ValueError for another word, and RuntimeError if there is no Hermes here whose lists can be read: without
    them no environment can be told to be free of credentials.
    """
    if spawn not in get_args(Spawn):
        raise ValueError(f"what is started is one of {', '.join(map(repr, get_args(Spawn)))}, not {spawn!r}")
    try:
        hermes = importlib.import_module(_SOURCE)
        blocked, always = hermes._HERMES_PROVIDER_ENV_BLOCKLIST, hermes._ALWAYS_STRIP_KEYS
    except Exception as error:
        raise RuntimeError(
            f"the credentials that Hermes blocks cannot be read from {_SOURCE} ({type(error).__name__}: {error}); "
            "give Credentials(blocked=...) instead"
        ) from error
    known = _made.get(spawn)
    if known is None or known[0] is not blocked or known[1] is not always:
        credentials = Credentials(
            () if spawn == "model" else list(blocked), always=() if spawn == "terminal" else list(always)
        )
        known = _made[spawn] = (blocked, always, credentials)
    return known[2]
