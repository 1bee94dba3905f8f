"""Jobs whose result comes later, and the session that it is to come to."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ..modules import hermes, session
from ..observation import observe, plain
from ..outcome import Observations
from .tool import Tool


def kanban() -> Observations:
    """Create tasks in a real board, and see who is told about them."""
    tools, database = hermes("tools.kanban_tools"), hermes("hermes_cli.kanban_db")

    def create() -> dict[str, Any]:
        answer = json.loads(tools._handle_create({"title": "a task", "assignee": "worker"}))
        with database.connect_closing() as connection:
            rows = database.list_notify_subs(connection, answer["task_id"])
            stamped = database.get_task(connection, answer["task_id"]).session_id
        fields = ("platform", "chat_id", "thread_id", "user_id", "notifier_profile")
        subscribed = [{field: row[field] for field in fields} for row in rows]
        return {"subscribed": answer["subscribed"], "to": subscribed, "stamped": stamped}

    return observe({"create": create})


def origins() -> Observations:
    """Ask where jobs made in this session deliver to, and make some."""
    cron, jobs = hermes("tools.cronjob_tools"), hermes("cron.jobs")

    def create() -> Any:
        answer = json.loads(cron.cronjob("create", prompt="look", schedule="every 1h", name="watch"))
        origin = jobs.get_job(answer["job_id"])["origin"]
        jobs.remove_job(answer["job_id"])
        return {"origin": origin, "message": answer["message"]}

    return observe({"cronjob(create)": create}, surroundings=("foreign mirror",)) | observe(
        {
            "cronjob's origin": cron._origin_from_env,
            "blueprint's origin": lambda: hermes("hermes_cli.blueprint_cmd")._resolve_origin(None),
            "suggestions' origin": hermes("hermes_cli.suggestions_cmd")._resolve_origin,
        }
    )


def delegation() -> Observations:
    """Delegate tasks to children that are done at once, and see where the answer is routed."""
    module, background = hermes("tools.delegate_tool"), hermes("tools.async_delegation")

    def delegate() -> dict[str, Any]:
        done = {"task_index": 0, "status": "completed", "summary": "done", "api_calls": 1, "duration_seconds": 0}
        with (
            mock.patch.object(module, "_build_child_agent", return_value=SimpleNamespace()),
            mock.patch.object(module, "_run_single_child", return_value=done),
            mock.patch.object(background, "dispatch_async_delegation_batch", return_value={}) as dispatch,
        ):
            parent = SimpleNamespace(session_id="parent", _delegate_depth=0)
            answer = json.loads(module.delegate_task(goal="look", background=True, parent_agent=parent))
        fields = ("session_key", "origin_ui_session_id", "parent_session_id")
        routes = [{field: plain(call.kwargs[field]) for field in fields} for call in dispatch.call_args_list]
        return {"detached to": routes, "note": answer.get("note")}

    def from_tui() -> Any:
        session()._VAR_MAP["HERMES_SESSION_SOURCE"].set("tui")
        return delegate()

    return observe({"delegate_task(background)": delegate, "from the terminal UI": from_tui})


TOOLS = (
    Tool("kanban: create and auto-subscribe", kanban),
    Tool("cronjob, blueprint, suggestions: origin", origins),
    Tool("delegation: async delivery and return address", delegation),
)
