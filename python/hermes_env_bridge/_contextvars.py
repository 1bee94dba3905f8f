"""What an adapted session module gets for ``contextvars``: the same names, with our variables for its own."""

from contextvars import Context, copy_context

from hermes_env_bridge._core import SessionToken as Token
from hermes_env_bridge._core import SessionVar as ContextVar

__all__ = ["Context", "ContextVar", "Token", "copy_context"]
