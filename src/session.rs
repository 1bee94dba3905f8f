//! Hermes' verbs, and the session that a caller states.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::Context;
use crate::environ::{Environ, ProcessEnviron};
use crate::error::{NotInScope, NotUnicode, UnknownName};
use crate::names::{BOARD_TASK, PROCESS_PLATFORM, VARIABLES, each_variable, position};
use crate::shape::{self, Shape};
use crate::state::{SessionState, Value, VarState};

/// Has a session ever been bound in this process?
static ENGAGED: AtomicBool = AtomicBool::new(false);

/// Surfaces that are no channel on which people chat, in lower case.
///
/// The list is of the exceptions, so that a platform nobody listed counts as a channel.
///
/// ```
/// use hermes_env_bridge::NON_MESSAGING_SESSION_SURFACES;
///
/// assert!(NON_MESSAGING_SESSION_SURFACES.contains(&"cli"));
/// assert!(!NON_MESSAGING_SESSION_SURFACES.contains(&"telegram"));
/// ```
pub const NON_MESSAGING_SESSION_SURFACES: &[&str] = &[
    "",
    "api_server",
    "cli",
    "codex",
    "desktop",
    "gateway",
    "kanban",
    "local",
    "msgraph_webhook",
    "tool",
    "tui",
    "webhook",
];

/// A session's identity, as a caller states it.
///
/// What is not stated is cleared, so that nothing of an outer session or of the environment shows through; only
/// [`cron_session`](Self::cron_session) stays unset.
///
/// ```
/// use hermes_env_bridge::{Session, get_session_env};
///
/// let seen = Session::new().platform("telegram").chat_id("42").sync_scope(|| {
///     (get_session_env("HERMES_SESSION_CHAT_ID", "none"), get_session_env("HERMES_SESSION_USER_ID", "none"))
/// });
/// assert_eq!(seen, ("42".to_owned(), String::new()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a session does nothing until it is entered or bound"]
pub struct Session {
    given: [Option<VarState>; VARIABLES.len()],
    no_async_delivery: bool,
    cwd: Option<Value>,
}

macro_rules! stating {
    (@cron_delivery $($rest:tt)+) => {};
    (@$kind:ident $field:ident $name:literal $doc:literal) => {
        #[doc = concat!("States `", $name, "`: ", $doc, ".")]
        ///
        /// ```
        /// use hermes_env_bridge::{Session, var};
        ///
        #[doc = concat!("let seen = Session::new().", stringify!($field), "(\"x\").sync_scope(var::", stringify!($field), ");")]
        /// assert_eq!(seen.as_deref(), Some("x"));
        /// ```
        pub fn $field(mut self, value: impl AsRef<str>) -> Self {
            self.given[const { position($name) }] = Some(VarState::bound(value.as_ref()));
            self
        }
    };
    ($($kind:ident $field:ident $name:literal $doc:literal;)+) => {
        /// What a session states.
        impl Session {
            $(stating! { @$kind $field $name $doc })+
        }
    };
}
each_variable!(stating);

impl Session {
    /// A session that states nothing: what is run in it is nobody's, whatever the environment says.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, get_session_env};
    ///
    /// let key = Session::new().sync_scope(|| get_session_env("HERMES_SESSION_KEY", "none"));
    /// assert_eq!(key, "");
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// A session from pairs of a keyword (`chat_id`) or environment name (`HERMES_SESSION_CHAT_ID`) and a value. Of two
    /// pairs for one variable the later one holds.
    ///
    /// # Errors
    ///
    /// [`UnknownName`] if a name is not one that a session binds.
    ///
    /// ```
    /// use hermes_env_bridge::Session;
    ///
    /// let session = Session::from_pairs([("platform", "telegram"), ("HERMES_SESSION_CHAT_ID", "42")]).unwrap();
    /// assert_eq!(session, Session::new().platform("telegram").chat_id("42"));
    /// assert_eq!(Session::from_pairs([("chat", "42")]).unwrap_err().name, "chat");
    /// ```
    pub fn from_pairs<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, UnknownName> {
        let mut session = Self::new();
        for (name, value) in pairs {
            let name = name.as_ref();
            let at = Shape::TABLE
                .position_of_argument(name)
                .filter(|&at| VARIABLES[at].keyword.is_some())
                .ok_or_else(|| UnknownName { name: name.to_owned() })?;
            session.given[at] = Some(VarState::bound(value.as_ref()));
        }
        Ok(session)
    }

    /// States what a keyword of the table binds.
    pub(crate) fn with(mut self, keyword: &str, value: &str) -> Self {
        if let Some(at) = VARIABLES.iter().position(|variable| variable.keyword == Some(keyword)) {
            self.given[at] = Some(VarState::bound(value));
        }
        self
    }

    /// States whether a completion can be delivered after the turn. It can, unless this says otherwise.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, async_delivery_supported};
    ///
    /// assert!(!Session::new().async_delivery(false).sync_scope(async_delivery_supported));
    /// ```
    pub fn async_delivery(self, supported: bool) -> Self {
        Self { no_async_delivery: !supported, ..self }
    }

    /// States the directory in which the session works; see [`resolve_cwd`](crate::resolve_cwd). White space around it
    /// does not count. The process's own directory is never changed.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session};
    ///
    /// let context = Session::new().cwd("/srv/project").sync_scope(Context::current);
    /// assert_eq!(context.session().cwd(), Some("/srv/project"));
    /// ```
    pub fn cwd(self, cwd: impl AsRef<str>) -> Self {
        Self { cwd: Value::new(cwd.as_ref()), ..self }
    }

    /// What a scope of this session holds. Trips the latch.
    pub(crate) fn enter(self) -> SessionState {
        engage();
        self.bind_over(&SessionState::unbound())
    }

    /// What `state` becomes when this session is bound.
    pub(crate) fn bind_over(mut self, state: &SessionState) -> SessionState {
        state
            .with(Shape::TABLE.bind(|at| self.given[at].take()))
            .with_async_delivery(Some(!self.no_async_delivery))
            .with_cwd(self.cwd)
    }
}

/// Binds `session` in the innermost scope, whole, and trips the [latch](session_context_engaged).
///
/// # Errors
///
/// [`NotInScope`] outside a scope; nothing is bound and the latch is as before.
///
/// ```
/// use hermes_env_bridge::{Session, set_session_vars, var};
///
/// # fn main() -> Result<(), hermes_env_bridge::NotInScope> {
/// Session::new().chat_id("1").user_id("7").sync_scope(|| {
///     set_session_vars(Session::new().chat_id("2"))?;
///     assert_eq!((var::chat_id().as_deref(), var::user_id().as_deref()), (Some("2"), Some("")));
///     Ok(())
/// })?;
/// assert!(set_session_vars(Session::new().chat_id("3")).is_err(), "nothing is entered here");
/// # Ok(())
/// # }
/// ```
pub fn set_session_vars(session: Session) -> Result<(), NotInScope> {
    Context::replace("set_session_vars", |state| session.bind_over(state))?;
    engage();
    Ok(())
}

/// Clears every session variable of the innermost scope, so that each masks the environment.
///
/// Whether a completion can be delivered later, and the working directory, are unstated again. A scheduled job's
/// delivery variables are left alone.
///
/// # Errors
///
/// [`NotInScope`] outside a scope.
///
/// ```
/// use hermes_env_bridge::{Session, clear_session_vars, get_session_env};
///
/// # fn main() -> Result<(), hermes_env_bridge::NotInScope> {
/// Session::new().chat_id("42").sync_scope(|| {
///     clear_session_vars()?;
///     assert_eq!(get_session_env("HERMES_SESSION_CHAT_ID", "none"), "");
///     Ok(())
/// })
/// # }
/// ```
pub fn clear_session_vars() -> Result<(), NotInScope> {
    Context::replace("clear_session_vars", |state| unstated(state.with(Shape::TABLE.clear())))
}

/// Makes every variable of the innermost scope one that was never bound. For the start of a task that must not act
/// as the session from which it was started.
///
/// # Errors
///
/// [`NotInScope`] outside a scope.
///
/// ```
/// use hermes_env_bridge::{Session, get_session_env, reset_session_vars};
///
/// # fn main() -> Result<(), hermes_env_bridge::NotInScope> {
/// Session::new().chat_id("42").sync_scope(|| {
///     reset_session_vars()?;
///     assert_eq!(get_session_env("HERMES_SESSION_CHAT_ID", "none"), "none");
///     Ok(())
/// })
/// # }
/// ```
pub fn reset_session_vars() -> Result<(), NotInScope> {
    Context::replace("reset_session_vars", |state| unstated(state.with(Shape::TABLE.reset())))
}

/// Without what a session states beside its variables.
fn unstated(state: SessionState) -> SessionState {
    state.with_async_delivery(None).with_cwd(None)
}

/// Binds the session id in the innermost scope, and nothing else. The process environment is never written.
///
/// # Errors
///
/// [`NotInScope`] outside a scope.
///
/// ```
/// use hermes_env_bridge::{Session, set_current_session_id, var};
///
/// # fn main() -> Result<(), hermes_env_bridge::NotInScope> {
/// Session::new().chat_id("42").session_id("first").sync_scope(|| {
///     set_current_session_id("second")?;
///     assert_eq!((var::session_id().as_deref(), var::chat_id().as_deref()), (Some("second"), Some("42")));
///     Ok(())
/// })
/// # }
/// ```
pub fn set_current_session_id(session_id: &str) -> Result<(), NotInScope> {
    bind_session_id("set_current_session_id", &VarState::bound(session_id))
}

/// Runs `f`, with the session id bound to `session_id` if one is given, and puts the id back that was there before.
///
/// An `async` closure only makes a future: it would be polled when the id is back. Give such a future a scope of its own.
///
/// # Errors
///
/// [`NotInScope`] outside a scope; `f` is not run.
///
/// ```
/// use hermes_env_bridge::{Session, scoped_current_session_id, var};
///
/// # fn main() -> Result<(), hermes_env_bridge::NotInScope> {
/// Session::new().session_id("parent").sync_scope(|| {
///     let inside = scoped_current_session_id(Some("child"), var::session_id)?;
///     assert_eq!((inside.as_deref(), var::session_id().as_deref()), (Some("child"), Some("parent")));
///     Ok(())
/// })
/// # }
/// ```
pub fn scoped_current_session_id<R>(session_id: Option<&str>, f: impl FnOnce() -> R) -> Result<R, NotInScope> {
    /// Puts the id back on unwinding too. The scope in which it was made is still entered when it is dropped.
    struct Restore(VarState);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = bind_session_id("scoped_current_session_id", &self.0);
        }
    }

    let previous = Context::current().session().session_id().clone();
    let inside = session_id.map_or_else(|| previous.clone(), VarState::bound);
    bind_session_id("scoped_current_session_id", &inside)?;
    let _restore = Restore(previous);
    Ok(f())
}

fn bind_session_id(verb: &'static str, id: &VarState) -> Result<(), NotInScope> {
    let at = const { position("HERMES_SESSION_ID") };
    Context::update(verb, |state| state.with(std::iter::once((at, id.clone()))))
}

/// States that no completion can be delivered after this turn. Does not trip the [latch](session_context_engaged).
///
/// # Errors
///
/// [`NotInScope`] outside a scope.
///
/// ```
/// use hermes_env_bridge::{Context, async_delivery_supported, declare_stateless_channel};
///
/// # fn main() -> Result<(), hermes_env_bridge::NotInScope> {
/// Context::unbound().sync_scope(|| {
///     declare_stateless_channel()?;
///     assert!(!async_delivery_supported());
///     Ok(())
/// })
/// # }
/// ```
pub fn declare_stateless_channel() -> Result<(), NotInScope> {
    Context::update("declare_stateless_channel", |state| state.clone().with_async_delivery(Some(false)))
}

/// Reads a session variable by its environment name, as `std::env::var` would be used for it.
///
/// A bound variable answers, cleared ones with `""`; an unset one, and a name that is no session variable, is read
/// from the environment; then comes `default`. It also comes for a value that is not UTF-8, with a warning (feature
/// `tracing`); [`try_get_session_env`] tells the two apart.
///
/// ```
/// use hermes_env_bridge::{Session, get_session_env};
///
/// assert_eq!(get_session_env("HERMES_SESSION_CHAT_ID", "none"), "none");
/// Session::new().chat_id("42").sync_scope(|| {
///     assert_eq!(get_session_env("HERMES_SESSION_CHAT_ID", "none"), "42");
///     assert_eq!(get_session_env("HERMES_SESSION_USER_ID", "none"), "");
/// });
/// ```
#[must_use]
pub fn get_session_env(name: &str, default: &str) -> String {
    get_or_warn(name).unwrap_or_else(|| default.to_owned())
}

/// A read in which a value that is not UTF-8 counts as none, and is warned about.
pub(crate) fn get_or_warn(name: &str) -> Option<String> {
    match try_get_session_env(name) {
        Ok(value) => value,
        Err(error) => {
            warn!("{error}; the default is used");
            None
        }
    }
}

/// As [`get_session_env`], with `None` where neither the task nor the environment has a value.
///
/// # Errors
///
/// [`NotUnicode`] if the environment answers with bytes that are not UTF-8.
///
/// ```
/// use hermes_env_bridge::{Session, try_get_session_env};
///
/// # fn main() -> Result<(), hermes_env_bridge::NotUnicode> {
/// assert_eq!(try_get_session_env("HERMES_SESSION_CHAT_ID")?, None);
/// let chat = Session::new().chat_id("42").sync_scope(|| try_get_session_env("HERMES_SESSION_CHAT_ID"))?;
/// assert_eq!(chat.as_deref(), Some("42"));
/// # Ok(())
/// # }
/// ```
pub fn try_get_session_env(name: &str) -> Result<Option<String>, NotUnicode> {
    get_session_env_os(name)
        .map(|value| value.into_string().map_err(|value| NotUnicode { name: name.to_owned(), value }))
        .transpose()
}

/// As [`try_get_session_env`], byte for byte.
///
/// ```
/// use hermes_env_bridge::get_session_env_os;
///
/// assert_eq!(get_session_env_os("PATH"), std::env::var_os("PATH"), "what is no session variable is the environment's");
/// ```
#[must_use]
pub fn get_session_env_os(name: &str) -> Option<OsString> {
    Context::read(|session| read_over(&ProcessEnviron, session, name))
}

fn read_over(environ: &impl Environ, session: &SessionState, name: &str) -> Option<OsString> {
    let state = session.get(name);
    let bound = state.as_bound().map(|value| Some(OsString::from(value)));
    let Ok(value) = shape::read(bound, || Ok::<_, Infallible>(environ.var_os(OsStr::new(name))));
    value
}

/// Whether a completion can be delivered after this turn: not if the session stated so, and not in a board worker
/// (`HERMES_KANBAN_TASK` present and not empty).
///
/// ```
/// use hermes_env_bridge::{Session, async_delivery_supported};
///
/// assert!(Session::new().platform("telegram").sync_scope(async_delivery_supported));
/// assert!(!Session::new().platform("api_server").async_delivery(false).sync_scope(async_delivery_supported));
/// ```
#[must_use]
pub fn async_delivery_supported() -> bool {
    let board_worker = ProcessEnviron.var_os(OsStr::new(BOARD_TASK)).is_some_and(|task| !task.is_empty());
    let Ok(supported) =
        shape::async_delivery(board_worker, || Ok::<_, Infallible>(Context::read(SessionState::async_delivery)));
    supported
}

/// Whether people chat on the channel of this turn: an unknown surface counts as such a channel.
///
/// `HERMES_PLATFORM` stands in for the session's platform; the session's source counts as well.
///
/// ```
/// use hermes_env_bridge::{Session, session_is_messaging_surface};
///
/// assert!(Session::new().platform("telegram").sync_scope(session_is_messaging_surface));
/// assert!(!Session::new().platform("cli").sync_scope(session_is_messaging_surface));
/// ```
#[must_use]
pub fn session_is_messaging_surface() -> bool {
    let stated = get_session_env_os(PROCESS_PLATFORM).filter(|platform| !platform.is_empty());
    let platform = stated.unwrap_or_else(|| get_session_env("HERMES_SESSION_PLATFORM", "").into());
    let source = get_session_env("HERMES_SESSION_SOURCE", "");
    let surfaces = [platform.to_string_lossy(), source.into()];
    let Ok(messaging) = shape::messaging(
        surfaces.iter().map(|surface| Ok::<_, Infallible>(surface.trim_matches(is_space).to_lowercase())),
        |surface| Ok(surface.is_empty()),
        |surface| Ok(NON_MESSAGING_SESSION_SURFACES.contains(&surface.as_str())),
    );
    messaging
}

/// Adds the anchors of an inbound message's route (`scope_id`, `parent_chat_id`) to a delivery's metadata, for when the
/// message itself is gone.
///
/// The metadata is a map of any kind. An anchor that `source` states replaces one that is there. Where it states none, the metadata comes back as it was,
/// `None` included.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use hermes_env_bridge::{Session, source_route_metadata};
///
/// let source = Session::new().platform("discord").scope_id("guild");
/// let metadata = source_route_metadata(&source, None::<BTreeMap<String, String>>);
/// assert_eq!(metadata, Some(BTreeMap::from([("scope_id".to_owned(), "guild".to_owned())])));
/// assert_eq!(source_route_metadata(&Session::new(), None::<BTreeMap<String, String>>), None);
/// ```
pub fn source_route_metadata<M, V>(source: &Session, metadata: Option<M>) -> Option<M>
where
    M: Default + Extend<(String, V)>,
    // A map, in which a key is there once: a list has entries and not keys beside values.
    for<'a> &'a M: IntoIterator<Item = (&'a String, &'a V)>,
    V: From<String> + 'static,
{
    const ANCHORS: [(&str, usize); 2] = [
        ("scope_id", position("HERMES_SESSION_SCOPE_ID")),
        ("parent_chat_id", position("HERMES_SESSION_PARENT_CHAT_ID")),
    ];
    let anchors: Vec<_> = ANCHORS
        .into_iter()
        .filter_map(|(key, at)| match &source.given[at] {
            Some(VarState::Set(value)) => Some((key.to_owned(), V::from(value.as_str().to_owned()))),
            _ => None,
        })
        .collect();
    if anchors.is_empty() {
        return metadata;
    }
    let mut metadata = metadata.unwrap_or_default();
    metadata.extend(anchors);
    Some(metadata)
}

/// White space as Python's `str.strip` takes it, so that both faces judge a surface or a directory alike: Unicode's, and
/// the four separators of ASCII.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// True if a session was ever bound in this process.
///
/// From then on a child process inherits no session variable that its task has not bound. What a read in this process
/// returns does not depend on it.
///
/// ```
/// use hermes_env_bridge::{Session, session_context_engaged};
///
/// assert!(!session_context_engaged());
/// Session::new().sync_scope(|| assert!(session_context_engaged()));
/// assert!(session_context_engaged(), "it stays so");
/// ```
#[must_use]
pub fn session_context_engaged() -> bool {
    ENGAGED.load(Ordering::Acquire)
}

/// Trips the latch.
pub(crate) fn engage() {
    ENGAGED.store(true, Ordering::Release);
}

/// Sets the latch to what a Python host says it is.
#[cfg(feature = "python")]
pub(crate) fn set_engaged(engaged: bool) {
    ENGAGED.store(engaged, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_session_can_state_every_keyword_of_the_table() {
        let keywords = VARIABLES.iter().filter_map(|variable| variable.keyword);
        for (keyword, variable) in keywords.zip(VARIABLES) {
            let stated = Session::from_pairs([(keyword, "x")]).unwrap().bind_over(&SessionState::unbound());
            assert_eq!(stated.get(variable.name), VarState::bound("x"));
        }
    }

    #[test]
    fn the_environment_answers_only_for_an_unset_variable() {
        let name = "HERMES_SESSION_CHAT_ID";
        let environ = BTreeMap::from([(OsString::from(name), OsString::from("stale"))]);
        let read = |session: &SessionState| read_over(&environ, session, name);
        let unbound = SessionState::unbound();
        assert_eq!(read(&unbound), Some("stale".into()));
        assert_eq!(read(&Session::new().bind_over(&unbound)), Some("".into()));
        assert_eq!(read(&Session::new().chat_id("live").bind_over(&unbound)), Some("live".into()));
    }
}
