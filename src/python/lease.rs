//! Process leases for Python: the registry is the core's, the child is one of asyncio.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pyo3::exceptions::{PyLookupError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::lease::{
    self, Exit, Filter, Identity, LeaseError, LeaseId, LeaseRecord, LeaseState, Lineage, Ordered, Outcome, Target,
    Watch,
};

impl From<LeaseError> for PyErr {
    fn from(error: LeaseError) -> Self {
        let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        let message = format!("{error}{cause}");
        match error {
            LeaseError::Field { .. } | LeaseError::NotAnId | LeaseError::NotARegistry { .. } => {
                PyValueError::new_err(message)
            }
            LeaseError::NotFound { .. } => PyLookupError::new_err(message),
            LeaseError::Store { .. } | LeaseError::Spawn { .. } => PyOSError::new_err(message),
            _ => PyRuntimeError::new_err(message),
        }
    }
}

/// The kind and the id of an owner.
type Owner = (Option<String>, String);

fn ordered(run_id: Option<String>, owner: Option<Owner>, project_root: Option<String>) -> Ordered {
    let (owner_kind, owner_id) = owner.map_or((None, None), |(kind, id)| (kind, Some(id)));
    Ordered { run_id, owner_kind, owner_id, project_root }
}

/// The fields of a record by their names in Python.
fn fields<'py>(py: Python<'py>, record: &LeaseRecord) -> PyResult<Bound<'py, PyDict>> {
    let identity = |identity: &Identity| (identity.pid(), identity.start_time());
    let (returncode, signal) = match record.exit {
        Some(Exit::Code(code)) => (Some(code), None),
        Some(Exit::Signal(signal)) => (None, Some(signal)),
        Some(Exit::Unknown) | None => (None, None),
    };
    let fields = PyDict::new(py);
    fields.set_item("id", record.id.to_string())?;
    fields.set_item("name", &record.name)?;
    fields.set_item("state", record.state().as_str())?;
    fields.set_item("run_id", &record.ordered.run_id)?;
    fields.set_item("owner_kind", &record.ordered.owner_kind)?;
    fields.set_item("owner_id", &record.ordered.owner_id)?;
    fields.set_item("project_root", &record.ordered.project_root)?;
    fields.set_item("parent", record.parent.map(|parent| parent.to_string()))?;
    fields.set_item("holder", identity(&record.holder))?;
    fields.set_item("process", record.process.as_ref().map(identity))?;
    fields.set_item("command", record.command.clone().into_pyobject(py)?)?;
    fields.set_item("returncode", returncode)?;
    fields.set_item("signal", signal)?;
    fields.set_item("created_at", record.created_at)?;
    fields.set_item("started_at", record.started_at)?;
    fields.set_item("exited_at", record.exited_at)?;
    fields.set_item("delivered_at", record.delivered_at)?;
    fields.set_item("released_at", record.released_at)?;
    fields.set_item("renewed_at", record.renewed_at)?;
    fields.set_item("active_at", record.active_at)?;
    Ok(fields)
}

fn all_fields<'py>(py: Python<'py>, records: &[LeaseRecord]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, records.iter().map(|record| fields(py, record)).collect::<PyResult<Vec<_>>>()?)
}

/// The registry behind ``hermes_env_bridge.leases.Registry``.
#[pyclass(frozen, module = "hermes_env_bridge._core")]
pub(super) struct LeaseRegistry(lease::Registry);

#[pymethods]
impl LeaseRegistry {
    #[new]
    #[pyo3(signature = (path, /))]
    fn new(py: Python<'_>, path: Option<PathBuf>) -> PyResult<Self> {
        let Some(path) = path else {
            return Ok(Self(lease::Registry::in_memory()));
        };
        Ok(Self(py.detach(|| lease::Registry::open(path))?))
    }

    /// Return a new pending lease.
    #[pyo3(signature = (run_id, owner, project_root, /))]
    fn register(
        &self,
        py: Python<'_>,
        run_id: Option<String>,
        owner: Option<Owner>,
        project_root: Option<String>,
    ) -> PyResult<PendingLease> {
        let ordered = ordered(run_id, owner, project_root);
        Ok(PendingLease { lease: py.detach(|| self.0.register(ordered))? })
    }

    /// Return a lease and the fields of the one that had the name; or None, the fields of the one that has it, and words.
    #[pyo3(signature = (name, run_id, owner, project_root, /))]
    #[expect(clippy::type_complexity, reason = "the private half of a call; the public one has a class for it")]
    fn acquire<'py>(
        &self,
        py: Python<'py>,
        name: String,
        run_id: Option<String>,
        owner: Option<Owner>,
        project_root: Option<String>,
    ) -> PyResult<(Option<PendingLease>, Option<Bound<'py, PyDict>>, Option<String>)> {
        let ordered = ordered(run_id, owner, project_root);
        match py.detach(|| self.0.acquire(name, ordered)) {
            Ok(acquired) => {
                let previous = acquired.previous.map(|previous| fields(py, &previous)).transpose()?;
                Ok((Some(PendingLease { lease: acquired.lease }), previous, None))
            }
            Err(LeaseError::Held { holder }) => {
                let held = fields(py, &holder)?;
                Ok((None, Some(held), Some(LeaseError::Held { holder }.to_string())))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Return the fields of a lease.
    #[pyo3(signature = (lease, /))]
    fn get<'py>(&self, py: Python<'py>, lease: &str) -> PyResult<Bound<'py, PyDict>> {
        let id = lease.parse::<LeaseId>()?;
        fields(py, &py.detach(|| self.0.get(id))?)
    }

    /// Return the fields of each lease that matches what is not None.
    #[pyo3(signature = (name, run_id, owner, project_root, states, /))]
    fn leases<'py>(
        &self,
        py: Python<'py>,
        name: Option<String>,
        run_id: Option<String>,
        owner: Option<Owner>,
        project_root: Option<String>,
        states: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut filter = Filter::new();
        if let Some(name) = name {
            filter = filter.name(name);
        }
        if let Some(run_id) = run_id {
            filter = filter.run(run_id);
        }
        if let Some((kind, id)) = owner {
            filter = filter.owned_by(kind, id);
        }
        if let Some(root) = project_root {
            filter = filter.project_root(root);
        }
        if let Some(states) = states {
            filter = filter.states(states.iter().map(|name| state(name)).collect::<PyResult<Vec<_>>>()?);
        }
        all_fields(py, &py.detach(|| self.0.leases(&filter))?)
    }

    /// Return the fields of each lease whose completion nobody took, with the reason.
    fn undelivered<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyDict>, String)>> {
        let undelivered = py.detach(|| self.0.undelivered())?;
        undelivered.iter().map(|one| Ok((fields(py, &one.lease)?, one.reason.to_string()))).collect()
    }

    /// Return the fields of what never started, of the orphans, and of what has exited meanwhile.
    fn recover<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyList>)> {
        let recovery = py.detach(|| self.0.recover())?;
        let [never_started, orphans, exited] =
            [&recovery.never_started, &recovery.orphans, &recovery.exited].map(|records| all_fields(py, records));
        Ok((never_started?, orphans?, exited?))
    }

    #[pyo3(signature = (lease, /))]
    fn renew(&self, py: Python<'_>, lease: &str) -> PyResult<()> {
        let id = lease.parse()?;
        Ok(py.detach(|| self.0.renew(id))?)
    }

    #[pyo3(signature = (lease, /))]
    fn record_activity(&self, py: Python<'_>, lease: &str) -> PyResult<()> {
        let id = lease.parse()?;
        Ok(py.detach(|| self.0.record_activity(id))?)
    }

    #[pyo3(signature = (lease, /))]
    fn release(&self, py: Python<'_>, lease: &str) -> PyResult<()> {
        let id = lease.parse()?;
        Ok(py.detach(|| self.0.release(id))?)
    }

    #[pyo3(signature = (lease, /))]
    fn disown(&self, py: Python<'_>, lease: &str) -> PyResult<()> {
        let id = lease.parse()?;
        Ok(py.detach(|| self.0.disown(id))?)
    }

    #[pyo3(signature = (age, /))]
    fn prune(&self, py: Python<'_>, age: f64) -> PyResult<usize> {
        let age = seconds("age", age)?;
        Ok(py.detach(|| self.0.prune(age))?)
    }

    /// Return (lease, outcome, reason) of each lease, for the one of the three that is not None.
    #[pyo3(signature = (lease, run_id, owner, grace, /))]
    fn terminate(
        &self,
        py: Python<'_>,
        lease: Option<&str>,
        run_id: Option<String>,
        owner: Option<Owner>,
        grace: f64,
    ) -> PyResult<Vec<(String, &'static str, Option<String>)>> {
        let target = match (lease, run_id, owner) {
            (Some(lease), None, None) => Target::Lease(lease.parse()?),
            (None, Some(run_id), None) => Target::Run(run_id),
            (None, None, Some((kind, id))) => Target::Owner { kind, id },
            _ => {
                return Err(PyValueError::new_err(
                    "terminate needs a lease, a run_id or an owner, and only one of them",
                ));
            }
        };
        let grace = seconds("grace", grace)?;
        let terminated = py.detach(|| self.0.blocking_terminate(&target, grace))?;
        Ok(terminated.into_iter().map(|one| (one.lease.to_string(), name(one.outcome), reason(one.outcome))).collect())
    }

    /// Return who takes the completions of a run.
    #[pyo3(signature = (run_id, /))]
    fn completions(&self, run_id: String) -> LeaseCompletions {
        LeaseCompletions(self.0.completions(run_id))
    }
}

fn state(name: &str) -> PyResult<LeaseState> {
    LeaseState::ALL.into_iter().find(|state| state.as_str() == name).ok_or_else(|| {
        let names = LeaseState::ALL.map(LeaseState::as_str).join(", ");
        PyValueError::new_err(format!("no state of a lease: {name:?}; they are {names}"))
    })
}

fn seconds(what: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{what} must be a number of seconds that is not negative")))
}

fn name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NeverStarted => "never started",
        Outcome::AlreadyGone => "already gone",
        Outcome::Ended { killed: false } => "ended",
        Outcome::Ended { killed: true } => "killed",
        Outcome::NoProof(_) => "no proof",
        Outcome::NotPermitted => "not permitted",
        Outcome::Survived => "survived",
    }
}

fn reason(outcome: Outcome) -> Option<String> {
    match outcome {
        Outcome::NoProof(no_proof) => Some(no_proof.to_string()),
        _ => None,
    }
}

/// The lease behind ``hermes_env_bridge.leases.Lease``. It is released if it goes without a child.
#[pyclass(frozen, module = "hermes_env_bridge._core")]
pub(super) struct PendingLease {
    lease: lease::Lease,
}

#[pymethods]
impl PendingLease {
    /// The id.
    #[getter]
    fn id(&self) -> String {
        self.lease.id().to_string()
    }

    /// Record the *command* that is about to be started, and return what its environment has, None for what it must not.
    #[pyo3(signature = (command, /))]
    fn prepare(&self, py: Python<'_>, command: Vec<String>) -> PyResult<Vec<(&'static str, Option<String>)>> {
        Ok(py.detach(|| self.lease.prepare(command))?.into())
    }

    /// Record the child that was started, and return who waits for it.
    #[pyo3(signature = (pid, /))]
    fn started(&self, py: Python<'_>, pid: u32) -> PyResult<LeaseWatch> {
        let watch = py.detach(|| self.lease.started_elsewhere(pid))?;
        Ok(LeaseWatch(std::sync::Mutex::new(Some(watch))))
    }
}

/// Somebody in this process waits for the child of a lease, until this is dropped.
#[pyclass(frozen, module = "hermes_env_bridge._core")]
pub(super) struct LeaseWatch(std::sync::Mutex<Option<Watch>>);

#[pymethods]
impl LeaseWatch {
    /// Record that the child has ended: with a code, by a signal if it is negative, or None if nobody knows.
    #[pyo3(signature = (returncode, /))]
    fn exited(&self, py: Python<'_>, returncode: Option<i32>) {
        let exit = match returncode {
            None => Exit::Unknown,
            Some(code @ 0..) => Exit::Code(code),
            Some(signal) => Exit::Signal(signal.saturating_neg()),
        };
        let watch = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        py.detach(|| watch.map_or((), |watch| watch.exited(exit)));
    }
}

/// Who takes the completions of a run, as long as it exists.
#[pyclass(module = "hermes_env_bridge._core")]
pub(super) struct LeaseCompletions(lease::Completions);

/// Wakes by a call.
struct Call(Py<PyAny>);

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        Python::attach(|py| {
            // A loop that is closed has nobody left to wake.
            let _ = self.0.call0(py);
        });
    }
}

#[pymethods]
impl LeaseCompletions {
    /// Take the next completion and return its fields; None if there is none, and then *wake* is called once there is.
    #[pyo3(signature = (wake, /))]
    fn poll<'py>(&mut self, py: Python<'py>, wake: Option<Py<PyAny>>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let waker = wake.map_or_else(|| Waker::noop().clone(), |wake| Waker::from(Arc::new(Call(wake))));
        match py.detach(|| self.0.poll(&Context::from_waker(&waker))) {
            Poll::Ready(taken) => fields(py, &taken?).map(Some),
            Poll::Pending => Ok(None),
        }
    }
}

/// Return (lease_id, owner_id, project_root, run_id) of the lease whose child this process is, as it was started.
#[pyfunction]
#[pyo3(signature = ())]
pub(super) fn inherited_lineage() -> (Option<String>, Option<String>, Option<String>, Option<String>) {
    let lineage = lease::inherited_lineage().clone();
    (lineage.lease_id.map(|id| id.to_string()), lineage.owner_id, lineage.project_root, lineage.run_id)
}

/// Reads the lineage of this process out of `os.environ`, at import: what the program writes there later is not it.
pub(super) fn read_lineage(py: Python<'_>) -> PyResult<()> {
    let environ = py.import("os")?.getattr("environ")?;
    let read = |name: &str| {
        environ.call_method1("get", (name,)).and_then(|value| value.extract::<Option<String>>()).ok().flatten()
    };
    lease::set_inherited_lineage(Lineage::read(read));
    Ok(())
}
