//! Where work was ordered, and what a child is told of it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::error::LeaseError;
use super::record::{LeaseId, LeaseRecord};
use crate::run::get_omnius_run_context;

const LEASE_ID: &str = "OMNIUS_PROCESS_LEASE_ID";
const OWNER_ID: &str = "OMNIUS_OWNER_ID";
const PROJECT_ROOT: &str = "OMNIUS_PROJECT_ROOT";
const RUN_ID: &str = "OMNIUS_RUN_ID";

/// Where work was ordered: the run, its owner and its project.
///
/// It is fixed when the lease is registered. Whoever is active when the child ends has no part in it, and neither has
/// the environment of this process.
///
/// ```
/// use hermes_env_bridge::lease::Ordered;
///
/// let ordered = Ordered::current().run("r1").owner("user", "u7").project_root("/srv/site");
/// assert_eq!(ordered.owner_id.as_deref(), Some("u7"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ordered {
    /// The run.
    pub run_id: Option<String>,
    /// The kind of owner, such as `user` or `job`.
    pub owner_kind: Option<String>,
    /// The owner, unique among those of its kind.
    pub owner_id: Option<String>,
    /// The root of the project that is worked on.
    pub project_root: Option<String>,
}

impl Ordered {
    /// What the current run says; empty outside any run.
    #[must_use]
    pub fn current() -> Self {
        get_omnius_run_context().map_or_else(Self::default, |run| Self {
            run_id: Some(run.run_id().to_owned()),
            // A kind of owner with no id is nobody.
            owner_kind: run.owner_id().and(run.owner_kind()).map(str::to_owned),
            owner_id: run.owner_id().map(str::to_owned),
            project_root: run.project_root().map(str::to_owned),
        })
    }

    /// With this run instead.
    #[must_use]
    pub fn run(mut self, id: impl Into<String>) -> Self {
        self.run_id = Some(id.into());
        self
    }

    /// With this owner instead, of this kind.
    #[must_use]
    pub fn owner(mut self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.owner_kind = Some(kind.into());
        self.owner_id = Some(id.into());
        self
    }

    /// With this project instead.
    #[must_use]
    pub fn project_root(mut self, root: impl Into<String>) -> Self {
        self.project_root = Some(root.into());
        self
    }

    /// An error that names the field which no child's environment could hold, or which says nothing.
    pub(super) fn check(&self) -> Result<(), LeaseError> {
        let fields = [
            ("runId", &self.run_id),
            ("ownerKind", &self.owner_kind),
            ("ownerId", &self.owner_id),
            ("projectRoot", &self.project_root),
        ];
        fields.into_iter().try_for_each(|(field, value)| check(field, value.as_deref()))
    }
}

/// An error that names `field` if its value is empty or has a NUL.
pub(super) fn check(field: &'static str, value: Option<&str>) -> Result<(), LeaseError> {
    match value {
        Some("") => Err(LeaseError::Field { field, problem: "be empty" }),
        Some(value) if value.contains('\0') => Err(LeaseError::Field { field, problem: "have a NUL in it" }),
        _ => Ok(()),
    }
}

/// What the child of `record` has in its environment: values to set, and names that it must not inherit.
pub(super) fn child_env(record: &LeaseRecord) -> [(&'static str, Option<String>); 4] {
    let ordered = &record.ordered;
    [
        (LEASE_ID, Some(record.id.to_string())),
        (OWNER_ID, ordered.owner_id.clone()),
        (PROJECT_ROOT, ordered.project_root.clone()),
        (RUN_ID, ordered.run_id.clone()),
    ]
}

/// The lease that an environment names: that of a child of ours, or of what the child has started.
pub(super) fn named_lease(environ: &HashMap<OsString, OsString>) -> Option<LeaseId> {
    environ.get(OsStr::new(LEASE_ID))?.to_str()?.parse().ok()
}

/// Whose child this process was started as, by the environment that it was started with.
///
/// It says where this process comes from, not who it is: nothing takes an owner or a run from it. A program that wants
/// to go on for the same owner starts its run with [`Lineage::owner_id`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lineage {
    /// The lease of which this process is the child: the parent of the leases that it registers.
    pub lease_id: Option<LeaseId>,
    /// The owner of that lease.
    pub owner_id: Option<String>,
    /// The project of that lease.
    pub project_root: Option<String>,
    /// The run of that lease.
    pub run_id: Option<String>,
}

impl Lineage {
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let lease_id = variable(LEASE_ID).filter(|value| !value.is_empty()).and_then(|value| {
            let id = value.parse().ok();
            if id.is_none() {
                warn!("{LEASE_ID} in the environment is no lease id; this process is taken to have no parent lease");
            }
            id
        });
        Self { lease_id, owner_id: variable(OWNER_ID), project_root: variable(PROJECT_ROOT), run_id: variable(RUN_ID) }
    }
}

static INHERITED: OnceLock<Lineage> = OnceLock::new();

/// Whose child this process was started as. It is read once, at the first call, and stays so.
pub fn inherited_lineage() -> &'static Lineage {
    INHERITED.get_or_init(|| {
        // The environment of a Python process is Python's to read: the package states it as soon as it is imported.
        if cfg!(feature = "python") { Lineage::default() } else { Lineage::read(|name| std::env::var(name).ok()) }
    })
}

/// States the lineage of this process, unless it is known.
#[cfg(feature = "python")]
pub(crate) fn set_inherited_lineage(lineage: Lineage) {
    let _ = INHERITED.set(lineage);
}
