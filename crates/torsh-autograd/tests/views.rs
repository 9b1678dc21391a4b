//! Views and in-place ops on them and their bases: PyTorch's values and PyTorch's errors.

use crate::common::{complex, fails, g, grads, leaf, parts, recorded_grad, t, v};
use torsh_tensor::{DType, DiagonalOptions, Result, Tensor, no_grad};

#[test]
fn writes_show_in_bases_and_views() -> Result<()> {
    let x = t(&[0., 1., 2., 3., 4., 5.]);
    let m = x.view([2, 3])?;
    let column = m.select(1, 1)?;
    let tail = x.narrow(0, 3, 3)?;
    x.mul_(10.0)?;
    assert_eq!(v(&column), [10., 40.]);
    column.copy_(&t(&[-1., -2.]))?;
    assert_eq!(v(&x), [0., -1., 20., 30., -2., 50.]);
    assert_eq!(v(&tail), [30., -2., 50.]);
    m.transpose(0, 1)?.select(0, 2)?.zero_()?;
    assert_eq!(v(&x), [0., -1., 0., 30., -2., 0.]);
    m.diagonal()?.add_(&t(&[7., 8.]))?;
    assert_eq!(v(&x), [7., -1., 0., 30., 6., 0.]);
    // Each of the five writes counted once, for all of them.
    for view in [&x, &m, &column, &tail] {
        assert_eq!(view.version(), 4);
    }
    Ok(())
}

#[test]
fn gradients_of_parts_add_up() -> Result<()> {
    let twice = |y: &Tensor| -> Result<Tensor> {
        let m = y.view([2, 3])?;
        let parts = [
            m.select(0, 1)?.mul(&t(&[1., 2., 3.]))?.sum()?,
            m.select(1, -1)?.mul(10.0)?.sum()?,
            y.narrow(0, 1, 3)?.square()?.sum()?,
            y.slice_step(0, Some(1), None, 2)?.mul(100.0)?.sum()?,
            y.narrow(0, 6, 0)?.sum()?,
        ];
        let mut sum = y.mul(1000.0)?.sum()?;
        for part in &parts {
            sum = sum.add(part)?;
        }
        Ok(sum)
    };
    let expected = [1000., 1104., 1016., 1107., 1002., 1113.];
    let x = leaf(&[1., 2., 3., 3., 5., 6.]);
    twice(&x)?.backward()?;
    assert_eq!(g(&x), expected);
    // Of what a view's parts receive, and once more on top of it.
    twice(&x.mul(1.0)?)?.backward()?;
    assert_eq!(g(&x), expected.map(|v| 2.0 * v));
    // To be differentiated again.
    let first = recorded_grad(&twice(&x)?, &x)?;
    assert_eq!(v(&first), expected);
    assert_eq!(grads(&first, &[&x])?, [[0., 2., 2., 2., 0., 0.]]);
    // A gradient that somebody else has too stays as it is.
    let y = x.mul(1.0)?;
    y.retain_grad()?;
    let (row, all) = (y.view([2, 3])?.select(0, 0)?, y.view([2, 3])?);
    let seed = t(&[1.0; 6]).view([2, 3])?;
    let sum = all.mul(1.0)?.mul(&seed)?.sum()?;
    sum.add(&row.sum()?)?.backward()?;
    assert_eq!(g(&y), [2., 2., 2., 1., 1., 1.]);
    assert_eq!(v(&seed), [1.0; 6]);
    Ok(())
}

/// Of a tensor that only views of parts use: in any order, next to each other or not, one in another,
/// of several dimensions, with and without a permutation below.
#[test]
fn gradients_that_come_in_parts() -> Result<()> {
    type Ranges<'a> = &'a [(usize, usize, usize, usize)];
    let cases: [Ranges; 9] = [
        &[(0, 0, 1, 1), (0, 1, 1, 1), (0, 2, 1, 1), (0, 3, 1, 1)],
        &[(0, 3, 1, 1), (0, 1, 1, 1), (0, 2, 1, 1)],
        &[(0, 2, 2, 1), (0, 0, 2, 1)],
        &[(0, 1, 2, 1)],
        &[(0, 0, 2, 1), (0, 1, 2, 1), (0, 3, 1, 1)],
        &[(1, 0, 1, 1), (1, 2, 1, 1), (0, 1, 1, 1), (1, 1, 1, 1)],
        &[(0, 0, 2, 2), (0, 1, 2, 2)],
        &[(0, 2, 0, 1), (0, 3, 1, 1), (0, 3, 0, 1)],
        &[(1, 1, 2, 1), (0, 0, 2, 2), (1, 0, 1, 1)],
    ];
    let x = leaf(&(0..12).map(f64::from).collect::<Vec<_>>());
    for (ranges, permuted) in cases.iter().flat_map(|c| [(c, false), (c, true)]) {
        let y = x.mul(1.0)?;
        let (m, place) = match permuted {
            false => (y.view([4, 3])?, [3, 1]),
            true => (y.view([3, 4])?.permute([1, 0])?, [1, 4]),
        };
        let mut sum = y.narrow(0, 0, 0)?.sum()?;
        let mut expected = vec![0.0; 12];
        for (i, &(dim, start, len, step)) in ranges.iter().enumerate() {
            let (start_at, end) = (start as i64, (start + len * step) as i64);
            let part = match (len, step) {
                (1, 1) => m.select(dim, start)?.unsqueeze(dim)?,
                _ => m.slice_step(dim as i64, Some(start_at), Some(end), step as i64)?,
            };
            let mut weights = Vec::new();
            for at in 0..12 {
                let (row, column) = (at / 3, at % 3);
                let along = [row, column][dim];
                let inside = along >= start
                    && (along - start).is_multiple_of(step)
                    && (along - start) / step < len;
                if inside {
                    let weight = (100 * i + at + 1) as f64;
                    expected[row * place[0] + column * place[1]] += weight;
                    weights.push(weight);
                }
            }
            sum = sum.add(&part.mul(&t(&weights).view(part.shape())?)?.sum()?)?;
        }
        assert_eq!(grads(&sum, &[&x])?, [expected.clone()], "{ranges:?}");
        assert_eq!(v(&recorded_grad(&sum, &x)?), expected, "{ranges:?}");
    }
    // Beside parts, all of it.
    let y = x.mul(2.0)?.view([4, 3])?;
    let sum = y.select(0, 1)?.sum()?.add(&y.sum()?)?;
    let sum = sum.add(&y.select(0, 3)?.sum()?)?;
    let each = |i: usize| if i / 3 % 2 == 1 { 4.0 } else { 2.0 };
    let expected: Vec<f64> = (0..12).map(each).collect();
    assert_eq!(grads(&sum, &[&x])?, [expected]);
    // A leaf's gradient lies as the leaf does.
    let w = leaf(&[1., 2., 3., 4., 5., 6.]).detach().view([2, 3])?;
    w.set_requires_grad(true)?;
    w.select(1, 2)?.sum()?.backward()?;
    let got = w.grad().expect("a gradient");
    assert_eq!(
        (v(&got), got.stride()),
        (vec![0., 0., 1., 0., 0., 1.], w.stride())
    );
    Ok(())
}

#[test]
fn in_place_on_the_base_then_through_the_view() -> Result<()> {
    let x = leaf(&[1., 2., 3.]);
    let y = x.mul(1.0)?;
    let view = y.narrow(0, 1, 2)?;
    y.mul_(&y.detach().copy()?)?;
    assert_eq!(v(&view), [4., 9.]);
    view.mul(&view)?.sum()?.backward()?;
    // d (x*c)^2 with c = x held constant: 2 x c^2.
    assert_eq!(g(&x), [0., 16., 54.]);
    Ok(())
}

#[test]
fn in_place_on_the_view_then_through_the_base() -> Result<()> {
    let x = leaf(&[1., 2., 3., 4.]);
    let y = x.mul(1.0)?;
    y.narrow(0, 0, 2)?.mul_(3.0)?;
    y.mul(&t(&[1., 10., 100., 1000.]))?.sum()?.backward()?;
    assert_eq!(g(&x), [3., 30., 100., 1000.]);
    assert_eq!(y.grad_fn().expect("recorded").name(), "CopySlices");
    Ok(())
}

#[test]
fn views_of_views() -> Result<()> {
    let x = leaf(&[1., 2., 3., 4.]);
    let y = x.mul(1.0)?;
    let m = y.view([2, 2])?;
    let row = m.select(0, 1)?;
    y.mul_(2.0)?;
    row.mul_(&row.detach().copy()?)?;
    assert_eq!(v(&m), [2., 4., 36., 64.]);
    m.mul(&m)?.sum()?.backward()?;
    assert_eq!(g(&x), [8., 16., 864., 2048.]);
    Ok(())
}

#[test]
fn overlapping_views() -> Result<()> {
    let x = leaf(&[1., 2., 3., 4.]);
    let y = x.mul(1.0)?;
    let (a, b) = (y.slice(0, 0, 3)?, y.slice(0, 1, 4)?);
    a.mul_(2.0)?;
    b.mul_(3.0)?;
    a.add_(1.0)?;
    assert_eq!(v(&y), [3., 13., 19., 12.]);
    assert_eq!(grads(&y, &[&x])?, [[2., 6., 6., 3.]]);
    assert_eq!(grads(&a, &[&x])?, [[2., 6., 6., 0.]]);
    assert_eq!(grads(&b, &[&x])?, [[0., 6., 6., 3.]]);
    // A window that repeats elements collects the gradients of all repeats.
    let y = x.mul(1.0)?;
    let s = y.as_strided([3, 2], [1, 1])?;
    y.mul_(3.0)?;
    assert_eq!(grads(&s, &[&x])?, [[3., 6., 6., 3.]]);
    Ok(())
}

#[test]
fn copy_slices_of_each_kind_of_view() -> Result<()> {
    let x = Tensor::from_data(&[1.0f64; 9], [3, 3])?.requires_grad_(true);
    let w = leaf(&[2., 3.]);
    let y = x.mul(1.0)?;
    y.diagonal()?.mul_(5.0)?;
    y.diagonal_with(DiagonalOptions::new().offset(1))?
        .add_(&w)?;
    let found = grads(&y.mul(&y)?, &[&x, &w])?;
    assert_eq!(found[0], [50., 6., 2., 2., 50., 8., 2., 2., 50.]);
    assert_eq!(found[1], [6., 8.]);

    let k = Tensor::from_data(&[1., 2., 3., 4., 5., 6., 7., 8., 9.], [3, 3])?;
    let y = x.mul(1.0)?;
    y.transpose(0, 1)?.select(0, 2)?.mul_(10.0)?;
    assert_eq!(
        grads(&y.mul(&k)?, &[&x])?,
        [[1., 2., 30., 4., 5., 60., 7., 8., 90.]]
    );

    let y = x.mul(1.0)?;
    y.permute([1, 0])?.narrow(1, 1, 1)?.squeeze(1)?.zero_()?;
    assert_eq!(
        grads(&y.mul(&k)?, &[&x])?,
        [[1., 2., 3., 0., 0., 0., 7., 8., 9.]]
    );

    // Every second element.
    let y = x.mul(1.0)?;
    let flat = y.view([9])?;
    flat.as_strided([5], [2])?.mul_(&t(&[2., 3., 4., 5., 6.]))?;
    assert_eq!(grads(&y, &[&x])?, [[2., 1., 3., 1., 4., 1., 5., 1., 6.]]);

    // An expanded view sees what happens to its base, and adds the gradients up.
    let z = leaf(&[1., 2.]);
    let y = z.mul(1.0)?;
    let e = y.unsqueeze(0)?.expand([3, 2])?;
    y.mul_(3.0)?;
    let k = Tensor::from_data(&[0., 1., 2., 3., 4., 5.], [3, 2])?;
    assert_eq!(grads(&e.mul(&k)?, &[&z])?, [[18., 27.]]);
    Ok(())
}

#[test]
fn a_view_that_is_itself_a_leaf() -> Result<()> {
    let base = t(&[1., 1., 1.]);
    let view = base.narrow(0, 0, 1)?.requires_grad_(true);
    assert!(view.is_leaf());
    fails(view.add_(1.0), &["leaf Variable that requires grad"]);
    base.add_(1.0)?;
    assert!(view.is_leaf());
    view.mul(&view.detach())?.backward()?;
    assert_eq!(g(&view), [2.]);
    Ok(())
}

#[test]
fn views_made_without_recording() -> Result<()> {
    let x = leaf(&[1., 2., 3.]);
    let no_grad_view = "created in no_grad mode";
    let view = no_grad(|| x.select(0, 0))?;
    fails(view.add_(1.0), &[no_grad_view, "modified inplace"]);
    let y = x.mul(1.0)?;
    let view = no_grad(|| y.select(0, 0))?;
    fails(view.add_(1.0), &[no_grad_view, "modified inplace"]);
    no_grad(|| view.add_(1.0))?;
    assert_eq!(v(&y), [2., 2., 3.]);
    // Recording what a view of no history is written with.
    let plain = t(&[1., 1., 1.]);
    let view = no_grad(|| plain.narrow(0, 0, 3))?;
    fails(view.mul_(&x), &[no_grad_view]);
    assert_eq!(v(&plain), [1., 1., 1.]);
    view.add_(1.0)?;
    assert_eq!(v(&plain), [2., 2., 2.]);
    // Both without recording: fine. The base changed since: its gradient is unknown.
    let y = x.mul(1.0)?;
    let view = no_grad(|| y.narrow(0, 0, 1))?;
    assert_eq!(v(&view.mul(2.0)?), [2.]);
    y.mul_(2.0)?;
    fails(view.mul(2.0), &[no_grad_view, "base", "modified inplace"]);
    assert_eq!(v(&view.detach().mul(2.0)?), [4.]);
    assert_eq!(v(&no_grad(|| view.mul(2.0))?), [4.]);
    let view = no_grad(|| x.narrow(0, 0, 1))?;
    no_grad(|| x.add_(1.0))?;
    fails(view.mul(2.0), &[no_grad_view, "modified inplace"]);
    Ok(())
}

#[test]
fn several_views_of_one_op() -> Result<()> {
    let x = leaf(&[1., 2., 3., 4.]);
    let several = "one of several outputs";
    for base in [x.clone(), x.mul(1.0)?] {
        for views in [base.split(2, 0)?, base.chunk(2, 0)?, base.unbind(0)?] {
            fails(views[1].mul_(2.0), &[several, "modified inplace"]);
            fails(
                views[0].unsqueeze(0)?.mul_(2.0),
                &[several, "modified inplace"],
            );
        }
    }
    // Read only, they are as other views.
    let y = x.mul(1.0)?;
    let parts = y.split(2, 0)?;
    let loss = parts[0].mul(&parts[1])?;
    assert_eq!(grads(&loss, &[&x])?, [[3., 4., 1., 2.]]);
    // A change of the base makes their history unknown.
    let multiple = ["multiple views", "base", "modified inplace"];
    y.mul_(2.0)?;
    fails(parts[0].mul(1.0), &multiple);
    fails(
        parts[0].backward_with(t(&[1., 1.]), false, false),
        &multiple,
    );
    let parts = x.split(2, 0)?;
    no_grad(|| x.add_(1.0))?;
    fails(parts[1].sum(), &multiple);
    // Without history anything goes.
    let plain = t(&[1., 1.]);
    let parts = plain.split(1, 0)?;
    parts[0].mul_(2.0)?;
    assert_eq!(v(&plain), [2., 1.]);
    fails(parts[0].mul_(&leaf(&[2.])), &[several]);
    plain.mul_(&leaf(&[2., 3.]))?;
    fails(parts[0].mul(2.0), &multiple);
    Ok(())
}

#[test]
fn complex_numbers_and_their_parts() -> Result<()> {
    let z = complex(&[(1., 2.), (3., 4.)]).requires_grad_(true);
    let size = |c: &Tensor| -> Result<Tensor> {
        let r = c.view_as_real()?;
        r.mul(&r)?.sum()
    };
    let grad_of = |y: Tensor| -> Result<Vec<f64>> {
        let found = torsh_tensor::grad(&[y], &[z.clone()], &[], true, false, false)?;
        Ok(parts(found[0].as_ref().expect("used")))
    };
    // Through the parts into the base.
    let c = z.mul(1.0)?;
    c.view_as_real()?.mul_(2.0)?;
    assert_eq!(grad_of(size(&c)?)?, [8., 16., 24., 32.]);
    let c = z.mul(1.0)?;
    c.real()?.mul_(2.0)?;
    assert_eq!(grad_of(size(&c)?)?, [8., 4., 24., 8.]);
    let c = z.mul(1.0)?;
    c.imag()?.narrow(0, 1, 1)?.fill_(0.0)?;
    assert_eq!(grad_of(size(&c)?)?, [2., 4., 6., 0.]);
    // Into the base, seen in the parts.
    let c = z.mul(1.0)?;
    let (r, i) = (c.view_as_real()?, c.imag()?);
    c.mul_(2.0)?;
    assert_eq!(grad_of(r.mul(&r)?.sum()?)?, [8., 16., 24., 32.]);
    assert_eq!(grad_of(i.mul(&i)?.sum()?)?, [0., 16., 0., 32.]);
    // Real numbers written as complex ones.
    let x = leaf(&[1., 2.]);
    let y = x.mul(1.0)?;
    let c = y.view_as_complex()?;
    c.mul_(&complex(&[(0., 2.)]).select(0, 0)?)?;
    assert_eq!(v(&y), [-4., 2.]);
    assert_eq!(grads(&y.mul(&y)?, &[&x])?, [[8., 16.]]);
    y.mul_(3.0)?;
    assert_eq!(grads(&size(&c)?, &[&x])?, [[72., 144.]]);
    // Numbers whose parts lie at odd positions.
    let c = z.mul(1.0)?;
    let seed = t(&[9., 1., 2., 3., 4.]).narrow(0, 1, 4)?.view([2, 2])?;
    c.view_as_real()?.backward_with(seed, false, false)?;
    assert_eq!(parts(&z.grad().expect("a gradient")), [1., 2., 3., 4.]);
    let c = x.mul(1.0)?.view_as_complex()?;
    let odd = t(&[0., 0., 0., 0., 0.]);
    let pair = odd.narrow(0, 1, 2)?;
    pair.copy_(&c.view_as_real()?)?;
    assert_eq!(grads(&odd.mul(&odd)?, &[&x])?, [[2., 4.]]);
    // The same bits as another dtype are out of reach for gradients.
    let bits = x.mul(1.0)?.view_dtype(DType::I64)?;
    assert!(!bits.requires_grad());
    assert_eq!(
        bits.to_vec::<i64>()?,
        [1.0f64.to_bits() as i64, 2.0f64.to_bits() as i64]
    );
    Ok(())
}

#[test]
fn requiring_grad_after_the_view_was_made() -> Result<()> {
    let base = t(&[1., 2., 3.]);
    let view = base.select(0, 0)?;
    base.set_requires_grad(true)?;
    assert!(view.requires_grad());
    no_grad(|| base.add_(1.0))?;
    view.mul(3.0)?.backward()?;
    assert_eq!(g(&base), [3., 0., 0.]);
    // And the other way: the recorded history of a view stays.
    let base = leaf(&[1., 2.]);
    let view = base.select(0, 1)?;
    base.set_requires_grad(false)?;
    assert!(view.requires_grad() && view.grad_fn().is_some());
    Ok(())
}
