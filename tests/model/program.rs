//! What a program can do, and how one is drawn.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A session as its caller states it.
#[derive(Debug, Clone)]
pub struct Stated {
    /// Keywords and values.
    pub pairs: Vec<(&'static str, String)>,
    pub async_delivery: bool,
    pub cwd: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Verb {
    Set(Stated),
    Clear,
    Reset,
    SetId(String),
    Stateless,
}

/// What a closure does.
#[derive(Debug, Clone)]
pub enum Inline {
    Read,
    Verb(Verb),
    ScopedId(Option<String>, Vec<Inline>),
    Scope(Stated, Vec<Inline>),
    Copy(Vec<Inline>),
    Catch(Vec<Inline>),
    Bind { callback: Callback, body: Vec<Inline>, call: Call },
    Panic,
}

/// By what a callback is bound. All but the first are called twice.
#[derive(Debug, Clone, Copy)]
pub enum Callback {
    Once,
    Fn,
    Mut,
}

/// Where a bound callback is called.
#[derive(Debug, Clone)]
pub enum Call {
    Here,
    InSession(Stated),
    OnThread,
    Never,
}

/// What a task does.
#[derive(Debug, Clone)]
pub enum Step {
    Inline(Inline),
    BlockInPlace(Vec<Inline>),
    Yield,
    Sleep,
    /// Waits for ever, in a task that will be aborted for it; elsewhere nothing.
    Hang,
    Scope(Entry, Vec<Step>),
    Catch(Vec<Step>),
    /// Futures side by side in this task: joined, or as they come.
    Together {
        unordered: bool,
        branches: Vec<(Entry, Vec<Step>)>,
    },
    Spawn {
        how: Spawn,
        child: Vec<Step>,
        meanwhile: Vec<Step>,
    },
    /// A stream whose items run steps, of which some are taken, with other steps between them.
    Stream {
        entry: Entry,
        items: Vec<Vec<Step>>,
        taken: usize,
        between: Vec<Step>,
    },
    /// A sink that runs the steps it is sent.
    Sink {
        entry: Entry,
        items: Vec<Vec<Step>>,
        between: Vec<Step>,
    },
}

/// With which context a future, stream or sink runs.
#[derive(Debug, Clone)]
pub enum Entry {
    Session(Stated),
    Current,
    /// The current one, as another process would get it.
    Carried(Carrier),
    /// A snapshot of these names and values.
    Restored(Vec<(&'static str, String)>),
}

#[derive(Debug, Clone, Copy)]
pub enum Carrier {
    Json,
    Mapping,
    Header,
}

#[derive(Debug, Clone)]
pub enum Spawn {
    Task(Task, End),
    Blocking(Blocking),
}

#[derive(Debug, Clone, Copy)]
pub enum Task {
    Plain,
    Inheriting,
    Detached,
    InSet,
}

/// What runs its child by a `block_on`.
#[derive(Debug, Clone, Copy)]
pub enum Blocking {
    Task,
    InSet,
    Thread,
    /// In a `LocalSet`, inheriting or not.
    Local {
        inheriting: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub enum End {
    Join,
    /// Aborted as soon as it hangs.
    AbortHanging,
    /// Aborted after so many turns, wherever it is then.
    AbortAfter(u8),
}

const KEYWORDS: [&str; 6] = ["platform", "chat_id", "user_id", "session_key", "session_id", "cron_session"];
const NAMES: [&str; 4] = [
    "HERMES_SESSION_CHAT_ID",
    "HERMES_SESSION_ID",
    "HERMES_CRON_AUTO_DELIVER_CHAT_ID",
    "HERMES_CRON_AUTO_DELIVER_PLATFORM",
];

/// Empty at times; else one that is hardly drawn twice, so that a foreign one is seen.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![1 => Just(String::new()), 4 => any::<u32>().prop_map(|n| format!("v{n}"))]
}

fn pairs(names: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let name = proptest::sample::subsequence(names, 0..=names.len());
    name.prop_flat_map(|names| names.into_iter().map(|name| (Just(name), value())).collect::<Vec<_>>())
}

fn stated() -> impl Strategy<Value = Stated> {
    (pairs(&KEYWORDS), any::<bool>(), option::of(value())).prop_map(|(pairs, async_delivery, cwd)| Stated {
        pairs,
        async_delivery,
        cwd,
    })
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        3 => stated().prop_map(Verb::Set),
        1 => Just(Verb::Clear),
        1 => Just(Verb::Reset),
        2 => value().prop_map(Verb::SetId),
        1 => Just(Verb::Stateless),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![Just(Call::Here), stated().prop_map(Call::InSession), Just(Call::OnThread), Just(Call::Never)]
}

fn inline(depth: u32) -> BoxedStrategy<Inline> {
    let leaf = prop_oneof![
        16 => Just(Inline::Read),
        12 => verb().prop_map(Inline::Verb),
        1 => Just(Inline::Panic),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let body = || vec(inline(depth - 1), 0..5);
    let callback = prop_oneof![Just(Callback::Once), Just(Callback::Fn), Just(Callback::Mut)];
    prop_oneof![
        10 => leaf,
        1 => (option::of(value()), body()).prop_map(|(id, body)| Inline::ScopedId(id, body)),
        2 => (stated(), body()).prop_map(|(session, body)| Inline::Scope(session, body)),
        1 => body().prop_map(Inline::Copy),
        1 => body().prop_map(Inline::Catch),
        3 => (callback, body(), call()).prop_map(|(callback, body, call)| Inline::Bind { callback, body, call }),
    ]
    .boxed()
}

fn entry() -> impl Strategy<Value = Entry> {
    let carrier = prop_oneof![Just(Carrier::Json), Just(Carrier::Mapping), Just(Carrier::Header)];
    prop_oneof![
        4 => stated().prop_map(Entry::Session),
        2 => Just(Entry::Current),
        1 => carrier.prop_map(Entry::Carried),
        1 => pairs(&NAMES).prop_map(Entry::Restored),
    ]
}

fn spawn() -> impl Strategy<Value = Spawn> {
    let task = prop_oneof![Just(Task::Plain), Just(Task::Inheriting), Just(Task::Detached), Just(Task::InSet)];
    let end = prop_oneof![2 => Just(End::Join), 2 => Just(End::AbortHanging), 1 => (0..20u8).prop_map(End::AbortAfter)];
    let blocking = prop_oneof![
        Just(Blocking::Task),
        Just(Blocking::InSet),
        Just(Blocking::Thread),
        any::<bool>().prop_map(|inheriting| Blocking::Local { inheriting }),
    ];
    prop_oneof![3 => (task, end).prop_map(|(task, end)| Spawn::Task(task, end)), 2 => blocking.prop_map(Spawn::Blocking)]
}

fn step(depth: u32) -> BoxedStrategy<Step> {
    let leaf = prop_oneof![
        12 => inline(depth.min(2)).prop_map(Step::Inline),
        4 => Just(Step::Yield),
        1 => Just(Step::Sleep),
        1 => Just(Step::Hang),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let steps = || vec(step(depth - 1), 0..6);
    let few = || vec(step(0), 0..3);
    let branches = vec((entry(), steps()), 0..4);
    prop_oneof![
        9 => leaf,
        1 => vec(inline(1), 0..3).prop_map(Step::BlockInPlace),
        3 => (entry(), steps()).prop_map(|(entry, steps)| Step::Scope(entry, steps)),
        1 => steps().prop_map(Step::Catch),
        2 => (any::<bool>(), branches).prop_map(|(unordered, branches)| Step::Together { unordered, branches }),
        4 => (spawn(), steps(), few()).prop_map(|(how, child, meanwhile)| Step::Spawn { how, child, meanwhile }),
        1 => (entry(), vec(steps(), 0..4), 0..5usize, few())
            .prop_map(|(entry, items, taken, between)| Step::Stream { entry, items, taken, between }),
        1 => (entry(), vec(steps(), 0..3), few())
            .prop_map(|(entry, items, between)| Step::Sink { entry, items, between }),
    ]
    .boxed()
}

/// The steps of a program's first task.
pub fn program() -> impl Strategy<Value = Vec<Step>> {
    vec(step(4), 1..10)
}
