//! "How to add an op" of ARCHITECTURE.md: a record defined from outside of the crate, run and
//! differentiated through the choke point.

use torsh_core::Attr;
use torsh_tensor::call::{Arg, call1};
use torsh_tensor::record::{InputGrad, OpRecord, Sample};
use torsh_tensor::{Result, Tensor, TorshError, grad};

/// A view of the last dimension backwards would need negative strides; this one takes every other
/// index of the last dimension, and its derivative is written with the op's own view.
static EVERY_OTHER: OpRecord = OpRecord::new(
    "every_other",
    "A view of the indices 0, 2, 4, .. of the last dimension.",
    "(Tensor input)",
)
.view(|c, l| {
    let n = c.shape().ndim();
    if n == 0 {
        return Err(TorshError::shape("", "a 0-d tensor has no last dimension"));
    }
    l.shape.set(n - 1, l.shape[n - 1].div_ceil(2));
    l.strides[n - 1] *= 2;
    Ok(())
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| {
        let zeros = c.zeros(0)?;
        call1(&EVERY_OTHER, &[Arg::T(&zeros)], &[] as &[Attr<'_>])?.copy_(c.g())?;
        Ok(zeros)
    },
}])
.samples(|s| Ok(vec![Sample::new([s.real(&[2, 5])?.into()])]));

fn every_other(x: &Tensor) -> Result<Tensor> {
    call1(&EVERY_OTHER, &[Arg::T(x)], &[])
}

#[test]
fn it_runs_and_aliases() -> Result<()> {
    let x = Tensor::from_data(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    let y = every_other(&x)?;
    assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 4.0, 6.0]);
    y.mul_(10.0)?;
    assert_eq!(x.to_vec::<f32>()?, [10.0, 2.0, 30.0, 40.0, 5.0, 60.0]);
    let e = every_other(&x.sum()?)
        .expect_err("a 0-d tensor")
        .to_string();
    assert!(
        e.starts_with("every_other: a 0-d tensor has no last dimension"),
        "{e}"
    );
    assert!(e.contains("float32[] cpu"), "{e}");
    Ok(())
}

#[test]
fn it_is_differentiated() -> Result<()> {
    let x = Tensor::from_data(&[1.0f64, 2.0, 3.0], [3])?.requires_grad_(true);
    let y = every_other(&x)?.mul(every_other(&x)?)?.sum()?;
    let g = grad(&[y], &[x], &[None], false, false, false)?;
    assert_eq!(
        g[0].as_ref().expect("used").to_vec::<f64>()?,
        [2.0, 0.0, 6.0]
    );
    Ok(())
}
