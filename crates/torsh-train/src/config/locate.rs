//! Finding the line and column of a field in a text.
//!
//! The parsers of the formats report a position only with an error. So the text is parsed again by a
//! reader that walks to the field and fails there.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::read::{Format, Located, Place};

struct Walk<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.0 {
            [] => from.deserialize_any(Stop),
            _ => from.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0[0] {
                map.next_value_seed(Walk(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let wanted: Option<usize> = self.0[0].parse().ok();
        let mut at = 0;
        loop {
            let more = match wanted == Some(at) {
                true => seq.next_element_seed(Walk(&self.0[1..]))?.is_some(),
                false => seq.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                return Ok(());
            }
            at += 1;
        }
    }
}

/// Refuses any value, by serde's defaults.
struct Stop;

impl<'de> Visitor<'de> for Stop {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }
}

/// Line and column of the value at a path, if it is there.
pub(super) fn locate(text: &str, format: Format, path: &[String]) -> Option<Place> {
    let walk = Walk(path);
    match format {
        Format::Yaml => {
            let from = serde_norway::Deserializer::from_str(text);
            walk.deserialize(from).err()?.place(text)
        }
        Format::Json => {
            let mut from = serde_json::Deserializer::from_str(text);
            walk.deserialize(&mut from).err()?.place(text)
        }
        Format::Toml => {
            let from = toml::Deserializer::parse(text).ok()?;
            walk.deserialize(from).err()?.place(text)
        }
    }
}
