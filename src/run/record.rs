//! The record of a run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use serde::ser::Serializer;

use super::field::Text;
use super::telegram::TelegramRunContext;
use crate::error::RunContextError;
use crate::json::RawFields;

/// Which run a task works for: plain data that never changes and is small.
///
/// It says whose the work is. It is no permission: whoever decides what is allowed asks somebody else.
///
/// The JSON is that of the TypeScript type of the same name, byte for byte as `JSON.stringify` writes it; see
/// [`to_json`](Self::to_json).
///
/// ```
/// use hermes_env_bridge::{ChatType, OmniusRunContext, Surface, TelegramRunContext, get_omnius_run_context};
/// use hermes_env_bridge::{get_telegram_run_context, run_with_omnius_context_sync};
///
/// # fn main() -> Result<(), hermes_env_bridge::RunContextError> {
/// let chat = TelegramRunContext::builder(42, ChatType::Private, "telegram:42", "private").message_id(7).build()?;
/// let run = OmniusRunContext::builder("run-1", Surface::Telegram).telegram(chat).build()?;
/// run_with_omnius_context_sync(run, || {
///     assert_eq!(get_telegram_run_context().unwrap().chat_id().as_number(), Some(42));
/// });
/// assert!(get_omnius_run_context().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(description = "Which run a task works for. It identifies, and permits nothing.")
)]
#[serde(rename_all = "camelCase")]
pub struct OmniusRunContext {
    pub(super) run_id: Text,
    pub(super) surface: Surface,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) project_root: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner_kind: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner_id: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "inner")]
    pub(super) telegram: Option<Arc<TelegramRunContext>>,
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(super) unknown: RawFields,
}

// The signature is serde's.
#[allow(clippy::ref_option)]
fn inner<S: Serializer>(telegram: &Option<Arc<TelegramRunContext>>, serializer: S) -> Result<S::Ok, S::Error> {
    telegram.as_deref().serialize(serializer)
}

impl OmniusRunContext {
    /// Starts a description with what every run has: its id and its surface.
    pub fn builder(run_id: impl Into<String>, surface: Surface) -> RunContextBuilder {
        RunContextBuilder {
            run_id: run_id.into(),
            surface,
            project_root: None,
            owner_kind: None,
            owner_id: None,
            telegram: None,
            unknown: RawFields::default(),
        }
    }

    /// A description that starts as this record, with the fields that are not known here.
    pub fn to_builder(&self) -> RunContextBuilder {
        RunContextBuilder {
            run_id: self.run_id().to_owned(),
            surface: self.surface,
            project_root: self.project_root().map(str::to_owned),
            owner_kind: self.owner_kind().map(str::to_owned),
            owner_id: self.owner_id().map(str::to_owned),
            telegram: self.telegram.clone(),
            unknown: self.unknown.clone(),
        }
    }

    /// The id of the run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        self.run_id.as_str()
    }

    /// Where the run was started.
    #[must_use]
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// The directory of the project for which the run works.
    #[must_use]
    pub fn project_root(&self) -> Option<&str> {
        self.project_root.as_ref().map(Text::as_str)
    }

    /// What kind of owner the run has, such as `user`.
    #[must_use]
    pub fn owner_kind(&self) -> Option<&str> {
        self.owner_kind.as_ref().map(Text::as_str)
    }

    /// The owner of the run.
    #[must_use]
    pub fn owner_id(&self) -> Option<&str> {
        self.owner_id.as_ref().map(Text::as_str)
    }

    /// The same record with the fields of another one that are not known here.
    #[cfg(feature = "python")]
    pub(crate) fn keeping_unknown(self, of: &Self) -> Self {
        Self { unknown: of.unknown.clone(), ..self }
    }

    /// The names of the fields that are not known here, those of the chat included.
    pub(crate) fn unknown_names(&self) -> impl Iterator<Item = &str> {
        self.unknown.names().chain(self.telegram.iter().flat_map(|chat| chat.unknown.names()))
    }

    /// The chat for which the run works, if it works for one on Telegram.
    #[must_use]
    pub fn telegram(&self) -> Option<&Arc<TelegramRunContext>> {
        self.telegram.as_ref()
    }
}

/// Values may be secrets: the run's id and surface, which every diagnostic has, and the names of what else is stated.
impl fmt::Debug for OmniusRunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OmniusRunContext");
        let _ = shown.field("run_id", &self.run_id()).field("surface", &self.surface);
        for (name, stated) in [
            ("project_root", self.project_root.is_some()),
            ("owner_kind", self.owner_kind.is_some()),
            ("owner_id", self.owner_id.is_some()),
            ("telegram", self.telegram.is_some()),
        ] {
            if stated {
                let _ = shown.field(name, &format_args!("_"));
            }
        }
        shown.finish_non_exhaustive()
    }
}

/// Describes an [`OmniusRunContext`]; [`build`](Self::build) checks it.
#[derive(Clone)]
#[must_use = "a description does nothing until it is built"]
pub struct RunContextBuilder {
    run_id: String,
    surface: Surface,
    project_root: Option<String>,
    owner_kind: Option<String>,
    owner_id: Option<String>,
    telegram: Option<Arc<TelegramRunContext>>,
    pub(super) unknown: RawFields,
}

impl RunContextBuilder {
    /// States another id of the run.
    pub fn run_id(self, id: impl Into<String>) -> Self {
        Self { run_id: id.into(), ..self }
    }

    /// States the directory of the project for which the run works.
    pub fn project_root(self, path: impl Into<String>) -> Self {
        Self { project_root: Some(path.into()), ..self }
    }

    /// States the owner of the run: a kind, such as `user`, and an id.
    pub fn owner(self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { owner_kind: Some(kind.into()), owner_id: Some(id.into()), ..self }
    }

    /// States what kind of owner the run has, without saying which one.
    pub fn owner_kind(self, kind: impl Into<String>) -> Self {
        Self { owner_kind: Some(kind.into()), ..self }
    }

    /// States the owner of the run, without saying of what kind.
    pub fn owner_id(self, id: impl Into<String>) -> Self {
        Self { owner_id: Some(id.into()), ..self }
    }

    /// States the chat for which the run works.
    pub fn telegram(self, chat: impl Into<Arc<TelegramRunContext>>) -> Self {
        Self { telegram: Some(chat.into()), ..self }
    }

    /// The record.
    ///
    /// # Errors
    ///
    /// [`RunContextError`] if a text is empty or has a NUL; it names the field.
    pub fn build(self) -> Result<OmniusRunContext, RunContextError> {
        Ok(OmniusRunContext {
            run_id: Text::new("runId", &self.run_id)?,
            surface: self.surface,
            project_root: Text::stated("projectRoot", self.project_root.as_deref())?,
            owner_kind: Text::stated("ownerKind", self.owner_kind.as_deref())?,
            owner_id: Text::stated("ownerId", self.owner_id.as_deref())?,
            telegram: self.telegram,
            unknown: self.unknown,
        })
    }
}

impl fmt::Debug for RunContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContextBuilder").field("surface", &self.surface).finish_non_exhaustive()
    }
}

/// Where a run was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Surface {
    /// The terminal.
    Tui,
    /// A Telegram chat.
    Telegram,
    /// A request to the API.
    Api,
    /// A job of the scheduler.
    Scheduler,
    /// Work that goes on behind another run.
    Background,
}

impl Surface {
    const ALL: [Self; 5] = [Self::Tui, Self::Telegram, Self::Api, Self::Scheduler, Self::Background];

    /// The name in JSON, such as `telegram`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tui => "tui",
            Self::Telegram => "telegram",
            Self::Api => "api",
            Self::Scheduler => "scheduler",
            Self::Background => "background",
        }
    }
}

impl FromStr for Surface {
    type Err = RunContextError;

    fn from_str(name: &str) -> Result<Self, RunContextError> {
        Self::ALL
            .into_iter()
            .find(|surface| surface.as_str() == name)
            .ok_or(RunContextError::NoneOf { field: "surface", names: "tui, telegram, api, scheduler, background" })
    }
}
