//! Shapes.

use torsh_tensor::{FlattenOptions, IntoDim, IntoDims, IntoShape, Result, Tensor};

/// Dimensions `start_dim` and after as one.
#[track_caller]
pub fn flatten(input: &Tensor, start_dim: impl IntoDim) -> Result<Tensor> {
    input.flatten(start_dim)
}

/// Dimensions `start_dim` to `end_dim` as one.
#[track_caller]
pub fn flatten_with(input: &Tensor, options: FlattenOptions) -> Result<Tensor> {
    input.flatten_dims(options.start_dim, options.end_dim)
}

/// Functions that are methods of the same name.
macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        #[doc = concat!("\n\nThe method [`", stringify!($name), "`](Tensor::", stringify!($name), ").")]
        #[track_caller]
        pub fn $name(input: &Tensor, $($arg: $ty),*) -> Result<Tensor> {
            input.$name($($arg),*)
        }
    )*};
}

methods! {
    /// The elements in another shape.
    reshape(shape: impl IntoShape);
    /// The dimensions in another order.
    permute(dims: impl IntoDims);
    /// Two dimensions exchanged.
    transpose(dim0: impl IntoDim, dim1: impl IntoDim);
    /// Without dimensions of size 1.
    squeeze(dim: impl IntoDims);
    /// With a new dimension of size 1.
    unsqueeze(dim: impl IntoDim);
}
