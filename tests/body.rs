//! A body of HTTP in a scope.

use std::convert::Infallible;

use axum::body::{Body, HttpBody, to_bytes};
use futures::{StreamExt, stream};
use hermes_env_bridge::{Session, WithSession, var};

#[tokio::test]
async fn a_body_is_made_in_its_scope_whoever_sends_it() {
    let lines =
        || Body::from_stream(stream::iter(0..2).map(|_| Ok::<_, Infallible>(var::chat_id().unwrap_or_default())));
    let body = lines().with_session(Session::new().chat_id("42"));
    let sent = Session::new().chat_id("1").scope(to_bytes(Body::new(body), 64)).await.unwrap();
    assert_eq!(sent, "4242");
}

#[test]
fn a_body_is_as_long_in_a_scope_as_outside() {
    let body = Body::from("hello").with_session(Session::new());
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(5), false));
    assert!(Body::empty().with_session(Session::new()).is_end_stream());
}
