//! The empty string is no value: a variable that is set to it cannot be built.

use hermes_env_bridge::{Value, VarState};

fn main() {
    let _ = VarState::Set(Value("".into()));
}
