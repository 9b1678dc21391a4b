//! The ReLU with random slopes.

use torsh_core::{DType, Result, TorshError};

use crate::options::options;
use crate::record::{OpRecord, sample};
use crate::{LeakyReluOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&RRELU];

pub static RRELU: OpRecord = OpRecord::new(
    "nn.functional.rrelu",
    "Each element where positive, elsewhere times a slope: in training drawn for each element uniformly from lower to upper, else their mean.",
    "(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False, bool inplace=False)",
)
.by_name(|b| {
    let options = RreluOptions { lower: b.float(1), upper: b.float(2), training: b.bool(3) };
    let x = b.tensor(0)?;
    let y = x.rrelu_with(options)?;
    if b.bool(4) {
        crate::inplace::assign(x, &y)?;
        return Ok(Value::Tensor(x.clone()));
    }
    Ok(Value::Tensor(y))
})
.samples(|s| {
    let x = s.real(&[2, 3])?;
    Ok(vec![sample![x.clone()], sample![x, lower = 0.3, upper = 0.3]])
});

options! {
    /// PyTorch's keyword arguments of `F.rrelu`.
    ///
    /// ```
    /// use torsh_tensor::RreluOptions;
    /// let options = RreluOptions::new();
    /// assert!(!options.training);
    /// assert!(options.training(true).training);
    /// ```
    RreluOptions {
        /// The least slope.
        lower: f64 = 1.0 / 8.0;
        /// The greatest slope.
        upper: f64 = 1.0 / 3.0;
        /// Whether slopes are drawn; else each is the mean of the two.
        training: bool = false;
    }
}

fn rrelu(x: &Tensor, options: &RreluOptions) -> Result<Tensor> {
    let RreluOptions {
        lower,
        upper,
        training,
    } = *options;
    if !(lower.is_finite() && upper.is_finite() && lower <= upper) {
        return Err(TorshError::invalid(
            "",
            format!(
                "lower bound should be less than or equal to the upper bound, both finite, got {lower} and {upper}"
            ),
        ));
    }
    if !x.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", x.dtype()),
        ));
    }
    if !training {
        return x.leaky_relu_with(LeakyReluOptions::new().negative_slope((lower + upper) / 2.0));
    }
    let slopes = crate::no_grad(|| {
        let ones = x.detach().ones_like()?;
        if x.device() == crate::Device::Meta {
            return Ok(ones);
        }
        let low = x.detach().le(0.0)?;
        if !x.device().is_host() {
            // To count those that draw would be to wait, so all do, in their own dtype.
            let draws = x.detach().empty_like()?.uniform_(lower, upper)?;
            return Tensor::where_(&low, &draws, &ones);
        }
        // Only elements that are not positive draw, each in float64.
        let count = low.count_nonzero()?.item::<i64>()?;
        let draws = Tensor::empty([count as usize], DType::F64, x.device())?;
        let draws = draws.uniform_(lower, upper)?.to_dtype(x.dtype())?;
        ones.masked_scatter(&low, &draws)
    })?;
    x.mul(&slopes)
}

#[torsh_tensor::functions]
impl Tensor {
    /// `x`, and for elements that are not positive `x` times the mean of the slopes 1/8 and 1/3
    /// (`torch.nn.functional.rrelu`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![-48.0, 2.0].rrelu()?.allclose(&tensor![-11.0, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[track_caller]
    pub fn rrelu(&self) -> Result<Tensor> {
        self.rrelu_with(RreluOptions::default())
    }

    /// [`Tensor::rrelu`] with other slopes, in training drawn for each element (Xu et al., 2015): on
    /// the CPU for those that are not positive, in float64; on other devices for all, in their own
    /// dtype.
    ///
    /// ```
    /// use torsh_tensor::{RreluOptions, tensor};
    /// let options = RreluOptions::new().lower(0.5).upper(0.5);
    /// assert_eq!(tensor![-4.0, 2.0].rrelu_with(options)?, tensor![-2.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[torsh_tensor::names_caller]
    pub fn rrelu_with(&self, options: RreluOptions) -> Result<Tensor> {
        rrelu(self, &options).map_err(|e| e.renamed("rrelu"))
    }
}
