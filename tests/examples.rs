//! Each example, run as a user runs it: it ends by itself, and prints what it is there to show.

use std::process::Command;

/// What the example prints, in the order of its lines' text. It is built as it stands now, with the features that this
/// test has, so that nothing else has to be built for it.
fn printed(example: &str) -> Vec<String> {
    let features = [
        ("http", cfg!(feature = "http")),
        ("process", cfg!(feature = "process")),
        ("python", cfg!(feature = "python")),
        ("schema", cfg!(feature = "schema")),
        ("sqlite", cfg!(feature = "sqlite")),
        ("tower", cfg!(feature = "tower")),
        ("tracing", cfg!(feature = "tracing")),
    ];
    let features: Vec<_> = features.into_iter().filter(|&(_, on)| on).map(|(feature, _)| feature).collect();
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["run", "--quiet", "--locked", "--features", &features.join(","), "--example", example])
        // What a read would answer that finds no session.
        .envs(["PLATFORM", "CHAT_ID", "USER_ID", "USER_NAME", "KEY"].map(|n| (format!("HERMES_SESSION_{n}"), "stale")))
        .output()
        .expect("cargo runs this test");
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[cfg(feature = "process")]
#[test]
fn a_hundred_chats_of_the_gateway_get_their_own_answers() {
    assert_eq!(printed("gateway"), ["100 chats: 600 answers, 0 of them foreign, 0 missing"]);
}

#[test]
fn a_workers_jobs_have_their_own_sessions_and_the_worker_none() {
    assert_eq!(
        printed("worker"),
        [
            "a job from elsewhere: not the JSON of a snapshot: it has no \"version\"; write it with to_json",
            "chat 1: HELLO (for chat 1), BYE (for chat 1)",
            "chat 2: HELLO (for chat 2), BYE (for chat 2)",
            "chat 3: HELLO (for chat 3), BYE (for chat 3)",
            "the worker starts while chat 1 is served",
        ]
    );
}

#[cfg(feature = "http")]
#[test]
fn a_request_has_the_session_of_whoever_was_authenticated_also_while_its_answer_is_sent() {
    assert_eq!(
        printed("axum_middleware"),
        [
            "GET /count as Alice, for Carol: 403",
            "GET /count as Alice: 200 / 1 for alice / 2 for alice / 3 for alice",
            "GET /count as Bob: 200 / 1 for bob / 2 for bob / 3 for bob",
            "GET /count as the gateway, for Carol: 200 / 1 for carol / 2 for carol / 3 for carol",
            "GET /count: 401",
            "GET /health: 200 / well, says nobody",
        ]
    );
}
