//! Masked operations where nothing counts, and the gradients of masked tensors.

use torsh_tensor::masked::{self, MaskedOptions, as_masked_tensor, masked_tensor};
use torsh_tensor::{Result, Tensor, tensor};

/// A row with two elements that count, and one with none.
fn rows() -> (Tensor, Tensor) {
    let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    (x, tensor![[true, false, true], [false, false, false]])
}

#[test]
fn rows_that_are_masked_give_what_nothing_gives() -> Result<()> {
    let (x, mask) = rows();
    let by = || MaskedOptions::new().dim(1);
    assert_eq!(masked::sum_with(&x, &mask, by())?, tensor![4.0, 0.0]);
    assert_eq!(masked::prod_with(&x, &mask, by())?, tensor![3.0, 1.0]);
    let lowest = f32::NEG_INFINITY;
    assert_eq!(masked::amax_with(&x, &mask, by())?, tensor![3.0, lowest]);
    assert_eq!(
        masked::norm_with(&x, 2.0, &mask, by())?
            .i(1)?
            .item::<f32>()?,
        0.0
    );
    for nan in [
        masked::mean_with(&x, &mask, by())?,
        masked::median(&x, 1, &mask)?,
        masked::softmax(&x, 1, &mask)?.select(1, 0)?,
    ] {
        assert!(nan.i(1)?.item::<f32>()?.is_nan(), "{nan}");
        assert!(nan.i(0)?.item::<f32>()?.is_finite(), "{nan}");
    }
    Ok(())
}

#[test]
fn masks_broadcast_and_too_many_dimensions_are_refused() -> Result<()> {
    let (x, _) = rows();
    let y = masked::sum(&x, &tensor![true, false, true])?;
    assert_eq!(y.item::<f32>()?, 14.0);
    let e = masked::sum(&x, &tensor![[[true, false, true]]])
        .unwrap_err()
        .to_string();
    assert!(
        e.starts_with("masked.sum: expected broadcastable mask"),
        "{e}"
    );
    Ok(())
}

#[test]
fn gradients_never_see_masked_values() -> Result<()> {
    let x = tensor![4.0, 0.0, -1.0].requires_grad_(true);
    let there = tensor![true, false, false];
    // The derivatives of the masked elements are infinite and nan.
    let y = as_masked_tensor(&x, &there)?.sqrt()?.log()?;
    y.sum()?.backward()?;
    assert_eq!(x.grad().expect("a gradient"), tensor![0.125, 0.0, 0.0]);
    Ok(())
}

#[test]
fn masked_tensors_print_as_pytorchs() -> Result<()> {
    let (x, mask) = rows();
    let x = masked_tensor(&x, &mask)?;
    let expected = "MaskedTensor(\n  [\n    [  1.0000,       --,   3.0000],\n    [      --,       --,       --]\n  ]\n)";
    assert_eq!(x.to_string(), expected);
    assert_eq!(x.sum()?.to_string(), "MaskedTensor(  4.0000, True)");
    assert_eq!(
        x.sum_dim(1, false)?.to_string(),
        "MaskedTensor(\n  [  4.0000,       --]\n)"
    );
    Ok(())
}

#[test]
fn masks_of_two_operands_must_match() -> Result<()> {
    let (x, mask) = rows();
    let a = masked_tensor(&x, &mask)?;
    let b = masked_tensor(&x, &mask.logical_not()?)?;
    let e = a.add(&b).unwrap_err().to_string();
    assert!(e.starts_with("add: input masks must match"), "{e}");
    let sum = a.add(&a)?.mul(2.0)?.add(&x)?;
    assert_eq!(
        sum.to_tensor(0.0)?,
        tensor![[5.0, 0.0, 15.0], [0.0, 0.0, 0.0]]
    );
    let e = masked_tensor(&x, &tensor![true]).unwrap_err().to_string();
    assert!(e.contains("must have the same shape"), "{e}");
    Ok(())
}
