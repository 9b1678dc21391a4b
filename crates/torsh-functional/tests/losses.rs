//! Losses where the golden cases do not look: refused numbers, limits, reductions, labels.

use torsh_functional as F;
use torsh_tensor::{DType, Result, Tensor, tensor};

fn close(got: f32, want: f32) {
    assert!(
        (got - want).abs() <= 1e-6 * (1.0 + want.abs()),
        "{got} instead of {want}"
    );
}

#[test]
fn probabilities_outside_of_0_to_1_are_refused() -> Result<()> {
    let target = tensor![0.0, 1.0, 1.0];
    for reduction in [F::Reduction::None, F::Reduction::Mean, F::Reduction::Sum] {
        let loss = |x: &Tensor| {
            F::binary_cross_entropy_with(x, &target, F::BceOptions::default().reduction(reduction))
        };
        for bad in [-0.1, 1.1, f32::NAN] {
            let e = loss(&tensor![0.5, bad, 0.5]).expect_err("no probability");
            assert!(e.to_string().contains("between 0 and 1"), "{e}");
        }
        // At the ends logarithms stop at -100, and a nan in the target is no fault of the input.
        let total = loss(&tensor![1.0, 0.0, 1.0])?.sum()?.item::<f32>()?;
        close(
            total,
            if reduction == F::Reduction::Mean {
                200.0 / 3.0
            } else {
                200.0
            },
        );
        let x = tensor![0.5, 0.5, 0.5];
        let nan = tensor![0.0, f32::NAN, 1.0];
        assert!(F::binary_cross_entropy(&x, &nan)?.item::<f32>()?.is_nan());
    }
    Ok(())
}

#[test]
fn logits_of_any_size_have_a_finite_loss() -> Result<()> {
    let (x, y) = (tensor![-200.0, 200.0, 0.0], tensor![1.0, 0.0, 1.0]);
    let options = F::BceWithLogitsOptions::default()
        .pos_weight(&tensor![3.0])
        .reduction(F::Reduction::None);
    let loss = F::binary_cross_entropy_with_logits_with(&x, &y, options)?.to_vec::<f32>()?;
    for (got, want) in loss.into_iter().zip([600.0, 200.0, 3.0 * 2.0f32.ln()]) {
        close(got, want);
    }
    Ok(())
}

#[test]
fn divergence_of_a_zero_and_by_batch() -> Result<()> {
    let x = tensor![[0.5, 0.5], [0.25, 0.75]].log()?;
    let y = tensor![[1.0, 0.0], [0.25, 0.75]];
    let of = |r| F::kl_div_with(&x, &y, F::KlDivOptions::default().reduction(r))?.item::<f32>();
    close(of(F::Reduction::Sum)?, 2.0f32.ln());
    close(of(F::Reduction::BatchMean)?, 2.0f32.ln() / 2.0);
    close(of(F::Reduction::Mean)?, 2.0f32.ln() / 4.0);
    // No other loss divides by the batch.
    assert!(
        F::soft_margin_loss_with(
            &x,
            &y,
            F::LossOptions::new().reduction(F::Reduction::BatchMean)
        )
        .is_err()
    );
    let options = F::CrossEntropyOptions::default().reduction(F::Reduction::BatchMean);
    for target in [&y, &tensor![0, 1]] {
        let e = F::cross_entropy_with(&x, target, options.clone()).unwrap_err();
        assert!(e.to_string().contains("batchmean is not a valid"), "{e}");
    }
    let options = F::NllLossOptions::default().reduction(F::Reduction::BatchMean);
    let e = F::nll_loss_with(&x, &tensor![0, 1], options).unwrap_err();
    assert!(e.to_string().contains("batchmean is not a valid"), "{e}");
    Ok(())
}

#[test]
fn variances_are_numbers_or_tensors() -> Result<()> {
    let (x, y) = (
        tensor![[1.0, 2.0], [3.0, 5.0]],
        tensor![[1.0, 1.0], [1.0, 1.0]],
    );
    let mean =
        |v: f32, d: [f32; 4]| d.map(|d| 0.5 * (v.ln() + d * d / v)).iter().sum::<f32>() / 4.0;
    let want = mean(4.0, [0.0, 1.0, 2.0, 4.0]);
    close(F::gaussian_nll_loss(&x, &y, 4.0)?.item()?, want);
    close(
        F::gaussian_nll_loss(&x, &y, &tensor![4.0, 4.0])?.item()?,
        want,
    );
    assert!(F::gaussian_nll_loss(&x, &y, -1.0).is_err());
    assert!(F::gaussian_nll_loss(&x, &y, &tensor![4.0, -4.0]).is_err());
    // Below eps the variance counts as eps, and its gradient passes nevertheless.
    let v = tensor![0.0, 0.0].requires_grad_(true);
    let options = F::GaussianNllLossOptions::default().eps(0.5);
    F::gaussian_nll_loss_with(&x, &y, &v, options)?.backward()?;
    let grad = v.grad().expect("a gradient").to_vec::<f32>()?;
    // (v - d^2) / (2 v^2) of each row, over 4 elements.
    close(grad[0], ((0.5 - 0.0) + (0.5 - 1.0)) / 0.5 / 4.0);
    close(grad[1], ((0.5 - 4.0) + (0.5 - 16.0)) / 0.5 / 4.0);
    Ok(())
}

#[test]
fn labels_end_at_the_first_negative() -> Result<()> {
    let x = tensor![[0.1, 0.2, 0.4, 0.8]];
    // Classes 3 and 0; what follows the -1 does not count.
    let loss = F::multilabel_margin_loss(&x, &tensor![[3, 0, -1, 1]])?;
    close(loss.item()?, (0.4 + 0.6 + 1.1 + 1.3) / 4.0);
    assert!(F::multilabel_margin_loss(&x, &tensor![[3, 4, -1, 1]]).is_err());
    assert!(F::multilabel_margin_loss(&x, &tensor![[3, -2, -1, 1]]).is_err());
    let loss = |p: i64| {
        let options = F::MultiMarginLossOptions::default().p(p);
        F::multi_margin_loss_with(&x, &tensor![2], options)?.item::<f32>()
    };
    close(loss(1)?, (0.7 + 0.8 + 1.4) / 4.0);
    close(loss(2)?, (0.49 + 0.64 + 1.96) / 4.0);
    assert!(loss(3).is_err());
    assert!(F::multi_margin_loss(&x, &tensor![4]).is_err());
    Ok(())
}

#[test]
fn integers_wrap_before_the_margin() -> Result<()> {
    let u8s = |v: &[i64]| Tensor::from_data(v, v.len()).and_then(|t| t.to_dtype(DType::U8));
    let (a, b, y) = (u8s(&[5, 2])?, u8s(&[2, 5])?, u8s(&[3, 1])?);
    let options = F::MarginRankingLossOptions::default().reduction(F::Reduction::None);
    let loss = F::margin_ranking_loss_with(&a, &b, &y, options)?;
    // -3 * 3 and -1 * -3 in eight bits.
    assert_eq!(loss.to_vec::<f32>()?, [247.0, 3.0]);
    Ok(())
}

#[test]
fn directions_and_shuffles() -> Result<()> {
    let (x, y) = (
        tensor![[3.0, 4.0], [0.0, 0.0]],
        tensor![[4.0, 3.0], [1.0, 0.0]],
    );
    let cosines = F::cosine_similarity(&x, &y)?.to_vec::<f32>()?;
    close(cosines[0], 0.96);
    assert_eq!(cosines[1], 0.0);
    let a = tensor![[1, 2, 3], [4, 5, 6]];
    assert_eq!(
        F::cross(&a, &tensor![[0, 0, 1], [1, 0, 0]])?,
        tensor![[2, -1, 0], [0, 6, -5]]
    );
    let last = F::cross_dim(&a.t()?, &tensor![[0], [0], [1]], 0)?;
    assert_eq!(last, tensor![[2, 5], [-1, -4], [0, 0]]);
    let image = Tensor::from_vec((0..72).collect::<Vec<i64>>(), [1, 2, 6, 6])?;
    let channels = F::pixel_unshuffle(&image, 3)?;
    assert_eq!(channels.dims(), [1, 18, 2, 2]);
    assert_eq!(channels.select(1, 4)?.to_vec::<i64>()?, [7, 10, 25, 28]);
    assert_eq!(F::pixel_shuffle(&channels, 3)?, image);
    let mixed = F::channel_shuffle(&tensor![[[0], [1], [2], [3], [4], [5]]], 2)?;
    assert_eq!(mixed.to_vec::<i64>()?, [0, 3, 1, 4, 2, 5]);
    // The result is never the operand's memory.
    assert!(!F::pixel_shuffle(&image, 1)?.shares_storage(&image));
    Ok(())
}
