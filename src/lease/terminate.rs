//! Ending the processes of a lease, a run or an owner: with grace, then without.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::error::{LeaseError, NoProof};
use super::process::Host;
use super::proof::{Group, Processes, Reached, Running};
use super::record::{Exit, LeaseId, LeaseRecord, LeaseState};
use super::registry::{Registry, adopt};
use super::store::Filter;

/// How long a process may take to end after it was killed. One that waits for a device takes longer.
const AFTER_KILL: Duration = Duration::from_secs(5);

/// How often to look where the kernel has nothing to wait with.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Whose processes to end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// That of one lease.
    Lease(LeaseId),
    /// Those that a run has ordered.
    Run(String),
    /// Those of an owner; one of another kind, or of no kind, is somebody else.
    Owner {
        /// The owner's kind, if it has one.
        kind: Option<String>,
        /// The owner's id.
        id: String,
    },
}

/// What became of one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terminated {
    /// The lease.
    pub lease: LeaseId,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a lease that was to be terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It had no process yet, and will have none: it is released, and its spawn fails.
    NeverStarted,
    /// Nothing of its process group was left.
    AlreadyGone,
    /// Its process group has ended.
    Ended {
        /// Whether something of it had to be killed after the grace.
        killed: bool,
    },
    /// Some or all of its process group got no signal, since nothing proves whose it is.
    NoProof(NoProof),
    /// The kernel does not permit signals to some of its process group.
    NotPermitted,
    /// It was killed and has not ended: it waits for a device.
    Survived,
}

impl Registry {
    /// Ends the processes of `target`: asks all with SIGTERM, gives them `grace` together, and kills what is left. It
    /// ends whole process groups, also where the process itself is gone and has left others.
    ///
    /// Right before each signal it is proved that the process is the lease's. What cannot be proved gets no signal, and
    /// its outcome says why. A lease that is still pending is released, and its spawn fails.
    ///
    /// A lease is exited as soon as its holder has seen the end; where that is gone, at once, and its completion is
    /// undelivered.
    ///
    /// # Errors
    ///
    /// [`LeaseError::NotFound`] for a lease that is not there; [`LeaseError::Store`]. No signal was sent in the first
    /// case, and perhaps in the second.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime. [`blocking_terminate`](Self::blocking_terminate) needs none.
    pub async fn terminate(&self, target: Target, grace: Duration) -> Result<Vec<Terminated>, LeaseError> {
        let registry = self.clone();
        let ended = tokio::task::spawn_blocking(move || registry.blocking_terminate(&target, grace)).await;
        ended.map_err(|source| LeaseError::Store { verb: "go through", source: source.into() })?
    }

    /// As [`terminate`](Self::terminate), on this thread.
    ///
    /// # Errors
    ///
    /// As [`terminate`](Self::terminate).
    pub fn blocking_terminate(&self, target: &Target, grace: Duration) -> Result<Vec<Terminated>, LeaseError> {
        let here = Host::current();
        let (leases, live) = self.change(|leases| {
            let mut found = match target {
                Target::Lease(id) => vec![leases.get(*id)?.ok_or(LeaseError::NotFound { id: *id })?],
                Target::Run(id) => leases.find(&Filter::new().run(id))?,
                Target::Owner { kind, id } => leases.find(&Filter::new().owned_by(kind.clone(), id.clone()))?,
            };
            adopt(&mut found, &here, leases)?;
            let live: Vec<_> = found.iter().map(LeaseRecord::is_live).collect();
            for lease in found.iter_mut().filter(|lease| lease.state() == LeaseState::Pending) {
                lease.release();
                leases.put(lease)?;
            }
            Ok((found, live))
        })?;
        let mut ending: Vec<_> =
            leases.iter().zip(live).map(|(lease, was_live)| Ending::new(lease, was_live)).collect();
        signal(&mut ending, Signal::TERM, &here, grace);
        signal(&mut ending, Signal::KILL, &here, AFTER_KILL);
        for lease in leases.iter().filter(|lease| lease.state() == LeaseState::Running) {
            self.settle(lease, &here)?;
        }
        // What was over before is of interest only for what it has left running, unless it was asked for.
        let asked_for = matches!(target, Target::Lease(_));
        ending.retain(|ending| asked_for || ending.was_live || ending.outcome() != Outcome::AlreadyGone);
        Ok(ending.iter().map(|ending| Terminated { lease: ending.lease.id, outcome: ending.outcome() }).collect())
    }

    /// Records the end of a process for which nobody waits.
    fn settle(&self, lease: &LeaseRecord, here: &Host) -> Result<(), LeaseError> {
        let is_dead = lease.process.as_ref().is_some_and(|process| process.liveness_on(here).is_dead());
        if !is_dead || self.is_attended(lease, here) {
            return Ok(());
        }
        match self.exited(lease.id, Exit::Unknown) {
            // Somebody else has seen it.
            Err(LeaseError::State { .. }) => Ok(()),
            settled => settled,
        }
    }
}

/// A lease that is being ended.
struct Ending<'a> {
    lease: &'a LeaseRecord,
    was_live: bool,
    /// What the last look at its group found.
    reached: Reached,
    /// The processes that were asked to end.
    asked: BTreeSet<(u64, i32)>,
    was_killed: bool,
}

impl<'a> Ending<'a> {
    fn new(lease: &'a LeaseRecord, was_live: bool) -> Self {
        Self { lease, was_live, reached: Reached::default(), asked: BTreeSet::new(), was_killed: false }
    }

    /// Sends `signal` to what is left of the group, and keeps what is left. Nothing is asked twice: a second request
    /// means something else to some.
    fn reach(&mut self, processes: Result<&Processes, NoProof>, signal: Signal, here: &Host) {
        let Some(leader) = &self.lease.process else {
            return;
        };
        let group = Group { lease: self.lease.id, leader };
        let is_request = signal == Signal::TERM;
        let spared = if is_request { &self.asked } else { &BTreeSet::new() };
        self.reached = match processes {
            Ok(processes) => group.reach(processes, signal, spared, here),
            Err(no_proof) => Reached { no_proof: Some(no_proof), ..Reached::default() },
        };
        if is_request {
            self.asked.extend(self.reached.processes.iter().map(|process| process.key));
        } else {
            self.was_killed |= !self.reached.processes.is_empty();
        }
    }

    fn outcome(&self) -> Outcome {
        if self.lease.started_at.is_none() {
            Outcome::NeverStarted
        } else if let Some(no_proof) = self.reached.no_proof {
            Outcome::NoProof(no_proof)
        } else if self.reached.not_permitted {
            Outcome::NotPermitted
        } else if !self.reached.processes.is_empty() {
            Outcome::Survived
        } else if !self.asked.is_empty() || self.was_killed {
            Outcome::Ended { killed: self.was_killed }
        } else {
            Outcome::AlreadyGone
        }
    }
}

/// Sends `signal` to all, and waits until their processes have ended or `patience` is over. Once they have ended, what
/// they have started meanwhile is sent it too.
fn signal(ending: &mut [Ending<'_>], signal: Signal, here: &Host, patience: Duration) {
    let deadline = Instant::now() + patience;
    loop {
        let processes = Processes::running();
        for ending in &mut *ending {
            ending.reach(processes.as_ref().map_err(|no_proof| *no_proof), signal, here);
        }
        let left: Vec<_> = ending.iter().flat_map(|ending| &ending.reached.processes).collect();
        if left.is_empty() || Instant::now() >= deadline {
            return;
        }
        wait(&left, deadline);
    }
}

/// Waits until all `processes` have ended, or `deadline`; less long where the kernel does not tell.
fn wait(processes: &[&Running], deadline: Instant) {
    let mut left: Vec<_> = processes.iter().filter_map(|process| process.fd.as_ref()).collect();
    if left.len() < processes.len() {
        thread::sleep(LOOK_AGAIN.min(deadline.saturating_duration_since(Instant::now())));
        return;
    }
    while !left.is_empty() {
        let rest = deadline.saturating_duration_since(Instant::now());
        let Ok(rest) = Timespec::try_from(rest) else {
            return;
        };
        let mut polled: Vec<_> = left.iter().map(|fd| PollFd::new(*fd, PollFlags::IN)).collect();
        match poll(&mut polled, Some(&rest)) {
            Ok(0) => return,
            Ok(_) => {
                let mut running = polled.iter().map(|fd| fd.revents().is_empty());
                left.retain(|_| running.next() == Some(true));
            }
            Err(Errno::INTR) => {}
            Err(_) => return thread::sleep(LOOK_AGAIN),
        }
    }
}
