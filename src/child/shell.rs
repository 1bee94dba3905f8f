//! An environment as a POSIX shell reads it.

use std::ffi::{OsStr, OsString};

/// A name that no shell takes for a variable, though an environment may hold it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no name of a shell's variable: letters, digits and _, and no digit first; leave it out")]
pub struct Unnameable {
    /// The name.
    pub name: OsString,
}

/// Lines of `export NAME='value'`, byte for byte what the values are, for any POSIX shell.
///
/// # Errors
///
/// [`Unnameable`] for a name that a shell does not take.
///
/// ```
/// use hermes_env_bridge::shell_exports;
///
/// let text = shell_exports([("HERMES_SESSION_CHAT_NAME", "Bob's\nroom")]).unwrap();
/// assert_eq!(text, "export HERMES_SESSION_CHAT_NAME='Bob'\\''s\nroom'\n");
/// ```
pub fn shell_exports<N: AsRef<OsStr>, V: AsRef<OsStr>>(
    pairs: impl IntoIterator<Item = (N, V)>,
) -> Result<OsString, Unnameable> {
    let mut text = OsString::new();
    for (name, value) in pairs {
        text.push("export ");
        text.push(checked(name.as_ref())?);
        text.push("='");
        push_quoted(&mut text, value.as_ref());
        text.push("'\n");
    }
    Ok(text)
}

/// Lines of `unset NAME`: what must not be there before, or instead of, what is exported.
///
/// # Errors
///
/// [`Unnameable`] for a name that a shell does not take.
pub fn shell_unset<N: AsRef<OsStr>>(names: impl IntoIterator<Item = N>) -> Result<OsString, Unnameable> {
    let mut text = OsString::new();
    for name in names {
        text.push("unset ");
        text.push(checked(name.as_ref())?);
        text.push("\n");
    }
    Ok(text)
}

fn checked(name: &OsStr) -> Result<&OsStr, Unnameable> {
    let bytes = name.as_encoded_bytes();
    let is_name = bytes.first().is_some_and(|first| !first.is_ascii_digit())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if is_name { Ok(name) } else { Err(Unnameable { name: name.to_owned() }) }
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
