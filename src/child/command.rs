//! A plan on a command that is about to be spawned.

use std::ffi::OsStr;
use std::iter;
use std::process::Command;

use super::block::Block;
use super::limits::{InvalidEnv, check};
use super::owned::is_owned;
use super::plan::Planned;
use super::policy::Policy;
use super::spec::ChildEnv;
use crate::explain::ForChild;

/// Gives a command's child the identity of the task, and nobody else's.
///
/// What the child gets is decided by the call, not by the spawn: a session that is bound in between is not seen.
///
/// - What the command was told before (`env`, `envs`, `env_remove`) takes the place of what it would inherit, and passes
///   under every policy. What the specification denies, adds, or takes for a credential goes before it.
/// - A name that is [owned](crate::owns) is decided anew by each call: a command that was given one session can be given
///   another. State such a name with [`ChildEnv::extra`], or after the call.
/// - What the command is told after the call stays as it is.
///
/// Sizes are checked of what the call writes, of what the command was told, and of its arguments. What it inherits by
/// itself is not counted: it may inherit nothing (`env_clear`), and cannot be asked. [`ChildEnv::plan`] counts all of it.
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
        let told = self.get_envs().map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned)));
        let (owned, told): (Vec<_>, Vec<_>) = told.partition(|(name, _)| is_owned(spec.platform, name));
        let owned = Block::new(spec.platform, owned);
        let told = Block::new(spec.platform, told);
        let plan = spec.plan_beside(told.iter().map(|(name, value)| (name.to_owned(), value.clone())));

        // Under the other policies the command inherits it by itself, unless it was told otherwise.
        let is_left = |planned: &Planned| {
            planned.action == ForChild::Keep && spec.policy != Policy::Minimal && !owned.has(&planned.name)
        };
        let is_counted = |planned: &&Planned| !is_left(planned) || told.has(&planned.name);
        let counted = plan.iter().filter(is_counted).filter_map(|planned| Some((&*planned.name, planned.value()?)));
        check(spec.platform, spec.its_limits(), counted, iter::once(self.get_program()).chain(self.get_args()))?;

        if spec.policy == Policy::Minimal {
            let _ = self.env_clear();
        }
        for name in owned.names().filter(|name| plan.get(name).is_none()) {
            let _ = self.env_remove(name);
        }
        for planned in plan.iter().filter(|planned| !is_left(planned)) {
            let _ = match planned.value() {
                Some(value) => self.env(&planned.name, value),
                None => self.env_remove(&planned.name),
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
