//! The state that most optimizers keep for a parameter: a step count, tensors and numbers.

use std::sync::Arc;

use torsh_core::default_dtype;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::StateValue;

/// A number that PyTorch keeps as a tensor of the default dtype, rounded as that one.
pub(crate) fn kept(v: f64) -> f64 {
    if default_dtype() == DType::F64 {
        v
    } else {
        f64::from(v as f32)
    }
}

/// How many steps a parameter had.
///
/// ```
/// use torsh_optim::{StateValue, StepCount};
/// assert_eq!(StateValue::from(&StepCount::from(3)).as_i64(), Some(3));
/// ```
#[derive(Clone, Debug)]
pub enum StepCount {
    /// As the host knows it.
    Host(u64),
    /// On the device, as a 0-d `float32` tensor that the parameters share which were stepped together.
    /// The host does not know which steps were left out there ([`crate::Optimizer::step_unless`]).
    Device(Arc<Tensor>),
}

impl StepCount {
    /// The number on the host, which waits for a device that has it.
    pub(crate) fn on_host(&mut self) -> Result<&mut u64> {
        if let StepCount::Device(t) = self {
            *self = StepCount::Host(t.item::<f64>()?.max(0.0) as u64);
        }
        match self {
            StepCount::Host(n) => Ok(n),
            StepCount::Device(_) => unreachable!("it was moved to the host"),
        }
    }
}

impl From<u64> for StepCount {
    fn from(n: u64) -> StepCount {
        StepCount::Host(n)
    }
}

impl From<&StepCount> for StateValue {
    /// A device's as a tensor, which is not waited for.
    fn from(count: &StepCount) -> StateValue {
        match count {
            StepCount::Host(n) => StateValue::from(n),
            StepCount::Device(t) => StateValue::Tensor((**t).clone()),
        }
    }
}

impl From<&u64> for StateValue {
    fn from(n: &u64) -> StateValue {
        StateValue::Int(*n as i64)
    }
}

/// The tensor without its history, complex numbers as pairs of real ones, as PyTorch's
/// optimizers compute with them.
pub(crate) fn real(t: &Tensor) -> Result<Tensor> {
    let t = t.detach();
    if t.dtype().is_complex() {
        t.view_as_real()
    } else {
        Ok(t)
    }
}

/// The error for a state dict that lacks an entry.
pub(crate) fn missing(name: &str) -> TorshError {
    TorshError::invalid("", format!("the state has no {name}"))
}

/// Defines what an optimizer remembers of a parameter: `step`, of the type in brackets (a
/// [`StepCount`], or a `u64` where the host must know it), and fields that are each a `tensor` like the
/// parameter, an `optional` one, or a `number`.
macro_rules! memory {
    (
        $(#[$meta:meta])*
        $state:ident($count:ty) {
            $($(#[doc = $doc:literal])+ $name:ident: $kind:ident;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $state {
            /// How many steps were done.
            pub step: $count,
            $($(#[doc = $doc])+ pub $name: crate::memory::memory!(@type $kind),)+
        }

        impl $state {
            /// No steps: tensors of zeros, numbers of 0.
            fn zeros(param: &torsh_tensor::Tensor) -> torsh_tensor::Result<Self> {
                Ok($state {
                    step: 0u64.into(),
                    $($name: crate::memory::memory!(@zeros $kind param),)+
                })
            }

            fn save(&self) -> crate::ParamState {
                let mut out = crate::ParamState::new();
                out.insert("step".to_string(), crate::StateValue::from(&self.step));
                $(crate::memory::memory!(@save $kind out self.$name, stringify!($name));)+
                out
            }

            fn load(
                saved: &crate::ParamState,
                param: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<Option<Self>> {
                let Some(step) = crate::state::load_step(saved)? else {
                    return Ok(None);
                };
                Ok(Some($state {
                    step: step.into(),
                    $($name: crate::memory::memory!(@load $kind saved, stringify!($name), param),)+
                }))
            }
        }
    };
    (@type tensor) => { torsh_tensor::Tensor };
    (@type optional) => { Option<torsh_tensor::Tensor> };
    (@type number) => { f64 };
    (@zeros tensor $param:ident) => { torsh_tensor::ops::optim::zeros_for($param)? };
    (@zeros optional $param:ident) => { None };
    (@zeros number $param:ident) => { 0.0 };
    (@save tensor $out:ident $value:expr, $name:expr) => {
        $out.insert($name.to_string(), (&$value).into());
    };
    (@save optional $out:ident $value:expr, $name:expr) => {
        if let Some(t) = &$value {
            $out.insert($name.to_string(), t.into());
        }
    };
    (@save number $out:ident $value:expr, $name:expr) => {
        $out.insert($name.to_string(), $value.into());
    };
    (@load tensor $saved:ident, $name:expr, $param:ident) => {
        crate::state::load_tensor($saved, $name, $param)?
            .ok_or_else(|| crate::memory::missing($name))?
    };
    (@load optional $saved:ident, $name:expr, $param:ident) => {
        crate::state::load_tensor($saved, $name, $param)?
    };
    (@load number $saved:ident, $name:expr, $param:ident) => {
        $saved
            .get($name)
            .and_then(crate::StateValue::as_f64)
            .ok_or_else(|| crate::memory::missing($name))?
    };
}
pub(crate) use memory;

/// The parts of an [`crate::Algorithm`] that are the same for all states of [`memory!`].
macro_rules! remembered {
    () => {
        fn save(state: &Self::State) -> crate::ParamState {
            state.save()
        }

        fn load(
            saved: &crate::ParamState,
            param: &torsh_tensor::Tensor,
        ) -> torsh_tensor::Result<Option<Self::State>> {
            Self::State::load(saved, param)
        }
    };
}
pub(crate) use remembered;
