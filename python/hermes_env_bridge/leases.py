"""Process leases: which child process runs, for whom, and who is told when it ends.

A :class:`Registry` has one record per child, made *before* the child: pending, then running, exited and released. It is
kept in memory, or in a file that several processes share and that outlives them all. :func:`spawn` is the one way to a
child. What a lease says of its owner, run and project is where the work was ordered, never what this process finds in
its environment. A lease says who a child works for and is no permission.

Where nothing else is said, a method raises OSError if the store cannot be read or written.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from hermes_env_bridge import _core
from hermes_env_bridge._core import child_env
from hermes_env_bridge.run_context import get_omnius_run_context

Owner = tuple[str | None, str]
"""The kind of an owner, such as ``user`` or ``job``, and its id, unique among those of its kind."""

State = Literal["pending", "running", "exited", "released"]

Outcome = Literal["never started", "already gone", "ended", "killed", "no proof", "not permitted", "survived"]


class Process(NamedTuple):
    """A process by its number and the time it was started, in clock ticks since the boot; None if nobody saw that."""

    pid: int
    start_time: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseRecord:
    """What a registry knows of one lease, as it was when it was read. Times are milliseconds since the Unix epoch."""

    id: str
    name: str | None
    state: State
    run_id: str | None
    owner_kind: str | None
    owner_id: str | None
    project_root: str | None
    parent: str | None
    """The lease of which the registering process is the child."""
    holder: Process
    """The process that registered the lease, and the parent of the child."""
    process: Process | None
    """The child, once it runs."""
    command: tuple[str, ...] = field(repr=False)
    """The program and its arguments, which may be secrets."""
    returncode: int | None
    """What the child returned; None while it runs, if a signal ended it, and if nobody saw its end."""
    signal: int | None
    """The signal that ended the child."""
    created_at: int
    started_at: int | None
    exited_at: int | None
    delivered_at: int | None
    released_at: int | None
    renewed_at: int
    """When the holder last said that it still holds the lease. No sign of progress."""
    active_at: int
    """When the work last got ahead. No sign that anybody still holds the lease."""


def _record(fields: dict[str, Any]) -> LeaseRecord:
    process = fields["process"]
    fields |= {
        "command": tuple(fields["command"]),
        "holder": Process(*fields["holder"]),
        "process": None if process is None else Process(*process),
    }
    return LeaseRecord(**fields)


class LeaseHeldError(RuntimeError):
    """The name is held by :attr:`holder`, which is alive or cannot be proved dead."""

    def __init__(self, message: str, holder: LeaseRecord) -> None:
        """Say so, of *holder*."""
        super().__init__(message)
        self.holder = holder


@dataclass(frozen=True, slots=True)
class Lineage:
    """Whose child this process was started as. It says where the process comes from, and not who it is."""

    lease_id: str | None
    owner_id: str | None
    project_root: str | None
    run_id: str | None


def inherited_lineage() -> Lineage:
    """Return whose child this process was started as: what ``os.environ`` said when this package was imported.

    The lease is the parent of those that this process registers. Nothing takes an owner or a run from it; a program
    that wants to go on for the same owner gives :attr:`Lineage.owner_id` to its own run.
    """
    return Lineage(*_core.inherited_lineage())


class Undelivered(NamedTuple):
    """A completion that nobody took, and why."""

    lease: LeaseRecord
    reason: str


class Recovery(NamedTuple):
    """What :meth:`Registry.recover` found of processes that are gone."""

    never_started: list[LeaseRecord]
    """Leases whose holder died before it started a process: release them."""
    orphans: list[LeaseRecord]
    """Leases whose process runs, or cannot be proved dead, though its holder is dead."""
    exited: list[LeaseRecord]
    """Leases whose process has ended with nobody there to see it; they are exited now, and undelivered."""


class Terminated(NamedTuple):
    """What became of a lease that was to be terminated; for ``no proof``, with the reason."""

    lease: str
    outcome: Outcome
    reason: str | None


class Acquired(NamedTuple):
    """A lease on a name, and the one that had it and is proved dead, None if it was free."""

    lease: Lease
    previous: LeaseRecord | None


class Registry:
    """Who runs which child, for whom: in memory, or in the file *path*, which several processes may have open.

    Raises ValueError if the file is something else than a registry, or of a newer version.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Open the registry, and make the file if it is not there."""
        self._native = _core.LeaseRegistry(path)

    def register(
        self, *, run_id: str | None = None, owner: Owner | None = None, project_root: str | None = None
    ) -> Lease:
        """Return a new pending lease. What is not given is the current run's.

        Raises ValueError, which names the field, if a text is empty or has a NUL.
        """
        return Lease(self, self._native.register(*_ordered(run_id, owner, project_root)))

    def acquire(
        self, name: str, *, run_id: str | None = None, owner: Owner | None = None, project_root: str | None = None
    ) -> Acquired:
        """Return a lease on *name*, which one lease has at a time, while it is pending or running.

        A name whose holder is proved dead goes over. Raises :class:`LeaseHeldError` where it is not; and as
        :meth:`register`.
        """
        lease, other, message = self._native.acquire(name, *_ordered(run_id, owner, project_root))
        record = None if other is None else _record(other)
        if lease is None:
            assert record is not None
            assert message is not None
            raise LeaseHeldError(message, record)
        return Acquired(Lease(self, lease), record)

    def get(self, lease: str) -> LeaseRecord:
        """Return the lease of that id. Raises LookupError if there is none, ValueError if *lease* is no id."""
        return _record(self._native.get(lease))

    def leases(
        self,
        *,
        name: str | None = None,
        run_id: str | None = None,
        owner: Owner | None = None,
        project_root: str | None = None,
        states: Iterable[State] | None = None,
    ) -> list[LeaseRecord]:
        """Return the leases that match all that is given, in the order in which they were registered.

        An owner of another kind with the same id is somebody else. Raises ValueError for a state that is none.
        """
        names = None if states is None else list(states)
        return [_record(fields) for fields in self._native.leases(name, run_id, owner, project_root, names)]

    def undelivered(self) -> list[Undelivered]:
        """Return the completions that nobody took, each with the reason."""
        return [Undelivered(_record(fields), reason) for fields, reason in self._native.undelivered()]

    def recover(self) -> Recovery:
        """Find what dead processes have left behind, and record what can be: for the start of a program.

        No signal is sent, and nothing is released.
        """
        return Recovery(*([_record(fields) for fields in group] for group in self._native.recover()))

    def renew(self, lease: str) -> None:
        """Say that the holder still holds the lease. That is no activity. Raises RuntimeError if the lease is over."""
        self._native.renew(lease)

    def record_activity(self, lease: str) -> None:
        """Say that the work got ahead. That is no renewal. Raises RuntimeError if the lease is over."""
        self._native.record_activity(lease)

    def release(self, lease: str) -> None:
        """Give up a lease whose process was never started, or has ended. An untaken completion stays listed.

        Raises RuntimeError if the process is not proved dead.
        """
        self._native.release(lease)

    def disown(self, lease: str) -> None:
        """Give up a lease whatever becomes of its process, by the word of somebody who knows. No signal is sent."""
        self._native.disown(lease)

    def prune(self, age: float) -> int:
        """Forget leases released more than *age* seconds ago that have nothing to deliver; return how many."""
        return self._native.prune(age)

    async def terminate(
        self,
        *,
        lease: str | None = None,
        run_id: str | None = None,
        owner: Owner | None = None,
        grace: float = 5.0,
    ) -> list[Terminated]:
        """End the processes of a lease, a run or an owner: ask, give them *grace* seconds together, kill what is left.

        It ends whole process groups. Right before each signal it is proved that the process is the lease's; what cannot
        be proved gets no signal. A lease that is still pending is released, and its spawn fails. A lease is exited as
        soon as its holder has seen the end. Raises LookupError for a lease that is not there, ValueError unless exactly
        one of the three is given.
        """
        return await asyncio.to_thread(self.blocking_terminate, lease=lease, run_id=run_id, owner=owner, grace=grace)

    def blocking_terminate(
        self,
        *,
        lease: str | None = None,
        run_id: str | None = None,
        owner: Owner | None = None,
        grace: float = 5.0,
    ) -> list[Terminated]:
        """As :meth:`terminate`, in this thread."""
        terminated: list[Any] = self._native.terminate(lease, run_id, owner, grace)
        return [Terminated(*one) for one in terminated]

    def completions(self, run_id: str) -> Completions:
        """Return the completions of what the run has ordered: those that wait, and then each as it comes.

        Each is taken once. Where nobody takes them they stay :meth:`undelivered`.
        """
        return Completions(self._native.completions(run_id))


class Completions:
    """The completions of one run: an asynchronous iterator that does not end."""

    def __init__(self, native: _core.LeaseCompletions) -> None:
        """Made by :meth:`Registry.completions`."""
        self._native = native
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def take(self) -> LeaseRecord | None:
        """Take the next completion, None if there is none now. Its lease is released."""
        fields = self._native.poll(self._wake)
        return None if fields is None else _record(fields)

    def _wake(self) -> None:
        """Have everybody who waits look again: the native side knows only the last one who asked."""
        for loop, ready in tuple(self._waiting):
            with suppress(RuntimeError):  # a loop that is closed has nobody left to wake
                loop.call_soon_threadsafe(ready.set)

    def __aiter__(self) -> Completions:
        """Return itself."""
        return self

    async def __anext__(self) -> LeaseRecord:
        """Take the next completion, and wait for it. Its lease is released."""
        ready = asyncio.Event()
        waiter = asyncio.get_running_loop(), ready
        self._waiting.add(waiter)
        try:
            while (record := self.take()) is None:
                await ready.wait()
                ready.clear()
            return record
        finally:
            self._waiting.discard(waiter)


class Lease:
    """A lease that is pending: the right to start one child. It is released if it goes, or a ``with`` ends, without."""

    def __init__(self, registry: Registry, native: _core.PendingLease) -> None:
        """Made by :meth:`Registry.register` and :meth:`Registry.acquire`."""
        self._registry = registry
        self._native = native
        self._spawned = False

    @property
    def id(self) -> str:
        """The id, by which the registry knows the lease."""
        return self._native.id

    def __enter__(self) -> Lease:
        """Return itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Release the lease, unless it has a child."""
        if not self._spawned:
            self._registry.release(self.id)

    async def spawn(
        self, program: str, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
    ) -> LeasedProcess:
        """Start *program* as the child of this lease, in a process group of its own, as asyncio would with *options*.

        The child finds in its environment ``OMNIUS_PROCESS_LEASE_ID``, and ``OMNIUS_RUN_ID``, ``OMNIUS_OWNER_ID`` and
        ``OMNIUS_PROJECT_ROOT`` as far as the lease has them; it inherits none of the four. The rest is what
        :func:`hermes_env_bridge.child_env` makes of *env*, else of ``os.environ``. Its end is recorded, and the
        completion delivered to its run, as long as the loop runs.

        Raises what :func:`asyncio.create_subprocess_exec` raises, and then releases the lease; RuntimeError if the
        lease has a child or was terminated, in which case no child is left; TypeError for a process group of the
        caller's.
        """
        if "process_group" in options:
            raise TypeError("process_group is the lease's: a child has a group of its own, by which it is terminated")
        if not options.get("start_new_session"):
            options["process_group"] = 0
        environment = child_env(env)
        for name, value in self._native.prepare([program, *arguments]):
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        try:
            process = await asyncio.create_subprocess_exec(program, *arguments, env=environment, **options)
        except BaseException:
            self._registry.release(self.id)
            raise
        self._spawned = True
        try:
            watch = self._native.started(process.pid)
        except BaseException:
            await process.wait()  # it was killed
            raise
        # Nobody's session and nobody's run: the watcher works for the registry.
        watcher = asyncio.get_running_loop().create_task(_watch(process, watch), context=Context())
        _watchers.add(watcher)
        watcher.add_done_callback(_watchers.discard)
        return LeasedProcess(self.id, process, watcher)


_watchers: set[asyncio.Task[int]] = set()
"""The loop itself keeps no task alive."""


async def _watch(process: asyncio.subprocess.Process, watch: _core.LeaseWatch) -> int:
    returncode = await _exit(process)
    watch.exited(returncode)
    return returncode


async def _exit(process: asyncio.subprocess.Process) -> int:
    """Wait for the process itself: asyncio's own wait also waits for its pipes, which a grandchild may hold open."""
    with suppress(AttributeError, OSError):  # no such call here, or it was reaped already
        descriptor = os.pidfd_open(process.pid)
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
    while process.returncode is None:  # the loop is about to reap it
        await asyncio.sleep(0.01)
    return process.returncode


class LeasedProcess:
    """The child of a lease. Forgetting it ends nothing."""

    def __init__(self, lease: str, process: asyncio.subprocess.Process, watcher: asyncio.Task[int]) -> None:
        """Made by :meth:`Lease.spawn`."""
        self.lease = lease
        self.process = process
        self._watcher = watcher

    async def wait(self) -> int:
        """Wait until the end of the child is recorded, and return what :attr:`process` returned."""
        return await asyncio.shield(self._watcher)


async def spawn(
    program: str,
    *arguments: str,
    registry: Registry,
    run_id: str | None = None,
    owner: Owner | None = None,
    project_root: str | None = None,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> LeasedProcess:
    """Start *program* as the child of a new lease: :meth:`Registry.register`, then :meth:`Lease.spawn`."""
    lease = registry.register(run_id=run_id, owner=owner, project_root=project_root)
    return await lease.spawn(program, *arguments, env=env, **options)


def _ordered(
    run_id: str | None, owner: Owner | None, project_root: str | None
) -> tuple[str | None, Owner | None, str | None]:
    """Where work is ordered: what is given, else what the current run says."""
    run = get_omnius_run_context()
    if run is None:
        return run_id, owner, project_root
    if owner is None and run.owner_id is not None:
        owner = run.owner_kind, run.owner_id
    return (
        run.run_id if run_id is None else run_id,
        owner,
        run.project_root if project_root is None else project_root,
    )


__all__ = [
    "Acquired",
    "Completions",
    "Lease",
    "LeaseHeldError",
    "LeaseRecord",
    "LeasedProcess",
    "Lineage",
    "Outcome",
    "Owner",
    "Process",
    "Recovery",
    "Registry",
    "State",
    "Terminated",
    "Undelivered",
    "inherited_lineage",
    "spawn",
]
