//! The thread pool through its public functions. These tests change the process's thread count,
//! hence a test binary of their own and a lock.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use torsh_core::pool::*;

static COUNT: Mutex<()> = Mutex::new(());

fn with_threads(n: usize) -> MutexGuard<'static, ()> {
    let guard = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    set_num_threads(n).unwrap();
    guard
}

fn parallel_sum(n: usize, grain: usize) -> u64 {
    let sum = AtomicU64::new(0);
    parallel_for(n, grain, &|range: Range<usize>| {
        sum.fetch_add(range.map(|i| (i * i) as u64).sum(), Relaxed);
    });
    sum.into_inner()
}

fn serial_sum(n: usize) -> u64 {
    (0..n).map(|i| (i * i) as u64).sum()
}

#[test]
fn sums_equal_the_serial_ones() {
    for threads in [1, 2, 4, 7] {
        let _guard = with_threads(threads);
        for n in [0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, 4097, 50_000] {
            for grain in [0, 1, 2, 5, 64, 1000, 100_000] {
                assert_eq!(parallel_sum(n, grain), serial_sum(n), "n {n} grain {grain}");
            }
        }
    }
}

#[test]
fn every_item_is_visited_once_in_chunks_of_a_grain_or_more() {
    let _guard = with_threads(4);
    for (n, grain) in [(10, 3), (100, 7), (4096, 1024), (4095, 1024), (5, 1)] {
        let visits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
        parallel_for(n, grain, &|range: Range<usize>| {
            assert!(range.len() >= grain);
            range.for_each(|i| {
                visits[i].fetch_add(1, Relaxed);
            });
        });
        assert!(visits.iter().all(|v| v.load(Relaxed) == 1));
    }
}

#[test]
fn chunk_counts() {
    let _guard = with_threads(4);
    let counts = [
        (0, 1),
        (1, 1),
        (10, 10),
        (19, 10),
        (20, 10),
        (35, 10),
        (1000, 10),
        (3, 0),
    ]
    .map(|(n, grain)| chunk_count(n, grain));
    assert_eq!(counts, [0, 1, 1, 1, 2, 3, 4, 3]);
    set_num_threads(1).unwrap();
    assert_eq!(chunk_count(1000, 1), 1);
}

#[test]
fn chunks_fill_one_partial_each() {
    for threads in [1, 2, 3, 4] {
        let _guard = with_threads(threads);
        for n in [1, 5, 1000, 12_345] {
            let partials: Vec<_> = (0..chunk_count(n, 1)).map(|_| AtomicU64::new(0)).collect();
            let calls = AtomicUsize::new(0);
            parallel_parts(n, chunk_count(n, 1), &|index, range| {
                calls.fetch_add(1, Relaxed);
                partials[index].store(range.map(|i| (i * i) as u64).sum(), Relaxed);
            });
            assert_eq!(calls.into_inner(), partials.len());
            let sum: u64 = partials.iter().map(|p| p.load(Relaxed)).sum();
            assert_eq!(sum, serial_sum(n));
        }
    }
}

#[test]
fn parts_do_not_depend_on_the_threads() {
    let mut splits = Vec::new();
    for threads in [1, 2, 4] {
        let _guard = with_threads(threads);
        let split = Mutex::new(Vec::new());
        parallel_parts(11, 5, &|index, range| {
            split.lock().unwrap().push((index, range))
        });
        let mut split = split.into_inner().unwrap();
        split.sort_by_key(|(index, _)| *index);
        splits.push(split);
    }
    let expected = vec![(0, 0..3), (1, 3..5), (2, 5..7), (3, 7..9), (4, 9..11)];
    assert!(splits.iter().all(|split| *split == expected), "{splits:?}");
}

#[test]
fn the_chunks_run_on_different_threads() {
    let _guard = with_threads(4);
    let seen: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());
    // The barrier opens only if the four chunks are in flight together.
    let together = Barrier::new(4);
    parallel_for(4, 1, &|_| {
        together.wait();
        seen.lock().unwrap().push(std::thread::current().id());
    });
    let mut seen = seen.into_inner().unwrap();
    assert!(seen.contains(&std::thread::current().id()));
    seen.sort_by_key(|id| format!("{id:?}"));
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

#[test]
fn nested_calls_are_serial() {
    let _guard = with_threads(4);
    assert!(!in_parallel());
    let sum = AtomicU64::new(0);
    parallel_for(8, 1, &|outer: Range<usize>| {
        let me = std::thread::current().id();
        assert!(in_parallel());
        assert_eq!(chunk_count(1000, 1), 1);
        outer.for_each(|_| {
            parallel_for(1000, 1, &|inner: Range<usize>| {
                assert_eq!(inner, 0..1000);
                assert_eq!(std::thread::current().id(), me);
                sum.fetch_add(inner.map(|i| i as u64).sum(), Relaxed);
            });
        });
    });
    assert!(!in_parallel());
    assert_eq!(sum.into_inner(), 8 * 499_500);
}

#[test]
fn panics_reach_the_caller_after_all_chunks_ended() {
    let _guard = with_threads(4);
    for bad in 0..4 {
        let ended = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            parallel_parts(4, chunk_count(4, 1), &|index, _| {
                if index == bad {
                    panic!("chunk {index}");
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
                ended.fetch_add(1, Relaxed);
            });
        }));
        let message = *result.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(message, format!("chunk {bad}"));
        assert_eq!(ended.into_inner(), 3);
        assert!(!in_parallel());
        assert_eq!(parallel_sum(1000, 1), serial_sum(1000));
    }
    let all = catch_unwind(|| parallel_for(4, 1, &|_| panic!("all")));
    assert_eq!(*all.unwrap_err().downcast::<&str>().unwrap(), "all");
    assert_eq!(parallel_sum(1000, 1), serial_sum(1000));
}

#[test]
fn several_users_at_once() {
    let _guard = with_threads(3);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in (0..2000).step_by(7) {
                    assert_eq!(parallel_sum(n, 10), serial_sum(n));
                }
            });
        }
    });
}

#[test]
fn a_second_user_runs_serially_with_the_same_chunks() {
    let _guard = with_threads(4);
    let (held, done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            parallel_parts(4, chunk_count(4, 1), &|index, _| {
                if index == 0 {
                    held.store(true, Relaxed);
                    while !done.load(Relaxed) {
                        std::thread::yield_now();
                    }
                }
            });
        });
        while !held.load(Relaxed) {
            std::thread::yield_now();
        }
        let me = std::thread::current().id();
        let split = Mutex::new(Vec::new());
        parallel_parts(10, chunk_count(10, 1), &|index, range| {
            assert_eq!(std::thread::current().id(), me);
            split.lock().unwrap().push((index, range));
        });
        let whole = Mutex::new(Vec::new());
        parallel_for(10, 1, &|range| whole.lock().unwrap().push(range));
        done.store(true, Relaxed);
        assert_eq!(
            split.into_inner().unwrap(),
            [(0, 0..3), (1, 3..6), (2, 6..8), (3, 8..10)]
        );
        assert_eq!(whole.into_inner().unwrap(), vec![0..10; 1]);
    });
}

#[test]
fn the_thread_count_changes() {
    let _guard = with_threads(1);
    for threads in [1, 2, 4, 2, 1, 4] {
        set_num_threads(threads).unwrap();
        assert_eq!(num_threads(), threads);
        let chunks = AtomicUsize::new(0);
        parallel_for(100, 1, &|_| {
            chunks.fetch_add(1, Relaxed);
        });
        assert_eq!(chunks.into_inner(), threads);
    }
    assert_eq!(set_num_threads(0), Err(ThreadCountError));
    assert_eq!(num_threads(), 4);
}

#[test]
fn ten_thousand_forks() {
    let _guard = with_threads(4);
    for i in 0..10_000 {
        let hits = AtomicUsize::new(0);
        parallel_for(4, 1, &|range: Range<usize>| {
            hits.fetch_add(range.len(), Relaxed);
        });
        assert_eq!(hits.into_inner(), 4);
        // Now and then long enough for the workers to park.
        if i % 500 == 0 {
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
    }
}
