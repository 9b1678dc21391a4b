//! The ground rules: arithmetic, promotion, views, in-place, recording.

use torsh_tensor::{DType, Device, Result, Tensor, grad, no_grad};

fn t(v: &[f32]) -> Tensor {
    Tensor::from_data(v, [v.len()]).expect("a tensor")
}

#[test]
fn arithmetic_broadcasts_and_promotes() -> Result<()> {
    let a = Tensor::from_data(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    let b = Tensor::from_data(&[10i64, 20, 30], [3])?;
    let c = a.add(&b)?;
    assert_eq!(c.dtype(), DType::F32);
    assert_eq!(c.to_vec::<f32>()?, [11., 22., 33., 14., 25., 36.]);
    let d = b.mul(2.5)?;
    assert_eq!(
        (d.dtype(), d.to_vec::<f32>()?),
        (DType::F32, vec![25., 50., 75.])
    );
    let e = a.add(t(&[1., 2.]));
    let text = e.expect_err("the shapes do not go together").to_string();
    assert!(
        text.starts_with("add: cannot broadcast shapes [2, 3] and [2]"),
        "{text}"
    );
    assert!(
        text.contains("float32[2, 3] cpu") && text.contains("basics.rs"),
        "{text}"
    );
    Ok(())
}

#[test]
fn gradients_of_a_small_graph() -> Result<()> {
    let x = t(&[0.5, 1.5]).requires_grad_(true);
    let y = x.mul(&x)?.add(x.sin()?)?;
    y.sum()?.backward()?;
    let g = x.grad().expect("a gradient").to_vec::<f32>()?;
    for (g, x) in g.iter().zip([0.5f32, 1.5]) {
        assert!((g - (2.0 * x + x.cos())).abs() < 1e-6);
    }
    // Backward again adds up.
    x.mul(3.0)?.sum()?.backward()?;
    let h = x.grad().expect("a gradient").to_vec::<f32>()?;
    assert!((h[0] - g[0] - 3.0).abs() < 1e-6);
    Ok(())
}

#[test]
fn second_order() -> Result<()> {
    let x = Tensor::from_data(&[2.0f64], [1])?.requires_grad_(true);
    let y = x.mul(&x)?.mul(&x)?;
    let g = grad(&[y], &[x.clone()], &[None], true, true, false)?[0]
        .clone()
        .expect("used");
    assert_eq!(g.item::<f64>()?, 12.0);
    let h = grad(&[g], &[x], &[None], false, false, false)?[0]
        .clone()
        .expect("used");
    assert_eq!(h.item::<f64>()?, 12.0);
    Ok(())
}

#[test]
fn views_alias_and_in_place_shows() -> Result<()> {
    let x = Tensor::zeros([2, 3], DType::F32, Device::Cpu)?;
    let row = x.select(0, 1)?;
    row.add_(2.0)?;
    assert_eq!(x.to_vec::<f32>()?, [0., 0., 0., 2., 2., 2.]);
    assert_eq!(
        x.transpose(0, 1)?.contiguous()?.to_vec::<f32>()?,
        [0., 2., 0., 2., 0., 2.]
    );
    assert_eq!(x.version(), 1);
    x.add_(&x)?;
    assert_eq!(row.to_vec::<f32>()?, [4., 4., 4.]);
    Ok(())
}

#[test]
fn in_place_on_a_view_is_recorded_on_its_base() -> Result<()> {
    let leaf = t(&[1., 2., 3., 4.]).requires_grad_(true);
    let base = leaf.mul(1.0)?;
    let view = base.slice(0, 1, 3)?;
    view.mul_(10.0)?;
    assert_eq!(base.to_vec::<f32>()?, [1., 20., 30., 4.]);
    base.mul(t(&[1., 1., 2., 1.]))?.sum()?.backward()?;
    assert_eq!(
        leaf.grad().expect("a gradient").to_vec::<f32>()?,
        [1., 10., 20., 1.]
    );
    Ok(())
}

#[test]
fn saved_values_notice_changes() -> Result<()> {
    let x = t(&[1., 2.]).requires_grad_(true);
    let y = x.mul(2.0)?;
    let z = y.exp()?;
    z.add_(1.0)?;
    let e = z
        .sum()?
        .backward()
        .expect_err("exp saved its result")
        .to_string();
    assert!(
        e.contains("modified by an inplace operation") && e.contains("ExpBackward0"),
        "{e}"
    );
    let e = x.add_(1.0).expect_err("a leaf").to_string();
    assert!(e.contains("a leaf Variable that requires grad"), "{e}");
    no_grad(|| x.add_(1.0))?;
    assert_eq!(x.to_vec::<f32>()?, [2., 3.]);
    Ok(())
}

#[test]
fn a_million_nodes() -> Result<()> {
    let x = t(&[1.0]).requires_grad_(true);
    let mut y = x.clone();
    for _ in 0..1_000_000 {
        y = y.add(1.0)?;
    }
    y.backward()?;
    assert_eq!(x.grad().expect("a gradient").item::<f32>()?, 1.0);
    let mut y = x.clone();
    for _ in 0..1_000_000 {
        y = y.mul(1.0)?;
    }
    drop(y);
    Ok(())
}

/// Sums and means of all elements, which go a shorter way, are those over all dimensions by name
/// with these kept.
#[test]
fn reductions_of_everything() -> Result<()> {
    let values: Vec<f32> = (0..24).map(|i| (i * i % 7) as f32 - 2.0).collect();
    let x = Tensor::from_data(&values, [2, 3, 4])?;
    let half = x.to_dtype(DType::F16)?;
    let ints = x.to_dtype(DType::I32)?;
    let turned = x.transpose(0, 2)?;
    for x in [&x, &half, &ints, &turned, &x.select(0, 1)?] {
        let n = x.ndim() as i64;
        let kept = x.sum_dim((0..n).collect::<Vec<_>>(), true)?;
        let sum = x.sum()?;
        assert_eq!((sum.ndim(), sum.dtype()), (0, kept.dtype()));
        assert_eq!(sum.item::<f64>()?, kept.item::<f64>()?);
        if x.dtype().is_floating_point() {
            let kept = x.mean_dim((0..n).collect::<Vec<_>>(), true)?;
            let mean = x.mean()?;
            assert_eq!((mean.ndim(), mean.dtype()), (0, x.dtype()));
            assert_eq!(mean.item::<f64>()?, kept.item::<f64>()?);
        }
    }
    assert!(ints.mean().is_err());
    let none = Tensor::from_data(&values[..0], [0, 3])?;
    assert_eq!(none.sum()?.item::<f32>()?, 0.0);
    assert!(none.mean()?.item::<f32>()?.is_nan());
    assert_eq!(x.sum()?.sum()?.item::<f32>()?, x.sum()?.item::<f32>()?);
    let there = Tensor::zeros(&[2, 3], DType::F32, Device::Meta)?.sum()?;
    assert_eq!((there.ndim(), there.device()), (0, Device::Meta));
    let x = x.requires_grad_(true);
    x.mul(&x)?.mean()?.backward()?;
    let g = x.grad().expect("a gradient").to_vec::<f32>()?;
    for (g, x) in g.iter().zip(&values) {
        assert!((g - x / 12.0).abs() < 1e-6);
    }
    Ok(())
}
