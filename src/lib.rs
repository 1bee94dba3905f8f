//! Whose session is this?
//!
//! A program that runs many agent sessions at once must know, anywhere deep in a call, for whom it works: platform,
//! chat, user, thread, session id. This crate carries that identity with the task, as one immutable value:
//!
//! - [`Session`] is the identity that a caller states; [`Session::scope`] and [`Session::sync_scope`] enter it.
//! - [`get_session_env`] reads one variable by its environment name: what the task bound, else the environment, else
//!   the default.
//! - [`VarState`] keeps the three states of a variable apart: *unset* falls back to the environment, *cleared* masks
//!   it, *set* has a value.
//! - [`set_session_vars`], [`clear_session_vars`] and [`reset_session_vars`] are Hermes' verbs. They change the
//!   innermost scope's value, which belongs to that task alone; outside a scope they are an error.
//! - [`OmniusRunContext`] says which run the task works for; [`run_with_omnius_context`] enters it, beside the session.
//! - [`explain`] says which layer answers a read here, what a child process would get, and why.
//!
//! ```
//! use hermes_env_bridge::{Session, get_session_env};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let alice = Session::new().platform("telegram").chat_id("1").scope(async {
//!     tokio::task::yield_now().await;
//!     get_session_env("HERMES_SESSION_CHAT_ID", "none")
//! });
//! let bob = Session::new().platform("discord").chat_id("2").scope(async {
//!     get_session_env("HERMES_SESSION_CHAT_ID", "none")
//! });
//! assert_eq!(tokio::join!(alice, bob), ("1".to_owned(), "2".to_owned()));
//! # }
//! ```
//!
//! The names, their order and the meaning of each verb are those of Hermes Agent's `gateway/session_context.py`. With
//! the feature `python` the same rules serve Python, where a task's value lives in a real `contextvars.ContextVar`.

/// A warning of this crate, where anybody can hear it.
macro_rules! warn {
    ($($message:tt)+) => {{
        #[cfg(feature = "tracing")]
        tracing::warn!($($message)+);
        #[cfg(not(feature = "tracing"))]
        let _ = format_args!($($message)+);
    }};
}

mod carrier;
mod context;
mod cwd;
mod environ;
mod error;
mod explain;
#[cfg(all(feature = "lease", unix))]
pub mod lease;
mod names;
#[cfg(feature = "python")]
mod python;
mod run;
mod scope;
mod session;
mod shape;
mod snapshot;
mod spawn;
mod state;
#[cfg(feature = "tracing")]
mod trace;
pub mod var;

pub use carrier::{Extractor, Injector, MAX_HEADER_BYTES, SESSION_HEADER, extract, inject};
pub use context::Context;
pub use cwd::{configured_cwd, resolve_cwd};
pub use error::{CarrierError, NoRunContext, NotInScope, NotUnicode, RunContextError, SnapshotError, UnknownName};
pub use explain::{Explanation, ForChild, Layer, explain, explain_all, explain_with_value};
pub use names::{Group, VARIABLES, Variable};
pub use run::{
    ChatId, ChatType, OmniusRunContext, RunContextBuilder, Surface, TelegramRunContext, TelegramRunContextBuilder,
    entry, get_omnius_run_context, get_telegram_run_context, require_omnius_run_context, run_with_omnius_context,
    run_with_omnius_context_sync,
};
#[cfg(feature = "tower")]
pub use run::{RunBody, RunLayer, RunResponse, RunService};
pub use scope::{Scope, WithSession, bind, bind_fn, bind_mut};
pub use session::{
    NON_MESSAGING_SESSION_SURFACES, Session, async_delivery_supported, clear_session_vars, declare_stateless_channel,
    get_session_env, get_session_env_os, reset_session_vars, scoped_current_session_id, session_context_engaged,
    session_is_messaging_surface, set_current_session_id, set_session_vars, source_route_metadata, try_get_session_env,
};
pub use snapshot::{Change, Limits, Snapshot, Unknown};
pub use spawn::{JoinSetExt, spawn, spawn_blocking, spawn_detached, spawn_local, spawn_thread};
pub use state::{SessionState, Value, VarState};
#[cfg(feature = "tracing")]
pub use trace::session_span;

/// The README's Rust, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The Rust of the document on run contexts, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/architecture/run-context.md")]
struct RunContextDocument;
