//! Signals to the process group of a lease, each after a proof of whose process it is.
//!
//! A signal goes through a pidfd that was opened before the proof, so that it cannot reach a later process of the same
//! number. Where the kernel has no pidfds (before Linux 5.3) it goes to the number, right after the proof.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process};

use super::error::NoProof;
use super::ordered::named_lease;
use super::process::{Host, Identity, Place, Seen};
use super::record::LeaseId;

/// The process group of a lease: that of its process, which leads it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'a> {
    pub(super) lease: LeaseId,
    pub(super) leader: &'a Identity,
}

/// The processes of this machine that run, by group and in the order in which they were started.
#[derive(Debug, Default)]
pub(super) struct Processes(BTreeMap<i32, Vec<(u64, i32)>>);

impl Processes {
    #[cfg(target_os = "linux")]
    pub(super) fn running() -> Result<Self, NoProof> {
        let mut groups: BTreeMap<i32, Vec<(u64, i32)>> = BTreeMap::new();
        for process in procfs::process::all_processes().map_err(|_| NoProof::Unsupported)?.flatten() {
            if let Some(seen) = Seen::in_proc(&process).filter(|seen| !seen.is_zombie) {
                groups.entry(seen.group).or_default().push((seen.start_time, process.pid));
            }
        }
        for group in groups.values_mut() {
            group.sort_unstable();
        }
        Ok(Self(groups))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn running() -> Result<Self, NoProof> {
        Err(NoProof::Unsupported)
    }
}

/// What is left of a group.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// The processes that are proved to be the lease's, and were sent the signal now or before.
    pub(super) processes: Vec<Running>,
    /// Why some of the group were sent none.
    pub(super) no_proof: Option<NoProof>,
    /// Some were sent none because the kernel did not permit it.
    pub(super) not_permitted: bool,
}

/// A process that ran a moment ago.
#[derive(Debug)]
pub(super) struct Running {
    /// When it was started, and its number.
    pub(super) key: (u64, i32),
    /// Readable once the process has ended; `None` where the kernel has no such thing.
    pub(super) fd: Option<OwnedFd>,
}

/// A process that is proved to be the lease's, for one signal.
#[derive(Debug)]
struct Proved {
    pid: Pid,
    start_time: u64,
    fd: Option<OwnedFd>,
}

impl Proved {
    fn key(&self) -> (u64, i32) {
        (self.start_time, Pid::as_raw(Some(self.pid)))
    }

    fn signal(self, signal: Option<Signal>) -> Result<Running, Errno> {
        match (&self.fd, signal) {
            #[cfg(target_os = "linux")]
            (Some(fd), Some(signal)) => rustix::process::pidfd_send_signal(fd, signal)?,
            (_, Some(signal)) => kill_process(self.pid, signal)?,
            (_, None) => {}
        }
        Ok(Running { key: self.key(), fd: self.fd })
    }
}

impl Group<'_> {
    /// Sends `signal` to each process of the group that is among `processes` and proved to be the lease's, except those
    /// that are `spared`.
    ///
    /// Parents come before their children: a shell whose command ended first would go on to the next one.
    pub(super) fn reach(
        self,
        processes: &Processes,
        signal: Signal,
        spared: &BTreeSet<(u64, i32)>,
        here: &Host,
    ) -> Reached {
        let mut reached = Reached::default();
        match self.leader.host().compared_with(here) {
            Place::Here => {}
            Place::Earlier => return reached,
            Place::Elsewhere => {
                reached.no_proof = Some(NoProof::OtherNamespace);
                return reached;
            }
        }
        for pid in self.members(processes) {
            let signal = |proved: Proved| {
                let signal = (!spared.contains(&proved.key())).then_some(signal);
                proved.signal(signal)
            };
            match self.prove(pid).map(|proved| proved.map(signal)) {
                Ok(Some(Ok(running))) => reached.processes.push(running),
                Ok(None | Some(Err(Errno::SRCH))) => {}
                Ok(Some(Err(_))) => reached.not_permitted = true,
                Err(no_proof) => reached.no_proof = Some(no_proof),
            }
        }
        reached
    }

    /// The numbers of what may belong to the group.
    fn members(self, processes: &Processes) -> Vec<i32> {
        let leader = self.leader.pid();
        let group = processes.0.get(&leader);
        let mut members: Vec<_> = group.into_iter().flatten().map(|(_, pid)| *pid).collect();
        if !members.contains(&leader) {
            // It may have gone over to another group.
            members.insert(0, leader);
        }
        members
    }

    /// Proves that the process `pid` is the lease's; `None` if it is not, or does not run any more.
    ///
    /// It is if it is the recorded leader; or of the leader's group while the leader is there, since the kernel gives a
    /// group's number to nobody else; or of that group, and started with the lease in its environment.
    fn prove(self, pid: i32) -> Result<Option<Proved>, NoProof> {
        let Some(number) = Pid::from_raw(pid.max(0)) else {
            return Ok(None);
        };
        let fd = match open(number) {
            Err(Errno::SRCH) => return Ok(None),
            opened => opened.ok(),
        };
        let Some(seen) = Seen::of(pid).filter(|seen| !seen.is_zombie) else {
            return Ok(None);
        };
        let leader = self.leader.pid();
        if pid != leader && seen.group != leader {
            return Ok(None);
        }
        let start_time = Seen::of(leader).map(|seen| seen.start_time);
        match (start_time, self.leader.start_time()) {
            // Another process has the number by now, so the group of before is empty.
            (Some(seen), Some(recorded)) if seen != recorded => return Ok(None),
            (Some(_), Some(_)) => {}
            _ if environ_names(pid) == Some(self.lease) => {}
            (Some(_), None) => return Err(NoProof::NotRecorded),
            (None, _) => return Err(NoProof::Strangers),
        }
        if number == getpid() || seen.group == Pid::as_raw(Some(getpgrp())) {
            return Err(NoProof::Own);
        }
        Ok(Some(Proved { pid: number, start_time: seen.start_time, fd }))
    }
}

#[cfg(target_os = "linux")]
fn open(pid: Pid) -> Result<OwnedFd, Errno> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
}

#[cfg(not(target_os = "linux"))]
fn open(_pid: Pid) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// The lease in the environment that a process was started with.
fn environ_names(pid: i32) -> Option<LeaseId> {
    environ(pid).as_ref().and_then(named_lease)
}

/// The environment that a process was started with; empty for a zombie, `None` if it is not there or not to be read.
#[cfg(target_os = "linux")]
fn environ(pid: i32) -> Option<HashMap<OsString, OsString>> {
    procfs::process::Process::new(pid).ok()?.environ().ok()
}

#[cfg(not(target_os = "linux"))]
fn environ(_pid: i32) -> Option<HashMap<OsString, OsString>> {
    None
}

/// The child of this process with the number `pid` that was started for `lease` and that somebody may have waited for
/// already: the bare number, which proves nothing, if another process may have it by now.
#[cfg(feature = "python")]
pub(super) fn own_child(lease: LeaseId, pid: u32) -> Identity {
    let child = Identity::of(pid);
    let is_ours = Seen::of(child.pid()).is_some_and(|seen| seen.parent == Pid::as_raw(Some(getpid())));
    // A child that guards its memory guards its environment as well.
    let names_another = environ(child.pid()).is_some_and(|environ| named_lease(&environ) != Some(lease));
    if is_ours && !names_another { child } else { Identity::found(child.pid(), None, child.host().clone()) }
}

/// The processes that were started for `leases` and carry them in their environment: of each lease the leader of the
/// oldest one's group.
pub(super) fn descendants(leases: impl IntoIterator<Item = LeaseId>) -> BTreeMap<LeaseId, Identity> {
    let wanted: BTreeSet<_> = leases.into_iter().collect();
    let mut found = BTreeMap::new();
    if wanted.is_empty() {
        return found;
    }
    let mut oldest: BTreeMap<LeaseId, (u64, i32)> = BTreeMap::new();
    for (group, processes) in Processes::running().unwrap_or_default().0 {
        for (start_time, pid) in processes {
            if let Some(lease) = environ_names(pid).filter(|lease| wanted.contains(lease)) {
                let first = oldest.entry(lease).or_insert((start_time, group));
                *first = (*first).min((start_time, group));
            }
        }
    }
    for (lease, (_, group)) in oldest {
        let start_time = Seen::of(group).map(|seen| seen.start_time);
        // The number of a leader that is gone still stands for its group.
        let _ = found.insert(lease, Identity::found(group, start_time, Host::current()));
    }
    found
}
