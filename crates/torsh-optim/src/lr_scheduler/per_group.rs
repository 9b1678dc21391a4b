//! Settings that are one number for all parameter groups, or one for each.

use torsh_tensor::{Result, TorshError};

use crate::Optimizer;

/// A number for all parameter groups, or a list with one for each.
///
/// What takes one takes a plain number, an array, a slice or a vector.
///
/// ```
/// use torsh_optim::lr_scheduler::{CyclicLR, LRScheduler, PerGroup};
/// use torsh_optim::{Adam, Optimizer, ParamGroup};
/// # use torsh_tensor::tensor;
/// assert_eq!(PerGroup::from(0.5), PerGroup::All(0.5));
/// let (a, b) = (tensor![1.0].requires_grad_(true), tensor![1.0].requires_grad_(true));
/// let adam = Adam::new([ParamGroup::new([&a]), ParamGroup::new([&b])], 0.1)?;
/// let scheduler = CyclicLR::new(&adam, [0.5, 0.25], 1.5, 2)?;
/// assert_eq!(scheduler.get_last_lr(), [0.5, 0.25]);
/// scheduler.step()?;
/// assert_eq!(scheduler.get_last_lr(), [1.0, 0.875]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum PerGroup {
    /// The same for all groups.
    All(f64),
    /// One for each group.
    Each(Vec<f64>),
}

impl PerGroup {
    /// The numbers for the groups of an optimizer; an error for a list of another length.
    #[track_caller]
    pub(super) fn list(
        self,
        scheduler: &'static str,
        name: &str,
        optimizer: &dyn Optimizer,
    ) -> Result<Vec<f64>> {
        let groups = optimizer.group_lrs().len();
        match self {
            PerGroup::All(v) => Ok(vec![v; groups]),
            PerGroup::Each(v) if v.len() == groups => Ok(v),
            PerGroup::Each(v) => Err(TorshError::invalid(
                scheduler,
                format!(
                    "{name} must be one number, or one for each parameter group: {name} has {} values, and the \
                     optimizer has {groups} parameter groups",
                    v.len()
                ),
            )),
        }
    }
}

impl From<f64> for PerGroup {
    fn from(v: f64) -> PerGroup {
        PerGroup::All(v)
    }
}

impl From<Vec<f64>> for PerGroup {
    fn from(v: Vec<f64>) -> PerGroup {
        PerGroup::Each(v)
    }
}

impl From<&[f64]> for PerGroup {
    fn from(v: &[f64]) -> PerGroup {
        PerGroup::Each(v.to_vec())
    }
}

impl From<&Vec<f64>> for PerGroup {
    fn from(v: &Vec<f64>) -> PerGroup {
        PerGroup::Each(v.clone())
    }
}

impl<const N: usize> From<[f64; N]> for PerGroup {
    fn from(v: [f64; N]) -> PerGroup {
        PerGroup::Each(v.to_vec())
    }
}

impl<const N: usize> From<&[f64; N]> for PerGroup {
    fn from(v: &[f64; N]) -> PerGroup {
        PerGroup::Each(v.to_vec())
    }
}
