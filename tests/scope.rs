//! A session belongs to the task that entered it, whatever else runs on the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hermes_env_bridge::{
    Context, NotInScope, Session, UnknownName, VarState, clear_session_vars, declare_stateless_channel,
    reset_session_vars, scoped_current_session_id, set_current_session_id, set_session_vars,
};
use tokio::task::yield_now;

const KEY: &str = "HERMES_SESSION_KEY";
const ID: &str = "HERMES_SESSION_ID";

/// What this task has bound, whatever the environment of the test has.
fn bound(name: &str) -> String {
    Context::current().session().get(name).as_bound().unwrap_or("none").to_owned()
}

fn key() -> String {
    bound(KEY)
}

#[test]
fn outside_a_scope_every_verb_is_refused_and_changes_nothing() {
    let refused: [Result<(), NotInScope>; 6] = [
        set_session_vars(Session::new().session_key("A")),
        clear_session_vars(),
        reset_session_vars(),
        set_current_session_id("A"),
        declare_stateless_channel(),
        scoped_current_session_id(Some("A"), || panic!("ran without a scope")),
    ];
    let verbs: Vec<_> = refused.map(|verb| verb.unwrap_err().verb).into();
    assert_eq!(
        verbs,
        [
            "set_session_vars",
            "clear_session_vars",
            "reset_session_vars",
            "set_current_session_id",
            "declare_stateless_channel",
            "scoped_current_session_id",
        ]
    );
    assert_eq!(key(), "none");
    let message = clear_session_vars().unwrap_err().to_string();
    assert!(message.contains("clear_session_vars") && message.contains("Session::scope"), "{message}");
}

#[test]
fn a_bind_is_whole_a_clear_masks_and_a_reset_unsets() {
    Session::new().session_key("outer").chat_id("1").sync_scope(|| {
        set_session_vars(Session::new().session_key("inner")).unwrap();
        let bound = Context::current();
        assert_eq!(bound.session().get("HERMES_SESSION_CHAT_ID"), VarState::Cleared);
        assert_eq!(bound.session().get("HERMES_CRON_SESSION"), VarState::Unset);
        clear_session_vars().unwrap();
        assert_eq!(key(), "");
        reset_session_vars().unwrap();
        assert_eq!(key(), "none");
        // A value read earlier is not changed by what came later.
        assert_eq!(bound.session().get(KEY), VarState::bound("inner"));
    });
}

#[test]
fn an_inner_scope_replaces_the_whole_session_and_the_outer_is_back_after_it() {
    Session::new().session_key("outer").chat_id("1").sync_scope(|| {
        Session::new().session_key("inner").sync_scope(|| {
            assert_eq!((key().as_str(), bound("HERMES_SESSION_CHAT_ID").as_str()), ("inner", ""));
        });
        assert_eq!((key().as_str(), bound("HERMES_SESSION_CHAT_ID").as_str()), ("outer", "1"));
    });
}

#[test]
fn a_panic_restores_the_outer_session() {
    Session::new().session_key("outer").sync_scope(|| {
        let panicked = catch_unwind(|| Session::new().session_key("inner").sync_scope(|| panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(key(), "outer");
    });
    assert_eq!(key(), "none");
}

#[test]
fn a_scoped_id_is_put_back_also_on_a_panic() {
    Session::new().session_id("before").sync_scope(|| {
        let inside = scoped_current_session_id(Some("inside"), || bound(ID));
        assert_eq!(inside.as_deref(), Ok("inside"));
        let boundary = scoped_current_session_id(None, || {
            set_current_session_id("rotated").unwrap();
            bound(ID)
        });
        assert_eq!(boundary.as_deref(), Ok("rotated"));
        let panicked =
            catch_unwind(AssertUnwindSafe(|| scoped_current_session_id(Some("inside"), || panic!("on purpose"))));
        assert!(panicked.is_err());
        assert_eq!(bound(ID), "before");
    });
}

#[test]
fn pairs_take_keywords_and_names_and_refuse_the_rest() {
    let session = Session::from_pairs([("chat_id", "1"), ("HERMES_SESSION_KEY", "k")]).unwrap();
    assert_eq!(session, Session::new().chat_id("1").session_key("k"));
    for unknown in ["chatid", "HERMES_CRON_AUTO_DELIVER_CHAT_ID", ""] {
        assert_eq!(Session::from_pairs([(unknown, "1")]), Err(UnknownName { name: unknown.to_owned() }));
    }
}

#[test]
fn tasks_that_a_block_on_inside_a_scope_drives_are_not_inside() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let bystander = runtime.spawn(async { (key(), set_session_vars(Session::new().session_key("B")).is_err()) });
    let (seen, spawned, own) = Session::new().session_key("A").sync_scope(|| {
        runtime.block_on(async { (bystander.await.unwrap(), tokio::spawn(async { key() }).await.unwrap(), key()) })
    });
    assert_eq!(seen, ("none".to_owned(), true));
    assert_eq!((spawned.as_str(), own.as_str()), ("none", "A"));
}

#[tokio::test]
async fn tasks_of_a_local_set_inside_a_scope_have_their_own_session_or_none() {
    let local = tokio::task::LocalSet::new();
    let bare = local.spawn_local(async { (key(), clear_session_vars().is_err()) });
    let own = local.spawn_local(Session::new().session_key("B").scope(async { (yield_now().await, key()).1 }));
    Session::new()
        .session_key("A")
        .scope(async {
            local.await;
            assert_eq!(key(), "A");
        })
        .await;
    assert_eq!(bare.await.unwrap(), ("none".to_owned(), true));
    assert_eq!(own.await.unwrap(), "B");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_in_place_stays_inside_the_scope() {
    let seen = Session::new()
        .session_key("A")
        .scope(async { tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(async { key() })) });
    assert_eq!(tokio::spawn(seen).await.unwrap(), "A");
}

#[tokio::test]
async fn a_scoped_future_can_move_to_another_task_half_way() {
    let mut future = Box::pin(Session::new().session_key("A").scope(async {
        let before = key();
        yield_now().await;
        (before, key())
    }));
    let (moved, arrived) = tokio::sync::oneshot::channel();
    let first = tokio::spawn(async {
        assert!(futures::poll!(&mut future).is_pending());
        assert!(moved.send(future).is_ok());
    });
    let second = tokio::spawn(async { arrived.await.unwrap().await });
    first.await.unwrap();
    assert_eq!(second.await.unwrap(), ("A".to_owned(), "A".to_owned()));
}
