//! Attributes of steps of optimizers.

use crate::attrs::{Attributes, Field, FieldType, Fields, Kept, read_field};
use crate::{Result, TorshError};

crate::attributes! {
    /// `UnscaleGradients`: multiplies gradients in place.
    UnscaleGradients {
        /// What they are multiplied by.
        factor: f64,
    }
}

/// The most numbers that a row of [`crate::steps`] has.
pub const STEP_NUMBERS: usize = 8;
/// The most flags that a row of [`crate::steps`] has.
pub const STEP_FLAGS: usize = 2;

/// The names that a row of [`crate::steps`] gives to its numbers and flags, in its order.
#[derive(Debug)]
pub struct StepNames {
    /// Its own, which is its kernel's.
    pub row: &'static str,
    /// Of the numbers.
    pub numbers: &'static [&'static str],
    /// Of the flags.
    pub flags: &'static [&'static str],
}

/// One parameter's part of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepPart {
    /// Which of the row's tensors of state are there; a bit each, the lowest for the first.
    pub present: u8,
    /// Whether the step goes up the gradient.
    pub maximize: bool,
    /// The L2 penalty.
    pub weight_decay: f64,
    /// What the parameter is multiplied by first (decoupled weight decay); 1 where it is not.
    pub shrink: f64,
    /// The row's numbers in its order, then zeros.
    pub numbers: [f64; STEP_NUMBERS],
    /// The row's flags in its order, then `false`.
    pub flags: [bool; STEP_FLAGS],
}

/// A step of an optimizer (a row of [`crate::steps`]) on any number of parameters. Its name as
/// attributes is the row's, which says how its numbers are called.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The names of the row.
    pub names: &'static StepNames,
    /// What the step of each parameter is given.
    pub parts: Vec<StepPart>,
}

impl StepPart {
    /// Names and values, those of the row by its names.
    pub fn fields(&self, names: &StepNames) -> impl Iterator<Item = (&'static str, Field<'_>)> {
        [
            ("present", Field::Int(i64::from(self.present))),
            ("maximize", self.maximize.field()),
            ("weight_decay", self.weight_decay.field()),
            ("shrink", self.shrink.field()),
        ]
        .into_iter()
        .chain(named(names.numbers, &self.numbers))
        .chain(named(names.flags, &self.flags))
    }
}

/// Names with their values.
fn named<'a, T: FieldType>(
    names: &'static [&'static str],
    values: &'a [T],
) -> impl Iterator<Item = (&'static str, Field<'a>)> {
    let fields = values.iter().map(T::field);
    names.iter().copied().zip(fields)
}

/// The steps of a row, of the named fields of all parameters, one after the other; what the readers of
/// [`crate::steps::numbers`] do.
pub(crate) fn read_steps(names: &'static StepNames, fields: &[(&str, Field<'_>)]) -> Result<Kept> {
    let width = 4 + names.numbers.len() + names.flags.len();
    if !fields.len().is_multiple_of(width) {
        return Err(TorshError::invalid(
            "attributes",
            format!(
                "{} has {width} fields for each parameter, which {} are not",
                names.row,
                fields.len()
            ),
        ));
    }
    let part = |fields: &[(&str, Field<'_>)]| -> Result<StepPart> {
        let present: i64 = read_field(names.row, "present", fields)?;
        let mut part = StepPart {
            present: u8::try_from(present).map_err(|_| {
                let why = format!("{}.present cannot be {present}", names.row);
                TorshError::invalid("attributes", why)
            })?,
            maximize: read_field(names.row, "maximize", fields)?,
            weight_decay: read_field(names.row, "weight_decay", fields)?,
            shrink: read_field(names.row, "shrink", fields)?,
            numbers: [0.0; STEP_NUMBERS],
            flags: [false; STEP_FLAGS],
        };
        for (to, name) in part.numbers.iter_mut().zip(names.numbers) {
            *to = read_field(names.row, name, fields)?;
        }
        for (to, name) in part.flags.iter_mut().zip(names.flags) {
            *to = read_field(names.row, name, fields)?;
        }
        Ok(part)
    };
    let parts = fields.chunks(width).map(part).collect::<Result<_>>()?;
    Ok(Kept::new(Steps { names, parts }))
}

impl Attributes for Steps {
    fn name(&self) -> &'static str {
        self.names.row
    }
    /// Those of all parameters, one after the other.
    fn fields(&self) -> Fields<'_> {
        let parts = self.parts.iter();
        parts.flat_map(|p| p.fields(self.names)).collect()
    }
    #[inline]
    fn keep(&self) -> Kept {
        Kept::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attrs::display;

    #[test]
    fn numbers_are_shown_by_the_names_of_the_row() {
        let part = StepPart {
            present: 1,
            maximize: false,
            weight_decay: 0.5,
            shrink: 1.0,
            numbers: [0.25, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            flags: [true, false],
        };
        let names = &StepNames {
            row: "SgdStep",
            numbers: &["lr", "rest"],
            flags: &["first"],
        };
        let one = "present=1, maximize=false, weight_decay=0.5, shrink=1.0, lr=0.25, rest=8.0, first=true";
        let parts = vec![part; 2];
        let kept = Steps { names, parts }.keep();
        let text = display(kept.get()).to_string();
        assert_eq!(text, format!("{one}, {one}"));
    }

    #[test]
    fn steps_are_read_by_the_names_of_the_row() {
        let part = StepPart {
            present: 1,
            maximize: true,
            weight_decay: 0.5,
            shrink: 0.25,
            numbers: [0.25, 8.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            flags: [false, true],
        };
        let names = crate::steps::numbers::SgdStep::NAMES;
        let kept = Steps {
            names,
            parts: vec![part; 2],
        }
        .keep();
        let fields = kept.get().fields();
        let again = crate::attrs::read("SgdStep", &fields).expect("its fields");
        assert_eq!(format!("{again:?}"), format!("{kept:?}"));
        let few = crate::attrs::read("SgdStep", &fields[1..]);
        assert!(few.unwrap_err().to_string().contains("9 fields for each"));
        assert!(crate::attrs::read("AdamStep", &fields[..10]).is_err());
    }
}
