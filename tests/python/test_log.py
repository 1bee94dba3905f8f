"""The session's fields in the records of the real ``logging`` and the real ``structlog``."""

from __future__ import annotations

import asyncio
import inspect
import logging
import logging.handlers
import queue
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import structlog
from conftest import MODULES, fresh, run_python

from hermes_env_bridge.log import NAMES, SessionFilter, session_processor

ALL = {"platform": "telegram", "chat_id": "42", "user_id": "u", "session_key": "k", "session_id": "s"}


@pytest.fixture(params=["own", "adapted", "original"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A session module, in an environment that answers a read of each of its names."""
    loaded = MODULES[request.param]()
    for name in loaded._VAR_MAP:
        monkeypatch.setenv(name, "from the environment")
    return loaded


class Records(logging.Handler):
    """Keeps every record."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def fields(self) -> list[dict[str, Any]]:
        """What the records have of fields with the default prefix, without it."""
        return [
            {k.removeprefix("hermes_"): v for k, v in vars(record).items() if k.startswith("hermes_")}
            for record in self.records
        ]


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def logger(records: Records) -> logging.Logger:
    """A logger whose records, of all levels, go to ``records`` only."""
    logger = logging.Logger("test_log", logging.DEBUG)
    logger.addHandler(records)
    return logger


def one_record(filter_: SessionFilter, **extra: Any) -> dict[str, Any]:
    """The attributes that the filter adds to a record made in this context."""
    record = logging.makeLogRecord({"msg": "x", **extra})
    before = dict(vars(record))
    assert filter_.filter(record) is True
    assert {key: vars(record)[key] for key in before} == before, "an attribute was changed"
    return {key: value for key, value in vars(record).items() if key not in before}


def one_event(processor: Any, **event: Any) -> dict[str, Any]:
    """The keys that the processor adds to an event of this context."""
    made = {"event": "x", **event}
    result = processor(None, "info", made)
    assert result is made
    return {key: value for key, value in result.items() if key not in {"event", *event}}


Added = Callable[..., dict[str, Any]]


@pytest.fixture(params=["filter", "processor"])
def added(request: pytest.FixtureRequest) -> Added:
    """What is added here, by the one or the other, set up with the arguments given."""
    if request.param == "filter":
        return lambda *args, **options: one_record(SessionFilter(*args, **options))
    return lambda *args, **options: one_event(session_processor(*args, **options))


def test_a_bound_session_is_added(module: ModuleType, added: Added) -> None:
    def check() -> dict[str, Any]:
        module.set_session_vars(**ALL)
        return added(module=module)

    assert fresh(check) == {f"hermes_{name}": value for name, value in ALL.items()}


def test_unset_and_cleared_are_not_added_whatever_the_environment_says(module: ModuleType, added: Added) -> None:
    def check() -> list[dict[str, Any]]:
        seen = [added(module=module)]
        module.set_session_vars(chat_id="42")
        seen.append(added(module=module))
        module.clear_session_vars([])
        seen.append(added(module=module))
        module.set_session_vars(**ALL)
        module.reset_session_vars()
        return [*seen, added(module=module)]

    assert fresh(check) == [{}, {"hermes_chat_id": "42"}, {}, {}]


def test_fields_that_are_not_bound_are_filled_with_the_default(module: ModuleType, added: Added) -> None:
    def check() -> dict[str, Any]:
        module.set_session_vars(chat_id="42")
        return added(module=module, defaults="-", prefix="")

    assert fresh(check) == {**dict.fromkeys(NAMES, "-"), "chat_id": "42"}
    assert added(defaults="", prefix="") == dict.fromkeys(NAMES, "")


def test_names_of_the_environment_and_keywords_with_a_prefix(module: ModuleType, added: Added) -> None:
    names = iter(["HERMES_SESSION_CHAT_ID", "thread_id", "ui_session_id", "HERMES_CRON_AUTO_DELIVER_CHAT_ID", "nobody"])

    def check() -> dict[str, Any]:
        module.set_session_vars(chat_id="1", thread_id="2", ui_session_id="3")
        module._VAR_MAP["HERMES_CRON_AUTO_DELIVER_CHAT_ID"].set("4")
        return added(names, prefix="s.", module=module)

    assert fresh(check) == {
        "s.HERMES_SESSION_CHAT_ID": "1",
        "s.thread_id": "2",
        "s.ui_session_id": "3",
        "s.HERMES_CRON_AUTO_DELIVER_CHAT_ID": "4",
    }


def test_every_keyword_finds_the_variable_that_a_bind_sets(module: ModuleType, added: Added) -> None:
    keywords = [k for k in inspect.signature(module.set_session_vars).parameters if k not in ("cwd", "async_delivery")]
    values = {keyword: object() for keyword in keywords}

    def check() -> dict[str, Any]:
        module.set_session_vars(**values)
        return added(keywords, prefix="", module=module)

    assert fresh(check) == values


@pytest.mark.parametrize("value", [None, 0, False, 1.5, b"", [], {}, object()], ids=repr)
def test_values_of_any_type_are_added_as_they_are(module: ModuleType, added: Added, value: Any) -> None:
    def check() -> Any:
        module._VAR_MAP["HERMES_SESSION_CHAT_ID"].set(value)
        return added(module=module)

    assert list(fresh(check)) == ["hermes_chat_id"]
    assert fresh(check)["hermes_chat_id"] is value


def test_what_the_record_or_event_says_itself_is_left(module: ModuleType) -> None:
    def check() -> tuple[dict[str, Any], dict[str, Any]]:
        module.set_session_vars(chat_id="42", user_id="u")
        return (
            one_record(SessionFilter(module=module, prefix="", defaults="-"), chat_id="explicit"),
            one_event(session_processor(["chat_id", "user_id"], module=module, prefix=""), chat_id="explicit"),
        )

    of_record, of_event = fresh(check)
    assert of_record == {"platform": "-", "user_id": "u", "session_key": "-", "session_id": "-"}
    assert of_event == {"user_id": "u"}


def test_a_text_for_the_names_is_refused() -> None:
    with pytest.raises(TypeError, match="names is 'platform'"):
        SessionFilter("platform")
    with pytest.raises(TypeError, match="names is 'platform'"):
        session_processor("platform")


def fork(names: dict[Any, Any]) -> Any:
    return SimpleNamespace(_VAR_MAP=names)


def test_names_of_a_fork_with_another_prefix_and_another_sentinel(added: Added) -> None:
    platform, chat = ContextVar[Any]("p", default="(never)"), ContextVar[Any]("c")
    deliver, other = ContextVar[Any]("d"), ContextVar[Any]("o")
    variables = {
        "MY_BOT_SESSION_PLATFORM": platform,
        "MY_BOT_CHAT_ID": chat,
        "MY_BOT_DELIVER_USER_ID": deliver,
        "MY_BOT_SESSION_KEY": other,
    }

    def check() -> list[dict[str, Any]]:
        seen = [added(module=fork(variables), prefix="")]
        for variable, value in ((platform, "p"), (chat, "c"), (deliver, "d"), (other, "k")):
            variable.set(value)
        seen += [added(module=fork(each), prefix="") for each in (variables, {**variables, "TZ": deliver})]
        platform.set("(never)")
        return [*seen, added(["platform"], module=fork(variables))]

    # The delivery's user is not the session's.
    bound = {"platform": "p", "chat_id": "c", "session_key": "k"}
    assert fresh(check) == [{}, bound, bound, {}]


class Failing:
    def get(self, *_default: Any) -> Any:
        raise RuntimeError("no value")


@pytest.mark.parametrize(
    "broken",
    [
        SimpleNamespace(),
        SimpleNamespace(_VAR_MAP=None),
        SimpleNamespace(_VAR_MAP=[("HERMES_SESSION_PLATFORM", 1)]),
        fork({"HERMES_SESSION_PLATFORM": Failing(), 3: Failing(), "": None}),
        fork({"HERMES_SESSION_PLATFORM": 7, "HERMES_SESSION_CHAT_ID": None}),
    ],
    ids=["no map", "None", "a list", "a variable that raises", "no variables"],
)
def test_a_broken_module_adds_nothing_and_raises_nothing(broken: Any, added: Added) -> None:
    assert added(module=broken) == {}
    assert added(["platform"], module=broken, defaults="-") == {"hermes_platform": "-"}


def test_a_variable_that_logs_when_it_is_read_does_not_come_back(records: Records, logger: logging.Logger) -> None:
    class Audited:
        def get(self, *_default: Any) -> str:
            logger.info("read")
            return "telegram"

    records.addFilter(SessionFilter(module=fork({"HERMES_SESSION_PLATFORM": Audited()})))
    logger.info("x")
    assert {record.getMessage() for record in records.records} == {"read", "x"}
    assert records.fields()[-1] == {"platform": "telegram"}
    assert all(fields == {} for fields in records.fields()[:-1])


def test_tasks_threads_and_executors(module: ModuleType, records: Records, logger: logging.Logger) -> None:
    records.addFilter(SessionFilter(["chat_id"], module=module))

    async def session(chat: str) -> None:
        module.set_session_vars(chat_id=chat)
        await asyncio.sleep(0)
        logger.info("task %s", chat)
        await asyncio.to_thread(logger.info, "to_thread %s", chat)
        await asyncio.get_running_loop().run_in_executor(None, logger.info, "bare %s", chat)
        thread = threading.Thread(target=logger.info, args=("bare %s", chat))
        thread.start()
        thread.join()
        module.clear_session_vars([])
        logger.info("cleared %s", chat)

    async def main() -> None:
        await asyncio.gather(*(session(str(number)) for number in range(20)))
        logger.info("outside")

    fresh(asyncio.run, main())
    assert len(records.records) == 101
    for record, fields in zip(records.records, records.fields(), strict=True):
        kind, _, chat = record.getMessage().partition(" ")
        assert fields == ({"chat_id": chat} if kind in ("task", "to_thread") else {})


def test_a_queue_handler_takes_the_fields_along(module: ModuleType, records: Records, logger: logging.Logger) -> None:
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(made)
    handler.addFilter(SessionFilter(["chat_id"], module=module, defaults="-"))
    # A filter on both ends: the listener's thread has no session, and must not say so.
    records.addFilter(SessionFilter(["chat_id"], module=module, defaults="late"))
    logger.handlers[:] = [handler]
    listener = logging.handlers.QueueListener(made, records)
    listener.start()

    def bound_and_logged(chat: str) -> None:
        module.set_session_vars(chat_id=chat)
        logger.info(chat)

    try:
        for chat in ("1", "2"):
            fresh(bound_and_logged, chat)
        fresh(logger.info, "outside")
    finally:
        listener.stop()
    assert [fields["chat_id"] for fields in records.fields()] == ["1", "2", "-"]


def test_a_formatter_that_names_a_field(module: ModuleType) -> None:
    formatter = logging.Formatter("%(hermes_chat_id)s %(message)s")

    def line(**options: Any) -> str:
        record = logging.makeLogRecord({"msg": "x"})
        SessionFilter(module=module, **options).filter(record)
        return formatter.format(record)

    assert fresh(line, defaults="-") == "- x"
    assert fresh(lambda: (module.set_session_vars(chat_id="42"), line())[1]) == "42 x"
    with pytest.raises((KeyError, ValueError)):
        fresh(line)


def test_structlog(module: ModuleType) -> None:
    capture = structlog.testing.LogCapture()
    log = structlog.wrap_logger(None, processors=[session_processor(["chat_id"], module=module, prefix=""), capture])

    async def session(chat: str) -> None:
        module.set_session_vars(chat_id=chat)
        await asyncio.sleep(0)
        log.info("task", expected=chat)
        await asyncio.to_thread(log.info, "to_thread", expected=chat)
        await asyncio.get_running_loop().run_in_executor(None, log.info, "bare")

    async def main() -> None:
        await asyncio.gather(*(session(str(number)) for number in range(10)))
        log.info("outside")

    fresh(asyncio.run, main())
    assert len(capture.entries) == 31
    assert all(entry.get("chat_id") == entry.get("expected") for entry in capture.entries)


def test_structlogs_own_asynchronous_methods_keep_the_session(module: ModuleType) -> None:
    capture = structlog.testing.LogCapture()
    log = structlog.wrap_logger(
        structlog.PrintLogger(),
        processors=[session_processor(["chat_id"], module=module), capture],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )

    async def main() -> None:
        module.set_session_vars(chat_id="42")
        await log.ainfo("x")

    fresh(asyncio.run, main())
    assert [entry["hermes_chat_id"] for entry in capture.entries] == ["42"]


def test_structlog_over_logging(module: ModuleType, records: Records, logger: logging.Logger) -> None:
    records.addFilter(SessionFilter(["chat_id"], module=module))
    log = structlog.wrap_logger(
        logger,
        processors=[session_processor(["user_id"], module=module), structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    fresh(lambda: (module.set_session_vars(chat_id="42", user_id="u"), log.info("x")))
    assert records.fields() == [{"user_id": "u", "chat_id": "42"}]


SET_UP = """
import logging, logging.config, sys
import hermes_env_bridge
from hermes_env_bridge.log import SessionFilter, session_processor
logging.config.dictConfig({
    "version": 1,
    "filters": {"session": {"()": "hermes_env_bridge.log.SessionFilter", "names": ["chat_id"], "defaults": "-"}},
    "formatters": {"plain": {"format": "%(hermes_chat_id)s %(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout",
                         "filters": ["session"], "formatter": "plain"}},
    "root": {"handlers": ["out"], "level": "INFO"},
})
process = session_processor(["chat_id"])
def both(text):
    logging.info(text)
    print(process(None, "info", {}))
both("before")
assert "hermes_env_bridge.session_context" not in sys.modules
"""


def printed(code: str) -> list[str]:
    result = run_python(SET_UP + code)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_logging_that_is_set_up_first_sees_the_module_that_is_installed_later() -> None:
    assert printed("""
sc = hermes_env_bridge.install()
sc.set_session_vars(chat_id="42")
both("after")
hermes_env_bridge.uninstall()
both("without")
""") == ["- before", "{}", "42 after", "{'hermes_chat_id': '42'}", "- without", "{}"]


def test_without_an_install_the_packages_own_module_is_in_use_once_it_is_imported() -> None:
    assert printed("""
from hermes_env_bridge import session_context
session_context.set_session_vars(chat_id="42")
both("after")
""") == ["- before", "{}", "42 after", "{'hermes_chat_id': '42'}"]
