//! The pool's handshake under every interleaving that loom can make:
//! `RUSTFLAGS="--cfg loom" cargo test -p torsh-core --release --test pool_loom`.
#![cfg(loom)]

/// Stands in for `src/pool/sync.rs`.
mod sync {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering};
    pub(super) use loom::thread::{Thread, current, park};

    #[derive(Clone, Copy)]
    pub(super) enum Patience {
        WORKER,
        CALLER,
        LATE,
    }

    /// Where threads run is the system's.
    pub(super) struct Place;

    impl Place {
        pub(super) fn new() -> Self {
            Self
        }
        pub(super) fn mark(&self) {}
        pub(super) fn part(&self) {}
    }

    /// One look: spinning longer only repeats it, and going to sleep is the hard case.
    pub(super) fn spin(_: Patience, done: impl Fn() -> bool) -> bool {
        done()
    }
}

#[path = "../src/pool/slot.rs"]
mod slot;

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};
use slot::Poster;

/// The job: write `value` through the pointer. The cell is loom's, so any access of the caller
/// that is not ordered with the worker's is reported.
#[derive(Clone, Copy)]
struct Write {
    target: *const UnsafeCell<u32>,
    value: u32,
}

// SAFETY: the poster keeps the target alive and untouched until the job is finished.
unsafe impl Send for Write {}

fn run(job: Write) {
    // SAFETY: as above.
    let target = unsafe { &*job.target };
    // SAFETY: loom checks that no other access is concurrent.
    target.with_mut(|cell| unsafe { *cell += job.value });
}

fn worker(jobs: usize) -> (Poster<Write>, JoinHandle<()>) {
    let mut handle = None;
    let poster = Poster::start(|mut taker| {
        let started = thread::spawn(move || (0..jobs).for_each(|_| taker.run_next(run)));
        let thread = started.thread().clone();
        handle = Some(started);
        Ok::<_, std::convert::Infallible>(thread)
    })
    .unwrap();
    (poster, handle.unwrap())
}

fn read(cell: &UnsafeCell<u32>) -> u32 {
    // SAFETY: loom checks that no write is concurrent.
    cell.with(|value| unsafe { *value })
}

#[test]
fn jobs_one_after_the_other() {
    loom::model(|| {
        let (mut poster, handle) = worker(2);
        let target = UnsafeCell::new(0);
        for (value, sum) in [(3, 3), (4, 7)] {
            poster.post(Write {
                target: &target,
                value,
            });
            poster.wait();
            assert_eq!(read(&target), sum);
        }
        handle.join().unwrap();
    });
}

#[test]
fn two_workers_at_once() {
    loom::model(|| {
        let mut workers = [worker(1), worker(1)];
        let targets = [UnsafeCell::new(1), UnsafeCell::new(2)];
        for ((poster, _), target) in workers.iter_mut().zip(&targets) {
            poster.post(Write { target, value: 10 });
        }
        for (poster, _) in &mut workers {
            poster.wait();
        }
        assert_eq!((read(&targets[0]), read(&targets[1])), (11, 12));
        for (_, handle) in workers {
            handle.join().unwrap();
        }
    });
}

#[test]
fn the_pool_changes_hands() {
    use loom::sync::{Arc, Mutex};
    loom::model(|| {
        let (poster, handle) = worker(2);
        let pool = Arc::new(Mutex::new(poster));
        let fork = |pool: &Mutex<Poster<Write>>| {
            let target = UnsafeCell::new(0);
            let mut poster = pool.lock().unwrap();
            poster.post(Write {
                target: &target,
                value: 5,
            });
            poster.wait();
            assert_eq!(read(&target), 5);
        };
        let other = {
            let pool = pool.clone();
            thread::spawn(move || fork(&pool))
        };
        fork(&pool);
        other.join().unwrap();
        handle.join().unwrap();
    });
}
