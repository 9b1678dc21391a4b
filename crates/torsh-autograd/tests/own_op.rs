//! "How to add a crate of ops" of `docs/architecture/ops.md` in one file: attributes, kernel, record and method of an op.
//! Its function, its call by name and both their documentations follow, and `records.rs` runs gradcheck on its samples.

use torsh_autograd::grad;
use torsh_core::kernel::HostCall;
use torsh_tensor::call::Arg;
use torsh_tensor::ops::{self, Family};
use torsh_tensor::record::{InputGrad, OpRecord, Plan, sample};
use torsh_tensor::{DType, Result, Tensor, no_grad, tensor};

torsh_core::attributes! {
    /// `Squareplus`: a smooth ReLU.
    Squareplus {
        /// How smooth: 0 is the ReLU.
        c: f64,
    }
}

torsh_core::kernel_keys! {
    SQUAREPLUS_KEY "Squareplus" |call| match call.compute() {
        DType::F32 => kernel::<f32>(call, |x, c| (x + (x * x + c as f32).sqrt()) / 2.0),
        DType::F64 => kernel::<f64>(call, |x, c| (x + (x * x + c).sqrt()) / 2.0),
        _ => Err(call.unsupported()),
    };
}

fn kernel<T: torsh_core::Element>(call: &mut HostCall<'_>, f: impl Fn(T, f64) -> T) -> Result<()> {
    let c = call.attrs::<Squareplus>()?.c;
    let (x, y) = (call.input::<T>(0)?, call.output::<T>(0)?);
    y.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = f(*x, c));
    Ok(())
}

#[torsh_tensor::by_name(Tensor::squareplus)]
static SQUAREPLUS: OpRecord = OpRecord::new(
    "demo.squareplus",
    "(x + sqrt(x^2 + c)) / 2 of each element.",
    "(Tensor input, float c=4.0)",
)
.with_key(&SQUAREPLUS_KEY, |c| {
    let x = c.tensor(0)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
})
.definition(|c| {
    let (x, c) = (c.x()?, c.attrs::<Squareplus>()?.c);
    Ok([x.square()?.add(c)?.sqrt()?.add(&x)?.div(2.0)?]
        .into_iter()
        .collect())
})
.grad(&[InputGrad {
    inputs: 1,
    outputs: 0,
    formula: |c| {
        let (x, at) = (c.input(0)?, c.attrs::<Squareplus>()?.c);
        let slope = x.div(&x.square()?.add(at)?.sqrt()?)?.add(1.0)?;
        c.g().mul(&slope)?.div(2.0)
    },
}])
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?], sample![s.real(&[3])?, 0.5]]));

static FAMILY: Family = Family {
    feature: "demo",
    records: &[&SQUAREPLUS],
    aliases: &[],
    attributes: READERS,
    sparse: &[],
};

torsh_tensor::family!(FAMILY);

/// The methods of this crate's ops.
#[torsh_tensor::functions(trait DemoExt in demo)]
impl Tensor {
    /// `(x + sqrt(x^2 + c)) / 2` of each element of this tensor.
    ///
    /// ```
    /// use demo::DemoExt;
    /// use torsh_tensor::tensor;
    /// assert_eq!(tensor![0.0, 1.5].squareplus(4.0)?, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn squareplus(&self, c: f64) -> Result<Tensor> {
        SQUAREPLUS.call1(&[Arg::T(self)], &Squareplus { c })
    }
}

#[test]
fn one_declaration_makes_method_function_and_call_by_name() -> Result<()> {
    let x = tensor![0.0, 1.5].requires_grad_(true);
    let y = x.squareplus(4.0)?;
    assert_eq!(no_grad(|| y.copy())?, tensor![1.0, 2.0]);
    assert_eq!(functions::squareplus(&x, 4.0)?, y);
    let called = ops::call("demo.squareplus", &[(&x).into()], &[])?;
    assert_eq!(called.tensors()[0], y);
    assert_eq!(functions::NAMES, ["squareplus"]);
    let g = grad(&[y.sum()?], &[x], &[None], false, false, false)?;
    assert_eq!(g[0], Some(tensor![0.5, 0.8]));
    Ok(())
}
