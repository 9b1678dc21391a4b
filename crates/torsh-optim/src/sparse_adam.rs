//! Adam on the rows that a gradient names.

use torsh_core::cmath::pow;
use torsh_tensor::ops::optim::{AdamStep, Count, SparseAdamStep, Target, step_rows};
use torsh_tensor::{Result, Tensor};

use crate::fused::{Fused, counted, fused};
use crate::memory::{StepCount, memory, remembered};
use crate::options::{check_adam, options};
use crate::sparse::Rows;
use crate::{Algorithm, Optim};

/// Adam that reads and writes those rows of a parameter and of its state alone that a COO gradient names
/// (`torch.optim.SparseAdam`), as the gradient of an [`Embedding`](torsh_nn::Embedding) with `sparse` does.
///
/// Settings and defaults: `lr = 1e-3`, `betas = (0.9, 0.999)`, `eps = 1e-8`, `maximize = false`.
///
/// The running means of a row change only when the row has a gradient, and the count of steps, by which they are corrected,
/// is that of the parameter. So this is another algorithm than [`Adam`](crate::Adam), whose means of the other rows decay
/// and move them. A parameter whose gradient is strided has a step of Adam: embeddings and dense layers can be trained by
/// one optimizer, which PyTorch's refuses. Duplicate indices of a gradient are added up.
///
/// ```
/// use torsh_optim::{Optimizer, SparseAdam};
/// use torsh_tensor::sparse::{Pattern, from_values};
/// # use torsh_tensor::tensor;
/// let w = tensor![[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]].requires_grad_(true);
/// let optimizer = SparseAdam::new([&w], 0.5)?;
/// // A gradient of the last row.
/// let pattern = Pattern::coo(&[3, 2], &tensor![[2]], true)?;
/// w.set_grad(Some(from_values(&pattern, &tensor![[4.0, -4.0]])?))?;
/// optimizer.step()?;
/// // The first step is of the learning rate, whatever the gradient.
/// assert!(w.allclose(&tensor![[1.0, 1.0], [2.0, 2.0], [2.5, 3.5]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type SparseAdam = Optim<SparseAdamAlgorithm>;

/// The update of [`SparseAdam`].
///
/// ```
/// use torsh_optim::{Algorithm, SparseAdamAlgorithm, SparseAdamOptions};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// SparseAdamAlgorithm::update(&SparseAdamOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.999])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct SparseAdamAlgorithm;

options! {
    /// The settings of [`SparseAdam`].
    ///
    /// ```
    /// use torsh_optim::SparseAdamOptions;
    /// let o = SparseAdamOptions::default();
    /// assert_eq!((o.lr, o.betas, o.eps, o.maximize), (1e-3, (0.9, 0.999), 1e-8, false));
    /// ```
    SparseAdamOptions of SparseAdamAlgorithm ("SparseAdam") {
        /// The learning rate.
        lr: f64 = 1e-3;
        /// The decays of the running means of the gradient and of its square.
        betas: pair = (0.9, 0.999);
        /// What is added to the denominator.
        eps: f64 = 1e-8;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| check_adam("SparseAdam", o.lr, o.betas, o.eps, 0.0)
}

memory! {
    /// What SparseAdam remembers of a parameter.
    ///
    /// ```
    /// use torsh_optim::{Algorithm, SparseAdamAlgorithm, SparseAdamOptions};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// SparseAdamAlgorithm::update(&SparseAdamOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.exp_avg.allclose(&tensor![0.2])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SparseAdamState(StepCount) {
        /// The running mean of the gradient.
        exp_avg: tensor;
        /// The running mean of its square.
        exp_avg_sq: tensor;
    }
}

impl Algorithm for SparseAdamAlgorithm {
    const NAME: &'static str = "SparseAdam";
    type Options = SparseAdamOptions;
    type State = SparseAdamState;

    fused!();
    remembered!();

    fn check_coo(_: &SparseAdamOptions) -> Result<()> {
        Ok(())
    }

    fn update_coo(
        o: &SparseAdamOptions,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<SparseAdamState>,
    ) -> Result<()> {
        let state = match state {
            Some(state) => state,
            None => state.insert(Self::fresh(o, param)?),
        };
        let step = state.step.on_host()?;
        *step += 1;
        let count = *step;
        let Some(rows) = Rows::to_update(param, grad)? else {
            return Ok(());
        };
        let (beta1, beta2) = o.betas;
        let all_at_once = SparseAdamStep {
            target: Target {
                maximize: o.maximize,
                count: Count::Known(count),
                ..Target::new(param, &rows.grad)
            },
            exp_avg: &state.exp_avg,
            exp_avg_sq: &state.exp_avg_sq,
            lr: o.lr,
            beta1,
            beta2,
            eps: o.eps,
        };
        if step_rows(&all_at_once, &rows.index).map_err(|e| e.renamed(Self::NAME))? {
            return Ok(());
        }
        // Other layouts and devices, and half types, whose results round after each of the operations below.
        let grad = match o.maximize {
            true => rows.grad.neg()?,
            false => rows.grad.clone(),
        };
        // The operations of PyTorch, one by one, so that each rounds as there. Only the root differs by an ulp from PyTorch's
        // on x86, which is MKL's: that is not correctly rounded.
        let mean = rows.take(&state.exp_avg)?;
        let mean = grad.sub(&mean)?.mul_(1.0 - beta1)?.add_(&mean)?;
        rows.put(&state.exp_avg, &mean)?;
        let square = rows.take(&state.exp_avg_sq)?;
        let squared = grad.square()?.sub_(&square)?.mul_(1.0 - beta2)?;
        let square = squared.add_(&square)?;
        rows.put(&state.exp_avg_sq, &square)?;
        let step = count as f64;
        let correction1 = 1.0 - pow(beta1, step);
        let correction2 = 1.0 - pow(beta2, step);
        let step_size = o.lr * correction2.sqrt() / correction1;
        let update = mean.div_(&square.sqrt_()?.add_(o.eps)?)?.mul_(-step_size)?;
        rows.put(param, &rows.take(param)?.add_(&update)?)
    }
}

impl Fused for SparseAdamAlgorithm {
    type Row<'a> = AdamStep<'a>;

    fn fresh(_: &SparseAdamOptions, param: &Tensor) -> Result<SparseAdamState> {
        SparseAdamState::zeros(param)
    }

    fn row<'a>(
        o: &SparseAdamOptions,
        mut target: Target<'a>,
        s: &'a SparseAdamState,
    ) -> AdamStep<'a> {
        target.maximize = o.maximize;
        let (beta1, beta2) = o.betas;
        AdamStep {
            target,
            exp_avg: &s.exp_avg,
            exp_avg_sq: &s.exp_avg_sq,
            max_exp_avg_sq: None,
            lr: o.lr,
            beta1,
            beta2,
            eps: o.eps,
        }
    }

    counted!();
}
