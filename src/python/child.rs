//! The environment of a child, from Python's objects.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::argument::Argument;
use super::plan::check_env;
use super::slot::{Slot, field};
use super::text::{self, check_names, refusal};
use super::var::SessionVar;
use super::{environ, import};
use crate::child::{EnvLimits, Platform, check_variable};
use crate::explain::{Facts, ForChild};
use crate::state::VarState;

/// Return the environment that a child of this task is to get, made of *base* (by default ``os.environ``).
///
/// The identity is the one that is bound at this moment. *base* is copied; for ``os.environ`` that is one step, so that
/// other threads may write to it meanwhile.
///
/// - *policy*: ``"inherit"`` is Hermes' rule. ``"detached"`` inherits no session and no board worker's claim, and marks
///   the descendants of a worker or a delegated task. ``"minimal"`` inherits what programs need to run at all.
/// - *allow*: names that pass where the policy or a list of credentials would not let them. What they hold is still the
///   task's to say.
/// - *deny*: names that do not pass, whatever else is said of them.
/// - *extra*: variables to add, in the place of inherited and bound ones.
/// - *credentials*: which names are credentials: ``Credentials``, or what is started, ``"terminal"``, ``"program"`` or
///   ``"model"``, for the lists of the installed Hermes (``hermes_env_bridge.credentials``).
/// - *delegated*: whether the task works for another one; by default as the installed Hermes says.
/// - *home*: the profile's ``HERMES_HOME``, with ``HOME`` if that lies in the inherited one; None for the one with which
///   this process was started, where *base* has none.
/// - *cwd*: where the child is started, for an inherited ``TERMINAL_CWD``.
/// - *windows*: whether Windows' rules for names and sizes hold; by default where this is Windows.
/// - *module*: a session module other than the one in use.
/// - *explain*: return a pair, of the environment and a tuple of what was decided for each name.
///
/// Raises ``InvalidEnvError`` for what no program can be started with, TypeError for what is no text, ValueError for an
/// unknown policy, RuntimeError if the lists of the installed Hermes cannot be read. With a *base* alone, only what is
/// written to it is checked; ``hermes_env_bridge.spawn`` checks all of it.
#[pyfunction]
#[pyo3(
    signature = (base = None, *, policy = Argument::Absent, allow = Argument::Absent, deny = Argument::Absent, extra = Argument::Absent, credentials = Argument::Absent, delegated = Argument::Absent, home = Argument::Absent, cwd = Argument::Absent, windows = Argument::Absent, module = Argument::Absent, explain = Argument::Absent),
    text_signature = "(base=None, *, policy='inherit', allow=(), deny=(), extra=None, credentials=None, \
                      delegated=None, home=..., cwd=None, windows=..., module=None, explain=False)"
)]
#[allow(clippy::too_many_arguments)] // Python's keywords
pub(super) fn child_env<'py>(
    py: Python<'py>,
    base: Option<&Bound<'py, PyAny>>,
    policy: Argument<'py>,
    allow: Argument<'py>,
    deny: Argument<'py>,
    extra: Argument<'py>,
    credentials: Argument<'py>,
    delegated: Argument<'py>,
    home: Argument<'py>,
    cwd: Argument<'py>,
    windows: Argument<'py>,
    module: Argument<'py>,
    explain: Argument<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    static PLANNED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let options = [
        ("policy", policy),
        ("allow", allow),
        ("deny", deny),
        ("extra", extra),
        ("credentials", credentials),
        ("delegated", delegated),
        ("home", home),
        ("cwd", cwd),
        ("windows", windows),
        ("module", module),
        ("explain", explain),
    ];
    let is_plain = options.iter().all(|(_, option)| matches!(option, Argument::Absent));
    // What is asked for all the time takes no detour.
    if is_plain && !cfg!(windows) {
        let module = || import::module(intern!(py, "hermes_env_bridge.session_context"));
        if let Some(base) = base {
            if let Ok(base) = base.cast_exact::<PyDict>() {
                let env = base.copy()?;
                check_names(&env)?;
                return inherit(env, &module()?).and_then(marked_alone).map(Bound::into_any);
            }
        } else if let Some(base) = environ::environ(py)? {
            let env = inherit(base, &module()?)?;
            check_env(&env, Vec::new(), cfg!(windows))?;
            return marked_alone(env).map(Bound::into_any);
        }
    }
    let given = PyDict::new(py);
    for (name, option) in options {
        if let Argument::Given(option) = option {
            given.set_item(name, option)?;
        }
    }
    PLANNED.import(py, "hermes_env_bridge.children", "_planned")?.call((base,), Some(&given))
}

/// Whether `MARK` has anybody: all that an environment costs where it has not.
static IS_MARKING: AtomicBool = AtomicBool::new(false);

/// Who is given each environment that is made, and what is made of it.
static MARK: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

/// Have *mark* called with each environment that ``child_env`` makes, and with what its caller adds; what that returns is
/// then what ``child_env`` returns. None for nobody.
#[pyfunction]
#[pyo3(signature = (mark, /))]
pub(super) fn mark_children(mark: Option<Py<PyAny>>) {
    IS_MARKING.store(mark.is_some(), Ordering::Release);
    *MARK.lock().unwrap_or_else(PoisonError::into_inner) = mark;
}

/// Return what the function that ``mark_children`` was given makes of *env*, to which *extra* was added; without one, *env*.
#[pyfunction]
#[pyo3(signature = (env, extra, /))]
pub(super) fn marked<'py>(env: Bound<'py, PyDict>, extra: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    if !IS_MARKING.load(Ordering::Acquire) {
        return Ok(env);
    }
    let py = env.py();
    let mark = MARK.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|mark| mark.clone_ref(py));
    mark.map_or(Ok(env.clone()), |mark| Ok(mark.bind(py).call1((env, extra))?.cast_into::<PyDict>()?))
}

/// [`marked`], for an environment to which nothing was added.
fn marked_alone(env: Bound<'_, PyDict>) -> PyResult<Bound<'_, PyDict>> {
    let nothing = PyDict::new(env.py());
    marked(env, &nothing)
}

/// Makes Hermes' rule hold in `env` for the variables of `module`: the default plan without its reasons.
fn inherit<'py>(env: Bound<'py, PyDict>, module: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let module = Module::new(module);
    let engaged = module.engaged()?;
    let empty = intern!(env.py(), "");
    module.variables()?.each(|name, value| {
        // Most bound values are the empty text, of which there is one.
        let text = value.filter(|value| !value.is(empty)).map(|value| Text::of(name, value)).transpose()?;
        let is_empty = text.as_ref().is_none_or(Text::is_empty);
        match (for_child(value.map(|_| is_empty), engaged), value) {
            (ForChild::Set | ForChild::Empty, Some(value)) => {
                text.map_or(Ok(()), |text| text.check(name))?;
                env.set_item(name, value)
            }
            (ForChild::Strip, _) if env.contains(name)? => env.del_item(name),
            _ => Ok(()),
        }
    })?;
    Ok(env)
}

/// What a child gets for a variable that is bound to a value which `is_empty` or not, or not bound at all.
///
/// What is not in the environment cannot be stripped from it or kept in it, so whether it is need not be asked.
fn for_child(is_empty: Option<bool>, engaged: bool) -> ForChild {
    let state = match is_empty {
        None => VarState::Unset,
        Some(true) => VarState::Cleared,
        Some(false) => VarState::Set(()),
    };
    Facts { is_session_variable: true, state, in_environment: true, engaged }.child().0
}

/// A variable's name, what a child gets, and the text of that, if it is one.
pub(super) type Decided<'py> = (Bound<'py, PyString>, ForChild, Option<Bound<'py, PyString>>);

/// What a child of this task gets for each variable of `module`.
pub(super) fn decisions<'py>(module: &Bound<'py, PyAny>) -> PyResult<Vec<Decided<'py>>> {
    let engaged = engaged_of(module)?;
    let decide = |(name, text): Held<'py>| {
        let is_empty = text.as_ref().map(|text| text.is_empty()).transpose()?;
        Ok((name, for_child(is_empty, engaged), text))
    };
    bound(module)?.into_iter().map(decide).collect()
}

/// A variable's name, and what a child gets for it if it is bound.
pub(super) type Held<'py> = (Bound<'py, PyString>, Option<Bound<'py, PyString>>);

/// Return (name, value) for each variable of *module*: what a child gets for it if it is bound, else None.
#[pyfunction]
#[pyo3(signature = (module, /))]
pub(super) fn bound<'py>(module: &Bound<'py, PyAny>) -> PyResult<Vec<Held<'py>>> {
    let mut bound = Vec::new();
    Module::new(module).variables()?.each(|name, value| {
        bound.push((name.clone(), value.cloned()));
        Ok(())
    })?;
    Ok(bound)
}

/// Return the latch of *module*; one that is too old to have any strips nothing.
#[pyfunction]
#[pyo3(signature = (module, /))]
pub(super) fn engaged_of(module: &Bound<'_, PyAny>) -> PyResult<bool> {
    Module::new(module).engaged()
}

/// A session module, and its namespace if it is a module at all.
struct Module<'a, 'py> {
    module: &'a Bound<'py, PyAny>,
    namespace: Option<Bound<'py, PyDict>>,
}

impl<'a, 'py> Module<'a, 'py> {
    fn new(module: &'a Bound<'py, PyAny>) -> Self {
        Self { module, namespace: module.cast::<PyModule>().ok().map(PyModuleMethods::dict) }
    }

    /// What the module has under `name`, in its namespace or by its own way.
    fn get(&self, name: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let own = self.namespace.as_ref().and_then(|namespace| namespace.get_item(name).transpose());
        own.map_or_else(|| self.module.getattr_opt(name), |own| own.map(Some))
    }

    /// The latch; a module that is too old to have one strips nothing.
    fn engaged(&self) -> PyResult<bool> {
        match self.get(intern!(self.module.py(), "session_context_engaged"))? {
            Some(engaged) => engaged.call0()?.is_truthy(),
            None => Ok(false),
        }
    }

    fn variables(&self) -> PyResult<Variables<'py>> {
        let py = self.module.py();
        let by_name = match self.get(intern!(py, "_VAR_MAP"))? {
            Some(by_name) => by_name,
            None => self.module.getattr(intern!(py, "_VAR_MAP"))?,
        };
        Ok(Variables { by_name, unset: self.get(intern!(py, "_UNSET"))? })
    }
}

/// A session module's variables by name.
struct Variables<'py> {
    by_name: Bound<'py, PyAny>,
    unset: Option<Bound<'py, PyAny>>,
}

impl<'py> Variables<'py> {
    /// Calls `f` with each name and what a child gets for a bound variable: None is empty, and what is no text is made
    /// text, as Hermes does both.
    ///
    /// Variables whose values take code to find out come last: that code may change the table. `f` runs none.
    fn each(
        &self,
        mut f: impl FnMut(&Bound<'py, PyString>, Option<&Bound<'py, PyString>>) -> PyResult<()>,
    ) -> PyResult<()> {
        let mut last = Vec::new();
        if let Ok(by_name) = self.by_name.cast_exact::<PyDict>() {
            let mut fields = Fields(None);
            with_critical_section(by_name, || {
                by_name.iter().try_for_each(|(name, variable)| {
                    // What is no text can be no name of an environment.
                    let Ok(name) = name.cast_exact::<PyString>() else { return Ok(()) };
                    let quiet = match variable.cast_exact::<SessionVar>() {
                        Ok(ours) => match self.bound(ours, &mut fields)?.map(Bound::cast_exact) {
                            None => Some(None),
                            Some(text) => text.ok().map(Some),
                        },
                        Err(_) => None,
                    };
                    if let Some(value) = quiet {
                        return f(name, value);
                    }
                    last.push((name.clone(), variable));
                    Ok(())
                })
            })?;
        } else {
            for item in self.by_name.call_method0(intern!(self.by_name.py(), "items"))?.try_iter()? {
                let (name, variable): (Bound<'py, PyAny>, _) = item?.extract()?;
                last.extend(name.cast_into_exact::<PyString>().map(|name| (name, variable)));
            }
        }
        for (name, variable) in last {
            let value = self.asked(&variable)?;
            let text = value.map(|value| if value.is_none() { Ok(PyString::new(value.py(), "")) } else { value.str() });
            f(&name, text.transpose()?.as_ref())?;
        }
        Ok(())
    }

    /// What any variable holds, `None` if the task has not bound it.
    fn asked(&self, variable: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        static HELD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static ABSENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = variable.py();
        if let Ok(ours) = variable.cast_exact::<SessionVar>() {
            return Ok(self.bound(ours, &mut Fields(None))?.cloned());
        }
        let absent = ABSENT.import(py, "hermes_env_bridge._module", "ABSENT")?;
        let unset = self.unset.as_ref().unwrap_or(absent);
        let value = HELD.import(py, "hermes_env_bridge._module", "held")?.call1((variable, unset))?;
        Ok(Some(value).filter(|value| !value.is(absent)))
    }

    /// What a variable of ours holds, `None` if the task has not bound it.
    fn bound<'a>(
        &self,
        variable: &Bound<'py, SessionVar>,
        fields: &'a mut Fields<'py>,
    ) -> PyResult<Option<&'a Bound<'py, PyAny>>> {
        let is_bound = |value: &&Bound<'_, PyAny>| {
            !self.unset.as_ref().is_some_and(|unset| value.is(unset)) && !variable.get().is_default(value)
        };
        Ok(fields.of(variable)?.filter(is_bound))
    }
}

/// The fields of the slot that was asked last: a module's variables have one slot.
struct Fields<'py>(Option<(Bound<'py, Slot>, Option<Bound<'py, PyTuple>>)>);

impl<'py> Fields<'py> {
    fn of(&mut self, variable: &Bound<'py, SessionVar>) -> PyResult<Option<&Bound<'py, PyAny>>> {
        let slot = SessionVar::slot(variable);
        if self.0.as_ref().is_none_or(|(known, _)| !known.is(slot)) {
            self.0 = Some((slot.clone(), slot.get().current(variable.py())?));
        }
        let fields = self.0.as_ref().and_then(|(_, fields)| fields.as_ref());
        Ok(fields.and_then(|fields| field(fields, variable.get().at())))
    }
}

/// A variable with a value of so many bytes is not too long on any system, whatever its name.
const SHORT: usize = 4096;

/// A value, as it is checked before it is written to an environment.
enum Text<'a> {
    Utf8(&'a str),
    /// Bytes of another kind, as the system has them.
    Other(OsString),
}

impl<'a> Text<'a> {
    fn of(name: &Bound<'_, PyString>, value: &'a Bound<'_, PyString>) -> PyResult<Self> {
        match value.to_str() {
            Ok(text) if text.is_ascii() || environ::is_utf8(name.py())? => Ok(Self::Utf8(text)),
            _ => text::text("value", name, value).map(Self::Other),
        }
    }

    fn as_os_str(&self) -> &OsStr {
        match self {
            Self::Utf8(text) => text.as_ref(),
            Self::Other(text) => text,
        }
    }

    fn is_empty(&self) -> bool {
        self.as_os_str().is_empty()
    }

    fn check(&self, name: &Bound<'_, PyString>) -> PyResult<()> {
        // Most are short, and names are a module's own.
        if self.as_os_str().len() < SHORT && !self.as_os_str().as_encoded_bytes().contains(&0) {
            return Ok(());
        }
        let limit = const { EnvLimits::of_a_variable(Platform::HOST) };
        let checked = match name.to_str() {
            Ok(name) => check_variable(Platform::HOST, limit, name.as_ref(), self.as_os_str()),
            Err(_) => check_variable(Platform::HOST, limit, &name.extract::<OsString>()?, self.as_os_str()),
        };
        checked.map(drop).map_err(|error| refusal(name.py(), &error))
    }
}
