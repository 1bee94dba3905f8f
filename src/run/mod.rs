//! The Omnius run context: which run a task works for, on which surface, for whom, and in which chat.
//!
//! It identifies a run and permits nothing.

mod current;
pub mod entry;
mod field;
mod hermes;
mod json;
#[cfg(feature = "tower")]
mod layer;
mod record;
mod telegram;
mod watch;

pub use current::{
    get_omnius_run_context, get_telegram_run_context, require_omnius_run_context, run_with_omnius_context,
    run_with_omnius_context_sync,
};
#[cfg(feature = "tower")]
pub use layer::{RunBody, RunLayer, RunResponse, RunService};
pub use record::{OmniusRunContext, RunContextBuilder, Surface};
pub use telegram::{ChatId, ChatType, TelegramRunContext, TelegramRunContextBuilder};
