//! Stochastic depth.

use std::sync::atomic::{AtomicU64, Ordering};

use torsh_nn::{Hooks, Module, Training};
use torsh_tensor::named::Named;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::ops::{StochasticDepthMode, stochastic_depth};

#[track_caller]
fn check(p: f64) -> Result<()> {
    match (0.0..=1.0).contains(&p) {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "StochasticDepth",
            format!("drop probability has to be between 0 and 1, but got {p}"),
        )),
    }
}

/// Leaves out the branch of a residual block at random while training (`torchvision.ops.StochasticDepth`; Huang et al.,
/// <https://arxiv.org/abs/1603.09382>).
///
/// Takes a tensor whose first dimension is the batch. While training, it multiplies the rows that stay by `1 / (1 - p)`
/// and the others by 0; the draws are PyTorch's. In evaluation mode it gives back what it gets.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::ones;
/// use torsh_vision::models::blocks::{StochasticDepth, StochasticDepthMode};
/// let layer = StochasticDepth::new(0.5, StochasticDepthMode::Row)?;
/// let y = layer.forward(&ones(&[8, 3]))?;
/// assert!(y.to_vec::<f32>()?.iter().all(|&v| v == 0.0 || v == 2.0));
/// layer.eval();
/// assert_eq!(layer.forward(&ones(&[8, 3]))?, ones(&[8, 3]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct StochasticDepth {
    #[module(skip)]
    p: AtomicU64,
    #[module(skip)]
    mode: StochasticDepthMode,
    training: Training,
    hooks: Hooks,
}

impl StochasticDepth {
    /// Makes the layer that leaves out with probability `p`. An error where `p` is not between 0 and 1.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::{ones, zeros};
    /// use torsh_vision::models::blocks::StochasticDepth;
    /// assert_eq!(StochasticDepth::new(1.0, "batch")?.forward(&ones(&[2, 3]))?, zeros(&[2, 3]));
    /// let error = StochasticDepth::new(1.5, "row").err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("has to be between 0 and 1, but got 1.5")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(p: f64, mode: impl Into<StochasticDepthMode>) -> Result<StochasticDepth> {
        check(p)?;
        let mode = mode.into().known();
        Ok(StochasticDepth {
            p: AtomicU64::new(p.to_bits()),
            mode: mode.map_err(|e| e.renamed("StochasticDepth"))?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The probability.
    ///
    /// ```
    /// use torsh_vision::models::blocks::StochasticDepth;
    /// assert_eq!(StochasticDepth::new(0.25, "row")?.p(), 0.25);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn p(&self) -> f64 {
        f64::from_bits(self.p.load(Ordering::Relaxed))
    }

    /// Puts another probability in its place. An error where it is not between 0 and 1.
    ///
    /// ```
    /// use torsh_vision::models::blocks::StochasticDepth;
    /// let layer = StochasticDepth::new(0.25, "row")?;
    /// layer.set_p(0.5)?;
    /// assert!(layer.set_p(-1.0).is_err());
    /// assert_eq!(layer.p(), 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn set_p(&self, p: f64) -> Result<()> {
        check(p)?;
        self.p.store(p.to_bits(), Ordering::Relaxed);
        Ok(())
    }

    /// What is left out at once.
    ///
    /// ```
    /// use torsh_vision::models::blocks::{StochasticDepth, StochasticDepthMode};
    /// assert_eq!(StochasticDepth::new(0.25, "row")?.mode(), StochasticDepthMode::Row);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn mode(&self) -> StochasticDepthMode {
        self.mode
    }
}

impl Module for StochasticDepth {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| match (self.training.get(), self.p()) {
                (true, p) if p > 0.0 => stochastic_depth(x, p, self.mode, true),
                _ => Ok(x.clone()),
            })
    }

    fn extra_repr(&self) -> String {
        format!("p={}, mode={}", self.p(), self.mode.name())
    }
}
