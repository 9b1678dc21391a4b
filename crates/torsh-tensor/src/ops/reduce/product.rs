//! Products.

use torsh_core::{Attr, DType, Kernel, Result};

use super::{SumOptions, plan, restore, sum_dtype};
use crate::autocast::{Autocast, off};
use crate::call::{Arg, call1};
use crate::node::BackwardCx;
use crate::record::{InputGrad, OpRecord, Sample};
use crate::{Device, IntoDim, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&PROD];

/// Product. Attributes: dimensions, keepdim, dtype.
pub static PROD: OpRecord = OpRecord::new(
    "prod",
    "Product of all elements or along one dimension; integers and bools multiply in int64.",
    "(Tensor input, int? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.autocast(Autocast::Fp32)
.kernel(Kernel::Prod, |c| {
    let dtype = c.attr(2).dtype().unwrap_or(sum_dtype(c.tensor(0)?.dtype()));
    plan(c, &[dtype])
})
.grad(&[InputGrad {
    inputs: 1,
    outputs: 1,
    formula: backward,
}])
.by_name(|b| {
    let o = SumOptions {
        dim: b.opt_ints(1).map(Into::into),
        keepdim: b.bool(2),
        dtype: b.dtype(3),
    };
    b.tensor(0)?.prod_with(o).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[2, 3])?;
    let zeros =
        Tensor::from_data(&[0.0f64, 2.0, 3.0, 0.0, 0.0, 1.5], [2, 3])?.to_dtype(x.dtype())?;
    Ok(vec![
        Sample::new([x.clone().into()]),
        Sample::new([x.into(), Value::Int(1)]),
        Sample::new([zeros.clone().into(), Value::Int(0), Value::Bool(true)]),
        Sample::new([zeros.into(), Value::Int(1)]),
    ])
});

/// Whether a division by the elements is possible. Without data there is nothing to ask.
pub(crate) fn has_zero(x: &Tensor) -> Result<bool> {
    if x.device() == Device::Meta {
        return Ok(false);
    }
    crate::no_grad(|| x.eq(0)?.any()?.item::<bool>())
}

/// The product of all elements before each, along a dimension.
pub(crate) fn products_before(x: &Tensor, d: usize) -> Result<Tensor> {
    let n = x.dims()[d];
    let one = x.narrow(d, 0, 1)?.ones_like()?;
    Tensor::cat(&[one, x.narrow(d, 0, n - 1)?], d)?.cumprod(d)
}

fn backward(c: &BackwardCx<'_>) -> Result<Tensor> {
    let x = c.x()?;
    let g = restore(c, c.g())?;
    if x.numel() == 0 || x.ndim() == 0 {
        return g.expand(x.shape());
    }
    if !has_zero(&x)? {
        return restore(c, &c.out()?)?.div(&x)?.conj()?.mul(&g);
    }
    // The product of all others, from the left and from the right.
    let dims = c.attr(0).ints();
    let (line, d) = match dims {
        [d] => (x.clone(), *d as usize),
        _ => (x.reshape([x.numel()])?, 0),
    };
    let after = products_before(&line.flip(d)?, d)?.flip(d)?;
    let others = products_before(&line, d)?.mul(&after)?.reshape(x.shape())?;
    g.mul(&others.conj()?)
}

impl Tensor {
    /// Product of all elements, a 0-d tensor; integers and bools multiply in int64.
    #[track_caller]
    pub fn prod(&self) -> Result<Tensor> {
        self.prod_with(SumOptions::default())
    }

    /// Product along a dimension.
    #[track_caller]
    pub fn prod_dim(&self, dim: impl IntoDim, keepdim: bool) -> Result<Tensor> {
        self.prod_with(SumOptions::default().dim(dim.value()).keepdim(keepdim))
    }

    /// Product with PyTorch's keyword arguments; of one dimension or all.
    #[track_caller]
    pub fn prod_with(&self, options: SumOptions) -> Result<Tensor> {
        if let Some([_, _, ..]) = options.dim.as_deref() {
            let e = torsh_core::TorshError::invalid("", "takes one dimension, or none for all");
            return self.named("prod", Err(e));
        }
        let dims = self.reduce_dims("prod", options.dim.as_deref())?;
        let dtype: Option<DType> = options.dtype;
        // A dtype that is asked for is the last word.
        let _whole = dtype.map(|_| off());
        let attrs = [
            Attr::Ints(&dims),
            Attr::Bool(options.keepdim),
            dtype.map_or(Attr::None, Attr::DType),
        ];
        call1(&PROD, &[Arg::T(&self.cast(dtype)?)], &attrs)
    }
}
