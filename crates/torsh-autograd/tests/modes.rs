//! no_grad, enable_grad, inference mode and anomaly detection.

use crate::common::{fails, g, leaf, t, v};
use torsh_tensor::{
    Result, Tensor, TorshError, detect_anomaly, detect_anomaly_guard, enable_grad,
    enable_grad_guard, inference_mode, inference_mode_guard, is_anomaly_enabled, is_grad_enabled,
    is_inference_mode, no_grad, no_grad_guard, set_grad_enabled,
};

#[test]
fn modes_nest() -> Result<()> {
    let x = leaf(&[1.]);
    assert!(is_grad_enabled() && !is_inference_mode());
    no_grad(|| {
        assert!(!is_grad_enabled() && !x.mul(2.0)?.requires_grad());
        enable_grad(|| {
            assert!(is_grad_enabled() && x.mul(2.0)?.requires_grad());
            no_grad(|| {
                assert!(!is_grad_enabled());
                Ok(())
            })?;
            assert!(is_grad_enabled());
            Ok(())
        })?;
        assert!(!is_grad_enabled());
        Ok(())
    })?;
    assert!(is_grad_enabled());
    // Leaves made without recording still can require grad.
    let y = no_grad(|| Ok(leaf(&[3.])))?;
    y.mul(2.0)?.backward()?;
    assert_eq!(g(&y), [2.]);
    Ok(())
}

#[test]
fn modes_end_with_errors_and_panics() {
    let r: Result<()> = no_grad(|| Err(TorshError::Other("boom".into())));
    assert!(r.is_err() && is_grad_enabled());
    let r = std::panic::catch_unwind(|| inference_mode::<()>(|| panic!("boom")));
    assert!(r.is_err() && is_grad_enabled() && !is_inference_mode());
}

#[test]
fn guards() -> Result<()> {
    let x = leaf(&[1.]);
    {
        let _a = no_grad_guard();
        assert!(!x.mul(2.0)?.requires_grad());
        {
            let _b = enable_grad_guard();
            assert!(x.mul(2.0)?.requires_grad());
        }
        assert!(!x.mul(2.0)?.requires_grad());
        {
            let _c = inference_mode_guard();
            assert!(is_inference_mode());
            let _d = detect_anomaly_guard();
            assert!(is_anomaly_enabled());
        }
        assert!(!is_inference_mode() && !is_anomaly_enabled() && !is_grad_enabled());
    }
    set_grad_enabled(false);
    assert!(!x.mul(2.0)?.requires_grad());
    set_grad_enabled(true);
    assert!(x.mul(2.0)?.requires_grad());
    Ok(())
}

#[test]
fn modes_belong_to_their_thread() -> Result<()> {
    let x = leaf(&[1.]);
    no_grad(|| {
        std::thread::scope(|s| {
            let other = s.spawn(|| {
                assert!(is_grad_enabled());
                let y = inference_mode(|| x.mul(2.0))?;
                assert!(y.is_inference());
                x.mul(2.0)
            });
            let y = other.join().expect("no panic")?;
            assert!(y.requires_grad() && !y.is_inference());
            Ok::<(), TorshError>(())
        })?;
        assert!(!is_grad_enabled() && !is_inference_mode());
        Ok(())
    })
}

#[test]
fn backward_records_only_when_asked() -> Result<()> {
    let x = leaf(&[2.]);
    let y = x.mul(&x)?;
    // The mode around the call does not matter.
    no_grad(|| y.backward_with(None, true, false))?;
    assert_eq!(g(&x), [4.]);
    assert!(!x.grad().is_some_and(|g| g.requires_grad()));
    x.zero_grad();
    no_grad(|| y.backward_with(None, true, true))?;
    assert!(x.grad().is_some_and(|g| g.requires_grad()));
    assert!(is_grad_enabled());
    x.zero_grad();
    Ok(())
}

#[test]
fn inference_mode_records_nothing() -> Result<()> {
    let x = leaf(&[1., 2.]);
    inference_mode(|| {
        assert!(is_inference_mode() && !is_grad_enabled());
        let y = x.mul(2.0)?;
        assert!(y.is_inference() && !y.requires_grad());
        // Not even when asked to.
        let y = enable_grad(|| x.mul(2.0))?;
        assert!(y.is_inference() && !y.requires_grad() && y.grad_fn().is_none());
        set_grad_enabled(true);
        assert!(!x.mul(2.0)?.requires_grad());
        Ok(())
    })?;
    assert!(is_grad_enabled());
    // New tensors of every kind are inference tensors.
    let made = inference_mode(|| {
        let image = Tensor::zeros([1, 2, 2, 2], x.dtype(), x.device())?;
        let last = image.permute([0, 2, 3, 1])?;
        Ok([
            t(&[1.]),
            x.copy()?,
            x.sum()?,
            last.copy()?,
            last.add(1.0)?,
            x.detach().add(1.0)?.view([2, 1])?,
            x.gt(0.0)?,
            x.gt(0.0)?.view([2, 1])?,
        ])
    })?;
    for (i, y) in made.iter().enumerate() {
        assert!(y.is_inference(), "{i}");
    }
    Ok(())
}

#[test]
fn views_are_inference_tensors_as_their_base_is() -> Result<()> {
    let a = inference_mode(|| Ok(t(&[1., 2.])))?;
    assert!(a.select(0, 0)?.is_inference() && a.detach().is_inference());
    assert!(!a.mul(2.0)?.is_inference() && !a.copy()?.is_inference());
    // Of a normal tensor, made in inference mode.
    let x = leaf(&[1., 2.]);
    let base = x.mul(1.0)?;
    let (view, cut) = inference_mode(|| Ok((base.narrow(0, 0, 1)?, base.detach())))?;
    assert!(!view.is_inference() && !cut.is_inference());
    fails(view.add_(1.0), &["a view was created", "modified inplace"]);
    let plain = t(&[1., 1.]);
    inference_mode(|| plain.narrow(0, 0, 1))?.add_(1.0)?;
    assert_eq!(v(&plain), [2., 1.]);
    Ok(())
}

#[test]
fn inference_tensors_outside() -> Result<()> {
    let a = inference_mode(|| Ok(t(&[3., 4.])))?;
    let x = leaf(&[1., 2.]);
    let update = "inplace update to inference tensor outside";
    fails(a.add_(1.0), &["add_", update]);
    fails(a.zero_(), &[update]);
    fails(a.copy_(&x), &[update]);
    fails(a.select(0, 0)?.mul_(2.0), &[update]);
    fails(no_grad(|| a.add_(1.0)), &[update]);
    fails(a.set_requires_grad(true), &["inference tensor"]);
    assert_eq!(v(&a), [3., 4.]);
    inference_mode(|| a.add_(1.0))?;
    assert_eq!(v(&a), [4., 5.]);
    // Backward would need it, or would not.
    fails(
        x.mul(&a),
        &["mul", "inference tensors cannot be saved for backward"],
    );
    let y = x.add(&a)?;
    assert_eq!(v(&y), [5., 7.]);
    y.sum()?.backward()?;
    assert_eq!(g(&x), [1., 1.]);
    // A copy is a normal tensor.
    x.zero_grad();
    x.mul(&a.copy()?)?.sum()?.backward()?;
    assert_eq!(g(&x), [4., 5.]);
    Ok(())
}

#[test]
fn normal_tensors_inside() -> Result<()> {
    let x = leaf(&[1.]);
    let z = x.mul(&x)?;
    inference_mode(|| x.add_(1.0))?;
    assert_eq!((v(&x), x.version(), x.is_inference()), (vec![2.], 1, false));
    fails(
        z.backward(),
        &[
            "modified by an inplace operation",
            "version 1; expected version 0",
        ],
    );
    // In inference mode a tensor may be asked to require grad; nothing comes of it.
    let a = inference_mode(|| {
        let a = t(&[1.]);
        a.set_requires_grad(true)?;
        assert!(!a.mul(2.0)?.requires_grad());
        Ok(a)
    })?;
    assert!(a.requires_grad());
    Ok(())
}

#[test]
fn anomalies_name_the_forward_call() -> Result<()> {
    let x = leaf(&[0.]);
    let line = line!() + 1;
    let y = x.sqrt()?.mul(0.0)?;
    fails(
        detect_anomaly(|| y.backward()),
        &[
            "Function 'SqrtBackward0' returned nan values in its 0th output",
            &format!("modes.rs:{line}"),
        ],
    );
    // Without it, the nan arrives.
    let y = x.sqrt()?.mul(0.0)?;
    y.backward()?;
    assert!(g(&x)[0].is_nan());
    // An infinity is no nan.
    x.zero_grad();
    let y = x.sqrt()?;
    detect_anomaly(|| y.backward())?;
    assert_eq!(g(&x), [f64::INFINITY]);
    Ok(())
}

#[test]
fn anomalies_in_place() -> Result<()> {
    let x = leaf(&[0., 1.]);
    let y = x.mul(1.0)?;
    let line = line!() + 1;
    y.narrow(0, 0, 1)?.sqrt_()?;
    fails(
        detect_anomaly(|| y.mul(&t(&[0., 1.]))?.sum()?.backward()),
        &[
            "CopySlices",
            "returned nan values",
            &format!("modes.rs:{line}"),
        ],
    );
    Ok(())
}

#[test]
fn errors_of_backward_name_the_forward_call() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let line = line!() + 1;
    let z = x.exp()?;
    z.add_(1.0)?;
    fails(
        detect_anomaly(|| z.sum()?.backward()),
        &[
            "ExpBackward0",
            "modified by an inplace operation",
            &format!("modes.rs:{line}"),
        ],
    );
    Ok(())
}
