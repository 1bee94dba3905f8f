//! Plans for children, checks and shells' text, as Python asks for them.

use std::ffi::OsString;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::argument::Argument;
use super::child::Held;
use super::text::{arguments, invalid, names, refusal, text, variables};
use crate::child::{self, ChildEnv, Passthrough, Plan, Platform, Unrenderable};
use crate::state::VarState;

/// Name, action, reason, and the value if the child gets one.
type Decided = (OsString, &'static str, &'static str, Option<OsString>);

/// Return what is decided for each name, as (name, action, why, value): *base*, and *session* as `bound` returns it,
/// under *spec*, which has the fields of `Spec`.
#[pyfunction]
#[pyo3(signature = (base, session, engaged, spec, /))]
pub(super) fn plan(
    base: &Bound<'_, PyDict>,
    session: Vec<Held<'_>>,
    engaged: bool,
    spec: Spec<'_>,
) -> PyResult<Vec<Decided>> {
    let py = base.py();
    let state = |(name, value): Held<'_>| {
        let state = match value.map(|value| text("value", &name, &value)).transpose()? {
            None => VarState::Unset,
            Some(value) if value.is_empty() => VarState::Cleared,
            Some(value) => VarState::Set(value),
        };
        Ok((text("name", &name, &name)?, state))
    };
    let session: Vec<_> = session.into_iter().map(state).collect::<PyResult<_>>()?;
    let plan = Plan::make(&spec.build()?, variables(base)?.into_iter(), session.into_iter(), engaged)
        .map_err(|error| refusal(py, &error))?;
    let planned = plan.iter();
    Ok(planned.map(|each| (each.name.clone(), each.action.as_str(), each.why, each.value().map(Into::into))).collect())
}

/// What a spawner asks for, as Python states it.
#[derive(FromPyObject)]
pub(super) struct Spec<'py> {
    policy: String,
    allow: Bound<'py, PyAny>,
    deny: Bound<'py, PyAny>,
    extra: Bound<'py, PyDict>,
    credentials: Option<Bound<'py, Credentials>>,
    passthrough: Bound<'py, PyAny>,
    delegated: bool,
    home: Option<Bound<'py, PyAny>>,
    cwd: Option<Bound<'py, PyAny>>,
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
            .passthrough(Passthrough::default().with(names("passthrough", &self.passthrough)?, &known).0);
        spec = names("allow", &self.allow)?.into_iter().fold(spec, ChildEnv::allow);
        spec = names("deny", &self.deny)?.into_iter().fold(spec, ChildEnv::deny);
        spec = variables(&self.extra)?.into_iter().fold(spec, |spec, (name, value)| spec.extra(name, value));
        spec = credentials.into_iter().fold(spec, ChildEnv::credentials);
        let path = |name: &str, path: Option<Bound<'_, PyAny>>| {
            path.map(|path| text("value", PyString::new(path.py(), name).as_any(), &path)).transpose()
        };
        spec = path("HERMES_HOME", self.home)?.into_iter().fold(spec, ChildEnv::home);
        Ok(path("TERMINAL_CWD", self.cwd)?.into_iter().fold(spec, ChildEnv::cwd))
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
    #[pyo3(
        signature = (blocked = Argument::Absent, *, always = Argument::Absent),
        text_signature = "(blocked=(), *, always=())"
    )]
    fn new(blocked: Argument<'_>, always: Argument<'_>) -> PyResult<Self> {
        let given = |what: &str, given: Argument<'_>| match given {
            Argument::Absent => Ok(Vec::new()),
            Argument::Given(given) => names(what, &given),
        };
        Ok(Self(child::Credentials::new(given("blocked", blocked)?).always(given("always", always)?)))
    }

    /// Whether no skill may hand *name* on.
    #[pyo3(signature = (name, /))]
    fn is_credential(&self, name: OsString) -> bool {
        self.0.is_credential(name)
    }
}

/// Raise InvalidEnvError if no program can be started with *env* and the arguments *words*.
#[pyfunction]
#[pyo3(signature = (env, words, windows, /))]
#[allow(clippy::needless_pass_by_value)] // what is extracted is owned
pub(super) fn check_env(env: &Bound<'_, PyDict>, words: Vec<Bound<'_, PyString>>, windows: bool) -> PyResult<()> {
    let platform = platform(windows);
    let arguments = arguments(&words)?;
    let variables = variables(env)?;
    let pairs = variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    child::check(platform, platform.limits(), pairs, arguments.iter().map(OsString::as_os_str))
        .map_err(|error| refusal(env.py(), &error))
}

/// Return a line ``export NAME='value'`` for each variable of *env*. Raises InvalidEnvError for what no shell can have.
#[pyfunction]
#[pyo3(signature = (env, /))]
pub(super) fn shell_exports(env: &Bound<'_, PyDict>) -> PyResult<OsString> {
    child::shell_exports(variables(env)?).map_err(|error| unrenderable(env.py(), &error))
}

/// Return a line ``unset NAME`` for each of the names in *given*. Raises InvalidEnvError for what no shell can have.
#[pyfunction]
#[pyo3(signature = (given, /))]
pub(super) fn shell_unset(given: &Bound<'_, PyAny>) -> PyResult<OsString> {
    child::shell_unset(names("names", given)?).map_err(|error| unrenderable(given.py(), &error))
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

fn unrenderable(py: Python<'_>, error: &Unrenderable) -> PyErr {
    match error.name().into_pyobject(py) {
        Ok(name) => invalid(&error.to_string(), &name, None),
        Err(error) => error.into(),
    }
}
