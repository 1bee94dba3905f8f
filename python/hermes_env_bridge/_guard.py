"""Notices, at the spawn itself, a child that is about to receive another session's identity; and context that was lost.

The hook sees what CPython audits. What it does not see is listed in ``docs/guard.md``.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Any, Literal, get_args

from hermes_env_bridge import _core
from hermes_env_bridge._callsite import CallSite, call_site
from hermes_env_bridge._module import session_module
from hermes_env_bridge._planned import PROCESS, Reading, by_items, by_lists, is_process, judge, marked, planned

VARIABLE = "HERMES_ENV_BRIDGE_GUARD"

Mode = Literal["off", "warn", "block"]
Reads = Literal["off", "count", "warn"]
Kind = Literal["foreign identity", "cannot be judged", "lost read", "bind without an id"]

_log = logging.getLogger("hermes_env_bridge.guard")

# Sites beyond these are counted together, so that a program that makes code up does not fill the memory.
_MOST_SITES = 1000
_ELSEWHERE = CallSite("elsewhere", 0, "other code")


class GuardError(RuntimeError):
    """The guard could not be installed."""


class ForeignIdentityError(PermissionError):
    """A spawn that the guard refused; ``names`` has the variables that gave the reason."""

    def __init__(self, message: str, names: tuple[str, ...] = ()) -> None:
        """Make the error of a refused spawn."""
        super().__init__(errno.EPERM, message)
        self.names = names

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: the message and the names, and what was added to the error."""
        return type(self), (self.strerror, self.names), self.__dict__


@dataclass(frozen=True)
class GuardedSite:
    """What one line of code did *count* times, and with which variables."""

    kind: Kind
    site: CallSite
    names: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        """The site for a person, in a line."""
        return f"{self.kind}: {self.site}: {', '.join(self.names)} ({self.count} times)"


@dataclass(frozen=True)
class GuardReport:
    """What the guard has seen in this process.

    ``spawns`` counts those that it saw once the process was engaged. Of these, ``foreign`` would have carried another
    session's identity or a stale one, ``stated`` had owned names from an environment that its spawner made on purpose,
    and ``bare`` carried none of the identity that the task has, which is no fault but may be a loss. ``refused`` counts
    what was not started.
    """

    mode: Mode
    reads: Reads
    engaged: bool
    spawns: int
    foreign: int
    stated: int
    bare: int
    refused: int
    sites: tuple[GuardedSite, ...]

    def __str__(self) -> str:
        """The report for a person: the counts, then a line for each site, the busiest first."""
        counts = ", ".join(f"{name} {getattr(self, name)}" for name in _COUNTS)
        head = f"guard {self.mode}, reads {self.reads}, {'' if self.engaged else 'not '}engaged: {counts}"
        return "\n".join([head, *(f"  {site}" for site in self.sites)])


_COUNTS = ("spawns", "foreign", "stated", "bare", "refused")


class _Tally:
    """Counts of what was seen, by kind and by call site."""

    def __init__(self) -> None:
        # A signal's handler may spawn while its thread is counting.
        self.lock = threading.RLock()
        self.counts = [0] * len(_COUNTS)
        self.sites: Counter[tuple[Kind, CallSite, tuple[str, ...]]] = Counter()

    def add(self, counts: tuple[bool, ...]) -> None:
        """Add to each of the counts, in their order."""
        with self.lock:
            for which, more in enumerate(counts):
                # No handler runs within this line, so what it adds is not lost.
                self.counts[which] += more

    def at(self, kind: Kind, site: CallSite, names: tuple[str, ...]) -> int:
        """Count one more, and return how many there were."""
        with self.lock:
            key = (kind, site, names)
            if key not in self.sites and len(self.sites) >= _MOST_SITES:
                key = (kind, _ELSEWHERE, ())
            self.sites[key] += 1
            return self.sites[key]


class _Local(threading.local):
    reporting = False
    judging = False


class _Guard:
    """The one guard of the process."""

    def __init__(self) -> None:
        self.mode: Mode = "off"
        self.reads: Reads = "off"
        self.installed = False
        # Asked when this module's globals may be gone.
        self.is_finalizing = sys.is_finalizing
        self.tally = _Tally()
        self.local = _Local()

    def install(self) -> None:
        """Add the hook, which stays for the life of the process. Raises GuardError if an earlier hook prevents it."""
        if self.installed:
            return
        looks = {
            "subprocess.Popen": self.popen,
            "os.posix_spawn": self.posix_spawn,
            "os.exec": self.exec,
            "os.system": self.inherit,
            "pty.spawn": self.inherit,
        }
        probe, frame_of, is_finalizing = _PROBE, sys._getframe, sys.is_finalizing

        # Called until the very end of the interpreter, when the modules are taken apart and nothing can be judged.
        def hook(event: str, args: tuple[Any, ...]) -> None:
            look = looks.get(event)
            if look is not None and self.mode != "off" and not is_finalizing():
                look(event, args, frame_of().f_back)
            elif event == probe and args[0] is self:
                self.installed = True

        sys.addaudithook(hook)
        # A hook that was there before may have vetoed silently.
        sys.audit(probe, self)
        if not self.installed:
            raise GuardError(
                "an audit hook that was added earlier keeps the guard's own from being added; "
                "turn the guard on before whatever adds that one"
            )

    def popen(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
        self.check(event, args[3], frame, by_items)

    def posix_spawn(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
        # Popen may use it, and has told of its spawn already; what it adds by itself is os.environ for no environment.
        # It has judged what Popen reads; a mapping may have something else for the one that is to start the child.
        env = args[2]
        if not _is(frame, "subprocess", "_posix_spawn"):
            self.check(event, env, frame)
        elif (env is os.environ and not is_process(env)) or not _is_read_alike(env):
            self.check(event, env, frame, count=False)

    def exec(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
        # A search of PATH tries one folder after the other, and keeps the last failure in that local variable.
        again = frame is not None and _is(frame, "os", "_execvpe") and "last_exc" in frame.f_locals
        outer = frame
        while outer is not None and outer.f_globals.get("__name__") == "os":
            outer = outer.f_back
        if not _is(outer, "pty", "spawn"):
            self.check(event, args[2], frame, count=not again, tell=not again)

    def inherit(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
        self.check(event, None, frame)

    def check(
        self,
        event: str,
        env: Any,
        frame: FrameType | None,
        read: Reading = by_lists,
        *,
        count: bool = True,
        tell: bool = True,
    ) -> None:
        """Judge the environment *env* (None for the process' own) of a spawn by *event*, which reads it as *read* does.

        Raises ForeignIdentityError where that is to be refused. What is wrong is told of with *tell*, and the spawn is
        counted with *count*: not if it is one that was looked at before.
        """
        if not _core.engaged():
            return
        kind: Kind = "foreign identity"
        foreign: tuple[str, ...] = ()
        stated = bare = False
        error = None
        try:
            if self.local.judging:
                raise RecursionError("what is read to judge a spawn spawns by itself")
            self.local.judging = True
            try:
                foreign, stated, bare = judge(PROCESS if env is None else env, read)
            finally:
                self.local.judging = False
        except Exception as raised:
            kind, error = "cannot be judged", raised
        refused = self.mode == "block" and bool(foreign or error)
        if tell:
            self.tally.add((count, bool(foreign), stated, bare, refused))
        if not (foreign or error):
            return
        site = call_site(frame)
        verb = "refused" if refused else "saw"
        if error is None:
            what = f"would carry an identity that is not this task's: {', '.join(foreign)}"
        else:
            what = f"has an environment that cannot be judged: {type(error).__name__}"
        told = f"{verb} a child that {what} ({event}, at {site})"
        if tell:
            self.tell(kind, site, foreign, told)
        if refused:
            raise ForeignIdentityError(
                f"{told}; build its environment with hermes_env_bridge.child_env()", foreign
            ) from error

    def lost_read(self, name: str) -> None:
        if self.is_finalizing():
            return
        site = call_site(sys._getframe().f_back, str(session_module().__file__))
        told = f"lost context: {name} was read in a task or thread that never bound a session (at {site})"
        self.tell("lost read", site, (name,), told, self.reads == "warn")

    def bound(self) -> None:
        if self.is_finalizing():
            return
        try:
            plan = planned()
        except Exception:
            return  # it has no text, which a spawn will tell
        if plan.get(_ID) == "" and any(plan.values()):
            site = call_site(sys._getframe().f_back, str(session_module().__file__))
            told = f"a session was bound without an id: {_ID} is empty in it, for reads and for children (at {site})"
            self.tell("bind without an id", site, (_ID,), told, self.reads == "warn")

    def tell(self, kind: Kind, site: CallSite, names: tuple[str, ...], told: str, loud: bool = True) -> None:
        """Count it, and log it the first time and whenever the count has doubled."""
        count = self.tally.at(kind, site, names)
        # A handler may spawn or read by itself.
        if loud and count & (count - 1) == 0 and not self.local.reporting:
            self.local.reporting = True
            try:
                # A filter that raises must not stop what is only being watched.
                with suppress(Exception, SystemExit):
                    _log.warning("%s%s", told, f", {count} times so far" if count > 1 else "")
            finally:
                self.local.reporting = False


_ID = "HERMES_SESSION_ID"
_PROBE = "hermes_env_bridge.guard"


def _is_read_alike(env: Any) -> bool:
    """Whether a mapping has the same for those who ask for items as for those who ask for names and for values."""
    if type(env) is dict or is_process(env):
        return True
    try:
        return by_items(env) == by_lists(env)
    except Exception:
        return False


def _is(frame: FrameType | None, module: str, function: str) -> bool:
    return frame is not None and frame.f_code.co_name == function and frame.f_globals.get("__name__") == module


_guard = _Guard()


def guard(mode: Mode, *, reads: Reads | None = None) -> None:
    """Watch the spawns of this process: "warn" logs a child that would carry another session's identity, "block"
    refuses it with :class:`ForeignIdentityError`, "off" lets everything pass.

    A spawn is judged once sessions are bound in the process (until then a child rightly inherits what is there): each
    session variable that the child would get has to be what the spawning task bound, or absent where it bound nothing.
    What ``child_env`` was told to add while the guard was on counts as deliberate, whatever it says; and what it took
    from a session is right in a task that has none.

    *reads* is for context that was lost: reads of a session variable in a task or thread that never bound one, and
    sessions bound without an id. They are counted by call site ("count"), logged too ("warn"), or not looked at
    ("off"); by default counted while the guard is on.

    Warnings go to the logger ``hermes_env_bridge.guard``: a line of code is told of the first time and whenever its
    count has doubled, with names and never values. :func:`report` has the counts.

    Raises ValueError for another mode, and GuardError if an audit hook that somebody added earlier vetoes this one.
    """
    for given, known, what in ((mode, Mode, "mode"), (reads, Reads, "reads")):
        if given not in get_args(known) and not (given is None and known is Reads):
            raise ValueError(f"the guard has no {what} {given!r}; choose from {', '.join(get_args(known))}")
    chosen: Reads = reads if reads is not None else ("off" if mode == "off" else "count")
    if mode != "off":
        _guard.install()
    _core.mark_children(None if mode == "off" else marked)
    _guard.mode, _guard.reads = mode, chosen
    _core.watch(*((_guard.lost_read, _guard.bound) if chosen != "off" else (None, None)))


def report(*, reset: bool = False) -> GuardReport:
    """What the guard has seen so far in this process, the busiest sites first; with *reset* it starts to count anew."""
    tally = _guard.tally
    with tally.lock:
        counts, sites = tuple(tally.counts), tally.sites.most_common()
        if reset:
            tally.counts = [0] * len(_COUNTS)
            tally.sites.clear()
    return GuardReport(
        mode=_guard.mode,
        reads=_guard.reads,
        engaged=_core.engaged(),
        sites=tuple(GuardedSite(*key, count) for key, count in sites),
        **dict(zip(_COUNTS, counts, strict=True)),
    )


def check_spawn(what: str, env: Any = None, read: Reading = by_lists) -> None:
    """Judge a spawn that raises no audit event, as the hook judges those that do.

    *what* names it in the log, and *read* reads *env* as it does.
    """
    if _guard.mode != "off":
        _guard.check(what, env, sys._getframe().f_back, read)


def from_environment() -> None:
    """Turn the guard on as ``HERMES_ENV_BRIDGE_GUARD`` says. Raises ValueError for what is no mode."""
    mode: Any = os.environ.get(VARIABLE, "")
    if mode in get_args(Mode):
        guard(mode)
    elif mode:
        raise ValueError(f"{VARIABLE} is no mode of the guard: {mode!r}; set it to one of {', '.join(get_args(Mode))}")


def start() -> None:
    """Do what :func:`from_environment` does as the package is imported: what that raises ends a program.

    Not by the package's own command, which calls it again to refuse in a line.
    """
    try:
        from_environment()
    except (ValueError, GuardError):
        if not _is_own_command():
            raise


def _is_own_command() -> bool:
    if sys.argv[:1] == ["-m"]:
        return ("-m", "hermes_env_bridge") in pairwise(sys.orig_argv)
    return [os.path.splitext(os.path.basename(path))[0] for path in sys.argv[:1]] == ["hermes-env-bridge"]


def _forget() -> None:
    """In a forked child: count its own spawns, with a lock that no thread of the parent holds."""
    _guard.tally = _Tally()
    _guard.local = _Local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
