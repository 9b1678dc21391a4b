//! Recording and backward on many threads at once.

use std::sync::Barrier;

use crate::common::{fails, g, leaf, t, v};
use torsh_tensor::{Result, Tensor, TorshError, backward, checkpoint, grad, no_grad};

const THREADS: usize = 8;

/// Runs `f` on all threads at once and returns what they return.
fn on_all<T: Send>(f: impl Fn(usize) -> Result<T> + Sync) -> Vec<Result<T>> {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|s| {
        let handles: Vec<_> = (0..THREADS)
            .map(|k| {
                let (f, barrier) = (&f, &barrier);
                s.spawn(move || {
                    barrier.wait();
                    f(k)
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|h| h.join().expect("no panic"))
            .collect()
    })
}

fn all<T: Send>(f: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    on_all(f).into_iter().collect()
}

#[test]
fn one_graph_retained() -> Result<()> {
    let x = leaf(&[1., 2., 3.]);
    let w = leaf(&[4., 5., 6.]);
    let y = x.mul(&w)?;
    y.narrow(0, 0, 2)?.mul_(&w.narrow(0, 1, 2)?)?;
    let loss = y.mul(&y)?.sum()?;
    const ROUNDS: usize = 50;
    let want = crate::common::grads(&loss, &[&x, &w])?;
    all(|_| {
        for _ in 0..ROUNDS {
            let found = grad(
                &[loss.clone()],
                &[x.clone(), w.clone()],
                &[],
                true,
                false,
                false,
            )?;
            let found: Vec<_> = found.iter().flatten().map(v).collect();
            assert_eq!(found, want);
            loss.backward_with(None, true, false)?;
        }
        Ok(())
    })?;
    // Whole numbers: the sums are exact in any order.
    let times = (THREADS * ROUNDS) as f64;
    for (leaf, want) in [&x, &w].into_iter().zip(&want) {
        let want: Vec<f64> = want.iter().map(|v| v * times).collect();
        assert_eq!(g(leaf), want);
    }
    Ok(())
}

#[test]
fn one_graph_not_retained_is_run_once() -> Result<()> {
    for _ in 0..20 {
        let x = leaf(&[2.]);
        let y = x.exp()?;
        let done = on_all(|_| y.backward());
        assert_eq!(done.iter().filter(|r| r.is_ok()).count(), 1);
        for r in done.into_iter().filter(Result::is_err) {
            fails(r, &["a second time"]);
        }
        assert_eq!(g(&x), [2f64.exp()]);
    }
    Ok(())
}

#[test]
fn own_graphs_on_shared_leaves() -> Result<()> {
    let x = leaf(&[1., 2.]);
    const ROUNDS: usize = 200;
    all(|k| {
        for i in 0..ROUNDS {
            let factor = (k * ROUNDS + i) as f64;
            x.mul(factor)?.sum()?.backward()?;
        }
        Ok(())
    })?;
    let n = (THREADS * ROUNDS) as f64;
    assert_eq!(g(&x), [n * (n - 1.) / 2.; 2]);
    // Recorded sums, too.
    x.zero_grad();
    all(|_| {
        for _ in 0..20 {
            backward(&[x.mul(&x)?.sum()?], &[], true, true)?;
        }
        Ok(())
    })?;
    let n = (THREADS * 20) as f64;
    assert_eq!(g(&x), [2. * n, 4. * n]);
    let sum = x.grad().expect("a gradient");
    x.zero_grad();
    sum.sum()?.backward()?;
    assert_eq!(g(&x), [2. * n; 2]);
    Ok(())
}

#[test]
fn operands_in_every_order() -> Result<()> {
    // Calls that lock the same storages in different orders, for reading and for writing.
    let tensors: Vec<Tensor> = (0..4).map(|k| t(&[k as f64; 64])).collect();
    all(|k| {
        for i in 0..500 {
            let (a, b) = (&tensors[(k + i) % 4], &tensors[(k * 3 + i * 7 + 1) % 4]);
            match i % 4 {
                0 => a.add_(b)?,
                1 => a.copy_(b)?,
                2 => a.mul(b)?,
                _ => a.narrow(0, 0, 32)?.add_(&b.narrow(0, 32, 32)?)?,
            };
            a.mul_(0.0)?;
        }
        Ok(())
    })?;
    let counted: u64 = tensors.iter().map(Tensor::version).sum();
    // Three of four rounds write with the first op, all of them with the second.
    assert_eq!(counted, (THREADS * 500 + THREADS * 375) as u64);
    Ok(())
}

#[test]
fn sums_in_place_are_exact() -> Result<()> {
    let total = t(&[0.; 1000]);
    let views: Vec<Tensor> = (0..10)
        .map(|k| total.narrow(0, k * 100, 100))
        .collect::<Result<_>>()?;
    all(|_| {
        for _ in 0..100 {
            for view in &views {
                view.add_(1.0)?;
            }
            total.add_(1.0)?;
        }
        Ok(())
    })?;
    assert_eq!(v(&total), [2.0 * (THREADS * 100) as f64; 1000]);
    assert_eq!(total.version(), (THREADS * 100 * 11) as u64);
    Ok(())
}

#[test]
fn recording_in_place_on_one_tensor() -> Result<()> {
    // Every op either gets into the history whole or not at all: additions of leaves commute.
    let leaves: Vec<Tensor> = (0..THREADS).map(|k| leaf(&[k as f64])).collect();
    let y = t(&[0.]);
    let views: Vec<Tensor> = (0..THREADS)
        .map(|_| y.narrow(0, 0, 1))
        .collect::<Result<_>>()?;
    let done = on_all(|k| {
        for _ in 0..50 {
            views[k].detach().add_(&leaves[k].detach())?;
            views[k].mul(2.0)?;
        }
        Ok(())
    });
    assert!(done.iter().all(Result::is_ok));
    let sum: usize = (0..THREADS).sum();
    assert_eq!(v(&y), [(sum * 50) as f64]);
    Ok(())
}

#[test]
fn backward_while_leaves_are_read_and_written() -> Result<()> {
    let x = leaf(&[1.; 100]);
    let w = t(&[0.; 100]);
    all(|k| {
        for _ in 0..100 {
            match k % 4 {
                0 => x.add(&x)?.sum()?.backward()?,
                1 => {
                    if let Some(g) = x.grad() {
                        w.copy_(&g)?;
                    }
                }
                2 => {
                    no_grad(|| x.add_(1.0))?;
                }
                _ => {
                    let _ = x.sum()?.item::<f64>()?;
                }
            }
        }
        Ok(())
    })?;
    let fourth = (THREADS / 4) as f64;
    assert_eq!(g(&x), [200. * fourth; 100]);
    assert_eq!(v(&x), [1. + 100. * fourth; 100]);
    Ok(())
}

#[test]
fn a_graph_made_here_and_run_there() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(&x)?.sum()?;
    std::thread::spawn(move || y.backward())
        .join()
        .expect("no panic")?;
    assert_eq!(g(&x), [2., 4.]);
    // Checkpoints compute again on the thread of the backward pass.
    let inner = x.clone();
    let y = checkpoint(move || inner.mul(&inner)?.mul(&inner)?.sum())?;
    x.zero_grad();
    all(|_| y.backward_with(None, true, false))?;
    let n = THREADS as f64;
    assert_eq!(g(&x), [3. * n, 12. * n]);
    Ok(())
}

#[test]
fn errors_stay_on_their_thread() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let done = on_all(|k| {
        if k % 2 == 0 {
            return Err(TorshError::Other("boom".into()));
        }
        x.mul(2.0)?.sum()?.backward()
    });
    for (k, r) in done.into_iter().enumerate() {
        assert_eq!(r.is_ok(), k % 2 == 1);
    }
    assert_eq!(g(&x), [THREADS as f64; 2]);
    Ok(())
}
