//! "How to add an op" of ARCHITECTURE.md: a record defined from outside of the crate, run and
//! differentiated through the choke point.

use torsh_core::attrs::{self, NONE};
use torsh_core::{Kernel, Scalar, Shape};
use torsh_tensor::call::{Arg, call1};
use torsh_tensor::record::{InputGrad, OpRecord, Plan, PlanCx, Sample};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, grad};

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
        call1(&EVERY_OTHER, &[Arg::T(&zeros)], NONE)?.copy_(c.g())?;
        Ok(zeros)
    },
}])
.samples(|s| Ok(vec![Sample::new([s.real(&[2, 5])?.into()])]));

fn every_other(x: &Tensor) -> Result<Tensor> {
    call1(&EVERY_OTHER, &[Arg::T(x)], NONE)
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

/// Four numbers a step apart. Without operands, the plan says where the result is.
const fn four_numbers(plan: fn(&PlanCx<'_>) -> Result<Plan>) -> OpRecord {
    OpRecord::new("four_numbers", "Four numbers a step apart.", "")
        .kernel(Kernel::Arange, plan)
        .constant()
}

fn plan(_: &PlanCx<'_>) -> Result<Plan> {
    Ok(Plan::one(DType::I32, Shape::new(&[4]), DType::I32))
}

static FOUR_NUMBERS: OpRecord = four_numbers(plan);
static FOUR_NUMBERS_ON_META: OpRecord = four_numbers(|c| Ok(plan(c)?.on(Device::Meta)));

#[test]
fn it_makes_a_tensor() -> Result<()> {
    let steps = attrs::Arange {
        start: Scalar::Int(5),
        step: Scalar::Int(-2),
    };
    let x = call1(&FOUR_NUMBERS, &[], &steps)?;
    assert_eq!(x.to_vec::<i32>()?, [5, 3, 1, -1]);
    let x = call1(&FOUR_NUMBERS_ON_META, &[], &steps)?;
    assert_eq!((x.device(), x.dims()), (Device::Meta, &[4][..]));
    // Another op's attributes are refused.
    let e = call1(&FOUR_NUMBERS, &[], &attrs::Cat { dim: 0 });
    let e = e.expect_err("not a range").to_string();
    assert!(e.contains("Cat(dim=0), the kernel reads Arange"), "{e}");
    Ok(())
}
