//! Products that take stored blocks as wholes: their kernels, for BSR and BSC matrices of large blocks.

use torsh_backend_cpu::sparse::{self as kernels, BlockLines, BlockNumber, Index};
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Element, Shape};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan};
use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::attrs;
use crate::help::{by_dtype, one, rounded_once};
use crate::lines::{block_lines, row_of};

torsh_core::kernel_keys! {
    PRODUCT_KEY "SparseBlockProduct" |c| by_dtype!(c, product_host, float indexed);
    SAMPLED_KEY "SparseBlockSampled" |c| by_dtype!(c, sampled_host, float indexed);
}

/// The sizes of the blocks of a matrix, where products take them as wholes.
pub(crate) fn taken(pattern: &Pattern, dtype: DType) -> Option<[usize; 2]> {
    let plain = pattern.batch_dim() == 0 && pattern.dense_dim() == 0;
    let block = pattern
        .block()
        .filter(|_| plain && dtype.is_floating_point())?;
    kernels::by_blocks(block).then_some(block)
}

/// Whether a matrix lies in memory as its transpose does.
fn is_turned(x: &Tensor) -> Result<bool> {
    Ok(!x.is_contiguous()? && x.t()?.is_contiguous()?)
}

/// The product of the matrix of a pattern and a dense matrix, not recorded. Where the dense one lies in memory as its transpose,
/// so does the result: neither is copied.
pub(crate) fn product(
    values: &Tensor,
    pattern: &Pattern,
    [rows, columns]: [usize; 2],
    dense: &Tensor,
    transposed: bool,
) -> Result<Tensor> {
    let a = block_lines(pattern, transposed)?;
    let turned = is_turned(dense)?;
    let dense = match turned {
        true => dense.t()?,
        false => dense.contiguous()?,
    };
    let blocks = values
        .contiguous()?
        .reshape([pattern.nnz(), rows, columns])?;
    let attrs = attrs::SparseBlocks {
        rows,
        columns,
        by_columns: transposed,
        transposed: turned,
    };
    let out = rounded_once(values.dtype(), [&blocks, &dense], |[blocks, dense]| {
        let args = [
            Arg::T(blocks),
            Arg::T(&a.pointers),
            Arg::T(&a.indices),
            Arg::T(dense),
            a.order(),
        ];
        PRODUCT.call1(&args, &attrs)
    })?;
    match turned {
        // No view: the caller ties it to its own record.
        true => Ok(out.t()?.detach()),
        false => Ok(out),
    }
}

/// The flat values of `x @ y.T` at the blocks of a pattern, not recorded.
pub(crate) fn sampled(
    pattern: &Pattern,
    [rows, columns]: [usize; 2],
    x: &Tensor,
    y: &Tensor,
) -> Result<Tensor> {
    let by_columns = !pattern.layout().by_rows();
    let a = block_lines(pattern, by_columns)?;
    let turned = is_turned(x)? && is_turned(y)?;
    let as_it_lies = |t: &Tensor| match turned {
        true => t.t(),
        false => t.contiguous(),
    };
    let (x, y) = (as_it_lies(x)?, as_it_lies(y)?);
    let attrs = attrs::SparseBlocks {
        rows,
        columns,
        by_columns,
        transposed: turned,
    };
    rounded_once(x.dtype(), [&x, &y], |[x, y]| {
        let (pointers, indices) = (Arg::T(&a.pointers), Arg::T(&a.indices));
        SAMPLED.call1(&[Arg::T(x), pointers, indices, Arg::T(y)], &attrs)
    })?
    .reshape([-1i64])
}

/// The rows and columns of a strided operand, which may be transposed.
fn sides(dims: &[usize], transposed: bool) -> Result<[usize; 2]> {
    match (dims, transposed) {
        (&[n, m], false) | (&[m, n], true) => Ok([n, m]),
        _ => Err(TorshError::shape(
            "",
            "the strided operands must be matrices",
        )),
    }
}

/// Blocks by lines, of a matrix that has so many elements across them; the kernel checks that these are whole blocks.
fn lines_of<'a, I: Index>(
    a: &attrs::SparseBlocks,
    pointers: &'a [I],
    places: &'a [I],
    across: usize,
) -> Result<BlockLines<'a, I>> {
    let side = if a.by_columns { a.rows } else { a.columns };
    let width = across / side.max(1);
    BlockLines::new(pointers, places, [a.rows, a.columns], a.by_columns, width)
}

/// The kernel: operands are the blocks, pointers and indices by lines of blocks, the dense matrix, and where each block is among
/// the first operand's.
pub(crate) static PRODUCT: OpRecord = OpRecord::new(
    "_sparse_block_product",
    "The product of a matrix of stored blocks and a dense one.",
    "(Tensor values, Tensor pointers, Tensor indices, Tensor dense, Tensor? order, *, int rows, int columns, bool by_columns, bool transposed)",
)
.internal()
.with_key(&PRODUCT_KEY, |c| {
    let a = c.attrs::<attrs::SparseBlocks>()?;
    let (dense, lines) = (c.tensor(3)?, c.tensor(1)?.numel().saturating_sub(1));
    let [_, m] = sides(dense.dims(), a.transposed)?;
    let n = lines * if a.by_columns { a.columns } else { a.rows };
    let dims = if a.transposed { [m, n] } else { [n, m] };
    Ok(Plan::one(dense.dtype(), Shape::new(&dims), dense.dtype()))
})
.definition(|c| {
    let a = c.attrs::<attrs::SparseBlocks>()?;
    let (values, pointers, indices, dense) = (c.x()?, c.y()?, c.z()?, c.tensor(3)?);
    let values = match c.opt_tensor(4) {
        Some(order) => values.index_select(0, order)?,
        None => values,
    };
    let (values, [size, terms]) = match a.by_columns {
        false => (values, [a.rows, a.columns]),
        true => (values.transpose(-2, -1)?, [a.columns, a.rows]),
    };
    let [k, m] = sides(dense.dims(), a.transposed)?;
    let dense = if a.transposed { dense.t()? } else { dense.clone() };
    let parts = dense
        .reshape([k / terms, terms, m])?
        .index_select(0, &indices)?;
    let (lines, count) = (pointers.numel() - 1, indices.numel());
    let zeros = Tensor::zeros([lines, size, m], dense.dtype(), dense.device())?;
    let out = zeros
        .index_add(0, &row_of(&pointers, count)?, &values.bmm(&parts)?)?
        .reshape([lines * size, m])?;
    Ok(one(if a.transposed { out.t()?.contiguous()? } else { out }))
})
.constant();

fn product_host<T: BlockNumber, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let a = c.attrs::<attrs::SparseBlocks>()?;
    let (values, pointers, indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let dense = c.input::<T>(3)?;
    let order = c.input::<i64>(4).ok();
    let [k, m] = sides(c.input_shape(3)?, a.transposed)?;
    let lines = lines_of(a, &pointers, &indices, k)?;
    let out = c.output_uninit::<T>(0)?;
    kernels::block_product(
        lines,
        &values,
        order.as_deref(),
        &dense,
        m,
        a.transposed,
        out,
    )
}

/// The kernel: for each stored block its part of the product of `x` and the transpose of `y`.
pub(crate) static SAMPLED: OpRecord = OpRecord::new(
    "_sparse_block_inner_products",
    "The product of a matrix and a transposed one at stored blocks.",
    "(Tensor x, Tensor pointers, Tensor indices, Tensor y, *, int rows, int columns, bool by_columns, bool transposed)",
)
.internal()
.with_key(&SAMPLED_KEY, |c| {
    let a = c.attrs::<attrs::SparseBlocks>()?;
    let (x, y) = (c.tensor(0)?, c.tensor(3)?);
    if sides(x.dims(), a.transposed)?[1] != sides(y.dims(), a.transposed)?[1] {
        let text = format!("{} and {} have no inner products", x.shape(), y.shape());
        return Err(TorshError::shape("", text));
    }
    let shape = Shape::new(&[c.tensor(2)?.numel(), a.rows, a.columns]);
    Ok(Plan::one(x.dtype(), shape, x.dtype()))
})
.definition(|c| {
    let a = c.attrs::<attrs::SparseBlocks>()?;
    let (x, pointers, indices, y) = (c.x()?, c.y()?, c.z()?, c.tensor(3)?);
    let lines = row_of(&pointers, indices.numel())?;
    let (i, j) = match a.by_columns {
        false => (&lines, &indices),
        true => (&indices, &lines),
    };
    let parts = |t: &Tensor, at: &Tensor, side: usize| {
        let [n, k] = sides(t.dims(), a.transposed)?;
        let t = if a.transposed { t.t()? } else { t.clone() };
        t.reshape([n / side, side, k])?.index_select(0, at)
    };
    let (x, y) = (parts(&x, i, a.rows)?, parts(&y, j, a.columns)?);
    Ok(one(x.bmm(&y.transpose(-2, -1)?)?))
})
.constant();

fn sampled_host<T: BlockNumber, I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let a = c.attrs::<attrs::SparseBlocks>()?;
    let (x, pointers, indices) = (c.input::<T>(0)?, c.input::<I>(1)?, c.input::<I>(2)?);
    let y = c.input::<T>(3)?;
    let [rows, k] = sides(c.input_shape(0)?, a.transposed)?;
    let [columns, _] = sides(c.input_shape(3)?, a.transposed)?;
    let across = if a.by_columns { rows } else { columns };
    let lines = lines_of(a, &pointers, &indices, across)?;
    kernels::block_sampled_product(lines, &x, &y, k, a.transposed, c.output_uninit::<T>(0)?)
}
