"""Entry points: what is inherited is reset, and each run says once that it starts and once how it ends."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from conftest import run_python

from hermes_env_bridge import (
    OmniusRunContext,
    TelegramRunContext,
    entry,
    get_omnius_run_context,
    omnius_context,
    session_context,
)


@pytest.fixture(autouse=True)
def _every_record_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hermes_env_bridge.run")


def told(caplog: pytest.LogCaptureFixture, run_id: str) -> list[tuple[str, str, str | None]]:
    """What was said of one run: the message, the surface and the outcome."""
    records = [record.__dict__ for record in caplog.records if record.__dict__.get("run_id") == run_id]
    assert all(record["duration"] >= 0 for record in records if "outcome" in record)
    return [(record["msg"], record["surface"], record.get("outcome")) for record in records]


def own_id() -> str:
    run = get_omnius_run_context()
    assert run is not None
    return run.run_id


def chat(chat_id: int) -> TelegramRunContext:
    return TelegramRunContext(chat_id=chat_id, chat_type="private", session_key=f"k{chat_id}", tool_context="t")


SURFACES: dict[str, Any] = {
    "telegram": entry.telegram(lambda: chat(42)),
    "api": entry.api(),
    "tui": entry.tui(),
    "scheduler": entry.scheduler(),
    "background": entry.background(),
}


@pytest.mark.parametrize("surface", SURFACES)
def test_phase_2_each_surface_says_once_that_a_run_starts_and_once_how_it_ends(
    surface: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Phase 2: each run emits a context diagnostic with run id and surface. Existing behaviour is unchanged."""

    async def later() -> str:
        await asyncio.sleep(0)
        return own_id()

    run_ids = [SURFACES[surface](own_id)(), asyncio.run(SURFACES[surface](later)())]
    assert run_ids[0] != run_ids[1]
    for run_id in run_ids:
        assert told(caplog, run_id) == [("run started", surface, None), ("run ended", surface, "completed")]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError, "failed"), (SystemExit, "failed"), (asyncio.CancelledError, "cancelled")],
)
def test_a_run_that_raises_says_so_once(
    error: type[BaseException], outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    run_ids: list[str] = []

    @entry.api()
    def fail() -> None:
        run_ids.append(own_id())
        raise error

    @entry.api()
    async def fail_later() -> None:
        run_ids.append(own_id())
        await asyncio.sleep(0)
        raise error

    with pytest.raises(error):
        fail()
    with pytest.raises(error):
        asyncio.run(fail_later())
    for run_id in run_ids:
        assert told(caplog, run_id) == [("run started", "api", None), ("run ended", "api", outcome)]


def test_a_run_that_is_cancelled_or_left_says_so_once_and_one_that_never_starts_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_ids: list[str] = []

    @entry.background()
    async def wait() -> None:
        run_ids.append(own_id())
        await asyncio.sleep(60)

    @entry.background()
    async def stream() -> AsyncIterator[int]:
        run_ids.append(own_id())
        yield 1
        yield 2

    @entry.background()
    def numbers() -> Iterator[int]:
        run_ids.append(own_id())
        yield 1
        yield 2

    async def main() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        items = stream()
        assert await anext(items) == 1
        await items.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    left = numbers()
    assert next(left) == 1
    left.close()  # type: ignore[attr-defined]
    wait().close()
    assert len(run_ids) == 3
    for run_id in run_ids:
        assert told(caplog, run_id) == [("run started", "background", None), ("run ended", "background", "cancelled")]
    assert len(caplog.records) == 6


def test_an_entry_point_resets_the_session_and_the_run_that_it_is_called_in() -> None:
    def held() -> tuple[str, str, str]:
        run = get_omnius_run_context()
        assert run is not None
        return (
            run.surface,
            session_context.get_session_env("HERMES_SESSION_KEY", "none"),
            session_context.get_session_env("HERMES_SESSION_PLATFORM", "none"),
        )

    @entry.background()
    async def later() -> tuple[str, str, str]:
        return held()

    async def main() -> None:
        session_context.set_session_vars(platform="discord", session_key="before")
        with omnius_context(OmniusRunContext(run_id="before", surface="telegram", telegram=chat(1))):
            assert entry.background()(held)() == await later() == ("background", "none", "none")
            bound = entry.telegram(lambda: chat(42), bind_hermes=True)(held)
            assert bound() == ("telegram", "k42", "telegram")
            assert own_id() == "before"
        assert session_context.get_session_env("HERMES_SESSION_KEY") == "before"

    asyncio.run(main())


def test_a_handler_is_described_by_its_arguments() -> None:
    class Bot:
        @entry.telegram(lambda _self, message: chat(message["chat"]), owner_kind="user", owner_id="u7")
        async def handle(self, message: dict[str, int]) -> tuple[Any, ...]:
            """Handle a message."""
            run = get_omnius_run_context()
            assert run is not None
            assert run.telegram is not None
            await asyncio.sleep(message["chat"] * 0.001)
            return run.telegram.chat_id, run.owner_kind, run.owner_id

    async def main() -> list[Any]:
        return [*await asyncio.gather(*(Bot().handle({"chat": n}) for n in (2, 1)))]

    assert asyncio.run(main()) == [(2, "user", "u7"), (1, "user", "u7")]
    assert inspect.iscoroutinefunction(Bot.handle)
    assert (Bot.handle.__name__, Bot.handle.__doc__) == ("handle", "Handle a message.")


def test_a_description_that_cannot_be_is_refused_before_anything_runs(caplog: pytest.LogCaptureFixture) -> None:
    @entry.scheduler(owner_id="")
    def job() -> None:
        pytest.fail("ran")

    @entry.describing(lambda: None)  # type: ignore[arg-type,return-value]
    def undescribed() -> None:
        pytest.fail("ran")

    with pytest.raises(ValueError, match="ownerId"):
        job()
    with pytest.raises(TypeError, match="OmniusRunContext"):
        undescribed()
    assert not caplog.records


def test_a_record_from_elsewhere_enters_as_it_is() -> None:
    run = OmniusRunContext.from_json('{"runId":"r","surface":"api","traceId":"t"}')

    @entry.describing(lambda described: described)
    def look(_described: OmniusRunContext) -> OmniusRunContext | None:
        return get_omnius_run_context()

    assert look(run) is run


@pytest.mark.parametrize("module", ["hermes_env_bridge.session_context", "gateway.session_context"])
def test_hermes_is_not_imported_for_a_run_and_is_reset_where_it_is(module: str) -> None:
    code = f"""
import sys
from hermes_env_bridge import entry
@entry.api()
def look(): return [name for name in sys.modules if name.endswith("session_context")]
assert look() == []
import importlib
sc = importlib.import_module({module!r})
sc.set_session_vars(chat_id="5")
@entry.api()
def read(): return sc.get_session_env("HERMES_SESSION_CHAT_ID", "none")
assert (read(), sc.get_session_env("HERMES_SESSION_CHAT_ID")) == ("none", "5")
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr


def test_phase_2_a_tool_does_in_a_run_what_it_does_without() -> None:
    """Phase 2: existing tool behaviour remains unchanged."""

    def tool(text: str, *, base: int = 10) -> int:
        return int(text, base)

    entered = entry.tui()(tool)
    assert entered("7") == tool("7")
    assert entered("ff", base=16) == tool("ff", base=16)
    assert inspect.signature(entered) == inspect.signature(tool)
    with pytest.raises(ValueError, match="seven"):
        entered("seven")
