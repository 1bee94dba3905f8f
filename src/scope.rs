//! Entering a context, for a future and for a closure.

use std::cell::RefCell;
use std::future::Future;

use tokio::task::futures::TaskLocalFuture;

use crate::context::{CURRENT, Context};

/// A future that runs inside a scope: the context is in place on each poll, and while the future is dropped.
pub type Scope<F> = TaskLocalFuture<RefCell<Context>, F>;

impl Context {
    /// Wraps `future` so that it runs with this context.
    ///
    /// The scope replaces what the caller has bound, for the future alone. What the future's verbs change is seen
    /// inside the scope and not outside. Tasks that it starts with plain [`tokio::spawn`] inherit nothing.
    pub fn scope<F: Future>(self, future: F) -> Scope<F> {
        CURRENT.scope(RefCell::new(self), future)
    }

    /// Runs `f` with this context and returns what it returns; the caller's own is back afterwards, also on a panic.
    ///
    /// # Panics
    ///
    /// If the thread is so far in its teardown that it has no task-local storage any more.
    pub fn sync_scope<R>(self, f: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(RefCell::new(self), f)
    }
}
