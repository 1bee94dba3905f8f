//! A table by name, as an environment is one.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

use super::platform::Platform;

/// One entry for each name, in the order in which the names came. The last value holds, under the first spelling.
#[derive(Debug, Clone)]
pub(crate) struct Block<V> {
    platform: Platform,
    entries: Vec<(OsString, V)>,
    at: HashMap<OsString, usize>,
}

impl<V> Block<V> {
    pub(crate) fn new(platform: Platform, entries: impl IntoIterator<Item = (OsString, V)>) -> Self {
        let mut block = Self { platform, entries: Vec::new(), at: HashMap::new() };
        for (name, value) in entries {
            block.put(name, value);
        }
        block
    }

    pub(crate) fn put(&mut self, name: OsString, value: V) {
        if let Some(at) = self.position(&name) {
            self.entries[at].1 = value;
        } else {
            let _ = self.at.insert(self.platform.fold(&name).into_owned(), self.entries.len());
            self.entries.push((name, value));
        }
    }

    pub(crate) fn get(&self, name: &OsStr) -> Option<&V> {
        Some(&self.entries[self.position(name)?].1)
    }

    pub(crate) fn has(&self, name: &OsStr) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&OsStr, &V)> {
        self.entries.iter().map(|(name, value)| (name.as_os_str(), value))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &OsStr> {
        self.iter().map(|(name, _)| name)
    }

    fn position(&self, name: &OsStr) -> Option<usize> {
        self.at.get::<OsStr>(&self.platform.fold(name)).copied()
    }
}
