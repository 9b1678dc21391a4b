//! Reading through index tensors.

use torsh_core::{KernelArgs, Result, TorshError, View, attrs};

use super::engine::IndexJob;
use super::positions::{Index, contiguous};
use super::walk::{IndexPtr, IndexWalk};
use super::{ScratchSlice, by_size};

/// `job` from `src` into `out`.
pub(super) fn run_get(out: &View<'_>, src: &View<'_>, job: &IndexJob<'_>, index: &Index<'_>) {
    by_size!(out.dtype(), T => {
        // SAFETY: the caller built the job from these two views, and checked the index.
        unsafe { job.get::<T>(IndexPtr::of(out), IndexPtr::of(src), index) }
    })
}

/// A tensor's sizes and strides with 0-d seen as one dimension of one element.
pub(super) fn at_least_1d<'a>(v: &View<'a>) -> (&'a [usize], &'a [isize]) {
    if v.shape().is_empty() {
        (&[1], &[1])
    } else {
        (v.shape(), v.strides())
    }
}

/// What `index_select` and its inverses walk: the strides of the indexed side with 0 at `dim`, and
/// those of a 1-d index there.
pub(super) fn along_dim(
    strides: &[isize],
    dim: usize,
    index: &Index<'_>,
) -> (Vec<isize>, Vec<isize>) {
    let mut indexed = strides.to_vec();
    indexed[dim] = 0;
    let mut at = vec![0; strides.len()];
    at[dim] = index.strides.first().copied().unwrap_or(0);
    (indexed, at)
}

/// `index_select`: inputs `self`, `index` (1-d or 0-d). The output has `self`'s shape with the
/// length of the index at `dim`.
pub(crate) fn index_select(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src, idx) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let dim = args.attrs::<attrs::IndexSelect>()?.dim;
    let (sizes, strides) = at_least_1d(src);
    let index = Index::new(idx, sizes[dim], dim, strides[dim], false, None)?;
    let (indexed, at) = along_dim(strides, dim, &index);
    let (shape, dense) = at_least_1d(out);
    run_get(
        out,
        src,
        &IndexJob {
            shape,
            dense,
            indexed: &indexed,
            at: &at,
        },
        &index,
    );
    Ok(())
}

/// `gather`: inputs `self`, `index` (as many dimensions, no larger outside `dim`). The output has
/// the index's shape.
pub(crate) fn gather(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src, idx) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let &attrs::Gather { dim, negative, .. } = args.attrs()?;
    if idx.numel() == 0 {
        return Ok(());
    }
    let (sizes, strides) = at_least_1d(src);
    let index = Index::new(idx, sizes[dim], dim, strides[dim], negative, None)?;
    let (shape, dense) = at_least_1d(out);
    let mut indexed = strides.to_vec();
    indexed[dim] = 0;
    let at = if index.strides.is_empty() {
        &[0][..]
    } else {
        &index.strides
    };
    run_get(
        out,
        src,
        &IndexJob {
            shape,
            dense,
            indexed: &indexed,
            at,
        },
        &index,
    );
    Ok(())
}

/// The strides with which advanced indexing walks: per dimension of the result, that of the
/// indexed tensor (0 where the index is) and that of the index.
pub(super) struct Advanced<'a> {
    pub(super) indexed: Vec<isize>,
    pub(super) at: Vec<isize>,
    pub(super) index: Index<'a>,
}

/// Reads `indices` (all of one shape, one for each dimension in `dims`) into `src`; the result's
/// index dimensions come before its free dimension number `position`.
pub(super) fn advanced<'a>(
    src: &View<'_>,
    indices: &[View<'a>],
    dims: &[i64],
    position: usize,
    written: Option<&View<'_>>,
) -> Result<Advanced<'a>> {
    let Some(first) = indices.first() else {
        return Err(TorshError::invalid(
            "",
            "an index needs at least one index tensor",
        ));
    };
    let mut parts = indices
        .iter()
        .zip(dims)
        .map(|(v, &d)| {
            let d = d as usize;
            Index::new(v, src.shape()[d], d, src.strides()[d], true, written)
        })
        .collect::<Result<Vec<_>>>()?;
    let index = match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            Index::combine(first.shape(), &parts)?
        }
        None => return Err(TorshError::invalid("", "too few indexed dimensions")),
    };
    let free: Vec<isize> = (0..src.shape().len())
        .filter(|&d| !dims.contains(&(d as i64)))
        .map(|d| src.strides()[d])
        .collect();
    let k = first.shape().len();
    let mut indexed = free[..position].to_vec();
    indexed.extend(std::iter::repeat_n(0, k));
    indexed.extend_from_slice(&free[position..]);
    let mut at = vec![0; position];
    at.extend_from_slice(&index.strides);
    at.extend(std::iter::repeat_n(0, free.len() - position));
    Ok(Advanced { indexed, at, index })
}

/// Advanced indexing: inputs `self` and K index tensors broadcast to one shape S, one for each of
/// `dims`. In the output `position` of the other dimensions come before S.
pub(crate) fn index_get(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src) = (&args.outputs()[0], &args.inputs()[0]);
    let a = args.attrs::<attrs::IndexGet>()?;
    // Positions cannot be checked against a dimension that nothing is read from.
    if out.numel() == 0 && src.numel() == 0 && args.inputs()[1].numel() == 0 {
        return Ok(());
    }
    let a = advanced(src, &args.inputs()[1..], &a.dims, a.position, None)?;
    let job = IndexJob {
        shape: out.shape(),
        dense: out.strides(),
        indexed: &a.indexed,
        at: &a.at,
    };
    run_get(out, src, &job, &a.index);
    Ok(())
}

/// The offsets that positions in the flattened `view` stand for.
pub(super) fn flat_index<'a>(
    view: &View<'_>,
    idx: &View<'a>,
    written: Option<&View<'_>>,
) -> Result<Index<'a>> {
    let numel = view.numel();
    if numel == 0 && idx.numel() > 0 {
        return Err(TorshError::index("", "cannot take from an empty tensor"));
    }
    let index = Index::new(idx, numel, 0, 1, true, written).map_err(|e| match e {
        TorshError::Index(i) => TorshError::index(
            "",
            format!(
                "{} (the tensor has {numel} elements)",
                i.message.replace("bounds for dimension 0", "range")
            ),
        ),
        other => other,
    })?;
    if view.is_contiguous() {
        return Ok(index);
    }
    let steps = contiguous(view.shape());
    let mut offsets = ScratchSlice::filled(idx.numel(), 0i64)?;
    let mut k = 0;
    IndexWalk::new(idx.shape(), [&index.strides]).all(|[i], n, [step]| {
        for j in 0..n as isize {
            // SAFETY: the walk stays within the index tensor.
            let mut rest = unsafe { index.offset(i + j * step) };
            for (stride, s) in view.strides().iter().zip(&steps) {
                offsets[k] += (rest / s * stride) as i64;
                rest %= s;
            }
            k += 1;
        }
    });
    Ok(Index::from_offsets(idx.shape(), offsets))
}

/// `take`: inputs `self`, `index` (positions in the flattened `self`, negative from the end). The
/// output has the index's shape.
pub(crate) fn take(args: &KernelArgs<'_>) -> Result<()> {
    let (out, src, idx) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let index = flat_index(src, idx, None)?;
    let indexed = vec![0; out.shape().len()];
    let job = IndexJob {
        shape: out.shape(),
        dense: out.strides(),
        indexed: &indexed,
        at: &index.strides,
    };
    run_get(out, src, &job, &index);
    Ok(())
}

/// `embedding`: inputs `weight` (2-d), `indices` (any shape); the output is the indices' shape
/// followed by the width of the weight.
pub(crate) fn embedding(args: &KernelArgs<'_>) -> Result<()> {
    let (out, weight, idx) = (&args.outputs()[0], &args.inputs()[0], &args.inputs()[1]);
    let index = Index::new(idx, weight.shape()[0], 0, weight.strides()[0], false, None)?;
    let mut indexed = vec![0; idx.shape().len()];
    indexed.push(weight.strides()[1]);
    let mut at = index.strides.to_vec();
    at.push(0);
    let job = IndexJob {
        shape: out.shape(),
        dense: out.strides(),
        indexed: &indexed,
        at: &at,
    };
    run_get(out, weight, &job, &index);
    Ok(())
}
