//! The environment of a child process: a plan, and what it is applied to.
//!
//! A plan is a pure function of what is inherited, what the task has bound, whether sessions were ever bound in the
//! process, and what the spawner asks for. It says for each name what the child gets, and why.

mod block;
mod command;
mod credentials;
mod limits;
mod owned;
mod plan;
mod platform;
mod policy;
mod shell;
mod spec;

pub use command::SessionCommand;
pub use credentials::{Credentials, Passthrough};
pub use limits::{EnvLimits, InvalidEnv};
pub use owned::{bridged_pairs, owned_names, owns};
pub use plan::{Plan, Planned};
pub use platform::Platform;
pub use policy::{Policy, UnknownPolicy};
pub use shell::{Unrenderable, shell_exports, shell_unset};
pub use spec::ChildEnv;

#[cfg(feature = "python")]
pub(crate) use limits::{check, check_variable};
