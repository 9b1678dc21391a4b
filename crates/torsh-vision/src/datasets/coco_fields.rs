//! Fields of COCO's files as their many writers have them: numbers as floats, flags as booleans, null for what is not there.
//! pycocotools and torchvision read them all.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A number, or what Python takes for one.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Number {
    /// The whole number that it is.
    pub(super) fn whole(self) -> Option<i64> {
        match self {
            Number::Bool(b) => Some(b.into()),
            Number::Int(i) => Some(i),
            // Beyond 2^53 not every whole number is a float.
            Number::Float(f) => (f.fract() == 0.0 && f.abs() < 2f64.powi(53)).then_some(f as i64),
        }
    }

    fn real(self) -> f64 {
        match self {
            Number::Bool(b) => b.into(),
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }
}

/// A number that may be null.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Number>, D::Error> {
    Option::<Number>::deserialize(from).map_err(|_| D::Error::custom("this is no number"))
}

/// A whole number; 0 for null.
pub(super) fn integer<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    match number(from)? {
        None => Ok(0),
        Some(n) => n
            .whole()
            .ok_or_else(|| D::Error::custom(format!("{} is no whole number", n.real()))),
    }
}

/// A whole number from 0 on.
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let n = integer(from)?;
    usize::try_from(n).map_err(|_| D::Error::custom(format!("{n} is below 0")))
}

/// 0 or 1, as Python's truth of a number.
pub(super) fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    Ok(number(from)?.is_some_and(|n| n.real() != 0.0).into())
}

/// A number; 0 for null.
pub(super) fn real<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(number(from)?.map_or(0.0, Number::real))
}

/// A text; an empty one for null.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A list of numbers; an empty one for null.
pub(super) fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let all = Option::<Vec<Number>>::deserialize(from);
    let all = all.map_err(|_| D::Error::custom("this is no list of numbers"))?;
    Ok(all
        .unwrap_or_default()
        .into_iter()
        .map(Number::real)
        .collect())
}

/// A box; one without a size for null and for an empty list.
pub(super) fn optional_box<'de, D: Deserializer<'de>>(from: D) -> Result<[f64; 4], D::Error> {
    let all = numbers(from)?;
    match all[..] {
        [] => Ok([0.0; 4]),
        [x, y, width, height] => Ok([x, y, width, height]),
        _ => Err(D::Error::custom(format!(
            "a box has x, y, width and height, and this has {} numbers",
            all.len()
        ))),
    }
}

/// A list; an empty one for null.
pub(super) fn many<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
