//! The checks of engines on threads, and what `threads` and `fake` do beyond them.

use std::time::Duration;

use torsh_core::DType;
use torsh_distributed::engine::{
    Comm, Engine, EngineOp, FakeEngine, Request, Threads, ThreadsEngine,
};
use torsh_distributed_suite::engine::check;
use torsh_distributed_suite::engine::tools::{bytes, empty, part, parts};

/// Runs `f` for each rank on a thread of its own.
fn ranks<T: Send>(n: usize, f: impl Fn(ThreadsEngine) -> T + Sync) -> Vec<T> {
    let threads = Threads::new(n);
    std::thread::scope(|s| {
        let handles: Vec<_> = (0..n)
            .map(|rank| {
                let (threads, f) = (threads.clone(), &f);
                s.spawn(move || f(ThreadsEngine::new(&threads, rank)))
            })
            .collect();
        handles.into_iter().map(|h| h.join().unwrap()).collect()
    })
}

fn wait(e: &mut ThreadsEngine, request: Request) -> torsh_core::Result<()> {
    while !e.poll(request)? {
        std::thread::yield_now();
    }
    Ok(())
}

#[test]
fn threads_pass_the_checks() {
    for n in 1..=4 {
        let all = ranks(n, |mut e| check(&mut e).and_then(|()| e.finish()));
        for (rank, result) in all.into_iter().enumerate() {
            result.unwrap_or_else(|e| panic!("rank {rank} of {n}: {e}"));
        }
    }
}

#[test]
fn abort_is_an_error_of_all_ranks_that_says_who() {
    let all = ranks(3, |mut e| {
        let mut memory = empty(100);
        if e.rank() == 1 {
            e.abort(7);
        }
        // SAFETY: the memory stays until the request ended.
        let request = unsafe { e.receive(Comm::WORLD, part(&mut memory), Some(1), 0) }.unwrap();
        let first = wait(&mut e, request).unwrap_err().to_string();
        // SAFETY: as above.
        let again = unsafe { e.send(Comm::WORLD, part(&mut memory), 0, 0) }.unwrap();
        (
            first,
            wait(&mut e, again).unwrap_err().to_string(),
            e.finish().is_err(),
        )
    });
    for (first, again, finish) in all {
        assert!(
            first.contains("rank 1 aborted") && first.contains("code 7"),
            "{first}"
        );
        assert!(again.contains("rank 1 aborted"), "{again}");
        assert!(finish);
    }
}

#[test]
fn a_rank_that_leaves_is_an_error_of_those_who_wait_for_it() {
    let all = ranks(2, |mut e| {
        let large = 1 << 20;
        if e.rank() == 1 {
            // A small message is on its way; a large one is taken back when the rank leaves.
            let mut small = bytes(1, 0, 0, 64);
            let mut memory = empty(large);
            // SAFETY: the engine is dropped before the memory.
            unsafe {
                e.send(Comm::WORLD, part(&mut small), 0, 0).unwrap();
                e.send(Comm::WORLD, part(&mut memory), 0, 1).unwrap();
            }
            drop(e);
            return Vec::new();
        }
        let mut errors = Vec::new();
        std::thread::sleep(Duration::from_millis(20));
        let mut small = empty(64);
        // SAFETY: the memory stays until the requests ended.
        let request = unsafe { e.receive(Comm::WORLD, part(&mut small), Some(1), 0) }.unwrap();
        wait(&mut e, request).unwrap();
        assert_eq!(small, bytes(1, 0, 0, 64));
        let mut memory = empty(large);
        for tag in [1, 2] {
            // SAFETY: as above.
            let request =
                unsafe { e.receive(Comm::WORLD, part(&mut memory), Some(1), tag) }.unwrap();
            errors.push(wait(&mut e, request).unwrap_err().to_string());
        }
        // SAFETY: as above.
        let request = unsafe { e.receive(Comm::WORLD, part(&mut memory), None, 3) }.unwrap();
        errors.push(wait(&mut e, request).unwrap_err().to_string());
        // SAFETY: as above.
        let request = unsafe { e.send(Comm::WORLD, part(&mut memory), 1, 4) }.unwrap();
        errors.push(wait(&mut e, request).unwrap_err().to_string());
        errors
    });
    assert!(all[0][0].contains("gave up"), "{}", all[0][0]);
    for e in &all[0][1..] {
        assert!(e.contains("rank 1 has left"), "{e}");
    }
}

#[test]
fn fake_counts_what_would_move() {
    let mut e = FakeEngine::new(3, 8);
    assert_eq!((e.name(), e.rank(), e.world_size()), ("fake", 3, 8));
    let mut own = bytes(3, 0, 0, 10);
    let mut into: Vec<_> = (0..8).map(|_| empty(10)).collect();
    let mut out: Vec<_> = (0..8).map(|to| bytes(3, to, 0, to)).collect();
    let mut back: Vec<_> = (0..8).map(|_| empty(3)).collect();
    let mut one = empty(4);
    let mut requests = Vec::new();
    // SAFETY: the memory stays until the end.
    unsafe {
        let w = Comm::WORLD;
        requests.push(e.all_gather(w, part(&mut own), &parts(&mut into)).unwrap());
        assert_eq!(e.moved().sent, 70);
        assert_eq!(e.moved().received, 70);
        requests.push(
            e.all_to_all(w, &parts(&mut out), &parts(&mut back))
                .unwrap(),
        );
        assert_eq!((e.moved().sent, e.moved().received), (70 + 25, 70 + 21));
        requests.push(e.broadcast(w, part(&mut one), 3).unwrap());
        requests.push(e.broadcast(w, part(&mut one), 0).unwrap());
        requests.push(e.gather(w, part(&mut one), &[], 0).unwrap());
        requests.push(e.scatter(w, &[], part(&mut one), 0).unwrap());
        assert_eq!(
            (e.moved().sent, e.moved().received),
            (95 + 28 + 4, 91 + 4 + 4)
        );
        requests.push(
            e.all_reduce(w, part(&mut out[0]), DType::F32, EngineOp::Sum)
                .unwrap(),
        );
        requests.push(e.send(w, part(&mut one), 7, 0).unwrap());
        requests.push(e.receive(w, part(&mut one), None, 0).unwrap());
        let some = e.new_comm(&[1, 3], 5).unwrap();
        assert!(e.send(some, part(&mut one), 2, 0).is_err());
        assert!(e.broadcast(some, part(&mut one), 1).is_ok());
        assert!(e.all_gather(w, part(&mut one), &[]).is_err());
    }
    assert_eq!(e.moved().operations, 10);
    // The own part alone has come.
    assert_eq!(into[3], own);
    assert_eq!(into[2], empty(10));
    assert_eq!(back[3], out[3]);
    for request in requests.iter().rev() {
        assert!(e.poll(*request).unwrap());
        assert!(e.poll(*request).is_err());
    }
    e.finish().unwrap();
}

#[test]
fn finish_waits_for_all() {
    let order = std::sync::Mutex::new(Vec::new());
    ranks(3, |mut e| {
        std::thread::sleep(Duration::from_millis(10 * e.rank() as u64));
        order.lock().unwrap().push(0);
        e.finish().unwrap();
        order.lock().unwrap().push(1);
    });
    assert_eq!(order.into_inner().unwrap(), [0, 0, 0, 1, 1, 1]);
}
