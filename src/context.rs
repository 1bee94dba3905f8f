//! What a task carries, and where the current one is kept.

use std::cell::{Cell, RefCell};

use tokio::task::{self, Id};

use crate::error::NotInScope;
use crate::state::SessionState;

/// The one immutable value that a task carries. Cheap to clone; writing makes a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    session: SessionState,
}

/// A scope's value, and the task that is inside.
///
/// While a scope is entered its cell is reachable from everything that the thread runs. Where that is another task (one
/// that a `block_on` or a `LocalSet` inside the scope drives), the scope is not its own, and it finds none.
#[derive(Debug)]
pub(crate) struct ScopeCell {
    context: RefCell<Context>,
    /// The task that entered, `None` outside of tasks.
    task: Cell<Option<Id>>,
}

tokio::task_local! {
    /// The innermost scope.
    pub(crate) static CURRENT: ScopeCell;
}

impl ScopeCell {
    pub(crate) fn new(context: Context) -> Self {
        Self { context: RefCell::new(context), task: Cell::new(task::try_id()) }
    }

    /// The running task is inside the scope from here on. A scoped future may be polled by one task and then another.
    pub(crate) fn enter(&self) {
        self.task.set(task::try_id());
    }

    fn is_own(&self) -> bool {
        self.task.get() == task::try_id()
    }
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
        CURRENT
            .try_with(|scope| scope.is_own().then(|| scope.context.borrow().clone()))
            .ok()
            .flatten()
            .unwrap_or_else(|| Self::new(SessionState::unbound()))
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
        let replaced = CURRENT.try_with(|scope| {
            scope.is_own().then(|| {
                // Two steps, so that the old value is dropped when the cell is no longer borrowed.
                let session = change(&scope.context.borrow().session);
                scope.context.replace(Self::new(session))
            })
        });
        replaced.ok().flatten().map(drop).ok_or(NotInScope { verb })
    }
}
