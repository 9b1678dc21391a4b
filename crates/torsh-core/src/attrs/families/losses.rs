//! Attributes of losses.

use crate::Ints;

crate::attributes! {
    /// `NllLoss`: the negative log-probabilities of target classes.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::NllLoss { reduction: attrs::Reduction::Mean, ignore_index: -100 };
    /// assert_eq!(attrs::display(&call).to_string(), "reduction='mean', ignore_index=-100");
    /// ```
    NllLoss {
        /// How the losses become the result.
        reduction: Reduction,
        /// A class that counts for nothing.
        ignore_index: i64,
    }

    /// `NllLossBackward`: the gradient of the scores of `NllLoss`.
    NllLossBackward {
        /// How the losses became the result.
        reduction: Reduction,
        /// A class that counts for nothing.
        ignore_index: i64,
        /// All sizes of the result, which are those of the scores.
        output_shape: Ints,
    }

    /// `CrossEntropy`, the cross-entropy of scores and target classes, and the gradient of its
    /// scores, `CrossEntropyBackward`.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::CrossEntropy { reduction: attrs::Reduction::Sum, ignore_index: -100, label_smoothing: 0.1 };
    /// assert_eq!(attrs::display(&call).to_string(), "reduction='sum', ignore_index=-100, label_smoothing=0.1");
    /// ```
    CrossEntropy {
        /// How the losses become the result.
        reduction: Reduction,
        /// A class that counts for nothing.
        ignore_index: i64,
        /// How much of each target is spread over all classes, from 0 to 1.
        label_smoothing: f64,
    }

    /// `CtcLoss`, connectionist temporal classification, and the gradient of its log-probabilities,
    /// `CtcLossBackward`.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::CtcLoss {
    ///     input_lengths: [50, 40].into(), target_lengths: [9, 7].into(),
    ///     blank: 0, zero_infinity: true,
    /// };
    /// assert_eq!(
    ///     attrs::display(&call).to_string(),
    ///     "input_lengths=[50, 40], target_lengths=[9, 7], blank=0, zero_infinity=true"
    /// );
    /// ```
    CtcLoss {
        /// How many times each sequence has.
        input_lengths: Ints,
        /// How many labels each target has.
        target_lengths: Ints,
        /// The label that stands between others and means none of them.
        blank: usize,
        /// Whether sequences of infinite loss have no gradient.
        zero_infinity: bool,
    }
}

crate::words! {
    in "torsh_core::attrs";

    /// How the losses of all positions become the result.
    Reduction {
        /// They stay.
        None = "none",
        /// Their mean; over the weights where these count.
        Mean = "mean",
        /// Their sum.
        Sum = "sum",
    }
}
