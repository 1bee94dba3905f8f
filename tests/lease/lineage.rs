//! Whose a child is: where it was ordered, and what it is told.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use hermes_env_bridge::lease::{Exit, LeaseId, Ordered, Registry};

use crate::helper::{Role, Shared};

const NAMES: [&str; 4] = ["OMNIUS_OWNER_ID", "OMNIUS_PROCESS_LEASE_ID", "OMNIUS_PROJECT_ROOT", "OMNIUS_RUN_ID"];

/// The four variables as a child of a lease finds them.
fn environment(registry: &Registry, ordered: Ordered) -> (LeaseId, BTreeMap<String, String>) {
    let mut command = Command::new("env");
    let lease = registry.register(ordered).unwrap();
    let mut child = lease.blocking_spawn(command.env("OMNIUS_RUN_ID", "foreign").stdout(Stdio::piped())).unwrap();
    let output = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(child.wait(), Exit::Code(0));
    let variables = output.lines().filter_map(|line| line.split_once('='));
    let variables = variables.filter(|(name, _)| NAMES.contains(name));
    (child.lease(), variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn ordered() -> Ordered {
    Ordered::current().run("R0").owner("user", "u7").project_root("/srv/site")
}

#[test]
fn a_child_is_told_its_lease_and_where_it_was_ordered() {
    let registry = Registry::in_memory();
    let (lease, variables) = environment(&registry, ordered());
    let expected = ["u7", &lease.to_string(), "/srv/site", "R0"];
    assert_eq!(variables, NAMES.iter().map(|name| (*name).to_owned()).zip(expected.map(str::to_owned)).collect());
}

#[test]
fn a_child_inherits_none_of_the_names_that_its_lease_lacks() {
    let (lease, variables) = environment(&Registry::in_memory(), Ordered::current());
    assert_eq!(variables, [("OMNIUS_PROCESS_LEASE_ID".to_owned(), lease.to_string())].into());
}

/// L06.
#[test]
fn a_child_that_starts_its_own_run_has_its_own_ids_and_the_parent_link() {
    let shared = Shared::new("own-run");
    let parent = shared.registry.register(ordered()).unwrap();
    let l1 = parent.id().to_string();
    let inherited = [
        ("OMNIUS_PROCESS_LEASE_ID", l1.as_str()),
        ("OMNIUS_RUN_ID", "R0"),
        ("OMNIUS_OWNER_ID", "u7"),
        ("OMNIUS_PROJECT_ROOT", "/srv/site"),
    ];
    let mut said = Role::start(&shared.path(), "own-run", "", &inherited).rest();
    let l2: LeaseId = said.remove(0).parse().unwrap();
    said.sort();
    assert_eq!(said, ["OMNIUS_OWNER_ID=u7", &format!("OMNIUS_PROCESS_LEASE_ID={l2}"), "OMNIUS_RUN_ID=R1"]);
    let lease = shared.registry.get(l2).unwrap();
    assert_eq!((lease.parent, lease.ordered), (Some(parent.id()), Ordered::current().run("R1").owner("user", "u7")));
}

/// L07.
#[test]
fn an_owner_is_never_taken_from_the_environment_of_the_process() {
    let shared = Shared::new("foreign");
    let foreign = [("OMNIUS_OWNER_ID", "foreign"), ("OMNIUS_RUN_ID", "foreign"), ("OMNIUS_PROJECT_ROOT", "/foreign")];
    let said = Role::start(&shared.path(), "no-run", "", &foreign).rest();
    assert_eq!(said[1..], [format!("OMNIUS_PROCESS_LEASE_ID={}", said[0])]);
    let lease = shared.registry.get(said[0].parse().unwrap()).unwrap();
    assert_eq!((lease.ordered, lease.parent), (Ordered::default(), None));
}

#[test]
fn a_lease_id_that_is_none_is_no_parent() {
    let shared = Shared::new("no-id");
    for id in ["", "1", "not an id"] {
        let said = Role::start(&shared.path(), "no-run", "", &[("OMNIUS_PROCESS_LEASE_ID", id)]).rest();
        assert_eq!(shared.registry.get(said[0].parse().unwrap()).unwrap().parent, None);
    }
}
