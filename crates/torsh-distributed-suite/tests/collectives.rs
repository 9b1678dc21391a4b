//! The checks of collectives on threads, and what happens when something goes wrong.

use std::time::Duration;

use torsh_distributed::{
    ProcessGroup, ReduceOp, barrier, destroy, fake, flight_record, init_from_env, spawn,
};
use torsh_distributed_suite::collectives::{LARGE, all_values, reduced, run, same, values};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, tensor};

#[test]
fn one_rank() -> Result<()> {
    spawn(1, |g| run(&g)).map(|_| ())
}

#[test]
fn two_ranks() -> Result<()> {
    spawn(2, |g| run(&g)).map(|_| ())
}

#[test]
fn three_ranks() -> Result<()> {
    spawn(3, |g| run(&g)).map(|_| ())
}

#[test]
fn four_ranks() -> Result<()> {
    spawn(4, |g| run(&g)).map(|_| ())
}

#[test]
fn more_ranks_than_write_to_one_another() -> Result<()> {
    spawn(18, |g| {
        broadcast_few(&g)?;
        reductions_few(&g)?;
        gathers_few(&g)
    })
    .map(|_| ())
}

fn broadcast_few(g: &ProcessGroup) -> Result<()> {
    for n in [0, 7, 70_000] {
        let t = values(g.rank(), n, DType::F32)?;
        g.broadcast_(&t, 17)?;
        same("broadcast", &t, &values(17, n, DType::F32)?)?;
    }
    Ok(())
}

fn reductions_few(g: &ProcessGroup) -> Result<()> {
    for n in [0, 7, 5000] {
        let all = all_values(g, n, DType::F32)?;
        let t = all[g.rank()].copy()?;
        g.all_reduce_(&t, ReduceOp::Sum)?;
        same("all_reduce", &t, &reduced(&all, ReduceOp::Sum)?)?;
        let t = all[g.rank()].copy()?;
        g.reduce_(&t, 3, ReduceOp::Avg)?;
        if g.rank() == 3 {
            same("reduce", &t, &reduced(&all, ReduceOp::Avg)?)?;
        }
        let wide = all_values(g, 18 * n, DType::F32)?;
        let out = Tensor::zeros(&[n], DType::F32, Device::Cpu)?;
        g.reduce_scatter_(&out, &wide[g.rank()], ReduceOp::Sum)?;
        let expected = reduced(&wide, ReduceOp::Sum)?.narrow(0, g.rank() * n, n)?;
        same("reduce_scatter", &out, &expected)?;
    }
    Ok(())
}

fn gathers_few(g: &ProcessGroup) -> Result<()> {
    for n in [0, 7, 5000] {
        for (r, t) in g
            .all_gather(&values(g.rank(), n + g.rank(), DType::F32)?)?
            .iter()
            .enumerate()
        {
            same("all_gather", t, &values(r, n + r, DType::F32)?)?;
        }
    }
    let objects = g.all_gather_object(&g.rank())?;
    assert_eq!(objects, (0..18).collect::<Vec<_>>());
    g.barrier()
}

/// The error of a run that must fail.
fn error_of<T: Send>(n: usize, f: impl Fn(ProcessGroup) -> Result<T> + Send + Sync) -> String {
    match spawn(n, f) {
        Ok(_) => panic!("this must fail"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn different_shapes_are_named_on_both_sides() {
    let seen = parking_lot::Mutex::new(Vec::new());
    let e = error_of(3, |g| {
        let e = g.all_reduce_(
            &values(g.rank(), 4 + g.rank() / 2, DType::F32)?,
            ReduceOp::Sum,
        );
        let e = e.expect_err("the shapes differ");
        seen.lock().push(e.to_string());
        // All ranks see it before the first one gives up.
        while seen.lock().len() < 3 {
            std::thread::yield_now();
        }
        let again = g.barrier().expect_err("the group has failed");
        assert!(again.to_string().contains("has failed"), "{again}");
        Err::<(), _>(e)
    });
    for e in seen.into_inner().iter().chain([&e]) {
        assert!(e.contains("rank 0 all_reduce(sum) #1 float32[4]"), "{e}");
        assert!(e.contains("rank 2 all_reduce(sum) #1 float32[5]"), "{e}");
        assert!(
            e.contains("collectives.rs") && e.contains("flight record"),
            "{e}"
        );
    }
}

#[test]
fn different_operations_are_named() {
    let e = error_of(2, |g| match g.rank() {
        0 => g.all_reduce_(&tensor![1.0], ReduceOp::Sum).map(|_| ()),
        _ => g.barrier(),
    });
    assert!(
        e.contains("all_reduce(sum) #1 float32[1]") && e.contains("barrier #1"),
        "{e}"
    );
    let e = error_of(2, |g| {
        g.broadcast_(
            &tensor![1.0].to_dtype(if g.rank() == 0 {
                DType::F32
            } else {
                DType::F64
            })?,
            0,
        )
    });
    assert!(e.contains("float32[1]") && e.contains("float64[1]"), "{e}");
    let e = error_of(2, |g| match g.rank() {
        0 => g.send(&tensor![1.0, 2.0], 1),
        _ => g.recv_(&tensor![1.0, 2.0, 3.0], 0).map(|_| ()),
    });
    assert!(e.contains("float32[2]") && e.contains("float32[3]"), "{e}");
}

#[test]
fn a_rank_that_does_not_come_is_named_with_its_place() {
    let begun = std::time::Instant::now();
    let e = error_of(3, |g| {
        g.all_reduce_(&tensor![1], ReduceOp::Sum)?;
        g.set_timeout(Duration::from_millis(300));
        if g.rank() == 1 {
            std::thread::sleep(Duration::from_secs(2));
            return Ok(());
        }
        g.all_reduce_(&values(0, 100, DType::F32)?, ReduceOp::Avg)
            .map(|_| ())
    });
    assert!(e.contains("all_reduce(avg) #2 float32[100]"), "{e}");
    let place = "rank 1 did not come: its last operation of the group is all_reduce(sum) #1 int64[1] (done), called at ";
    assert!(e.contains(place) && e.contains("collectives.rs"), "{e}");
    assert!(
        !e.contains("rank 2 did not") && !e.contains("rank 0 did not"),
        "{e}"
    );
    assert!(begun.elapsed() < Duration::from_secs(6));
}

#[test]
fn a_message_that_nobody_receives_has_a_deadline() {
    let e = error_of(2, |g| {
        g.set_timeout(Duration::from_millis(200));
        match g.rank() {
            0 => g.recv_(&tensor![0.0], 1).map(|_| ()),
            _ => {
                std::thread::sleep(Duration::from_millis(1500));
                Ok(())
            }
        }
    });
    assert!(e.contains("recv(src 1, tag 0) #1 float32[1]"), "{e}");
    assert!(
        e.contains("it has called nothing on the group world"),
        "{e}"
    );
}

#[test]
fn errors_and_panics_end_the_others() {
    let e = error_of(3, |g| match g.rank() {
        1 => Err::<(), _>(TorshError::invalid("step", "the loss is NaN")),
        _ => g.barrier(),
    });
    assert!(e.starts_with("step: the loss is NaN (rank 1)"), "{e}");
    let e = error_of(2, |g| match g.rank() {
        0 => panic!("out of luck"),
        _ => g.all_reduce_(&values(1, LARGE, DType::F32)?, ReduceOp::Sum),
    });
    assert!(e.contains("rank 0 panicked: out of luck"), "{e}");
}

#[test]
fn a_monitored_barrier_names_who_is_missing() {
    let e = error_of(3, |g| match g.rank() {
        2 => {
            std::thread::sleep(Duration::from_millis(700));
            Ok(())
        }
        _ => g.monitored_barrier(Duration::from_millis(200)),
    });
    assert!(e.contains("the ranks [2] did not come"), "{e}");
}

#[test]
fn the_record_and_the_figures_tell_what_was_done() -> Result<()> {
    spawn(2, |g| {
        let t = values(g.rank(), 100_000, DType::F32)?;
        g.all_reduce_(&t, ReduceOp::Sum)?;
        g.all_gather(&values(0, 10, DType::F32)?)?;
        let record = flight_record()?;
        let kinds: Vec<&str> = record.iter().map(|e| e.kind.as_str()).collect();
        assert_eq!(kinds, ["all_reduce", "shapes", "all_gather"]);
        assert!(
            record
                .iter()
                .all(|e| e.state == "done" && e.ended_us > e.started_us)
        );
        assert!(
            record[0].caller.contains("collectives.rs"),
            "{}",
            record[0].caller
        );
        let stats = g.stats();
        assert_eq!(stats.kinds["all_reduce"].bytes_sent, 400_000);
        assert_eq!(stats.kinds["all_reduce"].bytes_received, 400_000);
        assert_eq!(stats.kinds["all_gather"].bytes_sent, 40);
        assert_eq!(stats.operations, 3);
        Ok(())
    })
    .map(|_| ())
}

#[test]
fn a_fake_rank_counts_as_a_real_one() -> Result<()> {
    let work = |g: &ProcessGroup, device: Device| -> Result<()> {
        let n = g.size();
        for len in [1, 5000, 70_000] {
            let t = Tensor::zeros(&[len], DType::F32, device)?;
            g.all_reduce_(&t, ReduceOp::Sum)?;
            g.reduce_(&t, 1, ReduceOp::Sum)?;
            g.broadcast_(&t, 0)?;
            let wide = Tensor::zeros(&[n * len], DType::F32, device)?;
            g.all_gather_into_(&wide, &t)?;
            g.reduce_scatter_(&t, &wide, ReduceOp::Sum)?;
            g.all_to_all_single_(&wide, &Tensor::zeros(&[n * len], DType::F32, device)?)?;
            g.gather(&t, 0)?;
        }
        g.barrier()
    };
    for n in [2, 3, 17] {
        let real = spawn(n, |g| {
            work(&g, Device::Cpu)?;
            Ok(g.stats())
        })?;
        for rank in [0, 1] {
            for device in [Device::Cpu, Device::Meta] {
                let g = fake(rank, n)?;
                work(&g, device)?;
                assert_eq!(g.stats(), real[rank], "rank {rank} of {n}, {device}");
            }
        }
    }
    Ok(())
}

#[test]
fn large_groups_of_fake_ranks_are_quick() -> Result<()> {
    let g = fake(5, 1024)?;
    let t = Tensor::zeros(&[1 << 20], DType::BF16, Device::Meta)?;
    for _ in 0..20 {
        g.all_reduce_(&t, ReduceOp::Sum)?;
    }
    assert_eq!(g.stats().bytes_sent, 20 * 2 * (1 << 21) / 1024 * 1023);
    let e = g
        .all_reduce_(&values(0, 3, DType::F32)?, ReduceOp::BOr)
        .expect_err("floats");
    assert!(e.to_string().contains("bor"), "{e}");
    Ok(())
}

#[test]
fn nothing_is_left_after_the_end() -> Result<()> {
    const CHILD: &str = "TORSH_TEST_NOTHING_LEFT";
    if std::env::var_os(CHILD).is_none() {
        // Other tests run beside this one: it counts in a process of its own.
        let name = "collectives::nothing_is_left_after_the_end";
        let child = std::process::Command::new(std::env::current_exe()?)
            .args(["--exact", name, "--test-threads", "1"])
            .env(CHILD, "1")
            .output()?;
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(
            child.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return Ok(());
    }
    let rounds = |n: usize| -> Result<(usize, usize)> {
        for _ in 0..n {
            spawn(2, |g| {
                g.all_reduce_(&values(g.rank(), 70_000, DType::F32)?, ReduceOp::Sum)?;
                g.barrier()
            })?;
            fake(0, 8)?.barrier()?;
            init_from_env()?;
            barrier()?;
            destroy()?;
        }
        let list = |p: &str| std::fs::read_dir(p).map(|d| d.count()).unwrap_or(0);
        Ok((list("/proc/self/task"), list("/proc/self/fd")))
    };
    let before = rounds(2)?;
    assert_eq!(rounds(10)?, before, "threads and descriptors");
    Ok(())
}

#[test]
fn a_small_reduction_is_quick() -> Result<()> {
    let times = spawn(2, |g| {
        let t = tensor![1.0];
        for _ in 0..50 {
            g.all_reduce_(&t, ReduceOp::Max)?;
        }
        let mut best = f64::MAX;
        for _ in 0..20 {
            let begun = std::time::Instant::now();
            for _ in 0..50 {
                g.all_reduce_(&t, ReduceOp::Max)?;
            }
            best = best.min(begun.elapsed().as_secs_f64() / 50.0);
        }
        Ok(best)
    })?;
    println!("all_reduce of 4 bytes: {:.1} us", times[0] * 1e6);
    Ok(())
}
