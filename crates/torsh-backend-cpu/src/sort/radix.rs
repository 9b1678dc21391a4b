//! Sorting pairs of key and position.

/// A key with the position it came from; ordered by key, then position.
pub(super) trait Item: Copy + Ord + Send + Sync + 'static {
    fn new(key: u64, at: u32) -> Self;
    fn key(self) -> u64;
    fn at(self) -> u32;
}

/// A pair whose key has 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Packed(u64);

impl Item for Packed {
    #[inline(always)]
    fn new(key: u64, at: u32) -> Self {
        Packed(key << 32 | at as u64)
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self.0 >> 32
    }
    #[inline(always)]
    fn at(self) -> u32 {
        self.0 as u32
    }
}

/// A pair whose key has 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Wide(u64, u32);

impl Item for Wide {
    #[inline(always)]
    fn new(key: u64, at: u32) -> Self {
        Wide(key, at)
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn at(self) -> u32 {
        self.1
    }
}

/// Below this many pairs a comparison sort is faster than counting.
const SMALL: usize = 1024;
/// Bits per counting pass: 2,048 counters stay in the first-level cache.
const DIGIT: u32 = 11;
const PASSES: usize = 3;

/// Sorts `items`, whose keys differ in the bits of `differing` alone; `spare` is as long. The
/// positions must ascend, so that counting passes, which keep the order of equal keys, agree with
/// the order of pairs. Gives whichever of the two holds the result.
///
/// At most three counting passes over the highest differing bits (least significant digit first);
/// what then still has equal bits is sorted by comparison.
pub(super) fn sort<'a, I: Item>(
    items: &'a mut [I],
    spare: &'a mut [I],
    differing: u64,
) -> &'a mut [I] {
    if items.len() < SMALL {
        items.sort_unstable();
        return items;
    }
    if differing == 0 {
        return items;
    }
    let high = 64 - differing.leading_zeros();
    let low = differing
        .trailing_zeros()
        .max(high.saturating_sub(DIGIT * PASSES as u32));
    let passes = (high - low).div_ceil(DIGIT);
    let width = (high - low).div_ceil(passes);
    let mask = (1u64 << width) - 1;
    let digit = |item: I, pass: u32| (item.key() >> (low + pass * width) & mask) as usize;

    let mut counts = [[0u32; 1 << DIGIT]; PASSES];
    for &item in items.iter() {
        for pass in 0..passes {
            counts[pass as usize][digit(item, pass)] += 1;
        }
    }
    let (mut from, mut to) = (items, spare);
    for pass in 0..passes {
        let starts = &mut counts[pass as usize];
        let mut total = 0;
        for c in starts.iter_mut() {
            (*c, total) = (total, total + *c);
        }
        for &item in from.iter() {
            let slot = &mut starts[digit(item, pass)];
            to[*slot as usize] = item;
            *slot += 1;
        }
        (from, to) = (to, from);
    }
    if low > differing.trailing_zeros() {
        from.chunk_by_mut(|a, b| a.key() >> low == b.key() >> low)
            .filter(|run| run.len() > 1)
            .for_each(|run| run.sort_unstable());
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<I: Item + std::fmt::Debug>(keys: impl Iterator<Item = u64>) {
        let mut items: Vec<I> = keys.enumerate().map(|(i, k)| I::new(k, i as u32)).collect();
        let first = items[0].key();
        let differing = items.iter().fold(0, |d, i| d | (i.key() ^ first));
        let mut expected = items.clone();
        expected.sort();
        let mut spare = items.clone();
        assert_eq!(sort(&mut items, &mut spare, differing), &expected[..]);
    }

    #[test]
    fn sorts_every_width_of_keys() {
        let mut state = 1u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            state ^ state >> 29
        };
        for n in [1, 2, 30, 1023, 1024, 5000] {
            for bits in [1, 3, 8, 11, 12, 23, 32] {
                let keys: Vec<u64> = (0..n).map(|_| random() >> (64 - bits)).collect();
                check::<Packed>(keys.iter().copied());
                check::<Wide>(keys.iter().map(|k| k << 7));
            }
            let keys: Vec<u64> = (0..n).map(|_| random()).collect();
            check::<Wide>(keys.iter().copied());
            // One far key, the others near: the counting passes see almost nothing.
            check::<Wide>(
                keys.iter()
                    .enumerate()
                    .map(|(i, k)| if i == 7 { !0 } else { k >> 40 }),
            );
        }
    }
}
