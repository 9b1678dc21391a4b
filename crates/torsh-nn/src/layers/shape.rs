//! Layers that only rearrange their input.

use torsh_tensor::{Result, Tensor};

use crate::Module;
use crate::module::{Hooks, Training};

/// Joins dimensions `start_dim` to `end_dim` into one (`torch.nn.Flatten`): all but the first
/// unless told otherwise.
///
/// ```
/// use torsh_nn::{Flatten, Module};
/// use torsh_tensor::{DType, Device, Tensor};
/// let x = Tensor::zeros(&[2, 3, 4], DType::F32, Device::Cpu)?;
/// assert_eq!(Flatten::new().forward(&x)?.dims(), [2, 12]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct Flatten {
    #[module(skip)]
    start_dim: i64,
    #[module(skip)]
    end_dim: i64,
    training: Training,
    hooks: Hooks,
}

impl Flatten {
    /// Keeps the first dimension and joins the others.
    ///
    /// ```
    /// # use torsh_nn::{Flatten, Module};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Flatten::new().forward(&tensor![[[1, 2], [3, 4]]])?, tensor![[1, 2, 3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> Flatten {
        Flatten::dims(1, -1)
    }

    /// Joins these dimensions and those between them; negative ones count from the end.
    ///
    /// ```
    /// # use torsh_nn::{Flatten, Module};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Flatten::dims(0, -1).forward(&tensor![[1, 2], [3, 4]])?, tensor![1, 2, 3, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn dims(start_dim: i64, end_dim: i64) -> Flatten {
        Flatten {
            start_dim,
            end_dim,
            training: Training::default(),
            hooks: Hooks::new(),
        }
    }
}

impl Default for Flatten {
    fn default() -> Self {
        Flatten::new()
    }
}

impl Module for Flatten {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let options = torsh_functional::FlattenOptions::new();
            torsh_functional::flatten_with(
                x,
                options.start_dim(self.start_dim).end_dim(self.end_dim),
            )
        })
    }

    fn extra_repr(&self) -> String {
        format!("start_dim={}, end_dim={}", self.start_dim, self.end_dim)
    }
}

/// Gives back what it gets (`torch.nn.Identity`).
///
/// ```
/// # use torsh_nn::{Identity, Module};
/// # use torsh_tensor::tensor;
/// assert_eq!(Identity::new().forward(&tensor![1, 2])?, tensor![1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module, Default)]
pub struct Identity {
    training: Training,
    hooks: Hooks,
}

impl Identity {
    /// The layer, which has no parameters.
    ///
    /// ```
    /// # use torsh_nn::{Identity, ModuleExt};
    /// assert_eq!(Identity::new().num_parameters(), 0);
    /// ```
    pub fn new() -> Identity {
        Identity::default()
    }

    /// Whether it has no hooks.
    pub(super) fn is_plain(&self) -> bool {
        self.hooks.is_empty()
    }
}

impl Module for Identity {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| Ok(x.clone()))
    }
}
