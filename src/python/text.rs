//! Names and values as Python states them, in the encoding that the system has for them.

use std::ffi::OsString;

use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::capi::has_text_keys;
use crate::child::InvalidEnv;

/// Names and values. Raises TypeError for what is no text and InvalidEnvError for what the system cannot have, both
/// with the name.
pub(super) fn variables(env: &Bound<'_, PyDict>) -> PyResult<Vec<(OsString, OsString)>> {
    // A copy: nothing is run for text, but a subclass of str is not only text.
    let entries = env.copy()?;
    entries.iter().map(|(name, value)| Ok((text("name", &name, &name)?, text("value", &name, &value)?))).collect()
}

/// Refuses a name that is no text, as [`variables`] does.
pub(super) fn check_names(env: &Bound<'_, PyDict>) -> PyResult<()> {
    if has_text_keys(env) {
        return Ok(());
    }
    env.iter().try_for_each(|(name, _)| text("name", &name, &name).map(drop))
}

/// The text of `object`, the `what` of the variable `name`.
pub(super) fn text(what: &str, name: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> PyResult<OsString> {
    let text = object.cast::<PyString>().map_err(|_| no_text(what, name, object))?;
    encoded(text, || Ok((format!("the {what} of {}", name.repr()?), name.clone())))
}

/// `text` in the system's encoding. `which` says what it is, and of which variable; the error of the encoder shows it.
fn encoded<'py>(
    text: &Bound<'py, PyString>,
    which: impl FnOnce() -> PyResult<(String, Bound<'py, PyAny>)>,
) -> PyResult<OsString> {
    text.extract().or_else(|error: PyErr| {
        if !error.is_instance_of::<PyUnicodeEncodeError>(text.py()) {
            return Err(error);
        }
        let (which, name) = which()?;
        let message = format!("{which} has a character that this system's encoding cannot have; take it out");
        Err(invalid(&message, &name, None))
    })
}

/// The arguments of a program. Raises InvalidEnvError for one that the system cannot have.
pub(super) fn arguments(words: &[Bound<'_, PyString>]) -> PyResult<Vec<OsString>> {
    let numbered = words.iter().enumerate();
    numbered
        .map(|(at, word)| encoded(word, || Ok((format!("argument {at}"), PyString::new(word.py(), "").into_any()))))
        .collect()
}

fn no_text(what: &str, name: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> PyErr {
    match (name.repr(), object.get_type().name()) {
        (Ok(name), Ok(kind)) => PyTypeError::new_err(format!("the {what} of {name} is not a str but {kind}")),
        (Err(error), _) | (_, Err(error)) => error,
    }
}

/// Return the names in *given*, which a caller gave as *what*: any iterable of str that is not itself one.
///
/// Raises TypeError for anything else, and InvalidEnvError for a name that the system cannot have.
#[pyfunction]
#[pyo3(signature = (what, given, /))]
pub(super) fn names(what: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<OsString>> {
    let refuse = |reason: String| PyTypeError::new_err(format!("{what} takes names, {reason}"));
    if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() {
        return Err(refuse(format!("not one name: say {what}=[{}]", given.repr()?)));
    }
    let kind = |object: &Bound<'_, PyAny>| object.get_type().name().map(|kind| kind.to_string());
    let Ok(given) = given.try_iter() else {
        return Err(refuse(format!("as in {what}=['NAME'], not {}", kind(given)?)));
    };
    let name = |name: Bound<'_, PyAny>| {
        let Ok(text) = name.cast::<PyString>() else {
            return Err(refuse(format!("and a name is a str, not {}", kind(&name)?)));
        };
        encoded(text, || Ok((format!("the name {}", name.repr()?), name.clone())))
    };
    given.map(|each| name(each?)).collect()
}

/// The Python exception for what no program can be started with.
pub(super) fn refusal(py: Python<'_>, error: &InvalidEnv) -> PyErr {
    match error.name().into_pyobject(py) {
        Ok(name) => invalid(&error.to_string(), &name, error.size_and_limit()),
        Err(error) => error.into(),
    }
}

/// InvalidEnvError, as Python has it.
pub(super) fn invalid(message: &str, name: &Bound<'_, PyAny>, size_and_limit: Option<(usize, usize)>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (size, limit) = size_and_limit.unzip();
    let raised = CLASS
        .import(name.py(), "hermes_env_bridge.children", "InvalidEnvError")
        .and_then(|class| class.call1((message, name, size, limit)));
    raised.map_or_else(|error| error, PyErr::from_value)
}
