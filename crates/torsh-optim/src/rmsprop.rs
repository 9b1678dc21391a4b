//! RMSprop.

use torsh_tensor::ops::optim::zeros_for;
use torsh_tensor::{AddOptions, AddcmulOptions, Result, Tensor};

use crate::memory::{gradient, memory, real, remembered};
use crate::options::{check_common, check_eps, check_positive, options};
use crate::{Algorithm, Optim};

/// The gradient over the root of its running mean square (`torch.optim.RMSprop`; Hinton, 2012),
/// centered if wanted (Graves, 2013).
///
/// Settings and defaults: `lr = 1e-2`, `momentum = 0`, `alpha = 0.99`, `eps = 1e-8`,
/// `centered = false`, `weight_decay = 0`, `maximize = false`.
///
/// ```
/// use torsh_optim::{Optimizer, RMSprop};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[1.0f64], [1])?.requires_grad_(true);
/// let optimizer = RMSprop::builder([&w]).lr(0.01).build()?;
/// w.mul(&w)?.sum()?.backward()?;
/// optimizer.step()?;
/// assert!((w.item::<f64>()? - 0.9).abs() < 1e-7);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type RMSprop = Optim<RMSpropAlgorithm>;

/// The update of [`RMSprop`].
#[derive(Debug)]
pub struct RMSpropAlgorithm;

options! {
    /// The settings of [`RMSprop`].
    RMSpropOptions of RMSpropAlgorithm ("RMSprop") {
        /// The learning rate.
        lr: f64 = 1e-2;
        /// How much of the last step is kept.
        momentum: f64 = 0.0;
        /// The decay of the running means.
        alpha: f64 = 0.99;
        /// What is added to the denominator.
        eps: f64 = 1e-8;
        /// Whether the mean gradient is taken off, so that the variance is divided by.
        centered: bool = false;
        /// The L2 penalty.
        weight_decay: f64 = 0.0;
        /// Whether to go up the gradient.
        maximize: bool = false;
    }
    validate |o| {
        check_common("RMSprop", o.lr, o.weight_decay)?;
        check_eps("RMSprop", o.eps)?;
        check_positive("RMSprop", "momentum", o.momentum)?;
        check_positive("RMSprop", "alpha", o.alpha)
    }
}

memory! {
    /// What RMSprop remembers of a parameter.
    RMSpropState {
        /// The running mean of the squared gradient.
        square_avg: tensor;
        /// The momentum buffer, with `momentum`.
        momentum_buffer: optional;
        /// The running mean of the gradient, with `centered`.
        grad_avg: optional;
    }
}

/// The tensor, made of zeros where it is not there yet.
fn present(t: &mut Option<Tensor>, param: &Tensor) -> Result<Tensor> {
    match t {
        Some(t) => real(t),
        None => real(t.insert(zeros_for(param)?)),
    }
}

impl Algorithm for RMSpropAlgorithm {
    const NAME: &'static str = "RMSprop";
    type Options = RMSpropOptions;
    type State = RMSpropState;

    fn update(
        o: &RMSpropOptions,
        param: &Tensor,
        grad: &Tensor,
        state: &mut Option<RMSpropState>,
    ) -> Result<()> {
        let s = match state {
            Some(s) => s,
            None => state.insert(RMSpropState {
                step: 0,
                square_avg: zeros_for(param)?,
                momentum_buffer: None,
                grad_avg: None,
            }),
        };
        s.step += 1;
        let target = real(param)?;
        let grad = gradient(grad, &target, o.maximize, o.weight_decay)?;
        let square = real(&s.square_avg)?;
        square.mul_(o.alpha)?.addcmul_with_(
            &grad,
            &grad,
            AddcmulOptions::new().value(1.0 - o.alpha),
        )?;
        let avg = if o.centered {
            let mean = present(&mut s.grad_avg, param)?;
            mean.lerp_(&grad, 1.0 - o.alpha)?;
            square
                .addcmul_with(&mean, &mean, AddcmulOptions::new().value(-1.0))?
                .sqrt_()?
        } else {
            square.sqrt()?
        };
        avg.add_(o.eps)?;
        if o.momentum > 0.0 {
            let buffer = present(&mut s.momentum_buffer, param)?;
            buffer.mul_(o.momentum)?.addcdiv_(&grad, &avg)?;
            target.add_with_(&buffer, AddOptions::new().alpha(-o.lr))?;
        } else {
            target.addcdiv_with_(&grad, &avg, AddcmulOptions::new().value(-o.lr))?;
        }
        Ok(())
    }

    remembered!();
}
