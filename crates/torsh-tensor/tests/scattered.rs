//! Gradients of what writes, adds and reduces by index: equal elements, zeros, sources that the index reads in part, and
//! reductions of segments. Values are PyTorch's unless said otherwise.

use torsh_tensor::{
    DType, Device, IndexReduceOptions, Result, ScatterReduceOptions, SegmentReduceOptions, Tensor,
    backward, grad, tensor, zeros,
};

fn leaf(v: &[f64]) -> Tensor {
    let t = Tensor::from_data(v, [v.len()]).expect("fits");
    t.requires_grad_(true)
}

fn ints(v: &[i64]) -> Tensor {
    Tensor::from_data(v, [v.len()]).expect("fits")
}

fn values(t: &Tensor) -> Vec<f64> {
    t.to_vec().expect("float64")
}

/// The gradients of the leaves for a gradient of ones, or of what is given.
fn gradients(y: &Tensor, g: Option<&[f64]>, of: [&Tensor; 2]) -> Result<[Vec<f64>; 2]> {
    let g = match g {
        Some(g) => Tensor::from_data(g, [g.len()])?,
        None => y.detach().ones_like()?,
    };
    for t in of {
        t.zero_grad();
    }
    backward(std::slice::from_ref(y), &[Some(g)], false, false)?;
    Ok(of.map(|t| values(&t.grad().expect("a gradient"))))
}

#[track_caller]
fn near(have: &[f64], want: &[f64]) {
    let fits = |(h, w): (&f64, &f64)| h == w || (h - w).abs() < 1e-15 || (h.is_nan() && w.is_nan());
    assert!(
        have.len() == want.len() && have.iter().zip(want).all(fits),
        "{have:?}, not {want:?}"
    );
}

const BOTH: [bool; 2] = [true, false];

/// `scatter_reduce` and `index_reduce` into two elements.
fn reduced(
    by_element: bool,
    (x, index, src): (&Tensor, &[i64], &Tensor),
    reduce: &str,
    include: bool,
) -> Result<Tensor> {
    let index = ints(index);
    match by_element {
        true => {
            let options = ScatterReduceOptions::new().include_self(include);
            x.scatter_reduce_with(0, &index, src, reduce, options)
        }
        false => {
            let options = IndexReduceOptions::new().include_self(include);
            x.index_reduce_with(0, &index, src, reduce, options)
        }
    }
}

#[test]
fn ties_and_zeros() -> Result<()> {
    let (x, src) = (leaf(&[2., 2.]), leaf(&[2., 2.]));
    for by_element in BOTH {
        let run = |reduce: &str, include| -> Result<[Vec<f64>; 2]> {
            let y = reduced(by_element, (&x, &[0, 0], &src), reduce, include)?;
            gradients(&y, None, [&x, &src])
        };
        for reduce in ["amax", "amin"] {
            let third = 1. / 3.;
            let [gx, gs] = run(reduce, true)?;
            near(&gx, &[third, 1.]);
            near(&gs, &[third, third]);
            // An element that takes no part takes no share. (In PyTorch it does, and the shares of the others are thirds.)
            let [gx, gs] = run(reduce, false)?;
            near(&gx, &[0., 1.]);
            near(&gs, &[0.5, 0.5]);
        }
        let [gx, gs] = run("mean", true)?;
        near(&gx, &[1. / 3., 1.]);
        near(&gs, &[1. / 3., 1. / 3.]);
        let [gx, gs] = run("mean", false)?;
        near(&gx, &[0., 1.]);
        near(&gs, &[0.5, 0.5]);
        let [gx, gs] = run("prod", true)?;
        near(&gx, &[4., 1.]);
        near(&gs, &[4., 4.]);
        let [gx, gs] = run("prod", false)?;
        near(&gx, &[0., 1.]);
        near(&gs, &[2., 2.]);
        // Zeros: two of them at one element, one at another.
        let (x, src) = (leaf(&[3., 0.]), leaf(&[0., 0., 5., 0.]));
        let run = |include, index: &[i64]| -> Result<[Vec<f64>; 2]> {
            let y = reduced(by_element, (&x, index, &src), "prod", include)?;
            gradients(&y, None, [&x, &src])
        };
        let [gx, gs] = run(true, &[0, 0, 1, 0])?;
        near(&gx, &[0., 5.]);
        near(&gs, &[0., 0., 0., 0.]);
        let [gx, gs] = run(true, &[0, 1, 0, 1])?;
        near(&gx, &[0., 0.]);
        near(&gs, &[15., 0., 0., 0.]);
        let [gx, gs] = run(false, &[0, 1, 0, 1])?;
        near(&gx, &[0., 0.]);
        near(&gs, &[5., 0., 0., 0.]);
    }
    // NaN.
    let (x, src) = (leaf(&[2., 2.]), leaf(&[f64::NAN, 2., 1.]));
    let y = reduced(true, (&x, &[0, 0, 1], &src), "amax", true)?;
    let [gx, gs] = gradients(&y, None, [&x, &src])?;
    near(&gx, &[f64::NAN, 1.]);
    near(&gs, &[f64::NAN, f64::NAN, 0.]);
    Ok(())
}

#[test]
fn an_index_smaller_than_the_source() -> Result<()> {
    // PyTorch computes the values, and refuses the gradients; these are those of the part that is read.
    let src = leaf(&[1., 2., 3.]);
    let x = leaf(&[0., 0.]);
    let cases: [(&str, bool, [f64; 2], [f64; 3]); 10] = [
        ("sum", true, [1., 1.], [1., 1., 0.]),
        ("sum", false, [0., 1.], [1., 1., 0.]),
        ("prod", true, [2., 1.], [0., 0., 0.]),
        ("prod", false, [0., 1.], [2., 1., 0.]),
        ("mean", true, [1. / 3., 1.], [1. / 3., 1. / 3., 0.]),
        ("mean", false, [0., 1.], [0.5, 0.5, 0.]),
        ("amax", true, [0., 1.], [0., 1., 0.]),
        ("amax", false, [0., 1.], [0., 1., 0.]),
        ("amin", true, [1., 1.], [0., 0., 0.]),
        ("amin", false, [0., 1.], [1., 0., 0.]),
    ];
    for (reduce, include, to_x, to_src) in cases {
        let y = reduced(true, (&x, &[0, 0], &src), reduce, include)?;
        let [gx, gs] = gradients(&y, None, [&x, &src])?;
        near(&gx, &to_x);
        near(&gs, &to_src);
    }
    // Along one dimension and in the other, of a larger tensor.
    let src = Tensor::from_vec((1..=12).map(f64::from).collect(), [3, 4])?.requires_grad_(true);
    let x = Tensor::zeros([3, 3], DType::F64, Device::Cpu)?.requires_grad_(true);
    let index = Tensor::from_data(&[0i64, 2, 2, 1, 1, 1], [2, 3])?;
    let weight = Tensor::from_vec((1..=9).map(f64::from).collect(), [3, 3])?;
    let of = |y: Tensor| -> Result<[Vec<f64>; 2]> {
        src.zero_grad();
        x.zero_grad();
        y.mul(&weight)?.sum()?.backward()?;
        let row = |t: &Tensor| values(&t.grad().expect("a gradient"));
        Ok([row(&x), row(&src)])
    };
    let all: Vec<f64> = values(&weight);
    let [gx, gs] = of(x.scatter_add(1, &index, &src)?)?;
    near(&gx, &all);
    near(&gs, &[1., 3., 3., 0., 5., 5., 5., 0., 0., 0., 0., 0.]);
    let [gx, gs] = of(x.scatter_reduce(1, &index, &src, "amax")?)?;
    near(&gx, &[0., 2., 0., 4., 0., 6., 7., 8., 9.]);
    near(&gs, &[1., 0., 3., 0., 0., 0., 5., 0., 0., 0., 0., 0.]);
    let last = Tensor::from_data(&[0i64, 2], [2, 1])?;
    let [gx, gs] = of(x.scatter(1, &last, &src)?)?;
    near(&gx, &[0., 2., 3., 4., 5., 0., 7., 8., 9.]);
    near(&gs, &[1., 0., 0., 0., 6., 0., 0., 0., 0., 0., 0., 0.]);
    // An index of no elements, whose rank PyTorch does not ask for.
    let none = Tensor::zeros([0], DType::I64, Device::Cpu)?;
    for y in [
        x.scatter_add(0, &none, &src)?,
        x.scatter_reduce(0, &none, &src, "amax")?,
        x.scatter_reduce(0, &none, &src, "prod")?,
    ] {
        let [gx, gs] = of(y)?;
        near(&gx, &all);
        near(&gs, &[0.; 12]);
    }
    // The input of the report, in float32.
    let src = tensor![1.0, 2.0, 3.0].requires_grad_(true);
    zeros(&[2])
        .scatter_reduce(0, &tensor![0, 0], &src, "amax")?
        .sum()?
        .backward()?;
    assert_eq!(src.grad(), Some(tensor![0.0, 1.0, 0.0]));
    Ok(())
}

#[test]
fn derivatives_of_gradients() -> Result<()> {
    // Of products: x a b, whose mixed derivatives are the third factor.
    let (x, src) = (leaf(&[2., 7.]), leaf(&[3., 5.]));
    let y = reduced(true, (&x, &[0, 0], &src), "prod", true)?.sum()?;
    let both = [x.clone(), src.clone()];
    let first = grad(&[y], &both, &[], true, true, false)?;
    let of_a = first[1].clone().expect("used").select(0, 0)?;
    let second = grad(&[of_a], &both, &[], true, false, true)?;
    near(&values(&second[0].clone().expect("used")), &[5., 0.]);
    near(&values(&second[1].clone().expect("used")), &[0., 2.]);
    // Where several zeros meet, PyTorch refuses the second derivative of the source, and has that of the target.
    let (x, src) = (leaf(&[2., 7.]), leaf(&[0., 0., 5.]));
    let y = reduced(true, (&x, &[0, 0, 1], &src), "prod", true)?.sum()?;
    let both = [x.clone(), src.clone()];
    let first = grad(&[y], &both, &[], true, true, false)?;
    near(&values(&first[1].clone().expect("used")), &[0., 0., 7.]);
    let sum = first[1].clone().expect("used").sum()?;
    let e = grad(&[sum], &both, &[], true, false, true).expect_err("refused");
    assert!(
        e.to_string()
            .contains("Double backward is unsupported for src when >1 zeros"),
        "{e}"
    );
    let sum = first[0].clone().expect("used").sum()?;
    let second = grad(&[sum], &both, &[], true, false, true)?;
    near(&values(&second[1].clone().expect("used")), &[0., 0., 1.]);
    Ok(())
}

#[test]
fn segments() -> Result<()> {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let data = leaf(&[2., 2., 1., -inf, 0., 0., nan, 1.]);
    let run = |reduce: &str, initial: Option<f64>, g: f64| -> Result<(Vec<f64>, Vec<f64>)> {
        let mut options = SegmentReduceOptions::new().lengths(ints(&[3, 0, 1, 2, 2]));
        options.initial = initial;
        let y = data.segment_reduce(reduce, options)?;
        data.zero_grad();
        y.mul(g)?.sum()?.backward()?;
        Ok((values(&y), values(&data.grad().expect("a gradient"))))
    };
    let check = |reduce, initial, want: [f64; 5], grads: [f64; 8]| -> Result<()> {
        // Shares of a tie do not depend on the sign. (In PyTorch those of negative gradients are not divided.)
        for g in [1., -1.] {
            let (y, found) = run(reduce, initial, g)?;
            near(&y, &want);
            near(&found.iter().map(|v| v * g).collect::<Vec<_>>(), &grads);
        }
        Ok(())
    };
    // Neither infinity, with which an empty segment begins, nor a value that is given takes a share.
    let half = 0.5;
    check(
        "max",
        None,
        [2., -inf, -inf, 0., nan],
        [half, half, 0., 1., half, half, 1., 0.],
    )?;
    check(
        "max",
        Some(2.),
        [2., 2., 2., 2., nan],
        [half, half, 0., 0., 0., 0., 1., 0.],
    )?;
    check(
        "max",
        Some(0.),
        [2., 0., 0., 0., nan],
        [half, half, 0., 0., half, half, 1., 0.],
    )?;
    check(
        "min",
        Some(0.),
        [0., 0., -inf, 0., nan],
        [0., 0., 0., 1., half, half, 1., 0.],
    )?;
    check(
        "min",
        None,
        [1., inf, -inf, 0., nan],
        [0., 0., 1., 1., half, half, 1., 0.],
    )?;
    let third = 1. / 3.;
    check(
        "mean",
        Some(2.),
        [7. / 3., 2., -inf, 1., nan],
        [third, third, third, 1., half, half, half, half],
    )?;
    let data = leaf(&[2., 3., 0., 4., 0., 0.]);
    let y = data.segment_reduce(
        "prod",
        SegmentReduceOptions::new().lengths(ints(&[2, 2, 2])),
    )?;
    let [g, _] = gradients(&y, None, [&data, &data])?;
    near(&g, &[3., 2., 4., 0., 0., 0.]);
    Ok(())
}
