//! Shapes.

use torsh_tensor::{FlattenOptions, IntoDim, IntoDims, IntoShape, Result, Tensor};

/// Dimensions `start_dim` and after as one (`torch.flatten`).
///
/// A view where the layout allows it; a 0-d tensor becomes a vector. An error for a dimension out
/// of range.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// assert_eq!(F::flatten(&tensor![[[1, 2]], [[3, 4]]], 1)?, tensor![[1, 2], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn flatten(input: &Tensor, start_dim: impl IntoDim) -> Result<Tensor> {
    input.flatten(start_dim)
}

/// Dimensions `start_dim` to `end_dim` as one; else as [`flatten`].
///
/// An error where `end_dim` comes before `start_dim`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let options = F::FlattenOptions::new().start_dim(0).end_dim(1);
/// assert_eq!(F::flatten_with(&tensor![[[1, 2]], [[3, 4]]], options)?, tensor![[1, 2], [3, 4]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
    /// The elements in another shape (`torch.reshape`).
    ///
    /// A view where the layout allows it, else a copy; one size may be `-1`. An error where the
    /// number of elements differs.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::reshape(&tensor![1, 2, 3, 4, 5, 6], [2, -1])?, tensor![[1, 2, 3], [4, 5, 6]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    reshape(shape: impl IntoShape);
    /// The dimensions in another order (`torch.permute`).
    ///
    /// A view. An error where `dims` does not name every dimension once.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::permute(&tensor![[1, 2, 3], [4, 5, 6]], [1, 0])?, tensor![[1, 4], [2, 5], [3, 6]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    permute(dims: impl IntoDims);
    /// Two dimensions exchanged (`torch.transpose`).
    ///
    /// A view. An error for a dimension out of range.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::transpose(&tensor![[1, 2, 3], [4, 5, 6]], 0, 1)?, tensor![[1, 4], [2, 5], [3, 6]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    transpose(dim0: impl IntoDim, dim1: impl IntoDim);
    /// Without those of the dimensions that have size 1 (`torch.squeeze`).
    ///
    /// A view; dimensions of other sizes stay. An error for a dimension out of range.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::squeeze(&tensor![[1, 2]], 0)?, tensor![1, 2]);
    /// assert_eq!(F::squeeze(&tensor![[1, 2]], 1)?, tensor![[1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    squeeze(dim: impl IntoDims);
    /// With a new dimension of size 1 in place `dim` (`torch.unsqueeze`).
    ///
    /// A view. An error for a place out of range.
    ///
    /// ```
    /// # use torsh_functional as F;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(F::unsqueeze(&tensor![1, 2], 1)?, tensor![[1], [2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    unsqueeze(dim: impl IntoDim);
}
