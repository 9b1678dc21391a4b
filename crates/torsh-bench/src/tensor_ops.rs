//! Elementwise ops, reductions and data movement.

use torsh_nn::functional as F;
use torsh_tensor::{DType, Device, Result, Tensor};

use crate::harness::Suite;
use crate::inputs::{randint, randn};

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
    indexing(s);
    ordering(s);
    random(s);
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
        on(s, &format!("gelu_{n}"), &[n], |x| F::gelu(x), 8 * n);
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
    on(
        s,
        "transpose_contig_1024",
        &[1024, 1024],
        |x| x.t()?.contiguous(),
        8 * M,
    );
    let shape = [32, 64, 56, 56];
    on(
        s,
        "permute_contig_32x64x56x56",
        &shape,
        |x| x.permute([0, 2, 3, 1])?.contiguous(),
        8 * shape.iter().product::<usize>(),
    );
    s.bench(
        "cat_16x65536",
        || {
            let parts = (0..16)
                .map(|_| randn(&[65536]))
                .collect::<Result<Vec<_>>>()?;
            Ok(move || Tensor::cat(&parts, 0))
        },
        0,
        8 * M,
    );
}

fn reductions(s: &mut Suite<'_>) {
    for dim in [0, 1] {
        let name = format!("sum_dim{dim}_1024");
        on(s, &name, &[1024, 1024], |x| x.sum_dim(dim, false), 4 * M);
    }
    let shape = [4096, 1024];
    on(
        s,
        "argmax_dim1_4096x1024",
        &shape,
        |x| x.argmax_dim(1, false),
        16 * M,
    );
    on(
        s,
        "var_dim1_4096x1024",
        &shape,
        |x| x.var_dim(1, false),
        16 * M,
    );
    let n = 1_000_000;
    on(s, "cumsum_1000000", &[n], |x| x.cumsum(0), 8 * n);
}

fn indexing(s: &mut Suite<'_>) {
    s.bench(
        "embedding_8192x256",
        || {
            let (index, weight) = (randint(50_000, &[8192])?, randn(&[50_000, 256])?);
            Ok(move || weight.embedding(&index))
        },
        0,
        16 * M,
    );
    s.bench(
        "index_select_100000x64",
        || {
            let (index, x) = (randint(100_000, &[100_000])?, randn(&[100_000, 64])?);
            Ok(move || x.index_select(0, &index))
        },
        0,
        2 * 25_600_000,
    );
    s.bench(
        "scatter_add_1000000",
        || {
            let (index, src) = (randint(1000, &[1_000_000])?, randn(&[1_000_000])?);
            let out = Tensor::zeros([1000], DType::F32, Device::Cpu)?;
            Ok(move || out.scatter_add(0, &index, &src))
        },
        0,
        0,
    );
    on(
        s,
        "masked_select_1000000",
        &[1_000_000],
        |x| x.masked_select(&x.gt(0)?),
        0,
    );
}

fn ordering(s: &mut Suite<'_>) {
    let n = 1_000_000;
    on(s, "sort_1000000", &[n], |x| x.sort(), 0);
    on(s, "topk_1000000_k100", &[n], |x| x.topk(100), 0);
}

fn random(s: &mut Suite<'_>) {
    let n = 1_000_000;
    let (dtype, device) = (DType::F32, Device::Cpu);
    s.bench(
        "randn_1000000",
        || Ok(move || Tensor::randn([n], dtype, device)),
        0,
        4 * n,
    );
    s.bench(
        "rand_1000000",
        || Ok(move || Tensor::rand([n], dtype, device)),
        0,
        4 * n,
    );
}
