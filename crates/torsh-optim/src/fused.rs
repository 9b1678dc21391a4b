//! Optimizers whose steps are rows of [`torsh_core::steps`].

use torsh_core::Scalar;
use torsh_tensor::ops::optim::{SgdStep, Target, step, zeros_for};
use torsh_tensor::{Result, Tensor};

use crate::{Algorithm, Step};

/// An algorithm whose step on all parameters is one call.
pub(crate) trait Fused: Algorithm {
    /// The row.
    type Row<'a>: torsh_tensor::ops::optim::Step;

    /// The state before the first step.
    fn fresh(options: &Self::Options, param: &Tensor) -> Result<Self::State>;

    /// Makes the state that the settings ask for and that is not there.
    fn complete(options: &Self::Options, param: &Tensor, state: &mut Self::State) -> Result<()> {
        let _ = (options, param, state);
        Ok(())
    }

    /// The next step.
    fn row<'a>(
        options: &Self::Options,
        target: Target<'a>,
        state: &'a Self::State,
    ) -> Self::Row<'a>;

    /// Counts a step that was made.
    fn stepped(options: &Self::Options, state: &mut Self::State);
}

/// [`Algorithm::update_all`] of such an algorithm.
pub(crate) fn update_all<A: Fused>(steps: &mut [Step<'_, A>]) -> Result<()> {
    for s in &mut *steps {
        let state = match &mut *s.state {
            Some(state) => state,
            None => s.state.insert(A::fresh(s.options, s.param)?),
        };
        A::complete(s.options, s.param, state)?;
    }
    let rows: Vec<A::Row<'_>> = steps
        .iter()
        .filter_map(|s| {
            let target = Target::new(s.param, &s.grad);
            Some(A::row(s.options, target, s.state.as_ref()?))
        })
        .collect();
    step(&rows)?;
    drop(rows);
    for s in steps {
        if let Some(state) = s.state {
            A::stepped(s.options, state);
        }
    }
    Ok(())
}

/// The tensor of zeros that belongs here, made where it is not.
pub(crate) fn present(t: &mut Option<Tensor>, param: &Tensor) -> Result<()> {
    if t.is_none() {
        *t = Some(zeros_for(param)?);
    }
    Ok(())
}

/// Fills with a number, both parts of complex elements.
pub(crate) fn fill(t: &Tensor, v: f64) -> Result<()> {
    let v = if t.dtype().is_complex() {
        Scalar::Complex(v, v)
    } else {
        Scalar::Float(v)
    };
    t.fill_(v).map(|_| ())
}

/// [`Algorithm::update`] by [`Algorithm::update_all`].
macro_rules! update_one {
    () => {
        fn update(
            options: &Self::Options,
            param: &torsh_tensor::Tensor,
            grad: &torsh_tensor::Tensor,
            state: &mut Option<Self::State>,
        ) -> torsh_tensor::Result<()> {
            let grad = grad.clone();
            Self::update_all(&mut [crate::Step {
                options,
                param,
                grad,
                state,
            }])
        }
    };
}
pub(crate) use update_one;

/// The updates of an [`Algorithm`] that is [`Fused`].
macro_rules! fused {
    () => {
        crate::fused::update_one!();

        fn update_all(steps: &mut [crate::Step<'_, Self>]) -> torsh_tensor::Result<()> {
            crate::fused::update_all(steps)
        }
    };
}
pub(crate) use fused;

/// The decays of a target: an L2 penalty, or taken off the parameter directly as AdamW does.
pub(crate) fn decay(target: &mut Target<'_>, lr: f64, weight_decay: f64, decoupled: bool) {
    if decoupled {
        target.shrink = 1.0 - lr * weight_decay;
    } else {
        target.weight_decay = weight_decay;
    }
}

/// The step down an update: `param = shrink * param - lr * update`.
pub(crate) fn descent<'a>(
    param: &'a Tensor,
    update: &'a Tensor,
    lr: f64,
    shrink: f64,
) -> SgdStep<'a> {
    SgdStep {
        target: Target {
            shrink,
            ..Target::new(param, update)
        },
        momentum_buffer: None,
        lr,
        momentum: 0.0,
        rest: 1.0,
        nesterov: false,
        first: false,
    }
}
