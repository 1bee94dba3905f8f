//! What a log line shows of the session.

use std::io;
use std::sync::{Arc, Mutex};

use hermes_env_bridge::{Session, session_span};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// What is logged by `f`.
fn logged(f: impl FnOnce()) -> String {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).without_time().finish();
    tracing::subscriber::with_default(subscriber, f);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_span_has_what_the_task_bound_and_nothing_else() {
    let line = logged(|| {
        Session::new().platform("telegram").chat_id("42").sync_scope(|| {
            let _entered = session_span().entered();
            tracing::info!("handled");
        });
    });
    assert!(line.contains("platform=\"telegram\" chat_id=\"42\""), "{line}");
    assert!(!line.contains("user_id") && !line.contains("session_key"), "{line}");
}

#[test]
fn outside_a_session_a_span_has_no_fields() {
    let line = logged(|| {
        let _entered = session_span().entered();
        tracing::info!("handled");
    });
    assert!(line.contains("handled") && !line.contains("platform"), "{line}");
}
