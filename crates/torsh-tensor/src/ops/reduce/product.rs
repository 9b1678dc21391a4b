//! Products.

use torsh_core::{DType, Kernel, Result, attrs};

use super::{SumOptions, plan, restore, total_dtype};
use crate::autocast::{Autocast, off};
use crate::call::{Arg, call1};
use crate::node::BackwardCx;
use crate::record::{InputGrad, OpRecord, sample};
use crate::{Device, IntoDim, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[&PROD];

#[torsh_tensor::by_name(Tensor::prod_with(.., SumOptions))]
pub static PROD: OpRecord = OpRecord::new(
    "prod",
    "Product of all elements or along one dimension; integers and bools multiply in int64.",
    "(Tensor input, int? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.autocast(Autocast::Fp32)
.kernel(Kernel::Prod, |c| plan::<attrs::Sum>(c, &[total_dtype(c)?]))
.grad(&[InputGrad {
    inputs: 1,
    outputs: 1,
    formula: backward,
}])
.samples(|s| {
    let x = s.real(&[2, 3])?;
    let zeros =
        Tensor::from_data(&[0.0f64, 2.0, 3.0, 0.0, 0.0, 1.5], [2, 3])?.to_dtype(x.dtype())?;
    Ok(vec![
        sample![x.clone()],
        sample![x, 1],
        sample![zeros.clone(), 0, true],
        sample![zeros, 1],
    ])
});

/// Whether elements are zero, by which nothing can be divided. On a device some may be: to know, its
/// caller would have to wait. Without data there is nothing to ask.
pub(crate) fn may_have_zero(x: &Tensor) -> Result<bool> {
    match x.device() {
        Device::Meta => Ok(false),
        d if !d.is_host() => Ok(true),
        _ => crate::no_grad(|| x.eq(0)?.any()?.item::<bool>()),
    }
}

/// The product of all elements before each, along a dimension.
pub(crate) fn products_before(x: &Tensor, d: usize) -> Result<Tensor> {
    let n = x.dims()[d];
    let one = x.narrow(d, 0, 1)?.ones_like()?;
    Tensor::cat(&[one, x.narrow(d, 0, n - 1)?], d)?.cumprod(d)
}

fn backward(c: &BackwardCx<'_>) -> Result<Tensor> {
    let x = c.x()?;
    let g = restore::<attrs::Sum>(c, c.g())?;
    if x.numel() == 0 || x.ndim() == 0 {
        return g.expand(x.shape());
    }
    if !may_have_zero(&x)? {
        return restore::<attrs::Sum>(c, &c.out()?)?
            .div(&x)?
            .conj()?
            .mul(&g);
    }
    // The product of all others, from the left and from the right.
    let (line, d) = match c.attrs::<attrs::Sum>()?.dims[..] {
        [d] => (x.clone(), d as usize),
        _ => (x.reshape([x.numel()])?, 0),
    };
    let after = products_before(&line.flip(d)?, d)?.flip(d)?;
    let others = products_before(&line, d)?.mul(&after)?.reshape(x.shape())?;
    g.mul(&others.conj()?)
}

#[torsh_tensor::functions]
impl Tensor {
    /// Product of all elements, a 0-d tensor; integers and bools multiply in int64 (`torch.prod`).
    ///
    /// Any shape; of no elements 1.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![2, 3, 4].prod()?.item::<i64>()?, 24);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn prod(&self) -> Result<Tensor> {
        self.prod_with(SumOptions::default())
    }

    /// Product along a dimension, which is lost, or kept as size 1 with `keepdim`.
    ///
    /// Integers and bools multiply in int64. An error for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].prod_dim(1, false)?, tensor![2, 12]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn prod_dim(&self, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
        self.prod_with(SumOptions::default().dim(dim.value()).keepdim(keepdim))
    }

    /// Product with PyTorch's keyword arguments, of one dimension or all: `dim`, `keepdim` and
    /// `dtype`.
    ///
    /// An error for several dimensions, or one out of range.
    ///
    /// ```
    /// use torsh_tensor::{DType, SumOptions, tensor};
    /// let options = SumOptions::new().dim(1).dtype(DType::F32);
    /// assert_eq!(tensor![[1, 2], [3, 4]].prod_with(options)?, tensor![2.0, 12.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn prod_with(&self, options: SumOptions) -> Result<Tensor> {
        if let Some([_, _, ..]) = options.dim.as_deref() {
            let e = torsh_core::TorshError::invalid("", "takes one dimension, or none for all");
            return self.named("prod", Err(e));
        }
        let dims = self.reduce_dims("prod", options.dim.as_deref())?;
        let dtype: Option<DType> = options.dtype;
        // A dtype that is asked for is the last word.
        let _whole = dtype.map(|_| off());
        let attrs = attrs::Sum {
            dims,
            keepdim: options.keepdim,
            dtype,
        };
        call1(&PROD, &[Arg::T(&self.cast(dtype)?)], &attrs)
    }
}
