//! A subscriber that asks for the session on each event, also on the warnings that its own questions raise.
#![cfg(unix)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use hermes_env_bridge::{configured_cwd, get_session_env, resolve_cwd};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry;

static HEARD: AtomicU32 = AtomicU32::new(0);

struct Asking;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Asking {
    fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
        let _ = HEARD.fetch_add(1, Ordering::Relaxed);
        assert_eq!(get_session_env("HERMES_SESSION_KEY", "none"), "none");
        assert_eq!(configured_cwd(), None);
        assert!(resolve_cwd().is_ok());
    }
}

/// The program of the test below, which is started with a key that is not UTF-8 and a directory that does not exist.
#[test]
#[ignore = "a program of the other test's"]
fn program() {
    tracing::subscriber::set_global_default(registry().with(Asking)).unwrap();
    tracing::info!("one, and a warning for each question"); // the key's, and those of both directories
    assert_eq!(HEARD.load(Ordering::Relaxed), 4);
    assert_eq!(configured_cwd(), None);
    assert_eq!(HEARD.load(Ordering::Relaxed), 5, "a warning is heard, and what its subscriber asks raises none");
}

#[test]
fn a_subscriber_that_reads_the_session_on_each_event_hears_no_warning_of_its_own_warning() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let _ = command.args(["--exact", "program", "--ignored", "--nocapture"]);
    let _ = command.env("HERMES_SESSION_KEY", OsStr::from_bytes(b"\xff")).env("TERMINAL_CWD", "/no/such/directory");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}
