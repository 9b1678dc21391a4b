//! Elementwise ops, reductions and data movement.

use torsh_tensor::{Result, Tensor};

use crate::harness::Suite;
use crate::inputs::randn;

/// Elements of a 1024 x 1024 tensor.
const M: usize = 1024 * 1024;

/// A workload of one op on one tensor.
fn on<R>(
    s: &mut Suite<'_>,
    name: &str,
    shape: &[usize],
    f: impl Fn(&Tensor) -> Result<R>,
    bytes: usize,
) {
    s.bench(
        name,
        || {
            let x = randn(shape)?;
            Ok(move || f(&x))
        },
        0,
        bytes,
    );
}

/// Registers the workloads of tensor ops.
pub fn register(s: &mut Suite<'_>) {
    pointwise_and_sum(s);
    pointwise(s);
    movement(s);
    reductions(s);
}

/// The same ops from a size where only the call counts to one far beyond the caches.
fn pointwise_and_sum(s: &mut Suite<'_>) {
    for n in [100, 10_000, 1_000_000, 16_000_000] {
        s.bench(
            &format!("add_{n}"),
            || {
                let (x, y) = (randn(&[n])?, randn(&[n])?);
                Ok(move || x.add(&y))
            },
            0,
            12 * n,
        );
        on(s, &format!("exp_{n}"), &[n], |x| x.exp(), 8 * n);
        on(s, &format!("gelu_{n}"), &[n], |x| x.gelu(), 8 * n);
        on(s, &format!("tanh_{n}"), &[n], |x| x.tanh(), 8 * n);
        on(s, &format!("sum_{n}"), &[n], |x| x.sum(), 4 * n);
    }
}

fn pointwise(s: &mut Suite<'_>) {
    s.bench(
        "add_bcast_1024x1024",
        || {
            let (x, y) = (randn(&[1024, 1024])?, randn(&[1024])?);
            Ok(move || x.add(&y))
        },
        0,
        8 * M,
    );
    let n = 1_000_000;
    on(s, "add_inplace_1000000", &[n], |x| x.add_(1.0), 8 * n);
    on(
        s,
        "chain_sigmoid_mul_add_1000000",
        &[n],
        |x| x.sigmoid()?.mul(x)?.add(1.0),
        8 * n,
    );
}

fn movement(s: &mut Suite<'_>) {
    let shape = [32, 64, 56, 56];
    on(
        s,
        "permute_contig_32x64x56x56",
        &shape,
        |x| x.permute(&[0, 2, 3, 1])?.contiguous(),
        8 * shape.iter().product::<usize>(),
    );
}

fn reductions(s: &mut Suite<'_>) {
    for dim in [0, 1] {
        let name = format!("sum_dim{dim}_1024");
        on(s, &name, &[1024, 1024], |x| x.sum_dim(dim, false), 4 * M);
    }
}
