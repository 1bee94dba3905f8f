//! `os.environ`, as Python holds it at the moment of the call.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString};

/// What `os.getenv(name, default)` returns and raises.
///
/// Takes a shorter way to the same answer where `os.getenv` and `os.environ` are Python's own.
pub(super) fn getenv<'py>(
    os: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
    default: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let getenv = os.getattr(intern!(os.py(), "getenv"))?;
    if let (Some(genuine), Ok(name)) = (Genuine::get(os.py())?, name.cast_exact::<PyString>()) {
        if getenv.is(&genuine.getenv) {
            match genuine.look_up(name)? {
                Lookup::Found(value) => return Ok(value),
                Lookup::Absent => return Ok(default.clone()),
                Lookup::Unknown => {}
            }
        }
    }
    getenv.call1((name, default))
}

/// Return a copy of ``os.environ`` at one moment, whatever other threads write to it; None if only Python can make one.
#[pyfunction]
#[pyo3(signature = ())]
pub(super) fn environ(py: Python<'_>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let Some(data) = Genuine::get(py)?.map(|genuine| genuine.data(py)).transpose()?.flatten() else { return Ok(None) };
    let environ = PyDict::new(py);
    // The copy is one step, and nobody else has it.
    for (name, value) in data.copy()? {
        let (Ok(name), Ok(value)) = (name.cast_exact::<PyBytes>(), value.cast_exact::<PyBytes>()) else {
            return Ok(None);
        };
        environ.set_item(decoded(name)?, decoded(value)?)?;
    }
    Ok(Some(environ))
}

/// Whether names and values are kept as UTF-8 bytes.
pub(super) fn is_utf8(py: Python<'_>) -> PyResult<bool> {
    Ok(Genuine::get(py)?.is_some())
}

/// As `os.fsdecode`, where that decodes UTF-8.
fn decoded<'py>(bytes: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyString>> {
    let py = bytes.py();
    if let Ok(text) = std::str::from_utf8(bytes.as_bytes()) {
        return Ok(PyString::new(py, text));
    }
    let arguments = (intern!(py, "utf-8"), intern!(py, "surrogateescape"));
    Ok(bytes.call_method1(intern!(py, "decode"), arguments)?.cast_into()?)
}

/// What Python's own `os.environ` consists of.
struct Genuine {
    getenv: Py<PyAny>,
    /// The namespace of `os`, in which `os.getenv` finds `environ`.
    os: Py<PyDict>,
    class: Py<PyAny>,
    get: Py<PyAny>,
    get_item: Py<PyAny>,
}

enum Lookup<'py> {
    Found(Bound<'py, PyAny>),
    Absent,
    /// Only Python can tell.
    Unknown,
}

impl Genuine {
    /// `None` where names and values are not kept as UTF-8 bytes: on Windows, and in other locales' encodings.
    fn get(py: Python<'_>) -> PyResult<Option<&Self>> {
        static GENUINE: PyOnceLock<Option<Genuine>> = PyOnceLock::new();
        GENUINE.get_or_try_init(py, || Self::new(py)).map(Option::as_ref)
    }

    fn new(py: Python<'_>) -> PyResult<Option<Self>> {
        let encoding: String = py.import("sys")?.getattr("getfilesystemencoding")?.call0()?.extract()?;
        if !cfg!(unix) || encoding != "utf-8" {
            return Ok(None);
        }
        let os = py.import("os")?;
        let class = os.getattr("_Environ")?;
        let getenv = os.getattr("getenv")?;
        // A test may have replaced it before the first read.
        if getenv.getattr_opt("__globals__")?.is_none_or(|globals| !globals.is(os.dict())) {
            return Ok(None);
        }
        Ok(Some(Self {
            getenv: getenv.unbind(),
            os: os.dict().unbind(),
            get: class.getattr("get")?.unbind(),
            get_item: class.getattr("__getitem__")?.unbind(),
            class: class.unbind(),
        }))
    }

    /// The table of bytes in which `os.environ` keeps what it has; `None` if that is not Python's own any more.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(environ) = self.os.bind(py).get_item(intern!(py, "environ"))? else { return Ok(None) };
        let class = self.class.bind(py);
        if !environ.get_type().is(class)
            || !class.getattr(intern!(py, "get"))?.is(&self.get)
            || !class.getattr(intern!(py, "__getitem__"))?.is(&self.get_item)
        {
            return Ok(None);
        }
        Ok(environ.getattr(intern!(py, "_data"))?.cast_into_exact::<PyDict>().ok())
    }

    fn look_up<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Lookup<'py>> {
        let py = name.py();
        let Some(data) = self.data(py)? else { return Ok(Lookup::Unknown) };
        // A lone surrogate stands for a byte that is not UTF-8; Python encodes and decodes it.
        let Ok(text) = name.to_str() else { return Ok(Lookup::Unknown) };
        let Some(value) = data.get_item(PyBytes::new(py, text.as_bytes()))? else { return Ok(Lookup::Absent) };
        let value = value.cast_exact::<PyBytes>().ok().and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        Ok(value.map_or(Lookup::Unknown, |value| Lookup::Found(PyString::new(py, value).into_any())))
    }
}
