//! What the verbs do to which variable: the rules that Rust and Python share.
//!
//! The two faces keep their values in different containers (Rust its own [`SessionState`](crate::SessionState), Python
//! objects in a context variable), so nothing here knows how a value is stored.

use crate::names::{Group, VARIABLES, Variable};
use crate::state::VarState;

/// Variables in order, and the rules of the verbs over them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    variables: &'static [Variable],
}

impl Shape {
    /// The shape of the table in `names.rs`.
    pub(crate) const TABLE: Self = Self { variables: VARIABLES };

    /// The position of the variable with this environment name.
    pub(crate) fn position(self, name: &str) -> Option<usize> {
        self.variables.iter().position(|variable| variable.name == name)
    }

    /// The position of the variable with this keyword of a bind, or with this environment name.
    pub(crate) fn position_of_argument(self, name: &str) -> Option<usize> {
        self.variables.iter().position(|variable| variable.keyword == Some(name)).or_else(|| self.position(name))
    }

    /// The variables that make up a session, by position: those that a bind fills and a clear clears.
    pub(crate) fn session(self) -> impl Iterator<Item = (usize, &'static Variable)> {
        self.variables.iter().enumerate().filter(|(_, variable)| variable.group == Group::Session)
    }

    /// A bind: every session variable gets what was given for it, and is cleared or left unset where nothing was.
    pub(crate) fn bind(
        self,
        mut given: impl FnMut(usize) -> Option<VarState>,
    ) -> impl Iterator<Item = (usize, VarState)> {
        self.session().map(move |(at, variable)| {
            let absent = if variable.optional { VarState::Unset } else { VarState::Cleared };
            (at, given(at).unwrap_or(absent))
        })
    }

    /// A clear: every session variable masks the environment from here on.
    pub(crate) fn clear(self) -> impl Iterator<Item = (usize, VarState)> {
        self.session().map(|(at, _)| (at, VarState::Cleared))
    }

    /// A reset: every variable, those of a scheduled job too, is as if never bound.
    pub(crate) fn reset(self) -> impl Iterator<Item = (usize, VarState)> {
        (0..self.variables.len()).map(|at| (at, VarState::Unset))
    }
}

/// A read: what the task bound, and only if it bound nothing, the environment and the default.
///
/// `fallback` is not run for a bound variable, whatever its value.
pub(crate) fn read<V, E>(bound: Option<V>, fallback: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
    bound.map_or_else(fallback, Ok)
}

/// Whether a completion can be delivered after the turn: never to a board worker, else as the session stated, else yes.
///
/// `stated` is not asked in a board worker.
pub(crate) fn async_delivery<E>(
    board_worker: bool,
    stated: impl FnOnce() -> Result<Option<bool>, E>,
) -> Result<bool, E> {
    Ok(!board_worker && stated()?.unwrap_or(true))
}

/// Whether a turn is delivered over a channel that people chat on: some surface is named, and is not `listed` as
/// another kind. A name that nobody listed counts as such a channel.
pub(crate) fn messaging<S, E>(
    surfaces: impl IntoIterator<Item = Result<S, E>>,
    is_empty: impl Fn(&S) -> Result<bool, E>,
    listed: impl Fn(&S) -> Result<bool, E>,
) -> Result<bool, E> {
    for surface in surfaces {
        let surface = surface?;
        if !is_empty(&surface)? && !listed(&surface)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn a_bind_fills_every_session_variable_and_leaves_only_the_optional_one_unset() {
        for (at, state) in Shape::TABLE.bind(|_| None) {
            let expected =
                if VARIABLES[at].name == "HERMES_CRON_SESSION" { VarState::Unset } else { VarState::Cleared };
            assert_eq!(state, expected, "{}", VARIABLES[at].name);
        }
        assert_eq!(Shape::TABLE.bind(|_| None).count(), 19);
    }

    #[test]
    fn a_clear_leaves_a_scheduled_jobs_delivery_alone_and_a_reset_does_not() {
        assert_eq!(Shape::TABLE.clear().count(), 19);
        assert_eq!(Shape::TABLE.reset().count(), 22);
    }

    #[test]
    fn a_bound_read_never_asks_the_environment() {
        let read = read(Some(""), || -> Result<_, Infallible> { panic!("asked the environment") });
        assert_eq!(read, Ok(""));
    }

    #[test]
    fn a_board_worker_cannot_deliver_later_whatever_the_session_stated() {
        let ask = |worker, stated| async_delivery(worker, || Ok::<_, Infallible>(stated));
        assert_eq!(ask(true, Some(true)), Ok(false));
        assert_eq!(ask(false, None), Ok(true));
        assert_eq!(ask(false, Some(false)), Ok(false));
    }
}
