//! A `tower` layer that makes a run of each request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Poller, Poll, ready};

use http::request::Parts;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::entry::{self, ingress};
use super::record::OmniusRunContext;
use super::watch::{Outcome, Watch};
use crate::scope::Scope;

/// Makes a run of each request: from the call of the handler to the end of the response's body, however it is streamed.
///
/// What the request is made of says nothing about who sent it until somebody has checked that: the layer belongs inside
/// the one that authenticates, and `describe` takes the owner from what that one has put into the request's extensions.
///
/// A connection that is upgraded (a WebSocket) is handed to a task of its own: wrap that task's work with
/// [`WithSession::in_current_session`](crate::WithSession::in_current_session) in the handler.
///
/// ```
/// use hermes_env_bridge::{RunLayer, entry, get_omnius_run_context};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let app: axum::Router = axum::Router::new()
///     .route("/", axum::routing::get(|| async { get_omnius_run_context().unwrap().surface().as_str() }))
///     .layer(RunLayer::new());
/// # let _ = app;
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RunLayer<D = fn(&Parts) -> OmniusRunContext> {
    describe: D,
    bind_hermes: bool,
}

impl RunLayer {
    /// A layer whose runs have a random id and the surface `api`, and nothing else.
    ///
    /// # Panics
    ///
    /// Never: a random id is a text.
    #[must_use]
    pub fn new() -> Self {
        Self::describing(|_| entry::api().record().expect("a random id is a text"))
    }
}

impl Default for RunLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Fn(&Parts) -> OmniusRunContext> RunLayer<D> {
    /// A layer whose runs `describe` makes of the requests.
    pub fn describing(describe: D) -> Self {
        Self { describe, bind_hermes: false }
    }

    /// Enters the corresponding session of Hermes as well; see [`OmniusRunContext::to_session`].
    #[must_use]
    pub fn bind_hermes(self) -> Self {
        Self { bind_hermes: true, ..self }
    }
}

impl<S, D: Clone> Layer<S> for RunLayer<D> {
    type Service = RunService<S, D>;

    fn layer(&self, inner: S) -> RunService<S, D> {
        RunService { inner, layer: self.clone() }
    }
}

/// What a [`RunLayer`] makes of a service.
#[derive(Debug, Clone, Copy)]
pub struct RunService<S, D = fn(&Parts) -> OmniusRunContext> {
    inner: S,
    layer: RunLayer<D>,
}

impl<S, D, Q, P> Service<Request<Q>> for RunService<S, D>
where
    S: Service<Request<Q>, Response = Response<P>>,
    P: Body,
    D: Fn(&Parts) -> OmniusRunContext,
{
    type Response = Response<RunBody<P>>;
    type Error = S::Error;
    type Future = RunResponse<S::Future>;

    fn poll_ready(&mut self, poller: &mut Poller<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(poller)
    }

    fn call(&mut self, request: Request<Q>) -> RunResponse<S::Future> {
        let (parts, body) = request.into_parts();
        let (context, ending, mut watch) = ingress((self.layer.describe)(&parts), self.layer.bind_hermes);
        let inner = &mut self.inner;
        let inner = context.clone().sync_scope(|| watch.over(|| inner.call(Request::from_parts(parts, body))));
        RunResponse { scope: Scope::of_context(context, ending, Responding { inner, watch: Some(watch) }) }
    }
}

pin_project! {
    /// The response of a [`RunService`], which is not there yet.
    #[derive(Debug)]
    pub struct RunResponse<F> {
        #[pin]
        scope: Scope<Responding<F>>,
    }
}

impl<F, P, E> Future for RunResponse<F>
where
    F: Future<Output = Result<Response<P>, E>>,
    P: Body,
{
    type Output = Result<Response<RunBody<P>>, E>;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Self::Output> {
        let mut scope = self.project().scope;
        let response = ready!(scope.as_mut().poll_inside(|inner| inner.poll(poller), Result::is_err))?;
        Poll::Ready(Ok(response.map(|body| RunBody { scope: scope.hand_over(body) })))
    }
}

pin_project! {
    /// The handler's work up to the response.
    struct Responding<F> {
        #[pin]
        inner: F,
        // `None` once the body has it.
        watch: Option<Watch>,
    }
}

impl<F, P, E> Future for Responding<F>
where
    F: Future<Output = Result<Response<P>, E>>,
    P: Body,
{
    type Output = Result<Response<Streaming<P>>, E>;

    fn poll(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let inner = this.inner;
        let mut watch = this.watch.take().expect("a response is polled until it is there");
        match watch.over(|| inner.poll(poller)) {
            Poll::Pending => {
                *this.watch = Some(watch);
                Poll::Pending
            }
            Poll::Ready(Ok(response)) => Poll::Ready(Ok(response.map(|body| Streaming::new(body, watch)))),
            Poll::Ready(Err(error)) => {
                watch.end(Outcome::Failed);
                Poll::Ready(Err(error))
            }
        }
    }
}

pin_project! {
    /// The body of a response, which works for the request's run as well.
    #[derive(Debug)]
    pub struct RunBody<P> {
        #[pin]
        scope: Scope<Streaming<P>>,
    }
}

impl<P: Body> Body for RunBody<P> {
    type Data = P::Data;
    type Error = P::Error;

    fn poll_frame(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Option<Result<Frame<P::Data>, P::Error>>> {
        self.project().scope.poll_inside(|body| body.poll_frame(poller), |frame| !matches!(frame, Some(Ok(_))))
    }

    fn is_end_stream(&self) -> bool {
        self.scope.inner().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.scope.inner().body.size_hint()
    }
}

type FrameOf<P> = Result<Frame<<P as Body>::Data>, <P as Body>::Error>;

pin_project! {
    struct Streaming<P> {
        #[pin]
        body: P,
        watch: Watch,
    }
}

impl<P: Body> Streaming<P> {
    /// A server does not ask a body that is at its end from the start.
    fn new(body: P, mut watch: Watch) -> Self {
        if body.is_end_stream() {
            watch.end(Outcome::Completed);
        }
        Self { body, watch }
    }

    fn poll_frame(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Option<FrameOf<P>>> {
        let this = self.project();
        let mut body = this.body;
        let frame = ready!(this.watch.over(|| body.as_mut().poll_frame(poller)));
        match &frame {
            Some(Err(_)) => this.watch.end(Outcome::Failed),
            // A server stops asking where the body says so.
            Some(Ok(_)) if !body.is_end_stream() => {}
            _ => this.watch.end(Outcome::Completed),
        }
        Poll::Ready(frame)
    }
}
