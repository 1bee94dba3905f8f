//! A session variable as Python sees it.

use pyo3::exceptions::{PyLookupError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyGenericAlias, PyString, PyTuple, PyType};

use super::argument::Argument;
use super::capi::{context_var_type, some_variable, token_type};
use super::slot::Slot;
use super::token::SessionToken;

/// A variable with the behaviour of a contextvars.ContextVar, which it says it is (``isinstance``).
///
/// The variables of one module share one real context variable, so that a session is bound and cleared whole. *Never
/// set in this context* and *set to some sentinel* are two things, as for any context variable.
#[pyclass(frozen, module = "hermes_env_bridge")]
pub(super) struct SessionVar {
    name: Py<PyString>,
    default: Option<Py<PyAny>>,
    slot: Py<Slot>,
    at: usize,
}

#[pymethods]
impl SessionVar {
    #[new]
    #[pyo3(signature = (*args, **kwargs), text_signature = None)]
    fn __new__(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        if args.len() != 1 {
            return Err(PyTypeError::new_err(format!(
                "ContextVar() takes exactly 1 positional argument ({} given)",
                args.len()
            )));
        }
        let mut default = None;
        for (keyword, value) in kwargs.into_iter().flatten() {
            if !keyword.eq("default")? {
                let keyword = keyword.str()?;
                return Err(PyTypeError::new_err(format!(
                    "'{keyword}' is an invalid keyword argument for ContextVar()"
                )));
            }
            default = Some(value);
        }
        let name = args.get_item(0)?;
        let name =
            name.cast_into::<PyString>().map_err(|_| PyTypeError::new_err("context variable name must be a str"))?;
        Ok(Self::make(&Slot::for_new_variable(args.py())?, &name, default))
    }

    /// The variable's name.
    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyString> {
        self.name.clone_ref(py)
    }

    /// The value in the current context; without one *default*, else the variable's own default.
    ///
    /// Raises LookupError if there is none of them.
    #[pyo3(signature = (default = Argument::Absent, /), text_signature = "(self, default=<unrepresentable>, /)")]
    fn get<'py>(var: &Bound<'py, Self>, default: Argument<'py>) -> PyResult<Bound<'py, PyAny>> {
        match default {
            Argument::Given(default) => Ok(var.get().held(var.py())?.unwrap_or(default)),
            Argument::Absent => Self::value(var),
        }
    }

    /// Set the value in the current context, and return a token with which to undo it.
    #[pyo3(signature = (value, /))]
    fn set<'py>(var: &Bound<'py, Self>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, SessionToken>> {
        let slot = Self::slot(var);
        let mut draft = Slot::draft(slot)?;
        draft.put(var.get().at, Some(value));
        let token = SessionToken::make(var, &draft.undo()?)?;
        draft.commit()?;
        Ok(token)
    }

    /// Put back the value from before the ``set`` that returned *token*.
    ///
    /// Raises RuntimeError for a token that was used, ValueError for one of another variable or context, and
    /// TypeError for what is no token.
    #[pyo3(signature = (token, /))]
    pub(super) fn reset(var: &Bound<'_, Self>, token: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = var.py();
        let Ok(ours) = token.cast_exact::<SessionToken>() else {
            if token.get_type().is(&token_type(py)?) {
                return var.get().slot.get().refuse(token);
            }
            return Err(PyTypeError::new_err(format!("expected an instance of Token, got {}", token.repr()?)));
        };
        let state = ours.get();
        if state.is_used() {
            return Err(PyRuntimeError::new_err(format!("{} has already been used once", token.repr()?)));
        }
        if !state.is_of(var) {
            return Err(PyValueError::new_err(format!("{} was created by a different ContextVar", token.repr()?)));
        }
        if !state.was_made_here(py)? {
            return Err(PyValueError::new_err(format!("{} was created in a different Context", token.repr()?)));
        }
        let mut draft = Slot::draft(Self::slot(var))?;
        draft.put(var.get().at, state.old(py));
        draft.commit()?;
        state.mark_used();
        Ok(())
    }

    /// What ``isinstance`` is told.
    #[getter]
    fn __class__(var: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Ok(context_var_type(var.py())?.unbind())
    }

    #[classmethod]
    #[pyo3(signature = (item, /))]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyGenericAlias>> {
        PyGenericAlias::new(cls.py(), cls.as_any(), item)
    }

    fn __repr__(var: &Bound<'_, Self>) -> PyResult<String> {
        let name = var.get().name.bind(var.py()).repr()?;
        let default = match &var.get().default {
            Some(default) => format!(" default={}", default.bind(var.py()).repr()?),
            None => String::new(),
        };
        Ok(format!("<ContextVar name={name}{default} at {:p}>", var.as_ptr()))
    }

    /// Refused, in the words in which Python refuses it for a real variable.
    #[pyo3(signature = (protocol, /))]
    fn __reduce_ex__<'py>(&self, protocol: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        some_variable(protocol.py())?.call_method1(intern!(protocol.py(), "__reduce_ex__"), (protocol,))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.default)?;
        visit.call(&self.slot)
    }
}

impl SessionVar {
    /// A variable with a field of its own in `slot`.
    pub(super) fn make(slot: &Bound<'_, Slot>, name: &Bound<'_, PyString>, default: Option<Bound<'_, PyAny>>) -> Self {
        Self {
            name: name.clone().unbind(),
            default: default.map(Bound::unbind),
            slot: slot.clone().unbind(),
            at: slot.get().allot(),
        }
    }

    /// The value in the current context, else the variable's own default; raises `LookupError` if there is neither.
    pub(super) fn value<'py>(var: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let state = var.get();
        state
            .held(var.py())?
            .or_else(|| state.default.as_ref().map(|default| default.bind(var.py()).clone()))
            .ok_or_else(|| PyLookupError::new_err(var.clone().unbind()))
    }

    /// The slot that holds the variable's values.
    pub(super) fn slot<'a, 'py>(var: &'a Bound<'py, Self>) -> &'a Bound<'py, Slot> {
        var.get().slot.bind(var.py())
    }

    /// The variable's field in its slot.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The object that says that the variable was never bound, if `value` is it.
    pub(super) fn is_default(&self, value: &Bound<'_, PyAny>) -> bool {
        self.default.as_ref().is_some_and(|default| value.is(default))
    }

    fn held<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.slot.get().get(py, self.at)
    }
}
