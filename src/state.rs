//! The three states of a variable, and the variables of one session.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::names::{VARIABLES, each_variable, position};
use crate::shape::Shape;

/// A value that is not empty. The empty string is no value: it is [`VarState::Cleared`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(Arc<str>);

impl Value {
    /// Returns `text` as a value, or `None` if it is empty.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.into()))
    }

    /// The text, never empty.
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
    #[must_use]
    pub fn bound(text: &str) -> Self {
        Value::new(text).map_or(Self::Cleared, Self::Set)
    }

    /// What a read of a bound variable returns: `None` if it is unset.
    #[must_use]
    pub fn as_bound(&self) -> Option<&str> {
        match self {
            Self::Unset => None,
            Self::Cleared => Some(""),
            Self::Set(value) => Some(value),
        }
    }
}

/// All variables of one session: immutable, and cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionState {
    variables: Arc<[VarState]>,
    async_delivery: Option<bool>,
    cwd: Option<Value>,
}

impl SessionState {
    /// The session of a task that never bound one: every variable unset.
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
    #[must_use]
    pub fn get(&self, name: &str) -> VarState {
        Shape::TABLE.position(name).map_or(VarState::Unset, |at| self.variables[at].clone())
    }

    /// Whether the session's channel can deliver a completion later, if it was stated.
    #[must_use]
    pub fn async_delivery(&self) -> Option<bool> {
        self.async_delivery
    }

    /// The directory that was stated for the session's work, as it was stated; [`resolve_cwd`](crate::resolve_cwd)
    /// makes a path of it.
    #[must_use]
    pub fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Whether anything is bound: a variable, a statement on async delivery, or a directory.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        *self != Self::unbound()
    }

    /// The states in the order of [`VARIABLES`].
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
