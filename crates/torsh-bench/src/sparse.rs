//! Workloads of sparse tensors.

use torsh_nn::functional as F;
use torsh_sparse::{self as sparse, SparseExt};
use torsh_tensor::{Result, Tensor};

use crate::inputs::{rand, randint, randn};
use crate::science::{Input, Row, add, gradient, logarithm, one};
use crate::workload::Out;

use Input::{Leaf, Made, Normal};

/// A coalesced COO matrix of `n` rows and `m` columns: normal numbers at `count` places, which are drawn with repetition.
fn coo(small: bool, [n, m, count]: [usize; 3]) -> Result<Tensor> {
    let [n, m, count] = match small {
        false => [n, m, count],
        true => [logarithm(n), logarithm(m), logarithm(n) * logarithm(m) / 3],
    };
    let places = [randint(n as i64, &[count])?, randint(m as i64, &[count])?];
    let indices = Tensor::stack(&places, 0)?;
    sparse::coo(&indices, &randn(&[count])?, [n, m])?.coalesce()
}

/// As [`coo`], by rows.
fn csr(small: bool, sizes: [usize; 3]) -> Result<Tensor> {
    coo(small, sizes)?.to_sparse_csr()
}

/// Sides and drawn places of the matrices of most rows.
const WIDE: [usize; 3] = [10_000, 10_000, 1_000_000];

/// A square matrix of 2048 rows, of which an element in a hundred is not 0; one in five of a small one.
fn scattered(small: bool) -> Result<Tensor> {
    let n = if small { logarithm(2048) } else { 2048 };
    let stored = rand(&[n, n])?.lt(if small { 0.2 } else { 0.01 })?;
    randn(&[n, n])?.mul(&stored)
}

/// A BSR matrix of 4096 rows of which a tenth of the blocks of 32 by 32 is stored; half of those of a small one.
fn blocks(small: bool) -> Result<Tensor> {
    let (n, block, share) = match small {
        false => (4096, 32, 0.1),
        true => (logarithm(4096), 3, 0.5),
    };
    let side = n / block;
    let stored = rand(&[side, 1, side, 1])?.lt(share)?;
    let stored = stored.expand([side, block, side, block])?.reshape([n, n])?;
    randn(&[n, n])?.mul(&stored)?.to_sparse_bsr([block, block])
}

fn product(x: &[Tensor]) -> Result<Out> {
    one(x[0].matmul(&x[1]))
}

fn linear(x: &[Tensor]) -> Result<Out> {
    one(F::linear(&x[0], &x[1], None))
}

/// The rows.
pub(crate) fn rows(all: &mut Vec<Row>) {
    products(all);
    layouts(all);
    layers(all);
}

fn products(all: &mut Vec<Row>) {
    type Call = fn(&[Tensor]) -> Result<Out>;
    let mut counted = |name: &str, inputs: Vec<Input>, terms: usize, call: Call| {
        all.push(Row::new(name, inputs, [2 * terms, 0], call));
    };
    let wide = Made(|small| csr(small, WIDE), false);
    let long = Made(|small| csr(small, [100_000, 100_000, 1_000_000]), false);
    let tenth = Made(|small| csr(small, [1024, 1024, 105_000]), false);
    let inputs = vec![wide, Normal(vec![10_000, 64])];
    counted("spmm_csr_10000_1e6_x64", inputs, 64 * 1_000_000, product);
    let inputs = vec![long.clone(), Normal(vec![100_000, 32])];
    counted("spmm_csr_100000_1e6_x32", inputs, 32 * 1_000_000, product);
    let inputs = vec![tenth, Normal(vec![1024, 1024])];
    let terms = 1024 * 105_000;
    counted("spmm_csr_1024_dense10pct_x1024", inputs, terms, product);
    let inputs = vec![long, Normal(vec![100_000])];
    counted("spmv_csr_100000_1e6", inputs, 1_000_000, product);
    let inputs = vec![
        Made(|small| coo(small, WIDE), false),
        Normal(vec![10_000, 64]),
    ];
    counted("spmm_coo_10000_1e6_x64", inputs, 64 * 1_000_000, product);
    let factor = Made(|small| csr(small, [10_000, 10_000, 100_000]), false);
    let inputs = vec![factor.clone(), factor];
    counted("spgemm_csr_10000_1e5", inputs, 0, product);
    let inputs = vec![
        Made(|small| csr(small, [4096, 4096, 100_000]), false),
        Normal(vec![4096, 64]),
        Normal(vec![64, 4096]),
    ];
    let name = "sampled_addmm_csr_4096_1e5_k64";
    counted(name, inputs, 64 * 100_000, |x| {
        one(sparse::sampled_addmm(&x[0], &x[1], &x[2]))
    });
    let inputs = vec![
        Made(|small| Ok(csr(small, WIDE)?.requires_grad_(true)), false),
        Leaf(vec![10_000, 64]),
    ];
    counted("spmm_csr_fwd_bwd_10000_1e6_x64", inputs, 0, |x| {
        gradient(x[0].matmul(&x[1])?.sum()?, x)
    });
}

fn layouts(all: &mut Vec<Row>) {
    // The tensor is made of its parts in the call; the small one of them has few places, some of which come twice.
    let places = Made(
        |small| {
            let (side, n) = if small {
                (4, logarithm(1_000_000))
            } else {
                (10_000, 1_000_000)
            };
            randint(side, &[2, n])
        },
        false,
    );
    let inputs = [places, Normal(vec![1_000_000])];
    add(all, "coalesce_1000000", inputs, 0, |x| {
        one(sparse::coo(&x[0], &x[1], [10_000, 10_000])?.coalesce())
    });
    let (strided, bytes) = (Made(scattered, false), 16 << 20);
    add(all, "dense_to_csr_2048_1pct", [strided], bytes, |x| {
        one(x[0].to_sparse_csr())
    });
    let by_rows = Made(|small| scattered(small)?.to_sparse_csr(), false);
    add(all, "csr_to_dense_2048_1pct", [by_rows], bytes, |x| {
        one(x[0].to_dense())
    });
    let matrix = Made(|small| coo(small, WIDE), false);
    let two = [matrix.clone(), matrix.clone()];
    add(all, "coo_add_1e6", two, 0, |x| one(x[0].add(&x[1])));
    add(all, "sparse_softmax_coo_10000_1e6", [matrix], 0, |x| {
        one(sparse::softmax(&x[0], 1))
    });
}

fn layers(all: &mut Vec<Row>) {
    let input = Normal(vec![256, 4096]);
    let flops = 2 * 256 * 4096 * 4096;
    let dense = [input.clone(), Normal(vec![4096, 4096])];
    let name = "linear_dense_256x4096x4096";
    all.push(Row::new(name, dense, [flops, 0], linear));
    let name = "linear_bsr_90pct_256x4096x4096";
    let stored = [input, Made(blocks, false)];
    all.push(Row::new(name, stored, [flops / 10, 0], linear));
}
