"""The session in threads: what carries it there, and what takes it away again."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import json
import logging.handlers
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
from conftest import Session, fresh, run_python

from hermes_env_bridge import _carry, session_context
from hermes_env_bridge.threads import GROUPS, ContextExecutor, Timer, bind, to_thread, unset, unset_after

KEY = "HERMES_SESSION_KEY"
INHERITS = bool(getattr(sys.flags, "thread_inherit_context", 0))
pytestmark = pytest.mark.usefixtures("in_use")
PLATFORM = "HERMES_CRON_AUTO_DELIVER_PLATFORM"


@pytest.fixture
def carrying() -> Iterator[None]:
    _carry.carry()
    yield
    _carry.stop()


def key() -> str:
    return session_context.get_session_env(KEY, "nobody")


def set_key(value: str) -> None:
    session_context.set_session_vars(session_key=value)


def as_session(value: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call *function* in a context of its own in which *value* is bound."""

    def turn() -> Any:
        set_key(value)
        return function(*args)

    return fresh(turn)


def in_a_thread(function: Callable[[], Any], kind: type[threading.Thread] = threading.Thread) -> Any:
    seen: list[Any] = []
    thread = kind(target=lambda: seen.append(function()))
    thread.start()
    thread.join()
    return seen[0]


# bind


def test_a_bound_callback_has_the_session_in_which_it_was_bound_whoever_calls_it() -> None:
    bound = as_session("A", bind, key)
    assert (key(), bound()) == ("nobody", "A")
    assert as_session("B", lambda: (key(), bound())) == ("B", "A")
    assert in_a_thread(bound) == "A"


def test_calls_of_a_bound_function_run_side_by_side_and_within_each_other() -> None:
    barrier = threading.Barrier(8)

    def meet(depth: int = 0) -> str:
        if depth:
            return str(bound(depth - 1))
        barrier.wait(10)
        return key()

    bound = as_session("A", bind, meet)
    with ThreadPoolExecutor(8) as pool:
        assert [f.result() for f in [pool.submit(bound, depth % 3) for depth in range(8)]] == ["A"] * 8


def test_what_a_bound_function_binds_comes_back_to_nobody() -> None:
    def rebind() -> str:
        before = key()
        set_key("B")
        return before

    bound = as_session("A", bind, rebind)
    assert (bound(), bound(), key()) == ("A", "A", "nobody")


def test_a_bound_function_has_the_names_the_signature_and_the_exceptions_of_the_function() -> None:
    def handler(chat: str, *, silent: bool = False) -> str:
        """Handle."""
        raise LookupError(chat)

    bound = bind(handler)
    assert (bound.__name__, bound.__doc__) == ("handler", "Handle.")
    assert inspect.signature(bound) == inspect.signature(handler)
    with pytest.raises(LookupError, match="42"):
        bound("42", silent=True)
    assert bind(functools.partial(key))() == key()


def test_a_bound_coroutine_function_runs_in_that_session_until_it_returns() -> None:
    async def read_twice() -> tuple[str, str]:
        before = key()
        await asyncio.sleep(0)
        return before, key()

    bound = as_session("A", bind, read_twice)

    async def main() -> list[Any]:
        set_key("B")
        return [*await asyncio.gather(bound(), read_twice(), bound()), key()]

    assert fresh(asyncio.run, main()) == [("A", "A"), ("B", "B"), ("A", "A"), "B"]


def test_cancelling_a_bound_coroutine_cancels_what_it_runs() -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(key())

    async def main() -> None:
        task = asyncio.create_task(as_session("A", bind, wait)())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["A"]


def test_a_generator_function_is_refused_since_its_consumer_runs_it() -> None:
    def lines() -> Iterator[str]:
        yield key()

    async def chunks() -> Any:
        yield key()

    for function in (lines, chunks):
        with pytest.raises(TypeError, match="consumer"):
            bind(function)


def test_what_a_bound_function_returns_unrun_is_refused_since_it_would_run_elsewhere() -> None:
    async def read() -> str:
        return key()

    def lines() -> Iterator[str]:
        yield key()

    async def chunks() -> Any:
        yield key()

    class Request:
        def __await__(self) -> Any:
            return read().__await__()

    for function in (lambda: read(), lambda: lines(), lambda: chunks(), Request):
        with pytest.raises(TypeError, match="would run without the session; bind the function"):
            as_session("A", bind, function)()


def test_a_future_that_a_bound_function_returns_has_its_context_already() -> None:
    async def read() -> str:
        return key()

    async def main() -> str:
        made: asyncio.Future[str] = as_session("A", bind, lambda: asyncio.ensure_future(read()))()
        return await made

    assert fresh(asyncio.run, main()) == "A"


# Executors, timers, to_thread


def test_p03_to_thread_and_the_executor_carry_the_session_into_a_thread() -> None:
    async def turn() -> list[str]:
        set_key("A")
        loop = asyncio.get_running_loop()
        with ContextExecutor(1) as pool, ThreadPoolExecutor(1) as bare:
            return [
                await to_thread(key),
                await to_thread(key, executor=bare),
                await loop.run_in_executor(pool, key),
                await loop.run_in_executor(bare, key),
                await loop.run_in_executor(bare, bind(key)),
            ]

    # The bare pool's thread was started by to_thread, and so starts empty even where threads inherit.
    assert fresh(asyncio.run, turn()) == ["A", "A", "A", "nobody", "A"]


def test_to_thread_hands_on_arguments_results_and_exceptions() -> None:
    async def main() -> None:
        assert await to_thread(dict, [("a", 1)], b=2) == {"a": 1, "b": 2}
        with pytest.raises(ZeroDivisionError):
            await to_thread(lambda: 1 // 0)

    asyncio.run(main())


def test_a_context_executor_serves_as_a_loops_default_and_maps() -> None:
    async def turn() -> str:
        set_key("A")
        asyncio.get_running_loop().set_default_executor(ContextExecutor(1))
        return await asyncio.get_running_loop().run_in_executor(None, key)

    assert fresh(asyncio.run, turn()) == "A"
    with ContextExecutor(2) as pool:
        assert as_session("B", lambda: list(pool.map(lambda _: key(), range(4)))) == ["B"] * 4


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ContextExecutor], ids=lambda kind: kind.__name__)
def test_p24_a_pooled_thread_keeps_nothing_of_the_job_that_created_or_dirtied_it(
    kind: type[ThreadPoolExecutor],
) -> None:
    def turn() -> tuple[str, str, str]:
        set_key("creator")
        with kind(1) as pool:
            created = pool.submit(key).result()
            pool.submit(set_key, "job").result()
            return created, fresh(pool.submit, key).result(), as_session("B", pool.submit, key).result()

    # A bare pool shows why.
    bare = ("creator" if INHERITS else "nobody", "job", "job")
    assert fresh(turn) == (("creator", "nobody", "B") if kind is ContextExecutor else bare)


def test_a_timer_has_the_session_in_which_it_was_started() -> None:
    seen: list[str] = []

    def turn() -> threading.Timer:
        timer = Timer(0.001, lambda: seen.append(key()))
        set_key("A")
        timer.start()
        set_key("B")
        return timer

    fresh(turn).join()
    assert seen == ["A"]


def test_a_cancelled_timer_calls_nothing() -> None:
    seen: list[str] = []
    timer = Timer(60, seen.append, ["called"])
    timer.start()
    timer.cancel()
    timer.join()
    assert seen == []


def test_p18_a_handler_that_was_registered_once_serves_each_session_its_own() -> None:
    with ContextExecutor(1) as pool:
        assert as_session("1:41", pool.submit, key).result() == "1:41"
        assert as_session("2:77", pool.submit, key).result() == "2:77"
        assert fresh(pool.submit, key).result() == "nobody"


def test_p25_a_new_thread_has_what_the_flag_says_and_an_explicit_context_whatever_it_says() -> None:
    assert as_session("A", in_a_thread, key) == ("A" if INHERITS else "nobody")
    assert as_session("A", in_a_thread, functools.partial(Context().run, key)) == "nobody"
    if sys.version_info >= (3, 14):
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.append(key()), context=Context())
        as_session("A", thread.start)
        thread.join()
        assert seen == ["nobody"]


def test_p26_an_ingress_that_resets_has_nothing_of_the_context_that_its_callback_was_made_in(sc: Session) -> None:
    def read() -> str:
        return sc.get_session_env(KEY, "nobody")  # type: ignore[no-any-return]

    async def main() -> list[str]:
        arrived: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()

        def on_next_message() -> None:
            before = read()
            sc.reset_session_vars()
            unbound = read()
            sc.bind(session_key="B")
            arrived.set_result([before, unbound, read()])

        first = Context()
        first.run(sc.bind, session_key="A")
        first.run(asyncio.get_running_loop().call_soon, on_next_message)
        return [*await arrived, read(), first.run(read)]

    assert fresh(asyncio.run, main()) == ["A", "nobody", "B", "nobody", "A"]


def test_x05_a_call_to_another_loops_thread_is_the_callers_and_its_callback_is_if_it_was_bound(sc: Session) -> None:
    def read() -> str:
        return sc.get_session_env(KEY, "nobody")  # type: ignore[no-any-return]

    async def read_there() -> str:
        return read()

    callbacks: list[Callable[[], str]] = []

    async def receive(ready: threading.Event) -> list[str]:
        """The connection's receive task, which was made before any session."""
        ready.set()
        while len(callbacks) < 2:
            await asyncio.sleep(0.001)
        return [callback() for callback in callbacks]

    def call(loop: asyncio.AbstractEventLoop) -> str:
        sc.bind(session_key="A")
        result = asyncio.run_coroutine_threadsafe(read_there(), loop).result(10)
        callbacks.extend([read, bind(read)])
        return result

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    fresh(thread.start)
    ready = threading.Event()
    receiving: Future[list[str]] = fresh(asyncio.run_coroutine_threadsafe, receive(ready), loop)
    ready.wait(10)
    try:
        assert fresh(call, loop) == "A"
        assert receiving.result(10) == ["nobody", "A"]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# install(executors=True)


def test_with_it_threads_and_jobs_have_the_session_of_whoever_hands_them_over(carrying: None) -> None:
    def turn() -> list[str]:
        set_key("A")
        seen = [in_a_thread(key)]
        timer = threading.Timer(0, lambda: seen.append(key()))
        timer.start()
        timer.join()
        with ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(key).result())
            seen.append(fresh(pool.submit, key).result())
            pool.submit(set_key, "job").result()
            seen.append(pool.submit(key).result())
            seen += pool.map(lambda _: key(), [0])
            seen.append(asyncio.run(_in_executor(pool)))
        with ContextExecutor(1) as pool:
            seen.append(pool.submit(key).result())
        return seen

    assert fresh(turn) == ["A", "A", "A", "nobody", "A", "A", "A", "A"]
    assert key() == "nobody"


async def _in_executor(pool: ThreadPoolExecutor) -> str:
    return await asyncio.get_running_loop().run_in_executor(pool, key)


def test_with_it_a_thread_of_the_standard_librarys_own_is_nobodys(carrying: None) -> None:
    def turn() -> str:
        set_key("A")
        with ThreadPool(1) as pool:
            return pool.apply(key)

    assert fresh(turn) == ("A" if INHERITS else "nobody")


def test_with_it_a_programs_thread_is_carried_into_whatever_calls_its_start(carrying: None) -> None:
    def thread(kind: type[threading.Thread], seen: list[str]) -> threading.Thread:
        def read() -> None:
            seen.append(key())

        if kind is threading.Timer:
            return threading.Timer(0, read)
        return kind(target=functools.partial(read))

    class Own(threading.Thread):
        def run(self) -> None:
            super().run()

    async def turn(kind: type[threading.Thread]) -> list[str]:
        set_key("A")
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        soon, there, executed = (thread(kind, seen) for _ in range(3))
        loop.call_soon(soon.start)
        await asyncio.to_thread(there.start)
        await loop.run_in_executor(None, executed.start)
        for each in (soon, there, executed):
            each.join()
        return seen

    for kind in (threading.Thread, threading.Timer, Own):
        assert fresh(asyncio.run, turn(kind)) == ["A"] * 3, kind


def test_with_it_a_thread_that_serves_whoever_comes_is_nobodys_in_a_subclass_too(carrying: None) -> None:
    seen: list[str] = []

    class Listener(logging.handlers.QueueListener):
        def _monitor(self) -> None:
            seen.append(key())

    def turn() -> None:
        set_key("A")
        listener = Listener(queue.SimpleQueue())
        listener.start()
        listener.stop()

    fresh(turn)
    assert seen == ["A" if INHERITS else "nobody"]


def test_with_it_a_thread_that_overrides_run_carries_too_and_keeps_no_trace(carrying: None) -> None:
    class Worker(threading.Thread):
        seen = ""

        def run(self) -> None:
            self.seen = key()

    worker = Worker()
    as_session("A", worker.start)
    worker.join()
    assert worker.seen == "A"
    assert "run" not in vars(worker)
    plain = threading.Thread(target=key)
    assert set(vars(worker)) - {"seen"} <= set(vars(plain))
    gone = weakref.ref(worker)
    del worker
    gc.disable()
    try:
        assert gone() is None
    finally:
        gc.enable()


def test_with_it_a_thread_with_a_run_of_its_own_object_keeps_that(carrying: None) -> None:
    seen: list[str] = []
    thread = threading.Thread()

    def own_run() -> None:
        seen.append(key())

    thread.run = own_run  # type: ignore[method-assign]
    as_session("A", thread.start)
    thread.join()
    assert seen == ["A"]
    assert vars(thread)["run"] is own_run


def test_with_it_starting_a_thread_twice_raises_as_ever(carrying: None) -> None:
    thread = threading.Thread(target=key)
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="once"):
        thread.start()
    assert "run" not in vars(thread)


def test_it_is_off_until_asked_for_and_uninstall_undoes_it() -> None:
    told = run_python(
        "import threading, concurrent.futures as cf, sys\n"
        "import hermes_env_bridge as h\n"
        "def now(): return (threading.Thread.start, cf.ThreadPoolExecutor.submit)\n"
        "before = now()\n"
        "h.install()\n"
        "assert now() == before and 'hermes_env_bridge._carry' not in sys.modules\n"
        "h.install(executors=True); h.install(executors=True)\n"
        "patched = now()\n"
        "assert patched[0] is not before[0] and patched[1] is not before[1]\n"
        "h.install()\n"
        "assert now() == patched\n"
        "h.uninstall()\n"
        "assert now() == before\n"
    )
    assert told.returncode == 0, told.stderr


def test_a_patch_on_top_of_ours_stays_and_carries_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)  # so that it is put back
    _carry.carry()
    ours: Any = ThreadPoolExecutor.submit

    def theirs(*args: Any, **options: Any) -> Any:
        return ours(*args, **options)

    setattr(ThreadPoolExecutor, "submit", theirs)  # noqa: B010 - which a type checker lets nobody assign
    _carry.stop()
    assert vars(ThreadPoolExecutor)["submit"] is theirs
    with ThreadPoolExecutor(1) as pool:
        assert as_session("A", pool.submit, key).result() == ("A" if INHERITS else "nobody")


def test_a_thousand_jobs_of_a_hundred_sessions_each_have_their_own(carrying: None) -> None:
    def turn(session: int) -> list[Future[str]]:
        set_key(f"s{session}")
        return [pool.submit(key) for _ in range(10)]

    with ThreadPoolExecutor(8) as pool, ThreadPoolExecutor(8) as submitters:
        turns = [submitters.submit(fresh, turn, session) for session in range(100)]
        seen = [[job.result() for job in each.result()] for each in turns]
    assert seen == [[f"s{session}"] * 10 for session in range(100)]


# unset


def test_p06_a_job_unsets_its_variables_at_its_end_and_the_next_one_sees_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PLATFORM, "tg")

    def job(failing: bool) -> None:
        set_key("mine")
        with unset_after("cron_delivery"):
            session_context._VAR_MAP[PLATFORM].set("x")
            assert not failing

    def read() -> tuple[str, str]:
        return session_context.get_session_env(PLATFORM), key()

    with ThreadPoolExecutor(1) as pool:
        for failing in (False, True):
            assert isinstance(pool.submit(job, failing).exception(), AssertionError) == failing
            assert pool.submit(read).result() == ("tg", "mine")


def test_unset_takes_names_and_groups_and_all_of_them_without_any() -> None:
    def turn(*names: str) -> set[str]:
        for variable in session_context._VAR_MAP.values():
            variable.set("v")
        unset(*names)
        return {n for n, v in session_context._VAR_MAP.items() if v.get() is session_context._UNSET}

    assert fresh(turn, KEY, PLATFORM) == {KEY, PLATFORM}
    assert fresh(turn, "session") == set(GROUPS["session"])
    assert fresh(turn, "session", PLATFORM) == {*GROUPS["session"], PLATFORM}
    assert fresh(turn) == set(session_context._VAR_MAP)
    assert set(GROUPS["session"]) | set(GROUPS["cron_delivery"]) == set(session_context._VAR_MAP)


def test_a_session_that_is_unset_leaves_neither_its_directory_nor_its_delivery_to_the_next_job() -> None:
    told = run_python(
        """if True:
        from contextvars import Context
        import hermes_env_bridge as h
        sc = h.install()
        from agent import runtime_cwd
        from hermes_env_bridge.threads import unset, unset_after
        def after(end):
            sc.set_session_vars(session_key="A", cwd="/a", async_delivery=False)
            end()
            return sc.async_delivery_supported(), runtime_cwd._session_cwd_override()
        def block():
            with unset_after():
                pass
        ends = (unset, lambda: unset("session"), block, lambda: unset("cron_delivery"), lambda: unset(*sc._VAR_MAP))
        print([Context().run(after, end) for end in ends])
        def clean():
            after(unset)
            return h.snapshot() == h.Snapshot()
        print(Context().run(clean))
        """
    )
    left, kept = "(True, '')", "(False, '/a')"
    assert told.stdout == f"[{left}, {left}, {left}, {kept}, {kept}]\nTrue\n", told.stderr


def test_unset_refuses_a_name_that_it_does_not_know_and_changes_nothing() -> None:
    def turn() -> str:
        set_key("A")
        with pytest.raises(LookupError, match="HERMES_TYPO cannot be unset: give a group"):
            unset(KEY, "HERMES_TYPO")
        return key()

    assert fresh(turn) == "A"


def test_a_group_has_what_the_version_has_of_it() -> None:
    told = run_python(
        "import hermes_env_bridge as h\n"
        "sc = h.install()\n"
        "from hermes_env_bridge.threads import GROUPS, unset\n"
        "assert not set(GROUPS['session']) <= set(sc._VAR_MAP)\n"
        "sc.set_session_vars(session_key='A')\n"
        "unset('session')\n"
        "print(sc.get_session_env('HERMES_SESSION_KEY', 'unset'))"
    )
    assert told.stdout == "unset\n", told.stderr


# X08


@pytest.mark.parametrize(
    ("method", "begins"),
    [("fork", ["P", True]), ("spawn", ["default", False]), ("forkserver", ["default", False])],
)
def test_x08_a_child_begins_as_its_start_method_says_and_anew_after_one_call(method: str, begins: list[Any]) -> None:
    told = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("forked.py")), method],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == [begins, ["default", False], ["P", True]]


def test_x08_the_call_is_an_initialiser_and_an_after_fork_hook() -> None:
    told = run_python(
        "import os, sys\n"
        "from hermes_env_bridge import session_context as sc\n"
        "from hermes_env_bridge import Credentials, passthrough\n"
        "from hermes_env_bridge.threads import after_fork_in_child\n"
        "passthrough.allow(['MINE'], credentials=Credentials())\n"
        "os.register_at_fork(after_in_child=after_fork_in_child)\n"
        "sc.set_session_vars(session_key='P')\n"
        "sc._CRON_AUTO_DELIVER_CHAT_ID.set('42')\n"
        "pid = os.fork()\n"
        "unset = [v.get() is sc._UNSET for v in sc._VAR_MAP.values()]\n"
        "left = sc.session_context_engaged() or passthrough.names()\n"
        "if pid == 0: os._exit(0 if all(unset) and not left else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or sc.get_session_env('HERMES_SESSION_KEY') != 'P')"
    )
    assert told.returncode == 0, told.stderr
