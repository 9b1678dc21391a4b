//! Checkpoints: the same values, less memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{fails, g, leaf, recorded_grad, t, v};
use torsh_core::{alloc, random};
use torsh_tensor::{
    BatchNormOptions, DType, Device, EmbeddingOptions, Result, Tensor, checkpoint,
    checkpoint_sequential, detect_anomaly, grad, no_grad,
};

#[test]
fn the_same_values() -> Result<()> {
    let f = |x: &Tensor, w: &Tensor| -> Result<Tensor> {
        let h = x.sin()?.mul(w)?.exp()?.mul(2.0)?;
        h.narrow(0, 0, 1)?.mul_(&w.narrow(0, 1, 1)?)?;
        h.div(&h.add(w)?)
    };
    let (x, w) = (leaf(&[0.5, -1.5]), leaf(&[0.3, 0.8]));
    let (a, b) = (x.clone(), w.clone());
    let y = checkpoint(move || f(&a, &b))?;
    assert_eq!(v(&y), v(&f(&x, &w)?));
    y.sum()?.backward()?;
    let (gx, gw) = (g(&x), g(&w));
    x.zero_grad();
    w.zero_grad();
    f(&x, &w)?.sum()?.backward()?;
    assert_eq!((gx, gw), (g(&x), g(&w)));
    Ok(())
}

#[test]
fn higher_orders() -> Result<()> {
    let x = leaf(&[0.7]);
    let inner = x.clone();
    let y = checkpoint(move || inner.pow(3.0)?.sin())?;
    let first = recorded_grad(&y, &x)?;
    let second = recorded_grad(&first, &x)?;
    let (c, u) = (0.7f64, 0.7f64.powi(3));
    crate::common::close(&v(&first), &[u.cos() * 3. * c * c], 1e-14);
    crate::common::close(
        &v(&second),
        &[6. * c * u.cos() - 9. * c.powi(4) * u.sin()],
        1e-14,
    );
    Ok(())
}

/// A function that counts its runs.
fn counted(
    x: &Tensor,
) -> (
    Arc<AtomicUsize>,
    impl Fn() -> Result<Tensor> + Send + Sync + 'static,
) {
    let runs = Arc::new(AtomicUsize::new(0));
    let (x, inner) = (x.clone(), runs.clone());
    (runs, move || {
        inner.fetch_add(1, Ordering::SeqCst);
        x.sin()?.exp()?.sum()
    })
}

#[test]
fn passes_over_one_checkpoint() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let (runs, f) = counted(&x);
    let y = checkpoint(f)?;
    y.backward_with(None, true, false)?;
    let once = g(&x);
    y.backward()?;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(g(&x), [2. * once[0], 2. * once[1]]);
    fails(y.backward(), &["a second time", "retain_graph"]);
    // Never run again where nothing is asked for.
    let (runs, f) = counted(&x);
    drop(checkpoint(f)?);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let (runs, f) = counted(&x);
    let y = no_grad(|| checkpoint(f))?;
    assert!(!y.requires_grad() && runs.load(Ordering::SeqCst) == 1);
    Ok(())
}

#[test]
fn memory_is_not_kept() -> Result<()> {
    // Blocks of this size are counted exactly; other tests of this file use small ones.
    let n = 4 << 20;
    let x = Tensor::ones([n], DType::F32, Device::Cpu)?.requires_grad_(true);
    let chain = |x: &Tensor| -> Result<Tensor> {
        let mut y = x.clone();
        for _ in 0..8 {
            y = y.sin()?;
        }
        y.sum()
    };
    let used = || alloc::stats().allocated_bytes;
    let megabytes = |from: usize| (used().saturating_sub(from)) >> 20;
    let before = used();
    let y = chain(&x)?;
    let kept = megabytes(before);
    // The operands of the second to eighth sine; the first one's is x. Other tests may have given
    // back some small blocks meanwhile.
    assert!((7 * 16 - 8..9 * 16).contains(&kept), "{kept} MiB");
    drop(y);
    assert!(megabytes(before) < 8);
    let inner = x.clone();
    let y = checkpoint(move || chain(&inner))?;
    assert!(megabytes(before) < 8, "{} MiB", megabytes(before));
    y.backward()?;
    let mut want = 1f64;
    let mut slope = 1f64;
    for _ in 0..8 {
        slope *= want.cos();
        want = want.sin();
    }
    let got = x
        .grad()
        .expect("a gradient")
        .select(0, n as i64 - 1)?
        .item::<f32>()?;
    assert!((got as f64 - slope).abs() < 1e-6);
    // What backward computed again is gone; the gradient is left.
    x.zero_grad();
    assert!(megabytes(before) < 8, "{} MiB", megabytes(before));
    Ok(())
}

#[test]
fn random_numbers_repeat() -> Result<()> {
    let _own = random::LocalGenerator::new(7).enter();
    let x = Tensor::ones([1000], DType::F64, Device::Cpu)?.requires_grad_(true);
    let inner = x.clone();
    let y = checkpoint(move || inner.dropout(0.5, true)?.mul(&inner))?;
    let next = Tensor::rand([3], DType::F64, Device::Cpu)?;
    let after = random::default_generator().get_state();
    y.sum()?.backward()?;
    // y = m x^2 at x = 1, with a mask of 0 and 2: the gradient is twice the value.
    let values = v(&y);
    assert!(values.contains(&0.0) && values.contains(&2.0));
    let twice: Vec<f64> = values.iter().map(|v| 2. * v).collect();
    assert_eq!(g(&x), twice);
    // The second run leaves no trace in the generator, and the first one did.
    assert_eq!(random::default_generator().get_state(), after);
    random::manual_seed(7);
    x.detach().dropout(0.5, true)?;
    assert_eq!(v(&Tensor::rand([3], DType::F64, Device::Cpu)?), v(&next));
    Ok(())
}

#[test]
fn nested_checkpoints() -> Result<()> {
    let x = leaf(&[0.4, 0.9]);
    let outer = x.clone();
    let y = checkpoint(move || {
        let h = outer.sin()?;
        let inner = h.clone();
        let z = checkpoint(move || inner.exp()?.cos())?;
        z.mul(&h)
    })?;
    let loss = y.sum()?;
    loss.backward_with(None, true, false)?;
    let plain = {
        let h = x.sin()?;
        h.exp()?.cos()?.mul(&h)?
    };
    let want = crate::common::grads(&plain, &[&x])?;
    assert_eq!(g(&x), want[0]);
    // And one after the other.
    let inner = y.clone();
    let z = checkpoint(move || inner.exp()?.mul(&inner))?;
    let want = crate::common::grads(&plain.exp()?.mul(&plain)?, &[&x])?;
    assert_eq!(crate::common::grads(&z, &[&x])?, want);
    Ok(())
}

#[test]
fn gradients_taken_inside() -> Result<()> {
    // A penalty on the gradient: (dy/dx)^2 of y = x^3.
    let x = leaf(&[2.]);
    let inner = x.clone();
    let penalty = move || {
        let y = inner.pow(3.0)?;
        let g = grad(&[y], &[inner.clone()], &[], true, true, false)?;
        let g = g[0].clone().expect("used");
        g.mul(&g)
    };
    let loss = checkpoint(penalty)?;
    assert_eq!(v(&loss), [144.]);
    loss.backward()?;
    // d(9 x^4)/dx.
    crate::common::close(&g(&x), &[288.], 1e-14);
    Ok(())
}

#[test]
fn histories_of_views_made_late() -> Result<()> {
    // The view learns of its base's change inside of the first run, and not in the second.
    let x = leaf(&[1., 2.]);
    let y = x.mul(1.0)?;
    let view = y.narrow(0, 1, 1)?;
    y.mul_(3.0)?;
    let z = checkpoint(move || view.mul(&view)?.exp())?;
    z.sum()?.backward()?;
    crate::common::close(&g(&x), &[0., 36f64.exp() * 36.], 1e-14);
    Ok(())
}

#[test]
fn functions_that_change_are_errors() -> Result<()> {
    let again = "the function did not run the same ops the second time";
    let x = leaf(&[1., 2.]);
    let changing = |second: fn(&Tensor) -> Result<Tensor>| -> Result<()> {
        let runs = AtomicUsize::new(0);
        let inner = x.clone();
        let y = checkpoint(move || {
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                inner.sin()?.exp()
            } else {
                second(&inner)
            }
        })?;
        y.sum()?.backward()
    };
    fails(changing(|x| x.sin()), &["checkpoint", again]);
    fails(
        changing(|x| Tensor::cat(&[x, x], 0)?.sin()?.exp()),
        &[again],
    );
    fails(changing(|x| x.narrow(0, 0, 1)?.sin()?.exp()), &[again]);
    fails(changing(|x| x.to_dtype(DType::F32)?.sin()?.exp()), &[again]);
    fails(
        changing(|_| Err(torsh_tensor::TorshError::Other("boom".into()))),
        &["boom"],
    );
    changing(|x| x.sin()?.exp())?;
    Ok(())
}

#[test]
fn anomalies_inside() -> Result<()> {
    let x = leaf(&[0.]);
    let inner = x.clone();
    let line = line!() + 1;
    let y = checkpoint(move || inner.sqrt()?.mul(0.0))?;
    fails(
        detect_anomaly(|| y.backward()),
        &["SqrtBackward0", "nan", &format!("checkpoint.rs:{line}")],
    );
    let y = t(&[1.]);
    assert!(!checkpoint(move || y.mul(2.0))?.requires_grad());
    Ok(())
}

/// What an in-place write to something that was read for backward is told as.
const MODIFIED: [&str; 2] = ["modified by an inplace operation", "[float64[2]]"];

/// The error of a checkpoint's backward pass after `change` was made to what its function reads.
#[track_caller]
fn refused(
    f: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
    change: impl Fn(&Tensor) -> Result<Tensor>,
    versions: [u64; 2],
) {
    let run = || -> Result<()> {
        let x = leaf(&[2., 3.]).mul(1.0)?;
        let inner = x.clone();
        let y = checkpoint(move || f(&inner))?;
        no_grad(|| change(&x))?;
        y.sum()?.backward()
    };
    let [now, expected] = versions;
    let versions = format!("is at version {now}; expected version {expected} instead");
    fails(run(), &[MODIFIED[0], MODIFIED[1], &versions, "copy()"]);
}

#[test]
fn what_is_read_must_not_change_before_backward() -> Result<()> {
    // What is saved, what is read alone, and what is not even recorded.
    refused(|x| x.mul(x), |x| x.add_(1.0), [1, 0]);
    refused(Tensor::exp, |x| x.add_(1.0), [1, 0]);
    refused(|x| x.exp()?.mul(2.0), |x| x.zero_(), [1, 0]);
    refused(
        |x| x.mul(&x.detach())?.sin(),
        |x| x.narrow(0, 0, 1)?.fill_(5.0),
        [1, 0],
    );
    refused(
        |x| {
            let scale = no_grad(|| x.abs())?;
            leaf(&[1., 1.]).mul(&scale)?.add(x)
        },
        |x| x.mul_(2.0),
        [1, 0],
    );
    // Another view of the same memory.
    refused(
        |x| x.narrow(0, 0, 2)?.sin(),
        |x| x.detach().mul_(2.0),
        [1, 0],
    );
    // By the function itself, in each of its runs.
    let moves = |x: &Tensor| no_grad(|| x.add_(1.0));
    refused(move |x| moves(x)?.mul(x), |x| Ok(x.clone()), [2, 1]);
    refused(move |x| moves(x)?.exp(), |x| Ok(x.clone()), [2, 1]);
    // In a nested checkpoint, and in a segment of a sequence.
    refused(
        |x| {
            let inner = x.clone();
            checkpoint(move || inner.mul(&inner))?.sin()
        },
        |x| x.add_(1.0),
        [1, 0],
    );
    let x = leaf(&[2., 3.]).mul(1.0)?;
    let y = checkpoint_sequential([Tensor::square, Tensor::sin, Tensor::exp], 2, &x)?;
    no_grad(|| x.add_(1.0))?;
    fails(y.sum()?.backward(), &MODIFIED);
    Ok(())
}

#[test]
fn a_checkpoint_allows_what_changes_no_gradient() -> Result<()> {
    // What it makes and changes itself.
    let x = leaf(&[2., 3.]);
    let inner = x.clone();
    let f = |x: &Tensor| {
        let h = x.mul(2.0)?;
        h.add_(1.0)?;
        h.mul(&h)
    };
    checkpoint(move || f(&inner))?.sum()?.backward()?;
    assert_eq!(g(&x), [20., 28.]);
    // A change of its result, of a copy, and one before the first run.
    let w = leaf(&[2., 3.]);
    let x = w.mul(1.0)?;
    no_grad(|| x.mul_(1.0))?;
    let copy = x.copy()?;
    let y = checkpoint(move || copy.square()?.mul(1.0))?;
    no_grad(|| {
        y.add_(1.0)?;
        x.add_(1.0)
    })?;
    y.sum()?.backward()?;
    assert_eq!(g(&w), [4., 6.]);
    // A change after backward, of a retained graph: the values that the first pass computed are compared.
    let w = leaf(&[2., 3.]);
    let x = w.mul(1.0)?;
    let inner = x.clone();
    let y = checkpoint(move || inner.mul(&inner))?.sum()?;
    y.backward_with(None, true, false)?;
    no_grad(|| x.add_(1.0))?;
    fails(y.backward(), &MODIFIED);
    assert_eq!(g(&w), [4., 6.]);
    Ok(())
}

#[test]
fn statistics_of_training_may_move() -> Result<()> {
    // Two calls before their backward, as of a layer that is used twice.
    let (mean, var) = (t(&[0., 0.]), t(&[1., 1.]));
    let x = leaf(&[1., 10., 3., 40.]);
    let call = |x: &Tensor| -> Result<Tensor> {
        let (x, mean, var) = (x.reshape([2, 2])?, mean.clone(), var.clone());
        checkpoint(move || {
            let options = BatchNormOptions::new().training(true);
            x.batch_norm_with(&mean, &var, options)?.pow(3.0)
        })
    };
    let (a, b) = (call(&x)?, call(&x.mul(2.0)?)?);
    a.add(&b)?
        .mul(&t(&[1., 2., 3., 5.]).reshape([2, 2])?)?
        .sum()?
        .backward()?;
    let got = g(&x);
    x.zero_grad();
    let plain = |x: &Tensor| {
        let options = BatchNormOptions::new().training(true);
        x.reshape([2, 2])?
            .batch_norm_with(None, None, options)?
            .pow(3.0)
    };
    let y = plain(&x)?.add(&plain(&x.mul(2.0)?)?)?;
    y.mul(&t(&[1., 2., 3., 5.]).reshape([2, 2])?)?
        .sum()?
        .backward()?;
    crate::common::close(&got, &g(&x), 1e-12);
    // Each run moves them, as in PyTorch: twice by [2, 25], twice by [4, 50].
    let moved = [2., 4., 4., 2.].iter().fold(0., |m, x| 0.9 * m + 0.1 * x);
    crate::common::close(&v(&mean)[..1], &[moved], 1e-12);
    // Rows that an embedding scales down stay as the first run left them.
    let w = leaf(&[3., 4., 0.3, 0.4]);
    let weight = w.mul(1.0)?.reshape([2, 2])?;
    let inner = weight.clone();
    let y = checkpoint(move || {
        let index = crate::common::ints(&[0, 1, 0]);
        inner
            .embedding_with(&index, EmbeddingOptions::new().max_norm(1.0))?
            .square()
    })?;
    y.sum()?.backward()?;
    let want: Vec<f64> = v(&weight)
        .iter()
        .zip([4., 4., 2., 2.])
        .map(|(w, n)| n * w)
        .collect();
    crate::common::close(&g(&w), &want, 1e-12);
    crate::common::close(&want[..2], &[2.4, 3.2], 1e-6);
    Ok(())
}
