"""Whose session is this, in every task, thread and child: a drop-in for Hermes Agent's ``gateway.session_context``.

:func:`install` puts it in place of the installed Hermes' module, before anything imports that. Where there is no
Hermes, :mod:`hermes_env_bridge.session_context` is the module. :func:`explain` and :func:`snapshot` say what holds in a
task, :func:`profile` what was learnt of the installed version. :func:`run_with_omnius_context` says which run a task
works for.
"""

import sys

try:
    from hermes_env_bridge._core import OmniusRunContext, SessionToken, SessionVar, TelegramRunContext, __version__
except ModuleNotFoundError as error:
    raise ImportError(
        f"hermes_env_bridge has no extension module for Python {sys.version_info[0]}.{sys.version_info[1]}; "
        "install the package with this interpreter"
    ) from error
from hermes_env_bridge._explain import Explanation, Snapshot, explain, snapshot
from hermes_env_bridge._find import InstallError
from hermes_env_bridge._install import install, profile, uninstall
from hermes_env_bridge._profile import Profile, VariableProfile, VerbProfile
from hermes_env_bridge.run_context import (
    NoRunContextError,
    bind,
    get_omnius_run_context,
    get_telegram_run_context,
    is_omnius_run_finished,
    omnius_context,
    require_omnius_run_context,
    run_context_of_session,
    run_with_omnius_context,
    spawn_detached,
)

__all__ = [
    "Explanation",
    "InstallError",
    "NoRunContextError",
    "OmniusRunContext",
    "Profile",
    "SessionToken",
    "SessionVar",
    "Snapshot",
    "TelegramRunContext",
    "VariableProfile",
    "VerbProfile",
    "__version__",
    "bind",
    "explain",
    "get_omnius_run_context",
    "get_telegram_run_context",
    "install",
    "is_omnius_run_finished",
    "omnius_context",
    "profile",
    "require_omnius_run_context",
    "run_context_of_session",
    "run_with_omnius_context",
    "snapshot",
    "spawn_detached",
    "uninstall",
]
