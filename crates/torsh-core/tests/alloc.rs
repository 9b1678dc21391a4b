//! The allocator through its public functions. The figures are the process's, hence a test
//! binary of its own and a lock.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use torsh_core::alloc::*;

static ALONE: Mutex<()> = Mutex::new(());

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The lock, with nothing cached and a limit of 256 MiB.
struct Alone(#[allow(dead_code)] MutexGuard<'static, ()>);

fn alone() -> Alone {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    set_cache_limit(256 * MIB);
    empty_cache();
    Alone(guard)
}

impl Drop for Alone {
    /// This test's thread may outlive the lock, but not with blocks that the next test would see.
    fn drop(&mut self) {
        empty_cache();
    }
}

fn fill(block: &Block, value: u8) {
    // SAFETY: the block is as long as its capacity, and this thread has it.
    unsafe { block.ptr().write_bytes(value, block.capacity()) }
}

fn holds(block: &Block, value: u8) -> bool {
    // SAFETY: the block was filled, and nobody writes to it meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts(block.ptr().as_ptr(), block.capacity()) };
    bytes.iter().all(|&b| b == value)
}

fn sizes() -> Vec<usize> {
    let mut sizes = vec![1, 3, 100, 1000, 5000, 70_000, 3 * MIB, 9 * MIB + 1];
    for power in 6..=22 {
        sizes.extend([(1 << power) - 1, 1 << power, (1 << power) + 1]);
    }
    sizes
}

#[test]
fn blocks_are_aligned_large_enough_and_distinct() {
    let _guard = alone();
    let blocks: Vec<Block> = sizes().into_iter().map(|n| allocate(n).unwrap()).collect();
    for (i, (block, bytes)) in blocks.iter().zip(sizes()).enumerate() {
        assert_eq!(block.ptr().addr().get() % ALIGN, 0);
        assert!(block.capacity() >= bytes);
        // Huge pages, which only Linux is asked for.
        if cfg!(target_os = "linux") && bytes >= 2 * MIB {
            assert_eq!(block.ptr().addr().get() % (2 * MIB), 0);
        }
        fill(block, i as u8);
    }
    for (i, block) in blocks.iter().enumerate() {
        assert!(holds(block, i as u8));
    }
}

#[test]
fn capacities() {
    let _guard = alone();
    let requests = [1, 64, 65, 4096, 4097, MIB + 1, 4 * MIB, 4 * MIB + 1];
    let capacities = requests.map(|n| allocate(n).unwrap().capacity());
    assert_eq!(capacities[..5], [64, 64, 128, 4096, 4608]);
    assert_eq!(
        capacities[5..],
        [MIB + 64 * KIB, 4 * MIB, 4 * MIB + 64 * KIB]
    );
}

#[test]
fn zero_bytes_allocate_nothing() {
    let _guard = alone();
    let before = stats();
    let block = allocate(0).unwrap();
    assert_eq!(block.capacity(), 0);
    assert_eq!(block.ptr().addr().get() % ALIGN, 0);
    drop(block);
    assert_eq!(stats(), before);
}

#[test]
fn freed_blocks_are_reused() {
    let _guard = alone();
    for bytes in sizes() {
        empty_cache();
        let before = stats();
        let first = allocate(bytes).unwrap();
        let address = first.ptr();
        drop(first);
        let second = allocate(bytes).unwrap();
        assert_eq!(second.ptr(), address, "{bytes} bytes");
        let after = stats();
        assert_eq!(after.system_allocations - before.system_allocations, 1);
        assert_eq!(after.cache_hits - before.cache_hits, 1);
        assert_eq!(after.allocations - before.allocations, 2);
    }
}

#[test]
fn best_fit_within_twice_the_size() {
    let _guard = alone();
    let blocks = [40 * KIB, 24 * KIB, 100 * KIB].map(|n| allocate(n).unwrap());
    let [p40, p24, p100] = [0, 1, 2].map(|i| blocks[i].ptr());
    drop(blocks);
    assert_eq!(allocate(20 * KIB).unwrap().ptr(), p24);
    let held = allocate(20 * KIB).unwrap();
    let second = allocate(20 * KIB).unwrap();
    assert_eq!((held.ptr(), second.ptr()), (p24, p40));
    assert_eq!(second.capacity(), 40 * KIB);
    // 100 KiB is more than twice 49.
    let third = allocate(49 * KIB).unwrap();
    assert_ne!(third.ptr(), p100);
    assert_eq!(allocate(50 * KIB).unwrap().ptr(), p100);
}

#[test]
fn the_cache_keeps_to_its_limit() {
    let _guard = alone();
    set_cache_limit(10 * MIB);
    let base = stats().cached_bytes;
    let blocks: Vec<Block> = (0..5).map(|_| allocate(3 * MIB).unwrap()).collect();
    let last = blocks[4].ptr();
    drop(blocks);
    assert_eq!(stats().cached_bytes - base, 9 * MIB);
    assert_eq!(allocate(3 * MIB).unwrap().ptr(), last);
    drop(allocate(20 * MIB).unwrap());
    assert_eq!(stats().cached_bytes - base, 9 * MIB);
    set_cache_limit(4 * MIB);
    assert_eq!(stats().cached_bytes - base, 3 * MIB);
    set_cache_limit(0);
    assert_eq!(stats().cached_bytes, base);
    drop(allocate(5000).unwrap());
    assert_eq!(stats().cached_bytes, base);
}

#[test]
fn empty_cache_gives_everything_back() {
    let _guard = alone();
    let base = stats();
    let kept = allocate(100).unwrap();
    fill(&kept, 7);
    drop([10, 200, 5000, 5 * MIB].map(|n| allocate(n).unwrap()));
    let cached = stats().cached_bytes - base.cached_bytes;
    assert_eq!(cached, 64 + 256 + 5120 + 5 * MIB);
    empty_cache();
    assert_eq!(stats().cached_bytes, base.cached_bytes);
    assert_eq!(stats().allocated_bytes - base.allocated_bytes, 128);
    assert!(holds(&kept, 7));
}

#[test]
fn small_lists_are_bounded() {
    let _guard = alone();
    let base = stats();
    let blocks: Vec<Block> = (0..5000).map(|_| allocate(64).unwrap()).collect();
    assert_eq!(stats().allocated_bytes - base.allocated_bytes, 5000 * 64);
    drop(blocks);
    assert_eq!(stats().allocated_bytes, base.allocated_bytes);
    assert_eq!(stats().cached_bytes - base.cached_bytes, 64 * KIB);
}

#[test]
fn statistics() {
    let _guard = alone();
    reset_peak_stats();
    let base = stats();
    let a = allocate(8 * MIB).unwrap();
    let b = allocate(1000).unwrap();
    let now = stats();
    assert_eq!(now.allocated_bytes - base.allocated_bytes, 8 * MIB + 1024);
    assert_eq!(now.allocations - base.allocations, 2);
    assert_eq!(now.system_allocations - base.system_allocations, 2);
    assert_eq!(now.cache_hits, base.cache_hits);
    drop((a, b));
    let now = stats();
    assert_eq!(now.allocated_bytes, base.allocated_bytes);
    assert_eq!(now.cached_bytes - base.cached_bytes, 8 * MIB + 1024);
    let peak = now.peak_allocated_bytes - base.allocated_bytes;
    assert!(peak.abs_diff(8 * MIB) <= 256 * KIB, "{peak}");
    reset_peak_stats();
    let peak = stats().peak_allocated_bytes - base.allocated_bytes;
    assert!(peak <= 256 * KIB, "{peak}");
}

#[test]
fn the_peak_knows_small_blocks() {
    let _guard = alone();
    reset_peak_stats();
    let base = stats();
    drop(
        (0..1000)
            .map(|_| allocate(1024).unwrap())
            .collect::<Vec<_>>(),
    );
    let peak = stats().peak_allocated_bytes - base.allocated_bytes;
    assert!(peak.abs_diff(1000 * KIB) <= 256 * KIB, "{peak}");
}

#[test]
fn a_thread_knows_its_own_figures() {
    let _guard = alone();
    let read = |before: ThreadStats| {
        let now = thread_stats();
        let given = now.allocated_bytes - before.allocated_bytes;
        (
            given as usize,
            (now.freed_bytes - before.freed_bytes) as usize,
        )
    };
    let before = thread_stats();
    // Another thread's blocks are none of this one's until they are freed here.
    let (small, large) = std::thread::spawn(|| (allocate(100).unwrap(), allocate(MIB).unwrap()))
        .join()
        .unwrap();
    assert_eq!(read(before), (0, 0));
    drop((small, large));
    assert_eq!(read(before), (0, 128 + MIB));
    // From the lists and the cache, from the system, and beyond what a list keeps.
    let blocks: Vec<Block> = (0..3000).map(|_| allocate(64).unwrap()).collect();
    let big = allocate(MIB).unwrap();
    assert_eq!(read(before), (3000 * 64 + MIB, 128 + MIB));
    drop((blocks, big));
    assert_eq!(read(before), (3000 * 64 + MIB, 3000 * 64 + 128 + 2 * MIB));
    empty_cache();
    assert_eq!(read(before), (3000 * 64 + MIB, 3000 * 64 + 128 + 2 * MIB));
}

#[test]
fn blocks_pass_between_threads() {
    let _guard = alone();
    let base = stats();
    let (send, receive) = mpsc::channel::<(Block, u8)>();
    let producers = (0..3_u8).map(|thread| {
        let send = send.clone();
        std::thread::spawn(move || {
            for i in 0..400_usize {
                let block = allocate([40, 700, 4000, 9000, 300_000][i % 5]).unwrap();
                let value = thread.wrapping_mul(80).wrapping_add(i as u8);
                fill(&block, value);
                send.send((block, value)).unwrap();
            }
        })
    });
    let mut threads: Vec<_> = producers.collect();
    drop(send);
    threads.push(std::thread::spawn(move || {
        for (block, value) in receive {
            assert!(holds(&block, value));
        }
    }));
    // Unlike the end of a scope, a join waits for the thread's locals too.
    for thread in threads {
        thread.join().unwrap();
    }
    let now = stats();
    assert_eq!(now.allocated_bytes, base.allocated_bytes);
    assert_eq!(now.allocations - base.allocations, 1200);
    empty_cache();
    assert_eq!(stats().cached_bytes, 0);
}

#[test]
fn a_thread_leaves_nothing_behind() {
    let _guard = alone();
    let base = stats();
    let block = std::thread::spawn(|| {
        drop((0..50).map(|_| allocate(512).unwrap()).collect::<Vec<_>>());
        allocate(2000).unwrap()
    })
    .join()
    .unwrap();
    let now = stats();
    assert_eq!(now.cached_bytes, base.cached_bytes);
    assert_eq!(now.allocated_bytes - base.allocated_bytes, 2048);
    drop(block);
    assert_eq!(stats().allocated_bytes, base.allocated_bytes);
}

#[test]
fn blocks_outlive_the_lists_of_their_thread() {
    use std::cell::RefCell;
    struct Late(Option<Block>);
    impl Drop for Late {
        fn drop(&mut self) {
            self.0 = None;
            // Allocated and freed with the lists perhaps gone.
            fill(&allocate(100).unwrap(), 1);
        }
    }
    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }
    let _guard = alone();
    let base = stats();
    for lists_first in [true, false] {
        std::thread::spawn(move || {
            let early = lists_first.then(|| allocate(300).unwrap());
            LATE.with_borrow_mut(|late| *late = Some(Late(None)));
            let block = early.unwrap_or_else(|| allocate(300).unwrap());
            LATE.with_borrow_mut(|late| *late = Some(Late(Some(block))));
        })
        .join()
        .unwrap();
    }
    assert_eq!(stats().allocated_bytes, base.allocated_bytes);
    assert_eq!(stats().cached_bytes, base.cached_bytes);
}

#[test]
fn huge_requests_are_errors() {
    let _guard = alone();
    for requested in [
        usize::MAX,
        isize::MAX as usize,
        isize::MAX as usize - 4 * MIB,
        1 << 55,
    ] {
        let error = allocate(requested).unwrap_err();
        assert_eq!(error, AllocError { requested });
        assert!(error.to_string().contains(&requested.to_string()));
    }
    assert!(allocate(100).is_ok());
}
