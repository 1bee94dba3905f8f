//! What went wrong for people with the context of a run, a test each. The numbers are those of the reports that the
//! project was designed from.

use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use hermes_env_bridge::{
    ChatType, Context, OmniusRunContext, Snapshot, Surface, TelegramRunContext, bind, bind_fn, entry, extract,
    get_omnius_run_context, get_telegram_run_context, inject, run_with_omnius_context, run_with_omnius_context_sync,
    spawn, spawn_blocking, spawn_detached,
};
use tokio::sync::{Barrier, mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

fn run(id: &str) -> OmniusRunContext {
    OmniusRunContext::builder(id, Surface::Api).build().unwrap()
}

fn seen() -> Option<String> {
    get_omnius_run_context().map(|run| run.run_id().to_owned())
}

/// What [`seen`] returns in the run with this id.
#[allow(clippy::unnecessary_wraps)]
fn some(id: &str) -> Option<String> {
    Some(id.to_owned())
}

/// C01: a lock protected the writing and not the run that read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c01_interleaved_runs_always_read_their_own_project() {
    async fn work(root: &'static str) {
        for _ in 0..200 {
            assert_eq!(get_omnius_run_context().unwrap().project_root(), Some(root));
            yield_now().await;
        }
    }

    let mut runs = JoinSet::new();
    for root in ["/a", "/b"] {
        let run = OmniusRunContext::builder("r", Surface::Api).project_root(root).build().unwrap();
        let _ = runs.spawn(run_with_omnius_context(run, work(root)));
    }
    let _ = runs.join_all().await;
}

/// C02: to hide the race, runs were queued. Here each of eight waits inside for the other seven.
#[tokio::test]
async fn c02_isolation_does_not_serialise_runs() {
    let together = Arc::new(Barrier::new(8));
    let mut runs = JoinSet::new();
    for n in 0..8 {
        let together = together.clone();
        let _ =
            runs.spawn(run_with_omnius_context(run(&n.to_string()), async move { together.wait().await.is_leader() }));
    }
    assert_eq!(runs.join_all().await.into_iter().filter(|leader| *leader).count(), 1);
}

/// C03: the context vanished in callbacks of streams and of hand-made queues.
#[test]
fn c03_a_queued_callback_sees_its_caller_unless_it_is_bound() {
    type Job = Box<dyn FnOnce() -> Option<String>>;
    let queue: Vec<Job> = run_with_omnius_context_sync(run("A"), || vec![Box::new(seen) as Job, Box::new(bind(seen))]);
    let called: Vec<_> = run_with_omnius_context_sync(run("B"), || queue.into_iter().map(|job| job()).collect());
    assert_eq!(called, [some("B"), some("A")]);
}

/// C04: a listener that was registered inside a run and fired by someone else had no context.
#[test]
fn c04_a_bound_listener_sees_its_run_whoever_fires_it_and_is_told_when_that_has_ended() {
    type Listener = Box<dyn Fn(()) -> (Option<String>, bool)>;
    let look = |()| (seen(), Context::current().is_finished());
    run_with_omnius_context_sync(run("A"), || {
        let bound = bind_fn(look);
        assert_eq!(bound(()), (some("A"), false));
    });
    let listeners: [Listener; 2] =
        run_with_omnius_context_sync(run("A"), || [Box::new(look) as _, Box::new(bind_fn(look)) as _]);
    let emit = || listeners.iter().map(|listener| listener(())).collect::<Vec<_>>();
    assert_eq!(emit(), [(None, false), (some("A"), true)]);
    assert_eq!(run_with_omnius_context_sync(run("B"), emit), [(some("B"), false), (some("A"), true)]);
}

/// C05: an enter-and-stay call leaked. There is none: whatever enters takes the work that is inside.
#[test]
fn c05_nothing_changes_the_context_without_an_end() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in ["run/current.rs", "run/entry.rs", "run/record.rs", "scope.rs", "context.rs"] {
        let source = fs::read_to_string(sources.join(file)).unwrap();
        for line in source.lines().filter(|line| line.trim_start().starts_with("pub fn ")) {
            for name in ["enter", "attach", "activate", "guard", "set_"] {
                assert!(!line.contains(name), "{file}: {line}");
            }
        }
    }
}

/// C07: after a throw inside a run, a timer that it had set had lost the context.
#[tokio::test]
async fn c07_a_timer_set_before_a_panic_still_has_the_run_and_the_caller_has_none() {
    let (timer, late) = oneshot::channel();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        run_with_omnius_context_sync(run("A"), || {
            drop(spawn(async move {
                sleep(Duration::from_millis(5)).await;
                timer.send(seen()).unwrap();
            }));
            panic!("on purpose");
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(seen(), None);
    assert_eq!(late.await.unwrap(), some("A"));
}

/// C09: a job with its own directory changed that of a chat which started meanwhile.
#[tokio::test]
async fn c09_a_jobs_project_is_nowhere_in_a_run_that_starts_meanwhile() {
    let (started, go) = oneshot::channel();
    let (done, end) = oneshot::channel::<()>();
    let before = std::env::current_dir().unwrap();
    let job = entry::scheduler().project_root("/repo").bind_hermes().run(async move {
        started.send(()).unwrap();
        end.await.unwrap();
        get_omnius_run_context().unwrap().project_root().map(str::to_owned)
    });
    let job = tokio::spawn(job.unwrap());
    go.await.unwrap();
    let api = entry::api().bind_hermes().run(async {
        let held = Snapshot::capture().to_json();
        (held, hermes_env_bridge::configured_cwd(), std::env::current_dir().unwrap())
    });
    let (held, cwd, process) = api.unwrap().await;
    assert!(!held.contains("/repo"), "{held}");
    assert!(cwd.is_none_or(|cwd| !cwd.starts_with("/repo")));
    assert_eq!(process, before);
    done.send(()).unwrap();
    assert_eq!(job.await.unwrap().as_deref(), Some("/repo"));
}

/// C10: a message from another thread replaced the source of a run that was still going.
#[tokio::test]
async fn c10_a_later_message_changes_nothing_in_a_run_that_is_going() {
    fn message(thread: i64) -> OmniusRunContext {
        let chat = TelegramRunContext::builder(1, ChatType::Supergroup, "k", "t").thread_id(thread).build().unwrap();
        OmniusRunContext::builder("r", Surface::Telegram).telegram(chat).build().unwrap()
    }
    let thread = || get_telegram_run_context().unwrap().thread_id();

    let first = run_with_omnius_context(message(17), async move {
        let before = thread();
        let second = run_with_omnius_context_sync(message(18), || spawn(async move { thread() }));
        (before, second.await.unwrap(), thread())
    });
    assert_eq!(first.await, (Some(17), Some(18), Some(17)));
}

/// C11: a shared tool server could not tell which user a call was for.
#[test]
fn c11_a_call_carries_the_owner_and_none_outside_of_a_run() {
    let call = || {
        let mut headers = HashMap::new();
        inject(&mut headers).unwrap();
        headers
    };
    let owned = entry::api().owner("user", "u7").run_sync(call).unwrap();
    let told = extract(&owned).unwrap().unwrap().restore();
    assert_eq!(told.run().unwrap().owner_id(), Some("u7"));
    assert_eq!(extract(&call()).unwrap().unwrap(), Snapshot::default());
}

/// C12: stopping a stream early filled the log with errors.
#[tokio::test]
async fn c12_a_stream_that_is_left_early_disturbs_nobody() {
    let other = tokio::spawn(run_with_omnius_context(run("B"), async {
        for _ in 0..10 {
            assert_eq!(seen(), some("B"));
            yield_now().await;
        }
    }));
    let mut numbers = Box::pin(run_with_omnius_context(run("A"), stream::iter(0..3).then(|_| async { seen() })));
    assert_eq!(numbers.next().await, Some(some("A")));
    drop(numbers);
    assert_eq!(seen(), None);
    other.await.unwrap();
}

/// C13: a shared worker that was created during the first request worked under its identity for ever.
#[tokio::test]
async fn c13_a_detached_worker_does_each_job_for_the_run_that_ordered_it() {
    let (jobs, mut queue) = mpsc::unbounded_channel::<Box<dyn FnOnce() -> Option<String> + Send>>();
    let worker = run_with_omnius_context_sync(run("A"), || {
        spawn_detached(async move {
            let mut did = vec![seen()];
            while let Some(job) = queue.recv().await {
                did.push(job());
            }
            did
        })
    });
    for id in ["A", "B"] {
        run_with_omnius_context_sync(run(id), || jobs.send(Box::new(bind(seen))).unwrap());
    }
    jobs.send(Box::new(seen)).unwrap();
    drop(jobs);
    assert_eq!(worker.await.unwrap(), [None, some("A"), some("B"), None]);
}

/// C14: a pooled connection or thread kept a finished request's values alive.
#[tokio::test]
async fn c14_what_outlives_a_run_does_not_keep_its_record() {
    let weak = Arc::new(Mutex::new(Weak::new()));
    let slot = weak.clone();
    let (end, ended) = oneshot::channel::<()>();
    let worker = Arc::new(Mutex::new(None));
    let worker_slot = worker.clone();
    let pool = run_with_omnius_context(run("A"), async move {
        *slot.lock().unwrap() = Arc::downgrade(&get_omnius_run_context().unwrap());
        // The thread goes back to the pool and stays there.
        let _ = spawn_blocking(seen).await.unwrap();
        *worker_slot.lock().unwrap() = Some(spawn_detached(async move { ended.await.unwrap() }));
    });
    pool.await;
    assert!(weak.lock().unwrap().upgrade().is_none());
    end.send(()).unwrap();
    let worker = worker.lock().unwrap().take().unwrap();
    worker.await.unwrap();
}
