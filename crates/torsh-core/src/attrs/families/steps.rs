//! Attributes of steps of optimizers.

use crate::attrs::{Attributes, Field, FieldType, Fields, Kept};

crate::attributes! {
    /// `AmpUpdateScale`: the scale of a loss after an iteration.
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
    /// Of the numbers.
    pub numbers: &'static [&'static str],
    /// Of the flags.
    pub flags: &'static [&'static str],
    /// Of the numbers that follow from the others and from the count of steps.
    pub derived: &'static [&'static str],
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
    /// Which step of the parameter it is, from 1 on, where the count is not an operand.
    pub step: f64,
    /// The row's numbers in its order, then zeros.
    pub numbers: [f64; STEP_NUMBERS],
    /// The row's flags in its order, then `false`.
    pub flags: [bool; STEP_FLAGS],
}

/// A step of an optimizer (a row of [`crate::steps`]) on any number of parameters.
///
/// Rows differ in the names of their numbers, so [`attrs::read`](crate::attrs::read) does not make
/// this struct: a step writes into its operands, and calls that do are not saved.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The names of the row.
    pub names: &'static StepNames,
    /// What the step of each parameter is given.
    pub parts: Vec<StepPart>,
    /// Whether the gradients are followed by as many `float32` numbers: which step of each parameter
    /// it is.
    pub counted: bool,
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

impl Attributes for Steps {
    fn name(&self) -> &'static str {
        "Steps"
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
            step: 3.0,
            numbers: [0.25, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            flags: [true, false],
        };
        let names = &StepNames {
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
            conditional: false,
        }
        .keep();
        let text = display(kept.get()).to_string();
        assert_eq!(text, format!("{one}, {one}"));
    }
}
