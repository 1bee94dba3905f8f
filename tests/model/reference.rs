//! The model: what each step of a program sees, by plain values and no concurrency.

use std::collections::BTreeMap;

use crate::program::{Blocking, Call, Callback, End, Entry, Inline, Spawn, Stated, Step, Task, Verb};

/// The variables with a keyword: those of a session.
pub const SESSION: [(&str, &str); 19] = [
    ("platform", "HERMES_SESSION_PLATFORM"),
    ("source", "HERMES_SESSION_SOURCE"),
    ("chat_id", "HERMES_SESSION_CHAT_ID"),
    ("chat_type", "HERMES_SESSION_CHAT_TYPE"),
    ("chat_name", "HERMES_SESSION_CHAT_NAME"),
    ("thread_id", "HERMES_SESSION_THREAD_ID"),
    ("user_id", "HERMES_SESSION_USER_ID"),
    ("user_id_alt", "HERMES_SESSION_USER_ID_ALT"),
    ("user_name", "HERMES_SESSION_USER_NAME"),
    ("scope_id", "HERMES_SESSION_SCOPE_ID"),
    ("session_key", "HERMES_SESSION_KEY"),
    ("session_id", "HERMES_SESSION_ID"),
    ("ui_session_id", "HERMES_UI_SESSION_ID"),
    ("message_id", "HERMES_SESSION_MESSAGE_ID"),
    ("profile", "HERMES_SESSION_PROFILE"),
    ("browser_control_principal", "HERMES_BROWSER_CONTROL_PRINCIPAL"),
    ("browser_control_transport_family", "HERMES_BROWSER_CONTROL_TRANSPORT_FAMILY"),
    ("cron_session", "HERMES_CRON_SESSION"),
    ("parent_chat_id", "HERMES_SESSION_PARENT_CHAT_ID"),
];
const ID: &str = "HERMES_SESSION_ID";

/// What a task holds: a name that is not there is unset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub bound: BTreeMap<String, String>,
    pub async_delivery: Option<bool>,
    pub cwd: Option<String>,
}

impl State {
    /// What a read of `name` returns: what is bound, else the environment's, else `default`.
    pub fn read(&self, name: &str, default: &str) -> String {
        self.bound.get(name).cloned().or_else(|| std::env::var(name).ok()).unwrap_or_else(|| default.to_owned())
    }

    fn bind(&mut self, session: &Stated) {
        for (keyword, name) in SESSION {
            let given = session.pairs.iter().find(|(given, _)| *given == keyword).map(|(_, value)| value.clone());
            let absent = (keyword != "cron_session").then(String::new);
            self.put(name, given.or(absent));
        }
        self.async_delivery = Some(session.async_delivery);
        self.cwd = session.cwd.clone().filter(|cwd| !cwd.is_empty());
    }

    fn put(&mut self, name: &str, value: Option<String>) {
        let _ = match value {
            Some(value) => self.bound.insert(name.to_owned(), value),
            None => self.bound.remove(name),
        };
    }

    fn apply(&mut self, verb: &Verb) {
        match verb {
            Verb::Set(session) => self.bind(session),
            Verb::Clear => {
                for (_, name) in SESSION {
                    self.put(name, Some(String::new()));
                }
                (self.async_delivery, self.cwd) = (None, None);
            }
            Verb::Reset => *self = Self::default(),
            Verb::SetId(id) => self.put(ID, Some(id.clone())),
            Verb::Stateless => self.async_delivery = Some(false),
        }
    }
}

/// What is seen at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Read(State),
    /// A read by a destructor.
    Dropped(State),
    Verb {
        accepted: bool,
    },
    Caught,
    /// What a child or branch saw, and how it ended.
    Child(Vec<Seen>, Outcome),
    /// What a child saw that was aborted at any time: as much of it as there was time for.
    Aborted(Vec<Seen>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Panicked,
    Aborted,
}

impl Seen {
    /// How many reads this has.
    pub fn reads(&self) -> usize {
        match self {
            Self::Read(_) | Self::Dropped(_) => 1,
            Self::Verb { .. } | Self::Caught => 0,
            Self::Child(seen, _) | Self::Aborted(seen) => seen.iter().map(Self::reads).sum(),
        }
    }
}

/// Whether what was seen is what the model says.
pub fn matches(expected: &[Seen], seen: &[Seen]) -> bool {
    expected.len() == seen.len() && expected.iter().zip(seen).all(is_match)
}

fn is_match(pair: (&Seen, &Seen)) -> bool {
    match pair {
        (Seen::Aborted(expected), Seen::Aborted(seen)) => {
            seen.len() <= expected.len() && expected.iter().zip(seen).all(is_match)
        }
        (Seen::Child(expected, a), Seen::Child(seen, b)) => a == b && matches(expected, seen),
        (expected, seen) => expected == seen,
    }
}

/// What the steps of a program see.
pub fn run(steps: &[Step]) -> Vec<Seen> {
    Model::child(None, Leave { hanging: false, guards: true }, |model| model.steps(steps)).0
}

/// Why the rest of the steps is left out.
enum Stop {
    Panic,
    Hang,
}

/// How a task may be left.
#[derive(Clone, Copy)]
struct Leave {
    /// It is aborted when it hangs.
    hanging: bool,
    /// Its destructors read.
    guards: bool,
}

struct Model {
    scope: Option<State>,
    log: Vec<Seen>,
    leave: Leave,
}

impl Model {
    fn child(
        scope: Option<State>,
        leave: Leave,
        f: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> (Vec<Seen>, Outcome) {
        let mut model = Self { scope, log: Vec::new(), leave };
        let outcome = match f(&mut model) {
            Ok(()) => Outcome::Done,
            Err(Stop::Panic) => Outcome::Panicked,
            Err(Stop::Hang) => Outcome::Aborted,
        };
        (model.log, outcome)
    }

    fn current(&self) -> State {
        self.scope.clone().unwrap_or_default()
    }

    fn dropped(&mut self) {
        if self.leave.guards {
            self.log.push(Seen::Dropped(self.current()));
        }
    }

    /// Runs `f` with `state`, and returns what became of that.
    fn within(
        &mut self,
        state: State,
        f: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> (Option<State>, Result<(), Stop>) {
        let outer = self.scope.replace(state);
        let result = f(self);
        (std::mem::replace(&mut self.scope, outer), result)
    }

    /// As `within`, with a guard that is dropped at the end.
    fn guarded(&mut self, state: State, f: impl FnOnce(&mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        let body = |model: &mut Self| {
            let result = f(model);
            model.dropped();
            result
        };
        self.within(state, body).1
    }

    fn entered(&self, entry: &Entry) -> State {
        let mut state = State::default();
        match entry {
            Entry::Session(session) => state.bind(session),
            Entry::Current | Entry::Carried(_) => state = self.current(),
            Entry::Restored(pairs) => pairs.iter().for_each(|(name, value)| state.put(name, Some(value.clone()))),
        }
        state
    }

    fn inlines(&mut self, steps: &[Inline]) -> Result<(), Stop> {
        steps.iter().try_for_each(|step| self.inline(step))
    }

    fn inline(&mut self, step: &Inline) -> Result<(), Stop> {
        match step {
            Inline::Read => self.log.push(Seen::Read(self.current())),
            Inline::Verb(verb) => {
                self.scope.iter_mut().for_each(|state| state.apply(verb));
                self.log.push(Seen::Verb { accepted: self.scope.is_some() });
            }
            Inline::ScopedId(id, body) => {
                let Some(state) = &mut self.scope else {
                    self.log.push(Seen::Verb { accepted: false });
                    return Ok(());
                };
                let before = state.bound.get(ID).cloned();
                state.put(ID, id.clone().or_else(|| before.clone()));
                let result = self.inlines(body);
                self.scope.iter_mut().for_each(|state| state.put(ID, before.clone()));
                result?;
                self.log.push(Seen::Verb { accepted: true });
            }
            Inline::Scope(session, body) => {
                let state = self.entered(&Entry::Session(session.clone()));
                self.guarded(state, |model| model.inlines(body))?;
            }
            Inline::Copy(body) => self.guarded(self.current(), |model| model.inlines(body))?,
            Inline::Catch(body) => {
                if self.inlines(body).is_err() {
                    self.log.push(Seen::Caught);
                }
            }
            Inline::Bind { callback, body, call } => {
                let bound = self.current();
                match call {
                    Call::Never => self.guarded(bound, |_| Ok(()))?,
                    Call::Here => self.call(*callback, bound, body)?,
                    // A thread has no scope, and whoever waits for it panics as it does.
                    Call::OnThread => {
                        let outer = self.scope.take();
                        let result = self.call(*callback, bound, body);
                        self.scope = outer;
                        result?;
                    }
                    Call::InSession(session) => {
                        let state = self.entered(&Entry::Session(session.clone()));
                        let call = |model: &mut Self| {
                            model.call(*callback, bound, body)?;
                            model.inline(&Inline::Read)
                        };
                        self.within(state, call).1?;
                    }
                }
            }
            Inline::Panic => return Err(Stop::Panic),
        }
        Ok(())
    }

    fn call(&mut self, callback: Callback, bound: State, body: &[Inline]) -> Result<(), Stop> {
        match callback {
            Callback::Once => self.guarded(bound, |model| model.inlines(body)),
            // Each call starts as it was bound, and so does the drop.
            Callback::Fn | Callback::Mut => {
                let result = (0..2).try_for_each(|_| self.within(bound.clone(), |model| model.inlines(body)).1);
                self.guarded(bound, |_| result)
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Stop> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Inline(step) => self.inline(step)?,
            Step::BlockInPlace(steps) => self.inlines(steps)?,
            Step::Hang if self.leave.hanging => return Err(Stop::Hang),
            Step::Yield | Step::Sleep | Step::Hang => {}
            Step::Scope(entry, steps) => self.guarded(self.entered(entry), |model| model.steps(steps))?,
            Step::Catch(steps) => match self.steps(steps) {
                Err(Stop::Panic) => self.log.push(Seen::Caught),
                other => other?,
            },
            Step::Together { branches, .. } => {
                let leave = Leave { hanging: false, ..self.leave };
                for (entry, steps) in branches {
                    let state = self.entered(entry);
                    let run = |model: &mut Self| model.guarded(state, |model| model.steps(steps));
                    let (seen, outcome) = Self::child(self.scope.clone(), leave, run);
                    self.log.push(Seen::Child(seen, outcome));
                }
            }
            Step::Spawn { how, child, meanwhile } => {
                let child = self.spawn(how, child);
                self.steps(meanwhile)?;
                self.log.push(child);
            }
            Step::Stream { entry, items, taken, between } => {
                self.items(entry, items.iter().take(*taken), between)?;
            }
            Step::Sink { entry, items, between } => self.items(entry, items.iter(), between)?,
        }
        Ok(())
    }

    fn spawn(&self, how: &Spawn, steps: &[Step]) -> Seen {
        let inherited = Some(self.current());
        let (scope, end) = match how {
            Spawn::Task(Task::Plain, end) => (None, *end),
            Spawn::Task(Task::Detached, end) => (Some(State::default()), *end),
            Spawn::Task(Task::Inheriting | Task::InSet, end) => (inherited, *end),
            Spawn::Blocking(Blocking::Local { inheriting: false }) => (None, End::Join),
            Spawn::Blocking(_) => (inherited, End::Join),
        };
        let guards = self.leave.guards && !matches!(end, End::AbortAfter(_));
        let leave = Leave { hanging: matches!(end, End::AbortHanging), guards };
        let run = |model: &mut Self| {
            let result = model.steps(steps);
            model.dropped();
            result
        };
        let (seen, outcome) = Self::child(scope, leave, run);
        if matches!(end, End::AbortAfter(_)) { Seen::Aborted(seen) } else { Seen::Child(seen, outcome) }
    }

    /// What is inside keeps its state from item to item, and nothing of it is seen between them.
    fn items<'a>(
        &mut self,
        entry: &Entry,
        items: impl Iterator<Item = &'a Vec<Step>>,
        between: &[Step],
    ) -> Result<(), Stop> {
        let mut inside = self.entered(entry);
        let mut result = Ok(());
        for item in items {
            let (state, ran) = self.within(inside, |model| model.steps(item));
            inside = state.expect("what was entered is there until it is left");
            result = ran.and_then(|()| self.steps(between));
            if result.is_err() {
                break;
            }
        }
        self.guarded(inside, |_| result)
    }
}
