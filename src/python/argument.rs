//! An argument that a caller may leave out.

use pyo3::prelude::*;

/// An argument that may be absent, which is not the same as `None`.
pub(super) enum Argument<'py> {
    Absent,
    Given(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Argument<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(object.to_owned()))
    }
}
