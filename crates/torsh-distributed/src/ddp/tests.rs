use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use torsh_nn::{BatchNorm1d, Embedding, Linear, Module, ModuleExt, sequential};
use torsh_optim::{AdamW, Optimizer, SGD};
use torsh_sparse::SparseExt;
use torsh_tensor::sparse::{Pattern, from_values};
use torsh_tensor::{DType, Device, Result, Tensor, ones, tensor};

use super::*;
use crate::init::spawn;
use crate::sync_batch_norm::SyncBatchNorm;

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
fn ddp_buckets_are_filled_in_reverse_then_in_the_order_of_gradients() {
    on([2], |g| {
        let model = sequential![Linear::new(4, 4), Linear::new(4, 4)];
        let ddp = DistributedDataParallel::builder(model)
            .process_group(g)
            .first_bucket_mb(16.0 / f64::from(1 << 20))
            .bucket_cap_mb(64.0 / f64::from(1 << 20))
            .build()?;
        let expected = [vec!["1.bias"], vec!["1.weight"], vec!["0.bias", "0.weight"]];
        assert_eq!(ddp.buckets(), expected);
        for _ in 0..2 {
            ddp.zero_grad();
            ddp.forward(&ones(&[1, 4]))?.sum()?.backward()?;
        }
        let mut all: Vec<String> = ddp.buckets().concat();
        all.sort();
        assert_eq!(all, ["0.bias", "0.weight", "1.bias", "1.weight"]);
        Ok(())
    });
}

#[test]
fn ddp_gradients_are_views_of_buckets() {
    on([2], |g| {
        let ddp = DistributedDataParallel::new(Linear::new(2, 2), g.rank())?;
        ddp.forward(&ones(&[1, 2]))?.sum()?.backward()?;
        let grads: Vec<Tensor> = ddp.parameters().iter().filter_map(|p| p.grad()).collect();
        assert!(grads[0].shares_storage(&grads[1]));
        // Added up in place, then averaged again.
        ddp.forward(&ones(&[1, 2]))?.sum()?.backward()?;
        assert_eq!(
            ddp.module().weight.grad(),
            Some(tensor![[2.0, 2.0], [2.0, 2.0]])
        );
        let apart = DistributedDataParallel::builder(Linear::new(2, 2))
            .gradient_as_bucket_view(false)
            .build()?;
        apart
            .forward(&ones(&[1, 2]).mul(g.rank() as f64)?)?
            .sum()?
            .backward()?;
        let grads: Vec<Tensor> = apart.parameters().iter().filter_map(|p| p.grad()).collect();
        assert!(!grads[0].shares_storage(&grads[1]));
        assert_eq!(grads[0], tensor![[0.5, 0.5], [0.5, 0.5]]);
        Ok(())
    });
}

#[test]
fn ddp_begins_with_the_first_ranks_values_and_buffers() {
    on([3], |g| {
        let model = sequential![Linear::new(2, 2), BatchNorm1d::new(2)?];
        let ddp = DistributedDataParallel::new(model, ())?;
        let all = g.all_gather(&ddp.parameters()[0].detach())?;
        assert!(all.iter().all(|w| *w == all[0]));
        let x = Tensor::from_data(&[1.0f32, 2.0, 3.0, g.rank() as f32], [2, 2])?;
        ddp.forward(&x)?.sum()?.backward()?;
        // Each rank's own batch moved them; the next step begins with rank 0's.
        let first = g.broadcast_object(Some(&ddp.buffers()[0].to_vec::<f32>()?), 0)?;
        ddp.forward(&x)?.sum()?.backward()?;
        let moved = ddp.buffers()[0].to_vec::<f32>()?;
        assert!(g.rank() != 0 || moved != first);
        assert_eq!(ddp.buffers()[2].item::<i64>()?, 2);
        // Nothing is sent without recording.
        if g.rank() == 0 {
            torsh_tensor::no_grad(|| ddp.forward(&x))?;
        }
        Ok(())
    });
}

#[test]
fn ddp_runs_in_other_dtypes() {
    on([2], |g| {
        let policy = DdpMixedPrecision::new()
            .param_dtype(DType::BF16)
            .reduce_dtype(DType::BF16);
        let ddp = DistributedDataParallel::builder(Linear::new(1, 1))
            .mixed_precision(policy)
            .build()?;
        let x = tensor![[1.0]].mul(1.0 + g.rank() as f64)?;
        let y = ddp.forward(&x)?;
        assert_eq!(y.dtype(), DType::BF16);
        y.to_dtype(DType::F32)?.sum()?.backward()?;
        assert_eq!(ddp.module().weight.grad(), Some(tensor![[1.5]]));
        Ok(())
    });
}

#[test]
fn ddp_powersgd_counts_what_it_sends() {
    on([2], |g| {
        let ddp = DistributedDataParallel::builder(Linear::builder(8, 8).bias(false).build()?)
            .process_group(g)
            .build()?;
        let options = PowerSGDOptions::new().start_powerSGD_iter(2);
        let hook = Arc::new(PowerSGDHook::new(options)?);
        ddp.reducer.set_hook(hook.clone())?;
        for _ in 0..3 {
            ddp.forward(&ones(&[1, 8]))?.sum()?.backward()?;
        }
        assert_eq!(hook.compression_stats(), (4.0, 64, 16));
        assert!(PowerSGDHook::new(PowerSGDOptions::new().start_powerSGD_iter(1)).is_err());
        assert!(TopKHook::new(0.0).is_err());
        Ok(())
    });
}

#[test]
fn ddp_join_can_end_early() {
    let ended = spawn(2, |g| {
        let ddp = DistributedDataParallel::new(Linear::new(1, 1), g.rank())?;
        let options = JoinOptions::new().throw_on_early_termination(true);
        let out = join_with(&ddp, options, || {
            for _ in 0..=g.rank() {
                ddp.forward(&tensor![[1.0]])?.sum()?.backward()?;
            }
            Ok(())
        });
        Ok(out.err().map(|e| e.to_string()))
    });
    for text in ended.expect("the ranks end") {
        let text = text.expect("it is an error");
        assert!(
            text.contains("ranks [0]") && text.contains("no more inputs"),
            "{text}"
        );
    }
}

#[test]
fn ddp_join_divides_by_those_that_train() {
    on([3], |g| {
        let ddp = DistributedDataParallel::new(Linear::new(1, 1), g.rank())?;
        torsh_nn::init::zeros_(&ddp.module().weight)?;
        let options = JoinOptions::new().divide_by_initial_world_size(false);
        join_with(&ddp, options, || {
            if g.rank() > 0 {
                ddp.forward(&tensor![[1.0]].mul(g.rank() as f64)?)?
                    .sum()?
                    .backward()?;
                assert_eq!(ddp.module().weight.grad(), Some(tensor![[1.5]]));
            }
            Ok(())
        })
    });
}

/// The indices and values of the gradient of a table.
fn stored(table: &Embedding) -> Result<(Tensor, Vec<f32>)> {
    let grad = table.weight.grad().expect("a gradient");
    Ok((grad.indices()?, grad.values()?.to_vec::<f32>()?))
}

#[test]
fn ddp_averages_coo_gradients_beside_the_buckets() {
    on([1, 2], |g| {
        let table = || Embedding::builder(5, 1).sparse(true).build();
        let rows = [tensor![1, 1], tensor![4, 1]];
        let gradient = |ddp: &DistributedDataParallel<Embedding>| {
            let y = ddp.forward(&rows[g.rank()])?;
            y.mul(1.001)?.sum()?.backward()?;
            stored(ddp.module())
        };
        let indices = match g.size() {
            1 => tensor![[1]],
            _ => tensor![[1, 4]],
        };
        // The hook does not see them.
        let hooked = DistributedDataParallel::builder(table()?)
            .process_group(g)
            .build()?;
        hooked.register_comm_hook(CompressHook::bf16())?;
        let a = 1.001f32;
        let values = match g.size() {
            1 => vec![2.0 * a],
            _ => vec![(2.0 * a + a) / 2.0, a / 2.0],
        };
        assert_eq!(gradient(&hooked)?, (indices.clone(), values));
        assert!(hooked.buckets().is_empty());
        // They are sent in the dtype of the others.
        let policy = DdpMixedPrecision::new().reduce_dtype(DType::BF16);
        let small = DistributedDataParallel::builder(table()?)
            .process_group(g)
            .mixed_precision(policy)
            .build()?;
        let values = match g.size() {
            1 => vec![2.0],
            _ => vec![1.5, 0.5],
        };
        assert_eq!(gradient(&small)?, (indices, values));
        Ok(())
    });
}

#[test]
fn ddp_coo_gradients_are_clipped() {
    on([2], |g| {
        let table = Embedding::builder(5, 1).sparse(true).build()?;
        let ddp = DistributedDataParallel::new(table, g.rank())?;
        let rows = [tensor![1, 1], tensor![4, 1]];
        ddp.forward(&rows[g.rank()])?.sum()?.backward()?;
        assert_eq!(stored(ddp.module())?.1, [1.5, 0.5]);
        let norm = crate::clip_grad_norm_(ddp.parameters(), 0.5)?.item::<f32>()?;
        assert!((norm - 2.5f32.sqrt()).abs() < 1e-6, "{norm}");
        let clipped = stored(ddp.module())?.1;
        for (now, before) in clipped.iter().zip([1.5, 0.5]) {
            assert!((now - before * 0.5 / norm).abs() < 1e-6, "{clipped:?}");
        }
        Ok(())
    });
}

#[test]
fn ddp_join_divides_coo_gradients_by_those_that_train() {
    on([3], |g| {
        let table = Embedding::builder(5, 1).sparse(true).build()?;
        let ddp = DistributedDataParallel::new(table, g.rank())?;
        let options = JoinOptions::new().divide_by_initial_world_size(false);
        join_with(&ddp, options, || {
            if g.rank() > 0 {
                let rows = tensor![g.rank() as i64, 2];
                ddp.forward(&rows)?.sum()?.backward()?;
                assert_eq!(stored(ddp.module())?, (tensor![[1, 2]], vec![0.5, 1.5]));
            }
            Ok(())
        })
    });
}

#[test]
fn ddp_a_late_coo_gradient_goes_through_its_bucket() {
    on([2], |g| {
        for view in [true, false] {
            let layer = Linear::builder(2, 1).bias(false).build()?;
            let late = Arc::new(AtomicBool::new(false));
            let (now, rank) = (late.clone(), g.rank());
            layer
                .weight
                .register_hook(move |grad| match rank == 1 && now.load(Relaxed) {
                    true => grad.to_sparse().map(Some),
                    false => Ok(None),
                })?;
            let ddp = DistributedDataParallel::builder(layer)
                .process_group(g)
                .gradient_as_bucket_view(view)
                .build()?;
            // 1.001 is 1 in bfloat16.
            ddp.register_comm_hook(CompressHook::bf16())?;
            let x = tensor![[1.001, 0.0]].mul(1.0 + g.rank() as f64)?;
            for step in 0..3 {
                late.store(step == 1, Relaxed);
                ddp.zero_grad();
                ddp.forward(&x)?.sum()?.backward()?;
                let grad = ddp.module().weight.grad();
                assert_eq!(grad, Some(tensor![[1.5, 0.0]]), "step {step}");
            }
        }
        Ok(())
    });
}

#[test]
fn ddp_gradients_that_a_rank_cannot_read_are_errors_of_all() {
    for collected in [true, false] {
        let said = spawn(2, |g| {
            let layer = Linear::new(3, 2);
            let bad = Arc::new(AtomicBool::new(false));
            let (now, rank) = (bad.clone(), g.rank());
            layer.weight.register_hook(move |grad| {
                if rank == 1 && now.load(Relaxed) {
                    let outside = Pattern::coo(&[2, 3], &tensor![[5, 0], [0, 0]], false)?;
                    return from_values(&outside, &tensor![1.0, 2.0]).map(Some);
                }
                match collected {
                    true => grad.to_sparse().map(Some),
                    false => Ok(None),
                }
            })?;
            let ddp = DistributedDataParallel::new(layer, rank)?;
            ddp.forward(&ones(&[1, 3]))?.sum()?.backward()?;
            ddp.zero_grad();
            bad.store(true, Relaxed);
            let done = ddp.forward(&ones(&[1, 3]))?.sum()?.backward();
            if collected {
                // The ranks go on together.
                g.barrier()?;
            }
            Ok(done.expect_err("no average").to_string())
        });
        let said = said.expect("the ranks end");
        for text in &said {
            let words = match collected {
                true => [
                    "the gradients of weight cannot all be read",
                    "rank 0: torch.sparse_coo of 6 elements and 2 sparse dimensions",
                    "rank 1: one that cannot be read",
                ],
                false => [
                    "rank 0 all_reduce",
                    "rank 1 gives up",
                    "the gradient of weight (torch.sparse_coo) cannot be read",
                ],
            };
            assert!(words.iter().all(|w| text.contains(w)), "{text}");
        }
        assert!(!collected || said[0] == said[1], "{said:?}");
    }
}

/// A layer whose weight may be sparse.
#[derive(Module)]
struct Weighted {
    weight: Parameter,
}

impl Module for Weighted {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight)
    }
}

#[test]
fn ddp_of_a_sparse_parameter_is_an_error() {
    on([1, 2], |_| {
        let weight = tensor![[1.0, 0.0], [0.0, 2.0]].to_sparse_csr()?;
        let weight = Parameter::new(weight);
        let made = DistributedDataParallel::new(Weighted { weight }, ());
        let text = made.map(drop).expect_err("a sparse parameter").to_string();
        assert!(
            text.contains("the parameter weight has the layout torch.sparse_csr"),
            "{text}"
        );
        Ok(())
    });
}

#[test]
fn ddp_collects_coo_gradients_of_a_fake_rank() {
    let run = || -> Result<()> {
        let group = crate::init::fake(5, 64)?;
        let table = Embedding::builder(1000, 4)
            .sparse(true)
            .device(Device::Meta)
            .build()?;
        let ddp = DistributedDataParallel::builder(table)
            .process_group(&group)
            .build()?;
        let rows = Tensor::zeros([3], DType::I64, Device::Meta)?;
        for _ in 0..2 {
            ddp.zero_grad();
            group.reset_stats();
            ddp.forward(&rows)?.sum()?.backward()?;
        }
        // The others are taken to have as many elements.
        let grad = ddp.module().weight.grad().expect("a gradient");
        assert_eq!((grad.is_sparse(), grad.nnz()?), (true, 3 * 64));
        // Indices and values, and nothing of the size of the table.
        let kinds = group.stats().kinds;
        assert_eq!(kinds["all_gather"].operations, 2);
        assert!(!kinds.contains_key("all_reduce"));
        Ok(())
    };
    if let Err(e) = run() {
        panic!("{e}");
    }
}

/// PyTorch's losses of two ranks with gloo, made by tests/data/ddp_traces.py.
fn traces() -> serde_json::Value {
    let text = include_str!("../../tests/data/ddp_traces.json");
    serde_json::from_str(text).expect("the file is valid")
}

fn values(v: &serde_json::Value) -> Vec<f32> {
    let all = v.as_array().expect("a list");
    all.iter()
        .map(|x| x.as_f64().expect("a number") as f32)
        .collect()
}

fn load(model: &impl Module, weights: &serde_json::Value) -> Result<()> {
    for (name, p) in model.named_parameters() {
        p.detach()
            .copy_(&Tensor::from_data(&values(&weights[&name]), p.dims())?)?;
    }
    Ok(())
}

#[test]
fn ddp_losses_are_pytorchs() {
    let all = traces();
    for name in ["sgd", "adamw", "powersgd", "syncbn"] {
        let t = &all[name];
        on([2], |g| {
            let n = t["inputs"].as_u64().expect("a number") as usize;
            let hidden = t["hidden"].as_u64().expect("a number") as usize;
            let model: Box<dyn Module> = match name {
                "syncbn" => Box::new(sequential![
                    Linear::new(n, hidden),
                    BatchNorm1d::new(hidden)?,
                    torsh_nn::Tanh::new(),
                    Linear::new(hidden, 1)
                ]),
                _ => Box::new(sequential![
                    Linear::new(n, hidden),
                    torsh_nn::Tanh::new(),
                    Linear::new(hidden, 1)
                ]),
            };
            SyncBatchNorm::convert_on(&model, g);
            load(&model, &t["weights"])?;
            let ddp = DistributedDataParallel::builder(model)
                .process_group(g)
                .build()?;
            if name == "powersgd" {
                let options = PowerSGDOptions::new().start_powerSGD_iter(2);
                ddp.register_comm_hook(PowerSGDHook::new(options)?)?;
            }
            let optimizer: Box<dyn Optimizer> = match name {
                "adamw" => Box::new(AdamW::new(ddp.parameters(), 0.01)?),
                _ => Box::new(
                    SGD::builder(ddp.parameters())
                        .lr(0.1)
                        .momentum(0.9)
                        .build()?,
                ),
            };
            let rows = t["rows"].as_u64().expect("a number") as usize;
            let x = Tensor::from_data(&values(&t["x"][g.rank()]), [rows, n])?;
            let y = Tensor::from_data(&values(&t["y"][g.rank()]), [rows, 1])?;
            for (step, expected) in values(&t["losses"][g.rank()]).into_iter().enumerate() {
                optimizer.zero_grad();
                let loss = ddp.forward(&x)?.mse_loss(&y)?;
                loss.backward()?;
                optimizer.step()?;
                let loss = loss.item::<f32>()?;
                assert!(
                    (loss - expected).abs() < 1e-4,
                    "{name}, step {step}, rank {}: {loss}, PyTorch {expected}",
                    g.rank()
                );
            }
            Ok(())
        });
    }
}

#[test]
fn ddp_keeps_the_books_of_a_fake_rank() {
    let run = || -> Result<()> {
        let group = crate::init::fake(5, 64)?;
        let layer = Linear::builder(256, 256).device(Device::Meta).build()?;
        let ddp = DistributedDataParallel::builder(layer)
            .process_group(&group)
            .build()?;
        group.reset_stats();
        let x = Tensor::zeros([2, 256], DType::F32, Device::Meta)?;
        ddp.forward(&x)?.sum()?.backward()?;
        let kinds = group.stats().kinds;
        let (reduced, bytes) = (
            kinds["all_reduce"].operations,
            kinds["all_reduce"].bytes_sent,
        );
        assert_eq!(reduced, 1);
        // A reduce-scatter and an all-gather, each of the other 63 pieces of 64, rounded up.
        let gradient = (256 * 256 + 256) * 4;
        let least = 2 * gradient * 63 / 64;
        assert!(
            (least..least + least / 50).contains(&(bytes as usize)),
            "{bytes} of {least}"
        );
        Ok(())
    };
    if let Err(e) = run() {
        panic!("{e}");
    }
}

#[test]
fn ddp_of_no_use_is_an_error() {
    on([1], |_| {
        let frozen = Linear::new(1, 1);
        frozen.requires_grad_(false);
        assert!(DistributedDataParallel::new(frozen, ()).is_err());
        let lazy = torsh_nn::LazyLinear::new(2)?;
        assert!(DistributedDataParallel::new(lazy, ()).is_err());
        let mut ddp = DistributedDataParallel::new(Linear::new(1, 1), ())?;
        ddp.to_dtype(DType::F64)?;
        let x = Tensor::ones([1, 1], DType::F64, Device::Cpu)?;
        let e = ddp.forward(&x).err().map(|e| e.to_string());
        assert!(e.is_some_and(|e| e.contains("replaced")));
        Ok(())
    });
}
