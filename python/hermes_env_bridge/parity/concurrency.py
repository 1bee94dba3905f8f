"""Many sessions at once in one process: which identity the children of each session see, with both modules."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

from .modules import MODULES, hermes, session
from .outcome import Observations, Pair, compare_observations
from .report import Check, Section
from .shell import UNSET, show, shown
from .worker import Batch, Scenario, drive

_PLATFORMS = ("telegram", "discord", "slack")
_SOURCE_FIELDS = ("chat_id", "chat_name", "thread_id", "user_id", "user_name", "message_id")
_MIRRORED = ("HERMES_SESSION_KEY", "HERMES_SESSION_ID")
_WRONG = ("foreign", "stale", "missing")

# Threads that run shells at a time: enough that sessions overlap on each of them, few enough for two cores.
_THREADS = 4


def keywords_of(number: int) -> dict[str, str]:
    """Return keywords for ``set_session_vars`` that name session *number* in every value but the platform."""
    fields = (*_SOURCE_FIELDS, "session_key", "session_id")
    return {"platform": _PLATFORMS[number % len(_PLATFORMS)]} | {name: f"{name}-{number}" for name in fields}


def identity_of(number: int) -> dict[str, str]:
    """Return what every child of session *number* has to see."""
    keywords = keywords_of(number).items()
    return {f"HERMES_SESSION_{keyword.removeprefix('session_').upper()}": value for keyword, value in keywords}


_NAMES = tuple(identity_of(0))


def seen_by(environment: Any) -> dict[str, str]:
    """Run a shell in Hermes' terminal *environment* and return the identity that it reports."""
    return shown(environment.execute(show(_NAMES))["output"])


@dataclass
class Census:
    """Counts what sessions saw: how many values were right, foreign, stale or missing, with examples of the wrong."""

    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(("right", *_WRONG), 0)))
    examples: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)

    def take(self, where: str, expected: Mapping[str, str], seen: Mapping[str, str]) -> None:
        """Count each value of *expected* in *seen*; *where* says in an example whose and when it was."""
        for name, value in expected.items():
            kind = self._kind(value, seen.get(name, UNSET))
            self.counts[kind] += 1
            if kind != "right" and len(self.examples) < 20:
                self.examples.append(f"{kind}: {where} saw {name}={seen.get(name, UNSET)!r} instead of {value!r}")

    def _kind(self, expected: str, seen: str) -> str:
        if seen == expected:
            return "right"
        if seen in ("", UNSET):
            return "missing"
        return "stale" if seen.rpartition("-")[2] in self.ended else "foreign"

    def observations(self) -> Observations:
        """Return the counts and examples as plain data."""
        return {"counts": dict(self.counts), "examples": self.examples}


def own_environments(sessions: int, commands: int) -> Observations:
    """Sessions as the gateway runs them, all alive at once, each with an environment of its own.

    The identity is bound before the environment is created and is not changed afterwards. Meanwhile the mirror
    in ``os.environ`` belongs to somebody else and is rewritten all the time.
    """
    census = Census()
    with ThreadPoolExecutor(_THREADS) as pool, _foreign_mirror():
        asyncio.run(_all_sessions(sessions, commands, census, pool))
    return census.observations()


async def _all_sessions(sessions: int, commands: int, census: Census, pool: ThreadPoolExecutor) -> None:
    asyncio.get_running_loop().set_default_executor(pool)
    runner = object.__new__(hermes("gateway.run").GatewayRunner)
    runner._executor = pool
    noise = asyncio.create_task(_rewrite_mirror(), context=contextvars.Context())
    tasks = []
    for number in range(sessions):
        # The dispatcher has another session bound while it makes the task, which therefore inherits that one.
        _bind(number + 1)
        tasks.append(asyncio.create_task(_one_session(runner, number, commands, census)))
    await asyncio.gather(*tasks)
    noise.cancel()


def _foreign_mirror() -> contextlib.AbstractContextManager[object]:
    return mock.patch.dict(os.environ, dict.fromkeys(_MIRRORED, "mirror-of-another"))


async def _rewrite_mirror() -> None:
    turn = 0
    while True:
        turn += 1
        session().set_current_session_id(f"mirror-of-another-{turn}")
        os.environ["HERMES_SESSION_KEY"] = f"mirror-of-another-{turn}"
        await asyncio.sleep(0.001)


async def _one_session(runner: Any, number: int, commands: int, census: Census) -> None:
    session().reset_session_vars()
    tokens = runner._set_session_env(_message(number))
    session().set_current_session_id(keywords_of(number)["session_id"])
    # Both ways in which Hermes takes blocking work off the loop.
    blocking: Callable[..., Any] = asyncio.to_thread if number % 2 else runner._run_in_executor_with_context
    local, expected = hermes("tools.environments.local"), identity_of(number)
    environment = await blocking(local.LocalEnvironment, os.getcwd())
    for command in range(commands):
        census.take(f"child {command} of session {number}", expected, await blocking(seen_by, environment))
        census.take(f"session {number} in its thread", expected, await blocking(_reads))
    await blocking(environment.cleanup)
    runner._clear_session_env(tokens)
    census.ended.add(str(number))
    nothing = dict.fromkeys(_NAMES, "")
    census.take(f"a child of session {number} once cleared", nothing, local._make_run_env({}))
    census.take(f"session {number} once cleared", nothing, _reads())


def _reads() -> dict[str, str]:
    return {name: session().get_session_env(name, UNSET) for name in _NAMES}


def _message(number: int) -> Any:
    """Return the context of an inbound message of session *number*: what the runner reads of it."""
    keywords = keywords_of(number)
    platform = hermes("gateway.config").Platform(keywords["platform"])
    source = SimpleNamespace(platform=platform, **{name: keywords[name] for name in _SOURCE_FIELDS})
    return SimpleNamespace(source=source, session_key=keywords["session_key"])


def _bind(number: int) -> Any:
    return session().set_session_vars(**keywords_of(number))


# Of each child: what it was, what it would see if environments kept no state of their own, and what it saw.
_Children = Iterator[tuple[str, dict[str, str], dict[str, str]]]
_Create = Callable[[], Any]


def shared_environments() -> Observations:
    """Children where Hermes' saved shell state meets another session or another id, one after the other."""
    observations: Observations = {}
    census = Census()
    for use in (_two_sessions, _rotated, _bound_later, _cleared, _reset):
        title = use.__name__.strip("_").replace("_", " ")
        for child, expected, seen in contextvars.Context().run(_children, use):
            observations[f"{title}: {child}"] = seen
            census.take(f"{title}: {child}", expected, seen)
    return {"children": observations, **census.observations()}


def _children(use: Callable[[_Create], _Children]) -> list[tuple[str, dict[str, str], dict[str, str]]]:
    session()._session_context_engaged = False
    with contextlib.ExitStack() as stack:
        stack.enter_context(_foreign_mirror())

        def create() -> Any:
            environment = hermes("tools.environments.local").LocalEnvironment(os.getcwd())
            stack.callback(environment.cleanup)
            return environment

        return list(use(create))


def _two_sessions(create: _Create) -> _Children:
    _bind(1)
    shared = create()
    yield "the first", identity_of(1), seen_by(shared)
    yield "the second", identity_of(2), contextvars.Context().run(lambda: (_bind(2), seen_by(shared))[1])
    yield "the first again", identity_of(1), seen_by(shared)


def _rotated(create: _Create) -> _Children:
    _bind(1)
    old = create()
    session().set_current_session_id(keywords_of(2)["session_id"])
    expected = identity_of(1) | {"HERMES_SESSION_ID": keywords_of(2)["session_id"]}
    yield "in the old environment", expected, seen_by(old)
    yield "in a new environment", expected, seen_by(create())


def _bound_later(create: _Create) -> _Children:
    environment = create()
    # Nothing has bound a session yet, so that children inherit the mirror.
    yield "before", dict.fromkeys(_NAMES, UNSET) | dict.fromkeys(_MIRRORED, "mirror-of-another"), seen_by(environment)
    _bind(1)
    yield "after", identity_of(1), seen_by(environment)


def _cleared(create: _Create) -> _Children:
    tokens = _bind(1)
    old = create()
    session().clear_session_vars(tokens)
    yield "in the old environment", dict.fromkeys(_NAMES, ""), seen_by(old)
    yield "in a new environment", dict.fromkeys(_NAMES, ""), seen_by(create())


def _reset(create: _Create) -> _Children:
    _bind(1)
    old = create()
    session().reset_session_vars()
    yield "in the old environment", dict.fromkeys(_NAMES, UNSET), seen_by(old)
    yield "in a new environment", dict.fromkeys(_NAMES, UNSET), seen_by(create())


SCENARIOS: Mapping[str, Scenario] = {
    "own_environments": own_environments,
    "shared_environments": shared_environments,
}


def run(*, sessions: int = 200, commands: int = 3, fault: str = "", processes: int = 2) -> Section:
    """Run *sessions* concurrent sessions of *commands* shells each, then the shared environments, on both modules.

    *fault* names one of :data:`~.faults.FAULTS` to plant in the drop-in; *processes* workers run at a time.
    """
    start = time.monotonic()
    own, shared = "concurrency.own_environments", "concurrency.shared_environments"
    batches = (Batch((own,), {"sessions": sessions, "commands": commands}), Batch((shared,)))
    pairs = drive(batches, fault=fault, processes=processes)
    checks = (_own_check(pairs[own], sessions, commands), _shared_check(pairs[shared]))
    facts: dict[str, str | int | float] = {
        "concurrent sessions": sessions,
        "children of concurrent sessions, per module": sessions * (commands + 1),
    }
    for module, outcome in zip(MODULES, pairs[own], strict=True):
        facts[f"values right, {module}"] = outcome["counts"]["right"] if isinstance(outcome, dict) else 0
    return Section("Concurrency", checks, time.monotonic() - start, facts=facts)


def _own_check(pair: Pair, sessions: int, commands: int) -> Check:
    compared, differences = 0, list(pair.failures())
    # A child and a read for each command, and once more when the session is cleared.
    expected = sessions * 2 * (commands + 1) * len(_NAMES)
    for module, outcome in zip(MODULES, pair, strict=True):
        if isinstance(outcome, Exception):
            continue
        counts, examples = outcome["counts"], outcome["examples"]
        compared = sum(counts.values())
        if compared != expected:
            differences.append(f"{module}: {compared} values seen instead of {expected}")
        if counts["right"] != compared:
            differences.append(f"{module}: " + ", ".join(f"{counts[kind]} {kind}" for kind in _WRONG))
            differences += [f"{module}: {example}" for example in examples]
    note = "" if differences else "no foreign, stale or missing identity"
    return Check(f"{sessions} sessions, own environments", compared, tuple(differences), note)


def _shared_check(pair: Pair) -> Check:
    title = "shared environments and rotated ids"
    match pair:
        case Pair(dict() as original, dict() as drop_in):
            counts = original["counts"]
            leak = ", ".join(f"{counts[kind]} {kind}" for kind in _WRONG if counts[kind])
            note = f"Hermes' own leak: {leak} with its own module, whose environments replay a saved shell state"
            return compare_observations(title, _values(original), _values(drop_in), note=note if leak else "")
    return Check(title, 0, pair.failures())


def _values(seen: Observations) -> Observations:
    """Return one observation for each value that a child saw."""
    children: Mapping[str, Mapping[str, str]] = seen["children"]
    return {f"{child}, {name}": value for child, values in children.items() for name, value in values.items()}
