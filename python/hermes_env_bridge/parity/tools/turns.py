"""Whole turns of the real agent, which talks to a scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..modules import hermes, session
from ..observation import entries_of, observe, session_state
from ..outcome import Observations
from ..shell import show
from .scripted_model import ScriptedModel, scripted_model
from .tool import Tool

# What the scripted model does when asked to show: a shell prints its session variables.
_SHOW = ("terminal", {"command": show()})


def oneshot_turns() -> Observations:
    """Whole one-shot runs: a shell command, and a delegated task, which the stateless channel makes synchronous."""
    run = hermes("hermes_cli.oneshot").run_oneshot
    with scripted_model({"show": _SHOW, "delegate": ("delegate_task", {"goal": "answer"})}) as model:

        def turn(prompt: str) -> Any:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                status = run(prompt)
            return [status, printed.getvalue(), model.take(), session_state()]

        turns = {"show": lambda: turn("show"), "delegate": lambda: turn("delegate")}
        return _whole_turns(turns, states=("never bound", "bound"))


def cron_jobs() -> Observations:
    """Whole cron jobs: one that fails before its agent, one that is a script, and one with a scripted model."""
    scheduler = hermes("cron.scheduler")
    scripts = Path(os.environ["HERMES_HOME"], "scripts")
    scripts.mkdir()
    (scripts / "look.sh").write_text(show())
    job = {"id": "job", "name": "watch", "prompt": "show", "deliver": "telegram:12:34", "schedule": {"kind": "once"}}

    def ran(**changes: Any) -> Any:
        done = scheduler.run_job(job | changes)
        left = entries_of(os.environ, ("HERMES_SESSION_ID", "HERMES_CRON_SESSION"))
        return [done[0], done[2], done[3], session_state(), left]

    with scripted_model({"show": _SHOW}) as model:
        jobs = {
            "a failing job": lambda: ran(base_url="relative"),
            "a script": lambda: ran(no_agent=True, script="look.sh"),
            "an agent": lambda: [*ran(), model.take()],
        }
        return _whole_turns(jobs, states=("never bound", "bound", "beside a bound session"))


def api_server_turns() -> Observations:
    """Requests to the API server one after the other, each a whole turn that runs a shell.

    The two share one terminal environment, which replays the first one's saved state to the second.
    """
    module, config = hermes("gateway.platforms.api_server"), hermes("gateway.config")

    def request(adapter: Any, name: str) -> Any:
        turn = adapter._run_agent("show", [], session_id=name, gateway_session_key=f"key-{name}")
        result, _usage = asyncio.run(turn)
        return [message["content"] for message in result["messages"] if message["role"] in ("tool", "assistant")]

    def requests() -> Any:
        adapter = module.APIServerAdapter(config.PlatformConfig(enabled=True))
        return [*(request(adapter, name) for name in ("one", "two")), session_state()]

    with scripted_model({"show": _SHOW}):
        return _whole_turns({"two requests": requests}, states=("never bound", "bound"))


def agent_session_ids() -> Observations:
    """An agent that names its session when it is built, and renames it when its conversation is compressed."""
    words = [{"role": ("user", "assistant")[turn % 2], "content": "word " * 400} for turn in range(60)]
    names = iter(("first", "second"))

    def build_and_compress(model: ScriptedModel) -> Any:
        name, store = next(names), hermes("hermes_state").SessionDB()
        agent = hermes("run_agent").AIAgent(
            base_url=model.url, api_key="none", provider="custom", model="scripted", enabled_toolsets=[],
            quiet_mode=True, skip_memory=True, skip_context_files=True, session_db=store, session_id=name,
        )  # fmt: skip
        agent.compression_in_place = False
        built = [*_ids(agent, name), session_state(), agent.run_conversation("hello")["final_response"]]
        compressed, _prompt = agent._compress_context(list(words), "system", force=True)
        answer = [*built, len(compressed) < len(words), *_ids(agent, name), session_state()]
        agent.close()
        store.close()
        return answer

    with scripted_model({}) as model:
        compress = {"build and compress": lambda: build_and_compress(model)}
        return _whole_turns(compress, states=("never bound", "cleared"))


def _ids(agent: Any, name: str) -> list[bool]:
    """Tell whether the agent's id is still *name*, and whether the process and the session have the agent's."""
    kept = (name, os.environ.get("HERMES_SESSION_ID"), session().get_session_env("HERMES_SESSION_ID"))
    return [agent.session_id == own for own in kept]


def _whole_turns(turns: Mapping[str, Callable[[], Any]], *, states: Sequence[str]) -> Observations:
    """Observe *turns* of the real agent under a foreign mirror, each in terminal environments of its own."""
    forget = hermes("tools.terminal_tool").cleanup_all_environments

    def alone(turn: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            forget()
            return turn()

        return run

    fresh = {label: alone(turn) for label, turn in turns.items()}
    return _without_run_ids(observe(fresh, states=states, surroundings=("foreign mirror",)))


def _without_run_ids(observations: Observations) -> Observations:
    """Return *observations* with what a run makes up masked: ids with their second and suffix, and durations."""
    text = json.dumps(observations)
    text = re.sub(r"(?<!\d)\d{8}_\d{6}(_[0-9a-f]{6})?(?![0-9a-z])", "<run>", text)
    text = re.sub(r"\bdeleg_[0-9a-f]{8}\b", "deleg_<id>", text)
    text = re.sub(r'(duration_seconds\\+": )[0-9.e-]+', r"\1<seconds>", text)
    masked: Observations = json.loads(text)
    return masked


TOOLS = (
    Tool("one-shot: whole turns, scripted model", oneshot_turns),
    Tool("cron: whole jobs, scripted model", cron_jobs),
    Tool("API server: whole turns, scripted model", api_server_turns),
    Tool("agent: ids when built and compressed, scripted model", agent_session_ids),
)
