//! A session has the variables of the table and no other.

use hermes_env_bridge::Session;

fn main() {
    let _ = Session::new().platform("telegram").chat("42");
}
