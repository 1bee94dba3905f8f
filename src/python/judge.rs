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
    let plan = PyDict::new(variables.py());
    // A variable of another kind runs code of its own, which may change the mapping.
    for (name, variable) in &variables.copy()? {
        match wanted(&variable, unset, engaged, held)? {
            Wanted::Anything => {}
            Wanted::Nothing => plan.set_item(name, variables.py().None())?,
            Wanted::Text(text) => plan.set_item(name, text)?,
        }
    }
    Ok(plan)
}

/// Compare *env*, the environment of a child, with what [`planned`] says: return the names whose values are others,
/// whether any value is a *stated* one, which is right whatever it is, and whether the child gets nothing though the task
/// has an identity.
///
/// Names and values in *env* may be text, bytes or paths. Raises what ``os.fsdecode`` raises for anything else.
#[pyfunction]
#[pyo3(signature = (variables, unset, engaged, held, env, stated, /))]
pub(super) fn judge<'py>(
    variables: &Bound<'py, PyDict>,
    unset: &Bound<'py, PyAny>,
    engaged: bool,
    held: &Bound<'py, PyAny>,
    env: &Bound<'py, PyDict>,
    stated: &Bound<'py, PyType>,
) -> PyResult<(Bound<'py, PyTuple>, bool, bool)> {
    let py = variables.py();
    let others = other_spellings(env)?;
    let foreign = PyList::empty(py);
    let (mut any_stated, mut any_carried, mut any_wanted) = (false, false, false);
    for (name, variable) in &variables.copy()? {
        let wanted = wanted(&variable, unset, engaged, held)?;
        any_wanted |= matches!(&wanted, Wanted::Text(text) if !text.is_empty()?);
        let Ok(name) = name.cast::<PyString>() else { continue };
        // Looked up and not walked through: another thread may be writing.
        let carried = [env.get_item(name)?, env.get_item(encoded(name)?)?, others.get_item(name)?];
        let mut is_foreign = false;
        for value in carried.into_iter().flatten() {
            any_carried = true;
            if value.get_type().is(stated) {
                any_stated = true;
            } else {
                is_foreign |= !wanted.is(&value)?;
            }
        }
        if is_foreign {
            foreign.append(name)?;
        }
    }
    Ok((foreign.to_tuple(), any_stated, any_wanted && !any_carried))
}

/// What a child has to have under a name.
enum Wanted<'py> {
    Anything,
    Nothing,
    Text(Bound<'py, PyString>),
}

impl<'py> Wanted<'py> {
    /// True if a child that is given `value` has it.
    fn is(&self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        match self {
            Self::Anything => Ok(true),
            Self::Nothing => Ok(false),
            Self::Text(text) => is_text(value, text),
        }
    }
}

fn wanted<'py>(
    variable: &Bound<'py, PyAny>,
    unset: &Bound<'py, PyAny>,
    engaged: bool,
    held: &Bound<'py, PyAny>,
) -> PyResult<Wanted<'py>> {
    let bound = match variable.cast_exact::<SessionVar>() {
        Ok(ours) => SessionVar::bound(ours)?,
        Err(_) => Some(held.call1((variable,))?),
    };
    let text = match bound.filter(|value| !value.is(unset)) {
        Some(value) if value.is_none() => Some(PyString::new(variable.py(), "")),
        Some(value) => Some(value.str()?),
        None => None,
    };
    let state = match &text {
        Some(text) if text.is_empty()? => VarState::Cleared,
        Some(_) => VarState::Set(()),
        None => VarState::Unset,
    };
    let child = Facts { is_session_variable: true, state, in_environment: true, engaged }.child().0;
    Ok(match (child, text) {
        (ForChild::Keep, _) => Wanted::Anything,
        (ForChild::Set | ForChild::Empty, Some(text)) => Wanted::Text(text),
        _ => Wanted::Nothing,
    })
}

/// The entries of `env` whose names are neither text nor bytes, by name.
fn other_spellings<'py>(env: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let others = PyDict::new(env.py());
    for key in env.keys() {
        if !key.is_instance_of::<PyString>() && !key.is_instance_of::<PyBytes>() {
            if let Some(value) = env.get_item(&key)? {
                others.set_item(decoded(&key)?, value)?;
            }
        }
    }
    Ok(others)
}

/// True if a child that is given `value` gets the text `wanted`.
fn is_text<'py>(value: &Bound<'py, PyAny>, wanted: &Bound<'py, PyString>) -> PyResult<bool> {
    if let Ok(value) = value.cast::<PyBytes>() {
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
