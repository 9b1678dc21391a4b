//! Replicas of a model in one process.

use torsh_nn::{Module, ModuleExt};
use torsh_optim::Optimizer;
use torsh_tensor::{Device, Result, Tensor, TorshError, no_grad};

use crate::group::ProcessGroup;
use crate::init::spawn;
use crate::reduce::ReduceOp;

const OP: &str = "DataParallelTrainer";

/// Trains replicas of a model, each on a device, in one process: a batch is divided over them, each computes gradients on a
/// thread of its own, gradients are added up in the order of replicas, and each replica's optimizer makes its step. The
/// replicas stay equal bit for bit.
///
/// ```
/// use torsh_distributed::DataParallelTrainer;
/// use torsh_functional as F;
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_tensor::{Device, Result, ones, zeros};
///
/// let models: Vec<Box<dyn Module>> = vec![Box::new(Linear::new(2, 1)), Box::new(Linear::new(2, 1))];
/// let optimizers: Vec<Box<dyn Optimizer>> =
///     models.iter().map(|m| Ok(Box::new(SGD::new(m.parameters(), 0.1)?) as _)).collect::<Result<_>>()?;
/// let mut trainer = DataParallelTrainer::new(models, vec![Device::Cpu; 2], optimizers)?;
/// // Two samples for the first replica, three for the last.
/// let losses = trainer.training_step(&ones([5, 2]), &zeros([5, 1]), |y, t| F::mse_loss(y, t))?;
/// assert_eq!(losses.len(), 2);
/// let [a, b] = [0, 1].map(|i| trainer.models[i].state_dict()["weight"].copy());
/// assert_eq!(a?, b?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct DataParallelTrainer {
    /// The replicas.
    pub models: Vec<Box<dyn Module>>,
    /// Where each of them is.
    pub devices: Vec<Device>,
    /// The optimizer of each.
    pub optimizers: Vec<Box<dyn Optimizer>>,
}

impl DataParallelTrainer {
    /// A trainer of replicas that are on their devices already, each with an optimizer of its parameters. All get the
    /// first replica's parameters and buffers.
    ///
    /// # Errors
    /// The numbers differ, there is no replica, or replicas have other names or shapes than the first.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        models: Vec<Box<dyn Module>>,
        devices: Vec<Device>,
        optimizers: Vec<Box<dyn Optimizer>>,
    ) -> Result<DataParallelTrainer> {
        let n = models.len();
        if n == 0 || devices.len() != n || optimizers.len() != n {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "{n} models, {} devices and {} optimizers; there must be one of each for each replica",
                    devices.len(),
                    optimizers.len()
                ),
            ));
        }
        for (i, (model, device)) in models.iter().zip(&devices).enumerate() {
            if let Some((name, p)) = model
                .named_parameters()
                .iter()
                .find(|(_, p)| p.device() != *device)
            {
                let text = format!(
                    "`{name}` of replica {i} is {}, not on {device}",
                    p.describe()
                );
                return Err(TorshError::device(OP, text)
                    .with_hint("call to_device before the optimizer is made"));
            }
        }
        let first = models[0].state_dict();
        for model in &models[1..] {
            model.load_state_dict(&first).map_err(|e| e.renamed(OP))?;
        }
        Ok(DataParallelTrainer {
            models,
            devices,
            optimizers,
        })
    }

    /// One step on a batch: each replica gets `batch / replicas` samples and the last one the remainder too, runs forward and
    /// backward, and steps with the gradient of the mean over the whole batch. Gives each replica's loss.
    ///
    /// `loss_fn` gives the mean over its samples.
    ///
    /// # Errors
    /// Fewer samples than replicas, input and target of different lengths, and those of the models, the loss and the
    /// optimizers.
    #[torsh_tensor::names_caller]
    pub fn training_step(
        &mut self,
        input: &Tensor,
        target: &Tensor,
        loss_fn: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync,
    ) -> Result<Vec<f64>> {
        let n = self.models.len();
        let size = |t: &Tensor| t.dims().first().copied().unwrap_or(0);
        let batch = size(input);
        if batch < n || size(target) != batch {
            return Err(TorshError::shape(
                OP,
                format!(
                    "a batch {} with targets {} for {n} replicas: both need the same first dimension, of at least {n}",
                    input.describe(),
                    target.describe()
                ),
            ));
        }
        let each = batch / n;
        let this = &*self;
        let losses = spawn(n, |group| {
            let r = group.rank();
            let own = if r + 1 == n { batch - r * each } else { each };
            let x = input.narrow(0, r * each, own)?.to_device(this.devices[r])?;
            let y = target
                .narrow(0, r * each, own)?
                .to_device(this.devices[r])?;
            this.optimizers[r].zero_grad();
            let loss = loss_fn(&this.models[r].forward(&x)?, &y)?;
            loss.backward()?;
            this.all_reduce_gradients(&group, own as f64 / batch as f64)?;
            this.optimizers[r].step()?;
            loss.item::<f64>()
        })?;
        Ok(losses)
    }

    /// Makes each gradient of this rank's replica the sum over the replicas, in their order, each times its weight. A
    /// parameter without a gradient counts as zeros if another replica has one.
    fn all_reduce_gradients(&self, group: &ProcessGroup, weight: f64) -> Result<()> {
        no_grad(|| {
            let parameters = self.models[group.rank()].parameters();
            let have: Vec<i64> = parameters.iter().map(|p| i64::from(p.has_grad())).collect();
            let have = Tensor::from_vec(have, [parameters.len()])?;
            group.all_reduce_(&have, ReduceOp::Max)?;
            let mut grads = Vec::new();
            for (p, some) in parameters.iter().zip(have.to_vec::<i64>()?) {
                if some == 0 {
                    continue;
                }
                let g = match p.grad() {
                    Some(g) => g.detach(),
                    None => {
                        let zeros = Tensor::zeros(p.shape(), p.dtype(), p.device())?;
                        p.set_grad(Some(zeros.clone()))?;
                        zeros
                    }
                };
                g.mul_(weight)?;
                grads.push(g);
            }
            group.all_reduce_coalesced_(&grads, ReduceOp::Sum)
        })
    }
}
