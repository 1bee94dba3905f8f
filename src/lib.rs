//! Whose session is this?
//!
//! A program that runs many agent sessions at once must know, anywhere deep in a call, for whom it works: platform,
//! chat, user, thread, session id. The environment cannot say it: it is one for the whole process. This crate carries
//! the identity with the task, as one immutable value.
//!
//! # Enter it where it is known, read it anywhere
//!
//! A [`Session`] states who it is. A future that is wrapped in its [`scope`](Session::scope) runs as that session, on
//! each poll and until it is dropped, whatever else runs on the thread. Deep inside, [`get_session_env`] reads a variable
//! by its environment name; nothing has to be passed down.
//!
//! ```
//! use hermes_env_bridge::{Session, get_session_env};
//!
//! async fn reply() -> String {
//!     tokio::task::yield_now().await;
//!     format!("to chat {}", get_session_env("HERMES_SESSION_CHAT_ID", "unknown"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let alice = Session::new().platform("telegram").chat_id("1").scope(reply());
//! let bob = Session::new().platform("telegram").chat_id("2").scope(reply());
//! assert_eq!(tokio::join!(alice, bob), ("to chat 1".into(), "to chat 2".into()));
//! assert_eq!(reply().await, "to chat unknown", "nothing is entered here");
//! # }
//! ```
//!
//! Streams and sinks (and with the feature `http` bodies) are wrapped alike, a closure is run with
//! [`sync_scope`](Session::sync_scope), and [`WithSession`] does it at the end of an expression. There is no call that
//! enters and stays: what is not wrapped is not inside.
//!
//! # Three states
//!
//! A variable is *unset* ([`VarState::Unset`]): the task never bound it, and a read falls back to the environment, then
//! to the default. Or it is *cleared*: bound to the empty string, which masks the environment. Or it is *set*. What a
//! session does not state is cleared, so that nobody else's identity shows through; only the cron flag stays unset.
//!
//! ```
//! use hermes_env_bridge::{Session, get_session_env, var};
//!
//! assert_eq!(get_session_env("HERMES_SESSION_USER_ID", "nobody"), "nobody"); // unset
//! Session::new().chat_id("42").sync_scope(|| {
//!     assert_eq!(get_session_env("HERMES_SESSION_CHAT_ID", "nobody"), "42"); // set
//!     assert_eq!(get_session_env("HERMES_SESSION_USER_ID", "nobody"), ""); // cleared
//!     assert_eq!(var::chat_id().as_deref(), Some("42")); // the same read, without a name to misspell
//! });
//! ```
//!
//! [`try_get_session_env`] and [`get_session_env_os`] are for values that are not UTF-8, [`SessionState`] has what the
//! task has bound and nothing of the environment, and [`explain`] says which layer answers a read, and why.
//!
//! # What is started is started by you
//!
//! A plain [`tokio::spawn`] inherits nothing. [`spawn`], [`spawn_blocking`], [`spawn_local`], [`spawn_thread`] and
//! [`JoinSetExt`] start the child with the session of whoever starts it, and nothing that the child does comes back. A
//! callback, a timer or a pool's job gets it from [`bind`], at the moment when it is handed over. [`spawn_detached`] starts
//! with nothing, for a worker that outlives the session in which it happens to start.
//!
//! ```
//! use hermes_env_bridge::{Session, bind, spawn, var};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! Session::new().chat_id("42").scope(async {
//!     assert_eq!(spawn(async { var::chat_id() }).await.unwrap().as_deref(), Some("42"));
//!     assert_eq!(tokio::spawn(async { var::chat_id() }).await.unwrap(), None);
//!     let job = bind(var::chat_id);
//!     assert_eq!(std::thread::spawn(job).join().unwrap().as_deref(), Some("42"));
//! })
//! .await;
//! # }
//! ```
//!
//! # Change it in place
//!
//! [`set_session_vars`], [`clear_session_vars`], [`reset_session_vars`] and [`set_current_session_id`] are Hermes' verbs.
//! They change the innermost scope's value, which belongs to that task alone. Outside a scope there is nothing to change
//! that would not be everybody's: they return [`NotInScope`] and change nothing.
//!
//! ```
//! use hermes_env_bridge::{Session, set_current_session_id, var};
//!
//! # fn main() -> Result<(), hermes_env_bridge::NotInScope> {
//! Session::new().session_id("one").sync_scope(|| {
//!     set_current_session_id("two")?; // the conversation goes on under another id
//!     assert_eq!(var::session_id().as_deref(), Some("two"));
//!     Ok(())
//! })?;
//! assert!(set_current_session_id("three").is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # Hand it over
//!
//! Within the process, [`Context::current`] is the value itself: send it with the job, and enter it there. To another
//! process, a [`Snapshot`] goes as JSON, or with [`inject`] and [`extract`] as a header of HTTP, of a broker's message or
//! of a job. A header is a claim: see [`extract`].
//!
//! ```
//! use std::collections::HashMap;
//!
//! use hermes_env_bridge::{Session, extract, inject, var};
//!
//! # fn main() -> Result<(), hermes_env_bridge::CarrierError> {
//! let mut metadata = HashMap::new();
//! Session::new().chat_id("42").sync_scope(|| inject(&mut metadata))?;
//! // … and in the worker:
//! let context = extract(&metadata)?.expect("every job has a session").restore();
//! assert_eq!(context.sync_scope(var::chat_id).as_deref(), Some("42"));
//! # Ok(())
//! # }
//! ```
//!
//! # The rest
//!
//! - [`SessionCommand`] gives a child process the task's identity and nobody else's; [`ChildEnv`] is what a spawner asks
//!   for, and [`Plan`] what comes of it, name by name.
//! - [`OmniusRunContext`] says which run the task works for; [`run_with_omnius_context`] enters it, beside the session.
//! - [`resolve_cwd`] is the directory in which this session works; the process's own is never changed.
//! - [`session_context_engaged`] is the latch: once a session was bound, a child inherits no session variable that its
//!   task has not bound.
//! - [`async_delivery_supported`], [`session_is_messaging_surface`] and [`source_route_metadata`] answer Hermes' questions
//!   about the channel.
//!
//! The names, their order and the meaning of each verb are those of Hermes Agent's `gateway/session_context.py`. Nothing
//! here writes the environment of the process, and nothing panics on what it holds.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `process`: `SessionCommand` for `tokio::process::Command` too.
//! - `http`: carriers for `http::HeaderMap`, and scopes for `http_body::Body`.
//! - `lease`: process leases; `sqlite`: a registry of them in a file.
//! - `tower`: a layer that makes a run of each request; `schema`: the JSON Schema of a run context.
//! - `tracing`: `session_span`, and warnings about values that are not UTF-8 and directories that do not exist.
//! - `python`: the extension module for Python, where a task's value lives in a real `contextvars.ContextVar`. Without it
//!   the crate neither links nor needs Python.
//!
//! Rust 1.85 or newer.

// Only the calls of Python's C interface need it.
#![cfg_attr(not(feature = "python"), forbid(unsafe_code))]

/// A warning of this crate, where anybody can hear it: not within a warning, where a subscriber that reads the session
/// on each event would hear it without end.
macro_rules! warn {
    ($($message:tt)+) => {{
        #[cfg(feature = "tracing")]
        $crate::trace::one_at_a_time(|| tracing::warn!($($message)+));
        #[cfg(not(feature = "tracing"))]
        let _ = format_args!($($message)+);
    }};
}

mod carrier;
mod child;
mod context;
mod cwd;
mod environ;
mod error;
mod explain;
mod json;
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
pub use child::{
    ChildEnv, Credentials, EnvLimits, InvalidEnv, Passthrough, Plan, Planned, Platform, Policy, SessionCommand,
    UnknownPolicy, Unrenderable, bridged_pairs, owned_names, owns, shell_exports, shell_unset,
};
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

/// The same of the snapshots' page.
#[cfg(doctest)]
#[doc = include_str!("../docs/snapshots.md")]
struct Snapshots;

/// The guide's Rust, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct Guide;

/// And that of what is said of children.
#[cfg(all(doctest, unix))]
#[doc = include_str!("../docs/children.md")]
struct Children;

/// The Rust of the document on run contexts, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/architecture/run-context.md")]
struct RunContextDocument;
