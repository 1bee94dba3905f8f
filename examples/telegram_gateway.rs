//! A gateway with two Telegram chats at once. Its tools find their chat by themselves: no chat, message or session is
//! passed to them, nor to the helpers between.
//!
//! `cargo run --example telegram_gateway`

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hermes_env_bridge::{
    ChatType, OmniusRunContext, TelegramRunContext, entry, require_omnius_run_context, spawn, spawn_blocking,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What Telegram sends.
#[derive(Clone)]
struct Update {
    chat: i64,
    message: i64,
    user: i64,
    text: &'static str,
}

/// What tools work with: the way out, and who may send files. Whoever runs says nothing about what is allowed.
struct Gateway {
    outbox: mpsc::UnboundedSender<String>,
    may_send_files: HashSet<i64>,
}

/// The chat that a tool works for.
fn chat() -> Arc<TelegramRunContext> {
    let run: Arc<OmniusRunContext> = require_omnius_run_context().expect("tools run inside of a run");
    run.telegram().cloned().expect("this gateway has Telegram runs alone")
}

impl Gateway {
    fn send(&self, what: &str) {
        let chat = chat();
        let topic = chat.thread_id().map_or_else(String::new, |thread| format!("/{thread}"));
        let _ = self.outbox.send(format!("chat {}{topic}: {what}", chat.chat_id()));
    }

    /// The reply tool.
    fn reply(&self, text: &str) {
        self.send(&format!("re {}: {text}", chat().message_id().expect("a run is started by a message")));
    }

    /// The media tool: takes its time in another thread, and looks into the folder of its own chat.
    async fn analyse_image(&self, name: &str) {
        let name = name.to_owned();
        let found = spawn_blocking(move || format!("media/{}/{name} is a cat", chat().chat_id())).await;
        self.send(&found.expect("the analysis does not panic"));
    }

    /// The file tool: the target is the chat of the run, the permission is somebody else's word.
    fn send_file(&self, path: &str) {
        let user = chat().user_id().expect("a message has a writer");
        if self.may_send_files.contains(&user) {
            self.send(&format!("file {path}"));
        } else {
            self.reply("no files for you");
        }
    }
}

/// Deep in the program: one task for the tools of a turn.
async fn agent(gateway: Arc<Gateway>, text: &'static str) {
    for word in text.split(' ') {
        sleep(Duration::from_millis(1)).await;
        match word {
            "image" => gateway.analyse_image("last.png").await,
            "file" => gateway.send_file("report.pdf"),
            word => gateway.reply(word),
        }
    }
}

/// The entry point: the one place that knows of updates.
async fn handle(gateway: Arc<Gateway>, update: Update) -> Result<(), hermes_env_bridge::RunContextError> {
    let key = format!("telegram:{}", update.chat);
    let chat = TelegramRunContext::builder(update.chat, ChatType::Private, key, "private")
        .message_id(update.message)
        .user_id(update.user)
        .build()?;
    let turn = async move { spawn(agent(gateway, update.text)).await.expect("the agent does not panic") };
    entry::telegram(chat).owner("user", update.user.to_string()).run(turn)?.await;
    Ok(())
}

/// Handles the updates of both chats at once; returns what was sent, in the order of sending.
///
/// # Panics
///
/// If a run panics.
pub async fn serve() -> Vec<String> {
    let (outbox, mut sent) = mpsc::unbounded_channel();
    let gateway = Arc::new(Gateway { outbox, may_send_files: HashSet::from([7]) });
    let mut runs = JoinSet::new();
    for update in [
        Update { chat: 1, message: 10, user: 7, text: "hello image file bye" },
        Update { chat: 2, message: 20, user: 8, text: "hi image file thanks" },
    ] {
        let _ = runs.spawn(handle(gateway.clone(), update));
    }
    drop(gateway);
    while let Some(run) = runs.join_next().await {
        run.expect("no run panics").expect("updates describe chats");
    }
    let mut all = Vec::new();
    while let Some(line) = sent.recv().await {
        all.push(line);
    }
    all
}

#[tokio::main]
async fn main() {
    for line in serve().await {
        println!("{line}");
    }
}
