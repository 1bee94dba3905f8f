//! The Telegram part of a run context.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::field::{Id, Text};
use crate::error::RunContextError;
use crate::json::RawFields;

/// The message for which a run works: its chat, thread and user, as plain data.
///
/// The message itself is not in here: it changes and is large, and a run's record does neither.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TelegramRunContext {
    pub(super) chat_id: ChatId,
    pub(super) chat_type: ChatType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_id: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread_id: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) username: Option<Text>,
    pub(super) session_key: Text,
    pub(super) tool_context: Text,
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(super) unknown: RawFields,
}

impl TelegramRunContext {
    /// Starts a description with what every chat has: its id and kind, the key under which the host keeps its session,
    /// and the context in which tools work there.
    pub fn builder(
        chat_id: impl Into<ChatId>,
        chat_type: ChatType,
        session_key: impl Into<String>,
        tool_context: impl Into<String>,
    ) -> TelegramRunContextBuilder {
        TelegramRunContextBuilder {
            chat_id: chat_id.into(),
            chat_type,
            message_id: None,
            thread_id: None,
            user_id: None,
            username: None,
            session_key: session_key.into(),
            tool_context: tool_context.into(),
            unknown: RawFields::default(),
        }
    }

    /// A description that starts as this one, with the fields that are not known here.
    pub fn to_builder(&self) -> TelegramRunContextBuilder {
        TelegramRunContextBuilder {
            chat_id: self.chat_id.clone(),
            chat_type: self.chat_type,
            message_id: self.message_id(),
            thread_id: self.thread_id(),
            user_id: self.user_id(),
            username: self.username().map(str::to_owned),
            session_key: self.session_key().to_owned(),
            tool_context: self.tool_context().to_owned(),
            unknown: self.unknown.clone(),
        }
    }

    /// The same record with the fields of another one that are not known here.
    #[cfg(feature = "python")]
    pub(crate) fn keeping_unknown(self, of: &Self) -> Self {
        Self { unknown: of.unknown.clone(), ..self }
    }

    /// The chat.
    #[must_use]
    pub fn chat_id(&self) -> &ChatId {
        &self.chat_id
    }

    /// The kind of chat.
    #[must_use]
    pub fn chat_type(&self) -> ChatType {
        self.chat_type
    }

    /// The message that started the run, to reply to.
    #[must_use]
    pub fn message_id(&self) -> Option<i64> {
        self.message_id.map(|id| id.0)
    }

    /// The topic in the chat.
    #[must_use]
    pub fn thread_id(&self) -> Option<i64> {
        self.thread_id.map(|id| id.0)
    }

    /// The user who wrote the message.
    #[must_use]
    pub fn user_id(&self) -> Option<i64> {
        self.user_id.map(|id| id.0)
    }

    /// The user's name.
    #[must_use]
    pub fn username(&self) -> Option<&str> {
        self.username.as_ref().map(Text::as_str)
    }

    /// The key under which the host keeps the chat's session.
    #[must_use]
    pub fn session_key(&self) -> &str {
        self.session_key.as_str()
    }

    /// The host's name for the context in which tools work in this chat. It says which tools are meant, and permits
    /// none.
    #[must_use]
    pub fn tool_context(&self) -> &str {
        self.tool_context.as_str()
    }
}

/// Ids and texts may be secrets: the kind of chat, and the names of what is stated.
impl fmt::Debug for TelegramRunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TelegramRunContext");
        let _ = shown.field("chat_type", &self.chat_type);
        for (name, stated) in [
            ("message_id", self.message_id.is_some()),
            ("thread_id", self.thread_id.is_some()),
            ("user_id", self.user_id.is_some()),
            ("username", self.username.is_some()),
        ] {
            if stated {
                let _ = shown.field(name, &format_args!("_"));
            }
        }
        shown.finish_non_exhaustive()
    }
}

/// Describes a [`TelegramRunContext`]; [`build`](Self::build) checks it.
#[derive(Clone)]
#[must_use = "a description does nothing until it is built"]
pub struct TelegramRunContextBuilder {
    chat_id: ChatId,
    chat_type: ChatType,
    message_id: Option<i64>,
    thread_id: Option<i64>,
    user_id: Option<i64>,
    username: Option<String>,
    session_key: String,
    tool_context: String,
    pub(super) unknown: RawFields,
}

impl TelegramRunContextBuilder {
    /// States the message that started the run, or with `None` that there is none.
    pub fn message_id(self, id: impl Into<Option<i64>>) -> Self {
        Self { message_id: id.into(), ..self }
    }

    /// States the topic in the chat, or that there is none.
    pub fn thread_id(self, id: impl Into<Option<i64>>) -> Self {
        Self { thread_id: id.into(), ..self }
    }

    /// States the user who wrote the message, or that there is none.
    pub fn user_id(self, id: impl Into<Option<i64>>) -> Self {
        Self { user_id: id.into(), ..self }
    }

    /// States the user's name.
    pub fn username(self, name: impl Into<String>) -> Self {
        Self { username: Some(name.into()), ..self }
    }

    /// The record.
    ///
    /// # Errors
    ///
    /// [`RunContextError`] if a text is empty or has a NUL; it names the field.
    pub fn build(self) -> Result<TelegramRunContext, RunContextError> {
        Ok(TelegramRunContext {
            chat_id: self.chat_id,
            chat_type: self.chat_type,
            message_id: self.message_id.map(Id),
            thread_id: self.thread_id.map(Id),
            user_id: self.user_id.map(Id),
            username: Text::stated("telegram.username", self.username.as_deref())?,
            session_key: Text::new("telegram.sessionKey", &self.session_key)?,
            tool_context: Text::new("telegram.toolContext", &self.tool_context)?,
            unknown: self.unknown,
        })
    }
}

impl fmt::Debug for TelegramRunContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelegramRunContextBuilder").finish_non_exhaustive()
    }
}

/// The id of a chat: a number, or a text such as a channel's `@name`.
///
/// ```
/// use hermes_env_bridge::ChatId;
///
/// # fn main() -> Result<(), hermes_env_bridge::RunContextError> {
/// assert_eq!(ChatId::from(-42).as_number(), Some(-42));
/// assert_eq!("@news".parse::<ChatId>()?.to_string(), "@news");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(description = "A number, or a text such as a channel's @name."))]
#[serde(transparent)]
pub struct ChatId(ChatIdForm);

#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged)]
enum ChatIdForm {
    Number(Id),
    /// Not the decimal text of an id that JSON has as a text: that one is a number.
    Text(Text),
}

impl ChatId {
    /// The number, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<i64> {
        match &self.0 {
            ChatIdForm::Number(id) => Some(id.0),
            ChatIdForm::Text(_) => None,
        }
    }

    /// The id that a host which has texts alone means by `text`: the number, where it is one in decimal.
    pub(super) fn from_host(text: &str) -> Result<Self, RunContextError> {
        Id::from_decimal(text).map_or_else(|| text.parse(), |id| Ok(Self(ChatIdForm::Number(id))))
    }
}

impl From<i64> for ChatId {
    fn from(id: i64) -> Self {
        Self(ChatIdForm::Number(Id(id)))
    }
}

/// A text stays one, `"42"` too. The decimal text of a number beyond 2^53 - 1 is that number, since JSON has it as a
/// text.
impl FromStr for ChatId {
    type Err = RunContextError;

    fn from_str(text: &str) -> Result<Self, RunContextError> {
        match Id::from_decimal(text) {
            Some(id) if !id.is_safe() => Ok(Self(ChatIdForm::Number(id))),
            _ => Text::new("telegram.chatId", text).map(|text| Self(ChatIdForm::Text(text))),
        }
    }
}

impl fmt::Display for ChatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ChatIdForm::Number(id) => id.fmt(f),
            ChatIdForm::Text(text) => f.write_str(text.as_str()),
        }
    }
}

/// A chat may be a secret: which kind of id it is.
impl fmt::Debug for ChatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.as_number().is_some() { "ChatId(number)" } else { "ChatId(text)" })
    }
}

/// The kind of a Telegram chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChatType {
    /// One user and the bot.
    Private,
    /// A basic group.
    Group,
    /// A supergroup, with topics or without.
    Supergroup,
    /// A channel.
    Channel,
}

impl ChatType {
    pub(super) const ALL: [Self; 4] = [Self::Private, Self::Group, Self::Supergroup, Self::Channel];

    /// The name in JSON, such as `private`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Group => "group",
            Self::Supergroup => "supergroup",
            Self::Channel => "channel",
        }
    }
}

impl FromStr for ChatType {
    type Err = RunContextError;

    fn from_str(name: &str) -> Result<Self, RunContextError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or(RunContextError::NoneOf { field: "telegram.chatType", names: "private, group, supergroup, channel" })
    }
}
