//! Only closures and futures enter: there is no call that enters and stays, and no guard.

use hermes_env_bridge::{Context, Session};

fn main() {
    let _guard = Context::current().attach();
    let _guard = Session::new().attach();
}
