//! A transform along one dimension of a tensor: which lines there are, and how they are read and written.

use std::sync::atomic::{AtomicBool, Ordering};

use num_complex::Complex;
use smallvec::SmallVec;
use torsh_core::{Result, TorshError, pool};

use super::line::Line;
use super::plans::Real;
use crate::machine::tuning::{self, fft::BLOCK, fft::COLUMNS, fft::POINT};
use crate::memory::dense::{Ptr, Scratch};

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
pub(super) struct Source<'a, I> {
    pub(super) ptr: Ptr<I>,
    pub(super) strides: &'a [isize],
}

/// Transforms the lines along dimension `dim` of a row-major result of `shape`.
///
/// # Safety
/// The source has [`Line::taken`] elements along `dim` and those of `shape` along the others, the result
/// has the elements of `shape`, [`Line::given`] of them along `dim`. `I` and `O` are the types of the
/// line's elements. Both may be the same memory with the same layout; else they do not overlap.
pub(super) unsafe fn run<T: Real, I: Copy, O: Copy>(
    line: &Line<T>,
    from: Source<'_, I>,
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
        line,
        from,
        to,
        shape,
        dim,
        inner,
        failed: AtomicBool::new(false),
    };
    let n = line.points();
    let cost = POINT * n.max(2) * (n.max(2).ilog2() as usize + 1);
    // SAFETY: the caller's promise.
    unsafe {
        match inner {
            1 => pool::parallel_for(outer, tuning::grain(cost), &|range| pass.lines(range)),
            _ => {
                let width = pass.width();
                let blocks = inner.div_ceil(width);
                let grain = tuning::grain(cost * width);
                pool::parallel_for(outer * blocks, grain, &|range| pass.blocks(range, width));
            }
        }
    }
    match pass.failed.into_inner() {
        true => Err(TorshError::out_of_memory(torsh_core::Device::Cpu, 0)),
        false => Ok(()),
    }
}

struct Pass<'a, T, I, O> {
    line: &'a Line<T>,
    from: Source<'a, I>,
    to: Ptr<O>,
    shape: &'a [usize],
    dim: usize,
    /// The elements of the dimensions behind `dim`.
    inner: usize,
    /// Whether there was no memory.
    failed: AtomicBool,
}

impl<T: Real, I: Copy, O: Copy> Pass<'_, T, I, O> {
    fn memory(&self, numbers: usize) -> Option<Scratch<Complex<T>>> {
        match Scratch::new(numbers) {
            Ok(scratch) => Some(scratch),
            Err(_) => {
                self.failed.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Lines whose results are adjacent elements.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn lines(&self, range: std::ops::Range<usize>) {
        let l = self.line;
        let (taken, given, room) = (l.taken(), l.given(), l.room());
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
            for at in range {
                let from = self.from.ptr.at(offset(before, outer, at));
                let to = self.to.at((at * given) as isize);
                let same = from.cast::<u8>() == to.cast::<u8>();
                if l.in_place() {
                    let line = std::slice::from_raw_parts_mut(to.cast::<Complex<T>>(), room);
                    if !same && stride == 1 && room == taken {
                        let source = std::slice::from_raw_parts(from.cast::<Complex<T>>(), taken);
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
        self.line.room().next_multiple_of(line) + line
    }

    /// Lines along a dimension that others come behind: blocks of columns are copied to a buffer, where
    /// each is a line, transformed, and copied to the result.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn blocks(&self, range: std::ops::Range<usize>, width: usize) {
        let l = self.line;
        let (taken, given, room, pitch) = (l.taken(), l.given(), l.room(), self.pitch());
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
