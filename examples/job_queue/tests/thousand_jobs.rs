//! Four worker processes and one queue: every job is done once, for the session that enqueued it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::iter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use apalis::prelude::{MetadataStore, TaskBuilder, TaskSink};
use hermes_env_bridge::{SESSION_HEADER, Snapshot};
use job_queue::{Job, open, session};

const JOBS: u32 = 1000;
const SESSIONS: u32 = 50;
const WORKERS: usize = 4;
const STEPS: [&str; 4] = ["at once", "after an await", "in a task", "on a thread"];

fn job_queue(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_job-queue"));
    // What a worker would answer if a session did not arrive.
    command.args(arguments).env("HERMES_SESSION_KEY", "stale").env("HERMES_CRON_SESSION", "stale");
    command
}

fn output(arguments: &[&str]) -> String {
    let output = job_queue(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The path of a new queue.
fn new_queue(name: &str) -> String {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    let file = directory.join("jobs.db").to_str().unwrap().to_owned();
    output(&["create", &file]);
    file
}

#[test]
fn a_thousand_jobs_in_four_processes_are_each_done_once_for_their_own_session() {
    let file = &new_queue("thousand-jobs");

    let (lines, printed) = mpsc::channel();
    let workers: Vec<_> = (0..WORKERS)
        .map(|n| {
            let mut command = job_queue(&["work", file, &format!("worker-{n}")]);
            let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let stdout = BufReader::new(worker.stdout.take().unwrap());
            let lines = lines.clone();
            let reader = thread::spawn(move || stdout.lines().for_each(|line| lines.send((n, line.unwrap())).unwrap()));
            (worker, reader)
        })
        .collect();
    drop(lines);
    let next =
        || printed.recv_timeout(Duration::from_mins(1)).inspect_err(|error| eprintln!("a worker's line: {error}"));
    let is_report = |line: &(usize, String)| line.1.contains('\t');
    for n in 0..WORKERS {
        assert!(next().unwrap().1.ends_with(" is there"), "before there are jobs, {n} workers have said so");
    }

    output(&["produce", file, &JOBS.to_string(), &SESSIONS.to_string()]);

    let expected = JOBS as usize * STEPS.len();
    let mut seen: Vec<_> = iter::from_fn(|| next().ok()).filter(is_report).take(expected).collect();
    for (mut worker, reader) in workers {
        drop(worker.stdin.take());
        assert!(worker.wait().unwrap().success());
        reader.join().unwrap();
    }
    seen.extend(printed.iter().filter(is_report));

    let identities: Vec<(String, String)> = (0..SESSIONS)
        .map(|n| {
            let header = Snapshot::from(session(n)).to_header().unwrap();
            (format!("agent:main:telegram:{n}"), header)
        })
        .collect();
    assert_eq!(identities.iter().collect::<BTreeSet<_>>().len(), SESSIONS as usize);

    let mut times_done: BTreeMap<(u32, &str), u32> = BTreeMap::new();
    let mut foreign = Vec::new();
    for (_, line) in &seen {
        let [number, step, key, header] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let number: u32 = number.parse().unwrap();
        *times_done.entry((number, step)).or_default() += 1;
        let (own_key, own_header) = &identities[(number % SESSIONS) as usize];
        if (key, header) != (own_key, own_header) {
            foreign.push(line);
        }
    }
    let once = (0..JOBS).flat_map(|number| STEPS.map(|step| ((number, step), 1))).collect();
    assert_eq!(times_done, once, "each job is done once, at every step");
    assert!(foreign.is_empty(), "{} of {expected} reports are of a foreign session: {:?}", foreign.len(), foreign[0]);
    assert_eq!(output(&["status", file]), format!("Done {JOBS}\n"));

    let shares: Vec<_> = (0..WORKERS).map(|n| seen.iter().filter(|(worker, _)| *worker == n).count()).collect();
    assert!(shares.iter().filter(|&&share| share > 0).count() > 1, "one worker did it all: {shares:?}");
    println!("{JOBS} jobs of {SESSIONS} sessions, {WORKERS} workers ({shares:?} reports): 0 foreign, 0 missing");
}

#[tokio::test]
async fn a_job_without_a_session_or_with_a_broken_one_is_not_run_and_not_tried_again() {
    let file = new_queue("refused-jobs");
    let mut queue = open(&file).await.unwrap();
    let broken = MetadataStore::from_iter([(SESSION_HEADER, "HERMES_SESSION_KEY=%")]);
    for metadata in [MetadataStore::new(), broken] {
        queue.push_task(TaskBuilder::new(Job { number: 0 }).with_metadata(metadata).build()).await.unwrap();
    }

    let mut worker = job_queue(&["work", &file, "worker"]);
    let mut worker = worker.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let polls = (0..600).map(|_| {
        thread::sleep(Duration::from_millis(100));
        output(&["status", &file])
    });
    let ended = { polls }.find(|status| !["Pending", "Queued", "Running"].iter().any(|state| status.contains(state)));
    assert_eq!(ended.as_deref(), Some("Killed 2\n"));
    drop(worker.stdin.take());
    let printed = String::from_utf8(worker.wait_with_output().unwrap().stdout).unwrap();
    assert!(!printed.contains('\t'), "no job ran: {printed}");
}
