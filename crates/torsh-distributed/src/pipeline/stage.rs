//! A stage of a pipeline.

use std::fmt;

use torsh_nn::{Module, ModuleExt, Parameter};
use torsh_tensor::{Device, Result, Tensor, TorshError};

use crate::ddp::{Averaging, NoSync};
use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;
use crate::tensor_parallel::AsProcessGroup;

/// Called with whether gradients are to be communicated.
type OnSync = Box<dyn Fn(bool) -> Result<()> + Send + Sync>;

/// A part of a model that one rank of a pipeline has.
///
/// The module takes one tensor and gives one. Over other dimensions of the mesh it may have replicas
/// ([`PipelineStage::data_parallel`]), be sharded ([`PipelineStage::on_last_micro_batch`]), and have tensor-parallel layers.
///
/// As in PyTorch, the module may also be a [`DistributedDataParallel`](crate::DistributedDataParallel), over the ranks that
/// have the same stage. Its gradients then add up over the micro-batches, and are averaged while the last one's backward
/// pass goes on. Its buffers are not sent in a step, and the zero-bubble schedule does not split its passes.
///
/// ```
/// use torsh_distributed::pipeline::{PipelineStage, Schedule};
/// use torsh_distributed::spawn;
/// use torsh_functional as F;
/// use torsh_nn::{Linear, init};
/// use torsh_tensor::{ones, zeros};
///
/// let losses = spawn(2, |g| {
///     let part = Linear::builder(1, 1).bias(false).build()?;
///     init::constant_(&part.weight, 3.0)?;
///     let stage = PipelineStage::on(part, g.rank(), 2, &g)?;
///     let (x, y) = (ones([4, 1]), zeros([4, 1]));
///     let loss = Schedule::one_f_one_b(stage, 2).step(&x, &y, |p, y| F::mse_loss(p, y))?;
///     loss.map(|l| l.item::<f32>()).transpose()
/// })?;
/// // 3 times 3, squared; only the last stage has it.
/// assert_eq!(losses, [None, Some(81.0)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct PipelineStage {
    pub(super) module: Box<dyn Module>,
    pub(super) index: usize,
    pub(super) stages: usize,
    pub(super) group: ProcessGroup,
    pub(super) device: Device,
    sync: Option<OnSync>,
    shared: Vec<(Parameter, ProcessGroup)>,
    replicas: Option<ProcessGroup>,
    /// What averages the gradients of modules that see to it themselves.
    averaging: Vec<Averaging>,
}

impl PipelineStage {
    /// Stage `index` of `n` on the default group: that of this rank, or with several stages on a rank one whose number
    /// leaves this rank when divided by the number of ranks.
    ///
    /// # Errors
    /// There is no default group, and those of [`PipelineStage::on`].
    #[torsh_tensor::names_caller(Self)]
    pub fn new(part: impl Module, index: usize, n: usize) -> Result<PipelineStage> {
        PipelineStage::on(part, index, n, &crate::init::world()?)
    }

    /// [`PipelineStage::new`] on a group or one dimension of a mesh (`&mesh["pp"]`).
    ///
    /// ```
    /// use torsh_distributed::{pipeline::PipelineStage, spawn};
    /// use torsh_nn::Linear;
    ///
    /// let places = spawn(2, |g| {
    ///     let stage = PipelineStage::on(Linear::new(2, 2), g.rank(), 2, &g)?;
    ///     assert!(PipelineStage::on(Linear::new(2, 2), 1 - g.rank(), 2, &g).is_err()); // Another rank's.
    ///     Ok((stage.index(), stage.is_first(), stage.is_last()))
    /// })?;
    /// assert_eq!(places, [(0, true, false), (1, false, true)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// `n` is no multiple of the ranks, or stage `index` is another rank's.
    #[torsh_tensor::names_caller(Self)]
    pub fn on(
        part: impl Module,
        index: usize,
        n: usize,
        mesh: &impl AsProcessGroup,
    ) -> Result<PipelineStage> {
        let op = "PipelineStage";
        let group = mesh.process_group(op)?;
        let (rank, size) = (group.rank(), group.size());
        if n == 0 || !n.is_multiple_of(size) {
            return Err(TorshError::invalid(
                op,
                format!("{n} stages on the {size} ranks of group {}", group.name()),
            )
            .with_hint(
                "take as many stages as ranks, or a multiple for the interleaved schedule",
            ));
        }
        if index >= n || index % size != rank {
            let own: Vec<usize> = (0..n).filter(|i| i % size == rank).collect();
            return Err(TorshError::invalid(
                op,
                format!(
                    "stage {index} of {n} is not one of rank {rank} of group {}, which has {own:?}",
                    group.name()
                ),
            ));
        }
        let first = part.parameters().into_iter().next();
        Ok(PipelineStage {
            device: first.map_or_else(torsh_tensor::default_device, |p| p.device()),
            averaging: Averaging::of(&part),
            module: Box::new(part),
            index,
            stages: n,
            group,
            sync: None,
            shared: Vec::new(),
            replicas: None,
        })
    }

    /// Says that other stages have this parameter too, as the embedding that is the output layer's weight: `group` are the
    /// ranks that have it (made by [`new_group`](ProcessGroup::new_group)). They begin with its first rank's values, and
    /// their gradients are summed at the end of each step. All ranks of the group call it.
    ///
    /// Each stage sums its own part over the micro-batches first, so the result differs by rounding from one process, which
    /// adds both parts for each micro-batch.
    ///
    /// ```
    /// use torsh_distributed::pipeline::{PipelineStage, Schedule};
    /// use torsh_distributed::spawn;
    /// use torsh_functional as F;
    /// use torsh_nn::{Linear, init};
    /// use torsh_tensor::{ones, zeros};
    ///
    /// let grads = spawn(2, |g| {
    ///     let part = Linear::builder(1, 1).bias(false).build()?;
    ///     init::constant_(&part.weight, 3.0)?;
    ///     let weight = part.weight.clone();
    ///     let stage = PipelineStage::on(part, g.rank(), 2, &g)?.share(&weight, &g)?;
    ///     let (x, y) = (ones([2, 1]), zeros([2, 1]));
    ///     Schedule::gpipe(stage, 2).step(&x, &y, |p, y| F::mse_loss(p, y))?;
    ///     weight.grad().map(|g| g.item::<f32>()).transpose()
    /// })?;
    /// // The derivative of w to the fourth.
    /// assert_eq!(grads, [Some(108.0), Some(108.0)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`broadcast_`](ProcessGroup::broadcast_).
    #[torsh_tensor::names_caller]
    pub fn share(mut self, parameter: &Parameter, group: &ProcessGroup) -> Result<PipelineStage> {
        group.broadcast_(&parameter.detach(), 0)?;
        self.shared.push((parameter.clone(), group.clone()));
        Ok(self)
    }

    /// Says that the ranks of a group, or of another dimension of the mesh (`&mesh["dp"]`), have this stage too and train it
    /// on other data. They begin with the first one's parameters and buffers, and gradients are averaged when the stage has
    /// done its last micro-batch, while other stages still work. All ranks of the group call it.
    ///
    /// The gradients are bit-equal to those of a stage in a [`DistributedDataParallel`](crate::DistributedDataParallel),
    /// which sends them while its last backward pass goes on.
    ///
    /// ```
    /// use torsh_distributed::pipeline::{PipelineStage, Schedule};
    /// use torsh_distributed::{DeviceMesh, spawn};
    /// use torsh_functional as F;
    /// use torsh_nn::{Linear, init};
    /// use torsh_tensor::{ones, zeros};
    ///
    /// let grads = spawn(4, |_| {
    ///     let mesh = DeviceMesh::new(&[2, 2], &["dp", "pp"])?;
    ///     let at = mesh.coordinate().to_vec();
    ///     let part = Linear::builder(1, 1).bias(false).build()?;
    ///     init::ones_(&part.weight)?;
    ///     let weight = part.weight.clone();
    ///     let stage = PipelineStage::on(part, at[1], 2, &mesh["pp"])?.data_parallel(&mesh["dp"])?;
    ///     // The replicas train on ones and on threes.
    ///     let x = ones([2, 1]).mul(1.0 + 2.0 * at[0] as f64)?;
    ///     Schedule::gpipe(stage, 2).step(&x, &zeros([2, 1]), |p, y| F::mse_loss(p, y))?;
    ///     weight.grad().map(|g| g.item::<f32>()).transpose()
    /// })?;
    /// // The mean of 2 and 18.
    /// assert_eq!(grads, [Some(10.0); 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A mesh of several dimensions; a module in a [`DistributedDataParallel`](crate::DistributedDataParallel), which averages
    /// already; and those of [`broadcast_`](ProcessGroup::broadcast_).
    #[torsh_tensor::names_caller]
    pub fn data_parallel(mut self, mesh: &impl AsProcessGroup) -> Result<PipelineStage> {
        const OP: &str = "PipelineStage::data_parallel";
        let group = mesh.process_group(OP)?;
        if let Some(averaging) = self.averaging.first() {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "stage {} is in a DistributedDataParallel, which averages its gradients over group {} already",
                    self.index,
                    averaging.group_name()
                ),
            )
            .with_hint("do without data_parallel, or give the stage the module without the wrapper"));
        }
        let mut all: Vec<Tensor> = self
            .module
            .parameters()
            .iter()
            .map(|p| p.detach())
            .collect();
        all.extend(self.module.buffers().iter().map(|b| b.detach()));
        if !all.is_empty() {
            group.broadcast_coalesced_(&all, 0)?;
        }
        self.replicas = Some(group);
        Ok(self)
    }

    /// Calls `f(false)` as each step begins and `f(true)` ahead of the last micro-batch's backward pass of this stage: a
    /// module that communicates gradients in its backward pass does so in that pass alone. For a sharded one `f` is
    /// `move |on| { handle.set_requires_gradient_sync(on); Ok(()) }` with the handle of
    /// [`fully_shard`](crate::fully_shard()). With the zero-bubble schedule passes of such a stage are not split, so that
    /// the module's hooks see them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use torsh_distributed::pipeline::{PipelineStage, Schedule};
    /// use torsh_distributed::spawn;
    /// use torsh_functional as F;
    /// use torsh_nn::Linear;
    /// use torsh_tensor::{ones, zeros};
    ///
    /// let calls = spawn(1, |g| {
    ///     let last = Arc::new(AtomicUsize::new(0));
    ///     let count = last.clone();
    ///     let stage = PipelineStage::on(Linear::new(1, 1), 0, 1, &g)?.on_last_micro_batch(move |on| {
    ///         count.fetch_add(usize::from(on), Ordering::Relaxed);
    ///         Ok(())
    ///     });
    ///     Schedule::gpipe(stage, 4).step(&ones([4, 1]), &zeros([4, 1]), |p, y| F::mse_loss(p, y))?;
    ///     Ok(last.load(Ordering::Relaxed))
    /// })?;
    /// assert_eq!(calls, [1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn on_last_micro_batch(
        mut self,
        f: impl Fn(bool) -> Result<()> + Send + Sync + 'static,
    ) -> PipelineStage {
        self.sync = Some(Box::new(f));
        self
    }

    /// The module, for its parameters and state dict.
    pub fn module(&self) -> &dyn Module {
        &*self.module
    }

    /// This stage's number in the whole pipeline.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether this is the pipeline's first stage, which gets the input.
    pub fn is_first(&self) -> bool {
        self.index == 0
    }

    /// Whether this is the pipeline's last stage, which has the loss.
    pub fn is_last(&self) -> bool {
        self.index + 1 == self.stages
    }

    /// Whether the module communicates in its backward passes, which it must see whole.
    pub(super) fn communicates(&self) -> bool {
        self.sync.is_some() || !self.averaging.is_empty()
    }

    /// A step begins: gradients add up on this rank while the guards live.
    pub(super) fn begin_step(&self) -> Result<Vec<NoSync<'static>>> {
        self.sync.as_ref().map_or(Ok(()), |f| f(false))?;
        Ok(self.averaging.iter().map(Averaging::quiet).collect())
    }

    /// The last micro-batch's backward pass comes, of this result; the guards of [`PipelineStage::begin_step`] are gone.
    pub(super) fn before_last_backward(&self, out: &Tensor) -> Result<()> {
        self.sync.as_ref().map_or(Ok(()), |f| f(true))?;
        let mut all = self.averaging.iter();
        all.try_for_each(|a| a.prepare_for_backward(out))
    }

    /// Averages the gradients over the replicas. A parameter without one counts as zeros if another replica has one.
    pub(super) fn average(&self) -> Result<()> {
        let Some(group) = &self.replicas else {
            return Ok(());
        };
        let parameters = self.module.parameters();
        if parameters.is_empty() {
            return Ok(());
        }
        let have: Vec<i64> = parameters.iter().map(|p| i64::from(p.has_grad())).collect();
        let have = Tensor::from_vec(have, [parameters.len()])?;
        group.all_reduce_(&have, ReduceOp::Max)?;
        let mut grads = Vec::new();
        for (p, some) in parameters.iter().zip(have.to_vec::<i64>()?) {
            if some == 0 {
                continue;
            }
            if !p.has_grad() {
                p.set_grad(Some(Tensor::zeros(p.shape(), p.dtype(), p.device())?))?;
            }
            grads.extend(p.grad().map(|g| g.detach()));
        }
        match grads.is_empty() {
            true => Ok(()),
            false => group.all_reduce_coalesced_(&grads, ReduceOp::Avg),
        }
    }

    /// Adds up the gradients of the parameters that other stages have too.
    pub(super) fn reduce_shared(&self) -> Result<()> {
        for (p, group) in &self.shared {
            let sum = match p.grad() {
                Some(g) => g.detach(),
                None => Tensor::zeros(p.shape(), p.dtype(), p.device())?,
            };
            group.all_reduce_(&sum, ReduceOp::Sum)?;
            if !p.has_grad() {
                p.set_grad(Some(sum))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PipelineStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineStage")
            .field("index", &self.index)
            .field("stages", &self.stages)
            .field("group", &self.group.name())
            .field("module", &self.module.type_name())
            .finish()
    }
}
