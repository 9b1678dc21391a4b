//! The trait of all optimizers.

use std::sync::Arc;

use torsh_tensor::{Result, Tensor};

use crate::{OptimizerHookHandle, OptimizerHooks, OptimizerState, Param, ParamGroup, StateValue};

/// An optimizer: a handle with `&self` methods, whose clones are the same optimizer.
///
/// Object-safe, and implemented for references and boxes too, so that a scheduler takes an
/// optimizer by value or by reference.
///
/// ```
/// use torsh_optim::{Adam, Optimizer, SGD};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let all: [Box<dyn Optimizer>; 2] = [Box::new(SGD::new([&w], 0.1)?), Box::new(Adam::new([&w], 0.2)?)];
/// assert_eq!(all.map(|o| o.get_lr()), [0.1, 0.2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Optimizer: Send + Sync {
    /// One step on every parameter that has a gradient. Nothing is recorded.
    fn step(&self) -> Result<()>;

    /// [`Optimizer::step`], unless `found_inf`, a tensor of one `float32`, is not 0 (as it is where
    /// gradients are infinite or NaN, see [`GradScaler`](crate::GradScaler)).
    ///
    /// By itself the host waits for the tensor. Optimizers whose step is one call hand it to a device
    /// where all parameters are, which then leaves the step out without the host knowing: SGD (but with
    /// momentum and dampening), Adam, AdamW, RAdam, Adamax, Adagrad, Adadelta, RMSprop and Rprop.
    #[torsh_tensor::names_caller]
    fn step_unless(&self, found_inf: &Tensor) -> Result<()> {
        match found_inf.item::<f32>()? != 0.0 {
            true => Ok(()),
            false => self.step(),
        }
    }

    /// [`Optimizer::step_closure`] for a trait object.
    fn step_dyn(&self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor>;

    /// Evaluates the loss with recording on, makes a step, and returns the loss.
    ///
    /// The closure clears the gradients, computes the loss, calls `backward` and returns the loss.
    #[track_caller]
    fn step_closure<F: FnMut() -> Result<Tensor>>(&self, mut closure: F) -> Result<Tensor>
    where
        Self: Sized,
    {
        self.step_dyn(&mut closure)
    }

    /// Removes the gradients of all parameters.
    fn zero_grad(&self);

    /// The learning rate of each group.
    fn group_lrs(&self) -> Vec<f64>;

    /// Changes the learning rate of one group; an error where there is no such group.
    fn set_group_lr(&self, group: usize, lr: f64) -> Result<()>;

    /// The learning rate of the first group.
    fn get_lr(&self) -> f64 {
        self.group_lrs().first().copied().unwrap_or(0.0)
    }

    /// Changes the learning rate of all groups.
    fn set_lr(&self, lr: f64);

    /// A setting of a group by PyTorch's name, as `"momentum"`.
    fn get_option(&self, group: usize, name: &str) -> Option<StateValue>;

    /// Changes a setting of a group; an error where there is none of this name or group, or the
    /// value does not fit.
    fn set_option(&self, group: usize, name: &str, value: StateValue) -> Result<()>;

    /// Puts an entry that is no setting of the optimizer into a group, as a scheduler's
    /// `initial_lr`; [`Optimizer::get_option`] finds it, and the state dict has it.
    fn set_extra(&self, group: usize, name: &str, value: StateValue) -> Result<()>;

    /// Another handle of this optimizer, for whoever keeps one (as a scheduler does).
    fn handle(&self) -> Arc<dyn Optimizer>;

    /// A number that all handles of this optimizer have and no other optimizer.
    fn id(&self) -> usize;

    /// The parameters of each group.
    fn param_groups(&self) -> Vec<Vec<Param>>;

    /// The tensors of all groups.
    fn parameters(&self) -> Vec<Tensor> {
        self.param_groups()
            .into_iter()
            .flatten()
            .map(|p| p.tensor().clone())
            .collect()
    }

    /// Adds a group; what it does not set is as when the optimizer was built.
    fn add_param_group(&self, group: ParamGroup) -> Result<()>;

    /// The state, whose tensors are shared with the optimizer (as PyTorch's).
    fn state_dict(&self) -> OptimizerState;

    /// Takes over a state: settings and what is remembered of each parameter, copied and converted
    /// to the parameter's dtype and device. Groups and parameters must be as many as here; after
    /// an error the optimizer is as before.
    fn load_state_dict(&self, state: &OptimizerState) -> Result<()>;

    /// The hooks that [`Optimizer::register_step_pre_hook`] and its kin add to; those of the optimizer within, for one that
    /// wraps another.
    fn hooks(&self) -> OptimizerHooks;

    /// Calls `hook(optimizer)` before every step, and before the closure of a step that has one. An error of the hook is one
    /// of the step, which is not made. Where a loss scaler leaves a step out, no hook is called.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// optimizer.register_step_pre_hook(|o| {
    ///     o.set_lr(o.get_lr() / 2.0);
    ///     Ok(())
    /// });
    /// w.square()?.sum()?.backward()?;
    /// optimizer.step()?;
    /// assert_eq!(w.item::<f32>()?, 1.0 - 0.25 * 2.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn register_step_pre_hook(
        &self,
        hook: impl Fn(&dyn Optimizer) -> Result<()> + Send + Sync + 'static,
    ) -> OptimizerHookHandle
    where
        Self: Sized,
    {
        self.hooks().on_step(false, Arc::new(hook))
    }

    /// Calls `hook(optimizer)` after every step.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// optimizer.register_step_post_hook(|o| {
    ///     o.zero_grad();
    ///     Ok(())
    /// });
    /// w.square()?.sum()?.backward()?;
    /// optimizer.step()?;
    /// assert_eq!((w.item::<f32>()?, w.grad()), (0.0, None));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn register_step_post_hook(
        &self,
        hook: impl Fn(&dyn Optimizer) -> Result<()> + Send + Sync + 'static,
    ) -> OptimizerHookHandle
    where
        Self: Sized,
    {
        self.hooks().on_step(true, Arc::new(hook))
    }

    /// Calls `hook(optimizer)` before [`Optimizer::state_dict`] reads the state.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// optimizer.register_state_dict_pre_hook(|o| o.set_lr(0.25));
    /// assert_eq!(optimizer.state_dict().param_groups[0].options["lr"].as_f64(), Some(0.25));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn register_state_dict_pre_hook(
        &self,
        hook: impl Fn(&dyn Optimizer) + Send + Sync + 'static,
    ) -> OptimizerHookHandle
    where
        Self: Sized,
    {
        self.hooks().on_save(Arc::new(hook))
    }

    /// Calls `hook(optimizer, state_dict)` after [`Optimizer::state_dict`] made the state, which the hook may change.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, StateValue};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// optimizer.register_state_dict_post_hook(|_, state| {
    ///     state.param_groups[0].options.insert("epoch".into(), StateValue::from(3));
    /// });
    /// assert_eq!(optimizer.state_dict().param_groups[0].options["epoch"].as_f64(), Some(3.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn register_state_dict_post_hook(
        &self,
        hook: impl Fn(&dyn Optimizer, &mut OptimizerState) + Send + Sync + 'static,
    ) -> OptimizerHookHandle
    where
        Self: Sized,
    {
        self.hooks().on_saved(Arc::new(hook))
    }

    /// Calls `hook(optimizer, state_dict)` before [`Optimizer::load_state_dict`] takes a state over. The hook may change it;
    /// the caller's stays as it is.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD, StateValue};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// optimizer.register_load_state_dict_pre_hook(|_, state| {
    ///     state.param_groups[0].options.insert("lr".into(), StateValue::from(0.125));
    ///     Ok(())
    /// });
    /// optimizer.load_state_dict(&optimizer.state_dict())?;
    /// assert_eq!(optimizer.get_lr(), 0.125);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn register_load_state_dict_pre_hook(
        &self,
        hook: impl Fn(&dyn Optimizer, &mut OptimizerState) -> Result<()> + Send + Sync + 'static,
    ) -> OptimizerHookHandle
    where
        Self: Sized,
    {
        self.hooks().on_load(Arc::new(hook))
    }

    /// Calls `hook(optimizer)` after [`Optimizer::load_state_dict`] has taken a state over.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let optimizer = SGD::new([&w], 0.5)?;
    /// optimizer.register_load_state_dict_post_hook(|o| {
    ///     o.set_lr(1.0);
    ///     Ok(())
    /// });
    /// optimizer.load_state_dict(&optimizer.state_dict())?;
    /// assert_eq!(optimizer.get_lr(), 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn register_load_state_dict_post_hook(
        &self,
        hook: impl Fn(&dyn Optimizer) -> Result<()> + Send + Sync + 'static,
    ) -> OptimizerHookHandle
    where
        Self: Sized,
    {
        self.hooks().on_loaded(Arc::new(hook))
    }
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<O: Optimizer + ?Sized> Optimizer for $t {
            #[torsh_tensor::names_caller]
            fn step(&self) -> Result<()> {
                (**self).step()
            }
            #[torsh_tensor::names_caller]
            fn step_unless(&self, found_inf: &Tensor) -> Result<()> {
                (**self).step_unless(found_inf)
            }
            #[torsh_tensor::names_caller]
            fn step_dyn(&self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
                (**self).step_dyn(closure)
            }
            fn zero_grad(&self) {
                (**self).zero_grad()
            }
            fn group_lrs(&self) -> Vec<f64> {
                (**self).group_lrs()
            }
            #[torsh_tensor::names_caller]
            fn set_group_lr(&self, group: usize, lr: f64) -> Result<()> {
                (**self).set_group_lr(group, lr)
            }
            fn set_lr(&self, lr: f64) {
                (**self).set_lr(lr)
            }
            fn get_option(&self, group: usize, name: &str) -> Option<StateValue> {
                (**self).get_option(group, name)
            }
            #[torsh_tensor::names_caller]
            fn set_option(&self, group: usize, name: &str, value: StateValue) -> Result<()> {
                (**self).set_option(group, name, value)
            }
            #[torsh_tensor::names_caller]
            fn set_extra(&self, group: usize, name: &str, value: StateValue) -> Result<()> {
                (**self).set_extra(group, name, value)
            }
            fn handle(&self) -> Arc<dyn Optimizer> {
                (**self).handle()
            }
            fn id(&self) -> usize {
                (**self).id()
            }
            fn param_groups(&self) -> Vec<Vec<Param>> {
                (**self).param_groups()
            }
            #[torsh_tensor::names_caller]
            fn add_param_group(&self, group: ParamGroup) -> Result<()> {
                (**self).add_param_group(group)
            }
            fn hooks(&self) -> OptimizerHooks {
                (**self).hooks()
            }
            fn state_dict(&self) -> OptimizerState {
                (**self).state_dict()
            }
            #[torsh_tensor::names_caller]
            fn load_state_dict(&self, state: &OptimizerState) -> Result<()> {
                (**self).load_state_dict(state)
            }
        }
    )*};
}
forward!(&O, Box<O>, Arc<O>);
