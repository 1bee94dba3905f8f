//! A scope is made by a session or a context, with the context that it carries.

use hermes_env_bridge::Scope;

fn main() {
    let _ = Scope { entered: None, inner: Some(()) };
}
