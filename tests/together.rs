//! Two sessions as futures of one body: however they are put together, each reads what it has bound itself.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use hermes_env_bridge::{Context, Session, get_session_env, set_current_session_id, set_session_vars};
use tokio::task::{JoinSet, LocalSet, spawn_local, yield_now};

const KEY: &str = "HERMES_SESSION_KEY";
const ID: &str = "HERMES_SESSION_ID";

/// Binds and reads across awaits, and returns whatever it read that is not its own.
async fn session(mine: &str) -> Vec<String> {
    let work = async {
        let mut foreign = Vec::new();
        for turn in 0..50 {
            set_session_vars(Session::new().session_key(mine)).unwrap();
            yield_now().await;
            let id = format!("{mine}{turn}");
            set_current_session_id(&id).unwrap();
            if turn % 10 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else {
                yield_now().await;
            }
            let read = [get_session_env(KEY, "none"), get_session_env(ID, "none")];
            foreign.extend(read.into_iter().zip([mine, &id]).filter(|(read, own)| read != own).map(|(read, _)| read));
        }
        foreign
    };
    Session::new().session_key(mine).scope(work).await
}

async fn body() {
    let none = Vec::<String>::new();

    assert_eq!(tokio::join!(session("A"), session("B")), (none.clone(), none.clone()));
    assert_eq!(futures::join!(session("A"), session("B")), (none.clone(), none.clone()));

    // Whichever is first: the other goes on afterwards, with its own.
    let (mut a, mut b) = (Box::pin(session("A")), Box::pin(session("B")));
    let (first, second) = tokio::select! {
        first = &mut a => (first, b.await),
        first = &mut b => (first, a.await),
    };
    assert_eq!((first, second), (none.clone(), none.clone()));
    // The loser is dropped half-way.
    let read = tokio::select! {
        read = session("A") => read,
        () = Session::new().session_key("B").scope(std::future::pending()) => unreachable!(),
    };
    assert_eq!(read, none);

    let sessions: FuturesUnordered<_> = ["A", "B", "C", "D"].into_iter().map(session).collect();
    assert_eq!(sessions.concat().await, none);

    let local = LocalSet::new();
    let (a, b) = (local.spawn_local(session("A")), local.spawn_local(session("B")));
    let own = local.run_until(async { tokio::join!(session("C"), async { spawn_local(session("D")).await.unwrap() }) });
    assert_eq!(own.await, (none.clone(), none.clone()));
    assert_eq!((a.await.unwrap(), b.await.unwrap()), (none.clone(), none.clone()));

    let mut tasks: JoinSet<_> = ["A", "B"].into_iter().map(session).collect();
    while let Some(read) = tasks.join_next().await {
        assert_eq!(read.unwrap(), none);
    }

    assert_eq!(Context::current(), Context::unbound(), "the body itself never had a session");
}

#[test]
fn in_a_body_on_one_thread() {
    #[tokio::main(flavor = "current_thread")]
    async fn main() {
        body().await;
    }
    main();
}

#[test]
fn in_a_body_on_several_threads() {
    #[tokio::main(flavor = "multi_thread", worker_threads = 2)]
    async fn main() {
        body().await;
    }
    main();
}

#[test]
fn in_a_body_that_is_in_a_session_itself() {
    #[tokio::main(flavor = "current_thread")]
    async fn main() {
        let seen = Session::new().session_key("outer").scope(async {
            let inner = tokio::join!(session("A"), session("B"));
            (inner, get_session_env(KEY, "none"))
        });
        assert_eq!(seen.await, ((vec![], vec![]), "outer".to_owned()));
    }
    main();
}
