//! A transform along one dimension of a tensor: which lines there are, and how they are read and written.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use num_complex::Complex;
use smallvec::SmallVec;
use torsh_core::attrs::FftKind;
use torsh_core::{Result, TorshError, pool};

use super::choose::{LinesAlgorithm, LinesProblem};
use super::lanes::LaneTransform;
use super::line::{LineTransform, Spec};
use super::plans::FftReal;
use super::split::{MOST, SplitTransform};
use crate::machine::choice::pick;
use crate::machine::tuning::{self, fft::BLOCK, fft::COLUMNS, fft::FETCH, fft::POINT};
use crate::memory::dense::{Ptr, Scratch};
use crate::memory::stream::{LINE, prefetch_second};

/// The offset of element `index`, row-major, of some dimensions.
fn offset(shape: &[usize], strides: &[isize], mut index: usize) -> isize {
    let mut at = 0;
    for (&n, &stride) in shape.iter().zip(strides).rev() {
        at += (index % n) as isize * stride;
        index /= n;
    }
    at
}

/// Where a pass reads: elements of `I`, by the strides of the result's dimensions.
pub(super) struct TransformSource<'a, I> {
    pub(super) ptr: Ptr<I>,
    pub(super) strides: &'a [isize],
}

/// Transforms the lines along dimension `dim` of a row-major result of `shape`.
///
/// # Safety
/// The source has [`Spec::taken`] elements along `dim` and those of `shape` along the others, the result
/// has the elements of `shape`, [`Spec::given`] of them along `dim`. `I` and `O` are the types of the
/// line's elements. Both may be the same memory with the same layout; else they do not overlap.
pub(super) unsafe fn run<T: FftReal, I: Copy, O: Copy>(
    spec: &Spec,
    from: TransformSource<'_, I>,
    to: Ptr<O>,
    shape: &[usize],
    dim: usize,
) -> Result<()> {
    let inner: usize = shape[dim + 1..].iter().product();
    let outer: usize = shape[..dim].iter().product();
    if inner * outer == 0 {
        return Ok(());
    }
    let pass = Pass {
        spec,
        from,
        to,
        shape,
        dim,
        inner,
        failed: AtomicBool::new(false),
        of: PhantomData::<T>,
    };
    let problem = LinesProblem {
        points: spec.points(),
        size: size_of::<T>(),
        outer,
        inner,
        adjacent: pass.from.strides[dim] == 1,
        even: spec.kind == FftKind::Complex || spec.halved(),
    };
    let n = spec.n;
    let cost = POINT * n.max(2) * (n.max(2).ilog2() as usize + 1);
    // SAFETY: the caller's promise.
    unsafe {
        match pick::<LinesAlgorithm>(&problem, pool::num_threads()) {
            LinesAlgorithm::Split if let Some(split) = SplitTransform::<T>::new(*spec) => {
                let (before, strides) = (&shape[..dim], &pass.from.strides[..dim]);
                for at in 0..outer {
                    let from = pass.from.ptr.at(offset(before, strides, at));
                    let to = pass.to.at((at * spec.given()) as isize);
                    split.run(Ptr::new(from.cast()), Ptr::new(to.cast()))?;
                }
                return Ok(());
            }
            LinesAlgorithm::Lanes => {
                let lanes = LaneTransform::<T>::new(*spec);
                let groups = Groups::new(outer, inner, lanes.width());
                let grain = tuning::grain(cost * lanes.width());
                pool::parallel_for(groups.count(), grain, &|range| {
                    pass.lanes(&lanes, &groups, range);
                });
            }
            _ => {
                let line = LineTransform::<T>::new(*spec);
                match inner {
                    1 => pool::parallel_for(outer, tuning::grain(cost), &|range| {
                        pass.lines(&line, range);
                    }),
                    _ => {
                        let width = pass.width();
                        let blocks = inner.div_ceil(width);
                        let grain = tuning::grain(cost * width);
                        pool::parallel_for(outer * blocks, grain, &|range| {
                            pass.blocks(&line, range, width);
                        });
                    }
                }
            }
        }
    }
    match pass.failed.into_inner() {
        true => Err(TorshError::out_of_memory(torsh_core::Device::Cpu, 0)),
        false => Ok(()),
    }
}

/// Lines in groups of at most so many, which are side by side where there are enough of those.
struct Groups {
    lines: usize,
    /// The lines that groups divide: those side by side, or all.
    part: usize,
    width: usize,
}

impl Groups {
    fn new(outer: usize, inner: usize, width: usize) -> Groups {
        Groups {
            lines: outer * inner,
            part: if inner < width { outer * inner } else { inner },
            width,
        }
    }
    fn count(&self) -> usize {
        self.lines / self.part * self.part.div_ceil(self.width)
    }
    fn lines(&self, group: usize) -> std::ops::Range<usize> {
        let each = self.part.div_ceil(self.width);
        let (start, end) = (group / each * self.part, (group / each + 1) * self.part);
        let first = start + group % each * self.width;
        first..end.min(first + self.width)
    }
}

struct Pass<'a, T, I, O> {
    spec: &'a Spec,
    from: TransformSource<'a, I>,
    to: Ptr<O>,
    shape: &'a [usize],
    dim: usize,
    /// The elements of the dimensions behind `dim`.
    inner: usize,
    /// Whether there was no memory.
    failed: AtomicBool,
    of: PhantomData<T>,
}

impl<T: FftReal, I: Copy, O: Copy> Pass<'_, T, I, O> {
    fn memory(&self, numbers: usize) -> Option<Scratch<Complex<T>>> {
        match Scratch::new(numbers) {
            Ok(scratch) => Some(scratch),
            Err(_) => {
                self.failed.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Groups of lines in lanes.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn lanes(
        &self,
        lanes: &LaneTransform<T>,
        groups: &Groups,
        range: std::ops::Range<usize>,
    ) {
        let Ok(memory) = Scratch::<T>::new(lanes.memory()) else {
            self.failed.store(true, Ordering::Relaxed);
            return;
        };
        let (d, inner, strides) = (self.dim, self.inner, self.from.strides);
        let (before, behind) = (&self.shape[..d], &self.shape[d + 1..]);
        let given = self.spec.given();
        let source = |line: usize| {
            let at = offset(before, &strides[..d], line / inner);
            let column = offset(behind, &strides[d + 1..], line % inner);
            self.from.ptr.at(at + column).cast_const()
        };
        for group in range.clone() {
            let lines = groups.lines(group);
            let count = lines.len();
            let next = group + 1 < range.end;
            let next = next.then(|| source(groups.lines(group + 1).start));
            let mut from = [std::ptr::null::<I>(); MOST];
            let mut to = [std::ptr::null_mut::<O>(); MOST];
            for (i, line) in lines.enumerate() {
                let (o, j) = (line / inner, line % inner);
                from[i] = match (i > 0 && j > 0, behind) {
                    // The next column.
                    (true, [_]) => from[i - 1].wrapping_offset(strides[d + 1]),
                    _ => source(line),
                };
                to[i] = self.to.at((o * given * inner + j) as isize);
            }
            // SAFETY: as in `lines`.
            unsafe {
                lanes.run(
                    (&from[..count], strides[d]),
                    (&to[..count], inner as isize),
                    memory.ptr(),
                    next,
                );
            }
        }
    }

    /// Lines whose results are adjacent elements.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn lines(&self, l: &LineTransform<T>, range: std::ops::Range<usize>) {
        let s = self.spec;
        let (taken, given, room) = (s.taken(), s.given(), s.room());
        let needed = l.scratch().max(l.scratch_apart());
        let Some(memory) = self.memory(room + needed) else {
            return;
        };
        let stride = self.from.strides[self.dim];
        let (before, outer) = (&self.shape[..self.dim], &self.from.strides[..self.dim]);
        // SAFETY: the memory has both parts, every bit pattern is a number, and the lines are apart from
        // each other; `run` promises the rest.
        unsafe {
            let work = std::slice::from_raw_parts_mut(memory.ptr(), room);
            let scratch = std::slice::from_raw_parts_mut(memory.ptr().add(room), needed);
            for at in range.clone() {
                let from = self.from.ptr.at(offset(before, outer, at));
                let to = self.to.at((at * given) as isize);
                if at + 1 < range.end && stride == 1 {
                    // The library does not read in order, so that the processor does not see what comes next.
                    let next = self.from.ptr.at(offset(before, outer, at + 1));
                    fetch(next, taken);
                    fetch(self.to.at(((at + 1) * given) as isize), given);
                }
                let same = from.cast::<u8>() == to.cast::<u8>();
                if s.in_place() {
                    let line = std::slice::from_raw_parts_mut(to.cast::<Complex<T>>(), room);
                    if !same && stride == 1 {
                        let source = std::slice::from_raw_parts(from.cast(), s.points());
                        if l.run_apart(source, line, scratch) {
                            continue;
                        }
                    }
                    if !same {
                        load(from, stride, taken, line.as_mut_ptr().cast());
                    }
                    l.run(line, scratch);
                } else if l.splits() {
                    let mut source = from.cast_const().cast::<Complex<T>>();
                    if stride != 1 {
                        load(from, stride, taken, work.as_mut_ptr().cast::<I>());
                        source = work.as_ptr();
                    }
                    l.run_to_real(source, to.cast(), scratch);
                } else {
                    load(from, stride, taken, work.as_mut_ptr().cast::<I>());
                    l.run(work, scratch);
                    std::ptr::copy_nonoverlapping(work.as_ptr().cast::<O>(), to, given);
                }
            }
        }
    }

    /// The columns of a block.
    fn width(&self) -> usize {
        let bytes = self.pitch() * size_of::<Complex<T>>();
        // A cache line of each row at least.
        let least = 64 / size_of::<Complex<T>>();
        (BLOCK / bytes).clamp(least, COLUMNS).min(self.inner)
    }

    /// From the start of one column in the buffer to that of the next. A few more than there are, because
    /// columns that a power of two of bytes lies between share their places in the cache.
    fn pitch(&self) -> usize {
        let line = 64 / size_of::<Complex<T>>();
        self.spec.room().next_multiple_of(line) + line
    }

    /// Lines along a dimension that others come behind: blocks of columns are copied to a buffer, where
    /// each is a line, transformed, and copied to the result.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn blocks(&self, l: &LineTransform<T>, range: std::ops::Range<usize>, width: usize) {
        let s = self.spec;
        let (taken, given, room, pitch) = (s.taken(), s.given(), s.room(), self.pitch());
        let Some(memory) = self.memory(pitch * width + l.scratch()) else {
            return;
        };
        // A line begins with real or with complex elements.
        let parts = |size: usize| size_of::<Complex<T>>() / size;
        let blocks = self.inner.div_ceil(width);
        let (d, strides) = (self.dim, self.from.strides);
        let (before, behind) = (&self.shape[..d], &self.shape[d + 1..]);
        // SAFETY: as in `lines`.
        unsafe {
            let buffer = memory.ptr();
            let scratch = std::slice::from_raw_parts_mut(buffer.add(pitch * width), l.scratch());
            for unit in range {
                let (o, first) = (unit / blocks, unit % blocks * width);
                let w = width.min(self.inner - first);
                let from = self.from.ptr.at(offset(before, &strides[..d], o));
                let columns: SmallVec<[isize; COLUMNS]> = (first..first + w)
                    .map(|j| offset(behind, &strides[d + 1..], j))
                    .collect();
                gather(
                    from,
                    strides[d],
                    &columns,
                    taken,
                    buffer.cast::<I>(),
                    pitch * parts(size_of::<I>()),
                );
                for j in 0..w {
                    let line = std::slice::from_raw_parts_mut(buffer.add(j * pitch), room);
                    l.run(line, scratch);
                }
                let to = self.to.at((o * given * self.inner + first) as isize);
                scatter(
                    buffer.cast::<O>(),
                    pitch * parts(size_of::<O>()),
                    w,
                    given,
                    to,
                    self.inner,
                );
            }
        }
    }
}

/// Brings the elements of a line into L2, if its length repays that.
fn fetch<I>(line: *const I, n: usize) {
    let bytes = n * size_of::<I>();
    if FETCH.contains(&bytes) {
        for at in (LINE - 1..bytes).step_by(LINE) {
            prefetch_second(line.cast::<u8>().wrapping_add(at));
        }
    }
}

/// Copies `n` elements to adjacent places.
///
/// # Safety
/// They are there, and the places too.
unsafe fn load<I: Copy>(from: *const I, stride: isize, n: usize, to: *mut I) {
    // SAFETY: the caller's promise.
    unsafe {
        if stride == 1 {
            std::ptr::copy_nonoverlapping(from, to, n);
            return;
        }
        for i in 0..n {
            *to.add(i) = *from.offset(i as isize * stride);
        }
    }
}

/// Copies columns of `n` elements to lines that begin every `pitch` elements.
///
/// # Safety
/// They are there, and the places too.
unsafe fn gather<I: Copy>(
    from: *const I,
    stride: isize,
    columns: &[isize],
    n: usize,
    to: *mut I,
    pitch: usize,
) {
    let adjacent = columns.windows(2).all(|c| c[1] - c[0] == 1);
    // SAFETY: the caller's promise.
    unsafe {
        if stride == 1 && !adjacent {
            for (j, &column) in columns.iter().enumerate() {
                std::ptr::copy_nonoverlapping(from.offset(column), to.add(j * pitch), n);
            }
            return;
        }
        for i in 0..n {
            let row = from.offset(i as isize * stride);
            if adjacent {
                let row = row.offset(columns[0]);
                for j in 0..columns.len() {
                    *to.add(j * pitch + i) = *row.add(j);
                }
            } else {
                for (j, &column) in columns.iter().enumerate() {
                    *to.add(j * pitch + i) = *row.offset(column);
                }
            }
        }
    }
}

/// Copies `n` elements of each of `w` such lines to columns, whose rows begin every `row` elements.
///
/// # Safety
/// They are there, and the places too.
unsafe fn scatter<O: Copy>(
    from: *const O,
    pitch: usize,
    w: usize,
    n: usize,
    to: *mut O,
    row: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..n {
            let to = to.add(i * row);
            for j in 0..w {
                *to.add(j) = *from.add(j * pitch + i);
            }
        }
    }
}
