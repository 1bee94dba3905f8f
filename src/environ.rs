//! The environment as a read-only source.

use std::ffi::{OsStr, OsString};

/// Where a read goes for a variable that the task never bound.
///
/// Nothing in this crate writes to one.
pub(crate) trait Environ {
    /// Returns the value of `name`, byte for byte, or `None` if there is none.
    fn var_os(&self, name: &OsStr) -> Option<OsString>;
}

/// The environment of this process, read anew each time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessEnviron;

impl Environ for ProcessEnviron {
    fn var_os(&self, name: &OsStr) -> Option<OsString> {
        std::env::var_os(name)
    }
}

#[cfg(test)]
impl Environ for std::collections::BTreeMap<OsString, OsString> {
    fn var_os(&self, name: &OsStr) -> Option<OsString> {
        self.get(name).cloned()
    }
}
