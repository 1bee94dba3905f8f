//! Node's `AsyncLocalStorage` is the reference: every step of a program sees here what it sees there.
//!
//! `tests/python/programs.py` says what a program is and has made these.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hermes_env_bridge::{
    OmniusRunContext, Surface, bind_fn, get_omnius_run_context, run_with_omnius_context, run_with_omnius_context_sync,
    spawn,
};
use serde::Deserialize;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;

type Body = Arc<[Step]>;
type Callback = Arc<dyn Fn(()) + Send + Sync>;
type Seen = BTreeMap<String, Vec<String>>;

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Step {
    See { label: String },
    Throw,
    Wait { timer: bool },
    Run { id: String, body: Body },
    Try { body: Body },
    Later { body: Body },
    Task { body: Body },
    Push { queue: String, bound: bool, body: Body },
    Drain { queue: String },
    On { event: String, bound: bool, body: Body },
    Emit { event: String },
}

/// What a program throws.
struct Thrown;

/// One run of a program, on tokio.
#[derive(Default)]
struct World {
    seen: Mutex<Seen>,
    queues: Mutex<HashMap<String, Vec<Callback>>>,
    listeners: Mutex<HashMap<String, Vec<Callback>>>,
    pending: Mutex<Vec<JoinHandle<()>>>,
}

impl World {
    fn see(&self, label: &str) {
        let id = get_omnius_run_context().map_or("none".to_owned(), |run| run.run_id().to_owned());
        self.seen.lock().unwrap().entry(label.to_owned()).or_default().push(id);
    }

    fn callback(self: &Arc<Self>, bound: bool, body: &Body) -> Callback {
        let (world, body) = (self.clone(), body.clone());
        let call = move |()| world.call(&body);
        if bound { Arc::new(bind_fn(call)) } else { Arc::new(call) }
    }

    fn pending(&self, task: JoinHandle<()>) {
        self.pending.lock().unwrap().push(task);
    }

    /// What is the same in a callback and in a future.
    fn plain(self: &Arc<Self>, step: &Step) {
        match step {
            Step::See { label } => self.see(label),
            Step::Throw => resume_unwind(Box::new(Thrown)),
            Step::Later { body } => {
                let (world, body) = (self.clone(), body.clone());
                self.pending(spawn(async move {
                    sleep(Duration::from_millis(1)).await;
                    world.call(&body);
                }));
            }
            Step::Task { body } => self.pending(spawn(self.clone().work(body.clone()))),
            Step::Push { queue, bound, body } => {
                let callback = self.callback(*bound, body);
                self.queues.lock().unwrap().entry(queue.clone()).or_default().push(callback);
            }
            Step::On { event, bound, body } => {
                let callback = self.callback(*bound, body);
                self.listeners.lock().unwrap().entry(event.clone()).or_default().push(callback);
            }
            Step::Drain { queue } => {
                let jobs = self.queues.lock().unwrap().remove(queue).unwrap_or_default();
                for job in jobs {
                    job(());
                }
            }
            Step::Emit { event } => {
                let listeners = self.listeners.lock().unwrap().get(event).cloned().unwrap_or_default();
                for listener in listeners {
                    listener(());
                }
            }
            Step::Run { .. } | Step::Try { .. } | Step::Wait { .. } => unreachable!("not the same in both"),
        }
    }

    fn call(self: &Arc<Self>, body: &Body) {
        for step in body.iter() {
            match step {
                Step::Run { id, body } => run_with_omnius_context_sync(record(id), || self.call(body)),
                Step::Try { body } => caught(catch_unwind(AssertUnwindSafe(|| self.call(body)))),
                _ => self.plain(step),
            }
        }
    }

    fn work(self: Arc<Self>, body: Body) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for step in body.iter() {
                match step {
                    Step::Run { id, body } => {
                        run_with_omnius_context(record(id), self.clone().work(body.clone())).await;
                    }
                    Step::Try { body } => {
                        caught(AssertUnwindSafe(self.clone().work(body.clone())).catch_unwind().await);
                    }
                    Step::Wait { timer: false } => yield_now().await,
                    Step::Wait { timer: true } => sleep(Duration::from_millis(1)).await,
                    _ => self.plain(step),
                }
            }
        })
    }
}

fn caught(result: Result<(), Box<dyn Any + Send>>) {
    if let Err(thrown) = result {
        assert!(thrown.is::<Thrown>(), "another panic");
    }
}

fn record(id: &str) -> OmniusRunContext {
    OmniusRunContext::builder(id, Surface::Background).build().unwrap()
}

async fn run(program: Body) -> Seen {
    let world = Arc::new(World::default());
    world.clone().work(program).await;
    loop {
        let task = world.pending.lock().unwrap().pop();
        match task {
            Some(task) => task.await.unwrap(),
            None => break,
        }
    }
    world.see("outside");
    let mut seen = world.seen.lock().unwrap().clone();
    for seen in seen.values_mut() {
        seen.sort();
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_step_sees_what_it_sees_in_node() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let file = folder.join("programs.json");
    let programs: Vec<Body> = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert!(programs.len() >= 40);
    let node = Command::new("node")
        .arg(folder.join("node.mjs"))
        .stdin(File::open(&file).unwrap())
        .stderr(Stdio::inherit())
        .output();
    let Ok(node) = node else {
        eprintln!("skipped: {} programs are not compared, there is no node", programs.len());
        return;
    };
    let seen_in_node: Vec<Seen> = serde_json::from_slice(&node.stdout).unwrap();
    assert_eq!(seen_in_node.len(), programs.len());
    for (at, (program, expected)) in programs.into_iter().zip(seen_in_node).enumerate() {
        assert_eq!(run(program).await, expected, "program {at}");
    }
}
