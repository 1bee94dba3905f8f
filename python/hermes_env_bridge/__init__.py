"""Whose session is this, in every task, thread and child: a drop-in for Hermes Agent's ``gateway.session_context``.

:func:`install` puts it in place of the installed Hermes' module, before anything imports that. Where there is no
Hermes, :mod:`hermes_env_bridge.session_context` is the module.
"""

from hermes_env_bridge._core import SessionToken, SessionVar, __version__
from hermes_env_bridge._install import InstallError, install, uninstall

__all__ = ["InstallError", "SessionToken", "SessionVar", "__version__", "install", "uninstall"]
