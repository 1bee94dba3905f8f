//! Entering a context, for a future and for a closure.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Poller, Poll};

use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;

use crate::context::{CURRENT, Context, ScopeCell};

pin_project! {
    /// A future that runs inside a scope: the context is in place on each poll, and while the future is dropped.
    ///
    /// Made by [`Context::scope`] and [`Session::scope`](crate::Session::scope).
    #[must_use = "futures do nothing unless polled"]
    pub struct Scope<F> {
        #[pin]
        inner: TaskLocalFuture<ScopeCell, Inside<F>>,
    }
}

pin_project! {
    /// The future itself, which tells the scope by which task it is polled and dropped.
    struct Inside<F> {
        #[pin]
        future: F,
    }

    impl<F> PinnedDrop for Inside<F> {
        fn drop(_this: Pin<&mut Self>) {
            enter();
        }
    }
}

impl<F: Future> Future for Inside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<F::Output> {
        enter();
        self.project().future.poll(poller)
    }
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<F::Output> {
        self.project().inner.poll(poller)
    }
}

impl<F> std::fmt::Debug for Scope<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// Both callers run inside the scope, unless the thread's storage is gone: then there is nothing to tell.
fn enter() {
    let _ = CURRENT.try_with(ScopeCell::enter);
}

impl Context {
    /// Wraps `future` so that it runs with this context.
    ///
    /// The scope replaces what the caller has bound, for the future alone. What the future's verbs change is seen
    /// inside the scope and not outside. Tasks that it starts with plain [`tokio::spawn`], or in a
    /// [`LocalSet`](tokio::task::LocalSet), inherit nothing, also where this future's own polling drives them.
    pub fn scope<F: Future>(self, future: F) -> Scope<F> {
        Scope { inner: CURRENT.scope(ScopeCell::new(self), Inside { future }) }
    }

    /// Runs `f` with this context and returns what it returns; the caller's own is back afterwards, also on a panic.
    ///
    /// Tasks that `f` drives with a `block_on` are not inside: only the future that it blocks on is.
    ///
    /// # Panics
    ///
    /// If the thread is so far in its teardown that it has no task-local storage any more.
    pub fn sync_scope<R>(self, f: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(ScopeCell::new(self), f)
    }
}
