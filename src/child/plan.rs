//! What a child gets under each name, and why.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

use super::block::Block;
use super::limits::{InvalidEnv, check};
use super::owned::{DESCENT, is_claim, is_descent, is_owned, is_session};
use super::platform::Platform;
use super::policy::{Policy, is_essential};
use super::spec::ChildEnv;
use crate::explain::{Facts, ForChild};
use crate::names::BOARD_TASK;
use crate::state::VarState;

const HERMES_HOME: &str = "HERMES_HOME";
const HOME: &str = "HOME";
const TERMINAL_CWD: &str = "TERMINAL_CWD";

/// Under a policy that lets no session pass by itself.
const UNBOUND: &str = "the spawner allows it, but this task has not bound it, and another's is not inherited";

/// What a child gets under one name. `Debug` and `Display` show the name and the reason; never the value, which may be
/// a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Planned {
    /// The name.
    pub name: OsString,
    /// What is done with it.
    pub action: ForChild,
    /// Why.
    pub why: &'static str,
    value: Option<OsString>,
}

impl Planned {
    /// The value in the child's environment, `None` if the name is not in it.
    #[must_use]
    pub fn value(&self) -> Option<&OsStr> {
        self.value.as_deref()
    }
}

impl fmt::Debug for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned").field("name", &self.name).field("action", &self.action).finish_non_exhaustive()
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.name.to_string_lossy(), self.action.as_str(), self.why)
    }
}

/// The environment of a child, decided name by name. Made by [`ChildEnv::plan`].
#[derive(Clone)]
pub struct Plan(Block<Planned>);

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Plan {
    /// What is done with each name that is inherited, a session variable, or added, in this order.
    pub fn iter(&self) -> impl Iterator<Item = &Planned> {
        self.0.iter().map(|(_, planned)| planned)
    }

    /// What is done with `name`, `None` if nothing is known of it.
    #[must_use]
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&Planned> {
        self.0.get(name.as_ref())
    }

    /// The value of `name` in the child's environment.
    #[must_use]
    pub fn value(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.get(name)?.value()
    }

    /// The child's environment.
    pub fn env(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.iter().filter_map(|planned| Some((planned.name.as_os_str(), planned.value()?)))
    }

    /// The child's environment, as a map.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<OsString, OsString> {
        self.env().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Decides every name. `session` has the variables in the states in which the task holds them.
    pub(crate) fn make(
        spec: &ChildEnv,
        inherited: impl Iterator<Item = (OsString, OsString)>,
        session: impl Iterator<Item = (OsString, VarState<OsString>)>,
        engaged: bool,
    ) -> Result<Self, InvalidEnv> {
        let plan = Self::unchecked(spec, inherited, [], session, engaged);
        check(spec.platform, spec.its_limits(), plan.env(), [])?;
        Ok(plan)
    }

    /// As [`make`](Self::make), whether or not a program can be started so. What a command was `told` takes the place of
    /// what is inherited, and passes under every policy.
    pub(super) fn unchecked(
        spec: &ChildEnv,
        inherited: impl Iterator<Item = (OsString, OsString)>,
        told: impl IntoIterator<Item = (OsString, Option<OsString>)>,
        session: impl Iterator<Item = (OsString, VarState<OsString>)>,
        engaged: bool,
    ) -> Self {
        let told = Block::new(spec.platform, told);
        let question = Question::new(spec, inherited, told, session, engaged);
        let mut plan = Self(Block::new(spec.platform, []));
        for name in question.names() {
            if !plan.0.has(name) {
                plan.0.put(name.to_owned(), question.decide(name));
            }
        }
        plan
    }
}

/// What a name gets: the action, its reason, and the value if there is one.
type Decision = (ForChild, &'static str, Option<OsString>);

/// All that decides.
struct Question<'a> {
    spec: &'a ChildEnv,
    inherited: Block<OsString>,
    told: Block<Option<OsString>>,
    session: Block<VarState<OsString>>,
    deny: Block<()>,
    allow: Block<()>,
    passthrough: Block<()>,
    /// What the spawner adds, or why it may not.
    extra: Block<Result<OsString, &'static str>>,
    /// What follows from where the child is to run.
    place: Block<OsString>,
    engaged: bool,
}

impl<'a> Question<'a> {
    fn new(
        spec: &'a ChildEnv,
        inherited: impl Iterator<Item = (OsString, OsString)>,
        told: Block<Option<OsString>>,
        session: impl Iterator<Item = (OsString, VarState<OsString>)>,
        engaged: bool,
    ) -> Self {
        let platform = spec.platform;
        let names = |names: &[OsString]| Block::new(platform, names.iter().map(|name| (name.clone(), ())));
        let allow = names(&spec.allow);
        let mut extra = Block::new(platform, []);
        for (name, value) in &spec.extra.0 {
            match spec
                .credentials
                .as_ref()
                .map_or_else(|| Ok(name.clone()), |credentials| credentials.admit(platform, name, allow.has(name)))
            {
                Ok(name) => extra.put(name, Ok(value.clone())),
                // It may have been added under the other name.
                Err(why) if !extra.has(name) => extra.put(name.clone(), Err(why)),
                Err(_) => {}
            }
        }
        let stated = told.iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        let inherited = inherited.filter(|(name, _)| !told.has(name)).chain(stated);
        let inherited = Block::new(platform, inherited);
        Self {
            spec,
            session: Block::new(platform, session),
            deny: names(&spec.deny),
            passthrough: spec.passthrough.block(platform),
            place: place(spec, &inherited),
            inherited,
            told,
            allow,
            extra,
            engaged,
        }
    }

    /// Every name that may be decided on; some come more than once.
    fn names(&self) -> impl Iterator<Item = &OsStr> {
        let mark = (self.marks() && self.descends()).then_some(OsStr::new(DESCENT));
        self.inherited
            .names()
            .chain(self.session.names())
            .chain(self.place.names())
            .chain(self.extra.names())
            .chain(mark)
    }

    fn decide(&self, name: &OsStr) -> Planned {
        let (action, why, value) = self.decision(name);
        Planned { name: name.to_owned(), action, why, value }
    }

    fn decision(&self, name: &OsStr) -> Decision {
        if self.deny.has(name) {
            return self.without(name, "the spawner denies it");
        }
        match self.extra.get(name) {
            Some(Ok(value)) => return with(value.clone(), "the spawner adds it"),
            Some(Err(why)) => return self.without(name, why),
            None => {}
        }
        if let Some(value) = self.place.get(name) {
            return with(value.clone(), "it says where the child runs");
        }
        if let Some(state) = self.session.get(name) {
            return self.session_variable(name, state);
        }
        if self.marks() {
            if is_descent(self.platform(), name) && self.descends() {
                return with("1".into(), "the child descends from a board worker or a delegated task and is none");
            }
            // What the session module has is decided above; what it has not, this task cannot have bound.
            if is_session(self.platform(), name) && self.allow.has(name) {
                return self.without(name, UNBOUND);
            }
            if is_owned(self.platform(), name) && !self.allow.has(name) {
                return self.without(name, "it belongs to this process, and the spawner did not state it");
            }
        }
        if let Some(credentials) = &self.spec.credentials {
            if let Some(why) = credentials.verdict(self.platform(), name, self.allow.has(name)) {
                return self.without(name, why);
            }
        }
        if self.spec.policy == Policy::Minimal {
            return self.minimal(name);
        }
        self.inherit(name, "it is no session variable, so the session's rule leaves it alone")
    }

    /// Whether the child works for a board's worker or a delegated task and is none itself: it is a worker that gets a
    /// card of its own, or this process'.
    fn descends(&self) -> bool {
        let is_worker = |name: &OsStr| is_claim(self.platform(), name) || is_descent(self.platform(), name);
        let mut inherited = self.inherited.iter();
        let of_a_worker = self.spec.delegated || inherited.any(|(name, value)| !value.is_empty() && is_worker(name));
        let (_, _, card) = self.decision(BOARD_TASK.as_ref());
        of_a_worker && card.is_none_or(|card| card.is_empty())
    }

    /// The rule is Hermes' own where the variable may pass at all.
    fn session_variable(&self, name: &OsStr, state: &VarState<OsString>) -> Decision {
        if self.marks() && !self.allow.has(name) {
            return self.without(name, "it belongs to this process' session, and the spawner did not state it");
        }
        let (bound, value) = match state {
            VarState::Unset => (VarState::Unset, None),
            VarState::Cleared => (VarState::Cleared, Some(OsString::new())),
            VarState::Set(value) => (VarState::Set(()), Some(value.clone())),
        };
        let facts = Facts {
            is_session_variable: true,
            state: bound,
            in_environment: self.inherited.has(name),
            engaged: self.engaged,
        };
        let (action, why) = facts.child();
        if action == ForChild::Keep && self.marks() {
            return self.without(name, UNBOUND);
        }
        let value = if action == ForChild::Keep { self.inherited.get(name).cloned() } else { value };
        (action, why, value)
    }

    fn minimal(&self, name: &OsStr) -> Decision {
        if self.allow.has(name) {
            return self.inherit(name, "the spawner allows it");
        }
        if self.told.has(name) {
            return self.inherit(name, "the command was told it");
        }
        if self.passthrough.has(name) {
            return self.inherit(name, "the session's skills hand it on");
        }
        if is_essential(self.platform(), name) {
            return self.inherit(name, "a program may need it to run at all");
        }
        self.without(name, "it is not on the allow-list")
    }

    fn inherit(&self, name: &OsStr, why: &'static str) -> Decision {
        let value = self.inherited.get(name).cloned();
        if value.is_some() { (ForChild::Keep, why, value) } else { (ForChild::Absent, why, None) }
    }

    fn without(&self, name: &OsStr, why: &'static str) -> Decision {
        (if self.inherited.has(name) { ForChild::Strip } else { ForChild::Absent }, why, None)
    }

    /// Whether children get nothing that makes them this process' session or worker.
    fn marks(&self) -> bool {
        self.spec.policy != Policy::Inherit
    }

    fn platform(&self) -> Platform {
        self.spec.platform
    }
}

fn with(value: OsString, why: &'static str) -> Decision {
    (if value.is_empty() { ForChild::Empty } else { ForChild::Set }, why, Some(value))
}

/// `HERMES_HOME` and `HOME` belong to one profile, and an inherited `TERMINAL_CWD` to one directory.
fn place(spec: &ChildEnv, inherited: &Block<OsString>) -> Block<OsString> {
    let mut place = Block::new(spec.platform, []);
    if let Some(home) = &spec.home {
        place.put(HERMES_HOME.into(), home.clone());
        let inside = |profile: &OsString| Path::new(profile).join("home").into_os_string();
        let (before, user) = (inherited.get(HERMES_HOME.as_ref()), inherited.get(HOME.as_ref()));
        if before.is_some_and(|before| user == Some(&inside(before))) {
            place.put(HOME.into(), inside(home));
        }
    }
    if let Some(cwd) = spec.cwd.as_ref().filter(|_| inherited.has(TERMINAL_CWD.as_ref())) {
        place.put(TERMINAL_CWD.into(), cwd.clone());
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "HERMES_SESSION_KEY";
    const TASK: &str = "HERMES_KANBAN_TASK";

    fn planned(spec: &ChildEnv, state: Option<VarState<OsString>>, engaged: bool) -> Plan {
        let inherited = [(KEY.into(), "inherited".into()), (TASK.into(), "t1".into())];
        Plan::make(spec, inherited.into_iter(), state.map(|state| (KEY.into(), state)).into_iter(), engaged).unwrap()
    }

    #[test]
    fn under_a_strict_policy_an_allowed_session_variable_is_what_the_task_has_bound_and_never_what_is_inherited() {
        let cases = [
            (None, None), // the session module does not have it
            (Some(VarState::Unset), None),
            (Some(VarState::Cleared), Some("")),
            (Some(VarState::Set("bound".into())), Some("bound")),
        ];
        for policy in [Policy::Detached, Policy::Minimal] {
            for engaged in [false, true] {
                for (state, expected) in cases.clone() {
                    let plan = planned(&ChildEnv::new().policy(policy).allow(KEY), state.clone(), engaged);
                    assert_eq!(plan.value(KEY), expected.map(OsStr::new), "{policy:?}, {state:?}, engaged: {engaged}");
                }
            }
        }
    }

    #[test]
    fn a_child_that_is_handed_the_claim_is_a_worker_and_no_descendant_of_one() {
        for policy in [Policy::Detached, Policy::Minimal] {
            let spec = ChildEnv::new().policy(policy);
            let told = |spec: &ChildEnv| {
                let plan = planned(spec, None, false);
                (plan.value(TASK).is_some(), plan.value(DESCENT).is_some())
            };
            assert_eq!(told(&spec), (false, true), "{policy:?}");
            assert_eq!(told(&spec.clone().allow(TASK)), (true, false), "{policy:?}");
            assert_eq!(told(&spec.clone().extra(TASK, "t2")), (true, false), "{policy:?}");
            assert_eq!(told(&spec.clone().allow(TASK).deny(TASK)), (false, true), "{policy:?}");
            assert_eq!(told(&spec.extra(TASK, "t2").deny(TASK)), (false, true), "{policy:?}");
        }
    }
}
