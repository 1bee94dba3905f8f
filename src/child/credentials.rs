//! Which names are credentials, and who may hand one on.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;

use super::block::Block;
use super::platform::Platform;

/// A spawner states a blocked name by putting this before it, as in Hermes.
const FORCE: &str = "_HERMES_FORCE_";

/// Names made up at run time, which no list can have: what they start with, and what they end with.
const INTERNAL: [(&str, &[&str]); 2] =
    [("AUXILIARY_", &["_API_KEY", "_BASE_URL"]), ("GATEWAY_RELAY_", &["_SECRET", "_KEY", "_TOKEN"])];

/// The names that are credentials. The lists are the host's; what is made of them is the rule of Hermes:
///
/// - an internal secret (`AUXILIARY_…_API_KEY`, `GATEWAY_RELAY_…_SECRET` and the like) goes to no child;
/// - a name that is always stripped goes to a child only if the spawner adds it under `_HERMES_FORCE_`;
/// - a blocked name goes to a child if the spawner adds it so, or allows it;
/// - `_HERMES_FORCE_…` itself is never inherited.
///
/// `Debug` tells how many names there are.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    blocked: Arc<BTreeSet<OsString>>,
    always: Arc<BTreeSet<OsString>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("blocked", &self.blocked.len()).field("always", &self.always.len()).finish()
    }
}

impl Credentials {
    /// Blocks the names in `blocked`.
    pub fn new<N: Into<OsString>>(blocked: impl IntoIterator<Item = N>) -> Self {
        Self { blocked: Arc::new(blocked.into_iter().map(Into::into).collect()), always: Arc::default() }
    }

    /// Strips the names in `always` as well, which allowing them does not change.
    #[must_use]
    pub fn always<N: Into<OsString>>(self, always: impl IntoIterator<Item = N>) -> Self {
        Self { always: Arc::new(always.into_iter().map(Into::into).collect()), ..self }
    }

    /// Whether no skill may hand `name` on.
    #[must_use]
    pub fn is_credential(&self, name: impl AsRef<OsStr>) -> bool {
        self.verdict(Platform::HOST, name.as_ref(), false).is_some()
    }

    /// Why an inherited `name` goes to no child, if it does not.
    pub(crate) fn verdict(&self, platform: Platform, name: &OsStr, allowed: bool) -> Option<&'static str> {
        if forced(platform, name).is_some() {
            return Some("a forced name is for a spawner to add, and is never inherited");
        }
        if is_internal(name) {
            return Some("it is an internal secret");
        }
        if has(platform, &self.always, name) {
            return Some("it is a credential that goes to no child");
        }
        (!allowed && has(platform, &self.blocked, name)).then_some("it is a credential")
    }

    /// Puts what a spawner adds as `name` where it belongs: `Ok` under its name, `Err` if it may not be added.
    pub(crate) fn admit(&self, platform: Platform, name: &OsStr, allowed: bool) -> Result<OsString, &'static str> {
        match forced(platform, name) {
            Some(real) if is_internal(&real) => Err("it is an internal secret"),
            Some(real) => Ok(real),
            None => self.verdict(platform, name, allowed).map_or_else(|| Ok(name.to_owned()), Err),
        }
    }
}

fn has(platform: Platform, names: &BTreeSet<OsString>, name: &OsStr) -> bool {
    names.contains(name)
        || (platform == Platform::Windows && names.iter().any(|each| platform.fold(each) == platform.fold(name)))
}

/// The name after the prefix.
fn forced(platform: Platform, name: &OsStr) -> Option<OsString> {
    let head = name.as_encoded_bytes().get(..FORCE.len())?;
    let is_forced =
        head == FORCE.as_bytes() || (platform == Platform::Windows && head.eq_ignore_ascii_case(FORCE.as_bytes()));
    is_forced.then(|| after(name, FORCE.len()))
}

#[cfg(unix)]
fn after(name: &OsStr, at: usize) -> OsString {
    use std::os::unix::ffi::OsStrExt;

    OsStr::from_bytes(&name.as_bytes()[at..]).to_owned()
}

/// What is before `at` is ASCII.
#[cfg(not(unix))]
fn after(name: &OsStr, at: usize) -> OsString {
    name.to_string_lossy()[at..].into()
}

fn is_internal(name: &OsStr) -> bool {
    let upper = name.to_string_lossy().to_uppercase();
    INTERNAL.iter().any(|(start, ends)| upper.starts_with(start) && ends.iter().any(|end| upper.ends_with(end)))
}

/// The names that a session's skills hand on to its children under [`Policy::Minimal`](super::Policy::Minimal).
///
/// Immutable: [`with`](Self::with) makes another one, so a task that adds a name adds it for itself and what it starts,
/// and for no sibling. A credential is never among them.
///
/// ```
/// use hermes_env_bridge::{Credentials, Passthrough};
///
/// let credentials = Credentials::new(["OPENAI_API_KEY"]);
/// let (mine, refused) = Passthrough::default().with(["NOTION_TOKEN", "OPENAI_API_KEY"], &credentials);
/// assert!(mine.contains("NOTION_TOKEN") && !mine.contains("OPENAI_API_KEY"));
/// assert_eq!(refused, ["OPENAI_API_KEY"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passthrough(Arc<BTreeSet<OsString>>);

impl Passthrough {
    /// These names and `names`, and those of `names` that were refused because they are credentials.
    #[must_use]
    pub fn with<N: Into<OsString>>(
        &self,
        names: impl IntoIterator<Item = N>,
        credentials: &Credentials,
    ) -> (Self, Vec<OsString>) {
        let (refused, admitted): (Vec<_>, Vec<_>) =
            names.into_iter().map(Into::into).partition(|name| credentials.is_credential(name));
        (Self(Arc::new(self.0.iter().cloned().chain(admitted).collect())), refused)
    }

    /// Whether `name` is among them.
    #[must_use]
    pub fn contains(&self, name: impl AsRef<OsStr>) -> bool {
        self.0.contains(name.as_ref())
    }

    /// The names, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &OsStr> {
        self.0.iter().map(OsString::as_os_str)
    }

    pub(crate) fn block(&self, platform: Platform) -> Block<()> {
        Block::new(platform, self.0.iter().map(|name| (name.clone(), ())))
    }
}
