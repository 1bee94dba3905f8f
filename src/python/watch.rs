//! What the guard is told: reads that lost their context, and binds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use super::latch;
use super::var::SessionVar;

/// Whether there is anybody to tell; all that a read or a bind costs where there is not.
static WATCHED: AtomicBool = AtomicBool::new(false);

static WATCHERS: Mutex<Option<Watchers>> = Mutex::new(None);

struct Watchers {
    lost_read: Py<PyAny>,
    bound: Py<PyAny>,
}

/// Call *lost_read(name)* for each lost read and *bound()* after each bind, in the task that makes it; None stops it.
///
/// A lost read is one of a session variable that falls through to the environment, in a task that never bound one,
/// while the process is engaged. What a watcher raises is reported as unraisable, and the read or bind goes on.
#[pyfunction]
#[pyo3(signature = (lost_read, bound, /))]
pub(super) fn watch(lost_read: Option<Py<PyAny>>, bound: Option<Py<PyAny>>) {
    let watchers = lost_read.zip(bound).map(|(lost_read, bound)| Watchers { lost_read, bound });
    WATCHED.store(watchers.is_some(), Ordering::Relaxed);
    let before = std::mem::replace(&mut *WATCHERS.lock().unwrap_or_else(PoisonError::into_inner), watchers);
    // Its destructor may be Python code, which must not run under the lock.
    drop(before);
}

/// A read of `name` found nothing bound in `variable`, if there is such a variable.
pub(super) fn fell_through(variable: Option<&Bound<'_, PyAny>>, name: &Bound<'_, PyAny>) {
    if !WATCHED.load(Ordering::Relaxed) {
        return;
    }
    let py = name.py();
    let Some(Ok(ours)) = variable.map(Bound::cast_exact::<SessionVar>) else { return };
    if SessionVar::slot(ours).get().is_untouched(py).unwrap_or(false) && latch::engaged(py) {
        tell(py, |watchers, py| watchers.lost_read.clone_ref(py), (name,));
    }
}

/// A session was bound, in the module in use.
pub(super) fn bound(py: Python<'_>) {
    if WATCHED.load(Ordering::Relaxed) && latch::engaged(py) {
        tell(py, |watchers, py| watchers.bound.clone_ref(py), ());
    }
}

fn tell<'py>(
    py: Python<'py>,
    whom: impl FnOnce(&Watchers, Python<'py>) -> Py<PyAny>,
    what: impl pyo3::call::PyCallArgs<'py>,
) {
    let watchers = WATCHERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(watcher) = watchers.as_ref().map(|watchers| whom(watchers, py)) else { return };
    drop(watchers);
    if let Err(error) = watcher.bind(py).call1(what) {
        error.write_unraisable(py, Some(watcher.bind(py)));
    }
}
