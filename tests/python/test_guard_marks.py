"""What the guard makes of the environments that ``child_env`` made: whose they are, and where that is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest
from conftest import fresh

from hermes_env_bridge import ForeignIdentityError, child_env, guard, report, session_context
from hermes_env_bridge._planned import Carried, Stated

KEY = "HERMES_SESSION_KEY"
TRUE = "/bin/true"


@pytest.fixture(autouse=True)
def engaged(in_use: ModuleType) -> Iterator[None]:
    """A process in which a session was bound, elsewhere, and a guard that has seen nothing; afterwards it is off."""
    fresh(session_context.set_session_vars, session_key="some session's", session_id="i")
    report(reset=True)
    yield
    guard("off")
    report(reset=True)


def spawn(env: dict[str, str]) -> None:
    subprocess.run([TRUE], env=env, check=True)


def turn(key: str, *calls: Callable[[], Any]) -> Any:
    """Do *calls* in a session with that key; return what the last returns."""

    def bound() -> Any:
        session_context.set_session_vars(session_key=key, session_id=f"id of {key}", cron_session=key)
        return [call() for call in calls][-1]

    return fresh(bound)


@pytest.mark.parametrize("options", [{}, {"deny": ["X"]}], ids=["as is", "planned"])
def test_an_environment_that_one_session_made_is_foreign_in_another_and_right_in_its_own_and_in_none(
    options: dict[str, Any],
) -> None:
    guard("block")
    made = turn("A", lambda: child_env({"PATH": "/bin"}, **options))
    kept = {**made}
    turn("A", lambda: spawn(kept))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(spawn, kept).result()
    assert report().foreign == 0
    with pytest.raises(ForeignIdentityError) as refused:
        turn("B", lambda: spawn(kept))
    assert {KEY, "HERMES_SESSION_ID"} <= set(refused.value.names)


def test_it_is_foreign_in_a_session_that_has_bound_other_variables_only() -> None:
    guard("block")
    made = turn("A", lambda: {name: value for name, value in child_env({}).items() if name == "HERMES_CRON_SESSION"})
    assert made

    def other_turn() -> None:
        session_context.set_session_vars(session_key="B", session_id="b")
        spawn(made)

    with pytest.raises(ForeignIdentityError, match="HERMES_CRON_SESSION"):
        fresh(other_turn)


def test_what_was_kept_before_a_session_was_bound_is_nobodys_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    guard("block")
    monkeypatch.setattr(session_context, "_session_context_engaged", False)
    kept = [fresh(child_env, {KEY: "stale"}), fresh(child_env, {KEY: "stale"}, explain=True)[0]]
    assert kept == [{KEY: "stale"}] * 2
    monkeypatch.setattr(session_context, "_session_context_engaged", True)
    for made in kept:
        with pytest.raises(ForeignIdentityError, match=KEY):
            fresh(spawn, made)


def test_only_what_was_added_or_bound_is_marked() -> None:
    guard("warn")

    def made() -> dict[str, str]:
        return child_env({"PATH": "/bin"}, extra={KEY: "stated", "MINE": "x"})

    types = {name: type(value) for name, value in turn("A", made).items()}
    assert (types[KEY], types["HERMES_SESSION_ID"], types["PATH"], types["MINE"]) == (Stated, Carried, str, str)
    guard("off")
    assert {type(value) for value in turn("A", made).values()} == {str}


def test_a_value_that_is_no_text_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    guard("warn")
    monkeypatch.setattr(session_context, "_session_context_engaged", False)
    assert fresh(child_env, {"HERMES_SESSION_ID": b"abc"}) == {"HERMES_SESSION_ID": b"abc"}
