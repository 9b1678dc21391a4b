//! JSON schemas as regular expressions.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use torsh_tensor::{Result, TorshError};

/// JSON whose objects keep the order of their fields.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Json, D::Error> {
        struct Any;
        type Out<E> = std::result::Result<Json, E>;

        impl<'de> Visitor<'de> for Any {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Out<E> {
                Ok(Json::Null)
            }

            fn visit_bool<E>(self, v: bool) -> Out<E> {
                Ok(Json::Bool(v))
            }

            fn visit_i64<E>(self, v: i64) -> Out<E> {
                Ok(Json::Number(v.into()))
            }

            fn visit_u64<E>(self, v: u64) -> Out<E> {
                Ok(Json::Number(v.into()))
            }

            fn visit_f64<E: serde::de::Error>(self, v: f64) -> Out<E> {
                let n = serde_json::Number::from_f64(v);
                n.map(Json::Number)
                    .ok_or_else(|| E::custom("a number that is not finite"))
            }

            fn visit_str<E>(self, v: &str) -> Out<E> {
                Ok(Json::Text(v.to_string()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Out<A::Error> {
                let mut out = Vec::new();
                while let Some(v) = all.next_element()? {
                    out.push(v);
                }
                Ok(Json::Array(out))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Out<A::Error> {
                let mut out = Vec::new();
                while let Some(field) = all.next_entry()? {
                    out.push(field);
                }
                Ok(Json::Object(out))
            }
        }
        from.deserialize_any(Any)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |t: &str| serde_json::Value::from(t).to_string();
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(v) => write!(f, "{v}"),
            Json::Number(v) => write!(f, "{v}"),
            Json::Text(v) => f.write_str(&text(v)),
            Json::Array(all) => {
                let all: Vec<String> = all.iter().map(Json::to_string).collect();
                write!(f, "[{}]", all.join(","))
            }
            Json::Object(all) => {
                let field = |(name, v): &(String, Json)| format!("{}:{v}", text(name));
                let all: Vec<String> = all.iter().map(field).collect();
                write!(f, "{{{}}}", all.join(","))
            }
        }
    }
}

/// A separator may have a space behind it.
const SPACE: &str = " ?";
/// One character of a string.
const CHAR: &str = r#"(?:[^"\\\x00-\x1f\x7f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})"#;
const INTEGER: &str = "-?(?:0|[1-9][0-9]*)";
const NUMBER: &str = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?";

/// Keywords that say nothing about the text.
const NOTES: &[&str] = &[
    "$comment",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

/// The longest regular expression.
const LONGEST: usize = 1 << 20;

fn error(path: &str, why: &str) -> TorshError {
    TorshError::invalid("json_schema", format!("{path}: {why}"))
}

/// The regular expression of a schema.
#[track_caller]
pub(super) fn to_regex(schema: &str) -> Result<String> {
    let schema: Json = serde_json::from_str(schema)
        .map_err(|e| TorshError::format("json_schema", e.to_string()))?;
    of(&schema, "$")
}

/// A text as a regular expression that matches it alone.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn one_of(all: &[String]) -> String {
    match all {
        [one] => one.clone(),
        _ => format!("(?:{})", all.join("|")),
    }
}

fn of(schema: &Json, path: &str) -> Result<String> {
    let Json::Object(fields) = schema else {
        return Err(error(
            path,
            &format!("{schema} is no schema that can be computed"),
        ));
    };
    let get = |name: &str| {
        fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, v)| v)
    };
    let out = if let Some(value) = get("const") {
        only(fields, path, &["const", "type"])?;
        escaped(&value.to_string())
    } else if let Some(values) = get("enum") {
        only(fields, path, &["enum", "type"])?;
        let Json::Array(values) = values else {
            return Err(error(path, "enum is no list"));
        };
        if values.is_empty() {
            return Err(error(path, "enum is empty"));
        }
        let values: Vec<String> = values.iter().map(|v| escaped(&v.to_string())).collect();
        one_of(&values)
    } else {
        let kinds = match get("type") {
            Some(Json::Text(kind)) => vec![kind.as_str()],
            Some(Json::Array(kinds)) if !kinds.is_empty() => {
                let name = |kind: &'_ Json| match kind {
                    Json::Text(kind) => Ok(kind.clone()),
                    other => Err(error(path, &format!("type {other} is no name"))),
                };
                let names = kinds.iter().map(name).collect::<Result<Vec<_>>>()?;
                let all: Result<Vec<_>> = names
                    .iter()
                    .map(|kind| of_type(kind, fields, path, names.len()))
                    .collect();
                return Ok(one_of(&all?));
            }
            Some(other) => return Err(error(path, &format!("type {other} is no name"))),
            None => {
                let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
                let why = format!("a schema of {names:?} without type, enum or const");
                return Err(error(path, &why));
            }
        };
        of_type(kinds[0], fields, path, 1)?
    };
    match out.len() > LONGEST {
        true => Err(error(path, "the schema is too large")),
        false => Ok(out),
    }
}

/// An error for keywords that are not computed.
fn only(fields: &[(String, Json)], path: &str, known: &[&str]) -> Result<()> {
    let unknown = |(name, _): &&(String, Json)| {
        !known.contains(&name.as_str()) && !NOTES.contains(&name.as_str())
    };
    match fields.iter().find(unknown) {
        Some((name, value)) => Err(error(
            path,
            &format!("the keyword {name} = {value} cannot be computed"),
        )),
        None => Ok(()),
    }
}

/// A number of repetitions `{min,max}`.
fn times(
    fields: &[(String, Json)],
    path: &str,
    names: [&str; 2],
) -> Result<(usize, Option<usize>)> {
    let read = |name: &str| match fields.iter().find(|(field, _)| field == name) {
        None => Ok(None),
        Some((_, Json::Number(n))) if n.is_u64() => Ok(n.as_u64().map(|n| n as usize)),
        Some((_, other)) => Err(error(path, &format!("{name} = {other} is no length"))),
    };
    let (min, max) = (read(names[0])?.unwrap_or(0), read(names[1])?);
    match max {
        Some(max) if max < min => Err(error(
            path,
            &format!("{} = {min} and {} = {max}", names[0], names[1]),
        )),
        _ => Ok((min, max)),
    }
}

fn counted(what: &str, min: usize, max: Option<usize>) -> String {
    match max {
        Some(max) => format!("(?:{what}){{{min},{max}}}"),
        None => format!("(?:{what}){{{min},}}"),
    }
}

/// The regular expression of one type. With several types, keywords may belong to another one.
fn of_type(kind: &str, fields: &[(String, Json)], path: &str, types: usize) -> Result<String> {
    let known: &[&str] = match kind {
        "string" => &["type", "minLength", "maxLength"],
        "number" | "integer" | "boolean" | "null" => &["type"],
        "array" => &["type", "items", "minItems", "maxItems"],
        "object" => &["type", "properties", "required", "additionalProperties"],
        _ => return Err(error(path, &format!("there is no type {kind:?}"))),
    };
    let every = [
        "type",
        "minLength",
        "maxLength",
        "items",
        "minItems",
        "maxItems",
        "properties",
        "required",
        "additionalProperties",
    ];
    only(fields, path, if types > 1 { &every } else { known })?;
    Ok(match kind {
        "string" => match times(fields, path, ["minLength", "maxLength"])? {
            (0, None) => format!("\"{CHAR}*\""),
            (min, max) => format!("\"{}\"", counted(CHAR, min, max)),
        },
        "integer" => INTEGER.to_string(),
        "number" => NUMBER.to_string(),
        "boolean" => "(?:true|false)".to_string(),
        "null" => "null".to_string(),
        "array" => array(fields, path)?,
        _ => object(fields, path)?,
    })
}

fn array(fields: &[(String, Json)], path: &str) -> Result<String> {
    let Some((_, items)) = fields.iter().find(|(name, _)| name == "items") else {
        return Err(error(path, "an array without items"));
    };
    let item = of(items, &format!("{path}.items"))?;
    let (min, max) = times(fields, path, ["minItems", "maxItems"])?;
    if max == Some(0) {
        return Ok(r"\[\]".into());
    }
    let more = format!(",{SPACE}{item}");
    let more = counted(&more, min.saturating_sub(1), max.map(|n| n - 1));
    Ok(match min {
        0 => format!(r"\[(?:{item}{more})?\]"),
        _ => format!(r"\[{item}{more}\]"),
    })
}

fn object(fields: &[(String, Json)], path: &str) -> Result<String> {
    let get = |name: &str| {
        fields
            .iter()
            .find(|(field, _)| field == name)
            .map(|(_, v)| v)
    };
    let Some(Json::Object(properties)) = get("properties") else {
        return Err(error(path, "an object without properties"));
    };
    if let Some(other) = get("additionalProperties")
        && !matches!(other, Json::Bool(_))
    {
        let why = format!("the keyword additionalProperties = {other} cannot be computed");
        return Err(error(path, &why));
    }
    let required: Vec<&str> = match get("required") {
        None => Vec::new(),
        Some(Json::Array(all)) => {
            let name = |v: &Json| match v {
                Json::Text(name) => properties
                    .iter()
                    .map(|(p, _)| p.as_str())
                    .find(|p| p == name),
                _ => None,
            };
            let names = all.iter().map(|v| {
                name(v).ok_or_else(|| error(path, &format!("required {v} is no property")))
            });
            names.collect::<Result<_>>()?
        }
        Some(other) => return Err(error(path, &format!("required = {other} is no list"))),
    };
    // From the last property to the first: what follows a property, and what follows none.
    let (mut behind, mut first) = (String::new(), String::new());
    for (name, schema) in properties.iter().rev() {
        let key = escaped(&Json::Text(name.clone()).to_string());
        let value = of(schema, &format!("{path}.properties.{name}"))?;
        let pair = format!("{key}:{SPACE}{value}");
        if required.contains(&name.as_str()) {
            first = format!("{pair}{behind}");
            behind = format!(",{SPACE}{pair}{behind}");
        } else {
            first = match &*first {
                "" => format!("(?:{pair}{behind})?"),
                _ => format!("(?:{pair}{behind}|{first})"),
            };
            behind = format!("(?:,{SPACE}{pair})?{behind}");
        }
        if first.len() + behind.len() > LONGEST {
            return Err(error(path, "the schema is too large"));
        }
    }
    Ok(format!(r"\{{{first}\}}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::{Constraint, Vocabulary};

    fn check(schema: &str, good: &[&str], bad: &[&str]) -> Result<()> {
        let bytes = Vocabulary::new((0..=255u8).map(|b| Some([b])));
        let c = Constraint::json_schema(schema, bytes)?;
        let ids = |text: &str| text.bytes().map(i64::from).collect::<Vec<_>>();
        let matches = |text: &str| c.allowed(&ids(text)).is_ok_and(|(_, ends)| ends);
        for text in good {
            assert!(matches(text), "{schema}: {text}");
        }
        for text in bad {
            assert!(!matches(text), "{schema}: {text}");
        }
        Ok(())
    }

    #[test]
    fn values_are_json_of_their_type() -> Result<()> {
        check(
            r#"{ "type": "string" }"#,
            &[r#""""#, r#""a é€ \" \n \u00e9""#],
            &[r#"""#, r#""\x""#, "\"\n\"", "a"],
        )?;
        check(
            r#"{ "type": "string", "minLength": 1, "maxLength": 2 }"#,
            &[r#""é""#],
            &[r#""""#, r#""abc""#],
        )?;
        check(
            r#"{ "type": "integer" }"#,
            &["0", "-12"],
            &["01", "1.5", "+1", ""],
        )?;
        check(
            r#"{ "type": "number" }"#,
            &["0", "-1.5e-3", "2E5"],
            &["1.", ".5", "NaN"],
        )?;
        check(
            r#"{ "type": ["boolean", "null"] }"#,
            &["true", "false", "null"],
            &["0", "True"],
        )?;
        check(
            r#"{ "enum": ["a.b", 1, null, [1, {"x": true}]] }"#,
            &[r#""a.b""#, "1", "null", r#"[1,{"x":true}]"#],
            &[r#""aXb""#],
        )?;
        check(r#"{ "const": "x" }"#, &[r#""x""#], &["x"])?;
        Ok(())
    }

    #[test]
    fn arrays_and_objects_nest() -> Result<()> {
        let ints = r#"{ "type": "array", "items": { "type": "integer" } }"#;
        check(ints, &["[]", "[1]", "[1, 2,3]"], &["[1,]", "[,1]", "[1"])?;
        let some =
            r#"{ "type": "array", "items": { "type": "integer" }, "minItems": 1, "maxItems": 2 }"#;
        check(some, &["[1]", "[1, 2]"], &["[]", "[1, 2, 3]"])?;
        let none = r#"{ "type": "array", "items": { "type": "integer" }, "maxItems": 0 }"#;
        check(none, &["[]"], &["[1]"])?;
        let object = r#"{ "title": "T", "type": "object", "properties": {
            "z": { "type": "integer" }, "a": { "type": "null" }, "m": { "type": "array", "items": { "type": "object",
            "properties": { "k": { "type": "boolean" } }, "required": ["k"] } } },
            "required": ["a"], "additionalProperties": false }"#;
        check(
            object,
            &[
                r#"{"a": null}"#,
                r#"{"z": 1, "a":null}"#,
                r#"{"a":null,"m":[{"k":true}, {"k": false}]}"#,
                r#"{"z":1,"a":null,"m":[]}"#,
            ],
            &[
                r#"{}"#,
                r#"{"z":1}"#,
                r#"{"a":null,"z":1}"#,
                r#"{"a":null,}"#,
                r#"{"a":null,"m":[{}]}"#,
            ],
        )?;
        let optional = r#"{ "type": "object", "properties": {
            "x": { "type": "null" }, "y": { "type": "null" } } }"#;
        check(
            optional,
            &[
                "{}",
                r#"{"x":null}"#,
                r#"{"y":null}"#,
                r#"{"x":null,"y":null}"#,
            ],
            &[r#"{"x":null"y":null}"#, r#"{,"y":null}"#],
        )
    }

    #[test]
    fn what_cannot_be_computed_is_named() {
        for (schema, names) in [
            ("{", "line 1"),
            ("true", "true"),
            (r#"{ "anyOf": [] }"#, "anyOf"),
            (r#"{ "type": "string", "pattern": "a" }"#, "pattern"),
            (r#"{ "type": "integer", "minimum": 3 }"#, "minimum"),
            (r#"{ "type": "array" }"#, "items"),
            (r#"{ "type": "object" }"#, "properties"),
            (r#"{ "type": "thing" }"#, "thing"),
            (
                r#"{ "type": "object", "properties": { "a": { "$ref": "x" } } }"#,
                "properties.a",
            ),
            (
                r#"{ "type": "object", "properties": {}, "required": ["b"] }"#,
                "b",
            ),
            (
                r#"{ "type": "string", "minLength": 3, "maxLength": 2 }"#,
                "minLength = 3",
            ),
            (r#"{ "enum": [] }"#, "empty"),
        ] {
            let error = to_regex(schema)
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default();
            assert!(error.contains(names), "{schema}: {error}");
        }
    }
}
