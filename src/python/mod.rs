//! The extension module `hermes_env_bridge._core`: what the Python package is built from.
//!
//! Here Python objects take the place of Rust's values, and a real context variable that of tokio's task-local; the
//! rules are those of the core.

// Docstrings are written for Python, and Python calls a method on an object even where it does not need it.
#![allow(clippy::doc_markdown, clippy::unused_self)]

mod argument;
mod capi;
mod child;
mod declare;
mod environ;
mod explain;
mod import;
mod judge;
mod latch;
mod lease;
mod plan;
mod run;
mod slot;
mod snapshot;
mod text;
mod token;
mod var;
mod verbs;
mod watch;

/// The native part of `hermes_env_bridge`. Private: import from the package.
#[pyo3::pymodule(name = "_core")]
mod extension {
    use pyo3::prelude::*;
    use pyo3::types::{PyFrozenSet, PyTuple};

    use super::capi::claim_interpreter;
    #[pymodule_export]
    use super::child::{bound, child_env, engaged_of, mark_children, marked};
    #[pymodule_export]
    use super::declare::{Declared, declare};
    #[pymodule_export]
    use super::environ::environ;
    #[pymodule_export]
    use super::explain::explain;
    #[pymodule_export]
    use super::import::import_from;
    #[pymodule_export]
    use super::judge::{judge, planned};
    #[pymodule_export]
    use super::latch::{engaged, set_engaged, set_live};
    #[pymodule_export]
    use super::lease::{LeaseCompletions, LeaseRegistry, LeaseWatch, PendingLease, inherited_lineage};
    #[pymodule_export]
    use super::plan::{Credentials, check_env, owned_names, owns, plan, shell_exports, shell_unset};
    #[pymodule_export]
    use super::run::{Run, Telegram};
    #[pymodule_export]
    use super::slot::Slot;
    #[pymodule_export]
    use super::snapshot::{
        snapshot_extract, snapshot_from_header, snapshot_from_json, snapshot_from_mapping, snapshot_inject,
        snapshot_to_header, snapshot_to_json, snapshot_to_mapping,
    };
    #[pymodule_export]
    use super::text::names;
    #[pymodule_export]
    use super::token::SessionToken;
    #[pymodule_export]
    use super::var::SessionVar;
    #[pymodule_export]
    use super::verbs::{assign, async_delivery, bind, fill, is_messaging, read};
    #[pymodule_export]
    use super::watch::watch;
    use crate::carrier::SESSION_HEADER;
    use crate::names::{ASYNC_DELIVERY, SESSION_CWD, VARIABLES};
    use crate::session::NON_MESSAGING_SESSION_SURFACES;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        claim_interpreter(module.py())?;
        super::lease::read_lineage(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("ASYNC_DELIVERY", ASYNC_DELIVERY)?;
        module.add("SESSION_CWD", SESSION_CWD)?;
        module.add("SESSION_HEADER", SESSION_HEADER)?;
        let variables = VARIABLES.iter().map(|variable| (variable.name, variable.keyword));
        module.add("VARIABLES", PyTuple::new(module.py(), variables)?)?;
        let surfaces = PyFrozenSet::new(module.py(), NON_MESSAGING_SESSION_SURFACES)?;
        module.add("NON_MESSAGING_SESSION_SURFACES", surfaces)
    }
}
