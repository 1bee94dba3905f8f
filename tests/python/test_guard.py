"""The guard: which spawns it sees, what it says of them, and what it lets pass."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import pickle
import pty
import random
import signal
import subprocess
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pytest
from conftest import fresh, run_python

import hermes_env_bridge
from hermes_env_bridge import ForeignIdentityError, _guard, guard, report, session_context

KEY = "HERMES_SESSION_KEY"
OTHER = "another-sessions-key"
SHELL = "/bin/sh"
TRUE = "/bin/true"

Env = Mapping[Any, Any]


@pytest.fixture
def engaged(in_use: ModuleType) -> Iterator[None]:
    """A process in which a session was bound, elsewhere, and a guard that has seen nothing; afterwards it is off."""
    fresh(session_context.set_session_vars, session_key="some session's", session_id="i")
    report(reset=True)
    yield
    guard("off")
    report(reset=True)


@pytest.fixture
def said(tmp_path: Path, engaged: None) -> Iterator[Callable[[], str]]:
    """What the guard logged, in forked children too."""
    handler = logging.FileHandler(tmp_path / "log")
    logger = logging.getLogger("hermes_env_bridge.guard")
    logger.addHandler(handler)
    yield lambda: (tmp_path / "log").read_text()
    logger.removeHandler(handler)
    handler.close()


def command(out: Path) -> list[str]:
    """A child that writes the key that it got to *out*."""
    return [SHELL, "-c", f'printf %s "${KEY}" > {out}']


def stale() -> dict[str, str]:
    return {**os.environ, KEY: OTHER}


def reap(pid: int) -> None:
    os.waitpid(pid, 0)


class Lazy(dict[str, str]):
    """A dict that has more to hand over than it holds."""

    def items(self) -> Any:
        return (dict(super().items()) | {KEY: OTHER}).items()

    def keys(self) -> Any:
        return dict(self.items()).keys()

    def values(self) -> Any:
        return dict(self.items()).values()

    def __len__(self) -> int:
        return len(self.items())


def run(out: Path, env: Env | None, **options: Any) -> None:
    subprocess.run(command(out), env=env, check=False, **options)


def inherited(out: Path) -> None:
    os.environ[KEY] = OTHER
    run(out, None)


def os_environ_itself(out: Path) -> None:
    os.environ[KEY] = OTHER
    run(out, os.environ)


def os_environb_itself(out: Path) -> None:
    os.environ[KEY] = OTHER
    reap(os.posix_spawn(SHELL, command(out), os.environb))


def a_copy(out: Path) -> None:
    os.environ[KEY] = OTHER
    with subprocess.Popen(command(out), env=os.environ.copy()):
        pass


def merged(out: Path) -> None:
    os.environ[KEY] = OTHER
    subprocess.check_call(command(out), env=os.environ | {"CI": "1"})


def a_mapping(out: Path) -> None:
    subprocess.call(command(out), env=MappingProxyType(stale()))


def layers_of_mappings(out: Path) -> None:
    run(out, ChainMap({KEY: OTHER}, dict(os.environ)))


def a_dict_of_another_kind(out: Path) -> None:
    run(out, Lazy(os.environ))


def bytes_for_names_and_values(out: Path) -> None:
    run(out, {os.fsencode(name): os.fsencode(value) for name, value in stale().items()})


def a_path_for_a_name(out: Path) -> None:
    run(out, {**os.environ, Path(KEY): OTHER})


def both_spellings_of_a_name(out: Path) -> None:
    reap(os.posix_spawn(SHELL, command(out), {KEY.encode(): OTHER, KEY: OTHER}))  # type: ignore[arg-type]


def popen_through_posix_spawn(out: Path) -> None:
    run(out, stale(), close_fds=False)


def posix_spawn(out: Path) -> None:
    reap(os.posix_spawn(SHELL, command(out), stale()))


def posix_spawnp(out: Path) -> None:
    reap(os.posix_spawnp("sh", command(out), stale()))


def a_shell(out: Path) -> None:
    os.environ[KEY] = OTHER
    subprocess.run(command(out)[2], shell=True, check=False)


def os_system(out: Path) -> None:
    os.environ[KEY] = OTHER
    os.system(command(out)[2])


def os_popen(out: Path) -> None:
    os.environ[KEY] = OTHER
    os.popen(command(out)[2]).close()


def exec_in_a_forked_child(out: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.execve(SHELL, command(out), stale())
        finally:
            os._exit(127)
    reap(child)


def exec_with_a_search_of_path(out: Path) -> None:
    os.environ[KEY] = OTHER
    child = os.fork()
    if child == 0:
        try:
            os.environ["PATH"] = "/nonexistent:/bin"
            os.execvp("sh", command(out))
        finally:
            os._exit(127)
    reap(child)


def os_spawn(out: Path) -> None:
    os.spawnve(os.P_WAIT, SHELL, command(out), stale())


def a_terminal(out: Path) -> None:
    os.environ[KEY] = OTHER
    pty.spawn(command(out), master_read=lambda fd: os.read(fd, 1), stdin_read=lambda fd: b"")


def asyncio_exec(out: Path) -> None:
    async def main() -> None:
        await (await asyncio.create_subprocess_exec(*command(out), env=stale())).wait()

    asyncio.run(main())


def asyncio_shell(out: Path) -> None:
    os.environ[KEY] = OTHER

    async def main() -> None:
        await (await asyncio.create_subprocess_shell(command(out)[2])).wait()

    asyncio.run(main())


def the_sessions_own_environment_in_a_pools_thread(out: Path) -> None:
    """A bare pool's thread has no session, so what another thread built for it is nobody's there."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(run, out, {**os.environ, KEY: OTHER}).result()


WAYS: list[Callable[[Path], None]] = [
    inherited,
    os_environ_itself,
    os_environb_itself,
    a_copy,
    merged,
    a_mapping,
    layers_of_mappings,
    a_dict_of_another_kind,
    bytes_for_names_and_values,
    a_path_for_a_name,
    both_spellings_of_a_name,
    popen_through_posix_spawn,
    posix_spawn,
    posix_spawnp,
    a_shell,
    os_system,
    os_popen,
    exec_in_a_forked_child,
    exec_with_a_search_of_path,
    os_spawn,
    a_terminal,
    asyncio_exec,
    asyncio_shell,
    the_sessions_own_environment_in_a_pools_thread,
]
IN_THE_CHILD = [exec_in_a_forked_child, exec_with_a_search_of_path, os_spawn]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("bound", [False, True], ids=["unbound", "bound"])
def test_a_child_with_a_foreign_identity_is_seen_once_and_starts(
    way: Callable[[Path], None], bound: bool, said: Callable[[], str], tmp_path: Path
) -> None:
    def turn() -> None:
        if bound:
            session_context.set_session_vars(session_key="mine", session_id="i")
        way(tmp_path / "out")

    guard("warn")
    fresh(turn)
    assert (tmp_path / "out").read_text() == OTHER
    (line,) = said().splitlines()
    assert KEY in line
    assert f"{__file__}:" in line
    assert OTHER not in line
    # Those are seen where exec is called, which is in the child.
    counted = report()
    assert (counted.spawns, counted.foreign) == ((0, 0) if way in IN_THE_CHILD else (1, 1))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_child_with_a_foreign_identity_does_not_start_where_the_guard_blocks(
    way: Callable[[Path], None], said: Callable[[], str], tmp_path: Path
) -> None:
    guard("block")
    if way in IN_THE_CHILD:
        fresh(way, tmp_path / "out")
    else:
        with pytest.raises(ForeignIdentityError, match=KEY) as refused:
            fresh(way, tmp_path / "out")
        assert refused.value.names == (KEY,)
        assert OTHER not in str(refused.value)
        assert report().refused == 1
    assert not (tmp_path / "out").exists()
    assert len(said().splitlines()) == 1


def test_a_refusal_is_the_permission_error_that_a_spawn_may_raise_anyway(engaged: None) -> None:
    guard("block")
    with pytest.raises(PermissionError) as refused:
        fresh(subprocess.run, [TRUE], env={KEY: OTHER})
    assert refused.value.errno == 1
    assert "conftest.py" in str(refused.value)
    assert "child_env" in str(refused.value)


def test_nothing_is_judged_until_a_session_is_bound(engaged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_context, "_session_context_engaged", False)
    guard("block")
    fresh(subprocess.run, [TRUE], env={KEY: OTHER}, check=True)
    assert report().spawns == 0
    assert not report().engaged


def test_an_empty_variable_of_the_session_masks_a_stale_one(engaged: None) -> None:
    def turn() -> None:
        session_context.clear_session_vars(session_context.set_session_vars(session_key="mine"))
        subprocess.run([TRUE], env={KEY: ""}, check=True)
        with pytest.raises(ForeignIdentityError):
            subprocess.run([TRUE], env={KEY: "mine"}, check=True)

    guard("block")
    fresh(turn)


def test_values_are_compared_as_a_child_gets_them(engaged: None) -> None:
    def turn() -> None:
        session_context.set_session_vars(session_key=42, user_id=None, chat_name="\udcff", thread_id="ü")  # type: ignore[arg-type]
        right: dict[Any, Any] = {KEY: "42", "HERMES_SESSION_USER_ID": "", "HERMES_SESSION_CHAT_NAME": b"\xff"}
        subprocess.run([TRUE], env=right | {b"HERMES_SESSION_THREAD_ID": "ü".encode()}, check=True)
        with pytest.raises(ForeignIdentityError, match="USER_ID"):
            subprocess.run([TRUE], env=right | {"HERMES_SESSION_USER_ID": "None"}, check=True)

    guard("block")
    fresh(turn)


def test_a_variable_that_was_added_to_the_map_is_judged_too(engaged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextvars import ContextVar

    monkeypatch.setitem(session_context._VAR_MAP, "HERMES_FORKS_OWN", ContextVar("fork"))
    guard("block")
    with pytest.raises(ForeignIdentityError, match="HERMES_FORKS_OWN"):
        fresh(subprocess.run, [TRUE], env={"HERMES_FORKS_OWN": "1"})


def test_values_are_compared_by_their_bytes() -> None:
    split = os.fsdecode(b"\xc3") + os.fsdecode(b"\xa9")  # which together are one letter

    def turn(bound: str, carried: Any) -> None:
        session_context.set_session_vars(chat_name=bound, session_id="i")
        subprocess.run([TRUE], env={"HERMES_SESSION_CHAT_NAME": carried}, check=True)

    guard("block")
    for bound, carried in ((split, "é"), ("é", split), (split, "é".encode()), (split, split)):
        fresh(turn, bound, carried)
    for bound, carried in ((split, "è"), (split, b"\xc3"), ("\ud800", "é")):
        with pytest.raises(ForeignIdentityError, match="CHAT_NAME"):
            fresh(turn, bound, carried)


class Listed:
    """All that ``os.posix_spawn`` and ``os.exec*`` ask of a mapping."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env

    def keys(self) -> list[str]:
        return list(self.env)

    def values(self) -> list[str]:
        return list(self.env.values())

    def __getitem__(self, name: str) -> str:
        return self.env[name]

    def __len__(self) -> int:
        return len(self.env)


class Twice(Listed):
    """A mapping that has its names twice, as a child gets them."""

    def keys(self) -> list[str]:
        return super().keys() * 2

    def values(self) -> list[str]:
        return super().values() * 2


class OtherItems(dict[str, str]):
    """A dict that tells those who ask for items something else."""

    def items(self) -> Any:
        return {KEY: "mine"}.items()


def by_posix_spawn(env: Any) -> None:
    reap(os.posix_spawn(TRUE, [TRUE], env))


def by_popen_and_posix_spawn(env: Any) -> None:
    subprocess.run([TRUE], env=env, close_fds=False, check=True)


def by_a_failing_exec(env: Any) -> None:
    with suppress(FileNotFoundError):
        os.execve("/nonexistent", [TRUE], env)


@pytest.mark.parametrize("spawn", [by_posix_spawn, by_popen_and_posix_spawn, by_a_failing_exec])
def test_a_mapping_is_read_as_what_starts_the_child_reads_it(spawn: Callable[[Any], None], engaged: None) -> None:
    def turn(env: Any) -> None:
        session_context.set_session_vars(session_key="mine", session_id="i")
        spawn(env)

    guard("block")
    fresh(turn, Listed({KEY: "mine"}))
    assert (report().spawns, report().foreign, report().refused) == (1, 0, 0)
    for env in (Listed({KEY: OTHER}), OtherItems({KEY: OTHER})):
        with pytest.raises(ForeignIdentityError) as refused:
            fresh(turn, env)
        assert refused.value.names == (KEY,)
    with pytest.raises(ForeignIdentityError, match="cannot be judged"):
        fresh(turn, Twice({KEY: "mine"}))


class Unjudgeable:
    def __str__(self) -> str:
        raise OSError("no text")


def test_what_cannot_be_judged_is_refused_or_reported_and_passes(said: Callable[[], str]) -> None:
    def turn() -> None:
        session_context.set_session_vars(session_key=Unjudgeable())  # type: ignore[arg-type]
        subprocess.run([TRUE], check=True)

    guard("warn")
    fresh(turn)
    assert "cannot be judged: OSError" in said()
    guard("block")
    with pytest.raises(ForeignIdentityError) as refused:
        fresh(turn)
    assert isinstance(refused.value.__cause__, OSError)


class Spawning:
    def __str__(self) -> str:
        subprocess.run([TRUE], check=True)
        return "text"


def test_a_value_that_spawns_when_it_is_asked_for_its_text_cannot_be_judged(said: Callable[[], str]) -> None:
    def turn() -> None:
        session_context.set_session_vars(session_key=Spawning(), session_id="i")  # type: ignore[arg-type]
        subprocess.run([TRUE], env={KEY: "text"}, check=True)

    guard("warn", reads="off")
    fresh(turn)
    assert said().count("cannot be judged: RecursionError") == 1
    guard("block", reads="off")
    with pytest.raises(ForeignIdentityError):
        fresh(turn)


def test_a_child_without_the_tasks_identity_is_counted_and_no_fault(engaged: None) -> None:
    def turn() -> None:
        session_context.set_session_vars(session_key="mine")
        subprocess.run([TRUE], env={}, check=True)

    guard("block")
    fresh(turn)
    assert (report().spawns, report().bare) == (1, 1)


def test_none_stands_for_the_process_environment_even_where_os_environ_is_patched(
    engaged: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    guard("warn")
    with monkeypatch.context() as patched:
        patched.setattr(os, "environ", {**os.environ, KEY: "never handed over"})
        fresh(run, tmp_path / "clean", None)
    assert (tmp_path / "clean").read_text() == ""
    assert report().foreign == 0
    monkeypatch.setenv(KEY, OTHER)
    with monkeypatch.context() as patched:
        patched.setattr(os, "environ", {"PATH": os.environ["PATH"]})
        fresh(run, tmp_path / "stale", None)
    assert (tmp_path / "stale").read_text() == OTHER
    assert report().foreign == 1


def test_an_os_environ_that_popen_hands_over_for_none_is_judged_where_it_is_patched(
    engaged: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    guard("warn")
    monkeypatch.setattr(os, "environ", {**os.environ, KEY: OTHER})
    fresh(run, tmp_path / "out", None, close_fds=False)
    handed_over = (tmp_path / "out").read_text() == OTHER  # it is up to 3.12
    assert report().spawns == 1
    assert [site.names for site in report().sites] == ([(KEY,)] if handed_over else [])


def test_one_spawn_that_raises_two_events_counts_once(engaged: None) -> None:
    events: list[str] = []
    sys.addaudithook(lambda event, args: events.append(event) if "spawn" in event or "Popen" in event else None)
    guard("warn")
    fresh(subprocess.run, [TRUE], close_fds=False, check=True)
    assert {"subprocess.Popen", "os.posix_spawn"} <= set(events)
    assert report().spawns == 1


def test_a_line_of_code_is_told_of_when_its_count_has_doubled(said: Callable[[], str]) -> None:
    def spawns() -> None:
        for _ in range(100):
            sys.audit("subprocess.Popen", TRUE, [TRUE], None, {KEY: OTHER})

    guard("warn")
    fresh(spawns)
    assert len(said().splitlines()) == 7  # 1, 2, 4, … 64
    (site,) = report().sites
    assert (site.kind, site.names, site.count) == ("foreign identity", (KEY,), 100)
    assert site.site.function.endswith("spawns")


def test_the_site_is_the_programs_own_line_and_the_librarys_where_there_is_none(engaged: None) -> None:
    guard("warn")
    fresh(asyncio.run, _spawn_deeply())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(subprocess.run, [TRUE], env={KEY: OTHER}).result()
    ours, librarys = report().sites
    assert (Path(ours.site.file).name, ours.site.function) == ("test_guard.py", "_spawn_deeply")
    assert Path(librarys.site.file).name == "subprocess.py"


async def _spawn_deeply() -> None:
    await (await asyncio.create_subprocess_exec(TRUE, env={KEY: OTHER})).wait()


def test_sites_beyond_a_limit_are_counted_together(engaged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_guard, "_MOST_SITES", 3)
    guard("warn")
    for line in range(10):
        code = compile("\n" * line + "import sys; sys.audit('os.system', b'')", f"made up {line}", "exec")
        os.environ[KEY] = OTHER
        fresh(exec, code, {})
    del os.environ[KEY]
    assert sorted(site.count for site in report().sites) == [1, 1, 1, 7]


def test_a_handler_that_spawns_does_not_go_round_in_circles(engaged: None) -> None:
    class Mailer(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            subprocess.run([TRUE], env={KEY: OTHER}, check=True)

    logger, mailer = logging.getLogger("hermes_env_bridge.guard"), Mailer()
    logger.addHandler(mailer)
    try:
        guard("warn")
        fresh(subprocess.run, [TRUE], env={KEY: OTHER}, check=True)
    finally:
        logger.removeHandler(mailer)
    assert report().foreign == 2


def test_a_handler_that_exits_does_not_stop_what_is_only_watched(engaged: None) -> None:
    class Exiting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise SystemExit(3)

    logger, exiting = logging.getLogger("hermes_env_bridge.guard"), Exiting()
    logger.addHandler(exiting)
    try:
        guard("warn")
        fresh(subprocess.run, [TRUE], env={KEY: OTHER}, check=True)
    finally:
        logger.removeHandler(exiting)
    assert report().foreign == 1


def test_what_a_signals_handler_counts_while_its_thread_is_counting_is_not_lost() -> None:
    tally = _guard._Tally()

    def interrupted() -> Iterator[bool]:
        for _ in range(5):
            tally.add((True, False, False, False, False))
            yield True

    tally.add(interrupted())  # type: ignore[arg-type]  # what runs between two counts stands for the handler
    assert tally.counts == [6, 1, 1, 1, 1]


# What child_env made.


def deliberately(env: dict[str, str]) -> dict[str, str]:
    return hermes_env_bridge.child_env({}, extra=env)


@pytest.mark.parametrize(
    "form",
    [
        dict,
        lambda env: {**env, "CI": "1"},
        lambda env: {"CI": "1"} | env,
        copy.copy,
        copy.deepcopy,
        MappingProxyType,
        lambda env: ChainMap({}, env),
        lambda env: {name.encode(): value for name, value in env.items()},
    ],
    ids=["the same", "merged", "merged into", "copied", "copied deeply", "a view", "layers", "bytes for names"],
)
def test_an_environment_that_was_made_on_purpose_passes_in_every_form_and_in_every_thread(
    form: Callable[[dict[str, str]], Env], engaged: None
) -> None:
    guard("block")
    made = form(deliberately({KEY: "another session's, as the caller wants"}))
    fresh(subprocess.run, [TRUE], env=made, check=True)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(subprocess.run, [TRUE], env=made, check=True).result()
    assert (report().spawns, report().stated, report().foreign) == (2, 2, 0)


def test_what_replaces_a_value_in_such_an_environment_is_judged(engaged: None) -> None:
    guard("block")
    made = deliberately({KEY: "stated", "HERMES_SESSION_ID": "stated"})
    made["HERMES_SESSION_ID"] = OTHER
    with pytest.raises(ForeignIdentityError) as refused:
        fresh(subprocess.run, [TRUE], env=made)
    assert refused.value.names == ("HERMES_SESSION_ID",)


def test_such_an_environment_that_became_the_process_own_is_judged(
    engaged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard("block")
    monkeypatch.setenv(KEY, "")
    os.environ.update(deliberately({KEY: "stated"}))
    with pytest.raises(ForeignIdentityError):
        fresh(subprocess.run, [TRUE])


def test_a_stated_value_is_text_like_any_other() -> None:
    from hermes_env_bridge._planned import Stated

    value = Stated("v")
    assert (value, repr(value), hash(value), f"{value}") == ("v", "'v'", hash("v"), "v")
    assert type(pickle.loads(pickle.dumps(value))) is str
    assert copy.deepcopy(value) is value


def test_nothing_is_marked_where_there_is_no_guard() -> None:
    result = run_python(
        "from hermes_env_bridge import child_env\n"
        "assert type(child_env({}, extra={'HERMES_SESSION_KEY': 'k'})['HERMES_SESSION_KEY']) is str"
    )
    assert result.returncode == 0, result.stderr


# Many clean ones, and each of them with one value changed.

FORMS: list[Callable[[dict[str, str]], Env]] = [
    dict,
    MappingProxyType,
    lambda env: ChainMap({}, env),
    lambda env: {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
    lambda env: {os.fsencode(name): value for name, value in env.items()},
    lambda env: {Path(name): value for name, value in env.items()},
]


def bridged(base: dict[str, str]) -> dict[str, str]:
    """What a child gets by Hermes' rule, worked out from the variables themselves."""
    env = dict(base)
    for name, variable in session_context._VAR_MAP.items():
        value = variable.get()
        env.pop(name, None)
        if value is not session_context._UNSET:
            env[name] = "" if value is None else str(value)
    return env


def test_ten_thousand_clean_spawns_pass_and_each_of_them_is_caught_with_one_value_changed(
    said: Callable[[], str],
) -> None:
    rng = random.Random(5)
    names = list(session_context._VAR_MAP)
    keywords = [keyword for _, keyword in hermes_env_bridge._core.VARIABLES if keyword]
    base = {f"VARIABLE_{i}": str(i) for i in range(60)}
    caught = 0

    def turn(number: int) -> None:
        nonlocal caught
        match rng.randrange(4):
            case 0:
                pass
            case 1:
                session_context.clear_session_vars([])
            case _:
                given: dict[str, Any] = {k: rng.choice(["", "v", "ü", 7, None]) for k in rng.sample(keywords, 6)}
                session_context.set_session_vars(**given)
        for name in rng.sample(names, 2):
            session_context._VAR_MAP[name].set(rng.choice([session_context._UNSET, "", f"own {number}"]))
        inherited = dict.fromkeys(rng.sample(names, rng.randrange(5)), "stale")
        form = rng.choice(FORMS)
        clean = bridged(base | inherited)
        if number % 20 == 0:
            reap(os.posix_spawn(TRUE, [TRUE], form(clean)))
        else:
            sys.audit("os.posix_spawn", TRUE, [TRUE], form(clean))
        changed = form(clean | {rng.choice(names): f"foreign {number}"})
        try:
            sys.audit("os.posix_spawn", TRUE, [TRUE], changed)
        except ForeignIdentityError:
            caught += 1

    guard("block")
    for number in range(10_000):
        fresh(turn, number)
    counted = report()
    assert (counted.spawns, counted.foreign, counted.refused, caught) == (20_000, 10_000, 10_000, 10_000)
    assert sum(site.count for site in counted.sites if site.kind == "foreign identity") == 10_000


# How it is turned on.


@pytest.mark.parametrize("mode", ["warn", "block", "off", ""])
def test_the_variable_turns_it_on_as_the_package_is_imported(mode: str) -> None:
    code = "import hermes_env_bridge as h; print(h.report().mode, h.report().reads, h._guard._guard.installed)"
    env = {**os.environ, "HERMES_ENV_BRIDGE_GUARD": mode}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    on = mode in ("warn", "block")
    assert told.split() == [mode or "off", "count" if on else "off", str(on)]


def test_a_variable_with_another_word_is_an_error_that_names_it() -> None:
    env = {**os.environ, "HERMES_ENV_BRIDGE_GUARD": "blok"}
    told = subprocess.run(
        [sys.executable, "-c", "import hermes_env_bridge"], env=env, capture_output=True, text=True, check=False
    )
    assert told.returncode == 1
    assert told.stderr.splitlines()[-1].startswith(
        "ValueError: HERMES_ENV_BRIDGE_GUARD is no mode of the guard: 'blok'"
    )


@pytest.mark.parametrize(("mode", "reads"), [("on", None), ("warn", "block"), (None, None), (True, None)])
def test_an_unknown_mode_is_refused_and_changes_nothing(mode: Any, reads: Any) -> None:
    with pytest.raises(ValueError, match="choose from"):
        guard(mode, reads=reads)
    assert report().mode == "off"


def test_the_error_of_an_unknown_mode_says_which_argument_it_is() -> None:
    with pytest.raises(ValueError, match="the guard has no reads 'x'; choose from off, count, warn"):
        guard("warn", reads="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the guard has no mode 'x'; choose from off, warn, block"):
        guard("x")  # type: ignore[arg-type]


def test_a_hook_that_vetoes_the_guard_is_an_error_and_not_a_guard_that_sees_nothing() -> None:
    result = run_python(
        "import sys, hermes_env_bridge as h\n"
        "def veto(event, args):\n"
        "    if event == 'sys.addaudithook': raise RuntimeError\n"
        "sys.addaudithook(veto)\n"
        "try: h.guard('block')\n"
        "except h.GuardError as error: print(error)\n"
        "print(h.report().mode)"
    )
    assert "added earlier" in result.stdout
    assert result.stdout.splitlines()[-1] == "off"


def test_turning_it_off_and_on_again_adds_no_second_hook(engaged: None) -> None:
    for mode in ("warn", "off", "block", "warn"):
        guard(mode)
    fresh(subprocess.run, [TRUE], env={KEY: OTHER}, check=True)
    assert report().foreign == 1
    guard("off")
    fresh(subprocess.run, [TRUE], env={KEY: OTHER}, check=True)
    assert report().foreign == 1


def test_a_forked_child_counts_its_own_and_is_not_held_up_by_a_lock_of_its_parents(engaged: None) -> None:
    guard("warn")
    fresh(subprocess.run, [TRUE], env={KEY: OTHER}, check=True)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with _guard._guard.tally.lock:
            held.set()
            done.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        fresh(subprocess.run, [TRUE], env={KEY: OTHER}, check=True)
        os._exit(0 if report().foreign == 1 else 1)
    done.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0


def test_the_report_is_for_people_too_and_has_no_values(engaged: None) -> None:
    guard("warn")
    fresh(subprocess.run, [TRUE], env={KEY: OTHER}, check=True)
    told = str(report())
    assert "guard warn, reads count, engaged: spawns 1, foreign 1" in told
    assert KEY in told
    assert OTHER not in told
