//! Runs a loop over contiguous elements on operands of any layout and dtype.
//!
//! Operands that do not lie as the loop needs them pass through block buffers that stay in the
//! first-level cache: inputs are gathered and converted, outputs converted and scattered.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use smallvec::SmallVec;
use torsh_core::alloc::{self, Block};
use torsh_core::machine::machine;
use torsh_core::{DType, View, pool};

pub(crate) use crate::machine::tuning::blocks::GRAIN;
use crate::machine::tuning::blocks::{BLOCK, BLOCK_BYTES, LONG_RUN, PART, TRANSPOSE, TURNS};
use crate::memory::convert::{convert, round_to_half};
use crate::memory::element::{Packed, by_size};
use crate::memory::strided::{MAX_OPERANDS, StridedLoop};
use crate::memory::transpose;

/// Threads share no cache line: the elements are split in multiples of this.
const UNIT: usize = 64;

/// The most inputs a block loop takes.
pub(crate) const MAX_INPUTS: usize = 4;

/// One operand of a block loop.
#[derive(Clone, Copy)]
pub(crate) struct BlockOperand {
    /// The first element.
    pub ptr: *mut u8,
    /// The dtype in memory.
    pub memory: DType,
    /// The dtype the loop reads or writes.
    pub wanted: DType,
    /// The half type through which values are rounded on the way (the loop works in `float32`).
    pub round: Option<DType>,
}

impl BlockOperand {
    /// A view that the loop reads or writes as `wanted`.
    pub fn new(v: &View<'_>, wanted: DType) -> BlockOperand {
        BlockOperand {
            ptr: v.ptr(),
            memory: v.dtype(),
            wanted,
            round: None,
        }
    }

    fn converts(&self) -> bool {
        self.memory != self.wanted
    }

    /// # Safety
    /// `src` must hold `n` elements of the memory dtype; `dst` has room for `n` wanted ones.
    pub unsafe fn load(&self, src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            convert(self.memory, src, self.wanted, dst, n);
            if let Some(half) = self.round.filter(|&h| h != self.memory) {
                round_to_half(half, dst, n);
            }
        }
    }

    /// # Safety
    /// `src` must hold `n` wanted elements, which may be changed; `dst` has room for `n` elements
    /// of the memory dtype.
    pub unsafe fn store(&self, src: *mut u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(half) = self.round.filter(|&h| h != self.memory) {
                round_to_half(half, src, n);
            }
            convert(self.wanted, src, self.memory, dst, n);
        }
    }
}

/// A loop over `n` adjacent elements: where to write, and what to read.
pub(crate) type BlockFn<'a> = dyn Fn(*mut u8, &[*const u8; MAX_INPUTS], usize) + Sync + 'a;

#[repr(align(64))]
struct BlockBuffer(MaybeUninit<[u8; BLOCK_BYTES]>);

struct Buffers {
    operands: [BlockBuffer; MAX_INPUTS + 1],
    raw: BlockBuffer,
}

impl BlockBuffer {
    fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr() as *mut u8
    }
}

/// Whether calls of `n` elements may go [`backwards`].
pub(crate) fn transposes(n: usize) -> bool {
    TURNS.contains(&n) && machine().alternates_direction
}

/// The same for calls that only read, which also gain where more is read.
pub(crate) fn turns_reading(n: usize) -> bool {
    (TURNS.start..4 * TURNS.end).contains(&n) && machine().alternates_direction
}

/// Whether a call of `n` elements is to begin with the last ones: every other time, if they are more
/// than a core's own caches hold, yet not many times as much. What the call before it went through
/// last, often the operand of this one, is then still there.
pub(crate) fn backwards(n: usize) -> bool {
    transposes(n) && turn()
}

/// Whether the call before began with its first elements.
pub(crate) fn turn() -> bool {
    static BACK: AtomicBool = AtomicBool::new(false);
    // Not one instruction: which way a call goes changes no result.
    let back = BACK.load(Relaxed);
    BACK.store(!back, Relaxed);
    back
}

/// Splits `0..n` over threads in multiples of a cache line's worth of elements; a thread's part may
/// be several, from the last to the first.
pub(crate) fn parallel(n: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    parallel_by(n, GRAIN, f);
}

/// [`parallel`] where so many elements are worth a thread.
pub(crate) fn parallel_by(n: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) {
    if n <= grain {
        return f(0..n);
    }
    let back = backwards(n);
    pool::parallel_for(n.div_ceil(UNIT), grain / UNIT, &|r| {
        let r = r.start * UNIT..(r.end * UNIT).min(n);
        from_the_end(r, if back { PART } else { usize::MAX }, f);
    });
}

/// Calls `f` for the parts of a range, from the last to the first.
pub(crate) fn from_the_end(r: Range<usize>, part: usize, mut f: impl FnMut(Range<usize>)) {
    let mut end = r.end;
    while end > r.start {
        let start = ((end - 1) / part * part).max(r.start);
        f(start..end);
        end = start;
    }
}

/// Calls `f` on blocks that together are all elements of `l`, over threads. The first operand is
/// written, the others are read; `l` has the same operands.
///
/// # Safety
/// Every element that `l` reaches must be valid for its operand, and no thread's output may
/// overlap another's.
pub(crate) unsafe fn run(l: &StridedLoop, operands: &[BlockOperand], f: &BlockFn<'_>) {
    debug_assert!(operands.len() == l.operands() && operands.len() <= MAX_INPUTS + 1);
    if l.numel() >= TRANSPOSE && l.ndim() > 1 {
        // SAFETY: the caller's promise.
        if unsafe { run_transposed(l, operands, f) } {
            return;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { run_direct(l, operands, f) }
}

/// As [`run`], after bringing inputs that are contiguous in another than the inner dimension into
/// the loop's order; `false`, with nothing done, where there is none (or no memory for a copy).
///
/// # Safety
/// As [`run`].
#[inline(never)]
unsafe fn run_transposed(l: &StridedLoop, operands: &[BlockOperand], f: &BlockFn<'_>) -> bool {
    let mut copies: SmallVec<[Block; MAX_INPUTS]> = SmallVec::new();
    let mut moved = l.clone();
    let mut own: SmallVec<[BlockOperand; MAX_INPUTS + 1]> = SmallVec::from_slice(operands);
    for (k, o) in own.iter_mut().enumerate().skip(1) {
        let size = o.memory.size();
        let ordered = l.linear_with(k, size);
        let Some(plan) = transpose::TransposePlan::new(&ordered, size) else {
            continue;
        };
        let Ok(copy) = alloc::allocate(l.numel() * size) else {
            continue;
        };
        // SAFETY: the copy has room for every element; the caller's promise.
        unsafe { plan.run(&ordered, copy.ptr().as_ptr(), o.ptr, size) };
        o.ptr = copy.ptr().as_ptr();
        moved.make_linear(k, size);
        copies.push(copy);
    }
    if copies.is_empty() {
        return false;
    }
    moved.coalesce();
    // SAFETY: the caller's promise; the copies live until the end.
    unsafe { run_direct(&moved, &own, f) };
    true
}

/// The least number of elements of a loop worth a thread, whose operands have elements of these sizes:
/// those that lie apart take four times as long, and more.
pub(crate) fn grain(l: &StridedLoop, sizes: &[usize]) -> usize {
    let adjacent = |(k, &size): (usize, &usize)| l.stride(0, k) == size as isize;
    match sizes
        .iter()
        .enumerate()
        .all(|o| adjacent(o) || l.is_constant(o.0))
    {
        true => GRAIN,
        false => GRAIN / 4,
    }
}

unsafe fn run_direct(l: &StridedLoop, operands: &[BlockOperand], f: &BlockFn<'_>) {
    let shared = SharedBlocks(operands);
    let sizes: SmallVec<[usize; MAX_INPUTS + 1]> =
        operands.iter().map(|o| o.memory.size()).collect();
    parallel_by(l.numel(), grain(l, &sizes), &|range| {
        // SAFETY: the caller's promise; the ranges are disjoint.
        unsafe { walk(l, shared.get(), range, f) }
    });
}

/// Operands on their way to other threads.
struct SharedBlocks<'a>(&'a [BlockOperand]);
// SAFETY: the pointers are used for disjoint elements by each thread (`run`'s promise).
unsafe impl Sync for SharedBlocks<'_> {}
impl<'a> SharedBlocks<'a> {
    fn get(&self) -> &'a [BlockOperand] {
        self.0
    }
}

/// How an operand gets into or out of the loop.
#[derive(Clone, Copy, PartialEq)]
enum Path {
    /// In the loop's order without gaps.
    Linear,
    /// One element, already spread over the buffer.
    Constant,
    /// The elements of a run, again for every run: already in the buffer, so often that a block can
    /// start at each of them.
    Repeated,
    /// Anything else.
    Strided,
}

unsafe fn walk(l: &StridedLoop, operands: &[BlockOperand], range: Range<usize>, f: &BlockFn<'_>) {
    let mut buffers = MaybeUninit::<Buffers>::uninit();
    // SAFETY: every field is MaybeUninit itself.
    let buffers = unsafe { buffers.assume_init_mut() };
    let widest = operands
        .iter()
        .map(|o| o.memory.size().max(o.wanted.size()))
        .max()
        .unwrap_or(1);
    let mut block = (BLOCK_BYTES / widest).min(BLOCK);
    let mut path = [Path::Strided; MAX_INPUTS + 1];
    let (inner, most) = (l.inner(), BLOCK_BYTES / widest / 2);
    let again = l.ndim() > 1 && inner <= most && range.len() >= 4 * inner;
    let repeats = |k: usize| {
        again
            && l.stride(0, k) == operands[k].memory.size() as isize
            && (1..l.ndim()).all(|d| l.stride(d, k) == 0)
    };
    // How many elements there are of repeated runs: whole runs of whole vectors, of which a block takes
    // all; else a run more than a block has, which starts anywhere in one.
    let mut room = usize::MAX;
    if (1..operands.len()).any(repeats) {
        let all = BLOCK_BYTES / widest;
        if inner.is_multiple_of(UNIT) {
            block = all / inner * inner;
            room = block;
        } else {
            block = block.min(all - inner) / UNIT * UNIT;
            room = block + inner;
        }
    }
    for (k, o) in operands.iter().enumerate() {
        if k > 0 && l.is_constant(k) {
            let n = block.min(range.len());
            // SAFETY: the operand has an element, as the range is not empty.
            unsafe {
                gather(o.memory.size(), o.ptr, 0, buffers.raw.ptr(), n.min(1));
                let one = buffers.raw.ptr();
                let all = buffers.operands[k].ptr();
                o.load(one, all, n.min(1));
                gather(o.wanted.size(), all, 0, all, n);
            }
            path[k] = Path::Constant;
        } else if l.is_linear(k, o.memory.size()) {
            path[k] = Path::Linear;
        } else if k > 0 && repeats(k) {
            let (size, all) = (o.wanted.size(), buffers.operands[k].ptr());
            // SAFETY: the operand has a run of elements, which fit the raw buffer as well as this one,
            // and this one as many as there is room for.
            unsafe {
                let run = adjacent_input(o, o.ptr, all, inner);
                std::ptr::copy(run, all, inner * size);
                let mut there = inner;
                while there < room {
                    let more = there.min(room - there);
                    std::ptr::copy_nonoverlapping(all, all.add(there * size), more * size);
                    there += more;
                }
            }
            path[k] = Path::Repeated;
        }
    }
    let path = &path[..operands.len()];
    let mut base = [std::ptr::null_mut(); MAX_OPERANDS];
    for (b, o) in base.iter_mut().zip(operands) {
        *b = o.ptr;
    }
    let base = &base[..operands.len()];
    // Runs are not taken one by one where what would keep them apart is in a buffer.
    let together = path.contains(&Path::Repeated) && !path.contains(&Path::Strided);
    let long = (inner >= LONG_RUN && !together) || inner == l.numel();
    let adjacent = |(k, o): (usize, &BlockOperand)| l.stride(0, k) == o.memory.size() as isize;
    if long
        && !operands.iter().any(BlockOperand::converts)
        && operands.iter().enumerate().all(adjacent)
    {
        // Runs that the loop takes as they lie.
        l.for_each_run(range, base, |ptrs, n, steps| {
            let mut ins = [std::ptr::null(); MAX_INPUTS];
            for k in 1..operands.len() {
                ins[k - 1] = ptrs[k].cast_const();
            }
            let mut out = ptrs[0];
            let mut left = n;
            while left > block {
                f(out, &ins, block);
                left -= block;
                out = out.wrapping_offset(steps[0] * block as isize);
                for k in 1..operands.len() {
                    ins[k - 1] = ins[k - 1].wrapping_offset(steps[k] * block as isize);
                }
            }
            f(out, &ins, left);
        });
        return;
    }
    if long {
        l.for_each_run(range, base, |ptrs, n, steps| {
            let mut at = 0;
            while at < n {
                let m = (n - at).min(block);
                let place = |k: usize| {
                    (
                        ptrs[k].wrapping_offset(steps[k].wrapping_mul(at as isize)),
                        steps[k],
                    )
                };
                // SAFETY: the run is within the operands; buffers hold a block.
                unsafe {
                    let mut ins = [std::ptr::null(); MAX_INPUTS];
                    for k in 1..operands.len() {
                        let o = &operands[k];
                        let (ptr, step) = place(k);
                        let buffer = buffers.operands[k].ptr();
                        ins[k - 1] = if path[k] == Path::Constant {
                            buffer
                        } else if step == o.memory.size() as isize {
                            adjacent_input(o, ptr, buffer, m)
                        } else {
                            let to = if o.converts() {
                                buffers.raw.ptr()
                            } else {
                                buffer
                            };
                            gather(o.memory.size(), ptr, step, to, m);
                            if o.converts() {
                                o.load(to, buffer, m);
                            }
                            buffer
                        };
                    }
                    let o = &operands[0];
                    let (ptr, step) = place(0);
                    let adjacent = step == o.memory.size() as isize || m == 1;
                    if adjacent && !o.converts() {
                        f(ptr, &ins, m);
                    } else {
                        let result = buffers.operands[0].ptr();
                        f(result, &ins, m);
                        if adjacent {
                            o.store(result, ptr, m);
                        } else {
                            let from = stored(o, result, buffers.raw.ptr(), m);
                            scatter(o.memory.size(), from, ptr, step, m);
                        }
                    }
                }
                at += m;
            }
        });
        return;
    }
    // Where a block starts in its run, without a division for each.
    let (mut first, turn) = (range.start % inner.max(1), block % inner.max(1));
    let mut at = range.start;
    while at < range.end {
        let m = (range.end - at).min(block).min(room - first);
        // SAFETY: the elements are within the operands; buffers hold a block.
        unsafe {
            let mut ins = [std::ptr::null(); MAX_INPUTS];
            for k in 1..operands.len() {
                let o = &operands[k];
                let size = o.memory.size();
                let buffer = buffers.operands[k].ptr();
                ins[k - 1] = match path[k] {
                    Path::Constant => buffer,
                    Path::Repeated => buffer.add(first * o.wanted.size()),
                    Path::Linear => adjacent_input(o, o.ptr.wrapping_add(at * size), buffer, m),
                    Path::Strided => {
                        let to = if o.converts() {
                            buffers.raw.ptr()
                        } else {
                            buffer
                        };
                        let mut done = 0;
                        l.for_each_run(at..at + m, base, |ptrs, n, steps| {
                            gather(size, ptrs[k], steps[k], to.add(done * size), n);
                            done += n;
                        });
                        if o.converts() {
                            o.load(to, buffer, m);
                        }
                        buffer
                    }
                };
            }
            let o = &operands[0];
            let size = o.memory.size();
            let linear = path[0] == Path::Linear;
            let ptr = o.ptr.wrapping_add(at * size);
            if linear && !o.converts() {
                f(ptr, &ins, m);
            } else {
                let result = buffers.operands[0].ptr();
                f(result, &ins, m);
                if linear {
                    o.store(result, ptr, m);
                } else {
                    let from = stored(o, result, buffers.raw.ptr(), m);
                    let mut done = 0;
                    l.for_each_run(at..at + m, base, |ptrs, n, steps| {
                        scatter(size, from.add(done * size), ptrs[0], steps[0], n);
                        done += n;
                    });
                }
            }
        }
        at += m;
        first += if m == block { turn } else { m % inner };
        if first >= inner {
            first -= inner;
        }
    }
}

/// Adjacent elements of an input as the loop wants them.
///
/// # Safety
/// As [`BlockOperand::load`].
unsafe fn adjacent_input(o: &BlockOperand, ptr: *const u8, buffer: *mut u8, n: usize) -> *const u8 {
    if !o.converts() {
        return ptr;
    }
    // SAFETY: the caller's promise.
    unsafe { o.load(ptr, buffer, n) };
    buffer
}

/// The results in the memory dtype, in `raw` where that is another one.
///
/// # Safety
/// As [`BlockOperand::store`].
unsafe fn stored(o: &BlockOperand, result: *mut u8, raw: *mut u8, n: usize) -> *const u8 {
    if !o.converts() {
        return result;
    }
    // SAFETY: the caller's promise.
    unsafe { o.store(result, raw, n) };
    raw
}

/// Copies `n` elements of `size` bytes, `step` bytes apart, to adjacent ones. With a step of 0
/// `dst` may be `src`.
///
/// # Safety
/// Every element must be readable, and `dst` writable for `n` elements.
pub(crate) unsafe fn gather(size: usize, src: *const u8, step: isize, dst: *mut u8, n: usize) {
    #[inline(always)]
    unsafe fn all<T: Copy>(src: *const u8, step: isize, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let first = *(src as *const Packed<T>);
            let dst = std::slice::from_raw_parts_mut(dst as *mut Packed<T>, n);
            if step == 0 {
                dst.fill(first);
            } else {
                let mut at = src;
                for d in dst {
                    *d = *(at as *const Packed<T>);
                    at = at.wrapping_offset(step);
                }
            }
        }
    }
    if n == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if step == size as isize {
            std::ptr::copy_nonoverlapping(src, dst, n * size);
        } else {
            by_size!(size, all(src, step, dst, n));
        }
    }
}

/// Copies `n` adjacent elements of `size` bytes to places `step` bytes apart.
///
/// # Safety
/// As [`gather`], the other way round.
pub(crate) unsafe fn scatter(size: usize, src: *const u8, dst: *mut u8, step: isize, n: usize) {
    #[inline(always)]
    unsafe fn all<T: Copy>(src: *const u8, dst: *mut u8, step: isize, n: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut at = dst;
            for s in std::slice::from_raw_parts(src as *const Packed<T>, n) {
                *(at as *mut Packed<T>) = *s;
                at = at.wrapping_offset(step);
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        if step == size as isize {
            std::ptr::copy_nonoverlapping(src, dst, n * size);
        } else {
            by_size!(size, all(src, dst, step, n));
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;

    /// Forward and backward, each element belongs to one part.
    #[torsh_macros::unit_test]
    fn parts_are_all_elements_either_way() {
        let lengths = [
            GRAIN,
            3 * PART + 5,
            TURNS.start,
            TURNS.start + 3 * PART + 77,
        ];
        for n in lengths {
            for round in 0..3 {
                let counts: Vec<_> = (0..n).map(|_| AtomicBool::new(false)).collect();
                let take = |range: Range<usize>| {
                    assert!(range.start.is_multiple_of(UNIT));
                    for i in range {
                        assert!(!counts[i].swap(true, Relaxed));
                    }
                };
                match round {
                    // Whatever the processor.
                    2 => from_the_end(0..n, PART, take),
                    _ => parallel(n, &take),
                }
                assert!(counts.iter().all(|c| c.load(Relaxed)));
            }
        }
    }

    /// The first view becomes the sum of the others, in float32.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn add([out, x, y]: &[View<'_>; 3]) {
        let l = StridedLoop::of_views(out.shape(), &[out, x, y]);
        let operands = [out, x, y].map(|v| BlockOperand::new(v, DType::F32));
        // SAFETY: the caller's promise.
        unsafe {
            run(&l, &operands, &|to, ins, n| {
                let (x, y) = (ins[0].cast::<f32>(), ins[1].cast::<f32>());
                for i in 0..n {
                    *to.cast::<f32>().add(i) = *x.add(i) + *y.add(i);
                }
            });
        }
    }

    /// `out[r][c] = a[c] + b[r][c]` over rows with gaps between them.
    #[torsh_macros::unit_test]
    fn long_rows_are_taken_as_they_lie() {
        for (rows, columns) in [(1, 200), (7, 128), (5, 3001), (40, 1024)] {
            let (long, longer) = (columns + 3, columns + 10);
            let a: Vec<f32> = (0..columns).map(|i| i as f32).collect();
            let b: Vec<f32> = (0..rows * longer).map(|i| 0.5 * i as f32).collect();
            let mut out = vec![-1.0f32; rows * long];
            let shape = [rows, columns];
            // SAFETY: the buffers of the test outlive the call.
            let view = |ptr: *const f32, strides| unsafe {
                View::new(ptr.cast_mut().cast(), DType::F32, &shape, strides)
            };
            let [to, from] = [[long as isize, 1], [longer as isize, 1]];
            let views = [
                view(out.as_mut_ptr(), &to),
                view(a.as_ptr(), &[0, 1]),
                view(b.as_ptr(), &from),
            ];
            // SAFETY: the views are valid for their layouts, and the output is a tensor of its own.
            unsafe { add(&views) };
            for (i, &got) in out.iter().enumerate() {
                let (r, c) = (i / long, i % long);
                let want = if c < columns {
                    a[c] + b[r * longer + c]
                } else {
                    -1.0
                };
                assert_eq!(got, want, "{rows} x {columns}: {r} {c}");
            }
        }
    }

    /// `out[r][c] = a[c] + b[r][c]`, where `a` is read once for all rows, as it is and from a half type.
    #[torsh_macros::unit_test]
    fn rows_that_come_again_are_added_to_each_row() {
        for columns in [
            2usize, 3, 31, 64, 127, 129, 192, 320, 500, 704, 1000, 1023, 1024, 1025, 1500,
        ] {
            let rows = 40 + 100_000 / columns;
            let a: Vec<f32> = (0..columns).map(|i| (i % 512) as f32).collect();
            let half: Vec<half::f16> = a.iter().map(|&v| half::f16::from_f32(v)).collect();
            let b: Vec<f32> = (0..rows * columns).map(|i| 0.5 * i as f32).collect();
            let shape = [rows, columns];
            let along = [columns as isize, 1];
            for dtype in [DType::F32, DType::F16] {
                let mut out = vec![-1.0f32; rows * columns];
                // SAFETY: the buffers of the test outlive the call.
                let view = |ptr: *const u8, dtype, strides| unsafe {
                    View::new(ptr.cast_mut(), dtype, &shape, strides)
                };
                let from = match dtype {
                    DType::F32 => a.as_ptr().cast::<u8>(),
                    _ => half.as_ptr().cast(),
                };
                let views = [
                    view(out.as_mut_ptr().cast_const().cast(), DType::F32, &along),
                    view(from, dtype, &[0, 1]),
                    view(b.as_ptr().cast(), DType::F32, &along),
                ];
                // SAFETY: the views are valid for their layouts, and the output is a tensor of its own.
                unsafe { add(&views) };
                for (i, &got) in out.iter().enumerate() {
                    let want = a[i % columns] + b[i];
                    assert_eq!(got, want, "{dtype:?} {rows} x {columns}: {i}");
                }
            }
        }
    }
}
