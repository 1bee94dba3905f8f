//! JSON as it stands in a text, before anybody decides what it means.

use std::collections::BTreeMap;
use std::fmt;
use std::iter;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::error::SnapshotError;

/// JSON whose objects still have what is there twice.
pub(crate) enum Node {
    Object(Vec<(String, Node)>),
    Other(Json),
}

impl Node {
    /// How deep arrays and objects nest. The parser has refused what would exhaust the stack.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Object(fields) => 1 + fields.iter().map(|(_, field)| field.depth()).max().unwrap_or(0),
            Self::Other(json) => depth(json),
        }
    }

    /// The JSON as text, with what is there twice, in its order.
    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("what was read as JSON can be written")
    }

    /// The fields of the object that `what` has to be.
    pub(crate) fn into_fields(self, what: &str) -> Result<BTreeMap<String, Node>, SnapshotError> {
        let Self::Object(entries) = self else {
            return Err(SnapshotError::Malformed { reason: format!("{what} is no object") });
        };
        let mut fields = BTreeMap::new();
        for (name, field) in entries {
            if fields.contains_key(&name) {
                return Err(SnapshotError::Duplicate { name });
            }
            let _ = fields.insert(name, field);
        }
        Ok(fields)
    }
}

/// How deep arrays and objects nest.
fn depth(json: &Json) -> usize {
    let inner = match json {
        Json::Array(items) => items.iter().map(depth).max(),
        Json::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

impl From<Node> for Json {
    fn from(node: Node) -> Self {
        match node {
            Node::Object(fields) => fields.into_iter().map(|(name, field)| (name, Self::from(field))).collect(),
            Node::Other(json) => json,
        }
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(name, field)| (name, field))),
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
                Json::deserialize(SeqAccessDeserializer::new(items)).map(Node::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
                iter::from_fn(|| fields.next_entry().transpose()).collect::<Result<_, _>>().map(Node::Object)
            }
        }
        deserializer.deserialize_any(Any)
    }
}
