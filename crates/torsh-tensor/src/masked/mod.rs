//! Reductions and normalisations that leave elements out, and tensors whose elements may be masked, as
//! `torch.masked`.
//!
//! A mask is true where an element counts. It broadcasts with the operand, and is read as bools. A row without any
//! element that counts gives what the operation makes of nothing: 0 for a sum, nan for a mean, minus infinity for
//! a maximum.
//!
//! ```
//! use torsh_tensor::{masked, tensor};
//! let (x, mask) = (tensor![1.0, 2.0, 6.0], tensor![true, true, false]);
//! assert_eq!(masked::mean(&x, &mask)?.item::<f32>()?, 1.5);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod normalize;
mod records;
mod reduce;
mod tensor;

pub use normalize::{
    MaskedNormalizeOptions, cumprod, cumprod_with, cumsum, cumsum_with, log_softmax,
    log_softmax_with, logaddexp, logaddexp_with, normalize, normalize_with, softmax, softmax_with,
    softmin, softmin_with,
};
pub(crate) use records::RECORDS;
pub use reduce::{
    MaskedOptions, MaskedVarOptions, amax, amax_with, amin, amin_with, argmax, argmax_with, argmin,
    argmin_with, logsumexp, logsumexp_with, mean, mean_with, median, median_with, norm, norm_with,
    prod, prod_with, std, std_with, sum, sum_with, var, var_with,
};
pub use tensor::{
    MaskedOperand, MaskedTensor, as_masked_tensor, cat, masked_tensor, stack, where_,
};

use torsh_core::{DType, Result, Scalar, TorshError};

use crate::Tensor;

/// A mask of an operand's shape, in bools.
fn broadcast(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    if mask.ndim() > x.ndim() {
        let text = format!(
            "expected broadcastable mask (got mask dimensionality higher than of the input: {:?} and {:?})",
            mask.dims(),
            x.dims()
        );
        return Err(TorshError::index("", text));
    }
    mask.detach().to_dtype(DType::Bool)?.expand(x.shape())
}

/// What changes nothing in an operation: its result for no elements.
#[derive(Clone, Copy)]
enum Identity {
    Zero,
    One,
    Lowest,
    Highest,
    Nan,
}

impl Identity {
    fn of(self, dtype: DType) -> Scalar {
        let whole = !dtype.is_differentiable();
        let (low, high) = match dtype {
            DType::I64 => (i64::MIN, i64::MAX),
            DType::Bool => (0, 1),
            d => {
                let (low, high) = d.finite_range();
                (low as i64, high as i64)
            }
        };
        match self {
            Identity::Zero => Scalar::Int(0),
            Identity::One => Scalar::Int(1),
            Identity::Lowest if whole => Scalar::Int(low),
            Identity::Highest if whole => Scalar::Int(high),
            Identity::Lowest => Scalar::Float(f64::NEG_INFINITY),
            Identity::Highest => Scalar::Float(f64::INFINITY),
            Identity::Nan => Scalar::Float(f64::NAN),
        }
    }
}

/// The operand with what changes nothing in place of what does not count.
fn filled(x: &Tensor, mask: Option<&Tensor>, identity: Identity) -> Result<Tensor> {
    match mask {
        None => Ok(x.clone()),
        Some(mask) => x.masked_fill(&broadcast(x, mask)?.logical_not()?, identity.of(x.dtype())),
    }
}

/// A result in a dtype that was asked for.
fn in_dtype(x: Tensor, dtype: Option<DType>) -> Result<Tensor> {
    match dtype {
        Some(d) => x.to_dtype(d),
        None => Ok(x),
    }
}
