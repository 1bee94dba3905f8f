//! Tasks and threads that start with the context of whoever starts them.
//!
//! A child has a scope of its own, so nothing that it does comes back. Where nothing is entered it starts with nothing
//! bound.

use std::future::Future;
use std::thread;

use tokio::task::{self, AbortHandle, JoinHandle, JoinSet};

use crate::context::Context;
use crate::scope::{WithSession, bind};

/// As [`tokio::spawn`], with the current context. Plain `tokio::spawn` inherits nothing.
///
/// # Panics
///
/// As [`tokio::spawn`], outside a runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use hermes_env_bridge::{Session, get_session_env, spawn};
///
/// let chat = Session::new().chat_id("42").scope(async {
///     spawn(async { get_session_env("HERMES_SESSION_CHAT_ID", "none") }).await.unwrap()
/// });
/// assert_eq!(chat.await, "42");
/// # }
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(future.in_current_session())
}

/// As [`tokio::task::spawn_local`], with the current context.
///
/// # Panics
///
/// As [`tokio::task::spawn_local`], outside a [`LocalSet`](task::LocalSet).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use hermes_env_bridge::{Session, get_session_env, spawn_local};
///
/// let local = tokio::task::LocalSet::new();
/// let chat = Session::new().chat_id("42").scope(async {
///     spawn_local(async { get_session_env("HERMES_SESSION_CHAT_ID", "none") }).await.unwrap()
/// });
/// assert_eq!(local.run_until(chat).await, "42");
/// # }
/// ```
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: 'static> + 'static,
{
    task::spawn_local(future.in_current_session())
}

/// As [`tokio::task::spawn_blocking`], with the current context.
///
/// # Panics
///
/// As [`tokio::task::spawn_blocking`], outside a runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use hermes_env_bridge::{Session, get_session_env, spawn_blocking};
///
/// let chat = Session::new().chat_id("42").scope(async {
///     spawn_blocking(|| get_session_env("HERMES_SESSION_CHAT_ID", "none")).await.unwrap()
/// });
/// assert_eq!(chat.await, "42");
/// # }
/// ```
#[track_caller]
pub fn spawn_blocking<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    task::spawn_blocking(bind(f))
}

/// As [`tokio::spawn`], with nothing bound: for a worker that outlives the session in which it happens to start.
///
/// Its jobs carry their own [`Context`] or [`Snapshot`](crate::Snapshot), and enter it.
///
/// # Panics
///
/// As [`tokio::spawn`], outside a runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use hermes_env_bridge::{Context, Session, WithSession, get_session_env, spawn_detached};
/// use tokio::sync::mpsc;
///
/// let (jobs, mut queue) = mpsc::channel(8);
/// let worker = Session::new().chat_id("1").sync_scope(|| {
///     spawn_detached(async move {
///         let job: Context = queue.recv().await.unwrap();
///         job.sync_scope(|| get_session_env("HERMES_SESSION_CHAT_ID", "none"))
///     })
/// });
/// let job = Session::new().chat_id("2").sync_scope(Context::current);
/// jobs.send(job).await.unwrap();
/// assert_eq!(worker.await.unwrap(), "2");
/// # }
/// ```
#[track_caller]
pub fn spawn_detached<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(Context::unbound().scope(future))
}

/// As [`std::thread::spawn`], with the current context.
///
/// For a [`thread::Builder`], a scoped thread and a pool, hand over what [`bind`] returns.
///
/// # Panics
///
/// As [`std::thread::spawn`], if the system makes no thread.
///
/// ```
/// use hermes_env_bridge::{Session, get_session_env, spawn_thread};
///
/// let thread = Session::new().chat_id("42").sync_scope(|| {
///     spawn_thread(|| get_session_env("HERMES_SESSION_CHAT_ID", "none"))
/// });
/// assert_eq!(thread.join().unwrap(), "42");
/// ```
pub fn spawn_thread<F, R>(f: F) -> thread::JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    thread::spawn(bind(f))
}

/// Spawning into a [`JoinSet`] with the current context.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use hermes_env_bridge::{JoinSetExt, Session, get_session_env};
/// use tokio::task::JoinSet;
///
/// let chats = Session::new().chat_id("42").scope(async {
///     let mut set = JoinSet::new();
///     set.spawn_inheriting(async { get_session_env("HERMES_SESSION_CHAT_ID", "none") });
///     set.spawn_blocking_inheriting(|| get_session_env("HERMES_SESSION_CHAT_ID", "none"));
///     set.join_all().await
/// });
/// assert_eq!(chats.await, ["42", "42"]);
/// # }
/// ```
pub trait JoinSetExt<R> {
    /// As [`JoinSet::spawn`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hermes_env_bridge::{JoinSetExt, Session, var};
    /// use tokio::task::JoinSet;
    ///
    /// let chats = Session::new().chat_id("42").scope(async {
    ///     let mut set = JoinSet::new();
    ///     set.spawn_inheriting(async { var::chat_id() });
    ///     set.join_all().await
    /// });
    /// assert_eq!(chats.await, [Some("42".to_owned())]);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// As that, outside a runtime.
    #[track_caller]
    fn spawn_inheriting(&mut self, future: impl Future<Output = R> + Send + 'static) -> AbortHandle
    where
        R: Send;

    /// As [`JoinSet::spawn_local`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hermes_env_bridge::{JoinSetExt, Session, var};
    /// use tokio::task::{JoinSet, LocalSet};
    ///
    /// let chats = Session::new().chat_id("42").scope(async {
    ///     let mut set = JoinSet::new();
    ///     set.spawn_local_inheriting(async { var::chat_id() });
    ///     set.join_all().await
    /// });
    /// assert_eq!(LocalSet::new().run_until(chats).await, [Some("42".to_owned())]);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// As that, outside a [`LocalSet`](task::LocalSet).
    #[track_caller]
    fn spawn_local_inheriting(&mut self, future: impl Future<Output = R> + 'static) -> AbortHandle;

    /// As [`JoinSet::spawn_blocking`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hermes_env_bridge::{JoinSetExt, Session, var};
    /// use tokio::task::JoinSet;
    ///
    /// let chats = Session::new().chat_id("42").scope(async {
    ///     let mut set = JoinSet::new();
    ///     set.spawn_blocking_inheriting(var::chat_id);
    ///     set.join_all().await
    /// });
    /// assert_eq!(chats.await, [Some("42".to_owned())]);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// As that, outside a runtime.
    #[track_caller]
    fn spawn_blocking_inheriting(&mut self, f: impl FnOnce() -> R + Send + 'static) -> AbortHandle
    where
        R: Send;
}

impl<R: 'static> JoinSetExt<R> for JoinSet<R> {
    fn spawn_inheriting(&mut self, future: impl Future<Output = R> + Send + 'static) -> AbortHandle
    where
        R: Send,
    {
        self.spawn(future.in_current_session())
    }

    fn spawn_local_inheriting(&mut self, future: impl Future<Output = R> + 'static) -> AbortHandle {
        self.spawn_local(future.in_current_session())
    }

    fn spawn_blocking_inheriting(&mut self, f: impl FnOnce() -> R + Send + 'static) -> AbortHandle
    where
        R: Send,
    {
        self.spawn_blocking(bind(f))
    }
}
