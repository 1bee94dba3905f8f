//! Entering a run, and asking for the one that is entered.

use std::panic::Location;
use std::sync::Arc;

use super::record::OmniusRunContext;
use super::telegram::TelegramRunContext;
use crate::context::Context;
use crate::error::NoRunContext;
use crate::scope::Scope;

/// Wraps a future, stream or sink so that it works for `run`, and for the session that is entered where it is first
/// polled.
///
/// Everything that holds for a [`Session::scope`](crate::Session::scope) holds here: the run is in place on each poll and
/// while what is inside is dropped; [`spawn`](crate::spawn) and [`bind`](crate::bind) hand it on, plain [`tokio::spawn`]
/// does not; nothing of it is visible outside, also after a panic.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hermes_env_bridge::RunContextError> {
/// use hermes_env_bridge::{OmniusRunContext, Surface, get_omnius_run_context, run_with_omnius_context, spawn};
///
/// let run = OmniusRunContext::builder("run-1", Surface::Api).build()?;
/// let seen = run_with_omnius_context(run, async {
///     spawn(async { get_omnius_run_context().map(|run| run.run_id().to_owned()) }).await.unwrap()
/// });
/// assert_eq!(seen.await.as_deref(), Some("run-1"));
/// assert!(get_omnius_run_context().is_none());
/// # Ok(())
/// # }
/// ```
pub fn run_with_omnius_context<T>(run: impl Into<Arc<OmniusRunContext>>, inner: T) -> Scope<T> {
    Scope::of_run(run.into(), inner)
}

/// Runs `f` for `run`, in the session that is entered, and returns what it returns. The caller's own run is back
/// afterwards, also on a panic.
///
/// ```
/// use hermes_env_bridge::{OmniusRunContext, Surface, require_omnius_run_context, run_with_omnius_context_sync};
///
/// # fn main() -> Result<(), hermes_env_bridge::RunContextError> {
/// let run = OmniusRunContext::builder("run-1", Surface::Tui).build()?;
/// let id = run_with_omnius_context_sync(run, || require_omnius_run_context().unwrap().run_id().to_owned());
/// assert_eq!(id, "run-1");
/// # Ok(())
/// # }
/// ```
pub fn run_with_omnius_context_sync<R>(run: impl Into<Arc<OmniusRunContext>>, f: impl FnOnce() -> R) -> R {
    crate::scope::sync_scope_of_run(run.into(), f)
}

/// The run for which the caller works; `None` outside of one. Never fails, and never asks the environment.
#[must_use]
pub fn get_omnius_run_context() -> Option<Arc<OmniusRunContext>> {
    Context::current().run().cloned()
}

/// The run for which the caller works, for code that cannot do without one.
///
/// # Errors
///
/// [`NoRunContext`] outside of a run. It has the place of the call, and says where the run should have been entered.
#[track_caller]
pub fn require_omnius_run_context() -> Result<Arc<OmniusRunContext>, NoRunContext> {
    let caller = Location::caller();
    get_omnius_run_context().ok_or(NoRunContext { caller })
}

/// The Telegram chat for which the caller works; `None` outside of a run, and in a run that works for none.
#[must_use]
pub fn get_telegram_run_context() -> Option<Arc<TelegramRunContext>> {
    Context::current().run().and_then(|run| run.telegram().cloned())
}
