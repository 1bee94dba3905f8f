//! What a registry refuses.

use std::io;

use crate::child::InvalidEnv;

use super::record::{LeaseId, LeaseRecord, LeaseState};

/// A registry refused, or could not read or write its store. Nothing was changed, and no signal sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// A field of a lease cannot be what it was given.
    #[error("a lease's {field} cannot {problem}; leave it out where there is none")]
    Field {
        /// The field, by its name in JSON.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The text is no lease id.
    #[error("not a lease id; give one as a lease's id() shows it")]
    NotAnId,
    /// The registry has no such lease.
    #[error("this registry has no lease {id}; open the registry that made it, and mind that prune() removes old ones")]
    NotFound {
        /// The lease that was asked for.
        id: LeaseId,
    },
    /// The lease is past the state that the verb needs, or not there yet.
    #[error("lease {id} is {state}, and {verb} needs one that is {needs}")]
    State {
        /// The lease.
        id: LeaseId,
        /// The state it is in.
        state: LeaseState,
        /// The verb that was called.
        verb: &'static str,
        /// The state, or states, that it needs.
        needs: &'static str,
    },
    /// The lease's process runs, or cannot be proved dead.
    #[error("the process of lease {id} is not proved dead; terminate it, or disown it to give the lease up regardless")]
    Running {
        /// The lease.
        id: LeaseId,
    },
    /// The name is taken, by a holder that is alive or cannot be proved dead.
    #[error("the name is held by lease {} of process {}; wait for it, or release that lease", .holder.id, .holder.holder.pid())]
    Held {
        /// The lease that has the name.
        holder: Box<LeaseRecord>,
    },
    /// The child could not be started. Its lease is released.
    #[error("the child of lease {id} was not started")]
    Spawn {
        /// The lease.
        id: LeaseId,
        /// Why.
        source: io::Error,
    },
    /// No program can be started with the environment that the child is to have. Its lease is released.
    #[error("the child of lease {id} was not started: {source}")]
    Environment {
        /// The lease.
        id: LeaseId,
        /// Which variable it is, and what is wrong with it.
        source: InvalidEnv,
    },
    /// The file is something else than a registry, or one of a newer version.
    #[error("{path:?} {problem}")]
    NotARegistry {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// The store failed.
    #[error("the registry could not {verb} its store")]
    Store {
        /// What it was doing.
        verb: &'static str,
        /// Why it could not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why a process was sent no signal: nothing proves that it is the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NoProof {
    /// This system has no `/proc` that tells when a process was started.
    #[error("this system does not say when a process was started; only Linux with /proc does")]
    Unsupported,
    /// The lease was recorded in another PID or time namespace, so its numbers mean something else here.
    #[error("the lease was recorded in another container; terminate it from there")]
    OtherNamespace,
    /// The start time of the process was not recorded, and its environment does not name the lease.
    #[error("the process could not be identified when the lease was recorded")]
    NotRecorded,
    /// Processes of the group outlive its leader, and their environment does not name the lease.
    #[error("the group's leader is gone and what is left does not name the lease")]
    Strangers,
    /// The process is the caller's own, or of its group.
    #[error("the lease is that of the calling process; end it by returning from main")]
    Own,
}
