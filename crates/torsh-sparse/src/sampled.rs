//! Products of dense matrices at the places of a sparse one.

use smallvec::SmallVec;
use torsh_backend_cpu::sparse::{self as kernels, Index, Majors, Number};
use torsh_core::kernel::HostCall;
use torsh_core::{Element, Shape, TensorLayout};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan};
use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::csr::{conj, elements, lines, numbers, one_dtype, pattern_of, product, row_of};
use crate::help::{first, one};

torsh_core::kernel_keys! {
    AT_KEY "SparseSampled" |c| numbers!(c, at_host);
}

/// The kernel: for each place the inner product of a row of `x` and a row of `y`.
pub(crate) static AT: OpRecord = OpRecord::new(
    "_sparse_inner_products",
    "Inner products of rows of two matrices.",
    "(Tensor x, Tensor majors, Tensor minors, Tensor y, *, bool pointers)",
)
.internal()
.with_key(&AT_KEY, |c| {
    let (x, y) = (c.tensor(0)?, c.tensor(3)?);
    let dtype = one_dtype(x, y)?;
    match (x.dims(), y.dims()) {
        ([_, k], [_, l]) if k == l => {}
        _ => {
            let text = format!(
                "rows of {} and {} have no inner products",
                x.shape(),
                y.shape()
            );
            return Err(TorshError::shape("", text));
        }
    }
    Ok(Plan::one(dtype, Shape::new(&[c.tensor(2)?.numel()]), dtype))
})
.definition(|c| {
    let (x, majors, minors, y) = (c.x()?, c.y()?, c.z()?, c.tensor(3)?);
    let majors = match c.attrs::<attrs::SparseSampled>()?.pointers {
        true => row_of(&majors, minors.numel())?,
        false => majors,
    };
    let terms = x
        .index_select(0, &majors)?
        .mul(&y.index_select(0, &minors)?)?;
    let sums = terms.sum_dim(1, false)?;
    Ok(one(sums.to_dtype(x.dtype())?))
})
.constant();

fn at_host<T: Number, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let pointers = c.attrs::<attrs::SparseSampled>()?.pointers;
    let (x, majors, minors, y) = (
        c.input::<T>(0)?,
        c.input::<I>(1)?,
        c.input::<I>(2)?,
        c.input::<T>(3)?,
    );
    let k = match c.input_shape(0)? {
        &[_, k] => k,
        _ => return Err(TorshError::shape("", "the operands must be matrices")),
    };
    let majors = match pointers {
        true => Majors::Pointers(&majors),
        false => Majors::List(&majors),
    };
    kernels::sampled_product(majors, &minors, &x, &y, k, c.output::<T>(0)?)
}

fn plain(pattern: &Pattern, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    no_grad(|| {
        let (x, y) = (x.contiguous()?, y.contiguous()?);
        let plain = pattern.batch_dim() == 0 && pattern.dense_dim() == 0;
        let by = |x: &Tensor, majors: &Tensor, minors: &Tensor, y: &Tensor, pointers: bool| {
            let args = [Arg::T(x), Arg::T(majors), Arg::T(minors), Arg::T(y)];
            AT.call1(&args, &attrs::SparseSampled { pointers })
        };
        match pattern.layout() {
            TensorLayout::SparseCsr if plain => {
                let a = lines(pattern, false)?;
                by(&x, &a.pointers, &a.indices, &y, true)
            }
            TensorLayout::SparseCsc if plain => {
                let a = lines(pattern, true)?;
                by(&y, &a.pointers, &a.indices, &x, true)
            }
            _ => {
                let places = elements(pattern)?;
                by(&x, &places.rows, &places.columns, &y, false)
            }
        }
    })
}

pub(crate) static SAMPLED: OpRecord = OpRecord::new(
    "_sparse_sampled",
    "The product of a matrix and a transposed one at the places of a pattern.",
    "(Tensor pattern, Tensor x, Tensor y)",
)
.internal()
.grads(0b111, 0, |c| {
    let (pattern, x, y) = (c.x()?, c.y()?, c.z()?);
    let g = crate::csr::strided(c.g())?;
    let to_x = match c.needs(1) {
        true => Some(product(&g, &pattern, &conj(&y)?, false)?),
        false => None,
    };
    let to_y = match c.needs(2) {
        true => Some(product(&g, &pattern, &conj(&x)?, true)?),
        false => None,
    };
    Ok(SmallVec::from_iter([None, to_x, to_y]))
});

/// The flat values of `x @ y.T` at the elements of `carrier`'s pattern. Recorded.
#[track_caller]
pub(crate) fn sampled(carrier: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let out = plain(&pattern_of(carrier)?, x, y)?;
    let args = [Arg::T(carrier), Arg::T(x), Arg::T(y)];
    first(SAMPLED.recorded(&args, torsh_core::attrs::NONE, one(out))?)
}
