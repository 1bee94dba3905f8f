//! Sessions that reach other processes through a job queue.
//!
//! The queue is [Apalis](https://docs.rs/apalis) on a file of `SQLite`: nothing has to be started but the workers. Whoever
//! enqueues a job puts the current session into the job's metadata ([`enqueue`]); the worker's [`SessionLayer`] reads it
//! and runs the job with it. The job itself asks for its session as code anywhere else does.

mod layer;

use std::collections::HashMap;
use std::time::Duration;

use apalis::prelude::{
    BackendExt, BoxDynError, Event, EventListenerExt, MetadataStore, TaskBuilder, TaskSink, WorkerBuilder,
    WorkerBuilderExt,
};
use apalis_sqlite::{Config, SqliteConnectOptions, SqlitePoolOptions, SqliteStorage};
use hermes_env_bridge::{Session, Snapshot, get_session_env, inject, spawn, spawn_blocking};
use serde::{Deserialize, Serialize};

pub use layer::SessionLayer;

/// What is to be done. Whom it is for is no part of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Job {
    /// Which job it is.
    pub number: u32,
}

/// Makes the database file at `path`, with a queue in it. Before any process opens it.
///
/// # Errors
///
/// What `SQLite` says about the file.
pub async fn create(path: &str) -> Result<SqliteStorage<Job>, BoxDynError> {
    let queue = connect(SqliteConnectOptions::new().filename(path).create_if_missing(true)).await?;
    SqliteStorage::setup(queue.pool()).await?;
    Ok(queue)
}

/// The queue in the database file at `path`.
///
/// # Errors
///
/// What `SQLite` says about the file.
pub async fn open(path: &str) -> Result<SqliteStorage<Job>, BoxDynError> {
    connect(SqliteConnectOptions::new().filename(path)).await
}

/// Processes take turns in writing to the file, and wait for each other.
async fn connect(options: SqliteConnectOptions) -> Result<SqliteStorage<Job>, BoxDynError> {
    let options = options.busy_timeout(Duration::from_mins(1));
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
    Ok(SqliteStorage::new(&pool).with_config(Config::default().queue("replies")))
}

/// Enqueues `job` for the session of whoever calls.
///
/// # Errors
///
/// [`CarrierError`](hermes_env_bridge::CarrierError) if the session is too large for a header, and what the queue says.
pub async fn enqueue(queue: &mut SqliteStorage<Job>, job: Job) -> Result<(), BoxDynError> {
    let mut metadata = HashMap::new();
    inject(&mut metadata)?;
    queue.push_task(TaskBuilder::new(job).with_metadata(MetadataStore::from_map(metadata)).build()).await?;
    Ok(())
}

/// Works on the queue as `name`, which no other worker may have, until `stop` is ready. Ten jobs are done at once, in
/// one task.
///
/// # Errors
///
/// What the queue says.
pub async fn work(
    queue: SqliteStorage<Job>,
    name: &str,
    stop: impl Future<Output = std::io::Result<()>> + Send + 'static,
) -> Result<(), BoxDynError> {
    WorkerBuilder::new(name)
        .backend(queue.poll_with_interval(Duration::from_millis(50)))
        .concurrency(10)
        .layer(SessionLayer)
        .on_event(|worker, event| match event {
            Event::HeartBeat => println!("{} is there", worker.name()),
            Event::Error(error) => eprintln!("{}: {error}", worker.name()),
            _ => {}
        })
        .build(run)
        .run_until(stop)
        .await?;
    Ok(())
}

/// A job: it says for whom it works at each step. No session is passed in.
async fn run(job: Job) -> Result<(), BoxDynError> {
    report(job, "at once");
    tokio::time::sleep(Duration::from_millis(20)).await;
    report(job, "after an await");
    spawn(async move { report(job, "in a task") }).await?;
    spawn_blocking(move || report(job, "on a thread")).await?;
    Ok(())
}

/// Prints the job, the step, what a read returns and the whole session, with tabs between them.
fn report(job: Job, step: &str) {
    let key = get_session_env("HERMES_SESSION_KEY", "nobody");
    let session = Snapshot::capture().to_header().expect("it came in a header");
    println!("{}\t{step}\t{key}\t{session}", job.number);
}

/// The session with this number: some variables set, with characters that a header cannot hold, some cleared, and one
/// that is unset, cleared or set by turns.
pub fn session(number: u32) -> Session {
    let session = Session::new()
        .platform("telegram")
        .chat_id(format!("-100{number}"))
        .user_name(format!("Zoë & Søn = {number} %41\n"))
        .session_key(format!("agent:main:telegram:{number}"))
        .async_delivery(number.is_multiple_of(2))
        .cwd("/");
    match number % 3 {
        0 => session,
        1 => session.cron_session(""),
        _ => session.cron_session("1"),
    }
}
