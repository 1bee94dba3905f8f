//! A snapshot that leaves the process: what Python holds, in the core's forms.
//!
//! Python keeps a session as a dict of whatever its variables hold, and what the core does not know of a JSON text as
//! such a text. Only text can leave, so what is no text is a TypeError, and what UTF-8 cannot carry a ValueError.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple};

use crate::carrier::{self, SESSION_HEADER};
use crate::error::{CarrierError, SnapshotError};
use crate::names::ASYNC_DELIVERY;
use crate::snapshot::{Limits, Snapshot, Unknown, flag};

/// Return *values* as a dict of text.
#[pyfunction]
#[pyo3(signature = (values, /))]
pub(super) fn snapshot_to_mapping<'py>(values: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let mapping = PyDict::new(values.py());
    for (name, text) in snapshot_of(values)?.to_mapping() {
        mapping.set_item(name, text)?;
    }
    Ok(mapping)
}

/// Return the values of a mapping of text.
#[pyfunction]
#[pyo3(signature = (mapping, /))]
pub(super) fn snapshot_from_mapping<'py>(mapping: &Bound<'py, PyMapping>) -> PyResult<Bound<'py, PyDict>> {
    let items = mapping.items()?;
    let entries = items.iter().map(|item| {
        let (name, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let name = name_of(&name)?;
        let text = text_of(&name, &value)?;
        Ok((name, text))
    });
    let snapshot = from_entries(entries)?;
    values_of(mapping.py(), &snapshot)
}

/// Return *values* as JSON, with the unknown *fields*.
#[pyfunction]
#[pyo3(signature = (values, fields, /))]
pub(super) fn snapshot_to_json(values: &Bound<'_, PyDict>, fields: &str) -> PyResult<String> {
    let snapshot = snapshot_of(values)?.with_unknown_fields(fields).map_err(|error| refused(&error))?;
    Ok(snapshot.to_json())
}

/// Return the values of a JSON text, and its unknown fields; *bytes* and *depth* limit it, by default as in the core.
#[pyfunction]
#[pyo3(signature = (json, bytes, depth, /))]
pub(super) fn snapshot_from_json<'py>(
    json: &Bound<'py, PyString>,
    bytes: Option<usize>,
    depth: Option<usize>,
) -> PyResult<(Bound<'py, PyDict>, String)> {
    let usual = Limits::default();
    let limits =
        Limits { bytes: bytes.unwrap_or(usual.bytes), depth: depth.unwrap_or(usual.depth), unknown: Unknown::Keep };
    let snapshot = Snapshot::from_json(utf8("the JSON", json)?, limits).map_err(|error| refused(&error))?;
    Ok((values_of(json.py(), &snapshot)?, snapshot.unknown_fields()))
}

/// Return *values* as the value of a header.
#[pyfunction]
#[pyo3(signature = (values, /))]
pub(super) fn snapshot_to_header(values: &Bound<'_, PyDict>) -> PyResult<String> {
    snapshot_of(values)?.to_header().map_err(|error| not_carried(&error))
}

/// Return the values of a header.
#[pyfunction]
#[pyo3(signature = (header, /))]
pub(super) fn snapshot_from_header<'py>(header: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyDict>> {
    let snapshot = Snapshot::from_header(utf8(SESSION_HEADER, header)?).map_err(|error| not_carried(&error))?;
    values_of(header.py(), &snapshot)
}

/// Put *values* into *carrier*, a mutable mapping, as one header, in the place of another in whatever spelling.
#[pyfunction]
#[pyo3(signature = (values, carrier, /))]
pub(super) fn snapshot_inject(values: &Bound<'_, PyDict>, carrier: &Bound<'_, PyAny>) -> PyResult<()> {
    let header = snapshot_to_header(values)?;
    for key in headers_in(carrier)? {
        carrier.del_item(key)?;
    }
    carrier.set_item(SESSION_HEADER, header)
}

/// Return the values of the header in *carrier*, a mapping; None if there is none.
#[pyfunction]
#[pyo3(signature = (carrier, /))]
pub(super) fn snapshot_extract<'py>(carrier: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let headers = headers_in(carrier)?.into_iter().map(|key| {
        let header = text_of(SESSION_HEADER, &carrier.get_item(key)?)?;
        Ok((SESSION_HEADER.to_owned(), header))
    });
    let headers: Vec<_> = headers.collect::<PyResult<_>>()?;
    let snapshot = carrier::extract(&headers).map_err(|error| not_carried(&error))?;
    snapshot.map(|snapshot| values_of(carrier.py(), &snapshot)).transpose()
}

/// The keys of `carrier` that are the header's name, in any spelling. What would hide one is a TypeError.
fn headers_in<'py>(carrier: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let is_header = |key: &Bound<'py, PyAny>| {
        if let Ok(key) = key.cast::<PyBytes>() {
            if key.as_bytes().eq_ignore_ascii_case(SESSION_HEADER.as_bytes()) {
                return Err(PyTypeError::new_err("the names of headers are bytes here; decode them as latin-1"));
            }
        }
        if key.is_instance_of::<PyTuple>() || key.is_instance_of::<PyList>() {
            return Err(PyTypeError::new_err("headers are a mapping of names to values, and these are pairs"));
        }
        let key = key.cast::<PyString>().ok().and_then(|key| key.to_str().ok());
        Ok(key.is_some_and(|key| key.eq_ignore_ascii_case(SESSION_HEADER)))
    };
    let mut headers = Vec::new();
    for key in carrier.try_iter()? {
        let key = key?;
        if is_header(&key)? {
            headers.push(key);
        }
    }
    Ok(headers)
}

/// The core's snapshot of what Python holds: text, and a bool where it is stated whether a completion can be delivered.
fn snapshot_of(values: &Bound<'_, PyDict>) -> PyResult<Snapshot> {
    let entries = values.iter().map(|(name, value)| {
        let name = name_of(&name)?;
        let text = match value.cast::<PyBool>() {
            Ok(supported) if name == ASYNC_DELIVERY => flag(supported.is_true()).to_owned(),
            _ if name == ASYNC_DELIVERY => return Err(no_text(&name, "True or False", &value)),
            _ => text_of(&name, &value)?,
        };
        Ok((name, text))
    });
    from_entries(entries)
}

fn from_entries(entries: impl Iterator<Item = PyResult<(String, String)>>) -> PyResult<Snapshot> {
    let entries = entries.collect::<PyResult<Vec<_>>>()?;
    let pairs = entries.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    Snapshot::from_mapping(pairs).map_err(|error| refused(&error))
}

/// What Python holds for a snapshot of the core's.
fn values_of<'py>(py: Python<'py>, snapshot: &Snapshot) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    for (name, text) in snapshot.to_mapping() {
        if name == ASYNC_DELIVERY {
            values.set_item(name, text == flag(true))?;
        } else {
            values.set_item(name, text)?;
        }
    }
    Ok(values)
}

fn name_of(name: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(name) = name.cast::<PyString>() else {
        return Err(PyTypeError::new_err(format!("a variable's name is a str, not {}", name.get_type().name()?)));
    };
    utf8("the name of a variable", name).map(str::to_owned)
}

fn text_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| no_text(name, "a str", value))?;
    utf8(name, text).map(str::to_owned)
}

fn no_text(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let held = value.get_type().name().map_or_else(|_| "another object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{name} holds {held}, which cannot leave the process as text; give it {wanted}"))
}

/// The text of what is called `name`.
fn utf8<'a>(name: &str, text: &'a Bound<'_, PyString>) -> PyResult<&'a str> {
    let surrogate = |_| format!("{name} has a lone surrogate, which UTF-8 cannot carry; pickle the snapshot instead");
    text.to_str().map_err(|error| PyValueError::new_err(surrogate(error)))
}

fn refused(error: &SnapshotError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn not_carried(error: &CarrierError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
