"""The middleware on a real server: uvicorn and Starlette, with requests at once and responses that are streamed."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect

from hermes_env_bridge import OmniusRunContext, get_omnius_run_context, session_context
from hermes_env_bridge.asgi import RunContextMiddleware, Scope


def seen() -> str:
    run = get_omnius_run_context()
    return "none" if run is None else run.run_id


late: list[tuple[str, str]] = []
started: list[str] = []


async def stream(_request: Request) -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        for n in range(20):
            await asyncio.sleep(0.001 * (n % 3))
            yield f"{seen()} {await asyncio.to_thread(seen)} {await asyncio.create_task(later())}\n"

    return StreamingResponse(lines())


async def later() -> str:
    await asyncio.sleep(0)
    return seen()


def in_a_thread(_request: Request) -> PlainTextResponse:
    return PlainTextResponse(seen())


async def endless(_request: Request) -> StreamingResponse:
    async def chunks() -> AsyncIterator[str]:
        while True:
            await asyncio.sleep(0.001)
            yield seen()

    return StreamingResponse(chunks())


async def broken(_request: Request) -> None:
    raise RuntimeError("on purpose")


async def with_background(request: Request) -> PlainTextResponse:
    task = BackgroundTask(lambda: late.append((str(request.query_params), seen())))
    return PlainTextResponse(session_context.get_session_env("HERMES_SESSION_PLATFORM", "none"), background=task)


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    async for _ in websocket.iter_text():
        await websocket.send_text(seen())


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    started.append(seen())
    yield


def describe(scope: Scope) -> OmniusRunContext:
    run_id = scope["query_string"].decode()
    return OmniusRunContext(run_id=run_id, surface="api", owner_kind="user", owner_id=run_id)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    routes = [
        Route("/stream", stream),
        Route("/thread", in_a_thread),
        Route("/endless", endless),
        Route("/broken", broken),
        Route("/background", with_background),
        WebSocketRoute("/socket", echo),
    ]
    middleware = [Middleware(RunContextMiddleware, describe, bind_hermes=True)]
    app = Starlette(routes=routes, middleware=middleware, lifespan=lifespan)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)

    def serve() -> None:
        # The server itself is started inside a session; none of its requests is.
        session_context.set_session_vars(platform="telegram")
        server.run(sockets=[listener])

    thread = threading.Thread(target=serve)
    thread.start()
    host, port = listener.getsockname()
    yield f"{host}:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(autouse=True)
def _every_record_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hermes_env_bridge.run")


def outcome(caplog: pytest.LogCaptureFixture, run_id: str) -> str:
    """How the run has ended, once it has."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        records = [record.__dict__ for record in caplog.records if record.__dict__.get("run_id") == run_id]
        if len(records) == 2:
            assert [(record["msg"], record["surface"]) for record in records] == [
                ("run started", "api"),
                ("run ended", "api"),
            ]
            return str(records[1]["outcome"])
        time.sleep(0.005)
    pytest.fail(f"{run_id} has not ended")


def test_concurrent_requests_stream_whole_responses_for_their_own_run(address: str) -> None:
    async def main() -> list[str]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=60) as client:
            urls = [f"http://{address}/stream?r{n}" for n in range(200)]
            return [response.text for response in await asyncio.gather(*(client.get(url) for url in urls))]

    for n, text in enumerate(asyncio.run(main())):
        assert text == f"r{n} r{n} r{n}\n" * 20


def test_websockets_at_once_work_for_their_own_run(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async def talk(n: int) -> set[str]:
        async with connect(f"ws://{address}/socket?w{n}") as socket:
            answers = set()
            for _ in range(5):
                await socket.send("?")
                answers.add(str(await socket.recv()))
            return answers

    async def main() -> list[set[str]]:
        return [*await asyncio.gather(*(talk(n) for n in range(20)))]

    assert asyncio.run(main()) == [{f"w{n}"} for n in range(20)]
    assert outcome(caplog, "w7") == "completed"


def test_a_handler_in_a_thread_and_a_task_after_the_response_work_for_the_request(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert httpx.get(f"http://{address}/thread?t").text == "t"
    # The session is that of the run, and not the server's.
    assert httpx.get(f"http://{address}/background?b").text == "api_server"
    assert outcome(caplog, "b") == "completed"
    assert ("b=", "b") in late


def test_a_request_says_how_it_has_ended_and_the_servers_own_start_is_no_run(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    httpx.get(f"http://{address}/thread?returns")
    assert outcome(caplog, "returns") == "completed"
    assert httpx.get(f"http://{address}/broken?breaks").status_code == 500
    assert outcome(caplog, "breaks") == "failed"
    with httpx.stream("GET", f"http://{address}/endless?leaves") as response:
        assert next(response.iter_text()).startswith("leaves")
    assert outcome(caplog, "leaves") in ("completed", "failed")
    assert started == ["none"]
