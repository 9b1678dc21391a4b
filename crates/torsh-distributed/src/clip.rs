//! Gradients of pieces: their norm, and loss scaling.

use std::borrow::Borrow;
use std::sync::Arc;

use torsh_nn::Parameter;
use torsh_nn::utils::{ClipGradNormOptions, get_total_norm};
use torsh_optim::{
    GradScaler, Optimizer, OptimizerHooks, OptimizerState, Param, ParamGroup, ScaledStep,
    StateValue,
};
use torsh_tensor::{DType, Device, NormOptions, Result, Tensor, TorshError, no_grad, sparse};

use crate::fsdp::owner;
use crate::{ProcessGroup, ReduceOp};

/// Scales the gradients of a model so that their norm is at most `max_norm`, and returns the norm from before
/// (`torch.nn.utils.clip_grad_norm_`). Pieces of sharded parameters count with those of the other ranks; parameters that
/// are not sharded count once. All ranks call it, and all get the same norm.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, clip_grad_norm_, fully_shard, spawn};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::tensor;
///
/// let norms = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::builder(1, 4).bias(false).build()?;
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     layer.forward(&tensor![[3.0]])?.sum()?.backward()?;
///     // Four gradients of 3, two on each rank.
///     let norm = clip_grad_norm_(layer.parameters(), 3.0)?.item::<f32>()?;
///     let grad = layer.weight.grad().expect("backward ran").to_vec::<f32>()?;
///     assert!(grad.iter().all(|g| (g - 1.5).abs() < 1e-5));
///     Ok(norm)
/// })?;
/// assert!(norms.iter().all(|norm| (norm - 6.0).abs() < 1e-5));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// The group failed.
#[track_caller]
pub fn clip_grad_norm_<P: Borrow<Parameter>>(
    parameters: impl IntoIterator<Item = P>,
    max_norm: f64,
) -> Result<Tensor> {
    clip_grad_norm_with(parameters, max_norm, ClipGradNormOptions::default())
}

/// [`clip_grad_norm_`] with the order of the norm (`f64::INFINITY` for the largest value) and whether a norm that is no
/// number is an error.
///
/// ```
/// use torsh_distributed::clip_grad_norm_with;
/// use torsh_nn::{Parameter, utils::ClipGradNormOptions};
/// use torsh_tensor::tensor;
///
/// let options = ClipGradNormOptions::default().norm_type(f64::INFINITY);
/// let w = Parameter::new(tensor![1.0, -2.0]);
/// w.square()?.sum()?.backward()?;
/// assert_eq!(clip_grad_norm_with([&w], 1.0, options)?.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// An order that is not above 0; a norm that is no number, where the options say so; the group failed.
#[torsh_tensor::names_caller]
pub fn clip_grad_norm_with<P: Borrow<Parameter>>(
    parameters: impl IntoIterator<Item = P>,
    max_norm: f64,
    options: ClipGradNormOptions,
) -> Result<Tensor> {
    const OP: &str = "clip_grad_norm_";
    let p = options.norm_type;
    if p.is_nan() || p <= 0.0 {
        return Err(TorshError::invalid(
            OP,
            format!("norm_type must be more than 0, got {p}"),
        ));
    }
    let infinite = p.is_infinite();
    let join = |a: f64, b: f64| match infinite {
        // (`f64::max` would drop what is no number.)
        true if a.is_nan() || b.is_nan() => f64::NAN,
        true => a.max(b),
        false => a + b,
    };
    no_grad(|| {
        let mut grads = Vec::new();
        let mut own = 0.0;
        // A sum for each group of ranks over which something is sharded.
        let mut sharded: Vec<(ProcessGroup, f64)> = Vec::new();
        for parameter in parameters {
            let parameter = parameter.borrow();
            let unit = owner(parameter).map(|(unit, _)| unit);
            let mut sum = 0.0;
            if let Some(g) = parameter.tensor().grad() {
                if g.numel() > 0 && g.device() != Device::Meta {
                    let norm = match g.layout().is_strided() {
                        true => g.norm_with(NormOptions::default().p(p))?,
                        false => get_total_norm([&g], p, false)?,
                    };
                    let norm = norm.item::<f64>()?;
                    sum = if infinite { norm } else { norm.powf(p) };
                }
                grads.push(g);
            }
            match unit {
                None => own = join(own, sum),
                Some(unit) => match sharded
                    .iter_mut()
                    .find(|(g, _)| g.ranks() == unit.shard.ranks())
                {
                    Some((_, of_group)) => *of_group = join(*of_group, sum),
                    None => sharded.push((unit.shard.clone(), sum)),
                },
            }
        }
        for (group, sum) in &sharded {
            let t = Tensor::from_data(&[*sum], [1])?;
            // Sums are made in rank order, so they are the same everywhere.
            group.all_reduce_(
                &t,
                if infinite {
                    ReduceOp::Max
                } else {
                    ReduceOp::Sum
                },
            )?;
            own = join(own, t.item::<f64>()?);
        }
        let total = if infinite { own } else { own.powf(1.0 / p) };
        if options.error_if_nonfinite && !total.is_finite() {
            return Err(TorshError::invalid(
                OP,
                format!("the total norm of order {p} for gradients is non-finite, so it cannot be clipped"),
            )
            .with_hint("set error_if_nonfinite to false to scale them all the same"));
        }
        let total = Tensor::scalar(total as f32, DType::F32, Device::Cpu)?;
        let scale = total.add(1e-6)?.reciprocal()?.mul(max_norm)?.minimum(1.0)?;
        for g in grads {
            match g.layout().is_strided() {
                true => g.mul_(&scale)?,
                // Of a sparse gradient what is stored, which is its memory.
                false => sparse::values(&g.detach())?.mul_(&scale)?,
            };
        }
        Ok(total)
    })
}

/// A [`GradScaler`] for pieces (`ShardedGradScaler`): a step is left out on all ranks if the gradients of one of them are
/// not finite, and all ranks keep the same scale.
///
/// Data parallel training needs none: all ranks have the same gradients there.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, ShardedGradScaler, fully_shard, spawn};
/// use torsh_nn::{Linear, Module};
/// use torsh_optim::{GradScaler, SGD};
/// use torsh_tensor::tensor;
///
/// let made = spawn(2, |g| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::builder(1, 2).bias(false).build()?;
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     let optimizer = SGD::new([&layer.weight], 0.1)?;
///     let scaler = ShardedGradScaler::new(GradScaler::new(), &g);
///     let loss = layer.forward(&tensor![[1.0]])?.select(1, 1)?.mul(f32::INFINITY)?.sum()?;
///     scaler.scale(&loss)?.backward()?;
///     let step = scaler.step(&optimizer)?;
///     scaler.update()?;
///     Ok((step.made()?, scaler.get_scale()?))
/// })?;
/// assert_eq!(made, [(false, 32768.0); 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct ShardedGradScaler {
    scaler: GradScaler,
    group: ProcessGroup,
}

impl ShardedGradScaler {
    /// A scaler whose steps the ranks of `group` agree on. All of them have a scaler with the same options.
    pub fn new(scaler: GradScaler, group: &ProcessGroup) -> ShardedGradScaler {
        ShardedGradScaler {
            scaler,
            group: group.clone(),
        }
    }

    /// The loss times the scale.
    ///
    /// # Errors
    /// As [`GradScaler::scale`].
    #[torsh_tensor::names_caller]
    pub fn scale(&self, outputs: &Tensor) -> Result<Tensor> {
        self.scaler.scale(outputs)
    }

    /// Divides the gradients by the scale, for code that reads them before the step.
    ///
    /// # Errors
    /// As [`GradScaler::unscale_`].
    #[track_caller]
    pub fn unscale_(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<()> {
        self.scaler.unscale_(optimizer)
    }

    /// The optimizer's step, unless a gradient of any rank is not finite. All ranks call it.
    ///
    /// # Errors
    /// As [`GradScaler::step`]; the group failed.
    #[torsh_tensor::names_caller]
    pub fn step(&self, optimizer: &(impl Optimizer + ?Sized)) -> Result<ScaledStep> {
        self.scaler.step(&Agreeing {
            optimizer,
            group: &self.group,
        })
    }

    /// Adapts the scale to the steps that were made or left out.
    ///
    /// # Errors
    /// As [`GradScaler::update`].
    #[torsh_tensor::names_caller]
    pub fn update(&self) -> Result<()> {
        self.scaler.update()
    }

    /// The scale.
    ///
    /// # Errors
    /// The device failed.
    #[track_caller]
    pub fn get_scale(&self) -> Result<f64> {
        self.scaler.get_scale()
    }

    /// The scaler of this rank, for its state and settings.
    pub fn scaler(&self) -> &GradScaler {
        &self.scaler
    }
}

/// An optimizer whose step asks the other ranks whether their gradients are finite.
struct Agreeing<'a, O: Optimizer + ?Sized> {
    optimizer: &'a O,
    group: &'a ProcessGroup,
}

impl<O: Optimizer + ?Sized> Optimizer for Agreeing<'_, O> {
    #[torsh_tensor::names_caller]
    fn step(&self) -> Result<()> {
        self.optimizer.step()
    }

    #[torsh_tensor::names_caller]
    fn step_unless(&self, found_inf: &Tensor) -> Result<()> {
        // The scaler keeps this very tensor, so its update sees what all ranks found.
        no_grad(|| self.group.all_reduce_(found_inf, ReduceOp::Max))?;
        self.optimizer.step_unless(found_inf)
    }

    #[track_caller]
    fn step_dyn(&self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
        self.optimizer.step_dyn(closure)
    }

    fn zero_grad(&self) {
        self.optimizer.zero_grad()
    }

    fn group_lrs(&self) -> Vec<f64> {
        self.optimizer.group_lrs()
    }

    #[track_caller]
    fn set_group_lr(&self, group: usize, lr: f64) -> Result<()> {
        self.optimizer.set_group_lr(group, lr)
    }

    fn set_lr(&self, lr: f64) {
        self.optimizer.set_lr(lr)
    }

    fn get_option(&self, group: usize, name: &str) -> Option<StateValue> {
        self.optimizer.get_option(group, name)
    }

    #[track_caller]
    fn set_option(&self, group: usize, name: &str, value: StateValue) -> Result<()> {
        self.optimizer.set_option(group, name, value)
    }

    #[track_caller]
    fn set_extra(&self, group: usize, name: &str, value: StateValue) -> Result<()> {
        self.optimizer.set_extra(group, name, value)
    }

    fn handle(&self) -> Arc<dyn Optimizer> {
        self.optimizer.handle()
    }

    fn id(&self) -> usize {
        self.optimizer.id()
    }

    fn param_groups(&self) -> Vec<Vec<Param>> {
        self.optimizer.param_groups()
    }

    #[track_caller]
    fn add_param_group(&self, group: ParamGroup) -> Result<()> {
        self.optimizer.add_param_group(group)
    }

    fn hooks(&self) -> OptimizerHooks {
        self.optimizer.hooks()
    }

    fn state_dict(&self) -> OptimizerState {
        self.optimizer.state_dict()
    }

    #[track_caller]
    fn load_state_dict(&self, state: &OptimizerState) -> Result<()> {
        self.optimizer.load_state_dict(state)
    }
}
