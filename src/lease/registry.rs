//! The registry: its verbs, and what it finds after a crash.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::completion::Listener;
use super::error::LeaseError;
use super::memory::Memory;
use super::ordered::{Ordered, check, inherited_lineage};
use super::process::{Host, Identity};
use super::proof::descendants;
use super::record::{Exit, LeaseId, LeaseRecord, LeaseState};
use super::spawn::Lease;
use super::store::{Filter, Leases, Store};

/// Who runs which child, for whom. A clone is the same registry.
#[derive(Debug, Clone)]
pub struct Registry(pub(super) Arc<Shared>);

/// What the clones share.
#[derive(Debug)]
pub(super) struct Shared {
    store: Box<dyn Store>,
    /// The children that somebody in this process waits for.
    watched: Mutex<BTreeSet<LeaseId>>,
    /// Who in this process takes the completions of a run.
    pub(super) listeners: Mutex<Vec<Weak<Listener>>>,
}

/// A lease on a name, and whose it was.
#[derive(Debug)]
#[must_use = "the name is given up again when the lease is dropped"]
pub struct Acquired {
    /// The lease.
    pub lease: Lease,
    /// Who had the name and is proved dead, `None` if it was free.
    pub previous: Option<LeaseRecord>,
}

/// What [`Registry::recover`] found of processes that are gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Leases whose holder died before it started a process. Nobody needs them: [`Registry::release`] them.
    pub never_started: Vec<LeaseRecord>,
    /// Leases whose process runs, or cannot be proved dead, though its holder is dead.
    pub orphans: Vec<LeaseRecord>,
    /// Leases whose process has ended with nobody there to see it. They are exited now, and undelivered.
    pub exited: Vec<LeaseRecord>,
}

impl Registry {
    /// A registry that ends with this process, and is seen by it alone.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::on(Box::new(Memory::default()))
    }

    /// The registry in the file `path`, which is made if it is not there. Several processes of one machine may have it
    /// open; within a process, all who open the file have the same registry.
    ///
    /// # Errors
    ///
    /// [`LeaseError::NotARegistry`] if the file is something else, or of a newer version; [`LeaseError::Store`] if it
    /// cannot be opened or made.
    ///
    /// ```
    /// use hermes_env_bridge::lease::{Filter, Ordered, Registry};
    ///
    /// let folder = std::env::temp_dir().join(format!("leases-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder)?;
    /// let lease = Registry::open(folder.join("leases.db"))?.register(Ordered::current().owner("user", "u7"))?;
    ///
    /// let elsewhere = Registry::open(folder.join("leases.db"))?;
    /// assert_eq!(elsewhere.leases(&Filter::new().owner("user", "u7"))?[0].id, lease.id());
    /// # drop((lease, elsewhere));
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, LeaseError> {
        use std::collections::BTreeMap;
        use std::path::PathBuf;

        static OPEN: Mutex<BTreeMap<PathBuf, Weak<Shared>>> = Mutex::new(BTreeMap::new());

        let sqlite = super::sqlite::Sqlite::open(path.as_ref())?;
        let path = path.as_ref().canonicalize();
        let path = path.map_err(|source| LeaseError::Store { verb: "open", source: source.into() })?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, shared| shared.strong_count() > 0);
        if let Some(shared) = open.get(&path).and_then(Weak::upgrade) {
            return Ok(Self(shared));
        }
        let registry = Self::on(Box::new(sqlite));
        let _ = open.insert(path, Arc::downgrade(&registry.0));
        Ok(registry)
    }

    fn on(store: Box<dyn Store>) -> Self {
        Self(Arc::new(Shared { store, watched: Mutex::default(), listeners: Mutex::default() }))
    }

    /// Registers a child that is about to be started, for the work that was `ordered` there.
    ///
    /// The lease is pending until [`Lease::spawn`]. Its parent is the lease of which this process is the child.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Field`] if a field is empty or has a NUL; [`LeaseError::Store`].
    pub fn register(&self, ordered: Ordered) -> Result<Lease, LeaseError> {
        ordered.check()?;
        let record = LeaseRecord::new(None, ordered, inherited_lineage().lease_id, Identity::current());
        self.change(|leases| leases.put(&record))?;
        Ok(Lease::new(self.clone(), record.id))
    }

    /// As [`register`](Self::register), for a name that one lease has at a time: a session, a worktree, a port.
    ///
    /// The name is held while its lease is pending or running. Where the holder is proved dead, and its child as well,
    /// the name goes over, and the lease that had it is returned beside the new one. Nobody alive is robbed, nor anybody
    /// who cannot be proved dead.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Held`] with the lease that has the name; else as [`register`](Self::register).
    ///
    /// ```
    /// use hermes_env_bridge::lease::{LeaseError, Ordered, Registry};
    ///
    /// let registry = Registry::in_memory();
    /// let acquired = registry.acquire("session-1", Ordered::current())?;
    /// assert!(acquired.previous.is_none());
    /// assert!(matches!(registry.acquire("session-1", Ordered::current()), Err(LeaseError::Held { .. })));
    /// drop(acquired);
    /// assert!(registry.acquire("session-1", Ordered::current()).is_ok());
    /// # Ok::<(), LeaseError>(())
    /// ```
    pub fn acquire(&self, name: impl Into<String>, ordered: Ordered) -> Result<Acquired, LeaseError> {
        let name = name.into();
        check("name", Some(&name))?;
        ordered.check()?;
        let holders = Filter::new().name(name.clone()).live();
        let record = LeaseRecord::new(Some(name), ordered, inherited_lineage().lease_id, Identity::current());
        let mut previous = None;
        self.change(|leases| {
            if let Some(mut holder) = leases.find(&holders)?.pop() {
                if !self.is_abandoned(&holder, &Host::current()) {
                    return Err(LeaseError::Held { holder: Box::new(holder) });
                }
                previous = Some(holder.clone());
                match holder.state() {
                    LeaseState::Running => holder.end(Exit::Unknown)?,
                    _ => holder.release(),
                }
                leases.put(&holder)?;
            }
            leases.put(&record)
        })?;
        self.wake(previous.as_ref());
        Ok(Acquired { lease: Lease::new(self.clone(), record.id), previous })
    }

    /// The lease `id`, as it is now.
    ///
    /// # Errors
    ///
    /// [`LeaseError::NotFound`]; [`LeaseError::Store`].
    pub fn get(&self, id: LeaseId) -> Result<LeaseRecord, LeaseError> {
        self.read(|leases| leases.get(id))?.ok_or(LeaseError::NotFound { id })
    }

    /// The leases that match, in the order in which they were registered.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Store`].
    pub fn leases(&self, filter: &Filter) -> Result<Vec<LeaseRecord>, LeaseError> {
        self.read(|leases| leases.find(filter))
    }

    /// Says that the holder still holds the lease. That is no activity.
    ///
    /// # Errors
    ///
    /// [`LeaseError::State`] if the lease is over; [`LeaseError::NotFound`]; [`LeaseError::Store`].
    pub fn renew(&self, id: LeaseId) -> Result<(), LeaseError> {
        self.update(id, LeaseRecord::renew)
    }

    /// Says that the work got ahead. That is no renewal.
    ///
    /// # Errors
    ///
    /// [`LeaseError::State`] if the lease is over; [`LeaseError::NotFound`]; [`LeaseError::Store`].
    pub fn record_activity(&self, id: LeaseId) -> Result<(), LeaseError> {
        self.update(id, LeaseRecord::record_activity)
    }

    /// Gives a lease up: one whose process was never started, or has ended. A completion that nobody took stays listed.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Running`] if the process is not proved dead; [`LeaseError::NotFound`]; [`LeaseError::Store`].
    pub fn release(&self, id: LeaseId) -> Result<(), LeaseError> {
        self.give_up(id, |record| record.process.as_ref().is_none_or(|process| process.liveness().is_dead()))
    }

    /// Gives a lease up, whatever becomes of its process: the word of somebody who knows. No signal is sent.
    ///
    /// It is the way out where nothing can prove that a process is dead, such as that of a container that is gone.
    ///
    /// # Errors
    ///
    /// [`LeaseError::NotFound`]; [`LeaseError::Store`].
    pub fn disown(&self, id: LeaseId) -> Result<(), LeaseError> {
        self.give_up(id, |_| true)
    }

    fn give_up(&self, id: LeaseId, may: impl Fn(&LeaseRecord) -> bool) -> Result<(), LeaseError> {
        let mut ended = None;
        self.update(id, |record| {
            if record.state() == LeaseState::Running {
                if !may(record) {
                    return Err(LeaseError::Running { id });
                }
                record.end(Exit::Unknown)?;
                ended = Some(record.clone());
            }
            record.release();
            Ok(())
        })?;
        self.wake(ended.as_ref());
        Ok(())
    }

    /// Forgets the leases that were released more than `age` ago and have no completion left to deliver; returns how
    /// many.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Store`].
    pub fn prune(&self, age: Duration) -> Result<usize, LeaseError> {
        let released = Filter::new().states([LeaseState::Released]);
        self.change(|leases| {
            let old =
                leases.find(&released)?.into_iter().filter(|record| !record.is_undelivered() && record.is_older(age));
            let old = old.map(|record| record.id).collect::<Vec<_>>();
            old.iter().try_for_each(|id| leases.remove(*id)).map(|()| old.len())
        })
    }

    /// Finds what dead processes have left behind, and records what can be: for the start of a program.
    ///
    /// A child that its holder had started and not yet recorded is found by its environment, which names its lease. No
    /// signal is sent, and nothing is released.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Store`].
    pub fn recover(&self) -> Result<Recovery, LeaseError> {
        let here = Host::current();
        let recovery = self.change(|leases| {
            let mut recovery = Recovery::default();
            let mut left = leases.find(&Filter::new())?;
            left.retain(|record| record.exited_at.is_none() && !self.is_attended(record, &here));
            adopt(&mut left, &here, leases)?;
            for mut record in left {
                let Some(process) = &record.process else {
                    if record.is_live() {
                        recovery.never_started.push(record);
                    }
                    continue;
                };
                if process.liveness_on(&here).is_dead() {
                    if record.is_live() {
                        record.end(Exit::Unknown)?;
                        leases.put(&record)?;
                        recovery.exited.push(record);
                    }
                } else if record.holder.liveness_on(&here).is_dead() {
                    recovery.orphans.push(record);
                }
            }
            Ok(recovery)
        })?;
        self.wake(&recovery.exited);
        Ok(recovery)
    }

    /// Records that the process has ended, and wakes whoever takes its run's completions.
    pub(super) fn exited(&self, id: LeaseId, exit: Exit) -> Result<(), LeaseError> {
        let mut ended = None;
        self.update(id, |record| {
            record.end(exit)?;
            ended = Some(record.clone());
            Ok(())
        })?;
        self.wake(ended.as_ref());
        Ok(())
    }

    pub(super) fn update(
        &self,
        id: LeaseId,
        change: impl FnOnce(&mut LeaseRecord) -> Result<(), LeaseError>,
    ) -> Result<(), LeaseError> {
        self.change(|leases| {
            let mut record = leases.get(id)?.ok_or(LeaseError::NotFound { id })?;
            change(&mut record)?;
            leases.put(&record)
        })
    }

    pub(super) fn change<R>(
        &self,
        work: impl FnOnce(&mut dyn Leases) -> Result<R, LeaseError>,
    ) -> Result<R, LeaseError> {
        once(work, |work| self.0.store.change(work))
    }

    pub(super) fn read<R>(&self, work: impl FnOnce(&mut dyn Leases) -> Result<R, LeaseError>) -> Result<R, LeaseError> {
        once(work, |work| self.0.store.read(work))
    }

    pub(super) fn watch(&self, id: LeaseId) {
        let _ = self.watched().insert(id);
    }

    pub(super) fn unwatch(&self, id: LeaseId) {
        let _ = self.watched().remove(&id);
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, BTreeSet<LeaseId>> {
        self.0.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody will go on with the lease: its holder is not proved dead, and if it is this process, then
    /// somebody in it waits for the child.
    pub(super) fn is_attended(&self, record: &LeaseRecord, here: &Host) -> bool {
        if record.state() == LeaseState::Running && record.holder == Identity::current() {
            return self.watched().contains(&record.id);
        }
        !record.holder.liveness_on(here).is_dead()
    }

    /// Whether holder and child are proved dead.
    fn is_abandoned(&self, record: &LeaseRecord, here: &Host) -> bool {
        !self.is_attended(record, here)
            && match &record.process {
                Some(process) => process.liveness_on(here).is_dead(),
                None => !descendants([record.id]).contains_key(&record.id),
            }
    }
}

/// Records the processes that dead holders have started for `records` and did not live to record.
pub(super) fn adopt(records: &mut [LeaseRecord], here: &Host, leases: &mut dyn Leases) -> Result<(), LeaseError> {
    let unrecorded =
        records.iter().filter(|record| record.process.is_none() && record.holder.liveness_on(here).is_dead());
    let mut found = descendants(unrecorded.map(|record| record.id));
    for record in records {
        if let Some(process) = found.remove(&record.id) {
            record.adopt(process);
            leases.put(record)?;
        }
    }
    Ok(())
}

/// A closure that is called once, as one that the store can call.
fn once<R>(
    work: impl FnOnce(&mut dyn Leases) -> Result<R, LeaseError>,
    transaction: impl FnOnce(&mut super::store::Work<'_>) -> Result<(), LeaseError>,
) -> Result<R, LeaseError> {
    let mut work = Some(work);
    let mut result = None;
    transaction(&mut |leases| {
        if let Some(work) = work.take() {
            result = Some(work(leases)?);
        }
        Ok(())
    })?;
    Ok(result.expect("a transaction that succeeds has run its work"))
}
