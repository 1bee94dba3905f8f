//! An environment as a POSIX shell reads it.

use std::ffi::{OsStr, OsString};

/// What no shell can have, though a caller may. Says which variable it is, never what is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unrenderable {
    /// A name that no shell takes for a variable, though an environment may hold it.
    #[error("{name:?} is no name of a shell's variable: letters, digits and _, and no digit first; leave it out")]
    Name {
        /// The name.
        name: OsString,
    },
    /// A value with a NUL, which a shell leaves out.
    #[error("the value of {name:?} has a NUL in it, so no shell can have it; take the NUL or the variable out")]
    NulInValue {
        /// The variable.
        name: OsString,
    },
}

impl Unrenderable {
    /// The variable.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        match self {
            Self::Name { name } | Self::NulInValue { name } => name,
        }
    }
}

/// Lines of `export NAME='value'`, byte for byte what the values are, for any POSIX shell.
///
/// # Errors
///
/// [`Unrenderable`] for a name that a shell does not take, and for a value with a NUL.
///
/// ```
/// use hermes_env_bridge::shell_exports;
///
/// let text = shell_exports([("HERMES_SESSION_CHAT_NAME", "Bob's\nroom")]).unwrap();
/// assert_eq!(text, "export HERMES_SESSION_CHAT_NAME='Bob'\\''s\nroom'\n");
/// ```
pub fn shell_exports<N: AsRef<OsStr>, V: AsRef<OsStr>>(
    pairs: impl IntoIterator<Item = (N, V)>,
) -> Result<OsString, Unrenderable> {
    let mut text = OsString::new();
    for (name, value) in pairs {
        let (name, value) = (checked(name.as_ref())?, value.as_ref());
        if value.as_encoded_bytes().contains(&0) {
            return Err(Unrenderable::NulInValue { name: name.to_owned() });
        }
        text.push("export ");
        text.push(name);
        text.push("='");
        push_quoted(&mut text, value);
        text.push("'\n");
    }
    Ok(text)
}

/// Lines of `unset NAME`: what must not be there before, or instead of, what is exported.
///
/// # Errors
///
/// [`Unrenderable`] for a name that a shell does not take.
pub fn shell_unset<N: AsRef<OsStr>>(names: impl IntoIterator<Item = N>) -> Result<OsString, Unrenderable> {
    let mut text = OsString::new();
    for name in names {
        text.push("unset ");
        text.push(checked(name.as_ref())?);
        text.push("\n");
    }
    Ok(text)
}

fn checked(name: &OsStr) -> Result<&OsStr, Unrenderable> {
    let bytes = name.as_encoded_bytes();
    let is_name = bytes.first().is_some_and(|first| !first.is_ascii_digit())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if is_name { Ok(name) } else { Err(Unrenderable::Name { name: name.to_owned() }) }
}

/// What stands between two apostrophes is taken as it is; an apostrophe itself cannot.
#[cfg(unix)]
fn push_quoted(text: &mut OsString, value: &OsStr) {
    use std::os::unix::ffi::OsStrExt;

    for (at, part) in value.as_bytes().split(|byte| *byte == b'\'').enumerate() {
        if at > 0 {
            text.push("'\\''");
        }
        text.push(OsStr::from_bytes(part));
    }
}

/// Where values are no bytes, a shell gets them as UTF-8.
#[cfg(not(unix))]
fn push_quoted(text: &mut OsString, value: &OsStr) {
    text.push(value.to_string_lossy().replace('\'', "'\\''"));
}
