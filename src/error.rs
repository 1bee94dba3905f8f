//! Every error that the crate returns.

use std::ffi::OsString;
use std::fmt;
use std::panic::Location;

/// A verb that changes the session was called where no scope is entered; nothing was changed.
///
/// There is nothing to change there: a value shared by all tasks of a thread would be read by each of them.
///
/// ```
/// use hermes_env_bridge::clear_session_vars;
///
/// assert_eq!(
///     clear_session_vars().unwrap_err().to_string(),
///     "clear_session_vars needs a session scope, and none is entered here; \
///      wrap the work in Session::scope or Session::sync_scope, and start its tasks with hermes_env_bridge::spawn or \
///      in_current_session, since plain tokio::spawn hands nothing on"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{verb} needs a session scope, and none is entered here; wrap the work in Session::scope or Session::sync_scope, and \
     start its tasks with hermes_env_bridge::spawn or in_current_session, since plain tokio::spawn hands nothing on"
)]
pub struct NotInScope {
    /// The verb that was called.
    pub verb: &'static str,
}

/// A name that no session binds: it is none of the keywords, and no variable that has one.
///
/// ```
/// use hermes_env_bridge::{Session, UnknownName};
///
/// assert_eq!(Session::from_pairs([("chat", "42")]), Err(UnknownName { name: "chat".to_owned() }));
/// ```
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
///
/// ```
/// use hermes_env_bridge::try_get_session_env;
///
/// let chat = match try_get_session_env("HERMES_SESSION_CHAT_ID") {
///     Ok(chat) => chat.map(Into::into),
///     Err(error) => Some(error.value),
/// };
/// assert_eq!(chat, None);
/// ```
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

/// An input is no snapshot, or not one that is taken here. Nothing of it was bound.
///
/// The messages name fields and variables, never values.
///
/// ```
/// use hermes_env_bridge::{Limits, Snapshot, SnapshotError};
///
/// let error = Snapshot::from_json(r#"{"version": 2, "session": {}}"#, Limits::default()).unwrap_err();
/// assert_eq!(error, SnapshotError::Version { supported: 1 });
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The input is larger than the limit.
    #[error("the snapshot has {size} bytes, and the limit is {limit}; raise it if the source can be trusted")]
    TooLarge {
        /// The size of the input, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The input nests deeper than the limit.
    #[error("the snapshot nests {depth} deep, and the limit is {limit}; raise it if the source can be trusted")]
    TooDeep {
        /// How deep the input nests.
        depth: usize,
        /// The limit.
        limit: usize,
    },
    /// The input is not JSON, or not a snapshot's.
    #[error("not the JSON of a snapshot: {reason}; write it with to_json")]
    Malformed {
        /// What is wrong, and where.
        reason: String,
    },
    /// The snapshot has another version.
    #[error("the snapshot is not of version {supported}, the only one that is read here")]
    Version {
        /// The version that is read.
        supported: u64,
    },
    /// A field or variable is there twice, so that one of the two would be lost.
    #[error("the snapshot has {name:?} twice; leave one of them out")]
    Duplicate {
        /// The field or variable.
        name: String,
    },
    /// A field or variable that holds text holds something else.
    #[error(
        "the snapshot's {name:?} is no text; give a string, \"\" for what is cleared, and nothing for what is unset"
    )]
    NotText {
        /// The field or variable.
        name: String,
    },
    /// A field that is true or false is neither.
    #[error("the snapshot's {name:?} is neither true nor false (in a mapping \"1\" or \"0\")")]
    NotBoolean {
        /// The field.
        name: String,
    },
    /// The run is no run context.
    #[error(transparent)]
    Run(#[from] RunContextError),
    /// A field or variable is not known here, and unknown ones are refused.
    #[error("the snapshot has {name:?}, which is not known here; read it with Unknown::Keep, or update the reader")]
    Unknown {
        /// The field or variable.
        name: String,
    },
}

/// A session cannot be put into a header, or the header is none of ours. Nothing was changed.
///
/// The messages name variables, never values.
///
/// ```
/// use hermes_env_bridge::{CarrierError, Snapshot};
///
/// let error = Snapshot::from_header("HERMES_SESSION_KEY=%zz").unwrap_err();
/// assert_eq!(error, CarrierError::NotEncoded { name: "HERMES_SESSION_KEY".to_owned() });
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CarrierError {
    /// The header is larger than what is sent and taken.
    #[error("the session header has {size} bytes, and the limit is {limit}; send the session in the job's own data")]
    TooLarge {
        /// The size of the header, in bytes.
        size: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The header is there more than once, so it cannot be told whose session it is.
    #[error("the session header is there more than once; send one")]
    Twice,
    /// An entry of the header has no name that can be read.
    #[error("an entry of the session header is not NAME=VALUE, percent-encoded; write it with inject")]
    NoName,
    /// An entry's value is not percent-encoded UTF-8.
    #[error("the value of {name:?} in the session header is not percent-encoded UTF-8; write it with inject")]
    NotEncoded {
        /// The variable.
        name: String,
    },
    /// The carrier takes no header of that name, or no such value.
    #[error("{name:?} or its value cannot be a header here; give a name and a value of visible ASCII")]
    NotAHeader {
        /// The name of the header.
        name: String,
    },
    /// The entries are no snapshot.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// A run context that cannot be. Nothing was entered.
///
/// A field goes by its name in JSON. The messages name fields, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunContextError {
    /// The input is not the JSON of an object.
    #[error("not the JSON of a run context: {reason}; OmniusRunContext::to_json writes it")]
    Malformed {
        /// What is wrong, and where.
        reason: String,
    },
    /// A field is missing that every run has.
    #[error("the run context has no {field}; state it")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field is there twice, so that one of the two would be lost.
    #[error("the run context has {field} twice; leave one of them out")]
    Twice {
        /// The field.
        field: String,
    },
    /// A text is empty.
    #[error("{field} of the run context is empty; state it, or leave it out if it is optional")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// A text has a NUL in it, which no environment variable can hold.
    #[error("{field} of the run context has a NUL in it; take it out")]
    Nul {
        /// The field.
        field: &'static str,
    },
    /// A field that is a text is none.
    #[error("{field} of the run context is no text; give a string of Unicode characters")]
    NotText {
        /// The field.
        field: &'static str,
    },
    /// A field that is an object is none.
    #[error("{field} of the run context is no object")]
    NotAnObject {
        /// The field.
        field: &'static str,
    },
    /// A field that is one of some names is none of them.
    #[error("{field} of the run context is none of {names}")]
    NoneOf {
        /// The field.
        field: &'static str,
        /// What it can be.
        names: &'static str,
    },
    /// An id is no integer of 64 bits.
    #[error("{field} of the run context is no id; give an integer of 64 bits, or its decimal text")]
    NotAnId {
        /// The field.
        field: &'static str,
    },
    /// An id is a number that JavaScript may have rounded.
    #[error("{field} of the run context is a number beyond 2^53 - 1, which JavaScript rounds; give its decimal text")]
    NotExact {
        /// The field.
        field: &'static str,
    },
}

/// A run context is needed where none is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{caller} needs a run context, and none is entered here; enter one where the run starts, with \
     run_with_omnius_context or an adapter of hermes_env_bridge::entry, and start its tasks with \
     hermes_env_bridge::spawn and its callbacks with bind, since plain tokio::spawn hands nothing on"
)]
pub struct NoRunContext {
    /// Where it is needed.
    pub caller: &'static Location<'static>,
}
