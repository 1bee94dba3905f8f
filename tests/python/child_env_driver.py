"""Compares ``child_env`` with Hermes' own functions over random environments, contexts and latches.

``python child_env_driver.py SEED TRIPLES``. Runs in a process of its own: it imports Hermes, replaces ``os.environ``
and puts session modules in each other's place. Prints the number of comparisons; raises at the first difference.
"""

from __future__ import annotations

import importlib
import logging
import os
import random
import sys
from collections.abc import Callable
from contextvars import Context
from functools import partial
from types import ModuleType
from typing import Any

from hermes_env_bridge import child_env
from hermes_env_bridge._install import adapt
from hermes_env_bridge.credentials import hermes_credentials

original = importlib.import_module("gateway.session_context")
env_passthrough = importlib.import_module("tools.env_passthrough")
local = importlib.import_module("tools.environments.local")
assert original.__file__ is not None
ADAPTED = adapt(original.__file__, "adapted_session_context")
SESSION = list(original._VAR_MAP)
CREDENTIALS = sorted(local._HERMES_PROVIDER_ENV_BLOCKLIST)
OTHERS = ["EDITOR", "LANG", "HERMES_SESSION_FOO", "HERMES_KANBAN_TASK", "HERMES_KANBAN_DB", "AWS_PROFILE", "_", "é"]
SECRETS = ["AUXILIARY_VISION_API_KEY", "auxiliary_x_base_url", "GATEWAY_RELAY_SECRET", "GATEWAY_RELAY_URL"]
TEXTS = ["", "x", "stale", "two words", "line\nline", "naïve", "'\"$`\\", "\udcff\udcfe", "a=b"]
VALUES: list[Any] = [*TEXTS, None, 0, 7, True, ["list"], original._UNSET]

# What Hermes does to these has nothing to do with sessions or credentials.
BESIDES = ("PATH", "HOME", "HERMES_HOME", "HERMES_REAL_HOME", "PYTHONUTF8", *local._ACTIVE_VENV_MARKER_VARS)


def environment(rng: random.Random, names: list[str]) -> dict[str, str]:
    return {name: rng.choice(TEXTS) for name in rng.sample(names, rng.randrange(len(names)))}


def operations(rng: random.Random) -> list[tuple[str, Any]]:
    """What a task does to its session before it starts a child."""
    chosen = []
    for _ in range(rng.randrange(4)):
        what = rng.choice(["bind", "clear", "reset", "set", "set", "set"])
        keywords = rng.sample(["platform", "chat_id", "user_id", "session_key", "session_id"], rng.randrange(4))
        given = {keyword: rng.choice(VALUES[:-1]) for keyword in keywords}
        chosen.append((what, given if what == "bind" else (rng.choice(SESSION), rng.choice(VALUES))))
    return chosen


def act(module: ModuleType, chosen: list[tuple[str, Any]]) -> None:
    for what, given in chosen:
        if what == "bind":
            module.set_session_vars(**given)
        elif what == "clear":
            module.clear_session_vars([])
        elif what == "reset":
            module.reset_session_vars()
        else:
            name, value = given
            module._VAR_MAP[name].set(module._UNSET if value is original._UNSET else value)


def after(module: ModuleType, chosen: list[tuple[str, Any]], latch: bool, child: Callable[[], Any]) -> Any:
    """What *child* returns in a new task of *module*'s, after it has acted."""

    def task() -> Any:
        act(module, chosen)
        module._session_context_engaged = latch  # type: ignore[attr-defined]
        return child()

    return Context().run(task)


def injected(base: dict[str, str]) -> dict[str, str]:
    env = dict(base)
    local._inject_session_context_env(env)
    return env


def besides(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in BESIDES}


def same(what: str, expected: dict[str, str], got: dict[str, str], *told: object) -> None:
    if expected != got:
        names = {name for name in expected.keys() | got.keys() if expected.get(name) != got.get(name)}
        raise AssertionError(f"{what}: {sorted(names)} differ, after {told!r}")


def rule(rng: random.Random) -> None:
    """The default: Hermes' rule for sessions, alone."""
    base = environment(rng, [*SESSION, *OTHERS])
    chosen, latch = operations(rng), rng.random() < 0.5
    expected = after(original, chosen, latch, partial(injected, base))
    for module in (ADAPTED, original):
        sys.modules["hermes_env_bridge.session_context"] = module
        same("the rule", expected, after(module, chosen, latch, partial(child_env, base)), chosen, latch)
    planned, _ = after(ADAPTED, chosen, latch, partial(child_env, base, module=ADAPTED, explain=True))
    same("the plan", expected, planned, chosen, latch)


def credentials(rng: random.Random) -> None:
    """Hermes' three ways to make an environment, with its credential rules.

    Hermes' session overwrites what a caller adds; here the caller has the last word. So no session variable is added.
    """
    names = [*OTHERS, *rng.sample(CREDENTIALS, 12), *SECRETS]
    base = environment(rng, [*SESSION, *names, "_HERMES_FORCE_OPENAI_API_KEY"])
    extra = environment(rng, [*names, "_HERMES_FORCE_GH_TOKEN", "_HERMES_FORCE_AUXILIARY_X_API_KEY"])
    chosen, latch = operations(rng), rng.random() < 0.5
    env_passthrough.clear_env_passthrough()
    env_passthrough.register_env_passthrough(rng.sample(names, 3))
    os.environ.clear()
    os.environ.update(base)

    def compare(theirs: Callable[..., Any], given: dict[str, Any], *arguments: Any, **options: Any) -> None:
        expected = after(original, chosen, latch, partial(theirs, *arguments, **options))
        got = after(ADAPTED, chosen, latch, partial(child_env, module=ADAPTED, **given))
        same(theirs.__name__, besides(expected), besides(got), chosen, latch)

    terminal = hermes_credentials("terminal")
    compare(local._sanitize_subprocess_env, {"base": base, "extra": extra, "credentials": terminal}, base, extra)
    session = {name: value for name, value in base.items() if name in SESSION}
    merged = {name: value for name, value in (base | extra).items() if name not in SESSION}
    compare(local._make_run_env, {"base": session, "extra": merged, "credentials": terminal}, extra)
    for inherit, spawn in ((False, "program"), (True, "model")):
        compare(local.hermes_subprocess_env, {"credentials": spawn}, inherit_credentials=inherit)


def main(seed: int, triples: int) -> None:
    logging.disable()
    rng = random.Random(seed)
    for _ in range(triples):
        rule(rng)
        credentials(rng)
    print(triples)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
