//! The queue's command line:
//!
//! - `job-queue create FILE` makes the database file, once.
//! - `job-queue produce FILE JOBS SESSIONS` enqueues so many jobs, for so many sessions.
//! - `job-queue work FILE NAME` is a worker, one of as many as you like, until its input ends (Ctrl-D).
//! - `job-queue status FILE` counts the jobs in each state.

use std::io;

use apalis::prelude::BoxDynError;
use job_queue::{Job, create, enqueue, open, session, work};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), BoxDynError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["create", file] => create(file).await.map(drop),
        ["produce", file, jobs, sessions] => produce(file, jobs.parse()?, sessions.parse()?).await,
        ["work", file, name] => work(open(file).await?, name, input_ends()).await,
        ["status", file] => status(file).await,
        _ => Err("usage: job-queue create FILE | produce FILE JOBS SESSIONS | work FILE NAME | status FILE".into()),
    }
}

/// The sessions run at once, and each enqueues its share of the jobs.
async fn produce(file: &str, jobs: u32, sessions: u32) -> Result<(), BoxDynError> {
    let queue = open(file).await?;
    let mut running = JoinSet::new();
    for number in 0..sessions {
        let mut queue = queue.clone();
        let share = (number..jobs).step_by(sessions as usize);
        running.spawn(session(number).scope(async move {
            for number in share {
                enqueue(&mut queue, Job { number }).await?;
            }
            Ok::<_, BoxDynError>(())
        }));
    }
    running.join_all().await.into_iter().collect()
}

/// How many jobs there are in each state.
async fn status(file: &str) -> Result<(), BoxDynError> {
    let queue = open(file).await?;
    let counts: Vec<(String, i64)> =
        sqlx::query_as("SELECT status, count(*) FROM Jobs GROUP BY status").fetch_all(queue.pool()).await?;
    for (status, count) in counts {
        println!("{status} {count}");
    }
    Ok(())
}

async fn input_ends() -> io::Result<()> {
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()))
        .await
        .expect("copying does not panic")?;
    Ok(())
}
