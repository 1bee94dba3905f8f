"""The drop-in module: bad input, patching, the latch, and loading it more than once."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import pickle
import sys
import threading
import types
from typing import Any
from unittest import mock

import pytest
from conftest import MODULES, OWN_FILE, Session, load, run_python

from hermes_env_bridge import _core


def test_an_unknown_keyword_binds_nothing_and_leaves_the_latch(sc: Session) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'chatid'"):
        sc.set_session_vars(platform="x", chatid="1")
    assert sc.get_session_env("HERMES_SESSION_PLATFORM", "d") == "d"
    assert not sc.session_context_engaged()


@pytest.mark.parametrize("name", [None, 3, b"HERMES_SESSION_ID", ["x"]])
def test_a_name_that_is_no_string_raises_what_getenv_raises(sc: Session, name: Any) -> None:
    def expect() -> None:
        {}.get(name)  # an unhashable name is refused by the map of variables
        os.getenv(name)

    with pytest.raises(TypeError) as expected:
        expect()
    with pytest.raises(TypeError) as raised:
        sc.get_session_env(name)
    assert str(raised.value) == str(expected.value)


@pytest.mark.parametrize("value", ["a\0b", 3, None, "\ud800"])
def test_an_id_that_the_environment_cannot_hold_raises_what_it_raises(sc: Session, value: Any) -> None:
    before = dict(os.environ)
    with pytest.raises((TypeError, ValueError)) as expected:
        os.environ["HERMES_SESSION_ID"] = value
    with pytest.raises((TypeError, ValueError)) as raised:
        sc.set_current_session_id(value)
    assert repr(raised.value) == repr(expected.value)
    assert dict(os.environ) == before
    # The newer module writes the variable first, the older one the environment.
    assert sc._SESSION_ID.get() is (value if sc.kind == "own" else sc._UNSET)


def test_bytes_of_the_environment_that_are_not_utf8_come_back_as_getenv_gives_them(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environb, b"HERMES_SESSION_CHAT_NAME", b"\xff\xfe")
    assert sc.get_session_env("HERMES_SESSION_CHAT_NAME") == os.getenv("HERMES_SESSION_CHAT_NAME") == "\udcff\udcfe"


def test_values_are_not_coerced(sc: Session) -> None:
    chats = [1]
    sc.bind(chat_id=chats, user_id=7, chat_name=None)
    assert sc.get_session_env("HERMES_SESSION_CHAT_ID") is chats
    assert sc.get_session_env("HERMES_SESSION_USER_ID") == 7
    assert sc.get_session_env("HERMES_SESSION_CHAT_NAME", "d") is None


def test_a_bool_that_raises_leaves_the_variables_before_it_bound(sc: Session) -> None:
    class Odd:
        def __bool__(self) -> bool:
            assert sc.get_session_env("HERMES_SESSION_PLATFORM") == "x"
            raise RuntimeError("no truth")

    with pytest.raises(RuntimeError, match="no truth"):
        sc.set_session_vars(platform="x", async_delivery=Odd())
    assert sc.get_session_env("HERMES_SESSION_PLATFORM") == "x"
    assert sc.session_context_engaged()


def test_patched_environments_are_honoured(sc: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "HERMES_SESSION_ID"
    with mock.patch.dict(os.environ, {name: "a"}):
        assert sc.get_session_env(name) == "a"
    with mock.patch.object(os, "environ", {name: "b"}):
        assert sc.get_session_env(name) == "b"
    with mock.patch.object(os, "getenv", lambda name, default=None: ("c", name, default)):
        assert sc.get_session_env(name, 5) == ("c", name, 5)
    with mock.patch.object(type(os.environ), "__getitem__", return_value="d"):
        assert sc.get_session_env(name) == "d"
    with mock.patch.object(type(os.environ), "get", return_value="e"):
        assert sc.get_session_env(name) == "e"
    assert sc.get_session_env(name, "unset") == "unset"


def test_functions_use_what_is_patched_in_their_module(sc: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    real = contextvars.ContextVar("real", default="real")
    with mock.patch.object(sc.module, "_VAR_MAP", {"HERMES_SESSION_ID": real}):
        assert sc.get_session_env("HERMES_SESSION_ID") == "real"
        sc.reset_session_vars()
        assert real.get() is sc._UNSET
    sc._VAR_MAP["ADDED"] = real
    real.set("added")
    assert sc.get_session_env("ADDED") == "added"
    assert sc.bridge({})["ADDED"] == "added"
    del sc._VAR_MAP["ADDED"]
    if sc.kind == "own":
        with mock.patch.object(sc.module, "get_session_env", return_value="telegram"):
            assert sc.session_is_messaging_surface()
        with mock.patch.object(sc.module, "_runtime_cwd") as hook:
            sc.set_session_vars(cwd="/work")
        hook.assert_called_once_with("set_session_cwd", "/work")


def test_the_hooks_are_looked_up_at_each_call_and_what_they_raise_is_swallowed(
    sc: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    hooks = types.ModuleType("agent.runtime_cwd")
    package = types.ModuleType("agent")
    package.runtime_cwd = hooks  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "agent", package)
    monkeypatch.setitem(sys.modules, "agent.runtime_cwd", hooks)
    hooks.set_session_cwd = calls.append  # type: ignore[attr-defined]
    sc.set_session_vars(cwd="/a")

    def fail(*arguments: object) -> None:
        calls.append(arguments)
        raise OSError

    hooks.set_session_cwd = hooks.clear_session_cwd = fail  # type: ignore[attr-defined]
    sc.set_session_vars(cwd="/b")
    sc.clear_session_vars([])
    sc.reset_session_vars()
    monkeypatch.setitem(sys.modules, "agent.runtime_cwd", None)
    monkeypatch.setitem(sys.modules, "agent", None)
    sc.set_session_vars(cwd="/c")
    assert calls == ["/a", ("/b",), (), ()]

    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "agent", package)
    monkeypatch.setitem(sys.modules, "agent.runtime_cwd", hooks)
    hooks.clear_session_cwd = stop  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        sc.clear_session_vars([])


def test_a_replaced_import_function_is_honoured(sc: Session) -> None:
    wanted: list[str] = []

    def refuse(name: str, *arguments: Any, **keywords: Any) -> Any:
        wanted.append(name)
        raise ImportError(name)

    with mock.patch("builtins.__import__", refuse):
        sc.module.clear_session_vars([])
    assert [name.partition(".")[0] for name in wanted] == ["agent"]


@pytest.mark.parametrize("kind", list(MODULES))
def test_the_signature_is_that_of_hermes(kind: str) -> None:
    module = MODULES[kind]()
    parameters = inspect.signature(module.set_session_vars).parameters
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
    if kind == "own":
        assert parameters["cron_session"].default is module._UNSET
        assert " ".join(parameters) == (
            "platform source chat_id chat_type chat_name thread_id user_id user_id_alt user_name scope_id session_key "
            "session_id message_id profile browser_control_principal browser_control_transport_family cwd "
            "async_delivery ui_session_id cron_session parent_chat_id"
        )
    else:
        assert inspect.signature(module.set_session_vars) == inspect.signature(MODULES["original"]().set_session_vars)
    assert inspect.getsource(module.set_session_vars).startswith("def set_session_vars")


def test_the_tokens_are_one_for_each_variable_in_order_and_one_for_async_delivery() -> None:
    own = MODULES["own"]()
    tokens = own.set_session_vars()
    assert [token.var for token in tokens] == [*own._SESSION_VARS, own._SESSION_ASYNC_DELIVERY]
    adapted = MODULES["adapted"]()
    assert [token.var.name for token in adapted.set_session_vars()] == [
        token.var.name for token in MODULES["original"]().set_session_vars()
    ]


def test_keywords_reach_their_own_variable(sc: Session) -> None:
    parameters = inspect.signature(sc.module.set_session_vars).parameters
    for keyword in set(parameters) - {"cwd", "async_delivery"}:
        sc.set_session_vars(**{keyword: "marked"})
        marked = [name for name, var in sc._VAR_MAP.items() if var.get() == "marked"]
        assert len(marked) == 1
        assert marked[0].lower().endswith(keyword)


def test_functions_can_be_pickled_by_name_and_star_imported() -> None:
    import hermes_env_bridge.session_context as own

    for function in (own.get_session_env, own.set_session_vars):
        assert pickle.loads(pickle.dumps(function)) is function
    names: dict[str, Any] = {}
    exec("from hermes_env_bridge.session_context import *", names)
    assert {"get_session_env", "set_session_vars", "os", "ContextVar", "contextmanager", "Any"} <= set(names)
    assert "_UNSET" not in names


def test_writes_of_the_latch_reach_rust_and_a_global_statements_at_the_next_call() -> None:
    result = run_python(
        """
import hermes_env_bridge.session_context as sc
from hermes_env_bridge import _core
seen = [_core.engaged()]
sc.set_session_vars(); seen.append(_core.engaged())
sc._session_context_engaged = False; seen.append(_core.engaged())
exec("global x; _session_context_engaged = True", sc.__dict__); seen.append(_core.engaged())
sc._session_context_engaged = False; sc.declare_stateless_channel(); seen.append(_core.engaged())
del sc._session_context_engaged
try: sc.session_context_engaged()
except NameError: seen.append("NameError")
print(seen)
"""
    )
    assert result.stdout.strip() == "[False, True, False, True, False, 'NameError']", result.stderr


def test_k03_a_reload_and_a_second_import_find_the_sessions_that_are_bound() -> None:
    result = run_python(
        """
import importlib, sys
m1 = importlib.import_module("hermes_env_bridge.session_context")
m1.set_session_vars(session_key="k")
same = [importlib.reload(m1) is m1, m1.get_session_env("HERMES_SESSION_KEY"), m1.session_context_engaged()]
unset, key = m1._UNSET, m1._VAR_MAP["HERMES_SESSION_KEY"]
del sys.modules["hermes_env_bridge.session_context"]
m2 = importlib.import_module("hermes_env_bridge.session_context")
same += [m2._UNSET is unset, m2._VAR_MAP["HERMES_SESSION_KEY"] is key, m2.get_session_env("HERMES_SESSION_KEY")]
print([*same, m2.session_context_engaged(), m2.get_session_env("HERMES_SESSION_PARENT_CHAT_ID", "d")])
"""
    )
    assert result.stdout.strip() == "[True, 'k', True, True, True, 'k', True, '']", result.stderr


def test_the_file_under_another_name_has_its_own_state() -> None:
    first, second = load(OWN_FILE, "first"), load(OWN_FILE, "second")
    first.set_session_vars(session_key="k")
    assert second.get_session_env("HERMES_SESSION_KEY", "none") == "none"
    assert first._UNSET is not second._UNSET
    assert (first.session_context_engaged(), second.session_context_engaged()) == (True, False)


def test_k02_a_second_interpreter_gets_an_import_error_and_the_first_goes_on() -> None:
    result = run_python(
        """
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
import hermes_env_bridge.session_context as sc
sc.set_session_vars(session_key="k")
other = interpreters.create()
code = '''
try:
    import hermes_env_bridge.session_context
except ImportError as error:
    print("ImportError", flush=True)
else:
    print("imported", flush=True)
'''
(getattr(interpreters, "run_string"))(other, code)
print(sc.get_session_env("HERMES_SESSION_KEY"))
"""
    )
    assert result.stdout.split() == ["ImportError", "k"], result.stderr
    assert result.returncode == 0


def test_fork_carries_the_session_and_the_latch() -> None:
    result = run_python(
        """
import os
import hermes_env_bridge.session_context as sc
sc.set_session_vars(session_key="P")
pid = os.fork()
if pid == 0:
    print(sc.get_session_env("HERMES_SESSION_KEY"), sc.session_context_engaged(), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    )
    assert result.stdout.strip() == "P True", result.stderr


def test_concurrent_tasks_and_threads_never_see_each_others_session() -> None:
    sc = MODULES["own"]()
    foreign: list[Any] = []

    def check(mine: str) -> None:
        for name in ("HERMES_SESSION_KEY", "HERMES_SESSION_ID", "HERMES_SESSION_CHAT_ID"):
            if (seen := sc.get_session_env(name, "none")) != mine:
                foreign.append((mine, name, seen))

    async def session(mine: str) -> None:
        for turn in range(20):
            sc.reset_session_vars()
            tokens = sc.set_session_vars(session_key=mine, session_id=mine, chat_id=mine)
            await asyncio.sleep(0)
            check(mine)
            await asyncio.to_thread(check, mine)
            if turn % 3:
                with sc.scoped_current_session_id("inner"):
                    await asyncio.sleep(0)
                    assert sc.get_session_env("HERMES_SESSION_ID") == "inner"
            check(mine)
            sc.clear_session_vars(tokens)

    async def main(start: int) -> None:
        await asyncio.gather(*(session(f"s{start + n}") for n in range(50)))

    threads = [threading.Thread(target=asyncio.run, args=(main(start),)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert foreign == []


def test_the_natives_name_what_they_miss() -> None:
    with pytest.raises(AttributeError, match="set"):
        _core.bind((object(),), ("x",))
    with pytest.raises(TypeError, match="iterable"):
        _core.fill(3, "")  # type: ignore[arg-type]
