//! Attributes of pooling and resampling.

use crate::Ints;

crate::attributes! {
    /// `MaxPool`: the greatest element of each window. The lists but the last have a number for
    /// each spatial dimension.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::MaxPool {
    ///     kernel_size: [2].into(), stride: [2].into(), padding: [0].into(), dilation: [1].into(),
    ///     return_indices: false, output_shape: [1, 3, 4].into(),
    /// };
    /// assert_eq!(
    ///     attrs::display(&call).to_string(),
    ///     "kernel_size=[2], stride=[2], padding=[0], dilation=[1], return_indices=false, output_shape=[1, 3, 4]"
    /// );
    /// ```
    MaxPool {
        /// The window's size.
        kernel_size: Ints,
        /// Steps of the window.
        stride: Ints,
        /// Positions on both sides of the image that never win.
        padding: Ints,
        /// Steps between the window's elements.
        dilation: Ints,
        /// Whether the places of the maxima are a second result.
        return_indices: bool,
        /// All sizes of the result.
        output_shape: Ints,
    }

    /// `AdaptiveMaxPool`: the greatest element of each of the windows that share the image.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::AdaptiveMaxPool { spatial: 1, return_indices: true, output_shape: [8, 16, 4].into() };
    /// assert_eq!(attrs::display(&call).to_string(), "spatial=1, return_indices=true, output_shape=[8, 16, 4]");
    /// ```
    AdaptiveMaxPool {
        /// How many of the last dimensions are spatial.
        spatial: usize,
        /// Whether the places of the maxima are a second result.
        return_indices: bool,
        /// All sizes of the result.
        output_shape: Ints,
    }

    /// `MaxPoolBackward`: gradients put where the maxima were, for both maximum poolings.
    MaxPoolBackward {
        /// How many of the last dimensions are spatial.
        spatial: usize,
        /// All sizes of the result, which are those of the pooling's input.
        output_shape: Ints,
    }

    /// `AvgPool`, the average of each window, and its transpose `AvgPoolBackward`. The lists but the
    /// last have a number for each spatial dimension.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::AvgPool {
    ///     kernel_size: [3].into(), stride: [1].into(), padding: [1].into(),
    ///     count_include_pad: false, divisor_override: None, output_shape: [5].into(),
    /// };
    /// assert_eq!(
    ///     attrs::display(&call).to_string(),
    ///     "kernel_size=[3], stride=[1], padding=[1], count_include_pad=false, divisor_override=None, output_shape=[5]"
    /// );
    /// ```
    AvgPool {
        /// The window's size.
        kernel_size: Ints,
        /// Steps of the window.
        stride: Ints,
        /// Zeros on both sides of the image.
        padding: Ints,
        /// Whether a window's zeros outside of the image count in its average.
        count_include_pad: bool,
        /// What sums are divided by, where it is not the number of elements.
        divisor_override: Option<i64>,
        /// All sizes of the result.
        output_shape: Ints,
    }

    /// `AdaptiveAvgPool`, the average of each of the windows that share the image, and its transpose
    /// `AdaptiveAvgPoolBackward`.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::AdaptiveAvgPool { spatial: 2, output_shape: [8, 16, 1, 1].into() };
    /// assert_eq!(attrs::display(&call).to_string(), "spatial=2, output_shape=[8, 16, 1, 1]");
    /// ```
    AdaptiveAvgPool {
        /// How many of the last dimensions are spatial.
        spatial: usize,
        /// All sizes of the result.
        output_shape: Ints,
    }

    /// `Resample`, images in another size, and its transpose `ResampleBackward`.
    Resample {
        /// How elements between those of the image are found.
        mode: ResampleMode,
        /// Whether the middles of the first and last elements stay in place, instead of their outer
        /// edges.
        align_corners: bool,
        /// By what the depth is multiplied, where the caller gave that; else the sizes tell.
        scales_d: Option<f64>,
        /// By what the height is multiplied, as `scales_d`.
        scales_h: Option<f64>,
        /// By what the width is multiplied, as `scales_d`.
        scales_w: Option<f64>,
        /// Whether what becomes smaller is smoothed.
        antialias: bool,
        /// All sizes of the result.
        output_shape: Ints,
    }
}

crate::words! {
    in "torsh_core::attrs";

    /// How `Resample` finds elements between those of the image, along each dimension.
    ResampleMode {
        /// The nearest before.
        Nearest = "nearest",
        /// The nearest to the element's middle.
        NearestExact = "nearest-exact",
        /// Lines between two elements.
        Linear = "linear",
        /// Cubic curves through four elements.
        Cubic = "cubic",
        /// A windowed sinc over six elements; only with antialiasing.
        Lanczos = "lanczos",
    }
}
