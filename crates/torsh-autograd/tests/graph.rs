//! Passes over graphs: retained or not, from any output to any input, deep, wide, complex.

use crate::common::{complex, fails, g, grads, leaf, parts, recorded_grad, t, v};
use torsh_tensor::{DType, Result, Tensor, backward, grad, no_grad};

/// Where an error says it was made.
fn place<T>(r: Result<T>) -> (String, u32) {
    let e = r.map(drop).expect_err("an error");
    let info = e.info().expect("an operation's");
    (info.location.file().to_string(), info.location.line())
}

#[test]
fn errors_of_a_pass_name_the_line_that_asked_for_it() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(&x)?;
    let here = |line| (file!().to_string(), line);
    assert_eq!(place(y.backward()), here(line!()));
    assert_eq!(place(x.detach().sum()?.backward()), here(line!()));
    let sum = y.sum()?;
    sum.backward()?;
    assert_eq!(place(sum.backward()), here(line!()));
    let of = [x.detach()];
    assert_eq!(
        place(grad(&[sum], &of, &[], false, false, false)),
        here(line!() - 1)
    );
    Ok(())
}

#[test]
fn a_second_pass_needs_retain_graph() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(&x)?.sum()?;
    y.backward_with(None, true, false)?;
    y.backward_with(None, true, false)?;
    assert_eq!(g(&x), [4., 8.]);
    y.backward()?;
    let again = [
        "Trying to backward through the graph a second time",
        "retain_graph",
    ];
    fails(y.backward(), &again);
    fails(y.backward_with(None, true, false), &again);
    fails(grad(&[y], &[x.clone()], &[], false, false, false), &again);
    assert_eq!(g(&x), [6., 12.]);
    // A part of the graph that was not reached is still there.
    let h = x.mul(&x)?;
    let (a, b) = (h.sin()?, h.cos()?);
    a.sum()?.backward()?;
    fails(b.sum()?.backward(), &again);
    // grad() frees what it passes, too; create_graph keeps it.
    let y = x.exp()?.sum()?;
    grad(&[y.clone()], &[x.clone()], &[], false, true, false)?;
    grad(&[y.clone()], &[x.clone()], &[], false, false, false)?;
    fails(y.backward(), &again);
    // An in-place op on a view is done with, too.
    let y = x.mul(1.0)?;
    y.select(0, 0)?.exp_()?;
    let y = y.sum()?;
    y.backward()?;
    fails(y.backward(), &again);
    Ok(())
}

#[test]
fn where_nothing_was_saved_a_second_pass_is_fine() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.add(1.0)?.view([2, 1])?.neg()?.sum()?;
    y.backward()?;
    y.backward()?;
    assert_eq!(g(&x), [-2., -2.]);
    Ok(())
}

#[test]
fn gradients_add_up() -> Result<()> {
    let x = leaf(&[2.]);
    x.mul(3.0)?.backward()?;
    let handle = x.grad().expect("a gradient");
    assert_eq!(v(&handle), [3.]);
    x.mul(4.0)?.backward()?;
    // In place: the handle sees it.
    assert_eq!((v(&handle), g(&x)), (vec![7.], vec![7.]));
    handle.mul_(10.0)?;
    x.mul(1.0)?.backward()?;
    assert_eq!(g(&x), [71.]);
    x.zero_grad();
    assert!(!x.has_grad());
    x.mul(5.0)?.backward()?;
    assert_eq!((v(&handle), g(&x)), (vec![71.], vec![5.]));
    // A gradient that is put in place is added to.
    x.set_grad(Some(t(&[100.])))?;
    x.mul(5.0)?.backward()?;
    assert_eq!(g(&x), [105.]);
    fails(
        x.set_grad(Some(t(&[1., 2.]))),
        &["float64[1]", "float64[2]"],
    );
    // Two leaves never share a gradient, though one and the same flows to both.
    let (a, b) = (leaf(&[1.]), leaf(&[1.]));
    let seed = t(&[1.]);
    a.add(&b)?.backward_with(seed.clone(), false, false)?;
    a.grad().expect("a gradient").mul_(7.0)?;
    assert_eq!((g(&a), g(&b), v(&seed)), (vec![7.], vec![1.], vec![1.]));
    Ok(())
}

#[test]
fn seeds() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(&x)?;
    y.backward_with(t(&[10., 100.]), true, false)?;
    assert_eq!(g(&x), [20., 400.]);
    fails(
        y.backward(),
        &[
            "grad can be implicitly created only for scalar outputs",
            "float64[2]",
        ],
    );
    fails(
        y.backward_with(t(&[1.]), false, false),
        &["mismatch in shape", "[1]", "[2]"],
    );
    // One element of any shape is a scalar.
    x.zero_grad();
    x.narrow(0, 0, 1)?.view([1, 1, 1])?.backward()?;
    assert_eq!(g(&x), [1., 0.]);
    // Another dtype is converted, real and complex are not mixed.
    let f = Tensor::from_data(&[1.0f32, 2.0], [2])?.requires_grad_(true);
    f.mul(2.0)?.backward_with(t(&[1., 2.]), false, false)?;
    let got = f.grad().expect("a gradient");
    assert_eq!(
        (got.dtype(), got.to_vec::<f32>()?),
        (DType::F32, vec![2., 4.])
    );
    fails(
        x.mul(2.0)?
            .backward_with(complex(&[(1., 0.), (1., 0.)]), false, false),
        &["mismatch in dtype", "complex128", "float64"],
    );
    // Several outputs at once.
    let x = leaf(&[3.]);
    let (a, b) = (x.mul(2.0)?, x.mul(&x)?);
    backward(&[a, b], &[None, Some(t(&[10.]))], false, false)?;
    assert_eq!(g(&x), [62.]);
    fails(
        t(&[1.]).backward(),
        &["does not require grad and does not have a grad_fn"],
    );
    Ok(())
}

#[test]
fn gradients_of_chosen_inputs() -> Result<()> {
    let (x, w, other) = (leaf(&[1., 2.]), leaf(&[3., 4.]), leaf(&[0.]));
    let h = x.mul(&w)?;
    let y = h.mul(&h)?.sum()?;
    // Leaves, results, and the output itself, in any order; `.grad` is left alone.
    let inputs = [h.clone(), y.clone(), x.clone(), h.clone()];
    let found = grad(&[y.clone()], &inputs, &[], true, false, false)?;
    let found: Vec<_> = found.iter().flatten().map(v).collect();
    assert_eq!(
        found,
        [vec![6., 16.], vec![1.], vec![18., 64.], vec![6., 16.]]
    );
    assert!(!x.has_grad() && !w.has_grad());
    // Unused ones.
    let unused = grad(
        &[y.clone()],
        &[other.clone(), w.clone()],
        &[],
        true,
        false,
        true,
    )?;
    assert!(unused[0].is_none());
    assert_eq!(unused[1].as_ref().map(v), Some(vec![6., 32.]));
    fails(
        grad(
            &[y.clone()],
            &[w.clone(), other.clone()],
            &[],
            true,
            false,
            false,
        ),
        &[
            "input 1 (float64[1]",
            "appears to not have been used in the graph",
            "allow_unused",
        ],
    );
    // Not asked for a gradient.
    fails(
        grad(&[y.clone()], &[t(&[1.])], &[], true, false, true),
        &["input 0", "does not require grad"],
    );
    fails(
        grad(&[t(&[1.])], &[x.clone()], &[], true, false, true),
        &["does not require grad and does not have a grad_fn"],
    );
    fails(
        grad(&[y.clone()], &[x.clone()], &[None, None], true, false, true),
        &["1 outputs and 2 gradients"],
    );
    // Several outputs, weighed.
    let found = grad(
        &[y, h.clone()],
        &[w.clone()],
        &[None, Some(t(&[100., 1000.]))],
        false,
        false,
        false,
    )?;
    assert_eq!(found[0].as_ref().map(v), Some(vec![106., 2032.]));
    // A leaf of itself.
    let found = grad(&[other.clone()], &[other.clone()], &[], false, false, false)?;
    assert_eq!(found[0].as_ref().map(v), Some(vec![1.]));
    // The values before and after an in-place op are different inputs.
    let y = x.mul(2.0)?;
    let before = y.view([2])?.detach();
    y.mul_(3.0)?;
    assert_eq!(grads(&y, &[&y, &x])?, [[1., 1.], [6., 6.]]);
    assert!(!before.requires_grad());
    Ok(())
}

#[test]
fn graphs_of_gradients() -> Result<()> {
    let x = leaf(&[2.]);
    // x^4 and all its derivatives.
    let mut y = x.pow(4.0)?;
    for want in [32., 48., 48., 24.] {
        y = recorded_grad(&y, &x)?;
        assert_eq!(v(&y), [want]);
    }
    // Through .grad: it has a history and adds up to one.
    for _ in 0..2 {
        backward(&[x.pow(3.0)?], &[], true, true)?;
    }
    let first = x.grad().expect("a gradient");
    assert_eq!(v(&first), [24.]);
    x.zero_grad();
    first.backward()?;
    assert_eq!(g(&x), [24.]);
    // With respect to what weighs the outputs.
    let w = leaf(&[5.]);
    let found = grad(
        &[x.mul(&x)?],
        &[x.clone()],
        &[Some(w.clone())],
        true,
        true,
        false,
    )?;
    let first = found[0].clone().expect("used");
    assert_eq!(grads(&first, &[&w, &x])?, [[4.], [10.]]);
    Ok(())
}

#[test]
fn second_order_through_views_and_in_place_ops() -> Result<()> {
    // Written step by step in place, and the same without.
    let in_place = |x: &Tensor| -> Result<Tensor> {
        let y = x.mul(x)?;
        let m = y.view([2, 2])?;
        m.select(0, 0)?.mul_(&x.narrow(0, 2, 2)?)?;
        m.transpose(0, 1)?.select(0, 1)?.sin_()?;
        m.diagonal()?.square_()?;
        y.narrow(0, 1, 2)?
            .copy_(&x.narrow(0, 0, 2)?.mul(&y.narrow(0, 2, 2)?.copy()?)?)?;
        y.mul_(x)?;
        m.mul(&m)?.sum()
    };
    let plain = |x: &Tensor| -> Result<Tensor> {
        let e: Vec<Tensor> = x.unbind(0)?;
        let y0 = e[0].mul(&e[0])?.mul(&e[2])?.square()?;
        let y2 = e[2].mul(&e[2])?;
        let y3 = e[3].mul(&e[3])?.sin()?.square()?;
        let (y1, y2) = (e[0].mul(&y2)?, e[1].mul(&y3)?);
        let mut sum = Vec::new();
        for (y, e) in [y0, y1, y2, y3].iter().zip(&e) {
            let y = y.mul(e)?;
            sum.push(y.mul(&y)?);
        }
        Tensor::stack(&sum, 0)?.sum()
    };
    let x = leaf(&[0.3, -0.7, 0.9, 0.5]);
    crate::common::close(&v(&in_place(&x)?), &v(&plain(&x)?), 1e-14);
    let (a, b) = (
        recorded_grad(&in_place(&x)?, &x)?,
        recorded_grad(&plain(&x)?, &x)?,
    );
    crate::common::close(&v(&a), &v(&b), 1e-13);
    let (a, b) = (recorded_grad(&a.sin()?, &x)?, recorded_grad(&b.sin()?, &x)?);
    crate::common::close(&v(&a), &v(&b), 1e-12);
    let (a, b) = (
        recorded_grad(&a.mul(&a)?, &x)?,
        recorded_grad(&b.mul(&b)?, &x)?,
    );
    crate::common::close(&v(&a), &v(&b), 1e-11);
    Ok(())
}

#[test]
fn second_order_with_the_first_graph_in_it() -> Result<()> {
    // The value and the gradient of one in-place op on a view, in one loss.
    let x = leaf(&[1., 2.]);
    let y = x.mul(1.0)?;
    y.narrow(0, 0, 1)?.exp_()?;
    let first = recorded_grad(&y.mul(&y)?, &x)?;
    crate::common::close(&v(&first), &[2. * 2f64.exp(), 4.], 1e-14);
    let loss = first.mul(&first)?.sum()?.add(&y.sum()?)?;
    loss.backward()?;
    crate::common::close(&g(&x), &[16. * 4f64.exp() + 1f64.exp(), 17.], 1e-14);
    Ok(())
}

#[test]
fn complex_gradients() -> Result<()> {
    // PyTorch's convention: the conjugate Wirtinger derivative, so that steps along -grad
    // descend. Values are PyTorch's.
    let z = complex(&[(1., 2.), (3., -1.)]).requires_grad_(true);
    type Case = (&'static str, fn(&Tensor) -> Result<Tensor>, [f64; 4]);
    let cases: &[Case] = &[
        (
            "abs",
            |z| z.abs(),
            [
                0.4472135954999579,
                0.8944271909999159,
                0.9486832980505138,
                -0.31622776601683794,
            ],
        ),
        (
            "z conj(z)",
            |z| z.mul(&z.conj()?)?.real(),
            [2., 4., 6., -2.],
        ),
        ("real", |z| z.real(), [1., 0., 1., 0.]),
        ("imag", |z| z.imag(), [0., 1., 0., 1.]),
        (
            "angle",
            |z| z.angle(),
            [
                -0.3999999999999999,
                0.19999999999999996,
                0.09999999999999998,
                0.29999999999999993,
            ],
        ),
        (
            "view_as_real",
            |z| z.view_as_real()?.mul(&t(&[2., 3.])),
            [2., 3., 2., 3.],
        ),
        // These are complex; their gradient is 1+1j.
        ("z z", |z| z.mul(z), [6., -2., 4., 8.]),
        (
            "exp",
            |z| z.exp(),
            [
                1.3405222882480052,
                -3.6029310557616325,
                -6.049134620952136,
                27.753658449348052,
            ],
        ),
        ("conj", |z| z.conj(), [1., -1., 1., -1.]),
        (
            "reciprocal",
            |z| z.reciprocal(),
            [
                0.28,
                -0.04000000000000001,
                -0.13999999999999999,
                -0.02000000000000001,
            ],
        ),
        ("2 z", |z| z.mul(2.0), [2., 2., 2., 2.]),
        (
            "log",
            |z| z.log(),
            [-0.2, 0.6000000000000001, 0.39999999999999997, 0.2],
        ),
        (
            "sin",
            |z| z.sin(),
            [
                -1.0191747921321346,
                5.084620806171466,
                -1.3617938481975644,
                -1.6934826520355222,
            ],
        ),
    ];
    for (name, f, want) in cases {
        let y = f(&z)?;
        let seed = if y.is_complex() {
            complex(&[(1., 1.), (1., 1.)])
        } else {
            y.detach().mul(0.0)?.add(1.0)?
        };
        let found = grad(&[y], &[z.clone()], &[Some(seed)], false, false, false)?;
        let have = parts(found[0].as_ref().expect(name));
        for (a, b) in have.iter().zip(want) {
            assert!((a - b).abs() < 1e-14, "{name}: {have:?}, not {want:?}");
        }
    }
    // A real leaf gets a real gradient.
    let x = leaf(&[1., 2.]);
    let y = x.mul(&complex(&[(1., 2.), (1., 2.)]))?;
    assert_eq!(grads(&y.mul(&y.conj()?)?.real()?, &[&x])?, [[10., 20.]]);
    fails(
        z.select(0, 0)?.backward(),
        &["grad can be implicitly created only for real scalar outputs"],
    );
    Ok(())
}

#[test]
fn diamonds() -> Result<()> {
    // 2^60 ways from the end to the start; each node runs once.
    let x = leaf(&[1.]);
    let mut y = x.clone();
    for _ in 0..60 {
        y = y.add(&y)?;
    }
    y.backward_with(None, true, false)?;
    assert_eq!(g(&x), [(1u64 << 60) as f64]);
    assert_eq!(v(&y), [(1u64 << 60) as f64]);
    // Asked for the gradient of a tensor on the way.
    let mut y = x.mul(1.0)?;
    let mut middle = y.clone();
    for k in 0..60 {
        y = y.add(&y)?;
        if k == 29 {
            middle = y.clone();
        }
    }
    assert_eq!(
        grads(&y, &[&middle, &x])?,
        [[(1u64 << 30) as f64], [(1u64 << 60) as f64]]
    );
    // In place.
    let y = x.mul(1.0)?;
    for _ in 0..60 {
        y.add_(&y)?;
    }
    assert_eq!(grads(&y, &[&x])?, [[(1u64 << 60) as f64]]);
    Ok(())
}

#[test]
fn wide_graphs() -> Result<()> {
    // One tensor used by many ops, and many leaves used by one.
    let x = leaf(&[1., 2.]);
    let many: Vec<Tensor> = (0..2000).map(|k| x.mul(k as f64)).collect::<Result<_>>()?;
    let y = Tensor::stack(&many, 0)?;
    assert_eq!(grads(&y, &[&x])?, [[1999000., 1999000.]]);
    let leaves: Vec<Tensor> = (0..2000).map(|k| leaf(&[k as f64])).collect();
    let y = Tensor::cat(&leaves, 0)?;
    y.mul(&y)?.sum()?.backward()?;
    for (k, leaf) in leaves.iter().enumerate() {
        assert_eq!(g(leaf), [2. * k as f64]);
    }
    // Only every second of them wanted, past the 64th, too.
    let found = grad(
        &[Tensor::cat(&leaves, 0)?.mul(3.0)?.sum()?],
        &[leaves[1999].clone(), leaves[63].clone(), leaves[0].clone()],
        &[],
        false,
        false,
        false,
    )?;
    for g in found {
        assert_eq!(g.as_ref().map(v), Some(vec![3.]));
    }
    Ok(())
}

#[test]
fn deep_graphs_on_a_small_stack() -> Result<()> {
    let run = || -> Result<()> {
        let x = leaf(&[1.]);
        // Every kind of node: ops, in-place ops, in-place ops on views, histories of views.
        let y = x.mul(1.0)?;
        let view = y.view([1])?;
        for _ in 0..20_000 {
            y.add_(1.0)?;
            view.mul_(1.0)?;
        }
        let mut z = y.clone();
        for _ in 0..100_000 {
            z = z.neg()?;
        }
        assert_eq!(grads(&z, &[&x])?, [[1.]]);
        let first = recorded_grad(&z.narrow(0, 0, 1)?.mul(&z)?, &x)?;
        assert_eq!(v(&first), [2. * 20_001.]);
        // Dropped here, both orders of it.
        Ok(())
    };
    std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(run)
        .map_err(|e| torsh_tensor::TorshError::Other(e.to_string()))?
        .join()
        .expect("no overflow")
}

#[test]
fn detached_parts() -> Result<()> {
    let x = leaf(&[3.]);
    let y = x.mul(&x.detach())?.mul(&no_grad(|| x.mul(1.0))?)?;
    assert_eq!(grads(&y, &[&x])?, [[9.]]);
    fails(
        x.mul(2.0)?.set_requires_grad(false),
        &["you can only change requires_grad flags of leaf variables"],
    );
    fails(
        Tensor::from_data(&[1i64], [1])?.set_requires_grad(true),
        &["only floating-point and complex tensors can require gradients"],
    );
    Ok(())
}
