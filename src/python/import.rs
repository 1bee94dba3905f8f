//! `from module import name`, where the import has mostly happened before.

use std::ffi::CString;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Return what ``from module import name`` binds; raises what the statement raises.
///
/// A replaced ``builtins.__import__`` is honoured.
#[pyfunction]
#[pyo3(signature = (module, name, /))]
pub(super) fn import_from<'py>(
    module: &Bound<'py, PyString>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = module.py();
    if is_genuine(py)? {
        if let Some(imported) = statics::modules(py)?.get_item(module)? {
            // An attribute that is not in the namespace may still be found, by a module's __getattr__ for instance.
            if let Some(attribute) =
                imported.cast_exact::<PyModule>().ok().and_then(|module| module.dict().get_item(name).ok()?)
            {
                return Ok(attribute);
            }
        }
    }
    // Not imported yet, or replaced by something odd: the statement itself, for its effects and its exceptions.
    let scope = PyDict::new(py);
    py.run(&CString::new(format!("from {module} import {name}"))?, Some(&scope), None)?;
    Ok(scope.get_item(name)?.unwrap_or_else(|| py.None().into_bound(py)))
}

/// What `import os` binds. A replaced `builtins.__import__` is honoured.
pub(super) fn os(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let os = intern!(py, "os");
    match statics::modules(py)?.get_item(os)?.filter(|os| !os.is_none()) {
        Some(os) if is_genuine(py)? => Ok(os),
        _ => {
            let scope = PyDict::new(py);
            py.run(c"import os", Some(&scope), None)?;
            Ok(scope.get_item(os)?.unwrap_or_else(|| py.None().into_bound(py)))
        }
    }
}

/// What has been imported as `name`, and what the import statement makes of it if nothing has.
pub(super) fn module<'py>(name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let py = name.py();
    match statics::modules(py)?.get_item(name)? {
        Some(module) => Ok(module),
        None => Ok(py.import(name)?.into_any()),
    }
}

/// True if the import statement does what it did when it was first asked for.
fn is_genuine(py: Python<'_>) -> PyResult<bool> {
    let import = statics::builtins(py)?.get_item(intern!(py, "__import__"))?;
    let genuine = statics::import(py)?;
    Ok(import.is_some_and(|import| import.is(genuine)))
}

/// What the import system keeps for the life of the interpreter.
mod statics {
    use pyo3::prelude::*;
    use pyo3::sync::PyOnceLock;
    use pyo3::types::PyDict;

    /// The namespace in which the import statement finds `__import__`.
    pub(super) fn builtins(py: Python<'_>) -> PyResult<&Bound<'_, PyDict>> {
        static BUILTINS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
        BUILTINS.import(py, "builtins", "__dict__")
    }

    /// The import function as it was when first asked for.
    pub(super) fn import(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
        static IMPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        IMPORT.import(py, "builtins", "__import__")
    }

    /// The dict of imported modules, which the import statement uses even if `sys.modules` is assigned to.
    pub(super) fn modules(py: Python<'_>) -> PyResult<&Bound<'_, PyDict>> {
        static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
        MODULES.import(py, "sys", "modules")
    }
}
