//! Sharded tensors against whole ones.

use torsh_tensor::{Result, Tensor};

use super::{Placement, ShardedTensor, distribute_tensor};
use crate::{DeviceMesh, ReduceOp, spawn};

fn values(shape: &[usize]) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let data: Vec<f32> = (0..n).map(|i| ((i * 7 + 3) % 11) as f32 - 5.0).collect();
    Tensor::from_vec(data, shape)
}

const S0: Placement = Placement::Shard(0);
const S1: Placement = Placement::Shard(1);
const R: Placement = Placement::Replicate;
const P: Placement = Placement::Partial(ReduceOp::Sum);

fn same(t: &ShardedTensor, whole: &Tensor) -> Result<()> {
    let full = t.full_tensor()?;
    assert_eq!(full.dims(), whole.dims());
    assert_eq!(full.to_vec::<f32>()?, whole.to_vec::<f32>()?, "{t:?}");
    Ok(())
}

/// As [`same`], but for the order of additions.
fn close(t: &ShardedTensor, whole: &Tensor) -> Result<()> {
    let full = t.full_tensor()?;
    assert_eq!(full.dims(), whole.dims());
    assert!(full.allclose(whole)?, "{t:?} is {full:?}, not {whole:?}");
    Ok(())
}

#[test]
fn every_placement_becomes_every_other() {
    let all = spawn(4, |g| {
        let mesh = DeviceMesh::from_group(&g, &[2, 2], &["a", "b"])?;
        let whole = values(&[5, 3])?;
        let kinds = [S0, S1, R];
        for a in kinds {
            for b in kinds {
                let t = distribute_tensor(&whole, &mesh, &[a, b])?;
                same(&t, &whole)?;
                for c in [S0, S1, R, P] {
                    for d in [S0, S1, R, P] {
                        let u = t.redistribute(&[c, d])?;
                        assert_eq!(u.placements(), [c, d]);
                        same(&u, &whole)?;
                        same(&u.redistribute(&[a, b])?, &whole)?;
                    }
                }
            }
        }
        Ok(())
    });
    all.expect("all placements");
}

#[test]
fn operators_give_the_values_of_whole_tensors() {
    for n in 1..=3 {
        let all = spawn(n, |g| {
            let mesh = DeviceMesh::from_group(&g, &[g.size()], &["tp"])?;
            let (x, w, b) = (values(&[4, 6])?, values(&[5, 6])?, values(&[5])?);
            let on = |t: &Tensor, p| distribute_tensor(t, &mesh, &[p]);
            let y = x.matmul(&w.transpose(0, 1)?)?.add(&b)?;
            // Columns, rows of the weight, rows of the input.
            same(&on(&x, R)?.linear(&on(&w, S0)?, Some(&on(&b, S0)?))?, &y)?;
            same(&on(&x, S1)?.linear(&on(&w, S1)?, Some(&on(&b, R)?))?, &y)?;
            same(&on(&x, S0)?.linear(&on(&w, R)?, Some(&on(&b, R)?))?, &y)?;
            let t = on(&x, S0)?;
            same(&t.mul_scalar(3.0)?.relu()?, &x.mul(3.0)?.relu()?)?;
            same(&t.add(&t)?, &x.add(&x)?)?;
            close(&t.mean()?, &x.mean()?)?;
            same(&t.sum_dim(&[1], true)?, &x.sum_dim([1usize], true)?)?;
            close(&t.softmax(1)?, &x.softmax(1)?)?;
            let batched = on(&values(&[3, 2, 4])?, S0)?;
            let other = on(&values(&[3, 4, 2])?, S0)?;
            let whole = values(&[3, 2, 4])?.matmul(&values(&[3, 4, 2])?)?;
            same(&batched.matmul(&other)?, &whole)?;
            if g.size() > 1 {
                let e = t.softmax(0).expect_err("it is cut");
                let text = e.to_string();
                assert!(
                    text.contains("softmax")
                        && text.contains("Shard(0)")
                        && text.contains("full_tensor()"),
                    "{text}"
                );
                assert!(t.add(&on(&x, S1)?).is_err());
                assert!(t.redistribute(&[P])?.relu().is_err());
            }
            Ok(())
        });
        all.expect("the same values");
    }
}

#[test]
fn gradients_are_those_of_whole_tensors() {
    let all = spawn(2, |g| {
        let mesh = DeviceMesh::from_group(&g, &[2], &["tp"])?;
        let (x, w, b) = (values(&[4, 6])?, values(&[5, 6])?, values(&[5])?);
        let whole =
            [&x, &w, &b].map(|t| t.copy().and_then(|t| t.set_requires_grad(true).map(|()| t)));
        let [wx, ww, wb] = whole;
        let (wx, ww, wb) = (wx?, ww?, wb?);
        wx.linear(&ww, Some(&wb))?.square()?.sum()?.backward()?;
        for (px, pw, pb) in [(R, S0, S0), (S1, S1, R), (S0, R, R)] {
            let on = |t: &Tensor, p| distribute_tensor(t, &mesh, &[p])?.requires_grad_(true);
            let (sx, sw, sb) = (on(&x, px)?, on(&w, pw)?, on(&b, pb)?);
            let y = sx.linear(&sw, Some(&sb))?;
            let y = if y.placements() == [P] {
                y.redistribute(&[R])?
            } else {
                y
            };
            y.square()?.sum()?.full_tensor()?.backward()?;
            for (s, t) in [(&sx, &wx), (&sw, &ww), (&sb, &wb)] {
                let grad = s.grad().expect("a gradient");
                same(&grad, &t.grad().expect("a gradient"))?;
            }
        }
        Ok(())
    });
    all.expect("the same gradients");
}
