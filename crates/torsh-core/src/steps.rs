//! Steps of optimizers as data: the state, the numbers and the formula of one element, in one row
//! each.
//!
//! [`for_each_step!`](crate::for_each_step) hands the rows to a macro of the caller: the CPU
//! backend makes loops of the formulas, which read and write each element once, and the tensor
//! crate makes a struct with the row's operands and numbers, whose steps on all parameters are one
//! call. A new optimizer is a row, its kernel key in [`crate::pointwise`] and its settings in
//! `torsh-optim`.
//!
//! # A row
//!
//! ```text
//! /// One step of `torch.optim.SGD`.
//! sgd "_sgd_step" SgdStep(momentum_buffer if buffered)     state; what may be absent, with a name for its presence
//!     [lr momentum rest]                                   numbers
//!     [nesterov first]                                     flags
//!     at step [correction] { [1.0 - pow(beta, step)] }     what follows from the numbers and the count, if anything
//!     |p, g| {                                             parameter and gradient, which are assigned
//!         if buffered { .. }
//!         p = g.fma::<A>(-lr, p);
//!     }
//! ```
//!
//! Before each formula, in this order: `g` is negated where the optimizer goes up, `weight_decay *
//! p` is added to it (the L2 penalty), and `p` is multiplied by `shrink` (the decoupled decay).
//! What follows `at` is computed once for each parameter, in `f64` on the CPU. The count of the step
//! comes with the call, or from the device's own memory ([`Steps`](crate::attrs::Steps)), where it is
//! not known to the host: a step that a device leaves out is not counted.
//!
//! Formulas are generic as those of [`crate::pointwise`]: `A` is the instruction set, `T` the type
//! that is computed in, `f32` for the half types. They round as PyTorch's single-tensor steps do:
//! `add(alpha)`, `addcmul` and `lerp` with a fused multiply-add at the end, `addcdiv` without. What
//! stands as `+` and `*` is never fused.

/// Hands the rows of all optimizer steps to the macro `$m`, after the tokens that follow its name.
///
/// ```
/// macro_rules! names {
///     ($(
///         $(#[doc = $doc:literal])+
///         $method:ident $name:literal $kernel:ident ($($state:ident $(if $has:ident)?),*)
///         [$($number:ident)*] [$($flag:ident)*]
///         $(at $step:ident [$($derived:ident)*] $derive:block)?
///         |$p:ident, $g:ident| $body:block
///     )*) => { [$($name),*] };
/// }
/// let names = torsh_core::for_each_step! { names };
/// assert_eq!((names[0], names[1], names.len()), ("_sgd_step", "_adam_step", 13));
/// ```
#[macro_export]
macro_rules! for_each_step {
    ($m:ident $($first:tt)*) => { $m! { $($first)*

/// One step of `torch.optim.SGD`; the buffer is there with momentum, and holds nothing yet in the
/// `first` step. `rest` is one minus the dampening.
sgd "_sgd_step" SgdStep(momentum_buffer if buffered) [lr momentum rest] [nesterov first] |p, g| {
    if buffered {
        momentum_buffer = if first { g } else { g.fma::<A>(rest, momentum_buffer * momentum) };
        g = if nesterov { momentum_buffer.fma::<A>(momentum, g) } else { momentum_buffer };
    }
    p = g.fma::<A>(-lr, p);
}

/// One step of `torch.optim.Adam` or `AdamW`, with the largest second moment for AMSGrad. `rest1`
/// and `rest2` are one minus the betas, `correction` is the root of the second bias correction.
adam "_adam_step" AdamStep(exp_avg, exp_avg_sq, max_exp_avg_sq if amsgrad)
    [lr beta1 beta2 eps] [] at step [rest1 rest2 step_size correction] {
        let step_size = lr / (1.0 - $crate::cmath::pow(beta1, step));
        [1.0 - beta1, 1.0 - beta2, step_size, (1.0 - $crate::cmath::pow(beta2, step)).sqrt()]
    } |p, g| {
    exp_avg = exp_avg.lerp::<A>(g, rest1);
    exp_avg_sq = (rest2 * g).fma::<A>(g, exp_avg_sq * beta2);
    let mut moment = exp_avg_sq;
    if amsgrad {
        max_exp_avg_sq = max_exp_avg_sq.maximum(exp_avg_sq);
        moment = max_exp_avg_sq;
    }
    p = p - step_size * exp_avg / (moment.sqrt() / correction + eps);
}

/// One step of `torch.optim.NAdam`. `correction2` is the second bias correction; `step_grad` and
/// `step_mean` are the factors of the gradient and of its running mean.
nadam "_nadam_step" NAdamStep(exp_avg, exp_avg_sq)
    [rest1 beta2 rest2 correction2 eps step_grad step_mean] [] |p, g| {
    exp_avg = exp_avg.lerp::<A>(g, rest1);
    exp_avg_sq = (rest2 * g).fma::<A>(g, exp_avg_sq * beta2);
    let denom = (exp_avg_sq / correction2).sqrt() + eps;
    p = p - step_grad * g / denom;
    p = p - step_mean * exp_avg / denom;
}

/// One step of `torch.optim.RAdam`, adaptive where there is a rectification, `rect`. `correction2` is
/// the root of the second bias correction. The simple moving average that the exponential one is like
/// has the length `length`.
radam "_radam_step" RAdamStep(exp_avg, exp_avg_sq)
    [lr beta1 beta2 eps] [] at step [rest1 rest2 correction1 correction2 rect] {
        let power = $crate::cmath::pow(beta2, step);
        let correction2 = 1.0 - power;
        let longest = 2.0 / (1.0 - beta2) - 1.0;
        let length = longest - 2.0 * step * power / correction2;
        let rectified = (length - 4.0) * (length - 2.0) * longest
            / ((longest - 4.0) * (longest - 2.0) * length);
        let rect = if length > 5.0 { rectified.sqrt() } else { 0.0 };
        [1.0 - beta1, 1.0 - beta2, 1.0 - $crate::cmath::pow(beta1, step), correction2.sqrt(), rect]
    } |p, g| {
    exp_avg = exp_avg.lerp::<A>(g, rest1);
    exp_avg_sq = (rest2 * g).fma::<A>(g, exp_avg_sq * beta2);
    let plain = exp_avg / correction1 * lr;
    let adaptive = T::ONE / (exp_avg_sq.sqrt() + eps) * correction2;
    p = p - if rect > T::ZERO { plain * adaptive * rect } else { plain };
}

/// One step of `torch.optim.Adamax`; `step_size` is the corrected learning rate.
adamax "_adamax_step" AdamaxStep(exp_avg, exp_inf)
    [lr beta1 beta2 eps] [] at step [rest1 step_size] {
        [1.0 - beta1, lr / (1.0 - $crate::cmath::pow(beta1, step))]
    } |p, g| {
    exp_avg = exp_avg.lerp::<A>(g, rest1);
    exp_inf = (exp_inf * beta2).maximum(g.abs() + eps);
    p = p - step_size * exp_avg / exp_inf;
}

/// One step of `torch.optim.Adagrad`; `step_size` is the decayed learning rate.
adagrad "_adagrad_step" AdagradStep(sum) [lr lr_decay eps] [] at step [step_size] {
        [lr / (1.0 + (step - 1.0) * lr_decay)]
    } |p, g| {
    sum = g.fma::<A>(g, sum);
    p = p - step_size * g / (sum.sqrt() + eps);
}

/// One step of `torch.optim.SparseAdam` on the rows that have a gradient. `rest1` and `rest2` are one minus the betas,
/// `step_size` is the learning rate with both bias corrections. As there, each operation rounds on its own.
sparse_adam "_sparse_adam_step" SparseAdamStep(exp_avg, exp_avg_sq)
    [lr beta1 beta2 eps] [] at step [rest1 rest2 step_size] {
        let correction1 = 1.0 - $crate::cmath::pow(beta1, step);
        let correction2 = 1.0 - $crate::cmath::pow(beta2, step);
        [1.0 - beta1, 1.0 - beta2, lr * correction2.sqrt() / correction1]
    } |p, g| {
    exp_avg = (g - exp_avg) * rest1 + exp_avg;
    exp_avg_sq = (g * g - exp_avg_sq) * rest2 + exp_avg_sq;
    p = p + exp_avg / (exp_avg_sq.sqrt() + eps) * -step_size;
}

/// One step of `torch.optim.Adadelta`; `rest` is one minus `rho`.
adadelta "_adadelta_step" AdadeltaStep(square_avg, acc_delta) [lr rho rest eps] [] |p, g| {
    square_avg = (rest * g).fma::<A>(g, square_avg * rho);
    let delta = (acc_delta + eps).sqrt() / (square_avg + eps).sqrt() * g;
    acc_delta = (rest * delta).fma::<A>(delta, acc_delta * rho);
    p = delta.fma::<A>(-lr, p);
}

/// One step of `torch.optim.RMSprop`, centered where the mean of the gradient is there, with
/// momentum where its buffer is. `rest` is one minus `alpha`.
rmsprop "_rmsprop_step" RMSpropStep(square_avg, grad_avg if centered, momentum_buffer if buffered)
    [lr alpha rest eps momentum] [] |p, g| {
    square_avg = (rest * g).fma::<A>(g, square_avg * alpha);
    let mut variance = square_avg;
    if centered {
        grad_avg = grad_avg.lerp::<A>(g, rest);
        variance = (-grad_avg).fma::<A>(grad_avg, square_avg);
    }
    let avg = variance.sqrt() + eps;
    if buffered {
        momentum_buffer = momentum_buffer * momentum + g / avg;
        p = momentum_buffer.fma::<A>(-lr, p);
    } else {
        p = p - lr * g / avg;
    }
}

/// One step of `torch.optim.Rprop`; `shorter` and `longer` are its etas, `smallest` and `largest`
/// its step sizes.
rprop "_rprop_step" RpropStep(prev, step_size) [shorter longer smallest largest] [] |p, g| {
    let turn = g * prev;
    let stayed = if turn > T::ZERO { longer } else { T::ONE };
    let factor = if turn < T::ZERO { shorter } else { stayed };
    step_size = (step_size * factor).maximum(smallest).minimum(largest);
    prev = if turn < T::ZERO { T::ZERO } else { g };
    p = (-prev.sign()).fma::<A>(step_size, p);
}

/// One step of `torch.optim.ASGD`, whose decay is `shrink`; in the `first` ones the mean `ax` is
/// the parameter itself.
asgd "_asgd_step" AsgdStep(ax) [eta mu] [first] |p, g| {
    p = g.fma::<A>(-eta, p);
    ax = if first { p } else { ax + (p - ax) * mu };
}

/// What `torch.optim.Muon` makes orthogonal, which the parameter of this step becomes; `rest` is
/// one minus the momentum.
muon "_muon_momentum" MuonMomentum(momentum_buffer) [momentum rest] [nesterov] |p, g| {
    momentum_buffer = momentum_buffer.lerp::<A>(g, rest);
    p = if nesterov { g.lerp::<A>(momentum_buffer, momentum) } else { momentum_buffer };
}

/// The update of `torch.optim.Adafactor`, which the second moment that is the parameter of this
/// step becomes; `floor` is the least of it.
adafactor "_adafactor_update" AdafactorUpdate() [floor] [] |p, g| {
    p = T::ONE / p.maximum(floor).sqrt() * g;
}

    } };
}

/// The numbers of each row by their names, with its kernel's name.
pub mod numbers {
    use crate::attrs::{Reader, STEP_DERIVED, StepNames, StepPart, read_steps};

    macro_rules! structs {
        ($(
            $(#[doc = $doc:literal])+
            $method:ident $name:literal $kernel:ident ( $($state:ident $(if $has:ident)?),* )
            [$($number:ident)*] [$($flag:ident)*]
            $(at $step:ident [$($derived:ident)*] $derive:block)?
            |$p:ident, $g:ident| $body:block
        )*) => {
            $(
                #[doc = concat!("The numbers of `", $name, "`, and those that follow from them and the count.")]
                #[derive(Clone, Copy, Debug)]
                #[allow(missing_docs)]
                pub struct $kernel { $(pub $number: f64,)* $($(pub $derived: f64,)*)? }

                impl $kernel {
                    /// The names of the row.
                    pub const NAMES: &'static StepNames = &StepNames {
                        row: stringify!($kernel),
                        numbers: &[$(stringify!($number)),*],
                        flags: &[$(stringify!($flag)),*],
                        derived: &[$($(stringify!($derived)),*)?],
                    };

                    /// Those of one parameter's part of a step of this row, with what follows from them.
                    #[inline]
                    #[allow(unused_variables)]
                    pub fn of(part: &StepPart, derived: &[f64; STEP_DERIVED]) -> $kernel {
                        let [$($number,)* ..] = part.numbers;
                        $(let [$($derived,)* ..] = *derived;)?
                        $kernel { $($number,)* $($($derived,)*)? }
                    }
                }
            )*

            /// How the steps of each row are made of named fields.
            pub const READERS: &[Reader] = &[$(Reader {
                name: stringify!($kernel),
                read: |fields| read_steps($kernel::NAMES, fields),
            }),*];
        };
    }
    crate::for_each_step! { structs }
}
