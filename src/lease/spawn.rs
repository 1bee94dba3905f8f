//! The one way from a lease to a child.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::thread::{self, JoinHandle};

use rustix::process::Signal;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;

use crate::child::SessionCommand;

use super::error::LeaseError;
use super::ordered::child_env;
use super::process::{Host, Identity};
use super::proof::{Group, Processes};
use super::record::{Exit, LeaseId, LeaseState};
use super::registry::Registry;

/// A lease that is pending: the right to start one child, which is recorded already.
///
/// Dropped without a spawn, it is released. A process that dies before the spawn leaves it behind as *never started*;
/// see [`Registry::recover`].
#[must_use = "a lease that is dropped before a spawn is released"]
pub struct Lease {
    registry: Registry,
    id: LeaseId,
}

impl Lease {
    pub(super) fn new(registry: Registry, id: LeaseId) -> Self {
        Self { registry, id }
    }

    /// The id, by which the registry knows the lease.
    #[must_use]
    pub fn id(&self) -> LeaseId {
        self.id
    }

    /// Starts `command` as the child of this lease, in a process group of its own.
    ///
    /// The child finds in its environment `OMNIUS_PROCESS_LEASE_ID`, and `OMNIUS_RUN_ID`, `OMNIUS_OWNER_ID` and
    /// `OMNIUS_PROJECT_ROOT` as far as the lease has them; it inherits none of the four from this process. Its end is
    /// recorded, and the completion delivered to its run, whether or not anybody waits for the [`Child`], as long as
    /// the tokio runtime is there. The session that it gets is the current task's; see [`SessionCommand`].
    ///
    /// # Errors
    ///
    /// [`LeaseError::Environment`] and [`LeaseError::Spawn`] if the child cannot be started; [`LeaseError::State`] if the lease was terminated before,
    /// in which case no child is left; [`LeaseError::Store`]. The lease is released in each case.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime. [`blocking_spawn`](Self::blocking_spawn) needs none.
    pub fn spawn(self, command: &mut tokio::process::Command) -> Result<Child, LeaseError> {
        self.prepare_command(command.as_std_mut())?;
        let id = self.id;
        let mut child = command.spawn().map_err(|source| LeaseError::Spawn { id, source })?;
        // The number is there until the child is waited for.
        let pid = child.id().unwrap_or(0);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let watch = self.started(&Identity::of(pid))?;
        let (sender, exit) = watch::channel(None);
        drop(tokio::spawn(async move {
            let exit = child.wait().await.map_or(Exit::Unknown, Exit::from);
            watch.exited(exit);
            let _ = sender.send(Some(exit));
        }));
        Ok(Child { lease: id, pid, stdin, stdout, stderr, exit })
    }

    /// As [`spawn`](Self::spawn), for a child of the standard library; a thread waits for it.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// ```
    /// use std::process::Command;
    ///
    /// use hermes_env_bridge::lease::{Exit, Ordered, Registry};
    ///
    /// let registry = Registry::in_memory();
    /// let lease = registry.register(Ordered::current().owner("job", "nightly"))?;
    /// let mut child = lease.blocking_spawn(&mut Command::new("true"))?;
    /// assert_eq!(child.wait(), Exit::Code(0));
    /// assert_eq!(registry.get(child.lease())?.exit, Some(Exit::Code(0)));
    /// # Ok::<(), hermes_env_bridge::lease::LeaseError>(())
    /// ```
    pub fn blocking_spawn(self, command: &mut std::process::Command) -> Result<BlockingChild, LeaseError> {
        self.prepare_command(command)?;
        let id = self.id;
        let failed = |source| LeaseError::Spawn { id, source };
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let watch = match self.started(&Identity::of(pid)) {
            Ok(watch) => watch,
            Err(error) => {
                let _ = child.wait();
                return Err(error);
            }
        };
        let watcher = thread::Builder::new().name(format!("lease {pid}")).spawn(move || {
            let exit = child.wait().map_or(Exit::Unknown, Exit::from);
            watch.exited(exit);
            exit
        });
        let watcher = watcher.inspect_err(|_| kill(id, &Identity::of(pid))).map_err(failed)?;
        Ok(BlockingChild { lease: id, pid, stdin, stdout, stderr, watcher: Watcher::Waiting(watcher) })
    }

    fn prepare_command(&self, command: &mut std::process::Command) -> Result<(), LeaseError> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let _ = command.session_env().map_err(|source| LeaseError::Environment { id: self.id, source })?;
        for (name, value) in self.prepare(words)? {
            let _ = match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let _ = command.process_group(0);
        Ok(())
    }

    /// Records what is about to be started, and returns what the child has in its environment, `None` for what it must
    /// not have.
    pub(crate) fn prepare(&self, command: Vec<String>) -> Result<[(&'static str, Option<String>); 4], LeaseError> {
        let mut environment = None;
        self.registry.update(self.id, |record| {
            record.expect(record.state() == LeaseState::Pending, "spawn", "pending")?;
            record.command = command;
            environment = Some(child_env(record));
            Ok(())
        })?;
        Ok(environment.expect("an update that succeeds has run its change"))
    }

    /// As [`started`](Self::started), for a child that somebody else has started in this process, and waits for.
    #[cfg(feature = "python")]
    pub(crate) fn started_elsewhere(&self, pid: u32) -> Result<Watch, LeaseError> {
        self.started(&super::proof::own_child(self.id, pid))
    }

    /// Records the child that was started, or kills it if it cannot be recorded.
    fn started(&self, process: &Identity) -> Result<Watch, LeaseError> {
        // Before it runs for others, so that nobody takes it to be unattended.
        let watch = Watch::new(self.registry.clone(), self.id);
        let recorded = self.registry.update(self.id, |record| record.start(process.clone()));
        recorded.inspect_err(|_| kill(self.id, process))?;
        Ok(watch)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let released = self.registry.update(self.id, |record| {
            if record.state() == LeaseState::Pending {
                record.release();
            }
            Ok(())
        });
        if let Err(error) = released {
            warn!("lease {} could not be released: {error}", self.id);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Kills a child that must not stay, and what it has started.
fn kill(lease: LeaseId, leader: &Identity) {
    if let Ok(processes) = Processes::running() {
        let _ = Group { lease, leader }.reach(&processes, Signal::KILL, &BTreeSet::new(), &Host::current());
    }
}

/// Somebody in this process waits for the child of a lease.
#[derive(Debug)]
pub(crate) struct Watch {
    registry: Registry,
    lease: LeaseId,
}

impl Watch {
    fn new(registry: Registry, lease: LeaseId) -> Self {
        registry.watch(lease);
        Self { registry, lease }
    }

    /// Records that the child has ended, and delivers the completion.
    pub(crate) fn exited(self, exit: Exit) {
        match self.registry.exited(self.lease, exit) {
            // Given up meanwhile.
            Ok(()) | Err(LeaseError::State { .. } | LeaseError::NotFound { .. }) => {}
            // It stays running, and the next recovery finds it.
            Err(error) => warn!("the end of the child of lease {} could not be recorded: {error}", self.lease),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.registry.unwatch(self.lease);
    }
}

/// The child of a lease; see [`Lease::spawn`]. Dropping it ends nothing.
#[derive(Debug)]
pub struct Child {
    lease: LeaseId,
    pid: u32,
    /// The child's standard input, if it was piped.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it was piped.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it was piped.
    pub stderr: Option<ChildStderr>,
    exit: watch::Receiver<Option<Exit>>,
}

impl Child {
    /// The lease, by which the [`Registry`] terminates it.
    #[must_use]
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// The process number. It may belong to another process once the child has ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Closes the child's standard input and waits until its end is recorded; at once if it is already.
    ///
    /// [`Exit::Unknown`] if the runtime that waited for it is gone.
    pub async fn wait(&mut self) -> Exit {
        drop(self.stdin.take());
        self.exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit).unwrap_or(Exit::Unknown)
    }
}

/// The child of a lease; see [`Lease::blocking_spawn`]. Dropping it ends nothing.
#[derive(Debug)]
pub struct BlockingChild {
    lease: LeaseId,
    pid: u32,
    /// The child's standard input, if it was piped.
    pub stdin: Option<std::process::ChildStdin>,
    /// The child's standard output, if it was piped.
    pub stdout: Option<std::process::ChildStdout>,
    /// The child's standard error, if it was piped.
    pub stderr: Option<std::process::ChildStderr>,
    watcher: Watcher,
}

#[derive(Debug)]
enum Watcher {
    Waiting(JoinHandle<Exit>),
    Ended(Exit),
}

impl BlockingChild {
    /// The lease, by which the [`Registry`] terminates it.
    #[must_use]
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// The process number. It may belong to another process once the child has ended.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Closes the child's standard input and waits until its end is recorded; at once if it is already.
    pub fn wait(&mut self) -> Exit {
        drop(self.stdin.take());
        if let Watcher::Waiting(_) = self.watcher {
            let waiting = std::mem::replace(&mut self.watcher, Watcher::Ended(Exit::Unknown));
            if let Watcher::Waiting(thread) = waiting {
                self.watcher = Watcher::Ended(thread.join().unwrap_or(Exit::Unknown));
            }
        }
        match self.watcher {
            Watcher::Ended(exit) => exit,
            Watcher::Waiting(_) => Exit::Unknown,
        }
    }
}
