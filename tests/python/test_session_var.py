"""A session variable does what a `contextvars.ContextVar` does: each case runs on both, with the same outcome."""

from __future__ import annotations

import contextvars
import copy
import gc
import pickle
import re
import sys
import weakref
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, get_origin

import pytest
from conftest import fresh

from hermes_env_bridge import SessionToken, SessionVar

Maker = Callable[..., Any]
CASES: dict[str, Callable[[Maker], Any]] = {}
MARK = object()


def case(function: Callable[[Maker], Any]) -> Callable[[Maker], Any]:
    CASES[function.__name__] = function
    return function


def outcome(function: Callable[[Maker], Any], make: Maker) -> Any:
    """What the case returns, or the exception it raises, without what differs by nature."""
    try:
        return fresh(function, make)
    except Exception as error:
        words = re.sub(r"0x[0-9a-f]+", "0x", str(error))
        return type(error), re.sub(r"(hermes_env_bridge|_contextvars)\.(Session|Context)?(Var|Token)", r"\3", words)


@case
def a_variable_without_value_and_default_has_nothing_to_get(make: Maker) -> Any:
    return make("v").get()


@case
def the_lookup_error_carries_the_variable(make: Maker) -> bool:
    var = make("v")
    try:
        var.get()
    except LookupError as error:
        return error.args == (var,)
    return False


@case
def a_given_default_comes_before_the_variables_own(make: Maker) -> Any:
    var = make("v", default=1)
    values = [var.get(), var.get(None), var.get(2)]
    var.set(3)
    return [*values, var.get(), var.get(2)]


@case
def values_of_any_type_are_kept_as_they_are(make: Maker) -> list[bool]:
    var, values = make("v"), [MARK, None, 0, "", [1], {"a": 1}, "\ud800"]
    return [var.set(value) is not None and var.get() is value for value in values]


@case
def set_to_the_default_is_not_the_same_as_never_set(make: Maker) -> list[bool]:
    var = make("v", default=MARK)
    token = var.set(MARK)
    again = var.set(1)
    return [token.old_value is contextvars.Token.MISSING, again.old_value is MARK]


@case
def a_reset_restores_what_was_there(make: Maker) -> list[Any]:
    var = make("v")
    first = var.set(1)
    second = var.set(2)
    var.reset(second)
    seen = [var.get()]
    var.reset(first)
    return [*seen, var.get("missing")]


@case
def resets_out_of_order_restore_what_each_token_saw(make: Maker) -> list[Any]:
    var = make("v")
    first, second = var.set(1), var.set(2)
    var.reset(first)
    seen = [var.get("missing")]
    var.reset(second)
    return [*seen, var.get("missing")]


@case
def a_token_works_once(make: Maker) -> Any:
    var = make("v")
    token = var.set(1)
    var.reset(token)
    var.reset(token)


@case
def a_token_of_another_variable_is_refused(make: Maker) -> Any:
    make("v").reset(make("w").set(1))


@case
def a_token_of_another_context_is_refused(make: Maker) -> Any:
    var = make("v")
    token = Context().run(var.set, 1)
    var.reset(token)


@case
def a_token_of_the_copied_context_is_refused(make: Maker) -> Any:
    var = make("v")
    token = var.set(1)
    copy_context().run(var.reset, token)


@case
def a_refused_token_still_works_where_it_belongs(make: Maker) -> Any:
    var = make("v")
    token = var.set(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="different Context"):
            copy_context().run(var.reset, token)
    var.reset(token)
    return var.get("missing")


@case
def a_real_token_is_one_of_another_variable(make: Maker) -> Any:
    make("v").reset(contextvars.ContextVar[int]("other").set(1))


@case
def a_used_real_token_is_refused_as_used(make: Maker) -> Any:
    other = contextvars.ContextVar[int]("other")
    token = other.set(1)
    other.reset(token)
    make("v").reset(token)


@case
def what_is_no_token_is_refused(make: Maker) -> Any:
    make("v").reset(1)


@case
def a_token_knows_its_variable(make: Maker) -> list[bool]:
    var = make("v")
    token = var.set(1)
    return [token.var is var, token.MISSING is contextvars.Token.MISSING]


@case
def a_copied_context_sees_the_value_and_keeps_its_own(make: Maker) -> list[Any]:
    var = make("v")
    var.set(1)
    context = copy_context()
    context.run(var.set, 2)
    return [var.get(), context.run(var.get), Context().run(var.get, None)]


@case
def reprs_are_alike(make: Maker) -> list[str]:
    var = make("v", default=1)
    token = var.set(2)
    texts = [repr(make("w")), repr(var), repr(token)]
    var.reset(token)
    return [re.sub(r"0x[0-9a-f]+", "0x", text) for text in [*texts, repr(token)]]


@case
def variables_are_context_variables_and_tokens_are_tokens(make: Maker) -> list[bool]:
    var = make("v")
    return [isinstance(var, contextvars.ContextVar), isinstance(var.set(1), contextvars.Token)]


@case
def variables_are_hashed_by_identity_and_tokens_are_not_hashed(make: Maker) -> list[Any]:
    var = make("v")
    return [var == var, var == make("v"), var in {var}, make("v") in {var}, outcome(lambda _: hash(var.set(1)), make)]


CALLS: dict[str, Callable[[Any], Any]] = {
    "pickle a variable": lambda var: pickle.dumps(var),
    "copy a variable": copy.copy,
    "copy a variable deeply": copy.deepcopy,
    "pickle a token": lambda var: pickle.dumps(var.set(1)),
    "copy a token": lambda var: copy.copy(var.set(1)),
    "name is read only": lambda var: setattr(var, "name", "w"),
    "no new attributes": lambda var: setattr(var, "other", 1),
    "no weak reference": weakref.ref,
    "the token is read only": lambda var: setattr(var.set(1), "var", 1),
    "a token cannot be made": lambda var: type(var.set(1))(),
    "no subclass": lambda var: type("Sub", (type(var),), {}),
    "get takes one": lambda var: var.get(1, 2),
    "get takes no keyword": lambda var: var.get(default=1),
    "set takes one": lambda var: var.set(),
    "reset takes one": lambda var: var.reset(),
    "make without a name": lambda var: type(var)(),
    "make with a number": lambda var: type(var)(1),
    "make with a positional default": lambda var: type(var)("v", 1),
    "make with an unknown keyword": lambda var: type(var)("v", other=1),
}


@pytest.mark.parametrize("name", list(CASES))
def test_case(name: str) -> None:
    assert outcome(CASES[name], SessionVar) == outcome(CASES[name], contextvars.ContextVar)


@pytest.mark.parametrize("name", list(CALLS))
def test_a_call_that_is_refused_is_refused_alike(name: str) -> None:
    def refused(make: Maker) -> type[Exception] | None:
        try:
            CALLS[name](make("v"))
        except Exception as error:
            return type(error)
        return None

    expected = fresh(refused, contextvars.ContextVar)
    assert expected is not None
    assert fresh(refused, SessionVar) is expected


@pytest.mark.skipif(sys.version_info < (3, 14), reason="tokens are context managers from Python 3.14 on")
def test_a_token_is_a_context_manager() -> None:
    var = SessionVar[int]("v")
    with var.set(1) as token:  # type: ignore[attr-defined]
        assert token.var is var
        assert var.get() == 1
    assert var.get(0) == 0


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="tokens are context managers from Python 3.14 on")
def test_a_token_is_no_context_manager_before_python_3_14() -> None:
    assert not hasattr(SessionToken, "__enter__")


def test_classes_take_a_type_argument() -> None:
    for cls in (SessionVar, SessionToken):
        assert get_origin(cls[int]) is cls  # type: ignore[index]


def test_a_cycle_through_a_variable_is_collected() -> None:
    class Holder:
        var: object

    holder = Holder()
    holder.var = SessionVar("v", default=holder)
    alive = weakref.ref(holder)
    del holder
    gc.collect()
    assert alive() is None


def test_a_cycle_through_a_token_and_its_context_is_collected() -> None:
    class Holder:
        tokens: object

    def make() -> weakref.ref[Holder]:
        holder, var = Holder(), SessionVar[object]("v")
        holder.tokens = [var.set(holder), var.set(holder)]
        return weakref.ref(holder)

    alive = Context().run(make)
    gc.collect()
    assert alive() is None


def test_a_dropped_context_drops_its_values() -> None:
    class Value:
        pass

    var = SessionVar[object]("v")

    def make() -> weakref.ref[Value]:
        value = Value()
        var.set(value)
        return weakref.ref(value)

    alive = Context().run(make)
    assert alive() is None


def test_tokens_of_one_bind_reset_one_by_one_in_any_order() -> None:
    def turn() -> list[Any]:
        from conftest import MODULES

        sc = MODULES["own"]()
        sc._SESSION_ID.set("outer")
        tokens = sc.set_session_vars(session_id="inner", platform="p")
        before = sc.get_session_env("HERMES_SESSION_ID")
        for token in reversed(tokens):
            token.var.reset(token)
        return [before, sc._SESSION_ID.get(), sc._SESSION_PLATFORM.get() is sc._UNSET, len(tokens)]

    assert fresh(turn) == ["inner", "outer", True, 20]
