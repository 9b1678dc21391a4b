//! Pooling.

use torsh_tensor::{OutputSize, Result, Sizes, Tensor};

pub use torsh_tensor::{
    AvgPool1dOptions, AvgPool2dOptions, AvgPool3dOptions, AvgPoolOptions, FractionalMaxPoolOptions,
    MaxPool1dOptions, MaxPool2dOptions, MaxPool3dOptions, MaxPoolOptions, MaxUnpoolOptions,
};

use crate::LpPoolOptions;

macro_rules! maxima {
    ($($n:literal $of:literal $max_options:ident $(#[$doc:meta])* $max:ident $(#[$with_doc:meta])* $max_with:ident
        $(#[$indices_doc:meta])* $max_indices:ident $max_method:ident;)*) => {$(
        #[doc = concat!("The greatest element of each window of ", $of, "; the windows lie side by side.")]
        ///
        /// `N` may be missing. Keeps the dtype. An error for other dimensions, and where no window fits.
        ///
        $(#[$doc])*
        #[track_caller]
        pub fn $max(input: &Tensor, kernel_size: impl Into<Sizes<$n>>) -> Result<Tensor> {
            input.$max(kernel_size)
        }

        #[doc = concat!("[`", stringify!($max), "`] with options: `stride`, `padding`, `dilation` and `ceil_mode`.")]
        ///
        /// An error for a padding of more than half a window, and for strides or dilations below 1.
        ///
        $(#[$with_doc])*
        #[track_caller]
        pub fn $max_with(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            options: $max_options,
        ) -> Result<Tensor> {
            input.$max_with(kernel_size, options)
        }

        #[doc = concat!("[`", stringify!($max_with), "`], and where among the elements of its channel each greatest one was found (int64).")]
        ///
        $(#[$indices_doc])*
        #[track_caller]
        pub fn $max_indices(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            options: $max_options,
        ) -> Result<(Tensor, Tensor)> {
            input.$max_method(kernel_size, options)
        }
    )*};
}
maxima! {
    1 "signals `[N, C, L]`" MaxPool1dOptions
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::max_pool1d(&tensor![[[1.0, 3.0, 2.0, 0.0]]], 2)?, tensor![[[3.0, 2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool1d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::MaxPool1dOptions::new().stride(1);
    /// assert_eq!(F::max_pool1d_with(&tensor![[[1.0, 3.0, 2.0, 0.0]]], 2, options)?, tensor![[[3.0, 3.0, 2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool1d_with
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1.0, 3.0, 2.0, 0.0]]];
    /// let (y, at) = F::max_pool1d_with_indices(&x, 2, F::MaxPool1dOptions::new())?;
    /// assert_eq!((y, at), (tensor![[[3.0, 2.0]]], tensor![[[1, 2]]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool1d_with_indices
    max_pool1d_indices;
    2 "images `[N, C, H, W]`" MaxPool2dOptions
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]]];
    /// assert_eq!(F::max_pool2d(&x, 2)?, tensor![[[[4.0, 8.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool2d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[[1.0, 2.0, 5.0], [3.0, 4.0, 0.0]]]];
    /// let options = F::MaxPool2dOptions::new().stride(1);
    /// assert_eq!(F::max_pool2d_with(&x, 2, options)?, tensor![[[[4.0, 5.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool2d_with
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[[1.0, 2.0], [3.0, 4.0]]]];
    /// let (y, at) = F::max_pool2d_with_indices(&x, 2, F::MaxPool2dOptions::new())?;
    /// assert_eq!((y, at), (tensor![[[[4.0]]]], tensor![[[[3]]]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool2d_with_indices
    max_pool2d_indices;
    3 "volumes `[N, C, D, H, W]`" MaxPool3dOptions
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[[[1.0, 2.0]], [[3.0, 4.0]]]]];
    /// assert_eq!(F::max_pool3d(&x, (2, 1, 1))?, tensor![[[[[3.0, 4.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool3d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[[[1.0, 3.0, 2.0]]]]];
    /// let options = F::MaxPool3dOptions::new().stride(1);
    /// assert_eq!(F::max_pool3d_with(&x, (1, 1, 2), options)?, tensor![[[[[3.0, 3.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool3d_with
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[[[1.0, 2.0]], [[3.0, 4.0]]]]];
    /// let (y, at) = F::max_pool3d_with_indices(&x, (2, 1, 2), F::MaxPool3dOptions::new())?;
    /// assert_eq!((y, at), (tensor![[[[[4.0]]]]], tensor![[[[[3]]]]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_pool3d_with_indices
    max_pool3d_indices;
}

macro_rules! averages {
    ($($n:literal $of:literal $avg_options:ident $(#[$doc:meta])* $avg:ident $(#[$with_doc:meta])* $avg_with:ident;)*) => {$(
        #[doc = concat!("The average of each window of ", $of, "; the windows lie side by side.")]
        ///
        /// `N` may be missing. Keeps the dtype. An error for other dimensions, and where no window fits.
        ///
        $(#[$doc])*
        #[track_caller]
        pub fn $avg(input: &Tensor, kernel_size: impl Into<Sizes<$n>>) -> Result<Tensor> {
            input.$avg(kernel_size)
        }

        #[doc = concat!("[`", stringify!($avg), "`] with options: `stride`, `padding`, `ceil_mode`, `count_include_pad` and `divisor_override`.")]
        ///
        /// An error for a padding of more than half a window, and for strides below 1.
        ///
        $(#[$with_doc])*
        #[track_caller]
        pub fn $avg_with(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            options: $avg_options,
        ) -> Result<Tensor> {
            input.$avg_with(kernel_size, options)
        }
    )*};
}
averages! {
    1 "signals `[N, C, L]`" AvgPool1dOptions
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::avg_pool1d(&tensor![[[1.0, 3.0, 5.0, 7.0]]], 2)?, tensor![[[2.0, 6.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    avg_pool1d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::AvgPool1dOptions::new().padding(1).count_include_pad(false);
    /// assert_eq!(F::avg_pool1d_with(&tensor![[[1.0, 3.0]]], 2, options)?, tensor![[[1.0, 3.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    avg_pool1d_with;
    2 "images `[N, C, H, W]`" AvgPool2dOptions
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::avg_pool2d(&tensor![[[[1.0, 2.0], [3.0, 6.0]]]], 2)?, tensor![[[[3.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    avg_pool2d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::AvgPool2dOptions::new().divisor_override(1);
    /// assert_eq!(F::avg_pool2d_with(&tensor![[[[1.0, 2.0], [3.0, 6.0]]]], 2, options)?, tensor![[[[12.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    avg_pool2d_with;
    3 "volumes `[N, C, D, H, W]`" AvgPool3dOptions
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::avg_pool3d(&tensor![[[[[1.0, 2.0]], [[3.0, 6.0]]]]], (2, 1, 1))?, tensor![[[[[2.0, 4.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    avg_pool3d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::AvgPool3dOptions::new().stride(1);
    /// assert_eq!(F::avg_pool3d_with(&tensor![[[[[1.0, 3.0, 5.0]]]]], (1, 1, 2), options)?, tensor![[[[[2.0, 4.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    avg_pool3d_with;
}

macro_rules! adaptive_maxima {
    ($($n:literal $of:literal $(#[$doc:meta])* $adaptive_max:ident $(#[$indices_doc:meta])* $adaptive_indices:ident $adaptive_method:ident;)*) => {$(
        #[doc = concat!("The greatest elements of `output_size` parts, of about equal size, of ", $of, "; `None` keeps a size.")]
        ///
        /// `N` may be missing. Keeps the dtype. An error for other dimensions, and for a negative size.
        ///
        $(#[$doc])*
        #[track_caller]
        pub fn $adaptive_max(
            input: &Tensor,
            output_size: impl Into<OutputSize<$n>>,
        ) -> Result<Tensor> {
            input.$adaptive_max(output_size)
        }

        #[doc = concat!("[`", stringify!($adaptive_max), "`], and where among the elements of its channel each was found (int64).")]
        ///
        $(#[$indices_doc])*
        #[track_caller]
        pub fn $adaptive_indices(
            input: &Tensor,
            output_size: impl Into<OutputSize<$n>>,
        ) -> Result<(Tensor, Tensor)> {
            input.$adaptive_method(output_size)
        }
    )*};
}
adaptive_maxima! {
    1 "signals `[N, C, L]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::adaptive_max_pool1d(&tensor![[[1.0, 3.0, 2.0, 0.0]]], 2)?, tensor![[[3.0, 2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_max_pool1d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let (y, at) = F::adaptive_max_pool1d_with_indices(&tensor![[[1.0, 3.0, 2.0, 0.0]]], 2)?;
    /// assert_eq!((y, at), (tensor![[[3.0, 2.0]]], tensor![[[1, 2]]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_max_pool1d_with_indices
    adaptive_max_pool1d_indices;
    2 "images `[N, C, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::adaptive_max_pool2d(&tensor![[[[1.0, 2.0], [3.0, 4.0]]]], [Some(1), None])?, tensor![[[[3.0, 4.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_max_pool2d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let (y, at) = F::adaptive_max_pool2d_with_indices(&tensor![[[[1.0, 2.0], [3.0, 4.0]]]], 1)?;
    /// assert_eq!((y, at), (tensor![[[[4.0]]]], tensor![[[[3]]]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_max_pool2d_with_indices
    adaptive_max_pool2d_indices;
    3 "volumes `[N, C, D, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::adaptive_max_pool3d(&tensor![[[[[1.0, 2.0]], [[3.0, 4.0]]]]], 1)?, tensor![[[[[4.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_max_pool3d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let (y, at) = F::adaptive_max_pool3d_with_indices(&tensor![[[[[1.0, 2.0]], [[3.0, 4.0]]]]], 1)?;
    /// assert_eq!((y, at), (tensor![[[[[4.0]]]]], tensor![[[[[3]]]]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_max_pool3d_with_indices
    adaptive_max_pool3d_indices;
}

macro_rules! adaptive_averages {
    ($($n:literal $of:literal $(#[$doc:meta])* $adaptive_avg:ident;)*) => {$(
        #[doc = concat!("The averages of `output_size` parts, of about equal size, of ", $of, "; `None` keeps a size.")]
        ///
        /// `N` may be missing. Keeps the dtype. An error for other dimensions, and for a negative size.
        ///
        $(#[$doc])*
        #[track_caller]
        pub fn $adaptive_avg(
            input: &Tensor,
            output_size: impl Into<OutputSize<$n>>,
        ) -> Result<Tensor> {
            input.$adaptive_avg(output_size)
        }
    )*};
}
adaptive_averages! {
    1 "signals `[N, C, L]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::adaptive_avg_pool1d(&tensor![[[1.0, 3.0, 5.0, 7.0]]], 2)?, tensor![[[2.0, 6.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_avg_pool1d;
    2 "images `[N, C, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::adaptive_avg_pool2d(&tensor![[[[1.0, 2.0], [3.0, 6.0]]]], 1)?, tensor![[[[3.0]]]]);
    /// assert_eq!(F::adaptive_avg_pool2d(&tensor![[[[1.0, 2.0], [3.0, 6.0]]]], [Some(1), None])?, tensor![[[[2.0, 4.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_avg_pool2d;
    3 "volumes `[N, C, D, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::adaptive_avg_pool3d(&tensor![[[[[1.0, 2.0]], [[3.0, 6.0]]]]], 1)?, tensor![[[[[3.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    adaptive_avg_pool3d;
}

macro_rules! norms {
    ($($n:literal $of:literal $(#[$doc:meta])* $lp:ident $(#[$with_doc:meta])* $lp_with:ident;)*) => {$(
        #[doc = concat!("The p-norm, for p = `norm_type`, of each window of ", $of, "; the windows lie side by side.")]
        ///
        /// `N` may be missing. Keeps the dtype. An error for other dimensions, and where no window fits.
        ///
        $(#[$doc])*
        #[track_caller]
        pub fn $lp(
            input: &Tensor,
            norm_type: f64,
            kernel_size: impl Into<Sizes<$n>>,
        ) -> Result<Tensor> {
            input.$lp(norm_type, kernel_size)
        }

        #[doc = concat!("[`", stringify!($lp), "`] with options: `stride` and `ceil_mode`.")]
        ///
        $(#[$with_doc])*
        #[track_caller]
        pub fn $lp_with(
            input: &Tensor,
            norm_type: f64,
            kernel_size: impl Into<Sizes<$n>>,
            options: LpPoolOptions<$n>,
        ) -> Result<Tensor> {
            input.$lp_with(norm_type, kernel_size, options.stride, options.ceil_mode)
        }

    )*};
}
norms! {
    1 "signals `[N, C, L]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::lp_pool1d(&tensor![[[3.0, 4.0, 6.0, 8.0]]], 2.0, 2)?.allclose(&tensor![[[5.0, 10.0]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    lp_pool1d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LpPoolOptions::default().stride(1);
    /// assert!(F::lp_pool1d_with(&tensor![[[1.0, 2.0, 3.0]]], 1.0, 2, options)?.allclose(&tensor![[[3.0, 5.0]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    lp_pool1d_with;
    2 "images `[N, C, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::lp_pool2d(&tensor![[[[1.0, 5.0], [5.0, 7.0]]]], 2.0, 2)?.allclose(&tensor![[[[10.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    lp_pool2d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LpPoolOptions::default().stride(1);
    /// assert!(F::lp_pool2d_with(&tensor![[[[3.0, 4.0, 3.0]]]], 2.0, (1, 2), options)?.allclose(&tensor![[[[5.0, 5.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    lp_pool2d_with;
    3 "volumes `[N, C, D, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert!(F::lp_pool3d(&tensor![[[[[3.0]], [[4.0]]]]], 2.0, (2, 1, 1))?.allclose(&tensor![[[[[5.0]]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    lp_pool3d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::LpPoolOptions::default().stride(1);
    /// assert!(F::lp_pool3d_with(&tensor![[[[[3.0, 4.0, 3.0]]]]], 2.0, (1, 1, 2), options)?.allclose(&tensor![[[[[5.0, 5.0]]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    lp_pool3d_with;
}

macro_rules! unpoolings {
    ($($n:literal $of:literal $(#[$doc:meta])* $unpool:ident $(#[$with_doc:meta])* $unpool_with:ident;)*) => {$(
        #[doc = concat!("Puts the greatest elements of ", $of, " back where pooling found them, among zeros.")]
        ///
        /// `indices` are the int64 positions that pooling gave, in the shape of `input`; `N` may be missing. An error for
        /// other shapes or dtypes, and for positions outside the result.
        ///
        $(#[$doc])*
        #[track_caller]
        pub fn $unpool(
            input: &Tensor,
            indices: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
        ) -> Result<Tensor> {
            input.$unpool(indices, kernel_size)
        }

        #[doc = concat!("[`", stringify!($unpool), "`] with options: `stride`, `padding` and `output_size`.")]
        ///
        $(#[$with_doc])*
        #[track_caller]
        pub fn $unpool_with(
            input: &Tensor,
            indices: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            options: MaxUnpoolOptions<$n>,
        ) -> Result<Tensor> {
            input.$unpool_with(indices, kernel_size, options)
        }
    )*};
}
unpoolings! {
    1 "signals `[N, C, L]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let y = F::max_unpool1d(&tensor![[[3.0, 2.0]]], &tensor![[[1, 2]]], 2)?;
    /// assert_eq!(y, tensor![[[0.0, 3.0, 2.0, 0.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_unpool1d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::MaxUnpoolOptions::new().output_size([5]);
    /// let y = F::max_unpool1d_with(&tensor![[[3.0, 2.0]]], &tensor![[[1, 2]]], 2, options)?;
    /// assert_eq!(y, tensor![[[0.0, 3.0, 2.0, 0.0, 0.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_unpool1d_with;
    2 "images `[N, C, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let y = F::max_unpool2d(&tensor![[[[4.0]]]], &tensor![[[[3]]]], 2)?;
    /// assert_eq!(y, tensor![[[[0.0, 0.0], [0.0, 4.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_unpool2d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::MaxUnpoolOptions::new().output_size([2, 3]);
    /// let y = F::max_unpool2d_with(&tensor![[[[4.0]]]], &tensor![[[[4]]]], 2, options)?;
    /// assert_eq!(y, tensor![[[[0.0, 0.0, 0.0], [0.0, 4.0, 0.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_unpool2d_with;
    3 "volumes `[N, C, D, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let y = F::max_unpool3d(&tensor![[[[[4.0]]]]], &tensor![[[[[1]]]]], (1, 1, 2))?;
    /// assert_eq!(y, tensor![[[[[0.0, 4.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_unpool3d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::MaxUnpoolOptions::new().output_size([1, 1, 3]);
    /// let y = F::max_unpool3d_with(&tensor![[[[[4.0]]]]], &tensor![[[[[1]]]]], (1, 1, 2), options)?;
    /// assert_eq!(y, tensor![[[[[0.0, 4.0, 0.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    max_unpool3d_with;
}

macro_rules! fractional {
    ($($n:literal $of:literal $(#[$doc:meta])* $pool:ident $(#[$with_doc:meta])* $pool_with:ident
        $(#[$indices_doc:meta])* $pool_indices:ident $method:ident;)*) => {$(
        #[doc = concat!("The greatest elements of `output_size` windows at random places of ", $of, ".")]
        ///
        /// `N` may be missing. Keeps the dtype. An error for other dimensions, and where the windows do not fit.
        ///
        $(#[$doc])*
        #[torsh_tensor::names_caller]
        pub fn $pool(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            output_size: impl Into<Sizes<$n>>,
        ) -> Result<Tensor> {
            let options = FractionalMaxPoolOptions::new().output_size(output_size);
            Ok(input.$method(kernel_size, options)?.0)
        }

        #[doc = concat!("[`", stringify!($pool), "`] with options: `output_size` or `output_ratio`, one of which must be set, and `random_samples`.")]
        ///
        $(#[$with_doc])*
        #[torsh_tensor::names_caller]
        pub fn $pool_with(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            options: FractionalMaxPoolOptions<$n>,
        ) -> Result<Tensor> {
            Ok(input.$method(kernel_size, options)?.0)
        }

        #[doc = concat!("[`", stringify!($pool_with), "`], and where among the elements of its channel each was found (int64).")]
        ///
        $(#[$indices_doc])*
        #[track_caller]
        pub fn $pool_indices(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            options: FractionalMaxPoolOptions<$n>,
        ) -> Result<(Tensor, Tensor)> {
            input.$method(kernel_size, options)
        }
    )*};
}
fractional! {
    2 "images `[N, C, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// // One window of the image's size has one place.
    /// assert_eq!(F::fractional_max_pool2d(&tensor![[[[1.0, 2.0], [3.0, 4.0]]]], 2, 1)?, tensor![[[[4.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fractional_max_pool2d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::FractionalMaxPoolOptions::new().output_ratio([0.5, 0.5]);
    /// assert_eq!(F::fractional_max_pool2d_with(&tensor![[[[1.0, 2.0], [3.0, 4.0]]]], 2, options)?, tensor![[[[4.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fractional_max_pool2d_with
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::FractionalMaxPoolOptions::new().output_size(1);
    /// let x = tensor![[[[1.0, 2.0], [3.0, 4.0]]]];
    /// assert_eq!(F::fractional_max_pool2d_with_indices(&x, 2, options)?, (tensor![[[[4.0]]]], tensor![[[[3]]]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fractional_max_pool2d_with_indices
    fractional_max_pool2d_indices;
    3 "volumes `[N, C, D, H, W]`"
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::fractional_max_pool3d(&tensor![[[[[1.0, 2.0]], [[3.0, 4.0]]]]], (2, 1, 2), 1)?, tensor![[[[[4.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fractional_max_pool3d
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::FractionalMaxPoolOptions::new().output_size(1);
    /// let x = tensor![[[[[1.0, 2.0]], [[3.0, 4.0]]]]];
    /// assert_eq!(F::fractional_max_pool3d_with(&x, (2, 1, 2), options)?, tensor![[[[[4.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fractional_max_pool3d_with
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// let options = F::FractionalMaxPoolOptions::new().output_size(1);
    /// let x = tensor![[[[[1.0, 2.0]], [[3.0, 4.0]]]]];
    /// assert_eq!(F::fractional_max_pool3d_with_indices(&x, (2, 1, 2), options)?, (tensor![[[[[4.0]]]]], tensor![[[[[3]]]]]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fractional_max_pool3d_with_indices
    fractional_max_pool3d_indices;
}
