//! Writing through index tensors.
//!
//! The output starts as a copy of the first input, unless it is that input (the in-place forms).
//! Whatever can be refused is refused before that.

use half::{bf16, f16};
use torsh_core::attrs::{self, ScatterReduction as Reduce, ScatterUpdate};
use torsh_core::{DType, KernelArgs, Result, Scalar, TorshError, View, pool};

use super::choose::{ScatterSumAlgorithm, ScatterSumProblem};
use super::engine::{IndexJob, identity};
use super::flat;
use super::gather::{advanced, along_dim, at_least_1d, flat_index};
use super::num::Num;
use super::positions::{Index, contiguous, no_overlap};
use super::rows;
use super::walk::{IndexPtr, IndexWalk, copy_strided};
use super::{GRAIN, ScratchSlice, by_dtype, by_size};
use crate::machine::choice::pick;
use crate::machine::tuning::index::COLUMNS;
use crate::memory::operands::missing;

/// Makes `out` a copy of `src`; nothing where it is `src`.
pub(super) fn start_from(out: &View<'_>, src: &View<'_>) {
    // The stride of a size of 1 tells nothing: broadcasting makes it 0.
    let strides = || out.strides().iter().zip(src.strides()).zip(out.shape());
    if out.ptr() == src.ptr() && strides().all(|((a, b), &n)| a == b || n == 1) {
        return;
    }
    by_size!(out.dtype(), T => {
        // SAFETY: both views have this shape, and the output is another tensor.
        unsafe {
            copy_strided::<T>(out.shape(), IndexPtr::of(out), out.strides(), IndexPtr::of(src), src.strides())
        }
    })
}

/// Fills `out` with one number.
pub(super) fn fill(out: &View<'_>, value: Scalar) {
    let bytes = Bytes(value.to_bytes(out.dtype()));
    let zeros = vec![0; out.shape().len()];
    by_size!(out.dtype(), T => {
        // SAFETY: the number is read with strides of 0, the output is written within its shape.
        unsafe {
            let from = IndexPtr::<T>::new(bytes.0.as_ptr().cast_mut().cast());
            copy_strided::<T>(out.shape(), IndexPtr::of(out), out.strides(), from, &zeros)
        }
    })
}

/// One element of any dtype, aligned for all.
#[repr(align(16))]
struct Bytes([u8; 16]);

/// What is written: a tensor, or one number everywhere.
enum ScatterSource<'a> {
    Tensor(&'a View<'a>),
    Number(Bytes),
}

impl<'a> ScatterSource<'a> {
    /// Input 2 where present, else the number.
    fn new(args: &'a KernelArgs<'a>, number: Option<Scalar>) -> Result<ScatterSource<'a>> {
        match (args.inputs().get(2).filter(|v| v.is_present()), number) {
            (Some(v), _) => Ok(ScatterSource::Tensor(v)),
            (None, Some(n)) => {
                let bytes = n.to_bytes(args.outputs()[0].dtype());
                Ok(ScatterSource::Number(Bytes(bytes)))
            }
            (None, None) => Err(missing()),
        }
    }

    fn ptr<T>(&self) -> IndexPtr<T> {
        match self {
            ScatterSource::Tensor(v) => IndexPtr::of(v),
            ScatterSource::Number(b) => IndexPtr::new(b.0.as_ptr().cast_mut().cast()),
        }
    }

    /// Its strides for a walk over `n` dimensions; a 0-d tensor counts as a number.
    fn strides(&self, n: usize) -> Vec<isize> {
        match self {
            ScatterSource::Tensor(v) if v.shape().len() == n => v.strides().to_vec(),
            _ => vec![0; n],
        }
    }

    fn tensor(&self) -> Option<&View<'a>> {
        match self {
            ScatterSource::Tensor(v) => Some(v),
            ScatterSource::Number(_) => None,
        }
    }
}

/// The walk of `index_add` and kin: `self`'s shape with the length of the index at `dim`.
struct AlongDim<'a> {
    shape: Vec<usize>,
    dense: Vec<isize>,
    indexed: Vec<isize>,
    at: Vec<isize>,
    index: Index<'a>,
}

impl AlongDim<'_> {
    fn job(&self) -> IndexJob<'_> {
        IndexJob {
            shape: &self.shape,
            dense: &self.dense,
            indexed: &self.indexed,
            at: &self.at,
        }
    }
}

/// Reads the index of inputs `self`, `index`, and prepares the walk for a source.
fn along<'a>(
    args: &'a KernelArgs<'a>,
    source: &ScatterSource<'_>,
    dim: usize,
    negative: bool,
) -> Result<AlongDim<'a>> {
    let (out, idx) = (&args.outputs()[0], &args.inputs()[1]);
    let (sizes, strides) = at_least_1d(out);
    no_overlap(out, idx)?;
    if let Some(s) = source.tensor() {
        no_overlap(out, s)?;
    }
    let index = Index::new(idx, sizes[dim], dim, strides[dim], negative, Some(out))?;
    let (indexed, at) = along_dim(strides, dim, &index);
    let mut shape = sizes.to_vec();
    shape[dim] = idx.numel();
    let dense = source.strides(shape.len());
    Ok(AlongDim {
        shape,
        dense,
        indexed,
        at,
        index,
    })
}

/// `index_add`: inputs `self`, `index` (1-d or 0-d), `source`.
pub(crate) fn index_add(args: &KernelArgs<'_>) -> Result<()> {
    let &attrs::IndexAdd { dim, alpha } = args.attrs()?;
    let out = &args.outputs()[0];
    let source = ScatterSource::new(args, None)?;
    let walk = along(args, &source, dim, false)?;
    start_from(out, &args.inputs()[0]);
    by_dtype!(out.dtype(), T => {
        let a = T::cast(alpha);
        // SAFETY: the walk was built from these views, and the index was checked.
        unsafe {
            if a == T::ONE {
                walk.job().update::<T>(source.ptr(), IndexPtr::of(out), &walk.index, T::add);
            } else {
                let f = move |to: T, from: T| to.add_scaled(from, a);
                walk.job().update::<T>(source.ptr(), IndexPtr::of(out), &walk.index, f);
            }
        }
    });
    Ok(())
}

/// `index_copy`: inputs `self`, `index`, `source`.
pub(crate) fn index_copy(args: &KernelArgs<'_>) -> Result<()> {
    let dim = args.attrs::<attrs::IndexCopy>()?.dim;
    write_along(args, ScatterSource::new(args, None)?, dim, false)
}

/// `index_fill`: inputs `self`, `index` (negative values count from the end), optionally a 0-d
/// value.
pub(crate) fn index_fill(args: &KernelArgs<'_>) -> Result<()> {
    let &attrs::IndexFill { dim, value } = args.attrs()?;
    write_along(args, ScatterSource::new(args, value)?, dim, true)
}

fn write_along(
    args: &KernelArgs<'_>,
    source: ScatterSource<'_>,
    dim: usize,
    negative: bool,
) -> Result<()> {
    let out = &args.outputs()[0];
    let walk = along(args, &source, dim, negative)?;
    start_from(out, &args.inputs()[0]);
    by_size!(out.dtype(), T => {
        // SAFETY: the walk was built from these views, and the index was checked.
        unsafe { walk.job().put::<T>(source.ptr(), IndexPtr::of(out), &walk.index) }
    });
    Ok(())
}

/// `scatter`: inputs `self`, `index`, optionally `src`.
pub(crate) fn scatter(args: &KernelArgs<'_>) -> Result<()> {
    let &attrs::Scatter { dim, reduce, value } = args.attrs()?;
    let source = ScatterSource::new(args, value)?;
    if let Some(update) = reduce {
        let reduce = match update {
            ScatterUpdate::Add => Reduce::Sum,
            ScatterUpdate::Multiply => Reduce::Prod,
        };
        return scatter_with(args, source, (dim, false), reduce, true);
    }
    let out = &args.outputs()[0];
    let Some(walk) = Elementwise::new(args, &source, dim)? else {
        start_from(out, &args.inputs()[0]);
        return Ok(());
    };
    start_from(out, &args.inputs()[0]);
    by_size!(out.dtype(), T => {
        // SAFETY: the walk was built from these views, and the index was checked.
        unsafe { walk.job().put::<T>(source.ptr(), IndexPtr::of(out), &walk.index) }
    });
    Ok(())
}

/// `scatter_add`: inputs `self`, `index`, `src`.
pub(crate) fn scatter_add(args: &KernelArgs<'_>) -> Result<()> {
    let &attrs::Gather { dim, negative, .. } = args.attrs()?;
    let source = ScatterSource::new(args, None)?;
    scatter_with(args, source, (dim, negative), Reduce::Sum, true)
}

/// `scatter_reduce`: inputs `self`, `index`, `src`.
pub(crate) fn scatter_reduce(args: &KernelArgs<'_>) -> Result<()> {
    let a = args.attrs::<attrs::ScatterReduce>()?;
    let source = ScatterSource::new(args, None)?;
    scatter_with(args, source, (a.dim, false), a.reduce, a.include_self)
}

/// The walk of `scatter` and kin: the index's shape.
struct Elementwise<'a> {
    shape: &'a [usize],
    dense: Vec<isize>,
    indexed: Vec<isize>,
    index: Index<'a>,
    dim: usize,
}

impl<'a> Elementwise<'a> {
    /// `None` where the index is empty. Negative values are out of bounds.
    fn new(
        args: &'a KernelArgs<'a>,
        source: &ScatterSource<'_>,
        dim: usize,
    ) -> Result<Option<Elementwise<'a>>> {
        let walk = Elementwise::unchecked(args, source, (dim, false))?;
        walk.as_ref().map_or(Ok(()), |w| w.check(args))?;
        Ok(walk)
    }

    /// Refuses index values out of bounds.
    fn check(&self, args: &KernelArgs<'_>) -> Result<()> {
        let (sizes, _) = at_least_1d(&args.outputs()[0]);
        let shape = args.inputs()[1].shape();
        self.index.check(shape, sizes[self.dim], self.dim)
    }

    /// As [`Elementwise::new`], with index values yet to be checked, of which negative ones may
    /// count from the end.
    fn unchecked(
        args: &'a KernelArgs<'a>,
        source: &ScatterSource<'_>,
        (dim, negative): (usize, bool),
    ) -> Result<Option<Elementwise<'a>>> {
        let (out, idx) = (&args.outputs()[0], &args.inputs()[1]);
        no_overlap(out, idx)?;
        if let Some(s) = source.tensor() {
            no_overlap(out, s)?;
        }
        if idx.numel() == 0 {
            return Ok(None);
        }
        let (sizes, strides) = at_least_1d(out);
        let (size, step) = (sizes[dim], strides[dim]);
        let index = Index::unchecked(idx, size, step, negative, Some(out))?;
        let (shape, _) = at_least_1d(idx);
        let mut indexed = strides.to_vec();
        indexed[dim] = 0;
        Ok(Some(Elementwise {
            shape,
            dense: source.strides(shape.len()),
            indexed,
            index,
            dim,
        }))
    }

    fn job(&self) -> IndexJob<'_> {
        let at = if self.index.strides.is_empty() {
            &[0][..]
        } else {
            &self.index.strides
        };
        IndexJob {
            shape: self.shape,
            dense: &self.dense,
            indexed: &self.indexed,
            at,
        }
    }

    /// The same walk over another tensor of the indexed side's shape, contiguous.
    fn on_contiguous(&self, sizes: &[usize]) -> (Vec<isize>, isize) {
        let mut strides = contiguous(sizes);
        let step = strides[self.dim];
        strides[self.dim] = 0;
        (strides, step)
    }
}

/// Scatters along a dimension, where negative values may count from the end, with a reduction. The
/// half types accumulate in float32, as PyTorch's do.
fn scatter_with(
    args: &KernelArgs<'_>,
    source: ScatterSource<'_>,
    along: (usize, bool),
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    let out = &args.outputs()[0];
    if out.dtype().is_complex() && matches!(reduce, Reduce::Amax | Reduce::Amin | Reduce::Mean)
        || out.dtype() == DType::Bool && reduce == Reduce::Mean
    {
        return Err(args.unsupported());
    }
    let Some(walk) = Elementwise::unchecked(args, &source, along)? else {
        start_from(out, &args.inputs()[0]);
        return Ok(());
    };
    if reduce == Reduce::Sum && include_self && sum_into_few(args, &source, &walk)? {
        return Ok(());
    }
    walk.check(args)?;
    match out.dtype() {
        DType::F16 => scatter_half::<f16>(args, &source, &walk, reduce, include_self),
        DType::BF16 => scatter_half::<bf16>(args, &source, &walk, reduce, include_self),
        dtype => {
            start_from(out, &args.inputs()[0]);
            by_dtype!(dtype, T => {
                // SAFETY: the walk was built from these views, and the index was checked.
                unsafe { reduce_into::<T>(out, &walk, source.ptr(), reduce, include_self) }
            })
        }
    }
}

/// A sum where all elements go to few places of one dimension; `false`, and nothing done, where they
/// do not, or an index value is out of bounds.
fn sum_into_few(
    args: &KernelArgs<'_>,
    source: &ScatterSource<'_>,
    walk: &Elementwise<'_>,
) -> Result<bool> {
    let out = &args.outputs()[0];
    let (sizes, strides) = at_least_1d(out);
    let (places, step) = (sizes[walk.dim], strides[walk.dim]);
    let Some((n, [ds, 0, is])) = walk.job().walk().single() else {
        return Ok(false);
    };
    // The half types are summed in float32, which is done elsewhere.
    let half = matches!(out.dtype(), DType::F16 | DType::BF16);
    if half || out.numel() != places {
        return Ok(false);
    }
    let algorithm = pick(&ScatterSumProblem { n, places }, pool::num_threads());
    let spread = match algorithm {
        ScatterSumAlgorithm::InOrder => return Ok(false),
        ScatterSumAlgorithm::Parts => false,
        ScatterSumAlgorithm::SpreadParts => true,
    };
    by_dtype!(out.dtype(), T => {
        let from = flat::Elements::<T> {
            first: source.ptr(),
            step: ds,
            n,
            index: walk.index.offsets().with_step(1),
            index_step: is,
        };
        // SAFETY: the walk was built from these views.
        let Some(partial) = (unsafe { flat::reduce(from, places, spread, T::NOTHING, T::add)? }) else {
            return Ok(false);
        };
        start_from(out, &args.inputs()[0]);
        // SAFETY: the places are those of the output.
        unsafe { partial.join(IndexPtr::of(out), step, T::add) };
    });
    Ok(true)
}

/// The reduction on `out`, which holds `self`.
///
/// # Safety
/// `walk` must be that of `out`, an index into it, and the tensor at `dense`.
unsafe fn reduce_into<T: Num>(
    out: &View<'_>,
    walk: &Elementwise<'_>,
    dense: IndexPtr<T>,
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    let job = walk.job();
    if !include_self {
        let mut start = identity::<T>(reduce);
        let zeros = vec![0; job.shape.len()];
        // SAFETY: the number is read with strides of 0; the rest as below.
        unsafe {
            IndexJob {
                dense: &zeros,
                ..walk.job()
            }
            .put(
                IndexPtr::new(&raw mut start),
                IndexPtr::of(out),
                &walk.index,
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe { job.reduce::<T>(reduce, dense, IndexPtr::of(out), &walk.index) };
    if reduce != Reduce::Mean {
        return Ok(());
    }
    let (sizes, _) = at_least_1d(out);
    let counts = ScratchSlice::filled(out.numel(), i64::from(include_self))?;
    let (strides, step) = walk.on_contiguous(sizes);
    let own = walk.index.with_step(step);
    let mut one = 1i64;
    let zeros = vec![0; job.shape.len()];
    // SAFETY: the counts are contiguous and have the output's shape.
    unsafe {
        IndexJob {
            dense: &zeros,
            indexed: &strides,
            ..walk.job()
        }
        .update::<i64>(
            IndexPtr::new(&raw mut one),
            IndexPtr::new(counts.ptr()),
            &own,
            i64::add,
        );
    }
    let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::new(counts.ptr()));
    let (sizes, strides) = at_least_1d(out);
    IndexWalk::new(sizes, [strides, &contiguous(sizes)]).par(GRAIN, |[d, c], n, [ds, cs]| {
        for j in 0..n as isize {
            // SAFETY: the walk stays within both.
            unsafe {
                let count = *from.at(c + j * cs);
                let p = to.at(d + j * ds);
                *p = (*p).per(count.max(1));
            }
        }
    });
    Ok(())
}

/// A half type, converted to and from float32.
trait HalfElement: Num {
    fn wide(self) -> f32;
    fn narrow(x: f32) -> Self;
}
impl HalfElement for f16 {
    fn wide(self) -> f32 {
        self.to_f32()
    }
    fn narrow(x: f32) -> Self {
        f16::from_f32(x)
    }
}
impl HalfElement for bf16 {
    fn wide(self) -> f32 {
        self.to_f32()
    }
    fn narrow(x: f32) -> Self {
        bf16::from_f32(x)
    }
}

/// A contiguous float32 copy of a strided half operand.
fn widened<T: HalfElement>(
    shape: &[usize],
    p: IndexPtr<T>,
    strides: &[isize],
) -> Result<ScratchSlice<f32>> {
    let wide = ScratchSlice::filled(shape.iter().product(), 0f32)?;
    let to = IndexPtr::new(wide.ptr());
    IndexWalk::new(shape, [&contiguous(shape), strides]).par(GRAIN, |[d, s], n, [ds, ss]| {
        for j in 0..n as isize {
            // SAFETY: the walk stays within both.
            unsafe { *to.at(d + j * ds) = (*p.at(s + j * ss)).wide() }
        }
    });
    Ok(wide)
}

fn scatter_half<T: HalfElement>(
    args: &KernelArgs<'_>,
    source: &ScatterSource<'_>,
    walk: &Elementwise<'_>,
    reduce: Reduce,
    include_self: bool,
) -> Result<()> {
    let out = &args.outputs()[0];
    let src = &args.inputs()[0];
    let (sizes, strides) = at_least_1d(out);
    let (_, src_strides) = at_least_1d(src);
    let acc = widened::<T>(sizes, IndexPtr::of(src), src_strides)?;
    let from = widened::<T>(walk.shape, source.ptr(), &walk.dense)?;
    let (mut indexed, step) = walk.on_contiguous(sizes);
    indexed[walk.dim] = 0;
    let wide = Elementwise {
        shape: walk.shape,
        dense: contiguous(walk.shape),
        indexed,
        index: walk.index.with_step(step),
        dim: walk.dim,
    };
    let acc_strides = contiguous(sizes);
    // SAFETY: the copy has an element for each of the output's, and lives until the end.
    let view = unsafe { View::new(acc.ptr().cast(), DType::F32, sizes, &acc_strides) };
    // SAFETY: the walk is that of the float32 copies.
    unsafe {
        reduce_into::<f32>(
            &view,
            &wide,
            IndexPtr::new(from.ptr()),
            reduce,
            include_self,
        )?
    };
    let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::new(acc.ptr()));
    IndexWalk::new(sizes, [strides, &acc_strides]).par(GRAIN, |[d, s], n, [ds, ss]| {
        for j in 0..n as isize {
            // SAFETY: the walk stays within both.
            unsafe { *to.at(d + j * ds) = T::narrow(*from.at(s + j * ss)) }
        }
    });
    Ok(())
}

/// `index_reduce`: inputs `self`, `index` (1-d), `source`.
pub(crate) fn index_reduce(args: &KernelArgs<'_>) -> Result<()> {
    // The same as a scatter whose index is repeated over the other dimensions.
    let (source, idx) = (&args.inputs()[2], &args.inputs()[1]);
    let dim = args.attrs::<attrs::ScatterReduce>()?.dim;
    let (shape, _) = at_least_1d(source);
    let mut strides = vec![0; shape.len()];
    strides[dim] = idx.strides().first().copied().unwrap_or(0);
    // SAFETY: the index has an element for each of this dimension's places; strides of 0 repeat them.
    let repeated = unsafe { View::new(idx.ptr(), idx.dtype(), shape, &strides) };
    let inputs = [args.inputs()[0], repeated, *source];
    // SAFETY: the call's own operands, with the index in the source's shape, as `ScatterReduce` asks.
    scatter_reduce(&unsafe {
        KernelArgs::new(
            args.kernel(),
            args.compute(),
            args.outputs(),
            &inputs,
            args.attributes(),
        )
    })
}

/// Advanced assignment: inputs `self`, the values (broadcast to what the index selects), and K
/// index tensors of one shape S, one for each of `dims`. What they select has `position` of the
/// other dimensions before S.
pub(crate) fn index_put(args: &KernelArgs<'_>) -> Result<()> {
    let (out, values) = (&args.outputs()[0], &args.inputs()[1]);
    let attrs::IndexPut {
        dims,
        position,
        accumulate,
    } = args.attrs()?;
    let position = *position;
    no_overlap(out, values)?;
    for idx in &args.inputs()[2..] {
        no_overlap(out, idx)?;
    }
    let a = advanced(out, &args.inputs()[2..], dims, position, Some(out))?;
    let mut shape: Vec<usize> = (0..out.shape().len())
        .filter(|&d| !dims.contains(&(d as i64)))
        .map(|d| out.shape()[d])
        .collect();
    shape.splice(position..position, args.inputs()[2].shape().iter().copied());
    let Some(lead) = shape.len().checked_sub(values.shape().len()) else {
        return Err(TorshError::shape(
            "",
            format!(
                "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {shape:?}",
                values.shape()
            ),
        ));
    };
    let mut dense = vec![0; shape.len()];
    for d in 0..values.shape().len() {
        if values.shape()[d] != 1 {
            dense[lead + d] = values.strides()[d];
        }
    }
    start_from(out, &args.inputs()[0]);
    let job = IndexJob {
        shape: &shape,
        dense: &dense,
        indexed: &a.indexed,
        at: &a.at,
    };
    put_or_add(out, values, &job, &a.index, *accumulate);
    Ok(())
}

fn put_or_add(out: &View<'_>, values: &View<'_>, job: &IndexJob<'_>, index: &Index<'_>, add: bool) {
    if add {
        by_dtype!(out.dtype(), T => {
            // SAFETY: the job was built from these views, and the index was checked.
            unsafe { job.update::<T>(IndexPtr::of(values), IndexPtr::of(out), index, T::add) }
        });
    } else {
        by_size!(out.dtype(), T => {
            // SAFETY: as above.
            unsafe { job.put::<T>(IndexPtr::of(values), IndexPtr::of(out), index) }
        });
    }
}

/// `put`: inputs `self`, `index` (positions in the flattened `self`), `source` (of the index's
/// shape).
pub(crate) fn put(args: &KernelArgs<'_>) -> Result<()> {
    let accumulate = args.attrs::<attrs::Put>()?.accumulate;
    let (out, idx, values) = (&args.outputs()[0], &args.inputs()[1], &args.inputs()[2]);
    no_overlap(out, idx)?;
    no_overlap(out, values)?;
    let index = flat_index(out, idx, Some(out))?;
    start_from(out, &args.inputs()[0]);
    let indexed = vec![0; idx.shape().len()];
    let job = IndexJob {
        shape: idx.shape(),
        dense: values.strides(),
        indexed: &indexed,
        at: &index.strides,
    };
    put_or_add(out, values, &job, &index, accumulate);
    Ok(())
}

/// The gradient of `embedding`: inputs `grad`, `indices`. The output has the weight's shape.
pub(crate) fn embedding_backward(args: &KernelArgs<'_>) -> Result<()> {
    let a = args.attrs::<attrs::EmbeddingBackward>()?;
    let (out, grad, idx) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let (rows, width) = (out.shape()[0], out.shape()[1]);
    let index = Index::new(idx, rows, 0, 1, false, None)?;
    let (n, padding) = (idx.numel(), a.padding_idx);
    // Per position: the row to add to and where the gradient's row starts.
    let mut jobs = ScratchSlice::filled(n, (0usize, 0isize))?;
    let (mut k, last) = (0, grad.strides().len() - 1);
    IndexWalk::new(idx.shape(), [&index.strides, &grad.strides()[..last]]).all(
        |[i, g], n, [is, gs]| {
            for j in 0..n as isize {
                // SAFETY: the walk stays within the index tensor.
                let row = unsafe { index.offset(i + j * is) };
                if padding != Some(row as usize) {
                    jobs[k] = (row as usize, g + j * gs);
                    k += 1;
                }
            }
        },
    );
    let jobs = &jobs[..k];
    let mut counts = ScratchSlice::filled(if a.scale_grad_by_freq { rows } else { 0 }, 0u32)?;
    if !counts.is_empty() {
        for &(row, _) in jobs {
            counts[row] += 1;
        }
    }
    fill(out, Scalar::Int(0));
    let (step, out_step) = (grad.strides()[last], out.strides()[1]);
    by_dtype!(out.dtype(), T => {
        let (to, from) = (IndexPtr::<T>::of(out), IndexPtr::<T>::of(grad));
        // Threads share the width, so that each row adds its gradients in order.
        let grain = (GRAIN / k.max(1)).max(COLUMNS);
        pool::parallel_for(width, grain, &|columns| {
            for &(row, start) in jobs {
                let first = row as isize * out.strides()[0];
                let scale = match counts.get(row) {
                    Some(&c) if c > 1 => Some(T::cast(Scalar::Float(1.0 / c as f64))),
                    _ => None,
                };
                // SAFETY: the row was checked, the columns are below the width; the gradient
                // is another tensor than the output.
                unsafe {
                    let c = columns.start as isize;
                    let to = to.at(first + c * out_step);
                    let from = from.at(start + c * step);
                    if scale.is_none() && step == 1 && out_step == 1 {
                        rows::update_row(to, from, columns.len(), T::add);
                        continue;
                    }
                    for c in 0..columns.len() as isize {
                        let (to, g) = (to.offset(c * out_step), *from.offset(c * step));
                        *to = match scale {
                            None => (*to).add(g),
                            Some(s) => (*to).add_scaled(g, s),
                        };
                    }
                }
            }
        });
    });
    Ok(())
}
