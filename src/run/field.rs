//! What the fields of a run context hold.

use std::fmt;

use serde::Serialize;
use serde::ser::Serializer;

use crate::error::RunContextError;

/// A text that is stated: neither empty nor with a NUL, which no environment variable can hold.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub(super) struct Text(#[cfg_attr(feature = "schema", schemars(regex(pattern = "^[^\\u0000]+$")))] Box<str>);

impl Text {
    pub(super) fn new(field: &'static str, text: &str) -> Result<Self, RunContextError> {
        if text.is_empty() {
            return Err(RunContextError::Empty { field });
        }
        if text.contains('\0') {
            return Err(RunContextError::Nul { field });
        }
        Ok(Self(text.into()))
    }

    /// The text of an optional field.
    pub(super) fn stated(field: &'static str, text: Option<&str>) -> Result<Option<Self>, RunContextError> {
        text.map(|text| Self::new(field, text)).transpose()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A numeric id. In JSON it is a number as far as JavaScript has each integer, and a decimal text beyond.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id(pub(super) i64);

/// The largest integer up to which JavaScript has each one, `Number.MAX_SAFE_INTEGER`.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

impl Id {
    pub(super) fn is_safe(self) -> bool {
        self.0.unsigned_abs() <= MAX_SAFE_INTEGER
    }

    /// The id that `text` is in decimal, as it would be written: without `+`, white space or leading zeros.
    pub(super) fn from_decimal(text: &str) -> Option<Self> {
        text.parse().ok().filter(|id: &i64| id.to_string() == text).map(Self)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_safe() { serializer.serialize_i64(self.0) } else { serializer.collect_str(self) }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Id {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Id".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A number, or beyond 2^53 - 1 its decimal text.",
            "anyOf": [
                { "type": "integer", "minimum": -9_007_199_254_740_991_i64, "maximum": 9_007_199_254_740_991_i64 },
                { "type": "string", "pattern": "^(0|-?[1-9][0-9]*)$" }
            ]
        })
    }
}
