//! The session's fields for `tracing`, and the crate's own events.

use std::cell::Cell;

use tracing::Span;
use tracing::field::Empty;

use crate::context::Context;

/// The environment name and the span's field of each variable that a span shows.
const FIELDS: [(&str, &str); 5] = [
    ("HERMES_SESSION_PLATFORM", "platform"),
    ("HERMES_SESSION_CHAT_ID", "chat_id"),
    ("HERMES_SESSION_USER_ID", "user_id"),
    ("HERMES_SESSION_KEY", "session_key"),
    ("HERMES_SESSION_ID", "session_id"),
];

/// A span named `session` at level INFO, with the platform, chat, user, key and id that this task has bound.
///
/// What is unset or cleared is no field of the span: the environment is never asked. Values are shown, so mind who reads
/// the log.
///
/// ```
/// use hermes_env_bridge::{Session, session_span};
///
/// Session::new().platform("telegram").chat_id("42").sync_scope(|| {
///     let _entered = session_span().entered();
///     tracing::info!("message handled"); // session{platform="telegram" chat_id="42"}
/// });
/// ```
#[must_use = "a span does nothing until it is entered"]
pub fn session_span() -> Span {
    let span = tracing::info_span!(
        "session",
        platform = Empty,
        chat_id = Empty,
        user_id = Empty,
        session_key = Empty,
        session_id = Empty
    );
    let context = Context::current();
    for (name, field) in FIELDS {
        let state = context.session().get(name);
        if let Some(value) = state.as_bound().filter(|value| !value.is_empty()) {
            let _ = span.record(field, value);
        }
    }
    span
}

/// Emits an event of this crate, unless it comes of another one on this thread.
pub(crate) fn one_at_a_time(emit: impl FnOnce()) {
    thread_local! {
        static EMITTING: Cell<bool> = const { Cell::new(false) };
    }

    struct Emitting;
    impl Drop for Emitting {
        fn drop(&mut self) {
            let _ = EMITTING.try_with(|emitting| emitting.set(false));
        }
    }

    if EMITTING.try_with(|emitting| emitting.replace(true)) == Ok(false) {
        let _emitting = Emitting;
        emit();
    }
}
