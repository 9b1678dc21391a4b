//! Attributes of steps of optimizers.

use crate::attrs::{Attributes, Field, FieldType, Fields, SavedAttributes, read_field};
use crate::{Result, TorshError};

crate::attributes! {
    /// `AmpUpdateScale`: the scale of a loss after an iteration.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::AmpUpdateScale { growth_factor: 2.0, backoff_factor: 0.5, growth_interval: 2000 };
    /// assert_eq!(attrs::display(&call).to_string(), "growth_factor=2.0, backoff_factor=0.5, growth_interval=2000");
    /// ```
    AmpUpdateScale {
        /// What it is multiplied by after so many iterations in which all gradients were finite.
        growth_factor: f64,
        /// What it is multiplied by after an iteration in which a gradient was not finite.
        backoff_factor: f64,
        /// How many iterations it grows after.
        growth_interval: i64,
    }
}

/// The most numbers that a row of [`crate::steps`] has.
pub const STEP_NUMBERS: usize = 8;
/// The most flags that a row of [`crate::steps`] has.
pub const STEP_FLAGS: usize = 2;
/// The most numbers of a row of [`crate::steps`] that follow from the others and from the count.
pub const STEP_DERIVED: usize = 5;

/// The names that a row of [`crate::steps`] gives to its numbers and flags, in its order.
#[derive(Debug)]
pub struct StepNames {
    /// Its own, which is its kernel's.
    pub row: &'static str,
    /// Of the numbers.
    pub numbers: &'static [&'static str],
    /// Of the flags.
    pub flags: &'static [&'static str],
    /// Of the numbers that follow from the others and from the count of steps.
    pub derived: &'static [&'static str],
}

/// The names of what a call has once for all parameters.
const OF_ALL: [&str; 3] = ["counted", "rows", "conditional"];

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
    /// Which step of the parameter it is, from 1 on, where the count is not an operand.
    pub step: f64,
    /// The row's numbers in its order, then zeros.
    pub numbers: [f64; STEP_NUMBERS],
    /// The row's flags in its order, then `false`.
    pub flags: [bool; STEP_FLAGS],
}

/// A step of an optimizer (a row of [`crate::steps`]) on any number of parameters. Its name as
/// attributes is the row's, which says how its numbers are called.
///
/// ```
/// use torsh_core::attrs::{self, STEP_FLAGS, STEP_NUMBERS, StepPart, Steps};
/// use torsh_core::steps::numbers::AdagradStep;
///
/// let mut numbers = [0.0; STEP_NUMBERS];
/// numbers[..3].copy_from_slice(&[0.01, 0.0, 1e-10]); // lr, lr_decay, eps
/// let part = StepPart {
///     present: 1, maximize: false, weight_decay: 0.0, shrink: 1.0, step: 1.0, numbers,
///     flags: [false; STEP_FLAGS],
/// };
/// let step = Steps {
///     names: AdagradStep::NAMES, parts: vec![part], counted: false, rows: false, conditional: false,
/// };
/// assert!(attrs::display(&step).to_string().ends_with("step=1.0, lr=0.01, lr_decay=0.0, eps=1e-10"));
/// ```
#[derive(Clone, Debug)]
pub struct Steps {
    /// The names of the row.
    pub names: &'static StepNames,
    /// What the step of each parameter is given.
    pub parts: Vec<StepPart>,
    /// Whether the gradients are followed by as many `float32` numbers: which step of each parameter
    /// it is.
    pub counted: bool,
    /// Whether the gradient, of the only parameter, is one of some rows of it, row-major as parameter and state are.
    /// The operand behind gradient and count is then the list of their numbers: int64, rising, below the number of
    /// rows. The other rows are neither read nor written.
    pub rows: bool,
    /// Whether the last operand is a `float32` number that says, where it is not 0, that nothing is to
    /// be written (`found_inf` of PyTorch).
    pub conditional: bool,
}

impl StepPart {
    /// Names and values, those of the row by its names.
    pub fn fields(&self, names: &StepNames) -> impl Iterator<Item = (&'static str, Field<'_>)> {
        [
            ("present", Field::Int(i64::from(self.present))),
            ("maximize", self.maximize.field()),
            ("weight_decay", self.weight_decay.field()),
            ("shrink", self.shrink.field()),
            ("step", self.step.field()),
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
pub(crate) fn read_steps(
    names: &'static StepNames,
    fields: &[(&str, Field<'_>)],
) -> Result<SavedAttributes> {
    let width = 5 + names.numbers.len() + names.flags.len();
    let counted = read_field(names.row, "counted", fields)?;
    let rows = read_field(names.row, "rows", fields)?;
    let conditional = read_field(names.row, "conditional", fields)?;
    let of_parts: Vec<_> = fields
        .iter()
        .filter(|(name, _)| !OF_ALL.contains(name))
        .copied()
        .collect();
    if !of_parts.len().is_multiple_of(width) {
        return Err(TorshError::invalid(
            "attributes",
            format!(
                "{} has {width} fields for each parameter, which {} are not",
                names.row,
                of_parts.len()
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
            step: read_field(names.row, "step", fields)?,
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
    let parts = of_parts.chunks(width).map(part).collect::<Result<_>>()?;
    Ok(SavedAttributes::new(Steps {
        names,
        parts,
        counted,
        rows,
        conditional,
    }))
}

impl Attributes for Steps {
    fn name(&self) -> &'static str {
        self.names.row
    }
    /// Those of the call, then those of all parameters, one after the other.
    fn fields(&self) -> Fields<'_> {
        let [counted, rows, conditional] = OF_ALL;
        let parts = self.parts.iter();
        [
            (counted, self.counted.field()),
            (rows, self.rows.field()),
            (conditional, self.conditional.field()),
        ]
        .into_iter()
        .chain(parts.flat_map(|p| p.fields(self.names)))
        .collect()
    }
    #[inline]
    fn save(&self) -> SavedAttributes {
        SavedAttributes::new(self.clone())
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
            step: 3.0,
            numbers: [0.25, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            flags: [true, false],
        };
        let names = &StepNames {
            row: "SgdStep",
            numbers: &["lr", "rest"],
            flags: &["first"],
            derived: &[],
        };
        let one = "present=1, maximize=false, weight_decay=0.5, shrink=1.0, step=3.0, lr=0.25, rest=8.0, first=true";
        let parts = vec![part; 2];
        let kept = Steps {
            names,
            parts,
            counted: false,
            rows: false,
            conditional: false,
        }
        .save();
        let text = display(kept.get()).to_string();
        assert_eq!(
            text,
            format!("counted=false, rows=false, conditional=false, {one}, {one}")
        );
    }

    #[test]
    fn steps_are_read_by_the_names_of_the_row() {
        let part = StepPart {
            present: 1,
            maximize: true,
            weight_decay: 0.5,
            shrink: 0.25,
            step: 7.0,
            numbers: [0.25, 8.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            flags: [false, true],
        };
        let names = crate::steps::numbers::SgdStep::NAMES;
        let kept = Steps {
            names,
            parts: vec![part; 2],
            counted: true,
            rows: true,
            conditional: true,
        }
        .save();
        let fields = kept.get().fields();
        let again = crate::attrs::read("SgdStep", &fields).expect("its fields");
        assert_eq!(format!("{again:?}"), format!("{kept:?}"));
        let few = |fields| {
            crate::attrs::read("SgdStep", fields)
                .unwrap_err()
                .to_string()
        };
        assert!(few(&fields[1..]).contains("misses the field 'counted'"));
        assert!(few(&fields[..fields.len() - 1]).contains("10 fields for each"));
        assert!(crate::attrs::read("AdamStep", &fields[..13]).is_err());
    }
}
