//! Products of sparse matrices with dense ones, and products of dense ones at stored elements: kernels, and the ops from which all
//! products are made. The gradient of either product is the other.
//!
//! A matrix of any layout, or the matrices of a batch one behind the other along the diagonal of one, is read by rows or by
//! columns ([`lines`]). Where it stores large blocks these are taken as wholes ([`blocks`]).

use smallvec::SmallVec;
use torsh_backend_cpu::sparse::{self as kernels, Index, Majors, Products, Rows};
use torsh_core::attrs::NONE;
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Element, Shape, TensorLayout};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, PlanCx};
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::help::{by_dtype, first, one};
pub(crate) use crate::lines::{Lines, elements, lines, matrix, row_of};
use crate::{attrs, blocks, convert};

torsh_core::kernel_keys! {
    PRODUCT_KEY "SparseProduct" |c| by_dtype!(c, product_host, any indexed);
    AT_KEY "SparseSampled" |c| by_dtype!(c, at_host, any indexed);
}

/// A tensor of a pattern, without values and history, for nodes that need the pattern.
pub(crate) fn carrier(pattern: &Pattern) -> Result<Tensor> {
    no_grad(|| {
        let zero = Tensor::zeros(1, DType::I8, pattern.indices().device())?;
        let shape = pattern.values_shape();
        let ones = vec![1usize; shape.ndim()];
        sparse::from_values(pattern, &zero.reshape(ones)?.expand(shape)?)
    })
}

/// The pattern of a sparse operand.
pub(crate) fn pattern_of(x: &Tensor) -> Result<Pattern> {
    x.pattern().ok_or_else(|| {
        TorshError::invalid(
            "",
            format!("expected a sparse tensor, got {}", x.describe()),
        )
    })
}

/// The stored values as one vector, recorded.
pub(crate) fn flat_values(x: &Tensor) -> Result<Tensor> {
    sparse::values(x)?.reshape([-1i64])
}

/// The sparse tensor of flat values, recorded.
pub(crate) fn from_flat(pattern: &Pattern, values: &Tensor) -> Result<Tensor> {
    sparse::from_values(pattern, &values.reshape(pattern.values_shape())?)
}

/// A gradient as a strided tensor.
pub(crate) fn strided(g: &Tensor) -> Result<Tensor> {
    convert::to_dense(g, None)
}

/// The conjugate; real tensors as they are.
pub(crate) fn conj(x: &Tensor) -> Result<Tensor> {
    match x.dtype().is_complex() {
        true => x.conj(),
        false => Ok(x.clone()),
    }
}

/// Checks the operands of a product, and returns the rows and columns of the result.
fn product_sizes(c: &PlanCx<'_>) -> Result<[usize; 2]> {
    let (values, dense) = (c.tensor(0)?, c.tensor(3)?);
    one_dtype(values, dense)?;
    let &[k, m] = dense.dims() else {
        return Err(TorshError::shape("", "the dense operand must be a matrix"));
    };
    let width = c.attrs::<attrs::SparseWidth>()?.width;
    if k != width && k != 1 {
        let text = format!("the dense operand has {k} rows for {width} columns of the sparse one");
        return Err(TorshError::shape("", text));
    }
    let rows = c.tensor(1)?.numel().checked_sub(1);
    let rows = rows.ok_or_else(|| TorshError::shape("", "there are no row pointers"))?;
    Ok([rows, m])
}

/// Refuses operands of two dtypes, and bools.
pub(crate) fn one_dtype(a: &Tensor, b: &Tensor) -> Result<DType> {
    if a.dtype() != b.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "expected all operands to have the same dtype, but got {} and {}",
                a.dtype(),
                b.dtype()
            ),
        )
        .with_hint("convert one of them with to_dtype(..)"));
    }
    match a.dtype() {
        DType::Bool => Err(TorshError::dtype("", "not implemented for bool")
            .with_hint("convert the operands to an integer type")),
        dtype => Ok(dtype),
    }
}

/// The kernel under all products: operands are the values, pointers and indices by rows, the dense matrix, of which one row may
/// stand for all, and where the value of each element is.
pub(crate) static PRODUCT: OpRecord = OpRecord::new(
    "_sparse_product",
    "The product of a sparse matrix by rows and a dense one.",
    "(Tensor values, Tensor pointers, Tensor indices, Tensor dense, Tensor? order, *, int width)",
)
.internal()
.with_key(&PRODUCT_KEY, |c| {
    let dtype = c.tensor(0)?.dtype();
    Ok(Plan::one(dtype, Shape::new(&product_sizes(c)?), dtype))
})
.definition(|c| {
    let (values, pointers, indices, dense) = (c.x()?, c.y()?, c.z()?, c.tensor(3)?);
    let values = match c.opt_tensor(4) {
        Some(order) => values.index_select(0, order)?,
        None => values,
    };
    let width = c.attrs::<attrs::SparseWidth>()?.width;
    let dense = match dense.dims()[0] == width {
        true => dense,
        false => dense.expand([width, dense.dims()[1]])?,
    };
    let rows = row_of(&pointers, indices.numel())?;
    let terms = dense
        .index_select(0, &indices)?
        .mul(&values.unsqueeze(1)?)?;
    let zeros = Tensor::zeros(
        [pointers.numel() - 1, dense.dims()[1]],
        dense.dtype(),
        dense.device(),
    )?;
    Ok(one(zeros.index_add(0, &rows, &terms)?))
})
.constant();

fn product_host<T: Products, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let (values, pointers, indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let dense = c.input::<T>(3)?;
    let order = c.input::<i64>(4).ok();
    let m = match c.input_shape(3)? {
        &[_, m] => m,
        _ => return Err(TorshError::shape("", "the dense operand must be a matrix")),
    };
    let width = c.attrs::<attrs::SparseWidth>()?.width;
    let a = Rows::new(&pointers, &indices, &values, order.as_deref(), width)?;
    kernels::product(a, &dense, m, c.output_uninit::<T>(0)?)
}

/// The product of the matrix of a pattern and a dense matrix, not recorded.
pub(crate) fn plain_product(
    values: &Tensor,
    pattern: &Pattern,
    dense: &Tensor,
    transposed: bool,
) -> Result<Tensor> {
    no_grad(|| {
        if let Some(block) = blocks::taken(pattern, values.dtype()) {
            return blocks::product(values, pattern, block, dense, transposed);
        }
        let a = lines(pattern, transposed)?;
        // The gradient of a sum is one row, however many it has.
        let several = dense.dims().first().is_some_and(|&n| n > 1);
        let dense = match several && dense.stride().first() == Some(&0) {
            true => dense.narrow(0, 0, 1)?,
            false => dense.clone(),
        };
        // A transposed operand is copied by a kernel that shares the work among threads.
        let (values, dense) = (values.contiguous()?, dense.contiguous()?);
        let args = [
            Arg::T(&values),
            Arg::T(&a.pointers),
            Arg::T(&a.indices),
            Arg::T(&dense),
            a.order(),
        ];
        PRODUCT.call1(&args, &attrs::SparseWidth { width: a.width })
    })
}

/// The product with the values of a pattern as an operand of its own: gradients flow to them.
pub(crate) static VALUES_PRODUCT: OpRecord = OpRecord::new(
    "_sparse_values_product",
    "The product of the sparse matrix of some values and a dense one.",
    "(Tensor values, Tensor pattern, Tensor dense, *, bool transposed, bool conjugated)",
)
.internal()
.grads(0b111, 0, |c| {
    let transposed = c.attrs::<attrs::SparseProduct>()?.transposed;
    let (values, pattern, dense) = (c.x()?, c.y()?, c.z()?);
    let g = strided(c.g())?;
    let to_values = match c.needs(0) {
        true => Some(match transposed {
            false => sampled(&pattern, &g, &conj(&dense)?)?,
            true => sampled(&pattern, &conj(&dense)?, &g)?,
        }),
        false => None,
    };
    let to_dense = match c.needs(2) {
        true => Some(product(&conj(&values)?, &pattern, &g, !transposed)?),
        false => None,
    };
    Ok(SmallVec::from_iter([to_values, None, to_dense]))
});

/// The product of the sparse matrix of `carrier`'s pattern with the flat `values`, transposed if told to, and a dense matrix.
/// Recorded: the gradient of the values is computed at the stored elements alone.
#[track_caller]
pub(crate) fn product(
    values: &Tensor,
    carrier: &Tensor,
    dense: &Tensor,
    transposed: bool,
) -> Result<Tensor> {
    let out = plain_product(values, &pattern_of(carrier)?, dense, transposed)?;
    let attrs = attrs::SparseProduct {
        transposed,
        conjugated: false,
    };
    let args = [Arg::T(values), Arg::T(carrier), Arg::T(dense)];
    first(VALUES_PRODUCT.recorded(&args, &attrs, one(out))?)
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

fn at_host<T: Products, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
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
    kernels::sampled_product(majors, &minors, &x, &y, k, c.output_uninit::<T>(0)?)
}

/// The flat values of `x @ y.T` at the elements of a pattern, not recorded.
fn plain_sampled(pattern: &Pattern, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    no_grad(|| {
        if let Some(block) = blocks::taken(pattern, x.dtype()) {
            return blocks::sampled(pattern, block, x, y);
        }
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
    let g = strided(c.g())?;
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
    let out = plain_sampled(&pattern_of(carrier)?, x, y)?;
    let args = [Arg::T(carrier), Arg::T(x), Arg::T(y)];
    first(SAMPLED.recorded(&args, NONE, one(out))?)
}
