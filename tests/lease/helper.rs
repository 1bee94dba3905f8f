//! Other processes that use a registry: this test program, run again to play a role.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hermes_env_bridge::lease::{Exit, Filter, LeaseId, Ordered, Registry, inherited_lineage};
use rusqlite::Connection;

const ROLE: &str = "LEASE_TEST_ROLE";

/// Lines of a role begin with this; the others are the test harness's.
const MARK: &str = "> ";

/// Not a test but the roles: does nothing unless a test runs it as one.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let say = |line: &str| println!("\n{MARK}{line}");
    let mut words = role.split(' ');
    let (name, file) = (words.next().unwrap(), words.next().unwrap());
    let registry = Registry::open(file).unwrap();
    match name {
        // Holds a name until it is killed, or ends where its standard input does.
        "hold" => match registry.acquire(words.next().unwrap(), Ordered::current()) {
            Ok(acquired) => {
                let previous = acquired.previous.as_ref();
                say(&format!("acquired {} {}", acquired.lease.id(), previous.map_or(0, |lease| lease.holder.pid())));
                wait_for_end();
                say("ends");
                // As a crash, which leaves the lease as it is.
                std::process::exit(0);
            }
            Err(error) => say(&format!("refused {error}")),
        },
        // Dies between acquire and spawn.
        "dies-before-spawn" => {
            let lease = registry.register(Ordered::current().owner("user", "u7")).unwrap();
            say(&lease.id().to_string());
            std::process::exit(0);
        }
        // Dies between the spawn of a child and its record.
        "dies-before-record" => {
            let lease = registry.register(Ordered::current().owner("user", "u7")).unwrap();
            let child = spawn_with(&lease.id().to_string());
            say(&format!("{} {}", lease.id(), child.id()));
            std::process::exit(0);
        }
        // Starts `sleep` for a run, and is killed.
        "spawn" => {
            let ordered = Ordered::current().run(words.next().unwrap()).owner("user", "u7");
            let child = registry.register(ordered).unwrap().blocking_spawn(Command::new("sleep").arg("300")).unwrap();
            say(&format!("{} {}", child.lease(), child.pid()));
            wait_for_end();
        }
        // A program that is somebody's child, and starts a run of its own for the same owner.
        "own-run" => {
            let lineage = inherited_lineage();
            let owner = lineage.owner_id.clone().unwrap_or_default();
            let lease = registry.register(Ordered::current().run("R1").owner("user", owner)).unwrap();
            say_environment(&say, lease);
        }
        // A program that is somebody's child, and starts something outside any run.
        "no-run" => say_environment(&say, registry.register(Ordered::current()).unwrap()),
        _ => panic!("no role {name}"),
    }
}

fn say_environment(say: &dyn Fn(&str), lease: hermes_env_bridge::lease::Lease) {
    let mut command = Command::new("env");
    let mut child = lease.blocking_spawn(command.stdout(Stdio::piped())).unwrap();
    let output = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(child.wait(), Exit::Code(0));
    say(&child.lease().to_string());
    output.lines().filter(|line| line.starts_with("OMNIUS_")).for_each(say);
}

fn wait_for_end() {
    let _ = std::io::stdin().lines().count();
}

/// A `sleep` in a group of its own that finds `lease` in its environment, started as if by a crashed holder.
pub fn spawn_with(lease: &str) -> Child {
    use std::os::unix::process::CommandExt;
    Command::new("sleep").arg("300").env("OMNIUS_PROCESS_LEASE_ID", lease).process_group(0).spawn().unwrap()
}

/// A process that plays a role; killed when it is dropped.
pub struct Role {
    pub child: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Role {
    pub fn start(registry: &Path, role: &str, argument: &str, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper::role", "--nocapture", "--test-threads=1"])
            .env(ROLE, format!("{role} {} {argument}", registry.display()))
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines = lines.map_while(Result::ok).filter_map(|line| line.strip_prefix(MARK).map(str::to_owned));
        Self { child, lines: Box::new(lines) }
    }

    pub fn line(&mut self) -> String {
        self.lines.next().expect("the role said nothing")
    }

    pub fn rest(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        self.lines.by_ref().collect()
    }

    /// Kills it as `kill -9` does, and waits for it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        let _ = self.child.wait().unwrap();
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A registry in a file of its own, with `sleep`s that must not outlive the test.
pub struct Shared {
    folder: PathBuf,
    pub registry: Registry,
}

impl Shared {
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("leases-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let registry = Registry::open(folder.join("leases.db")).unwrap();
        Self { folder, registry }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("leases.db")
    }

    pub fn role(&self, role: &str, argument: &str) -> Role {
        Role::start(&self.path(), role, argument, &[])
    }

    /// Replaces what `json_path` is in the record of `lease`.
    pub fn forge(&self, lease: LeaseId, json_path: &str, json: &str) {
        let sql = "UPDATE lease SET record = json_set(record, ?1, json(?2)) WHERE id = ?3";
        let row = [json_path, json, &lease.to_string()];
        assert_eq!(Connection::open(self.path()).unwrap().execute(sql, row).unwrap(), 1);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What a failed test left running: ended by the proof that the registry itself asks for.
        for lease in self.registry.leases(&Filter::new()).unwrap_or_default() {
            let target = hermes_env_bridge::lease::Target::Lease(lease.id);
            let _ = self.registry.blocking_terminate(&target, Duration::ZERO);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Whether a process runs: it is there and no zombie.
pub fn runs(pid: u32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

/// The state letter of a process, `None` if it is not there.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Waits until `holds`, which it must be at last.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
