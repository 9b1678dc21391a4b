//! The special functions with an order, which is checked before a row's kernel runs.

use torsh_core::pointwise::numbers;
use torsh_core::{Result, TorshError};

use super::pointwise::parametric;
use super::pointwise_extra::apply;
use crate::Tensor;
use crate::record::{OpRecord, sample};

pub(crate) const RECORDS: &[&OpRecord] = &[&POLYGAMMA, &MVLGAMMA];

/// The largest order of [`Tensor::mvlgamma`]: each is a value of the gamma function for each element.
const MAX_MVLGAMMA: i64 = 1_000_000;

/// A derivative of digamma.
#[torsh_tensor::by_name(polygamma(input, n, false))]
pub static POLYGAMMA: OpRecord = OpRecord::new(
    "polygamma",
    "Derivative of order n of digamma of each element; digamma itself where n is 0.",
    "(int n, Tensor input)",
)
.samples(|s| {
    let x = s.uniform(&[2, 3], 0.5, 4.0)?;
    let sample = |n| sample![n, x.clone()];
    Ok(vec![sample(0), sample(1), sample(3)])
});

#[torsh_tensor::by_name(mvlgamma(input, p, false))]
pub static MVLGAMMA: OpRecord = OpRecord::new(
    "mvlgamma",
    "Logarithm of the multivariate gamma function of order p of each element.",
    "(Tensor input, int p)",
)
.samples(|s| {
    let x = s.uniform(&[2, 3], 1.5, 4.0)?;
    let sample = |p| sample![x.clone(), p];
    Ok(vec![sample(1), sample(3)])
});

#[track_caller]
fn polygamma(x: &Tensor, n: i64, inplace: bool) -> Result<Tensor> {
    if n < 0 {
        return Err(TorshError::invalid(
            "polygamma",
            format!("polygamma(n, x) does not support negative n, got {n}"),
        ));
    }
    apply(
        &parametric::polygamma,
        x,
        &[],
        &numbers::Polygamma { n: n.into() },
        inplace,
    )
}

#[track_caller]
fn mvlgamma(x: &Tensor, p: i64, inplace: bool) -> Result<Tensor> {
    if !(1..=MAX_MVLGAMMA).contains(&p) {
        return Err(TorshError::invalid(
            "mvlgamma",
            format!("p has to be greater than or equal to 1 and at most {MAX_MVLGAMMA}, got {p}"),
        ));
    }
    apply(
        &parametric::mvlgamma,
        x,
        &[],
        &numbers::Mvlgamma { p: p.into() },
        inplace,
    )
}

#[torsh_tensor::functions]
impl Tensor {
    /// Derivative of order `n` of [`digamma`](Tensor::digamma) of each element (`torch.polygamma`); digamma itself
    /// where `n` is 0. A negative `n` is an error.
    ///
    /// The result has this tensor's shape and dtype, or the default dtype for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0, 2.0].polygamma(1)?.allclose(&tensor![1.644934, 0.644934])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn polygamma(&self, n: i64) -> Result<Tensor> {
        polygamma(self, n, false)
    }

    /// [`Tensor::polygamma`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// x.polygamma_(1)?;
    /// assert!(x.allclose(&tensor![1.644934, 0.644934])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn polygamma_(&self, n: i64) -> Result<Tensor> {
        polygamma(self, n, true)
    }

    /// Logarithm of the multivariate gamma function of order `p` of each element (`torch.mvlgamma`):
    /// `p (p - 1) / 4 ln(pi)` and the sum of `lgamma(x - j / 2)` over j from 0 to p - 1. An error for
    /// `p` below 1 and above 1,000,000.
    ///
    /// The result has this tensor's shape and dtype, or the default dtype for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![2.0, 3.0].mvlgamma(2)?.allclose(&tensor![0.451583, 1.550195])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn mvlgamma(&self, p: i64) -> Result<Tensor> {
        mvlgamma(self, p, false)
    }

    /// [`Tensor::mvlgamma`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![2.0, 3.0];
    /// x.mvlgamma_(2)?;
    /// assert!(x.allclose(&tensor![0.451583, 1.550195])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn mvlgamma_(&self, p: i64) -> Result<Tensor> {
        mvlgamma(self, p, true)
    }
}
