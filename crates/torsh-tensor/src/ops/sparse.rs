//! The ops that take a sparse tensor apart and put it together, from which all others are made, and pointwise ops on the
//! stored values.

use smallvec::SmallVec;
use torsh_core::attrs::NONE;
use torsh_core::pointwise::KeepsZeros;
use torsh_core::{Attributes, Result, TorshError};

use crate::Tensor;
use crate::call::{Arg, Outputs, call_rule, call1};
use crate::memory::Pattern;
use crate::mode;
use crate::record::OpRecord;

/// A unary op that gives 0 for 0, on the stored values.
pub(crate) fn on_values(
    record: &'static OpRecord,
    kind: KeepsZeros,
    x: &Tensor,
    rest: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Tensor> {
    let once = x.pattern().is_none_or(|p| p.is_coalesced()) || kind == KeepsZeros::Linear;
    let x = match once {
        true => x.clone(),
        false => call_rule("coalesce", &[Arg::T(x)], NONE)?,
    };
    let run = || {
        let v = values(&x)?;
        let mut args: SmallVec<[Arg<'_>; 4]> = SmallVec::from_iter([Arg::T(&v)]);
        args.extend_from_slice(rest);
        let v = call1(record, &args, attrs)?;
        match x.pattern() {
            Some(pattern) => from_values(&pattern, &v),
            None => Ok(v),
        }
    };
    if kind == KeepsZeros::Flat && x.dtype().is_floating_point() {
        return flat(&x, mode::no_grad(run)?);
    }
    run()
}

/// A result whose derivative by a sparse tensor is 0, as that of a rounding: the gradient of `x` stores nothing. `out` is the
/// result, computed without recording.
///
/// ```
/// use torsh_tensor::{sparse, sparse::Pattern, tensor};
/// let second = Pattern::coo(&[3], &tensor![[1]], true)?;
/// let x = sparse::from_values(&second, &tensor![2.5])?.requires_grad_(true);
/// let y = sparse::flat(&x, sparse::from_values(&second, &tensor![3.0])?)?;
/// assert!(y.requires_grad());
/// assert_eq!(sparse::values(&y.detach())?, tensor![3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// An `x` that cannot be recorded, as an inference tensor.
#[torsh_tensor::names_caller]
pub fn flat(x: &Tensor, out: Tensor) -> Result<Tensor> {
    first(FLAT.recorded(&[Arg::T(x)], NONE, SmallVec::from_iter([out]))?)
}

static FLAT: OpRecord = OpRecord::new(
    "_sparse_flat",
    "A function of the stored values whose derivative is 0.",
    "(Tensor input)",
)
.internal()
.grads(1, 0, |c| {
    let g = call_rule("zero_", &[Arg::T(&c.x()?.detach())], NONE)?;
    Ok(SmallVec::from_iter([Some(g)]))
});

static VALUES: OpRecord = OpRecord::new(
    "_sparse_values",
    "The stored values of a sparse tensor.",
    "(Tensor input)",
)
.internal()
.grads(1, 0, |c| {
    let x = c.x()?;
    let g = match x.pattern() {
        Some(pattern) if pattern.is_coalesced() => from_values(&pattern, c.g())?,
        // The copies of an element have its gradient each, which would add up.
        Some(_) => call_rule(
            "_sparse_of_stored",
            &[Arg::T(c.g()), Arg::T(&x.detach())],
            NONE,
        )?,
        None => c.g().clone(),
    };
    Ok(SmallVec::from_iter([Some(g)]))
});

static FROM_VALUES: OpRecord = OpRecord::new(
    "_sparse_from_values",
    "A sparse tensor of a pattern and stored values.",
    "(Tensor values, Tensor indices, Tensor? compressed)",
)
.internal()
.grads(0, 1, |c| {
    let g = c.g();
    let out = c.output(0)?;
    let g = match (g.pattern(), out.pattern()) {
        (Some(a), Some(b)) if a.is_same(&b) && a.is_coalesced() => values(g)?,
        _ => call_rule(
            "_sparse_values_at",
            &[Arg::T(g), Arg::T(&out.detach())],
            NONE,
        )?,
    };
    Ok(SmallVec::from_iter([Some(g), None, None]))
});

/// The records of this file.
pub(crate) static REPLACED: OpRecord = OpRecord::new(
    "_sparse_replaced",
    "Elements in the place of others, on which they do not depend.",
    "(Tensor input)",
)
.internal()
.grads(0, 0, |c| {
    let g = c.g();
    let zero = match g.pattern() {
        Some(_) => call_rule("zero_", &[Arg::T(&g.detach())], NONE)?,
        None => Tensor::zeros(vec![1usize; g.ndim()], g.dtype(), g.device())?
            .expand(g.shape().clone())?,
    };
    Ok(SmallVec::from_iter([Some(zero)]))
});

pub(crate) static RECORDS: &[&OpRecord] = &[&VALUES, &FROM_VALUES, &FLAT, &REPLACED];

/// The stored values of a sparse tensor as a strided tensor of the shape [`Pattern::values_shape`]. The gradient is sparse,
/// of the tensor's pattern. Where nothing is recorded, writing into the result writes into the sparse tensor.
///
/// # Errors
/// A strided tensor.
#[torsh_tensor::names_caller]
pub fn values(x: &Tensor) -> Result<Tensor> {
    let Some(parts) = x.0.memory.parts() else {
        return Err(TorshError::invalid(
            "values",
            format!(
                "{} has no stored values: its layout is torch.strided",
                x.describe()
            ),
        ));
    };
    let out = parts.values().detach();
    let outs = VALUES.recorded(&[Arg::T(x)], NONE, SmallVec::from_iter([out]))?;
    first(outs)
}

/// The sparse tensor of a pattern and of its stored values, which are of the shape [`Pattern::values_shape`]. The gradient
/// of the values is the result's gradient, strided or sparse, at the stored elements.
///
/// ```
/// use torsh_tensor::{sparse, sparse::Pattern, tensor};
/// let corner = Pattern::coo(&[2, 2], &tensor![[1], [1]], true)?;
/// let x = sparse::from_values(&corner, &tensor![5.0])?;
/// assert!(x.is_sparse());
/// assert_eq!(sparse::values(&x)?, tensor![5.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Values of another shape, or on another device than the indices.
#[torsh_tensor::names_caller]
pub fn from_values(pattern: &Pattern, values: &Tensor) -> Result<Tensor> {
    let out = Tensor::of_parts(pattern, values)?;
    let args = [
        Arg::T(values),
        Arg::T(pattern.indices()),
        Arg::opt(pattern.compressed_indices()),
    ];
    let outs = FROM_VALUES.recorded(&args, NONE, SmallVec::from_iter([out]))?;
    first(outs)
}

fn first(outs: Outputs) -> Result<Tensor> {
    let out = outs.into_iter().next();
    out.ok_or_else(|| TorshError::failed("", "a record of one result has none"))
}

impl Tensor {
    /// The sparse tensor whose indices and values are what `change` makes of this one's, recorded; `None` of a strided one.
    #[torsh_tensor::names_caller]
    pub(crate) fn with_parts(
        &self,
        change: impl Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Option<Tensor>> {
        let Some(pattern) = self.pattern() else {
            return Ok(None);
        };
        let pattern = pattern.map_indices(&change)?;
        from_values(&pattern, &change(&values(self)?)?).map(Some)
    }
}
