//! Attributes of normalisations.

crate::attributes! {
    /// `BatchNorm`: each channel less its mean, over its standard deviation.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::BatchNorm { training: true, eps: 1e-5, variance: true, min: None, max: None };
    /// assert_eq!(attrs::display(&call).to_string(), "training=true, eps=1e-5, variance=true, min=None, max=None");
    /// ```
    BatchNorm {
        /// Whether the batch's own statistics are used, rather than the running ones.
        training: bool,
        /// Added to the variance.
        eps: f64,
        /// Whether the unbiased variance of the batch is a result too.
        variance: bool,
        /// The least value of a result, which lesser ones take.
        min: Option<f64>,
        /// The greatest value of a result, which greater ones take.
        max: Option<f64>,
    }

    /// `BatchNormBackward`: the gradients of `BatchNorm`.
    BatchNormBackward {
        /// As in [`BatchNorm`].
        training: bool,
    }

    /// `RowNorm`: rows of adjacent elements, each less its mean over its standard deviation, or over
    /// its root mean square.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::RowNorm { rows: 8, n: 64, groups: 1, spread: 1, eps: 1e-5, centred: true };
    /// assert_eq!(attrs::display(&call).to_string(), "rows=8, n=64, groups=1, spread=1, eps=1e-5, centred=true");
    /// ```
    RowNorm {
        /// How many rows there are.
        rows: usize,
        /// Elements of a row.
        n: usize,
        /// After how many rows the parameters repeat.
        groups: usize,
        /// How many adjacent elements of a row share a parameter.
        spread: usize,
        /// Added to the variance, or to the mean square.
        eps: f64,
        /// Whether the mean is subtracted.
        centred: bool,
    }

    /// `RowNormBackward`: the gradients of `RowNorm`.
    RowNormBackward {
        /// As in [`RowNorm`].
        rows: usize,
        /// As in [`RowNorm`].
        n: usize,
        /// As in [`RowNorm`].
        groups: usize,
        /// As in [`RowNorm`].
        spread: usize,
        /// As in [`RowNorm`].
        centred: bool,
        /// Whether the input's gradient is wanted.
        input_grad: bool,
        /// Whether those of weight and bias are.
        parameter_grads: bool,
    }
}
