"""The environments that Hermes builds for child processes, and what the shells that it starts see of them."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ..modules import hermes
from ..observation import observe
from ..outcome import Observations
from ..shell import LIST_HERMES, show
from .tool import Tool


def make_run_env() -> Observations:
    """Build the environment of terminal children."""
    make = hermes("tools.environments.local")._make_run_env
    own = {"HERMES_SESSION_KEY": "own", "MINE": "1"}
    return observe({"_make_run_env({})": lambda: make({}), "_make_run_env(own)": lambda: make(dict(own))})


def sanitize_subprocess_env() -> Observations:
    """Build the environment of background children."""
    sanitize = hermes("tools.environments.local")._sanitize_subprocess_env
    extra = {"HERMES_SESSION_ID": "extra", "MINE": "1"}
    return observe(
        {
            "of os.environ": lambda: sanitize(os.environ),
            "of os.environ and extra": lambda: sanitize(dict(os.environ), dict(extra)),
            "of nothing": lambda: sanitize(None),
        }
    )


def hermes_subprocess_env() -> Observations:
    """Build the environment of children outside of the terminal."""
    build = hermes("tools.environments.local").hermes_subprocess_env
    return observe({"plain": build, "with credentials": lambda: build(inherit_credentials=True)})


def terminal() -> Observations:
    """Run shells in terminal environments created in each state."""
    environment = hermes("tools.environments.local").LocalEnvironment

    def shell() -> dict[str, Any]:
        local = environment(cwd=os.getcwd())
        try:
            return {"env": local.execute(LIST_HERMES), "printf": local.execute(show())}
        finally:
            local.cleanup()

    return observe({"a shell": shell}, surroundings=("no mirror", "foreign mirror"))


def background_process() -> Observations:
    """Start background processes that ask to be watched, and wait for them."""
    tool = hermes("tools.terminal_tool").terminal_tool
    processes = hermes("tools.process_registry").process_registry

    def start() -> dict[str, Any]:
        answer = json.loads(tool(LIST_HERMES, background=True, notify_on_complete=True, force=True))
        process = processes.get(answer["session_id"])
        processes.wait(process.id, timeout=30)
        watching = [{**watcher, "session_id": "<id>"} for watcher in processes.pending_watchers]
        processes.pending_watchers.clear()
        fields = ("platform", "chat_id", "user_id", "user_name", "thread_id", "message_id")
        return {
            "promised": answer.get("notify_on_complete"),
            "refused": answer.get("notify_unsupported"),
            "watched by": {field: getattr(process, f"watcher_{field}") for field in fields},
            "watchers": watching,
            "child": [line for line in process.output_buffer.splitlines() if line.startswith("HERMES_")],
        }

    return observe({"terminal(background)": start}, surroundings=("foreign mirror",))


def sudo_scope() -> Observations:
    """Ask for whom a sudo password is kept."""
    scope = hermes("tools.terminal_tool")._get_sudo_password_cache_scope
    return observe({"scope": lambda: re.sub(r"^thread:\d+$", "thread:<id>", scope())})


TOOLS = (
    Tool("child environment: _make_run_env", make_run_env),
    Tool("child environment: _sanitize_subprocess_env", sanitize_subprocess_env),
    Tool("child environment: hermes_subprocess_env", hermes_subprocess_env),
    Tool("terminal: shells of LocalEnvironment", terminal),
    Tool("terminal: background processes, async delivery", background_process),
    Tool("terminal: scope of a cached sudo password", sudo_scope),
)
