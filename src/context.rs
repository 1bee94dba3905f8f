//! What a task carries, and where the current one is kept.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{self, Id};

use crate::error::NotInScope;
use crate::run::OmniusRunContext;
use crate::state::SessionState;

/// The one immutable value that a task carries. Cheap to clone; writing makes a new one.
#[derive(Debug, Clone)]
pub struct Context {
    session: SessionState,
    /// Trips when the scope ends in which the session was entered; `None` where none was.
    session_ended: Option<Arc<AtomicBool>>,
    run: Option<Arc<OmniusRunContext>>,
    /// The same for the run.
    run_ended: Option<Arc<AtomicBool>>,
}

/// Two contexts are equal if they carry the same.
impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        self.session == other.session && self.run == other.run
    }
}

impl Eq for Context {}

/// A scope's context, and the task that is inside.
///
/// While a scope is entered its context is reachable from everything that the thread runs. Where that is another task
/// (one that a `block_on` or a `LocalSet` inside the scope drives), the scope is not its own, and it finds none.
#[derive(Debug)]
pub(crate) struct Entered {
    context: Context,
    /// The task that entered, `None` outside of tasks.
    task: Option<Id>,
}

thread_local! {
    /// The innermost scope. Nothing but a value's drop runs while it is borrowed, and a value is text: it cannot come
    /// back here.
    static CURRENT: RefCell<Option<Entered>> = const { RefCell::new(None) };
}

impl Entered {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, task: None }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    fn is_own(&self) -> bool {
        self.task == task::try_id()
    }
}

/// Runs `f` with `scope` as the innermost one. What the verbs made of it is in `scope` afterwards, and the outer one
/// back in its place, also on a panic.
///
/// A thread that is so far in its teardown that it has no place for a scope runs `f` without one.
pub(crate) fn enter<R>(scope: &mut Option<Entered>, f: impl FnOnce() -> R) -> R {
    struct Exit<'a>(&'a mut Option<Entered>);

    impl Exit<'_> {
        fn swap(&mut self) {
            let _ = CURRENT.try_with(|current| mem::swap(self.0, &mut current.borrow_mut()));
        }
    }

    impl Drop for Exit<'_> {
        fn drop(&mut self) {
            self.swap();
        }
    }

    if let Some(entered) = scope {
        // A scoped future may be polled by one task and then by another.
        entered.task = task::try_id();
    }
    let mut exit = Exit(scope);
    exit.swap();
    f()
}

impl Context {
    pub(crate) fn new(session: SessionState, run: Option<Arc<OmniusRunContext>>) -> Self {
        Self { session, session_ended: None, run, run_ended: None }
    }

    /// A context in which nothing is bound.
    #[must_use]
    pub fn unbound() -> Self {
        Self::new(SessionState::unbound(), None)
    }

    /// The context of the innermost scope, or one that has nothing bound where none is entered.
    ///
    /// Never panics, also not while a thread or a future is torn down.
    #[must_use]
    pub fn current() -> Self {
        CURRENT
            .try_with(|current| {
                current.borrow().as_ref().filter(|scope| scope.is_own()).map(|scope| scope.context.clone())
            })
            .ok()
            .flatten()
            .unwrap_or_else(Self::unbound)
    }

    /// The session variables of this context.
    #[must_use]
    pub fn session(&self) -> &SessionState {
        &self.session
    }

    /// The run for which the task works, if one was entered.
    #[must_use]
    pub fn run(&self) -> Option<&Arc<OmniusRunContext>> {
        self.run.as_ref()
    }

    /// Whether the scope has ended in which the session or the run was entered.
    ///
    /// A bound callback and an inherited task may outlive that scope: they still have what it entered, and can tell by
    /// this that nobody waits for them there. False where nothing was entered.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session};
    ///
    /// let kept = Session::new().chat_id("42").sync_scope(|| {
    ///     assert!(!Context::current().is_finished());
    ///     Context::current()
    /// });
    /// assert_eq!(kept.session().chat_id().as_bound(), Some("42"));
    /// assert!(kept.is_finished());
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        [&self.session_ended, &self.run_ended].into_iter().flatten().any(|ended| ended.load(Ordering::Acquire))
    }

    /// The same with another session, which ends with `ending`.
    pub(crate) fn with_session(self, session: SessionState, ending: &Ending) -> Self {
        Self { session, session_ended: ending.0.clone(), ..self }
    }

    /// The same with another run, which ends with `ending`.
    pub(crate) fn with_run(self, run: Arc<OmniusRunContext>, ending: &Ending) -> Self {
        Self { run: Some(run), run_ended: ending.0.clone(), ..self }
    }

    /// Puts what `change` makes of the current session in its place, for `verb`.
    pub(crate) fn update(
        verb: &'static str,
        change: impl FnOnce(&SessionState) -> SessionState,
    ) -> Result<(), NotInScope> {
        let replaced = CURRENT.try_with(|current| {
            let mut current = current.borrow_mut();
            let scope = current.as_mut().filter(|scope| scope.is_own())?;
            scope.context.session = change(&scope.context.session);
            Some(())
        });
        replaced.ok().flatten().ok_or(NotInScope { verb })
    }
}

/// Ends what a scope has entered: when it is told to, and when it is dropped.
#[derive(Debug)]
pub(crate) struct Ending(Option<Arc<AtomicBool>>);

impl Ending {
    pub(crate) fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// That of a scope which hands on what was entered elsewhere.
    pub(crate) fn of_nothing() -> Self {
        Self(None)
    }

    pub(crate) fn end(&self) {
        if let Some(ended) = &self.0 {
            ended.store(true, Ordering::Release);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.end();
    }
}
