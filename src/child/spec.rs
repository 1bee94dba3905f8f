//! What a spawner asks for.

use std::ffi::OsString;

use super::credentials::{Credentials, Passthrough};
use super::limits::{EnvLimits, InvalidEnv};
use super::plan::Plan;
use super::platform::Platform;
use super::policy::Policy;
use crate::context::Context;
use crate::session::session_context_engaged;
use crate::state::{SessionState, VarState};

/// What the environment of a child is to be: a policy, and what this one spawn denies, allows and adds.
///
/// Allowing a name decides *whether* the child gets it, and the task decides *what*: an allowed session variable has
/// the value that the task has bound. One that it has not bound is absent under [`Policy::Detached`] and
/// [`Policy::Minimal`]; under [`Policy::Inherit`] it is inherited until a session was bound in the process.
///
/// ```
/// use hermes_env_bridge::{ChildEnv, Policy, Session};
///
/// # fn main() -> Result<(), hermes_env_bridge::InvalidEnv> {
/// let spec = ChildEnv::new().policy(Policy::Detached).allow("HERMES_SESSION_ID").extra("JOB", "7");
/// let plan = Session::new().session_id("S1").session_key("K").sync_scope(|| spec.plan())?;
/// assert_eq!(plan.value("HERMES_SESSION_ID"), Some("S1".as_ref()));
/// assert_eq!(plan.value("HERMES_SESSION_KEY"), None);
/// assert_eq!(plan.value("JOB"), Some("7".as_ref()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a specification does nothing until a plan is made of it"]
pub struct ChildEnv {
    pub(crate) policy: Policy,
    pub(crate) deny: Vec<OsString>,
    pub(crate) allow: Vec<OsString>,
    pub(crate) extra: Extra,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) passthrough: Passthrough,
    pub(crate) delegated: bool,
    pub(crate) home: Option<OsString>,
    pub(crate) cwd: Option<OsString>,
    pub(crate) platform: Platform,
    limits: Option<EnvLimits>,
}

/// What a spawner adds. Values may be secrets: `Debug` names the variables.
#[derive(Clone, Default)]
pub(crate) struct Extra(pub(crate) Vec<(OsString, OsString)>);

impl std::fmt::Debug for Extra {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Default for ChildEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl ChildEnv {
    /// Hermes' rule, by the rules of this system.
    pub fn new() -> Self {
        Self {
            policy: Policy::default(),
            deny: Vec::new(),
            allow: Vec::new(),
            extra: Extra::default(),
            credentials: None,
            passthrough: Passthrough::default(),
            delegated: false,
            home: None,
            cwd: None,
            platform: Platform::HOST,
            limits: None,
        }
    }

    /// Goes by `policy`.
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// Keeps `name` from the child, whatever else is said of it, here or to the command.
    pub fn deny(mut self, name: impl Into<OsString>) -> Self {
        self.deny.push(name.into());
        self
    }

    /// Lets `name` pass where the policy, or the list of blocked credentials, would not.
    pub fn allow(mut self, name: impl Into<OsString>) -> Self {
        self.allow.push(name.into());
        self
    }

    /// Adds a variable, in the place of one that would be inherited, that the task has bound, or that the command was
    /// told.
    pub fn extra(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.extra.0.push((name.into(), value.into()));
        self
    }

    /// Keeps credentials from the child, also those that the command was told.
    pub fn credentials(self, credentials: Credentials) -> Self {
        Self { credentials: Some(credentials), ..self }
    }

    /// Lets the names of a session's skills pass under [`Policy::Minimal`].
    pub fn passthrough(self, passthrough: Passthrough) -> Self {
        Self { passthrough, ..self }
    }

    /// Says whether the task works for another one. Its children are then marked under [`Policy::Detached`] and
    /// [`Policy::Minimal`], as a board worker's are.
    pub fn delegated(self, delegated: bool) -> Self {
        Self { delegated, ..self }
    }

    /// Gives the child `HERMES_HOME`, and takes `HOME` along if that is the home of the profile that is inherited.
    pub fn home(self, home: impl Into<OsString>) -> Self {
        Self { home: Some(home.into()), ..self }
    }

    /// Says in which directory the child is started, so that an inherited `TERMINAL_CWD` says the same.
    pub fn cwd(self, cwd: impl Into<OsString>) -> Self {
        Self { cwd: Some(cwd.into()), ..self }
    }

    /// Goes by the rules of another system, and by its limits unless [`limits`](Self::limits) gives others.
    pub fn platform(self, platform: Platform) -> Self {
        Self { platform, ..self }
    }

    /// Goes by these limits.
    pub fn limits(self, limits: EnvLimits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    pub(crate) fn its_limits(&self) -> EnvLimits {
        self.limits.unwrap_or_else(|| self.platform.limits())
    }

    /// The plan for this process' environment and this task.
    ///
    /// # Errors
    ///
    /// [`InvalidEnv`] if no program can be started with what the plan gives a child.
    pub fn plan(&self) -> Result<Plan, InvalidEnv> {
        self.plan_over(std::env::vars_os(), &Context::current(), session_context_engaged())
    }

    /// The plan for a command that was `told` some names before.
    pub(super) fn plan_beside(&self, told: impl IntoIterator<Item = (OsString, Option<OsString>)>) -> Plan {
        let context = Context::current();
        Plan::unchecked(self, std::env::vars_os(), told, bound_in(context.session()), session_context_engaged())
    }

    /// The plan for any environment, context and latch: a pure function of them.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan).
    ///
    /// ```
    /// use hermes_env_bridge::{ChildEnv, Context, ForChild};
    ///
    /// # fn main() -> Result<(), hermes_env_bridge::InvalidEnv> {
    /// let inherited = [("HERMES_SESSION_KEY", "another's"), ("PATH", "/bin")];
    /// let plan = ChildEnv::new().plan_over(inherited, &Context::current(), true)?;
    /// let key = plan.get("HERMES_SESSION_KEY").unwrap();
    /// assert_eq!(key.action, ForChild::Strip);
    /// assert!(key.why.contains("another one's"));
    /// assert_eq!(plan.value("PATH"), Some("/bin".as_ref()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn plan_over<N: Into<OsString>, V: Into<OsString>>(
        &self,
        inherited: impl IntoIterator<Item = (N, V)>,
        context: &Context,
        engaged: bool,
    ) -> Result<Plan, InvalidEnv> {
        let inherited = inherited.into_iter().map(|(name, value)| (name.into(), value.into()));
        Plan::make(self, inherited, bound_in(context.session()), engaged)
    }
}

/// The session variables, as a child's environment has them.
fn bound_in(session: &SessionState) -> impl Iterator<Item = (OsString, VarState<OsString>)> {
    session.iter().map(|(name, state)| {
        let state = match state {
            VarState::Unset => VarState::Unset,
            VarState::Cleared => VarState::Cleared,
            VarState::Set(value) => VarState::Set(value.as_str().into()),
        };
        (name.into(), state)
    })
}
