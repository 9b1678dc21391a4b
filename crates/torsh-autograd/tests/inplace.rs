//! In-place ops: what is refused, what backward notices, and their derivatives.

use crate::common::{complex, fails, g, grads, ints, leaf, mask, t, v};
use torsh_tensor::{AddcmulOptions, DType, Device, Result, Tensor, no_grad};

#[test]
fn leaves_and_their_views_are_protected() -> Result<()> {
    let x = leaf(&[1., 2.]);
    fails(
        x.add_(1.0),
        &["add_", "leaf Variable that requires grad", "in-place"],
    );
    fails(x.zero_(), &["a leaf Variable that requires grad"]);
    fails(
        x.copy_(&t(&[1., 2.])),
        &["a leaf Variable that requires grad"],
    );
    let view = x.select(0, 0)?;
    fails(
        view.add_(1.0),
        &["a view of a leaf Variable that requires grad"],
    );
    fails(
        x.i_put(0, 5.0),
        &["a view of a leaf Variable that requires grad"],
    );
    fails(
        x.masked_fill_(&mask(&[true, false]), 0.0),
        &["leaf Variable"],
    );
    assert_eq!((v(&x), x.version()), (vec![1., 2.], 0));
    // Under no_grad all of it is allowed, and counted.
    no_grad(|| x.add_(1.0)?.mul_(3.0))?;
    no_grad(|| view.fill_(9.0))?;
    assert_eq!((v(&x), x.version()), (vec![9., 9.], 3));
    assert!(x.is_leaf() && x.requires_grad());
    // And the view still leads to the leaf.
    view.mul(2.0)?.backward()?;
    assert_eq!(g(&x), [2., 0.]);
    // Through detach(), too.
    x.detach().select(0, 1)?.add_(5.0)?;
    assert_eq!((v(&x), x.version()), (vec![9., 14.], 4));
    Ok(())
}

#[test]
fn writing_over_what_backward_needs() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let modified = "modified by an inplace operation";
    // The operand of mul.
    let y = x.add(0.0)?;
    let z = y.mul(&y)?;
    y.add_(1.0)?;
    fails(
        z.sum()?.backward(),
        &[
            modified,
            "float64[2]",
            "AddBackward0",
            "is at version 1; expected version 0",
        ],
    );
    // The result of exp.
    let z = x.exp()?;
    z.mul_(2.0)?.mul_(2.0)?;
    fails(
        z.sum()?.backward(),
        &[
            modified,
            "output 0 of ExpBackward0",
            "is at version 2; expected version 0",
        ],
    );
    // Through a view, through the base, through detach().
    let y = x.add(0.0)?;
    let z = y.mul(&y)?;
    y.select(0, 0)?.zero_()?;
    fails(z.sum()?.backward(), &[modified]);
    let y = x.add(0.0)?;
    let z = y.narrow(0, 0, 1)?.sin()?;
    y.zero_()?;
    fails(z.sum()?.backward(), &[modified]);
    let y = x.add(0.0)?;
    let z = y.mul(&y)?;
    y.detach().add_(1.0)?;
    fails(
        z.sum()?.backward(),
        &[modified, "version 1; expected version 0"],
    );
    // A leaf, under no_grad or through detach().
    let z = x.mul(&x)?;
    no_grad(|| x.add_(1.0))?;
    fails(z.sum()?.backward(), &[modified]);
    let z = x.mul(&x)?;
    x.detach().zero_()?;
    fails(z.sum()?.backward(), &[modified]);
    Ok(())
}

#[test]
fn writing_over_what_backward_does_not_need() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let w = leaf(&[3., 4.]);
    // The operands and the result of add.
    let y = x.mul(2.0)?;
    let z = y.add(&w)?;
    y.zero_()?;
    z.mul_(10.0)?;
    let found = grads(&z, &[&x, &w])?;
    assert_eq!(found, [[20., 20.], [10., 10.]]);
    // mul saves only what the other operand's gradient needs.
    let y = x.mul(2.0)?;
    let z = y.mul(&t(&[5., 6.]))?;
    y.zero_()?;
    assert_eq!(grads(&z, &[&x])?, [[10., 12.]]);
    // Not recorded: the gradient is that of the values before.
    let y = x.mul(3.0)?;
    no_grad(|| y.mul_(5.0))?;
    assert_eq!(
        (v(&y), grads(&y, &[&x])?),
        (vec![15., 30.], vec![vec![3., 3.]])
    );
    Ok(())
}

#[test]
fn constants_written_with_recorded_values() -> Result<()> {
    let w = leaf(&[5., 7.]);
    let run = |f: fn(&Tensor, &Tensor) -> Result<Tensor>| -> Result<_> {
        let whole = t(&[2., 3.]);
        f(&whole, &w)?;
        let long = t(&[9., 2., 3., 9.]);
        let view = long.narrow(0, 1, 2)?;
        f(&view, &w)?;
        assert!(long.requires_grad() && view.requires_grad() && !long.is_leaf());
        let found = grads(&whole, &[&w])?;
        assert_eq!(found, grads(&long, &[&w])?);
        assert_eq!(found, grads(&view, &[&w])?);
        Ok(found)
    };
    assert_eq!(run(|y, w| y.mul_(w))?, [[2., 3.]]);
    assert_eq!(run(|y, w| y.add_(w))?, [[1., 1.]]);
    assert_eq!(run(|y, w| y.div_(w))?, [[-2. / 25., -3. / 49.]]);
    assert_eq!(run(|y, w| y.addcmul_(w, w))?, [[10., 14.]]);
    assert_eq!(run(|y, w| y.copy_(&w.mul(w)?))?, [[10., 14.]]);
    assert_eq!(run(|y, w| y.index_add_(0, &ints(&[1, 1]), w))?, [[1., 1.]]);
    Ok(())
}

/// An in-place op, its operands and, where it has one, its other operand's gradient.
type Case = (
    &'static str,
    fn(&Tensor, &Tensor) -> Result<Tensor>,
    fn(f64, f64) -> (f64, f64, f64),
);

#[test]
fn in_place_ops_whose_derivative_reads_the_target() -> Result<()> {
    // The value, and the derivatives by the target and by the other operand.
    let cases: &[Case] = &[
        ("mul_", |y, w| y.mul_(w), |x, w| (x * w, w, x)),
        (
            "div_",
            |y, w| y.div_(w),
            |x, w| (x / w, 1.0 / w, -x / (w * w)),
        ),
        ("sin_", |y, _| y.sin_(), |x, _| (x.sin(), x.cos(), 0.0)),
        ("log_", |y, _| y.log_(), |x, _| (x.ln(), 1.0 / x, 0.0)),
        ("square_", |y, _| y.square_(), |x, _| (x * x, 2.0 * x, 0.0)),
        (
            "pow_ 3",
            |y, _| y.pow_(3.0),
            |x, _| (x * x * x, 3.0 * x * x, 0.0),
        ),
        (
            "pow_",
            |y, w| y.pow_(w),
            |x, w| (x.powf(w), w * x.powf(w - 1.0), x.powf(w) * x.ln()),
        ),
        (
            "atan2_",
            |y, w| y.atan2_(w),
            |x, w| (x.atan2(w), w / (x * x + w * w), -x / (x * x + w * w)),
        ),
        (
            "hypot_",
            |y, w| y.hypot_(w),
            |x, w| (x.hypot(w), x / x.hypot(w), w / x.hypot(w)),
        ),
        ("exp_", |y, _| y.exp_(), |x, _| (x.exp(), x.exp(), 0.0)),
        (
            "sigmoid_",
            |y, _| y.sigmoid_(),
            |x, _| {
                let s = 1.0 / (1.0 + (-x).exp());
                (s, s * (1.0 - s), 0.0)
            },
        ),
        (
            "clamp_",
            |y, _| y.clamp_(None, 1.0),
            |x, _| (x.min(1.0), if x < 1.0 { 1.0 } else { 0.0 }, 0.0),
        ),
        ("relu_", |y, _| y.relu_(), |x, _| (x, 1.0, 0.0)),
        ("abs_", |y, _| y.abs_(), |x, _| (x, 1.0, 0.0)),
        (
            "addcmul_",
            |y, w| y.addcmul_with_(&y.detach().copy()?, w, AddcmulOptions::new().value(2.0)),
            |x, w| (x + 2.0 * x * w, 1.0, 2.0 * x),
        ),
        (
            "lerp_",
            |y, w| y.lerp_(&t(&[5., 5.]), w),
            |x, w| (x + w * (5.0 - x), 1.0 - w, 5.0 - x),
        ),
        (
            "xlogy_",
            |y, w| y.xlogy_(w),
            |x, w| (x * w.ln(), w.ln(), x / w),
        ),
    ];
    let (xs, ws) = ([0.7, 2.5], [0.4, 3.0]);
    for (name, f, closed) in cases {
        // On a whole tensor, and on a view (CopySlices).
        for on_view in [false, true] {
            let (x, w) = (leaf(&xs), leaf(&ws));
            let all = if on_view {
                Tensor::cat(&[t(&[9.]), x.mul(1.0)?, t(&[9.])], 0)?
            } else {
                x.mul(1.0)?
            };
            let y = if on_view {
                all.narrow(0, 1, 2)?
            } else {
                all.clone()
            };
            let r = f(&y, &w).map_err(|e| e.renamed(name))?;
            assert!(r.is_same(&y), "{name}");
            let loss = all.mul(&all)?.sum()?;
            let found = grads(&loss, &[&x, &w]).map_err(|e| e.renamed(name))?;
            for k in 0..2 {
                let (value, dx, dw) = closed(xs[k], ws[k]);
                let have = (
                    v(&y)[k],
                    found[0][k],
                    found[1].get(k).copied().unwrap_or(0.0),
                );
                let want = (value, 2.0 * value * dx, 2.0 * value * dw);
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs().max(1.0);
                assert!(
                    near(have.0, want.0) && near(have.1, want.1) && near(have.2, want.2),
                    "{name}, view {on_view}: {have:?}, not {want:?}"
                );
            }
        }
    }
    // Ops with a kernel along a dimension.
    let x = leaf(&[2., 3., 4.]);
    let y = x.mul(1.0)?;
    y.cumprod_(0)?;
    assert_eq!(
        (v(&y), grads(&y, &[&x])?),
        (vec![2., 6., 24.], vec![vec![16., 10., 6.]])
    );
    let y = x.mul(1.0)?;
    y.narrow(0, 1, 2)?.cumsum_(0)?;
    assert_eq!(
        (v(&y), grads(&y, &[&x])?),
        (vec![2., 3., 7.], vec![vec![1., 2., 1.]])
    );
    Ok(())
}

#[test]
fn a_tensor_with_itself() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(1.0)?;
    y.add_(&y)?;
    assert_eq!(
        (v(&y), grads(&y, &[&x])?),
        (vec![2., 4.], vec![vec![2., 2.]])
    );
    let y = x.mul(1.0)?;
    y.sub_(&y)?;
    assert_eq!(
        (v(&y), grads(&y, &[&x])?),
        (vec![0., 0.], vec![vec![0., 0.]])
    );
    // The second operand is written over while the derivative needs it, as in PyTorch.
    let y = x.mul(1.0)?;
    y.mul_(&y)?;
    assert_eq!(v(&y), [1., 4.]);
    fails(
        y.sum()?.backward(),
        &[
            "modified by an inplace operation",
            "version 1; expected version 0",
        ],
    );
    let y = x.mul(1.0)?;
    y.copy_(&y)?;
    assert_eq!(grads(&y, &[&x])?, [[1., 1.]]);
    Ok(())
}

#[test]
fn copies_and_fills() -> Result<()> {
    let k = t(&[1., 10., 100.]);
    let x = leaf(&[1., 2., 3.]);
    let w = leaf(&[5.]);
    // copy_, broadcast, into a view.
    let y = x.mul(1.0)?;
    y.narrow(0, 0, 2)?.copy_(&w)?;
    assert_eq!(v(&y), [5., 5., 3.]);
    assert_eq!(
        grads(&y.mul(&k)?, &[&x, &w])?,
        [vec![0., 0., 100.], vec![11.]]
    );
    // copy_ over everything: nothing is left of the target's gradient.
    let y = x.mul(1.0)?;
    y.copy_(&w.expand([3])?)?;
    assert_eq!(
        grads(&y.mul(&k)?, &[&x, &w])?,
        [vec![0., 0., 0.], vec![111.]]
    );
    // copy_ into a tensor that required no grad.
    let y = t(&[0., 0.]);
    let view = y.select(0, 1)?;
    view.copy_(&w.select(0, 0)?)?;
    assert!(y.requires_grad() && view.requires_grad() && !y.is_leaf());
    assert_eq!(grads(&y.mul(&y)?, &[&w])?, [[10.]]);
    // Between dtypes: the gradient comes back in the source's.
    let f = Tensor::from_data(&[1.0f32, 2.0], [2])?.requires_grad_(true);
    let y = t(&[0., 0.]);
    y.copy_(&f)?;
    y.mul(&y)?.sum()?.backward()?;
    let got = f.grad().expect("a gradient");
    assert_eq!(
        (got.dtype(), got.to_vec::<f32>()?),
        (DType::F32, vec![2., 4.])
    );
    let y = Tensor::zeros([2], DType::I64, Device::Cpu)?;
    y.copy_(&f)?;
    assert!(!y.requires_grad());
    // fill_ and zero_.
    let y = x.mul(2.0)?;
    y.narrow(0, 1, 1)?.fill_(7.0)?;
    assert_eq!(
        (v(&y), grads(&y.mul(&k)?, &[&x])?),
        (vec![2., 7., 6.], vec![vec![2., 0., 200.]])
    );
    y.zero_()?;
    assert_eq!(
        (v(&y), grads(&y.mul(&k)?, &[&x])?),
        (vec![0.; 3], vec![vec![0.; 3]])
    );
    Ok(())
}

#[test]
fn assignments_by_index_and_mask() -> Result<()> {
    let x = leaf(&[1., 2., 3.]);
    let w = leaf(&[5., 6.]);
    let k = t(&[1., 10., 100.]);
    let checks: &[(
        &str,
        fn(&Tensor, &Tensor) -> Result<Tensor>,
        [f64; 3],
        [f64; 2],
    )] = &[
        (
            "masked_scatter_",
            |y, w| y.masked_scatter_(&mask(&[true, false, true]), w),
            [0., 40., 0.],
            [10., 1200.],
        ),
        (
            "index_add_",
            |y, w| y.index_add_(0, &ints(&[2, 2]), w),
            [2., 40., 2800.],
            [2800., 2800.],
        ),
        (
            "index_copy_",
            |y, w| y.index_copy_(0, &ints(&[2, 0]), w),
            [0., 40., 0.],
            [1000., 12.],
        ),
        (
            "scatter_",
            |y, w| y.scatter_(0, &ints(&[1, 0]), w),
            [0., 0., 600.],
            [100., 12.],
        ),
        (
            "scatter_add_",
            |y, w| y.scatter_add_(0, &ints(&[1, 1]), w),
            [2., 260., 600.],
            [260., 260.],
        ),
        (
            "index_put_",
            |y, w| y.index_put_(&[Some(ints(&[0, 0]))], w, true),
            [24., 40., 600.],
            [24., 24.],
        ),
        (
            "put_",
            |y, w| y.put_(&ints(&[2, 0]), w, false),
            [0., 40., 0.],
            [1000., 12.],
        ),
        (
            "i_put",
            |y, w| y.i_put(0..2, w),
            [0., 0., 600.],
            [10., 120.],
        ),
        (
            "i_put of a list",
            |y, w| y.i_put(&ints(&[2, 0]), w),
            [0., 40., 0.],
            [1000., 12.],
        ),
        (
            "i_put of a mask",
            |y, w| y.i_put(&mask(&[false, true, true]), w),
            [2., 0., 0.],
            [100., 1200.],
        ),
    ];
    for (name, f, dx, dw) in checks {
        let y = x.mul(1.0)?;
        f(&y, &w).map_err(|e| e.renamed(name))?;
        let loss = y.mul(&y)?.mul(&k)?;
        let found = grads(&loss, &[&x, &w]).map_err(|e| e.renamed(name))?;
        assert_eq!((&found[0][..], &found[1][..]), (&dx[..], &dw[..]), "{name}");
        // The same into a view of a longer tensor, in steps of two.
        let long = Tensor::zeros([7], DType::F64, Device::Cpu)?;
        let y = long.as_strided_at(&[3], &[2], 1)?;
        y.copy_(&x)?;
        f(&y, &w).map_err(|e| e.renamed(name))?;
        let k = t(&[0., 1., 0., 10., 0., 100., 0.]);
        let found = grads(&long.mul(&long)?.mul(&k)?, &[&x, &w])?;
        assert_eq!(
            (&found[0][..], &found[1][..]),
            (&dx[..], &dw[..]),
            "{name} into a view"
        );
    }
    let s = Tensor::scalar(5.0, DType::F64, Device::Cpu)?.requires_grad_(true);
    let y = x.mul(1.0)?;
    y.masked_fill_(&mask(&[true, false, true]), &s)?;
    assert_eq!(
        grads(&y.mul(&k)?, &[&x, &s])?,
        [vec![0., 10., 0.], vec![101.]]
    );
    let y = x.mul(1.0)?;
    y.index_fill_(0, &ints(&[1]), 4.0)?;
    assert_eq!(v(&y), [1., 4., 3.]);
    assert_eq!(grads(&y.mul(&y)?.mul(&k)?, &[&x])?, [[2., 0., 600.]]);
    Ok(())
}

#[test]
fn overlapping_memory() -> Result<()> {
    let one = "more than one element of the written-to tensor refers to a single memory location";
    let wide = t(&[1.]).expand([3])?;
    fails(wide.add_(1.0), &["add_", one]);
    fails(wide.copy_(&t(&[1., 2., 3.])), &[one]);
    fails(wide.index_add_(0, &ints(&[0]), &t(&[1.])), &[one]);
    fails(
        t(&[1., 2., 3.]).as_strided([2, 2], [1, 1])?.mul_(2.0),
        &[one],
    );
    // All the same value: no harm in it.
    wide.fill_(4.0)?;
    assert_eq!(v(&wide), [4., 4., 4.]);
    wide.zero_()?;
    assert_eq!(v(&wide), [0., 0., 0.]);
    let some = "some elements of the input tensor and the written-to tensor refer to a single memory location";
    let a = t(&[1., 2., 3., 4.]);
    fails(a.slice(0, 1, 4)?.add_(&a.slice(0, 0, 3)?), &["add_", some]);
    let m = a.view([2, 2])?;
    fails(m.add_(&m.transpose(0, 1)?), &[some]);
    assert_eq!((v(&a), a.version()), (vec![1., 2., 3., 4.], 0));
    // The same elements, or different ones, are fine.
    a.slice(0, 0, 2)?.add_(&a.slice(0, 2, 4)?)?;
    assert_eq!(v(&a), [4., 6., 3., 4.]);
    m.mul_(&a.view([2, 2])?)?;
    assert_eq!(v(&a), [16., 36., 9., 16.]);
    m.select(1, 0)?.sub_(&m.select(1, 1)?)?;
    assert_eq!(v(&a), [-20., 36., -7., 16.]);
    Ok(())
}

#[test]
fn results_that_do_not_fit() -> Result<()> {
    let i = Tensor::from_data(&[1i64, 2], [2])?;
    let cast = "result type float32 can't be cast to the desired output type int64";
    fails(i.add_(1.5), &["add_", cast]);
    fails(i.div_(2), &[cast]);
    fails(
        t(&[1., 2.]).mul_(&complex(&[(1., 1.), (1., 1.)])),
        &["result type complex128 can't be cast to the desired output type float64"],
    );
    fails(
        t(&[1., 2.]).add_(&Tensor::zeros([3, 2], DType::F64, Device::Cpu)?),
        &["output with shape [2] doesn't match the broadcast shape [3, 2]"],
    );
    assert_eq!((i.to_vec::<i64>()?, i.version()), (vec![1, 2], 0));
    let f = Tensor::from_data(&[1.0f32, 2.0], [2])?;
    f.add_(&t(&[0.5, 0.5]))?;
    assert_eq!(
        (f.dtype(), f.to_vec::<f32>()?),
        (DType::F32, vec![1.5, 2.5])
    );
    Ok(())
}
