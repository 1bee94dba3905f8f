//! Three hundred real children under twenty owners, and a parent that is killed half-way.
//!
//! The test's process is a subreaper: whatever its descendants leave behind comes to it, so that it can tell what is
//! left, down to the last zombie.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hermes_env_bridge::lease::{
    Filter, LeaseError, LeaseId, LeaseRecord, LeaseState, Ordered, Outcome, Registry, Target,
};
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};

const OWNERS: usize = 20;
const CHILDREN: usize = 300;
const WORKERS: usize = 4;

/// As many more, since some are terminated before they are started.
const SPARE: usize = 30;
const ROLE: &str = "LEASE_CRASH_ROLE";
const MARK: &str = "> ";

/// Short, since a shell forgets a request that comes between its fork and the command's start, trap or not.
const GRACE: Duration = Duration::from_secs(3);

/// A child says in the ledger that it runs, and that it was asked to end; its own child is of its group.
const SCRIPT: &str = r#"
    trap 'echo TERM >> "$LEDGER/$OMNIUS_PROCESS_LEASE_ID"; exit' TERM
    echo $$ >> "$LEDGER/$OMNIUS_PROCESS_LEASE_ID"
    sleep 300 & wait
"#;

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}

fn owner(number: usize) -> Target {
    Target::Owner { kind: Some("user".to_owned()), id: format!("u{number}") }
}

/// Not a test but the parent of children: does nothing unless the test runs it as one.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let [folder, seed, children] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let (folder, seed, children) =
        (PathBuf::from(folder), seed.parse::<u64>().unwrap(), children.parse::<usize>().unwrap());
    let registry = Registry::open(folder.join("leases.db")).unwrap();
    let recovery = registry.recover().unwrap();
    say(&format!("recovered {} {}", recovery.orphans.len(), recovery.never_started.len()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let workers = (0..WORKERS).map(|worker| {
            let random = Random(seed.wrapping_mul(31).wrapping_add(u64::try_from(worker).unwrap() + 1));
            tokio::spawn(work(registry.clone(), folder.clone(), random, children.div_ceil(WORKERS)))
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await.unwrap();
        }
        // All that is left, so that this process ends with no child.
        for number in 0..OWNERS / 2 {
            terminate(&registry, owner(number)).await;
        }
        say(&format!("zombies {}", zombies_of(std::process::id())));
    });
    say("done");
}

async fn work(registry: Registry, folder: PathBuf, mut random: Random, children: usize) {
    let mut mine = Vec::new();
    for _ in 0..children {
        let number = random.below(OWNERS);
        let run = format!("run-{number}-{}", random.below(3));
        let ordered = Ordered::current().run(run).owner("user", format!("u{number}"));
        let lease = registry.register(ordered).unwrap();
        let id = lease.id();
        let mut command = tokio::process::Command::new("sh");
        let command = command
            .args(["-c", SCRIPT])
            .env("LEDGER", folder.join("ledger"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        match lease.spawn(command) {
            Ok(child) => {
                say(&format!("spawned {id}"));
                mine.push(child);
            }
            // Somebody terminated its owner or run meanwhile.
            Err(LeaseError::State { state: LeaseState::Released, .. }) => say(&format!("spawned {id} not")),
            Err(error) => panic!("{error}"),
        }
        match random.below(30) {
            0 => terminate(&registry, owner(number)).await,
            1 => terminate(&registry, Target::Run(format!("run-{number}-{}", random.below(3)))).await,
            2 | 3 if !mine.is_empty() => {
                let mut child = mine.swap_remove(random.below(mine.len()));
                terminate(&registry, Target::Lease(child.lease())).await;
                let _ = child.wait().await;
            }
            _ => {}
        }
    }
}

async fn terminate(registry: &Registry, target: Target) {
    say(&match &target {
        Target::Lease(id) => format!("target {id}"),
        Target::Run(id) | Target::Owner { id, .. } => format!("target {id}"),
    });
    for terminated in registry.terminate(target, GRACE).await.unwrap() {
        let fine = matches!(terminated.outcome, Outcome::Ended { .. } | Outcome::AlreadyGone | Outcome::NeverStarted);
        assert!(fine, "{terminated:?}");
    }
}

fn say(line: &str) {
    println!("\n{MARK}{line}");
}

/// What the parent said, until it ended or was told to be killed.
struct Parent {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    said: Vec<String>,
}

impl Parent {
    fn start(folder: &Path, seed: u64, children: usize) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "role", "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{} {seed} {children}", folder.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, said: Vec::new() }
    }

    /// Reads on until `enough` lines of `kind` were said, if there are so many.
    fn read(&mut self, kind: &str, enough: usize) {
        let mut left = enough;
        for line in self.lines.by_ref() {
            let Some(line) = line.unwrap().strip_prefix(MARK).map(str::to_owned) else {
                continue;
            };
            left -= usize::from(line.starts_with(kind));
            self.said.push(line);
            if left == 0 {
                return;
            }
        }
    }

    fn targets(&self) -> BTreeSet<String> {
        self.said.iter().filter_map(|line| line.strip_prefix("target ")).map(str::to_owned).collect()
    }
}

/// What the children themselves have written: the process number of each, and whether it was asked to end.
fn ledger(folder: &Path) -> BTreeMap<LeaseId, (i32, bool)> {
    let entries = fs::read_dir(folder.join("ledger")).unwrap();
    let entries = entries.map(|entry| {
        let path = entry.unwrap().path();
        let lines = fs::read_to_string(&path).unwrap();
        let pid = lines.lines().next().and_then(|line| line.parse().ok()).unwrap_or(0);
        (path.file_name().unwrap().to_str().unwrap().parse().unwrap(), (pid, lines.contains("TERM")))
    });
    entries.collect()
}

fn runs(lease: &LeaseRecord) -> bool {
    lease.process.as_ref().is_some_and(|process| !process.liveness().is_dead())
}

fn is_target(lease: &LeaseRecord, targets: &BTreeSet<String>) -> bool {
    let names = [lease.ordered.owner_id.clone(), lease.ordered.run_id.clone(), Some(lease.id.to_string())];
    names.into_iter().flatten().any(|name| targets.contains(&name))
}

/// Nothing was asked to end, or has ended, but what was a target. Returns how many run on.
fn check_that_others_run(registry: &Registry, folder: &Path, targets: &BTreeSet<String>) -> usize {
    let ledger = ledger(folder);
    let leases = registry.leases(&Filter::new().states([LeaseState::Running, LeaseState::Exited])).unwrap();
    let others: Vec<_> = leases.iter().filter(|lease| !is_target(lease, targets)).collect();
    for lease in &others {
        assert!(runs(lease), "ended, and was no target: {lease:?}");
        assert!(!ledger.get(&lease.id).is_some_and(|(_, asked)| *asked), "asked to end, and was no target: {lease:?}");
    }
    others.len()
}

fn zombies_of(parent: u32) -> usize {
    let mut zombies = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').take(2).collect();
        zombies += usize::from(fields == ["Z", &parent.to_string()]);
    }
    zombies
}

#[test]
fn of_three_hundred_children_whose_parent_is_killed_none_is_lost_and_none_of_another_owner_is_signalled() {
    set_child_subreaper(Some(getpid())).unwrap();
    let started = Instant::now();
    let seed = std::env::var("SEED").map_or(20_261_129, |seed| seed.parse().unwrap());
    let mut random = Random(seed);
    let folder = std::env::temp_dir().join(format!("lease-crash-{}", std::process::id()));
    fs::create_dir_all(folder.join("ledger")).unwrap();
    let registry = Registry::open(folder.join("leases.db")).unwrap();

    // The first parent is killed while its workers spawn and terminate.
    let mut first = Parent::start(&folder, seed, CHILDREN);
    first.read("spawned", CHILDREN / 2 + random.below(20));
    first.child.kill().unwrap();
    first.read("", usize::MAX);
    let _ = first.child.wait().unwrap();
    let mut targets = first.targets();
    let before = registry.leases(&Filter::new()).unwrap();
    let orphans = check_that_others_run(&registry, &folder, &targets);
    assert!(orphans > 50, "too few to show anything: {orphans}");

    // A fresh one takes over, and works on. It ends half of the owners, orphans included.
    let mut second = Parent::start(&folder, seed + 1, CHILDREN + SPARE - before.len());
    second.read("", usize::MAX);
    assert!(second.child.wait().unwrap().success());
    assert_eq!(second.said[second.said.len() - 2..], ["zombies 0", "done"]);
    targets.extend(second.targets());
    let left = check_that_others_run(&registry, &folder, &targets);
    assert!(left > 20, "too few to show anything: {left}");

    // A third one, this process, ends the rest, owner by owner.
    let recovery = registry.recover().unwrap();
    let mut owners: Vec<_> = (0..OWNERS).collect();
    while !owners.is_empty() {
        let number = owners.swap_remove(random.below(owners.len()));
        let ended = registry.blocking_terminate(&owner(number), GRACE).unwrap();
        assert!(
            ended.iter().all(|ended| matches!(ended.outcome, Outcome::Ended { .. } | Outcome::NeverStarted)),
            "{ended:?}"
        );
        let _ = targets.insert(format!("u{number}"));
        let owned = registry.leases(&Filter::new().owner("user", format!("u{number}"))).unwrap();
        assert!(!owned.iter().any(runs));
        let _ = check_that_others_run(&registry, &folder, &targets);
    }

    // No zombie is left, once the adopted ones are waited for: nothing of ours runs, and nothing else was left behind.
    let mut adopted = 0;
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {
        adopted += 1;
    }
    assert!(wait(WaitOptions::NOHANG).is_err(), "a child is left");

    // No lease is lost: what ran by its own word is recorded, and ended; what is recorded as started has run.
    let leases = registry.leases(&Filter::new()).unwrap();
    let ran = ledger(&folder);
    let recorded: BTreeMap<_, _> = leases.iter().map(|lease| (lease.id, lease)).collect();
    for (id, (pid, _)) in &ran {
        match &recorded[id].process {
            Some(process) => assert!(*pid == 0 || process.pid() == *pid, "{id} ran as {pid}: {process:?}"),
            // Terminated between its start and its record, and killed by its parent therefore.
            None => assert_eq!(recorded[id].state(), LeaseState::Released),
        }
    }
    let is_over = |lease: &LeaseRecord| lease.exit.is_some() || lease.state() == LeaseState::Released;
    assert!(leases.iter().all(is_over), "{leases:?}");

    // And each completion is delivered, once, to the run of its lease.
    let ended: BTreeSet<_> = leases.iter().filter(|lease| lease.exit.is_some()).map(|lease| lease.id).collect();
    assert!(ended.len() >= CHILDREN, "{}", ended.len());
    let mut delivered = BTreeSet::new();
    for run in leases.iter().filter_map(|lease| lease.ordered.run_id.clone()).collect::<BTreeSet<_>>() {
        let mut completions = registry.completions(run.clone());
        while let Some(lease) = completions.try_next().unwrap() {
            assert_eq!(lease.ordered.run_id.as_ref(), Some(&run));
            assert!(delivered.insert(lease.id), "delivered twice: {lease:?}");
        }
    }
    assert_eq!(delivered, ended);
    assert_eq!(registry.undelivered().unwrap(), []);
    println!(
        "{} leases, {} started, {} by the killed parent, {} orphans found by the next, {orphans} + {left} others left \
         alone, {} orphans ended last, {adopted} adopted, {:?}",
        leases.len(),
        ended.len(),
        before.len(),
        second.said[0],
        recovery.orphans.len(),
        started.elapsed(),
    );
    drop(registry);
    fs::remove_dir_all(folder).unwrap();
}
