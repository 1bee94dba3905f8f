//! Reads that fall through to the environment, each in a process that was started with one.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

use hermes_env_bridge::{
    Session, async_delivery_supported, clear_session_vars, declare_stateless_channel, get_session_env,
    get_session_env_os, reset_session_vars, session_is_messaging_surface, set_session_vars, try_get_session_env,
};

const NAME: &str = "HERMES_SESSION_CHAT_NAME";

/// Runs the test `name` again in a child with `variables`, unless this is that child.
fn in_child(name: &str, variables: &[(&str, &OsStr)], body: impl FnOnce()) {
    if std::env::var_os("IN_CHILD").is_some() {
        return body();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    for name in ["HERMES_PLATFORM", "HERMES_KANBAN_TASK", NAME] {
        let _ = child.env_remove(name);
    }
    let Output { status, stdout, .. } = child
        .args(["--exact", name, "--nocapture"])
        .env("IN_CHILD", "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&stdout);
    assert!(status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn an_unset_variable_falls_back_and_a_bound_one_does_not() {
    in_child(
        "an_unset_variable_falls_back_and_a_bound_one_does_not",
        &[(NAME, OsStr::new("stale")), ("OTHER_NAME", OsStr::new("other"))],
        || {
            assert_eq!(get_session_env(NAME, "d"), "stale");
            Session::new().chat_name("live").sync_scope(|| assert_eq!(get_session_env(NAME, "d"), "live"));
            Session::new().sync_scope(|| {
                assert_eq!(get_session_env(NAME, "d"), "");
                reset_session_vars().unwrap();
                assert_eq!(get_session_env(NAME, "d"), "stale");
            });
            assert_eq!(get_session_env("OTHER_NAME", "d"), "other");
            assert_eq!(get_session_env("NO_SUCH_NAME", "d"), "d");
        },
    );
}

#[test]
fn a_value_that_is_not_utf8_comes_whole_or_as_an_error_and_never_as_a_panic() {
    let bytes = OsStr::from_bytes(b"\xff\xfe");
    in_child(
        "a_value_that_is_not_utf8_comes_whole_or_as_an_error_and_never_as_a_panic",
        &[(NAME, bytes), ("UNRELATED", bytes)],
        || {
            assert_eq!(get_session_env_os(NAME), Some(OsString::from(bytes)));
            let error = try_get_session_env(NAME).unwrap_err();
            assert_eq!((error.name.as_str(), error.value.as_os_str()), (NAME, bytes));
            assert!(error.to_string().contains(NAME));
            assert_eq!(get_session_env(NAME, "d"), "d");
        },
    );
}

#[test]
fn names_that_no_environment_can_hold_are_absent() {
    for name in ["", "a=b", "a\0b"] {
        assert_eq!(get_session_env(name, "d"), "d");
    }
}

#[test]
fn a_board_worker_cannot_deliver_later() {
    in_child("a_board_worker_cannot_deliver_later", &[("HERMES_KANBAN_TASK", OsStr::new("t1"))], || {
        assert!(!async_delivery_supported());
        assert!(!Session::new().async_delivery(true).sync_scope(async_delivery_supported));
    });
}

#[test]
fn an_empty_board_marker_is_none() {
    in_child("an_empty_board_marker_is_none", &[("HERMES_KANBAN_TASK", OsStr::new(""))], || {
        assert!(async_delivery_supported());
    });
}

#[test]
fn a_process_wide_platform_replaces_the_sessions_but_not_its_source() {
    in_child(
        "a_process_wide_platform_replaces_the_sessions_but_not_its_source",
        &[("HERMES_PLATFORM", OsStr::new("cli"))],
        || {
            assert!(!Session::new().platform("telegram").sync_scope(session_is_messaging_surface));
            assert!(Session::new().source("telegram").sync_scope(session_is_messaging_surface));
        },
    );
}

#[test]
fn a_stateless_channel_is_declared_until_a_later_bind() {
    in_child("a_stateless_channel_is_declared_until_a_later_bind", &[], || {
        Session::new().sync_scope(|| {
            assert!(async_delivery_supported());
            declare_stateless_channel().unwrap();
            assert!(!async_delivery_supported());
            set_session_vars(Session::new()).unwrap();
            assert!(async_delivery_supported());
            set_session_vars(Session::new().async_delivery(false)).unwrap();
            assert!(!async_delivery_supported());
            clear_session_vars().unwrap();
            assert!(async_delivery_supported());
        });
    });
}

#[test]
fn a_surface_that_nobody_listed_is_a_chat() {
    in_child("a_surface_that_nobody_listed_is_a_chat", &[], || {
        let messaging = |session: Session| session.sync_scope(session_is_messaging_surface);
        assert!(messaging(Session::new().platform("telegram")));
        assert!(!messaging(Session::new().platform(" CLI \x1c")));
        assert!(!messaging(Session::new().platform("api_server")));
        assert!(messaging(Session::new().platform("api_server").source("telegram")));
        assert!(!messaging(Session::new()));
    });
}
