//! The C calls for which `PyO3` has no safe form. All of the crate's unsafe code is here.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::exceptions::{PyImportError, PySystemError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{ffi, intern};

/// A `contextvars.ContextVar` without a default.
pub(super) struct ContextVar(Py<PyAny>);

impl ContextVar {
    /// Makes a new variable; `name` is what its `repr` shows.
    pub(super) fn new(py: Python<'_>, name: &CStr) -> PyResult<Self> {
        // SAFETY: the thread is attached (`py`), `name` ends in NUL and is only read during the call, and NULL is the
        // documented way to give no default. The call returns a new reference, or NULL with an exception set.
        let var = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContextVar_New(name.as_ptr(), ptr::null_mut()))? };
        Ok(Self(var.unbind()))
    }

    /// The value in the current context, `None` if it has none.
    pub(super) fn get<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut value = ptr::null_mut();
        // SAFETY: the thread is attached, and `self.0` is a `ContextVar`: only `new` makes one. The call writes a new
        // reference or NULL to `value`, which outlives it.
        let status = unsafe { ffi::PyContextVar_Get(self.0.as_ptr(), ptr::null_mut(), &raw mut value) };
        if status < 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: the call succeeded, so `value` is NULL or a reference that is ours.
        Ok(unsafe { Bound::from_owned_ptr_or_opt(py, value) })
    }

    /// Sets the value in the current context and returns the token for it.
    pub(super) fn set<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the thread is attached (`value` proves it), `self.0` is a `ContextVar`, and the call takes its own
        // reference to `value`. It returns a new reference, or NULL with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(value.py(), ffi::PyContextVar_Set(self.0.as_ptr(), value.as_ptr())) }
    }

    /// Undoes the `set` that returned `token`; raises as `ContextVar.reset` for any other object.
    pub(super) fn reset(&self, token: &Bound<'_, PyAny>) -> PyResult<()> {
        // SAFETY: the thread is attached, `self.0` is a `ContextVar`, and the call itself checks that `token` is a
        // token before it looks inside.
        let status = unsafe { ffi::PyContextVar_Reset(self.0.as_ptr(), token.as_ptr()) };
        if status < 0 {
            return Err(PyErr::take(token.py())
                .unwrap_or_else(|| PySystemError::new_err("ContextVar.reset failed without an exception")));
        }
        Ok(())
    }

    pub(super) fn traverse(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }
}

/// Whether each key of `dict` is a str. A dict that never had another key knows it, so that none is looked at.
pub(super) fn has_text_keys(dict: &Bound<'_, PyDict>) -> bool {
    // SAFETY: the thread is attached (`dict`). The call takes any object, and returns 0 with an exception set for one
    // that is no dict or has another key.
    let is_text = unsafe { ffi::PyArg_ValidateKeywordArguments(dict.as_ptr()) } != 0;
    if !is_text {
        drop(PyErr::take(dict.py()));
    }
    is_text
}

/// Raises `ImportError` in any interpreter of the process but the first that asks.
///
/// What the extension keeps for the life of the process (the latch, the package's own variables) belongs to one
/// interpreter, and `PyO3` does not check that for a module.
pub(super) fn claim_interpreter(_py: Python<'_>) -> PyResult<()> {
    static FIRST: AtomicI64 = AtomicI64::new(-1);
    // SAFETY: the thread is attached (`_py`), so there is a current interpreter, which is what the inner call returns
    // and the outer one takes.
    let this = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    match FIRST.compare_exchange(-1, this, Ordering::AcqRel, Ordering::Acquire) {
        Err(first) if first != this => Err(PyImportError::new_err(
            "hermes_env_bridge can be imported in one interpreter of a process, and another one has imported it",
        )),
        _ => Ok(()),
    }
}

/// The class `contextvars.ContextVar`.
pub(super) fn context_var_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import(intern!(py, "contextvars"))?.getattr(intern!(py, "ContextVar"))
}

/// The class `contextvars.Token`.
pub(super) fn token_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import(intern!(py, "contextvars"))?.getattr(intern!(py, "Token"))
}

/// A real variable, to ask what Python says of one.
pub(super) fn some_variable(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    context_var_type(py)?.call1((intern!(py, "some"),))
}

/// A real token, to ask what Python says of one. No context that is in use is changed.
pub(super) fn some_token(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let context = py.import(intern!(py, "contextvars"))?.getattr(intern!(py, "Context"))?.call0()?;
    context.call_method1(intern!(py, "run"), (some_variable(py)?.getattr(intern!(py, "set"))?, py.None()))
}
