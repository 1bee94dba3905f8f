//! The three states of a variable, and the variables of one session.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::names::{VARIABLES, each_variable, position};
use crate::shape::Shape;

/// A value that is not empty. The empty string is no value: it is [`VarState::Cleared`].
///
/// `Debug` shows how long it is, never what it is.
///
/// ```
/// use hermes_env_bridge::Value;
///
/// let value = Value::new("42").unwrap();
/// assert_eq!(&*value, "42");
/// assert_eq!(format!("{value:?}"), "Value(2 bytes)");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(Arc<str>);

impl Value {
    /// Returns `text` as a value, or `None` if it is empty.
    ///
    /// ```
    /// use hermes_env_bridge::Value;
    ///
    /// assert!(Value::new(" ").is_some() && Value::new("").is_none());
    /// ```
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The text, never empty.
    ///
    /// ```
    /// # use hermes_env_bridge::Value;
    /// assert_eq!(Value::new("42").unwrap().as_str(), "42");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Value {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Values may be secrets: the length is shown, the text is not.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.0.len())
    }
}

/// What a task holds for one variable.
///
/// `Set` cannot hold the empty string for a [`Value`], so a match on the state is a match on the meaning.
///
/// ```
/// use hermes_env_bridge::{Context, Session, VarState};
///
/// fn reply_to() -> &'static str {
///     match Context::current().session().message_id() {
///         VarState::Set(_) => "the message",
///         VarState::Cleared => "no message, whatever the environment says",
///         VarState::Unset => "what the environment says",
///     }
/// }
///
/// assert_eq!(reply_to(), "what the environment says");
/// assert_eq!(Session::new().message_id("9").sync_scope(reply_to), "the message");
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum VarState<V = Value> {
    /// Never bound here: a read falls back to the environment, then to the default.
    #[default]
    Unset,
    /// Bound to the empty string: masks the environment.
    Cleared,
    /// Bound to a value.
    Set(V),
}

impl<V> VarState<V> {
    /// The state in a word, in lower case: `unset`, `cleared` or `set`.
    ///
    /// ```
    /// # use hermes_env_bridge::VarState;
    /// assert_eq!(VarState::bound("").as_str(), "cleared");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unset => "unset",
            Self::Cleared => "cleared",
            Self::Set(_) => "set",
        }
    }
}

impl VarState {
    /// The state of a variable that is bound to `text`: `Cleared` if it is empty, else `Set`.
    ///
    /// ```
    /// # use hermes_env_bridge::VarState;
    /// assert_eq!(VarState::bound(""), VarState::Cleared);
    /// assert!(matches!(VarState::bound("42"), VarState::Set(value) if value.as_str() == "42"));
    /// ```
    #[must_use]
    pub fn bound(text: &str) -> Self {
        Value::new(text).map_or(Self::Cleared, Self::Set)
    }

    /// What a read of a bound variable returns: `None` if it is unset.
    ///
    /// ```
    /// # use hermes_env_bridge::VarState;
    /// assert_eq!(VarState::bound("42").as_bound(), Some("42"));
    /// assert_eq!(VarState::Cleared.as_bound(), Some(""));
    /// assert_eq!(VarState::Unset.as_bound(), None);
    /// ```
    #[must_use]
    pub fn as_bound(&self) -> Option<&str> {
        match self {
            Self::Unset => None,
            Self::Cleared => Some(""),
            Self::Set(value) => Some(value),
        }
    }
}

/// All variables of one session: immutable, and cheap to clone. [`Context::session`](crate::Context::session) has it.
///
/// It holds what was bound and nothing of the environment, so it is the one to ask what *this task* was told.
///
/// ```
/// use hermes_env_bridge::{Context, Session};
///
/// let context = Session::new().chat_id("42").sync_scope(Context::current);
/// assert_eq!(context.session().chat_id().as_bound(), Some("42"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionState {
    variables: Arc<[VarState]>,
    async_delivery: Option<bool>,
    cwd: Option<Value>,
}

impl SessionState {
    /// The session of a task that never bound one: every variable unset.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, SessionState};
    ///
    /// assert_eq!(*Context::current().session(), SessionState::unbound());
    /// ```
    #[must_use]
    pub fn unbound() -> Self {
        static UNBOUND: LazyLock<SessionState> = LazyLock::new(|| SessionState {
            variables: VARIABLES.iter().map(|_| VarState::Unset).collect(),
            async_delivery: None,
            cwd: None,
        });
        UNBOUND.clone()
    }

    /// The state of the variable with this environment name; `Unset` for a name that is no session variable.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session, VarState};
    ///
    /// let context = Session::new().chat_id("42").sync_scope(Context::current);
    /// assert_eq!(context.session().get("HERMES_SESSION_CHAT_ID"), VarState::bound("42"));
    /// assert_eq!(context.session().get("PATH"), VarState::Unset);
    /// ```
    #[must_use]
    pub fn get(&self, name: &str) -> VarState {
        Shape::TABLE.position(name).map_or(VarState::Unset, |at| self.variables[at].clone())
    }

    /// Whether the session's channel can deliver a completion later, if it was stated.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session};
    ///
    /// let context = Session::new().sync_scope(Context::current);
    /// assert_eq!(context.session().async_delivery(), Some(true));
    /// assert_eq!(Context::current().session().async_delivery(), None);
    /// ```
    #[must_use]
    pub fn async_delivery(&self) -> Option<bool> {
        self.async_delivery
    }

    /// The directory that was stated for the session's work, as it was stated; [`resolve_cwd`](crate::resolve_cwd)
    /// makes a path of it.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session};
    ///
    /// let context = Session::new().cwd("~/project").sync_scope(Context::current);
    /// assert_eq!(context.session().cwd(), Some("~/project"));
    /// ```
    #[must_use]
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Whether anything is bound: a variable, a statement on async delivery, or a directory.
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session};
    ///
    /// let is_bound = || Context::current().session().is_bound();
    /// assert!(!is_bound());
    /// assert!(Session::new().sync_scope(is_bound), "a session that states nothing has cleared its variables");
    /// ```
    #[must_use]
    pub fn is_bound(&self) -> bool {
        *self != Self::unbound()
    }

    /// The states in the order of [`VARIABLES`].
    ///
    /// ```
    /// use hermes_env_bridge::{Context, Session, VarState};
    ///
    /// let context = Session::new().platform("telegram").chat_id("42").sync_scope(Context::current);
    /// let set = context.session().iter().filter(|(_, state)| matches!(state, VarState::Set(_)));
    /// let names: Vec<_> = set.map(|(name, _)| name).collect();
    /// assert_eq!(names, ["HERMES_SESSION_PLATFORM", "HERMES_SESSION_CHAT_ID"]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &VarState)> {
        VARIABLES.iter().map(|variable| variable.name).zip(self.variables.iter())
    }

    /// The same session with the given variables, named by position, in new states.
    pub(crate) fn with(&self, states: impl Iterator<Item = (usize, VarState)>) -> Self {
        let mut variables: Vec<VarState> = self.variables.to_vec();
        for (at, state) in states {
            variables[at] = state;
        }
        Self { variables: variables.into(), ..self.clone() }
    }

    /// The same session with another statement on async delivery.
    pub(crate) fn with_async_delivery(self, async_delivery: Option<bool>) -> Self {
        Self { async_delivery, ..self }
    }

    /// The same session with another directory.
    pub(crate) fn with_cwd(self, cwd: Option<Value>) -> Self {
        Self { cwd, ..self }
    }
}

macro_rules! states {
    ($($kind:ident $field:ident $name:literal $doc:literal;)+) => {
        /// What the session holds for each variable. [`var`](crate::var) has the reads that also ask the environment.
        impl SessionState {
            $(
            #[doc = concat!("The state of `", $name, "`: ", $doc, ".")]
            ///
            /// ```
            /// use hermes_env_bridge::{Context, VarState};
            ///
            #[doc = concat!("assert_eq!(*Context::current().session().", stringify!($field), "(), VarState::Unset);")]
            /// ```
            #[must_use]
            pub fn $field(&self) -> &VarState {
                &self.variables[const { position($name) }]
            })+
        }
    };
}
each_variable!(states);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_text_is_cleared_and_never_set() {
        assert_eq!(VarState::bound(""), VarState::Cleared);
        assert_eq!(Value::new(""), None);
        assert_eq!(VarState::bound(" ").as_bound(), Some(" "));
    }

    #[test]
    fn debug_output_does_not_show_values() {
        assert_eq!(format!("{:?}", VarState::bound("secret")), "Set(Value(6 bytes))");
    }
}
