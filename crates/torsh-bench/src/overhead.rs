//! What a call costs when there is nothing to compute.

use torsh_tensor::{DType, Device, Tensor};

use crate::harness::Suite;
use crate::inputs::randn;

/// Registers the workloads of calls on tiny tensors and of a long chain of nodes.
pub fn register(s: &mut Suite<'_>) {
    s.bench(
        "op_overhead_add1",
        || {
            let x = randn(&[1])?;
            Ok(move || x.add(&x))
        },
        0,
        0,
    );
    s.bench(
        "op_overhead_view",
        || {
            let x = randn(&[4, 4])?;
            Ok(move || x.t())
        },
        0,
        0,
    );
    s.bench(
        "autograd_chain100",
        || {
            let a = Tensor::ones([1], DType::F32, Device::Cpu)?.requires_grad_(true);
            Ok(move || {
                let mut y = a.clone();
                for _ in 0..100 {
                    y = y.mul(1.01)?;
                }
                y.backward()
            })
        },
        0,
        0,
    );
}
