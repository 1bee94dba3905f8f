//! The directory in which a session works. The process's own is never changed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::environ::{Environ, ProcessEnviron};
use crate::names::PROCESS_CWD;
use crate::session::is_space;

/// The directory in which this task's commands run: the session's own ([`Session::cwd`](crate::Session::cwd)), else
/// that of `TERMINAL_CWD`, else the process's.
///
/// A leading `~` is the user's home. One that is stated and is no directory is passed over, with a warning (feature
/// `tracing`).
///
/// # Errors
///
/// That of [`std::env::current_dir`], where neither of the others is one.
///
/// ```
/// use hermes_env_bridge::{Session, resolve_cwd};
///
/// # fn main() -> std::io::Result<()> {
/// let tmp = std::env::temp_dir();
/// let cwd = Session::new().cwd(&tmp.to_string_lossy()).sync_scope(resolve_cwd)?;
/// assert_eq!(cwd, tmp);
/// # Ok(())
/// # }
/// ```
pub fn resolve_cwd() -> io::Result<PathBuf> {
    stated(session_cwd(), "the session's cwd")
        .or_else(|| stated(process_cwd(), PROCESS_CWD))
        .map_or_else(std::env::current_dir, Ok)
}

/// The directory that was configured for this task's work, `None` if there is none: the session's own if it states
/// one, else that of `TERMINAL_CWD`. For what must not take the process's directory for a choice, such as the search
/// for a project's instructions.
///
/// One that is stated and is no directory is none, with a warning (feature `tracing`); `TERMINAL_CWD` does not stand in
/// for a session's.
///
/// ```
/// use hermes_env_bridge::{Session, configured_cwd};
///
/// assert_eq!(Session::new().cwd("/no/such/directory").sync_scope(configured_cwd), None);
/// ```
#[must_use]
pub fn configured_cwd() -> Option<PathBuf> {
    match session_cwd() {
        Some(cwd) => stated(Some(cwd), "the session's cwd"),
        None => stated(process_cwd(), PROCESS_CWD),
    }
}

fn session_cwd() -> Option<PathBuf> {
    Context::current().session().cwd().and_then(|cwd| trimmed(cwd.as_ref()))
}

fn process_cwd() -> Option<PathBuf> {
    ProcessEnviron.var_os(PROCESS_CWD.as_ref()).and_then(|cwd| trimmed(&cwd))
}

/// The path without the white space around it, `None` if that leaves nothing. Bytes that are not UTF-8 stay as they are.
fn trimmed(cwd: &OsStr) -> Option<PathBuf> {
    let path = cwd.to_str().map_or(cwd, |text| text.trim_matches(is_space).as_ref());
    (!path.is_empty()).then(|| path.into())
}

/// The directory at `path`; a warning that names its `source`, not the path, where there is none.
fn stated(path: Option<PathBuf>, source: &str) -> Option<PathBuf> {
    let path = at_home(path?);
    if path.is_dir() {
        return Some(path);
    }
    warn!("{source} is no directory that exists; it is passed over");
    None
}

#[allow(deprecated, reason = "what it was deprecated for is mended from 1.85 on, and the mark went with 1.87")]
fn at_home(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~").map(Path::to_owned), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}
