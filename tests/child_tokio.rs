//! Many sessions at once, each with children of its own.
#![cfg(unix)]

use std::process::Stdio;

use hermes_env_bridge::{ChildEnv, Policy, Session, SessionCommand};
use tokio::process::Command;
use tokio::sync::Semaphore;

const SESSIONS: usize = 500;
const CHILDREN: usize = 10;

/// How many children run at a time.
const RUNNING: usize = 16;

/// What a child that is started here says of whose it is.
async fn said(spec: &ChildEnv) -> String {
    let mut command = Command::new("/bin/sh");
    let _ = command.args(["-c", r#"printf %s "$HERMES_SESSION_KEY/$HERMES_SESSION_ID""#]).stdout(Stdio::piped());
    let output = command.child_env(spec).unwrap().output().await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// B22
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_child_of_many_concurrent_sessions_has_its_own_identity() {
    static SLOTS: Semaphore = Semaphore::const_new(RUNNING);
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|at| {
            let session = Session::new().session_key(format!("K{at}")).session_id(format!("I{at}"));
            tokio::spawn(session.scope(async move {
                for _ in 0..CHILDREN {
                    let _slot = SLOTS.acquire().await.unwrap();
                    assert_eq!(said(&ChildEnv::new()).await, format!("K{at}/I{at}"));
                    tokio::task::yield_now().await;
                }
                CHILDREN
            }))
        })
        .collect();
    let mut children = 0;
    for session in sessions {
        children += session.await.unwrap();
    }
    assert_eq!(children, SESSIONS * CHILDREN);
}

#[tokio::test]
async fn a_detached_child_is_nobodys() {
    let detached = ChildEnv::new().policy(Policy::Detached);
    let seen = Session::new().session_key("K").scope(async { said(&detached).await }).await;
    assert_eq!(seen, "/");
}
