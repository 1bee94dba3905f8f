//! What a task carries, and where the current one is kept.

use std::cell::RefCell;

use crate::error::NotInScope;
use crate::state::SessionState;

/// The one immutable value that a task carries. Cheap to clone; writing makes a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    session: SessionState,
}

tokio::task_local! {
    /// The innermost scope's value. The cell belongs to that scope alone: a task that is started inside gets a copy.
    pub(crate) static CURRENT: RefCell<Context>;
}

impl Context {
    pub(crate) fn new(session: SessionState) -> Self {
        Self { session }
    }

    /// The context of the innermost scope, or one that has nothing bound where none is entered.
    ///
    /// Never panics, also not while a thread or a future is torn down.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.try_with(|context| context.borrow().clone()).unwrap_or_else(|_| Self::new(SessionState::unbound()))
    }

    /// The session variables of this context.
    #[must_use]
    pub fn session(&self) -> &SessionState {
        &self.session
    }

    /// Puts what `change` makes of the current session in its place, for `verb`.
    pub(crate) fn update(
        verb: &'static str,
        change: impl FnOnce(&SessionState) -> SessionState,
    ) -> Result<(), NotInScope> {
        let replaced = CURRENT.try_with(|context| {
            // Two steps, so that the old value is dropped when the cell is no longer borrowed.
            let session = change(&context.borrow().session);
            context.replace(Self::new(session))
        });
        replaced.map(drop).map_err(|_| NotInScope { verb })
    }
}
