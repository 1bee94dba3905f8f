//! The environment of a child: what went wrong for people, a test each, and the rules of the plan.
//!
//! The numbers are those of the reports that the project was designed from.
#![cfg(unix)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

use hermes_env_bridge::{
    ChildEnv, Context, Credentials, EnvLimits, ForChild, InvalidEnv, Passthrough, Plan, Platform, Policy, Session,
    SessionCommand, Unrenderable, bridged_pairs, owned_names, owns, shell_exports, shell_unset,
};

const KEY: &str = "HERMES_SESSION_KEY";
const ID: &str = "HERMES_SESSION_ID";
const NAME: &str = "HERMES_SESSION_CHAT_NAME";
const DESCENT: &str = "HERMES_DELEGATED_CHILD_CONTEXT";

fn plan(spec: &ChildEnv, inherited: &[(&str, &str)], engaged: bool) -> Plan {
    spec.plan_over(inherited.iter().copied(), &Context::current(), engaged).unwrap()
}

/// What a child gets, sorted by name.
fn env(plan: &Plan) -> Vec<(String, String)> {
    let text = |text: OsString| text.into_string().unwrap();
    plan.to_map().into_iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut sorted: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    sorted.sort();
    sorted
}

/// What a shell that `command` starts has under `name`, byte for byte.
fn said(command: &mut Command) -> Vec<(OsString, OsString)> {
    let told = command.output().unwrap().stdout;
    let entries = told.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let divided = entries.map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=').unwrap();
        (OsString::from_vec(entry[..at].to_vec()), OsString::from_vec(entry[at + 1..].to_vec()))
    });
    divided.collect()
}

fn print_env() -> Command {
    let mut command = Command::new("/usr/bin/env");
    let _ = command.arg("-0");
    command
}

fn value(said: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    said.iter().find(|(each, _)| each == name).map(|(_, value)| value.clone())
}

/// B01, B11
#[test]
fn bound_values_win_unset_ones_are_stripped_once_engaged_and_other_names_are_left_alone() {
    let base = [(KEY, "stale"), ("HERMES_SESSION_FOO", "x"), ("PATH", "/bin")];
    let spec = ChildEnv::new();
    assert_eq!(env(&plan(&spec, &base, false)), pairs(&base));
    assert_eq!(env(&plan(&spec, &base, true)), pairs(&base[1..]));
    Session::new().session_key("K").sync_scope(|| {
        for engaged in [false, true] {
            let plan = plan(&spec, &base, engaged);
            assert_eq!(plan.value(KEY), Some("K".as_ref()));
            assert_eq!(plan.get(ID).map(|planned| planned.action), Some(ForChild::Empty));
        }
    });
}

/// B03
#[test]
fn the_owned_names_are_the_session_variables_the_claim_and_the_mark() {
    let owned: Vec<_> = owned_names().collect();
    for name in ["HERMES_UI_SESSION_ID", "HERMES_CRON_SESSION", "HERMES_KANBAN_TASK", KEY, DESCENT] {
        assert!(owned.contains(&name) && owns(name), "{name}");
    }
    assert!(owns("HERMES_KANBAN_GOAL_OF_A_LATER_VERSION"));
    for name in ["HERMES_KANBAN_DB", "HERMES_SESSION_FOO", "PATH"] {
        assert!(!owned.contains(&name) && !owns(name), "{name}");
    }
}

/// B05, B10
#[test]
fn a_detached_child_has_no_session_and_no_claim_and_is_marked_if_it_descends_from_a_worker() {
    let spec = ChildEnv::new().policy(Policy::Detached);
    let base = [("HERMES_KANBAN_TASK", "t"), ("HERMES_KANBAN_DB", "/db"), (KEY, "stale")];
    let child = [("HERMES_KANBAN_DB", "/db"), (DESCENT, "1")];
    Session::new().session_key("K").sync_scope(|| {
        assert_eq!(env(&plan(&spec, &base, false)), pairs(&child));
    });
    assert_eq!(env(&plan(&spec, &child, false)), pairs(&child));
    assert_eq!(env(&plan(&spec, &child[..1], false)), pairs(&child[..1]));
    assert_eq!(env(&plan(&spec.clone().delegated(true), &child[..1], false)), pairs(&child));
    let granted = spec.extra("HERMES_KANBAN_TASK", "t2");
    assert_eq!(env(&plan(&granted, &child[1..], false)), pairs(&[("HERMES_KANBAN_TASK", "t2")]));
}

/// B05, B10
#[test]
fn only_a_child_that_gets_a_card_is_no_descendant() {
    let (task, mode) = ("HERMES_KANBAN_TASK", "HERMES_KANBAN_GOAL_MODE");
    let base = [(task, "t")];
    let spec = ChildEnv::new().policy(Policy::Detached);
    let cases = [
        ("added and denied", spec.clone().extra(task, "t2").deny(task), vec![(DESCENT, "1")]),
        ("added as nothing", spec.clone().extra(task, ""), vec![(task, ""), (DESCENT, "1")]),
        ("part of a claim", spec.clone().extra(mode, "0"), vec![(mode, "0"), (DESCENT, "1")]),
        ("allowed", spec.clone().allow(task), vec![(task, "t")]),
        ("allowed and denied", spec.clone().allow(task).deny(task), vec![(DESCENT, "1")]),
        ("another one", spec.extra(task, "t2"), vec![(task, "t2")]),
    ];
    for (what, spec, expected) in cases {
        assert_eq!(env(&plan(&spec, &base, false)), pairs(&expected), "{what}");
    }
}

/// B06
#[test]
fn allowing_decides_whether_and_the_task_decides_what() {
    for policy in [Policy::Inherit, Policy::Detached, Policy::Minimal] {
        let spec = ChildEnv::new().policy(policy).allow(ID);
        Session::new().session_id("mine").sync_scope(|| {
            assert_eq!(plan(&spec, &[(ID, "other")], true).value(ID), Some("mine".as_ref()), "{policy:?}");
        });
        assert_eq!(plan(&spec, &[(ID, "other")], true).value(ID), None, "{policy:?}");
    }
}

/// B08, B18
#[test]
fn windows_rules_hold_on_any_host() {
    let spec = ChildEnv::new().platform(Platform::Windows);
    let small = ChildEnv::new().limits(EnvLimits { variable: 8, total: 100 }).platform(Platform::Windows);
    assert!(small.plan_over([("V", "12345678")], &Context::current(), false).is_err());
    let one = spec.clone().extra("PATH", "new");
    assert_eq!(env(&plan(&one, &[("Path", "old")], false)), pairs(&[("Path", "new")]));
    let base = [("Path", "p"), ("SystemRoot", "w"), ("PathExt", "e"), ("=C:", "C:\\x"), ("Other", "x")];
    let minimal = spec.clone().policy(Policy::Minimal);
    assert_eq!(env(&plan(&minimal, &base, false)), pairs(&base[..3]));
    assert_eq!(env(&plan(&spec, &base, false)), pairs(&base));
    assert_eq!(env(&plan(&spec.clone().deny("OTHER"), &base, false)), pairs(&base[..4]));
    let long = |length| spec.plan_over([("V", "ü".repeat(length))], &Context::current(), false).map(drop);
    assert_eq!(long(32_764), Ok(()));
    let error = long(32_765).unwrap_err();
    assert_eq!(error, InvalidEnv::VariableTooLong { name: "V".into(), size: 32_768, limit: 32_767 });
}

/// B09
#[test]
fn an_unknown_policy_is_no_policy() {
    assert_eq!("detached".parse(), Ok(Policy::Detached));
    let error = "permissive".parse::<Policy>().unwrap_err();
    assert!(error.to_string().contains("permissive") && error.to_string().contains("minimal"));
}

/// B12
#[test]
fn what_is_denied_never_passes() {
    let spec = ChildEnv::new().deny(KEY).allow(KEY).extra(KEY, "added");
    Session::new().session_key("k").session_id("i").sync_scope(|| {
        let plan = plan(&spec, &[(KEY, "stale")], true);
        assert_eq!((plan.value(KEY), plan.value(ID)), (None, Some("i".as_ref())));
    });
}

/// B13, B15
#[test]
fn the_homes_are_of_one_profile_and_the_directory_is_the_one_that_is_stated() {
    let spec = ChildEnv::new().home("/p/beta").cwd("/proj");
    let base = [("HERMES_HOME", "/p/launch"), ("HOME", "/p/launch/home"), ("TERMINAL_CWD", "/old")];
    let moved = [("HERMES_HOME", "/p/beta"), ("HOME", "/p/beta/home"), ("TERMINAL_CWD", "/proj")];
    assert_eq!(env(&plan(&spec, &base, false)), pairs(&moved));
    let base = [("HERMES_HOME", "/p/launch"), ("HOME", "/home/me")];
    assert_eq!(env(&plan(&spec, &base, false)), pairs(&[("HERMES_HOME", "/p/beta"), ("HOME", "/home/me")]));
}

/// B17
#[test]
#[cfg(target_os = "linux")]
fn what_is_too_large_is_refused_by_name_and_size_and_never_shortened() {
    let limit = 131_072 - NAME.len() - 2;
    let spec = ChildEnv::new();
    let named = |length: usize| Session::new().chat_name("x".repeat(length));
    assert!(named(limit).sync_scope(|| print_env().session_env().unwrap().output().unwrap().status.success()));
    let error = named(limit + 1).sync_scope(|| spec.plan().unwrap_err());
    assert_eq!((error.name(), error.size_and_limit()), (NAME.as_ref(), Some((131_073, 131_072))));
    assert!(error.to_string().contains(NAME) && !format!("{error} {error:?}").contains("xxx"));
    assert_eq!(named(limit + 1).sync_scope(|| spec.clone().deny(NAME).plan().unwrap().value(NAME).map(drop)), None);

    let small = spec.limits(EnvLimits { variable: 100, total: 141 });
    let base = [("LARGEST".to_owned(), "x".repeat(60)), ("OTHER".to_owned(), "x".repeat(50))];
    match small.plan_over(base, &Context::current(), false).unwrap_err() {
        InvalidEnv::TooLarge { name, largest: 69, size: 142, limit: 141 } => assert_eq!(name, "LARGEST"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_no_environment_can_hold_is_refused_by_name() {
    let refused = |name: &str, value: &str| {
        let over = ChildEnv::new().plan_over([(name, value)], &Context::current(), false).map(drop);
        let added = ChildEnv::new().extra(name, value).plan_over([("A", "b")], &Context::current(), false).map(drop);
        assert_eq!(over, added);
        over
    };
    assert_eq!(refused("", "x"), Err(InvalidEnv::EmptyName));
    assert_eq!(refused("A=B", "x"), Err(InvalidEnv::EqualsInName { name: "A=B".into() }));
    assert_eq!(refused("A\0", "x"), Err(InvalidEnv::NulInName { name: "A\0".into() }));
    assert_eq!(refused("A", "hidden\0"), Err(InvalidEnv::NulInValue { name: "A".into() }));
    assert_eq!(refused("A", "x=\n'\""), Ok(()));
    assert!(!refused("A", "hidden\0").unwrap_err().to_string().contains("hidden"));
}

#[test]
fn debug_output_of_credentials_has_how_many_there_are() {
    let rules = Credentials::new(["ONE_KEY", "TWO_KEY"]).always(["BOT_TOKEN"]);
    assert_eq!(format!("{rules:?}"), "Credentials { blocked: 2, always: 1 }");
}

/// B19
#[test]
fn every_name_is_explained_without_its_value() {
    let credentials = Credentials::new(["OPENAI_API_KEY"]);
    let spec = ChildEnv::new().policy(Policy::Minimal).credentials(credentials).extra("ADDED", "secret");
    let base = [("OPENAI_API_KEY", "secret"), ("OTHER", "secret"), ("PATH", "secret"), (KEY, "secret")];
    let plan = plan(&spec, &base, true);
    let told: Vec<_> = plan.iter().map(|planned| (planned.name.to_str().unwrap(), planned.action)).collect();
    let expected = [
        ("OPENAI_API_KEY", ForChild::Strip),
        ("OTHER", ForChild::Strip),
        ("PATH", ForChild::Keep),
        (KEY, ForChild::Strip),
        ("ADDED", ForChild::Set),
        (ID, ForChild::Absent),
    ];
    assert!(expected.iter().all(|decision| told.contains(decision)), "{told:?}");
    assert!(plan.get("OTHER").unwrap().to_string().contains("allow-list"));
    assert!(!plan.iter().any(|planned| format!("{planned} {planned:?}").contains("secret")));
    assert!(!format!("{spec:?} {plan:?}").contains("secret"));
}

/// B21
#[test]
fn the_pairs_to_hand_on_are_what_a_child_is_given() {
    Session::new().session_key("K").sync_scope(|| {
        let handed: Vec<_> = bridged_pairs().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut given = handed.clone();
        given.sort();
        assert_eq!(env(&plan(&ChildEnv::new(), &[], true)), given);
        assert!(handed.contains(&(KEY.to_owned(), "K".to_owned())) && handed.contains(&(ID.to_owned(), String::new())));
    });
}

/// R06, R07
#[test]
fn bytes_that_are_not_utf8_are_handed_on_as_they_are() {
    let odd = OsStr::from_bytes(b"\xff\xfe'\n");
    let plan = ChildEnv::new().plan_over([(NAME, odd), ("BAD", odd)], &Context::current(), false).unwrap();
    assert_eq!((plan.value(NAME), plan.value("BAD")), (Some(odd), Some(odd)));
    let spec = ChildEnv::new().extra("BAD", odd).extra(OsStr::from_bytes(b"\xa3"), "x");
    let told = said(print_env().child_env(&spec).unwrap());
    assert_eq!(value(&told, "BAD").as_deref(), Some(odd));
    assert!(told.contains(&(OsString::from_vec(vec![0xa3]), "x".into())));
}

/// R09
#[test]
fn the_crate_never_writes_the_environment_of_the_process() {
    fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { sources(&path, found) } else { found.push(path) }
        }
    }

    let mut found = Vec::new();
    sources(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
    assert!(found.len() > 20);
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        for call in ["env::set_var", "env::remove_var", "setenv(", "putenv("] {
            assert!(!text.contains(call), "{call} in {}", path.display());
        }
    }
    let before: Vec<_> = std::env::vars_os().collect();
    let _ = Session::new().session_key("K").sync_scope(|| said(print_env().session_env().unwrap()));
    assert_eq!(std::env::vars_os().collect::<Vec<_>>(), before);
}

/// R10
#[test]
fn the_identity_is_taken_by_the_call_and_not_by_the_spawn() {
    let mut command = print_env();
    let _ = command.env("X", "1");
    Session::new().session_key("A").sync_scope(|| assert!(command.session_env().is_ok()));
    let told = Session::new().session_key("B").sync_scope(|| said(&mut command));
    assert_eq!((value(&told, KEY), value(&told, "X")), (Some("A".into()), Some("1".into())));
}

#[test]
fn what_a_command_was_told_takes_the_place_of_what_it_inherits_under_every_policy() {
    for policy in [Policy::Inherit, Policy::Detached, Policy::Minimal] {
        let mut command = print_env();
        let _ = command.env("TOLD", "x").env_remove("PATH").env("MINE", "x").env("SECRET", "x").env("FREE", "x");
        let credentials = Credentials::new(["SECRET", "FREE"]);
        let spec =
            ChildEnv::new().policy(policy).deny("MINE").extra("TOLD", "y").credentials(credentials).allow("FREE");
        let told = said(command.env("LEFT", "x").child_env(&spec).unwrap().env("AFTER", "x"));
        let expected = [("TOLD", "y"), ("LEFT", "x"), ("FREE", "x"), ("AFTER", "x")];
        assert!(expected.iter().all(|(name, expected)| value(&told, name).is_some_and(|value| value == *expected)));
        assert!(["PATH", "MINE", "SECRET"].iter().all(|name| value(&told, name).is_none()), "{policy:?}");
    }
}

#[test]
fn each_call_decides_the_owned_names_anew() {
    let (task, detached) = ("HERMES_KANBAN_TASK", ChildEnv::new().policy(Policy::Detached));
    let mut command = print_env();
    let first = ChildEnv::new().extra(task, "t");
    Session::new().session_key("A").session_id("I").sync_scope(|| assert!(command.child_env(&first).is_ok()));
    let told = Session::new().session_key("B").sync_scope(|| said(command.session_env().unwrap()));
    assert_eq!((value(&told, KEY), value(&told, ID)), (Some("B".into()), Some("".into())));
    assert_eq!(value(&told, task), None);

    let _ = command.env(KEY, "told").env(task, "told").env_remove(ID);
    let told = Session::new().session_key("C").session_id("I").sync_scope(|| said(command.session_env().unwrap()));
    assert_eq!((value(&told, KEY), value(&told, ID)), (Some("C".into()), Some("I".into())));
    let told = Session::new().session_key("D").sync_scope(|| said(command.child_env(&detached).unwrap()));
    assert!([KEY, ID, task].iter().all(|name| value(&told, name).is_none()));
    let told = said(command.child_env(&detached.extra(KEY, "stated")).unwrap());
    assert_eq!(value(&told, KEY), Some("stated".into()));
}

/// Directories of drives, as Cygwin and Wine hand them on.
#[test]
fn a_name_that_starts_with_an_equals_sign_is_handed_on() {
    let base = [("=C:", "x"), ("A", "b")];
    assert_eq!(env(&plan(&ChildEnv::new(), &base, false)), pairs(&base));
}

#[test]
fn a_command_is_not_refused_for_what_it_may_not_even_inherit() {
    let small = EnvLimits { total: 100, ..Platform::HOST.limits() };
    assert!(matches!(ChildEnv::new().limits(small).plan(), Err(InvalidEnv::TooLarge { .. })));
    let mut command = print_env();
    assert!(command.env_clear().child_env(&ChildEnv::new().limits(small)).is_ok());
    assert!(command.env("TOLD", "x".repeat(100)).child_env(&ChildEnv::new().limits(small)).is_err());
}

#[test]
#[cfg(target_os = "linux")]
fn an_argument_that_the_system_does_not_take_is_refused_as_it_would_refuse_it() {
    for length in [131_071, 131_072] {
        let (mut plain, mut ours) = (Command::new("/bin/true"), Command::new("/bin/true"));
        let (plain, ours) = (plain.arg("x".repeat(length)), ours.arg("x".repeat(length)));
        let refused = ours.session_env().map(drop);
        assert_eq!(plain.status().is_err(), refused.is_err());
        if let Err(error) = refused {
            assert_eq!(error, InvalidEnv::ArgumentTooLong { at: 1, size: 131_073, limit: 131_072 });
        }
    }
}

#[test]
fn a_command_with_an_environment_that_cannot_be_is_left_as_it_was() {
    let mut command = print_env();
    let _ = command.env("A", "x\0");
    let before = format!("{command:?}");
    assert_eq!(command.session_env().map(drop), Err(InvalidEnv::NulInValue { name: "A".into() }));
    assert_eq!(format!("{command:?}"), before);
}

#[test]
fn a_minimal_child_gets_what_programs_need_and_what_is_allowed_and_inherits_nothing_else() {
    let told = said(print_env().child_env(&ChildEnv::new().policy(Policy::Minimal).allow("CARGO")).unwrap());
    let names: Vec<_> = told.iter().filter_map(|(name, _)| name.to_str()).collect();
    assert!(names.contains(&"PATH") && names.contains(&"CARGO"));
    assert!(!names.iter().any(|name| name.starts_with("CARGO_")), "{names:?}");
}

#[test]
fn credentials_stay_and_no_skill_can_free_one() {
    let rules = Credentials::new(["PROVIDER_KEY"]).always(["BOT_TOKEN"]);
    let names = ["PROVIDER_KEY", "BOT_TOKEN", "AUXILIARY_VISION_API_KEY", "gateway_relay_x_secret", "NOTION_TOKEN"];
    let base: Vec<_> = names.iter().map(|name| (*name, "x")).collect();
    let spec = ChildEnv::new().credentials(rules.clone());
    assert_eq!(env(&plan(&spec, &base, false)), pairs(&base[4..]));
    let allowed = names.iter().fold(spec.clone(), ChildEnv::allow);
    assert_eq!(env(&plan(&allowed, &base, false)), pairs(&[base[0], base[4]]));
    let forced = names.iter().fold(spec.clone(), |spec, name| spec.extra(format!("_HERMES_FORCE_{name}"), "f"));
    let expected = [("PROVIDER_KEY", "f"), ("BOT_TOKEN", "f"), ("NOTION_TOKEN", "f")];
    assert_eq!(env(&plan(&forced, &[], false)), pairs(&expected));

    let (passed, refused) = Passthrough::default().with(names, &rules);
    assert_eq!(refused, names[..4]);
    let minimal = spec.policy(Policy::Minimal);
    assert_eq!(env(&plan(&minimal.clone().passthrough(passed), &base, false)), pairs(&base[4..]));
    assert_eq!(env(&plan(&minimal, &base, false)), pairs(&[]));
}

#[test]
fn a_session_that_adds_a_name_adds_it_for_no_sibling() {
    let rules = Credentials::default();
    let (mine, _) = Passthrough::default().with(["MINE"], &rules);
    let (child, _) = mine.with(["CHILDS"], &rules);
    assert!(child.contains("MINE") && child.contains("CHILDS"));
    assert!(mine.contains("MINE") && !mine.contains("CHILDS"));
}

#[test]
fn shells_read_back_what_is_rendered() {
    let values: [(&str, &[u8]); 4] = [
        ("QUOTES", b"it's \"quoted\" $(id) `id` \\"),
        ("LINES", b"a\n\nb\r\n\n"),
        ("BYTES", b"\xff\x81"),
        ("EMPTY", b""),
    ];
    let mut script = shell_exports(values.iter().map(|(name, value)| (name, OsStr::from_bytes(value)))).unwrap();
    script.push(shell_unset(["GONE"]).unwrap());
    script.push("exec /usr/bin/env -0");
    for shell in ["sh", "bash", "dash"] {
        let mut command = Command::new(shell);
        if command.arg("-c").arg("true").status().is_err() {
            continue;
        }
        let told = said(Command::new(shell).arg("-c").arg(&script).env("GONE", "x"));
        for (name, expected) in values {
            assert_eq!(value(&told, name).as_deref(), Some(OsStr::from_bytes(expected)), "{shell} {name}");
        }
        assert_eq!(value(&told, "GONE"), None);
    }
}

#[test]
fn what_no_shell_can_have_is_refused_by_name() {
    let error = shell_exports([("A-B", "x")]).unwrap_err();
    assert!(matches!(&error, Unrenderable::Name { name } if name == "A-B"));
    assert_eq!(shell_unset(["A-B"]).unwrap_err(), error);
    let error = shell_exports([("SECRET", "hid\0den")]).unwrap_err();
    assert!(matches!(&error, Unrenderable::NulInValue { name } if name == "SECRET"));
    assert!(!error.to_string().contains("den"));
}
