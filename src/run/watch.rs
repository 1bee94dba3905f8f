//! The two diagnostics of a run: that it has started, and how it has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::record::OmniusRunContext;

/// How a run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Completed,
    #[cfg(feature = "tower")]
    Failed,
    Panicked,
    Cancelled,
}

/// Says once that a run starts, and once how it has ended: `cancelled`, if nobody has said before it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    run: Arc<OmniusRunContext>,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Waiting,
    Running(Instant),
    Over,
}

impl Watch {
    pub(super) fn new(run: Arc<OmniusRunContext>) -> Self {
        Self { run, state: State::Waiting }
    }

    /// A part of the run's work. If it panics the run is over.
    pub(super) fn over<R>(&mut self, work: impl FnOnce() -> R) -> R {
        struct Unwinding<'a>(&'a mut Watch);
        impl Drop for Unwinding<'_> {
            fn drop(&mut self) {
                self.0.end(Outcome::Panicked);
            }
        }

        if matches!(self.state, State::Waiting) {
            self.state = State::Running(Instant::now());
            started(&self.run);
        }
        let unwinding = Unwinding(self);
        let result = work();
        std::mem::forget(unwinding);
        result
    }

    pub(super) fn end(&mut self, outcome: Outcome) {
        if let State::Running(since) = self.state {
            self.state = State::Over;
            ended(&self.run, outcome, since.elapsed());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end(Outcome::Cancelled);
    }
}

#[cfg(feature = "tracing")]
fn started(run: &OmniusRunContext) {
    tracing::info!(
        target: "hermes_env_bridge::run", run_id = run.run_id(), surface = run.surface().as_str(), "run started"
    );
}

#[cfg(feature = "tracing")]
fn ended(run: &OmniusRunContext, outcome: Outcome, duration: Duration) {
    let outcome = match outcome {
        Outcome::Completed => "completed",
        #[cfg(feature = "tower")]
        Outcome::Failed => "failed",
        Outcome::Panicked => "panicked",
        Outcome::Cancelled => "cancelled",
    };
    tracing::info!(
        target: "hermes_env_bridge::run",
        run_id = run.run_id(),
        surface = run.surface().as_str(),
        outcome,
        duration = duration.as_secs_f64(),
        "run ended"
    );
}

#[cfg(not(feature = "tracing"))]
fn started(_: &OmniusRunContext) {}

#[cfg(not(feature = "tracing"))]
fn ended(_: &OmniusRunContext, _: Outcome, _: Duration) {}
