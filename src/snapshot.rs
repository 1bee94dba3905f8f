//! A context as plain data, for another process or another time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::context::Context;
use crate::error::SnapshotError;
use crate::json::{Node, RawFields, depth};
use crate::names::{ASYNC_DELIVERY, RUN_CONTEXT, SESSION_CWD};
use crate::run::OmniusRunContext;
use crate::session::{Session, engage};
use crate::shape::Shape;
use crate::state::{SessionState, Value, VarState};

/// The version of the JSON form.
const VERSION: u64 = 1;

/// What a context held at one moment, as plain data that keeps the three states apart.
///
/// The JSON form is `{"version": 1, "session": {NAME: TEXT, …}, "async_delivery": BOOL, "cwd": TEXT, "run": {…}}`: a
/// variable that is unset is not there, one that is cleared is `""`; what is unstated is not there. The run has the form
/// of [`OmniusRunContext::to_json`]. Fields and variables that this version does not know are kept, and written again
/// as they were read, unless [`Limits::unknown`] refuses them.
///
/// Values may be secrets: `Debug` shows names and states, JSON and mappings have the values.
///
/// ```
/// use hermes_env_bridge::{Limits, Session, Snapshot, get_session_env};
///
/// # fn main() -> Result<(), hermes_env_bridge::SnapshotError> {
/// let json = Session::new().chat_id("42").sync_scope(|| Snapshot::capture().to_json());
/// // In another process:
/// let context = Snapshot::from_json(&json, Limits::default())?.restore();
/// assert_eq!(context.sync_scope(|| get_session_env("HERMES_SESSION_CHAT_ID", "none")), "42");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What is bound, `Cleared` or `Set`, also under names that the table does not have.
    variables: BTreeMap<String, VarState>,
    async_delivery: Option<bool>,
    cwd: Option<Value>,
    run: Option<Arc<OmniusRunContext>>,
    /// Fields that this version does not know.
    unknown: RawFields,
}

/// What an input may be, so that nobody's input can exhaust the reader.
///
/// ```
/// use hermes_env_bridge::{Limits, Snapshot, SnapshotError};
///
/// let small = Limits { bytes: 16, ..Limits::default() };
/// let error = Snapshot::from_json(&Snapshot::capture().to_json(), small).unwrap_err();
/// assert!(matches!(error, SnapshotError::TooLarge { limit: 16, .. }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of JSON that are read.
    pub bytes: usize,
    /// The deepest nesting of arrays and objects; that of a snapshot without unknown fields is 2.
    pub depth: usize,
    /// What becomes of fields and variables that this version does not know.
    pub unknown: Unknown,
}

/// What becomes of fields and variables that this version does not know.
///
/// ```
/// use hermes_env_bridge::{Limits, Snapshot, SnapshotError, Unknown};
///
/// let newer = r#"{"version": 1, "session": {"HERMES_SESSION_MOOD": "fine"}}"#;
/// let kept = Snapshot::from_json(newer, Limits::default()).unwrap();
/// assert!(kept.to_json().contains("HERMES_SESSION_MOOD"));
///
/// let strict = Limits { unknown: Unknown::Refuse, ..Limits::default() };
/// let name = "HERMES_SESSION_MOOD".to_owned();
/// assert_eq!(Snapshot::from_json(newer, strict), Err(SnapshotError::Unknown { name }));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unknown {
    /// They stay in the snapshot, and are written again; [`Snapshot::restore`] does not bind them.
    #[default]
    Keep,
    /// They are an error.
    Refuse,
}

impl Default for Limits {
    /// 64 KiB, a depth of 16, and unknown fields kept.
    fn default() -> Self {
        Self { bytes: 64 * 1024, depth: 16, unknown: Unknown::Keep }
    }
}

/// One difference between two snapshots.
///
/// ```
/// use hermes_env_bridge::{Session, Snapshot, VarState};
///
/// let before = Session::new().chat_id("42").sync_scope(Snapshot::capture);
/// let after = Session::new().sync_scope(Snapshot::capture);
/// let change = before.diff(&after).remove(0);
/// assert_eq!((change.before, change.after), (VarState::bound("42"), VarState::Cleared));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The variable; `HERMES_SESSION_ASYNC_DELIVERY`, `HERMES_SESSION_CWD` and `OMNIUS_RUN_CONTEXT` stand for what is
    /// stated beside them.
    pub name: String,
    /// What the first snapshot holds.
    pub before: VarState,
    /// What the second one holds.
    pub after: VarState,
}

/// The name and both states in a word, without values.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.name, self.before.as_str(), self.after.as_str())
    }
}

impl Snapshot {
    /// What the current context holds.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, Snapshot};
    ///
    /// let snapshot = Session::new().chat_id("42").sync_scope(Snapshot::capture);
    /// assert_eq!(snapshot.to_mapping()["HERMES_SESSION_CHAT_ID"], "42");
    /// ```
    #[must_use]
    pub fn capture() -> Self {
        Self::from(&Context::current())
    }

    /// The context that this describes. Enter it with [`Context::scope`], [`Context::sync_scope`] or
    /// [`Context::bind`]. If anything is bound, the [latch](crate::session_context_engaged) trips.
    ///
    /// What is unset is read from the environment of whoever restores it; see [`restore_masked`](Self::restore_masked). A
    /// variable that this version does not know is not bound: [`unknown_names`](Self::unknown_names) tells which.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, Snapshot, var};
    ///
    /// let snapshot = Session::new().chat_id("42").sync_scope(Snapshot::capture);
    /// assert_eq!(snapshot.restore().sync_scope(var::chat_id).as_deref(), Some("42"));
    /// ```
    #[must_use]
    pub fn restore(&self) -> Context {
        let known =
            self.variables.iter().filter_map(|(name, state)| Some((Shape::TABLE.position(name)?, state.clone())));
        let session =
            SessionState::unbound().with(known).with_async_delivery(self.async_delivery).with_cwd(self.cwd.clone());
        if session.is_bound() {
            engage();
        }
        Context::new(session, self.run.clone())
    }

    /// As [`restore`](Self::restore), with everything cleared that is unset: for a worker, whose environment is nobody's.
    /// The latch trips, also for a snapshot of nothing.
    ///
    /// ```
    /// use hermes_env_bridge::{Snapshot, session_context_engaged, var};
    ///
    /// let context = Snapshot::default().restore_masked();
    /// assert_eq!(context.sync_scope(var::session_key).as_deref(), Some(""), "whatever the environment says");
    /// assert!(session_context_engaged());
    /// ```
    #[must_use]
    pub fn restore_masked(&self) -> Context {
        engage();
        let restored = self.restore();
        let session = restored.session();
        let states = session.iter().map(|(_, state)| state).enumerate();
        let unset = states.filter(|(_, state)| state.as_bound().is_none());
        Context::new(session.with(unset.map(|(at, _)| (at, VarState::Cleared))), self.run.clone())
    }

    /// Whether it holds nothing at all: it was taken where nothing was entered.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, Snapshot};
    ///
    /// assert!(Snapshot::capture().is_empty());
    /// assert!(!Snapshot::from(Session::new()).is_empty(), "a session that states nothing has cleared its variables");
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The state of the variable with this environment name, also of one that this version does not know.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, Snapshot, VarState};
    ///
    /// let snapshot = Snapshot::from(Session::new().chat_id("42"));
    /// assert_eq!(snapshot.state("HERMES_SESSION_CHAT_ID"), VarState::bound("42"));
    /// assert_eq!(snapshot.state("HERMES_CRON_SESSION"), VarState::Unset);
    /// ```
    #[must_use]
    pub fn state(&self, name: &str) -> VarState {
        self.variables.get(name).cloned().unwrap_or_default()
    }

    /// The variables and fields that this version does not know.
    ///
    /// ```
    /// use hermes_env_bridge::Snapshot;
    ///
    /// let snapshot = Snapshot::from_mapping([("HERMES_SESSION_CHAT_ID", "42"), ("HERMES_SESSION_MOOD", "fine")]).unwrap();
    /// assert_eq!(snapshot.unknown_names().collect::<Vec<_>>(), ["HERMES_SESSION_MOOD"]);
    /// ```
    pub fn unknown_names(&self) -> impl Iterator<Item = &str> {
        let variables = self.variables.keys().filter(|name| Shape::TABLE.position(name).is_none());
        let run = self.run.iter().flat_map(|run| run.unknown_names());
        variables.map(String::as_str).chain(self.unknown.names()).chain(run)
    }

    /// What differs between this and `other`, in the order of names.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, Snapshot};
    ///
    /// let one = Session::new().chat_id("1").sync_scope(Snapshot::capture);
    /// let two = Session::new().chat_id("2").sync_scope(Snapshot::capture);
    /// let changes: Vec<_> = one.diff(&two).iter().map(ToString::to_string).collect();
    /// assert_eq!(changes, ["HERMES_SESSION_CHAT_ID: set -> set"]);
    /// ```
    #[must_use]
    pub fn diff(&self, other: &Self) -> Vec<Change> {
        let (before, after) = (self.to_mapping(), other.to_mapping());
        let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let state = |mapping: &BTreeMap<String, String>, name: &str| {
            mapping.get(name).map_or(VarState::Unset, |value| VarState::bound(value))
        };
        names
            .into_iter()
            .map(|name| Change { name: name.clone(), before: state(&before, name), after: state(&after, name) })
            .filter(|change| change.before != change.after)
            .collect()
    }

    /// The snapshot as a map of text: a variable that is unset is not there, one that is cleared is `""`.
    ///
    /// What is stated beside the variables stands under `HERMES_SESSION_ASYNC_DELIVERY` (`1` or `0`),
    /// `HERMES_SESSION_CWD` and `OMNIUS_RUN_CONTEXT` (the run's JSON). Fields that this version does not know are no text
    /// and are not there.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, Snapshot};
    ///
    /// let mapping = Session::new().chat_id("42").sync_scope(Snapshot::capture).to_mapping();
    /// assert_eq!(mapping["HERMES_SESSION_CHAT_ID"], "42");
    /// assert_eq!(mapping["HERMES_SESSION_USER_ID"], "", "cleared");
    /// assert!(!mapping.contains_key("HERMES_CRON_SESSION"), "unset");
    /// ```
    #[must_use]
    pub fn to_mapping(&self) -> BTreeMap<String, String> {
        let variables = self.variables.iter().filter_map(|(name, state)| Some((name.as_str(), state.as_bound()?)));
        let async_delivery = self.async_delivery.map(|supported| (ASYNC_DELIVERY, flag(supported)));
        let cwd = self.cwd.as_deref().map(|cwd| (SESSION_CWD, cwd));
        let run = self.run.as_ref().map(|run| run.to_json());
        let run = run.as_deref().map(|run| (RUN_CONTEXT, run));
        let entries = variables.chain(async_delivery).chain(cwd).chain(run);
        entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The snapshot of a map as [`to_mapping`](Self::to_mapping) makes it. Names that this version does not know are
    /// kept.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Duplicate`] for a name that is there twice, [`SnapshotError::NotBoolean`] where
    /// `HERMES_SESSION_ASYNC_DELIVERY` is neither `1` nor `0`, [`SnapshotError::Run`] where `OMNIUS_RUN_CONTEXT` is no
    /// run context.
    ///
    /// ```
    /// use hermes_env_bridge::{Snapshot, var};
    ///
    /// let context = Snapshot::from_mapping([("HERMES_SESSION_CHAT_ID", "42")]).unwrap().restore();
    /// context.sync_scope(|| assert_eq!((var::chat_id().as_deref(), var::user_id()), (Some("42"), None)));
    /// ```
    pub fn from_mapping<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, SnapshotError> {
        let mut snapshot = Self::default();
        let mut seen = BTreeSet::new();
        for (name, value) in pairs {
            let name = name.as_ref();
            if !seen.insert(name.to_owned()) {
                return Err(SnapshotError::Duplicate { name: name.to_owned() });
            }
            match (name, value.as_ref()) {
                (SESSION_CWD, cwd) => snapshot.cwd = Value::new(cwd),
                (RUN_CONTEXT, run) => snapshot.run = Some(OmniusRunContext::from_json(run)?.into()),
                (ASYNC_DELIVERY, "1") => snapshot.async_delivery = Some(true),
                (ASYNC_DELIVERY, "0") => snapshot.async_delivery = Some(false),
                (ASYNC_DELIVERY, _) => return Err(SnapshotError::NotBoolean { name: name.to_owned() }),
                (name, value) => drop(snapshot.variables.insert(name.to_owned(), VarState::bound(value))),
            }
        }
        Ok(snapshot)
    }

    /// The snapshot as JSON, on one line.
    ///
    /// # Panics
    ///
    /// Never: a snapshot is maps of text, which JSON can write.
    ///
    /// ```
    /// use hermes_env_bridge::Snapshot;
    ///
    /// assert_eq!(Snapshot::capture().to_json(), r#"{"version":1,"session":{}}"#);
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a snapshot is maps of text")
    }

    /// Reads JSON as [`to_json`](Self::to_json) writes it, within `limits`.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`], which says what is wrong and, where there is one, with which field or variable. It has no
    /// values.
    ///
    /// ```
    /// use hermes_env_bridge::{Limits, Snapshot, var};
    ///
    /// let json = r#"{"version": 1, "session": {"HERMES_SESSION_CHAT_ID": "42"}}"#;
    /// let context = Snapshot::from_json(json, Limits::default()).unwrap().restore();
    /// assert_eq!(context.sync_scope(var::chat_id).as_deref(), Some("42"));
    /// ```
    pub fn from_json(json: &str, limits: Limits) -> Result<Self, SnapshotError> {
        if json.len() > limits.bytes {
            return Err(SnapshotError::TooLarge { size: json.len(), limit: limits.bytes });
        }
        // What is no JSON at all is told by its place; the parser's messages have nothing of the text.
        let json: &RawValue =
            serde_json::from_str(json).map_err(|error| SnapshotError::Malformed { reason: error.to_string() })?;
        let depth = depth(json.get());
        if depth > limits.depth {
            return Err(SnapshotError::TooDeep { depth, limit: limits.depth });
        }
        let snapshot = Self::from_text(json.get())?;
        if limits.unknown == Unknown::Refuse {
            if let Some(name) = snapshot.unknown_names().next() {
                return Err(SnapshotError::Unknown { name: name.to_owned() });
            }
        }
        Ok(snapshot)
    }
}

/// What stands for a statement in a mapping.
pub(crate) fn flag(supported: bool) -> &'static str {
    if supported { "1" } else { "0" }
}

/// What Python, which keeps the variables as its own objects, keeps beside them.
#[cfg(feature = "python")]
impl Snapshot {
    pub(crate) fn unknown_fields(&self) -> String {
        serde_json::to_string(&self.unknown).expect("what was read as JSON can be written")
    }

    pub(crate) fn with_unknown_fields(self, json: &str) -> Result<Self, SnapshotError> {
        Ok(Self { unknown: object(json, "what holds the unknown fields")?, ..self })
    }
}

/// What a scope of the session starts with, without entering one: for a job that is enqueued for somebody.
impl From<Session> for Snapshot {
    fn from(session: Session) -> Self {
        Self::from(&Context::new(session.bind_over(&SessionState::unbound()), None))
    }
}

impl From<&Context> for Snapshot {
    fn from(context: &Context) -> Self {
        let session = context.session();
        let bound = session.iter().filter(|(_, state)| state.as_bound().is_some());
        Self {
            variables: bound.map(|(name, state)| (name.to_owned(), state.clone())).collect(),
            async_delivery: session.async_delivery(),
            cwd: session.cwd().and_then(Value::new),
            run: context.run().cloned(),
            unknown: RawFields::default(),
        }
    }
}

/// Names and states, without values.
impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, state) in &self.variables {
            let _ = map.entry(name, &format_args!("{}", state.as_str()));
        }
        let stated = [
            (ASYNC_DELIVERY, self.async_delivery.is_some()),
            (SESSION_CWD, self.cwd.is_some()),
            (RUN_CONTEXT, self.run.is_some()),
        ];
        for (name, _) in stated.into_iter().filter(|(_, stated)| *stated) {
            let _ = map.entry(&name, &format_args!("set"));
        }
        for name in self.unknown.names() {
            let _ = map.entry(&name, &format_args!("unknown"));
        }
        map.finish()
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// The bound variables.
        struct Variables<'a>(&'a BTreeMap<String, VarState>);
        impl Serialize for Variables<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.iter().filter_map(|(name, state)| Some((name, state.as_bound()?))))
            }
        }

        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("version", &VERSION)?;
        object.serialize_entry("session", &Variables(&self.variables))?;
        if let Some(supported) = self.async_delivery {
            object.serialize_entry("async_delivery", &supported)?;
        }
        if let Some(cwd) = self.cwd.as_deref() {
            object.serialize_entry("cwd", cwd)?;
        }
        if let Some(run) = self.run.as_deref() {
            object.serialize_entry("run", run)?;
        }
        for (name, field) in self.unknown.iter() {
            object.serialize_entry(name, field)?;
        }
        object.end()
    }
}

/// Keeps unknown fields. The limits of [`Snapshot::from_json`] are the caller's to set here.
impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_text(&Node::deserialize(deserializer)?.to_text()).map_err(de::Error::custom)
    }
}

/// The fields of the object that `what` has to be.
fn object(json: &str, what: &str) -> Result<RawFields, SnapshotError> {
    let fields: RawFields = serde_json::from_str(json).map_err(|error| {
        let reason = if error.is_data() { format!("{what} is no object") } else { error.to_string() };
        SnapshotError::Malformed { reason }
    })?;
    match fields.twice() {
        Some(name) => Err(SnapshotError::Duplicate { name: name.to_owned() }),
        None => Ok(fields),
    }
}

fn text(name: &str, json: &str) -> Result<String, SnapshotError> {
    serde_json::from_str(json).map_err(|_| SnapshotError::NotText { name: name.to_owned() })
}

impl Snapshot {
    fn from_text(json: &str) -> Result<Self, SnapshotError> {
        let missing = |what: &str| SnapshotError::Malformed { reason: format!("it has no {what:?}") };
        let mut fields = object(json, "the snapshot")?;
        let version = fields.take("version").ok_or_else(|| missing("version"))?;
        if serde_json::from_str(version.get()).ok() != Some(VERSION) {
            return Err(SnapshotError::Version { supported: VERSION });
        }
        let session = fields.take("session").ok_or_else(|| missing("session"))?;
        let mut stated = |name: &str| fields.take(name).filter(|field| field.get() != "null");
        let (async_delivery, cwd, run) = (stated("async_delivery"), stated("cwd"), stated("run"));

        let mut snapshot = Self { unknown: fields, ..Self::default() };
        for (name, value) in object(session.get(), "its \"session\"")?.texts() {
            if [ASYNC_DELIVERY, SESSION_CWD, RUN_CONTEXT].contains(&name) {
                let reason = format!("{name} is no variable of its \"session\" but a field beside it");
                return Err(SnapshotError::Malformed { reason });
            }
            let _ = snapshot.variables.insert(name.to_owned(), VarState::bound(&text(name, value)?));
        }
        if let Some(supported) = async_delivery {
            let supported = serde_json::from_str(supported.get());
            let refused = |_| SnapshotError::NotBoolean { name: "async_delivery".to_owned() };
            snapshot.async_delivery = Some(supported.map_err(refused)?);
        }
        if let Some(cwd) = cwd {
            snapshot.cwd = Value::new(&text("cwd", cwd.get())?);
        }
        if let Some(run) = run {
            snapshot.run = Some(Arc::new(OmniusRunContext::from_json(run.get())?));
        }
        Ok(snapshot)
    }
}
