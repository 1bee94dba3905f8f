//! What the sources of the context types may not have.

use std::fs;
use std::hash::Hash;
use std::path::{Path, PathBuf};

use hermes_env_bridge::{ChatId, OmniusRunContext, TelegramRunContext};

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let run = fs::read_dir(root.join("run")).unwrap().map(|entry| entry.unwrap().path());
    let files = run.chain(["context.rs", "scope.rs", "state.rs", "snapshot.rs"].map(|name| root.join(name)));
    files.map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect()
}

/// Phase 5: source tests prevent direct global current-message variables if any are introduced.
#[test]
fn phase_5_no_source_of_a_context_has_a_global_that_changes() {
    let mut thread_locals = 0;
    for (file, source) in sources() {
        let code = || source.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code() {
            for global in ["static mut", "lazy_static", "OnceCell", "OnceLock", "ArcSwap"] {
                assert!(!line.contains(global), "{}: {line}", file.display());
            }
            // A value that is made once and never changes.
            let constant = line.contains("LazyLock<SessionState>") || line.contains("static CURRENT");
            assert!(constant || !line.trim_start().starts_with("static "), "{}: {line}", file.display());
        }
        thread_locals += code().filter(|line| line.contains("thread_local!")).count();
    }
    assert_eq!(thread_locals, 1, "the innermost scope of a thread is kept in one place");
}

/// Never store mutable message objects: a record holds ids and texts, and nothing that changes or that anybody can put in.
#[test]
fn no_record_can_hold_a_message_object() {
    fn is_plain<T: Clone + Eq + Hash + Send + Sync + Unpin + 'static>() {}
    is_plain::<OmniusRunContext>();
    is_plain::<TelegramRunContext>();
    is_plain::<ChatId>();
    for (file, source) in sources() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if !["record.rs", "telegram.rs", "field.rs"].contains(&&*name) {
            continue;
        }
        for held in ["Mutex", "RwLock", "RefCell", "Cell<", "Atomic", "dyn ", "serde_json::Value", "&'a "] {
            assert!(!source.contains(held), "{name} has {held}");
        }
    }
}

/// Never infer authorisation from a context: nothing that takes or gives one decides what is allowed.
#[test]
fn no_function_decides_by_a_context_what_is_allowed() {
    for (file, source) in sources() {
        for line in source.lines().filter(|line| line.contains("fn ")) {
            for word in ["allow", "authoriz", "authoris", "permit", "permission", "grant", "is_admin", "can_"] {
                assert!(!line.contains(word), "{}: {line}", file.display());
            }
        }
    }
}

/// Phase 5: docs exist under `docs/architecture/`, with the three prohibitions.
#[test]
fn phase_5_the_docs_are_there_and_say_what_is_prohibited() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture/run-context.md");
    let text = fs::read_to_string(docs).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    for prohibited in [
        "Never store mutable message objects",
        "Never use a context outside of its run",
        "Never infer authorisation from a context",
    ] {
        assert!(text.contains(prohibited), "{prohibited}");
    }
}
