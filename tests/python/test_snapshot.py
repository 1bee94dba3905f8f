"""A session as data: in every form, in and out of a context, on every kind of session module."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import email.message
import gc
import json
import pickle
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from conftest import Session, run_python
from hypothesis import given
from hypothesis import strategies as st

from hermes_env_bridge import SESSION_HEADER, Snapshot, snapshot
from hermes_env_bridge._find import OWN

KEY, CHAT, CRON = "HERMES_SESSION_KEY", "HERMES_SESSION_CHAT_ID", "HERMES_CRON_AUTO_DELIVER_CHAT_ID"
DELIVERY, CWD = "HERMES_SESSION_ASYNC_DELIVERY", "HERMES_SESSION_CWD"

FORMS: dict[str, Callable[[Snapshot], Snapshot]] = {
    "mapping": lambda taken: Snapshot.from_mapping(taken.to_mapping()),
    "json": lambda taken: Snapshot.from_json(taken.to_json()),
    "header": lambda taken: Snapshot.from_header(taken.to_header()),
    "pickle": lambda taken: pickle.loads(pickle.dumps(taken)),
    "deepcopy": copy.deepcopy,
}
TEXTS = ("mapping", "json", "header")


@pytest.fixture
def here(sc: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    """The session module in use, with nothing bound."""
    monkeypatch.setitem(sys.modules, OWN, sc.module)
    return sc


def holds(sc: Session) -> dict[str, Any]:
    """What the variables hold, read past the snapshots."""
    variables = {**sc.module._VAR_MAP, DELIVERY: sc.module._SESSION_ASYNC_DELIVERY}
    return {name: value for name, var in variables.items() if (value := var.get()) is not sc.module._UNSET}


def test_where_no_session_module_was_imported_nothing_is_bound_and_none_is_imported() -> None:
    result = run_python(
        "import sys, hermes_env_bridge as b; assert b.snapshot() == b.Snapshot(); b.install(); print(b.snapshot())"
    )
    assert (result.stdout, result.stderr) == ("<Snapshot: nothing bound>\n", "")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_keeps_unset_cleared_and_set_apart_and_the_delivery(here: Session, form: str) -> None:
    here.bind(session_key="k", chat_id="", async_delivery=False)
    taken = FORMS[form](snapshot())
    assert [taken.state(name) for name in (KEY, CHAT, CRON, DELIVERY)] == ["set", "cleared", "unset", "set"]
    assert taken == snapshot()
    assert hash(taken) == hash(snapshot())
    bound = holds(here)
    here.bind(session_key="another")
    taken.restore()
    assert holds(here) == bound
    assert not here.async_delivery_supported()


def test_a_mapping_is_text_by_name(here: Session) -> None:
    assert snapshot().to_mapping() == {}
    here._VAR_MAP[KEY].set("k")
    here._VAR_MAP[CHAT].set("")
    here.declare_stateless_channel()
    assert snapshot().to_mapping() == {KEY: "k", CHAT: "", DELIVERY: "0"}


def test_a_restore_replaces_the_whole_session(here: Session) -> None:
    here._VAR_MAP[KEY].set("k")
    taken = snapshot()
    here.bind(chat_id="1", user_id="2", async_delivery=False)
    here._VAR_MAP[CRON].set("3")
    taken.restore()
    assert holds(here) == {KEY: "k"}
    Snapshot().restore()
    assert holds(here) == {}


def test_only_a_restore_that_binds_something_trips_the_latch(here: Session) -> None:
    Snapshot().restore()
    assert not here.session_context_engaged()
    Snapshot.from_mapping({CHAT: ""}).restore()
    assert here.session_context_engaged()


def test_whatever_is_bound_comes_back_or_is_refused_by_name(here: Session) -> None:
    texts = st.text(st.characters(codec=None), max_size=20)

    @given(st.dictionaries(st.sampled_from([*here._VAR_MAP]), texts), st.none() | st.booleans())
    def step(bound: dict[str, str], delivery: bool | None) -> None:
        here.reset_session_vars()
        for name, value in bound.items():
            here._VAR_MAP[name].set(value)
        if delivery is not None:
            here._SESSION_ASYNC_DELIVERY.set(delivery)
        taken, before = snapshot(), holds(here)
        surrogates = [name for name, value in bound.items() if not _is_utf8(value)]
        for form, through in FORMS.items():
            if surrogates and form in TEXTS:
                with pytest.raises(ValueError, match="lone surrogate") as refusal:
                    through(taken)
                assert any(str(refusal.value).startswith(f"{name} ") for name in surrogates)
            else:
                here.bind(session_key="another")
                through(taken).restore()
                assert holds(here) == before, form

    step()


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.parametrize("value", [7, None, b"bytes", ["secret"], True, 0])
def test_what_is_no_text_stays_in_the_process_and_is_refused_by_name_elsewhere(here: Session, value: Any) -> None:
    here.bind(chat_id=value)
    taken = snapshot()
    assert taken.state(CHAT) == "set"
    for form in TEXTS:
        with pytest.raises(TypeError, match=f"^{CHAT} holds {type(value).__name__}, ") as refusal:
            FORMS[form](taken)
        assert "secret" not in str(refusal.value)
    here.bind(chat_id="other")
    FORMS["pickle"](taken).restore()
    assert here.get_session_env(CHAT) == value
    taken.restore()
    assert here.get_session_env(CHAT) is value


def test_a_statement_on_delivery_that_is_neither_true_nor_false_is_refused_by_name(here: Session) -> None:
    here._SESSION_ASYNC_DELIVERY.set("0")  # true, as Hermes reads it
    with pytest.raises(TypeError, match=f"^{DELIVERY} holds str, .* True or False"):
        snapshot().to_mapping()


def test_a_text_of_another_class_is_text(here: Session) -> None:
    class Platform(str):
        __slots__ = ()

    here.bind(platform=Platform("telegram"))
    assert type(snapshot().to_mapping()["HERMES_SESSION_PLATFORM"]) is str


@pytest.mark.parametrize(
    ("read", "given", "error", "words"),
    [
        (Snapshot.from_json, "{", ValueError, "not the JSON of a snapshot"),
        (Snapshot.from_json, "[]", ValueError, "not the JSON of a snapshot"),
        (Snapshot.from_json, '{"session":{}}', ValueError, "version"),
        (Snapshot.from_json, '{"version":2,"session":{}}', ValueError, "version 1"),
        (Snapshot.from_json, '{"version":1,"session":{"A":"secret","A":""}}', ValueError, '"A" twice'),
        (Snapshot.from_json, '{"version":1,"session":{"A":["secret"]}}', ValueError, '"A" is no text'),
        (Snapshot.from_json, '{"version":1,"session":{},"async_delivery":"secret"}', ValueError, "neither true nor"),
        (Snapshot.from_json, '{"version":1,"session":{"A":"secret\\udcff"}}', ValueError, '"A" is no text'),
        (Snapshot.from_json, '{"version":1,"session":{}}' + " " * 65536, ValueError, "65562 bytes"),
        (Snapshot.from_json, '{"version":1,"session":{},"x":' + "[" * 16 + "]" * 16 + "}", ValueError, "17 deep"),
        (Snapshot.from_json, "[" * 60000, ValueError, "not the JSON of a snapshot"),
        (Snapshot.from_json, "secret\udcff", ValueError, "lone surrogate"),
        (Snapshot.from_json, b"{}", TypeError, "bytes"),
        (Snapshot.from_header, "secret", ValueError, "NAME=VALUE"),
        (Snapshot.from_header, "A=secret%", ValueError, '"A"'),
        (Snapshot.from_header, "A=%FF", ValueError, '"A"'),
        (Snapshot.from_header, "A=secret&A=", ValueError, '"A" twice'),
        (Snapshot.from_header, f"{DELIVERY}=secret", ValueError, DELIVERY),
        (Snapshot.from_header, "A=" + "x" * 8192, ValueError, "8194 bytes"),
        (Snapshot.from_mapping, {"A": 1}, TypeError, "^A holds int"),
        (Snapshot.from_mapping, {1: "A"}, TypeError, "a variable's name is a str, not int"),
        (Snapshot.from_mapping, {DELIVERY: "yes"}, ValueError, DELIVERY),
        (Snapshot.from_mapping, {DELIVERY: True}, TypeError, DELIVERY),
        (Snapshot.from_mapping, [("A", "secret")], TypeError, "Mapping"),
    ],
)
def test_what_is_no_snapshot_is_refused_without_its_values(
    read: Callable[[Any], Snapshot], given: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as refusal:
        read(given)
    assert "secret" not in str(refusal.value)


def test_limits_are_the_callers_to_set() -> None:
    large = '{"version":1,"session":{},"x":' + "[" * 20 + "]" * 20 + "}" + " " * 65536
    assert Snapshot.from_json(large, max_bytes=100_000, max_depth=21).unknown_names() == ("x",)
    with pytest.raises(ValueError, match="20 bytes, and the limit is 10"):
        Snapshot.from_json(" " * 20, max_bytes=10)
    with pytest.raises(ValueError, match="max_depth is a limit"):
        Snapshot.from_json("{}", max_depth=-1)


def test_a_snapshot_never_changes(here: Session) -> None:
    here.bind(session_key="k")
    taken = snapshot()
    taken.to_mapping()[KEY] = "other"
    here.bind(session_key="other")
    assert taken.to_mapping()[KEY] == "k"
    with pytest.raises(dataclasses.FrozenInstanceError):
        taken._fields = ""  # type: ignore[misc]
    assert len({taken, pickle.loads(pickle.dumps(taken)), snapshot()}) == 2


def test_no_value_shows_where_a_snapshot_is_printed(here: Session) -> None:
    here.bind(session_key="secret", user_name=["secret"], async_delivery=True)
    text = repr(snapshot()) + str(snapshot()) + "".join(map(str, snapshot().diff(Snapshot())))
    assert "secret" not in text
    assert f"{KEY} set, " in text
    assert f"{CHAT} cleared, " in text
    assert f"{KEY}: set -> unset" in text


def test_a_difference_names_the_states(here: Session) -> None:
    here._VAR_MAP[KEY].set("1")
    before = snapshot()
    here._VAR_MAP[KEY].set("2")
    here._VAR_MAP[CHAT].set("")
    here.declare_stateless_channel()
    changes = [str(change) for change in before.diff(snapshot())]
    assert changes == [f"{DELIVERY}: unset -> set", f"{CHAT}: unset -> cleared", f"{KEY}: set -> set"]
    assert before.diff(before) == ()


def test_a_run_has_the_session_and_leaves_nothing_behind(here: Session) -> None:
    taken = Snapshot.from_mapping({KEY: "job"})
    here.bind(session_key="mine")
    before = holds(here)

    def job(name: str, *, default: str) -> tuple[str, str]:
        read = here.get_session_env(name, default)
        here.bind(session_key="left behind")
        return read, here.get_session_env(KEY)

    assert taken.run(job, KEY, default="none") == ("job", "left behind")
    assert holds(here) == before
    seen: list[str] = []
    thread = threading.Thread(target=taken.run, args=(lambda: seen.append(here.get_session_env(KEY)),))
    thread.start()
    thread.join()
    assert seen == ["job"]


def test_a_run_refuses_code_that_would_run_outside_of_it(here: Session) -> None:
    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    async def stream() -> AsyncIterator[int]:
        yield 1

    class Request:
        def __await__(self) -> Iterator[None]:
            return coroutine().__await__()

    refused: list[tuple[Callable[[], object], str]] = [
        (coroutine, "coroutine"),
        (generator, "generator"),
        (stream, "async_generator"),
        (Request, "Request"),
    ]
    for function, kind in refused:
        with pytest.raises(TypeError, match=f"returned a {kind}, .*snapshot.bound"):
            Snapshot().run(function)


def test_headers_that_would_hide_the_session_are_refused() -> None:
    hidden: list[Any] = [[("hermes-session", KEY + "=x")], [["a", "b"]], {b"Hermes-Session": b"x"}]
    for headers in hidden:
        with pytest.raises(TypeError, match=r"bytes here|these are pairs"):
            Snapshot.extract(headers)
    others: Any = {b"accept": b"*/*", 5: "x"}
    assert Snapshot.extract(others) is None


def test_a_task_a_timer_and_a_callback_take_the_snapshots_context(here: Session) -> None:
    def snapshot_of(key: str) -> Snapshot:
        return Snapshot.from_mapping({KEY: key})

    async def main() -> list[str]:
        async def read() -> str:
            await asyncio.sleep(0)
            return here.get_session_env(KEY)  # type: ignore[no-any-return]

        here.bind(session_key="mine")
        loop = asyncio.get_running_loop()
        called: asyncio.Future[str] = loop.create_future()
        loop.call_soon(lambda: called.set_result(here.get_session_env(KEY)), context=snapshot_of("timer").context())
        task = loop.create_task(read(), context=snapshot_of("task").context())
        return [await task, await called, await read()]

    assert asyncio.run(main()) == ["task", "timer", "mine"]


def test_a_with_statement_puts_back_what_was_there(here: Session) -> None:
    here._VAR_MAP[CHAT].set("")
    here._VAR_MAP[KEY].set("mine")
    before = holds(here)
    with contextlib.suppress(ZeroDivisionError), Snapshot.from_mapping({KEY: "job", DELIVERY: "0"}).bound():
        assert holds(here) == {KEY: "job", DELIVERY: False}
        here.bind(session_key="left behind")
        raise ZeroDivisionError
    assert holds(here) == before


def test_sessions_that_are_bound_in_two_tasks_at_once_are_each_ones_own(here: Session) -> None:
    async def job(key: str) -> set[str]:
        seen = set()
        with Snapshot.from_mapping({KEY: key}).bound():
            for _ in range(20):
                await asyncio.sleep(0)
                seen.add(here.get_session_env(KEY))
        seen.add(here.get_session_env(KEY, "none"))
        return seen

    async def main() -> list[set[str]]:
        return await asyncio.gather(*(job(str(number)) for number in range(20)))

    assert asyncio.run(main()) == [{str(number), "none"} for number in range(20)]


def test_a_generator_that_is_left_early_raises_nothing_and_spoils_nobodys_session(here: Session) -> None:
    """P10."""

    async def stream() -> AsyncGenerator[int]:
        with Snapshot.from_mapping({KEY: "stream"}).bound():
            yield 1
            yield 2

    async def main() -> tuple[str, str, list[object]]:
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        here._VAR_MAP[KEY].set("outer")
        async with contextlib.aclosing(stream()) as closing:
            async for _ in closing:
                break
        closed = here.get_session_env(KEY)
        async for _ in stream():
            break
        gc.collect()
        await asyncio.sleep(0)
        return closed, here.get_session_env(KEY), problems

    # As for every variable: what is set before a yield is the consumer's too, unless the generator is closed in time.
    assert asyncio.run(main()) == ("outer", "stream", [])


NEWER = '{"version":1,"session":{"HERMES_NEW":"n","HERMES_SESSION_KEY":"k"},"later":[1]}'


def test_names_of_a_newer_hermes_pass_through_an_older_one(here: Session) -> None:
    newer = Snapshot.from_json(NEWER)
    assert newer.unknown_names() == ("HERMES_NEW", "later")
    assert json.loads(newer.to_json()) == json.loads(NEWER)
    newer.restore()
    assert holds(here) == {KEY: "k"}
    assert snapshot() == newer
    with Snapshot().bound():
        assert snapshot() == Snapshot()
    assert snapshot() == newer


def test_names_of_a_newer_hermes_do_not_pass_into_another_session(here: Session) -> None:
    Snapshot.from_json(NEWER).restore()
    here._VAR_MAP[KEY].set("another")
    assert snapshot().to_mapping() == {KEY: "another"}


def test_names_of_a_newer_hermes_are_refused_by_choice_before_anything_is_bound(here: Session) -> None:
    here._VAR_MAP[KEY].set("mine")
    with pytest.raises(LookupError, match="has no HERMES_NEW, later; ") as refusal:
        Snapshot.from_json(NEWER).restore(unknown="refuse")
    assert holds(here) == {KEY: "mine"}
    assert here.module.__name__ in str(refusal.value)
    Snapshot.from_mapping({KEY: "k"}).restore(unknown="refuse")
    with pytest.raises(ValueError, match="'keep' or 'refuse', not 'drop'"):
        Snapshot().restore(unknown="drop")  # type: ignore[arg-type]


def test_a_worker_masks_its_environment_and_the_session_stays_as_it_was(
    here: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (KEY, CHAT, CRON):
        monkeypatch.setenv(name, "the worker's")
    job = Snapshot.from_mapping({KEY: "job", DELIVERY: "0"})
    with job.bound(masking=[CHAT, CRON, "PATH"]):
        assert [here.get_session_env(name, "none") for name in (KEY, CHAT, CRON)] == ["job", "", ""]
        assert snapshot() == job
        with Snapshot.from_mapping({KEY: "inner"}).bound():
            assert here.get_session_env(CHAT) == "the worker's"
        assert here.get_session_env(CHAT, "none") == ""
    assert here.get_session_env(CHAT, "none") == "the worker's"


def test_a_header_is_put_and_found_in_any_case_and_stands_once() -> None:
    taken = Snapshot.from_mapping({KEY: "Zoë & co: 100 %\n", CHAT: ""})
    headers: dict[Any, Any] = {"Hermes-Session": "old", "HERMES-SESSION": "older", "id": 1, 2: None}
    taken.inject(headers)
    assert headers == {"id": 1, 2: None, SESSION_HEADER: taken.to_header()}
    assert headers[SESSION_HEADER].isascii()
    assert headers[SESSION_HEADER].isprintable()
    assert Snapshot.extract(headers) == taken
    assert Snapshot.extract({"Hermes-SESSION": taken.to_header()}) == taken
    assert Snapshot.extract({}) is None
    assert Snapshot.extract({SESSION_HEADER: ""}) == Snapshot()


def test_a_header_that_is_there_twice_is_refused() -> None:
    message = email.message.Message()
    Snapshot().inject(message)  # type: ignore[arg-type]
    assert Snapshot.extract(message) == Snapshot()  # type: ignore[arg-type]
    message["Hermes-Session"] = "A=1"
    for carrier in (message, {"hermes-session": "", "Hermes-Session": ""}):
        with pytest.raises(ValueError, match="more than once"):
            Snapshot.extract(carrier)  # type: ignore[arg-type]


def test_a_header_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^hermes-session holds bytes"):
        Snapshot.extract({SESSION_HEADER: b"A=1"})


def test_a_session_that_is_too_large_for_a_header_leaves_the_headers_as_they_were() -> None:
    headers = {SESSION_HEADER: "A=1"}
    with pytest.raises(ValueError, match="limit is 8192"):
        Snapshot.from_mapping({KEY: "x" * 8192}).inject(headers)
    assert headers == {SESSION_HEADER: "A=1"}


def test_the_working_directory_goes_along_where_hermes_pins_one() -> None:
    result = run_python(
        """
import sys, tempfile, hermes_env_bridge as bridge
sc = bridge.install()
name = "HERMES_SESSION_CWD"
away = bridge.Snapshot.from_mapping({name: tempfile.gettempdir()})
assert away.unknown_names() == () and "agent.runtime_cwd" in sys.modules
from agent.runtime_cwd import resolve_agent_cwd as cwd
here = cwd()
with away.bound():
    assert str(cwd()) == tempfile.gettempdir() and bridge.snapshot() == away
assert cwd() == here and bridge.snapshot() == bridge.Snapshot()
sc.set_session_vars(cwd=tempfile.gettempdir())
taken = bridge.snapshot()
sc.clear_session_vars([])
assert bridge.snapshot().state(name) == "unset" and cwd() == here
assert str(bridge.Snapshot.from_header(taken.to_header()).run(cwd)) == tempfile.gettempdir()
"""
    )
    assert result.returncode == 0, result.stderr
