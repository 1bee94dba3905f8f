//! A chat gateway: each connection is a session, and whatever a message sets off answers in the chat it came from.
//!
//! `cargo run --features process --example gateway` plays a hundred chats against itself and ends; with an address as
//! argument it serves there: `nc 127.0.0.1 7000`, then a line `PLATFORM CHAT USER`, then messages.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hermes_env_bridge::{
    Session, SessionCommand, get_session_env, set_current_session_id, spawn, spawn_blocking, spawn_detached, var,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Every chat's outbox, by platform and chat. To be served is to be in here.
#[derive(Default)]
struct Gateway(Mutex<Outboxes>);

type Outboxes = HashMap<(String, String), mpsc::UnboundedSender<String>>;

impl Gateway {
    fn outboxes(&self) -> MutexGuard<'_, Outboxes> {
        self.0.lock().expect("nothing panics while it is held")
    }

    /// Answers in the chat of whoever asks. No chat is passed in: if the session were another's, so would be the chat.
    fn reply(&self, text: &str) {
        let chat = (var::platform().unwrap_or_default(), var::chat_id().unwrap_or_default());
        if let Some(outbox) = self.outboxes().get(&chat) {
            // The chat may be gone by now.
            let _ = outbox.send(format!("{}: {text}\n", get_session_env("HERMES_SESSION_USER_NAME", "?")));
        }
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            let gateway = self.clone();
            // Whatever session the server was started in is not the connection's.
            drop(spawn_detached(async move {
                if let Err(error) = gateway.converse(stream).await {
                    eprintln!("a chat broke off: {error}");
                }
            }));
        }
    }

    /// A connection: who it is, then messages until it ends. A real gateway is told by its platform, or asks for proof.
    async fn converse(self: Arc<Self>, stream: TcpStream) -> io::Result<()> {
        let (input, output) = stream.into_split();
        let mut lines = BufReader::new(input).lines();
        let greeting = lines.next_line().await?.unwrap_or_default();
        let [platform, chat, user] = greeting.split(' ').collect::<Vec<_>>()[..] else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the first line is not PLATFORM CHAT USER"));
        };

        let (outbox, messages) = mpsc::unbounded_channel();
        let key = (platform.to_owned(), chat.to_owned());
        let _ = self.outboxes().insert(key.clone(), outbox);
        drop(spawn_detached(deliver(messages, output)));

        let session = Session::new()
            .platform(platform)
            .chat_id(chat)
            .user_name(user)
            .session_key(format!("gateway:{platform}:{chat}"));
        let ended = session.scope(self.clone().answer(lines)).await;
        let _ = self.outboxes().remove(&key);
        ended
    }

    async fn answer(self: Arc<Self>, mut lines: Lines<BufReader<OwnedReadHalf>>) -> io::Result<()> {
        while let Some(message) = lines.next_line().await? {
            let gateway = self.clone();
            match message.as_str() {
                // A timer, and a turn that goes on meanwhile.
                "/remind" => drop(spawn(async move {
                    sleep(Duration::from_millis(5)).await;
                    gateway.reply("it is time");
                })),
                "/count" => spawn_blocking(move || gateway.reply(&format!("{}", (1..=1000).sum::<u32>()))).await?,
                "/whoami" => {
                    let mut child = Command::new("sh");
                    let output = child.args(["-c", WHOAMI]).session_env().map_err(io::Error::other)?.output().await?;
                    self.reply(&format!("a child works for {}", String::from_utf8_lossy(&output.stdout)));
                }
                "/new" => {
                    // The session's own id changes for the rest of the conversation, and for nobody else.
                    let id = format!("{}-2", get_session_env("HERMES_SESSION_KEY", "?"));
                    set_current_session_id(&id).map_err(io::Error::other)?;
                    self.reply(&format!("now {id}"));
                }
                text => self.reply(&format!("you said {text}")),
            }
        }
        Ok(())
    }
}

const WHOAMI: &str =
    r#"printf %s "$HERMES_SESSION_PLATFORM/$HERMES_SESSION_CHAT_ID ${HERMES_SESSION_ID:-without an id}""#;

async fn deliver(mut messages: mpsc::UnboundedReceiver<String>, mut output: OwnedWriteHalf) -> io::Result<()> {
    while let Some(message) = messages.recv().await {
        output.write_all(message.as_bytes()).await?;
    }
    Ok(())
}

/// What a client says, and what it is to hear: about its own platform, chat and user alone.
fn script(platform: &str, chat: &str, user: &str) -> [(&'static str, String); 6] {
    [
        ("hello", format!("{user}: you said hello")),
        ("/whoami", format!("{user}: a child works for {platform}/{chat} without an id")),
        ("/remind", format!("{user}: it is time")),
        ("/count", format!("{user}: 500500")),
        ("/new", format!("{user}: now gateway:{platform}:{chat}-2")),
        ("/whoami", format!("{user}: a child works for {platform}/{chat} gateway:{platform}:{chat}-2")),
    ]
}

/// How many answers a client heard, and which of them were not for it.
async fn chat(address: std::net::SocketAddr, n: u32) -> io::Result<(usize, Vec<String>)> {
    // Two chats of one number, on two platforms, are two.
    let (platform, chat, user) = (["telegram", "discord"][n as usize % 2], (n / 2).to_string(), format!("user{n}"));
    let (input, mut output) = TcpStream::connect(address).await?.into_split();
    let script = script(platform, &chat, &user);
    let messages = script.iter().map(|(message, _)| *message).collect::<Vec<_>>().join("\n");
    output.write_all(format!("{platform} {chat} {user}\n{messages}\n").as_bytes()).await?;

    let mut due: Vec<String> = script.into_iter().map(|(_, answer)| answer).collect();
    let mut lines = BufReader::new(input).lines();
    let (mut heard, mut foreign) = (0, Vec::new());
    while !due.is_empty() {
        // An answer that went to nobody is missed, and not waited for for ever.
        let Ok(Some(line)) = timeout(Duration::from_secs(20), lines.next_line()).await.unwrap_or(Ok(None)) else {
            break;
        };
        heard += 1;
        match due.iter().position(|answer| *answer == line) {
            Some(at) => drop(due.swap_remove(at)),
            None => foreign.push(line),
        }
    }
    Ok((heard, foreign))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args().nth(1);
    let listener = TcpListener::bind(given.as_deref().unwrap_or("127.0.0.1:0")).await?;
    let address = listener.local_addr()?;
    let server = Arc::<Gateway>::default().serve(listener);
    if given.is_some() {
        println!("chats are welcome at {address}");
        return Ok(server.await?);
    }

    drop(tokio::spawn(server));
    let mut chats = JoinSet::new();
    for n in 0..100 {
        let _ = chats.spawn(chat(address, n));
    }
    let (mut heard, mut foreign) = (0, Vec::new());
    while let Some(chat) = chats.join_next().await {
        let (own, others) = chat??;
        heard += own;
        foreign.extend(others);
    }
    println!(
        "100 chats: {heard} answers, {} of them foreign, {} missing",
        foreign.len(),
        600 - (heard - foreign.len())
    );
    if foreign.is_empty() && heard == 600 { Ok(()) } else { Err(format!("for others: {foreign:?}").into()) }
}
