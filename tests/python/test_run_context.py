"""The record of a run, and how it is carried, in Python."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import inspect
import pickle
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
from conftest import run_python

import hermes_env_bridge
from hermes_env_bridge import (
    NoRunContextError,
    OmniusRunContext,
    TelegramRunContext,
    get_omnius_run_context,
    get_telegram_run_context,
    is_omnius_run_finished,
    omnius_context,
    require_omnius_run_context,
    run_context_of_session,
    run_with_omnius_context,
)

FULL = (
    '{"runId":"r","surface":"telegram","projectRoot":"/p","ownerKind":"user","ownerId":"u7","telegram":'
    '{"chatId":-1001234567890,"chatType":"supergroup","messageId":7,"threadId":3,"userId":9,"username":"alice",'
    '"sessionKey":"k","toolContext":"t"}}'
)


def record(run_id: str) -> OmniusRunContext:
    return OmniusRunContext(run_id=run_id, surface="api")


def chat(chat_id: int | str, **fields: Any) -> TelegramRunContext:
    described: dict[str, Any] = {"chat_type": "private", "session_key": f"k{chat_id}", "tool_context": "t", **fields}
    return TelegramRunContext(chat_id=chat_id, **described)


def message(chat_id: int) -> OmniusRunContext:
    return OmniusRunContext(run_id="r", surface="telegram", telegram=chat(chat_id, message_id=10 * chat_id))


def seen() -> str | None:
    run = get_omnius_run_context()
    return None if run is None else run.run_id


def test_the_class_and_the_json_describe_the_same_record() -> None:
    telegram = TelegramRunContext(
        chat_id=-1001234567890,
        chat_type="supergroup",
        message_id=7,
        thread_id=3,
        user_id=9,
        username="alice",
        session_key="k",
        tool_context="t",
    )
    run = OmniusRunContext(
        run_id="r", surface="telegram", project_root="/p", owner_kind="user", owner_id="u7", telegram=telegram
    )
    assert run.to_json() == FULL
    assert OmniusRunContext.from_json(FULL) == run
    assert TelegramRunContext.from_json(telegram.to_json()) == telegram
    for each in (run, telegram):
        for name in each.__match_args__:
            assert getattr(each, name) is not None
        assert each.replace() == each


def test_a_record_behaves_as_a_frozen_dataclass() -> None:
    run = OmniusRunContext.from_json(FULL)
    assert {run: 1}[OmniusRunContext.from_json(FULL)] == 1
    assert run != record("r")
    assert run != "r"
    with pytest.raises(AttributeError):
        run.run_id = "other"  # type: ignore[misc]
    match run:
        case OmniusRunContext(run_id, "telegram", telegram=TelegramRunContext(chat_id=int(chat_id))):
            assert (run_id, chat_id) == ("r", -1001234567890)
        case _:
            pytest.fail("no match")
    changed = run.replace(owner_id="u8", telegram=None)
    assert (changed.owner_id, changed.telegram, changed.project_root) == ("u8", None, "/p")
    if hasattr(copy, "replace"):  # from 3.13
        assert copy.replace(run, owner_id="u8", telegram=None) == changed


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))])
def test_a_record_is_copied_and_pickled_with_what_is_not_known_here(clone: Any) -> None:
    json = FULL[:-2] + ',"isForum":true},"traceId":[1.0,"\\u0041"]}'
    run = OmniusRunContext.from_json(json)
    assert clone(run) == run
    assert clone(run).to_json() == json
    assert run.replace(owner_id="u7").to_json() == json
    telegram = run.telegram
    assert telegram is not None
    assert clone(telegram).to_json() == telegram.to_json() == telegram.replace(user_id=9).to_json()
    assert '"isForum":true' in telegram.to_json()


def test_a_repr_shows_the_run_and_the_surface_and_no_other_value() -> None:
    run = OmniusRunContext.from_json(FULL)
    assert repr(run) == (
        "OmniusRunContext(run_id='r', surface='telegram', project_root=..., owner_kind=..., owner_id=..., telegram=...)"
    )
    assert repr(chat(5)) == "TelegramRunContext(chat_id=..., chat_type='private', session_key=..., tool_context=...)"


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"run_id": ""}, ValueError, "runId"),
        ({"run_id": "a\0"}, ValueError, "runId"),
        ({"run_id": "secret\ud800"}, ValueError, "runId"),
        ({"run_id": 5}, TypeError, "run_id"),
        ({"surface": "secret"}, ValueError, "surface"),
        ({"owner_id": ""}, ValueError, "ownerId"),
        ({"owner_kind": b"secret"}, TypeError, "owner_kind"),
        ({"telegram": {}}, TypeError, "telegram"),
        ({"chat": 5}, TypeError, "chat"),
    ],
)
def test_a_wrong_field_is_named(keywords: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        OmniusRunContext(**({"run_id": "r", "surface": "api"} | keywords))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("keywords", "error", "words"),
    [
        ({"chat_id": True}, TypeError, "chat_id"),
        ({"chat_id": None}, TypeError, "chat_id"),
        ({"chat_id": ""}, ValueError, "telegram.chatId"),
        ({"user_id": "9"}, TypeError, "user_id"),
        ({"user_id": 2**63}, ValueError, "telegram.userId"),
        ({"chat_type": "dm"}, ValueError, "telegram.chatType"),
        ({"session_key": ""}, ValueError, "telegram.sessionKey"),
    ],
)
def test_a_wrong_field_of_a_chat_is_named(keywords: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        chat(keywords.pop("chat_id", 5), **keywords)


def test_an_id_beyond_the_exact_integers_is_a_text_in_json_and_an_int_here() -> None:
    for number in (2**53, -(2**53), 2**63 - 1):
        telegram = chat(number, user_id=number)
        assert f'"chatId":"{number}"' in telegram.to_json()
        assert TelegramRunContext.from_json(telegram.to_json()) == telegram
        assert (telegram.chat_id, telegram.user_id) == (number, number)
    assert chat("42").chat_id == "42"
    assert chat("@news").chat_id == "@news"


def test_required_concurrent_telegram_runs_are_isolated() -> None:
    """Required test: async context isolation under concurrent Telegram runs. Phase 0."""

    async def reply() -> set[tuple[Any, Any]]:
        found = set()
        for _ in range(50):
            telegram = get_telegram_run_context()
            assert telegram is not None
            found.add((telegram.chat_id, telegram.message_id))
            await asyncio.sleep(0)
        return found

    async def both() -> list[Any]:
        return [*await asyncio.gather(*(run_with_omnius_context(message(n), reply) for n in (1, 2)))]

    assert asyncio.run(both()) == [{(1, 10)}, {(2, 20)}]


def test_required_nothing_is_visible_outside_the_wrapper() -> None:
    """Required test: no context outside wrapper. Phase 0: fails if global mutable context leaks."""

    async def inside() -> str | None:
        await asyncio.sleep(0)
        return seen()

    async def main() -> None:
        assert seen() is None
        assert run_with_omnius_context(record("A"), seen) == "A"
        assert seen() is None
        going = asyncio.ensure_future(run_with_omnius_context(record("A"), inside))
        await asyncio.sleep(0)
        assert seen() is None
        assert await going == "A"
        assert await asyncio.create_task(inside()) is None
        async with omnius_context(record("B")) as run:
            assert run.run_id == await inside() == "B"
        assert seen() is None

    asyncio.run(main())


def test_required_a_media_tool_resolves_its_chat_without_being_told() -> None:
    """Required test: the Telegram media tool resolves the correct chat with context."""

    async def media_tool() -> str:
        await asyncio.sleep(0.001)
        telegram = require_omnius_run_context().telegram
        assert telegram is not None
        return f"media/{telegram.chat_id}"

    async def agent() -> str:
        return await asyncio.create_task(media_tool())

    async def both() -> list[str]:
        return [*await asyncio.gather(*(run_with_omnius_context(message(n), agent) for n in (1, 2)))]

    assert asyncio.run(both()) == ["media/1", "media/2"]


def test_phase_1_nested_async_calls_retain_the_correct_context() -> None:
    """Phase 1: unit tests prove nested async calls retain the correct context."""

    async def inner() -> tuple[str | None, str | None, str | None]:
        return seen(), await asyncio.to_thread(seen), await asyncio.create_task(asyncio.to_thread(seen))

    async def outer() -> tuple[Any, ...]:
        return seen(), await run_with_omnius_context(record("B"), inner), seen()

    assert asyncio.run(run_with_omnius_context(record("A"), outer)) == ("A", ("B", "B", "B"), "A")


def test_phase_1_only_require_fails_without_a_context_and_says_where_one_should_be() -> None:
    """Phase 1: missing context produces clear errors only in helpers that require it."""
    assert get_omnius_run_context() is None
    assert get_telegram_run_context() is None
    assert not is_omnius_run_finished()
    with pytest.raises(NoRunContextError, match=r"run_with_omnius_context.*hermes_env_bridge\.entry.*bind") as raised:
        require_omnius_run_context()
    assert isinstance(raised.value, LookupError)
    with omnius_context(record("A")):
        assert require_omnius_run_context().run_id == "A"
        assert get_telegram_run_context() is None


def test_what_is_no_record_cannot_be_entered() -> None:
    for wrong in (None, FULL, chat(5), {"run_id": "r"}):
        with pytest.raises(TypeError, match="OmniusRunContext"):
            run_with_omnius_context(wrong, seen)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="OmniusRunContext"):
            omnius_context(wrong)  # type: ignore[arg-type]


def test_a_generator_works_for_its_run_at_each_step_and_its_consumer_does_not() -> None:
    def numbers() -> Generator[Any, Any, None]:
        sent = yield seen()
        yield sent, seen()

    async def stream() -> AsyncIterator[Any]:
        yield seen()
        await asyncio.sleep(0)
        yield await asyncio.to_thread(seen)

    async def consume() -> list[Any]:
        return [(item, seen()) async for item in run_with_omnius_context(record("A"), stream)]

    generator = run_with_omnius_context(record("A"), numbers)
    assert (next(generator), seen()) == ("A", None)
    assert generator.send("x") == ("x", "A")
    assert list(generator) == []
    assert asyncio.run(consume()) == [("A", None), ("A", None)]


def test_a_generator_that_is_left_early_cleans_up_for_its_own_run() -> None:
    cleaned: list[str | None] = []

    def numbers() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            cleaned.append(seen())

    async def stream() -> AsyncIterator[int]:
        for number in numbers():
            yield number

    async def leave() -> None:
        async for _ in run_with_omnius_context(record("B"), stream):
            break
        gc.collect()
        await asyncio.sleep(0)

    for _ in run_with_omnius_context(record("A"), numbers):
        break
    gc.collect()
    asyncio.run(leave())
    assert cleaned == ["A", "B"]


def test_coroutines_that_are_driven_by_hand_do_not_see_each_other() -> None:
    class Pause:
        def __await__(self) -> Generator[None, None, None]:
            yield

    async def work() -> list[str | None]:
        found = [seen()]
        await Pause()
        return [*found, seen()]

    both = [run_with_omnius_context(record(run_id), work) for run_id in "AB"]
    for coroutine in both:
        assert coroutine.send(None) is None
        assert seen() is None
    results = []
    for coroutine in reversed(both):
        with pytest.raises(StopIteration) as stop:
            coroutine.send(None)
        results.append(stop.value.value)
    assert results == [["B", "B"], ["A", "A"]]


def test_a_cancelled_coroutine_cleans_up_for_its_own_run() -> None:
    cleaned: list[str | None] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(seen())
            await asyncio.sleep(0)
            cleaned.append(seen())

    async def main() -> None:
        task = asyncio.ensure_future(run_with_omnius_context(record("A"), work))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        unfinished = run_with_omnius_context(record("B"), work)
        unfinished.send(None)
        with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
            unfinished.close()

    asyncio.run(main())
    assert cleaned[:3] == ["A", "A", "B"]


def test_what_is_returned_is_what_the_function_returns() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        assert run_with_omnius_context(record("A"), lambda: future) is future
        assert await run_with_omnius_context(record("A"), asyncio.sleep, 0, "late") == "late"
        assert inspect.iscoroutine(pending := run_with_omnius_context(record("A"), lambda: asyncio.sleep(0, seen())))
        assert await pending == "A"

    asyncio.run(main())
    with pytest.raises(ZeroDivisionError):
        run_with_omnius_context(record("A"), lambda: 1 // 0)
    assert seen() is None


def test_blocks_nest_and_are_used_once() -> None:
    block = omnius_context(record("A"))
    with block:
        with omnius_context(record("B")):
            assert seen() == "B"
        assert seen() == "A"
        with pytest.raises(RuntimeError, match="one for each"), block:
            pass
    with pytest.raises(RuntimeError, match="one for each"), block:
        pass
    assert seen() is None


def test_the_context_variable_is_a_real_one_and_holds_no_more_than_the_record() -> None:
    context = contextvars.copy_context()
    context.run(omnius_context(record("A")).__enter__)
    (variable,) = [variable for variable in context if variable.name == "OMNIUS_RUN_CONTEXT"]
    assert type(variable) is contextvars.ContextVar
    assert context.run(seen) == "A"
    assert seen() is None
    (entered,) = context[variable]
    assert sorted(entered.__slots__) == ["finished", "run"]


HERMES = """
import os, hermes_env_bridge as h
from hermes_env_bridge import OmniusRunContext, TelegramRunContext, run_with_omnius_context
{install}
from {module} import get_session_env, set_session_vars

chat = dict(chat_id=-1001234567890, session_key="k", tool_context="t", message_id=7, user_id=9, username="alice")
runs = [OmniusRunContext(run_id="r", surface=surface, telegram=telegram)
        for surface in {surfaces}
        for telegram in (None, *(TelegramRunContext(chat_type=kind, **chat) for kind in {kinds}))]
for run in runs:
    def inside():
        assert h.get_omnius_run_context() is run
        return h.run_context_of_session(run_id="r", tool_context="t", chat_type="group"), \\
            get_session_env("HERMES_SESSION_CHAT_ID", "none")
    back, chat_id = run_with_omnius_context(run, inside, bind_hermes=True)
    assert back == run, (back.to_json(), run.to_json())
    assert chat_id == ("-1001234567890" if run.telegram else "")
    assert get_session_env("HERMES_SESSION_CHAT_ID", "none") == "none"

set_session_vars(platform="discord", chat_id="5")
assert run_with_omnius_context(runs[0], get_session_env, "HERMES_SESSION_CHAT_ID") == "5"
try:
    h.run_context_of_session(run_id="r")
except ValueError as error:
    assert "surface" in str(error)
else:
    raise AssertionError
"""

LOCAL = ("tui", "telegram", "api", "background")


@pytest.mark.parametrize(
    ("install", "module", "kinds", "surfaces"),
    [
        ("", "hermes_env_bridge.session_context", ("supergroup", "channel"), (*LOCAL, "scheduler")),
        # Hermes 0.19.0 has no variable for the kind of chat and for a scheduled job.
        ("h.install()", "gateway.session_context", ("supergroup",), LOCAL),
        ("", "gateway.session_context", ("supergroup",), LOCAL),
    ],
)
def test_a_run_binds_the_session_that_corresponds_and_comes_back_from_it(
    install: str, module: str, kinds: tuple[str, ...], surfaces: tuple[str, ...]
) -> None:
    result = run_python(HERMES.format(install=install, module=module, kinds=kinds, surfaces=surfaces))
    assert result.returncode == 0, result.stderr


def test_no_run_corresponds_to_no_session() -> None:
    with pytest.raises(ValueError, match="surface"):
        contextvars.Context().run(run_context_of_session, run_id="r")


def test_what_the_package_exports_is_what_the_documents_name() -> None:
    for name in ("OmniusRunContext", "run_with_omnius_context", "bind", "spawn_detached"):
        assert name in hermes_env_bridge.__all__


def test_phase_0_a_shared_current_chat_leaks_and_the_context_does_not() -> None:
    """Phase 0: current behaviour is characterised. The same check fails for a variable that all runs share."""
    shared = {"chat": 0}

    async def is_stable(mine: int, current: Callable[[], object]) -> bool:
        for _ in range(10):
            await asyncio.sleep(0)
            if current() != mine:
                return False
        return True

    async def share(mine: int) -> bool:
        shared["chat"] = mine
        return await is_stable(mine, lambda: shared["chat"])

    def carried() -> object:
        telegram = get_telegram_run_context()
        return telegram and telegram.chat_id

    async def main() -> None:
        assert not all(await asyncio.gather(share(1), share(2)))
        assert all(await asyncio.gather(*(run_with_omnius_context(message(n), is_stable, n, carried) for n in (1, 2))))

    asyncio.run(main())


def test_phase_3_a_tool_takes_its_chat_from_the_run_or_else_from_whoever_made_it() -> None:
    """Phase 3: tools work when called through the current explicit path."""

    def reply(explicit: int | None = None) -> int | str | None:
        telegram = get_telegram_run_context()
        return explicit if telegram is None else telegram.chat_id

    assert reply(7) == 7
    assert run_with_omnius_context(message(1), reply, 7) == 1
    assert run_with_omnius_context(message(1), reply) == 1
    assert run_with_omnius_context(record("A"), reply, 7) == 7


def test_a_chain_of_tasks_that_each_enter_a_run_keeps_those_that_are_over_no_longer() -> None:
    depths = []

    async def link(left: int) -> None:
        with omnius_context(record(str(left))):
            (variable,) = [variable for variable in contextvars.copy_context() if variable.name == "OMNIUS_RUN_CONTEXT"]
            depths.append(len(variable.get()))
            following = asyncio.create_task(link_later(left - 1)) if left else None
        if following:
            await following

    async def link_later(left: int) -> None:
        await asyncio.sleep(0)
        await link(left)

    asyncio.run(link(50))
    assert max(depths) == 2


def test_what_is_thrown_into_a_generator_of_a_run_reaches_it() -> None:
    def plain() -> Iterator[str]:
        try:
            yield "begun"
        except ValueError:
            yield "rolled back"

    async def asynchronous() -> AsyncIterator[str]:
        try:
            yield "begun"
        except ValueError:
            yield "rolled back"

    run = OmniusRunContext(run_id="r", surface="tui")
    generator: Any = run_with_omnius_context(run, plain)
    assert (next(generator), generator.throw(ValueError())) == ("begun", "rolled back")

    async def main() -> None:
        generator: Any = run_with_omnius_context(run, asynchronous)
        assert (await anext(generator), await generator.athrow(ValueError())) == ("begun", "rolled back")

    asyncio.run(main())
