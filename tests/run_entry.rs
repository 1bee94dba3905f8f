//! Entry points: what is inherited is reset, and each run says once that it starts and once how it ends.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hermes_env_bridge::{
    ChatType, Context, OmniusRunContext, RunContextError, Session, Surface, TelegramRunContext, entry,
    get_omnius_run_context, get_session_env, run_with_omnius_context_sync,
};
use tokio::task::yield_now;

#[path = "support/diagnostics.rs"]
mod diagnostics;

fn chat() -> TelegramRunContext {
    TelegramRunContext::builder(42, ChatType::Private, "telegram:42", "private").build().unwrap()
}

/// Phase 2: each run emits a context diagnostic with run id and surface.
#[tokio::test]
async fn phase_2_each_surface_says_once_that_a_run_starts_and_once_how_it_ends() {
    diagnostics::listen();
    let entries = [
        ("telegram", entry::telegram(chat())),
        ("api", entry::api()),
        ("tui", entry::tui()),
        ("scheduler", entry::scheduler()),
        ("background", entry::background()),
    ];
    for (surface, entry) in entries {
        let work = async { get_omnius_run_context().unwrap().run_id().to_owned() };
        let id = entry.run(work).unwrap().await;
        let started = HashMap::from([("run_id".to_owned(), id.clone()), ("surface".to_owned(), surface.to_owned())]);
        let [start, end] = diagnostics::of(&id).try_into().unwrap();
        assert_eq!(start, ("run started".to_owned(), started.clone()));
        assert_eq!(end.0, "run ended");
        assert_eq!((&end.1["surface"], &end.1["outcome"]), (&started["surface"], &"completed".to_owned()));
        assert!(end.1["duration"].parse::<f64>().unwrap() >= 0.0);
    }
}

#[tokio::test]
async fn a_run_that_is_aborted_or_panics_says_so_once_and_one_that_never_starts_says_nothing() {
    diagnostics::listen();
    let outcomes = |id: &str| {
        let ends = diagnostics::of(id).into_iter().filter(|(message, _)| message == "run ended");
        ends.map(|(_, fields)| fields["outcome"].clone()).collect::<Vec<_>>()
    };

    let aborted = tokio::spawn(entry::api().run_id("aborted").run(std::future::pending::<()>()).unwrap());
    yield_now().await;
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());
    assert_eq!(outcomes("aborted"), ["cancelled"]);

    let panicked = tokio::spawn(entry::tui().run_id("panicked").run(async { panic!("on purpose") }).unwrap());
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(outcomes("panicked"), ["panicked"]);

    let sync = catch_unwind(AssertUnwindSafe(|| entry::tui().run_id("sync").run_sync(|| panic!("on purpose"))));
    assert!(sync.is_err());
    assert_eq!(outcomes("sync"), ["panicked"]);

    assert_eq!(entry::tui().run_id("returned").run_sync(|| 7), Ok(7));
    assert_eq!(outcomes("returned"), ["completed"]);

    drop(entry::api().run_id("never").run(async {}).unwrap());
    assert!(diagnostics::of("never").is_empty());
}

#[tokio::test]
async fn an_entry_point_resets_the_session_and_the_run_that_it_is_called_in() {
    let before = OmniusRunContext::builder("before", Surface::Telegram).telegram(chat()).build().unwrap();
    let inside = run_with_omnius_context_sync(before, || {
        Session::new().session_key("before").sync_scope(|| {
            let run = entry::background().run_id("inside").run(async { Context::current() }).unwrap();
            let sync = entry::background().run_id("inside").run_sync(Context::current).unwrap();
            assert_eq!(get_session_env("HERMES_SESSION_KEY", "none"), "before");
            (run, sync)
        })
    });
    for context in [inside.0.await, inside.1] {
        assert!(!context.session().is_bound());
        let run = context.run().unwrap();
        assert_eq!((run.run_id(), run.telegram()), ("inside", None));
        assert!(context.is_finished());
    }
}

/// The run and the session of Hermes of one surface, entered together.
#[tokio::test]
async fn an_entry_point_can_bind_the_session_of_hermes() {
    let bound = entry::telegram(chat()).bind_hermes().run(async {
        let read = |name| get_session_env(name, "none");
        [read("HERMES_SESSION_PLATFORM"), read("HERMES_SESSION_CHAT_ID"), read("HERMES_SESSION_KEY")]
    });
    assert_eq!(bound.unwrap().await, ["telegram", "42", "telegram:42"]);
    let unbound = entry::telegram(chat()).run_sync(|| Context::current().session().is_bound());
    assert_eq!(unbound, Ok(false));
}

#[test]
fn a_description_that_cannot_be_is_refused_before_anything_runs() {
    let refused = entry::scheduler().owner("job", "").run_sync(|| panic!("ran"));
    assert_eq!(refused, Err(RunContextError::Empty { field: "ownerId" }));
    assert_eq!(entry::api().run_id("").run(async {}).err(), Some(RunContextError::Empty { field: "runId" }));
}

#[test]
fn a_record_from_elsewhere_enters_as_it_is_and_each_new_run_has_its_own_id() {
    let record = OmniusRunContext::from_json(r#"{"runId":"r","surface":"api","traceId":"t"}"#).unwrap();
    let entered = entry::Entry::from(&record).run_sync(|| get_omnius_run_context().unwrap());
    assert_eq!(*entered.unwrap(), record);
    assert_ne!(entry::api().record().unwrap().run_id(), entry::api().record().unwrap().run_id());
}

/// Phase 2: existing tool behaviour remains unchanged.
#[tokio::test]
async fn phase_2_a_tool_does_in_a_run_what_it_does_without() {
    async fn tool(text: &str) -> Result<usize, String> {
        yield_now().await;
        text.parse().map_err(|_| format!("{text} is no number"))
    }

    for text in ["7", "seven"] {
        assert_eq!(entry::api().run(tool(text)).unwrap().await, tool(text).await);
    }
}
