//! The one table of session variables.

/// Which verbs touch a variable.
///
/// ```
/// use hermes_env_bridge::{Group, VARIABLES};
///
/// let delivery = VARIABLES.iter().filter(|variable| variable.group == Group::CronDelivery);
/// assert!(delivery.map(|variable| variable.name).all(|name| name.starts_with("HERMES_CRON_AUTO_DELIVER_")));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// Part of the session's identity: bound, cleared and reset.
    Session,
    /// Where a scheduled job delivers, set by the job itself: a bind and a clear leave it alone, a reset does not.
    CronDelivery,
}

/// One session variable.
///
/// ```
/// use hermes_env_bridge::{Group, VARIABLES, Variable};
///
/// let chat = VARIABLES.iter().copied().find(|variable| variable.name == "HERMES_SESSION_CHAT_ID");
/// let keyword = Some("chat_id");
/// let expected = Variable { name: "HERMES_SESSION_CHAT_ID", keyword, group: Group::Session, optional: false };
/// assert_eq!(chat, Some(expected));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variable {
    /// The name under which it is read, and under which a child process gets it.
    pub name: &'static str,
    /// The keyword of `set_session_vars` that binds it, if there is one.
    pub keyword: Option<&'static str>,
    /// Which verbs touch it.
    pub group: Group,
    /// True if a bind that is not given the keyword leaves the variable unset instead of clearing it.
    pub optional: bool,
}

impl Variable {
    const fn session(name: &'static str, keyword: &'static str) -> Self {
        Self { name, keyword: Some(keyword), group: Group::Session, optional: false }
    }

    const fn optional(name: &'static str, keyword: &'static str) -> Self {
        Self { optional: true, ..Self::session(name, keyword) }
    }

    const fn cron_delivery(name: &'static str, _: &'static str) -> Self {
        Self { name, keyword: None, group: Group::CronDelivery, optional: true }
    }
}

/// The table: the kind of each variable, what Rust calls it, its environment name, and what it is. Given to a macro, so
/// that whatever has an item for each variable is made from this one list.
macro_rules! each_variable {
    ($visit:ident) => {
        $visit! {
            session platform "HERMES_SESSION_PLATFORM" "the surface on which the session talks, such as `telegram`";
            session source "HERMES_SESSION_SOURCE" "what started the session where there is no platform, such as `tui`";
            session chat_id "HERMES_SESSION_CHAT_ID" "the chat";
            session chat_type "HERMES_SESSION_CHAT_TYPE" "the kind of chat, such as `group`";
            session chat_name "HERMES_SESSION_CHAT_NAME" "the chat's display name";
            session thread_id "HERMES_SESSION_THREAD_ID" "the thread or topic in the chat";
            session user_id "HERMES_SESSION_USER_ID" "the user who talks";
            session user_id_alt "HERMES_SESSION_USER_ID_ALT" "the same user's other id, where the platform has two";
            session user_name "HERMES_SESSION_USER_NAME" "the user's display name";
            session scope_id "HERMES_SESSION_SCOPE_ID" "the guild, workspace or server that the chat belongs to";
            session session_key "HERMES_SESSION_KEY" "the key under which the host keeps the session";
            session session_id "HERMES_SESSION_ID" "the durable id of the conversation";
            session ui_session_id "HERMES_UI_SESSION_ID" "the tab or window that is open on the session";
            session message_id "HERMES_SESSION_MESSAGE_ID" "the message that started the turn, to reply to";
            session profile "HERMES_SESSION_PROFILE" "the profile in which the session runs";
            session browser_control_principal "HERMES_BROWSER_CONTROL_PRINCIPAL" "on whose behalf a browser is driven";
            session browser_control_transport_family "HERMES_BROWSER_CONTROL_TRANSPORT_FAMILY" "how that browser is reached";
            optional cron_session "HERMES_CRON_SESSION"
                "`1` for a scheduled run, empty for one that is not and masks the environment";
            session parent_chat_id "HERMES_SESSION_PARENT_CHAT_ID" "the chat in which the thread was opened";
            cron_delivery cron_auto_deliver_platform "HERMES_CRON_AUTO_DELIVER_PLATFORM"
                "the platform to which a scheduled job delivers";
            cron_delivery cron_auto_deliver_chat_id "HERMES_CRON_AUTO_DELIVER_CHAT_ID"
                "the chat to which a scheduled job delivers";
            cron_delivery cron_auto_deliver_thread_id "HERMES_CRON_AUTO_DELIVER_THREAD_ID"
                "the thread to which a scheduled job delivers";
        }
    };
}
pub(crate) use each_variable;

macro_rules! table {
    ($($kind:ident $field:ident $name:literal $doc:literal;)+) => {
        /// The session variables of Hermes Agent, in its order.
        ///
        /// Whether a completion can be delivered later is not among them: it is a capability, not a string that a
        /// child gets ([`async_delivery_supported`](crate::async_delivery_supported)).
        ///
        /// ```
        /// use hermes_env_bridge::VARIABLES;
        ///
        /// assert_eq!(VARIABLES[0].name, "HERMES_SESSION_PLATFORM");
        /// ```
        pub const VARIABLES: &[Variable] = &[$(Variable::$kind($name, stringify!($field))),+];
    };
}
each_variable!(table);

/// The position of the variable with this environment name. For constants: a name that is not in the table does not
/// compile.
pub(crate) const fn position(name: &str) -> usize {
    let mut at = 0;
    while !is_same(VARIABLES[at].name.as_bytes(), name.as_bytes()) {
        at += 1;
    }
    at
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Whether a completion can be delivered later, where it is a variable beside the others: in Python, and in a mapping.
/// No child gets it.
pub(crate) const ASYNC_DELIVERY: &str = "HERMES_SESSION_ASYNC_DELIVERY";

/// The session's working directory, where it is a variable beside the others: in Python, and in a mapping. No child gets
/// it.
pub(crate) const SESSION_CWD: &str = "HERMES_SESSION_CWD";

/// The JSON of the run context, where it is a variable beside the others: in a mapping.
pub(crate) const RUN_CONTEXT: &str = "OMNIUS_RUN_CONTEXT";

/// The working directory that the whole process states; the session's own goes before it.
pub(crate) const PROCESS_CWD: &str = "TERMINAL_CWD";

/// Present and not empty in a board worker, whose parent is gone when its turn ends.
pub(crate) const BOARD_TASK: &str = "HERMES_KANBAN_TASK";

/// A surface that the whole process states; it stands in for the session's platform.
pub(crate) const PROCESS_PLATFORM: &str = "HERMES_PLATFORM";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_and_keyword_stands_once() {
        let names: HashSet<_> = VARIABLES.iter().map(|variable| variable.name).collect();
        let keywords: HashSet<_> = VARIABLES.iter().filter_map(|variable| variable.keyword).collect();
        assert_eq!(names.len(), VARIABLES.len());
        assert_eq!(keywords.len(), VARIABLES.iter().filter(|variable| variable.keyword.is_some()).count());
    }

    #[test]
    fn only_session_variables_have_a_keyword() {
        for variable in VARIABLES {
            assert_eq!(variable.keyword.is_some(), variable.group == Group::Session, "{}", variable.name);
        }
    }
}
