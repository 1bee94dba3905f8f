//! The names whose values are decided anew for each child.

use std::ffi::OsStr;

use super::platform::Platform;
use crate::context::Context;
use crate::names::{BOARD_TASK, VARIABLES};

/// What makes a process the worker that has claimed a card of Hermes' board. Where the board lies is no claim.
const CLAIMS: [&str; 5] = [
    BOARD_TASK,
    "HERMES_KANBAN_RUN_ID",
    "HERMES_KANBAN_CLAIM_LOCK",
    "HERMES_KANBAN_GOAL_MODE",
    "HERMES_KANBAN_GOAL_MAX_TURNS",
];

/// All that a claim says of its goal starts so, whatever a later version adds.
const GOAL: &[u8] = b"HERMES_KANBAN_GOAL_";

/// Hermes' own mark of a process that works for a worker or a delegated child and is none itself.
pub(crate) const DESCENT: &str = "HERMES_DELEGATED_CHILD_CONTEXT";

/// The names that this crate decides for each child: the session variables, a board worker's claim, and the mark of a
/// descendant. What is saved of one child's environment (a shell's state, a configuration) must leave them out.
///
/// ```
/// let owned: Vec<_> = hermes_env_bridge::owned_names().collect();
/// assert!(owned.contains(&"HERMES_UI_SESSION_ID") && owned.contains(&"HERMES_KANBAN_TASK"));
/// assert!(!owned.contains(&"HERMES_KANBAN_DB"));
/// ```
pub fn owned_names() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().map(|variable| variable.name).chain(CLAIMS).chain([DESCENT])
}

/// Whether `name` is one of the [`owned_names`], or one of a later version's claim.
#[must_use]
pub fn owns(name: impl AsRef<OsStr>) -> bool {
    is_owned(Platform::HOST, name.as_ref())
}

pub(crate) fn is_owned(platform: Platform, name: &OsStr) -> bool {
    is_session(platform, name) || is_claim(platform, name) || is_descent(platform, name)
}

/// Name and value of each session variable that this task has bound, cleared ones included: what its children get, as
/// a table to hand on where a child's environment is a fixed one (a container's, an MCP server's, SSH's).
///
/// ```
/// use hermes_env_bridge::{Session, bridged_pairs};
///
/// assert!(bridged_pairs().is_empty());
/// let pairs = Session::new().chat_id("42").sync_scope(bridged_pairs);
/// assert!(pairs.contains(&("HERMES_SESSION_CHAT_ID", "42".to_owned())));
/// assert!(pairs.contains(&("HERMES_SESSION_USER_ID", String::new())));
/// ```
#[must_use]
pub fn bridged_pairs() -> Vec<(&'static str, String)> {
    let context = Context::current();
    let bound = context.session().iter().filter_map(|(name, state)| Some((name, state.as_bound()?.to_owned())));
    bound.collect()
}

/// Whether `name` is a session variable of the crate's own table.
pub(crate) fn is_session(platform: Platform, name: &OsStr) -> bool {
    let name = platform.fold(name);
    VARIABLES.iter().any(|variable| name == OsStr::new(variable.name))
}

pub(crate) fn is_claim(platform: Platform, name: &OsStr) -> bool {
    let name = platform.fold(name);
    CLAIMS.iter().any(|claim| name == OsStr::new(claim)) || name.as_encoded_bytes().starts_with(GOAL)
}

pub(crate) fn is_descent(platform: Platform, name: &OsStr) -> bool {
    platform.fold(name) == OsStr::new(DESCENT)
}
