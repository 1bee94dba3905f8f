//! What a child of this task has to have, and whether what it is about to get is that.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

use super::var::SessionVar;
use crate::explain::{Facts, ForChild};
use crate::state::VarState;

/// Return what a child of this task has to have under each name of *variables*: its text, or None for nothing.
///
/// A name that may have anything is not in the answer. What holds *unset* counts as unset; for a variable that is not
/// ours *held* says what it holds. Raises what *held* raises, and what a value raises that cannot be made a text.
#[pyfunction]
#[pyo3(signature = (variables, unset, engaged, held, /))]
pub(super) fn planned<'py>(
    variables: &Bound<'py, PyDict>,
    unset: &Bound<'py, PyAny>,
    engaged: bool,
    held: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let py = variables.py();
    let plan = PyDict::new(py);
    // A variable of another kind runs code of its own, which may change the mapping.
    for (name, variable) in &variables.copy()? {
        let bound = match variable.cast_exact::<SessionVar>() {
            Ok(ours) => SessionVar::bound(ours)?,
            Err(_) => Some(held.call1((&variable,))?),
        };
        let text = match bound.filter(|value| !value.is(unset)) {
            Some(value) if value.is_none() => Some(PyString::new(py, "")),
            Some(value) => Some(value.str()?),
            None => None,
        };
        let state = match &text {
            Some(text) if text.is_empty()? => VarState::Cleared,
            Some(_) => VarState::Set(()),
            None => VarState::Unset,
        };
        match (Facts { is_session_variable: true, state, in_environment: true, engaged }.child().0, text) {
            (ForChild::Keep, _) => {}
            (ForChild::Set | ForChild::Empty, Some(text)) => plan.set_item(name, text)?,
            _ => plan.set_item(name, py.None())?,
        }
    }
    Ok(plan)
}

/// Compare the environment of a child with *plan*: return the names whose values *plan* does not want, whether any value
/// is a *stated* one, which is right whatever it is, and whether there is a value for any name of *plan*.
///
/// Names and values in *env* may be text, bytes or paths. Raises what ``os.fsdecode`` raises for anything else.
#[pyfunction]
#[pyo3(signature = (plan, env, stated, /))]
pub(super) fn judge<'py>(
    plan: &Bound<'py, PyDict>,
    env: &Bound<'py, PyDict>,
    stated: &Bound<'py, PyType>,
) -> PyResult<(Bound<'py, PyTuple>, bool, bool)> {
    let py = plan.py();
    let foreign = PyList::empty(py);
    let (mut any_stated, mut any) = (false, false);
    let mut compare = |name: &Bound<'py, PyAny>, wanted: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>| {
        any = true;
        if value.get_type().is(stated) {
            any_stated = true;
        } else if wanted.is_none() || !is_text(value, wanted)? {
            foreign.append(name)?;
        }
        PyResult::Ok(())
    };
    // Names are looked up, and keys copied before they are walked through: another thread may be writing.
    for (name, wanted) in plan {
        if let Some(value) = env.get_item(&name)? {
            compare(&name, &wanted, &value)?;
        }
        let Ok(text) = name.cast::<PyString>() else { continue };
        if let Some(value) = env.get_item(encoded(text)?)? {
            compare(&name, &wanted, &value)?;
        }
    }
    for key in env.keys() {
        if key.is_instance_of::<PyString>() || key.is_instance_of::<PyBytes>() {
            continue;
        }
        let name = decoded(&key)?;
        if let (Some(wanted), Some(value)) = (plan.get_item(&name)?, env.get_item(&key)?) {
            compare(&name, &wanted, &value)?;
        }
    }
    Ok((foreign.to_tuple(), any_stated, any))
}

/// True if a child that is given `value` gets the text `wanted`.
fn is_text<'py>(value: &Bound<'py, PyAny>, wanted: &Bound<'py, PyAny>) -> PyResult<bool> {
    if let (Ok(value), Ok(wanted)) = (value.cast::<PyBytes>(), wanted.cast::<PyString>()) {
        // The same bytes in every encoding that a system has for its environment.
        if let Some(wanted) = wanted.to_str().ok().filter(|wanted| wanted.is_ascii()) {
            return Ok(value.as_bytes() == wanted.as_bytes());
        }
    }
    decoded(value)?.eq(wanted)
}

/// `os.fsdecode`, for what is no text already.
fn decoded<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if value.is_instance_of::<PyString>() {
        return Ok(value.clone());
    }
    value.py().import(intern!(value.py(), "os"))?.call_method1(intern!(value.py(), "fsdecode"), (value,))
}

/// `os.fsencode`, in a short way for what is ASCII, as all names of variables are.
fn encoded<'py>(name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    match name.to_str() {
        Ok(text) if text.is_ascii() => Ok(PyBytes::new(name.py(), text.as_bytes()).into_any()),
        _ => name.py().import(intern!(name.py(), "os"))?.call_method1(intern!(name.py(), "fsencode"), (name,)),
    }
}
