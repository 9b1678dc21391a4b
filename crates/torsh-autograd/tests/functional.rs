//! vjp, jvp, jacobian, hessian and hvp against closed forms.

use crate::common::{close, fails, g, leaf, t, v};
use torsh_autograd::{
    GradcheckOptions, gradcheck, gradcheck_with, gradgradcheck, gradgradcheck_with, hessian, hvp,
    jacobian, jvp, vjp,
};
use torsh_tensor::{
    AttentionWindow, DType, Result, ScaledDotProductAttentionOptions, Tensor, TorshError,
};

/// `[x0 x1, sin x0, x1^2 w]` for `x` of two elements and `w` of one.
fn f(x: &[Tensor]) -> Result<Tensor> {
    let (a, b) = (x[0].narrow(0, 0, 1)?, x[0].narrow(0, 1, 1)?);
    Tensor::cat(&[a.mul(&b)?, a.sin()?, b.mul(&b)?.mul(&x[1])?], 0)
}

const A: f64 = 0.7;
const B: f64 = -1.3;
const W: f64 = 2.5;

fn inputs() -> [Tensor; 2] {
    [t(&[A, B]), t(&[W])]
}

fn jacobian_of_x() -> [[f64; 2]; 3] {
    [[B, A], [A.cos(), 0.], [0., 2. * B * W]]
}

#[test]
fn products_with_the_jacobian() -> Result<()> {
    let j = jacobian_of_x();
    let u = [1., 10., 100.];
    let (y, found) = vjp(f, &inputs(), &t(&u))?;
    close(&v(&y), &[A * B, A.sin(), B * B * W], 1e-15);
    let column = |c: usize| (0..3).map(|r| u[r] * j[r][c]).sum::<f64>();
    close(&v(&found[0]), &[column(0), column(1)], 1e-14);
    close(&v(&found[1]), &[100. * B * B], 1e-14);
    assert!(!y.requires_grad());
    let (y, found) = jvp(f, &inputs(), &[t(&[3., 5.]), t(&[7.])])?;
    close(&v(&y), &[A * B, A.sin(), B * B * W], 1e-15);
    let mut want: Vec<f64> = j.iter().map(|r| 3. * r[0] + 5. * r[1]).collect();
    want[2] += 7. * B * B;
    close(&v(&found), &want, 1e-14);
    fails(
        jvp(f, &inputs(), &[t(&[1., 1.])]),
        &["2 inputs and 1 tangents"],
    );
    Ok(())
}

#[test]
fn jacobians() -> Result<()> {
    let found = jacobian(f, &inputs(), false)?;
    assert_eq!(
        (found[0].dims(), found[1].dims()),
        (&[3, 2][..], &[3, 1][..])
    );
    close(&v(&found[0]), jacobian_of_x().as_flattened(), 1e-14);
    close(&v(&found[1]), &[0., 0., B * B], 1e-14);
    // Output shape + input shape.
    let x = Tensor::from_data(&[1., 2., 3., 4.], [2, 2])?;
    let found = jacobian(|x| x[0].transpose(0, 1), &[x], false)?;
    assert_eq!(found[0].dims(), [2, 2, 2, 2]);
    let at = |i: [usize; 4]| v(&found[0])[((i[0] * 2 + i[1]) * 2 + i[2]) * 2 + i[3]];
    for i in 0..16 {
        let i = [i >> 3 & 1, i >> 2 & 1, i >> 1 & 1, i & 1];
        assert_eq!(at(i), if i[0] == i[3] && i[1] == i[2] { 1. } else { 0. });
    }
    // Differentiated again: the derivative of the diagonal of d(x^3)/dx is 6 x.
    let x = leaf(&[1., 2.]);
    let cube = |x: &[Tensor]| x[0].pow(3.0);
    let j = jacobian(cube, &[x.clone()], true)?.remove(0);
    assert_eq!(v(&j), [3., 0., 0., 12.]);
    j.sum()?.backward()?;
    assert_eq!(g(&x), [6., 12.]);
    // Also of inputs that were not asked for gradients.
    let j = jacobian(|x| x[0].mul(&x[1]), &[x, t(&[5., 7.])], true)?;
    assert_eq!(v(&j[0]), [5., 0., 0., 7.]);
    assert_eq!(v(&j[1]), [1., 0., 0., 2.]);
    Ok(())
}

#[test]
fn hessians() -> Result<()> {
    // x0^2 x1 w + sin(x0): all second derivatives by hand.
    let f = |x: &[Tensor]| {
        let (a, b) = (x[0].select(0, 0)?, x[0].select(0, 1)?);
        let w = x[1].select(0, 0)?;
        a.mul(&a)?.mul(&b)?.mul(&w)?.add(&a.sin()?)
    };
    let h = hessian(f, &inputs())?;
    close(
        &v(&h[0][0]),
        &[2. * B * W - A.sin(), 2. * A * W, 2. * A * W, 0.],
        1e-14,
    );
    close(&v(&h[0][1]), &[2. * A * B, A * A], 1e-14);
    close(&v(&h[1][0]), &[2. * A * B, A * A], 1e-14);
    close(&v(&h[1][1]), &[0.], 1e-14);
    let (y, p) = hvp(f, &inputs(), &[t(&[3., 5.]), t(&[7.])])?;
    close(&v(&y), &[A * A * B * W + A.sin()], 1e-14);
    close(
        &v(&p[0]),
        &[
            3. * (2. * B * W - A.sin()) + 5. * 2. * A * W + 7. * 2. * A * B,
            3. * 2. * A * W + 7. * A * A,
        ],
        1e-14,
    );
    close(&v(&p[1]), &[3. * 2. * A * B + 5. * A * A], 1e-14);
    fails(
        hessian(|x| x[0].mul(2.0), &inputs()),
        &["must return one number"],
    );
    fails(
        hvp(f, &inputs(), &[t(&[1., 1.])]),
        &["2 inputs and 1 vectors"],
    );
    // x^T M x has the Hessian M + M^T.
    let m = Tensor::from_data(&[1., 2., 3., 4., 5., 6., 7., 8., 9.], [3, 3])?;
    let h = hessian(|x| m.matmul(&x[0])?.mul(&x[0])?.sum(), &[t(&[1., -1., 2.])])?;
    assert_eq!(v(&h[0][0]), [2., 6., 10., 6., 10., 14., 10., 14., 18.]);
    Ok(())
}

#[test]
fn functions_that_do_not_depend() -> Result<()> {
    let x = t(&[1., 2.]);
    let constant = |_: &[Tensor]| Ok(t(&[3., 3.]));
    let (y, g) = vjp(constant, &[x.clone()], &t(&[1., 1.]))?;
    assert_eq!((v(&y), v(&g[0])), (vec![3., 3.], vec![0., 0.]));
    let (y, g) = jvp(constant, &[x.clone()], &[t(&[1., 1.])])?;
    assert_eq!((v(&y), v(&g)), (vec![3., 3.], vec![0., 0.]));
    assert_eq!(v(&jacobian(constant, &[x.clone()], false)?[0]), [0.; 4]);
    // Linear ones have no second derivative.
    let h = hessian(|x| x[0].sum(), &[x.clone()])?;
    assert_eq!(v(&h[0][0]), [0.; 4]);
    let (_, p) = hvp(|x| x[0].sum(), &[x.clone()], &[t(&[1., 1.])])?;
    assert_eq!(v(&p[0]), [0., 0.]);
    let (_, g) = jvp(|x| x[0].mul(3.0), &[x], &[t(&[1., 10.])])?;
    assert_eq!(v(&g), [3., 30.]);
    // Whole numbers have no derivatives: an error, no panic.
    let i = Tensor::from_data(&[1i64, 2], [2])?;
    let words = ["only floating-point and complex tensors can require gradients"];
    fails(jacobian(|x| x[0].mul(2), &[i.clone()], false), &words);
    fails(vjp(|x| x[0].mul(2), &[i.clone()], &i), &words);
    fails(hessian(|x| x[0].sum(), &[i]), &words);
    Ok(())
}

#[test]
fn the_inputs_are_left_alone() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let square = |x: &[Tensor]| x[0].mul(&x[0])?.sum();
    hessian(square, &[x.clone()])?;
    jacobian(square, &[x.clone()], false)?;
    vjp(square, &[x.clone()], &Tensor::from_data(&[1.0f64], ())?)?;
    assert!(!x.has_grad());
    // Also under no_grad.
    let h = torsh_tensor::no_grad(|| hessian(square, &[x.clone()]))?;
    assert_eq!(v(&h[0][0]), [2., 0., 0., 2.]);
    Ok(())
}

#[test]
fn gradcheck_finds_wrong_derivatives() -> Result<()> {
    use torsh_autograd::{Context, Function, apply};
    struct Wrong;
    impl Function for Wrong {
        fn forward(&self, cx: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
            cx.save_for_backward(&[&x[0]]);
            Ok(vec![x[0].mul(&x[0])?])
        }
        fn backward(&self, g: &[Option<Tensor>], s: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
            // 2.01 x in place of 2 x.
            let g = g[0].clone().expect("zeros are filled in");
            Ok(vec![Some(g.mul(&s[0])?.mul(2.01)?)])
        }
    }
    fails(
        gradcheck(|x| apply(Wrong, &[&x[0]]), &[leaf(&[1., 2.])]),
        &["gradcheck", "input 0", "wrong at element 0"],
    );
    let fast = GradcheckOptions::new().fast_mode(true);
    fails(
        gradcheck_with(|x| apply(Wrong, &[&x[0]]), &[leaf(&[1., 2.])], fast),
        &["gradcheck", "input 0", "wrong in a direction"],
    );
    let sines = |x: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![x[0].sin()?]) };
    assert!(gradcheck_with(sines, &[leaf(&[1., 2.])], fast)?);
    assert!(gradgradcheck_with(sines, &[leaf(&[1., 2.])], fast)?);
    let single = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
    fails(
        gradcheck(|x| Ok(vec![x[0].sin()?]), &[single]),
        &["must be float64 or complex128"],
    );
    // A step that changes what comes out.
    let grows = |x: &[Tensor]| -> Result<Vec<Tensor>> {
        let n = if x[0].select(0, 0)?.item::<f64>()? > 1.0 {
            2usize
        } else {
            1
        };
        Ok(vec![x[0].sin()?.repeat([n])?])
    };
    fails(
        gradcheck(grows, &[leaf(&[1., 2.])]),
        &["gradcheck", "other shapes where input 0 changes"],
    );
    fails(
        gradcheck(|x| Ok(vec![x[0].detach()]), &[leaf(&[1.])]),
        &["no output requires grad"],
    );
    assert!(gradgradcheck(
        |x| Ok(vec![x[0].sin()?]),
        &[leaf(&[1., 2.])]
    )?);
    Ok(())
}

/// Attention to a window of keys is attention under the mask that shows that window, in all derivatives.
#[test]
fn attention_to_a_window_is_attention_under_its_mask() -> Result<()> {
    let _own = torsh_core::random::LocalGenerator::new(0).enter();
    let draw = |heads: usize, n: usize, columns: usize| {
        let x = torsh_tensor::randn(&[2, heads, n, columns]).to_dtype(DType::F64)?;
        Ok::<_, TorshError>(x.detach().requires_grad_(true))
    };
    let inputs = [draw(4, 3, 2)?, draw(2, 5, 2)?, draw(2, 5, 3)?];
    let shown = t(&[1., 1., 0., 1., 1., 1., 1., 1., 1., 0.]).reshape([2, 1, 1, 5])?;
    let shown = shown.to_dtype(DType::Bool)?;
    for (past, left, right) in [
        (2, None, Some(0)),
        (2, Some(1), Some(0)),
        (0, Some(1), Some(2)),
        (1, Some(1), None),
    ] {
        let seen = Tensor::from_fn([3, 5], |at| {
            let (own, key) = (past + at[0], at[1]);
            left.is_none_or(|n: usize| key + n >= own)
                && right.is_none_or(|n: usize| key <= own + n)
        })?;
        for shown in [None, Some(&shown)] {
            let options = || ScaledDotProductAttentionOptions::new().enable_gqa(true);
            let by_window = |x: &[Tensor]| {
                let mut options = options().window(AttentionWindow { past, left, right });
                options.attn_mask = shown.cloned();
                Ok(vec![x[0].scaled_dot_product_attention_with(
                    &x[1], &x[2], options,
                )?])
            };
            let mask = match shown {
                Some(shown) => seen.logical_and(shown)?,
                None => seen.clone(),
            };
            let options = options().attn_mask(&mask);
            let by_mask =
                inputs[0].scaled_dot_product_attention_with(&inputs[1], &inputs[2], options)?;
            assert!(by_window(&inputs)?[0].allclose(&by_mask)?);
            assert!(gradcheck(by_window, &inputs)?);
            assert!(gradgradcheck(by_window, &inputs)?);
        }
    }
    let both = ScaledDotProductAttentionOptions::new()
        .is_causal(true)
        .window(AttentionWindow::default());
    let [q, k, v] = &inputs;
    let error = q.scaled_dot_product_attention_with(k, v, both).err();
    assert!(error.is_some_and(|e| e.to_string().contains("is_causal")));
    Ok(())
}
