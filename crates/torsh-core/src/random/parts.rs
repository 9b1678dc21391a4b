//! The division of draws among threads.

use std::ops::Range;

use parking_lot::Mutex;

use super::engine::Mt19937;
use crate::pool;

/// How a fill is cut into parts.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    /// Words that an element takes.
    pub(super) words: usize,
    /// Elements that stay together.
    pub(super) unit: usize,
    /// The time of an element over that of passing over its words.
    pub(super) cost: usize,
}

/// Lets `f` fill `out` from the engine, on several threads where it is worth it.
///
/// Who fills a later part has to pass over the words of those before, so parts get shorter: all end
/// at the same time. The draws do not depend on it. `f` must take `cut.words` words for each
/// element, and may take more in the last part.
#[inline]
pub(super) fn in_parts<T: Send>(
    engine: &mut Mt19937,
    out: &mut [T],
    cut: Cut,
    f: impl Fn(&mut Mt19937, &mut [T]) + Sync,
) {
    let start = Start(out.as_mut_ptr());
    parts_of(engine, out.len(), cut, &|engine, range| {
        // SAFETY: the range is of `out`, and no other part's.
        let part = unsafe { std::slice::from_raw_parts_mut(start.at(range.start), range.len()) };
        f(engine, part);
    });
}

/// Where a slice begins whose disjoint parts several threads write.
struct Start<T>(*mut T);

// SAFETY: every thread has elements of its own, which may be sent to it.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    fn at(&self, i: usize) -> *mut T {
        self.0.wrapping_add(i)
    }
}

/// [`in_parts`] of `len` elements, whatever they are.
fn parts_of(
    engine: &mut Mt19937,
    len: usize,
    cut: Cut,
    f: &(dyn Fn(&mut Mt19937, Range<usize>) + Sync),
) {
    // A thread is worth it from about ten microseconds on.
    let parts = pool::chunk_count(len, (1 << 17) / (cut.words * cut.cost));
    if parts < 2 {
        return f(engine, 0..len);
    }
    // With a part's length l, cost c and start s in the time of an element passed over, s + c l is
    // the same for all: the part from s on takes a c-th of what would be left if there were no end.
    let left = 1.0 - 1.0 / cut.cost as f64;
    let total = len as f64 / (1.0 - left.powi(parts as i32));
    let mut start = 0;
    let mut jobs = Vec::with_capacity(parts);
    for part in 1..=parts {
        let end = match part == parts {
            true => len,
            false => (total * (1.0 - left.powi(part as i32))) as usize / cut.unit * cut.unit,
        };
        jobs.push(Mutex::new((engine.clone(), start..end)));
        start = end;
    }
    pool::parallel_parts(parts, parts, &|_, range| {
        for job in &jobs[range] {
            let (engine, range) = &mut *job.lock();
            engine.skip(range.start * cut.words);
            f(engine, range.clone());
        }
    });
    if let Some(job) = jobs.pop() {
        *engine = job.into_inner().0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Generator, fill_bernoulli, fill_exponential, fill_normal, fill_uniform};
    use super::*;
    use crate::machine::{Level, forced, level};

    /// Results of `f` at each width that the processor has.
    fn at_each<R: PartialEq + std::fmt::Debug>(f: impl Fn() -> R) {
        let widest = level();
        let expected = f();
        for lesser in [Level::Avx2, Level::Base] {
            if lesser == Level::Avx2 && widest == Level::Base {
                continue;
            }
            forced::LEVEL.set(Some(lesser));
            let got = f();
            forced::LEVEL.set(None);
            assert!(got == expected, "{lesser:?} differs from {widest:?}");
        }
    }

    #[test]
    fn instruction_sets_agree() {
        at_each(|| {
            let g = Generator::new(5);
            // Not a multiple of 16, so that normal draws take some again.
            let mut f32s = vec![0f32; 3003];
            let mut f64s = vec![0f64; 3003];
            let mut bits: Vec<u64> = vec![];
            fill_uniform(&g, &mut f32s, -2.0, 3.0);
            bits.extend(f32s.iter().map(|x| u64::from(x.to_bits())));
            fill_uniform(&g, &mut f64s, -2.0, 3.0);
            bits.extend(f64s.iter().map(|x| x.to_bits()));
            fill_normal(&g, &mut f32s, 1.0, 2.0);
            bits.extend(f32s.iter().map(|x| u64::from(x.to_bits())));
            (bits, g.get_state())
        });
    }

    /// The draws of a whole are those of its parts, and the generator goes on where they end.
    #[test]
    fn parts_agree_with_the_whole() {
        fn check<T: Copy + Default + PartialEq + Send>(
            cut: Cut,
            n: usize,
            f: fn(&Generator, &mut [T]),
        ) {
            let (whole, parts) = (Generator::new(9), Generator::new(9));
            // Not at the start of a block.
            assert_eq!(whole.random(), parts.random());
            let mut expected = vec![T::default(); n];
            f(&whole, &mut expected);
            let mut got = vec![T::default(); n];
            // What one thread would draw, chunk by chunk.
            for chunk in got.chunks_mut(4096 / cut.unit * cut.unit) {
                f(&parts, chunk);
            }
            assert!(got == expected);
            assert_eq!(whole.get_state(), parts.get_state());
        }
        pool::set_num_threads(3).unwrap();
        let cut = |words, unit| Cut {
            words,
            unit,
            cost: 1,
        };
        check(cut(1, 1), 300_001, |g, out: &mut [f32]| {
            fill_uniform(g, out, 0.0, 1.0)
        });
        check(cut(2, 1), 200_003, |g, out: &mut [f64]| {
            fill_uniform(g, out, 0.0, 1.0)
        });
        check(cut(1, 16), 300_032, |g, out: &mut [f32]| {
            fill_normal(g, out, 0.0, 1.0)
        });
        check(cut(2, 16), 100_000, |g, out: &mut [f64]| {
            fill_normal(g, out, 0.0, 1.0)
        });
        check(cut(2, 1), 300_001, |g, out: &mut [u8]| {
            fill_bernoulli(g, out, 0.3)
        });
        check(cut(2, 1), 30_001, |g, out: &mut [f64]| {
            fill_exponential(g, out, 1.5)
        });

        // The last 16 are drawn again, after as many as are left over.
        let (whole, parts) = (Generator::new(9), Generator::new(9));
        let (mut expected, mut got) = (vec![0f32; 300_007], vec![0f32; 300_007]);
        fill_normal(&whole, &mut expected, 1.0, 0.5);
        for chunk in got[..300_000].chunks_mut(4096) {
            fill_normal(&parts, chunk, 1.0, 0.5);
        }
        fill_uniform(&parts, &mut got[300_000..], 0.0, 1.0);
        fill_normal(&parts, &mut got[300_007 - 16..], 1.0, 0.5);
        assert!(got == expected);
        assert_eq!(whole.get_state(), parts.get_state());
    }
}
