//! The verbs of a session module, over whatever variables that module has.
//!
//! Each takes from its caller what the caller's own code looks up by name (the variables, the sentinel, `os`), so that
//! a name that is patched there is honoured here. A variable that is not ours is used through its own methods, at its
//! turn.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyDictValues, PyList, PyString, PyTuple};

use super::argument::Argument;
use super::slot::{Draft, Slot, Undo};
use super::token::SessionToken;
use super::var::SessionVar;
use super::{environ, import, latch, watch};
use crate::names::BOARD_TASK;
use crate::shape;

/// Set each of *variables* to the value at its place in *values*, then *capability*, if there is one, to the truth of
/// *supported*.
///
/// Returns the tokens, in order. Variables of one module change together; if one that is not ours, or the truth of
/// *supported*, raises, those before it are set, as in a loop over them.
#[pyfunction]
#[pyo3(signature = (variables, values, capability = Argument::Absent, supported = Argument::Absent, /))]
pub(super) fn bind<'py>(
    variables: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    capability: Argument<'py>,
    supported: Argument<'py>,
) -> PyResult<Bound<'py, PyList>> {
    let py = variables.py();
    latch::bound(py);
    let mut writes = Writes::new(true);
    // Fewer values than variables end the pairing, as with zip.
    if let Ok(values) = values.cast_exact::<PyTuple>() {
        let mut values = values.iter_borrowed();
        writes.set_each(variables, true, || values.next().map(|value| Ok(value.to_owned())))?;
    } else {
        let values_are_quiet = values.is_exact_instance_of::<PyList>();
        let mut values = values.try_iter()?;
        writes.set_each(variables, values_are_quiet, || values.next())?;
    }
    if let (Argument::Given(capability), Argument::Given(supported)) = (capability, supported) {
        writes.set_to_truth(&capability, &supported)?;
    }
    let tokens = writes.finish(py)?;
    watch::bound(py);
    Ok(tokens)
}

/// Set each of *variables* to *value*, then *capability*, if there is one, to *stated*, without tokens: a clear, and a
/// reset.
#[pyfunction]
#[pyo3(signature = (variables, value, capability = Argument::Absent, stated = Argument::Absent, /))]
pub(super) fn fill<'py>(
    variables: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    capability: Argument<'py>,
    stated: Argument<'py>,
) -> PyResult<()> {
    let mut writes = Writes::new(false);
    writes.set_each(variables, true, || Some(Ok(value.clone())))?;
    if let (Argument::Given(capability), Argument::Given(stated)) = (capability, stated) {
        writes.set(&capability, stated)?;
    }
    writes.flush()
}

/// Set each of *variables* to the value at its place in *values*, without tokens and without a word to the latch: a
/// session that is put back. The guard hears of it if that *is_bind*.
#[pyfunction]
#[pyo3(signature = (variables, values, is_bind, /))]
pub(super) fn assign(variables: &Bound<'_, PyTuple>, values: &Bound<'_, PyTuple>, is_bind: bool) -> PyResult<()> {
    let mut values = values.iter();
    let mut writes = Writes::new(false);
    writes.set_each(variables, true, || values.next().map(Ok))?;
    writes.flush()?;
    if is_bind {
        watch::bound(variables.py());
    }
    Ok(())
}

/// Read *name*: its variable in *variables* if that holds anything but *unset*, else ``os.getenv(name, default)``.
///
/// Without *os*, it is what ``import os`` binds.
#[pyfunction]
#[pyo3(signature = (variables, name, unset, default, os = Argument::Absent, /))]
pub(super) fn read<'py>(
    variables: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
    unset: &Bound<'py, PyAny>,
    default: &Bound<'py, PyAny>,
    os: Argument<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let variable = match variables.cast_exact::<PyDict>() {
        Ok(variables) => variables.get_item(name)?,
        Err(_) => Some(variables.call_method1(intern!(name.py(), "get"), (name,))?),
    };
    let variable = variable.filter(|variable| !variable.is_none());
    let bound = match &variable {
        Some(variable) => Some(value_of(variable)?).filter(|value| !value.is(unset)),
        None => None,
    };
    shape::read(bound, || {
        watch::fell_through(variable.as_ref(), name);
        match os {
            Argument::Given(os) => environ::getenv(&os, name, default),
            Argument::Absent => environ::getenv(&import::os(name.py())?, name, default),
        }
    })
}

/// Whether a completion can be delivered later, by the environment's word and by what *capability* holds.
#[pyfunction]
#[pyo3(signature = (os, capability, unset, /))]
pub(super) fn async_delivery(
    os: &Bound<'_, PyAny>,
    capability: &Bound<'_, PyAny>,
    unset: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let py = os.py();
    let environ = os.getattr(intern!(py, "environ"))?;
    let board_worker = environ.call_method1(intern!(py, "get"), (intern!(py, BOARD_TASK),))?.is_truthy()?;
    shape::async_delivery(board_worker, || {
        let stated = value_of(capability)?;
        if stated.is(unset) { Ok(None) } else { stated.is_truthy().map(Some) }
    })
}

/// Whether any of *surfaces* is a channel on which people chat: is named, and *listed* does not say that it is not.
#[pyfunction]
#[pyo3(signature = (surfaces, listed, /))]
pub(super) fn is_messaging(surfaces: &Bound<'_, PyTuple>, listed: &Bound<'_, PyAny>) -> PyResult<bool> {
    shape::messaging(surfaces.iter_borrowed().map(|surface| folded(&surface)), PyAnyMethods::is_empty, |surface| {
        listed.call1((surface,))?.is_truthy()
    })
}

/// Text without white space around it and in lower case, as Python has them; the empty text for what is false.
fn folded<'py>(surface: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = surface.py();
    let text = if surface.is_truthy()? { surface.str()? } else { PyString::new(py, "") };
    text.call_method0(intern!(py, "strip"))?.call_method0(intern!(py, "lower"))
}

/// What a variable of any kind holds.
fn value_of<'py>(variable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match variable.cast_exact::<SessionVar>() {
        Ok(ours) => SessionVar::value(ours),
        Err(_) => variable.call_method0(intern!(variable.py(), "get")),
    }
}

/// Writes to variables in order, gathered as long as they are one module's.
struct Writes<'py> {
    draft: Option<Draft<'py>>,
    /// The tokens so far, where they are asked for, and what undoes the draft.
    tokens: Option<Vec<Bound<'py, PyAny>>>,
    undo: Option<Bound<'py, Undo>>,
}

impl<'py> Writes<'py> {
    fn new(with_tokens: bool) -> Self {
        Self { draft: None, tokens: with_tokens.then(|| Vec::with_capacity(24)), undo: None }
    }

    /// Sets each of `variables` to the next value, until there is none. What was set before an error stays set.
    ///
    /// `quiet` says that `next` runs no code of anybody's. Code that runs between two variables must find the first set.
    fn set_each(
        &mut self,
        variables: &Bound<'py, PyAny>,
        quiet: bool,
        mut next: impl FnMut() -> Option<PyResult<Bound<'py, PyAny>>>,
    ) -> PyResult<()> {
        if let Ok(variables) = variables.cast_exact::<PyTuple>() {
            for variable in variables.iter_borrowed() {
                if !self.set_next(&variable, next(), quiet)? {
                    break;
                }
            }
            return Ok(());
        }
        let known = variables.is_exact_instance_of::<PyList>() || variables.cast_exact::<PyDictValues>().is_ok();
        for variable in variables.try_iter()? {
            let variable = variable.or_else(|error| self.flush().and(Err(error)))?;
            if !self.set_next(&variable, next(), quiet && known)? {
                break;
            }
        }
        Ok(())
    }

    /// Sets `variable` to `value` and returns true, or false if there is no value.
    fn set_next(
        &mut self,
        variable: &Bound<'py, PyAny>,
        value: Option<PyResult<Bound<'py, PyAny>>>,
        quiet: bool,
    ) -> PyResult<bool> {
        let Some(value) = value else { return Ok(false) };
        let value = value.or_else(|error| self.flush().and(Err(error)))?;
        self.set(variable, value)?;
        if !quiet {
            self.flush()?;
        }
        Ok(true)
    }

    fn set(&mut self, variable: &Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> PyResult<()> {
        let Ok(ours) = variable.cast_exact::<SessionVar>() else {
            return self.set_foreign(variable, || Ok(value));
        };
        let (slot, at) = (SessionVar::slot(ours), ours.get().at());
        // A variable that is set twice has another value before the second time.
        if self.draft.as_ref().is_some_and(|draft| !draft.is_of(slot) || draft.has_changed(at)) {
            self.flush()?;
        }
        let draft = match &mut self.draft {
            Some(draft) => draft,
            none => none.insert(Slot::draft(slot)?),
        };
        draft.put(at, Some(value));
        if let Some(tokens) = &mut self.tokens {
            let undo = match &mut self.undo {
                Some(undo) => undo,
                none => none.insert(draft.undo()?),
            };
            tokens.push(SessionToken::make(ours, undo)?.into_any());
        }
        Ok(())
    }

    /// Sets `variable` to the truth of `value`, which may be the caller's code.
    fn set_to_truth(&mut self, variable: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<()> {
        let truth = || Ok(PyBool::new(value.py(), value.is_truthy()?).to_owned().into_any());
        if variable.cast_exact::<SessionVar>().is_err() {
            return self.set_foreign(variable, truth);
        }
        if !value.is_exact_instance_of::<PyBool>() {
            // That code must find what was set before.
            self.flush()?;
        }
        self.set(variable, truth()?)
    }

    /// Sets a variable that is not ours through its own method, which is looked up before the value is asked for.
    fn set_foreign(
        &mut self,
        variable: &Bound<'py, PyAny>,
        value: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        self.flush()?;
        let set = variable.getattr(intern!(variable.py(), "set"))?;
        let token = set.call1((value()?,))?;
        self.tokens.iter_mut().for_each(|tokens| tokens.push(token.clone()));
        Ok(())
    }

    /// Makes what was gathered take effect.
    fn flush(&mut self) -> PyResult<()> {
        self.undo = None;
        self.draft.take().map_or(Ok(()), Draft::commit)
    }

    fn finish(mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.flush()?;
        PyList::new(py, self.tokens.unwrap_or_default())
    }
}
