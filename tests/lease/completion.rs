//! To whom the end of a child is told.

use std::future::Future;
use std::process::Stdio;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use futures_core::Stream;
use hermes_env_bridge::lease::{Exit, LeaseState, Ordered, Reason, Registry, Undelivered};
use tokio::process::Command;

use crate::helper::{Shared, eventually};

fn run(id: &str) -> Ordered {
    Ordered::current().run(id)
}

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    let _ = command.args(["-c", script]);
    command
}

/// Polls a future that is not ready, and drops it.
fn poll_once<F: Future>(future: F) {
    let future = std::pin::pin!(future);
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

fn reasons(registry: &Registry) -> Vec<Reason> {
    registry.undelivered().unwrap().into_iter().map(|Undelivered { reason, .. }| reason).collect()
}

/// L08.
#[tokio::test]
async fn a_completion_goes_to_the_run_that_ordered_the_work_whoever_is_active() {
    let registry = Registry::in_memory();
    let mut of_b = registry.completions("B");
    let mut of_a = registry.completions("A");
    let mut child = registry.register(run("A")).unwrap().spawn(&mut sh("exit 3")).unwrap();
    // Run B is the one that waits for it.
    assert_eq!(child.wait().await, Exit::Code(3));

    assert_eq!(of_b.try_next().unwrap(), None);
    let completion = of_a.next().await.unwrap();
    assert_eq!((completion.id, completion.exit), (child.lease(), Some(Exit::Code(3))));
    assert_eq!(completion.state(), LeaseState::Released);
    assert_eq!(of_a.try_next().unwrap(), None);
    assert_eq!(reasons(&registry), []);
}

/// L09.
#[tokio::test]
async fn a_completion_that_nobody_can_take_is_kept_with_the_reason() {
    let registry = Registry::in_memory();
    for ordered in [Ordered::current(), run("gone"), run("waits")] {
        let _ = registry.register(ordered).unwrap().spawn(&mut sh("true")).unwrap().wait().await;
    }
    drop(registry.completions("gone"));
    let mut waits = registry.completions("waits");
    assert_eq!(reasons(&registry), [Reason::NoRun, Reason::NobodyListens, Reason::Waiting]);

    assert!(waits.try_next().unwrap().is_some());
    assert_eq!(reasons(&registry), [Reason::NoRun, Reason::NobodyListens]);
    // Whoever comes late still gets it.
    assert!(registry.completions("gone").try_next().unwrap().is_some());
    assert_eq!(reasons(&registry), [Reason::NoRun]);
}

/// L09.
#[test]
fn a_completion_is_kept_when_the_process_of_its_run_is_gone_and_survives_a_release() {
    let shared = Shared::new("gone-run");
    let mut holder = shared.role("spawn", "R");
    let lease = holder.line().split_once(' ').unwrap().0.parse().unwrap();
    holder.kill();
    let _ =
        shared.registry.blocking_terminate(&hermes_env_bridge::lease::Target::Lease(lease), Duration::ZERO).unwrap();

    assert_eq!(reasons(&shared.registry), [Reason::ProcessGone]);
    shared.registry.release(lease).unwrap();
    assert_eq!(reasons(&shared.registry), [Reason::ProcessGone]);
    assert_eq!(shared.registry.prune(Duration::ZERO).unwrap(), 0);
    let taken = shared.registry.completions("R").try_next().unwrap().unwrap();
    assert_eq!((taken.id, taken.exit), (lease, Some(Exit::Unknown)));
    assert_eq!(reasons(&shared.registry), []);
    eventually("a millisecond later", || shared.registry.prune(Duration::ZERO).unwrap() == 1);
}

#[tokio::test]
async fn completions_come_in_the_order_of_the_ends_and_each_once() {
    let registry = Registry::in_memory();
    let mut completions = registry.completions("R");
    let mut children = Vec::new();
    for _ in 0..3 {
        let mut command = Command::new("cat");
        children.push(registry.register(run("R")).unwrap().spawn(command.stdin(Stdio::piped())).unwrap());
    }
    for child in children.iter_mut().rev() {
        assert_eq!(child.wait().await, Exit::Code(0));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for child in children.iter().rev() {
        assert_eq!(completions.next().await.unwrap().id, child.lease());
    }
    assert_eq!(completions.try_next().unwrap(), None);
}

#[tokio::test]
async fn the_end_of_a_child_wakes_the_run_that_waits_for_it_from_any_thread() {
    let registry = Registry::in_memory();
    let mut completions = registry.completions("R");
    poll_once(completions.next());
    let elsewhere = registry.clone();
    let child = thread::spawn(move || {
        let lease = elsewhere.register(run("R")).unwrap();
        lease.blocking_spawn(std::process::Command::new("sleep").arg("0.05")).unwrap().lease()
    });
    assert_eq!(completions.next().await.unwrap().id, child.join().unwrap());
}

#[tokio::test]
async fn completions_are_a_stream_and_a_dropped_wait_loses_none() {
    let registry = Registry::in_memory();
    let mut completions = registry.completions("R");
    let mut child = registry.register(run("R")).unwrap().spawn(&mut sh("kill -9 $$")).unwrap();
    poll_once(completions.next());
    assert_eq!(child.wait().await, Exit::Signal(9));
    let taken = std::future::poll_fn(|poller| std::pin::Pin::new(&mut completions).poll_next(poller)).await;
    assert_eq!(taken.unwrap().unwrap().exit, Some(Exit::Signal(9)));
}
