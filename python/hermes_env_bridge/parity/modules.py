"""The two session modules that real Hermes is driven with, and Hermes as it is reached on the one in place."""

from __future__ import annotations

import contextvars
import importlib
import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import hermes_env_bridge

ORIGINAL = "original"
DROP_IN = "drop-in"
MODULES = (ORIGINAL, DROP_IN)

SESSION_MODULE = "gateway.session_context"

# The variables of Hermes 0.19.0, in the order of its map.
SESSION_NAMES = (
    "HERMES_SESSION_PLATFORM",
    "HERMES_SESSION_SOURCE",
    "HERMES_SESSION_CHAT_ID",
    "HERMES_SESSION_CHAT_NAME",
    "HERMES_SESSION_THREAD_ID",
    "HERMES_SESSION_USER_ID",
    "HERMES_SESSION_USER_NAME",
    "HERMES_SESSION_KEY",
    "HERMES_SESSION_ID",
    "HERMES_UI_SESSION_ID",
    "HERMES_SESSION_MESSAGE_ID",
    "HERMES_SESSION_PROFILE",
    "HERMES_CRON_AUTO_DELIVER_PLATFORM",
    "HERMES_CRON_AUTO_DELIVER_CHAT_ID",
    "HERMES_CRON_AUTO_DELIVER_THREAD_ID",
)


class WrongModuleError(RuntimeError):
    """Hermes imports another session module than the chosen one, so that one would be compared with itself."""


def hermes(name: str) -> Any:
    """Return Hermes' module *name*, imported only now: the choice of the session module comes first."""
    return importlib.import_module(name)


def session() -> Any:
    """Return the session module that Hermes' code imports, whichever it is."""
    return hermes(SESSION_MODULE)


def put_in_place(chosen: str) -> None:
    """Make *chosen*, one of :data:`MODULES`, the session module of this process, before Hermes is imported.

    Raises :class:`WrongModuleError` if Hermes then imports another one.
    """
    if chosen == DROP_IN:
        hermes_env_bridge.install()
    module, found = session(), in_place()
    if found != chosen:
        raise WrongModuleError(f"the {chosen} module is not in place: what Hermes imports is {found}")
    if chosen == ORIGINAL:
        code = Path(module.get_session_env.__code__.co_filename)
        installed = importlib.metadata.distribution("hermes-agent").locate_file("gateway/session_context.py")
        if not code.samefile(str(installed)):
            raise WrongModuleError(f"the original module is not in place: its code is from {code}")


def in_place() -> str:
    """Return which session module this process has imported: one of :data:`MODULES`, "none" or "a mixture".

    The two are told apart by their variables: Hermes' own are context variables of the standard library.
    """
    variables = list(getattr(sys.modules.get(SESSION_MODULE), "_VAR_MAP", {}).values())
    kinds = {ORIGINAL if type(variable) is contextvars.ContextVar else DROP_IN for variable in variables}
    return kinds.pop() if len(kinds) == 1 else "a mixture" if kinds else "none"
