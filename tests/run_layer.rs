//! The layer on a real axum server, with requests at once and responses that are streamed.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::routing::get;
use futures_util::{StreamExt, stream};
use hermes_env_bridge::{
    OmniusRunContext, RunLayer, Session, Surface, WithSession, get_omnius_run_context, get_session_env, spawn,
};
use http::request::Parts;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

#[path = "support/diagnostics.rs"]
mod diagnostics;

fn seen() -> String {
    get_omnius_run_context().map_or("none".to_owned(), |run| run.run_id().to_owned())
}

/// A body whose every chunk is what it sees when it is made.
fn look_often() -> Body {
    let chunks = stream::iter(0..20).then(|n| async move {
        sleep(Duration::from_millis(n % 3)).await;
        let inside = spawn(async { seen() }).await.unwrap();
        Ok::<_, Infallible>(format!("{} {inside}\n", seen()))
    });
    Body::from_stream(chunks)
}

fn describe(parts: &Parts) -> OmniusRunContext {
    let id = parts.uri.query().unwrap_or("unnamed");
    OmniusRunContext::builder(id, Surface::Api).owner("user", id).build().unwrap()
}

async fn serve() -> SocketAddr {
    let app = Router::new()
        .route("/stream", get(|| async { look_often() }))
        .route("/text", get(|| async { seen() }))
        .route("/empty", get(|| async {}))
        .route("/session", get(|| async { get_session_env("HERMES_SESSION_PLATFORM", "none") }))
        .route(
            "/endless",
            get(|| async {
                Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from(seen()))).then(
                    |chunk| async {
                        sleep(Duration::from_millis(1)).await;
                        chunk
                    },
                ))
            }),
        )
        .route(
            "/broken",
            get(|| async {
                Body::from_stream(stream::iter([Ok(Bytes::from("a")), Err(std::io::Error::other("on purpose"))]))
            }),
        )
        .route(
            "/panic",
            get(|_: Request| async {
                assert!(get_omnius_run_context().is_none(), "on purpose");
            }),
        )
        .layer(RunLayer::describing(describe).bind_hermes());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The server itself is started inside a session; none of its requests is.
    let server = async { axum::serve(listener, app).await.unwrap() };
    drop(tokio::spawn(server.with_session(Session::new().platform("telegram"))));
    address
}

async fn request(address: SocketAddr, path: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}

async fn get_text(address: SocketAddr, path: &str) -> String {
    let mut text = String::new();
    let _ = request(address, path).await.read_to_string(&mut text).await;
    text
}

/// How the run has ended, once it has.
async fn outcome(id: &str) -> String {
    let ended = async {
        loop {
            if let [_, (_, end)] = &diagnostics::of(id)[..] {
                return end["outcome"].clone();
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(20), ended).await.unwrap_or_else(|_| panic!("{id}: {:?}", diagnostics::of(id)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_stream_whole_responses_for_their_own_run() {
    let address = serve().await;
    let mut requests = JoinSet::new();
    for n in 0..200 {
        let _ = requests.spawn(async move { (n, get_text(address, &format!("/stream?r{n}")).await) });
    }
    while let Some(response) = requests.join_next().await {
        let (n, text) = response.unwrap();
        assert_eq!(text.matches(&format!("r{n} r{n}\n")).count(), 20, "{text}");
        assert!(!text.contains("none"));
    }
}

#[tokio::test]
async fn a_request_ends_with_its_body_however_that_ends() {
    diagnostics::listen();
    let address = serve().await;
    for (path, expected) in [
        ("stream", "completed"),
        ("text", "completed"),
        ("empty", "completed"),
        ("broken", "failed"),
        ("panic", "panicked"),
    ] {
        let _ = get_text(address, &format!("/{path}?{path}")).await;
        assert_eq!(outcome(path).await, expected, "{path}");
        assert_eq!(diagnostics::of(path)[0].1["surface"], "api");
    }

    let mut gone = request(address, "/endless?endless").await;
    let _ = gone.read(&mut [0; 64]).await.unwrap();
    drop(gone);
    assert_eq!(outcome("endless").await, "cancelled");
}

#[tokio::test]
async fn a_request_has_the_session_of_its_run_and_not_the_servers() {
    let address = serve().await;
    assert!(get_text(address, "/session?r").await.ends_with("\r\n\r\napi_server"));
}

#[tokio::test]
async fn each_run_of_a_layer_that_describes_nothing_has_an_id_of_its_own() {
    let app = Router::new().route("/", get(|| async { seen() })).layer(RunLayer::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(tokio::spawn(async { axum::serve(listener, app).await.unwrap() }));
    let (one, two) = (get_text(address, "/").await, get_text(address, "/").await);
    let id = |text: &str| text.rsplit("\r\n\r\n").next().unwrap().to_owned();
    assert_eq!(id(&one).len(), 36);
    assert_ne!(id(&one), id(&two));
}
