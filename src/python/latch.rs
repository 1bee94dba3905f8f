//! The engaged latch: one flag, which Python code reads and writes as a module's attribute.

use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::session;

/// The namespace of the session module in use. Its `_session_context_engaged` is the truth for Python.
static LIVE: Mutex<Option<Py<PyDict>>> = Mutex::new(None);

/// Make *namespace*, the dict of a session module, the one whose ``_session_context_engaged`` is the process' latch; None
/// where no session module is in use any more.
#[pyfunction]
#[pyo3(signature = (namespace, /))]
pub(super) fn set_live(py: Python<'_>, namespace: Option<Py<PyDict>>) {
    let is_none = namespace.is_none();
    let before = std::mem::replace(&mut *LIVE.lock().unwrap_or_else(PoisonError::into_inner), namespace);
    // Its destructor may be Python code, which must not run under the lock.
    drop(before);
    if is_none {
        session::set_engaged(false);
    }
    let _ = engaged(py);
}

/// Whether a session was ever bound in this process: what the session module in use says, which Rust is told here. False
/// where none is in use: nothing is known of sessions then.
#[pyfunction]
#[pyo3(signature = ())]
pub(super) fn engaged(py: Python<'_>) -> bool {
    if !is_live() {
        return false;
    }
    if let Some(entry) = entry(py) {
        session::set_engaged(entry);
    }
    session::session_context_engaged()
}

/// Tell Rust that the attribute was written.
#[pyfunction]
#[pyo3(signature = (engaged, /))]
pub(super) fn set_engaged(engaged: bool) {
    session::set_engaged(engaged);
}

/// A session was bound: the latch is what the module's own code made of it, or tripped where the module has none. What
/// still binds in a module that is in use no more is nobody's session.
pub(super) fn bound(py: Python<'_>) {
    if !session::session_context_engaged() && is_live() {
        session::set_engaged(entry(py).unwrap_or(true));
    }
}

fn is_live() -> bool {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// The live module's latch, `None` if it has none. What cannot be judged counts as tripped.
fn entry(py: Python<'_>) -> Option<bool> {
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.clone_ref(py);
    let entry = live.bind(py).get_item(intern!(py, "_session_context_engaged")).ok().flatten()?;
    Some(entry.is_truthy().unwrap_or(true))
}
