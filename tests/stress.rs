//! A hundred thousand sessions at once, each through twenty hops of every kind. Counted are reads, foreign ones and
//! missing ones, in the tasks, in their destructors, and outside of every session.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_env_bridge::{Context, Session, bind, bind_fn, spawn, spawn_blocking, spawn_detached};
use tokio::sync::{Barrier, mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};

const TASKS: usize = 100_000;
const HOPS: usize = 20;

#[derive(Default)]
struct Count {
    reads: AtomicUsize,
    foreign: AtomicUsize,
    missing: AtomicUsize,
    /// Reads outside of every session that found one.
    leaked: AtomicUsize,
}

impl Count {
    /// Compares what is read here with the session that must be here.
    fn read(&self, mine: usize) {
        let _ = self.reads.fetch_add(1, Ordering::Relaxed);
        match Context::current().session().session_key().as_bound().map(str::parse::<usize>) {
            Some(Ok(key)) if key == mine => {}
            Some(_) => drop(self.foreign.fetch_add(1, Ordering::Relaxed)),
            None => drop(self.missing.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn read_outside(&self) {
        if Context::current().session().is_bound() {
            let _ = self.leaked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reads in its destructor, also where its task panics or is aborted.
struct Guard(Arc<Count>, usize);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.read(self.1);
    }
}

type Job = Box<dyn FnOnce() + Send>;

async fn hop(kind: usize, count: &Arc<Count>, mine: usize, worker: &mpsc::UnboundedSender<(Job, oneshot::Sender<()>)>) {
    let elsewhere = count.clone();
    match kind {
        0 => yield_now().await,
        1 => tokio::time::sleep(Duration::from_millis(1)).await,
        2 => spawn(async move { elsewhere.read(mine) }).await.unwrap(),
        3 => spawn_blocking(move || elsewhere.read(mine)).await.unwrap(),
        4 => {
            let (done, is_done) = oneshot::channel();
            worker.send((Box::new(bind(move || elsewhere.read(mine))), done)).unwrap();
            is_done.await.unwrap();
        }
        _ => {
            let callback = bind_fn(move |mine| elsewhere.read(mine));
            tokio::spawn(async move { callback(mine) }).await.unwrap();
        }
    }
}

/// How every tenth task ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Normally,
    Panicking,
    Aborted,
}

/// Runs all tasks, with every tenth ending as `tenth` says for its number.
fn run(tenth: impl Fn(usize) -> End) -> Arc<Count> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .max_blocking_threads(8)
        .enable_time()
        .build()
        .unwrap();
    let count = Arc::<Count>::default();
    runtime.block_on(async {
        // One worker for all jobs. It was started in a session, and has none.
        let (worker, mut jobs) = mpsc::unbounded_channel::<(Job, oneshot::Sender<()>)>();
        let outside = count.clone();
        let working = Session::new().session_key("0").sync_scope(|| {
            spawn_detached(async move {
                while let Some((job, done)) = jobs.recv().await {
                    job();
                    outside.read_outside();
                    let _ = done.send(());
                }
            })
        });
        // Bare tasks between the sessions.
        let (outside, is_over) = (count.clone(), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        let churn = tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let outside = outside.clone();
                tokio::spawn(async move { outside.read_outside() }).await.unwrap();
            }
        });

        let all_there = Arc::new(Barrier::new(TASKS + 1));
        let mut tasks = JoinSet::new();
        let mut aborted = Vec::new();
        for mine in 0..TASKS {
            let end = if mine % 10 == 0 { tenth(mine) } else { End::Normally };
            let (count, worker, all_there) = (count.clone(), worker.clone(), all_there.clone());
            let task = tasks.spawn(Session::new().session_key(mine.to_string()).scope(async move {
                let _guard = Guard(count.clone(), mine);
                let _ = all_there.wait().await;
                for at in 0..HOPS {
                    hop((mine + at) % 6, &count, mine, &worker).await;
                    count.read(mine);
                    match end {
                        End::Panicking if at == HOPS / 2 => resume_unwind(Box::new("planned")),
                        End::Aborted if at == HOPS / 2 => std::future::pending().await,
                        _ => {}
                    }
                }
            }));
            if end == End::Aborted {
                aborted.push(task);
            }
        }
        drop(worker);
        let _ = all_there.wait().await;
        // Wherever they are by then, while the others are running.
        for (at, task) in aborted.iter().enumerate() {
            if at % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            task.abort();
        }
        while tasks.join_next().await.is_some() {}
        over.store(true, Ordering::Relaxed);
        churn.await.unwrap();
        working.await.unwrap();
        count.read_outside();
    });
    count
}

fn assert_own(count: &Count) {
    let of = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    println!(
        "{} reads, {} foreign, {} missing, {} leaked",
        of(&count.reads),
        of(&count.foreign),
        of(&count.missing),
        of(&count.leaked)
    );
    assert_eq!((of(&count.foreign), of(&count.missing), of(&count.leaked)), (0, 0, 0));
}

// C06
#[test]
fn a_hundred_thousand_sessions_read_their_own_at_every_hop() {
    let count = run(|_| End::Normally);
    assert_own(&count);
    // One read after each hop, one elsewhere in four of six kinds of it, and one in the destructor.
    let elsewhere: usize = (0..TASKS).map(|mine| (0..HOPS).filter(|at| (mine + at) % 6 > 1).count()).sum();
    assert_eq!(count.reads.load(Ordering::Relaxed), TASKS * (HOPS + 1) + elsewhere);
}

#[test]
fn so_they_do_where_every_tenth_panics_or_is_aborted() {
    let count = run(|mine| if mine % 20 == 0 { End::Panicking } else { End::Aborted });
    assert_own(&count);
    assert!(count.reads.load(Ordering::Relaxed) > TASKS * 9 / 10 * (HOPS + 1));
}
