//! Entering a context: for a future, a stream, a sink and a closure.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll, ready};

use futures_core::Stream;
use futures_sink::Sink;
use pin_project_lite::pin_project;

use crate::context::{Context, Entered, enter};
use crate::run::OmniusRunContext;
use crate::session::Session;
use crate::state::SessionState;

pin_project! {
    /// A future, stream or sink that runs inside a scope: the context is in place on each poll, and while what is
    /// inside is dropped.
    ///
    /// Made by [`Context::scope`], [`Session::scope`] and [`WithSession`]. With the feature `http` it is also a body.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use futures::{Stream, StreamExt, stream};
    /// use hermes_env_bridge::{Scope, Session, get_session_env};
    ///
    /// let lines = stream::iter(1..=2).map(|n| format!("{n} {}", get_session_env("HERMES_SESSION_CHAT_ID", "none")));
    /// let lines: Scope<_> = Session::new().chat_id("42").scope(lines);
    /// assert_eq!(lines.size_hint(), (2, Some(2)));
    /// assert_eq!(lines.collect::<Vec<_>>().await, ["1 42", "2 42"]);
    /// # }
    /// ```
    #[must_use = "futures, streams and sinks do nothing unless polled"]
    pub struct Scope<T> {
        // What it states of the context until it is first entered, and `None` from then on.
        stated: Option<Stated>,
        // `None` before it is first entered. While it is entered, this is what was there before.
        entered: Option<Entered>,
        // `None` once the scope's own drop has taken it out, after which nothing polls.
        #[pin]
        inner: Option<T>,
    }

    impl<T> PinnedDrop for Scope<T> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            resolve(this.stated, this.entered);
            enter(this.entered, || this.inner.set(None));
        }
    }
}

/// What a scope states of its context. The rest is that of the scope in which it is first polled, so that scopes nest
/// in either order.
#[derive(Debug, Clone)]
enum Stated {
    Whole(Context),
    Session(SessionState),
    Run(Arc<OmniusRunContext>),
}

impl Stated {
    fn enter(self) -> Entered {
        match self {
            Self::Whole(context) => Entered::carrying(context),
            Self::Session(session) => Entered::of_session(session, Context::current()),
            Self::Run(run) => Entered::of_run(run, Context::current()),
        }
    }
}

/// Runs `f` for `run`, with the session that is current.
pub(crate) fn sync_scope_of_run<R>(run: Arc<OmniusRunContext>, f: impl FnOnce() -> R) -> R {
    enter(&mut Some(Stated::Run(run).enter()), f)
}

/// Makes what is stated the scope's, if that has not happened yet.
fn resolve(stated: &mut Option<Stated>, entered: &mut Option<Entered>) {
    if let Some(stated) = stated.take() {
        *entered = Some(stated.enter());
    }
}

/// Why a scope that can still be polled has something inside.
const DROPPED: &str = "only the drop takes out what is inside";

impl<T> Scope<T> {
    fn new(stated: Stated, inner: T) -> Self {
        Self { stated: Some(stated), entered: None, inner: Some(inner) }
    }

    pub(crate) fn of_run(run: Arc<OmniusRunContext>, inner: T) -> Self {
        Self::new(Stated::Run(run), inner)
    }

    /// A scope that has been entered as `entered` for what `make` makes there, which goes inside.
    pub(crate) fn begin(entered: Entered, make: impl FnOnce() -> T) -> Self {
        let mut entered = Some(entered);
        let inner = enter(&mut entered, make);
        Self { stated: None, entered, inner: Some(inner) }
    }

    /// A scope that goes on where this one is, with something else inside. This one has nothing entered any more.
    #[cfg(feature = "tower")]
    pub(crate) fn hand_over<U>(self: Pin<&mut Self>, inner: U) -> Scope<U> {
        let this = self.project();
        resolve(this.stated, this.entered);
        Scope { stated: None, entered: this.entered.take(), inner: Some(inner) }
    }

    /// What is inside.
    #[cfg(feature = "tower")]
    pub(crate) fn inner(&self) -> &T {
        self.inner.as_ref().expect(DROPPED)
    }

    /// The context as it is inside: the one that was entered, or what the verbs have made of it since.
    ///
    /// ```
    /// use hermes_env_bridge::Session;
    ///
    /// let scope = Session::new().chat_id("42").scope(async {});
    /// assert_eq!(scope.context().session().chat_id().as_bound(), Some("42"));
    /// ```
    #[must_use]
    pub fn context(&self) -> Context {
        match (&self.stated, &self.entered) {
            (Some(stated), _) => stated.clone().enter().context().clone(),
            (None, Some(entered)) => entered.context().clone(),
            (None, None) => Context::current(),
        }
    }

    /// Runs `poll` on what is inside, in the scope, and ends the scope when that `is_last`.
    pub(crate) fn poll_inside<R>(
        self: Pin<&mut Self>,
        poll: impl FnOnce(Pin<&mut T>) -> Poll<R>,
        is_last: impl FnOnce(&R) -> bool,
    ) -> Poll<R> {
        let this = self.project();
        let inner = this.inner.as_pin_mut().expect(DROPPED);
        resolve(this.stated, this.entered);
        let result = ready!(enter(this.entered, || poll(inner)));
        if is_last(&result) {
            this.entered.as_mut().into_iter().for_each(Entered::end);
        }
        Poll::Ready(result)
    }
}

impl<F: Future> Future for Scope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<F::Output> {
        self.poll_inside(|future| future.poll(poller), |_| true)
    }
}

impl<S: Stream> Stream for Scope<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Option<S::Item>> {
        self.poll_inside(|stream| stream.poll_next(poller), Option::is_none)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.as_ref().expect(DROPPED).size_hint()
    }
}

impl<S: Sink<Item>, Item> Sink<Item> for Scope<S> {
    type Error = S::Error;

    fn poll_ready(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Result<(), S::Error>> {
        self.poll_inside(|sink| sink.poll_ready(poller), |_| false)
    }

    fn start_send(self: Pin<&mut Self>, item: Item) -> Result<(), S::Error> {
        let this = self.project();
        let sink = this.inner.as_pin_mut().expect(DROPPED);
        resolve(this.stated, this.entered);
        enter(this.entered, || sink.start_send(item))
    }

    fn poll_flush(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Result<(), S::Error>> {
        self.poll_inside(|sink| sink.poll_flush(poller), |_| false)
    }

    fn poll_close(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Result<(), S::Error>> {
        // A stream beside it may still be read.
        self.poll_inside(|sink| sink.poll_close(poller), |_| false)
    }
}

/// A body that is made while it is sent is made in the scope.
#[cfg(feature = "http")]
impl<B: http_body::Body> http_body::Body for Scope<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        poller: &mut Poller<'_>,
    ) -> Poll<Option<Result<http_body::Frame<B::Data>, B::Error>>> {
        self.poll_inside(|body| body.poll_frame(poller), Option::is_none)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().expect(DROPPED).is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.as_ref().expect(DROPPED).size_hint()
    }
}

impl<T> fmt::Debug for Scope<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl Context {
    /// Wraps a future, stream or sink so that it runs with this context.
    ///
    /// The scope replaces what the caller has bound, for what is inside alone. What the verbs change there is seen
    /// inside the scope and not outside. Tasks that it starts with plain [`tokio::spawn`], or in a
    /// [`LocalSet`](tokio::task::LocalSet), inherit nothing, also where its own polling drives them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hermes_env_bridge::{Context, Session, get_session_env};
    ///
    /// let context = Session::new().chat_id("42").sync_scope(Context::current);
    /// let chat = context.scope(async { get_session_env("HERMES_SESSION_CHAT_ID", "none") }).await;
    /// assert_eq!(chat, "42");
    /// # }
    /// ```
    pub fn scope<T>(self, inner: T) -> Scope<T> {
        Scope::new(Stated::Whole(self), inner)
    }

    /// Runs `f` with this context and returns what it returns; the caller's own is back afterwards, also on a panic.
    ///
    /// Tasks that `f` drives with a `block_on` are not inside: only the future that it blocks on is.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session, get_session_env};
    ///
    /// let context = Session::new().chat_id("42").sync_scope(Context::current);
    /// assert_eq!(context.sync_scope(|| get_session_env("HERMES_SESSION_CHAT_ID", "none")), "42");
    /// ```
    pub fn sync_scope<R>(self, f: impl FnOnce() -> R) -> R {
        enter(&mut Some(Entered::carrying(self)), f)
    }

    /// A closure that runs `f` with this context, wherever and whenever it is called. `f` is dropped in it as well.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session, get_session_env};
    ///
    /// let context = Session::new().chat_id("42").sync_scope(Context::current);
    /// let job = context.bind(|| get_session_env("HERMES_SESSION_CHAT_ID", "none"));
    /// assert_eq!(std::thread::spawn(job).join().unwrap(), "42");
    /// ```
    pub fn bind<F: FnOnce() -> R, R>(self, f: F) -> impl FnOnce() -> R + use<F, R> {
        let bound = Bound::new(self, f);
        move || bound.call_once()
    }

    /// As [`bind`](Self::bind), for a callback that takes an argument (a tuple, for several) and is called many times.
    ///
    /// Each call starts from the context as it was bound: what a call changes, the next one does not see.
    ///
    /// What is returned takes references of one lifetime. Where it is kept as a `dyn Fn(&str)`, for any, enter the context
    /// in the callback:
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session, get_session_env};
    ///
    /// let context = Session::new().chat_id("42").sync_scope(Context::current);
    /// let answer = |text: &str| format!("{}: {text}", get_session_env("HERMES_SESSION_CHAT_ID", "?"));
    /// let kept: Box<dyn Fn(&str) -> String + Send> = Box::new(move |text| context.clone().sync_scope(|| answer(text)));
    /// assert_eq!(kept(&String::from("hi")), "42: hi");
    /// ```
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session, get_session_env};
    ///
    /// let context = Session::new().chat_id("42").sync_scope(Context::current);
    /// let answer = context.bind_fn(|text: &str| format!("{}: {text}", get_session_env("HERMES_SESSION_CHAT_ID", "?")));
    /// assert_eq!((answer("hi"), answer("bye")), ("42: hi".to_owned(), "42: bye".to_owned()));
    /// ```
    pub fn bind_fn<F: Fn(A) -> R, A, R>(self, f: F) -> impl Fn(A) -> R + use<F, A, R> {
        let bound = Bound::new(self, f);
        move |argument| bound.context.clone().sync_scope(|| bound.inner()(argument))
    }

    /// As [`bind_fn`](Self::bind_fn), for a callback that changes what it has captured.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session, get_session_env};
    ///
    /// let context = Session::new().chat_id("42").sync_scope(Context::current);
    /// let mut replies = Vec::new();
    /// let mut on_line = context.bind_mut(|line: u32| replies.push((get_session_env("HERMES_SESSION_CHAT_ID", "?"), line)));
    /// on_line(1);
    /// on_line(2);
    /// drop(on_line);
    /// assert_eq!(replies, [("42".to_owned(), 1), ("42".to_owned(), 2)]);
    /// ```
    pub fn bind_mut<F: FnMut(A) -> R, A, R>(self, f: F) -> impl FnMut(A) -> R + use<F, A, R> {
        let mut bound = Bound::new(self, f);
        move |argument| bound.context.clone().sync_scope(|| bound.inner_mut()(argument))
    }
}

/// A closure and the context in which it is called and dropped.
struct Bound<F> {
    context: Context,
    /// `None` once it was called for the only time, or its drop has begun.
    inner: Option<F>,
}

/// Why a closure that can still be called is there.
const CALLED: &str = "only the one call and the drop take out the closure";

impl<F> Bound<F> {
    fn new(context: Context, inner: F) -> Self {
        Self { context, inner: Some(inner) }
    }

    fn inner(&self) -> &F {
        self.inner.as_ref().expect(CALLED)
    }

    fn inner_mut(&mut self) -> &mut F {
        self.inner.as_mut().expect(CALLED)
    }

    fn call_once<R>(mut self) -> R
    where
        F: FnOnce() -> R,
    {
        let inner = self.inner.take().expect(CALLED);
        self.context.clone().sync_scope(inner)
    }
}

impl<F> Drop for Bound<F> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.context.clone().sync_scope(|| drop(inner));
        }
    }
}

/// Binds `f` to the context of this moment; see [`Context::bind`]. For jobs of thread pools, timers and channels.
///
/// ```
/// use hermes_env_bridge::{Session, bind, get_session_env};
///
/// let job = Session::new().chat_id("42").sync_scope(|| bind(|| get_session_env("HERMES_SESSION_CHAT_ID", "none")));
/// assert_eq!(job(), "42");
/// ```
pub fn bind<F: FnOnce() -> R, R>(f: F) -> impl FnOnce() -> R + use<F, R> {
    Context::current().bind(f)
}

/// Binds a callback to the context of this moment; see [`Context::bind_fn`].
///
/// ```
/// use hermes_env_bridge::{Session, bind_fn, get_session_env};
///
/// let callback = Session::new().chat_id("42").sync_scope(|| {
///     bind_fn(|text: &str| format!("{}: {text}", get_session_env("HERMES_SESSION_CHAT_ID", "none")))
/// });
/// assert_eq!(callback("hi"), "42: hi");
/// ```
pub fn bind_fn<F: Fn(A) -> R, A, R>(f: F) -> impl Fn(A) -> R + use<F, A, R> {
    Context::current().bind_fn(f)
}

/// Binds a callback that changes what it has captured to the context of this moment; see [`Context::bind_mut`].
///
/// ```
/// use hermes_env_bridge::{Session, bind_mut, get_session_env};
///
/// let mut calls = 0;
/// let mut callback = Session::new().chat_id("42").sync_scope(|| {
///     bind_mut(|()| {
///         calls += 1;
///         (calls, get_session_env("HERMES_SESSION_CHAT_ID", "none"))
///     })
/// });
/// assert_eq!((callback(()), callback(())), ((1, "42".to_owned()), (2, "42".to_owned())));
/// ```
pub fn bind_mut<F: FnMut(A) -> R, A, R>(f: F) -> impl FnMut(A) -> R + use<F, A, R> {
    Context::current().bind_mut(f)
}

/// Entering a session from the end of an expression: for every future, stream and sink.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use hermes_env_bridge::{Session, WithSession, get_session_env};
///
/// let reply = async { get_session_env("HERMES_SESSION_CHAT_ID", "none") };
/// assert_eq!(reply.with_session(Session::new().chat_id("42")).await, "42");
/// # }
/// ```
pub trait WithSession: Sized {
    /// Runs this as `session`, and trips the [latch](crate::session_context_engaged); see [`Session::scope`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use futures::{StreamExt, stream};
    /// use hermes_env_bridge::{Session, WithSession, get_session_env};
    ///
    /// let replies = stream::iter(["hi"]).map(|text| format!("{text} {}", get_session_env("HERMES_SESSION_USER_NAME", "")));
    /// let replies = replies.with_session(Session::new().user_name("Zoë"));
    /// assert_eq!(replies.collect::<Vec<_>>().await, ["hi Zoë"]);
    /// # }
    /// ```
    fn with_session(self, session: Session) -> Scope<Self> {
        session.scope(self)
    }

    /// Runs this with the context that is current now, wherever it will be polled: for what is handed to another task.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hermes_env_bridge::{Session, WithSession, get_session_env};
    ///
    /// let chat = Session::new().chat_id("42").scope(async {
    ///     let mut set = tokio::task::JoinSet::new();
    ///     set.spawn(async { get_session_env("HERMES_SESSION_CHAT_ID", "none") }.in_current_session());
    ///     set.join_next().await.unwrap().unwrap()
    /// });
    /// assert_eq!(chat.await, "42");
    /// # }
    /// ```
    fn in_current_session(self) -> Scope<Self> {
        Context::current().scope(self)
    }
}

impl<T> WithSession for T {}

impl Session {
    /// Wraps a future, stream or sink so that it runs as this session, and trips the
    /// [latch](crate::session_context_engaged).
    ///
    /// The session replaces the caller's for what is inside alone; see [`Context::scope`]. The run is that of the scope
    /// in which this is first polled, and stays.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hermes_env_bridge::{Session, get_session_env};
    ///
    /// let chat = Session::new().chat_id("42").scope(async { get_session_env("HERMES_SESSION_CHAT_ID", "none") });
    /// assert_eq!(chat.await, "42");
    /// # }
    /// ```
    pub fn scope<T>(self, inner: T) -> Scope<T> {
        Scope::new(Stated::Session(self.enter()), inner)
    }

    /// Runs `f` as this session, and trips the [latch](crate::session_context_engaged). The run stays as it is.
    ///
    /// A call of an `async fn` only makes a future, which is polled outside: that is for [`scope`](Self::scope).
    ///
    /// ```
    /// use hermes_env_bridge::{Session, get_session_env};
    ///
    /// let chat = Session::new().chat_id("42").sync_scope(|| get_session_env("HERMES_SESSION_CHAT_ID", "none"));
    /// assert_eq!(chat, "42");
    /// ```
    pub fn sync_scope<R>(self, f: impl FnOnce() -> R) -> R {
        enter(&mut Some(Stated::Session(self.enter()).enter()), f)
    }
}
