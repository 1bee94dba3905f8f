//! The latch is one flag of the process, so its test is alone in one.

use hermes_env_bridge::{
    Session, clear_session_vars, declare_stateless_channel, reset_session_vars, session_context_engaged,
    set_session_vars,
};

#[tokio::test]
async fn only_a_session_that_is_bound_trips_the_latch_and_nothing_untrips_it() {
    assert!(!session_context_engaged());
    assert!(set_session_vars(Session::new().platform("telegram")).is_err());
    assert!(clear_session_vars().is_err() && reset_session_vars().is_err() && declare_stateless_channel().is_err());
    assert!(!session_context_engaged(), "a refused verb trips nothing");

    Session::new().scope(async { assert!(session_context_engaged()) }).await;
    assert!(session_context_engaged());
    Session::new().sync_scope(|| reset_session_vars().and_then(|()| clear_session_vars())).unwrap();
    assert!(session_context_engaged());
}
