//! Batch normalisation by the statistics of all ranks' batches.

use std::any::Any;
use std::sync::Arc;

use torsh_functional as F;
use torsh_nn::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, FieldMut, FieldRef, Module, ModuleExt, ModuleField,
    ModuleFields, StatisticsSync,
};
use torsh_tensor::{
    BatchNormOptions, CustomBackward, DType, Device, Result, Tensor, TorshError, VarOptions, cat,
    is_grad_enabled, no_grad, record_function,
};

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;

const OP: &str = "SyncBatchNorm";

/// Normalises each channel over the batches of all ranks (`torch.nn.SyncBatchNorm`).
///
/// Takes `[N, num_features, ..]` of at least 2 dimensions. The ranks' batches may have different sizes; each counts by its
/// number of elements. Running statistics follow those of all batches together and are the same on all ranks. In
/// evaluation mode it is [`BatchNorm2d`]. All ranks call `forward` and, if the input wants a gradient, `backward` together.
///
/// ```
/// use torsh_distributed::{SyncBatchNorm, spawn};
/// use torsh_nn::Module;
/// use torsh_tensor::tensor;
/// let y = spawn(2, |group| {
///     let norm = SyncBatchNorm::new(1)?;
///     // One batch of 1 and 3, of which each rank has one.
///     let y = norm.forward(&tensor![[1.0 + 2.0 * group.rank() as f32]])?;
///     Ok(y.item::<f32>()?.round())
/// })?;
/// assert_eq!(y, [-1.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct SyncBatchNorm(torsh_nn::SyncBatchNorm);

impl SyncBatchNorm {
    /// A layer with PyTorch's defaults on the default group.
    ///
    /// # Errors
    /// No process group.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(num_features: usize) -> Result<SyncBatchNorm> {
        let layer = torsh_nn::SyncBatchNorm::new(num_features)?;
        Ok(SyncBatchNorm::of(layer, &crate::init::world()?))
    }

    /// A layer that was made with other arguments, on a group.
    ///
    /// ```
    /// use torsh_distributed::{SyncBatchNorm, spawn};
    /// use torsh_nn::ModuleExt;
    /// spawn(2, |group| {
    ///     let layer = torsh_nn::SyncBatchNorm::builder(3).eps(0.5).build()?;
    ///     let norm = SyncBatchNorm::of(layer, &group);
    ///     assert!(norm.repr().starts_with("SyncBatchNorm(3, eps=0.5"));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn of(layer: torsh_nn::SyncBatchNorm, group: &ProcessGroup) -> SyncBatchNorm {
        layer.set_statistics_sync(Some(Arc::new(Synchronised(group.clone()))));
        SyncBatchNorm(layer)
    }

    /// The layer that it is made of, with weight, bias and running statistics.
    pub fn layer(&self) -> &torsh_nn::SyncBatchNorm {
        &self.0
    }

    /// Lets all layers of batch normalisation in a model share their statistics in training, on the default group
    /// (`convert_sync_batchnorm`). Says how many there are. Layers keep their types, names and values.
    ///
    /// ```
    /// use torsh_distributed::{SyncBatchNorm, spawn};
    /// use torsh_nn::{BatchNorm1d, Linear, Module, sequential};
    /// use torsh_tensor::tensor;
    /// spawn(2, |group| {
    ///     let model = sequential![BatchNorm1d::new(1)?];
    ///     assert_eq!(SyncBatchNorm::convert(&model)?, 1);
    ///     let y = model.forward(&tensor![[1.0 + 2.0 * group.rank() as f32]])?;
    ///     assert_eq!(y.item::<f32>()?.round(), [-1.0, 1.0][group.rank()]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No process group.
    #[torsh_tensor::names_caller(Self)]
    pub fn convert<M: Module>(model: &M) -> Result<usize> {
        Ok(SyncBatchNorm::convert_on(model, &crate::init::world()?))
    }

    /// [`SyncBatchNorm::convert`] on a group.
    pub fn convert_on<M: Module>(model: &M, group: &ProcessGroup) -> usize {
        let sync: Arc<dyn StatisticsSync> = Arc::new(Synchronised(group.clone()));
        let mut count = 0;
        for module in model.modules() {
            let any = module as &dyn Any;
            let sync = Some(sync.clone());
            if let Some(norm) = any.downcast_ref::<BatchNorm1d>() {
                norm.set_statistics_sync(sync);
            } else if let Some(norm) = any.downcast_ref::<BatchNorm2d>() {
                norm.set_statistics_sync(sync);
            } else if let Some(norm) = any.downcast_ref::<BatchNorm3d>() {
                norm.set_statistics_sync(sync);
            } else if let Some(norm) = any.downcast_ref::<torsh_nn::SyncBatchNorm>() {
                norm.set_statistics_sync(sync);
            } else if let Some(norm) = any.downcast_ref::<SyncBatchNorm>() {
                norm.0.set_statistics_sync(sync);
            } else {
                continue;
            }
            count += 1;
        }
        count
    }
}

impl ModuleField for SyncBatchNorm {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor(name, FieldRef::Module(self));
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor(name, FieldMut::Module(self));
    }
}

impl ModuleFields for SyncBatchNorm {
    fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        self.0.visit_fields(visitor);
    }

    fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        self.0.visit_fields_mut(visitor);
    }

    fn type_name(&self) -> &'static str {
        self.0.type_name()
    }
}

impl Module for SyncBatchNorm {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(x)
    }

    fn extra_repr(&self) -> String {
        self.0.extra_repr()
    }
}

/// Statistics of a group.
struct Synchronised(ProcessGroup);

/// Mean and variance of each channel over all ranks.
struct Statistics {
    mean: Tensor,
    var: Tensor,
    /// How many values each is of.
    count: f64,
}

/// All dimensions but the channels'.
fn others(x: &Tensor) -> Vec<i64> {
    (0..x.ndim() as i64).filter(|d| *d != 1).collect()
}

/// The dtype in which sums are made.
fn compute_dtype(x: &Tensor) -> DType {
    match x.dtype() {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// A number for each channel, in the shape that goes with `x`.
fn by_channel(t: &Tensor, x: &Tensor) -> Result<Tensor> {
    let mut shape = vec![1; x.ndim()];
    shape[1] = t.numel();
    t.reshape(shape)
}

impl Synchronised {
    fn statistics(&self, x: &Tensor) -> Result<Statistics> {
        let channels = x.size(1)?;
        let count = x.numel().checked_div(channels).unwrap_or(0);
        let (var, mean) = match count {
            0 => {
                let zero = || Tensor::zeros([channels], x.dtype(), x.device());
                (zero()?, zero()?)
            }
            _ => x.var_mean_with(VarOptions::new().dim(others(x)).correction(0.0))?,
        };
        // In float64, so that the sum over ranks adds no error to the ranks' own.
        let n = Tensor::full([1], count as f64, DType::F64, x.device())?;
        let (mean, var) = (mean.to_dtype(DType::F64)?, var.to_dtype(DType::F64)?);
        let mine = cat(&[&mean, &var, &n], 0)?;
        let (ranks, width) = (self.0.size(), 2 * channels + 1);
        let all = Tensor::zeros([ranks * width], DType::F64, x.device())?;
        self.0.all_gather_into_(&all, &mine)?;
        let all = all.view([ranks, width])?;
        let means = all.narrow(1, 0, channels)?;
        let vars = all.narrow(1, channels, channels)?;
        let counts = all.narrow(1, 2 * channels, 1)?;
        // Without other ranks' data their batches are taken for as large as this one.
        let unknown = x.device() == Device::Meta || self.0.engine() == "fake";
        let count = match unknown {
            true => (count * ranks) as f64,
            false => counts.sum()?.item::<f64>()?,
        };
        if count < 2.0 {
            return Err(TorshError::shape(
                OP,
                format!(
                    "expected more than 1 value per channel over the {ranks} ranks of group {} when training, got {} here",
                    self.0.name(),
                    x.describe()
                ),
            ));
        }
        let mean = means.mul(&counts)?.sum_dim(0, false)?.div(count)?;
        let apart = means.sub(&mean)?.square()?;
        let var = vars.add(&apart)?.mul(&counts)?;
        let var = var.sum_dim(0, false)?.div(count)?;
        Ok(Statistics { mean, var, count })
    }
}

/// A running statistic that follows a batch's.
fn follow(running: &Tensor, now: &Tensor, momentum: f64) -> Result<()> {
    let now = now.to_dtype(running.dtype())?.mul(momentum)?;
    running.mul_(1.0 - momentum)?.add_(&now)?;
    Ok(())
}

impl StatisticsSync for Synchronised {
    #[torsh_tensor::names_caller]
    fn batch_norm(
        &self,
        x: &Tensor,
        running_mean: Option<&Tensor>,
        running_var: Option<&Tensor>,
        options: BatchNormOptions,
    ) -> Result<Tensor> {
        if self.0.size() == 1 {
            return F::batch_norm_with(x, running_mean, running_var, options);
        }
        let known = [running_mean, options.weight.as_ref(), options.bias.as_ref()];
        let channels = known.into_iter().flatten().next().map(Tensor::numel);
        if let Some(channels) = channels
            && channels != x.size(1)?
        {
            return Err(TorshError::shape(
                OP,
                format!(
                    "expected {channels} channels in dimension 1, got {}",
                    x.describe()
                ),
            ));
        }
        let dtype = compute_dtype(x);
        let (y, mean, scale) = no_grad(|| {
            let values = x.detach().to_dtype(dtype)?;
            let s = self.statistics(&values)?;
            if let (Some(mean), Some(var)) = (running_mean, running_var) {
                follow(mean, &s.mean, options.momentum)?;
                let unbiased = s.var.mul(s.count / (s.count - 1.0))?;
                follow(var, &unbiased, options.momentum)?;
            }
            let mean = s.mean.to_dtype(dtype)?;
            let inverse = s.var.add(options.eps)?.rsqrt()?.to_dtype(dtype)?;
            let mut y = values
                .sub(&by_channel(&mean, x)?)?
                .mul(&by_channel(&inverse, x)?)?;
            if let Some(weight) = &options.weight {
                y = y.mul(&by_channel(&weight.detach().to_dtype(dtype)?, x)?)?;
            }
            if let Some(bias) = &options.bias {
                y = y.add(&by_channel(&bias.detach().to_dtype(dtype)?, x)?)?;
            }
            Ok((y.to_dtype(x.dtype())?, mean, (inverse, s.count)))
        })?;
        let (inverse, count) = scale;
        let mut inputs = vec![x.clone()];
        inputs.extend(options.weight.clone());
        inputs.extend(options.bias.clone());
        let mut saved = vec![x.clone(), mean, inverse];
        saved.extend(options.weight.clone());
        let backward = Backward {
            group: self.0.clone(),
            count,
            weight: options.weight.is_some(),
            bias: options.bias.is_some(),
            needs_x: x.requires_grad(),
        };
        let mut out = record_function(&inputs, vec![y], &saved, 0, Box::new(backward))?;
        Ok(out.remove(0))
    }
}

/// The derivative: the sums over the batch are sums over all ranks.
struct Backward {
    group: ProcessGroup,
    count: f64,
    weight: bool,
    bias: bool,
    needs_x: bool,
}

impl CustomBackward for Backward {
    fn name(&self) -> &str {
        OP
    }

    fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        if is_grad_enabled() {
            return Err(TorshError::autograd(
                OP,
                "the derivative of SyncBatchNorm cannot be differentiated again",
            )
            .with_hint("call backward without create_graph"));
        }
        let (x, mean, inverse) = (&saved[0], &saved[1], &saved[2]);
        let dtype = compute_dtype(x);
        let g = match grads.first().cloned().flatten() {
            Some(g) => g.to_dtype(dtype)?,
            None => Tensor::zeros(x.shape(), dtype, x.device())?,
        };
        let (dims, channels) = (others(x), x.size(1)?);
        let inverse_x = by_channel(inverse, x)?;
        let centred = x.to_dtype(dtype)?.sub(&by_channel(mean, x)?)?;
        let normal = centred.mul(&inverse_x)?;
        let sum = g.sum_dim(&dims, false)?;
        let along = g.mul(&normal)?.sum_dim(&dims, false)?;
        let mut out = Vec::with_capacity(3);
        out.push(match self.needs_x {
            false => None,
            true => {
                let sums = cat(&[&sum, &along], 0)?.to_dtype(DType::F64)?;
                self.group.all_reduce_(&sums, ReduceOp::Sum)?;
                let means = sums.div(self.count)?.to_dtype(dtype)?;
                let mean = by_channel(&means.narrow(0, 0, channels)?, x)?;
                let along = by_channel(&means.narrow(0, channels, channels)?, x)?;
                let mut scale = inverse_x;
                if self.weight {
                    scale = scale.mul(&by_channel(&saved[3].to_dtype(dtype)?, x)?)?;
                }
                let dx = g.sub(&mean)?.sub(&normal.mul(&along)?)?.mul(&scale)?;
                Some(dx.to_dtype(x.dtype())?)
            }
        });
        if self.weight {
            out.push(Some(along));
        }
        if self.bias {
            out.push(Some(sum));
        }
        Ok(out)
    }
}
