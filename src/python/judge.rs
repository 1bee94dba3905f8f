//! What a child of this task has to have, and whether what it is about to get is that.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

use super::child::{Decided, decisions};
use crate::explain::ForChild;

/// Return what a child of this task has to have under each variable of *module*: its text, or None for nothing.
///
/// A name that may have anything is not in the answer. Raises what a value raises that cannot be made a text.
#[pyfunction]
#[pyo3(signature = (module, /))]
pub(super) fn planned<'py>(module: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let plan = PyDict::new(module.py());
    for (name, child, text) in decisions(module)? {
        if child != ForChild::Keep {
            plan.set_item(name, text)?;
        }
    }
    Ok(plan)
}

/// Compare *env*, the environment of a child, with what [`planned`] says: return the names whose values are others,
/// whether any value is marked, and whether the child gets nothing though the task has an identity.
///
/// A value of the type *stated* is right whatever it is, one of the type *carried* also where the task has no session.
///
/// Names and values in *env* may be text, bytes or paths. Raises what ``os.fsdecode`` raises for anything else.
#[pyfunction]
#[pyo3(signature = (module, env, stated, carried, /))]
pub(super) fn judge<'py>(
    module: &Bound<'py, PyAny>,
    env: &Bound<'py, PyDict>,
    stated: &Bound<'py, PyType>,
    carried: &Bound<'py, PyType>,
) -> PyResult<(Bound<'py, PyTuple>, bool, bool)> {
    let py = module.py();
    let others = other_spellings(env)?;
    let foreign = PyList::empty(py);
    let (mut any_marked, mut any_there, mut any_wanted) = (false, false, false);
    let decisions = decisions(module)?;
    let has_session = decisions.iter().any(|(_, _, text)| text.is_some());
    for decided in decisions {
        let name = &decided.0;
        any_wanted |= decided.1 == ForChild::Set;
        // Looked up and not walked through: another thread may be writing.
        let spellings = [env.get_item(name)?, env.get_item(encoded(name)?)?, others.get_item(name)?];
        let mut is_foreign = false;
        for value in spellings.into_iter().flatten() {
            any_there = true;
            let kind = value.get_type();
            let is_carried = kind.is(carried);
            any_marked |= is_carried || kind.is(stated);
            let passes = kind.is(stated) || (is_carried && !has_session);
            is_foreign |= !passes && !is_right(&decided, &value)?;
        }
        if is_foreign {
            foreign.append(name)?;
        }
    }
    Ok((foreign.to_tuple(), any_marked, any_wanted && !any_there))
}

/// True if a child that is given `value` has what was decided.
fn is_right<'py>((_, child, text): &Decided<'py>, value: &Bound<'py, PyAny>) -> PyResult<bool> {
    match text {
        _ if *child == ForChild::Keep => Ok(true),
        Some(text) => is_text(value, text),
        None => Ok(false),
    }
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
    let value = decoded(value)?;
    if value.eq(wanted)? {
        return Ok(true);
    }
    // Bytes that are no text by themselves may be one together. What has no bytes at all, no child is given.
    let bytes = |text: &Bound<'py, PyAny>| os(text.py())?.call_method1(intern!(text.py(), "fsencode"), (text,));
    Ok(matches!((bytes(&value), bytes(wanted)), (Ok(value), Ok(wanted)) if value.eq(&wanted)?))
}

/// `os.fsdecode`, for what is no text already.
fn decoded<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if value.is_instance_of::<PyString>() {
        return Ok(value.clone());
    }
    os(value.py())?.call_method1(intern!(value.py(), "fsdecode"), (value,))
}

/// `os.fsencode`, in a short way for what is ASCII, as all names of variables are.
fn encoded<'py>(name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    match name.to_str() {
        Ok(text) if text.is_ascii() => Ok(PyBytes::new(name.py(), text.as_bytes()).into_any()),
        _ => os(name.py())?.call_method1(intern!(name.py(), "fsencode"), (name,)),
    }
}

fn os(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "os"))
}
