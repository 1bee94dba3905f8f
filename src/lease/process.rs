//! Which process: a number means nothing without the time at which its process was started.

use std::process;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

/// A process that was seen once: its number, when it was started, and on which boot and in which namespaces.
///
/// The kernel gives a number to another process later. Number and start time together are no other process's, on one
/// boot and within one PID namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    pid: i32,
    /// In clock ticks since the boot, as the kernel counts them.
    start_time: Option<u64>,
    #[serde(flatten)]
    host: Host,
}

/// Where a number and a start time mean what they say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Host {
    boot_id: Option<String>,
    /// The PID namespace and the time namespace.
    namespaces: Option<String>,
}

/// Whether a recorded process still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// It does: its number and its start time are there.
    Alive,
    /// It does not, and that is proved.
    Dead,
    /// Nothing proves either. It is taken to be alive, and no signal is sent to it.
    Unknown,
}

impl Liveness {
    /// Whether the process is proved dead.
    #[must_use]
    pub const fn is_dead(self) -> bool {
        matches!(self, Self::Dead)
    }
}

/// What `/proc` says of the process that has a number now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) start_time: u64,
    pub(super) group: i32,
    #[cfg(any(feature = "python", test))]
    pub(super) parent: i32,
    /// All its threads have ended, and nobody has waited for it yet.
    pub(super) is_zombie: bool,
}

impl Identity {
    /// This process.
    #[must_use]
    pub fn current() -> Self {
        Self::of(process::id())
    }

    /// The process that has the number `pid` now; the bare number, which proves nothing, if it cannot be seen.
    pub(super) fn of(pid: u32) -> Self {
        let pid = i32::try_from(pid).unwrap_or(0);
        Self::found(pid, Seen::of(pid).map(|seen| seen.start_time), Host::current())
    }

    /// As it is known from `/proc` or from what is left of its group.
    pub(super) fn found(pid: i32, start_time: Option<u64>, host: Host) -> Self {
        Self { pid, start_time, host }
    }

    /// The process number; 0 if none was recorded.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// When the process was started, in clock ticks since the boot; `None` if that could not be seen.
    #[must_use]
    pub fn start_time(&self) -> Option<u64> {
        self.start_time
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Whether the process still runs.
    ///
    /// Dead is what is proved dead: the machine has booted since, nobody has the number, another process has it, or it
    /// is a zombie. What is not permitted to be asked, or has no start time to compare, is [`Liveness::Unknown`].
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        self.liveness_on(&Host::current())
    }

    pub(super) fn liveness_on(&self, here: &Host) -> Liveness {
        self.judge(here, Answer::of(self.pid), Seen::of(self.pid).as_ref())
    }

    /// The rule, for what was found out.
    fn judge(&self, here: &Host, answer: Answer, seen: Option<&Seen>) -> Liveness {
        match self.host.compared_with(here) {
            Place::Earlier => return Liveness::Dead,
            Place::Elsewhere => return Liveness::Unknown,
            Place::Here => {}
        }
        if self.pid <= 0 {
            return Liveness::Unknown;
        }
        if answer == Answer::NoSuchProcess {
            return Liveness::Dead;
        }
        match (self.start_time, seen) {
            (Some(recorded), Some(seen)) if seen.start_time != recorded || seen.is_zombie => Liveness::Dead,
            (Some(_), Some(_)) => Liveness::Alive,
            _ => Liveness::Unknown,
        }
    }
}

/// What sending signal 0 to a number returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Exists,
    NoSuchProcess,
    NotPermitted,
}

impl Answer {
    fn of(pid: i32) -> Self {
        match Pid::from_raw(pid.max(0)).map(test_kill_process) {
            Some(Err(Errno::SRCH)) => Self::NoSuchProcess,
            Some(Ok(())) => Self::Exists,
            _ => Self::NotPermitted,
        }
    }
}

/// What a recorded host is to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The same: numbers can be compared.
    Here,
    /// An earlier boot of this machine: none of its processes is left.
    Earlier,
    /// Another container.
    Elsewhere,
}

impl Host {
    pub(super) fn current() -> Self {
        #[cfg(target_os = "linux")]
        {
            let namespace =
                |name| std::fs::read_link(format!("/proc/self/ns/{name}")).ok()?.into_os_string().into_string().ok();
            Self {
                boot_id: procfs::sys::kernel::random::boot_id().ok(),
                namespaces: namespace("pid").map(|pid| format!("{pid} {}", namespace("time").unwrap_or_default())),
            }
        }
        #[cfg(not(target_os = "linux"))]
        Self::default()
    }

    pub(super) fn compared_with(&self, here: &Self) -> Place {
        let differ =
            |recorded: &Option<String>, here: &Option<String>| recorded.is_some() && here.is_some() && recorded != here;
        if differ(&self.boot_id, &here.boot_id) {
            Place::Earlier
        } else if differ(&self.namespaces, &here.namespaces) {
            Place::Elsewhere
        } else {
            Place::Here
        }
    }
}

impl Seen {
    /// The process that has the number `pid` now; `None` if there is none, or `/proc` does not show it.
    #[cfg(target_os = "linux")]
    pub(super) fn of(pid: i32) -> Option<Self> {
        Self::in_proc(&procfs::process::Process::new(pid).ok()?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_pid: i32) -> Option<Self> {
        None
    }

    #[cfg(target_os = "linux")]
    pub(super) fn in_proc(process: &procfs::process::Process) -> Option<Self> {
        let stat = process.stat().ok()?;
        Some(Self {
            start_time: stat.starttime,
            group: stat.pgrp,
            #[cfg(any(feature = "python", test))]
            parent: stat.ppid,
            // A process whose first thread has ended says that it is a zombie while its other threads work on.
            is_zombie: matches!(stat.state, 'Z' | 'X' | 'x') && stat.num_threads <= 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(boot: &str, namespaces: &str) -> Host {
        Host { boot_id: Some(boot.to_owned()), namespaces: Some(namespaces.to_owned()) }
    }

    /// L02, L03.
    #[test]
    fn only_positive_proof_of_death_frees_a_lease() {
        use Answer::{Exists, NoSuchProcess, NotPermitted};
        use Liveness::{Alive, Dead, Unknown};

        let here = host("boot", "pid:[1]");
        let seen = |start_time, is_zombie| Some(Seen { start_time, group: 7, parent: 1, is_zombie });
        let cases = [
            ("nobody has the number", 7, Some(50), &here, NoSuchProcess, None, Dead),
            ("no number was recorded", 0, Some(50), &here, NotPermitted, None, Unknown),
            ("a negative number was recorded", -7, Some(50), &here, NotPermitted, None, Unknown),
            ("not permitted to ask, /proc hidden", 7, Some(50), &here, NotPermitted, None, Unknown),
            ("not permitted to ask, /proc shows it", 7, Some(50), &here, NotPermitted, seen(50, false), Alive),
            ("/proc absent, the number answers", 7, Some(50), &here, Exists, None, Unknown),
            ("number and start time are there", 7, Some(50), &here, Exists, seen(50, false), Alive),
            ("another process has the number", 7, Some(50), &here, Exists, seen(51, false), Dead),
            ("a zombie with the start time", 7, Some(50), &here, Exists, seen(50, true), Dead),
            ("a zombie, and no start time to compare", 7, None, &here, Exists, seen(50, true), Unknown),
            ("no start time to compare", 7, None, &here, Exists, seen(50, false), Unknown),
            ("booted since", 7, Some(50), &host("before", "pid:[1]"), Exists, seen(50, false), Dead),
            ("another container", 7, Some(50), &host("boot", "pid:[2]"), NoSuchProcess, None, Unknown),
        ];
        for (case, pid, start_time, recorded, answer, seen, expected) in cases {
            let identity = Identity::found(pid, start_time, recorded.clone());
            assert_eq!(identity.judge(&here, answer, seen.as_ref()), expected, "{case}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_never_asked_about() {
        for pid in [0, -1, i32::MIN] {
            assert_eq!(Answer::of(pid), Answer::NotPermitted);
        }
    }
}
