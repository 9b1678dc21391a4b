//! Pooling.

use torsh_tensor::{OutputSize, Result, Sizes, Tensor};

pub use torsh_tensor::{
    AvgPool1dOptions, AvgPool2dOptions, AvgPool3dOptions, AvgPoolOptions, FractionalMaxPoolOptions,
    MaxPool1dOptions, MaxPool2dOptions, MaxPool3dOptions, MaxPoolOptions, MaxUnpoolOptions,
};

use crate::LpPoolOptions;

macro_rules! maxima {
    ($($max:ident $max_with:ident $max_indices:ident $max_method:ident $max_options:ident $n:literal $of:literal;)*) => {$(
        #[doc = concat!("The greatest element of each window of ", $of, "; the windows lie side by side.")]
        #[track_caller]
        pub fn $max(input: &Tensor, kernel_size: impl Into<Sizes<$n>>) -> Result<Tensor> {
            input.$max(kernel_size)
        }

        #[doc = concat!("[`", stringify!($max), "`] with options.")]
        #[track_caller]
        pub fn $max_with(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            options: $max_options,
        ) -> Result<Tensor> {
            input.$max_with(kernel_size, options)
        }

        #[doc = concat!("[`", stringify!($max_with), "`], and where among the elements of its channel each greatest one was found.")]
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
    max_pool1d max_pool1d_with max_pool1d_with_indices max_pool1d_indices MaxPool1dOptions 1 "signals `[N, C, L]`";
    max_pool2d max_pool2d_with max_pool2d_with_indices max_pool2d_indices MaxPool2dOptions 2 "images `[N, C, H, W]`";
    max_pool3d max_pool3d_with max_pool3d_with_indices max_pool3d_indices MaxPool3dOptions 3 "volumes `[N, C, D, H, W]`";
}

macro_rules! averages {
    ($($avg:ident $avg_with:ident $avg_options:ident $n:literal $of:literal;)*) => {$(
        #[doc = concat!("The average of each window of ", $of, "; the windows lie side by side.")]
        #[track_caller]
        pub fn $avg(input: &Tensor, kernel_size: impl Into<Sizes<$n>>) -> Result<Tensor> {
            input.$avg(kernel_size)
        }

        #[doc = concat!("[`", stringify!($avg), "`] with options.")]
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
    avg_pool1d avg_pool1d_with AvgPool1dOptions 1 "signals `[N, C, L]`";
    avg_pool2d avg_pool2d_with AvgPool2dOptions 2 "images `[N, C, H, W]`";
    avg_pool3d avg_pool3d_with AvgPool3dOptions 3 "volumes `[N, C, D, H, W]`";
}

macro_rules! adaptive_maxima {
    ($($adaptive_max:ident $adaptive_indices:ident $adaptive_method:ident $n:literal $of:literal;)*) => {$(
        #[doc = concat!("The greatest elements of `output_size` parts, of about equal size, of ", $of, "; `None` keeps a size.")]
        #[track_caller]
        pub fn $adaptive_max(
            input: &Tensor,
            output_size: impl Into<OutputSize<$n>>,
        ) -> Result<Tensor> {
            input.$adaptive_max(output_size)
        }

        #[doc = concat!("[`", stringify!($adaptive_max), "`], and where among the elements of its channel each was found.")]
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
    adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool1d_indices 1 "signals `[N, C, L]`";
    adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool2d_indices 2 "images `[N, C, H, W]`";
    adaptive_max_pool3d adaptive_max_pool3d_with_indices adaptive_max_pool3d_indices 3 "volumes `[N, C, D, H, W]`";
}

macro_rules! adaptive_averages {
    ($($adaptive_avg:ident $n:literal $of:literal;)*) => {$(
        #[doc = concat!("The averages of `output_size` parts, of about equal size, of ", $of, "; `None` keeps a size.")]
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
    adaptive_avg_pool1d 1 "signals `[N, C, L]`";
    adaptive_avg_pool2d 2 "images `[N, C, H, W]`";
    adaptive_avg_pool3d 3 "volumes `[N, C, D, H, W]`";
}

macro_rules! norms {
    ($($lp:ident $lp_with:ident $n:literal $of:literal;)*) => {$(
        #[doc = concat!("The p-norm, for p = `norm_type`, of each window of ", $of, "; the windows lie side by side.")]
        #[track_caller]
        pub fn $lp(
            input: &Tensor,
            norm_type: f64,
            kernel_size: impl Into<Sizes<$n>>,
        ) -> Result<Tensor> {
            input.$lp(norm_type, kernel_size)
        }

        #[doc = concat!("[`", stringify!($lp), "`] with options.")]
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
    lp_pool1d lp_pool1d_with 1 "signals `[N, C, L]`";
    lp_pool2d lp_pool2d_with 2 "images `[N, C, H, W]`";
    lp_pool3d lp_pool3d_with 3 "volumes `[N, C, D, H, W]`";
}

macro_rules! unpoolings {
    ($($unpool:ident $unpool_with:ident $n:literal $of:literal;)*) => {$(
        #[doc = concat!("Puts the greatest elements of ", $of, " back where pooling found them, among zeros.")]
        #[track_caller]
        pub fn $unpool(
            input: &Tensor,
            indices: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
        ) -> Result<Tensor> {
            input.$unpool(indices, kernel_size)
        }

        #[doc = concat!("[`", stringify!($unpool), "`] with options.")]
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
    max_unpool1d max_unpool1d_with 1 "signals `[N, C, L]`";
    max_unpool2d max_unpool2d_with 2 "images `[N, C, H, W]`";
    max_unpool3d max_unpool3d_with 3 "volumes `[N, C, D, H, W]`";
}

macro_rules! fractional {
    ($($pool:ident $pool_with:ident $pool_indices:ident $method:ident $n:literal $of:literal;)*) => {$(
        #[doc = concat!("The greatest elements of `output_size` windows at random places of ", $of, ".")]
        #[track_caller]
        pub fn $pool(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            output_size: impl Into<Sizes<$n>>,
        ) -> Result<Tensor> {
            let options = FractionalMaxPoolOptions::new().output_size(output_size);
            Ok(input.$method(kernel_size, options)?.0)
        }

        #[doc = concat!("[`", stringify!($pool), "`] with options.")]
        #[track_caller]
        pub fn $pool_with(
            input: &Tensor,
            kernel_size: impl Into<Sizes<$n>>,
            options: FractionalMaxPoolOptions<$n>,
        ) -> Result<Tensor> {
            Ok(input.$method(kernel_size, options)?.0)
        }

        #[doc = concat!("[`", stringify!($pool_with), "`], and where among the elements of its channel each was found.")]
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
    fractional_max_pool2d fractional_max_pool2d_with fractional_max_pool2d_with_indices fractional_max_pool2d_indices 2 "images `[N, C, H, W]`";
    fractional_max_pool3d fractional_max_pool3d_with fractional_max_pool3d_with_indices fractional_max_pool3d_indices 3 "volumes `[N, C, D, H, W]`";
}
