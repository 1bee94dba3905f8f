//! What went wrong for others. Each test is named after the right behaviour, and has the report's id.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Barrier, Mutex, Weak};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use futures::{SinkExt, sink};
use hermes_env_bridge::{
    Context, JoinSetExt, Session, WithSession, bind, bind_fn, bind_mut, get_session_env, get_session_env_os,
    set_session_vars, spawn, spawn_blocking, spawn_detached, spawn_local, spawn_thread, try_get_session_env, var,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet, yield_now};

const KEY: &str = "HERMES_SESSION_KEY";

fn session(key: &str) -> Session {
    Session::new().session_key(key)
}

/// What this task has bound, whatever the environment of the test has.
fn key() -> String {
    Context::current().session().session_key().as_bound().unwrap_or("none").to_owned()
}

fn bind_key(key: &str) {
    set_session_vars(session(key)).unwrap();
}

/// Runs the test `name` again in a child whose environment has `variables`, unless this is that child.
fn in_child(name: &str, variables: &[(&str, &[u8])], body: impl FnOnce()) {
    if std::env::var_os("IN_CHILD").is_some() {
        return body();
    }
    let variables = variables.iter().map(|(name, value)| (name, OsStr::from_bytes(value)));
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("IN_CHILD", "1")
        .envs(variables)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && stdout.contains("1 passed"), "{stdout}");
}

// R01
#[tokio::test]
async fn a_spawned_task_inherits_by_our_spawn_and_not_by_tokios() {
    let (bare, kept, in_set) = session("A")
        .scope(async {
            let mut set = JoinSet::new();
            let _ = set.spawn_inheriting(async { key() });
            let bare = tokio::spawn(async { key() }).await.unwrap();
            (bare, spawn(async { key() }).await.unwrap(), set.join_all().await)
        })
        .await;
    assert_eq!((bare.as_str(), kept.as_str(), in_set), ("none", "A", vec!["A".to_owned()]));
}

// R02
#[tokio::test]
async fn blocking_work_starts_with_the_session_and_gives_nothing_back() {
    session("A")
        .scope(async {
            assert_eq!(spawn_blocking(key).await.unwrap(), "A");
            spawn_blocking(|| bind_key("B")).await.unwrap();
            assert_eq!(key(), "A");
            assert_eq!(spawn_thread(|| (bind_key("B"), key()).1).join().unwrap(), "B");
            assert_eq!(key(), "A");
        })
        .await;
}

/// Tells what it reads when it is dropped.
struct ReadsOnDrop(Arc<Mutex<Vec<String>>>);

impl Drop for ReadsOnDrop {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(get_session_env(KEY, "default"));
    }
}

// R04
#[test]
fn no_read_panics_outside_a_scope_in_a_destructor_or_at_a_threads_end() {
    in_child("no_read_panics_outside_a_scope_in_a_destructor_or_at_a_threads_end", &[(KEY, b"stale")], || {
        assert_eq!(std::thread::spawn(|| get_session_env(KEY, "default")).join().unwrap(), "stale");
        assert_eq!(get_session_env("NO_SUCH_NAME", "default"), "default");

        let seen = Arc::<Mutex<Vec<String>>>::default();
        let guard = ReadsOnDrop(seen.clone());
        drop(session("A").scope(async move { drop(guard) }));

        thread_local!(static LATE: Mutex<Option<ReadsOnDrop>> = const { Mutex::new(None) });
        let guard = ReadsOnDrop(seen.clone());
        let thread = std::thread::spawn(|| {
            LATE.with(|late| *late.lock().unwrap() = Some(guard));
            session("B").sync_scope(|| assert_eq!(key(), "B"));
        });
        thread.join().unwrap();
        assert_eq!(*seen.lock().unwrap(), ["A", "stale"]);
    });
}

// R05
#[tokio::test]
async fn a_stream_has_its_session_at_each_item_and_the_caller_its_own_between_them() {
    session("caller")
        .scope(async {
            let mut items = Box::pin(session("A").scope(stream::iter(1..=3).then(|item| async move {
                yield_now().await;
                let before = key();
                bind_key(&format!("A{item}"));
                before
            })));
            for expected in ["A", "A1", "A2"] {
                assert_eq!(items.next().await.as_deref(), Some(expected));
                assert_eq!(key(), "caller");
            }
            assert_eq!(items.next().await, None);
            assert_eq!(key(), "caller");
        })
        .await;
}

// R06
#[test]
fn bytes_that_are_not_utf8_are_a_value_or_a_typed_error_and_never_a_panic() {
    in_child(
        "bytes_that_are_not_utf8_are_a_value_or_a_typed_error_and_never_a_panic",
        &[("BAD", b"\xa3"), (KEY, b"\xff")],
        || {
            assert_eq!(get_session_env_os(KEY), Some(OsString::from_vec(b"\xff".into())));
            assert_eq!(try_get_session_env(KEY).unwrap_err().name, KEY);
            assert_eq!(get_session_env(KEY, "default"), "default");
            assert_eq!(var::session_key(), None);
            assert_eq!(session("A").sync_scope(|| get_session_env(KEY, "default")), "A");
        },
    );
}

// R07
#[test]
fn bytes_that_are_not_utf8_come_back_byte_for_byte() {
    let name = "HERMES_SESSION_CHAT_NAME";
    in_child("bytes_that_are_not_utf8_come_back_byte_for_byte", &[(name, b"\xff\xfe")], || {
        assert_eq!(get_session_env_os(name), Some(OsString::from_vec(b"\xff\xfe".into())));
        assert_eq!(try_get_session_env(name).unwrap_err().value, OsString::from_vec(b"\xff\xfe".into()));
    });
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

// R09
#[test]
fn nothing_in_the_crate_writes_the_environment_of_the_process() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.len() > 10, "{sources:?}");
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for call in ["set_var", "remove_var", "setenv", "putenv", "set_current_dir"] {
            let calls = text.match_indices(call).filter(|(at, _)| {
                // The write of a variable is one word; `reset_variable` would not be it.
                !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            });
            assert_eq!(calls.count(), 0, "{call} in {}", path.display());
        }
    }
}

// C01
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn interleaved_sessions_keep_their_own_directory_without_a_lock() {
    let directories = [std::env::temp_dir(), PathBuf::from("/")];
    let process = std::env::current_dir().unwrap();
    let runs = directories.map(|mine| {
        tokio::spawn(Session::new().cwd(mine.to_string_lossy()).scope(async move {
            for _ in 0..200 {
                assert_eq!(hermes_env_bridge::resolve_cwd().unwrap(), mine);
                yield_now().await;
            }
        }))
    });
    for run in runs {
        run.await.unwrap();
    }
    assert_eq!(std::env::current_dir().unwrap(), process);
}

// C02
#[tokio::test]
async fn sessions_are_inside_at_the_same_time() {
    // Each waits inside for all: were they let in one by one, the first would wait for ever.
    let all = Arc::new(tokio::sync::Barrier::new(8));
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (mine, all) = (n.to_string(), all.clone());
            tokio::spawn(session(&mine).scope(async move { (all.wait().await, assert_eq!(key(), mine)).1 }))
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let all = Barrier::new(8);
    std::thread::scope(|threads| {
        for n in 0..8 {
            let (mine, all) = (format!("thread {n}"), &all);
            let _ = threads.spawn(move || session(&mine).sync_scope(|| (all.wait(), assert_eq!(key(), mine)).1));
        }
    });
}

// C03
#[test]
fn a_queued_callback_runs_as_the_session_that_bound_it_and_a_bare_one_as_its_caller() {
    let queue: [Box<dyn FnOnce() -> String>; 2] =
        session("A").sync_scope(|| -> [Box<dyn FnOnce() -> _>; 2] { [Box::new(key), Box::new(bind(key))] });
    assert_eq!(session("B").sync_scope(|| queue.map(|callback| callback())), ["B", "A"]);
}

// C04
#[test]
fn a_listener_hears_as_the_session_that_bound_it_also_when_that_is_finished_and_can_tell() {
    let listen = || (key(), Context::current().is_finished());
    let (bound, during) = session("A").sync_scope(|| {
        let bound = bind_fn(move |()| listen());
        let during = bound(());
        (bound, during)
    });
    let heard = |key: &str, finished| (key.to_owned(), finished);
    assert_eq!(during, heard("A", false));
    assert_eq!((listen(), bound(())), (heard("none", false), heard("A", true)));
    assert_eq!(session("B").sync_scope(|| (listen(), bound(()))), (heard("B", false), heard("A", true)));
}

// C05
#[tokio::test]
async fn whatever_enters_a_session_leaves_it() {
    let a = || session("A");
    let current = || a().sync_scope(Context::current);
    a().sync_scope(|| ());
    assert_eq!(key(), "none", "Session::sync_scope");
    current().sync_scope(|| ());
    assert_eq!(key(), "none", "Context::sync_scope");
    a().scope(async {}).await;
    assert_eq!(key(), "none", "Session::scope");
    current().scope(async {}).await;
    assert_eq!(key(), "none", "Context::scope");
    async {}.with_session(a()).await;
    assert_eq!(key(), "none", "with_session");
    let mut items = Box::pin(stream::iter([1, 2]).with_session(a()));
    let _ = items.next().await;
    assert_eq!(key(), "none", "a stream, half-way");
    let mut into = Box::pin(sink::drain().with_session(a()));
    into.send(1).await.unwrap();
    assert_eq!(key(), "none", "a sink, half-way");
    current().bind(|| ())();
    current().bind_fn(|()| ())(());
    current().bind_mut(|()| ())(());
    assert_eq!(key(), "none", "bound closures");
    // A future that is polled once, and then neither again nor dropped.
    let mut half = Box::pin(a().scope(std::future::pending::<()>()));
    assert!(futures::poll!(&mut half).is_pending());
    assert_eq!(key(), "none", "a future, half-way");
    std::mem::forget(half);
    assert_eq!(key(), "none", "a future that is leaked");
}

// C06; stress.rs has a hundred thousand.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_session_is_lost_among_many_chains_of_hops() {
    let mut sessions = JoinSet::new();
    for n in 0..1000 {
        let mine = n.to_string();
        let _ = sessions.spawn(session(&mine).scope(async move {
            for hop in 0..20 {
                match hop % 4 {
                    0 => yield_now().await,
                    1 => tokio::time::sleep(Duration::from_millis(1)).await,
                    2 => assert_eq!(spawn_blocking(key).await.unwrap(), mine),
                    _ => assert_eq!(tokio::spawn(async { key() }).await.unwrap(), "none"),
                }
                assert_eq!(key(), mine);
            }
        }));
    }
    let _ = sessions.join_all().await;
    assert_eq!(key(), "none");
}

// C07
#[tokio::test]
async fn a_timer_that_was_set_before_a_panic_has_its_session() {
    let timer = Arc::new(Mutex::new(None));
    let set = timer.clone();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        session("A").sync_scope(|| {
            let later = async { (tokio::time::sleep(Duration::from_millis(1)).await, key()).1 };
            *set.lock().unwrap() = Some(spawn(later));
            resume_unwind(Box::new("planned"))
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(key(), "none");
    let timer = timer.lock().unwrap().take().unwrap();
    assert_eq!(timer.await.unwrap(), "A");
}

// C10
#[tokio::test]
async fn a_message_of_another_thread_does_not_change_the_session_of_a_run_that_is_going() {
    let (message, mut arrived) = mpsc::channel(1);
    let (handled, is_handled) = oneshot::channel();
    let run = tokio::spawn(Session::new().thread_id("A").scope(async move {
        let before = Context::current();
        message.send(()).await.unwrap();
        is_handled.await.unwrap();
        assert_eq!(Context::current(), before);
        // Neither does what the run itself binds reach the record that it took.
        set_session_vars(Session::new().thread_id("C")).unwrap();
        before
    }));
    arrived.recv().await.unwrap();
    Session::new().thread_id("B").scope(async { handled.send(()).unwrap() }).await;
    assert_eq!(run.await.unwrap().session().thread_id().as_bound(), Some("A"));
}

// C12
#[tokio::test]
async fn a_stream_that_is_left_early_ends_in_its_own_session_and_touches_no_other() {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let guard = ReadsOnDrop(seen.clone());
    session("caller")
        .scope(async {
            let mut items = Box::pin(session("A").scope(stream::iter([1, 2]).inspect(move |_| {
                let _ = &guard;
            })));
            let _ = items.next().await;
            // Dropped by somebody else, who has another session.
            spawn(async move { drop(items) }.with_session(session("B"))).await.unwrap();
            assert_eq!(key(), "caller");
        })
        .await;
    assert_eq!(*seen.lock().unwrap(), ["A"]);
}

// C13
#[tokio::test]
async fn a_worker_that_a_session_started_works_as_the_session_of_each_job() {
    let (jobs, mut queue) = mpsc::channel::<(Context, oneshot::Sender<String>)>(1);
    let worker = session("A").sync_scope(|| {
        spawn_detached(async move {
            while let Some((job, answer)) = queue.recv().await {
                assert_eq!(key(), "none");
                answer.send(job.scope(async { (yield_now().await, key()).1 }).await).unwrap();
            }
        })
    });
    for mine in ["1", "2"] {
        let (answer, answered) = oneshot::channel();
        jobs.send((session(mine).sync_scope(Context::current), answer)).await.unwrap();
        assert_eq!(answered.await.unwrap(), mine);
    }
    drop(jobs);
    worker.await.unwrap();
}

// C14
#[tokio::test]
async fn a_pool_that_outlives_a_session_keeps_its_text_and_nothing_that_it_worked_with() {
    let mut pool = Vec::new();
    let message: Weak<[u8; 1024]> = session("A")
        .scope(async {
            let message = Arc::new([0; 1024]);
            pool.push(Context::current());
            yield_now().await;
            Arc::downgrade(&message)
        })
        .await;
    assert!(message.upgrade().is_none());
    assert_eq!(pool[0].session().session_key().as_bound(), Some("A"));
}

// The table of what a child starts with, for the rows that no report above has.
#[tokio::test]
async fn every_other_kind_of_child_inherits_through_its_own_call_and_gives_nothing_back() {
    let local = LocalSet::new();
    let work = session("A").scope(async {
        let mut set = JoinSet::new();
        let _ = set.spawn_blocking_inheriting(|| (key(), bind_key("B")).0);
        let _ = set.spawn_local_inheriting(async { (key(), bind_key("B")).0 });
        let mut kept = set.join_all().await;
        kept.push(spawn_local(async { (key(), bind_key("B")).0 }).await.unwrap());
        let mut changing = Vec::new();
        std::thread::scope(|threads| {
            kept.push(threads.spawn(bind(|| (key(), bind_key("B")).0)).join().unwrap());
            let mut bound = bind_mut(|()| changing.push((key(), bind_key("B")).0));
            let _ = threads.spawn(move || [(), ()].into_iter().for_each(&mut bound)).join();
        });
        kept.extend(changing);
        let named = std::thread::Builder::new().spawn(bind(|| (key(), bind_key("B")).0)).unwrap();
        kept.push(named.join().unwrap());
        (kept, key())
    });
    let (kept, own) = local.run_until(work).await;
    assert_eq!(kept, ["A"; 7]);
    assert_eq!(own, "A");
}
