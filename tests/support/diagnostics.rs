//! The events that runs emit, as a subscriber hears them.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, Once};

use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry;

/// An event: its message, and its other fields.
pub type Event = (String, HashMap<String, String>);

static EVENTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());

/// Hears what the whole process emits. A subscriber of one thread would miss events that another thread was the first to
/// emit, while nobody heard it there.
pub fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| tracing::subscriber::set_global_default(registry().with(Listener)).unwrap());
}

/// What was emitted for one run.
pub fn of(run_id: &str) -> Vec<Event> {
    let events = EVENTS.lock().unwrap();
    events.iter().filter(|(_, fields)| fields.get("run_id").is_some_and(|id| id == run_id)).cloned().collect()
}

struct Listener;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Listener {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Fields(HashMap<String, String>);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
                let _ = self.0.insert(field.name().to_owned(), format!("{value:?}"));
            }

            fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
                let _ = self.0.insert(field.name().to_owned(), value.to_owned());
            }
        }

        let mut fields = Fields(HashMap::new());
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        EVENTS.lock().unwrap().push((message, fields.0));
    }
}
