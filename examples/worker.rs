//! A worker that outlives every session: its jobs carry their own snapshot, as text that could as well be in a file.
//!
//! `cargo run --example worker`

use std::error::Error;
use std::sync::OnceLock;

use hermes_env_bridge::{Context, Limits, Session, Snapshot, get_session_env, spawn, spawn_detached};
use tokio::sync::{mpsc, oneshot};

/// Deep in the program: no session is passed in.
fn whose() -> String {
    get_session_env("HERMES_SESSION_CHAT_ID", "nobody")
}

/// What the worker is given.
struct Job {
    /// For whom, as JSON: it may come from a file, and from before a restart.
    session: String,
    text: String,
    done: oneshot::Sender<Result<String, String>>,
}

/// The worker, which starts with the first job, in the midst of whatever session that is for.
fn worker() -> &'static mpsc::Sender<Job> {
    static WORKER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    WORKER.get_or_init(|| {
        println!("the worker starts while chat {} is served", whose());
        let (jobs, queue) = mpsc::channel(8);
        // Not `spawn`: everything that the worker does between its jobs would be the first session's for ever.
        drop(spawn_detached(work(queue)));
        jobs
    })
}

async fn work(mut queue: mpsc::Receiver<Job>) {
    while let Some(Job { session, text, done }) = queue.recv().await {
        assert_eq!(Context::current(), Context::unbound(), "between jobs the worker is nobody's");
        match Snapshot::from_json(&session, Limits::default()) {
            Ok(snapshot) if snapshot.is_empty() => drop(done.send(Err("the job has no session".to_owned()))),
            // Two jobs at once are two tasks, each with its own session. What it leaves unset is not asked of the
            // environment: that is nobody's.
            Ok(snapshot) => drop(tokio::spawn(snapshot.restore_masked().scope(async {
                let _ = done.send(Ok(transcribe(text).await));
            }))),
            Err(error) => drop(done.send(Err(error.to_string()))),
        }
    }
}

async fn transcribe(text: String) -> String {
    tokio::task::yield_now().await;
    format!("{} (for chat {})", text.to_uppercase(), whose())
}

/// Hands a job over, with the session that asks.
async fn submit(text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    submit_as(Snapshot::capture().to_json(), text).await
}

async fn submit_as(session: String, text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let (done, answer) = oneshot::channel();
    worker().send(Job { session, text: text.to_owned(), done }).await?;
    Ok(answer.await??)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let serve = |chat: &'static str| {
        Session::new().platform("telegram").chat_id(chat).scope(async move {
            // Two jobs of one session, at once.
            let (hello, bye) = (spawn(submit("hello")), spawn(submit("bye")));
            println!("chat {chat}: {}, {}", hello.await??, bye.await??);
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        })
    };
    serve("1").await?;
    let _ = tokio::try_join!(serve("2"), serve("3"))?;
    println!("a job from elsewhere: {}", submit_as("{}".to_owned(), "hello").await.unwrap_err());
    Ok(())
}
