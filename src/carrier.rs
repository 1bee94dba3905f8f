//! A snapshot in a header: of an HTTP request, a message of a broker, or a job of a queue.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::CarrierError;
use crate::snapshot::Snapshot;

/// The name of the header. Where names have no case, as in HTTP, any spelling of it is read.
///
/// ```
/// use std::collections::HashMap;
///
/// use hermes_env_bridge::{SESSION_HEADER, inject};
///
/// let mut metadata = HashMap::new();
/// inject(&mut metadata).unwrap();
/// assert!(metadata.contains_key(SESSION_HEADER));
/// ```
pub const SESSION_HEADER: &str = "hermes-session";

/// The most bytes of the header's value, which most HTTP servers take for one header.
///
/// ```
/// use std::collections::HashMap;
///
/// use hermes_env_bridge::{CarrierError, MAX_HEADER_BYTES, Session, inject};
///
/// let name = "x".repeat(MAX_HEADER_BYTES);
/// let refused = Session::new().chat_name(&name).sync_scope(|| inject(&mut HashMap::new()));
/// assert!(matches!(refused, Err(CarrierError::TooLarge { .. })));
/// ```
pub const MAX_HEADER_BYTES: usize = 8 * 1024;

/// What stands for itself: letters, digits, `-`, `.`, `_` and `~`. Everything else is `%` and two hexadecimal digits
/// for each byte of its UTF-8.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Metadata that a header can be put into, such as a job's: maps and lists of text, HTTP's headers (feature `http`), and
/// what else implements it.
///
/// ```
/// use hermes_env_bridge::{CarrierError, Extractor, Injector, Session, extract, inject};
///
/// /// A message of a broker, with headers as it has them.
/// struct Message(Vec<(&'static str, Vec<u8>)>);
///
/// impl Injector for Message {
///     fn set(&mut self, name: &'static str, value: String) -> Result<(), CarrierError> {
///         self.0.retain(|(key, _)| *key != name);
///         self.0.push((name, value.into_bytes()));
///         Ok(())
///     }
/// }
///
/// impl Extractor for Message {
///     fn get_all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
///         // Bytes that are no text are not what `inject` writes: `%` cannot be decoded.
///         let text = |bytes: &'a Vec<u8>| std::str::from_utf8(bytes).unwrap_or("%");
///         self.0.iter().filter(move |(key, _)| *key == name).map(move |(_, value)| text(value))
///     }
/// }
///
/// # fn main() -> Result<(), CarrierError> {
/// let mut message = Message(Vec::new());
/// Session::new().chat_id("42").sync_scope(|| inject(&mut message))?;
/// assert!(extract(&message)?.is_some());
/// # Ok(())
/// # }
/// ```
pub trait Injector {
    /// Puts `value` under `name`, in the place of whatever is there. Both are ASCII without white space.
    ///
    /// ```
    /// use hermes_env_bridge::Injector;
    ///
    /// let mut headers = vec![("Hermes-Session".to_owned(), "whatever is there".to_owned())];
    /// headers.set("hermes-session", "a".to_owned()).unwrap();
    /// assert_eq!(headers, [("hermes-session".to_owned(), "a".to_owned())]);
    /// ```
    ///
    /// # Errors
    ///
    /// [`CarrierError::NotAHeader`] if this cannot hold such a name or value; nothing is changed.
    fn set(&mut self, name: &'static str, value: String) -> Result<(), CarrierError>;
}

/// Metadata that a header can be read from. [`Injector`] has an example of both.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use hermes_env_bridge::extract;
///
/// assert_eq!(extract(&BTreeMap::new()), Ok(None));
/// ```
pub trait Extractor {
    /// Everything that is there under `name`: that it is there twice must be seen.
    ///
    /// ```
    /// use hermes_env_bridge::Extractor;
    ///
    /// let headers = ["hermes-session", "Hermes-Session"].map(|name| (name.to_owned(), "a".to_owned()));
    /// assert_eq!(headers.to_vec().get_all("hermes-session").count(), 2);
    /// ```
    fn get_all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str>;
}

/// Puts the current session into `carrier`, as one header; see [`Snapshot::inject`].
///
/// # Errors
///
/// [`CarrierError::TooLarge`] if it is larger than [`MAX_HEADER_BYTES`]; nothing is changed.
///
/// ```
/// use std::collections::HashMap;
///
/// use hermes_env_bridge::{Session, extract, get_session_env, inject};
///
/// # fn main() -> Result<(), hermes_env_bridge::CarrierError> {
/// let mut metadata = HashMap::new();
/// Session::new().chat_id("42").sync_scope(|| inject(&mut metadata))?;
/// // In another process, from the job's metadata:
/// let snapshot = extract(&metadata)?.expect("the job has a session");
/// assert_eq!(snapshot.restore().sync_scope(|| get_session_env("HERMES_SESSION_CHAT_ID", "none")), "42");
/// # Ok(())
/// # }
/// ```
pub fn inject(carrier: &mut impl Injector) -> Result<(), CarrierError> {
    Snapshot::capture().inject(carrier)
}

/// Reads the session that [`inject`] has put into `carrier`: `None` if there is none.
///
/// A header is a claim. Read it only where everybody who can write it may speak for every session, such as the queue
/// between one's own processes, and never decide by it what somebody is allowed to do.
///
/// # Errors
///
/// [`CarrierError`], if the header is there twice, too large, or not what `inject` writes.
///
/// ```
/// use std::collections::HashMap;
///
/// use hermes_env_bridge::{extract, var};
///
/// # fn main() -> Result<(), hermes_env_bridge::CarrierError> {
/// let metadata = HashMap::from([("hermes-session".to_owned(), "HERMES_SESSION_CHAT_ID=42".to_owned())]);
/// let snapshot = extract(&metadata)?.expect("the job has a session");
/// assert_eq!(snapshot.restore().sync_scope(var::chat_id).as_deref(), Some("42"));
/// # Ok(())
/// # }
/// ```
pub fn extract(carrier: &impl Extractor) -> Result<Option<Snapshot>, CarrierError> {
    let mut headers = carrier.get_all(SESSION_HEADER);
    let Some(header) = headers.next() else { return Ok(None) };
    if headers.next().is_some() {
        return Err(CarrierError::Twice);
    }
    Snapshot::from_header(header).map(Some)
}

impl Snapshot {
    /// Puts this into `carrier`, as one header, in the place of another that is there. A snapshot of nothing is an empty
    /// header.
    ///
    /// # Errors
    ///
    /// [`CarrierError::TooLarge`] if it is larger than [`MAX_HEADER_BYTES`]; nothing is changed.
    ///
    /// ```
    /// use hermes_env_bridge::{Session, Snapshot};
    ///
    /// let mut headers = Vec::new();
    /// Snapshot::from(Session::new().chat_id("42")).inject(&mut headers).unwrap();
    /// assert_eq!(headers[0].0, "hermes-session");
    /// ```
    pub fn inject(&self, carrier: &mut impl Injector) -> Result<(), CarrierError> {
        carrier.set(SESSION_HEADER, self.to_header()?)
    }

    /// The value of the header: `NAME=VALUE` of each entry of [`to_mapping`](Self::to_mapping), percent-encoded, with
    /// `&` between them.
    ///
    /// # Errors
    ///
    /// [`CarrierError::TooLarge`] if it is larger than [`MAX_HEADER_BYTES`].
    ///
    /// ```
    /// use hermes_env_bridge::Snapshot;
    ///
    /// let snapshot = Snapshot::from_mapping([("HERMES_SESSION_USER_NAME", "Zoë"), ("HERMES_SESSION_CHAT_ID", "")]);
    /// let header = snapshot.unwrap().to_header();
    /// assert_eq!(header.as_deref(), Ok("HERMES_SESSION_CHAT_ID=&HERMES_SESSION_USER_NAME=Zo%C3%AB"));
    /// ```
    pub fn to_header(&self) -> Result<String, CarrierError> {
        let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
        let entries: Vec<_> =
            self.to_mapping().iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        checked(entries.join("&"))
    }

    /// Reads the value of a header.
    ///
    /// # Errors
    ///
    /// [`CarrierError`], if it is too large or not what [`to_header`](Self::to_header) writes.
    ///
    /// ```
    /// use hermes_env_bridge::Snapshot;
    ///
    /// let snapshot = Snapshot::from_header("HERMES_SESSION_USER_NAME=Zo%C3%AB").unwrap();
    /// assert_eq!(snapshot.to_mapping()["HERMES_SESSION_USER_NAME"], "Zoë");
    /// ```
    pub fn from_header(header: &str) -> Result<Self, CarrierError> {
        let header = checked(header)?;
        let entries: Vec<_> = header.split('&').filter(|_| !header.is_empty()).map(entry).collect::<Result<_, _>>()?;
        let pairs = entries.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(Self::from_mapping(pairs)?)
    }
}

fn checked<H: AsRef<str>>(header: H) -> Result<H, CarrierError> {
    let size = header.as_ref().len();
    if size > MAX_HEADER_BYTES { Err(CarrierError::TooLarge { size, limit: MAX_HEADER_BYTES }) } else { Ok(header) }
}

fn entry(text: &str) -> Result<(String, String), CarrierError> {
    let (name, value) = text.split_once('=').ok_or(CarrierError::NoName)?;
    let name = decoded(name).ok_or(CarrierError::NoName)?;
    match decoded(value) {
        Some(value) => Ok((name, value)),
        None => Err(CarrierError::NotEncoded { name }),
    }
}

/// The text that `encoded` stands for, `None` if that text would be encoded otherwise.
fn decoded(encoded: &str) -> Option<String> {
    let text = percent_decode_str(encoded).decode_utf8().ok()?;
    // The digits of a byte may be small letters.
    utf8_percent_encode(&text, ENCODED).to_string().eq_ignore_ascii_case(encoded).then(|| text.into_owned())
}

impl<S: BuildHasher> Injector for HashMap<String, String, S> {
    fn set(&mut self, name: &'static str, value: String) -> Result<(), CarrierError> {
        self.retain(|key, _| !key.eq_ignore_ascii_case(name));
        let _ = self.insert(name.to_owned(), value);
        Ok(())
    }
}

impl<S: BuildHasher> Extractor for HashMap<String, String, S> {
    fn get_all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Injector for BTreeMap<String, String> {
    fn set(&mut self, name: &'static str, value: String) -> Result<(), CarrierError> {
        self.retain(|key, _| !key.eq_ignore_ascii_case(name));
        let _ = self.insert(name.to_owned(), value);
        Ok(())
    }
}

impl Extractor for BTreeMap<String, String> {
    fn get_all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl Injector for Vec<(String, String)> {
    fn set(&mut self, name: &'static str, value: String) -> Result<(), CarrierError> {
        self.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self.push((name.to_owned(), value));
        Ok(())
    }
}

impl Extractor for Vec<(String, String)> {
    fn get_all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

#[cfg(feature = "http")]
impl Injector for http::HeaderMap {
    fn set(&mut self, name: &'static str, value: String) -> Result<(), CarrierError> {
        let refused = || CarrierError::NotAHeader { name: name.to_owned() };
        let key = http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
        let _ = self.insert(key, http::HeaderValue::from_str(&value).map_err(|_| refused())?);
        Ok(())
    }
}

/// A value that is not visible ASCII is not what [`inject`] writes, and is read as one that cannot be decoded.
#[cfg(feature = "http")]
impl Extractor for http::HeaderMap {
    fn get_all<'a>(&'a self, name: &'static str) -> impl Iterator<Item = &'a str> {
        http::HeaderMap::get_all(self, name).iter().map(|value| value.to_str().unwrap_or("%"))
    }
}
