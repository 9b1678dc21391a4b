//! Pieces on the CPU of models that compute on another device: the mock device, which behaves like a GPU.

use std::sync::Arc;

use parking_lot::Mutex;
use torsh_distributed::checkpoint::{self, State};
use torsh_distributed::{
    CPUOffloadPolicy, DeviceMesh, FullyShard, FullyShardOptions, MixedPrecisionPolicy,
    ProcessGroup, ShardedGradScaler, clip_grad_norm_, full_state_dict, fully_shard,
    load_full_state_dict, load_full_state_dict_from, spawn,
};
use torsh_distributed_suite::ddp::{Rule, accumulate};
use torsh_distributed_suite::models::batch;
use torsh_distributed_suite::seeded;
use torsh_nn::construct::Construction;
use torsh_nn::{Buffer, Embedding, Hooks, Linear, Module, ModuleExt};
use torsh_optim::{AdamW, GradScaler, Optimizer};
use torsh_tensor::{DType, Device, Result, Tensor, devices, no_grad};

/// The mock device; two of its ranks may share one, as ranks share a machine.
fn mock(rank: usize) -> Device {
    torsh_backend_mock::register().expect("the only custom devices");
    Device::Custom(rank % torsh_backend_mock::DEVICES)
}

#[derive(Module)]
struct Block {
    up: Linear,
    down: Linear,
    hooks: Hooks,
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            x.add(&self.down.forward(&self.up.forward(x)?.square()?)?)
        })
    }
}

/// Two blocks between an embedding and a head, with a buffer, of sizes that no number of ranks divides. The device has a
/// kernel for each of its ops, so that its bits are the CPU's.
#[derive(Module)]
struct Net {
    embedding: Embedding,
    blocks: Vec<Block>,
    scale: Buffer,
    head: Linear,
    hooks: Hooks,
}

impl Module for Net {
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, tokens, |tokens| {
            let mut x = self.embedding.forward(tokens)?;
            for block in &self.blocks {
                x = block.forward(&x)?;
            }
            let scale = self.scale.tensor().to_dtype(x.dtype())?;
            self.head.forward(&x.mul(&scale)?)
        })
    }
}

fn net() -> Result<Net> {
    let block = || Block {
        up: Linear::new(6, 11),
        down: Linear::new(11, 6),
        hooks: Hooks::new(),
    };
    Ok(Net {
        embedding: Embedding::new(9, 6)?,
        blocks: vec![block(), block()],
        scale: Buffer::new(Tensor::rand(
            [6],
            DType::F32,
            torsh_tensor::default_device(),
        )?),
        head: Linear::new(6, 5),
        hooks: Hooks::new(),
    })
}

fn loss(m: &Net, step: usize, rank: usize, device: Device) -> Result<Tensor> {
    let tokens = batch(step, rank, &[7])?.mul(9.0)?.to_dtype(DType::I64)?;
    let wanted = batch(step, rank + 50, &[7, 5])?.to_device(device)?;
    let y = m
        .forward(&tokens.to_device(device)?)?
        .to_dtype(DType::F32)?;
    y.sub(&wanted)?.square()?.mean()
}

fn shard(m: &mut Net, group: &ProcessGroup, options: &FullyShardOptions) -> Result<FullyShard> {
    let mesh = DeviceMesh::from_group(group, &[group.size()], &["dp"])?;
    for block in &mut m.blocks {
        fully_shard(block, &mesh, options.clone())?;
    }
    fully_shard(m, &mesh, options.clone())
}

fn offload() -> FullyShardOptions {
    FullyShardOptions::new().offload_policy(CPUOffloadPolicy::new())
}

/// What is left of a training: parameters and buffers, as bits.
fn bits(m: &Net) -> Result<Vec<(String, Vec<u8>)>> {
    let state = full_state_dict(m)?;
    let bits = state
        .iter()
        .map(|(n, t)| Ok((n.to_string(), t.to_bytes()?)));
    bits.collect()
}

fn on_cpu(m: &Net, optimizer: &dyn Optimizer) {
    for (name, p) in m.named_parameters() {
        assert_eq!(p.device(), Device::Cpu, "{name}");
        let grad = p.grad().map(|g| (g.device(), g.dims().to_vec()));
        assert_eq!(grad, Some((Device::Cpu, p.dims().to_vec())), "{name}");
    }
    for state in optimizer.state_dict().state.values() {
        for t in state.values().filter_map(|v| v.as_tensor()) {
            assert_eq!(t.device(), Device::Cpu);
        }
    }
}

/// Trains on a device, and checks where things are.
fn train(
    group: &ProcessGroup,
    rule: Rule,
    device: Device,
    options: &FullyShardOptions,
) -> Result<Net> {
    // The values of the first rank count, buffers included.
    let mut m = seeded(3 + group.rank() as u64, net)?;
    m.to_device(device)?;
    shard(&mut m, group, options)?;
    let seen: Arc<Mutex<Vec<Device>>> = Arc::default();
    let told = seen.clone();
    m.blocks[1].up.register_forward_hook(move |layer, _, y| {
        let weight = &layer.named_parameters()[0].1;
        told.lock().extend([weight.device(), y.device()]);
        Ok(None)
    })?;
    let optimizer = rule.on(m.parameters())?;
    for step in 0..4 {
        optimizer.zero_grad();
        let loss = loss(&m, step, group.rank(), device)?;
        assert_eq!(loss.device(), device);
        loss.backward()?;
        on_cpu(&m, &*optimizer);
        optimizer.step()?;
        on_cpu(&m, &*optimizer);
        assert_eq!(std::mem::take(&mut *seen.lock()), [device; 2]);
        let whole = m.blocks[1].up.weight.unsharded().expect("sharded").clone();
        assert_eq!(whole.device(), device);
        assert!(whole.sum().is_err(), "its memory was given back");
    }
    assert!(m.buffers().iter().all(|b| b.device() == device));
    Ok(m)
}

#[test]
fn a_model_on_a_device_trains_as_on_the_cpu_and_as_one_process() {
    for ranks in 1..=3 {
        for rule in [Rule::Sgd, Rule::AdamW] {
            spawn(ranks, |g| {
                let there = train(&g, rule, mock(g.rank()), &offload())?;
                let same = bits(&there)?;
                // On the CPU the policy changes nothing.
                for options in [FullyShardOptions::new(), offload()] {
                    let here = train(&g, rule, Device::Cpu, &options)?;
                    assert_eq!(bits(&here)?, same, "{rule:?} on {ranks} ranks");
                }
                // Evaluation gathers and gives back too.
                there.eval();
                let one = no_grad(|| loss(&there, 9, 0, mock(g.rank())))?;
                assert!(one.item::<f32>()?.is_finite());
                Ok(())
            })
            .expect("the same bits");
        }
    }
}

#[test]
fn one_process_on_the_device_gives_the_same_bits() {
    spawn(2, |g| {
        let device = mock(g.rank());
        let mut single = seeded(3, net)?;
        single.to_device(device)?;
        let mut m = seeded(3, net)?;
        m.to_device(device)?;
        shard(&mut m, &g, &offload())?;
        let (ours, theirs) = (
            Rule::AdamW.on(m.parameters())?,
            Rule::AdamW.on(single.parameters())?,
        );
        for step in 0..3 {
            theirs.zero_grad();
            accumulate(&single, 2, &|m, r| loss(m, step, r, device))?;
            theirs.step()?;
            ours.zero_grad();
            loss(&m, step, g.rank(), device)?.backward()?;
            ours.step()?;
        }
        for (name, ours) in bits(&m)? {
            let theirs = single.state_dict()[name.as_str()].to_bytes()?;
            assert_eq!(ours, theirs, "{name}");
        }
        Ok(())
    })
    .expect("the same bits");
}

#[test]
fn the_device_holds_wholes_only_while_modules_run() {
    // The other tests' memory is of the device too, so only what a released whole says counts; and its storage's size.
    spawn(2, |g| {
        let device = mock(g.rank());
        let mut m = seeded(3, net)?;
        m.to_device(device)?;
        let handle = shard(&mut m, &g, &offload())?;
        let away = |m: &Net| -> Vec<bool> {
            let all = m.parameters();
            let wholes = all.iter().filter_map(|p| p.unsharded());
            wholes
                .map(|w| w.untyped_storage().is_ok_and(|s| s.is_released()))
                .collect()
        };
        assert!(away(&m).iter().all(|a| *a));
        let loss = loss(&m, 0, g.rank(), device)?;
        // The outermost unit stays until its backward.
        assert_eq!(away(&m).iter().filter(|a| **a).count(), 2 * 4);
        loss.backward()?;
        assert!(away(&m).iter().all(|a| *a));
        handle.unshard()?;
        assert!(away(&m).iter().all(|a| !*a));
        assert_eq!(m.head.weight.device(), device);
        handle.reshard()?;
        assert_eq!(m.head.weight.device(), Device::Cpu);
        Ok(())
    })
    .expect("memory comes and goes");
}

#[test]
fn models_of_the_meta_device_state_dicts_and_checkpoints() {
    let dir = std::env::temp_dir().join(format!("torsh-offload-{}", std::process::id()));
    spawn(2, |g| {
        let device = mock(g.rank());
        let mut m = Construction::new().device(Device::Meta).run(net)?;
        let handle = shard(&mut m, &g, &offload())?;
        handle.to_empty(&mut m, device)?;
        handle.init(&m, |name, t| {
            assert_eq!(t.device(), Device::Cpu);
            t.fill_(0.01 * name.len() as f64).map(drop)
        })?;
        assert!(m.parameters().iter().all(|p| p.device() == Device::Cpu));
        assert!(m.buffers().iter().all(|b| b.device() == device));
        loss(&m, 0, g.rank(), device)?.backward()?;

        // What one rank has goes to all, and to the device's buffers.
        let other = seeded(8, net)?;
        let state = other.state_dict();
        let same = |m: &Net| -> Result<()> {
            for (name, bits) in bits(m)? {
                assert_eq!(bits, state[name.as_str()].to_bytes()?, "{name}");
            }
            Ok(())
        };
        load_full_state_dict_from(&m, (g.rank() == 1).then_some(&state), 1)?;
        same(&m)?;
        checkpoint::save_in(&g, &dir, &State::new().model(&m))?;
        let fill = |t: &Tensor| no_grad(|| t.detach().fill_(0.0).map(drop));
        m.parameters().iter().try_for_each(|p| fill(p))?;
        fill(m.scale.tensor())?;
        checkpoint::load_in(&g, &dir, &State::new().model(&m))?;
        same(&m)?;
        load_full_state_dict(&m, &seeded(9, net)?.state_dict())?;
        load_full_state_dict(&m, &state)?;
        same(&m)
    })
    .expect("values come and go");
    std::fs::remove_dir_all(&dir).expect("the checkpoint");
}

#[test]
fn clipping_scaling_and_half_precision() {
    spawn(2, |g| {
        let policy = MixedPrecisionPolicy::new()
            .param_dtype(DType::BF16)
            .reduce_dtype(DType::F32);
        let run = |device: Device, options: FullyShardOptions| -> Result<(f32, Vec<_>)> {
            let mut m = seeded(3, net)?;
            m.to_device(device)?;
            let options = options.mp_policy(policy.clone());
            shard(&mut m, &g, &options)?;
            let optimizer = AdamW::new(m.parameters(), 0.01)?;
            let scaler = ShardedGradScaler::new(GradScaler::new(), &g);
            let mut norm = 0.0;
            for step in 0..3 {
                optimizer.zero_grad();
                scaler
                    .scale(&loss(&m, step, g.rank(), device)?)?
                    .backward()?;
                scaler.unscale_(&optimizer)?;
                norm = clip_grad_norm_(m.parameters(), 0.05)?.item::<f32>()?;
                assert!(scaler.step(&optimizer)?.made()?);
                scaler.update()?;
            }
            Ok((norm, bits(&m)?))
        };
        let (norm, there) = run(mock(g.rank()), offload())?;
        assert!(norm > 0.05, "{norm}: nothing was clipped");
        assert_eq!((norm, there), run(Device::Cpu, FullyShardOptions::new())?);
        Ok(())
    })
    .expect("the same bits");
}

#[test]
fn a_device_without_offload_is_refused_with_what_to_do() {
    spawn(1, |g| {
        let mut m = net()?;
        m.to_device(mock(0))?;
        let said = shard(&mut m, &g, &FullyShardOptions::new()).expect_err("another device");
        let said = said.to_string();
        for words in ["up.weight is on mock:0", "CPUOffloadPolicy"] {
            assert!(said.contains(words), "{said}");
        }
        devices::synchronize(mock(0))
    })
    .expect("an error alone");
}
