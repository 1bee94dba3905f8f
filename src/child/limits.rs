//! What an environment may hold, and how much of it: checked before a spawn, which would only say that it failed.

use std::ffi::{OsStr, OsString};

use super::platform::Platform;

/// How large an environment may be that a program is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvLimits {
    /// What `NAME=value`, with the NUL after it, may take up, and an argument with its own: bytes, or for Windows units of
    /// UTF-16.
    pub variable: usize,
    /// What all variables and arguments may take up together, each with its NUL and a pointer.
    pub total: usize,
}

impl EnvLimits {
    /// What holds for `platform`. For POSIX that is what holds on this host: on Linux a quarter of the stack's limit,
    /// within what the kernel allows at all (`execve(2)`), elsewhere `ARG_MAX`.
    pub(crate) fn of(platform: Platform) -> Self {
        let total = match platform {
            Platform::Posix => Self::total() - Self::PATH,
            Platform::Windows => usize::MAX,
        };
        Self { variable: Self::of_a_variable(platform), total }
    }

    /// The `MAX_ARG_STRLEN` of Linux on pages of 4 KiB, which is the least that it can be; other systems limit the whole
    /// only. Windows counts 32767 units.
    pub(crate) const fn of_a_variable(platform: Platform) -> usize {
        match platform {
            Platform::Posix if cfg!(all(unix, not(target_os = "linux"))) => Self::ARG_MAX,
            Platform::Posix => 131_072,
            Platform::Windows => 32_767,
        }
    }

    /// That of macOS; the BSDs allow half of it, and say so at the spawn.
    const ARG_MAX: usize = 1 << 20;

    /// The path under which the program is found takes its place among the arguments. This is the longest.
    const PATH: usize = 4096;

    #[cfg(target_os = "linux")]
    fn total() -> usize {
        const LEAST: u64 = 128 << 10;
        const MOST: u64 = 6 << 20;
        let stack = rlimit::getrlimit(rlimit::Resource::STACK).map_or(8 << 20, |(soft, _)| soft);
        usize::try_from((stack / 4).clamp(LEAST, MOST)).unwrap_or(Self::ARG_MAX)
    }

    #[cfg(not(target_os = "linux"))]
    fn total() -> usize {
        Self::ARG_MAX
    }
}

/// No program can be started with such an environment. Says which variable it is, and never what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEnv {
    /// The empty name.
    #[error("a variable of the environment has the empty name; take it out")]
    EmptyName,
    /// A name with an `=`, at which a child would divide it from its value.
    #[error("the name {name:?} has an '=' in it, so it can be no variable of an environment; rename it or take it out")]
    EqualsInName {
        /// The name.
        name: OsString,
    },
    /// A name with a NUL, which ends it.
    #[error("the name {name:?} has a NUL in it, so it can be no variable of an environment; rename it or take it out")]
    NulInName {
        /// The name.
        name: OsString,
    },
    /// A value with a NUL, which ends it.
    #[error("the value of {name:?} has a NUL in it, so no child can get it; take the NUL or the variable out")]
    NulInValue {
        /// The variable.
        name: OsString,
    },
    /// One variable that is longer than the system takes.
    #[error("{name:?} takes up {size} with its value, and a variable may take up {limit}; shorten it or take it out")]
    VariableTooLong {
        /// The variable.
        name: OsString,
        /// What it takes up, name and NUL included.
        size: usize,
        /// What it may take up.
        limit: usize,
    },
    /// One argument that is longer than the system takes.
    #[error("an argument takes up {size}, and one may take up {limit}; hand it over in a file or by standard input")]
    ArgumentTooLong {
        /// Its place: the program is the first, at 0.
        at: usize,
        /// What it takes up, NUL included.
        size: usize,
        /// What it may take up.
        limit: usize,
    },
    /// More variables and arguments than the system takes.
    #[error(
        "the environment and the arguments take up {size}, and they may take up {limit}; the largest variable is \
         {name:?} with {largest}"
    )]
    TooLarge {
        /// The largest variable.
        name: OsString,
        /// What that one takes up.
        largest: usize,
        /// What all of it takes up.
        size: usize,
        /// What all of it may take up.
        limit: usize,
    },
}

impl InvalidEnv {
    /// The variable; the largest one if there is too much of them, and the empty name if it is an argument.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        match self {
            Self::EmptyName | Self::ArgumentTooLong { .. } => OsStr::new(""),
            Self::EqualsInName { name }
            | Self::NulInName { name }
            | Self::NulInValue { name }
            | Self::VariableTooLong { name, .. }
            | Self::TooLarge { name, .. } => name,
        }
    }

    /// What is too much and what would be allowed, if it is a matter of size.
    #[must_use]
    pub fn size_and_limit(&self) -> Option<(usize, usize)> {
        match *self {
            Self::VariableTooLong { size, limit, .. }
            | Self::ArgumentTooLong { size, limit, .. }
            | Self::TooLarge { size, limit, .. } => Some((size, limit)),
            _ => None,
        }
    }
}

/// Checks one variable, and returns what it takes up.
pub(crate) fn check_variable(
    platform: Platform,
    limit: usize,
    name: &OsStr,
    value: &OsStr,
) -> Result<usize, InvalidEnv> {
    let owned = || name.to_owned();
    if name.is_empty() {
        return Err(InvalidEnv::EmptyName);
    }
    if has_stray_equals(name) {
        return Err(InvalidEnv::EqualsInName { name: owned() });
    }
    if name.as_encoded_bytes().contains(&0) {
        return Err(InvalidEnv::NulInName { name: owned() });
    }
    if value.as_encoded_bytes().contains(&0) {
        return Err(InvalidEnv::NulInValue { name: owned() });
    }
    let size = platform.size(name) + platform.size(value) + 2;
    if size > limit {
        return Err(InvalidEnv::VariableTooLong { name: owned(), size, limit });
    }
    Ok(size)
}

/// Whether there is an `=` in `name` where none may be. Windows keeps the directory of each drive under names that start
/// with one, and its programs on other systems (Cygwin's, Wine's) hand them on.
fn has_stray_equals(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().skip(1).any(|byte| *byte == b'=')
}

/// Checks a whole environment, with which a program is to get `arguments`.
pub(crate) fn check<'a>(
    platform: Platform,
    limits: EnvLimits,
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    arguments: impl IntoIterator<Item = &'a OsStr>,
) -> Result<(), InvalidEnv> {
    const POINTER: usize = size_of::<usize>();
    let mut total = 0;
    for (at, argument) in arguments.into_iter().enumerate() {
        let size = platform.size(argument) + 1;
        if size > limits.variable {
            return Err(InvalidEnv::ArgumentTooLong { at, size, limit: limits.variable });
        }
        total += size + POINTER;
    }
    let mut largest = (0, OsStr::new(""));
    for (name, value) in variables {
        let size = check_variable(platform, limits.variable, name, value)?;
        total += size + POINTER;
        if size > largest.0 {
            largest = (size, name);
        }
    }
    if total > limits.total {
        let (largest, name) = largest;
        return Err(InvalidEnv::TooLarge { name: name.to_owned(), largest, size: total, limit: limits.total });
    }
    Ok(())
}
