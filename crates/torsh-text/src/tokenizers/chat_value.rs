//! Values of messages and tools.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use torsh_tensor::{Result, TorshError};

use super::files::short;

/// A value that a chat template reads: of a message, a tool, a document. Unlike `serde_json::Value` it keeps the fields
/// of an object in their order, which templates that write JSON show.
///
/// ```
/// use torsh_text::tokenizers::ChatValue;
/// let tool = ChatValue::parse(r#"{ "name": "add", "arguments": ["a", 2.5, null] }"#)?;
/// assert_eq!(tool.get("name"), Some(&ChatValue::from("add")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ChatValue {
    /// `null`, Python's `None`.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<ChatValue>),
    /// An object.
    Map(Vec<(String, ChatValue)>),
}

impl ChatValue {
    /// Reads a value from JSON.
    ///
    /// # Errors
    /// A text that is not JSON.
    ///
    /// ```
    /// use torsh_text::tokenizers::ChatValue;
    /// assert_eq!(ChatValue::parse("[1, 0.5]")?, ChatValue::List(vec![1.into(), 0.5.into()]));
    /// assert!(ChatValue::parse("[1").is_err_and(|e| e.to_string().contains("it is not JSON")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn parse(json: &str) -> Result<ChatValue> {
        serde_json::from_str(json).map_err(|e| {
            TorshError::format(
                "ChatValue",
                format!("it is not JSON: {}", short(&e.to_string())),
            )
        })
    }

    /// Gives the field of an object; other values have none.
    ///
    /// ```
    /// use torsh_text::tokenizers::ChatValue;
    /// let value = ChatValue::parse(r#"{ "name": "add" }"#)?;
    /// assert_eq!((value.get("name"), value.get("arguments")), (Some(&"add".into()), None));
    /// assert_eq!(ChatValue::from("add").get("name"), None);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn get(&self, name: &str) -> Option<&ChatValue> {
        match self {
            ChatValue::Map(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            _ => None,
        }
    }

    pub(super) fn to_jinja(&self) -> minijinja::Value {
        match self {
            ChatValue::Null => minijinja::Value::from(()),
            ChatValue::Bool(value) => (*value).into(),
            ChatValue::Int(value) => (*value).into(),
            ChatValue::Float(value) => (*value).into(),
            ChatValue::Text(value) => (&**value).into(),
            ChatValue::List(all) => {
                minijinja::Value::from(all.iter().map(ChatValue::to_jinja).collect::<Vec<_>>())
            }
            ChatValue::Map(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| (&**name, value.to_jinja()));
                minijinja::Value::from_pairs(fields)
            }
        }
    }
}

/// Sets a field, which keeps its place where it is there already.
pub(super) fn set(fields: &mut Vec<(String, ChatValue)>, name: &str, value: ChatValue) {
    match fields.iter_mut().find(|(n, _)| n == name) {
        Some((_, old)) => *old = value,
        None => fields.push((name.to_string(), value)),
    }
}

macro_rules! from {
    ($($ty:ty => $value:ident $variant:expr;)*) => {$(
        impl From<$ty> for ChatValue {
            fn from($value: $ty) -> ChatValue {
                $variant
            }
        }
    )*};
}
from! {
    &str => v ChatValue::Text(v.to_string());
    String => v ChatValue::Text(v);
    &String => v ChatValue::Text(v.clone());
    bool => v ChatValue::Bool(v);
    i32 => v ChatValue::Int(v.into());
    i64 => v ChatValue::Int(v);
    f64 => v ChatValue::Float(v);
    Vec<ChatValue> => v ChatValue::List(v);
    Vec<(String, ChatValue)> => v ChatValue::Map(v);
}

impl From<serde_json::Value> for ChatValue {
    fn from(value: serde_json::Value) -> ChatValue {
        match value {
            serde_json::Value::Null => ChatValue::Null,
            serde_json::Value::Bool(value) => ChatValue::Bool(value),
            serde_json::Value::Number(value) => match value.as_i64() {
                Some(value) => ChatValue::Int(value),
                None => ChatValue::Float(value.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(value) => ChatValue::Text(value),
            serde_json::Value::Array(all) => {
                ChatValue::List(all.into_iter().map(ChatValue::from).collect())
            }
            serde_json::Value::Object(fields) => {
                let fields = fields.into_iter().map(|(n, v)| (n, v.into()));
                ChatValue::Map(fields.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for ChatValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = ChatValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> std::result::Result<ChatValue, E> {
        Ok(ChatValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<ChatValue, E> {
        Ok(ChatValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<ChatValue, E> {
        Ok(ChatValue::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<ChatValue, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => ChatValue::Int(value),
            Err(_) => ChatValue::Float(value as f64),
        })
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<ChatValue, E> {
        Ok(ChatValue::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<ChatValue, E> {
        Ok(ChatValue::Text(value.to_string()))
    }

    fn visit_string<E>(self, value: String) -> std::result::Result<ChatValue, E> {
        Ok(ChatValue::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> std::result::Result<ChatValue, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = all.next_element()? {
            values.push(value);
        }
        Ok(ChatValue::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> std::result::Result<ChatValue, A::Error> {
        let mut fields: Vec<(String, ChatValue)> = Vec::new();
        let mut places = std::collections::HashMap::new();
        while let Some((name, value)) = all.next_entry::<String, ChatValue>()? {
            match places.get(&name) {
                // As in Python the last value of a name counts.
                Some(&at) => {
                    let field: &mut (String, ChatValue) = &mut fields[at];
                    field.1 = value;
                }
                None => {
                    places.insert(name.clone(), fields.len());
                    fields.push((name, value));
                }
            }
        }
        Ok(ChatValue::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_its_order() -> Result<()> {
        let value = ChatValue::parse(r#"{"z": 1, "a": [true, null, -2, 0.5], "z": "x"}"#)?;
        let list = vec![true.into(), ChatValue::Null, (-2).into(), 0.5.into()];
        let expected = vec![
            ("z".to_string(), "x".into()),
            ("a".to_string(), ChatValue::List(list)),
        ];
        assert_eq!(value, ChatValue::Map(expected));
        assert!(ChatValue::parse("{").is_err());
        assert!(ChatValue::parse(&"[".repeat(100_000)).is_err());
        Ok(())
    }
}
