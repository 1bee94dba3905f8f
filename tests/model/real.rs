//! The same steps on the crate, tokio and real threads.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use futures::stream::{self, FuturesUnordered, StreamExt};
use futures::{FutureExt, SinkExt, sink};
use hermes_env_bridge::{
    Context, JoinSetExt, Limits, Session, Snapshot, VARIABLES, bind, bind_fn, bind_mut, clear_session_vars,
    declare_stateless_channel, get_session_env, reset_session_vars, scoped_current_session_id, set_current_session_id,
    set_session_vars, spawn, spawn_blocking, spawn_detached, spawn_local, spawn_thread,
};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{self, JoinError, JoinSet, LocalSet};

use crate::program::{Blocking, Call, Callback, Carrier, End, Entry, Inline, Spawn, Stated, Step, Task, Verb};
use crate::reference::{Outcome, Seen, State};

/// What runs the program's steps: a task, a branch of one, or a thread.
#[derive(Clone, Default)]
struct Runner {
    log: Arc<Mutex<Vec<Seen>>>,
    /// Told when this hangs, where somebody aborts it for that.
    hanging: Option<Arc<Mutex<Option<oneshot::Sender<()>>>>>,
    unguarded: bool,
    local: bool,
}

/// Reads when it is dropped.
struct Guard(Option<Runner>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(runner) = &self.0 {
            runner.push(Seen::Dropped(read()));
        }
    }
}

/// A panic that no hook reports.
fn panic_as_planned() -> ! {
    resume_unwind(Box::new("planned"))
}

fn outcome<R>(ended: &Result<R, JoinError>) -> Outcome {
    match ended {
        Ok(_) => Outcome::Done,
        Err(error) if error.is_cancelled() => Outcome::Aborted,
        Err(_) => Outcome::Panicked,
    }
}

/// Everything that the context has. Each read by name says the same.
fn read() -> State {
    let context = Context::current();
    let session = context.session();
    let bound = session.iter().filter_map(|(name, state)| Some((name.to_owned(), state.as_bound()?.to_owned())));
    let (async_delivery, cwd) = (session.async_delivery(), session.cwd().map(str::to_owned));
    let state = State { bound: bound.collect(), async_delivery, cwd };
    for name in VARIABLES.iter().map(|variable| variable.name) {
        assert_eq!(get_session_env(name, "default"), state.read(name, "default"), "{name}");
    }
    state
}

fn session(stated: &Stated) -> Session {
    let pairs = stated.pairs.iter().map(|(name, value)| (*name, value.as_str()));
    let session = Session::from_pairs(pairs).unwrap().async_delivery(stated.async_delivery);
    match &stated.cwd {
        Some(cwd) => session.cwd(cwd),
        None => session,
    }
}

fn carried(carrier: Carrier) -> Context {
    let snapshot = Snapshot::capture();
    let arrived = match carrier {
        Carrier::Json => Snapshot::from_json(&snapshot.to_json(), Limits::default()).unwrap(),
        Carrier::Header => Snapshot::from_header(&snapshot.to_header().unwrap()).unwrap(),
        Carrier::Mapping => restored(&snapshot.to_mapping()),
    };
    assert_eq!(arrived, snapshot);
    arrived.restore()
}

fn restored<'a, N: AsRef<str> + 'a>(pairs: impl IntoIterator<Item = (&'a N, &'a String)>) -> Snapshot {
    Snapshot::from_mapping(pairs.into_iter().map(|(name, value)| (name.as_ref(), value.as_str()))).unwrap()
}

/// Runs `inner` with the context that `entry` says.
fn enter<T>(entry: &Entry, inner: T) -> hermes_env_bridge::Scope<T> {
    match entry {
        Entry::Session(stated) => session(stated).scope(inner),
        Entry::Current => Context::current().scope(inner),
        Entry::Carried(carrier) => carried(*carrier).scope(inner),
        Entry::Restored(pairs) => restored(pairs.iter().map(|(name, value)| (name, value))).restore().scope(inner),
    }
}

/// What the program's first task sees.
pub async fn run(steps: Vec<Step>) -> Vec<Seen> {
    let runner = Runner::default();
    let first = runner.clone();
    // Not a task: also a `block_on` body is one that enters scopes. It runs on into the first panic.
    let _ = AssertUnwindSafe(first.steps(steps)).catch_unwind().await;
    runner.seen()
}

impl Runner {
    fn push(&self, seen: Seen) {
        self.log.lock().unwrap().push(seen);
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    fn guard(&self) -> Guard {
        Guard((!self.unguarded).then(|| self.clone()))
    }

    /// A runner with a log of its own, which nobody aborts for hanging.
    fn branch(&self) -> Self {
        Self { unguarded: self.unguarded, local: self.local, ..Self::default() }
    }

    fn verb(&self, verb: &Verb) {
        let done = match verb {
            Verb::Set(stated) => set_session_vars(session(stated)),
            Verb::Clear => clear_session_vars(),
            Verb::Reset => reset_session_vars(),
            Verb::SetId(id) => set_current_session_id(id),
            Verb::Stateless => declare_stateless_channel(),
        };
        self.push(Seen::Verb { accepted: done.is_ok() });
    }

    fn inlines(&self, steps: &[Inline]) {
        for step in steps {
            self.inline(step);
        }
    }

    fn inline(&self, step: &Inline) {
        let guarded = |body: &[Inline]| {
            let _guard = self.guard();
            self.inlines(body);
        };
        match step {
            Inline::Read => self.push(Seen::Read(read())),
            Inline::Verb(verb) => self.verb(verb),
            Inline::ScopedId(id, body) => {
                let done = scoped_current_session_id(id.as_deref(), || self.inlines(body));
                self.push(Seen::Verb { accepted: done.is_ok() });
            }
            Inline::Scope(stated, body) => session(stated).sync_scope(|| guarded(body)),
            Inline::Copy(body) => Context::current().sync_scope(|| guarded(body)),
            Inline::Catch(body) => {
                if catch_unwind(AssertUnwindSafe(|| self.inlines(body))).is_err() {
                    self.push(Seen::Caught);
                }
            }
            Inline::Bind { callback, body, call } => {
                let job = self.bind(*callback, body);
                match call {
                    Call::Never => drop(job),
                    Call::Here => job(),
                    Call::OnThread => thread::scope(|threads| {
                        threads.spawn(job).join().unwrap_or_else(|panic| resume_unwind(panic));
                    }),
                    Call::InSession(stated) => session(stated).sync_scope(|| {
                        job();
                        self.inline(&Inline::Read);
                    }),
                }
            }
            Inline::Panic => panic_as_planned(),
        }
    }

    /// The body, bound here. Those that can be called more than once are called twice, and dropped where that is done.
    fn bind(&self, callback: Callback, body: &[Inline]) -> Box<dyn FnOnce() + Send> {
        let (runner, guard, body) = (self.clone(), self.guard(), body.to_vec());
        match callback {
            Callback::Once => Box::new(bind(move || {
                let _guard = guard;
                runner.inlines(&body);
            })),
            Callback::Fn => {
                let bound = bind_fn(move |()| {
                    let _ = &guard;
                    runner.inlines(&body);
                });
                Box::new(move || [(), ()].into_iter().for_each(&bound))
            }
            Callback::Mut => {
                let bound = bind_mut(move |()| {
                    let _ = &guard;
                    runner.inlines(&body);
                });
                Box::new(move || [(), ()].into_iter().for_each(bound))
            }
        }
    }

    fn steps(self, steps: Vec<Step>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for step in steps {
                self.step(step).await;
            }
        })
    }

    /// The steps, with a guard that is dropped after them.
    async fn guarded(self, steps: Vec<Step>) {
        let _guard = self.guard();
        self.clone().steps(steps).await;
    }

    async fn step(&self, step: Step) {
        match step {
            Step::Inline(step) => self.inline(&step),
            // A LocalSet does not let its thread go.
            Step::BlockInPlace(steps) if self.local => self.inlines(&steps),
            Step::BlockInPlace(steps) => task::block_in_place(|| self.inlines(&steps)),
            Step::Yield => task::yield_now().await,
            Step::Sleep => tokio::time::sleep(Duration::from_micros(100)).await,
            Step::Hang => {
                let told = self.hanging.as_ref().and_then(|hanging| hanging.lock().unwrap().take());
                if let Some(told) = told {
                    let _ = told.send(());
                    std::future::pending::<()>().await;
                }
            }
            Step::Scope(entry, steps) => Box::pin(enter(&entry, self.clone().guarded(steps))).await,
            Step::Catch(steps) => {
                if AssertUnwindSafe(self.clone().steps(steps)).catch_unwind().await.is_err() {
                    self.push(Seen::Caught);
                }
            }
            Step::Together { unordered, branches } => Box::pin(self.together(unordered, branches)).await,
            Step::Spawn { how, child, meanwhile } => match how {
                Spawn::Task(task, end) => Box::pin(self.task(task, end, child, meanwhile)).await,
                Spawn::Blocking(how) => Box::pin(self.blocking(how, child, meanwhile)).await,
            },
            Step::Stream { entry, items, taken, between } => {
                let (runner, guard) = (self.clone(), self.guard());
                let run = move |steps| {
                    let _ = &guard;
                    runner.clone().steps(steps)
                };
                let mut stream = Box::pin(enter(&entry, stream::iter(items).then(run)));
                for _ in 0..taken {
                    if stream.next().await.is_none() {
                        break;
                    }
                    self.clone().steps(between.clone()).await;
                }
            }
            Step::Sink { entry, items, between } => {
                let (runner, guard) = (self.clone(), self.guard());
                let run = move |guard, steps| {
                    let runner = runner.clone();
                    async move {
                        runner.steps(steps).await;
                        Ok::<_, ()>(guard)
                    }
                };
                let mut sink = Box::pin(enter(&entry, sink::unfold(guard, run)));
                for steps in items {
                    sink.send(steps).await.unwrap();
                    self.clone().steps(between.clone()).await;
                }
            }
        }
    }

    async fn together(&self, unordered: bool, branches: Vec<(Entry, Vec<Step>)>) {
        let mut runners = Vec::new();
        let mut futures = Vec::new();
        for (at, (entry, steps)) in branches.into_iter().enumerate() {
            let runner = self.branch();
            let branch = AssertUnwindSafe(enter(&entry, runner.clone().guarded(steps))).catch_unwind();
            futures.push(async move { (at, if branch.await.is_ok() { Outcome::Done } else { Outcome::Panicked }) });
            runners.push(runner);
        }
        let mut outcomes: Vec<_> = if unordered {
            futures.into_iter().collect::<FuturesUnordered<_>>().collect().await
        } else {
            join_all(futures).await
        };
        outcomes.sort_by_key(|(at, _)| *at);
        for (runner, (_, outcome)) in runners.iter().zip(outcomes) {
            self.push(Seen::Child(runner.seen(), outcome));
        }
    }

    async fn task(&self, task: Task, end: End, steps: Vec<Step>, meanwhile: Vec<Step>) {
        let (told, hangs) = oneshot::channel();
        let child = match end {
            End::Join => self.branch(),
            End::AbortHanging => Self { hanging: Some(Arc::new(Mutex::new(Some(told)))), ..self.branch() },
            End::AbortAfter(_) => Self { unguarded: true, ..self.branch() },
        };
        let log = Self { log: child.log.clone(), ..Self::default() };
        let work = child.guarded(steps);
        let mut set = JoinSet::new();
        let handle = match task {
            Task::Plain => Ok(tokio::spawn(work)),
            Task::Detached => Ok(spawn_detached(work)),
            Task::Inheriting => Ok(spawn(work)),
            Task::InSet => Err(set.spawn_inheriting(work)),
        };
        let abort = || match &handle {
            Ok(handle) => handle.abort(),
            Err(in_set) => in_set.abort(),
        };
        self.clone().steps(meanwhile).await;
        match end {
            End::Join => {}
            End::AbortHanging => {
                if hangs.await.is_ok() {
                    abort();
                }
            }
            End::AbortAfter(turns) => {
                for _ in 0..turns {
                    task::yield_now().await;
                }
                abort();
            }
        }
        let ended = match handle {
            Ok(handle) => handle.await,
            Err(_) => set.join_next().await.expect("one was spawned"),
        };
        match end {
            End::AbortAfter(_) => self.push(Seen::Aborted(log.seen())),
            _ => self.push(Seen::Child(log.seen(), outcome(&ended))),
        }
    }

    async fn blocking(&self, how: Blocking, steps: Vec<Step>, meanwhile: Vec<Step>) {
        let child = self.branch();
        let log = child.clone();
        let runtime = Handle::current();
        let outcome = match how {
            Blocking::Task => {
                let handle = spawn_blocking(move || runtime.block_on(child.guarded(steps)));
                self.clone().steps(meanwhile).await;
                outcome(&handle.await)
            }
            Blocking::InSet => {
                let mut set = JoinSet::new();
                let _ = set.spawn_blocking_inheriting(move || runtime.block_on(child.guarded(steps)));
                self.clone().steps(meanwhile).await;
                outcome(&set.join_next().await.expect("one was spawned"))
            }
            Blocking::Thread => {
                let (told, ended) = oneshot::channel::<()>();
                let thread = spawn_thread(move || {
                    let _told = told;
                    runtime.block_on(child.guarded(steps));
                });
                self.clone().steps(meanwhile).await;
                let _ = ended.await;
                if thread.join().is_ok() { Outcome::Done } else { Outcome::Panicked }
            }
            Blocking::Local { inheriting } => {
                let child = Self { local: true, ..child };
                let handle = spawn_blocking(move || {
                    runtime.block_on(LocalSet::new().run_until(async move {
                        let work = child.guarded(steps);
                        if inheriting { spawn_local(work) } else { task::spawn_local(work) }.await
                    }))
                });
                self.clone().steps(meanwhile).await;
                outcome(&handle.await.unwrap())
            }
        };
        self.push(Seen::Child(log.seen(), outcome));
    }
}
