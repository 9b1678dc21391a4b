//! Pooling to a given size.

use torsh_functional::{self as F, OutputSize};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::Module;
use crate::layers::builder::tuple;
use crate::layers::examples::{shows, tests, unsqueezed};
use crate::module::{Hooks, Training};

/// The size as PyTorch prints what was given.
fn print<const N: usize>(size: OutputSize<N>) -> String {
    if let [Some(n), rest @ ..] = &size.0[..]
        && rest.iter().all(|m| m == &Some(*n))
    {
        return n.to_string();
    }
    let each = |n: &Option<i64>| n.map_or("None".to_string(), |n| n.to_string());
    tuple(&size.0.iter().map(each).collect::<Vec<_>>())
}

macro_rules! adaptive {
    ($($(#[$doc:meta])* $name:ident $n:tt $function:ident $($indices:ident)?;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            output_size: OutputSize<$n>,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// Results of this size; `None` keeps the input's. An error for a negative one.
            #[doc = shows!(stringify!($name), "::new(2)?"; stringify!($name), "(output_size=2)")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(output_size: impl Into<OutputSize<$n>>) -> Result<$name> {
                let output_size = output_size.into();
                if output_size.0.iter().flatten().any(|&n| n < 0) {
                    return Err(TorshError::invalid(
                        stringify!($name),
                        format!("output_size must not be negative, got {}", print(output_size)),
                    ));
                }
                Ok($name {
                    output_size,
                    training: Training::default(),
                    hooks: Hooks::new(),
                })
            }

            $(
                /// The greatest elements, and where each was found among the elements of its
                /// channel (`return_indices=True`).
                #[doc = tests!(
                    "let layer = ", stringify!($name), "::new(1)?;\n",
                    "let (y, indices) = layer.forward_with_indices(&tensor![[1.0, 5.0, 3.0]]", unsqueezed!($n), ")?;\n",
                    "assert_eq!(y.flatten(0)?, tensor![5.0]);\nassert_eq!(indices.flatten(0)?, tensor![1]);"
                )]
                #[track_caller]
                pub fn forward_with_indices(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
                    F::$indices(x, self.output_size)
                }
            )?
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| F::$function(x, self.output_size))
            }

            fn extra_repr(&self) -> String {
                format!("output_size={}", print(self.output_size))
            }
        }
    )*};
}

adaptive! {
    /// The averages of as many parts of a signal, of about equal size, as wanted
    /// (`torch.nn.AdaptiveAvgPool1d`). Takes `[N, C, L]` or `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{AdaptiveAvgPool1d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AdaptiveAvgPool1d::new(2)?.forward(&tensor![[1.0, 2.0, 6.0]])?;
    /// assert_eq!(y, tensor![[1.5, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdaptiveAvgPool1d 1 adaptive_avg_pool1d;
    /// The averages of as many parts of an image, of about equal size, as wanted
    /// (`torch.nn.AdaptiveAvgPool2d`). Takes `[N, C, H, W]` or `[C, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{AdaptiveAvgPool2d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AdaptiveAvgPool2d::new((None, 1))?.forward(&tensor![[[1.0, 2.0], [6.0, 8.0]]])?;
    /// assert_eq!(y, tensor![[[1.5], [7.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdaptiveAvgPool2d 2 adaptive_avg_pool2d;
    /// The averages of as many parts of a volume, of about equal size, as wanted
    /// (`torch.nn.AdaptiveAvgPool3d`). Takes `[N, C, D, H, W]` or `[C, D, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{AdaptiveAvgPool3d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AdaptiveAvgPool3d::new(1)?.forward(&tensor![[[[1.0, 2.0], [6.0, 7.0]]]])?;
    /// assert_eq!(y, tensor![[[[4.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdaptiveAvgPool3d 3 adaptive_avg_pool3d;
    /// The greatest elements of as many parts of a signal, of about equal size, as wanted
    /// (`torch.nn.AdaptiveMaxPool1d`). Takes `[N, C, L]` or `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{AdaptiveMaxPool1d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AdaptiveMaxPool1d::new(2)?.forward(&tensor![[1.0, 2.0, 6.0]])?;
    /// assert_eq!(y, tensor![[2.0, 6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdaptiveMaxPool1d 1 adaptive_max_pool1d adaptive_max_pool1d_with_indices;
    /// The greatest elements of as many parts of an image, of about equal size, as wanted
    /// (`torch.nn.AdaptiveMaxPool2d`). Takes `[N, C, H, W]` or `[C, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{AdaptiveMaxPool2d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AdaptiveMaxPool2d::new((1, None))?.forward(&tensor![[[1.0, 9.0], [6.0, 8.0]]])?;
    /// assert_eq!(y, tensor![[[6.0, 9.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdaptiveMaxPool2d 2 adaptive_max_pool2d adaptive_max_pool2d_with_indices;
    /// The greatest elements of as many parts of a volume, of about equal size, as wanted
    /// (`torch.nn.AdaptiveMaxPool3d`). Takes `[N, C, D, H, W]` or `[C, D, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{AdaptiveMaxPool3d, Module};
    /// use torsh_tensor::tensor;
    /// let y = AdaptiveMaxPool3d::new(1)?.forward(&tensor![[[[1.0, 2.0], [6.0, 7.0]]]])?;
    /// assert_eq!(y, tensor![[[[7.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AdaptiveMaxPool3d 3 adaptive_max_pool3d adaptive_max_pool3d_with_indices;
}
