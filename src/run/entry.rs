//! Where runs start: an adapter for each surface.
//!
//! An adapter resets whatever identity it is called with, both session and run, enters the run, and says so: one event
//! when the run starts and one when it ends, both with its id and surface (feature `tracing`, level INFO, target
//! `hermes_env_bridge::run`). The last one has the `outcome` and the `duration` in seconds. A run ends once, however it
//! ends: `completed`, `failed`, `panicked`, or `cancelled` if it was dropped before.
//!
//! ```
//! use hermes_env_bridge::{entry, get_omnius_run_context};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), hermes_env_bridge::RunContextError> {
//! let job = entry::scheduler().owner("job", "nightly").project_root("/srv/project").run(async {
//!     get_omnius_run_context().unwrap().owner_id().unwrap().to_owned()
//! })?;
//! assert_eq!(job.await, "nightly");
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, ready};

use pin_project_lite::pin_project;

use super::record::{OmniusRunContext, RunContextBuilder, Surface};
use super::telegram::TelegramRunContext;
use super::watch::{Outcome, Watch};
use crate::context::{Context, Ending};
use crate::error::RunContextError;
use crate::scope::Scope;

/// The adapter for a message on Telegram.
///
/// ```
/// use hermes_env_bridge::{ChatType, TelegramRunContext, entry, get_session_env, get_telegram_run_context};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hermes_env_bridge::RunContextError> {
/// let chat = TelegramRunContext::builder(42, ChatType::Private, "telegram:42", "private").build()?;
/// let handled = entry::telegram(chat).bind_hermes().run(async {
///     (get_telegram_run_context().unwrap().chat_id().to_string(), get_session_env("HERMES_SESSION_CHAT_ID", "none"))
/// })?;
/// assert_eq!(handled.await, ("42".to_owned(), "42".to_owned()));
/// # Ok(())
/// # }
/// ```
pub fn telegram(chat: impl Into<Arc<TelegramRunContext>>) -> Entry {
    Entry::on(Surface::Telegram).telegram(chat)
}

/// The adapter for a request to the API. For an HTTP server there is a layer, with the feature `tower`.
pub fn api() -> Entry {
    Entry::on(Surface::Api)
}

/// The adapter for a turn at the terminal.
pub fn tui() -> Entry {
    Entry::on(Surface::Tui)
}

/// The adapter for a job of the scheduler.
pub fn scheduler() -> Entry {
    Entry::on(Surface::Scheduler)
}

/// The adapter for work that goes on behind another run.
pub fn background() -> Entry {
    Entry::on(Surface::Background)
}

/// The start of one run.
#[derive(Debug, Clone)]
#[must_use = "a run does nothing until its work is given"]
pub struct Entry {
    run: RunContextBuilder,
    bind_hermes: bool,
}

/// A record that is complete, such as one from a queue.
impl From<&OmniusRunContext> for Entry {
    fn from(run: &OmniusRunContext) -> Self {
        Self { run: run.to_builder(), bind_hermes: false }
    }
}

impl Entry {
    fn on(surface: Surface) -> Self {
        let id = uuid::Uuid::new_v4().to_string();
        Self { run: OmniusRunContext::builder(id, surface), bind_hermes: false }
    }

    /// States the id of the run; a random one otherwise.
    pub fn run_id(self, id: impl Into<String>) -> Self {
        Self { run: self.run.run_id(id), ..self }
    }

    /// States the directory of the project for which the run works.
    pub fn project_root(self, path: impl Into<String>) -> Self {
        Self { run: self.run.project_root(path), ..self }
    }

    /// States the owner of the run.
    pub fn owner(self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { run: self.run.owner(kind, id), ..self }
    }

    /// States the chat for which the run works, on whatever surface it was started.
    pub fn telegram(self, chat: impl Into<Arc<TelegramRunContext>>) -> Self {
        Self { run: self.run.telegram(chat), ..self }
    }

    /// Enters the corresponding session of Hermes as well; see [`OmniusRunContext::to_session`].
    pub fn bind_hermes(self) -> Self {
        Self { bind_hermes: true, ..self }
    }

    /// The record of the run, without entering it.
    ///
    /// # Errors
    ///
    /// [`RunContextError`] if the description of the run cannot be.
    pub fn record(self) -> Result<OmniusRunContext, RunContextError> {
        self.run.build()
    }

    /// Wraps the work of the run, which starts when it is first polled.
    ///
    /// # Errors
    ///
    /// [`RunContextError`] if the description of the run cannot be.
    pub fn run<F: Future>(self, work: F) -> Result<impl Future<Output = F::Output> + use<F>, RunContextError> {
        let (context, ending, watch) = ingress(self.run.build()?, self.bind_hermes);
        Ok(Scope::of_context(context, ending, Watched { inner: work, watch }))
    }

    /// Does the work of the run, and returns what `work` returns.
    ///
    /// # Errors
    ///
    /// [`RunContextError`] if the description of the run cannot be; `work` is not called.
    pub fn run_sync<R>(self, work: impl FnOnce() -> R) -> Result<R, RunContextError> {
        let (context, _ending, mut watch) = ingress(self.run.build()?, self.bind_hermes);
        Ok(context.sync_scope(|| {
            let result = watch.over(work);
            watch.end(Outcome::Completed);
            result
        }))
    }
}

/// The context of a run that starts here, without whatever is entered here; what ends it; and who says that it runs.
pub(super) fn ingress(run: OmniusRunContext, bind_hermes: bool) -> (Context, Ending, Watch) {
    let ending = Ending::new();
    let run = Arc::new(run);
    let mut context = Context::unbound().with_run(run.clone(), &ending);
    if bind_hermes {
        context = context.with_session(run.to_session().enter(), &ending);
    }
    (context, ending, Watch::new(run))
}

pin_project! {
    /// The work of a run that is watched.
    struct Watched<F> {
        // Before the watch, so that what the work does when it is dropped comes before the run's end.
        #[pin]
        inner: F,
        watch: Watch,
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<F::Output> {
        let this = self.project();
        let output = ready!(this.watch.over(|| this.inner.poll(poller)));
        this.watch.end(Outcome::Completed);
        Poll::Ready(output)
    }
}
