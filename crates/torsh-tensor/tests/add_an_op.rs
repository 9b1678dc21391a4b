//! "How to add any other op" of `docs/architecture/ops.md`: a record defined from outside of the crate, run and
//! differentiated through the dispatcher.

use torsh_core::attrs::{self, NONE};
use torsh_core::{Kernel, Scalar, Shape, Strides};
use torsh_tensor::call::Arg;
use torsh_tensor::ops;
use torsh_tensor::record::{InputGrad, OpRecord, Plan, PlanCx, Sample, Spec};
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
        EVERY_OTHER.call1(&[Arg::T(&zeros)], NONE)?.copy_(c.g())?;
        Ok(zeros)
    },
}])
.samples(|s| Ok(vec![Sample::new([s.real(&[2, 5])?.into()])]));

fn every_other(x: &Tensor) -> Result<Tensor> {
    EVERY_OTHER.call1(&[Arg::T(x)], NONE)
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
///
/// # Safety
/// The plan asks for one row-major result of a dtype that `Arange` has, and computes in it.
const unsafe fn four_numbers(plan: fn(&PlanCx<'_>) -> Result<Plan>) -> OpRecord {
    let record = OpRecord::new("four_numbers", "Four numbers a step apart.", "");
    // SAFETY: the caller's promise, which is all that the kernel relies on: it reads no operand, and
    // refuses attributes that are not its own.
    unsafe { record.with_kernel(Kernel::Arange, plan) }.constant()
}

fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    if !c.is_empty() {
        return Err(TorshError::invalid("", "there are no operands"));
    }
    Ok(Plan::one(DType::I32, Shape::new(&[4]), DType::I32))
}

// SAFETY: the plan asks for one row-major int32 result.
static FOUR_NUMBERS: OpRecord = unsafe { four_numbers(plan) };
// SAFETY: as above.
static FOUR_NUMBERS_ON_META: OpRecord = unsafe { four_numbers(|c| Ok(plan(c)?.on(Device::Meta))) };

#[test]
fn it_makes_a_tensor() -> Result<()> {
    let steps = attrs::Arange {
        start: Scalar::Int(5),
        step: Scalar::Int(-2),
    };
    let x = FOUR_NUMBERS.call1(&[], &steps)?;
    assert_eq!(x.to_vec::<i32>()?, [5, 3, 1, -1]);
    let x = FOUR_NUMBERS_ON_META.call1(&[], &steps)?;
    assert_eq!((x.device(), x.dims()), (Device::Meta, &[4][..]));
    // Another op's attributes are refused.
    let e = FOUR_NUMBERS.call1(&[], &attrs::Cat { dim: 0 });
    let e = e.expect_err("not a range").to_string();
    assert!(e.contains("Cat(dim=0), the kernel reads Arange"), "{e}");
    Ok(())
}

/// A plan whose result has strides that its memory does not have room for.
static FAR_APART: OpRecord = {
    fn plan(_: &PlanCx<'_>) -> Result<Plan> {
        let far = Spec {
            strides: Some(Strides::from_slice(&[1_000_000])),
            ..Spec::new(Shape::new(&[4]), DType::I32)
        };
        Ok(Plan::many(DType::I32, [far]))
    }
    // SAFETY: not true, which is what the test below is of: the call is refused.
    unsafe { OpRecord::new("far_apart", "", "").with_kernel(Kernel::Arange, plan) }
};

/// A plan that shows the kernel more elements than it asks memory for.
static TOO_MANY: OpRecord = {
    fn plan(_: &PlanCx<'_>) -> Result<Plan> {
        let many = Spec {
            kernel_shape: Some(Shape::new(&[1_000_000])),
            ..Spec::new(Shape::new(&[4]), DType::I32)
        };
        Ok(Plan::many(DType::I32, [many]))
    }
    // SAFETY: as above.
    unsafe { OpRecord::new("too_many", "", "").with_kernel(Kernel::Arange, plan) }
};

#[test]
fn a_plan_beyond_its_memory_is_refused() {
    let steps = attrs::Arange {
        start: Scalar::Int(0),
        step: Scalar::Int(1),
    };
    for (record, name) in [(&FAR_APART, "far_apart"), (&TOO_MANY, "too_many")] {
        let e = record.call1(&[], &steps).expect_err("refused").to_string();
        assert!(
            e.starts_with(&format!("{name}: the plan asks for int32[4]")),
            "{e}"
        );
        assert!(e.contains("1000000"), "{e}");
    }
}

/// A view whose strides are fewer than its dimensions.
static TORN: OpRecord = OpRecord::new("torn", "", "").view(|_, l| {
    l.strides = Strides::new();
    Ok(())
});

#[test]
fn a_view_of_fewer_strides_is_refused() -> Result<()> {
    let x = Tensor::from_data(&[1.0f32; 6], [2, 3])?;
    let e = TORN.call1(&[Arg::T(&x)], NONE).expect_err("refused");
    assert!(
        e.to_string().starts_with("torn: the view's shape [2, 3]"),
        "{e}"
    );
    Ok(())
}

#[test]
fn built_in_kernels_are_reached_through_their_methods_only() -> Result<()> {
    let x = Tensor::from_data(&[1.0f32; 6], [2, 3])?;
    let named = |name| ops::find(name).expect("records of the name")[0];
    let softmax = named("softmax");
    let e = softmax
        .call1(&[Arg::T(&x)], &attrs::Softmax { dim: 70 })
        .expect_err("refused")
        .to_string();
    assert!(
        e.starts_with("softmax: a built-in op is called through its method"),
        "{e}"
    );
    assert!(e.contains("hint: call it by name with ops::call"), "{e}");
    // Pointwise ones check all that their kernels rely on.
    let add = named("add");
    let sum = add.call1(&[Arg::T(&x), Arg::N(Scalar::Int(1))], NONE)?;
    assert_eq!(sum.to_vec::<f32>()?, [2.0; 6]);
    // A device may find it out later.
    let one = add
        .call1(&[Arg::T(&x)], NONE)
        .and_then(|y| y.to_vec::<f32>());
    let e = one.expect_err("one operand");
    assert!(
        e.to_string()
            .starts_with("add: expected 1 output and 2 operands"),
        "{e}"
    );
    Ok(())
}
