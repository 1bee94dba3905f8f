//! Who holds a lease, and what becomes of it when the holder dies.

use std::time::Duration;

use hermes_env_bridge::lease::{Exit, Filter, LeaseError, LeaseState, Liveness, Ordered, Outcome, Registry, Target};

use crate::helper::{Role, Shared, eventually, runs, state};

/// L04.
#[test]
fn a_killed_holder_gives_its_name_over_and_is_reported() {
    let shared = Shared::new("killed-holder");
    let mut first = shared.role("hold", "session");
    assert!(first.line().starts_with("acquired"));
    first.kill();

    let mut second = shared.role("hold", "session");
    let line = second.line();
    assert!(line.starts_with("acquired") && line.ends_with(&format!(" {}", first.child.id())), "{line}");
}

/// L04.
#[test]
fn a_living_holder_is_never_robbed() {
    let shared = Shared::new("living-holder");
    let mut holder = shared.role("hold", "session");
    assert!(holder.line().starts_with("acquired"));

    let mut other = shared.role("hold", "session");
    let line = other.line();
    assert!(line.starts_with("refused") && line.contains(&format!("process {}", holder.child.id())), "{line}");
    let Err(LeaseError::Held { holder: lease }) = shared.registry.acquire("session", Ordered::current()) else {
        panic!("robbed");
    };
    assert_eq!(u32::try_from(lease.holder.pid()), Ok(holder.child.id()));
    assert_eq!(lease.holder.liveness(), Liveness::Alive);
}

/// L03.
#[test]
fn a_holder_that_is_a_zombie_is_dead() {
    let shared = Shared::new("zombie-holder");
    let mut holder = shared.role("hold", "session");
    assert!(holder.line().starts_with("acquired"));
    drop(holder.child.stdin.take());
    eventually("a zombie", || state(holder.child.id()) == Some('Z'));

    let acquired = shared.registry.acquire("session", Ordered::current()).unwrap();
    assert_eq!(acquired.previous.map(|lease| lease.holder.pid()), i32::try_from(holder.child.id()).ok());
}

/// L02.
#[test]
fn a_holder_that_cannot_be_judged_keeps_its_name() {
    let shared = Shared::new("unjudged-holder");
    let acquired = shared.registry.acquire("session", Ordered::current()).unwrap();
    let lease = acquired.lease.id();
    let cases = [("$.holder.pid", "0"), ("$.holder.pid", "-1"), ("$.holder.startTime", "null")];
    for (path, json) in cases {
        shared.forge(lease, path, json);
        let refused = shared.registry.acquire("session", Ordered::current());
        assert!(matches!(refused, Err(LeaseError::Held { .. })), "{path} = {json}");
    }
    shared.forge(lease, "$.holder.namespaces", r#""pid:[1] time:[1]""#);
    assert!(matches!(shared.registry.acquire("session", Ordered::current()), Err(LeaseError::Held { .. })));
    shared.registry.disown(lease).unwrap();
    assert!(shared.registry.acquire("session", Ordered::current()).is_ok());
}

#[test]
fn a_holder_of_an_earlier_boot_or_whose_number_another_process_has_is_dead() {
    for (path, json) in [("$.holder.bootId", r#""an earlier one""#), ("$.holder.startTime", "1")] {
        let shared = Shared::new(&format!("earlier{}", path.len()));
        let acquired = shared.registry.acquire("session", Ordered::current()).unwrap();
        shared.forge(acquired.lease.id(), path, json);
        let next = shared.registry.acquire("session", Ordered::current()).unwrap();
        assert_eq!(next.previous.map(|lease| lease.id), Some(acquired.lease.id()));
    }
}

/// L05.
#[test]
fn a_lease_whose_holder_died_before_the_spawn_never_started_and_can_be_reclaimed() {
    let shared = Shared::new("never-started");
    let mut holder = shared.role("dies-before-spawn", "");
    let lease = holder.line().parse().unwrap();
    let _ = holder.child.wait().unwrap();

    let recovery = shared.registry.recover().unwrap();
    assert_eq!(recovery.never_started.iter().map(|lease| lease.id).collect::<Vec<_>>(), [lease]);
    assert_eq!(recovery.never_started[0].state(), LeaseState::Pending);
    shared.registry.release(lease).unwrap();
    assert_eq!(shared.registry.get(lease).unwrap().state(), LeaseState::Released);
    assert_eq!(shared.registry.recover().unwrap().never_started, []);
}

/// L05.
#[test]
fn a_child_whose_holder_died_before_it_was_recorded_is_found() {
    let shared = Shared::new("before-record");
    let mut holder = shared.role("dies-before-record", "");
    let line = holder.line();
    let (lease, pid) = line.split_once(' ').unwrap();
    let _ = holder.child.wait().unwrap();

    let recovery = shared.registry.recover().unwrap();
    assert_eq!(recovery.never_started, []);
    let [orphan] = &recovery.orphans[..] else { panic!("{recovery:?}") };
    assert_eq!((orphan.id.to_string().as_str(), orphan.state()), (lease, LeaseState::Running));
    assert_eq!(orphan.process.as_ref().map(|process| process.pid().to_string()).as_deref(), Some(pid));
}

#[test]
fn a_child_that_was_not_recorded_before_its_holder_died_is_ended_with_its_lease() {
    let shared = Shared::new("before-record-end");
    for release in [false, true] {
        let mut holder = shared.role("dies-before-record", "");
        let line = holder.line();
        let (lease, pid) = line.split_once(' ').unwrap();
        let (lease, pid) = (lease.parse().unwrap(), pid.parse().unwrap());
        let _ = holder.child.wait().unwrap();
        if release {
            shared.registry.release(lease).unwrap();
        }
        assert!(runs(pid));
        let ended = shared.registry.blocking_terminate(&Target::Lease(lease), Duration::from_secs(60)).unwrap();
        assert_eq!((ended[0].outcome, runs(pid)), (Outcome::Ended { killed: false }, false));
    }
}

#[test]
fn a_lease_whose_holder_lives_is_not_recovered() {
    let shared = Shared::new("living-pending");
    let lease = shared.registry.register(Ordered::current()).unwrap();
    assert_eq!(shared.registry.recover().unwrap(), hermes_env_bridge::lease::Recovery::default());
    drop(lease);
}

/// L11.
#[test]
fn an_orphan_is_a_child_whose_recorded_parent_is_dead_whoever_has_adopted_it() {
    // Nothing of the harness is process 1: orphans of its roles go to it.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let shared = Shared::new("orphan");
    let mut holder = shared.role("spawn", "R");
    let line = holder.line();
    let (lease, pid) = line.split_once(' ').unwrap();
    let (lease, pid) = (lease.parse().unwrap(), pid.parse().unwrap());
    assert!(!shared.registry.get(lease).unwrap().is_orphan());
    assert_eq!(shared.registry.recover().unwrap().orphans, []);

    holder.kill();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().to_owned();
    assert_eq!(parent, std::process::id().to_string());
    assert!(runs(pid) && shared.registry.get(lease).unwrap().is_orphan());
    assert_eq!(shared.registry.recover().unwrap().orphans.len(), 1);
}

#[test]
fn a_name_is_free_again_once_its_child_has_ended_or_its_lease_is_dropped() {
    let registry = Registry::in_memory();
    let acquired = registry.acquire("job", Ordered::current()).unwrap();
    let mut child =
        acquired.lease.blocking_spawn(std::process::Command::new("cat").stdin(std::process::Stdio::piped()));
    let child = child.as_mut().unwrap();
    assert!(matches!(registry.acquire("job", Ordered::current()), Err(LeaseError::Held { .. })));
    assert_eq!(child.wait(), Exit::Code(0));
    drop(registry.acquire("job", Ordered::current()).unwrap());
    assert!(registry.acquire("job", Ordered::current()).unwrap().previous.is_none());
    assert_eq!(registry.leases(&Filter::new().name("job")).unwrap().len(), 3);
}

#[test]
fn of_many_processes_one_gets_a_name() {
    let shared = Shared::new("many");
    let mut roles: Vec<Role> = (0..8).map(|_| shared.role("hold", "session")).collect();
    let answers: Vec<String> = roles.iter_mut().map(Role::line).collect();
    assert_eq!(answers.iter().filter(|line| line.starts_with("acquired")).count(), 1, "{answers:?}");
}
