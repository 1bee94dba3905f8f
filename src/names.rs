//! The one table of session variables.

/// Which verbs touch a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// Part of the session's identity: bound, cleared and reset.
    Session,
    /// Where a scheduled job delivers, set by the job itself: a bind and a clear leave it alone, a reset does not.
    CronDelivery,
}

/// One session variable.
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

    const fn cron_delivery(name: &'static str) -> Self {
        Self { name, keyword: None, group: Group::CronDelivery, optional: true }
    }
}

/// The session variables of Hermes Agent, in its order.
///
/// Whether a completion can be delivered later is not among them: it is a capability, not a string that a child gets
/// ([`async_delivery_supported`](crate::async_delivery_supported)).
pub const VARIABLES: [Variable; 22] = [
    Variable::session("HERMES_SESSION_PLATFORM", "platform"),
    Variable::session("HERMES_SESSION_SOURCE", "source"),
    Variable::session("HERMES_SESSION_CHAT_ID", "chat_id"),
    Variable::session("HERMES_SESSION_CHAT_TYPE", "chat_type"),
    Variable::session("HERMES_SESSION_CHAT_NAME", "chat_name"),
    Variable::session("HERMES_SESSION_THREAD_ID", "thread_id"),
    Variable::session("HERMES_SESSION_USER_ID", "user_id"),
    Variable::session("HERMES_SESSION_USER_ID_ALT", "user_id_alt"),
    Variable::session("HERMES_SESSION_USER_NAME", "user_name"),
    Variable::session("HERMES_SESSION_SCOPE_ID", "scope_id"),
    Variable::session("HERMES_SESSION_KEY", "session_key"),
    Variable::session(SESSION_ID, "session_id"),
    Variable::session("HERMES_UI_SESSION_ID", "ui_session_id"),
    Variable::session("HERMES_SESSION_MESSAGE_ID", "message_id"),
    Variable::session("HERMES_SESSION_PROFILE", "profile"),
    Variable::session("HERMES_BROWSER_CONTROL_PRINCIPAL", "browser_control_principal"),
    Variable::session("HERMES_BROWSER_CONTROL_TRANSPORT_FAMILY", "browser_control_transport_family"),
    Variable::optional("HERMES_CRON_SESSION", "cron_session"),
    Variable::session("HERMES_SESSION_PARENT_CHAT_ID", "parent_chat_id"),
    Variable::cron_delivery("HERMES_CRON_AUTO_DELIVER_PLATFORM"),
    Variable::cron_delivery("HERMES_CRON_AUTO_DELIVER_CHAT_ID"),
    Variable::cron_delivery("HERMES_CRON_AUTO_DELIVER_THREAD_ID"),
];

/// The durable id of the conversation.
pub(crate) const SESSION_ID: &str = "HERMES_SESSION_ID";

/// The variable that holds whether a completion can be delivered later. Python sees it by this name; no child gets it.
#[cfg(feature = "python")]
pub(crate) const ASYNC_DELIVERY: &str = "HERMES_SESSION_ASYNC_DELIVERY";

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
