//! What a task carries, and where the current one is kept.

use std::cell::RefCell;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{self, Id};

use crate::error::NotInScope;
use crate::run::OmniusRunContext;
use crate::state::SessionState;

/// The one immutable value that a task carries. Cheap to clone; writing makes a new one.
///
/// It is what is handed from where the session is known to where work is done for it, within one process; a
/// [`Snapshot`](crate::Snapshot) is for another process or another time.
///
/// ```
/// use hermes_env_bridge::{Context, Session, get_session_env};
///
/// let (jobs, queue) = std::sync::mpsc::channel();
/// Session::new().chat_id("42").sync_scope(|| jobs.send(Context::current())).unwrap();
/// let context = queue.recv().unwrap();
/// assert_eq!(context.sync_scope(|| get_session_env("HERMES_SESSION_CHAT_ID", "none")), "42");
/// ```
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
    /// Ends with this scope; `None` while all that it has was entered elsewhere.
    ending: Option<Ending>,
}

thread_local! {
    /// The innermost scope. While it is borrowed nothing is allocated, freed or dropped, so nothing can come back here.
    ///
    /// It has no destructor, so that what a thread drops last still enters scopes. There would be nothing to drop: each
    /// [`enter`] puts back what it found, and the first one found none.
    static CURRENT: RefCell<ManuallyDrop<Option<Entered>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

impl Entered {
    /// A scope that carries `context` on.
    pub(crate) fn carrying(context: Context) -> Self {
        Self { context, task: None, ending: None }
    }

    /// A scope in which `session` is entered, beside what else `context` has.
    pub(crate) fn of_session(session: SessionState, context: Context) -> Self {
        let mut scope = Self::carrying(Context { session, ..context });
        scope.own_session();
        scope
    }

    /// A scope in which `run` is entered, beside what else `context` has.
    pub(crate) fn of_run(run: Arc<OmniusRunContext>, context: Context) -> Self {
        let mut scope = Self::carrying(Context { run: Some(run), ..context });
        scope.context.run_ended = Some(scope.ended());
        scope
    }

    /// The same scope, in which `session` is entered as well.
    pub(crate) fn and_session(mut self, session: SessionState) -> Self {
        self.context.session = session;
        self.own_session();
        self
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Makes the session one that was entered here.
    fn own_session(&mut self) {
        self.context.session_ended = Some(self.ended());
    }

    /// What trips when this scope ends.
    fn ended(&mut self) -> Arc<AtomicBool> {
        self.ending.get_or_insert_default().0.clone()
    }

    /// Puts `session` in, as one that was entered here; `ending` is for a scope that has none. Returns all that is left
    /// over.
    fn replace_session(&mut self, session: SessionState, ending: Ending) -> impl Sized + use<> {
        let (ending, spare) = match self.ending.take() {
            Some(own) => (own, Some(ending)),
            None => (ending, None),
        };
        let ended = self.context.session_ended.replace(ending.0.clone());
        self.ending = Some(ending);
        (mem::replace(&mut self.context.session, session), ended, spare)
    }

    /// Marks what was entered here finished.
    pub(crate) fn end(&mut self) {
        self.ending = None;
    }

    fn is_own(&self) -> bool {
        self.task == task::try_id()
    }
}

/// Runs `f` with `scope` as the innermost one. What the verbs made of it is in `scope` afterwards, and the outer one
/// back in its place, also on a panic.
///
/// It holds to the last of a thread's destructors, where the system keeps thread-locals that have none themselves.
pub(crate) fn enter<R>(scope: &mut Option<Entered>, f: impl FnOnce() -> R) -> R {
    struct Exit<'a>(&'a mut Option<Entered>);

    impl Exit<'_> {
        fn swap(&mut self) {
            let _ = CURRENT.try_with(|current| mem::swap(self.0, &mut **current.borrow_mut()));
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

    /// A context in which nothing is bound: reads fall back to the environment, and verbs bind.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session, get_session_env};
    ///
    /// Session::new().chat_id("42").sync_scope(|| {
    ///     let chat = Context::unbound().sync_scope(|| get_session_env("HERMES_SESSION_CHAT_ID", "none"));
    ///     assert_eq!(chat, "none");
    /// });
    /// ```
    #[must_use]
    pub fn unbound() -> Self {
        Self::new(SessionState::unbound(), None)
    }

    /// The context of the innermost scope, or one that has nothing bound where none is entered.
    ///
    /// Never panics, also not while a thread or a future is torn down.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session};
    ///
    /// assert_eq!(Context::current(), Context::unbound());
    /// Session::new().sync_scope(|| assert_ne!(Context::current(), Context::unbound()));
    /// ```
    #[must_use]
    pub fn current() -> Self {
        read_innermost(Clone::clone).unwrap_or_else(Self::unbound)
    }

    /// What `read` makes of the current session. It cannot enter anything: the scope is borrowed meanwhile.
    pub(crate) fn read<R>(read: impl Fn(&SessionState) -> R) -> R {
        read_innermost(|context| read(&context.session)).unwrap_or_else(|| read(&SessionState::unbound()))
    }

    /// The session variables of this context.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session};
    ///
    /// let context = Session::new().chat_id("42").sync_scope(Context::current);
    /// assert_eq!(context.session().chat_id().as_bound(), Some("42"));
    /// ```
    #[must_use]
    pub fn session(&self) -> &SessionState {
        &self.session
    }

    /// The run for which the task works, if one was entered.
    #[must_use]
    pub fn run(&self) -> Option<&Arc<OmniusRunContext>> {
        self.run.as_ref()
    }

    /// Whether the scope has ended in which the run was entered, or the session was entered or bound by a verb.
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

    /// Puts what `change` makes of the current session in its place, for `verb`.
    pub(crate) fn update(
        verb: &'static str,
        change: impl FnOnce(&SessionState) -> SessionState,
    ) -> Result<(), NotInScope> {
        let session = change(&innermost(verb)?.session);
        let previous = change_innermost(verb, |scope| mem::replace(&mut scope.context.session, session))?;
        drop(previous);
        Ok(())
    }

    /// As [`update`](Self::update), by another session: one that ends with the innermost scope.
    pub(crate) fn replace(
        verb: &'static str,
        change: impl FnOnce(&SessionState) -> SessionState,
    ) -> Result<(), NotInScope> {
        let session = change(&innermost(verb)?.session);
        let ending = Ending::default();
        let previous = change_innermost(verb, |scope| scope.replace_session(session, ending))?;
        drop(previous);
        Ok(())
    }
}

fn read_innermost<R>(read: impl FnOnce(&Context) -> R) -> Option<R> {
    let read = CURRENT
        .try_with(|current| current.borrow().as_ref().filter(|scope| scope.is_own()).map(|scope| read(&scope.context)));
    read.ok().flatten()
}

/// A copy of the innermost scope's context, for `verb` to change.
fn innermost(verb: &'static str) -> Result<Context, NotInScope> {
    read_innermost(Clone::clone).ok_or(NotInScope { verb })
}

/// Has `f` swap something in the innermost scope. What it takes out is returned, and dropped after the borrow: an
/// allocator or a value's drop may ask for the context.
fn change_innermost<R>(verb: &'static str, f: impl FnOnce(&mut Entered) -> R) -> Result<R, NotInScope> {
    let changed = CURRENT.try_with(|current| current.borrow_mut().as_mut().filter(|scope| scope.is_own()).map(f));
    changed.ok().flatten().ok_or(NotInScope { verb })
}

/// Ends a scope when it is dropped.
#[derive(Debug, Default)]
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
