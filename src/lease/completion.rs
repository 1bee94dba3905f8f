//! Completions: they go to where the work was ordered, and wait there until somebody takes them.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as Poller, Poll, Waker};

use futures_core::Stream;

use super::error::LeaseError;
use super::process::{Host, Identity};
use super::record::LeaseRecord;
use super::registry::Registry;
use super::store::Filter;

/// A completion that nobody took yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undelivered {
    /// The lease whose process has ended.
    pub lease: LeaseRecord,
    /// Why nobody took it.
    pub reason: Reason,
}

/// Why nobody took a completion, at the moment of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The work was ordered outside any run.
    #[error("the work was ordered outside any run")]
    NoRun,
    /// The process in which the run was is gone.
    #[error("the process in which the run was is gone")]
    ProcessGone,
    /// Nobody in this process takes the completions of the run: it has ended, or it never asked.
    #[error("nobody takes the completions of the run")]
    NobodyListens,
    /// Somebody takes the completions of the run, and has not got to this one.
    #[error("the run has not taken it yet")]
    Waiting,
    /// The run is in another process, which is not proved dead.
    #[error("the run is in another process")]
    OtherProcess,
}

impl Registry {
    /// The completions of the work that a run has ordered: those that wait, and from then on each as it comes.
    ///
    /// Each completion is taken once. Where nobody takes them, they stay [undelivered](Self::undelivered), also beyond
    /// the end of this process if the registry is in a file.
    pub fn completions(&self, run_id: impl Into<String>) -> Completions {
        let listener = Arc::new(Listener { run_id: run_id.into(), waker: Mutex::default() });
        let mut listeners = self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&listener));
        Completions { registry: self.clone(), listener }
    }

    /// The completions that nobody took, each with the reason.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Store`].
    pub fn undelivered(&self) -> Result<Vec<Undelivered>, LeaseError> {
        let (here, me) = (Host::current(), Identity::current());
        let leases = self.leases(&Filter::new().undelivered())?;
        Ok(leases.into_iter().map(|lease| Undelivered { reason: self.reason(&lease, &here, &me), lease }).collect())
    }

    fn reason(&self, lease: &LeaseRecord, here: &Host, me: &Identity) -> Reason {
        let Some(run_id) = &lease.ordered.run_id else {
            return Reason::NoRun;
        };
        if self.listeners_of(run_id).next().is_some() {
            Reason::Waiting
        } else if lease.holder == *me {
            Reason::NobodyListens
        } else if lease.holder.liveness_on(here).is_dead() {
            Reason::ProcessGone
        } else {
            Reason::OtherProcess
        }
    }

    /// Wakes whoever takes the completions of these leases.
    pub(super) fn wake<'a>(&self, ended: impl IntoIterator<Item = &'a LeaseRecord>) {
        for listener in
            ended.into_iter().filter_map(|lease| lease.ordered.run_id.as_ref()).flat_map(|run| self.listeners_of(run))
        {
            let waker = listener.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn listeners_of(&self, run_id: &str) -> impl Iterator<Item = Arc<Listener>> + use<> {
        let listeners = self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners: Vec<_> = listeners.iter().filter_map(std::sync::Weak::upgrade).collect();
        let run_id = run_id.to_owned();
        listeners.into_iter().filter(move |listener| listener.run_id == run_id)
    }
}

/// Somebody who takes the completions of a run.
#[derive(Debug)]
pub(super) struct Listener {
    run_id: String,
    waker: Mutex<Option<Waker>>,
}

/// The completions of one run; see [`Registry::completions`]. A stream that does not end.
#[must_use = "completions are taken by next() or try_next()"]
pub struct Completions {
    registry: Registry,
    listener: Arc<Listener>,
}

impl Completions {
    /// Takes the next completion, and waits for it if there is none. Its lease is released.
    ///
    /// Nothing is lost if the future is dropped before it is ready.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Store`].
    pub async fn next(&mut self) -> Result<LeaseRecord, LeaseError> {
        poll_fn(|poller| self.poll(poller)).await
    }

    /// Takes the next completion, `None` if there is none now. Its lease is released.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Store`].
    pub fn try_next(&mut self) -> Result<Option<LeaseRecord>, LeaseError> {
        let waiting = Filter::new().run(self.listener.run_id.clone()).undelivered();
        if self.registry.leases(&waiting)?.is_empty() {
            return Ok(None);
        }
        self.registry.change(|leases| {
            // Ids sort by registration; completions are taken as they came.
            let mut first = leases.find(&waiting)?.into_iter().min_by_key(|lease| (lease.exited_at, lease.id));
            if let Some(lease) = &mut first {
                lease.deliver();
                leases.put(lease)?;
            }
            Ok(first)
        })
    }

    pub(crate) fn poll(&mut self, poller: &Poller<'_>) -> Poll<Result<LeaseRecord, LeaseError>> {
        // Before the look, so that what comes after the look wakes.
        *self.listener.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(poller.waker().clone());
        match self.try_next().transpose() {
            Some(taken) => Poll::Ready(taken),
            None => Poll::Pending,
        }
    }
}

impl Stream for Completions {
    type Item = Result<LeaseRecord, LeaseError>;

    fn poll_next(mut self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Option<Self::Item>> {
        self.poll(poller).map(Some)
    }
}

impl fmt::Debug for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions").field("run_id", &self.listener.run_id).finish_non_exhaustive()
    }
}
