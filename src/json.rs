//! JSON as it stands in a text, before anybody decides what it means.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// An object's fields in order, each in the form in which it was written: numbers of any size, and what is in there twice.
#[derive(Clone, Default)]
pub(crate) struct RawFields(Vec<(Box<str>, Box<RawValue>)>);

impl RawFields {
    /// A name that is there twice: one of the two would be lost, and nobody could say which of them is meant.
    pub(crate) fn twice(&self) -> Option<&str> {
        let mut seen = std::collections::HashSet::new();
        self.names().find(|name| !seen.insert(*name))
    }

    /// Takes a field out.
    pub(crate) fn take(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.names().position(|field| field == name)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.texts().map(|(name, _)| name)
    }

    /// Each field's name and JSON.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, raw)| (&**name, raw.get()))
    }

    /// Each field, to be written as it was read.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, raw)| (&**name, &**raw))
    }
}

impl PartialEq for RawFields {
    fn eq(&self, other: &Self) -> bool {
        self.texts().eq(other.texts())
    }
}

impl Eq for RawFields {}

impl Hash for RawFields {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.texts().for_each(|field| field.hash(state));
    }
}

impl Serialize for RawFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for RawFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawFields, A::Error> {
                iter::from_fn(|| entries.next_entry().transpose()).collect::<Result<_, _>>().map(RawFields)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// How deep arrays and objects nest in what is known to be JSON.
pub(crate) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// JSON that comes from any format, whose objects still have what is there twice.
pub(crate) enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Other(Json),
}

impl Node {
    /// The JSON as text, with what is there twice, in its order.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("what was read as JSON can be written")
    }
}

/// Under this name `serde_json` hands on a number as its text, where some crate has it keep numbers of any size.
const NUMBER: &str = "$serde_json::private::Number";

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(name, field)| (name, field))),
            Self::Array(items) => items.serialize(serializer),
            Self::Other(json) => json.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Other(Json::Null))
            }

            fn visit_bool<E>(self, truth: bool) -> Result<Node, E> {
                Ok(Node::Other(truth.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
                Ok(Node::Other(number.into()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
                Ok(Node::Other(number.into()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
                Ok(Node::Other(number.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Other(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Node, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items)).map(Node::Array)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
                let fields: Vec<(String, Node)> =
                    iter::from_fn(|| fields.next_entry().transpose()).collect::<Result<_, _>>()?;
                match fields.as_slice() {
                    [(name, Node::Other(Json::String(number)))] if name == NUMBER => {
                        serde_json::from_str(number).map(Node::Other).map_err(de::Error::custom)
                    }
                    _ => Ok(Node::Object(fields)),
                }
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_that_of_brackets_outside_of_texts() {
        for (json, expected) in [("1", 0), ("[]", 1), (r#"{"a":[{}],"b":[]}"#, 3), (r#"["[[\"[\\"]"#, 1)] {
            assert_eq!(depth(json), expected, "{json}");
        }
    }

    #[test]
    fn what_is_there_twice_is_seen_at_every_depth() {
        let json = r#"{"a":[{"b":1,"b":[2]}]}"#;
        assert_eq!(serde_json::from_str::<Node>(json).unwrap().to_text(), json);
    }

    #[test]
    fn a_number_that_comes_as_its_text_is_a_number() {
        let json = format!(r#"{{"x":{{"{NUMBER}":"12"}}}}"#);
        assert_eq!(serde_json::from_str::<Node>(&json).unwrap().to_text(), r#"{"x":12}"#);
    }
}
