//! The memory of products, gradients and steps with sparse tensors of a size that nothing could hold. The tests count the
//! memory of the process, so that they are a program of their own and run one after the other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use torsh_core::alloc;
use torsh_optim::{Optimizer, SparseAdam};
use torsh_sparse::{self as sparse, SparseExt};
use torsh_tensor::{DType, Device, EmbeddingOptions, Result, Tensor, TorshError, tensor};

const SIDE: usize = 1_000_000;
const STORED: usize = 1000;
const WIDTH: usize = 8;
/// Bytes of a strided tensor of a million rows.
const TABLE: usize = SIDE * WIDTH * 4;
const MIB: usize = 1 << 20;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // A block that is used again may be larger than what is asked for.
    alloc::empty_cache();
    guard
}

/// The most bytes that were in use at once in a function beside those before, and those that are after it.
fn measured(f: impl FnOnce() -> Result<()>) -> Result<(usize, usize)> {
    let before = alloc::stats().allocated_bytes;
    alloc::reset_peak_stats();
    f()?;
    let after = alloc::stats();
    Ok((
        after.peak_allocated_bytes.saturating_sub(before),
        after.allocated_bytes.saturating_sub(before),
    ))
}

/// The most memory that the process has had, where the system tells: also what no tensor has.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kib.unwrap_or(0) << 10
}

/// A thousand elements, of which no two are in one row or column, all 0.5.
fn huge() -> Result<Tensor> {
    let place = |k: usize| (k * 7919 + 13) % SIDE;
    let mut indices: Vec<i64> = (0..STORED).map(|k| place(k) as i64).collect();
    indices.extend((0..STORED).map(|k| place(STORED - 1 - k) as i64));
    let indices = Tensor::from_vec(indices, [2, STORED])?;
    let v = Tensor::full([STORED], 0.5, DType::F32, Device::Cpu)?;
    sparse::coo(&indices, &v, [SIDE, SIDE])
}

fn table() -> Result<Tensor> {
    Tensor::ones([SIDE, WIDTH], DType::F32, Device::Cpu)
}

fn stored_everywhere(g: &Tensor, number: f32) -> Result<()> {
    assert!(g.is_sparse());
    // Two gradients of one tensor are added by storing both.
    let g = g.coalesce()?;
    assert_eq!((g.dims(), g.nnz()?), (&[SIDE, SIDE][..], STORED));
    let v = g.values()?.to_vec::<f32>()?;
    assert!(v.iter().all(|v| *v == number), "{:?}", &v[..4]);
    Ok(())
}

#[test]
fn products_and_gradients_by_pattern_take_what_is_stored() -> Result<()> {
    let _alone = alone();
    let x = huge()?.requires_grad_(true);
    let d = table()?.requires_grad_(true);
    let (most, kept) = measured(|| {
        let y = sparse::mm(&x, &d)?;
        y.sum()?.backward()
    })?;
    // The result, the gradient that comes in, that of the strided operand, where rows and columns begin; the strided
    // tensor of the sparse one's size would be of 4 TB.
    assert!(most < 6 * TABLE, "{} MiB", most / MIB);
    // The gradient of the strided operand, and the places of rows and columns.
    assert!(kept < 2 * TABLE, "{} MiB", kept / MIB);
    stored_everywhere(&x.grad().expect("a gradient"), WIDTH as f32)?;
    let total = d.grad().expect("a gradient").sum()?.item::<f32>()?;
    assert_eq!(total, 0.5 * (STORED * WIDTH) as f32);

    // The strided operand needs no gradient.
    let x = huge()?.requires_grad_(true);
    let d = d.detach();
    let (most, _) = measured(|| sparse::mm(&x, &d)?.sum()?.backward())?;
    assert!(most < 4 * TABLE, "{} MiB", most / MIB);
    let used = resident();
    assert!(used < 1 << 30, "{} MiB resident", used / MIB);
    Ok(())
}

#[test]
fn elementwise_ops_and_sums_take_what_is_stored() -> Result<()> {
    let _alone = alone();
    let x = huge()?.requires_grad_(true);
    let (most, _) = measured(|| {
        let y = x.mul(2.0)?.add(&x.square()?)?.t()?;
        let soft = sparse::softmax(&y, 1)?;
        let total = sparse::sum(&y, None)?.add(&sparse::sum(&soft, None)?)?;
        total.backward()
    })?;
    assert!(most < TABLE, "{} KiB", most >> 10);
    // Alone in their rows, elements have the softmax 1, whose slope is 0.
    stored_everywhere(&x.grad().expect("a gradient"), 3.0)?;
    // The strided gradient of a sum of all elements is one number; at the elements of a pattern it is laid out.
    let x = huge()?.coalesce()?.requires_grad_(true);
    let (most, _) = measured(|| x.mul(&x)?.sum()?.backward())?;
    assert!(most < TABLE, "{} KiB", most >> 10);
    stored_everywhere(&x.grad().expect("a gradient"), 1.0)?;
    let (most, _) = measured(|| {
        let y = sparse::mm(&huge()?, &huge()?)?;
        assert_eq!(y.nnz()?, STORED);
        Ok(())
    })?;
    assert!(most < 2 * TABLE, "{} KiB", most >> 10);
    Ok(())
}

#[test]
fn a_step_of_sparse_adam_takes_the_rows_of_its_gradient() -> Result<()> {
    let _alone = alone();
    let w = table()?.requires_grad_(true);
    let rows: Vec<i64> = (0..STORED).map(|k| (k * 997 % SIDE) as i64).collect();
    let used = Tensor::from_vec(rows.clone(), [STORED])?;
    let optimizer = SparseAdam::new([&w], 0.5)?;
    let step = || -> Result<()> {
        optimizer.zero_grad();
        let y = w.embedding_with(&used, EmbeddingOptions::new().sparse(true))?;
        y.square()?.sum()?.backward()?;
        let g = w.grad().expect("a gradient");
        assert_eq!((g.is_sparse(), g.nnz()?), (true, STORED));
        optimizer.step()
    };
    let (most, kept) = measured(step)?;
    // Two running means of the table's size, and a few rows.
    assert!(kept < 2 * TABLE + 4 * MIB, "{} MiB", kept / MIB);
    assert!(most < 2 * TABLE + 4 * MIB, "{} MiB", most / MIB);
    for _ in 0..3 {
        let (most, kept) = measured(step)?;
        assert!(most < 2 * MIB, "{} KiB", most >> 10);
        assert!(kept < MIB, "{} KiB", kept >> 10);
    }
    // The rows have moved, and no other one.
    let moved = w.detach().ne(1.0)?.any_dim(1, false)?;
    assert_eq!(moved.sum()?.item::<i64>()?, STORED as i64);
    assert!(moved.index_select(0, &used)?.all()?.item::<bool>()?);
    Ok(())
}

#[test]
fn what_has_no_room_is_refused_before_it_is_made() -> Result<()> {
    let _alone = alone();
    let side = 1i64 << 40;
    let last = side - 1;
    let indices = tensor![[last, 5], [0, last]];
    let far = sparse::coo(&indices, &tensor![1.0f32, 2.0], [side, side])?;
    let x = huge()?;
    let refused = |f: &dyn Fn() -> Result<()>, parts: &[&str]| -> Result<()> {
        let mut text = String::new();
        let (most, kept) = measured(|| {
            alloc::set_limit(Some(alloc::stats().allocated_bytes + 16 * MIB));
            let result = f();
            alloc::set_limit(None);
            text = result.expect_err("no room").to_string();
            Ok(())
        })?;
        assert!(parts.iter().all(|p| text.contains(p)), "{text}");
        assert!(most < MIB && kept < MIB, "{most} bytes, {text}");
        Ok(())
    };
    let dense = |x: &Tensor| x.to_dense().map(drop);
    refused(
        &|| dense(&far),
        &["to_dense: ", "more elements than memory can address"],
    )?;
    refused(&|| dense(&x), &["out of memory"])?;
    // Gradients with all elements; the functions that are named give others.
    let leaf = |x: &Tensor| x.detach().requires_grad_(true);
    let d = table()?;
    let y = leaf(&x).matmul(&d)?.sum()?;
    refused(
        &|| y.backward(),
        &["is strided, and does not fit the memory", "sparse::mm"],
    )?;
    let y = d.t()?.matmul(&leaf(&x))?.sum()?;
    refused(
        &|| y.backward(),
        &["is strided, and does not fit the memory", "sparse::mm"],
    )?;
    let y = leaf(&x).sum()?;
    refused(
        &|| y.backward(),
        &["is strided, and does not fit the memory", "sparse::sum"],
    )?;
    let y = leaf(&far).sum()?;
    refused(
        &|| y.backward(),
        &["is strided, and does not fit the memory", "sparse::sum"],
    )?;
    let far = leaf(&far);
    sparse::sum(&far, None)?.backward()?;
    assert_eq!(far.grad().map(|g| g.nnz()).transpose()?, Some(2));
    Ok(())
}

#[test]
fn a_limit_is_kept() -> Result<()> {
    let _alone = alone();
    let n = 4000usize;
    let eye = Tensor::arange(0, n as i64, 1, DType::I64, Device::Cpu)?;
    let indices = Tensor::stack(&[&eye, &eye], 0)?;
    let v = Tensor::ones([n], DType::F32, Device::Cpu)?;
    let x = sparse::coo(&indices, &v, [n, n])?.requires_grad_(true);
    let d = Tensor::ones([n, 2], DType::F32, Device::Cpu)?;
    let y = x.matmul(&d)?.sum()?;
    // Strided, the tensor has 64 million bytes.
    alloc::set_limit(Some(alloc::stats().allocated_bytes + 16 * MIB));
    let (gradient, whole) = (y.backward(), x.detach().to_dense());
    let by_pattern = sparse::mm(&x, &d).and_then(|y| y.sum()?.backward());
    alloc::set_limit(None);
    let text = gradient.expect_err("no room").to_string();
    assert!(text.contains("sparse::mm"), "{text}");
    assert!(matches!(whole, Err(TorshError::OutOfMemory)));
    by_pattern?;
    assert_eq!(x.grad().map(|g| g.nnz()).transpose()?, Some(n));
    Ok(())
}
