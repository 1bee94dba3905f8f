//! A bound closure lives no longer than what it borrows.

use hermes_env_bridge::bind;

fn main() {
    let callback = {
        let line = String::from("hello");
        bind(|| line.len())
    };
    let _ = callback();
}
