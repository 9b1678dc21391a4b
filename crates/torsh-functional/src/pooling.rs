//! Pooling at random places without the positions.

use torsh_tensor::{FractionalMaxPoolOptions, Result, Sizes, Tensor};

macro_rules! fractional {
    ($($n:literal $of:literal $(#[$doc:meta])* $pool:ident $(#[$with_doc:meta])* $pool_with:ident
        $method:ident;)*) => {$(
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
    fractional_max_pool3d_indices;
}
