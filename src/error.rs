//! Every error that the crate returns.

use std::ffi::OsString;
use std::fmt;

/// A verb that changes the session was called where no scope is entered; nothing was changed.
///
/// There is nothing to change there: a value shared by all tasks of a thread would be read by each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{verb} needs a session scope, and none is entered here; wrap the work in Session::scope or Session::sync_scope"
)]
pub struct NotInScope {
    /// The verb that was called.
    pub verb: &'static str,
}

/// A name that no session binds: it is none of the keywords, and no variable that has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a session cannot bind {name:?}; give a keyword such as \"chat_id\" or a name such as \"HERMES_SESSION_CHAT_ID\""
)]
pub struct UnknownName {
    /// The name as it was given.
    pub name: String,
}

/// The environment holds bytes that are not UTF-8 under the name that was read.
///
/// The message and `Debug` name the variable and not its value; [`NotUnicode::value`] has it whole.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name:?} is not valid UTF-8; read it with get_session_env_os")]
pub struct NotUnicode {
    /// The name that was read.
    pub name: String,
    /// The value, byte for byte.
    pub value: OsString,
}

impl fmt::Debug for NotUnicode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotUnicode").field("name", &self.name).finish_non_exhaustive()
    }
}
