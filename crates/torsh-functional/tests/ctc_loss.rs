//! ctc_loss, bilinear, pairwise_distance and the composites against PyTorch's values.

use torsh_functional::{self as F, CtcLossOptions, LinearCrossEntropyOptions, Reduction};
use torsh_tensor::{DType, Device, Result, Tensor, tensor};

fn log_probs() -> Result<Tensor> {
    let t = Tensor::linspace(-1.0, 1.0, 40, DType::F64, Device::Cpu)?;
    t.reshape([5, 2, 4])?.sin()?.log_softmax(-1)
}

fn assert_close(t: &Tensor, expected: &[f64]) {
    let ours = t.to_vec::<f64>().unwrap();
    assert_eq!(ours.len(), expected.len(), "{t}");
    for (a, b) in ours.iter().zip(expected) {
        assert!(a == b || (a - b).abs() < 1e-12, "{a} is not {b}");
    }
}

#[test]
fn ctc_losses_are_pytorchs() -> Result<()> {
    let x = log_probs()?;
    let none = CtcLossOptions::default().reduction(Reduction::None);
    let padded = tensor![[1, 1, 2], [3, 2, 1]];
    let losses = F::ctc_loss_with(&x, &padded, [5, 4], [3, 2], none.clone())?;
    assert_close(&losses, &[5.1210929568077015, 2.792211758690267]);
    let joined = tensor![1, 1, 2, 3, 2];
    let lengths = (tensor![5, 4], tensor![3, 2]);
    assert_close(
        &F::ctc_loss(&x, &joined, &lengths.0, &lengths.1)?,
        &[1.5515684324738503],
    );
    let tight = tensor![[1, 1, 1], [1, 2, 3]];
    let losses = F::ctc_loss_with(&x, &tight, [4, 4], [3, 3], none.clone())?;
    assert_close(&losses, &[f64::INFINITY, 3.5596169309508405]);
    let zero = none.zero_infinity(true);
    let losses = F::ctc_loss_with(&x, &tight, [4, 4], [3, 3], zero)?;
    assert_close(&losses, &[0.0, 3.5596169309508405]);
    let sum = CtcLossOptions::default().blank(2).reduction(Reduction::Sum);
    let loss = F::ctc_loss_with(&x, &tight, [4, 4], [0, 3], sum)?;
    assert_close(&loss, &[8.972348794180423]);
    // One sequence alone: 0-d.
    let own = x.select(1, 0)?;
    let loss = F::ctc_loss_with(
        &own,
        &tensor![1, 1, 2],
        5,
        3,
        CtcLossOptions::default().reduction(Reduction::None),
    )?;
    assert_eq!(loss.ndim(), 0);
    assert_close(&loss, &[5.1210929568077015]);
    Ok(())
}

#[test]
fn ctc_loss_refuses_what_does_not_fit() -> Result<()> {
    let x = log_probs()?;
    let labels = tensor![[1, 1, 2], [3, 2, 1]];
    let refused = |r: Result<Tensor>, what: &str| {
        let text = r.unwrap_err().to_string();
        assert!(
            text.starts_with("ctc_loss: ") && text.contains(what),
            "{text}"
        );
    };
    refused(F::ctc_loss(&x, &labels, [6, 4], [3, 2]), "at most 5");
    refused(F::ctc_loss(&x, &labels, [-1, 4], [3, 2]), "at least 0");
    refused(
        F::ctc_loss(&x, &labels, [5], [3, 2]),
        "must be of size batch_size",
    );
    refused(
        F::ctc_loss(&x, &labels, [5, 4], [4, 2]),
        "at least 4 at dimension 1",
    );
    refused(
        F::ctc_loss(&x, &tensor![1, 2], [5, 4], [2, 2]),
        "size 4 at dimension 0",
    );
    refused(
        F::ctc_loss(&x, &labels.add(3)?, [5, 4], [3, 2]),
        "out of bounds",
    );
    refused(
        F::ctc_loss(&x, &labels, &tensor![5.0, 4.0], [3, 2]),
        "integral",
    );
    refused(
        F::ctc_loss(&x.to_dtype(DType::F16)?, &labels, [5, 4], [3, 2]),
        "not implemented",
    );
    refused(
        F::ctc_loss(&x.select(0, 0)?.select(0, 0)?, &labels, [5, 4], [3, 2]),
        "[t, n, c]",
    );
    // Lengths whose sum is beyond an int64.
    refused(
        F::ctc_loss(&x, &labels, [5, 4], [2, i64::MAX]),
        "at least 9223372036854775807",
    );
    let blank = CtcLossOptions::default().blank(4);
    refused(
        F::ctc_loss_with(&x, &labels, [5, 4], [3, 2], blank),
        "label range",
    );
    Ok(())
}

#[test]
fn bilinear_refuses_what_does_not_fit() -> Result<()> {
    let t = |shape: &[usize]| Tensor::ones(shape, DType::F32, Device::Cpu);
    let weight = t(&[5, 3, 4])?;
    let refused = |a: &[usize], b: &[usize], what: &str| {
        let text = F::bilinear(&t(a).unwrap(), &t(b).unwrap(), &weight, None).unwrap_err();
        assert!(text.to_string().contains(what), "{text}");
    };
    refused(&[2, 3], &[3, 4], "do not match at dim 0: got 2 and 3");
    refused(&[2, 4], &[2, 4], "input1 size does not match");
    refused(&[2, 2, 3], &[2, 4], "got 3 and 2");
    assert_eq!(
        F::bilinear(&t(&[3])?, &t(&[4])?, &weight, None)?,
        t(&[5])?.mul(12)?
    );
    Ok(())
}

#[test]
fn linear_cross_entropy_is_its_parts() -> Result<()> {
    let x = tensor![[0.5, -1.0], [2.0, 0.25]];
    let weight = Tensor::linspace(-1.0, 1.0, 12, DType::F32, Device::Cpu)?.reshape([3, 2, 2])?;
    let bias = tensor![[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]];
    let target = tensor![[0, 2], [1, -100]];
    let options = LinearCrossEntropyOptions {
        linear_bias: Some(&bias),
        reduction: Reduction::Sum,
        ..Default::default()
    };
    let loss = F::linear_cross_entropy_with(&x, &weight, &target, options)?;
    let scores =
        F::linear(&x, &weight.reshape([6, 2])?, &bias.reshape([6])?)?.reshape([2, 3, 2])?;
    let entropy = F::CrossEntropyOptions::default().reduction(Reduction::Sum);
    assert_eq!(loss, F::cross_entropy_with(&scores, &target, entropy)?);
    // The same in full: -log softmax of the chosen class at each of the three places.
    let probabilities = scores.softmax(1)?;
    let p = probabilities.to_vec::<f64>()?;
    let own = -(p[0].ln() + p[5].ln() + p[8].ln());
    assert!((loss.item::<f64>()? - own).abs() < 1e-5);
    let options = LinearCrossEntropyOptions {
        ignore_index: Some(1),
        ..Default::default()
    };
    let refused = F::linear_cross_entropy_with(&x, &weight, &probabilities, options);
    assert!(refused.unwrap_err().to_string().contains("probabilities"));
    assert!(F::linear_cross_entropy(&tensor![1.0, 2.0, 3.0], &weight, &target).is_err());
    Ok(())
}
