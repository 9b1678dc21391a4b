//! What the checks of `torsh-distributed-suite` do not say of sharded modules.

use torsh_core::random::LocalGenerator;
use torsh_nn::construct::Construction;
use torsh_nn::{Embedding, Hooks, Linear, Module, ModuleExt};
use torsh_optim::{AdamW, GradScaler, Optimizer, SGD};
use torsh_sparse as _;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, tensor};

use crate::{
    DeviceMesh, FullyShardOptions, Sharded, ShardedGradScaler, fake, full_state_dict, fully_shard,
    load_full_state_dict, load_full_state_dict_from, spawn,
};

/// A block of a language model, without the attention itself.
#[derive(Module)]
struct Block {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    gate: Linear,
    up: Linear,
    down: Linear,
    hooks: Hooks,
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = self
                .q
                .forward(x)?
                .mul(&self.k.forward(x)?)?
                .add(&self.v.forward(x)?)?;
            let x = x.add(&self.o.forward(&y)?)?;
            let y = self.gate.forward(&x)?.mul(&self.up.forward(&x)?)?;
            x.add(&self.down.forward(&y)?)
        })
    }
}

#[derive(Module)]
struct Model {
    embedding: Embedding,
    blocks: Vec<Block>,
    head: Linear,
    hooks: Hooks,
}

impl Module for Model {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, tokens, |tokens| {
            let mut x = self.embedding.forward(tokens)?;
            for block in &self.blocks {
                x = block.forward(&x)?;
            }
            self.head.forward(&x)
        })
    }
}

fn model(vocabulary: usize, width: usize, inner: usize, blocks: usize) -> Result<Model> {
    let linear = |i, o| Linear::builder(i, o).bias(false).build();
    let block = || -> Result<Block> {
        Ok(Block {
            q: linear(width, width)?,
            k: linear(width, width)?,
            v: linear(width, width)?,
            o: linear(width, width)?,
            gate: linear(width, inner)?,
            up: linear(width, inner)?,
            down: linear(inner, width)?,
            hooks: Hooks::new(),
        })
    };
    Ok(Model {
        embedding: Embedding::new(vocabulary, width)?,
        blocks: (0..blocks).map(|_| block()).collect::<Result<_>>()?,
        head: linear(width, vocabulary)?,
        hooks: Hooks::new(),
    })
}

#[test]
fn coo_gradients_are_refused_by_name() {
    let run = |g: crate::ProcessGroup| -> Result<()> {
        let mesh = DeviceMesh::new(&[2], &["dp"])?;
        let refused = |backward: Result<()>, name: &str| {
            let e = backward.expect_err("a COO gradient").to_string();
            for words in [
                "fully_shard",
                name,
                "torch.sparse_coo",
                "DistributedDataParallel",
            ] {
                assert!(e.contains(words), "{words} is not in: {e}");
            }
        };
        let sparse = || Embedding::builder(6, 2).sparse(true).build();
        let mut table = sparse()?;
        let handle = fully_shard(&mut table, &mesh, FullyShardOptions::default())?;
        let rows = tensor![g.rank() as i64, 4];
        refused(
            table.forward(&rows)?.sum()?.backward(),
            "parameter weight of Embedding",
        );
        assert!(!table.weight.has_grad());
        // Also where it would be reduced later.
        let quiet = handle.no_sync();
        refused(
            table.forward(&rows)?.sum()?.backward(),
            "parameter weight of Embedding",
        );
        drop(quiet);
        let mut net = model(6, 2, 3, 1)?;
        net.embedding = sparse()?;
        fully_shard(&mut net.blocks[0], &mesh, FullyShardOptions::default())?;
        fully_shard(&mut net, &mesh, FullyShardOptions::default())?;
        refused(
            net.forward(&rows)?.sum()?.backward(),
            "embedding.weight of Model",
        );
        // A gradient from before it is sharded.
        let mut trained = sparse()?;
        trained.forward(&rows)?.sum()?.backward()?;
        let sharded = fully_shard(&mut trained, &mesh, FullyShardOptions::default());
        refused(sharded.map(drop), "parameter weight of Embedding");
        assert!(trained.weight.grad().is_some_and(|g| g.is_sparse()));
        Ok(())
    };
    spawn(2, run).expect("the ranks end");
}

#[test]
fn seven_billion_parameters_over_1024_ranks() {
    const RANKS: usize = 1024;
    let (vocabulary, width, inner, blocks) = (32_000, 4_096, 11_008, 32);
    let run = || -> Result<()> {
        let group = fake(3, RANKS)?;
        let mesh = DeviceMesh::from_group(&group, &[RANKS], &["dp"])?;
        let mut m = Construction::new()
            .device(Device::Meta)
            .run(|| model(vocabulary, width, inner, blocks))?;
        let all: usize = m.parameters().iter().map(|p| p.numel()).sum();
        assert_eq!(all, 6_738_149_376);
        // Rows of one rank, rounded up, times their width.
        let piece = |rows: usize, width: usize| rows.div_ceil(RANKS) * width;
        let of_block = 4 * piece(width, width) + 2 * piece(inner, width) + piece(width, inner);
        let of_rest = 2 * piece(vocabulary, width);
        for block in &mut m.blocks {
            fully_shard(block, &mesh, FullyShardOptions::new())?;
        }
        let handle = fully_shard(&mut m, &mesh, FullyShardOptions::new())?;
        let own = |m: &Model| -> usize { m.parameters().iter().map(|p| p.numel()).sum() };
        assert_eq!(own(&m), blocks * of_block + of_rest);
        assert_eq!(handle.unit_bytes(), 4 * RANKS * of_rest);
        let before = group.stats();
        let tokens = Tensor::zeros([2, 8], DType::I64, Device::Meta)?;
        m.forward(&tokens)?.sum()?.backward()?;
        let grads: usize = m
            .parameters()
            .iter()
            .filter_map(|p| p.grad())
            .map(|g| g.numel())
            .sum();
        assert_eq!(grads, own(&m));
        let after = group.stats();
        let of = |name: &str, f: fn(&crate::KindStats) -> u64| -> u64 {
            let sum = |s: &crate::CommStats| -> u64 {
                s.kinds
                    .iter()
                    .filter(|(k, _)| k.contains(name))
                    .map(|(_, s)| f(s))
                    .sum()
            };
            sum(&after) - sum(&before)
        };
        // Blocks are gathered for forward and for backward, the rest once, and each is reduced once.
        let bytes = |elements: usize| (4 * elements * (RANKS - 1)) as u64;
        let gathered = bytes(2 * blocks * of_block + of_rest);
        assert_eq!(of("all_gather", |s| s.bytes_received), gathered);
        assert_eq!(of("all_gather", |s| s.operations), 2 * blocks as u64 + 1);
        let reduced = bytes(blocks * of_block + of_rest);
        assert_eq!(of("reduce_scatter", |s| s.bytes_sent), reduced);
        assert_eq!(of("reduce_scatter", |s| s.operations), blocks as u64 + 1);
        Ok(())
    };
    run().expect("a model on the meta device");
}

#[test]
fn a_model_of_the_meta_device_comes_to_be() {
    let values = spawn(3, |g| {
        let mesh = DeviceMesh::from_group(&g, &[3], &["dp"])?;
        let mut m = Construction::new()
            .device(Device::Meta)
            .run(|| model(7, 4, 5, 2))?;
        for block in &mut m.blocks {
            fully_shard(block, &mesh, FullyShardOptions::new())?;
        }
        let handle = fully_shard(&mut m, &mesh, FullyShardOptions::new())?;
        handle.to_empty(&mut m, Device::Cpu)?;
        // Ranks would set other values; the first one's count.
        handle.init(&m, |name, t| {
            t.fill_(0.001 * name.len() as f64 + g.rank() as f64)
                .map(drop)
        })?;
        let optimizer = AdamW::new(m.parameters(), 0.1)?;
        m.forward(&tensor![[1, 2]])?.square()?.mean()?.backward()?;
        optimizer.step()?;
        let whole = full_state_dict(&m)?;
        whole
            .iter()
            .map(|(name, t)| Ok((name.to_string(), t.to_vec::<f32>()?)))
            .collect::<Result<Vec<_>>>()
    })
    .expect("it trains");
    assert_eq!(values[0], values[2]);
    let (name, up) = values[0]
        .iter()
        .find(|(n, _)| n == "blocks.1.up.weight")
        .expect("the name");
    // The first step of AdamW is its learning rate, or nothing where the gradient is 0.
    let start = 0.001 * name.len() as f32 * (1.0 - 0.1 * 0.01);
    assert!(
        up.iter().all(|v| (v - start).abs() < 0.1001 && *v != start),
        "{up:?}"
    );
}

#[test]
fn a_forward_that_fails_leaves_pieces() {
    #[derive(Module)]
    struct Fails {
        fc: Linear,
    }
    impl Module for Fails {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            let y = self.fc.forward(x)?;
            match x.numel() {
                2 => Ok(y),
                _ => Err(TorshError::Other("as it should".into())),
            }
        }
    }
    spawn(2, |g| {
        let mesh = DeviceMesh::from_group(&g, &[2], &["dp"])?;
        let net = Fails {
            fc: LocalGenerator::new(3).scope(|| Linear::new(2, 4)),
        };
        let net = Sharded::new(net, &mesh, FullyShardOptions::new())?;
        let said = net
            .forward(&tensor![[1.0, 2.0], [1.0, 2.0]])
            .expect_err("four numbers");
        assert!(said.to_string().contains("as it should"), "{said}");
        assert_eq!(net.fc.weight.dims(), [2, 2]);
        net.forward(&tensor![[1.0, 2.0]])?.sum()?.backward()?;
        assert_eq!(
            net.fc
                .bias
                .as_ref()
                .and_then(|b| b.grad())
                .expect("a gradient")
                .to_vec::<f32>()?,
            [1.0, 1.0]
        );
        Ok(())
    })
    .expect("one fails, one does not");
}

#[test]
fn modules_without_hooks_and_strange_meshes_are_refused() {
    #[derive(Module)]
    struct Plain {
        fc: Linear,
    }
    impl Module for Plain {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            self.fc.forward(x)
        }
    }
    spawn(1, |g| {
        let mesh = DeviceMesh::from_group(&g, &[1], &["dp"])?;
        let mut plain = Plain {
            fc: Linear::new(2, 2),
        };
        let before = SGD::new(plain.parameters(), 0.1)?;
        let said = fully_shard(&mut plain, &mesh, FullyShardOptions::new()).expect_err("no hooks");
        assert!(said.to_string().contains("Sharded::new"), "{said}");
        let cube = DeviceMesh::from_group(&g, &[1, 1, 1], &["a", "b", "c"])?;
        assert!(fully_shard(&mut plain.fc, &cube, FullyShardOptions::new()).is_err());
        before.step()?;
        fully_shard(&mut plain.fc, &mesh, FullyShardOptions::new())?;
        // It would train what nobody uses.
        assert!(before.step().is_err());
        Ok(())
    })
    .expect("errors alone");
}

/// The weight of an embedding that is the head's too.
#[test]
fn an_embedding_is_not_sharded_apart_from_the_head_that_is_tied_to_it() {
    use crate::{load_full_state_dict, parallelize_module, plan};
    let tied = || -> Result<Model> {
        let mut model = LocalGenerator::new(3).scope(|| model(6, 4, 8, 1))?;
        model.head.weight = model.embedding.weight.clone();
        Ok(model)
    };
    let options = FullyShardOptions::new;
    let refused = |said: Option<TorshError>, names: &[&str]| {
        let said = said.map(|e| e.to_string()).unwrap_or_default();
        assert!(names.iter().all(|n| said.contains(n)), "{said}");
    };
    spawn(2, |g| {
        let mesh = DeviceMesh::from_group(&g, &[2], &["dp"])?;
        // The embedding, then the model.
        let mut apart = tied()?;
        fully_shard(&mut apart.embedding, &mesh, options())?;
        let said = fully_shard(&mut apart, &mesh, options()).err();
        refused(said, &["head.weight", "one unit", "fully_shard"]);
        let optimizer = SGD::new(apart.parameters(), 0.1);
        assert!(optimizer.and_then(|o| o.step()).is_err());
        // The embedding, then the head.
        let mut apart = tied()?;
        fully_shard(&mut apart.embedding, &mesh, options())?;
        let said = fully_shard(&mut apart.head, &mesh, options()).err();
        refused(said, &["weight", "shared"]);
        let said = parallelize_module(&mut apart, &g, &plan![("embedding", VocabParallel)]).err();
        refused(said, &["head.weight", "shared"]);
        // As one unit they are the same parameter.
        let mut whole = tied()?;
        for block in &mut whole.blocks {
            fully_shard(block, &mesh, options())?;
        }
        fully_shard(&mut whole, &mesh, options())?;
        assert!(whole.head.weight.is_same(&whole.embedding.weight));
        let mut state = full_state_dict(&whole)?;
        assert_eq!(state["head.weight"], state["embedding.weight"]);
        load_full_state_dict(&whole, &state)?;
        let other = state["head.weight"].add(1.0)?;
        state.insert("head.weight", other);
        let said = load_full_state_dict(&whole, &state).err();
        refused(said, &["embedding.weight and head.weight", "one parameter"]);
        // Taken apart first, each is a unit.
        let mut untied = tied()?;
        torsh_nn::module::untie(&mut untied, &["head.weight"])?;
        fully_shard(&mut untied.embedding, &mesh, options())?;
        fully_shard(&mut untied, &mesh, options())?;
        load_full_state_dict(&untied, &state)?;
        assert_eq!(
            full_state_dict(&untied)?["head.weight"],
            state["head.weight"]
        );
        Ok(())
    })
    .expect("errors alone");
}

#[test]
fn all_ranks_leave_a_step_out_together() {
    let scales = spawn(3, |g| {
        let mesh = DeviceMesh::from_group(&g, &[3], &["dp"])?;
        let mut layer = Linear::builder(1, 3).bias(false).build()?;
        layer.weight.detach().fill_(1.0)?;
        fully_shard(&mut layer, &mesh, FullyShardOptions::new())?;
        let optimizer = SGD::new([&layer.weight], 0.25)?;
        let scaler = ShardedGradScaler::new(GradScaler::new(), &g);
        let mut made = Vec::new();
        for factor in [1.0, f32::INFINITY] {
            optimizer.zero_grad();
            // The last row's gradient, which the last rank alone has, may be infinite.
            let y = layer.forward(&tensor![[1.0]])?;
            let loss = y
                .narrow(1, 0, 2)?
                .sum()?
                .add(&y.select(1, 2)?.mul(factor)?.sum()?)?;
            scaler.scale(&loss)?.backward()?;
            made.push(scaler.step(&optimizer)?.made()?);
            scaler.update()?;
        }
        Ok((made, layer.weight.item::<f32>()?, scaler.get_scale()?))
    })
    .expect("it trains");
    assert!(
        scales
            .iter()
            .all(|s| *s == (vec![true, false], 0.75, 32768.0)),
        "{scales:?}"
    );
}

/// A batch norm as PyTorch before 0.4.1 saved it, and layers with the names of weight norm and spectral norm before the
/// parametrizations.
pub(crate) mod older {
    use torsh_nn::utils::{self, parametrizations};
    use torsh_nn::{BatchNorm1d, Buffer, Linear, Module, Parameter, Sequential, sequential};
    use torsh_tensor::{Result, Tensor, tensor};

    #[derive(Module)]
    struct OldNorm {
        weight: Parameter,
        bias: Parameter,
        running_mean: Buffer,
        running_var: Buffer,
    }

    impl Module for OldNorm {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            Ok(x.clone())
        }
    }

    pub(crate) fn old() -> Result<Sequential> {
        let norm = OldNorm {
            weight: Parameter::new(tensor![0.5, 1.5, 2.5]),
            bias: Parameter::new(tensor![0.25, -0.5, 1.0]),
            running_mean: Buffer::new(tensor![0.1, 0.2, 0.3]),
            running_var: Buffer::new(tensor![1.5, 2.0, 0.5]),
        };
        Ok(sequential![
            utils::weight_norm(Linear::new(4, 3), "weight", 0)?,
            norm,
            utils::spectral_norm(Linear::new(3, 5), "weight")?
        ])
    }

    pub(crate) fn new() -> Result<Sequential> {
        Ok(sequential![
            parametrizations::weight_norm(Linear::new(4, 3), "weight", 0)?,
            BatchNorm1d::new(3)?,
            parametrizations::spectral_norm(Linear::new(3, 5), "weight")?
        ])
    }
}

#[test]
fn older_state_dicts_load_into_sharded_models() -> Result<()> {
    let all = spawn(2, |g| {
        let old = LocalGenerator::new(5).scope(older::old)?.state_dict();
        assert!(!old.contains_key("1.num_batches_tracked") && old.contains_key("0.weight_g"));
        let whole = older::new()?;
        whole.load_state_dict(&old)?;
        whole.eval();
        let mesh = DeviceMesh::new(&[2], &["dp"])?;
        let x = tensor![[0.5, -1.0, 2.0, 0.25], [1.0, 0.75, -0.5, 3.0]];
        for from_one in [false, true] {
            let mut model = LocalGenerator::new(9).scope(older::new)?;
            fully_shard(&mut model, &mesh, FullyShardOptions::new())?;
            match from_one {
                false => load_full_state_dict(&model, &old)?,
                true => load_full_state_dict_from(&model, (g.rank() == 1).then_some(&old), 1)?,
            }
            let (ours, theirs) = (full_state_dict(&model)?, whole.state_dict());
            assert_eq!(ours.len(), theirs.len());
            for (name, t) in theirs.iter() {
                assert_eq!(&ours[name], t, "{name}");
            }
            model.eval();
            let off = model.forward(&x)?.sub(&whole.forward(&x)?)?.abs()?.max()?;
            assert!(off.item::<f64>()? < 1e-6);
            // What is missing is still said, of the form that the model has.
            let mut less = old.clone();
            less.remove("0.weight_v");
            let e = load_full_state_dict(&model, &less).unwrap_err().to_string();
            assert!(
                e.contains("missing: 0.parametrizations.weight.original1"),
                "{e}"
            );
        }
        Ok(true)
    })?;
    assert_eq!(all, [true, true]);
    Ok(())
}
