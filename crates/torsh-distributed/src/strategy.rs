//! How a trainer trains on several ranks.

mod codec;
mod ranks;
#[cfg(test)]
mod tests;

use std::path::Path;

use torsh_nn::{Module, ModuleExt};
use torsh_optim::{GradScaler, Optimizer, ScaledStep};
use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};
use torsh_train::{Checkpoint, RunParts, Strategy};

use crate::checkpoint::{self, State};
use crate::tensor_parallel::TensorParallel;
use crate::{
    DistributedDataParallel, FullyShard, ProcessGroup, ReduceOp, ShardedGradScaler,
    check_optimizer, clip_grad_norm_,
};
use ranks::{Ranks, Rest};

/// A [`Trainer`](torsh_train::Trainer)'s strategy for a model in a [`DistributedDataParallel`].
///
/// Micro-batches before the last of a step are run without exchange. Checkpoints are written by rank 0 alone, in the
/// form of a single process's, whose names of parameters begin with `module.`
///
/// ```
/// use torsh_data::{DataLoader, TensorDataset};
/// use torsh_distributed::{DDPStrategy, DistributedDataParallel, spawn};
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::SGD;
/// use torsh_tensor::{Tensor, tensor};
/// use torsh_train::Trainer;
///
/// let losses = spawn(2, |group| {
///     let (x, y) = (tensor![[1.0], [2.0], [3.0]], tensor![[1.0], [2.0], [5.0]]);
///     let loader = DataLoader::builder(TensorDataset::new(x, y)).build()?;
///     let model = Linear::builder(1, 1).bias(false).build()?;
///     torsh_nn::init::zeros_(&model.weight)?;
///     let model = DistributedDataParallel::new(model, ())?;
///     let sgd = SGD::new(model.parameters(), 0.0)?;
///     let mut trainer = Trainer::builder(model, &sgd)
///         .loss(|output, target| torsh_functional::mse_loss(output, target))
///         .distributed(DDPStrategy::new(&group))
///         .build()?;
///     // The validation reads each item once: (1 + 4 + 25) / 3.
///     let results = trainer.fit(&loader, Some(&loader))?;
///     Ok(results.history[0].val_metrics["loss"])
/// })?;
/// assert_eq!(losses, [10.0, 10.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct DDPStrategy(Ranks);

impl DDPStrategy {
    /// The ranks of a group, which is that of the model.
    pub fn new(group: &ProcessGroup) -> DDPStrategy {
        DDPStrategy(Ranks::of(group))
    }
}

/// A [`Trainer`](torsh_train::Trainer)'s strategy for a model that [`fully_shard`](crate::fully_shard) split.
///
/// Checkpoints are folders of [`checkpoint`](crate::checkpoint), whatever the end of their names: each rank writes its
/// pieces, and any number of ranks takes them up again. The norm of gradients is that of the whole model, and a step
/// whose gradients are not finite on one rank is left out on all.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FSDPStrategy, FullyShardOptions, fully_shard, spawn};
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::SGD;
/// use torsh_tensor::tensor;
/// use torsh_train::Trainer;
///
/// let weights = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut model = Linear::builder(1, 2).bias(false).build()?;
///     torsh_nn::init::zeros_(&model.weight)?;
///     let shard = fully_shard(&mut model, &mesh, FullyShardOptions::default())?;
///     let sgd = SGD::new(model.parameters(), 0.5)?;
///     let mut trainer = Trainer::builder(model, &sgd)
///         .loss(|output, _| output.sum())
///         .distributed(FSDPStrategy::new(&shard))
///         .build()?;
///     // A batch for each rank: the mean gradient is 2.
///     let batches = vec![(tensor![[1.0]], tensor![0.0]), (tensor![[3.0]], tensor![0.0])];
///     trainer.fit(&batches, None)?;
///     trainer.model().weight.to_vec::<f32>()
/// })?;
/// assert_eq!(weights, [[-1.0], [-1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct FSDPStrategy {
    ranks: Ranks,
    shard: FullyShard,
}

impl FSDPStrategy {
    /// The ranks of the mesh over which the model is split. `shard` is the handle of the outermost module.
    pub fn new(shard: &FullyShard) -> FSDPStrategy {
        FSDPStrategy {
            ranks: Ranks::of(shard.mesh().flat_group()),
            shard: shard.clone(),
        }
    }
}

/// A [`Trainer`](torsh_train::Trainer)'s strategy for an ordinary model, which each rank has: when training begins all
/// get rank 0's parameters and buffers, and before each step the gradients are averaged.
///
/// The averages are those of [`DistributedDataParallel`], bit for bit, but nothing is sent while the backward pass goes
/// on. [`GroupStrategy::tensor_parallel`] is for models of which ranks hold pieces and work on one batch together.
///
/// ```
/// use torsh_distributed::{GroupStrategy, spawn};
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::SGD;
/// use torsh_tensor::tensor;
/// use torsh_train::Trainer;
///
/// let weights = spawn(2, |group| {
///     let model = Linear::builder(1, 1).bias(false).build()?;
///     torsh_nn::init::constant_(&model.weight, group.rank() as f64)?;
///     let sgd = SGD::new(model.parameters(), 1.0)?;
///     let mut trainer = Trainer::builder(model, &sgd)
///         .loss(|output, _| output.sum())
///         .distributed(GroupStrategy::new(&group))
///         .build()?;
///     let batches = vec![(tensor![[1.0]], tensor![0.0]), (tensor![[3.0]], tensor![0.0])];
///     trainer.fit(&batches, None)?;
///     trainer.model().weight.item::<f32>()
/// })?;
/// assert_eq!(weights, [-2.0, -2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct GroupStrategy {
    ranks: Ranks,
    cuts: Option<TensorParallel>,
}

impl GroupStrategy {
    /// The ranks of a group, each with data of its own.
    pub fn new(group: &ProcessGroup) -> GroupStrategy {
        GroupStrategy {
            ranks: Ranks::of(group),
            cuts: None,
        }
    }

    /// All ranks of `group`, of which those of `data` read different data, for a model that
    /// [`parallelize_module`](crate::tensor_parallel::parallelize_module) divided over the others. Checkpoints are
    /// folders of [`checkpoint`](crate::checkpoint) then.
    pub fn tensor_parallel(
        group: &ProcessGroup,
        data: &ProcessGroup,
        cuts: &TensorParallel,
    ) -> GroupStrategy {
        GroupStrategy {
            ranks: Ranks {
                all: group.clone(),
                data: data.clone(),
            },
            cuts: Some(cuts.clone()),
        }
    }
}

/// What all strategies do alike.
macro_rules! of_ranks {
    (|$self:ident| $ranks:expr) => {
        fn rank(&$self) -> usize {
            $ranks.all.rank()
        }

        fn world_size(&$self) -> usize {
            $ranks.all.size()
        }

        fn data_share(&$self) -> (usize, usize) {
            ($ranks.data.rank(), $ranks.data.size())
        }

        fn sum(&$self, values: &mut [f64]) -> Result<()> {
            $ranks.sum(values)
        }

        fn any(&$self, answers: &mut [bool]) -> Result<()> {
            $ranks.any(answers)
        }

        fn gather(&$self, value: &Value) -> Result<Vec<Value>> {
            ranks::gather(&$ranks.data, value)
        }

        fn gather_all(&$self, value: &Value) -> Result<Vec<Value>> {
            ranks::gather(&$ranks.all, value)
        }
    };
}

impl<M: Module> Strategy<DistributedDataParallel<M>> for DDPStrategy {
    fn name(&self) -> &str {
        "DDPStrategy"
    }

    of_ranks!(|self| self.0);

    #[torsh_tensor::names_caller]
    fn start(&self, model: &DistributedDataParallel<M>, _optimizer: &dyn Optimizer) -> Result<()> {
        let of_model = model.process_group();
        if of_model.ranks() != self.0.all.ranks() {
            return Err(TorshError::invalid(
                "DDPStrategy",
                format!(
                    "the model is replicated over the group {} with ranks {:?}, and training is over {} with ranks {:?}",
                    of_model.name(),
                    of_model.ranks(),
                    self.0.all.name(),
                    self.0.all.ranks()
                ),
            )
            .with_hint("give the strategy model.process_group()"));
        }
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn backward(
        &self,
        model: &DistributedDataParallel<M>,
        last: bool,
        batch: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let _quiet = (!last).then(|| model.no_sync());
        batch()
    }

    #[track_caller]
    fn reduce_gradients(&self, _parameters: &[Tensor]) -> Result<()> {
        // The backward pass did.
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn save(&self, parts: &RunParts<'_>, rest: &Checkpoint, path: &Path) -> Result<()> {
        self.0.save_whole(parts, rest, path)
    }

    #[torsh_tensor::names_caller]
    fn load(&self, parts: &RunParts<'_>, path: &Path) -> Result<Checkpoint> {
        self.0.load_whole(parts, path)
    }
}

impl<M: Module> Strategy<M> for GroupStrategy {
    fn name(&self) -> &str {
        "GroupStrategy"
    }

    of_ranks!(|self| self.ranks);

    #[torsh_tensor::names_caller]
    fn start(&self, model: &M, _optimizer: &dyn Optimizer) -> Result<()> {
        let (mut names, mut tensors) = (Vec::new(), Vec::new());
        for (name, p) in model.named_parameters() {
            names.push(format!("{name} {:?} {}", p.dims(), p.dtype()));
            tensors.push(p.detach());
        }
        for (name, b) in model.named_buffers() {
            let b = b.tensor().detach();
            names.push(format!("{name} {:?} {}", b.dims(), b.dtype()));
            tensors.push(b);
        }
        let data = &self.ranks.data;
        let all = data.all_gather_object(&names)?;
        for (rank, other) in all.iter().enumerate() {
            let place = (0..names.len().max(other.len())).find(|&i| all[0].get(i) != other.get(i));
            if let Some(i) = place {
                let on = |n: &[String]| n.get(i).cloned().unwrap_or("nothing".to_string());
                return Err(TorshError::invalid(
                    "GroupStrategy",
                    format!(
                        "the model differs over the group {}: rank 0 has {} where rank {rank} has {}",
                        data.name(),
                        on(&all[0]),
                        on(other)
                    ),
                )
                .with_hint("make the same model on all ranks"));
            }
        }
        no_grad(|| data.broadcast_coalesced_(&tensors, 0))
    }

    #[torsh_tensor::names_caller]
    fn backward(
        &self,
        _model: &M,
        _last: bool,
        batch: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        batch()
    }

    #[torsh_tensor::names_caller]
    fn reduce_gradients(&self, parameters: &[Tensor]) -> Result<()> {
        let data = &self.ranks.data;
        if data.size() == 1 {
            return Ok(());
        }
        // A parameter may have a gradient on some ranks alone: elsewhere it is 0.
        let mut there: Vec<bool> = parameters.iter().map(|p| p.grad().is_some()).collect();
        ranks::any(data, &mut there)?;
        let mut grads = Vec::new();
        for (p, _) in parameters.iter().zip(there).filter(|(_, there)| *there) {
            let grad = match p.grad() {
                Some(grad) => grad,
                None => {
                    let zeros = Tensor::zeros(p.dims().to_vec(), p.dtype(), p.device())?;
                    p.set_grad(Some(zeros.clone()))?;
                    zeros
                }
            };
            grads.push(grad);
        }
        no_grad(|| data.all_reduce_coalesced_(&grads, ReduceOp::Avg))
    }

    #[torsh_tensor::names_caller]
    fn clip_grad_norm(&self, model: &M, parameters: &[Tensor], max_norm: f64) -> Result<()> {
        match &self.cuts {
            Some(cuts) => cuts.clip_grad_norm_(model, max_norm).map(drop),
            None => torsh_optim::clip_grad_norm_(parameters, max_norm).map(drop),
        }
    }

    #[torsh_tensor::names_caller]
    fn save(&self, parts: &RunParts<'_>, rest: &Checkpoint, path: &Path) -> Result<()> {
        match &self.cuts {
            Some(cuts) => save_pieces(&self.ranks.all, parts, Some(cuts), rest, path),
            None => self.ranks.save_whole(parts, rest, path),
        }
    }

    #[torsh_tensor::names_caller]
    fn load(&self, parts: &RunParts<'_>, path: &Path) -> Result<Checkpoint> {
        match &self.cuts {
            Some(cuts) => load_pieces(&self.ranks.all, parts, Some(cuts), path),
            None => self.ranks.load_whole(parts, path),
        }
    }
}

impl<M: Module> Strategy<M> for FSDPStrategy {
    fn name(&self) -> &str {
        "FSDPStrategy"
    }

    of_ranks!(|self| self.ranks);

    #[track_caller]
    fn start(&self, _model: &M, optimizer: &dyn Optimizer) -> Result<()> {
        check_optimizer(optimizer)
    }

    #[torsh_tensor::names_caller]
    fn backward(
        &self,
        _model: &M,
        last: bool,
        batch: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let _quiet = (!last).then(|| self.shard.no_sync());
        batch()
    }

    #[track_caller]
    fn reduce_gradients(&self, _parameters: &[Tensor]) -> Result<()> {
        // The backward pass did.
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn clip_grad_norm(&self, model: &M, parameters: &[Tensor], max_norm: f64) -> Result<()> {
        let trained = |p: &torsh_nn::Parameter| parameters.iter().any(|t| t.is_same(p.tensor()));
        clip_grad_norm_(model.parameters().into_iter().filter(trained), max_norm).map(drop)
    }

    #[torsh_tensor::names_caller]
    fn scaled_step(&self, scaler: &GradScaler, optimizer: &dyn Optimizer) -> Result<ScaledStep> {
        ShardedGradScaler::new(scaler.clone(), &self.ranks.all).step(optimizer)
    }

    #[torsh_tensor::names_caller]
    fn save(&self, parts: &RunParts<'_>, rest: &Checkpoint, path: &Path) -> Result<()> {
        save_pieces(&self.ranks.all, parts, None, rest, path)
    }

    #[torsh_tensor::names_caller]
    fn load(&self, parts: &RunParts<'_>, path: &Path) -> Result<Checkpoint> {
        load_pieces(&self.ranks.all, parts, None, path)
    }
}

/// Saves a run of whose model each rank has pieces.
fn save_pieces(
    group: &ProcessGroup,
    parts: &RunParts<'_>,
    cuts: Option<&TensorParallel>,
    rest: &Checkpoint,
    path: &Path,
) -> Result<()> {
    // All ranks save the same rest, so the time is rank 0's.
    let rest = Rest::of(ranks::same_time(group, rest)?);
    checkpoint::save_in(group, path, &state(parts, cuts, &rest))
}

fn load_pieces(
    group: &ProcessGroup,
    parts: &RunParts<'_>,
    cuts: Option<&TensorParallel>,
    path: &Path,
) -> Result<Checkpoint> {
    let rest = Rest::default();
    checkpoint::load_in(group, path, &state(parts, cuts, &rest))?;
    rest.into_checkpoint()
}

/// What a checkpoint of a sharded run is made of.
fn state<'a>(parts: &RunParts<'a>, cuts: Option<&'a TensorParallel>, rest: &'a Rest) -> State<'a> {
    let mut state = State::new()
        .model(parts.model)
        .optimizer(parts.optimizer)
        .with("run", rest);
    if let Some(cuts) = cuts {
        state = state.tensor_parallel(parts.model, cuts);
    }
    if let Some(scheduler) = parts.scheduler {
        state = state.scheduler(scheduler);
    }
    if let Some(scaler) = parts.scaler {
        state = state.scaler(scaler);
    }
    if let Some(ema) = parts.ema {
        state = state.model_named("ema", ema);
    }
    state
}
