//! Training in several processes.

use std::path::Path;

use torsh_nn::Module;
use torsh_optim::lr_scheduler::LRScheduler;
use torsh_optim::{GradScaler, Optimizer, ScaledStep, clip_grad_norm_};
use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::checkpoint::{Checkpoint, CheckpointBuilder};

/// How several processes (ranks) train one model: what a [`Trainer`](crate::Trainer) asks of them, given to
/// [`TrainerBuilder::distributed`](crate::TrainerBuilder::distributed). `torsh::distributed` has strategies
/// for replicated and sharded models.
///
/// Every method but the first four is called by all ranks in the same order; an error on one is an error of
/// the run.
pub trait Strategy<M: Module>: Send + Sync {
    /// The name, for messages.
    fn name(&self) -> &str;

    /// This process among all; rank 0 alone logs.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn world_size(&self) -> usize;

    /// This process among those that read different data, and how many these are: all, unless several work
    /// on one batch together.
    fn data_share(&self) -> (usize, usize) {
        (self.rank(), self.world_size())
    }

    /// Training begins, or goes on: what all ranks must have alike is made alike, or compared.
    fn start(&self, model: &M, optimizer: &dyn Optimizer) -> Result<()>;

    /// Runs `batch`, the forward and backward pass of a batch. `last`: a step is made with the gradients
    /// after it; otherwise more are added to them first, and they need not be exchanged yet.
    fn backward(&self, model: &M, last: bool, batch: &mut dyn FnMut() -> Result<()>) -> Result<()>;

    /// The gradients of a step are complete on this rank: means over the ranks are made of those that the
    /// backward pass did not exchange.
    fn reduce_gradients(&self, parameters: &[Tensor]) -> Result<()>;

    /// Limits the norm of the gradients of the whole model.
    fn clip_grad_norm(&self, model: &M, parameters: &[Tensor], max_norm: f64) -> Result<()> {
        let _ = model;
        clip_grad_norm_(parameters, max_norm).map(drop)
    }

    /// The step of a scaler, left out on all ranks where one has gradients that are not finite.
    fn scaled_step(&self, scaler: &GradScaler, optimizer: &dyn Optimizer) -> Result<ScaledStep> {
        scaler.step(optimizer)
    }

    /// Puts in the place of each number its sum over the ranks that read different data, added in the order
    /// of the ranks: bit-equal on all.
    fn sum(&self, values: &mut [f64]) -> Result<()>;

    /// Puts in the place of each answer whether any rank says yes.
    fn any(&self, answers: &mut [bool]) -> Result<()>;

    /// The values of the ranks that read different data, in their order.
    fn gather(&self, value: &Value) -> Result<Vec<Value>>;

    /// The values of all ranks, in their order.
    fn gather_all(&self, value: &Value) -> Result<Vec<Value>>;

    /// Saves the run; all ranks return when it is on the disk, or all return an error. `rest` is the same on
    /// all ranks.
    fn save(&self, parts: &RunParts<'_>, rest: &Checkpoint, path: &Path) -> Result<()>;

    /// Loads what [`Strategy::save`] wrote into the parts, and gives the rest.
    fn load(&self, parts: &RunParts<'_>, path: &Path) -> Result<Checkpoint>;
}

/// The parts of a run that hold tensors, of which a rank may have pieces.
#[derive(Clone, Copy)]
pub struct RunParts<'a> {
    /// The model.
    pub model: &'a dyn Module,
    /// The optimizer.
    pub optimizer: &'a dyn Optimizer,
    /// The scheduler, where there is one.
    pub scheduler: Option<&'a dyn LRScheduler>,
    /// The scaler, where there is one.
    pub scaler: Option<&'a GradScaler>,
    /// The average of the weights, where one is kept.
    pub ema: Option<&'a dyn Module>,
}

impl std::fmt::Debug for RunParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.builder().fmt(f)
    }
}

impl<'a> RunParts<'a> {
    /// The parts of a checkpoint: `model`, `optimizer`, `scheduler`, `scaler`, `ema`.
    pub fn builder(&self) -> CheckpointBuilder<'a> {
        let mut parts = Checkpoint::builder()
            .model(self.model)
            .optimizer(self.optimizer);
        if let Some(scheduler) = self.scheduler {
            parts = parts.scheduler(scheduler);
        }
        if let Some(scaler) = self.scaler {
            parts = parts.scaler(scaler);
        }
        if let Some(ema) = self.ema {
            parts = parts.model_named("ema", ema);
        }
        parts
    }

    /// The checkpoint of a whole run, in one process: the parts and the rest.
    #[torsh_tensor::names_caller]
    pub fn whole(&self, rest: &Checkpoint) -> Result<Checkpoint> {
        let mut whole = rest.clone();
        whole.parts.extend(self.builder().build()?.parts);
        Ok(whole)
    }

    /// Takes the parts' states out of the checkpoint of a whole run.
    ///
    /// # Errors
    /// Those of [`CheckpointBuilder::restore`]; a part in the checkpoint that the run does not have.
    #[torsh_tensor::names_caller]
    pub fn restore(&self, whole: &Checkpoint) -> Result<()> {
        let own = ["trainer", "loader", "rng", "gradients"];
        let parts = self.builder();
        let names: Vec<&str> = parts.names().collect();
        let mut saved = whole.names();
        if let Some(name) = saved.find(|n| !own.contains(n) && !names.contains(n)) {
            return Err(TorshError::invalid(
                "Trainer::resume",
                format!("the checkpoint has a `{name}`, the trainer none"),
            ));
        }
        parts.restore(whole)
    }
}
