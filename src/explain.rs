//! Which layer answers a read, what a child process gets, and why.

use std::ffi::{OsStr, OsString};
use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::context::Context;
use crate::environ::{Environ, ProcessEnviron};
use crate::names::VARIABLES;
use crate::session::{get_session_env_os, session_context_engaged};
use crate::state::VarState;

/// What answers a read.
///
/// ```
/// use hermes_env_bridge::{Layer, Session, explain};
///
/// assert_eq!(explain("HERMES_SESSION_CHAT_ID").layer, Layer::Default);
/// assert_eq!(explain("PATH").layer, Layer::Environment);
/// Session::new().sync_scope(|| assert_eq!(explain("HERMES_SESSION_CHAT_ID").layer, Layer::Task));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// The task bound the variable, to the empty string perhaps.
    Task,
    /// The task never bound it, and the environment has the name.
    Environment,
    /// Nobody has a value, so the reader's own default comes back.
    Default,
}

impl Layer {
    /// The layer in a word, in lower case, as JSON has it.
    ///
    /// ```
    /// assert_eq!(hermes_env_bridge::Layer::Task.as_str(), "task");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Environment => "environment",
            Self::Default => "default",
        }
    }
}

/// The word of [`as_str`](Self::as_str).
impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a child process gets under a name, by Hermes' rule.
///
/// ```
/// use hermes_env_bridge::{ForChild, Session, explain};
///
/// Session::new().chat_id("42").sync_scope(|| {
///     assert_eq!(explain("HERMES_SESSION_CHAT_ID").child, ForChild::Set);
///     assert_eq!(explain("HERMES_SESSION_USER_ID").child, ForChild::Empty);
///     assert_eq!(explain("PATH").child, ForChild::Keep);
/// });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForChild {
    /// The task's value, whatever the environment has.
    Set,
    /// The name, with an empty value.
    Empty,
    /// Nothing: the name is taken out of what is inherited.
    Strip,
    /// What the environment has.
    Keep,
    /// Nothing: there is nothing to hand on.
    Absent,
}

impl ForChild {
    /// What is done, in a word, in lower case, as JSON has it.
    ///
    /// ```
    /// assert_eq!(hermes_env_bridge::ForChild::Strip.as_str(), "strip");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Empty => "empty",
            Self::Strip => "strip",
            Self::Keep => "keep",
            Self::Absent => "absent",
        }
    }
}

/// The word of [`as_str`](Self::as_str).
impl fmt::Display for ForChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What decides both questions for one name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Is it a session variable? Any other name is just one of the environment's.
    pub(crate) is_session_variable: bool,
    pub(crate) state: VarState<()>,
    pub(crate) in_environment: bool,
    pub(crate) engaged: bool,
}

impl Facts {
    /// What answers a read, and why.
    pub(crate) fn layer(self) -> (Layer, &'static str) {
        match (self.state, self.in_environment) {
            (VarState::Set(()), _) => (Layer::Task, "this task has bound it"),
            (VarState::Cleared, _) => (Layer::Task, "this task has cleared it, which masks the environment"),
            (VarState::Unset, true) if self.is_session_variable => {
                (Layer::Environment, "this task never bound it, and the environment has it")
            }
            (VarState::Unset, true) => (Layer::Environment, "it is no session variable, and the environment has it"),
            (VarState::Unset, false) => (Layer::Default, "neither this task nor the environment has it"),
        }
    }

    /// What a child gets, and why.
    pub(crate) fn child(self) -> (ForChild, &'static str) {
        match (self.state, self.in_environment) {
            (VarState::Set(()), _) => (ForChild::Set, "what a task has bound goes to its children"),
            (VarState::Cleared, _) => (ForChild::Empty, "a cleared variable goes to children as an empty one"),
            (VarState::Unset, false) => (ForChild::Absent, "there is nothing to inherit"),
            (VarState::Unset, true) if self.is_session_variable && self.engaged => {
                (ForChild::Strip, "sessions were bound in this process, so the environment's may be another one's")
            }
            (VarState::Unset, true) if self.is_session_variable => {
                (ForChild::Keep, "no session was ever bound in this process, so the environment's is its own")
            }
            (VarState::Unset, true) => {
                (ForChild::Keep, "it is no session variable, so the session's rule leaves it alone")
            }
        }
    }
}

/// A read, explained. `Display` and JSON show names and reasons; the value only if it was asked for.
///
/// ```
/// use hermes_env_bridge::{Explanation, Session, explain};
///
/// let explanation: Explanation = Session::new().sync_scope(|| explain("HERMES_SESSION_KEY"));
/// assert_eq!(explanation.why, "this task has cleared it, which masks the environment");
/// let json = serde_json::to_value(&explanation).unwrap();
/// assert_eq!((&json["layer"], &json["state"]), (&"task".into(), &"cleared".into()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The name that is read.
    pub name: String,
    /// What the task holds: unset, cleared or set.
    pub state: VarState<()>,
    /// What answers the read.
    pub layer: Layer,
    /// Why that layer answers.
    pub why: &'static str,
    /// What a child process gets.
    pub child: ForChild,
    /// Why a child gets that.
    pub child_why: &'static str,
    /// The value, if it was asked for and there is one.
    pub value: Option<OsString>,
}

/// Without the value, which may be a secret.
impl fmt::Debug for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, state, layer, child, .. } = self;
        f.debug_struct("Explanation")
            .field("name", name)
            .field("state", state)
            .field("layer", layer)
            .field("child", child)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, layer, why, child, child_why, .. } = self;
        write!(f, "{name}: answered by {}: {why}; for a child: {}: {child_why}", layer.as_str(), child.as_str())?;
        match &self.value {
            Some(value) => write!(f, "; value: {}", value.to_string_lossy()),
            None => Ok(()),
        }
    }
}

/// An object of words and reasons; `value` is there only if it was asked for, and text for a person to read: bytes
/// that are not UTF-8 are shown as the replacement character.
impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Explanation", 6 + usize::from(self.value.is_some()))?;
        object.serialize_field("name", &self.name)?;
        object.serialize_field("state", self.state.as_str())?;
        object.serialize_field("layer", self.layer.as_str())?;
        object.serialize_field("why", self.why)?;
        object.serialize_field("child", self.child.as_str())?;
        object.serialize_field("child_why", self.child_why)?;
        if let Some(value) = &self.value {
            object.serialize_field("value", &value.to_string_lossy())?;
        }
        object.end()
    }
}

/// Explains a read of `name` in this task, without its value.
///
/// ```
/// use hermes_env_bridge::explain;
///
/// assert_eq!(
///     explain("HERMES_SESSION_CHAT_ID").to_string(),
///     "HERMES_SESSION_CHAT_ID: answered by default: neither this task nor the environment has it; \
///      for a child: absent: there is nothing to inherit"
/// );
/// ```
#[must_use]
pub fn explain(name: &str) -> Explanation {
    explain_over(&ProcessEnviron, name)
}

/// As [`explain`], with the value that a read would return.
///
/// ```
/// use hermes_env_bridge::{Session, explain_with_value};
///
/// let explanation = Session::new().chat_id("42").sync_scope(|| explain_with_value("HERMES_SESSION_CHAT_ID"));
/// assert_eq!(explanation.value, Some("42".into()));
/// ```
#[must_use]
pub fn explain_with_value(name: &str) -> Explanation {
    Explanation { value: get_session_env_os(name), ..explain(name) }
}

/// Explains every session variable in this task, in the order of [`VARIABLES`], without values.
///
/// ```
/// use hermes_env_bridge::{Session, explain_all};
///
/// Session::new().platform("telegram").chat_id("42").sync_scope(|| {
///     let set = explain_all().into_iter().filter(|explanation| explanation.state.as_str() == "set");
///     assert_eq!(set.count(), 2);
/// });
/// ```
#[must_use]
pub fn explain_all() -> Vec<Explanation> {
    VARIABLES.iter().map(|variable| explain(variable.name)).collect()
}

fn explain_over(environ: &impl Environ, name: &str) -> Explanation {
    let inherited = environ.var_os(OsStr::new(name));
    let facts = Facts {
        is_session_variable: VARIABLES.iter().any(|variable| variable.name == name),
        state: match Context::current().session().get(name) {
            VarState::Unset => VarState::Unset,
            VarState::Cleared => VarState::Cleared,
            VarState::Set(_) => VarState::Set(()),
        },
        in_environment: inherited.is_some(),
        engaged: session_context_engaged(),
    };
    let ((layer, why), (child, child_why)) = (facts.layer(), facts.child());
    let why = match (layer, inherited) {
        (Layer::Environment, Some(value)) if value.to_str().is_none() => {
            "the environment has it, in bytes that are not UTF-8: a read of text returns its default"
        }
        _ => why,
    };
    Explanation { name: name.to_owned(), state: facts.state, layer, why, child, child_why, value: None }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::session::Session;

    const NAME: &str = "HERMES_SESSION_CHAT_ID";

    #[test]
    fn every_combination_has_the_layer_and_the_child_of_hermes_rule() {
        use ForChild::{Absent, Empty, Keep, Set, Strip};
        use Layer::{Default, Environment, Task};
        let cases = [
            // session variable, state, in the environment, engaged
            (true, VarState::Set(()), true, true, Task, Set),
            (true, VarState::Set(()), false, false, Task, Set),
            (true, VarState::Cleared, true, false, Task, Empty),
            (true, VarState::Unset, true, true, Environment, Strip),
            (true, VarState::Unset, true, false, Environment, Keep),
            (true, VarState::Unset, false, true, Default, Absent),
            (false, VarState::Unset, true, true, Environment, Keep),
            (false, VarState::Unset, false, true, Default, Absent),
        ];
        for (is_session_variable, state, in_environment, engaged, layer, child) in cases {
            let facts = Facts { is_session_variable, state, in_environment, engaged };
            assert_eq!((facts.layer().0, facts.child().0), (layer, child), "{facts:?}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_value_that_is_no_text_is_explained_as_the_reads_treat_it() {
        use std::os::unix::ffi::OsStringExt;

        let environ = BTreeMap::from([(OsString::from(NAME), OsString::from_vec(vec![0xff]))]);
        let explanation = explain_over(&environ, NAME);
        assert_eq!(explanation.layer, Layer::Environment);
        assert!(explanation.why.contains("not UTF-8") && explanation.why.contains("default"));
    }

    #[test]
    fn the_answer_is_explained_without_the_value() {
        let environ = BTreeMap::from([(OsString::from(NAME), OsString::from("stale"))]);
        Session::new().chat_id("secret").sync_scope(|| {
            let explanation = explain_over(&environ, NAME);
            assert_eq!((explanation.layer, explanation.child), (Layer::Task, ForChild::Set));
            assert!(!explanation.to_string().contains("secret"));
            assert_eq!(explain_with_value(NAME).value, Some("secret".into()));
        });
        assert_eq!(explain_over(&environ, NAME).layer, Layer::Environment);
    }
}
