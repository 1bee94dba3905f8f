//! How much of what a process has goes to a child.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use super::platform::Platform;

/// How much of what is inherited a child gets. What the spawner denies, allows and adds comes on top of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Hermes' rule: everything is inherited but session variables, of which the child gets what the task has bound,
    /// and unbound ones only as long as no session was ever bound in the process.
    #[default]
    Inherit,
    /// A child that works for nobody: as `Inherit`, without any session variable, whatever the task has bound, and
    /// without a board worker's claim. A worker's descendants are marked as such.
    Detached,
    /// A child that gets what a program needs to run at all, and nothing else.
    Minimal,
}

/// There is no policy of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy {name:?}; say \"inherit\", \"detached\" or \"minimal\"")]
pub struct UnknownPolicy {
    /// The name as it was given.
    pub name: String,
}

impl Policy {
    /// The policy in a word, in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inherit => "inherit",
            Self::Detached => "detached",
            Self::Minimal => "minimal",
        }
    }
}

/// The word of [`as_str`](Self::as_str).
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let all = [Self::Inherit, Self::Detached, Self::Minimal];
        all.into_iter().find(|policy| policy.as_str() == name).ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

const POSIX: [&str; 10] = ["HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Without most of these a program of Windows does not start, or finds no folder of its own.
const WINDOWS: [&str; 25] = [
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMPUTERNAME",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Whether a program may need `name` to run at all.
pub(crate) fn is_essential(platform: Platform, name: &OsStr) -> bool {
    let name = platform.fold(name);
    let essential = match platform {
        Platform::Posix => POSIX.as_slice(),
        Platform::Windows => WINDOWS.as_slice(),
    };
    essential.iter().any(|essential| name == OsStr::new(essential)) || name.as_encoded_bytes().starts_with(b"LC_")
}
