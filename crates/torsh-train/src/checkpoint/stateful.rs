//! The trait of objects that can be part of a checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;

use torsh_core::Generator;
use torsh_core::random::{default_generator, default_generator_of, device_generators};
use torsh_data::{DataLoader, Dataset};
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_optim::lr_scheduler::LRScheduler;
use torsh_optim::{Optimizer, OptimizerState, named_values, values_by_name};
use torsh_serialize::Value;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

/// A thing whose state a [`Checkpoint`](super::Checkpoint) can hold.
///
/// Models, optimizers, schedulers and loaders are parts by methods of their own
/// ([`CheckpointBuilder`](super::CheckpointBuilder)); anything else implements this trait and is
/// given to [`with`](super::CheckpointBuilder::with).
///
/// ```
/// use std::cell::Cell;
/// use torsh_serialize::Value;
/// use torsh_tensor::Result;
/// use torsh_train::{Checkpoint, Stateful};
///
/// struct Level(Cell<i64>);
/// impl Stateful for Level {
///     fn save_state(&self) -> Result<Value> {
///         Ok(self.0.get().into())
///     }
///     fn load_state(&self, state: &Value) -> Result<()> {
///         self.0.set(state.as_int()?);
///         Ok(())
///     }
/// }
///
/// let level = Level(Cell::new(3));
/// let parts = Checkpoint::builder().with("level", &level);
/// let checkpoint = parts.build()?;
/// level.0.set(0);
/// parts.restore(&checkpoint)?;
/// assert_eq!(level.0.get(), 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait Stateful {
    /// The state, whose tensors may be those of the thing itself.
    fn save_state(&self) -> Result<Value>;

    /// Takes over a state, whose tensors are copied.
    fn load_state(&self, state: &Value) -> Result<()>;
}

macro_rules! forward {
    ($($t:ty),*) => {$(
        impl<S: Stateful + ?Sized> Stateful for $t {
            #[torsh_tensor::names_caller]
            fn save_state(&self) -> Result<Value> {
                (**self).save_state()
            }
            #[torsh_tensor::names_caller]
            fn load_state(&self, state: &Value) -> Result<()> {
                (**self).load_state(state)
            }
        }
    )*};
}
forward!(&S, Box<S>, Arc<S>);

pub(super) struct ModulePart<'a, M: ?Sized>(pub(super) &'a M);

impl<M: Module + ?Sized> Stateful for ModulePart<'_, M> {
    #[track_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(Value::from(&self.0.state_dict()))
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        self.0
            .load_state_dict(&StateDict::try_from(state)?)
            .map_err(|e| e.with_hint("the checkpoint is of another model, or of other settings"))
    }
}

/// The gradients of a model's parameters, for a checkpoint between two backward passes of one step.
pub(super) struct GradientPart<'a, M: ?Sized>(pub(super) &'a M);

impl<M: Module + ?Sized> Stateful for GradientPart<'_, M> {
    #[torsh_tensor::names_caller]
    fn save_state(&self) -> Result<Value> {
        let named = self.0.named_parameters().into_iter();
        Ok(named
            .filter_map(|(name, p)| Some((name, Value::from(p.grad()?.detach()))))
            .collect())
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        let grads: BTreeMap<&str, &Tensor> = state.named_tensors()?.into_iter().collect();
        let parameters = self.0.named_parameters();
        let known = |name: &str| parameters.iter().any(|(n, _)| n == name);
        if let Some(name) = grads.keys().find(|n| !known(n)) {
            return Err(TorshError::invalid(
                "Checkpoint",
                format!("there is a gradient of `{name}`, which the model does not have"),
            ));
        }
        for (name, p) in &parameters {
            let own = |g: &&Tensor| g.copy()?.to_device(p.device());
            p.set_grad(grads.get(name.as_str()).map(own).transpose()?)?;
        }
        Ok(())
    }
}

pub(super) struct OptimizerPart<'a, O: ?Sized>(pub(super) &'a O);

impl<O: Optimizer + ?Sized> Stateful for OptimizerPart<'_, O> {
    #[track_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(Value::from(&self.0.state_dict()))
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        self.0.load_state_dict(&OptimizerState::try_from(state)?)
    }
}

pub(super) struct SchedulerPart<'a, S: ?Sized>(pub(super) &'a S);

impl<S: LRScheduler + ?Sized> Stateful for SchedulerPart<'_, S> {
    #[track_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(values_by_name(&self.0.state_dict()))
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        self.0.load_state_dict(&named_values(state)?)
    }
}

/// Where the loader is in its epoch, and what the next ones are drawn from.
impl<D: Dataset, C> Stateful for DataLoader<D, C> {
    #[torsh_tensor::names_caller]
    fn save_state(&self) -> Result<Value> {
        let entries = self.state_dict()?.into_iter();
        Ok(entries.map(|(name, t)| (name, Value::from(t))).collect())
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        let entries = state.named_tensors()?.into_iter();
        self.load_state_dict(&entries.map(|(n, t)| (n.to_string(), t.clone())).collect())
    }
}

/// Its state in the bytes of `torch.get_rng_state`.
impl Stateful for Generator {
    #[torsh_tensor::names_caller]
    fn save_state(&self) -> Result<Value> {
        let bytes = self.get_state();
        Tensor::from_slice(&bytes, [bytes.len()], DType::U8, Device::Cpu).map(Value::from)
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        let bytes = state.as_tensor()?.to_vec::<u8>()?;
        self.set_state(&bytes)
            .map_err(|why| TorshError::invalid("Generator", why))
    }
}

/// The process's default generators: that of the CPU, and those of the devices that drew numbers.
pub(crate) struct Rng;

impl Stateful for Rng {
    #[torsh_tensor::names_caller]
    fn save_state(&self) -> Result<Value> {
        let devices = device_generators().into_iter();
        let devices = devices.map(|g| Ok((g.device().to_string(), g.save_state()?)));
        let cpu = ("cpu".to_string(), default_generator().save_state()?);
        let all: Vec<(String, Value)> = [Ok(cpu)]
            .into_iter()
            .chain(devices)
            .collect::<Result<_>>()?;
        Ok(all.into_iter().collect())
    }

    /// Devices that this program does not have are left out: what was saved with them goes on without.
    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        default_generator().load_state(state.get("cpu")?)?;
        for (name, saved) in state.as_dict()?.iter() {
            let name = name.as_str()?;
            match name.parse::<Device>() {
                Ok(Device::Cpu) | Err(_) => {}
                Ok(device) if !torsh_backend::is_available(device) => {}
                Ok(device) => default_generator_of(device).load_state(saved)?,
            }
        }
        Ok(())
    }
}
