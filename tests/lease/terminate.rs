//! Ending processes: those that are meant, and no others.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use hermes_env_bridge::lease::{
    BlockingChild, Exit, LeaseError, LeaseState, NoProof, Ordered, Outcome, Registry, Target, Terminated,
};

use crate::helper::{Shared, eventually, runs, spawn_with};

const LONG: Duration = Duration::from_secs(60);

fn owner(id: &str) -> Target {
    Target::Owner { kind: Some("user".to_owned()), id: id.to_owned() }
}

/// Starts a shell script for an owner, and waits for the line that it says when it is ready.
fn start(registry: &Registry, ordered: Ordered, script: &str) -> (BlockingChild, String) {
    let lease = registry.register(ordered).unwrap();
    let mut child = lease.blocking_spawn(Command::new("sh").args(["-c", script]).stdout(Stdio::piped())).unwrap();
    let mut line = String::new();
    let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

fn user(id: &str) -> Ordered {
    Ordered::current().owner("user", id).run(format!("run of {id}"))
}

fn outcomes(terminated: &[Terminated]) -> Vec<Outcome> {
    terminated.iter().map(|terminated| terminated.outcome).collect()
}

#[test]
fn an_owner_a_run_or_a_lease_is_ended_and_nothing_else() {
    let registry = Registry::in_memory();
    let mut children: Vec<_> =
        ["a", "a", "b", "c"].map(|id| start(&registry, user(id), "echo; sleep 300 & wait").0).into();
    let mut other_kind = start(&registry, Ordered::current().owner("job", "a"), "echo; sleep 300").0;
    let mut no_kind =
        start(&registry, Ordered { owner_id: Some("a".into()), ..Ordered::default() }, "echo; sleep 300").0;

    let ended = registry.blocking_terminate(&owner("a"), LONG).unwrap();
    assert_eq!(outcomes(&ended), [Outcome::Ended { killed: false }; 2]);
    for child in &mut children[..2] {
        assert_eq!(child.wait(), Exit::Signal(15));
        assert_eq!(registry.get(child.lease()).unwrap().state(), LeaseState::Exited);
    }
    let left = |children: &[BlockingChild]| children.iter().map(|child| runs(child.pid())).collect::<Vec<_>>();
    assert_eq!(left(&children), [false, false, true, true]);

    let ended = registry.blocking_terminate(&Target::Run("run of b".into()), LONG).unwrap();
    assert_eq!(
        (outcomes(&ended), left(&children)),
        (vec![Outcome::Ended { killed: false }], vec![false, false, false, true])
    );
    let ended = registry.blocking_terminate(&Target::Lease(children[3].lease()), LONG).unwrap();
    assert_eq!(outcomes(&ended), [Outcome::Ended { killed: false }]);
    assert!(runs(other_kind.pid()) && runs(no_kind.pid()));

    let none = registry.blocking_terminate(&Target::Owner { kind: None, id: "a".into() }, LONG).unwrap();
    assert_eq!(none[0].lease, no_kind.lease());
    let _ = registry.blocking_terminate(&Target::Lease(other_kind.lease()), LONG).unwrap();
    assert_eq!((other_kind.wait(), no_kind.wait()), (Exit::Signal(15), Exit::Signal(15)));
    assert_eq!(registry.blocking_terminate(&owner("a"), LONG).unwrap(), []);
}

#[test]
fn a_whole_process_group_is_ended() {
    let registry = Registry::in_memory();
    let (mut child, grandchild) = start(&registry, user("a"), "sleep 300 & echo $!; wait");
    let _ = registry.blocking_terminate(&owner("a"), LONG).unwrap();
    assert_eq!(child.wait(), Exit::Signal(15));
    assert!(!runs(grandchild.parse().unwrap()));
}

#[test]
fn a_group_is_ended_that_outlives_its_leader() {
    let registry = Registry::in_memory();
    let (mut child, left) = start(&registry, user("a"), "sleep 300 >&- & echo $!");
    assert_eq!(child.wait(), Exit::Code(0));
    let left = left.parse().unwrap();
    assert!(runs(left));
    let ended = registry.blocking_terminate(&owner("a"), LONG).unwrap();
    assert_eq!((outcomes(&ended), runs(left)), (vec![Outcome::Ended { killed: false }], false));
}

#[test]
fn what_is_left_of_a_group_and_does_not_name_the_lease_gets_no_signal() {
    let registry = Registry::in_memory();
    let (mut child, left) = start(&registry, user("a"), "env -u OMNIUS_PROCESS_LEASE_ID sleep 300 >&- & echo $!");
    assert_eq!(child.wait(), Exit::Code(0));
    let left: u32 = left.parse().unwrap();
    eventually("the stranger has its own environment", || {
        std::fs::read_to_string(format!("/proc/{left}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    let ended = registry.blocking_terminate(&owner("a"), Duration::ZERO).unwrap();
    assert_eq!((outcomes(&ended), runs(left)), (vec![Outcome::NoProof(NoProof::Strangers)], true));
    let pid = rustix::process::Pid::from_raw(left.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn what_does_not_heed_the_request_is_killed_after_the_grace_and_so_is_what_it_starts_meanwhile() {
    let registry = Registry::in_memory();
    let script = "trap 'sleep 300 & sleep 300 &' TERM; echo; while :; do sleep 0.01; done";
    let (mut child, _) = start(&registry, user("a"), script);
    let ended = registry.blocking_terminate(&owner("a"), Duration::from_millis(200)).unwrap();
    assert_eq!(outcomes(&ended), [Outcome::Ended { killed: true }]);
    assert_eq!(child.wait(), Exit::Signal(9));
}

#[test]
fn a_shell_is_asked_before_its_command_and_does_not_go_on_to_the_next() {
    for _ in 0..20 {
        let registry = Registry::in_memory();
        let marker = std::env::temp_dir().join(format!("next-{}", std::process::id()));
        let script = format!("echo; sleep 300; touch {}", marker.display());
        let (mut child, _) = start(&registry, user("a"), &script);
        let _ = registry.blocking_terminate(&owner("a"), LONG).unwrap();
        let _ = child.wait();
        assert!(!marker.exists());
    }
}

#[test]
fn a_later_process_of_the_same_number_gets_no_signal() {
    let shared = Shared::new("reused");
    let (mut child, _) = start(&shared.registry, user("a"), "echo; sleep 300");
    let real = shared.registry.get(child.lease()).unwrap().process.unwrap().start_time().unwrap();
    shared.forge(child.lease(), "$.process.startTime", &(real - 1).to_string());
    let ended = shared.registry.blocking_terminate(&owner("a"), Duration::ZERO).unwrap();
    assert_eq!((outcomes(&ended), runs(child.pid())), (vec![Outcome::AlreadyGone], true));

    shared.forge(child.lease(), "$.process.startTime", &real.to_string());
    let _ = shared.registry.blocking_terminate(&owner("a"), Duration::ZERO).unwrap();
    let _ = child.wait();
}

#[test]
fn a_process_that_nothing_proves_gets_no_signal() {
    let shared = Shared::new("unproved");
    // A process that carries no lease, recorded as if it were one's.
    let mut stranger = Command::new("sleep").arg("300").process_group(0).spawn().unwrap();
    let (mut child, _) = start(&shared.registry, user("a"), "echo; sleep 300");
    let (lease, real) = (child.lease(), shared.registry.get(child.lease()).unwrap().process.unwrap());
    shared.forge(lease, "$.process.pid", &stranger.id().to_string());
    let cases = [
        ("$.process.startTime", "null", NoProof::NotRecorded),
        ("$.process.namespaces", r#""pid:[1] time:[1]""#, NoProof::OtherNamespace),
    ];
    for (path, json, no_proof) in cases {
        shared.forge(lease, path, json);
        let ended = shared.registry.blocking_terminate(&owner("a"), Duration::ZERO).unwrap();
        assert_eq!((outcomes(&ended), runs(stranger.id())), (vec![Outcome::NoProof(no_proof)], true), "{path}");
        assert!(matches!(shared.registry.release(lease), Err(LeaseError::Running { .. })));
    }
    shared.forge(lease, "$.process", &serde_json::to_string(&real).unwrap());
    let _ = shared.registry.blocking_terminate(&owner("a"), Duration::ZERO).unwrap();
    let _ = (child.wait(), stranger.kill(), stranger.wait());
}

#[test]
fn a_process_whose_start_was_not_seen_is_proved_by_the_lease_in_its_environment() {
    let shared = Shared::new("environment");
    let (mut child, _) = start(&shared.registry, user("a"), "echo; sleep 300");
    shared.forge(child.lease(), "$.process.startTime", "null");
    let ended = shared.registry.blocking_terminate(&owner("a"), LONG).unwrap();
    assert_eq!((outcomes(&ended), child.wait()), (vec![Outcome::Ended { killed: false }], Exit::Signal(15)));
}

#[test]
fn the_calling_process_is_not_ended() {
    let shared = Shared::new("own");
    let (mut child, _) = start(&shared.registry, user("a"), "echo; sleep 300");
    let record = shared.registry.get(child.lease()).unwrap();
    shared.forge(child.lease(), "$.process", &serde_json::to_string(&record.holder).unwrap());
    let ended = shared.registry.blocking_terminate(&owner("a"), Duration::ZERO).unwrap();
    assert_eq!(outcomes(&ended), [Outcome::NoProof(NoProof::Own)]);
    shared.forge(child.lease(), "$.process", &serde_json::to_string(&record.process).unwrap());
    let _ = shared.registry.blocking_terminate(&owner("a"), Duration::ZERO).unwrap();
    let _ = child.wait();
}

#[test]
fn a_lease_that_is_terminated_before_its_spawn_has_no_child() {
    let registry = Registry::in_memory();
    let lease = registry.register(user("a")).unwrap();
    let ended = registry.blocking_terminate(&owner("a"), LONG).unwrap();
    assert_eq!(outcomes(&ended), [Outcome::NeverStarted]);
    let refused = lease.blocking_spawn(&mut Command::new("no-such-program"));
    assert!(matches!(refused, Err(LeaseError::State { state: LeaseState::Released, .. })), "{refused:?}");
}

#[test]
fn an_orphan_is_ended_from_another_process_and_its_end_recorded() {
    let shared = Shared::new("orphan-end");
    let mut holder = shared.role("spawn", "R");
    let line = holder.line();
    let (lease, pid) = line.split_once(' ').unwrap();
    holder.kill();
    let lease = lease.parse().unwrap();
    let ended = shared.registry.blocking_terminate(&Target::Lease(lease), LONG).unwrap();
    assert_eq!((outcomes(&ended), runs(pid.parse().unwrap())), (vec![Outcome::Ended { killed: false }], false));
    let lease = shared.registry.get(lease).unwrap();
    assert_eq!((lease.state(), lease.exit), (LeaseState::Exited, Some(Exit::Unknown)));
}

#[test]
fn a_lease_that_is_not_there_is_an_error() {
    let registry = Registry::in_memory();
    let lease = registry.register(Ordered::current()).unwrap();
    let target = Target::Lease(lease.id());
    assert!(matches!(Registry::in_memory().blocking_terminate(&target, LONG), Err(LeaseError::NotFound { .. })));
}

#[test]
fn a_child_of_a_child_is_another_leases() {
    let registry = Registry::in_memory();
    let (mut outer, _) = start(&registry, user("a"), "echo; sleep 300");
    let mut inner = spawn_with(&registry.register(user("b")).unwrap().id().to_string());
    let _ = registry.blocking_terminate(&owner("a"), LONG).unwrap();
    let _ = outer.wait();
    assert!(runs(inner.id()));
    let _ = (inner.kill(), inner.wait());
}

#[tokio::test]
async fn terminate_does_not_block_the_runtime_and_the_wait_sees_the_record() {
    let registry = Registry::in_memory();
    let mut command = tokio::process::Command::new("sh");
    let script = "trap '' TERM; echo; while :; do sleep 0.01; done";
    let mut child = registry.register(user("a")).unwrap().spawn(command.args(["-c", script])).unwrap();
    let mut ticks = 0;
    let ended = tokio::select! {
        ended = registry.terminate(owner("a"), Duration::from_millis(100)) => ended.unwrap(),
        () = async { loop { tokio::time::sleep(Duration::from_millis(1)).await; ticks += 1; } } => unreachable!(),
    };
    assert!(matches!(outcomes(&ended)[..], [Outcome::Ended { .. }]) && ticks > 0);
    let _ = child.wait().await;
    assert_eq!(registry.get(child.lease()).unwrap().state(), LeaseState::Exited);
}
