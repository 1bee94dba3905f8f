//! Several chats at once in one process: every one answers its own, however the work is interleaved.
//!
//! `cargo run --example concurrent_sessions`

use std::time::Duration;

use hermes_env_bridge::{Session, get_session_env, scoped_current_session_id};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Deep in the program: no session is passed in.
fn reply(text: &str) -> String {
    let platform = get_session_env("HERMES_SESSION_PLATFORM", "nowhere");
    let chat = get_session_env("HERMES_SESSION_CHAT_ID", "nobody");
    format!("{platform}/{chat}: {text}")
}

async fn handle_message(delay: Duration) -> Vec<String> {
    let mut replies = vec![reply("thinking")];
    sleep(delay).await;
    replies.push(reply("done"));
    let subtask = scoped_current_session_id(Some("subtask"), || get_session_env("HERMES_SESSION_ID", "none"));
    replies.extend(subtask.map(|id| reply(&format!("and {id} too"))));
    replies
}

#[tokio::main]
async fn main() {
    let mut sessions = JoinSet::new();
    for (n, platform) in ["telegram", "discord", "slack", "matrix"].into_iter().enumerate() {
        let session = Session::new().platform(platform).chat_id(&n.to_string()).session_id(&format!("s{n}"));
        let delay = Duration::from_millis(40 - 10 * n as u64);
        let _ = sessions.spawn(session.scope(handle_message(delay)));
    }
    while let Some(replies) = sessions.join_next().await {
        for line in replies.expect("no session panics") {
            println!("{line}");
        }
    }
    println!("outside every session: {}", reply("nobody is here"));
}
