//! The worker's side: a job runs with the session in its metadata.

use std::future::ready;
use std::pin::Pin;
use std::task::{Context as Poller, Poll};

use apalis::prelude::{BoxDynError, Layer, Service, Status, Task};
use hermes_env_bridge::extract;

/// Runs each job with the session that its metadata carries. A job without one, or with one that cannot be read, is
/// not run, and not tried again.
///
/// With `parallelize` it matters who spawns: `.parallelize(hermes_env_bridge::spawn)` keeps the session of a layer
/// outside of it, `.parallelize(tokio::spawn)` only that of a layer inside.
#[derive(Debug, Clone, Copy)]
pub struct SessionLayer;

/// The service of [`SessionLayer`].
#[derive(Debug, Clone)]
pub struct InSession<S>(S);

impl<S> Layer<S> for SessionLayer {
    type Service = InSession<S>;

    fn layer(&self, service: S) -> InSession<S> {
        InSession(service)
    }
}

impl<S, Args> Service<Task<Args>> for InSession<S>
where
    S: Service<Task<Args>, Error = BoxDynError, Future: Send + 'static, Response: Send + 'static>,
{
    type Response = S::Response;
    type Error = BoxDynError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxDynError>> + Send>>;

    fn poll_ready(&mut self, poller: &mut Poller<'_>) -> Poll<Result<(), BoxDynError>> {
        self.0.poll_ready(poller)
    }

    fn call(&mut self, job: Task<Args>) -> Self::Future {
        let refusal: BoxDynError = match extract(job.metadata().as_map()) {
            Ok(Some(snapshot)) if !snapshot.is_empty() => return Box::pin(snapshot.restore().scope(self.0.call(job))),
            Ok(_) => "the job carries no session; enqueue it with inject, in the session".into(),
            Err(error) => error.into(),
        };
        // What a job's end means to the queue is set inside of this layer, where this job does not come.
        job.ctx().raw_status().store(Status::Killed);
        Box::pin(ready(Err(refusal)))
    }
}
