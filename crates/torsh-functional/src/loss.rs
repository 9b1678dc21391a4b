//! Losses.

use torsh_tensor::{Result, Tensor};

use crate::{CrossEntropyOptions, NllLossOptions, Reduction, call};

/// Cross entropy of scores `[N, C]` (or `[C]`, `[N, C, d1, ..]`) and int64 classes of that shape
/// without `C`, or probabilities of that shape: the mean.
#[track_caller]
pub fn cross_entropy(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    cross_entropy_with(input, target, CrossEntropyOptions::default())
}

/// [`cross_entropy`] with options.
#[track_caller]
pub fn cross_entropy_with(
    input: &Tensor,
    target: &Tensor,
    options: CrossEntropyOptions,
) -> Result<Tensor> {
    call(
        "nn.functional.cross_entropy",
        &[input.into(), target.into()],
        &[
            ("weight", options.weight.into()),
            ("ignore_index", options.ignore_index.into()),
            ("reduction", options.reduction.name().into()),
            ("label_smoothing", options.label_smoothing.into()),
        ],
    )
}

/// The negative of the log-probability of each class: the mean.
#[track_caller]
pub fn nll_loss(input: &Tensor, target: &Tensor) -> Result<Tensor> {
    nll_loss_with(input, target, NllLossOptions::default())
}

/// [`nll_loss`] with options.
#[track_caller]
pub fn nll_loss_with(input: &Tensor, target: &Tensor, options: NllLossOptions) -> Result<Tensor> {
    call(
        "nn.functional.nll_loss",
        &[input.into(), target.into()],
        &[
            ("weight", options.weight.into()),
            ("ignore_index", options.ignore_index.into()),
            ("reduction", options.reduction.name().into()),
        ],
    )
}

/// Losses of two tensors with a reduction.
macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident $with:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(input: &Tensor, target: &Tensor) -> Result<Tensor> {
            $with(input, target, Reduction::Mean)
        }

        #[doc = concat!("[`", stringify!($name), "`] with another reduction.")]
        #[track_caller]
        pub fn $with(input: &Tensor, target: &Tensor, reduction: Reduction) -> Result<Tensor> {
            input.$with(target, reduction.name())
        }
    )*};
}

losses! {
    /// The mean of the squared differences.
    mse_loss mse_loss_with;
    /// The mean of the absolute differences.
    l1_loss l1_loss_with;
}
