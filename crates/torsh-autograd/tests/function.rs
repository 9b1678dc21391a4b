//! Functions whose derivative their author writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{fails, g, grads, leaf, recorded_grad, t, v};
use torsh_autograd::{Context, Function, apply, gradcheck, gradgradcheck};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, no_grad};

fn first(grads: &[Option<Tensor>], i: usize) -> Result<&Tensor> {
    grads[i]
        .as_ref()
        .ok_or_else(|| TorshError::Other(format!("gradient {i} is missing")))
}

/// `x * y` and `x + y`.
struct Two;

impl Function for Two {
    fn forward(&self, cx: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
        cx.save_for_backward(&[&x[0], &x[1]]);
        Ok(vec![x[0].mul(&x[1])?, x[0].add(&x[1])?])
    }

    fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let (g, h) = (first(grads, 0)?, first(grads, 1)?);
        Ok(vec![
            Some(g.mul(&saved[1])?.add(h)?),
            Some(g.mul(&saved[0])?.add(h)?),
        ])
    }
}

#[test]
fn several_operands_and_results() -> Result<()> {
    let (x, y) = (leaf(&[2., 3.]), leaf(&[5., 7.]));
    let out = apply(Two, &[&x, &y])?;
    assert_eq!((v(&out[0]), v(&out[1])), (vec![10., 21.], vec![7., 10.]));
    assert_eq!(out[0].grad_fn().expect("recorded").name(), "TwoBackward");
    let both = out[0].mul(10.0)?.add(&out[1])?;
    assert_eq!(grads(&both, &[&x, &y])?, [[51., 71.], [21., 31.]]);
    // A result without gradient counts as zeros.
    assert_eq!(grads(&out[1], &[&x, &y])?, [[1., 1.], [1., 1.]]);
    // In-place on one of the results: recorded as on any tensor.
    out[0].mul_(2.0)?;
    assert_eq!(grads(&out[0], &[&x, &y])?, [[10., 14.], [4., 6.]]);
    // Constants need no gradient, and nothing is recorded without recording.
    let out = apply(Two, &[&x, &t(&[1., 1.])])?;
    assert_eq!(grads(&out[0], &[&x])?, [[1., 1.]]);
    let out = no_grad(|| apply(Two, &[&x, &y]))?;
    assert!(!out[0].requires_grad() && out[0].grad_fn().is_none());
    assert_eq!(v(&out[0]), [10., 21.]);
    Ok(())
}

#[test]
fn derivatives_of_every_order() -> Result<()> {
    let (x, y) = (leaf(&[0.3, 1.2]), leaf(&[0.7, -0.4]));
    let f = |x: &[Tensor]| apply(Two, &[&x[0], &x[1]]);
    assert!(gradcheck(f, &[x.clone(), y.clone()])?);
    assert!(gradgradcheck(f, &[x, y])?);
    // Through a saved result: s' = s (1 - s).
    let x = leaf(&[0.5]);
    let s = apply(Sigmoid, &[&x])?.remove(0);
    let first = recorded_grad(&s, &x)?;
    let second = recorded_grad(&first, &x)?;
    let third = recorded_grad(&second, &x)?;
    let p = 1.0 / (1.0 + (-0.5f64).exp());
    crate::common::close(&v(&first), &[p * (1. - p)], 1e-14);
    crate::common::close(&v(&second), &[p * (1. - p) * (1. - 2. * p)], 1e-14);
    crate::common::close(
        &v(&third),
        &[p * (1. - p) * (1. - 6. * p + 6. * p * p)],
        1e-14,
    );
    Ok(())
}

struct Sigmoid;

impl Function for Sigmoid {
    fn forward(&self, cx: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
        let s = x[0].neg()?.exp()?.add(1.0)?.reciprocal()?;
        cx.save_for_backward(&[&s]);
        Ok(vec![s])
    }

    fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let s = &saved[0];
        let one_minus = s.neg()?.add(1.0)?;
        Ok(vec![Some(first(grads, 0)?.mul(s)?.mul(&one_minus)?)])
    }
}

#[test]
fn saved_tensors_are_watched_and_freed() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(1.0)?;
    let out = apply(Two, &[&y, &y])?;
    y.add_(1.0)?;
    fails(
        out[0].sum()?.backward(),
        &[
            "modified by an inplace operation",
            "TwoBackward",
            "version 1; expected version 0",
        ],
    );
    let s = apply(Sigmoid, &[&x])?.remove(0);
    s.mul_(2.0)?;
    fails(
        s.sum()?.backward(),
        &["modified by an inplace operation", "SigmoidBackward"],
    );
    let s = apply(Sigmoid, &[&x])?.remove(0).sum()?;
    s.backward()?;
    fails(s.backward(), &["a second time", "retain_graph"]);
    Ok(())
}

/// A function made of two closures' worth of behaviour.
struct Odd {
    forward: fn(&[Tensor]) -> Result<Vec<Tensor>>,
    backward: fn(&[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>,
}

impl Function for Odd {
    fn forward(&self, _: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
        (self.forward)(x)
    }

    fn backward(&self, grads: &[Option<Tensor>], _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        (self.backward)(grads)
    }
}

#[test]
fn wrong_gradients_are_errors() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let run = |backward: fn(&[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>| -> Result<Vec<f64>> {
        let forward = |x: &[Tensor]| Ok(vec![x[0].mul(3.0)?]);
        let y = apply(Odd { forward, backward }, &[&x, &x])?.remove(0);
        x.zero_grad();
        y.sum()?.backward()?;
        Ok(g(&x))
    };
    fails(
        run(|g| Ok(g.to_vec())),
        &["Odd", "returned 1 gradients for 2 operands"],
    );
    fails(
        run(|g| Ok(vec![g[0].clone(), Some(t(&[1., 1., 1.]))])),
        &["Odd", "float64[3]", "operand 1 of shape [2]"],
    );
    fails(
        run(|g| Ok(vec![g[0].clone(), Some(t(&[1.]))])),
        &["Odd", "float64[1]", "operand 1 of shape [2]"],
    );
    fails(run(|_| Err(TorshError::Other("boom".into()))), &["boom"]);
    // Nothing, a gradient that broadcasting made larger, one of another dtype: made to fit.
    assert_eq!(run(|g| Ok(vec![g[0].clone(), None]))?, [1., 1.]);
    assert_eq!(
        run(|g| {
            let wide = Tensor::ones([3, 2], DType::F64, Device::Cpu)?;
            Ok(vec![g[0].clone(), Some(wide)])
        })?,
        [4., 4.]
    );
    assert_eq!(
        run(|g| Ok(vec![
            g[0].clone(),
            Some(Tensor::from_data(&[5.0f32, 6.0], [2])?)
        ]))?,
        [6., 7.]
    );
    Ok(())
}

#[test]
fn an_operand_handed_on() -> Result<()> {
    let times_ten = |g: &[Option<Tensor>]| Ok(vec![Some(first(g, 0)?.mul(10.0)?)]);
    let same = || Odd {
        forward: |x| Ok(vec![x[0].clone()]),
        backward: times_ten,
    };
    let x = leaf(&[1., 2.]);
    let y = apply(same(), &[&x])?.remove(0);
    assert!(!y.is_same(&x) && !y.is_leaf() && y.shares_storage(&x) && x.is_leaf());
    assert_eq!(grads(&y, &[&x])?, [[10., 10.]]);
    // Written in place, the function's derivative would be gone around.
    let base = x.mul(1.0)?;
    let y = apply(same(), &[&base])?.remove(0);
    fails(
        y.mul_(2.0),
        &[
            "view",
            "created inside a custom Function",
            "modified inplace",
        ],
    );
    let tail = Odd {
        forward: |x| Ok(vec![x[0].narrow(0, 1, 1)?]),
        backward: |g| {
            Ok(vec![Some(Tensor::cat(
                &[t(&[0.]), first(g, 0)?.mul(10.0)?],
                0,
            )?)])
        },
    };
    let z = apply(tail, &[&base])?.remove(0);
    assert_eq!(grads(&z, &[&x])?, [[0., 10.]]);
    fails(z.mul_(2.0), &["created inside a custom Function"]);
    base.mul_(2.0)?;
    fails(
        y.sum(),
        &[
            "created inside a custom Function",
            "base",
            "modified inplace",
        ],
    );
    assert_eq!(v(&y.detach()), [2., 4.]);
    Ok(())
}

/// The larger of two numbers, and which one it is.
struct Larger;

impl Function for Larger {
    fn forward(&self, cx: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
        let second = x[1].gt(&x[0])?.to_dtype(DType::F64)?;
        cx.mark_non_differentiable(1);
        cx.save_for_backward(&[&second]);
        Ok(vec![x[0].maximum(&x[1])?, second])
    }

    fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let g = first(grads, 0)?;
        let second = g.mul(&saved[0])?;
        Ok(vec![Some(g.sub(&second)?), Some(second)])
    }
}

#[test]
fn results_without_derivative() -> Result<()> {
    let (x, y) = (leaf(&[1., 5.]), leaf(&[2., 3.]));
    let out = apply(Larger, &[&x, &y])?;
    assert!(out[0].requires_grad() && !out[1].requires_grad());
    assert_eq!((v(&out[0]), v(&out[1])), (vec![2., 5.], vec![1., 0.]));
    assert_eq!(grads(&out[0], &[&x, &y])?, [[0., 1.], [1., 0.]]);
    Ok(())
}

/// Counts which of its results got a gradient.
struct Lazy(Arc<AtomicUsize>);

impl Function for Lazy {
    fn forward(&self, cx: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
        cx.set_materialize_grads(false);
        Ok(vec![x[0].mul(2.0)?, x[0].mul(3.0)?])
    }

    fn backward(&self, grads: &[Option<Tensor>], _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        for (i, g) in grads.iter().enumerate() {
            if g.is_some() {
                self.0.fetch_add(1 << i, Ordering::SeqCst);
            }
        }
        Ok(vec![match &grads[1] {
            Some(g) => Some(g.mul(3.0)?),
            None => None,
        }])
    }
}

#[test]
fn gradients_that_are_not_filled_in() -> Result<()> {
    let seen = Arc::new(AtomicUsize::new(0));
    let x = leaf(&[1.]);
    let out = apply(Lazy(seen.clone()), &[&x])?;
    out[1].backward()?;
    assert_eq!((seen.load(Ordering::SeqCst), g(&x)), (2, vec![3.]));
    // Nothing was saved, so the node may run again.
    out[0].backward()?;
    assert_eq!((seen.load(Ordering::SeqCst), g(&x)), (3, vec![3.]));
    Ok(())
}
