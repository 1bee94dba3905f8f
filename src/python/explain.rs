//! The rule of an explanation, for the facts that Python finds.

use pyo3::prelude::*;

use crate::explain::Facts;
use crate::state::VarState;

/// Return (layer, why, child, child_why) for a name: *state* is None for unset, False for cleared, True for set.
#[pyfunction]
#[pyo3(signature = (is_session_variable, state, in_environment, engaged, /))]
pub(super) fn explain(
    is_session_variable: bool,
    state: Option<bool>,
    in_environment: bool,
    engaged: bool,
) -> (&'static str, &'static str, &'static str, &'static str) {
    let state = match state {
        None => VarState::Unset,
        Some(false) => VarState::Cleared,
        Some(true) => VarState::Set(()),
    };
    let facts = Facts { is_session_variable, state, in_environment, engaged };
    let ((layer, why), (child, child_why)) = (facts.layer(), facts.child());
    (layer.as_str(), why, child.as_str(), child_why)
}
