//! The variables of the package's own session module.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};

use super::slot::Slot;
use super::var::SessionVar;
use crate::names::{ASYNC_DELIVERY, Group, VARIABLES};
use crate::session::session_context_engaged;

/// The sentinel and the variables of a session module in the shape of the core's table.
#[pyclass(frozen, module = "hermes_env_bridge._core")]
pub(super) struct Declared {
    /// Is it the package's own module?
    own: bool,
    /// The default of every variable: never bound here.
    #[pyo3(get)]
    unset: Py<PyAny>,
    /// What a bind fills, in order.
    #[pyo3(get)]
    session: Py<PyTuple>,
    /// Where a scheduled job delivers.
    #[pyo3(get)]
    cron_delivery: Py<PyTuple>,
    /// Whether a completion can be delivered later.
    #[pyo3(get)]
    async_delivery: Py<SessionVar>,
}

#[pymethods]
impl Declared {
    /// Whether the module is latched from the start: the package's own is, if a session was bound before its code ran
    /// again.
    #[getter]
    fn engaged(&self) -> bool {
        self.own && session_context_engaged()
    }
}

/// Return the variables for the module called *name*.
///
/// The package's own module gets the same ones each time that its code runs, so that a reload or a second import finds
/// the sessions that are bound. Its code under another name gets its own.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(super) fn declare<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, Declared>> {
    static OWN: PyOnceLock<Py<Declared>> = PyOnceLock::new();
    if name == "hermes_env_bridge.session_context" {
        OWN.get_or_try_init(py, || Py::new(py, Declared::new(py, true)?)).map(|own| own.bind(py).clone())
    } else {
        Bound::new(py, Declared::new(py, false)?)
    }
}

impl Declared {
    fn new(py: Python<'_>, own: bool) -> PyResult<Self> {
        let slot = Bound::new(py, Slot::new(py)?)?;
        let unset = py.import("builtins")?.getattr("object")?.call0()?;
        let variable =
            |name: &str| Bound::new(py, SessionVar::make(&slot, &PyString::intern(py, name), Some(unset.clone())));
        let group = |group| {
            let names = VARIABLES.iter().filter(move |variable| variable.group == group).map(|variable| variable.name);
            let variables = names.map(variable).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, variables).map(Bound::unbind)
        };
        Ok(Self {
            own,
            session: group(Group::Session)?,
            cron_delivery: group(Group::CronDelivery)?,
            async_delivery: variable(ASYNC_DELIVERY)?.unbind(),
            unset: unset.clone().unbind(),
        })
    }
}
