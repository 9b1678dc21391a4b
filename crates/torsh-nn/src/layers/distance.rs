//! Distances of vectors.

use torsh_functional::{self as F, CosineSimilarityOptions, PairwiseDistanceOptions};
use torsh_tensor::{Result, Tensor};

use crate::Module;
use crate::layers::needs_more;
use crate::module::{Hooks, Training};

macro_rules! distances {
    ($($(#[$doc:meta])* $name:ident $function:ident $options:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Module, Default)]
        pub struct $name {
            #[module(skip)]
            options: $options,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// The layer with PyTorch's defaults.
            pub fn new() -> $name {
                $name::default()
            }

            /// The layer with PyTorch's other arguments.
            pub fn with(options: $options) -> $name {
                $name { options, ..$name::default() }
            }

            #[doc = concat!("[`F::", stringify!($function), "`](torsh_functional::", stringify!($function), ") of two tensors, whose shapes broadcast.")]
            #[torsh_tensor::names_caller]
            pub fn forward_with(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
                self.hooks.run_many(self, [x1, x2], |[x1, x2]| F::$function(x1, x2, self.options.clone()))
            }

            /// As [`forward_with`](Self::forward_with).
            #[torsh_tensor::names_caller]
            pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
                self.forward_with(x1, x2)
            }
        }

        impl Module for $name {
            /// An error: a distance is of two tensors.
            #[torsh_tensor::names_caller]
            fn forward(&self, _x: &Tensor) -> Result<Tensor> {
                Err(needs_more(stringify!($name), "forward_with(&x1, &x2)"))
            }
        }
    )*};
}

distances! {
    /// The cosine of the angle between vectors along a dimension (`torch.nn.CosineSimilarity`).
    ///
    /// ```
    /// use torsh_nn::CosineSimilarity;
    /// use torsh_tensor::tensor;
    /// let y = CosineSimilarity::new().forward_with(&tensor![[2.0, 0.0]], &tensor![[0.0, 3.0]])?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CosineSimilarity cosine_similarity_with CosineSimilarityOptions;
    /// The p-norm of the differences of vectors along the last dimension
    /// (`torch.nn.PairwiseDistance`).
    ///
    /// ```
    /// use torsh_functional::PairwiseDistanceOptions;
    /// use torsh_nn::PairwiseDistance;
    /// use torsh_tensor::tensor;
    /// let layer = PairwiseDistance::with(PairwiseDistanceOptions::default().p(1.0).eps(0.0));
    /// let y = layer.forward_with(&tensor![[2.0, 0.0]], &tensor![[0.0, 3.0]])?;
    /// assert_eq!(y.to_vec::<f32>()?, [5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    PairwiseDistance pairwise_distance_with PairwiseDistanceOptions;
}
