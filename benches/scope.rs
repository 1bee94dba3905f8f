//! Entering a session and reading it, beside a bare `tokio::task_local!` that has the same value.
//!
//! `make bench`, or `cargo bench --bench scope`. The bare one is the least that can be done: no environment, no check
//! whose scope it is, no place at a stream's or a thread's end. What is printed last is the medians and their ratio;
//! what each contender answers is checked before and after it is measured.

use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::pin::pin;
use std::task::{Context as Poller, Poll, Waker};

use criterion::Criterion;
use hermes_env_bridge::{Context, Session, SessionState, get_session_env, var};

const NAME: &str = "HERMES_SESSION_KEY";
const KEY: &str = "telegram:42";
/// Where the measurements are kept.
const KEPT: &str = env!("CARGO_TARGET_TMPDIR");
const CONTENDERS: [&str; 2] = ["bare", "ours"];

tokio::task_local! {
    static BARE: SessionState;
}

/// Measures both contenders, and checks that they answer `expected`.
fn compare<R: PartialEq + std::fmt::Debug>(
    criterion: &mut Criterion,
    operation: &'static str,
    expected: &R,
    bare: impl FnMut() -> R,
    ours: impl FnMut() -> R,
) -> &'static str {
    let mut group = criterion.benchmark_group(operation);
    let mut measure = |contender, run: &mut dyn FnMut() -> R| {
        assert_eq!(run(), *expected, "{contender}, before");
        let _ = group.bench_function(contender, |bencher| bencher.iter(&mut *run));
        assert_eq!(run(), *expected, "{contender}, after");
    };
    let (mut bare, mut ours) = (bare, ours);
    measure(CONTENDERS[0], &mut bare);
    measure(CONTENDERS[1], &mut ours);
    operation
}

fn read_bare() -> String {
    BARE.with(|state| state.session_key().as_bound().unwrap_or_default().to_owned())
}

fn read_ours() -> String {
    Context::current().session().session_key().as_bound().unwrap_or_default().to_owned()
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Poller::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("it awaits nothing"),
    }
}

/// One more poll of a future that is never ready.
fn poll_of(future: impl Future<Output = ()>) -> impl FnMut() -> Poll<()> {
    let mut future = Box::pin(future);
    move || future.as_mut().poll(&mut Poller::from_waker(Waker::noop()))
}

fn main() {
    let context = Session::new().platform("telegram").chat_id("42").session_key(KEY).sync_scope(Context::current);
    let state = context.session().clone();
    let key = &KEY.to_owned();
    let mut criterion = Criterion::default().output_directory(Path::new(KEPT)).configure_from_args();
    let c = &mut criterion;

    let operations = [
        compare(
            c,
            "enter by a closure and read",
            key,
            || BARE.sync_scope(state.clone(), read_bare),
            || context.clone().sync_scope(read_ours),
        ),
        compare(
            c,
            "enter by a future and read",
            key,
            || ready(BARE.scope(state.clone(), async { read_bare() })),
            || ready(context.clone().scope(async { read_ours() })),
        ),
        compare(
            c,
            "poll once more",
            &Poll::Pending,
            poll_of(BARE.scope(state.clone(), std::future::pending())),
            poll_of(context.clone().scope(std::future::pending())),
        ),
        BARE.sync_scope(state.clone(), || {
            context.clone().sync_scope(|| compare(c, "read in a scope", key, read_bare, read_ours))
        }),
        BARE.sync_scope(state.clone(), || {
            context.clone().sync_scope(|| {
                let by_name = || get_session_env(black_box(NAME), "");
                compare(c, "read by name in a scope", key, read_bare, by_name)
            })
        }),
        BARE.sync_scope(state.clone(), || {
            context.clone().sync_scope(|| {
                let typed = || var::session_key().unwrap_or_default();
                compare(c, "read by a getter in a scope", key, read_bare, typed)
            })
        }),
    ];
    criterion.final_summary();

    println!("\nmedians in ns; every answer right\n\n  {:<28}{:>9}{:>9}   ours / bare", "operation", "bare", "ours");
    for operation in operations {
        // Nothing is measured where this is run as a test.
        if let [Some(bare), Some(ours)] = CONTENDERS.map(|contender| median(operation, contender)) {
            println!("  {operation:<28}{bare:9.1}{ours:9.1}   {:.1}", ours / bare);
        }
    }
}

fn median(operation: &str, contender: &str) -> Option<f64> {
    let path = Path::new(KEPT).join(operation).join(contender).join("new/estimates.json");
    let estimates: serde_json::Value = serde_json::from_reader(File::open(path).ok()?).ok()?;
    estimates["median"]["point_estimate"].as_f64()
}
