//! The gradient of ctc_loss: that of the scores whose log-softmax the log-probabilities are.

use torsh_autograd::{grad, gradcheck};
use torsh_tensor::{CtcLossOptions, DType, Device, Reduction, Result, Tensor, TorshError, tensor};

fn scores() -> Result<Tensor> {
    let t = Tensor::linspace(-1.0, 1.0, 40, DType::F64, Device::Cpu)?;
    t.reshape([5, 2, 4])?.sin()
}

fn options() -> CtcLossOptions {
    CtcLossOptions::default().reduction(Reduction::None)
}

#[test]
fn the_gradient_of_scores_is_the_numeric_one() -> Result<()> {
    let labels = tensor![[1, 1, 2], [3, 2, 1]];
    let x = scores()?.requires_grad_(true);
    let loss = |v: &[Tensor]| {
        let log_probs = v[0].log_softmax(-1)?;
        let losses = log_probs.ctc_loss_with(&labels, [5, 4], [3, 2], options())?;
        Ok(vec![losses])
    };
    assert!(gradcheck(loss, &[x.clone()])?);
    let mean = |v: &[Tensor]| {
        Ok(vec![v[0].log_softmax(-1)?.ctc_loss(
            &labels,
            [5, 4],
            [3, 2],
        )?])
    };
    assert!(gradcheck(mean, &[x])?);
    Ok(())
}

#[test]
fn the_gradient_of_log_probabilities_is_pytorchs() -> Result<()> {
    let x = scores()?.log_softmax(-1)?.detach().requires_grad_(true);
    let labels = tensor![[1, 1, 2], [3, 2, 1]];
    let losses = x.ctc_loss_with(&labels, [5, 4], [3, 2], options())?;
    losses.sum()?.backward()?;
    let g = x.grad().unwrap().to_vec::<f64>()?;
    let first = [
        0.09858800247518756,
        -0.61405030935107,
        0.2534797473991081,
        0.26198255947677385,
        -0.08735671740755468,
        0.24477888276296272,
        0.25441695434072636,
        -0.41183911969613435,
    ];
    // The second sequence ends ahead of the last time.
    let last = [
        0.09446932818663167,
        0.24520280527683272,
        -0.6040935696480543,
        0.26442143618459,
        0.0,
        0.0,
        0.0,
        0.0,
    ];
    for (a, b) in g[..8].iter().zip(first).chain(g[32..].iter().zip(last)) {
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }
    Ok(())
}

#[test]
fn infinite_losses_have_no_gradient_where_they_count_as_zero() -> Result<()> {
    let x = scores()?.log_softmax(-1)?.detach().requires_grad_(true);
    let labels = tensor![[1, 1, 1], [1, 2, 3]];
    let losses = x.ctc_loss_with(&labels, [4, 4], [3, 3], options().zero_infinity(true))?;
    assert_eq!(losses.select(0, 0)?.item::<f64>()?, 0.0);
    losses.sum()?.backward()?;
    let g = x.grad().unwrap();
    assert!(g.select(1, 0)?.eq(0.0)?.all()?.item::<bool>()?);
    assert!(g.select(1, 1)?.isfinite()?.all()?.item::<bool>()?);
    assert!(g.select(1, 1)?.abs()?.sum()?.item::<f64>()? > 1.0);
    Ok(())
}

#[test]
fn the_gradient_has_no_derivative_and_says_so() -> Result<()> {
    let x = scores()?.log_softmax(-1)?.detach().requires_grad_(true);
    let loss = x.ctc_loss(&tensor![[1, 1, 2], [3, 2, 1]], [5, 4], [3, 2])?;
    let g = grad(&[loss], &[x.clone()], &[None], true, true, false)?;
    let g = g[0].clone().unwrap();
    let error = g.square()?.sum()?.backward().unwrap_err();
    assert!(matches!(error, TorshError::Autograd(_)), "{error}");
    assert!(error.to_string().contains("_ctc_loss_backward"), "{error}");
    Ok(())
}
