//! The context is in place on every poll and on every drop, at any depth, whatever ends the work.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context as Poller, Poll, Waker};
use std::time::Duration;

use futures::{Sink, SinkExt, Stream, StreamExt, sink, stream};
use hermes_env_bridge::{
    Context, Session, WithSession, bind, bind_fn, bind_mut, clear_session_vars, get_session_env, set_session_vars,
    spawn, spawn_blocking,
};
use tokio::task::yield_now;

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

/// What is read at each poll and at each drop.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn read(&self) {
        self.0.lock().unwrap().push(key());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn guard(&self) -> Guard {
        Guard(self.clone())
    }
}

struct Guard(Log);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.read();
    }
}

/// A future, stream and sink that reads at each call and at its drop, and is never done.
struct Probe(Guard);

impl Probe {
    fn new(log: &Log) -> Self {
        Self(log.guard())
    }

    fn read<T>(self: Pin<&mut Self>, answer: Poll<T>) -> Poll<T> {
        self.0.0.read();
        answer
    }
}

impl Future for Probe {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<()> {
        self.read(Poll::Pending)
    }
}

impl Stream for Probe {
    type Item = ();

    fn poll_next(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<Option<()>> {
        self.read(Poll::Ready(Some(())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (3, Some(7))
    }
}

impl Sink<()> for Probe {
    type Error = ();

    fn poll_ready(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<Result<(), ()>> {
        self.read(Poll::Ready(Ok(())))
    }

    fn start_send(self: Pin<&mut Self>, (): ()) -> Result<(), ()> {
        self.0.0.read();
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<Result<(), ()>> {
        self.read(Poll::Ready(Ok(())))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<Result<(), ()>> {
        self.read(Poll::Ready(Ok(())))
    }
}

#[test]
fn a_future_reads_its_own_at_each_poll_and_at_its_drop() {
    let log = Log::default();
    let poller = &mut Poller::from_waker(Waker::noop());
    session("caller").sync_scope(|| {
        let mut future = Box::pin(session("A").scope(Probe::new(&log)));
        assert!(future.as_mut().poll(poller).is_pending() && future.as_mut().poll(poller).is_pending());
        drop(future);
        assert_eq!(log.take(), ["A", "A", "A"]);
        drop(Probe::new(&log).with_session(session("unpolled")));
        assert_eq!(log.take(), ["unpolled"]);
        drop(Probe::new(&log).in_current_session());
        assert_eq!(log.take(), ["caller"]);
    });
}

#[tokio::test]
async fn a_stream_reads_its_own_at_each_item_and_at_its_drop() {
    let log = Log::default();
    let mut stream = session("A").scope(Probe::new(&log));
    assert_eq!(stream.size_hint(), (3, Some(7)));
    let _ = (stream.next().await, stream.next().await);
    drop(stream);
    assert_eq!(log.take(), ["A", "A", "A"]);
}

#[tokio::test]
async fn a_sink_reads_its_own_at_each_call_and_at_its_drop() {
    let log = Log::default();
    let mut sink = session("A").scope(Probe::new(&log));
    sink.feed(()).await.unwrap();
    SinkExt::<()>::flush(&mut sink).await.unwrap();
    SinkExt::<()>::close(&mut sink).await.unwrap();
    drop(sink);
    assert_eq!(log.take(), vec!["A"; 5], "ready, send, flush, close and drop");
}

#[test]
fn a_bound_closure_is_dropped_in_its_own_context_called_or_not() {
    let log = Log::default();
    let reading = || {
        let guard = log.guard();
        move || drop(guard)
    };
    let (unused, once) = session("A").sync_scope(|| (bind(reading()), bind(reading())));
    session("caller").sync_scope(|| {
        drop(unused);
        once();
    });
    assert_eq!(log.take(), ["A", "A"]);

    let (guard, mut guards) = (log.guard(), vec![log.guard(), log.guard()]);
    let (shared, mut mutable) = session("A").sync_scope(|| {
        let shared = bind_fn(move |()| {
            let _ = &guard;
            bind_key("changed");
        });
        (shared, bind_mut(move |()| drop(guards.pop())))
    });
    session("caller").sync_scope(|| {
        shared(());
        shared(());
        mutable(());
        assert_eq!(log.take(), ["A"], "the one that a call has dropped");
        drop((shared, mutable));
    });
    assert_eq!(log.take(), ["A", "A"], "each call starts from what was bound, and so does the drop");
}

#[test]
fn what_the_verbs_made_of_it_is_in_place_at_the_drop() {
    let log = Log::default();
    let guard = log.guard();
    let poller = &mut Poller::from_waker(Waker::noop());
    let mut future = Box::pin(session("A").scope(async move {
        let _guard = guard;
        bind_key("B");
        std::future::pending::<()>().await;
    }));
    assert!(future.as_mut().poll(poller).is_pending());
    assert_eq!(future.context().session().session_key().as_bound(), Some("B"));
    drop(future);
    assert_eq!(log.take(), ["B"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_task_is_dropped_in_its_own_context() {
    let log = Log::default();
    let tasks: Vec<_> = (0..100)
        .map(|n| tokio::spawn(session(&n.to_string()).scope(Probe::new(&log))))
        .chain((100..200).map(|n| session(&n.to_string()).sync_scope(|| spawn(Probe::new(&log)))))
        .collect();
    for task in tasks {
        yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
    let mut seen: Vec<usize> = log.take().iter().map(|key| key.parse().unwrap()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
}

#[test]
fn a_task_that_its_runtime_drops_is_dropped_in_its_own_context() {
    let log = Log::default();
    for mut builder in [tokio::runtime::Builder::new_multi_thread(), tokio::runtime::Builder::new_current_thread()] {
        let runtime = builder.build().unwrap();
        let guard = log.guard();
        drop(runtime.spawn(session("A").scope(async move { (std::future::pending::<()>().await, guard).1 })));
        drop(runtime);
        assert_eq!(log.take(), ["A"]);
    }
}

#[tokio::test]
async fn work_that_panics_is_dropped_in_its_own_context_and_gives_the_thread_back() {
    let log = Log::default();
    let guard = log.guard();
    let work = async move {
        let _guard = guard;
        yield_now().await;
        resume_unwind(Box::new("planned"))
    };
    let panicked: Result<(), _> = tokio::spawn(session("A").scope(work)).await;
    assert!(panicked.unwrap_err().is_panic());
    assert_eq!(log.take(), ["A"]);

    let guard = log.guard();
    let job = session("B").sync_scope(|| {
        bind(move || {
            let _guard = guard;
            resume_unwind(Box::new("planned"))
        })
    });
    session("caller").sync_scope(|| {
        let panicked: Result<(), _> = catch_unwind(AssertUnwindSafe(job));
        assert!(panicked.is_err());
        assert_eq!((log.take(), key()), (vec!["B".to_owned()], "caller".to_owned()));
    });
    assert_eq!(key(), "none");
}

/// Panics when it is dropped.
struct PanicsOnDrop(Log);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        self.0.read();
        resume_unwind(Box::new("planned"))
    }
}

#[test]
fn a_destructor_that_panics_gives_the_thread_back_as_it_was() {
    let log = Log::default();
    session("caller").sync_scope(|| {
        let future = session("A").scope(PanicsOnDrop(log.clone()));
        let bound = PanicsOnDrop(log.clone());
        let bound = session("B").sync_scope(|| bind(move || drop(bound)));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(future))).is_err());
        assert_eq!(key(), "caller");
        assert!(catch_unwind(AssertUnwindSafe(|| drop(bound))).is_err());
        assert_eq!(key(), "caller");
    });
    assert_eq!(log.take(), ["A", "B"]);
}

#[test]
fn at_a_threads_end_nothing_panics_whichever_destructor_comes_first() {
    /// Holds what enters a session when it is dropped, by then perhaps without a place for one.
    #[derive(Default)]
    struct Late(Vec<Box<dyn std::any::Any>>, Log);
    impl Drop for Late {
        fn drop(&mut self) {
            self.0.clear();
            self.1.read();
            assert!(clear_session_vars().is_err());
            assert_eq!(session("late").sync_scope(|| 1), 1);
            assert_eq!(get_session_env("NO_SUCH_NAME", "default"), "default");
        }
    }
    thread_local! {
        static BEFORE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
        static AFTER: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }

    let log = Log::default();
    let in_thread = log.clone();
    let late = move || {
        let job = session("B").sync_scope(|| bind(|| ()));
        let future = session("A").scope(Probe::new(&in_thread));
        Late(vec![Box::new(job), Box::new(future)], in_thread.clone())
    };
    let thread = std::thread::spawn(move || {
        // One of the two registers its destructor before the first scope of the thread, the other one after it.
        BEFORE.with(|_| ());
        let (before, after) = (late(), late());
        BEFORE.set(Some(before));
        AFTER.set(Some(after));
    });
    thread.join().unwrap();
    let seen = log.take();
    assert_eq!(seen.len(), 4);
    // The one that comes while there is a place still enters its session; outside there is none.
    assert!(seen.iter().all(|key| key == "A" || key == "none"), "{seen:?}");
    assert!(seen.iter().any(|key| key == "A"), "{seen:?}");
}

#[test]
fn scopes_nest_a_thousand_deep() {
    // Miri takes minutes for that many.
    const DEPTH: usize = if cfg!(miri) { 50 } else { 1000 };

    fn inner(depth: usize) {
        if depth < DEPTH {
            session(&depth.to_string()).sync_scope(|| inner(depth + 1));
            assert_eq!(key(), if depth == 0 { "none".to_owned() } else { (depth - 1).to_string() });
        }
    }
    inner(0);

    let log = Log::default();
    let mut nested: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(Probe::new(&log));
    for depth in 0..DEPTH {
        nested = Box::pin(session(&depth.to_string()).scope(nested));
    }
    assert!(nested.as_mut().poll(&mut Poller::from_waker(Waker::noop())).is_pending());
    assert_eq!(key(), "none");
    drop(nested);
    assert_eq!(log.take(), ["0", "0"], "the innermost session at the poll and at the drop");
}

#[tokio::test]
async fn verbs_inside_a_stream_last_from_item_to_item_and_do_not_leak_out() {
    let log = Log::default();
    let seen = log.clone();
    let items = stream::unfold(0, move |item: u32| {
        seen.read();
        bind_key(&format!("item {item}"));
        async move { (item < 3).then_some((item, item + 1)) }
    });
    let (inner, outer) = session("caller")
        .scope(async {
            let mut items = pin!(session("A").scope(items));
            let mut outer = vec![key()];
            while items.next().await.is_some() {
                outer.push(key());
                bind_key("caller, changed");
            }
            (log.take(), outer)
        })
        .await;
    assert_eq!(inner, ["A", "item 0", "item 1", "item 2"]);
    assert_eq!(outer, ["caller", "caller", "caller, changed", "caller, changed"]);
}

#[tokio::test]
async fn verbs_inside_a_sink_last_from_item_to_item_and_do_not_leak_out() {
    let log = Log::default();
    let seen = log.clone();
    let mut into = Box::pin(session("A").scope(sink::unfold((), move |(), item: &str| {
        seen.read();
        bind_key(item);
        async { Ok::<_, ()>(()) }
    })));
    for item in ["1", "2", "3"] {
        into.send(item).await.unwrap();
        assert_eq!(key(), "none");
    }
    assert_eq!(log.take(), ["A", "1", "2"]);
}

#[tokio::test]
async fn a_session_is_finished_when_the_scope_ends_in_which_it_was_entered_or_bound() {
    let is_finished = || Context::current().is_finished();
    let (inherited, bound, kept) = session("A")
        .scope(async {
            let inherited = spawn(async move {
                while !is_finished() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                bind_key("its own");
                let own = Context::current();
                (key(), is_finished(), own)
            });
            assert!(!is_finished());
            (inherited, bind_fn(move |()| (key(), is_finished())), Context::current())
        })
        .await;
    assert!(kept.is_finished());
    assert_eq!(bound(()), ("A".to_owned(), true));
    let (key, at_once, own) = inherited.await.unwrap();
    assert_eq!((key.as_str(), at_once, own.is_finished()), ("its own", false, true));
    assert!(!Context::unbound().is_finished());
}

#[tokio::test]
async fn a_future_and_a_stream_end_their_session_with_the_last_poll_and_a_sink_with_its_drop() {
    let kept = |log: &Mutex<Option<Context>>| log.lock().unwrap().clone().unwrap();
    let seen = Mutex::new(None);
    let keep = || *seen.lock().unwrap() = Some(Context::current());

    let mut future = pin!(session("A").scope(async { keep() }));
    future.as_mut().await;
    assert!(kept(&seen).is_finished());

    let mut items = session("A").scope(stream::iter([1]).inspect(|_| keep()));
    assert_eq!(items.next().await, Some(1));
    assert!(!kept(&seen).is_finished());
    assert_eq!(items.next().await, None);
    assert!(kept(&seen).is_finished());

    let mut into = Box::pin(session("A").scope(sink::unfold((), |(), ()| {
        keep();
        async { Ok::<_, ()>(()) }
    })));
    into.send(()).await.unwrap();
    assert!(!kept(&seen).is_finished());
    into.close().await.unwrap();
    assert!(!kept(&seen).is_finished());
    drop(into);
    assert!(kept(&seen).is_finished());
}

#[tokio::test]
async fn what_is_inside_decides_whether_a_scope_can_cross_threads() {
    fn crosses<T: Send + Sync>(value: T) -> T {
        value
    }
    crosses(session("A").scope(std::future::ready(()))).await;
    let job = session("A").sync_scope(|| crosses(bind(key)));
    assert_eq!(spawn_blocking(job).await.unwrap(), "A");
    let on_this_thread = std::rc::Rc::new(());
    session("A").scope(async { (yield_now().await, drop(on_this_thread)).1 }).await;
}

#[test]
fn what_a_thread_drops_last_is_dropped_in_its_scope() {
    struct Last(std::sync::mpsc::Sender<(String, bool)>);
    impl Drop for Last {
        fn drop(&mut self) {
            let seen = session("last").sync_scope(|| (key(), clear_session_vars().is_ok()));
            self.0.send(seen).unwrap();
        }
    }
    thread_local! {
        static KEPT: std::cell::RefCell<Option<Last>> = const { std::cell::RefCell::new(None) };
    }

    let (seen, told) = std::sync::mpsc::channel();
    // A thread drops what it touched first after what it touched later.
    let thread = std::thread::spawn(|| {
        KEPT.set(Some(Last(seen)));
        session("first").sync_scope(|| ());
    });
    thread.join().unwrap();
    assert_eq!(told.recv().unwrap(), ("last".to_owned(), true));
}

#[tokio::test]
async fn a_session_goes_on_while_the_stream_beside_a_closed_sink_is_read() {
    /// Both halves of a connection.
    struct Both;
    impl Stream for Both {
        type Item = bool;
        fn poll_next(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<Option<bool>> {
            Poll::Ready(Some(Context::current().is_finished()))
        }
    }
    impl Sink<()> for Both {
        type Error = ();
        fn poll_ready(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }
        fn start_send(self: Pin<&mut Self>, (): ()) -> Result<(), ()> {
            Ok(())
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_close(self: Pin<&mut Self>, _: &mut Poller<'_>) -> Poll<Result<(), ()>> {
            Poll::Ready(Ok(()))
        }
    }

    let mut both = session("a").scope(Both);
    both.close().await.unwrap();
    assert_eq!(both.next().await, Some(false));
}
