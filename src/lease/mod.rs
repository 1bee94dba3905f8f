//! Process leases: which child process runs, for whom, and who is told when it ends.
//!
//! A [`Registry`] has one [`LeaseRecord`] per child, made *before* the child: pending, then running, then exited, then
//! released. It is kept in memory, or (feature `sqlite`) in a file that several processes share and that outlives them
//! all. What a lease says of its owner, run and project is where the work was [ordered](Ordered), and never what this
//! process finds in its environment.
//!
//! ```
//! use std::time::Duration;
//!
//! use hermes_env_bridge::lease::{LeaseState, Ordered, Registry, Target};
//! use tokio::process::Command;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::in_memory();
//! let lease = registry.register(Ordered::current().run("r1").owner("user", "u7"))?;
//! let mut child = lease.spawn(Command::new("sleep").arg("60"))?;
//!
//! let ended = registry.terminate(Target::Run("r1".to_owned()), Duration::from_secs(5)).await?;
//! assert_eq!(ended.len(), 1);
//! child.wait().await;
//!
//! let mut completions = registry.completions("r1");
//! let completion = completions.next().await?;
//! assert_eq!((completion.id, completion.state()), (child.lease(), LeaseState::Released));
//! # Ok(())
//! # }
//! ```
//!
//! A lease says who a child works for. It is no permission: nothing here asks whether a caller may end a process.
//!
//! The verbs of a registry read and write its store before they return; with a file that is a matter of microseconds,
//! unless another process keeps it locked. Linux proves that a process is the recorded one, by its start time. Other
//! Unix systems have no such proof here: leases are kept there and completions delivered, and no signal is sent. There
//! are no leases on Windows.

mod completion;
mod error;
mod memory;
mod ordered;
mod process;
mod proof;
mod record;
mod registry;
mod spawn;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod terminate;

pub use completion::{Completions, Reason, Undelivered};
pub use error::{LeaseError, NoProof};
pub use ordered::{Lineage, Ordered, inherited_lineage};
pub use process::{Identity, Liveness};
pub use record::{Exit, LeaseId, LeaseRecord, LeaseState};
pub use registry::{Acquired, Recovery, Registry};
pub use spawn::{BlockingChild, Child, Lease};
pub use store::Filter;
pub use terminate::{Outcome, Target, Terminated};

#[cfg(feature = "python")]
pub(crate) use ordered::set_inherited_lineage;
#[cfg(feature = "python")]
pub(crate) use spawn::Watch;
