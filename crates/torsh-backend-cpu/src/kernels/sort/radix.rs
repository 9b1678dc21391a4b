//! Sorting one line: keys of 32 bits with their positions, by counting.
//!
//! Keys that differ in more bits are sorted by the highest 32 of these, then runs of equal ones by
//! comparison. Results do not depend on the number of threads: a pass keeps the order of equal
//! digits, whoever moves them.

use torsh_core::{Result, pool};

use super::SortLine;
use super::choose::{SortAlgorithm, SortProblem};
use super::keys::Ordered;
use crate::kernels::index::{IndexPtr, ScratchSlice};
use crate::machine::choice::pick;
use crate::machine::tuning::radix::GRAIN;

/// Which bits of the keys differ: a field of at most 32 bits.
#[derive(Clone, Copy)]
struct Field {
    low: u32,
    bits: u32,
    /// What all keys have in common above and below the field, if that is all there is.
    rest: Option<u64>,
}

impl Field {
    fn new(differing: u64, some_key: u64) -> Field {
        let high = 64 - differing.leading_zeros();
        let exact = differing.trailing_zeros().min(high);
        let low = exact.max(high.saturating_sub(32));
        let bits = high - low;
        let mask = (1u64 << bits) - 1;
        let rest = (low == exact).then_some(some_key & !(mask << low));
        Field { low, bits, rest }
    }

    /// The field of a key above a position.
    #[inline(always)]
    fn pack(self, key: u64, at: usize) -> u64 {
        (key >> self.low) << 32 | at as u64
    }
}

/// Room for a line of `n` elements, used by [`sort`].
pub(super) fn room(n: usize) -> usize {
    2 * n
}

/// Sorts a line; `scratch` has [`room`].
///
/// # Safety
/// The line must be valid, its outputs be other memory than its input, and `scratch` hold as many
/// elements.
pub(super) unsafe fn sort<T: Ordered>(line: &SortLine<T>, scratch: IndexPtr<u64>) -> Result<()> {
    if line.n == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise; there is an element.
    let first = unsafe { line.key(0) };
    let problem = SortProblem {
        n: line.n,
        bits: T::BITS,
    };
    let algorithm = pick::<SortAlgorithm>(&problem, 1);
    let by_comparison = algorithm == SortAlgorithm::Comparison;
    let field = if by_comparison && T::BITS <= 32 {
        Field::new(u64::MAX >> (64 - T::BITS), first)
    } else {
        // SAFETY: the caller's promise.
        Field::new(unsafe { differing(line, first) }, first)
    };
    if by_comparison {
        // SAFETY: the scratch memory holds as many elements as the line.
        let items = unsafe {
            for i in 0..line.n {
                *scratch.at(i as isize) = field.pack(line.key(i), i);
            }
            std::slice::from_raw_parts_mut(scratch.at(0), line.n)
        };
        items.sort_unstable();
        // SAFETY: the line's elements are in the scratch memory, in order.
        unsafe { finish(line, field, scratch) };
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { by_counting(line, field, scratch, algorithm) }
}

/// The bits in which some key differs from `first`.
unsafe fn differing<T: Ordered>(line: &SortLine<T>, first: u64) -> u64 {
    let all = std::sync::atomic::AtomicU64::new(0);
    pool::parallel_for(line.n, GRAIN, &|range| {
        let mut bits = 0;
        for i in range {
            // SAFETY: the range is within the line.
            bits |= unsafe { line.key(i) } ^ first;
        }
        all.fetch_or(bits, std::sync::atomic::Ordering::Relaxed);
    });
    all.into_inner()
}

unsafe fn by_counting<T: Ordered>(
    line: &SortLine<T>,
    field: Field,
    scratch: IndexPtr<u64>,
    algorithm: SortAlgorithm,
) -> Result<()> {
    let n = line.n;
    let digit = match algorithm {
        SortAlgorithm::Radix11 => 11,
        _ => 8,
    };
    let passes = field.bits.div_ceil(digit).max(1);
    let width = field.bits.div_ceil(passes);
    let parts = pool::chunk_count(n, GRAIN);
    let counts = ScratchSlice::filled(parts << width, 0u32)?;
    // SAFETY: the line is valid; both halves of the scratch hold `n` pairs.
    unsafe {
        let (mut from, mut to) = (scratch, IndexPtr::new(scratch.at(n as isize)));
        let pass = |p: u32| RadixPass {
            n,
            parts,
            // The field lies above the position.
            shift: 32 + p * width,
            mask: (1 << width) - 1,
            counts: IndexPtr::new(counts.ptr()),
        };
        let line = *line;
        let input = move |i: usize| field.pack(line.key(i), i);
        let place = move |slot: usize, item: u64| write(&line, field, slot, item);
        let exact = field.rest.is_some();
        if passes == 1 && exact {
            pass(0).run(input, place);
            return Ok(());
        }
        let b = to;
        pass(0).run(input, move |slot, item| *b.at(slot as isize) = item);
        (from, to) = (to, from);
        for p in 1..passes {
            let (a, b) = (from, to);
            let read = move |i: usize| *a.at(i as isize);
            if p + 1 == passes && exact {
                pass(p).run(read, place);
                return Ok(());
            }
            pass(p).run(read, move |slot, item| *b.at(slot as isize) = item);
            (from, to) = (to, from);
        }
        finish(&line, field, from);
    }
    Ok(())
}

/// One stable pass over a digit.
struct RadixPass {
    n: usize,
    parts: usize,
    shift: u32,
    mask: u64,
    counts: IndexPtr<u32>,
}

impl RadixPass {
    /// Moves the items that `get` gives in order to where `put` puts them.
    ///
    /// # Safety
    /// Both must be good for positions below `n`, the counts for `parts` tables.
    #[inline(always)]
    unsafe fn run(
        &self,
        get: impl Fn(usize) -> u64 + Copy + Sync,
        put: impl Fn(usize, u64) + Copy + Sync,
    ) {
        let &RadixPass {
            n,
            parts,
            shift,
            mask,
            counts,
        } = self;
        let digits = mask as usize + 1;
        // SAFETY: every part has its own table; a digit is below the size of a table.
        let table = move |part: usize| unsafe {
            std::slice::from_raw_parts_mut(counts.at((part * digits) as isize), digits)
        };
        pool::parallel_parts(n, parts, &|part, range| {
            let (get, counts) = (get, table(part));
            counts.fill(0);
            for i in range {
                let digit = (get(i) >> shift & mask) as usize;
                // SAFETY: the mask keeps it within the table.
                unsafe {
                    let c = counts.get_unchecked_mut(digit);
                    *c = c.wrapping_add(1);
                }
            }
        });
        let mut total = 0u32;
        for digit in 0..digits {
            for part in 0..parts {
                let c = &mut table(part)[digit];
                (*c, total) = (total, total.wrapping_add(*c));
            }
        }
        pool::parallel_parts(n, parts, &|part, range| {
            // Values of its own: read through references, what the closures hold would be read anew
            // after every write.
            let (get, put, starts) = (get, put, table(part));
            for i in range {
                let item = get(i);
                let digit = (item >> shift & mask) as usize;
                // SAFETY: as above.
                let slot = unsafe {
                    let s = starts.get_unchecked_mut(digit);
                    let slot = *s;
                    *s = slot.wrapping_add(1);
                    slot
                };
                put(slot as usize, item);
            }
        });
    }
}

/// Writes the result of an item whose field is all its key: most often the element can be made of
/// the key, which spares reading it where it is.
#[inline(always)]
unsafe fn write<T: Ordered>(line: &SortLine<T>, field: Field, slot: usize, item: u64) {
    let key = (field.rest.unwrap_or(0) | item >> 32 << field.low) ^ line.invert;
    let at = item as u32;
    // SAFETY: the caller's promise: a position and a slot of the line.
    unsafe {
        let value = T::of_key(key).unwrap_or_else(|| line.element(at));
        line.put(slot, value, at);
    }
}

/// Sorts runs of equal fields where these are not all of the keys, and writes the results.
unsafe fn finish<T: Ordered>(line: &SortLine<T>, field: Field, items: IndexPtr<u64>) {
    let n = line.n;
    // SAFETY: `n` items are there; ranges are disjoint.
    let item = |i: usize| unsafe { *items.at(i as isize) };
    // Fields of up to 32 bits are all of a key.
    if T::BITS <= 32 || field.rest.is_some() {
        pool::parallel_for(n, GRAIN, &|range| {
            for i in range {
                // SAFETY: positions of the line.
                unsafe { write(line, field, i, item(i)) };
            }
        });
        return;
    }
    let parts = pool::chunk_count(n, GRAIN);
    let mut ends: smallvec::SmallVec<[usize; 9]> = (0..=parts).map(|p| p * n / parts).collect();
    for end in &mut ends[1..parts] {
        while *end < n && item(*end - 1) >> 32 == item(*end) >> 32 {
            *end += 1;
        }
    }
    pool::parallel_for(parts, 1, &|range| {
        for part in range {
            // One part may end within another's run, which then begins later.
            let (start, end) = (ends[part], ends[part + 1].max(ends[part]));
            // SAFETY: items of this part alone.
            let items =
                unsafe { std::slice::from_raw_parts_mut(items.at(start as isize), end - start) };
            // SAFETY: positions of the line.
            let key = |item: u64| unsafe { line.key(item as u32 as usize) };
            sort_runs(items, &key);
            for (slot, &item) in (start..end).zip(&*items) {
                // SAFETY: as above.
                unsafe { line.put(slot, line.element(item as u32), item as u32) };
            }
        }
    });
}

/// Sorts each run of equal fields by the keys, then by position. Not for each type anew: runs are short.
fn sort_runs(items: &mut [u64], key: &dyn Fn(u64) -> u64) {
    items
        .chunk_by_mut(|a, b| a >> 32 == b >> 32)
        .filter(|run| run.len() > 1)
        .for_each(|run| run.sort_unstable_by_key(|&i| (key(i), i as u32)));
}
