//! A session as plain data: whatever is in it comes back, and whatever is no snapshot is refused without its values.

use std::collections::BTreeMap;

use hermes_env_bridge::{
    Context, Limits, Session, Snapshot, SnapshotError, Unknown, VARIABLES, VarState, get_session_env,
    reset_session_vars, session_context_engaged,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

const SECRET: &str = "s3cret-value";

/// Any text: also NUL, separators, quotes, line ends and what no locale has.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), vec(any::<char>(), 0..20).prop_map(String::from_iter), "[%&=\\\\\"\0\r\n +,;{}]{0,12}"]
}

/// The name of a variable, known or not. Only the fields beside the variables have other values than text.
fn name() -> impl Strategy<Value = String> {
    let known = (0..VARIABLES.len()).prop_map(|at| VARIABLES[at].name.to_owned());
    prop_oneof![4 => known, 1 => text()].prop_filter("a field", |name| {
        !["HERMES_SESSION_ASYNC_DELIVERY", "HERMES_SESSION_CWD"].contains(&name.as_str())
    })
}

/// A mapping as `to_mapping` makes it.
fn mapping() -> impl Strategy<Value = BTreeMap<String, String>> {
    let cwd = option::of(text().prop_filter("an empty one is none", |cwd| !cwd.is_empty()));
    (btree_map(name(), text(), 0..10), option::of(any::<bool>()), cwd).prop_map(|(mut mapping, async_delivery, cwd)| {
        let supported = async_delivery.map(|supported| if supported { "1" } else { "0" }.to_owned());
        mapping.extend(supported.map(|supported| ("HERMES_SESSION_ASYNC_DELIVERY".to_owned(), supported)));
        mapping.extend(cwd.map(|cwd| ("HERMES_SESSION_CWD".to_owned(), cwd)));
        mapping
    })
}

fn from(mapping: &BTreeMap<String, String>) -> Snapshot {
    Snapshot::from_mapping(mapping.iter().map(|(name, value)| (name.as_str(), value.as_str()))).unwrap()
}

fn read(json: &str) -> Result<Snapshot, SnapshotError> {
    Snapshot::from_json(json, Limits::default())
}

proptest! {
    #[test]
    fn whatever_a_mapping_has_comes_back_as_a_mapping_as_json_and_through_serde(mapping in mapping()) {
        let snapshot = from(&mapping);
        prop_assert_eq!(snapshot.to_mapping(), mapping);
        prop_assert_eq!(&read(&snapshot.to_json()).unwrap(), &snapshot);
        let value = serde_json::to_value(&snapshot).unwrap();
        prop_assert_eq!(&serde_json::from_value::<Snapshot>(value).unwrap(), &snapshot);
        prop_assert!(snapshot.diff(&snapshot).is_empty());
    }

    #[test]
    fn what_is_restored_is_what_was_captured_with_its_three_states(mapping in mapping()) {
        let snapshot = from(&mapping);
        let context = snapshot.restore();
        for variable in VARIABLES {
            let expected = mapping.get(variable.name).map_or(VarState::Unset, |value| VarState::bound(value));
            prop_assert_eq!(context.session().get(variable.name), expected);
        }
        let known = |name: &str| VARIABLES.iter().any(|variable| variable.name == name);
        let fields = ["HERMES_SESSION_ASYNC_DELIVERY", "HERMES_SESSION_CWD"];
        let kept: BTreeMap<_, _> =
            mapping.iter().filter(|(name, _)| known(name) || fields.contains(&name.as_str())).collect();
        let captured = context.sync_scope(|| Snapshot::capture().to_mapping());
        prop_assert_eq!(captured.iter().collect::<BTreeMap<_, _>>(), kept);
        let unknown: Vec<_> = snapshot.unknown_names().collect();
        prop_assert!(unknown.iter().all(|name| !known(name) && mapping.contains_key(*name)));
        prop_assert_eq!(unknown.len() + captured.len(), mapping.len());
    }

    #[test]
    fn a_difference_says_what_each_side_holds(one in mapping(), two in mapping()) {
        let changes = from(&one).diff(&from(&two));
        let mut expected: Vec<_> = one.keys().chain(two.keys()).filter(|name| one.get(*name) != two.get(*name)).collect();
        expected.sort();
        expected.dedup();
        prop_assert_eq!(changes.iter().map(|change| &change.name).collect::<Vec<_>>(), expected);
        for change in &changes {
            prop_assert_eq!(change.before.as_bound(), one.get(&change.name).map(String::as_str));
            prop_assert_eq!(change.after.as_bound(), two.get(&change.name).map(String::as_str));
        }
    }

    #[test]
    fn no_text_makes_reading_panic(json in text()) {
        let _ = read(&json);
    }

    #[test]
    fn no_json_makes_reading_panic_and_no_message_has_a_value_of_it(json in malformed()) {
        let small = Limits { depth: 3, unknown: Unknown::Refuse, ..Limits::default() };
        for limits in [Limits::default(), small] {
            if let Err(error) = Snapshot::from_json(&json.to_string(), limits) {
                prop_assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
            }
        }
        if let Err(error) = serde_json::from_value::<Snapshot>(json) {
            prop_assert!(!error.to_string().contains(SECRET), "{error}");
        }
    }
}

/// JSON that is nearly a snapshot, with a secret wherever a value is.
fn malformed() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(SECRET)),
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from)
    ];
    let field = leaf.prop_recursive(4, 16, 3, |inner| {
        let name = prop_oneof![name(), Just("unknown".to_owned())];
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(name, inner, 0..3).prop_map(Value::from_iter),
        ]
    });
    let version = prop_oneof![6 => Just(json!(1)), 1 => field.clone()];
    let fields = proptest::sample::subsequence(vec!["session", "async_delivery", "cwd", "other"], 0..=4);
    let object = (version, fields, vec(field.clone(), 4)).prop_map(|(version, names, fields)| {
        let fields = names.into_iter().zip(fields);
        fields.chain([("version", version)]).map(|(name, field)| (name.to_owned(), field)).collect()
    });
    prop_oneof![9 => object, 1 => field]
}

fn snapshot() -> Snapshot {
    Session::new().chat_id(SECRET).cwd(SECRET).sync_scope(Snapshot::capture)
}

#[test]
fn json_tells_the_three_states_apart() {
    let json: Value = serde_json::from_str(&snapshot().to_json()).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["session"]["HERMES_SESSION_CHAT_ID"], SECRET);
    assert_eq!(json["session"]["HERMES_SESSION_USER_ID"], "");
    assert_eq!(json["session"].get("HERMES_CRON_SESSION"), None);
    assert_eq!((&json["async_delivery"], &json["cwd"]), (&json!(true), &json!(SECRET)));
    let unbound = Context::unbound().sync_scope(Snapshot::capture);
    assert_eq!(unbound.to_json(), r#"{"version":1,"session":{}}"#);
}

#[test]
fn what_debug_and_differences_show_has_no_values() {
    let (one, two) = (snapshot(), Session::new().chat_id("other").sync_scope(Snapshot::capture));
    let shown = format!("{one:?} {:?} {}", one.diff(&two), one.diff(&two)[0]);
    assert!(!shown.contains(SECRET) && !shown.contains("other"), "{shown}");
    assert!(
        shown.contains(r#""HERMES_SESSION_CHAT_ID": set"#) && shown.contains(r#""HERMES_SESSION_USER_ID": cleared"#)
    );
}

#[test]
fn unknown_fields_and_variables_are_kept_or_refused_and_never_bound() {
    let json = r#"{"version":1,"session":{"HERMES_SESSION_ID":"7","NEW_NAME":"n"},"mood":{"id":[1,{"deep":null}]}}"#;
    let kept = read(json).unwrap();
    assert_eq!(kept.unknown_names().collect::<Vec<_>>(), ["NEW_NAME", "mood"]);
    assert_eq!(kept.to_json(), json);
    kept.restore().sync_scope(|| {
        assert_eq!(get_session_env("HERMES_SESSION_ID", "none"), "7");
        assert_eq!(get_session_env("NEW_NAME", "none"), "none");
    });
    let refusing = Limits { unknown: Unknown::Refuse, ..Limits::default() };
    assert_eq!(Snapshot::from_json(json, refusing), Err(SnapshotError::Unknown { name: "NEW_NAME".to_owned() }));
    let known = snapshot();
    assert_eq!(Snapshot::from_json(&known.to_json(), refusing), Ok(known));
}

#[test]
fn an_input_beyond_the_limits_is_refused_with_its_size_or_depth() {
    let json = snapshot().to_json();
    let size = json.len();
    let limits = |bytes, depth| Limits { bytes, depth, ..Limits::default() };
    assert!(Snapshot::from_json(&json, limits(size, 2)).is_ok());
    assert_eq!(Snapshot::from_json(&json, limits(size - 1, 2)), Err(SnapshotError::TooLarge { size, limit: size - 1 }));
    assert_eq!(Snapshot::from_json(&json, limits(size, 1)), Err(SnapshotError::TooDeep { depth: 2, limit: 1 }));

    let nested =
        |depth: usize| format!(r#"{{"version":1,"session":{{}},"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(15)).is_ok());
    assert_eq!(read(&nested(16)), Err(SnapshotError::TooDeep { depth: 17, limit: 16 }));
    // What would exhaust the stack of a parser does not.
    let deep = nested(20_000);
    assert_eq!(Snapshot::from_json(&deep, limits(usize::MAX, usize::MAX)).unwrap().to_json(), deep);
}

#[test]
fn each_fault_has_its_own_error_and_the_name_of_what_is_wrong() {
    let named = |name: &str| name.to_owned();
    let cases = [
        (r#"{"version":2,"session":5}"#, SnapshotError::Version { supported: 1 }),
        (r#"{"version":"1","session":{}}"#, SnapshotError::Version { supported: 1 }),
        (r#"{"version":1,"session":{"A":1}}"#, SnapshotError::NotText { name: named("A") }),
        (r#"{"version":1,"session":{"A":null}}"#, SnapshotError::NotText { name: named("A") }),
        (r#"{"version":1,"session":{},"cwd":["x"]}"#, SnapshotError::NotText { name: named("cwd") }),
        (
            r#"{"version":1,"session":{},"async_delivery":"1"}"#,
            SnapshotError::NotBoolean { name: named("async_delivery") },
        ),
        (r#"{"version":1,"session":{"A":"1","A":"2"}}"#, SnapshotError::Duplicate { name: named("A") }),
        (r#"{"version":1,"session":{},"session":{}}"#, SnapshotError::Duplicate { name: named("session") }),
    ];
    for (json, error) in cases {
        assert_eq!(read(json), Err(error), "{json}");
    }
    let malformed = [
        ("", "EOF"),
        ("{", "EOF"),
        ("[]", "the snapshot is no object"),
        (r#"{"session":{}}"#, r#"no "version""#),
        (r#"{"version":1}"#, r#"no "session""#),
        (r#"{"version":1,"session":"s"}"#, r#""session" is no object"#),
        (r#"{"version":1,"session":{"HERMES_SESSION_CWD":"/"}}"#, "HERMES_SESSION_CWD"),
        (r#"{"version":1,"session":{"#, "EOF"),
    ];
    for (json, reason) in malformed {
        let error = read(json).unwrap_err();
        assert!(
            matches!(&error, SnapshotError::Malformed { .. }) && error.to_string().contains(reason),
            "{json}: {error}"
        );
    }
    let twice = [("A", "1"), ("A", "2")];
    assert_eq!(Snapshot::from_mapping(twice), Err(SnapshotError::Duplicate { name: named("A") }));
    let delivery = "HERMES_SESSION_ASYNC_DELIVERY";
    assert_eq!(Snapshot::from_mapping([(delivery, "yes")]), Err(SnapshotError::NotBoolean { name: named(delivery) }));
}

#[test]
fn unknown_fields_are_written_again_as_they_were_read() {
    let json = concat!(
        r#"{"version":1,"session":{},"z":123456789012345678901234567890,"y":1e400,"x":{"b":1,"b":[1.10,"\u0041"]},"#,
        r#""a":{"$serde_json::private::Number":"1"}}"#,
    );
    assert_eq!(read(json).unwrap().to_json(), json);
}

#[test]
fn a_masked_context_asks_nothing_of_the_environment() {
    let partial = Snapshot::from_mapping([("HERMES_SESSION_CHAT_ID", "42")]).unwrap();
    for snapshot in [Snapshot::default(), partial] {
        let masked = snapshot.restore_masked();
        for (name, state) in masked.session().iter() {
            let expected =
                if snapshot.state(name) == VarState::Unset { VarState::Cleared } else { snapshot.state(name) };
            assert_eq!(*state, expected, "{name}");
        }
    }
    assert!(session_context_engaged());
    assert_eq!(Snapshot::from_mapping(snapshot().to_mapping()), Ok(snapshot()));
}

#[test]
fn null_stands_for_what_is_unstated() {
    let json = r#"{"version":1,"session":{},"async_delivery":null,"cwd":null}"#;
    assert_eq!(read(json), Ok(Snapshot::default()));
}

#[test]
fn only_a_snapshot_in_which_something_is_bound_trips_the_latch() {
    // Alone in a process: the latch is one flag of it.
    if std::env::var_os("IN_CHILD").is_none() {
        let name = "only_a_snapshot_in_which_something_is_bound_trips_the_latch";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let status = child.args(["--exact", name]).env("IN_CHILD", "1").status().unwrap();
        return assert!(status.success());
    }
    let _ = Snapshot::default().restore();
    let unknown = Snapshot::from_mapping([("NEW_NAME", "1")]).unwrap().restore();
    assert!(!unknown.session().is_bound() && !session_context_engaged());
    let cleared = Snapshot::from_mapping([("HERMES_SESSION_ID", "")]).unwrap().restore();
    assert!(cleared.session().is_bound() && session_context_engaged());
    cleared.sync_scope(reset_session_vars).unwrap();
}
