//! Ten thousand runs at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use hermes_env_bridge::{
    OmniusRunContext, Surface, bind, get_omnius_run_context, run_with_omnius_context, run_with_omnius_context_sync,
    spawn, spawn_blocking,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

const RUNS: usize = 10_000;
const HOPS: usize = 20;

type Callback = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Count {
    looked: AtomicUsize,
    foreign: AtomicUsize,
    missing: AtomicUsize,
    outside: AtomicUsize,
}

impl Count {
    fn look(&self, mine: usize) {
        let _ = self.looked.fetch_add(1, Ordering::Relaxed);
        let wrong = match get_omnius_run_context() {
            None => &self.missing,
            Some(run) if run.run_id() != mine.to_string() => &self.foreign,
            Some(_) => return,
        };
        let _ = wrong.fetch_add(1, Ordering::Relaxed);
    }

    fn look_outside(&self) {
        let _ = self.outside.fetch_add(usize::from(get_omnius_run_context().is_some()), Ordering::Relaxed);
    }
}

fn record(n: usize) -> OmniusRunContext {
    OmniusRunContext::builder(n.to_string(), Surface::Background).build().unwrap()
}

async fn hops(mine: usize, count: Arc<Count>, elsewhere: mpsc::UnboundedSender<Callback>) {
    for hop in 0..HOPS {
        let inside = count.clone();
        match (mine + hop) % 7 {
            0 => yield_now().await,
            1 => sleep(Duration::from_millis(1)).await,
            2 => spawn(async move { inside.look(mine) }).await.unwrap(),
            3 => spawn_blocking(move || inside.look(mine)).await.unwrap(),
            4 => {
                let (done, called) = oneshot::channel();
                let callback = bind(move || {
                    inside.look(mine);
                    done.send(()).unwrap();
                });
                elsewhere.send(Box::new(callback)).unwrap_or_else(|_| panic!("the other task has gone"));
                called.await.unwrap();
            }
            5 => stream::iter(0..2).for_each(|_| async { count.look(mine) }).await,
            _ => {
                let other = mine + RUNS;
                run_with_omnius_context_sync(record(other), || count.look(other));
                run_with_omnius_context(record(other), async {
                    yield_now().await;
                    count.look(other);
                })
                .await;
            }
        }
        count.look(mine);
    }
}

/// C06: under many concurrent chains the value disappeared after some time and stayed gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c06_ten_thousand_concurrent_runs_of_twenty_hops_see_their_own_run_alone() {
    let count = Arc::new(Count::default());
    let (elsewhere, mut callbacks) = mpsc::unbounded_channel::<Callback>();
    let outside = count.clone();
    let other = tokio::spawn(async move {
        while let Some(callback) = callbacks.recv().await {
            outside.look_outside();
            callback();
            outside.look_outside();
        }
    });
    let mut runs = JoinSet::new();
    for n in 0..RUNS {
        let _ = runs.spawn(run_with_omnius_context(record(n), hops(n, count.clone(), elsewhere.clone())));
        let outside = count.clone();
        let _ = runs.spawn(async move {
            for _ in 0..3 {
                outside.look_outside();
                yield_now().await;
            }
        });
    }
    drop(elsewhere);
    while let Some(result) = runs.join_next().await {
        result.unwrap();
    }
    other.await.unwrap();
    count.look_outside();
    let total = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    assert_eq!((total(&count.foreign), total(&count.missing), total(&count.outside)), (0, 0, 0));
    assert!(total(&count.looked) >= RUNS * HOPS);
}
