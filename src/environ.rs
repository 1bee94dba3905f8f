//! The environment as a read-only source.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};

/// Where a read goes for a variable that the task never bound.
///
/// Nothing in this crate writes to one.
pub trait Environ {
    /// Returns the value of `name`, byte for byte, or `None` if there is none.
    fn var_os(&self, name: &OsStr) -> Option<OsString>;
}

/// The environment of this process, read anew each time.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnviron;

impl Environ for ProcessEnviron {
    fn var_os(&self, name: &OsStr) -> Option<OsString> {
        std::env::var_os(name)
    }
}

impl<S: std::hash::BuildHasher> Environ for HashMap<OsString, OsString, S> {
    fn var_os(&self, name: &OsStr) -> Option<OsString> {
        self.get(name).cloned()
    }
}

impl Environ for BTreeMap<OsString, OsString> {
    fn var_os(&self, name: &OsStr) -> Option<OsString> {
        self.get(name).cloned()
    }
}
