"""Whose session is this, in every task, thread and child: a drop-in for Hermes Agent's ``gateway.session_context``.

:func:`install` puts it in place of the installed Hermes' module, before anything imports that. Where there is no
Hermes, :mod:`hermes_env_bridge.session_context` is the module. :func:`snapshot` takes the session along: to another
task, process or machine. :func:`explain` and :func:`explain_all` say what holds in a task, :func:`profile` what was
learnt of the installed version. :func:`guard` notices children that would receive another session's identity.
:func:`run_with_omnius_context` says which run a task works for.
"""

import sys

try:
    from hermes_env_bridge._core import (
        Credentials,
        OmniusRunContext,
        SessionToken,
        SessionVar,
        TelegramRunContext,
        __version__,
    )
except ModuleNotFoundError as error:
    raise ImportError(
        f"hermes_env_bridge has no extension module for Python {sys.version_info[0]}.{sys.version_info[1]}; "
        "install the package with this interpreter"
    ) from error
from hermes_env_bridge._explain import Explanation, SessionExplanation, explain, explain_all
from hermes_env_bridge._find import InstallError
from hermes_env_bridge._guard import ForeignIdentityError, GuardError, GuardReport, guard, report, start
from hermes_env_bridge._install import install, profile, uninstall
from hermes_env_bridge._profile import Profile, VariableProfile, VerbProfile
from hermes_env_bridge._snapshot import SESSION_HEADER, Change, Snapshot, snapshot
from hermes_env_bridge.children import (
    Decision,
    InvalidEnvError,
    bridged_pairs,
    child_env,
    owned_names,
    owns,
    shell_exports,
    shell_unset,
)
from hermes_env_bridge.run_context import (
    NoRunContextError,
    get_omnius_run_context,
    get_telegram_run_context,
    is_omnius_run_finished,
    omnius_context,
    require_omnius_run_context,
    run_context_of_session,
    run_with_omnius_context,
    spawn_detached,
)
from hermes_env_bridge.threads import bind

__all__ = [
    "SESSION_HEADER",
    "Change",
    "Credentials",
    "Decision",
    "Explanation",
    "ForeignIdentityError",
    "GuardError",
    "GuardReport",
    "InstallError",
    "InvalidEnvError",
    "NoRunContextError",
    "OmniusRunContext",
    "Profile",
    "SessionExplanation",
    "SessionToken",
    "SessionVar",
    "Snapshot",
    "TelegramRunContext",
    "VariableProfile",
    "VerbProfile",
    "__version__",
    "bind",
    "bridged_pairs",
    "child_env",
    "explain",
    "explain_all",
    "get_omnius_run_context",
    "get_telegram_run_context",
    "guard",
    "install",
    "is_omnius_run_finished",
    "omnius_context",
    "owned_names",
    "owns",
    "profile",
    "report",
    "require_omnius_run_context",
    "run_context_of_session",
    "run_with_omnius_context",
    "shell_exports",
    "shell_unset",
    "snapshot",
    "spawn_detached",
    "uninstall",
]

start()
