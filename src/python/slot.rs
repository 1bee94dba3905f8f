//! The one place where a task's session variables live in Python.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};

use super::capi::ContextVar;

/// The variables of one module, all kept in one context variable.
///
/// The value in a context is a tuple with a field for each variable. A write puts a new tuple in its place, so that a
/// session is bound whole, a copied context shares it, and nothing that a child does comes back.
#[pyclass(frozen, module = "hermes_env_bridge._core")]
pub(super) struct Slot {
    fields: ContextVar,
    /// Has no meaning as a value. Its tokens tell whether a context is the one in which they were made, which for
    /// `fields` could only be asked by changing the session.
    witness: ContextVar,
    width: AtomicUsize,
}

#[pymethods]
impl Slot {
    /// Make a slot without variables.
    #[new]
    pub(super) fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            // A name that code which looks for Hermes' variables in a context takes for one of them, rightly.
            fields: ContextVar::new(py, c"HERMES_SESSION_CONTEXT")?,
            witness: ContextVar::new(py, c"hermes_env_bridge.witness")?,
            width: AtomicUsize::new(0),
        })
    }

    /// Call `function`; each session variable that is made meanwhile, in this context, belongs to this slot.
    fn collect<'py>(slot: &Bound<'py, Self>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let collecting = collecting(slot.py())?;
        let token = collecting.set(slot.as_any())?;
        let result = function.call0();
        collecting.reset(&token)?;
        result
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.fields.traverse(visit)?;
        self.witness.traverse(visit)
    }
}

impl Slot {
    /// The slot that collects variables in this context, or a new one.
    pub(super) fn for_new_variable(py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        match collecting(py)?.get(py)? {
            Some(slot) => Ok(slot.cast_into::<Self>()?),
            None => Bound::new(py, Self::new(py)?),
        }
    }

    /// Gives a new variable its field.
    pub(super) fn allot(&self) -> usize {
        self.width.fetch_add(1, Ordering::Relaxed)
    }

    /// What this context holds in the field, `None` if it was never set here.
    pub(super) fn get<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.current(py)?.and_then(|fields| field(&fields, at).cloned()))
    }

    /// True if no variable was ever bound, cleared or reset in this context.
    pub(super) fn is_untouched(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.fields.get(py)?.is_none())
    }

    /// Starts a change of this context's fields.
    pub(super) fn draft<'py>(slot: &Bound<'py, Self>) -> PyResult<Draft<'py>> {
        let py = slot.py();
        let width = slot.get().width.load(Ordering::Relaxed);
        let before = slot.get().current(py)?;
        let mut fields = Vec::with_capacity(width);
        if let Some(before) = &before {
            fields.extend(before.iter_borrowed().map(pyo3::Borrowed::to_owned));
        }
        let missing = missing(py).bind(py);
        // Shorter than the slot is wide if variables were added since.
        fields.resize_with(width.max(fields.len()), || missing.clone());
        Ok(Draft { slot: slot.clone(), before, fields })
    }

    /// This context's fields, `None` if none was ever set.
    ///
    /// Code that walks through a context and sets each variable in it meets this one for all of ours; what it has set
    /// is then the value of every field.
    pub(super) fn current<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(value) = self.fields.get(py)? else { return Ok(None) };
        match value.cast_into::<PyTuple>() {
            Ok(fields) => Ok(Some(fields)),
            Err(foreign) => {
                let width = self.width.load(Ordering::Relaxed);
                let value = foreign.into_inner();
                PyTuple::new(py, std::iter::repeat_n(value, width)).map(Some)
            }
        }
    }

    /// Raises what `ContextVar.reset` raises for a real token, which cannot be one of this slot's variables.
    pub(super) fn refuse(&self, token: &Bound<'_, PyAny>) -> PyResult<()> {
        self.witness.reset(token)
    }
}

/// A change of a slot's fields that is not made yet.
pub(super) struct Draft<'py> {
    slot: Bound<'py, Slot>,
    before: Option<Bound<'py, PyTuple>>,
    fields: Vec<Bound<'py, PyAny>>,
}

impl<'py> Draft<'py> {
    /// True if the draft changes `slot`.
    pub(super) fn is_of(&self, slot: &Bound<'_, Slot>) -> bool {
        self.slot.is(slot)
    }

    /// True if the draft has changed the field, to a value other than the one before.
    pub(super) fn has_changed(&self, at: usize) -> bool {
        let before = self.before.as_ref().and_then(|before| before.get_borrowed_item(at).ok());
        !self.fields[at].is(before.as_deref().unwrap_or(missing(self.slot.py()).bind(self.slot.py())))
    }

    /// Puts a value, or the absence of one, in a field.
    pub(super) fn put(&mut self, at: usize, value: Option<Bound<'py, PyAny>>) {
        let py = self.slot.py();
        self.fields[at] = value.unwrap_or_else(|| missing(py).bind(py).clone());
    }

    /// What undoes the change later, and only in this context.
    pub(super) fn undo(&self) -> PyResult<Bound<'py, Undo>> {
        let slot = &self.slot;
        let token = Mutex::new(Some(slot.get().witness.set(slot.as_any())?.unbind()));
        Bound::new(
            slot.py(),
            Undo { slot: slot.clone().unbind(), before: self.before.clone().map(Bound::unbind), token },
        )
    }

    /// Makes the change, at once and whole.
    pub(super) fn commit(self) -> PyResult<()> {
        let fields = PyTuple::new(self.slot.py(), self.fields)?;
        self.slot.get().fields.set(fields.as_any()).map(drop)
    }
}

/// What the tokens of one change have in common: the fields before it, and the context in which it was made.
#[pyclass(frozen, module = "hermes_env_bridge._core")]
pub(super) struct Undo {
    slot: Py<Slot>,
    before: Option<Py<PyTuple>>,
    /// The witness' token. It can be used once, so each check puts a new one in its place.
    token: Mutex<Option<Py<PyAny>>>,
}

#[pymethods]
impl Undo {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.slot)?;
        visit.call(&self.before)?;
        // A lock that is held is being renewed: what it guards is in use, so not visiting it keeps it alive.
        self.token.try_lock().map_or(Ok(()), |token| visit.call(&*token))
    }

    fn __clear__(&self) {
        if let Ok(mut token) = self.token.try_lock() {
            drop(token.take());
        }
    }
}

impl Undo {
    /// What the field held before the change, `None` if it was never set in the context.
    pub(super) fn old<'py>(&self, py: Python<'py>, at: usize) -> Option<Bound<'py, PyAny>> {
        self.before.as_ref().and_then(|before| field(before.bind(py), at).cloned())
    }

    /// True if the current context is the one in which the change was made.
    pub(super) fn is_here(&self, py: Python<'_>) -> PyResult<bool> {
        let witness = &self.slot.get().witness;
        // Nobody else can check at the same time: the interpreter does not switch threads in here.
        let Some(token) = self.lock().take() else { return Ok(false) };
        let (here, renewed) = match witness.reset(token.bind(py)) {
            Ok(()) => (true, witness.set(self.slot.bind(py).as_any())?.unbind()),
            Err(error) if error.is_instance_of::<PyValueError>(py) => (false, token),
            Err(error) => return Err(error),
        };
        *self.lock() = Some(renewed);
        Ok(here)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one field holds, `None` if it was never set.
pub(super) fn field<'a, 'py>(fields: &'a Bound<'py, PyTuple>, at: usize) -> Option<&'a Bound<'py, PyAny>> {
    fields.as_slice().get(at).filter(|value| !value.is(missing(fields.py())))
}

/// Stands in a field for a variable that was never set in the context.
fn missing(py: Python<'_>) -> &Py<PyAny> {
    static MISSING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    MISSING.get_or_init(py, || PyList::empty(py).into_any().unbind())
}

/// Holds the slot for which variables are being made.
fn collecting(py: Python<'_>) -> PyResult<&ContextVar> {
    static COLLECTING: PyOnceLock<ContextVar> = PyOnceLock::new();
    COLLECTING.get_or_try_init(py, || ContextVar::new(py, c"hermes_env_bridge.collecting"))
}
