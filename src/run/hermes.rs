//! A run in Hermes' session variables, and the other way round.

use super::field::Id;
use super::record::{OmniusRunContext, Surface};
use super::telegram::{ChatId, ChatType, TelegramRunContext};
use crate::error::RunContextError;
use crate::session::Session;
use crate::state::SessionState;

/// Telegram's ids of supergroups and channels are at most this, those of basic groups are above.
const SUPERGROUP: i64 = -1_000_000_000_000;

/// What Hermes calls the surface of an API request.
const API: &str = "api_server";

impl OmniusRunContext {
    /// The session of Hermes that corresponds to this run. What a run does not have is cleared.
    ///
    /// | run | session |
    /// |-----|---------|
    /// | surface `telegram`, or any with a chat | platform `telegram` |
    /// | surface `api` | platform `api_server`, with a chat source `api_server`; no async delivery |
    /// | surface `tui` | source `tui` |
    /// | surface `scheduler` | cron session `1`; no async delivery |
    /// | surface `background` | with a chat source `background` |
    /// | project root | working directory |
    /// | chat id, message id, thread id, user id | the same, as texts |
    /// | chat type `private`, `group`, `supergroup`, `channel` | chat type `dm`, `group`, `group` (`forum` in a topic), `channel` |
    /// | username | user name |
    /// | session key | session key |
    /// | run id, owner, tool context | nothing |
    ///
    /// ```
    /// use hermes_env_bridge::{OmniusRunContext, Surface, get_session_env, run_with_omnius_context_sync};
    ///
    /// # fn main() -> Result<(), hermes_env_bridge::RunContextError> {
    /// let run = OmniusRunContext::builder("run-1", Surface::Tui).build()?;
    /// let session = run.to_session();
    /// let source = run_with_omnius_context_sync(run, || {
    ///     session.sync_scope(|| get_session_env("HERMES_SESSION_SOURCE", "none"))
    /// });
    /// assert_eq!(source, "tui");
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_session(&self) -> Session {
        let session = self
            .hermes_variables()
            .into_iter()
            .fold(Session::new(), |session, (keyword, value)| session.with(keyword, &value))
            .async_delivery(self.has_async_delivery());
        match self.project_root() {
            Some(root) => session.cwd(root),
            None => session,
        }
    }

    /// The keywords of Hermes' `set_session_vars` that correspond to this run, beside `cwd` and `async_delivery`.
    pub(crate) fn hermes_variables(&self) -> Vec<(&'static str, String)> {
        let chat = self.telegram();
        let platform = match self.surface() {
            Surface::Telegram => "telegram",
            _ if chat.is_some() => "telegram",
            Surface::Api => API,
            Surface::Tui | Surface::Scheduler | Surface::Background => "",
        };
        // What the platform, or the flag of a scheduled job, does not say.
        let source = match self.surface() {
            Surface::Tui => "tui",
            Surface::Api if chat.is_some() => API,
            Surface::Background if chat.is_some() => "background",
            _ => "",
        };
        let cron = if self.surface() == Surface::Scheduler { "1" } else { "" };
        let mut variables =
            vec![("platform", platform.to_owned()), ("source", source.to_owned()), ("cron_session", cron.to_owned())];
        if let Some(chat) = chat {
            let id = |id: Option<i64>| id.map_or_else(String::new, |id| id.to_string());
            variables.extend([
                ("chat_id", chat.chat_id().to_string()),
                ("chat_type", hermes_chat_type(chat).to_owned()),
                ("message_id", id(chat.message_id())),
                ("thread_id", id(chat.thread_id())),
                ("user_id", id(chat.user_id())),
                ("user_name", chat.username().unwrap_or_default().to_owned()),
                ("session_key", chat.session_key().to_owned()),
            ]);
        }
        variables
    }

    /// Whether Hermes can deliver a completion after the run: it cannot to a request, nor to a scheduled job.
    pub(crate) fn has_async_delivery(&self) -> bool {
        !matches!(self.surface(), Surface::Api | Surface::Scheduler)
    }

    /// The run that corresponds to a session of Hermes; the table of [`to_session`](Self::to_session), read backwards.
    ///
    /// `run_id`, and where there is a chat `tool_context`, are what Hermes does not have. A chat id in decimal is a
    /// number. A chat of type `group` with the id of a supergroup is one.
    ///
    /// # Errors
    ///
    /// [`RunContextError`] if nothing is bound, if the session is on a surface that no run has, or if an id, the chat
    /// type or the session key of a chat is not there or not Telegram's.
    pub fn from_session(session: &SessionState, run_id: &str, tool_context: &str) -> Result<Self, RunContextError> {
        Self::from_hermes_variables(
            |name| session.get(name).as_bound().map(str::to_owned),
            session.cwd(),
            run_id,
            tool_context,
        )
    }

    /// As [`from_session`](Self::from_session), with a look-up of what is bound by environment name.
    pub(crate) fn from_hermes_variables(
        bound: impl Fn(&str) -> Option<String>,
        cwd: Option<&str>,
        run_id: &str,
        tool_context: &str,
    ) -> Result<Self, RunContextError> {
        let stated = |name: &str| bound(name).filter(|value| !value.is_empty());
        if bound("HERMES_SESSION_PLATFORM").or_else(|| bound("HERMES_SESSION_SOURCE")).is_none() {
            return Err(RunContextError::Missing { field: "surface" });
        }
        let platform = stated("HERMES_SESSION_PLATFORM").unwrap_or_default();
        let source = stated("HERMES_SESSION_SOURCE").unwrap_or_default();
        let surface = match (bound("HERMES_CRON_SESSION").as_deref(), source.as_str(), platform.as_str()) {
            (Some("1"), "", "" | "telegram") => Surface::Scheduler,
            (_, "", "telegram") => Surface::Telegram,
            (_, "", API) | (_, API, "telegram") => Surface::Api,
            (_, "tui", "" | "telegram") => Surface::Tui,
            (_, "", "") | (_, "background", "telegram") => Surface::Background,
            _ => {
                return Err(RunContextError::NoneOf {
                    field: "surface",
                    names: "the platforms telegram and api_server, the source tui, and a scheduled job",
                });
            }
        };
        let mut run = Self::builder(run_id, surface);
        if let Some(root) = cwd {
            run = run.project_root(root);
        }
        if let (Some(chat), "telegram") = (stated("HERMES_SESSION_CHAT_ID"), platform.as_str()) {
            run = run.telegram(chat_from_hermes(&chat, stated, tool_context)?);
        }
        run.build()
    }
}

fn hermes_chat_type(chat: &TelegramRunContext) -> &'static str {
    match chat.chat_type() {
        ChatType::Private => "dm",
        ChatType::Supergroup if chat.thread_id().is_some() => "forum",
        ChatType::Group | ChatType::Supergroup => "group",
        ChatType::Channel => "channel",
    }
}

fn chat_from_hermes(
    chat: &str,
    stated: impl Fn(&str) -> Option<String>,
    tool_context: &str,
) -> Result<TelegramRunContext, RunContextError> {
    let chat = ChatId::from_host(chat)?;
    let supergroup = chat.as_number().is_some_and(|id| id <= SUPERGROUP);
    let field = "telegram.chatType";
    let kind = match stated("HERMES_SESSION_CHAT_TYPE").ok_or(RunContextError::Missing { field })?.as_str() {
        "dm" => ChatType::Private,
        "group" if supergroup => ChatType::Supergroup,
        "group" => ChatType::Group,
        "forum" => ChatType::Supergroup,
        "channel" => ChatType::Channel,
        _ => return Err(RunContextError::NoneOf { field, names: "dm, group, forum, channel" }),
    };
    let key = stated("HERMES_SESSION_KEY").ok_or(RunContextError::Missing { field: "telegram.sessionKey" })?;
    let id = |name: &str, field| {
        let decimal = |text: String| Id::from_decimal(&text).map(|id| id.0).ok_or(RunContextError::NotAnId { field });
        stated(name).map(decimal).transpose()
    };
    let description = TelegramRunContext::builder(chat, kind, key, tool_context)
        .message_id(id("HERMES_SESSION_MESSAGE_ID", "telegram.messageId")?)
        .thread_id(id("HERMES_SESSION_THREAD_ID", "telegram.threadId")?)
        .user_id(id("HERMES_SESSION_USER_ID", "telegram.userId")?);
    match stated("HERMES_SESSION_USER_NAME") {
        Some(name) => description.username(name).build(),
        None => description.build(),
    }
}
