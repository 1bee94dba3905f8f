//! An explanation as a program reads it.

use hermes_env_bridge::{Session, explain, explain_all, explain_with_value};
use serde_json::{Value, json};

fn as_json(explanation: &impl serde::Serialize) -> Value {
    serde_json::to_value(explanation).unwrap()
}

#[test]
fn json_has_words_and_reasons_and_a_value_only_if_it_was_asked_for() {
    Session::new().chat_id("42").sync_scope(|| {
        let told = as_json(&explain("HERMES_SESSION_CHAT_ID"));
        assert_eq!((&told["state"], &told["layer"], &told["child"]), (&json!("set"), &json!("task"), &json!("set")));
        assert!(told["why"].is_string() && told["child_why"].is_string());
        assert_eq!(told.get("value"), None);
        assert_eq!(as_json(&explain_with_value("HERMES_SESSION_CHAT_ID"))["value"], json!("42"));
        assert_eq!(as_json(&explain("HERMES_SESSION_USER_ID"))["state"], json!("cleared"));
    });
}

#[test]
fn all_variables_are_explained_in_order() {
    let names: Vec<_> = explain_all().into_iter().map(|explanation| explanation.name).collect();
    let expected: Vec<_> = hermes_env_bridge::VARIABLES.iter().map(|variable| variable.name).collect();
    assert_eq!(names, expected);
}
