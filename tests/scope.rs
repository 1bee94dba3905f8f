//! A session belongs to the task that entered it, whatever else runs on the thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Waker};

use hermes_env_bridge::{
    Context, NotInScope, Session, UnknownName, VarState, async_delivery_supported, clear_session_vars,
    declare_stateless_channel, get_session_env, reset_session_vars, scoped_current_session_id,
    session_is_messaging_surface, set_current_session_id, set_session_vars,
};
use tokio::task::yield_now;

const KEY: &str = "HERMES_SESSION_KEY";
const ID: &str = "HERMES_SESSION_ID";

fn key() -> String {
    get_session_env(KEY, "none")
}

#[tokio::test]
async fn two_sessions_joined_in_one_task_never_read_each_other() {
    async fn session(mine: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for _ in 0..100 {
            set_session_vars(Session::new().session_key(mine)).unwrap();
            yield_now().await;
            seen.push(key());
        }
        seen.dedup();
        seen
    }

    let (a, b) = tokio::join!(Session::new().scope(session("A")), Session::new().scope(session("B")));
    assert_eq!((a, b), (vec!["A".to_owned()], vec!["B".to_owned()]));
    assert_eq!(key(), "none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_spawned_sessions_read_their_own_across_threads() {
    let tasks: Vec<_> = (0..1000)
        .map(|n| {
            let mine = n.to_string();
            tokio::spawn(Session::new().session_key(&mine).scope(async move {
                for _ in 0..20 {
                    yield_now().await;
                    assert_eq!(key(), mine);
                }
            }))
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a_plain_spawn_inherits_nothing() {
    let inherited = Session::new().session_key("A").scope(async { tokio::spawn(async { key() }).await.unwrap() }).await;
    assert_eq!(inherited, "none");
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
    assert!(async_delivery_supported());
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
            assert_eq!((key().as_str(), get_session_env("HERMES_SESSION_CHAT_ID", "none").as_str()), ("inner", ""));
        });
        assert_eq!((key().as_str(), get_session_env("HERMES_SESSION_CHAT_ID", "none").as_str()), ("outer", "1"));
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
fn a_future_is_dropped_as_its_own_session() {
    struct ReadsOnDrop(Arc<Mutex<String>>);
    impl Drop for ReadsOnDrop {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = key();
        }
    }

    let seen = Arc::new(Mutex::new(String::new()));
    let guard = ReadsOnDrop(seen.clone());
    {
        let mut future = pin!(Session::new().session_key("A").scope(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        }));
        assert!(future.as_mut().poll(&mut Poller::from_waker(Waker::noop())).is_pending());
        assert_eq!(key(), "none");
    }
    assert_eq!(*seen.lock().unwrap(), "A");
}

#[test]
fn a_scoped_id_is_put_back_also_on_a_panic() {
    Session::new().session_id("before").sync_scope(|| {
        let inside = scoped_current_session_id(Some("inside"), || get_session_env(ID, "none"));
        assert_eq!(inside.as_deref(), Ok("inside"));
        let boundary = scoped_current_session_id(None, || {
            set_current_session_id("rotated").unwrap();
            get_session_env(ID, "none")
        });
        assert_eq!(boundary.as_deref(), Ok("rotated"));
        let panicked =
            catch_unwind(AssertUnwindSafe(|| scoped_current_session_id(Some("inside"), || panic!("on purpose"))));
        assert!(panicked.is_err());
        assert_eq!(get_session_env(ID, "none"), "before");
    });
}

#[test]
fn a_stateless_channel_is_declared_until_a_later_bind() {
    Session::new().sync_scope(|| {
        assert!(async_delivery_supported());
        declare_stateless_channel().unwrap();
        assert!(!async_delivery_supported());
        set_session_vars(Session::new()).unwrap();
        assert!(async_delivery_supported());
        set_session_vars(Session::new().async_delivery(false)).unwrap();
        assert!(!async_delivery_supported());
        clear_session_vars().unwrap();
        assert!(async_delivery_supported());
    });
}

#[test]
fn a_surface_that_nobody_listed_is_a_chat() {
    let messaging = |session: Session| session.sync_scope(session_is_messaging_surface);
    assert!(messaging(Session::new().platform("telegram")));
    assert!(!messaging(Session::new().platform(" CLI ")));
    assert!(!messaging(Session::new().platform("api_server")));
    assert!(messaging(Session::new().platform("api_server").source("telegram")));
    assert!(!messaging(Session::new()));
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
fn a_thread_has_no_session_also_while_it_is_torn_down() {
    struct ReadsAtTeardown;
    impl Drop for ReadsAtTeardown {
        fn drop(&mut self) {
            assert_eq!(key(), "none");
            assert!(clear_session_vars().is_err());
        }
    }
    thread_local!(static LATE: ReadsAtTeardown = const { ReadsAtTeardown });

    let thread = Session::new().session_key("A").sync_scope(|| {
        std::thread::spawn(|| {
            LATE.with(|_| ());
            assert_eq!(key(), "none");
            Session::new().session_key("B").sync_scope(|| assert_eq!(key(), "B"));
        })
    });
    thread.join().unwrap();
}
