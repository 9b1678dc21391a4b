//! The checks of data parallel on threads.

use torsh_distributed::{
    AllReduceHook, BatchedPowerSGDHook, CompressHook, DistributedDataParallel, PowerSGDHook,
    PowerSGDOptions, ProcessGroup, ReduceOp, SyncBatchNorm, TopKHook, spawn,
};
use torsh_distributed_suite::ddp::{errors, exactness, no_sync, sync_batch_norm, uneven, unused};
use torsh_distributed_suite::models::{batch, mlp_loss};
use torsh_distributed_suite::seeded;
use torsh_nn::{BatchNorm1d, Linear, Module, ModuleExt, Sequential, Tanh, sequential};
use torsh_optim::{Optimizer, SGD};
use torsh_tensor::{DType, Result, ones};

/// Runs a check on so many ranks that are threads.
fn on(
    sizes: impl IntoIterator<Item = usize>,
    f: impl Fn(&ProcessGroup) -> Result<()> + Send + Sync,
) {
    for n in sizes {
        if let Err(e) = spawn(n, |group| f(&group)) {
            panic!("on {n} ranks: {e}");
        }
    }
}

#[test]
fn ddp_is_bit_equal_to_accumulation() {
    on(1..=4, |g| exactness(g, 10));
}

#[test]
fn ddp_with_sync_batch_norm_is_the_whole_batch() {
    on(1..=4, |g| sync_batch_norm(g, 5));
}

#[test]
fn ddp_accumulates_within_no_sync() {
    on(1..=4, no_sync);
}

#[test]
fn ddp_finds_unused_parameters() {
    on(1..=4, unused);
}

#[test]
fn ddp_joins_uneven_inputs() {
    on(1..=4, uneven);
}

#[test]
fn ddp_errors_name_the_parameters() {
    on(1..=3, errors);
}

/// Gives a model a hook.
type Hook = Box<dyn Fn(&DistributedDataParallel<Sequential>) -> Result<()>>;

/// The losses of a small regression with a hook.
fn trained(g: &ProcessGroup, hook: Option<Hook>) -> Result<Vec<f32>> {
    let model = seeded(3, || {
        Ok(sequential![
            Linear::new(6, 16),
            Tanh::new(),
            Linear::new(16, 3)
        ])
    })?;
    let ddp = DistributedDataParallel::builder(model)
        .process_group(g)
        .build()?;
    if let Some(hook) = hook {
        hook(&ddp)?;
    }
    let optimizer = SGD::new(ddp.parameters(), 0.5)?;
    let mut losses = Vec::new();
    for _ in 0..30 {
        optimizer.zero_grad();
        let loss = mlp_loss(&ddp, 0, g.rank())?;
        loss.backward()?;
        optimizer.step()?;
        // Of all ranks' batches: a single rank's may grow.
        let all = g.all_reduce_(&loss.detach(), ReduceOp::Avg)?;
        losses.push(all.item::<f32>()?);
    }
    // All ranks hold the same.
    for p in ddp.parameters() {
        let all = g.all_gather(&p.detach())?;
        assert!(
            all.iter()
                .all(|w| w.to_vec::<f32>().ok() == all[0].to_vec::<f32>().ok())
        );
    }
    Ok(losses)
}

#[test]
fn ddp_hooks_train_as_well() {
    on([1, 2, 3], |g| {
        let plain = trained(g, None)?;
        let same = trained(g, Some(Box::new(|d| d.register_comm_hook(AllReduceHook))))?;
        assert_eq!(plain, same);
        let options = || {
            PowerSGDOptions::new()
                .start_powerSGD_iter(2)
                .min_compression_rate(1.0)
        };
        let others: [(&str, Hook, f32); 6] = [
            (
                "fp16",
                Box::new(|d| d.register_comm_hook(CompressHook::fp16())),
                1e-2,
            ),
            (
                "bf16",
                Box::new(|d| d.register_comm_hook(CompressHook::bf16())),
                5e-2,
            ),
            (
                "powerSGD",
                Box::new(move |d| d.register_comm_hook(PowerSGDHook::new(options())?)),
                0.2,
            ),
            (
                "batched",
                Box::new(move |d| d.register_comm_hook(BatchedPowerSGDHook::new(options())?)),
                0.4,
            ),
            (
                "top-k",
                Box::new(|d| d.register_comm_hook(TopKHook::new(0.25)?)),
                0.4,
            ),
            (
                "powerSGD in fp16",
                Box::new(move |d| {
                    let inner = PowerSGDHook::new(options())?;
                    d.register_comm_hook(CompressHook::of(inner, DType::F16))
                }),
                0.2,
            ),
        ];
        for (name, hook, far) in others {
            let losses = trained(g, Some(hook))?;
            let (ours, theirs) = (losses[29], plain[29]);
            assert!((ours - theirs).abs() < far, "{name}: {ours} and {theirs}");
            assert!(ours < losses[0], "{name}: {losses:?}");
        }
        Ok(())
    });
}

#[test]
fn sync_batch_norm_counts_batches_by_size() {
    on([2], |g| {
        let norm = SyncBatchNorm::new(2)?;
        // 1 and 3 rows of one batch of 4.
        let whole = batch(1, 0, &[4, 2, 3])?;
        let (start, rows) = [(0, 1), (1, 3)][g.rank()];
        let x = whole.narrow(0, start, rows)?.copy()?.requires_grad_(true);
        let y = norm.forward(&x)?;
        let reference = BatchNorm1d::new(2)?;
        let all = whole.copy()?.requires_grad_(true);
        let z = reference.forward(&all)?;
        assert!(y.allclose(&z.narrow(0, start, rows)?)?);
        let weight = batch(2, 0, &[4, 2, 3])?;
        y.mul(&weight.narrow(0, start, rows)?)?.sum()?.backward()?;
        z.mul(&weight)?.sum()?.backward()?;
        let (ours, theirs) = (x.grad(), all.grad());
        let (ours, theirs) = (ours.expect("a gradient"), theirs.expect("a gradient"));
        assert!(
            ours.sub(&theirs.narrow(0, start, rows)?)?
                .abs()?
                .max()?
                .item::<f32>()?
                < 1e-6
        );
        for (a, b) in norm.buffers().iter().zip(reference.buffers()) {
            assert!(a.allclose(&b)?);
        }
        // A rank without rows takes part.
        let rows = if g.rank() == 0 { 0 } else { 2 };
        let y = norm.forward(&batch(3, 0, &[4, 2, 3])?.narrow(0, 0, rows)?)?;
        assert_eq!(y.dims(), [rows, 2, 3]);
        norm.eval();
        norm.forward(&ones(&[1, 2]))?;
        Ok(())
    });
}
