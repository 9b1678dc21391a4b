//! The check of forward passes: the first op that makes nan or infinities is named.

use crate::common::{fails, leaf, t, v};
use torsh_tensor::{
    AnomalyOptions, DType, Device, Result, Tensor, checkpoint, detect_anomaly,
    detect_anomaly_guard_with, detect_anomaly_with, is_anomaly_enabled,
};

fn checked<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    detect_anomaly_with(AnomalyOptions::new().check_forward(true), f)
}

#[test]
fn the_first_op_is_named_with_its_call() -> Result<()> {
    let x = t(&[1., 0., -1., 4.]);
    let line = line!() + 1;
    let result = checked(|| x.add(1.0)?.sub(1.0)?.log()?.exp()?.sum());
    fails(
        result,
        &[
            "log: output 0 has 1 nan and 1 infinite of 4 values, and no operand has any",
            "float64[4] cpu",
            &format!("anomaly.rs:{line}"),
        ],
    );
    // A product, whose operands are large.
    let big = Tensor::full([2, 2], 1e30, DType::F32, Device::Cpu)?;
    fails(
        checked(|| big.matmul(&big)),
        &["matmul", "0 nan and 4 infinite"],
    );
    // And an in-place op, whose target is gone by then.
    let y = t(&[1., 2.]);
    let line = line!() + 1;
    let result = checked(|| y.div_(0.0));
    fails(
        result,
        &["div_", "2 infinite", &format!("anomaly.rs:{line}")],
    );
    let y = leaf(&[0., 4.]).mul(1.0)?;
    fails(checked(|| y.reciprocal_()), &["reciprocal_", "1 infinite"]);
    Ok(())
}

#[test]
fn what_came_in_is_not_blamed_on_an_op() -> Result<()> {
    let x = t(&[f64::NAN, 1.]);
    let y = checked(|| x.mul(2.0)?.add_(1.0)?.sum())?;
    assert!(v(&y)[0].is_nan());
    // Infinity as a number: masks of attention.
    let scores = t(&[1., 2.]);
    let mask = Tensor::from_data(&[false, true], [2])?;
    let weights = checked(|| scores.masked_fill(&mask, f64::NEG_INFINITY)?.softmax(0))?;
    assert_eq!(v(&weights), [1., 0.]);
    checked(|| scores.mul(f64::INFINITY)?.add_(f64::NAN))?;
    // Integers, meta tensors and tensors without elements have nothing to look at.
    checked(|| Tensor::from_data(&[1i64, 2], [2])?.mul(3))?;
    checked(|| Tensor::ones([2], DType::F32, Device::Meta)?.log())?;
    checked(|| Tensor::ones([0], DType::F32, Device::Cpu)?.log())?;
    Ok(())
}

#[test]
fn composite_ops_and_attention_pass() -> Result<()> {
    let q = t(&[0.1, 0.2, 0.3, 0.4]).reshape([2, 2])?;
    checked(|| {
        let causal = torsh_tensor::ScaledDotProductAttentionOptions::new().is_causal(true);
        q.scaled_dot_product_attention_with(&q, &q, causal)?;
        q.cross_entropy(&Tensor::from_data(&[0i64, 1], [2])?)?;
        q.layer_norm([2])?.gelu()
    })?;
    Ok(())
}

#[test]
fn backward_is_checked_for_nan_only_and_checkpoints_once() -> Result<()> {
    let x = leaf(&[0.]);
    // The gradient of the root is infinite.
    checked(|| x.sqrt()?.backward())?;
    assert_eq!(v(&x.grad().expect("a gradient")), [f64::INFINITY]);
    fails(
        checked(|| x.sqrt()?.mul(0.0)?.backward()),
        &["SqrtBackward0", "returned nan values"],
    );
    let inner = x.clone();
    let line = line!() + 1;
    let result = checked(|| checkpoint(move || inner.log()));
    fails(
        result,
        &["log", "1 infinite", &format!("anomaly.rs:{line}")],
    );
    Ok(())
}

#[test]
fn regions_end() -> Result<()> {
    let x = t(&[0.]);
    {
        let _guard = detect_anomaly_guard_with(AnomalyOptions::new().check_forward(true));
        assert!(is_anomaly_enabled());
        assert!(x.log().is_err());
        // An inner region without the check.
        detect_anomaly_with(AnomalyOptions::new(), || x.log())?;
        assert!(x.log().is_err());
        // (The plain one leaves it as it is.)
        assert!(detect_anomaly(|| x.log()).is_err());
    }
    assert!(!is_anomaly_enabled());
    x.log()?;
    Ok(())
}
