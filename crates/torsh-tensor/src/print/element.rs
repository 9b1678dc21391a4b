//! One element as text: the notation and the width that all elements of a tensor share.

use super::{PrintOptions, Values};

/// How the numbers of one real component are written, chosen over all that are shown.
pub(super) struct Notation {
    width: usize,
    precision: usize,
    style: Style,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Floats that are all whole: `3.`.
    Whole,
    Fixed,
    Scientific,
    /// Integers and booleans, written as they are.
    Plain,
}

impl Notation {
    fn plain(width: usize) -> Notation {
        Notation {
            width: width.max(1),
            precision: 0,
            style: Style::Plain,
        }
    }

    /// Style and width from the values that are finite and not zero. The others do not widen
    /// the columns, so `nan` and `-inf` stick out where the numbers are short, as in PyTorch.
    fn float(values: impl Iterator<Item = f64> + Clone, options: &PrintOptions) -> Notation {
        let numbers = values.filter(|v| v.is_finite() && *v != 0.0);
        let mut min = f64::INFINITY;
        let mut max = 0.0f64;
        let mut whole = true;
        for v in numbers.clone() {
            min = min.min(v.abs());
            max = max.max(v.abs());
            whole &= v == v.ceil();
        }
        let mut notation = Notation {
            width: 1,
            precision: options.precision,
            style: Style::Whole,
        };
        if max == 0.0 {
            // Not a single number: `sci_mode` has no say either.
            return notation;
        }
        let scientific = options
            .sci_mode
            .unwrap_or(max / min > 1000.0 || max > 1.0e8 || min < 1.0e-4);
        notation.style = match (scientific, whole) {
            (true, _) => Style::Scientific,
            (false, true) => Style::Whole,
            (false, false) => Style::Fixed,
        };
        let mut text = String::new();
        for v in numbers {
            text.clear();
            notation.write_float(v, &mut text);
            notation.width = notation.width.max(text.len());
        }
        notation
    }

    fn write_float(&self, v: f64, out: &mut String) {
        use std::fmt::Write;
        // Rust writes `NaN`, and Python never the sign of one.
        if v.is_nan() {
            out.push_str("nan");
            return;
        }
        if v.is_infinite() {
            out.push_str(if v < 0.0 { "-inf" } else { "inf" });
            return;
        }
        // Both languages round the exact value half to even, so the digits agree.
        let precision = self.precision;
        let written = match self.style {
            Style::Fixed => write!(out, "{v:.precision$}"),
            Style::Whole | Style::Plain => write!(out, "{v:.0}."),
            Style::Scientific => {
                // Python writes the exponent with a sign and at least two digits.
                let text = format!("{v:.precision$e}");
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let (sign, digits) = match exponent.strip_prefix('-') {
                    Some(digits) => ('-', digits),
                    None => ('+', exponent),
                };
                write!(out, "{mantissa}e{sign}{digits:0>2}")
            }
        };
        written.expect("writing to a String does not fail");
    }

    fn padded(&self, text: &str) -> String {
        format!("{text:>width$}", width = self.width)
    }

    fn float_text(&self, v: f64) -> String {
        let mut text = String::new();
        self.write_float(v, &mut text);
        self.padded(&text)
    }
}

/// The elements that are shown, with the notation to write them in.
pub(super) struct Shown<'a> {
    values: &'a Values,
    notation: Notation,
    /// Of the imaginary part.
    imaginary: Option<Notation>,
}

impl<'a> Shown<'a> {
    pub(super) fn new(values: &'a Values, options: &PrintOptions) -> Shown<'a> {
        let mut imaginary = None;
        let notation = match values {
            Values::Float(v) => Notation::float(v.iter().copied(), options),
            Values::Int(v) => {
                // The longest is an extreme one, but which depends on the sign.
                let length = |x: Option<&i64>| x.map_or(0, |x| x.to_string().len());
                Notation::plain(length(v.iter().min()).max(length(v.iter().max())))
            }
            Values::Bool(v) if v.contains(&false) => Notation::plain("False".len()),
            Values::Bool(_) => Notation::plain("True".len()),
            Values::Complex(v) => {
                imaginary = Some(Notation::float(v.iter().map(|z| z.1), options));
                Notation::float(v.iter().map(|z| z.0), options)
            }
        };
        Shown {
            values,
            notation,
            imaginary,
        }
    }

    /// Columns reserved for an element, without the separator.
    pub(super) fn width(&self) -> usize {
        // One more for the `j`; PyTorch does not count the sign between the parts.
        let imaginary = self.imaginary.as_ref().map_or(0, |n| n.width + 1);
        self.notation.width + imaginary
    }

    /// The text of the element at `position` of the values.
    pub(super) fn text(&self, position: usize) -> String {
        match self.values {
            Values::Float(v) => self.notation.float_text(v[position]),
            Values::Int(v) => self.notation.padded(&v[position].to_string()),
            Values::Bool(v) => {
                let text = if v[position] { "True" } else { "False" };
                self.notation.padded(text)
            }
            Values::Complex(v) => {
                let (re, im) = v[position];
                let mut text = self.notation.float_text(re);
                let mut second = String::new();
                if let Some(notation) = &self.imaginary {
                    // Not padded: PyTorch strips the spaces.
                    notation.write_float(im, &mut second);
                }
                if !second.starts_with('-') {
                    text.push('+');
                }
                text + &second + "j"
            }
        }
    }
}
