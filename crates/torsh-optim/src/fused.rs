//! Optimizers whose steps are rows of [`torsh_core::steps`].

use std::sync::Arc;

use torsh_core::Scalar;
use torsh_tensor::ops::optim::{Count, SgdStep, Target, step_unless, zeros_for};
use torsh_tensor::{DType, Result, Tensor};

use crate::memory::StepCount;
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

    /// The next step. The target has its number.
    fn row<'a>(
        options: &Self::Options,
        target: Target<'a>,
        state: &'a Self::State,
    ) -> Self::Row<'a>;

    /// How many steps were made, where a device may keep the count.
    fn count(state: &Self::State) -> Option<&StepCount> {
        let _ = state;
        None
    }

    /// [`Fused::count`], to change it.
    fn count_mut(state: &mut Self::State) -> Option<&mut StepCount> {
        let _ = state;
        None
    }

    /// Whether a device may be told to leave a step out of which the host then does not know whether
    /// it was made.
    fn conditional(options: &Self::Options) -> bool {
        let _ = options;
        true
    }

    /// Counts a step that was made, as far as the host knows.
    fn stepped(options: &Self::Options, state: &mut Self::State);
}

/// What of [`Fused`] is the same for states whose `step` is a [`StepCount`].
macro_rules! counted {
    () => {
        fn count(state: &Self::State) -> Option<&crate::memory::StepCount> {
            Some(&state.step)
        }

        fn count_mut(state: &mut Self::State) -> Option<&mut crate::memory::StepCount> {
            Some(&mut state.step)
        }

        fn stepped(_: &Self::Options, state: &mut Self::State) {
            if let crate::memory::StepCount::Host(n) = &mut state.step {
                *n += 1;
            }
        }
    };
}
pub(crate) use counted;

/// The count of parameters that a device steps together.
struct Together {
    /// What they share.
    count: Arc<Tensor>,
    /// That of the step that is being made.
    next: Tensor,
    /// Which of the call's steps they are.
    members: Vec<usize>,
}

/// The counts of a call on devices, which are moved there where the host has them. They are of the
/// step that is being made, or of the last one where `found_inf` is not 0.
#[cold]
fn count_there<A: Fused>(
    steps: &mut [Step<'_, A>],
    found_inf: Option<&Tensor>,
) -> Result<Vec<Together>> {
    let mut moved: Vec<(u64, Arc<Tensor>)> = Vec::new();
    let mut all: Vec<Together> = Vec::new();
    for (i, s) in steps.iter_mut().enumerate() {
        let device = s.param.device();
        if device.is_host() || !device.has_data() {
            continue;
        }
        let Some(count) = s.state.as_mut().and_then(A::count_mut) else {
            continue;
        };
        let shared = match count {
            StepCount::Device(shared) => shared.clone(),
            StepCount::Host(n) => {
                let same = moved.iter().find(|(m, t)| m == n && t.device() == device);
                let shared = match same {
                    Some((_, t)) => t.clone(),
                    None => Arc::new(Tensor::scalar(*n as f64, DType::F32, device)?),
                };
                moved.push((*n, shared.clone()));
                *count = StepCount::Device(shared.clone());
                shared
            }
        };
        match all.iter_mut().find(|t| Arc::ptr_eq(&t.count, &shared)) {
            Some(t) => t.members.push(i),
            None => {
                let next = match found_inf {
                    Some(found) => shared.add(1.0)?.sub(found)?,
                    None => shared.add(1.0)?,
                };
                all.push(Together {
                    count: shared,
                    next,
                    members: vec![i],
                });
            }
        }
    }
    Ok(all)
}

impl Together {
    /// Takes over the count of a step that was given to the device.
    fn stepped<A: Fused>(self, steps: &mut [Step<'_, A>]) -> Result<()> {
        // Its own handle and one of each parameter.
        if Arc::strong_count(&self.count) == self.members.len() + 1 {
            // In place, as a recorded graph of the device's work needs it.
            return self.count.copy_(&self.next).map(drop);
        }
        let apart = Arc::new(self.next);
        for i in self.members {
            if let Some(count) = steps[i].state.as_mut().and_then(A::count_mut) {
                *count = StepCount::Device(apart.clone());
            }
        }
        Ok(())
    }
}

/// [`Algorithm::update_all`] of such an algorithm.
pub(crate) fn update_all<A: Fused>(steps: &mut [Step<'_, A>]) -> Result<()> {
    update(steps, None)
}

/// [`Algorithm::update_all_unless`] of such an algorithm.
pub(crate) fn update_all_unless<A: Fused>(
    steps: &mut [Step<'_, A>],
    found_inf: &Tensor,
) -> Result<()> {
    let device = found_inf.device();
    let there = |s: &Step<'_, A>| s.param.device() == device && A::conditional(s.options);
    if !device.is_host() && steps.iter().all(there) {
        return update(steps, Some(found_inf));
    }
    match found_inf.item::<f32>()? != 0.0 {
        true => Ok(()),
        false => update(steps, None),
    }
}

fn update<A: Fused>(steps: &mut [Step<'_, A>], found_inf: Option<&Tensor>) -> Result<()> {
    let mut on_device = false;
    for s in &mut *steps {
        let state = match &mut *s.state {
            Some(state) => state,
            None => s.state.insert(A::fresh(s.options, s.param)?),
        };
        A::complete(s.options, s.param, state)?;
        on_device |= !s.param.device().is_host();
    }
    let counts = match on_device {
        true => count_there(steps, found_inf)?,
        false => Vec::new(),
    };
    let mut rows: Vec<A::Row<'_>> = Vec::with_capacity(steps.len());
    for (i, s) in steps.iter().enumerate() {
        let Some(state) = s.state.as_ref() else {
            continue;
        };
        let mut target = Target::new(s.param, &s.grad);
        if let Some(StepCount::Host(n)) = A::count(state) {
            target.count = Count::Known(n + 1);
        } else if let Some(t) = counts.iter().find(|t| t.members.binary_search(&i).is_ok()) {
            target.count = Count::OnDevice(&t.next);
        }
        rows.push(A::row(s.options, target, state));
    }
    step_unless(&rows, found_inf)?;
    drop(rows);
    counts.into_iter().try_for_each(|t| t.stepped(steps))?;
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

        fn update_all_unless(
            steps: &mut [crate::Step<'_, Self>],
            found_inf: &torsh_tensor::Tensor,
        ) -> torsh_tensor::Result<()> {
            crate::fused::update_all_unless(steps, found_inf)
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
