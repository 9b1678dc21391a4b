//! `checkpoint_sequential`: values, how often each function runs, and the memory it saves.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{fails, g, leaf, v};
use torsh_core::{alloc, random};
use torsh_tensor::{
    CheckpointOptions, DType, Device, Result, Tensor, checkpoint_sequential, checkpoint_with,
};

type Function = Box<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// Functions that count their runs.
fn counted(n: usize) -> (Arc<Vec<AtomicUsize>>, Vec<Function>) {
    let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..n).map(|_| AtomicUsize::new(0)).collect());
    let one = |i: usize| -> Function {
        let runs = runs.clone();
        Box::new(move |x| {
            runs[i].fetch_add(1, Ordering::SeqCst);
            x.sin()?.mul(1.0 + i as f64)?.exp()
        })
    };
    let functions = (0..n).map(one).collect();
    (runs, functions)
}

#[test]
fn all_but_the_last_segment_run_twice() -> Result<()> {
    let x = leaf(&[0.3, -0.7]);
    let plain = counted(7).1.iter().try_fold(x.clone(), |x, f| f(&x))?;
    plain.sum()?.backward()?;
    let want = g(&x);
    // PyTorch's segments: 7 / segments functions each, the rest in the last one.
    for (segments, once) in [(1, 7), (2, 4), (3, 3), (4, 4), (7, 1)] {
        x.zero_grad();
        let (runs, functions) = counted(7);
        let y = checkpoint_sequential(functions, segments, &x)?;
        assert_eq!(v(&y), v(&plain));
        y.sum()?.backward()?;
        assert_eq!(g(&x), want);
        let runs: Vec<usize> = runs.iter().map(|r| r.load(Ordering::SeqCst)).collect();
        let twice = vec![2; 7 - once];
        assert_eq!(runs, [twice, vec![1; once]].concat(), "{segments} segments");
    }
    Ok(())
}

#[test]
fn segments_that_cannot_be_are_errors() {
    let x = leaf(&[1.]);
    for (functions, segments) in [(3, 0), (3, 4), (0, 1)] {
        fails(
            checkpoint_sequential(counted(functions).1, segments, &x),
            &["checkpoint_sequential", &format!("{functions} functions")],
        );
    }
}

/// The only test of this file that draws, and the only one that measures.
#[test]
fn memory_and_random_numbers() -> Result<()> {
    let n = 1 << 18;
    let bytes = n * 4;
    let x = Tensor::full([n], 0.5, DType::F32, Device::Cpu)?.requires_grad_(true);
    let layer = |x: &Tensor| x.sin()?.cos();
    let peak = |segments: Option<usize>| -> Result<(usize, Option<Tensor>)> {
        x.zero_grad();
        let before = alloc::stats().allocated_bytes;
        alloc::reset_peak_stats();
        let y = match segments {
            None => (0..32).try_fold(x.clone(), |x, _| layer(&x))?,
            Some(s) => checkpoint_sequential(vec![layer; 32], s, &x)?,
        };
        y.sum()?.backward()?;
        drop(y);
        let most = alloc::stats().peak_allocated_bytes - before;
        Ok((most / bytes, x.grad()))
    };
    let (plain, want) = peak(None)?;
    let (few, got) = peak(Some(8))?;
    assert_eq!(got, want);
    // Two tensors for each of 32 layers; or one for each of 8 segments and two for each of 4 layers.
    assert!(plain >= 64, "{plain} tensors");
    assert!(few <= 8 + 8 + 6, "{few} tensors");

    // The second run draws again where the state is not kept.
    let ones = Tensor::ones([1000], DType::F64, Device::Cpu)?.requires_grad_(true);
    for preserve in [true, false] {
        ones.zero_grad();
        let _own = random::LocalGenerator::new(3).enter();
        let inner = ones.clone();
        let options = CheckpointOptions::new().preserve_rng_state(preserve);
        let y = checkpoint_with(move || inner.dropout(0.5, true)?.mul(&inner), options)?;
        let after = random::default_generator().get_state();
        y.sum()?.backward()?;
        let twice: Vec<f64> = v(&y).iter().map(|v| 2. * v).collect();
        assert_eq!(g(&ones) == twice, preserve);
        assert_eq!(random::default_generator().get_state() == after, preserve);
    }
    Ok(())
}
