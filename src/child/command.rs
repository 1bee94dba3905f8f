//! A plan on a command that is about to be spawned.

use std::ffi::{OsStr, OsString};
use std::process::Command;

use super::block::Block;
use super::limits::{InvalidEnv, check};
use super::policy::Policy;
use super::spec::ChildEnv;
use crate::explain::ForChild;

/// Gives a command's child the identity of the task, and nobody else's.
///
/// What the child gets is decided by the call, not by the spawn: a session that is bound in between is not seen. What
/// the command was told before (`env`, `envs`, `env_remove`) stays as it is, and so does what it is told after.
///
/// Implemented for [`std::process::Command`], and with the feature `process` for `tokio::process::Command`.
///
/// ```
/// use std::process::Command;
///
/// use hermes_env_bridge::{Session, SessionCommand};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let output = Session::new().chat_id("42").sync_scope(|| -> Result<_, Box<dyn std::error::Error>> {
///     let script = "printf %s \"$HERMES_SESSION_CHAT_ID\"";
///     Ok(Command::new("sh").args(["-c", script]).session_env()?.output()?)
/// })?;
/// assert_eq!(output.stdout, b"42");
/// # Ok(())
/// # }
/// ```
pub trait SessionCommand {
    /// Applies Hermes' rule: [`child_env`](Self::child_env) of [`ChildEnv::new`].
    ///
    /// # Errors
    ///
    /// [`InvalidEnv`] if no program can be started so; the command is unchanged.
    fn session_env(&mut self) -> Result<&mut Self, InvalidEnv> {
        self.child_env(&ChildEnv::new())
    }

    /// Applies the plan that `spec` makes of this process' environment and this task.
    ///
    /// Under [`Policy::Minimal`] the command inherits nothing by itself any more.
    ///
    /// # Errors
    ///
    /// [`InvalidEnv`] if no program can be started so; the command is unchanged.
    fn child_env(&mut self, spec: &ChildEnv) -> Result<&mut Self, InvalidEnv>;
}

impl SessionCommand for Command {
    fn child_env(&mut self, spec: &ChildEnv) -> Result<&mut Self, InvalidEnv> {
        let told: Vec<(OsString, Option<OsString>)> =
            self.get_envs().map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned))).collect();
        let plan = spec.plan()?;
        let mut child = Block::new(spec.platform, plan.env().map(|(name, value)| (name.to_owned(), Some(value))));
        for (name, value) in &told {
            child.put(name.clone(), value.as_deref());
        }
        let variables = child.iter().filter_map(|(name, value)| Some((name, (*value)?)));
        check(spec.platform, spec.limits, variables, self.get_args().chain([self.get_program()]))?;

        let told = Block::new(spec.platform, told);
        if spec.policy == Policy::Minimal {
            let _ = self.env_clear();
            for (name, value) in told.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
                let _ = self.env(name, value);
            }
        }
        for planned in plan.iter().filter(|planned| !told.has(&planned.name)) {
            let _ = match (planned.action, planned.value()) {
                // Under the other policies the command inherits it by itself.
                (ForChild::Keep, _) if spec.policy != Policy::Minimal => &mut *self,
                (_, Some(value)) => self.env(&planned.name, value),
                (_, None) => self.env_remove(&planned.name),
            };
        }
        Ok(self)
    }
}

#[cfg(feature = "process")]
impl SessionCommand for tokio::process::Command {
    fn child_env(&mut self, spec: &ChildEnv) -> Result<&mut Self, InvalidEnv> {
        let _ = self.as_std_mut().child_env(spec)?;
        Ok(self)
    }
}
