//! The registry: its states, its queries, its stores.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use hermes_env_bridge::lease::{Exit, Filter, Identity, LeaseError, LeaseId, LeaseState, Ordered, Registry};
use rusqlite::Connection;

use crate::helper::{Role, Shared, eventually};

#[test]
fn a_lease_goes_from_pending_over_running_and_exited_to_released() {
    let registry = Registry::in_memory();
    let lease = registry.register(Ordered::current()).unwrap();
    let id = lease.id();
    assert_eq!(registry.get(id).unwrap().state(), LeaseState::Pending);
    let mut child = lease.blocking_spawn(Command::new("cat").stdin(std::process::Stdio::piped())).unwrap();
    let running = registry.get(id).unwrap();
    assert_eq!((running.state(), &running.command[..]), (LeaseState::Running, &["cat".to_owned()][..]));
    assert_eq!(running.process.as_ref().map(Identity::pid), i32::try_from(child.pid()).ok());
    assert!(matches!(registry.release(id), Err(LeaseError::Running { .. })));
    assert_eq!(child.wait(), Exit::Code(0));
    let exited = registry.get(id).unwrap();
    assert_eq!((exited.state(), exited.exit), (LeaseState::Exited, Some(Exit::Code(0))));
    registry.release(id).unwrap();
    let released = registry.get(id).unwrap();
    assert_eq!(released.state(), LeaseState::Released);
    let times = [Some(released.created_at), released.started_at, released.exited_at, released.released_at];
    assert!(times.iter().all(Option::is_some) && times.is_sorted(), "{times:?}");
    assert_eq!(released.delivered_at, None);
}

#[test]
fn a_child_that_cannot_be_started_releases_its_lease() {
    let registry = Registry::in_memory();
    let lease = registry.register(Ordered::current()).unwrap();
    let id = lease.id();
    let refused = lease.blocking_spawn(Command::new("/no/such/program").arg("secret"));
    assert!(matches!(&refused, Err(LeaseError::Spawn { id: failed, .. }) if *failed == id));
    let record = registry.get(id).unwrap();
    assert_eq!((record.state(), record.started_at), (LeaseState::Released, None));
    assert!(!format!("{record:?} {refused:?}").contains("secret"));
}

/// L10.
#[test]
fn renewal_is_no_activity_and_activity_no_renewal() {
    let registry = Registry::in_memory();
    let lease = registry.register(Ordered::current()).unwrap();
    let id = lease.id();
    let first = registry.get(id).unwrap();
    eventually("a renewal at a later time", || {
        registry.renew(id).unwrap();
        registry.get(id).unwrap().renewed_at > first.renewed_at
    });
    let renewed = registry.get(id).unwrap();
    assert_eq!(renewed.active_at, first.active_at);
    eventually("activity at a later time", || {
        registry.record_activity(id).unwrap();
        registry.get(id).unwrap().active_at > first.active_at
    });
    assert_eq!(registry.get(id).unwrap().renewed_at, renewed.renewed_at);
    registry.release(id).unwrap();
    assert!(matches!(registry.renew(id), Err(LeaseError::State { verb: "renew", .. })));
    assert!(matches!(registry.record_activity(id), Err(LeaseError::State { .. })));
}

#[test]
fn fields_that_no_child_could_be_told_are_named() {
    let registry = Registry::in_memory();
    let cases = [
        (Ordered::current().run(""), "runId"),
        (Ordered::current().run("a\0b"), "runId"),
        (Ordered::current().owner("", "x"), "ownerKind"),
        (Ordered::current().owner("user", "\0"), "ownerId"),
        (Ordered::current().project_root(""), "projectRoot"),
    ];
    for (ordered, name) in cases {
        let refused = registry.register(ordered).unwrap_err();
        assert!(matches!(refused, LeaseError::Field { field, .. } if field == name), "{refused}");
    }
    assert!(matches!(registry.acquire("", Ordered::current()), Err(LeaseError::Field { field: "name", .. })));
    assert!(registry.leases(&Filter::new()).unwrap().is_empty());
    assert!(matches!("x".parse::<LeaseId>(), Err(LeaseError::NotAnId)));
}

/// Each registry finds what its rule says, whatever its index does.
#[test]
fn queries_find_the_same_in_memory_and_in_a_file() {
    let shared = Shared::new("queries");
    let found = [Registry::in_memory(), shared.registry.clone()].map(|registry| {
        let mut order = Vec::new();
        let orders = [
            Ordered::current(),
            Ordered::current().run("r1").owner("user", "u").project_root("/a"),
            Ordered::current().run("r1").owner("job", "u").project_root("/b"),
            Ordered::current().run("r2").owner("user", "v").project_root("/a"),
            Ordered { owner_id: Some("u".into()), ..Ordered::default() },
        ];
        let mut held = Vec::new();
        for ordered in &orders {
            for ends in [false, true] {
                let lease = registry.register(ordered.clone()).unwrap();
                order.push(lease.id());
                if ends {
                    let _ = lease.blocking_spawn(&mut Command::new("true")).unwrap().wait();
                } else {
                    held.push(lease);
                }
            }
        }
        let acquired = registry.acquire("name", orders[1].clone()).unwrap();
        order.push(acquired.lease.id());
        let filters = [
            Filter::new(),
            Filter::new().run("r1"),
            Filter::new().owner("user", "u"),
            Filter::new().owner("job", "u"),
            Filter::new().owner("job", "v"),
            Filter::new().project_root("/a"),
            Filter::new().project_root("/a").run("r1"),
            Filter::new().name("name"),
            Filter::new().states([LeaseState::Pending]),
            Filter::new().states([LeaseState::Exited, LeaseState::Released]).run("r2"),
            Filter::new().states([]),
            Filter::new().undelivered().owner("user", "u"),
            Filter::new().run("' OR true --"),
        ];
        filters.map(|filter| {
            let found = registry.leases(&filter).unwrap();
            found.iter().map(|lease| order.iter().position(|id| *id == lease.id).unwrap()).collect::<Vec<_>>()
        })
    });
    assert_eq!(found[0], found[1]);
    let expected: [&[usize]; 13] = [
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        &[2, 3, 4, 5, 10],
        &[2, 3, 10],
        &[4, 5],
        &[],
        &[2, 3, 6, 7, 10],
        &[2, 3, 10],
        &[10],
        &[0, 2, 4, 6, 8, 10],
        &[7],
        &[],
        &[3],
        &[],
    ];
    assert_eq!(found[1].iter().map(Vec::as_slice).collect::<Vec<_>>(), expected);
}

#[test]
fn a_file_is_one_registry_within_a_process_and_its_owners_alone() {
    let shared = Shared::new("file");
    let link = shared.path().with_file_name("link.db");
    std::os::unix::fs::symlink(shared.path(), &link).unwrap();
    let lease = shared.registry.register(Ordered::current().owner("user", "u")).unwrap();
    assert_eq!(Registry::open(&link).unwrap().get(lease.id()).unwrap(), shared.registry.get(lease.id()).unwrap());
    for suffix in ["", "-wal", "-shm"] {
        let path = format!("{}{suffix}", shared.path().display());
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{suffix}");
    }
}

#[test]
fn a_file_that_is_no_registry_is_left_alone() {
    let shared = Shared::new("no-registry");
    let path = |name: &str| shared.path().with_file_name(name);
    fs::write(
        path("text"),
        "some text that is certainly longer than a database's header, which is 100 bytes long, and so on",
    )
    .unwrap();
    Connection::open(path("other")).unwrap().execute_batch("CREATE TABLE t (a); PRAGMA user_version = 1").unwrap();
    drop(Registry::open(path("newer")).unwrap());
    Connection::open(path("newer")).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
    for (name, says) in [("text", "no SQLite"), ("other", "another program's"), ("newer", "version 2")] {
        let before = fs::read(path(name)).unwrap();
        let refused = Registry::open(path(name)).unwrap_err();
        assert!(matches!(refused, LeaseError::NotARegistry { .. }) && refused.to_string().contains(says), "{refused}");
        assert!(fs::read(path(name)).unwrap() == before, "{name} was changed");
    }
    assert!(matches!(Registry::open("/no/such/folder/leases.db"), Err(LeaseError::Store { verb: "open", .. })));
}

#[test]
fn many_processes_open_a_new_file_at_once() {
    let shared = Shared::new("at-once");
    let path = shared.path().with_file_name("new.db");
    let mut roles: Vec<_> = (0..12).map(|_| Role::start(&path, "dies-before-spawn", "", &[])).collect();
    let mut leases: Vec<LeaseId> = roles.iter_mut().map(|role| role.line().parse().unwrap()).collect();
    leases.sort();
    let registry = Registry::open(&path).unwrap();
    let found: Vec<_> = registry.leases(&Filter::new()).unwrap().into_iter().map(|lease| lease.id).collect();
    assert_eq!(found, leases);
}

#[test]
fn a_record_is_plain_json_in_camel_case() {
    let registry = Registry::in_memory();
    let lease = registry.register(Ordered::current().run("r").owner("user", "u").project_root("/a")).unwrap();
    let record = registry.get(lease.id()).unwrap();
    let json = serde_json::to_value(&record).unwrap();
    assert_eq!((&json["runId"], &json["ownerKind"], &json["projectRoot"]), (&"r".into(), &"user".into(), &"/a".into()));
    assert_eq!(json["holder"]["pid"], std::process::id());
    assert_eq!(serde_json::from_value::<hermes_env_bridge::lease::LeaseRecord>(json).unwrap(), record);
}
