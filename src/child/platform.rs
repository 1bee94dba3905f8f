//! What differs between systems: when two names are one, and how large a value may be.

use std::borrow::Cow;
use std::ffi::OsStr;

use super::limits::EnvLimits;

/// The system whose rules hold for an environment. A parameter, so that each system's rules are tested on any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Names differ if their bytes do.
    Posix,
    /// Names differ if they do in upper case; the spelling that was there first is kept.
    Windows,
}

impl Platform {
    /// The system that this was compiled for.
    pub const HOST: Self = if cfg!(windows) { Self::Windows } else { Self::Posix };

    /// What is equal for two spellings of one name.
    pub(crate) fn fold(self, name: &OsStr) -> Cow<'_, OsStr> {
        match (self, name.to_str()) {
            (Self::Posix, _) => Cow::Borrowed(name),
            (Self::Windows, Some(name)) => Cow::Owned(name.chars().map(upper).collect::<String>().into()),
            (Self::Windows, None) => Cow::Owned(name.to_ascii_uppercase()),
        }
    }

    /// What `text` takes up: bytes, or for Windows units of UTF-16.
    pub(crate) fn size(self, text: &OsStr) -> usize {
        match self {
            Self::Posix => text.len(),
            Self::Windows => text.to_string_lossy().encode_utf16().count(),
        }
    }

    /// How large an environment may be: the host's limits, or what another system documents.
    #[must_use]
    pub fn limits(self) -> EnvLimits {
        EnvLimits::of(self)
    }
}

/// The upper case of a character, if that is one character: Windows changes no name's length.
fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_takes_two_spellings_for_one_name_and_posix_does_not() {
        for (one, other) in [("Path", "PATH"), ("grün", "GRÜN"), ("straße", "STRAßE")] {
            let (one, other) = (OsStr::new(one), OsStr::new(other));
            assert_eq!(Platform::Windows.fold(one), Platform::Windows.fold(other));
            assert_ne!(Platform::Posix.fold(one), Platform::Posix.fold(other));
        }
    }
}
