//! Leases within runs: the document's tests for them.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use hermes_env_bridge::lease::{Exit, LeaseRecord, LeaseState, Ordered, Registry, Target};
use hermes_env_bridge::{entry, get_omnius_run_context};

/// A call site of a tool: it knows nothing of owners.
fn tool(registry: &Registry) -> (LeaseRecord, BTreeMap<String, String>) {
    let lease = registry.register(Ordered::current()).unwrap();
    let mut child = lease.blocking_spawn(Command::new("env").stdout(Stdio::piped())).unwrap();
    let output = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(child.wait(), Exit::Code(0));
    let variables = output.lines().filter(|line| line.starts_with("OMNIUS_")).filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    (registry.get(child.lease()).unwrap(), variables)
}

/// Required: API run context sets lease owner.
#[tokio::test]
async fn required_an_api_run_sets_the_owner_of_a_lease() {
    let registry = Registry::in_memory();
    let run = entry::api().run_id("r1").owner("user", "u7").project_root("/srv/site");
    let (lease, _) = run.run(async { tool(&registry) }).unwrap().await;
    assert_eq!(lease.ordered, Ordered::default().run("r1").owner("user", "u7").project_root("/srv/site"));
}

/// Required: background task context sets lease owner.
#[tokio::test]
async fn required_a_background_task_sets_the_owner_of_a_lease() {
    let registry = Registry::in_memory();
    let background = registry.clone();
    let run = entry::background().run_id("r2").owner("job", "nightly");
    let task = run.run(async { hermes_env_bridge::spawn(async move { tool(&background) }).await.unwrap() }).unwrap();
    assert_eq!(task.await.0.ordered, Ordered::default().run("r2").owner("job", "nightly"));
    assert_eq!(tool(&registry).0.ordered, Ordered::default());
}

/// Phase 4: shell/background/API spawned children have correct owner fields without duplicate call-site logic.
#[tokio::test]
async fn phase_4_children_have_their_owner_without_the_call_site_saying_so() {
    let registry = Registry::in_memory();
    let entries = [entry::tui(), entry::background(), entry::api(), entry::scheduler()];
    let runs = entries.into_iter().enumerate().map(|(number, entry)| {
        let registry = registry.clone();
        let run =
            entry.run_id(format!("r{number}")).owner("user", format!("u{number}")).project_root(format!("/{number}"));
        hermes_env_bridge::spawn(run.run(async move { (number, tool(&registry)) }).unwrap())
    });
    for run in runs.collect::<Vec<_>>() {
        let (number, (lease, variables)) = run.await.unwrap();
        let expected = [
            ("OMNIUS_OWNER_ID", format!("u{number}")),
            ("OMNIUS_PROCESS_LEASE_ID", lease.id.to_string()),
            ("OMNIUS_PROJECT_ROOT", format!("/{number}")),
            ("OMNIUS_RUN_ID", format!("r{number}")),
        ];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(lease.ordered.owner_kind.as_deref(), Some("user"));
    }
}

/// Phase 4: process lifecycle tests still pass: within a run, a child goes through all states as without one.
#[tokio::test]
async fn phase_4_the_life_cycle_of_a_process_is_as_before() {
    let registry = Registry::in_memory();
    let run = entry::api().run_id("r1").owner("user", "u7");
    let work = async {
        let run = get_omnius_run_context().unwrap().run_id().to_owned();
        let mut completions = registry.completions(run.clone());
        let lease = registry.register(Ordered::current()).unwrap();
        let id = lease.id();
        let state = || registry.get(id).unwrap().state();
        let mut states = vec![state()];
        let mut child = lease.spawn(tokio::process::Command::new("sleep").arg("300")).unwrap();
        states.push(state());
        let _ = registry.terminate(Target::Run(run), std::time::Duration::from_secs(60)).await.unwrap();
        assert_eq!(child.wait().await, Exit::Signal(15));
        states.push(state());
        assert_eq!(completions.next().await.unwrap().id, id);
        states.push(state());
        states
    };
    assert_eq!(run.run(work).unwrap().await, LeaseState::ALL);
}

#[test]
fn what_is_stated_goes_before_what_the_run_says() {
    let ordered = entry::api()
        .run_id("r1")
        .owner("user", "u7")
        .project_root("/srv")
        .run_sync(|| Ordered::current().owner("job", "nightly"));
    assert_eq!(ordered.unwrap(), Ordered::default().run("r1").owner("job", "nightly").project_root("/srv"));
}
