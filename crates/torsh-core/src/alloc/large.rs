//! The cache of free blocks above the small classes, shared by all threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::system::{Raw, physical_memory};

const GIB: usize = 1 << 30;

/// Free blocks, found by size and given up by age.
pub(super) struct Cache {
    /// By capacity, then the latest freed first: its lines may still be in the processor's caches.
    blocks: BTreeMap<(usize, Reverse<u64>), Raw>,
    /// The capacity of each block by the time it was freed.
    ages: BTreeMap<u64, usize>,
    clock: u64,
    bytes: usize,
    /// `None` until it is set or first needed.
    limit: Option<usize>,
}

impl Cache {
    pub(super) const fn new() -> Self {
        Self {
            blocks: BTreeMap::new(),
            ages: BTreeMap::new(),
            clock: 0,
            bytes: 0,
            limit: None,
        }
    }

    /// The sum of the capacities held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The smallest block of at least `capacity` and at most twice that, or of just that if it is to be `exact`, if there
    /// is one.
    pub(super) fn take(&mut self, capacity: usize, exact: bool) -> Option<Raw> {
        let from = (capacity, Reverse(u64::MAX));
        let (&key, _) = self.blocks.range(from..).next()?;
        let (found, Reverse(freed)) = key;
        if found / 2 > capacity || exact && found != capacity {
            return None;
        }
        self.ages.remove(&freed);
        self.bytes -= found;
        self.blocks.remove(&key)
    }

    /// Keeps `block` and returns what has to go for it: the oldest blocks, or itself if it alone
    /// is over the limit. The caller drops them without the cache's lock, as it takes long.
    pub(super) fn put(&mut self, block: Raw) -> Vec<Raw> {
        let capacity = block.capacity();
        let limit = *self.limit.get_or_insert_with(default_limit);
        if capacity > limit {
            return vec![block];
        }
        self.clock += 1;
        self.blocks.insert((capacity, Reverse(self.clock)), block);
        self.ages.insert(self.clock, capacity);
        self.bytes += capacity;
        self.shrink(limit)
    }

    /// Sets the limit of the bytes held and returns the blocks over it.
    pub(super) fn set_limit(&mut self, limit: usize) -> Vec<Raw> {
        self.limit = Some(limit);
        self.shrink(limit)
    }

    /// Takes out everything.
    pub(super) fn clear(&mut self) -> Vec<Raw> {
        self.shrink(0)
    }

    fn shrink(&mut self, limit: usize) -> Vec<Raw> {
        let mut gone = Vec::new();
        while self.bytes > limit {
            let Some((freed, capacity)) = self.ages.pop_first() else {
                break;
            };
            self.bytes -= capacity;
            gone.extend(self.blocks.remove(&(capacity, Reverse(freed))));
        }
        gone
    }
}

/// A quarter of the memory, at most 8 GiB; 2 GiB where the system does not tell.
fn default_limit() -> usize {
    physical_memory().map_or(2 * GIB, |memory| (memory / 4).min(GIB.saturating_mul(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(limit: usize, capacities: &[usize]) -> Cache {
        let mut cache = Cache::new();
        cache.set_limit(limit);
        for &capacity in capacities {
            let gone = cache.put(Raw::new(capacity).unwrap());
            assert!(gone.is_empty());
        }
        cache
    }

    fn capacities(blocks: &[Raw]) -> Vec<usize> {
        blocks.iter().map(Raw::capacity).collect()
    }

    #[test]
    fn best_fit_within_twice_the_size() {
        let mut cache = cache(1 << 20, &[65_536, 8192, 16_384, 12_288]);
        assert_eq!(cache.take(9216, false).unwrap().capacity(), 12_288);
        assert_eq!(cache.take(9216, false).unwrap().capacity(), 16_384);
        assert!(cache.take(9216, false).is_none());
        assert!(cache.take(32_256, false).is_none());
        assert!(cache.take(32_768, true).is_none());
        assert_eq!(cache.take(32_768, false).unwrap().capacity(), 65_536);
        assert!(cache.take(65_536, false).is_none());
        assert_eq!(cache.bytes(), 8192);
        assert_eq!(cache.take(8192, true).unwrap().capacity(), 8192);
    }

    #[test]
    fn the_latest_freed_of_a_size_comes_first() {
        let mut cache = cache(1 << 20, &[8192]);
        let block = Raw::new(8192).unwrap();
        let ptr = block.ptr_for_test();
        cache.put(block);
        assert_eq!(cache.take(8192, false).unwrap().ptr_for_test(), ptr);
    }

    #[test]
    fn the_oldest_go_over_the_limit() {
        let mut cache = cache(40_960, &[16_384, 8192, 12_288]);
        let gone = cache.put(Raw::new(20_480).unwrap());
        assert_eq!(capacities(&gone), [16_384]);
        assert_eq!(cache.bytes(), 40_960);
        let gone = cache.put(Raw::new(512).unwrap());
        assert_eq!(capacities(&gone), [8192]);
        // A block that alone is too large drives nothing out.
        let gone = cache.put(Raw::new(65_536).unwrap());
        assert_eq!(capacities(&gone), [65_536]);
        assert_eq!(cache.bytes(), 12_288 + 20_480 + 512);
        assert_eq!(capacities(&cache.set_limit(21_000)), [12_288]);
        assert_eq!(capacities(&cache.clear()), [20_480, 512]);
        assert_eq!(cache.bytes(), 0);
        assert!(cache.take(512, false).is_none());
    }
}
