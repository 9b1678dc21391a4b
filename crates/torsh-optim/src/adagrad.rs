//! Adagrad.

use torsh_tensor::ops::optim::{AdagradStep, Target};
use torsh_tensor::{AddOptions, Result, Tensor};

use crate::fused::{Fused, counted, fill, fused};
use crate::memory::{StepCount, memory, remembered};
use crate::options::{check_common, check_eps, check_positive, options};
use crate::sparse::{Rows, without_decay};
use crate::{Algorithm, Optim};

/// Steps that shrink with the sum of the squared gradients (`torch.optim.Adagrad`; Duchi and
/// others, 2011).
///
/// Settings and defaults: `lr = 1e-2`, `lr_decay = 0`, `weight_decay = 0`,
/// `initial_accumulator_value = 0`, `eps = 1e-10`, `maximize = false`. As PyTorch's, it has a
/// state of every parameter from the start.
///
/// A COO gradient changes the rows that it names alone, of the parameter and of the sum. It takes no weight decay.
///
/// ```
/// use torsh_optim::{Adagrad, Optimizer};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f32], [1])?.requires_grad_(true);
/// let optimizer = Adagrad::builder([&w]).lr(0.25).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?;
/// assert!((w.item::<f32>()? - 0.75).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type Adagrad = Optim<AdagradAlgorithm>;

/// The update of [`Adagrad`].
///
/// ```
/// use torsh_optim::{AdagradAlgorithm, AdagradOptions, Algorithm};
/// # use torsh_tensor::tensor;
/// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
/// AdagradAlgorithm::update(&AdagradOptions::default(), &w, &gradient, &mut state)?;
/// assert!(w.allclose(&tensor![0.99])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct AdagradAlgorithm;

options! {
    /// The settings of [`Adagrad`].
    ///
    /// ```
    /// use torsh_optim::AdagradOptions;
    /// let o = AdagradOptions::default();
    /// assert_eq!((o.lr, o.lr_decay, o.eps), (1e-2, 0.0, 1e-10));
    /// ```
    AdagradOptions of AdagradAlgorithm ("Adagrad") {
        /// The learning rate.
        lr: f64 = 1e-2;
        /// How fast the learning rate falls: it is divided by `1 + (step - 1) * lr_decay`.
        lr_decay: f64 = 0.0;
        /// What is added to the denominator.
        eps: f64 = 1e-10;
        /// The L2 penalty.
        weight_decay: f64 = 0.0;
        /// What the sum of squares starts with.
        initial_accumulator_value: f64 = 0.0;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_common("Adagrad", o.lr, o.weight_decay)?;
        check_positive("Adagrad", "lr_decay", o.lr_decay)?;
        check_positive("Adagrad", "initial_accumulator_value", o.initial_accumulator_value)?;
        check_eps("Adagrad", o.eps)
    }
}

memory! {
    /// What Adagrad remembers of a parameter.
    ///
    /// ```
    /// use torsh_optim::{AdagradAlgorithm, AdagradOptions, Algorithm};
    /// # use torsh_tensor::tensor;
    /// let (w, gradient, mut state) = (tensor![1.0], tensor![2.0], None);
    /// AdagradAlgorithm::update(&AdagradOptions::default(), &w, &gradient, &mut state)?;
    /// let state = state.expect("a step was made");
    /// assert!(state.sum.allclose(&tensor![4.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdagradState(StepCount) {
        /// The sum of the squared gradients.
        sum: tensor;
    }
}

impl Algorithm for AdagradAlgorithm {
    const NAME: &'static str = "Adagrad";
    type Options = AdagradOptions;
    type State = AdagradState;

    fused!();
    remembered!();

    fn start(o: &AdagradOptions, param: &Tensor) -> Result<Option<AdagradState>> {
        Self::fresh(o, param).map(Some)
    }

    fn check_coo(o: &AdagradOptions) -> Result<()> {
        without_decay(Self::NAME, o.weight_decay)
    }

    fn update_coo(
        o: &AdagradOptions,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<AdagradState>,
    ) -> Result<()> {
        let state = match state {
            Some(state) => state,
            None => state.insert(Self::fresh(o, param)?),
        };
        let step = state.step.on_host()?;
        *step += 1;
        let step = *step as f64;
        let Some(rows) = Rows::to_update(param, grad)? else {
            return Ok(());
        };
        let sum = rows.take(&state.sum)?.add_(&rows.grad.square()?)?;
        rows.put(&state.sum, &sum)?;
        let update = rows.grad.div(&sum.sqrt_()?.add_(o.eps)?)?;
        let rate = o.lr / (1.0 + (step - 1.0) * o.lr_decay);
        let rate = if o.maximize { rate } else { -rate };
        let moved = rows
            .take(param)?
            .add_with(&update, AddOptions::new().alpha(rate))?;
        rows.put(param, &moved)
    }
}

impl Fused for AdagradAlgorithm {
    type Row<'a> = AdagradStep<'a>;

    fn fresh(o: &AdagradOptions, param: &Tensor) -> Result<AdagradState> {
        let state = AdagradState::zeros(param)?;
        fill(&state.sum, o.initial_accumulator_value)?;
        Ok(state)
    }

    fn row<'a>(o: &AdagradOptions, mut target: Target<'a>, s: &'a AdagradState) -> AdagradStep<'a> {
        target.maximize = o.maximize;
        target.weight_decay = o.weight_decay;
        AdagradStep {
            target,
            sum: &s.sum,
            lr: o.lr,
            lr_decay: o.lr_decay,
            eps: o.eps,
        }
    }

    counted!();
}
