//! State dicts of optimizers.

use std::collections::BTreeMap;

use torsh_tensor::{Result, Tensor, TorshError};

/// A value in an optimizer's state dict.
///
/// ```
/// use torsh_optim::StateValue;
/// assert_eq!(StateValue::from(0.5).as_f64(), Some(0.5));
/// assert!(StateValue::from(0.5).as_str().is_none());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StateValue {
    /// Not set.
    None,
    /// A flag.
    Bool(bool),
    /// A count.
    Int(i64),
    /// A number.
    Float(f64),
    /// Several numbers.
    Floats(Vec<f64>),
    /// A word.
    Str(String),
    /// A tensor.
    Tensor(Tensor),
    /// Several values.
    List(Vec<StateValue>),
}

impl StateValue {
    /// The number, where it is one (a one-element tensor counts, as PyTorch's `step` is).
    ///
    /// ```
    /// use torsh_optim::StateValue;
    /// assert_eq!(StateValue::from(3).as_f64(), Some(3.0));
    /// assert_eq!(StateValue::None.as_f64(), None);
    /// ```
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            StateValue::Int(i) => Some(*i as f64),
            StateValue::Float(f) => Some(*f),
            StateValue::Tensor(t) if t.numel() == 1 => t.item::<f64>().ok(),
            _ => None,
        }
    }

    /// The flag, where it is one.
    ///
    /// ```
    /// use torsh_optim::StateValue;
    /// assert_eq!(StateValue::from(true).as_bool(), Some(true));
    /// assert_eq!(StateValue::None.as_bool(), None);
    /// ```
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            StateValue::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The numbers, where there are several.
    ///
    /// ```
    /// use torsh_optim::StateValue;
    /// assert_eq!(StateValue::from((0.9, 0.999)).as_floats(), Some(vec![0.9, 0.999]));
    /// assert_eq!(StateValue::None.as_floats(), None);
    /// ```
    pub fn as_floats(&self) -> Option<Vec<f64>> {
        match self {
            StateValue::Floats(v) => Some(v.clone()),
            StateValue::List(v) => v.iter().map(StateValue::as_f64).collect(),
            _ => None,
        }
    }

    /// The integer, where it is one.
    ///
    /// ```
    /// use torsh_optim::StateValue;
    /// assert_eq!(StateValue::from(3.0).as_i64(), Some(3));
    /// assert_eq!(StateValue::None.as_i64(), None);
    /// ```
    pub fn as_i64(&self) -> Option<i64> {
        match self.as_f64() {
            Some(f) if f.fract() == 0.0 && f.abs() < 2f64.powi(63) => Some(f as i64),
            _ => None,
        }
    }

    /// The word, where it is one.
    ///
    /// ```
    /// use torsh_optim::StateValue;
    /// assert_eq!(StateValue::from("cos").as_str(), Some("cos"));
    /// assert_eq!(StateValue::None.as_str(), None);
    /// ```
    pub fn as_str(&self) -> Option<&str> {
        match self {
            StateValue::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The tensor, where it is one.
    ///
    /// ```
    /// use torsh_optim::StateValue;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(StateValue::from(tensor![1.0]).as_tensor(), Some(&tensor![1.0]));
    /// assert_eq!(StateValue::from(1.0).as_tensor(), None);
    /// ```
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            StateValue::Tensor(t) => Some(t),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($t:ty => |$v:ident| $e:expr;)*) => {$(
        impl From<$t> for StateValue {
            fn from($v: $t) -> StateValue { $e }
        }
    )*};
}
from! {
    bool => |v| StateValue::Bool(v);
    i32 => |v| StateValue::Int(v.into());
    i64 => |v| StateValue::Int(v);
    f64 => |v| StateValue::Float(v);
    (f64, f64) => |v| StateValue::Floats(vec![v.0, v.1]);
    Vec<f64> => |v| StateValue::Floats(v);
    &str => |v| StateValue::Str(v.to_string());
    (f64, f64, f64) => |v| StateValue::Floats(vec![v.0, v.1, v.2]);
    Tensor => |v| StateValue::Tensor(v);
    &Tensor => |v| StateValue::Tensor(v.clone());
}

/// What an optimizer remembers of one parameter, by PyTorch's names.
///
/// ```
/// use torsh_optim::{Adam, Optimizer};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let optimizer = Adam::new([&w], 0.5)?;
/// w.backward()?;
/// optimizer.step()?;
/// let state = optimizer.state_dict().state.remove(&0).expect("it had a step");
/// assert_eq!(state["step"].as_i64(), Some(1));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type ParamState = BTreeMap<String, StateValue>;

/// A group in a state dict.
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let groups = SGD::new([&w], 0.5)?.state_dict().param_groups;
/// assert_eq!(groups[0].params, [0]);
/// assert_eq!(groups[0].options["momentum"].as_f64(), Some(0.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GroupState {
    /// The settings, by PyTorch's names.
    pub options: BTreeMap<String, StateValue>,
    /// The numbers of its parameters, as keys of [`OptimizerState::state`].
    pub params: Vec<usize>,
}

/// The state dict of an optimizer, in the form of PyTorch's.
///
/// ```
/// use torsh_optim::{Optimizer, SGD};
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0].requires_grad_(true);
/// let optimizer = SGD::builder([&w]).lr(0.5).momentum(0.9).build()?;
/// w.mul(2.0)?.backward()?;
/// optimizer.step()?;
/// let state = optimizer.state_dict();
/// assert_eq!(state.state[&0]["momentum_buffer"].as_tensor(), Some(&tensor![2.0]));
/// assert_eq!(state.param_groups[0].options["lr"].as_f64(), Some(0.5));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OptimizerState {
    /// What is remembered of each parameter that had a step, by its number.
    pub state: BTreeMap<usize, ParamState>,
    /// The groups.
    pub param_groups: Vec<GroupState>,
}

/// A tensor of a saved state, copied to the parameter's dtype, device and memory order.
pub(crate) fn load_tensor(
    saved: &ParamState,
    name: &str,
    param: &Tensor,
) -> Result<Option<Tensor>> {
    let t = match saved.get(name) {
        None | Some(StateValue::None) => return Ok(None),
        Some(StateValue::Tensor(t)) => t,
        Some(other) => {
            return Err(TorshError::invalid(
                "",
                format!("the state's {name} is no tensor but {other:?}"),
            ));
        }
    };
    if t.shape() != param.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "the state's {name} is {}, where its parameter needs {}",
                t.describe(),
                param.describe()
            ),
        ));
    }
    let own = torsh_tensor::ops::optim::zeros_for(param)?;
    own.copy_(&t.detach())?;
    Ok(Some(own))
}

/// The number of steps in a saved state; PyTorch keeps it as a one-element tensor.
pub(crate) fn load_step(saved: &ParamState) -> Result<Option<u64>> {
    match saved.get("step") {
        None => Ok(None),
        Some(v) => match v.as_f64() {
            Some(n) if n >= 0.0 && n.fract() == 0.0 => Ok(Some(n as u64)),
            _ => Err(TorshError::invalid(
                "",
                format!("the state's step is no count but {v:?}"),
            )),
        },
    }
}
