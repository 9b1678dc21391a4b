//! Strided tensors on the CPU: what they store, and what is stored made strided again.

use torsh_backend_cpu::sparse as kernels;
use torsh_core::attrs::NONE;
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Element, Shape};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, Spec};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::help::{by_dtype, product};

pub(crate) static RECORDS: &[&OpRecord] = &[&COUNT, &STORED, &FILL_LINES, &FILL_PLACES];

torsh_core::kernel_keys! {
    COUNT_KEY "SparseCount" |c| by_dtype!(c, count_host);
    STORED_KEY "SparseStored" |c| by_dtype!(c, stored_host);
    FILL_LINES_KEY "SparseFillLines" |c| by_dtype!(c, fill_lines_host);
    FILL_PLACES_KEY "SparseFillPlaces" |c| by_dtype!(c, fill_places_host);
}

/// A matrix, in rows of so many elements.
fn matrix(x: &Tensor) -> Result<[usize; 2]> {
    match *x.dims() {
        [n, width] => Ok([n, width]),
        _ => Err(TorshError::shape("", "the values must be a matrix")),
    }
}

/// Lines, units in each, and numbers of a unit of a kernel's first operand.
fn cube(dims: &[usize]) -> Result<[usize; 3]> {
    match *dims {
        [lines, width, unit] => Ok([lines, width, unit]),
        _ => Err(TorshError::shape(
            "",
            "lines of units have three dimensions",
        )),
    }
}

/// Bools as the numbers 0 and 1, in the same memory.
fn numbers(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::Bool => x.view_dtype(DType::U8),
        _ => Ok(x.clone()),
    }
}

static COUNT: OpRecord = OpRecord::new(
    "_sparse_count",
    "Where lines begin in the list of the units that are not all 0.",
    "(Tensor input)",
)
.internal()
.with_key(&COUNT_KEY, |c| {
    let x = c.tensor(0)?;
    let [lines, ..] = cube(x.dims())?;
    Ok(Plan::one(x.dtype(), Shape::new(&[lines + 1]), DType::I64))
})
.constant();

fn count_host<T: Element>(c: &mut HostCall<'_>) -> Result<()> {
    let (x, sizes) = (c.input::<T>(0)?, cube(c.input_shape(0)?)?);
    kernels::count_stored(&x, sizes, c.output::<i64>(0)?)
}

static STORED: OpRecord = OpRecord::new(
    "_sparse_stored",
    "The units that are not all 0: positions in their lines, and values.",
    "(Tensor input, Tensor pointers, *, int count)",
)
.internal()
.with_key(&STORED_KEY, |c| {
    let x = c.tensor(0)?;
    let [.., unit] = cube(x.dims())?;
    let count = c.attrs::<attrs::SparseCount>()?.count;
    let columns = Spec::new(Shape::new(&[count]), DType::I64);
    let values = Spec::new(Shape::new(&[count, unit]), x.dtype());
    Ok(Plan::many(x.dtype(), [columns, values]))
})
.constant();

fn stored_host<T: Element>(c: &mut HostCall<'_>) -> Result<()> {
    let (x, sizes) = (c.input::<T>(0)?, cube(c.input_shape(0)?)?);
    let pointers = c.input::<i64>(1)?;
    let (columns, values) = (c.output::<i64>(0)?, c.output::<T>(1)?);
    kernels::stored(&x, sizes, &pointers, columns, values)
}

/// What lines of units store: the units that are not all 0.
pub(crate) struct Stored {
    /// Where each line begins, and how many units there are: int64 `[lines + 1]`.
    pub(crate) pointers: Tensor,
    /// The position of each unit in its line: int64 `[n]`.
    pub(crate) columns: Tensor,
    /// The units: `[n, unit]`.
    pub(crate) values: Tensor,
}

/// What a tensor on the CPU stores, read as `lines` lines of `width` units of `unit` numbers.
pub(crate) fn stored(x: &Tensor, [lines, width, unit]: [usize; 3]) -> Result<Stored> {
    let flat = numbers(&x.reshape([lines, width, unit])?.contiguous()?)?;
    no_grad(|| {
        let pointers = COUNT.call1(&[Arg::T(&flat)], NONE)?;
        let attrs = attrs::SparseCount {
            count: pointers.select(0, lines)?.item::<i64>()? as usize,
        };
        let outs = STORED.call(&[Arg::T(&flat), Arg::T(&pointers)], &attrs)?;
        let [columns, values] = &outs[..] else {
            return Err(TorshError::failed("", "the kernel gave too few results"));
        };
        Ok(Stored {
            pointers,
            columns: columns.clone(),
            values: values.view_dtype(x.dtype())?,
        })
    })
}

static FILL_LINES: OpRecord = OpRecord::new(
    "_sparse_fill_lines",
    "The strided tensor of the units that lines store.",
    "(Tensor pointers, Tensor columns, Tensor values, *, int entries, int lines, int width)",
)
.internal()
.with_key(&FILL_LINES_KEY, |c| {
    let a = c.attrs::<attrs::SparseLines>()?;
    let values = c.tensor(2)?;
    let [_, unit] = matrix(values)?;
    let shape = [product(&[a.entries, a.lines])?, a.width, unit];
    product(&shape)?;
    Ok(Plan::one(
        values.dtype(),
        Shape::new(&shape),
        values.dtype(),
    ))
})
.constant();

fn fill_lines_host<T: Element>(c: &mut HostCall<'_>) -> Result<()> {
    let a = c.attrs::<attrs::SparseLines>()?;
    let (pointers, columns) = (c.input::<i64>(0)?, c.input::<i64>(1)?);
    let (values, [_, width, unit]) = (c.input::<T>(2)?, cube(c.output_shape(0)?)?);
    let sizes = [a.entries, a.lines, width, unit];
    kernels::fill_lines(
        &pointers,
        &columns,
        &values,
        sizes,
        c.output_uninit::<T>(0)?,
    )
}

/// The strided tensor `[entries * lines, width, unit]` of the units that lines store; `values` are `[n, unit]`.
pub(crate) fn fill_lines(
    [pointers, columns]: [&Tensor; 2],
    values: &Tensor,
    [entries, lines, width]: [usize; 3],
) -> Result<Tensor> {
    let attrs = attrs::SparseLines {
        entries,
        lines,
        width,
    };
    let wide = |t: &Tensor| t.to_dtype(DType::I64)?.contiguous();
    let (pointers, columns) = (wide(pointers)?, wide(columns)?);
    let flat = numbers(&values.contiguous()?)?;
    let args = [Arg::T(&pointers), Arg::T(&columns), Arg::T(&flat)];
    no_grad(|| FILL_LINES.call1(&args, &attrs))?.view_dtype(values.dtype())
}

static FILL_PLACES: OpRecord = OpRecord::new(
    "_sparse_fill_places",
    "The strided tensor of units at places that ascend.",
    "(Tensor places, Tensor values, *, int count)",
)
.internal()
.with_key(&FILL_PLACES_KEY, |c| {
    let count = c.attrs::<attrs::SparseCount>()?.count;
    let values = c.tensor(1)?;
    let [_, unit] = matrix(values)?;
    product(&[count, unit])?;
    Ok(Plan::one(
        values.dtype(),
        Shape::new(&[count, unit]),
        values.dtype(),
    ))
})
.constant();

fn fill_places_host<T: Element>(c: &mut HostCall<'_>) -> Result<()> {
    let (places, values) = (c.input::<i64>(0)?, c.input::<T>(1)?);
    let unit = c.output_shape(0)?.last().copied().unwrap_or(0);
    kernels::fill_places(&places, &values, unit, c.output_uninit::<T>(0)?)
}

/// The strided tensor `[count, unit]` of units at places that ascend; `values` are `[n, unit]`.
pub(crate) fn fill_places(places: &Tensor, values: &Tensor, count: usize) -> Result<Tensor> {
    let attrs = attrs::SparseCount { count };
    let flat = numbers(&values.contiguous()?)?;
    let args = [Arg::T(places), Arg::T(&flat)];
    no_grad(|| FILL_PLACES.call1(&args, &attrs))?.view_dtype(values.dtype())
}
