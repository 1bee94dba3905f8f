//! The record of one lease, and the states it goes through.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::LeaseError;
use super::ordered::Ordered;
use super::process::Identity;

/// The id of a lease: a version 7 UUID, so ids sort by the time at which they were made, and nobody guesses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(Uuid);

impl LeaseId {
    pub(super) fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LeaseId {
    type Err = LeaseError;

    fn from_str(text: &str) -> Result<Self, LeaseError> {
        Uuid::try_parse(text).map(Self).map_err(|_| LeaseError::NotAnId)
    }
}

/// How far a lease is. It only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseState {
    /// Registered; there is no process yet.
    Pending,
    /// The process was started, and its end was not seen yet.
    Running,
    /// The process has ended; the completion is still to be delivered.
    Exited,
    /// Over: the completion was delivered, or the lease was given up.
    Released,
}

impl LeaseState {
    /// All states, in order.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Exited, Self::Released];

    /// The name: `pending`, `running`, `exited` or `released`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Released => "released",
        }
    }
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Nobody saw its end: whoever waited for it was gone.
    Unknown,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        status.code().map(Self::Code).or_else(|| status.signal().map(Self::Signal)).unwrap_or(Self::Unknown)
    }
}

/// What a registry knows of one lease: plain data, as it was when it was read.
///
/// Times are milliseconds since the Unix epoch, by the clock of this machine. `Debug` shows of the command the program
/// alone: arguments may be secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseRecord {
    /// The lease's id.
    pub id: LeaseId,
    /// The name, of a lease that excludes others of the same name while it is pending or running.
    pub name: Option<String>,
    /// Where the work was ordered.
    #[serde(flatten)]
    pub ordered: Ordered,
    /// The lease of which the registering process is the child.
    pub parent: Option<LeaseId>,
    /// The process that registered the lease, and the parent of the child.
    pub holder: Identity,
    /// The child, once it runs.
    pub process: Option<Identity>,
    /// The program and its arguments; what is not Unicode in them is replaced.
    pub command: Vec<String>,
    /// How the child ended.
    pub exit: Option<Exit>,
    /// When the lease was registered.
    pub created_at: i64,
    /// When the child was started.
    pub started_at: Option<i64>,
    /// When the end of the child was recorded.
    pub exited_at: Option<i64>,
    /// When the completion was delivered to its run.
    pub delivered_at: Option<i64>,
    /// When the lease was released.
    pub released_at: Option<i64>,
    /// When the holder last said that it still holds the lease. No sign of progress.
    pub renewed_at: i64,
    /// When the work last got ahead. No sign that anybody still holds the lease.
    pub active_at: i64,
}

impl LeaseRecord {
    pub(super) fn new(name: Option<String>, ordered: Ordered, parent: Option<LeaseId>, holder: Identity) -> Self {
        let now = now();
        Self {
            id: LeaseId::new(),
            name,
            ordered,
            parent,
            holder,
            process: None,
            command: Vec::new(),
            exit: None,
            created_at: now,
            started_at: None,
            exited_at: None,
            delivered_at: None,
            released_at: None,
            renewed_at: now,
            active_at: now,
        }
    }

    /// How far the lease is.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        match (self.started_at, self.exited_at, self.released_at) {
            (_, _, Some(_)) => LeaseState::Released,
            (_, Some(_), None) => LeaseState::Exited,
            (Some(_), None, None) => LeaseState::Running,
            (None, None, None) => LeaseState::Pending,
        }
    }

    /// Whether the lease still excludes others of its name: it is pending or running.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.state() <= LeaseState::Running
    }

    /// Whether the process has ended and nobody took the completion.
    #[must_use]
    pub fn is_undelivered(&self) -> bool {
        self.exited_at.is_some() && self.delivered_at.is_none()
    }

    /// Whether the process that ordered the work is proved dead while the child is not known to have ended.
    ///
    /// It has nothing to do with whose child the process is by now: on a desktop that is a service manager, and not
    /// process 1.
    #[must_use]
    pub fn is_orphan(&self) -> bool {
        self.state() == LeaseState::Running && self.holder.liveness().is_dead()
    }

    /// Whether the lease was released more than `age` ago.
    pub(super) fn is_older(&self, age: Duration) -> bool {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.released_at.is_some_and(|released_at| now().saturating_sub(released_at) > age)
    }

    pub(super) fn start(&mut self, process: Identity) -> Result<(), LeaseError> {
        self.expect(self.state() == LeaseState::Pending, "spawn", "pending")?;
        self.adopt(process);
        Ok(())
    }

    /// Records a process that was started, whatever has become of the lease.
    pub(super) fn adopt(&mut self, process: Identity) {
        self.process = Some(process);
        self.started_at = Some(now());
    }

    pub(super) fn end(&mut self, exit: Exit) -> Result<(), LeaseError> {
        self.expect(self.state() == LeaseState::Running, "exited", "running")?;
        self.exit = Some(exit);
        self.exited_at = Some(now());
        Ok(())
    }

    pub(super) fn deliver(&mut self) {
        self.delivered_at = Some(now());
        self.release();
    }

    pub(super) fn release(&mut self) {
        let _ = self.released_at.get_or_insert_with(now);
    }

    pub(super) fn renew(&mut self) -> Result<(), LeaseError> {
        self.expect(self.is_live(), "renew", "pending or running")?;
        self.renewed_at = now();
        Ok(())
    }

    pub(super) fn record_activity(&mut self) -> Result<(), LeaseError> {
        self.expect(self.is_live(), "record_activity", "pending or running")?;
        self.active_at = now();
        Ok(())
    }

    pub(super) fn expect(&self, holds: bool, verb: &'static str, needs: &'static str) -> Result<(), LeaseError> {
        if holds { Ok(()) } else { Err(LeaseError::State { id: self.id, state: self.state(), verb, needs }) }
    }
}

impl fmt::Debug for LeaseRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseRecord")
            .field("id", &self.id)
            .field("state", &self.state())
            .field("ordered", &self.ordered)
            .field("parent", &self.parent)
            .field("holder", &self.holder)
            .field("process", &self.process)
            .field("program", &self.command.first())
            .field("exit", &self.exit)
            .finish_non_exhaustive()
    }
}

/// Milliseconds since the Unix epoch; 0 on a machine whose clock is before it.
fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
