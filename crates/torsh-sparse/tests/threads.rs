//! Results do not depend on the number of threads, bit for bit.

use torsh_core::pool;
use torsh_sparse::{self as sparse, SparseExt, SpmmReduce};
use torsh_tensor::sparse::values;
use torsh_tensor::{Result, Tensor, TensorLayout, TorshError, tensor};

const ROWS: usize = 3000;
const COLUMNS: usize = 700;
/// Enough elements that the loops over them are shared out.
const ELEMENTS: usize = 60_000;

/// Numbers that need rounding, the same in each run.
fn numbers(n: usize, mut state: u64) -> Vec<f32> {
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / 7e6 - 1.1
    };
    (0..n).map(next).collect()
}

fn places(n: usize, below: usize, state: u64) -> Vec<i64> {
    let drawn = numbers(n, state).into_iter();
    drawn
        .map(|v| ((v + 1.1) * 1e6) as i64 % below as i64)
        .collect()
}

fn strided(shape: [usize; 2], state: u64) -> Result<Tensor> {
    Tensor::from_vec(numbers(shape[0] * shape[1], state), shape)
}

/// A matrix of which many elements are stored several times, out of order.
fn matrix(state: u64) -> Result<Tensor> {
    let mut indices = places(ELEMENTS, ROWS, state);
    indices.extend(places(ELEMENTS, COLUMNS, state + 1));
    let indices = Tensor::from_vec(indices, [2, ELEMENTS])?;
    let v = Tensor::from_vec(numbers(ELEMENTS, state + 2), [ELEMENTS])?;
    sparse::coo(&indices, &v, [ROWS, COLUMNS])
}

/// What a result is made of, as bytes.
fn bytes(x: &Tensor) -> Result<Vec<u8>> {
    let x = x.detach();
    let Some(pattern) = x.pattern() else {
        return x.to_bytes();
    };
    let mut all = values(&x)?.to_bytes()?;
    all.extend(pattern.indices().to_bytes()?);
    if let Some(compressed) = pattern.compressed_indices() {
        all.extend(compressed.to_bytes()?);
    }
    Ok(all)
}

type Results = Vec<(String, Vec<u8>)>;

/// Blocks of 16 by 16, a third of them stored.
fn blocks() -> Result<Tensor> {
    let kept = strided([32, 16], 21)?.gt(0.5)?;
    let kept = kept.repeat_interleave(16, 0)?.repeat_interleave(16, 1)?;
    strided([512, 256], 22)?.masked_fill(&kept.logical_not()?, 0.0)
}

/// Products, reductions and gradients of one matrix.
fn of_matrix(all: &mut Results, x: &Tensor) -> Result<()> {
    let layout = x.layout();
    let mut keep = |what: &str, y: &Tensor| -> Result<()> {
        all.push((format!("{layout} {what}"), bytes(y)?));
        Ok(())
    };
    let (rows, columns) = (x.dims()[0], x.dims()[1]);
    let (d, e) = (strided([columns, 40], 5)?, strided([50, rows], 6)?);
    keep("conversion", x)?;
    let (a, b) = (
        x.detach().requires_grad_(true),
        d.detach().requires_grad_(true),
    );
    let y = sparse::mm(&a, &b)?;
    keep("sparse.mm", &y)?;
    y.square()?.sum()?.backward()?;
    keep("gradient", &a.grad().expect("a gradient"))?;
    keep("gradient of d", &b.grad().expect("a gradient"))?;
    keep("x @ d", &x.matmul(&d)?)?;
    keep("e @ x", &e.matmul(x)?)?;
    keep("sum", &x.sum()?)?;
    keep("sum 0", &sparse::sum(x, 0)?)?;
    keep("sum 1", &sparse::sum(x, 1)?)?;
    keep("softmax 0", &sparse::softmax(x, 0)?)?;
    keep("softmax 1", &sparse::softmax(x, 1)?)?;
    keep("x + x", &x.add(&x.to_sparse()?)?)?;
    keep("x * x", &x.mul(&x.tanh()?)?)
}

/// Results of tensors that are made anew, as what is kept with a pattern would be there in a second run.
fn results() -> Result<Results> {
    let mut all = Results::new();
    let coo = matrix(1)?;
    let once = coo.coalesce()?;
    let blocks = blocks()?;
    of_matrix(&mut all, &once)?;
    of_matrix(&mut all, &once.to_sparse_csr()?)?;
    of_matrix(&mut all, &once.to_sparse_csc()?)?;
    of_matrix(&mut all, &blocks.to_sparse_bsr([16, 16])?)?;
    of_matrix(&mut all, &blocks.to_sparse_bsc([16, 16])?)?;
    let mut keep = |what: &str, x: &Tensor| -> Result<()> {
        all.push((what.to_string(), bytes(x)?));
        Ok(())
    };
    let d = strided([COLUMNS, 40], 5)?;
    keep("to_dense", &coo.to_dense()?)?;
    keep("coo @ d", &coo.matmul(&d)?)?;
    let csr = once.to_sparse_csr()?;
    keep("mean", &sparse::spmm(&csr, &d, SpmmReduce::Mean)?)?;
    keep("amax", &sparse::spmm(&csr, &d, SpmmReduce::Amax)?)?;
    let (a, b) = (strided([ROWS, 24], 8)?, strided([24, COLUMNS], 9)?);
    keep("sampled_addmm", &sparse::sampled_addmm(&csr, &a, &b)?)?;
    keep("csr.T @ csr", &sparse::mm(&csr.t()?, &csr)?)?;
    let other = matrix(11)?;
    keep("coo + coo", &coo.add(&other)?.coalesce()?)?;
    let other = other.coalesce()?.to_sparse_csr()?;
    keep("csr * csr", &csr.mul(&other)?)?;
    let diagonals = strided([3, 2000], 13)?;
    diagonals.narrow(0, 0, 1)?.fill_(3.0)?;
    let offsets = tensor![0i64, -1, -7];
    let layout = TensorLayout::SparseCsr;
    let triangle = sparse::spdiags_with(&diagonals, &offsets, [2000, 2000], layout)?;
    let sides = strided([2000, 150], 14)?;
    keep("spsolve", &sparse::spsolve(&triangle, &sides)?)?;
    Ok(all)
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() -> Result<()> {
    let set = |n: usize| {
        pool::set_num_threads(n).map_err(|e| TorshError::invalid("set_num_threads", e.to_string()))
    };
    let before = pool::num_threads();
    let mut runs = Vec::new();
    for threads in [1, 2, 3] {
        set(threads)?;
        runs.push(results()?);
    }
    set(before)?;
    let (first, others) = runs.split_first().expect("three runs");
    for run in others {
        assert_eq!(run.len(), first.len());
        for ((what, a), (_, b)) in first.iter().zip(run) {
            assert!(a == b, "{what} differs");
        }
    }
    Ok(())
}
