"""Where sessions enter Hermes: the command line, the API server, the gateway, the terminal UI, an editor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ..modules import SESSION_MODULE, hermes, session
from ..observation import answer_of, entries_of, observe, plain, session_state
from ..outcome import NotDrivenError, Observations
from .tool import Tool


def current_session_id() -> Observations:
    """Set the current session id the way the command line does, with values good and bad."""
    synchronize = hermes("cli")._sync_process_session_id

    def with_value(value: Any) -> Callable[[], Any]:
        def rotate() -> Any:
            answer = answer_of(lambda: synchronize(value))
            return [answer, plain(os.environ.get("HERMES_SESSION_ID")), session_state()["reads"]]

        return rotate

    values = ("next", "", None, 5, "a\0b", "\udcff")
    return observe({f"to {value!a}": with_value(value) for value in values})


def oneshot_channel() -> Observations:
    """Refuse a one-shot run, and run one whose agent fails, and see what either leaves."""
    run = hermes("hermes_cli.oneshot").run_oneshot

    def refuse() -> Any:
        with mock.patch.object(hermes("hermes_cli.oneshot"), "_run_agent", side_effect=RuntimeError("no model")):
            statuses = [run("hello", provider="custom"), run("hello")]
        return [statuses, session_state()]

    return observe({"run_oneshot": refuse})


def api_server() -> Observations:
    """Bind and clear a request of the API server."""
    adapter = hermes("gateway.platforms.api_server").APIServerAdapter
    make = hermes("tools.environments.local")._make_run_env

    def request() -> Any:
        tokens = adapter._bind_api_server_session(chat_id="c", session_key="k", session_id="s")
        bound = [session_state(), entries_of(make({})), len(tokens)]
        session().clear_session_vars(tokens)
        return [*bound, session_state(), entries_of(make({}))]

    return observe({"a request": request})


def gateway_runner() -> Observations:
    """Take messages into the gateway's runner, bind, move to threads and clear."""
    make = hermes("tools.environments.local")._make_run_env

    def both() -> Any:
        return [session_state()["reads"], entries_of(make({}))]

    async def message(source: Mapping[str, Any], adapters: Mapping[Any, Any]) -> Any:
        runner, context = _runner(adapters), _message_context(source)
        await runner._handle_message(SimpleNamespace(source=context.source))
        entered = session_state()
        tokens = runner._set_session_env(context)
        with ThreadPoolExecutor(1) as pool:
            seen = {
                "in the task": both(),
                "in the executor": await runner._run_in_executor_with_context(both),
                "in a thread": await asyncio.to_thread(both),
                "in a bare pool": await asyncio.get_running_loop().run_in_executor(pool, both),
                "in a child task": await asyncio.create_task(asyncio.to_thread(both)),
            }
        runner._clear_session_env(tokens)
        runner._shutdown_executor()
        return {"entered": entered, "tokens": len(tokens), "seen": seen, "left": session_state()}

    platform = hermes("gateway.config").Platform("telegram")
    full = {"chat_name": "Chat", "thread_id": 17, "user_id": 5, "user_name": "User", "message_id": 3, "profile": "p"}
    stateless = {platform: SimpleNamespace(supports_async_delivery=False)}
    return observe(
        {
            "a full source": lambda: asyncio.run(message(full, {})),
            "a bare source": lambda: asyncio.run(message({}, {})),
            "a stateless adapter": lambda: asyncio.run(message(full, stateless)),
        },
        surroundings=("no mirror", "foreign mirror"),
    )


def _runner(adapters: Mapping[Any, Any]) -> Any:
    """A gateway runner without its start-up, in the phase in which messages are queued once they have entered."""
    module = hermes("gateway.run")
    runner = object.__new__(module.GatewayRunner)
    runner.adapters = adapters
    runner._startup_restore_in_progress = True
    return runner


def _message_context(source: Mapping[str, Any]) -> Any:
    module, platform = hermes("gateway.session"), hermes("gateway.config").Platform("telegram")
    origin = module.SessionSource(platform=platform, chat_id="chat", **source)
    return module.SessionContext(origin, [platform], {}, session_key="agent:main:telegram:dm:chat", session_id="s")


def terminal_ui() -> Observations:
    """Bind and clear sessions of the terminal UI, with its working directory."""
    server, cwd = hermes("tui_gateway.server"), hermes("agent.runtime_cwd")
    server._sessions["one"] = {"session_key": "known", "cwd": os.getcwd(), "source": "desktop"}

    def turn(key: str, **keywords: Any) -> Callable[[], Any]:
        def bind_and_clear() -> Any:
            tokens = server._set_session_context(key, **keywords)
            bound = [len(tokens), session_state(), str(cwd.resolve_agent_cwd()), cwd._session_cwd_override()]
            server._clear_session_context(tokens)
            return [*bound, session_state(), cwd._session_cwd_override()]

        return bind_and_clear

    def refused() -> Any:
        with mock.patch(f"{SESSION_MODULE}.set_session_vars", side_effect=TypeError("refused")):
            tokens = server._set_session_context("known")
        server._clear_session_context(tokens)
        return [tokens, session_state()]

    return observe(
        {
            "a known session": turn("known"),
            "an ephemeral one": turn("background", cwd="/", ui_session_id="tab"),
            "a bind that fails": refused,
        }
    )


def acp() -> Observations:
    """Say why the editors' adapter is not driven."""
    try:
        hermes("acp")
    except ModuleNotFoundError:
        raise NotDrivenError("its package `acp` is not among the dependencies of hermes-agent") from None
    server = hermes("acp_adapter.server")
    raise NotDrivenError(f"no way in without a client is known for {server.__name__}")


TOOLS = (
    Tool("command line: current session id", current_session_id),
    Tool("one-shot: stateless channel", oneshot_channel),
    Tool("API server: request binding", api_server),
    Tool("gateway: runner, executor, message entry", gateway_runner),
    Tool("terminal UI: session context", terminal_ui),
    Tool("ACP adapter", acp),
)
