//! The JSON of a run context, as a TypeScript program writes and reads it.

use serde::de::{self, Deserialize, Deserializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::field::Id;
use super::record::OmniusRunContext;
use super::telegram::{ChatId, TelegramRunContext};
use crate::error::RunContextError;
use crate::json::RawFields;

impl OmniusRunContext {
    /// The record as `JSON.stringify` writes it: on one line, in the order of the type's fields, without what is not
    /// stated. Fields that are not known here come after those that are, in the order and the form in which they were
    /// read. An id beyond 2^53 - 1 is a decimal text.
    ///
    /// # Panics
    ///
    /// Never: a record is texts and numbers, which JSON can write.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a record is texts and numbers")
    }

    /// Reads the record that a program has written, in any order of its fields. Fields that are not known here are kept.
    ///
    /// # Errors
    ///
    /// [`RunContextError`], which names the field and has no values.
    ///
    /// ```
    /// use hermes_env_bridge::{OmniusRunContext, RunContextError};
    ///
    /// # fn main() -> Result<(), RunContextError> {
    /// let json = r#"{"runId":"run-1","surface":"api","ownerKind":"user","ownerId":"u7","traceId":"t"}"#;
    /// assert_eq!(OmniusRunContext::from_json(json)?.to_json(), json);
    ///
    /// let error = OmniusRunContext::from_json(r#"{"runId":"","surface":"api"}"#).unwrap_err();
    /// assert_eq!(error, RunContextError::Empty { field: "runId" });
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_json(json: &str) -> Result<Self, RunContextError> {
        Self::from_fields(serde_json::from_str(json).map_err(|error| malformed(&error))?)
    }

    fn from_fields(mut fields: Fields) -> Result<Self, RunContextError> {
        fields.refuse_twice("")?;
        let mut run = Self::builder(
            fields.required_text("runId", "runId")?,
            fields.required_text("surface", "surface")?.parse()?,
        );
        if let Some(path) = fields.text("projectRoot", "projectRoot")? {
            run = run.project_root(path);
        }
        if let Some(kind) = fields.text("ownerKind", "ownerKind")? {
            run = run.owner_kind(kind);
        }
        if let Some(id) = fields.text("ownerId", "ownerId")? {
            run = run.owner_id(id);
        }
        if let Some(telegram) = fields.take("telegram") {
            let telegram =
                serde_json::from_str(telegram.get()).map_err(|_| RunContextError::NotAnObject { field: "telegram" })?;
            run = run.telegram(TelegramRunContext::from_fields(telegram)?);
        }
        run.unknown = fields.0;
        run.build()
    }
}

impl TelegramRunContext {
    /// The record as `JSON.stringify` writes it; see [`OmniusRunContext::to_json`].
    ///
    /// # Panics
    ///
    /// Never: a record is texts and numbers, which JSON can write.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a record is texts and numbers")
    }

    /// Reads the record that a program has written; see [`OmniusRunContext::from_json`].
    ///
    /// # Errors
    ///
    /// [`RunContextError`], which names the field and has no values.
    pub fn from_json(json: &str) -> Result<Self, RunContextError> {
        Self::from_fields(serde_json::from_str(json).map_err(|error| malformed(&error))?)
    }

    fn from_fields(mut fields: Fields) -> Result<Self, RunContextError> {
        fields.refuse_twice("telegram.")?;
        let mut chat = Self::builder(
            fields.chat_id()?,
            fields.required_text("chatType", "telegram.chatType")?.parse()?,
            fields.required_text("sessionKey", "telegram.sessionKey")?,
            fields.required_text("toolContext", "telegram.toolContext")?,
        )
        .message_id(fields.id("messageId", "telegram.messageId")?)
        .thread_id(fields.id("threadId", "telegram.threadId")?)
        .user_id(fields.id("userId", "telegram.userId")?);
        if let Some(name) = fields.text("username", "telegram.username")? {
            chat = chat.username(name);
        }
        chat.unknown = fields.0;
        chat.build()
    }
}

/// What is wrong with the JSON, without what it holds: serde's own messages quote it before the word "expected".
fn malformed(error: &serde_json::Error) -> RunContextError {
    let reason = match error.classify() {
        serde_json::error::Category::Data => "it is no object".to_owned(),
        _ => error.to_string(),
    };
    RunContextError::Malformed { reason }
}

/// What is not read yet.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Fields(RawFields);

impl Fields {
    fn refuse_twice(&self, path: &str) -> Result<(), RunContextError> {
        let twice = |name| Err(RunContextError::Twice { field: format!("{path}{name}") });
        self.0.twice().map_or(Ok(()), twice)
    }

    /// The field, `None` if it is not there or `null`.
    fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        self.0.take(name).filter(|raw| raw.get() != "null")
    }

    fn text(&mut self, name: &str, field: &'static str) -> Result<Option<String>, RunContextError> {
        // What a JavaScript text can hold and no other can, half a surrogate pair, is no text either.
        let text = |raw: Box<RawValue>| serde_json::from_str(raw.get()).map_err(|_| RunContextError::NotText { field });
        self.take(name).map(text).transpose()
    }

    fn required_text(&mut self, name: &str, field: &'static str) -> Result<String, RunContextError> {
        self.text(name, field)?.ok_or(RunContextError::Missing { field })
    }

    fn id(&mut self, name: &str, field: &'static str) -> Result<Option<i64>, RunContextError> {
        self.take(name)
            .map(|raw| match serde_json::from_str(raw.get()) {
                Ok(Json::Number(number)) => number_id(&number, field),
                Ok(Json::String(text)) => {
                    Id::from_decimal(&text).map(|id| id.0).ok_or(RunContextError::NotAnId { field })
                }
                _ => Err(RunContextError::NotAnId { field }),
            })
            .transpose()
    }

    fn chat_id(&mut self) -> Result<ChatId, RunContextError> {
        let field = "telegram.chatId";
        let raw = self.take("chatId").ok_or(RunContextError::Missing { field })?;
        match serde_json::from_str(raw.get()) {
            Ok(Json::Number(number)) => number_id(&number, field).map(ChatId::from),
            Ok(Json::String(text)) => text.parse(),
            _ => Err(RunContextError::NotAnId { field }),
        }
    }
}

/// A number beyond 2^53 - 1 may have been rounded by whoever wrote it, and would name somebody else.
fn number_id(number: &serde_json::Number, field: &'static str) -> Result<i64, RunContextError> {
    match number.as_i64() {
        Some(id) if Id(id).is_safe() => Ok(id),
        None if number.is_f64() && number.as_f64().is_some_and(|id| id.abs() < 1e15) => {
            Err(RunContextError::NotAnId { field })
        }
        _ => Err(RunContextError::NotExact { field }),
    }
}

/// From JSON; other formats cannot keep the fields that are not known here.
impl<'de> Deserialize<'de> for OmniusRunContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_fields(Fields::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// From JSON; other formats cannot keep the fields that are not known here.
impl<'de> Deserialize<'de> for TelegramRunContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_fields(Fields::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
