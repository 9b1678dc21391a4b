//! Gradient checkpointing by a switch.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use torsh_tensor::{Result, Tensor, checkpoint, is_grad_enabled};

/// Whether a module computes its layers' activations again in the backward pass instead of keeping them (Chen et al.,
/// "Training Deep Nets with Sublinear Memory Cost", 2016).
///
/// A module with such a field runs each of its layers through [`run`](GradientCheckpointing::run).
/// [`ModuleExt::gradient_checkpointing`](crate::ModuleExt::gradient_checkpointing) finds the field in any model, which is
/// why it is a field like [`Training`](crate::Training). It is off at first. A clone is a switch of its own.
///
/// ```
/// use std::sync::Arc;
/// use torsh_nn::{GradientCheckpointing, Linear, Module, ModuleExt};
/// use torsh_tensor::{Result, Tensor, ones};
///
/// #[derive(Module)]
/// struct Deep {
///     layers: Vec<Arc<Linear>>,
///     checkpointing: GradientCheckpointing,
/// }
///
/// impl Module for Deep {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         let mut x = x.clone();
///         for layer in &self.layers {
///             let layer = layer.clone();
///             x = self.checkpointing.run(move || layer.forward(&x)?.tanh())?;
///         }
///         Ok(x)
///     }
/// }
///
/// let net = Deep {
///     layers: (0..4).map(|_| Arc::new(Linear::new(3, 3))).collect(),
///     checkpointing: GradientCheckpointing::default(),
/// };
/// let gradient = || -> Result<_> {
///     net.zero_grad();
///     net.forward(&ones([2, 3]))?.sum()?.backward()?;
///     Ok(net.layers[0].weight.grad())
/// };
/// let kept = gradient()?;
/// net.gradient_checkpointing(true)?;
/// assert_eq!(gradient()?, kept);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct GradientCheckpointing(AtomicBool);

impl GradientCheckpointing {
    /// A switch that is on or off.
    ///
    /// ```
    /// # use torsh_nn::GradientCheckpointing;
    /// assert!(GradientCheckpointing::new(true).is_on());
    /// ```
    pub const fn new(on: bool) -> Self {
        GradientCheckpointing(AtomicBool::new(on))
    }

    /// Whether it is on.
    ///
    /// ```
    /// # use torsh_nn::GradientCheckpointing;
    /// assert!(!GradientCheckpointing::default().is_on());
    /// ```
    pub fn is_on(&self) -> bool {
        // The flag guards no other memory.
        self.0.load(Ordering::Relaxed)
    }

    /// Turns it on or off.
    ///
    /// ```
    /// # use torsh_nn::GradientCheckpointing;
    /// let switch = GradientCheckpointing::default();
    /// switch.set(true);
    /// assert!(switch.is_on());
    /// ```
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    /// Whether a layer that runs now is checkpointed: the switch is on, and gradients are recorded.
    ///
    /// ```
    /// # use torsh_nn::GradientCheckpointing;
    /// # use torsh_tensor::no_grad;
    /// let switch = GradientCheckpointing::new(true);
    /// assert!(switch.applies());
    /// no_grad(|| {
    ///     assert!(!switch.applies());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn applies(&self) -> bool {
        self.is_on() && is_grad_enabled()
    }

    /// Runs a layer, as a [`checkpoint`] where the switch [`applies`](GradientCheckpointing::applies). The layer must
    /// compute the same both times; random numbers are the same ones.
    ///
    /// ```
    /// # use torsh_nn::GradientCheckpointing;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![3.0].requires_grad_(true);
    /// let inner = x.clone();
    /// let y = GradientCheckpointing::new(true).run(move || inner.square()?.mul(&inner))?;
    /// y.sum()?.backward()?;
    /// assert_eq!(x.grad(), Some(tensor![27.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of the layer.
    #[torsh_tensor::names_caller]
    pub fn run(
        &self,
        layer: impl Fn() -> Result<Tensor> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        match self.applies() {
            true => checkpoint(layer),
            false => layer(),
        }
    }
}

impl Default for GradientCheckpointing {
    fn default() -> Self {
        GradientCheckpointing::new(false)
    }
}

impl Clone for GradientCheckpointing {
    fn clone(&self) -> Self {
        GradientCheckpointing::new(self.is_on())
    }
}

impl fmt::Debug for GradientCheckpointing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GradientCheckpointing")
            .field(&self.is_on())
            .finish()
    }
}
