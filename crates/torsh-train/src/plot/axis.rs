//! Ranges, ticks and their labels.

use std::ops;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use torsh_core::cmath;

/// Numbers of a larger magnitude are left out: sums and differences of the others stay finite.
const LIMIT: f64 = 1e300;

/// How numbers become places along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    Linear,
    Log,
}

impl Scale {
    pub(super) fn new(log: bool) -> Scale {
        match log {
            true => Scale::Log,
            false => Scale::Linear,
        }
    }

    /// The place of a number, if it has one.
    pub(super) fn place(self, v: f64) -> Option<f64> {
        match self {
            _ if !v.is_finite() || v.abs() > LIMIT => None,
            Scale::Linear => Some(v),
            Scale::Log => (v > 0.0).then(|| cmath::log10(v)),
        }
    }
}

/// What an axis shows.
#[derive(Clone, Debug)]
pub(super) struct Range {
    scale: Scale,
    /// Places, with a margin around the data.
    low: f64,
    high: f64,
    /// Whether all numbers are whole, as epochs and years are.
    whole: bool,
}

/// Ticks with their labels, and lines between them without any.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticks {
    pub(super) major: Vec<(f64, String)>,
    pub(super) minor: Vec<f64>,
}

impl Range {
    /// Of the numbers that have a place, with a margin of this share on both sides; from 0 to 1
    /// where none has.
    pub(super) fn of(scale: Scale, values: impl Iterator<Item = f64>, margin: f64) -> Range {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut whole = scale == Scale::Linear;
        for v in values {
            if let Some(place) = scale.place(v) {
                (low, high) = (low.min(place), high.max(place));
                whole &= v.fract() == 0.0;
            }
        }
        if low > high {
            (low, high, whole) = (0.0, 1.0, false);
        }
        let (span, size) = (high - low, low.abs().max(high.abs()));
        let pad = match scale {
            _ if span > 1e-9 * size && span > 1e-290 => margin * span,
            Scale::Log => 0.5,
            Scale::Linear if whole => 1.0,
            Scale::Linear if size > 1e-290 => 0.1 * size,
            Scale::Linear => 1.0,
        };
        Range {
            scale,
            low: low - pad,
            high: high + pad,
            whole,
        }
    }

    pub(super) fn middle(&self) -> f64 {
        self.low + (self.high - self.low) / 2.0
    }

    /// At most `most` intervals between ticks, but at least one tick where there is room.
    pub(super) fn ticks(&self, most: usize) -> Ticks {
        match self.scale {
            Scale::Linear => Ticks {
                major: linear(self.low, self.high, most, self.whole),
                minor: Vec::new(),
            },
            Scale::Log => logarithmic(self.low, self.high, most),
        }
    }
}

/// A range with its ticks, as plotters asks for it.
pub(super) struct Axis {
    range: Range,
    ticks: Ticks,
}

impl Axis {
    pub(super) fn new(range: Range, ticks: Ticks) -> Axis {
        Axis { range, ticks }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        let share = (place - self.range.low) / (self.range.high - self.range.low);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => self.ticks.minor.clone(),
            false => self.ticks.major.iter().map(|t| t.0).collect(),
        }
    }

    fn range(&self) -> ops::Range<f64> {
        self.range.low..self.range.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, place: &f64) -> String {
        let tick = self.ticks.major.iter().find(|t| t.0 == *place);
        tick.map_or_else(String::new, |t| t.1.clone())
    }
}

/// The exponent of a number's first digit.
fn exponent(v: f64) -> i32 {
    (cmath::log10(v.abs()) + 1e-9).floor() as i32
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear(low: f64, high: f64, most: usize, whole: bool) -> Vec<(f64, String)> {
    let rough = (high - low) / most.max(1) as f64;
    let power = cmath::powi(10.0, exponent(rough));
    let mut step = [1.0, 2.0, 5.0]
        .into_iter()
        .map(|m| m * power)
        .find(|s| *s >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power);
    if whole {
        step = step.max(1.0);
    }
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    let count = (last - first + 1.0).clamp(0.0, 100.0) as usize;
    // Adding 0 makes a plain zero of a negative one.
    let values: Vec<f64> = (0..count)
        .map(|i| (first + i as f64) * step + 0.0)
        .collect();
    let size = values.iter().fold(0f64, |m, v| m.max(v.abs()));
    let (place, common) = (exponent(step), exponent(size));
    let label = |v: f64| {
        if v == 0.0 {
            "0".to_string()
        } else if (1e-3..1e7).contains(&size) {
            format!("{v:.*}", (-place).max(0) as usize)
        } else {
            let digits = (common - place).max(0) as usize;
            format!("{:.digits$}e{common}", v / cmath::powi(10.0, common))
        }
    };
    values.into_iter().map(|v| (v, label(v))).collect()
}

/// Powers of ten, with what lies between them as minor lines; in a narrow range 1, 2 and 5 times
/// powers of ten, and in a very narrow one what a linear axis would have.
fn logarithmic(low: f64, high: f64, most: usize) -> Ticks {
    let (first, last) = (low.floor() as i32, high.floor() as i32);
    let inside = |place: &f64| (low..=high).contains(place);
    // Decimal text is exact where a product of powers is not.
    let number = |m: u32, k: i32| format!("{m}e{k}").parse::<f64>().unwrap_or(f64::NAN);
    let all = || (first..=last).flat_map(|k| (1..10).map(move |m| (m, k)));
    let place = |(m, k): (u32, i32)| cmath::log10(number(m, k));
    let shown = |(m, k): (u32, i32)| {
        let v = number(m, k);
        match (1e-4..1e6).contains(&v) {
            true => v.to_string(),
            false => format!("{v:e}"),
        }
    };
    let decades: Vec<i32> = (first..=last).filter(|k| inside(&f64::from(*k))).collect();
    let major: Vec<(u32, i32)> = if decades.len() >= 2 {
        let every = decades.len().div_ceil(most.max(1) + 1) as i32;
        let kept = decades.iter().filter(|k| **k % every == 0);
        kept.map(|k| (1, *k)).collect()
    } else {
        let some = all().filter(|(m, _)| [1, 2, 5].contains(m));
        some.filter(|t| inside(&place(*t))).collect()
    };
    if major.len() < 2 {
        let (from, to) = (cmath::pow(10.0, low), cmath::pow(10.0, high));
        let ticks = linear(from, to, most, false).into_iter();
        return Ticks {
            major: ticks
                .filter(|(v, _)| *v > 0.0)
                .map(|(v, label)| (cmath::log10(v), label))
                .collect(),
            minor: Vec::new(),
        };
    }
    let minor = match decades.len() <= 8 {
        true => all()
            .filter(|t| !major.contains(t))
            .map(place)
            .filter(inside)
            .collect(),
        false => Vec::new(),
    };
    Ticks {
        major: major.into_iter().map(|t| (place(t), shown(t))).collect(),
        minor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(log: bool, values: &[f64], most: usize) -> Vec<String> {
        let range = Range::of(Scale::new(log), values.iter().copied(), 0.05);
        let ticks = range.ticks(most);
        for (place, _) in &ticks.major {
            assert!((range.low..=range.high).contains(place), "{ticks:?}");
        }
        ticks.major.into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_round_numbers_with_as_many_digits_as_they_need() {
        assert_eq!(labels(false, &[0.31, 2.3], 5), ["0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(labels(false, &[1.0, 3.0], 6), ["1", "2", "3"]);
        assert_eq!(labels(false, &[1.0], 6), ["0", "1", "2"]);
        assert_eq!(labels(false, &[-1.0, 1.5], 3), ["-1", "0", "1"]);
        assert_eq!(labels(false, &[0.0, 5e-4], 3), ["0", "2e-4", "4e-4"]);
        assert_eq!(
            labels(false, &[1.5e8, 1.7e8], 4),
            ["1.5e8", "1.6e8", "1.7e8"]
        );
        assert_eq!(
            labels(false, &[1700.0, 2000.0], 4),
            ["1700", "1800", "1900", "2000"]
        );
        assert_eq!(
            labels(false, &[9e-6, 1.1e-5], 5),
            ["0.90e-5", "0.95e-5", "1.00e-5", "1.05e-5", "1.10e-5"]
        );
        assert_eq!(labels(false, &[0.5], 4), ["0.45", "0.50", "0.55"]);
        assert_eq!(labels(false, &[0.0], 2), ["-1", "0", "1"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten_where_the_range_has_some() {
        assert_eq!(
            labels(true, &[1e-5, 1e-2], 5),
            ["1e-5", "0.0001", "0.001", "0.01"]
        );
        assert_eq!(labels(true, &[0.3, 3.0], 5), ["0.5", "1", "2"]);
        assert_eq!(labels(true, &[2.0, 2.5], 5), ["2.0", "2.2", "2.4"]);
        let ticks = Range::of(Scale::Log, [1.0, 100.0].into_iter(), 0.0).ticks(5);
        assert_eq!(ticks.minor.len(), 16);
        assert!((ticks.minor[0] - 2f64.log10()).abs() < 1e-12);
        let wide = labels(true, &[1e-300, 1e300], 6);
        assert!((4..=7).contains(&wide.len()), "{wide:?}");
    }

    #[test]
    fn extreme_numbers_give_finite_ranges() {
        let cases: [&[f64]; 6] = [
            &[1e300, -1e300],
            &[5e-324, 0.0],
            &[f64::NAN, f64::INFINITY, f64::MAX],
            &[],
            &[1.0, 1.0 + 1e-15],
            &[1e-300, 3e-300],
        ];
        for values in cases {
            for log in [false, true] {
                let range = Range::of(Scale::new(log), values.iter().copied(), 0.05);
                assert!(range.low < range.high && (range.high - range.low).is_finite());
                let ticks = range.ticks(6);
                assert!(ticks.major.len() <= 100);
                assert!(ticks.major.iter().all(|t| t.0.is_finite()), "{values:?}");
            }
        }
    }
}
