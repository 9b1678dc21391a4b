//! Lists of coordinates: int64 tensors on the CPU, with a row for each dimension and a column for each element. The
//! kernels here check, sort, find and merge them, whatever device the tensor is on that they belong to.

use torsh_backend_cpu::sparse::{self as kernels, Coordinates, Index, Number};
use torsh_core::attrs::NONE;
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Device, Dims, Element, Shape};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, Spec};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::attrs;
use crate::help::{by_dtype, product};

pub(crate) static RECORDS: &[&OpRecord] = &[
    &ARE_PLACES,
    &ARE_LINES,
    &SORT,
    &DISTINCT,
    &FIND,
    &MERGE,
    &POINTERS,
    &COORDINATES,
    &RUN_SUMS,
];

torsh_core::kernel_keys! {
    ARE_PLACES_KEY "SparseArePlaces" are_places_host;
    ARE_LINES_KEY "SparseAreLines" |c| match c.input::<i64>(1) {
        Ok(_) => are_lines_host::<i64>(c),
        Err(_) => are_lines_host::<i32>(c),
    };
    SORT_KEY "SparseSort" sort_host;
    DISTINCT_KEY "SparseDistinct" distinct_host;
    FIND_KEY "SparseFind" find_host;
    MERGE_KEY "SparseMerge" |c| by_dtype!(c, merge_host);
    POINTERS_KEY "SparsePointers" pointers_host;
    COORDINATES_KEY "SparseCoordinates" coordinates_host;
    RUN_SUMS_KEY "SparseRunSums" |c| by_dtype!(c, run_sums_host);
}

/// The indices of a COO pattern, or other lists of indices, as the kernels read them.
pub(crate) fn local(indices: &Tensor) -> Result<Tensor> {
    indices
        .to_device(Device::Cpu)?
        .to_dtype(DType::I64)?
        .contiguous()
}

/// The rows and columns of a list.
fn sides(list: &Tensor) -> Result<[usize; 2]> {
    match *list.dims() {
        [rows, n] => Ok([rows, n]),
        _ => Err(TorshError::shape(
            "",
            format!(
                "indices must be sparse_dim x nnz, but got: {}",
                list.shape()
            ),
        )),
    }
}

/// Operand `i` of a kernel as a list of coordinates in some sizes.
fn places<'a>(
    c: &HostCall<'_>,
    i: usize,
    indices: &'a [i64],
    sizes: &'a [usize],
) -> Result<Coordinates<'a>> {
    let count = c.input_shape(i)?.last().copied().unwrap_or(0);
    Coordinates::new(indices, count, sizes)
}

/// The memory of result `i` of a kernel, filled with zeros.
fn output<'a, T: Element>(c: &mut HostCall<'a>, i: usize) -> Result<&'a mut [T]> {
    c.output_uninit(i).map(kernels::zeroed)
}

/// An int64 result.
fn spec(dims: &[usize]) -> Spec {
    Spec::new(Shape::new(dims), DType::I64)
}

fn plan(dims: &[usize]) -> Result<Plan> {
    Ok(Plan::one(DType::I64, Shape::new(dims), DType::I64))
}

/// What a result of one number says: yes or no.
fn yes(answer: &Tensor) -> Result<bool> {
    Ok(answer.item::<i64>()? != 0)
}

static ARE_PLACES: OpRecord = OpRecord::new(
    "_sparse_are_places",
    "1 if indices lie within sizes and ascend where they must, else 0.",
    "(Tensor indices, *, int[] sizes, bool sorted)",
)
.internal()
.with_key(&ARE_PLACES_KEY, |_| plan(&[]))
.constant();

fn are_places_host(c: &mut HostCall<'_>) -> Result<()> {
    let a = c.attrs::<attrs::SparsePlaces>()?;
    let indices = c.input::<i64>(0)?;
    let list = places(c, 0, &indices, &a.sizes)?;
    let good = list.are_within() && (!a.sorted || list.ascend());
    c.output::<i64>(0)?.fill(i64::from(good));
    Ok(())
}

/// Whether the coordinates of a list lie within sizes, and ascend if they must.
pub(crate) fn are_places(list: &Tensor, sizes: &[usize], sorted: bool) -> Result<bool> {
    let attrs = attrs::SparsePlaces {
        sizes: Dims::from_slice(sizes),
        sorted,
    };
    yes(&no_grad(|| ARE_PLACES.call1(&[Arg::T(list)], &attrs))?)
}

static ARE_LINES: OpRecord = OpRecord::new(
    "_sparse_are_lines",
    "1 if compressed and plain indices have their invariants, else 0.",
    "(Tensor pointers, Tensor plain, *, int entries, int lines, int width)",
)
.internal()
.with_key(&ARE_LINES_KEY, |_| plan(&[]))
.constant();

fn are_lines_host<I: Index + Element>(c: &mut HostCall<'_>) -> Result<()> {
    let a = c.attrs::<attrs::SparseLines>()?;
    let (pointers, plain) = (c.input::<I>(0)?, c.input::<I>(1)?);
    let good = kernels::are_lines(&pointers, &plain, [a.entries, a.lines, a.width]);
    c.output::<i64>(0)?.fill(i64::from(good));
    Ok(())
}

/// Whether compressed and plain indices, on the CPU, are those of `entries` matrices of `lines` lines of some width.
pub(crate) fn are_lines(
    [pointers, plain]: [&Tensor; 2],
    [entries, lines, width]: [usize; 3],
) -> Result<bool> {
    let attrs = attrs::SparseLines {
        entries,
        lines,
        width,
    };
    let args = [Arg::T(pointers), Arg::T(plain)];
    yes(&no_grad(|| ARE_LINES.call1(&args, &attrs))?)
}

static SORT: OpRecord = OpRecord::new(
    "_sparse_sort",
    "Where each of the sorted places was, where each run of equal ones begins, and how many runs there are.",
    "(Tensor indices, *, int[] sizes)",
)
.internal()
.with_key(&SORT_KEY, |c| {
    let [_, n] = sides(c.tensor(0)?)?;
    Ok(Plan::many(DType::I64, [spec(&[n]), spec(&[n + 1]), spec(&[])]))
})
.constant();

fn sort_host(c: &mut HostCall<'_>) -> Result<()> {
    let sizes = &c.attrs::<attrs::SparseSizes>()?.sizes;
    let indices = c.input::<i64>(0)?;
    let (order, starts) = (output(c, 0)?, output(c, 1)?);
    let runs = kernels::sort_indices(&indices, sizes, order, starts)?;
    c.output::<i64>(2)?.fill(runs as i64);
    Ok(())
}

/// A list in order.
pub(crate) struct Sorted {
    /// Where each element was: int64 `[n]`. Equal ones stay in order.
    pub(crate) order: Tensor,
    /// Where each run of equal elements begins in the new order, and the number of elements: int64 `[runs + 1]`.
    pub(crate) starts: Tensor,
    /// How many runs there are.
    pub(crate) runs: usize,
}

/// Sorts a list of coordinates that lie within some sizes.
pub(crate) fn sorted(list: &Tensor, sizes: &[usize]) -> Result<Sorted> {
    let attrs = attrs::SparseSizes {
        sizes: Dims::from_slice(sizes),
    };
    let outs = no_grad(|| SORT.call(&[Arg::T(list)], &attrs))?;
    let [order, starts, runs] = &outs[..] else {
        return Err(TorshError::failed("", "the kernel gave too few results"));
    };
    let runs = runs.item::<i64>()? as usize;
    Ok(Sorted {
        order: order.clone(),
        starts: starts.narrow(0, 0, runs + 1)?,
        runs,
    })
}

impl Sorted {
    /// Whether an element stands more than once.
    pub(crate) fn repeats(&self) -> bool {
        self.runs < self.order.numel()
    }

    /// The list that was sorted, with each element once.
    pub(crate) fn distinct(&self, list: &Tensor) -> Result<Tensor> {
        let starts = self.starts.narrow(0, 0, self.runs)?;
        let args = [Arg::T(list), Arg::T(&self.order), Arg::T(&starts)];
        no_grad(|| DISTINCT.call1(&args, NONE))
    }

    /// Where the first of each run was: int64 `[runs]`.
    pub(crate) fn firsts(&self) -> Result<Tensor> {
        match self.repeats() {
            true => {
                let starts = self.starts.narrow(0, 0, self.runs)?;
                self.order.index_select(0, &starts)
            }
            false => Ok(self.order.clone()),
        }
    }

    /// The run of each element in the new order: int64 `[n]`.
    pub(crate) fn run_of_each(&self) -> Result<Tensor> {
        coordinates([&self.starts, &self.order], 1, &[self.runs], true)?.select(0, 0)
    }
}

static DISTINCT: OpRecord = OpRecord::new(
    "_sparse_distinct",
    "The different places of a list that was sorted.",
    "(Tensor indices, Tensor order, Tensor starts)",
)
.internal()
.with_key(&DISTINCT_KEY, |c| {
    let [rows, _] = sides(c.tensor(0)?)?;
    plan(&[rows, c.tensor(2)?.numel()])
})
.constant();

fn distinct_host(c: &mut HostCall<'_>) -> Result<()> {
    let (indices, order) = (c.input::<i64>(0)?, c.input::<i64>(1)?);
    let starts = c.input::<i64>(2)?;
    kernels::unique_indices(&indices, &order, &starts, output(c, 0)?)
}

static FIND: OpRecord = OpRecord::new(
    "_sparse_find",
    "Where places are in another list, which ascends; -1 - p where they are not, behind p smaller ones.",
    "(Tensor have, Tensor wanted, *, int[] sizes)",
)
.internal()
.with_key(&FIND_KEY, |c| {
    let [_, n] = sides(c.tensor(1)?)?;
    plan(&[n])
})
.constant();

fn find_host(c: &mut HostCall<'_>) -> Result<()> {
    let sizes = &c.attrs::<attrs::SparseSizes>()?.sizes;
    let (have, wanted) = (c.input::<i64>(0)?, c.input::<i64>(1)?);
    let (have, wanted) = (places(c, 0, &have, sizes)?, places(c, 1, &wanted, sizes)?);
    kernels::find_places(have, wanted, output(c, 0)?)
}

/// Where each element of `wanted` is in `have`, which ascends: int64, negative where it is not there.
pub(crate) fn found(have: &Tensor, wanted: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    let attrs = attrs::SparseSizes {
        sizes: Dims::from_slice(sizes),
    };
    no_grad(|| FIND.call1(&[Arg::T(have), Arg::T(wanted)], &attrs))
}

/// As [`found`], in a list of different elements in any order.
pub(crate) fn found_anywhere(have: &Tensor, wanted: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    if are_places(have, sizes, true)? {
        return found(have, wanted, sizes);
    }
    let sorted = sorted(have, sizes)?;
    let at = found(&sorted.distinct(have)?, wanted, sizes)?;
    let missing = at.lt(0)?;
    let was = sorted.firsts()?.index_select(0, &at.maximum(0)?)?;
    was.masked_fill(&missing, -1)
}

static MERGE: OpRecord = OpRecord::new(
    "_sparse_merge",
    "The places of two lists that ascend, each once, and the sums of their values.",
    "(Tensor a, Tensor b, Tensor at, Tensor a_values, Tensor b_values, *, int[] sizes, int count)",
)
.internal()
.with_key(&MERGE_KEY, |c| {
    let &attrs::SparseMerge { ref sizes, count } = c.attrs()?;
    let values = c.tensor(3)?;
    let &[_, width] = values.dims() else {
        return Err(TorshError::shape("", "the values must be a matrix"));
    };
    let dtype = values.dtype();
    let out = Spec::new(Shape::new(&[count, width]), dtype);
    Ok(Plan::many(dtype, [spec(&[sizes.len(), count]), out]))
})
.constant();

fn merge_host<T: Number>(c: &mut HostCall<'_>) -> Result<()> {
    let sizes = &c.attrs::<attrs::SparseMerge>()?.sizes;
    let (a, b, at) = (c.input::<i64>(0)?, c.input::<i64>(1)?, c.input::<i64>(2)?);
    let (a, b) = (places(c, 0, &a, sizes)?, places(c, 1, &b, sizes)?);
    let (x, y) = (c.input::<T>(3)?, c.input::<T>(4)?);
    let width = c.output_shape(1)?.last().copied().unwrap_or(0);
    let (indices, out) = (output(c, 0)?, output(c, 1)?);
    kernels::merge_places(a, b, &at, (&x, &y), width, indices, out)
}

/// The elements of two lists that ascend, and the sums of their values, of one dtype and `[n, ..]` on the CPU.
pub(crate) fn merged(
    lists: [&Tensor; 2],
    values: [&Tensor; 2],
    sizes: &[usize],
) -> Result<(Tensor, Tensor)> {
    let [a, b] = lists;
    let unit = values[0].dims()[1..].to_vec();
    let width = product(&unit)?;
    let dtype = values[0].dtype();
    let flat = |v: &Tensor| {
        let v = v.reshape([v.dims()[0], width])?;
        match dtype {
            // Sums of two bools are numbers, those that are not 0 true.
            DType::Bool => v.to_dtype(DType::U8),
            _ => v.contiguous(),
        }
    };
    let (x, y) = (flat(values[0])?, flat(values[1])?);
    let at = found(a, b, sizes)?;
    let alone = at.lt(0)?.count_nonzero()?.item::<i64>()? as usize;
    let attrs = attrs::SparseMerge {
        sizes: Dims::from_slice(sizes),
        count: a.dims()[1] + alone,
    };
    let args = [a, b, &at, &x, &y].map(Arg::T);
    let outs = no_grad(|| MERGE.call(&args, &attrs))?;
    let [indices, out] = &outs[..] else {
        return Err(TorshError::failed("", "the kernel gave too few results"));
    };
    let of = [&[attrs.count], &unit[..]].concat();
    Ok((indices.clone(), out.to_dtype(dtype)?.reshape(of)?))
}

static POINTERS: OpRecord = OpRecord::new(
    "_sparse_pointers",
    "Where the lines of matrices begin, from the line of each element.",
    "(Tensor heads, *, int[] sizes)",
)
.internal()
.with_key(&POINTERS_KEY, |c| {
    let sizes = &c.attrs::<attrs::SparseSizes>()?.sizes;
    let Some((&lines, batch)) = sizes.split_last() else {
        return Err(TorshError::shape("", "there are no lines"));
    };
    plan(&[product(batch)?, lines.saturating_add(1)])
})
.constant();

fn pointers_host(c: &mut HostCall<'_>) -> Result<()> {
    let sizes = &c.attrs::<attrs::SparseSizes>()?.sizes;
    let heads = c.input::<i64>(0)?;
    let heads = places(c, 0, &heads, sizes)?;
    kernels::line_pointers(heads, c.output::<i64>(0)?)
}

/// The compressed indices of the elements of a sorted list, whose rows are those of the batch's dimensions, of lines
/// and of positions in the line: int64 `[*batch, lines + 1]`. `None` where the matrices of the batch have different
/// numbers of elements.
pub(crate) fn pointers(list: &Tensor, batch: &[usize], lines: usize) -> Result<Option<Tensor>> {
    let attrs = attrs::SparseSizes {
        sizes: batch.iter().copied().chain([lines]).collect(),
    };
    let heads = list.narrow(0, 0, batch.len() + 1)?;
    let all = no_grad(|| POINTERS.call1(&[Arg::T(&heads)], &attrs))?;
    let (entries, n) = (all.dims()[0], list.dims()[1]);
    if !batch.is_empty() {
        let each = (n / entries.max(1)) as i64;
        let alike = all.select(1, lines)?.eq(each)?.all()?.item::<bool>()?;
        if !n.is_multiple_of(entries.max(1)) || !alike {
            return Ok(None);
        }
    }
    all.reshape([batch, &[lines + 1]].concat()).map(Some)
}

static COORDINATES: OpRecord = OpRecord::new(
    "_sparse_coordinates",
    "The coordinates of the elements of lines.",
    "(Tensor pointers, Tensor plain, *, int entries, int[] sizes, bool by_rows)",
)
.internal()
.with_key(&COORDINATES_KEY, |c| {
    let rows = c.attrs::<attrs::SparseCoordinates>()?.sizes.len() + 1;
    plan(&[rows, c.tensor(1)?.numel()])
})
.constant();

fn coordinates_host(c: &mut HostCall<'_>) -> Result<()> {
    let a = c.attrs::<attrs::SparseCoordinates>()?;
    let (pointers, plain) = (c.input::<i64>(0)?, c.input::<i64>(1)?);
    let out = output(c, 0)?;
    kernels::coordinates(&pointers, &plain, a.entries, &a.sizes, a.by_rows, out)
}

/// The list of the elements that `entries` matrices store by lines: `sizes` are what the lines of all of them count in.
/// The index of a line comes before the other one where `by_rows`, else behind it.
pub(crate) fn coordinates(
    [pointers, plain]: [&Tensor; 2],
    entries: usize,
    sizes: &[usize],
    by_rows: bool,
) -> Result<Tensor> {
    let attrs = attrs::SparseCoordinates {
        entries,
        sizes: Dims::from_slice(sizes),
        by_rows,
    };
    let args = [Arg::T(pointers), Arg::T(plain)];
    no_grad(|| COORDINATES.call1(&args, &attrs))
}

static RUN_SUMS: OpRecord = OpRecord::new(
    "_sparse_run_sums",
    "The sums of the values of each run of a list that was sorted.",
    "(Tensor values, Tensor order, Tensor starts)",
)
.internal()
.with_key(&RUN_SUMS_KEY, |c| {
    let (values, starts) = (c.tensor(0)?, c.tensor(2)?);
    let &[_, width] = values.dims() else {
        return Err(TorshError::shape("", "the values must be a matrix"));
    };
    let runs = starts.numel().saturating_sub(1);
    Ok(Plan::one(
        values.dtype(),
        Shape::new(&[runs, width]),
        values.dtype(),
    ))
})
.constant();

fn run_sums_host<T: Number>(c: &mut HostCall<'_>) -> Result<()> {
    let (values, order) = (c.input::<T>(0)?, c.input::<i64>(1)?);
    let starts = c.input::<i64>(2)?;
    let width = c.output_shape(0)?.last().copied().unwrap_or(0);
    kernels::segment_sums(&values, width, &order, &starts, output(c, 0)?)
}

/// The sums of the values of equal elements, in the order of these; not recorded. A bool is true where one of them is.
pub(crate) fn run_sums(values: &Tensor, sorted: &Sorted) -> Result<Tensor> {
    let unit = &values.dims()[1..];
    let of = [&[sorted.runs], unit].concat();
    let wide = match values.dtype() {
        DType::Bool => values.to_dtype(DType::I64)?,
        _ => values.contiguous()?,
    };
    let flat = wide.reshape([values.dims()[0], product(unit)?])?;
    let args = [Arg::T(&flat), Arg::T(&sorted.order), Arg::T(&sorted.starts)];
    let sums = no_grad(|| RUN_SUMS.call1(&args, NONE))?;
    sums.to_dtype(values.dtype())?.reshape(of)
}

/// The row-major positions of the elements of a list: int64 `[n]`.
///
/// # Errors
/// Where 64 bits do not hold one.
pub(crate) fn linear(list: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    let total = sizes
        .iter()
        .try_fold(1i64, |n, &s| n.checked_mul(i64::try_from(s.max(1)).ok()?));
    if total.is_none() {
        return Err(TorshError::invalid(
            "",
            format!("a tensor of the sizes {sizes:?} has more elements than 64 bits count"),
        ));
    }
    let Some((_, others)) = sizes.split_first() else {
        return Tensor::zeros([list.dims()[1]], DType::I64, Device::Cpu);
    };
    let mut at = list.select(0, 0)?;
    for (d, &size) in (1usize..).zip(others) {
        at = at.mul(size as i64)?.add(&list.select(0, d)?)?;
    }
    Ok(at)
}

/// The coordinates of row-major positions in a tensor of these sizes.
pub(crate) fn unravel(positions: &Tensor, sizes: &[usize]) -> Result<Tensor> {
    let mut rows = Vec::with_capacity(sizes.len());
    let mut rest = positions.clone();
    for &size in sizes.iter().rev() {
        let size = size.max(1) as i64;
        rows.push(rest.remainder(size)?);
        rest = rest.floor_divide(size)?;
    }
    rows.reverse();
    match rows.is_empty() {
        true => Tensor::zeros([0, positions.numel()], DType::I64, Device::Cpu),
        false => Tensor::stack(&rows, 0),
    }
}

/// The list with another dimension behind the last, each of whose positions every element has: element `i` becomes the
/// elements `i * size` to `(i + 1) * size`.
pub(crate) fn spread(list: &Tensor, size: usize) -> Result<Tensor> {
    let [rows, n] = sides(list)?;
    let count = product(&[n, size])?;
    if count == 0 {
        return Tensor::zeros([rows + 1, 0], DType::I64, Device::Cpu);
    }
    let each = list.unsqueeze(2)?.expand([rows, n, size])?;
    let inner = Tensor::arange(0, size, 1, DType::I64, Device::Cpu)?;
    let inner = inner.expand([1, n, size])?;
    Tensor::cat(
        &[each.reshape([rows, count])?, inner.reshape([1, count])?],
        0,
    )
}

/// The list of the blocks in which the elements of a list are, and the position of each element within its block; the
/// rows of both are the last two of the list.
pub(crate) fn blocks(list: &Tensor, [b0, b1]: [usize; 2]) -> Result<(Tensor, Tensor)> {
    let batch = sides(list)?[0] - 2;
    let (rows, columns) = (list.select(0, batch)?, list.select(0, batch + 1)?);
    let (b0, b1) = (b0.max(1) as i64, b1.max(1) as i64);
    let within = rows.remainder(b0)?.mul(b1)?.add(&columns.remainder(b1)?)?;
    let of = [rows.floor_divide(b0)?, columns.floor_divide(b1)?];
    let list = Tensor::cat(&[list.narrow(0, 0, batch)?, Tensor::stack(&of, 0)?], 0)?;
    Ok((list, within))
}

/// The list of the elements of blocks, block by block and row by row: what [`blocks`] takes apart.
pub(crate) fn of_blocks(list: &Tensor, [b0, b1]: [usize; 2]) -> Result<Tensor> {
    let spread = spread(&spread(list, b0)?, b1)?;
    let batch = sides(list)?[0] - 2;
    let row = |d: usize| spread.select(0, batch + d);
    let of = [
        row(0)?.mul(b0 as i64)?.add(&row(2)?)?,
        row(1)?.mul(b1 as i64)?.add(&row(3)?)?,
    ];
    Tensor::cat(&[spread.narrow(0, 0, batch)?, Tensor::stack(&of, 0)?], 0)
}

/// The list with its last two rows exchanged.
pub(crate) fn turned(list: &Tensor) -> Result<Tensor> {
    let batch = sides(list)?[0] - 2;
    let row = |d: usize| list.narrow(0, d, 1);
    Tensor::cat(
        &[list.narrow(0, 0, batch)?, row(batch + 1)?, row(batch)?],
        0,
    )
}
