"""Process leases in Python: children of asyncio, recorded by the registry that the crate tests."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import run_python

from hermes_env_bridge import OmniusRunContext, _core, entry, run_with_omnius_context
from hermes_env_bridge.leases import LeaseHeldError, LeaseRecord, Registry, inherited_lineage, spawn

NAMES = ["OMNIUS_OWNER_ID", "OMNIUS_PROCESS_LEASE_ID", "OMNIUS_PROJECT_ROOT", "OMNIUS_RUN_ID"]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def eventually(holds: Callable[[], bool]) -> None:
    patience = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < patience
        time.sleep(0.005)


async def environment(registry: Registry, **ordered: Any) -> tuple[str, dict[str, str]]:
    """The four variables as a child finds them."""
    child = await spawn("env", registry=registry, stdout=asyncio.subprocess.PIPE, **ordered)
    assert child.process.stdout is not None
    lines = (await child.process.stdout.read()).decode().splitlines()
    assert await child.wait() == 0
    return child.lease, {name: value for name, _, value in (line.partition("=") for line in lines) if name in NAMES}


def test_a_child_is_recorded_and_told_where_it_was_ordered() -> None:
    registry = Registry()
    lease, variables = asyncio.run(environment(registry, run_id="R0", owner=("user", "u7"), project_root="/srv"))
    assert [variables[name] for name in NAMES] == ["u7", lease, "/srv", "R0"]
    record = registry.get(lease)
    assert (record.state, record.returncode, record.command) == ("exited", 0, ("env",))
    assert (record.owner_kind, record.owner_id, record.project_root, record.run_id) == ("user", "u7", "/srv", "R0")
    assert record.holder.pid == os.getpid()
    assert "env" not in repr(record)


def test_a_process_is_recorded_with_its_start_and_one_that_has_ended_before_with_its_number_alone() -> None:
    registry = Registry()

    async def main() -> None:
        child = await spawn("cat", registry=registry, stdin=asyncio.subprocess.PIPE)
        start_time = int(Path(f"/proc/{child.process.pid}/stat").read_text().rpartition(") ")[2].split()[19])
        assert registry.get(child.lease).process == (child.process.pid, start_time)
        assert child.process.stdin is not None
        child.process.stdin.close()
        assert await child.wait() == 0

    asyncio.run(main())
    ended = subprocess.Popen(["true"])
    ended.wait()
    native = _core.LeaseRegistry(None)
    for pid in [ended.pid, os.getppid()]:
        lease = native.register(None, None, None)
        lease.started(pid)
        assert native.get(lease.id)["process"] == (pid, None)


def test_a_child_of_another_lease_is_not_taken_for_the_own_one() -> None:
    native = _core.LeaseRegistry(None)
    mine, other = (native.register(None, None, None) for _ in range(2))
    environment = dict(os.environ) | {"OMNIUS_PROCESS_LEASE_ID": other.id}
    with subprocess.Popen(["sleep", "300"], env=environment, process_group=0) as child:
        mine.started(child.pid)
        assert native.get(mine.id)["process"] == (child.pid, None)
        assert native.terminate(mine.id, None, None, 0) == [
            (mine.id, "no proof", "the process could not be identified when the lease was recorded")
        ]
        assert child.poll() is None
        other.started(child.pid)
        assert native.terminate(other.id, None, None, 60) == [(other.id, "ended", None)]


@pytest.mark.parametrize("surface", ["api", "background", "tui", "scheduler"])
def test_phase_4_children_have_their_owner_without_the_call_site_saying_so(surface: str) -> None:
    registry = Registry()

    async def work() -> tuple[str, dict[str, str]]:
        return await asyncio.create_task(environment(registry))

    enter = getattr(entry, surface)(owner_kind="user", owner_id="u7", project_root="/srv")
    lease, variables = asyncio.run(enter(work)())
    record = registry.get(lease)
    assert (record.owner_kind, record.owner_id, record.project_root) == ("user", "u7", "/srv")
    assert [variables[name] for name in NAMES] == ["u7", lease, "/srv", record.run_id]
    assert registry.get(registry.register().id).owner_id is None


def test_what_is_stated_goes_before_what_the_run_says() -> None:
    registry = Registry()
    run = OmniusRunContext(run_id="r1", surface="api", owner_kind="user", owner_id="u7", project_root="/srv")
    lease = run_with_omnius_context(run, lambda: registry.register(owner=("job", "nightly")).id)
    record = registry.get(lease)
    assert (record.run_id, record.owner_kind, record.owner_id) == ("r1", "job", "nightly")
    assert record.project_root == "/srv"


def test_l07_an_owner_is_never_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "foreign")
    registry = Registry()
    lease, variables = asyncio.run(environment(registry))
    assert variables == {"OMNIUS_PROCESS_LEASE_ID": lease}
    record = registry.get(lease)
    assert (record.owner_kind, record.owner_id, record.project_root, record.run_id) == (None,) * 4


def test_l06_a_child_that_starts_its_own_run_has_its_own_ids_and_the_parent_link(tmp_path: Path) -> None:
    code = """if True:
        import asyncio, sys
        from hermes_env_bridge.leases import Registry, inherited_lineage, spawn

        async def main():
            owner = inherited_lineage().owner_id
            child = await spawn("env", registry=Registry(sys.argv[1]), run_id="R1", owner=("user", owner))
            await child.wait()

        asyncio.run(main())
    """
    registry = Registry(tmp_path / "leases.db")

    async def outer() -> tuple[str, str]:
        child = await spawn(
            sys.executable,
            *("-c", code, str(tmp_path / "leases.db")),
            registry=registry,
            run_id="R0",
            owner=("user", "u7"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.process.stdout is not None
        output = await child.process.stdout.read()
        assert await child.wait() == 0
        return child.lease, output.decode()

    l1, output = asyncio.run(outer())
    [inner] = registry.leases(run_id="R1")
    assert (inner.parent, inner.owner_id) == (l1, "u7")
    said = sorted(line for line in output.splitlines() if line.startswith("OMNIUS_"))
    assert said == ["OMNIUS_OWNER_ID=u7", f"OMNIUS_PROCESS_LEASE_ID={inner.id}", "OMNIUS_RUN_ID=R1"]


def test_the_lineage_is_what_the_process_was_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, hermes_env_bridge; os.environ['OMNIUS_RUN_ID'] = 'later';"
        "from hermes_env_bridge.leases import inherited_lineage; print(inherited_lineage().run_id)"
    )
    monkeypatch.setenv("OMNIUS_RUN_ID", "at start")
    assert run_python(code).stdout == "at start\n"
    assert inherited_lineage().lease_id is None


def test_l08_a_completion_goes_to_the_run_that_ordered_the_work() -> None:
    registry = Registry()

    async def main() -> tuple[LeaseRecord, LeaseRecord | None]:
        of_a, of_b = registry.completions("A"), registry.completions("B")
        waiting = asyncio.ensure_future(anext(of_a))
        await asyncio.sleep(0)
        child = await spawn("sh", "-c", "exit 3", registry=registry, run_id="A")
        assert await child.wait() == 3
        return await waiting, of_b.take()

    taken, none = asyncio.run(main())
    assert (taken.run_id, taken.returncode, taken.state, none) == ("A", 3, "released", None)


def test_l09_a_completion_that_nobody_can_take_is_kept_with_the_reason() -> None:
    registry = Registry()

    async def main() -> None:
        for run_id in [None, "gone"]:
            await (await spawn("true", registry=registry, run_id=run_id)).wait()

    asyncio.run(main())
    assert [(lease.run_id, reason) for lease, reason in registry.undelivered()] == [
        (None, "the work was ordered outside any run"),
        ("gone", "nobody takes the completions of the run"),
    ]
    assert registry.completions("gone").take() is not None
    assert len(registry.undelivered()) == 1


def test_l04_a_killed_holder_gives_its_name_over_and_a_living_one_is_never_robbed(tmp_path: Path) -> None:
    code = (
        "import sys; from hermes_env_bridge.leases import Registry;"
        "held = Registry(sys.argv[1]).acquire('session'); print(held.lease.id, flush=True); sys.stdin.read()"
    )
    path = tmp_path / "leases.db"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        lease = holder.stdout.readline().strip()
        registry = Registry(path)
        with pytest.raises(LeaseHeldError, match=f"process {holder.pid}") as held:
            registry.acquire("session")
        assert (held.value.holder.id, held.value.holder.holder.pid) == (lease, holder.pid)
        holder.kill()
    acquired = registry.acquire("session")
    assert acquired.previous is not None
    assert acquired.previous.id == lease


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of the system call is that of x86-64")
def test_l03_a_process_whose_first_thread_has_ended_is_no_zombie(tmp_path: Path) -> None:
    code = """if True:
        import ctypes, sys, threading
        from hermes_env_bridge.leases import Registry
        held = Registry(sys.argv[1]).acquire("session")
        threading.Thread(target=sys.stdin.read).start()
        print(held.lease.id, flush=True)
        ctypes.CDLL(None).syscall(60, 0)  # exit, of this thread alone
    """
    path = tmp_path / "leases.db"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        eventually(lambda: not runs(holder.pid))
        with pytest.raises(LeaseHeldError):
            Registry(path).acquire("session")
        holder.kill()
    assert Registry(path).acquire("session").previous is not None


def test_a_whole_group_is_terminated_and_the_state_follows() -> None:
    registry = Registry()

    async def main() -> None:
        script = "trap '' TERM; sleep 300 & echo $!; wait; wait"
        child = await spawn("sh", "-c", script, registry=registry, owner=("user", "a"), stdout=asyncio.subprocess.PIPE)
        other = await spawn("sleep", "300", registry=registry, owner=("user", "b"))
        assert child.process.stdout is not None
        grandchild = int(await child.process.stdout.readline())
        ended = await registry.terminate(owner=("user", "a"), grace=0.2)
        assert [(one.lease, one.outcome) for one in ended] == [(child.lease, "killed")]
        assert await child.wait() == -signal.SIGKILL
        assert (registry.get(child.lease).signal, registry.get(child.lease).returncode) == (signal.SIGKILL, None)
        assert (runs(grandchild), runs(other.process.pid)) == (False, True)
        await registry.terminate(lease=other.lease)
        assert await other.wait() == -signal.SIGTERM

    asyncio.run(main())


def test_a_lease_that_is_terminated_while_its_child_starts_has_none() -> None:
    registry = Registry()

    async def main() -> None:
        lease = registry.register(owner=("user", "a"))
        native = lease._native
        start = asyncio.create_subprocess_exec
        started: list[int] = []

        async def and_terminate(*command: Any, **options: Any) -> asyncio.subprocess.Process:
            process = await start(*command, **options)
            started.append(process.pid)
            assert [one.outcome for one in registry.blocking_terminate(lease=native.id)] == ["never started"]
            return process

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "create_subprocess_exec", and_terminate)
            with pytest.raises(RuntimeError, match="released"):
                await lease.spawn("sleep", "300")
        assert not runs(started[0])

    asyncio.run(main())


def test_a_child_that_cannot_be_started_releases_its_lease() -> None:
    registry = Registry()
    cases: list[tuple[str, dict[str, Any], type[Exception]]] = [
        ("/no/such/program", {}, FileNotFoundError),
        ("true", {"process_group": 0}, TypeError),
    ]
    for program, options, error in cases:
        with registry.register() as lease, pytest.raises(error):
            asyncio.run(lease.spawn(program, **options))
        assert registry.get(lease.id).state == "released"


def test_a_child_whose_loop_has_ended_is_recovered() -> None:
    registry = Registry()

    async def main() -> int:
        child = await spawn("sleep", "300", registry=registry)
        return child.process.pid

    pid = asyncio.run(main())
    [lease] = registry.leases()
    assert (lease.state, registry.recover().exited) == ("running", [])
    assert [one.outcome for one in registry.blocking_terminate(lease=lease.id)] == ["ended"]
    assert not runs(pid)
    assert registry.get(lease.id).state == "exited"


def test_a_forked_process_has_a_connection_and_an_identity_of_its_own(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "leases.db")
    mine = registry.register()

    def child(answers: Any) -> None:
        lease = registry.register()
        answers.put((registry.get(lease.id).holder.pid, os.getpid()))

    context = multiprocessing.get_context("fork")
    answers: multiprocessing.SimpleQueue[tuple[int, int]] = context.SimpleQueue()
    process = context.Process(target=child, args=(answers,))
    process.start()
    holder, pid = answers.get()
    process.join()
    assert holder == pid == process.pid
    assert registry.get(mine.id).holder.pid == os.getpid()
    assert len(registry.leases()) == 2


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda registry: registry.get("x"), ValueError),
        (lambda registry: registry.get("01900000-0000-7000-8000-000000000000"), LookupError),
        (lambda registry: registry.register(run_id=""), ValueError),
        (lambda registry: registry.register(owner="user"), TypeError),
        (lambda registry: registry.register(owner=("user", 7)), TypeError),
        (lambda registry: registry.leases(states=["over"]), ValueError),
        (lambda registry: registry.blocking_terminate(), ValueError),
        (lambda registry: registry.blocking_terminate(run_id="r", grace=-1), ValueError),
        (lambda registry: registry.blocking_terminate(run_id="r", owner=("user", "a")), ValueError),
        (lambda registry: Registry("/no/such/folder/leases.db"), OSError),
        (lambda registry: Registry(__file__), ValueError),
    ],
)
def test_bad_input_is_refused(call: Callable[[Registry], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(Registry())


def test_native_classes_are_made_by_the_registry_alone() -> None:
    for native in (_core.PendingLease, _core.LeaseWatch, _core.LeaseCompletions):
        with pytest.raises(TypeError):
            native()


def test_the_table_of_the_docs_names_tests_that_exist() -> None:
    root = Path(__file__).parents[2]
    table = (root / "docs" / "leases.md").read_text().partition("| report | test |")[2]
    named = set(re.findall(r"`([a-z]\w{20,})`", table))
    assert len(named) > 15
    sources = [*(root / "tests").rglob("*.rs"), *(root / "src").rglob("*.rs"), Path(__file__)]
    there = set(re.findall(r"(?:fn|def) (\w+)", "\n".join(source.read_text() for source in sources)))
    assert named <= there, sorted(named - there)


def test_a_lease_ends_with_its_process_though_a_grandchild_holds_the_pipe() -> None:
    async def main() -> None:
        registry = Registry()
        pipe = asyncio.subprocess.PIPE
        script = "exec 3<&0; cat <&3 & exit 7"
        child = await spawn("sh", "-c", script, registry=registry, run_id="r", stdin=pipe, stdout=pipe)
        stdin, stdout = child.process.stdin, child.process.stdout
        assert stdin is not None
        assert stdout is not None
        assert await child.wait() == 7
        assert registry.get(child.lease).state == "exited"
        stdin.close()
        assert await stdout.read() == b""

    asyncio.run(main())


def test_everybody_who_waits_for_completions_gets_one_whoever_else_looks() -> None:
    async def main() -> None:
        registry = Registry()
        completions = registry.completions("r")
        first, second = (asyncio.ensure_future(anext(completions)) for _ in range(2))
        cancelled = asyncio.ensure_future(anext(completions))
        await asyncio.sleep(0.05)
        assert completions.take() is None
        cancelled.cancel()
        for _ in range(2):
            await (await spawn("true", registry=registry, run_id="r")).wait()
        taken = await asyncio.wait_for(asyncio.gather(first, second), 5)
        assert len({record.id for record in taken}) == 2
        assert registry.undelivered() == []

    asyncio.run(main())
