//! A context as plain data, for another process or another time.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value as Json};

use crate::context::Context;
use crate::error::SnapshotError;
use crate::names::{ASYNC_DELIVERY, RUN_CONTEXT, SESSION_CWD};
use crate::run::OmniusRunContext;
use crate::session::engage;
use crate::shape::Shape;
use crate::state::{SessionState, Value, VarState};

/// The version of the JSON form.
const VERSION: u64 = 1;

/// What a context held at one moment, as plain data that keeps the three states apart.
///
/// The JSON form is `{"version": 1, "session": {NAME: TEXT, …}, "async_delivery": BOOL, "cwd": TEXT, "run": {…}}`: a
/// variable that is unset is not there, one that is cleared is `""`; what is unstated is not there. The run has the form
/// of [`OmniusRunContext::to_json`]. Fields and variables that this
/// version does not know are kept, and written again, unless [`Limits::unknown`] refuses them.
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
    unknown: Map<String, Json>,
}

/// What an input may be, so that nobody's input can exhaust the reader.
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
    #[must_use]
    pub fn capture() -> Self {
        Self::from(&Context::current())
    }

    /// The context that this describes. Enter it with [`Context::scope`], [`Context::sync_scope`] or
    /// [`Context::bind`]. If anything is bound, the [latch](crate::session_context_engaged) trips.
    ///
    /// A variable that this version does not know is not bound: [`unknown_names`](Self::unknown_names) tells which.
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

    /// The variables and fields that this version does not know.
    pub fn unknown_names(&self) -> impl Iterator<Item = &str> {
        let variables = self.variables.keys().filter(|name| Shape::TABLE.position(name).is_none());
        let run = self.run.iter().flat_map(|run| run.unknown_names());
        variables.chain(self.unknown.keys()).map(String::as_str).chain(run)
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
        let names: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
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
    /// `HERMES_SESSION_CWD` and `OMNIUS_RUN_CONTEXT` (the run's JSON). Fields that this version does not know are no text and are not there.
    #[must_use]
    pub fn to_mapping(&self) -> BTreeMap<String, String> {
        let variables = self.variables.iter().filter_map(|(name, state)| Some((name.as_str(), state.as_bound()?)));
        let async_delivery = self.async_delivery.map(|supported| (ASYNC_DELIVERY, if supported { "1" } else { "0" }));
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
    pub fn from_mapping<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, SnapshotError> {
        let mut snapshot = Self::default();
        let mut seen = std::collections::BTreeSet::new();
        for (name, value) in pairs {
            if !seen.insert(name) {
                return Err(SnapshotError::Duplicate { name: name.to_owned() });
            }
            match (name, value) {
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
    pub fn from_json(json: &str, limits: Limits) -> Result<Self, SnapshotError> {
        if json.len() > limits.bytes {
            return Err(SnapshotError::TooLarge { size: json.len(), limit: limits.bytes });
        }
        let snapshot: Self = serde_json::from_str(json).map_err(|error| malformed(&error))?;
        let run = snapshot.run.as_ref().map(|run| run.depth());
        // The object itself, and that of the variables.
        let depth = 1 + snapshot.unknown.values().map(depth).chain(run).max().unwrap_or(0).max(1);
        if depth > limits.depth {
            return Err(SnapshotError::TooDeep { depth, limit: limits.depth });
        }
        if limits.unknown == Unknown::Refuse {
            if let Some(name) = snapshot.unknown_names().next() {
                return Err(SnapshotError::Unknown { name: name.to_owned() });
            }
        }
        Ok(snapshot)
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
            unknown: Map::new(),
        }
    }
}

/// What is wrong with the JSON, without what it holds: serde's own messages quote it before the word "expected".
fn malformed(error: &serde_json::Error) -> SnapshotError {
    let message = error.to_string();
    let reason = match message.rsplit_once("expected ") {
        Some((_, expected)) if error.is_data() => format!("expected {expected}"),
        _ => message,
    };
    SnapshotError::Malformed { reason }
}

/// How deep arrays and objects nest. The parser has refused what would exhaust the stack.
fn depth(json: &Json) -> usize {
    let inner = match json {
        Json::Array(items) => items.iter().map(depth).max(),
        Json::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
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
        for name in self.unknown.keys() {
            let _ = map.entry(name, &format_args!("unknown"));
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
        for (name, field) in &self.unknown {
            object.serialize_entry(name, field)?;
        }
        object.end()
    }
}

/// Keeps unknown fields. The limits of [`Snapshot::from_json`] are the caller's to set here.
impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Snapshot;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the fields of a snapshot")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Snapshot, A::Error> {
                let mut snapshot = Snapshot::default();
                let mut seen = std::collections::BTreeSet::new();
                while let Some(name) = fields.next_key::<String>()? {
                    match name.as_str() {
                        "version" => version(&fields.next_value()?).map_err(de::Error::custom)?,
                        "session" => snapshot.variables = fields.next_value::<Variables>()?.0,
                        "async_delivery" => match fields.next_value()? {
                            Json::Bool(supported) => snapshot.async_delivery = Some(supported),
                            Json::Null => {}
                            _ => return Err(de::Error::custom(SnapshotError::NotBoolean { name })),
                        },
                        "cwd" => match fields.next_value()? {
                            Json::String(cwd) => snapshot.cwd = Value::new(&cwd),
                            Json::Null => {}
                            _ => return Err(de::Error::custom(SnapshotError::NotText { name })),
                        },
                        "run" => snapshot.run = fields.next_value::<Option<OmniusRunContext>>()?.map(Arc::new),
                        _ => drop(snapshot.unknown.insert(name.clone(), fields.next_value()?)),
                    }
                    if !seen.insert(name.clone()) {
                        return Err(de::Error::custom(SnapshotError::Duplicate { name }));
                    }
                }
                for name in ["version", "session"] {
                    if !seen.contains(name) {
                        return Err(de::Error::missing_field(name));
                    }
                }
                Ok(snapshot)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

fn version(stated: &Json) -> Result<(), SnapshotError> {
    if stated.as_u64() == Some(VERSION) { Ok(()) } else { Err(SnapshotError::Version { supported: VERSION }) }
}

/// The object of the bound variables.
struct Variables(BTreeMap<String, VarState>);

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Variables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of variables")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Variables, A::Error> {
                let mut variables = BTreeMap::new();
                for entry in iter::from_fn(|| entries.next_entry::<String, Json>().transpose()) {
                    let (name, value) = entry?;
                    let Json::String(text) = value else {
                        return Err(de::Error::custom(SnapshotError::NotText { name }));
                    };
                    if variables.insert(name.clone(), VarState::bound(&text)).is_some() {
                        return Err(de::Error::custom(SnapshotError::Duplicate { name }));
                    }
                }
                Ok(Variables(variables))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
