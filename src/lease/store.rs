//! What a registry needs of a store, and how leases are asked for.

use std::fmt;

use super::error::LeaseError;
use super::record::{LeaseId, LeaseRecord, LeaseState};

/// Which leases: all that match everything that is given.
///
/// ```
/// use hermes_env_bridge::lease::{Filter, LeaseState, Registry};
///
/// let registry = Registry::in_memory();
/// let running = Filter::new().owner("user", "u7").states([LeaseState::Running]);
/// assert!(registry.leases(&running)?.is_empty());
/// # Ok::<(), hermes_env_bridge::lease::LeaseError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub(super) name: Option<String>,
    pub(super) run_id: Option<String>,
    pub(super) owner: Option<(Option<String>, String)>,
    pub(super) project_root: Option<String>,
    pub(super) states: Option<Vec<LeaseState>>,
    pub(super) undelivered: bool,
}

impl Filter {
    /// All leases.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Those that this run ordered.
    #[must_use]
    pub fn run(mut self, id: impl Into<String>) -> Self {
        self.run_id = Some(id.into());
        self
    }

    /// Those of this owner. An owner of another kind with the same id is somebody else, and so is one of no kind.
    #[must_use]
    pub fn owner(self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.owned_by(Some(kind.into()), id.into())
    }

    pub(crate) fn owned_by(mut self, kind: Option<String>, id: String) -> Self {
        self.owner = Some((kind, id));
        self
    }

    /// Those of this project.
    #[must_use]
    pub fn project_root(mut self, root: impl Into<String>) -> Self {
        self.project_root = Some(root.into());
        self
    }

    /// Those in one of these states.
    #[must_use]
    pub fn states(mut self, states: impl IntoIterator<Item = LeaseState>) -> Self {
        self.states = Some(states.into_iter().collect());
        self
    }

    pub(super) fn live(self) -> Self {
        self.states([LeaseState::Pending, LeaseState::Running])
    }

    /// Those whose process has ended without anybody having taken the completion.
    #[must_use]
    pub fn undelivered(mut self) -> Self {
        self.undelivered = true;
        self
    }

    /// Whether a lease is one of those: the rule, which a store's index may only narrow.
    pub(super) fn matches(&self, record: &LeaseRecord) -> bool {
        fn is(wanted: Option<&String>, actual: Option<&String>) -> bool {
            wanted.is_none_or(|wanted| actual == Some(wanted))
        }
        is(self.name.as_ref(), record.name.as_ref())
            && is(self.run_id.as_ref(), record.ordered.run_id.as_ref())
            && is(self.project_root.as_ref(), record.ordered.project_root.as_ref())
            && self.owner.as_ref().is_none_or(|(kind, id)| {
                record.ordered.owner_kind == *kind && record.ordered.owner_id.as_ref() == Some(id)
            })
            && self.states.as_ref().is_none_or(|states| states.contains(&record.state()))
            && (!self.undelivered || record.is_undelivered())
    }
}

/// The leases of a store, within a transaction.
pub(super) trait Leases {
    fn get(&self, id: LeaseId) -> Result<Option<LeaseRecord>, LeaseError>;

    /// In the order in which they were made.
    fn find(&self, filter: &Filter) -> Result<Vec<LeaseRecord>, LeaseError>;

    /// Writes a lease, new or in place of the one of its id.
    fn put(&mut self, record: &LeaseRecord) -> Result<(), LeaseError>;

    fn remove(&mut self, id: LeaseId) -> Result<(), LeaseError>;
}

/// What a transaction does.
pub(super) type Work<'a> = dyn FnMut(&mut dyn Leases) -> Result<(), LeaseError> + 'a;

/// Where leases are kept.
pub(super) trait Store: fmt::Debug + Send + Sync {
    /// Runs `work` alone: no other transaction that changes something runs meanwhile, of this process or another.
    ///
    /// What `work` has put when it returns an error is undone, or was never there. Rules therefore judge first and put
    /// last.
    fn change(&self, work: &mut Work<'_>) -> Result<(), LeaseError>;

    /// Runs `work`, which only reads.
    fn read(&self, work: &mut Work<'_>) -> Result<(), LeaseError>;
}
