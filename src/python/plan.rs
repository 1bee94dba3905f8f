//! Plans for children, checks and shells' text, as Python asks for them.

use std::ffi::OsString;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use crate::child::{self, ChildEnv, InvalidEnv, Passthrough, Plan, Platform, Unnameable};
use crate::state::VarState;

/// Name, action, reason, and the value if the child gets one.
type Decided = (OsString, &'static str, &'static str, Option<OsString>);

/// Return what is decided for each name, as (name, action, why, value): *base*, and *session* as `bound` returns it,
/// under *spec*, which has the fields of `Spec`.
#[pyfunction]
#[pyo3(signature = (base, session, engaged, spec, /))]
pub(super) fn plan(
    base: &Bound<'_, PyDict>,
    session: Vec<(OsString, Option<OsString>)>,
    engaged: bool,
    spec: Spec<'_>,
) -> PyResult<Vec<Decided>> {
    let py = base.py();
    let session = session.into_iter().map(|(name, value)| {
        let state = match value {
            None => VarState::Unset,
            Some(value) if value.is_empty() => VarState::Cleared,
            Some(value) => VarState::Set(value),
        };
        (name, state)
    });
    let plan = Plan::make(&spec.build()?, variables(base)?.into_iter(), session, engaged)
        .map_err(|error| refusal(py, &error))?;
    let planned = plan.iter();
    Ok(planned.map(|each| (each.name.clone(), each.action.as_str(), each.why, each.value().map(Into::into))).collect())
}

/// What a spawner asks for, as Python states it.
#[derive(FromPyObject)]
pub(super) struct Spec<'py> {
    policy: String,
    allow: Vec<OsString>,
    deny: Vec<OsString>,
    extra: Bound<'py, PyDict>,
    credentials: Option<Bound<'py, Credentials>>,
    passthrough: Vec<OsString>,
    delegated: bool,
    home: Option<OsString>,
    cwd: Option<OsString>,
    windows: bool,
}

impl Spec<'_> {
    fn build(self) -> PyResult<ChildEnv> {
        let policy =
            self.policy.parse().map_err(|error: child::UnknownPolicy| PyValueError::new_err(error.to_string()))?;
        let credentials = self.credentials.map(|credentials| credentials.get().0.clone());
        let known = credentials.clone().unwrap_or_default();
        let mut spec = ChildEnv::new()
            .policy(policy)
            .platform(platform(self.windows))
            .delegated(self.delegated)
            .passthrough(Passthrough::default().with(self.passthrough, &known).0);
        spec = self.allow.into_iter().fold(spec, ChildEnv::allow);
        spec = self.deny.into_iter().fold(spec, ChildEnv::deny);
        spec = variables(&self.extra)?.into_iter().fold(spec, |spec, (name, value)| spec.extra(name, value));
        spec = credentials.into_iter().fold(spec, ChildEnv::credentials);
        spec = self.home.into_iter().fold(spec, ChildEnv::home);
        Ok(self.cwd.into_iter().fold(spec, ChildEnv::cwd))
    }
}

/// The names that are credentials: *blocked* ones, which a spawner may allow, and those that it *always* has to add.
///
/// Internal secrets (``AUXILIARY_…_API_KEY``, ``GATEWAY_RELAY_…_SECRET`` and the like) are credentials without being
/// listed.
#[pyclass(frozen, eq, module = "hermes_env_bridge")]
#[derive(PartialEq, Eq)]
pub(super) struct Credentials(child::Credentials);

#[pymethods]
impl Credentials {
    #[new]
    #[pyo3(signature = (blocked = Vec::new(), *, always = Vec::new()), text_signature = "(blocked=(), *, always=())")]
    fn new(blocked: Vec<OsString>, always: Vec<OsString>) -> Self {
        Self(child::Credentials::new(blocked).always(always))
    }

    /// Whether no skill may hand *name* on.
    #[pyo3(signature = (name, /))]
    fn is_credential(&self, name: OsString) -> bool {
        self.0.is_credential(name)
    }
}

/// Raise InvalidEnvError if no program can be started with *env* and *arguments*.
#[pyfunction]
#[pyo3(signature = (env, arguments, windows, /))]
#[allow(clippy::needless_pass_by_value)] // what is extracted is owned
pub(super) fn check_env(env: &Bound<'_, PyDict>, arguments: Vec<OsString>, windows: bool) -> PyResult<()> {
    let platform = platform(windows);
    let variables = variables(env)?;
    let pairs = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    child::check(platform, platform.limits(), pairs, arguments.iter().map(OsString::as_os_str))
        .map_err(|error| refusal(env.py(), &error))
}

/// Return a line ``export NAME='value'`` for each variable of *env*. Raises ValueError for what is no shell's name.
#[pyfunction]
#[pyo3(signature = (env, /))]
pub(super) fn shell_exports(env: &Bound<'_, PyDict>) -> PyResult<OsString> {
    child::shell_exports(variables(env)?).map_err(|error| unnameable(&error))
}

/// Return a line ``unset NAME`` for each of *names*. Raises ValueError for what is no shell's name.
#[pyfunction]
#[pyo3(signature = (names, /))]
pub(super) fn shell_unset(names: Vec<OsString>) -> PyResult<OsString> {
    child::shell_unset(names).map_err(|error| unnameable(&error))
}

/// Return the names that the crate's own table owns.
#[pyfunction]
#[pyo3(signature = ())]
pub(super) fn owned_names() -> Vec<&'static str> {
    child::owned_names().collect()
}

/// Whether *name* is one of those, or of a later version's claim.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(super) fn owns(name: OsString) -> bool {
    child::owns(name)
}

fn platform(windows: bool) -> Platform {
    if windows { Platform::Windows } else { Platform::Posix }
}

/// Names and values; raises TypeError, with the name, for what is no text, and UnicodeEncodeError for what the system
/// cannot have.
fn variables(env: &Bound<'_, PyDict>) -> PyResult<Vec<(OsString, OsString)>> {
    // A copy: nothing is run for text, but a subclass of str is not only text.
    let text = |what: &str, name: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>| {
        object.cast::<PyString>().map_err(PyErr::from).and_then(|text| text.extract::<OsString>()).map_err(|error| {
            if !error.is_instance_of::<PyTypeError>(object.py()) {
                return error;
            }
            let (name, kind) = (name.repr(), object.get_type().name());
            match (name, kind) {
                (Ok(name), Ok(kind)) => PyTypeError::new_err(format!("the {what} of {name} is not a str but {kind}")),
                _ => error,
            }
        })
    };
    let entries = env.copy()?;
    entries.iter().map(|(name, value)| Ok((text("name", &name, &name)?, text("value", &name, &value)?))).collect()
}

/// The Python exception for what no program can be started with.
pub(super) fn refusal(py: Python<'_>, error: &InvalidEnv) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (size, limit) = error.size_and_limit().unzip();
    let raised = CLASS
        .import(py, "hermes_env_bridge.children", "InvalidEnvError")
        .and_then(|class| class.call1((error.to_string(), error.name(), size, limit)));
    raised.map_or_else(|error| error, PyErr::from_value)
}

fn unnameable(error: &Unnameable) -> PyErr {
    PyValueError::new_err(error.to_string())
}
