"""Forks that do otherwise when they are adapted: they look at what an adapted module has less or more of."""

from __future__ import annotations

from hostile import fork

# If one of them does not differ any more, its test fails, and it belongs with the mended ones.
DIFFERENT = [
    fork(
        "a clear that walks through the context",
        clear="""
def clear_session_vars(tokens):
    for var in copy_context():
        if var.name.startswith("HERMES_"):
            var.set("")
""",
    ),
    fork(
        "a reset that sets whatever the context holds",
        reset="""
def reset_session_vars():
    for var in copy_context():
        var.set(_UNSET)
""",
    ),
]
