//! The parameters that an optimizer trains.

use torsh_nn::Parameter;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::StateValue;

/// A tensor that an optimizer trains.
///
/// ```
/// use torsh_optim::Param;
/// # use torsh_tensor::tensor;
/// let w = tensor![1.0];
/// assert!(Param::from(&w).tensor().is_same(&w));
/// ```
#[derive(Clone, Debug)]
pub struct Param {
    tensor: Tensor,
    /// Where the tensor comes from a module, which may put another in its place.
    parameter: Option<Parameter>,
}

impl Param {
    /// The tensor.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let groups = SGD::new([&w], 0.1)?.param_groups();
    /// assert!(groups[0][0].tensor().is_same(&w));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// An error where a module has another tensor in this one's place, or none yet.
    #[track_caller]
    pub(crate) fn check_current(&self, optimizer: &'static str) -> Result<()> {
        match &self.parameter {
            Some(p) if !p.is_current() => Err(TorshError::invalid(
                optimizer,
                format!(
                    "a parameter ({}) was replaced in its module by to_dtype or to_device after this optimizer was \
                     built, which would train a tensor nobody uses",
                    self.tensor.describe()
                ),
            )
            .with_hint("build the optimizer after moving or converting the model")),
            Some(p) if p.is_uninitialized() => Err(TorshError::invalid(
                optimizer,
                "a parameter of a lazy layer is not initialised",
            )
            .with_hint("call the model once with an input as it will be, or load a state dict, first")),
            _ => Ok(()),
        }
    }
}

impl AsRef<Tensor> for Param {
    fn as_ref(&self) -> &Tensor {
        &self.tensor
    }
}

impl From<Tensor> for Param {
    fn from(tensor: Tensor) -> Param {
        Param {
            tensor,
            parameter: None,
        }
    }
}

impl From<&Tensor> for Param {
    fn from(tensor: &Tensor) -> Param {
        tensor.clone().into()
    }
}

impl From<Parameter> for Param {
    fn from(p: Parameter) -> Param {
        Param {
            tensor: p.tensor().clone(),
            parameter: Some(p),
        }
    }
}

impl From<&Parameter> for Param {
    fn from(p: &Parameter) -> Param {
        p.clone().into()
    }
}

impl From<&Param> for Param {
    fn from(p: &Param) -> Param {
        p.clone()
    }
}

/// Parameters with settings of their own.
///
/// ```
/// use torsh_optim::{Adam, Optimizer, ParamGroup};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32, 2.0], &[2])?.requires_grad_(true);
/// let b = Tensor::from_data(&[0.0f32], &[1])?.requires_grad_(true);
/// let groups = [ParamGroup::new([&w]).weight_decay(0.1), ParamGroup::new([&b]).lr(0.01)];
/// let optimizer = Adam::new(groups, 1e-3)?;
/// assert_eq!(optimizer.group_lrs(), [1e-3, 0.01]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ParamGroup {
    pub(crate) params: Vec<Param>,
    pub(crate) settings: Vec<(String, StateValue)>,
}

impl ParamGroup {
    /// A group with the optimizer's settings.
    ///
    /// ```
    /// use torsh_optim::{Adam, Optimizer, ParamGroup};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let group = ParamGroup::new([&w]);
    /// let optimizer = Adam::new([group], 0.5)?;
    /// assert_eq!(optimizer.group_lrs(), [0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new<P: Into<Param>>(params: impl IntoIterator<Item = P>) -> ParamGroup {
        ParamGroup {
            params: params.into_iter().map(Into::into).collect(),
            settings: Vec::new(),
        }
    }

    /// Sets any setting of the optimizer by PyTorch's name; one that it does not have is an error
    /// when the optimizer takes the group. What schedulers read from a group is not: `initial_lr`,
    /// `max_lr`, `min_lr`, `base_momentum`, `max_momentum` and `swa_lr`.
    ///
    /// ```
    /// use torsh_optim::{Adam, Optimizer, ParamGroup};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let group = ParamGroup::new([&w]).set("eps", 1e-4);
    /// let optimizer = Adam::new([group], 0.5)?;
    /// assert_eq!(optimizer.options(0).map(|o| o.eps), Some(1e-4));
    /// assert!(Adam::new([ParamGroup::new([&w]).set("momentum", 0.9)], 0.5).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<StateValue>) -> ParamGroup {
        self.settings.push((name.to_string(), value.into()));
        self
    }

    /// The learning rate.
    ///
    /// ```
    /// use torsh_optim::{Adam, Optimizer, ParamGroup};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let group = ParamGroup::new([&w]).lr(0.25);
    /// assert_eq!(Adam::new([group], 0.5)?.group_lrs(), [0.25]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn lr(self, lr: f64) -> ParamGroup {
        self.set("lr", lr)
    }

    /// The weight decay.
    ///
    /// ```
    /// use torsh_optim::{Adam, Optimizer, ParamGroup};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let group = ParamGroup::new([&w]).weight_decay(0.25);
    /// let optimizer = Adam::new([group], 0.5)?;
    /// assert_eq!(optimizer.options(0).map(|o| o.weight_decay), Some(0.25));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> ParamGroup {
        self.set("weight_decay", weight_decay)
    }

    /// The momentum.
    ///
    /// ```
    /// use torsh_optim::{Optimizer, ParamGroup, SGD};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let group = ParamGroup::new([&w]).momentum(0.25);
    /// let optimizer = SGD::new([group], 0.5)?;
    /// assert_eq!(optimizer.options(0).map(|o| o.momentum), Some(0.25));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn momentum(self, momentum: f64) -> ParamGroup {
        self.set("momentum", momentum)
    }

    /// Both betas.
    ///
    /// ```
    /// use torsh_optim::{Adam, Optimizer, ParamGroup};
    /// # use torsh_tensor::tensor;
    /// let w = tensor![1.0].requires_grad_(true);
    /// let group = ParamGroup::new([&w]).betas(0.5, 0.75);
    /// let optimizer = Adam::new([group], 0.5)?;
    /// assert_eq!(optimizer.options(0).map(|o| o.betas), Some((0.5, 0.75)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn betas(self, beta1: f64, beta2: f64) -> ParamGroup {
        self.set("betas", (beta1, beta2))
    }
}

/// An item of what an optimizer is built from: a parameter, or a group of them.
///
/// ```
/// use torsh_optim::{Optimizer, ParamGroup, ParamOrGroup, SGD};
/// # use torsh_tensor::tensor;
/// let (w, b) = (tensor![1.0].requires_grad_(true), tensor![0.0].requires_grad_(true));
/// let items = [ParamOrGroup::from(&w), ParamGroup::new([&b]).lr(0.5).into()];
/// assert_eq!(SGD::new(items, 0.1)?.group_lrs(), [0.1, 0.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub enum ParamOrGroup {
    /// A parameter of the default group.
    Param(Param),
    /// A group.
    Group(ParamGroup),
}

impl From<ParamGroup> for ParamOrGroup {
    fn from(g: ParamGroup) -> Self {
        ParamOrGroup::Group(g)
    }
}

macro_rules! param_or_group {
    ($($t:ty),*) => {$(
        impl From<$t> for ParamOrGroup {
            fn from(p: $t) -> Self {
                ParamOrGroup::Param(p.into())
            }
        }
    )*};
}
param_or_group!(Tensor, &Tensor, Parameter, &Parameter, Param, &Param);
