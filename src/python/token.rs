//! What `SessionVar.set` returns.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyGenericAlias, PyTuple, PyType};

use super::capi::{some_token, token_type};
use super::slot::Undo;
use super::var::SessionVar;

/// Undoes one set of a session variable; behaves as a contextvars.Token, which it says it is (``isinstance``).
#[pyclass(frozen, module = "hermes_env_bridge")]
pub(super) struct SessionToken {
    var: Py<SessionVar>,
    undo: Py<Undo>,
    used: AtomicBool,
}

#[pymethods]
impl SessionToken {
    #[new]
    #[pyo3(signature = (*_args), text_signature = None)]
    fn __new__(_args: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Err(PyRuntimeError::new_err("Tokens can only be created by ContextVars"))
    }

    /// What ``old_value`` is where there was none.
    #[classattr]
    #[pyo3(name = "MISSING")]
    fn missing(py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(token_type(py)?.getattr(intern!(py, "MISSING"))?.unbind())
    }

    /// The variable that was set.
    #[getter]
    fn var(&self, py: Python<'_>) -> Py<SessionVar> {
        self.var.clone_ref(py)
    }

    /// The value before, ``Token.MISSING`` if the variable was not set in the context.
    #[getter]
    fn old_value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.old(py).map_or_else(|| Self::missing(py), |old| Ok(old.unbind()))
    }

    /// What ``isinstance`` is told.
    #[getter]
    fn __class__(token: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Ok(token_type(token.py())?.unbind())
    }

    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyGenericAlias>> {
        PyGenericAlias::new(cls.py(), cls.as_any(), item)
    }

    /// Python's own token is a context manager from 3.14 on, and so is this one.
    #[cfg(Py_3_14)]
    fn __enter__(token: Py<Self>) -> Py<Self> {
        token
    }

    /// Puts the value back, as ``var.reset`` of this token.
    #[cfg(Py_3_14)]
    #[pyo3(signature = (*_exception))]
    fn __exit__(token: &Bound<'_, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        SessionVar::reset(token.get().var.bind(token.py()), token.as_any())
    }

    /// Refused, in the words in which Python refuses it for a real token.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        some_token(py)?.hash()
    }

    fn __repr__(token: &Bound<'_, Self>) -> PyResult<String> {
        let used = if token.get().is_used() { " used" } else { "" };
        let var = token.get().var.bind(token.py()).repr()?;
        Ok(format!("<Token{used} var={var} at {:p}>", token.as_ptr()))
    }

    /// Refused, in the words in which Python refuses it for a real token.
    #[pyo3(signature = (protocol, /))]
    fn __reduce_ex__<'py>(&self, protocol: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        some_token(protocol.py())?.call_method1(intern!(protocol.py(), "__reduce_ex__"), (protocol,))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.var)?;
        visit.call(&self.undo)
    }
}

impl SessionToken {
    /// A token of `var`, which the change that `undo` undoes has set.
    pub(super) fn make<'py>(var: &Bound<'py, SessionVar>, undo: &Bound<'py, Undo>) -> PyResult<Bound<'py, Self>> {
        let token = Self { var: var.clone().unbind(), undo: undo.clone().unbind(), used: AtomicBool::new(false) };
        Bound::new(var.py(), token)
    }

    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn mark_used(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_of(&self, var: &Bound<'_, SessionVar>) -> bool {
        self.var.is(var)
    }

    /// True if the current context is the one in which the token was made.
    pub(super) fn was_made_here(&self, py: Python<'_>) -> PyResult<bool> {
        self.undo.get().is_here(py)
    }

    /// The value before, `None` if there was none.
    pub(super) fn old<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.undo.get().old(py, self.var.get().at())
    }
}
