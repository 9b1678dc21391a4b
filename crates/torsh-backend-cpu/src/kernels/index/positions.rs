//! Index tensors: checked once, then read as element offsets.

use std::borrow::Cow;

use torsh_core::{DType, Result, TorshError, View};

use super::walk::{IndexPtr, IndexWalk};
use super::{GRAIN, ScratchSlice};
use crate::multiversion;

/// An index tensor whose values were checked.
pub(crate) struct Index<'a> {
    ptr: IndexPtr<i64>,
    /// The strides in the index tensor's own dimensions.
    pub(crate) strides: Cow<'a, [isize]>,
    /// What a negative value counts from.
    wrap: i64,
    /// Elements from one value to the next on the indexed side.
    step: isize,
    _own: Option<ScratchSlice<i64>>,
}

/// The part of an [`Index`] that inner loops read, small enough to stay in registers.
#[derive(Clone, Copy)]
pub(crate) struct Offsets {
    ptr: IndexPtr<i64>,
    wrap: i64,
    step: isize,
}

impl Offsets {
    /// As [`Index::offset`].
    ///
    /// # Safety
    /// As [`Index::offset`].
    #[inline(always)]
    pub(crate) unsafe fn offset(self, i: isize) -> isize {
        // SAFETY: the caller's promise.
        let v = unsafe { *self.ptr.at(i) };
        // Without wrapping, `wrap` is 0 and negative values were refused.
        let v = v.wrapping_add(self.wrap & (v >> 63)) as isize;
        v.wrapping_mul(self.step)
    }

    /// The values themselves, where they are the offsets.
    pub(crate) fn plain(self) -> Option<IndexPtr<i64>> {
        (self.wrap == 0 && self.step == 1).then_some(self.ptr)
    }

    /// The same with another step.
    pub(crate) fn with_step(self, step: isize) -> Offsets {
        Offsets { step, ..self }
    }

    /// Whether the `n` values from `i` on are positions in a dimension of this size.
    ///
    /// # Safety
    /// They must be elements of the index tensor.
    #[inline(always)]
    pub(crate) unsafe fn within(self, i: isize, step: isize, n: usize, size: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { !outside(self.ptr.at(i), step, n, -self.wrap, size as i64) }
    }
}

/// Whether one of `n` values is not in `low..high`.
///
/// # Safety
/// The values must be valid.
unsafe fn outside(p: *const i64, step: isize, n: usize, low: i64, high: i64) -> bool {
    // A place in the range is below its length, counted from its start.
    let length = high.wrapping_sub(low) as u64;
    // SAFETY: the caller's promise.
    unsafe {
        if step == 1 {
            outside_run(p, n, low, length)
        } else {
            let far = |v: i64| v.wrapping_sub(low) as u64 >= length;
            (0..n as isize).fold(false, |bad, j| bad | far(*p.offset(j * step)))
        }
    }
}

multiversion! {
    /// [`outside`] of neighbours; the range as its start and length.
    ///
    /// # Safety
    /// As there.
    unsafe fn outside_run<A>(p: *const i64, n: usize, low: i64, length: u64) -> bool {
        let mut bad = false;
        for j in 0..n {
            // SAFETY: the caller's promise.
            bad |= unsafe { *p.add(j) }.wrapping_sub(low) as u64 >= length;
        }
        bad
    }
}

impl<'a> Index<'a> {
    /// Checks that every value of `view` lies in `0..size` (in `-size..size` if `negative`) of the
    /// dimension `dim`, whose stride is `step`. An index whose memory may be that of `written` is
    /// copied, since writing would change values that were checked.
    pub(crate) fn new(
        view: &View<'a>,
        size: usize,
        dim: usize,
        step: isize,
        negative: bool,
        written: Option<&View<'_>>,
    ) -> Result<Index<'a>> {
        let index = Index::unchecked(view, size, step, negative, written)?;
        index.check(view.shape(), size, dim)?;
        Ok(index)
    }

    /// As [`Index::new`] before its values are checked, which must be done before they are used.
    pub(crate) fn unchecked(
        view: &View<'a>,
        size: usize,
        step: isize,
        negative: bool,
        written: Option<&View<'_>>,
    ) -> Result<Index<'a>> {
        let wrap = if negative { size as i64 } else { 0 };
        let own = match view.dtype() {
            DType::I64 if written.is_none_or(|w| !memory_meets(view, w)) => None,
            DType::I64 => Some(copied::<i64>(view)?),
            DType::I32 => Some(copied::<i32>(view)?),
            other => {
                return Err(TorshError::dtype(
                    "",
                    format!("Expected dtype int32/int64 for index, got {other}"),
                ));
            }
        };
        let (ptr, strides) = match &own {
            Some(values) => (IndexPtr::new(values.ptr()), contiguous(view.shape()).into()),
            None => (IndexPtr::of(view), Cow::Borrowed(view.strides())),
        };
        Ok(Index {
            ptr,
            strides,
            wrap,
            step,
            _own: own,
        })
    }

    /// Several checked index tensors of one shape become one, contiguous, whose values are the
    /// sums of their offsets.
    pub(crate) fn combine(shape: &[usize], parts: &[Index<'a>]) -> Result<Index<'a>> {
        let numel = shape.iter().product();
        let mut sums = ScratchSlice::filled(numel, 0i64)?;
        for part in parts {
            let mut at = 0;
            IndexWalk::new(shape, [&part.strides]).all(|[i], n, [step]| {
                for j in 0..n as isize {
                    // SAFETY: the walk stays within the index tensor.
                    sums[at] += unsafe { part.offset(i + j * step) } as i64;
                    at += 1;
                }
            });
        }
        Ok(Index {
            ptr: IndexPtr::new(sums.ptr()),
            strides: contiguous(shape).into(),
            wrap: 0,
            step: 1,
            _own: Some(sums),
        })
    }

    /// Offsets computed elsewhere, one per element of a contiguous index of this shape.
    pub(crate) fn from_offsets(shape: &[usize], offsets: ScratchSlice<i64>) -> Index<'a> {
        Index {
            ptr: IndexPtr::new(offsets.ptr()),
            strides: contiguous(shape).into(),
            wrap: 0,
            step: 1,
            _own: Some(offsets),
        }
    }

    /// The same index into a tensor with another stride in the indexed dimension.
    pub(crate) fn with_step(&self, step: isize) -> Index<'_> {
        let strides = Cow::Borrowed(&*self.strides);
        Index {
            ptr: self.ptr,
            strides,
            wrap: self.wrap,
            step,
            _own: None,
        }
    }

    /// The offset on the indexed side that the index element at `i` stands for.
    ///
    /// # Safety
    /// `i` must be an element of the index tensor.
    #[inline(always)]
    pub(crate) unsafe fn offset(&self, i: isize) -> isize {
        // SAFETY: the caller's promise.
        unsafe { self.offsets().offset(i) }
    }

    /// What inner loops read offsets with.
    #[inline(always)]
    pub(crate) fn offsets(&self) -> Offsets {
        Offsets {
            ptr: self.ptr,
            wrap: self.wrap,
            step: self.step,
        }
    }

    /// Refuses values outside of a dimension.
    pub(crate) fn check(&self, shape: &[usize], size: usize, dim: usize) -> Result<()> {
        let (low, high) = (-self.wrap, size as i64);
        // Broadcast dimensions repeat the same values.
        let once: Vec<usize> = shape
            .iter()
            .zip(self.strides.iter())
            .map(|(&n, &s)| if s == 0 { n.min(1) } else { n })
            .collect();
        let bad = std::sync::atomic::AtomicBool::new(false);
        let walk = IndexWalk::new(&once, [&self.strides]);
        walk.par(GRAIN, |[i], n, [step]| {
            // SAFETY: the walk stays within the index tensor.
            if unsafe { outside(self.ptr.at(i), step, n, low, high) } {
                bad.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        if !bad.into_inner() {
            return Ok(());
        }
        let mut first = None;
        walk.all(|[i], n, [step]| {
            for j in 0..n as isize {
                // SAFETY: the walk stays within the index tensor.
                let v = unsafe { *self.ptr.at(i + j * step) };
                if first.is_none() && (v < low || v >= high) {
                    first = Some(v);
                }
            }
        });
        Err(out_of_bounds(first.unwrap_or(high), dim, size))
    }
}

/// PyTorch's text for an index value outside of its dimension.
#[cold]
pub(crate) fn out_of_bounds(value: i64, dim: usize, size: usize) -> TorshError {
    TorshError::index(
        "",
        format!("index {value} is out of bounds for dimension {dim} with size {size}"),
    )
}

/// The values of an index tensor in row-major order.
fn copied<T: Copy + Into<i64>>(view: &View<'_>) -> Result<ScratchSlice<i64>> {
    let mut out = ScratchSlice::filled(view.numel(), 0i64)?;
    let p = IndexPtr::<T>::of(view);
    let mut at = 0;
    IndexWalk::new(view.shape(), [view.strides()]).all(|[i], n, [step]| {
        for j in 0..n as isize {
            // SAFETY: the walk stays within the view.
            out[at] = unsafe { *p.at(i + j * step) }.into();
            at += 1;
        }
    });
    Ok(out)
}

/// Row-major strides.
pub(crate) fn contiguous(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1isize; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d].max(1) as isize;
    }
    strides
}

/// The bytes a view can reach, as addresses.
fn extent(v: &View<'_>) -> Option<(usize, usize)> {
    if !v.is_present() || v.shape().contains(&0) {
        return None;
    }
    let (mut low, mut high) = (0isize, 0isize);
    for (&n, &s) in v.shape().iter().zip(v.strides()) {
        let span = (n as isize - 1) * s;
        if span < 0 { low += span } else { high += span }
    }
    let size = v.dtype().size() as isize;
    let p = v.ptr() as isize;
    Some(((p + low * size) as usize, (p + (high + 1) * size) as usize))
}

/// Whether the memory ranges of two views meet (their elements need not).
pub(crate) fn memory_meets(a: &View<'_>, b: &View<'_>) -> bool {
    match (extent(a), extent(b)) {
        (Some((a0, a1)), Some((b0, b1))) => a0 < b1 && b0 < a1,
        _ => false,
    }
}

/// Refuses an operand that shares elements with what is written, as PyTorch does.
pub(crate) fn no_overlap(out: &View<'_>, other: &View<'_>) -> Result<()> {
    let dense = |v: &View<'_>| torsh_core::shape::is_dense(v.shape(), v.strides());
    if memory_meets(out, other) && dense(out) && dense(other) {
        return Err(TorshError::invalid(
            "",
            "unsupported operation: some elements of the input tensor and the written-to tensor \
             refer to a single memory location",
        )
        .with_hint("copy the operand before the operation"));
    }
    Ok(())
}
