//! A web service in which every request has a session of its own, and the answer's body too.
//!
//! `cargo run --example axum_middleware --features http` asks itself; with an address as argument it serves there:
//! `curl -N -H 'authorization: Bearer alice-token' http://127.0.0.1:8080/count`

use std::convert::Infallible;
use std::error::Error;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router, routing::get};
use futures::{StreamExt, stream};
use hermes_env_bridge::{SESSION_HEADER, Session, Snapshot, WithSession, extract, get_session_env};
use tower::ServiceExt;

/// Deep in the program: no request and no session is passed in.
fn user() -> String {
    match get_session_env("HERMES_SESSION_USER_ID", "") {
        user if user.is_empty() => "nobody".to_owned(),
        user => user,
    }
}

/// A body that is made while it is sent, long after the handler has returned.
async fn count() -> Body {
    let lines = stream::iter(1..=3).then(async |n| {
        tokio::task::yield_now().await;
        Ok::<_, Infallible>(format!("{n} for {}\n", user()))
    });
    Body::from_stream(Box::pin(lines))
}

/// Who has proved to be calling.
#[derive(Clone)]
enum Caller {
    /// A user, who speaks for nobody else.
    User(&'static str),
    /// Another process of ours, which speaks for whomever it works for.
    Gateway,
}

/// Ingress: whatever the server was started as, and whatever its environment says, is not the request's. Nothing of it
/// is read from here on, for a request is nobody's until somebody is authenticated.
async fn as_nobody(request: Request, next: Next) -> Response {
    answer_as(Session::new().platform("api_server"), next.run(request)).await
}

/// Authentication: the one place that decides who calls. A real one verifies a signed token, a cookie or a client's
/// certificate.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let caller = match request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes) {
        Some(b"Bearer alice-token") => Caller::User("alice"),
        Some(b"Bearer bob-token") => Caller::User("bob"),
        Some(b"Bearer gateway-token") => Caller::Gateway,
        _ => return StatusCode::UNAUTHORIZED.into_response(),
    };
    let _ = request.extensions_mut().insert(caller);
    next.run(request).await
}

/// The session of whoever was authenticated. What a request says of itself is a claim: only a caller who may speak for
/// everybody is taken at its word.
async fn enter_session(Extension(caller): Extension<Caller>, request: Request, next: Next) -> Response {
    match (caller, extract(request.headers())) {
        (Caller::User(_), Ok(Some(_))) => StatusCode::FORBIDDEN.into_response(),
        (Caller::User(user), _) => {
            answer_as(Session::new().platform("api_server").user_id(user).async_delivery(false), next.run(request))
                .await
        }
        (Caller::Gateway, Ok(Some(snapshot))) => snapshot.restore().scope(with_its_body(next.run(request))).await,
        (Caller::Gateway, Ok(None)) => (StatusCode::BAD_REQUEST, "whom is it for?").into_response(),
        (Caller::Gateway, Err(error)) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

async fn answer_as(session: Session, answer: impl Future<Output = Response>) -> Response {
    session.scope(with_its_body(answer)).await
}

/// The answer, whose body keeps the session in which it was made.
async fn with_its_body(answer: impl Future<Output = Response>) -> Response {
    answer.await.map(|body| Body::new(body.in_current_session()))
}

fn app() -> Router {
    Router::new()
        .route("/count", get(count))
        .route_layer(from_fn(enter_session))
        .route_layer(from_fn(authenticate))
        .route("/health", get(async || format!("well, says {}", user())))
        .layer(from_fn(as_nobody))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(address) = std::env::args().nth(1) {
        return Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, app()).await?);
    }

    let for_carol = Snapshot::from(Session::new().user_id("carol")).to_header()?;
    // The one who asks has a session too, which is none of the service's business.
    Session::new()
        .user_id("mallory")
        .scope(async {
            println!("GET /health: {}", ask("/health", &[]).await?);
            println!("GET /count: {}", ask("/count", &[]).await?);
            let (alice, bob) = tokio::join!(
                ask("/count", &[("authorization", "Bearer alice-token")]),
                ask("/count", &[("authorization", "Bearer bob-token")]),
            );
            println!("GET /count as Alice: {}", alice?);
            println!("GET /count as Bob: {}", bob?);
            let as_gateway = [("authorization", "Bearer gateway-token"), (SESSION_HEADER, &for_carol)];
            println!("GET /count as the gateway, for Carol: {}", ask("/count", &as_gateway).await?);
            let as_alice = [("authorization", "Bearer alice-token"), (SESSION_HEADER, &for_carol)];
            println!("GET /count as Alice, for Carol: {}", ask("/count", &as_alice).await?);
            Ok(())
        })
        .await
}

/// The status and the lines of the body.
async fn ask(path: &str, headers: &[(&str, &str)]) -> Result<String, Box<dyn Error>> {
    let request = headers.iter().fold(Request::get(path), |request, &(name, value)| request.header(name, value));
    let response = app().oneshot(request.body(Body::empty())?).await?;
    let status = response.status();
    let body = String::from_utf8(to_bytes(response.into_body(), 1024).await?.into())?;
    Ok([status.as_str()].into_iter().chain(body.lines()).collect::<Vec<_>>().join(" / "))
}
