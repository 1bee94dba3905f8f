"""Observing real Hermes in every session state, as plain data that can leave the process."""

from __future__ import annotations

import contextvars
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

from .modules import SESSION_NAMES, session
from .outcome import Observations
from .states import STATES, SURROUNDINGS


def observe(
    reads: Mapping[str, Callable[[], Any]],
    *,
    states: Sequence[str] = tuple(STATES),
    surroundings: Sequence[str] = tuple(SURROUNDINGS),
) -> Observations:
    """Make each of *reads* in each of *states* within each of *surroundings*, and return the answers.

    An exception is an answer. Every read gets a state of its own, so that none sees what another left.
    """
    module = session()
    observations: Observations = {}
    for around in surroundings:
        for state in states:
            for label, read in reads.items():
                with mock.patch.dict(os.environ), SURROUNDINGS[around]():
                    module._session_context_engaged = False
                    answer = contextvars.Context().run(_enter_and_read, module, state, read)
                observations[f"{label}, {state}, {around}"] = answer
    return observations


def _enter_and_read(module: Any, state: str, read: Callable[[], Any]) -> Any:
    STATES[state](module)
    return answer_of(read)


def answer_of(read: Callable[[], Any]) -> Any:
    """Return what *read* returns, or the exception it raises, as plain data."""
    try:
        return plain(read())
    except Exception as error:
        return {"raises": type(error).__name__, "message": _without_addresses(str(error))}


def plain(value: Any) -> Any:
    """Return *value* as JSON can hold it, with what JSON would merge kept apart."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(map(repr, value))}
    if isinstance(value, tuple):
        return {"tuple": [plain(item) for item in value]}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return _without_addresses(repr(value))


def _without_addresses(text: str) -> str:
    """Return *text* with the memory addresses of object representations masked."""
    return re.sub(r"\bat 0x[0-9a-f]+", "at <address>", text)


def session_state() -> Observations:
    """Return all that the session module shows in this context: every variable, read and raw, and the flags."""
    module = session()
    variables = {name: module._VAR_MAP[name].get() for name in SESSION_NAMES if name in module._VAR_MAP}
    return {
        "names": list(module._VAR_MAP),
        "reads": {name: plain(module.get_session_env(name, "<default>")) for name in SESSION_NAMES},
        "unset": [name for name, value in variables.items() if value is module._UNSET],
        "engaged": module.session_context_engaged(),
        "async delivery": module.async_delivery_supported(),
    }


def entries_of(environment: Mapping[str, str], names: Sequence[str] = SESSION_NAMES) -> dict[str, str]:
    """Return those entries of *environment* whose names are among *names*."""
    return {name: environment[name] for name in names if name in environment}
