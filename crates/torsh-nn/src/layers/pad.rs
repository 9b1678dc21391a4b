//! Padding.

use torsh_functional::{self as F, PadOptions, Sizes};
use torsh_tensor::{Result, Scalar, Tensor};

use crate::Module;
use crate::layers::builder::number;
use crate::layers::examples::shows;
use crate::module::{Hooks, Training};

/// A padding of 2 on both sides of one, two or three dimensions, as it is printed.
macro_rules! sides {
    (2) => {
        "(2, 2)"
    };
    (4) => {
        "(2, 2, 2, 2)"
    };
    (6) => {
        "(2, 2, 2, 2, 2, 2)"
    };
}

macro_rules! paddings {
    ($($(#[$doc:meta])* $name:ident $n:tt $mode:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            padding: Sizes<$n>,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// Adds as much everywhere, or before and behind each dimension, from the last on;
            /// negative sizes cut off.
            #[doc = shows!(stringify!($name), "::new(2)"; stringify!($name), "(", sides!($n), ")")]
            pub fn new(padding: impl Into<Sizes<$n>>) -> $name {
                $name {
                    padding: padding.into(),
                    training: Training::default(),
                    hooks: Hooks::new(),
                }
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| F::pad_with(x, self.padding.0, PadOptions::new().mode($mode)))
            }

            fn extra_repr(&self) -> String {
                self.padding.to_string()
            }
        }
    )*};
}

paddings! {
    /// A signal mirrored at its ends (`torch.nn.ReflectionPad1d`): `[N, C, L]` or `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{Module, ReflectionPad1d};
    /// use torsh_tensor::tensor;
    /// let y = ReflectionPad1d::new((2, 1)).forward(&tensor![[1.0, 2.0, 3.0]])?;
    /// assert_eq!(y, tensor![[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ReflectionPad1d 2 "reflect";
    /// An image mirrored at its edges (`torch.nn.ReflectionPad2d`): `[N, C, H, W]` or `[C, H, W]`,
    /// padded left, right, above and below.
    ///
    /// ```
    /// use torsh_nn::{Module, ReflectionPad2d};
    /// use torsh_tensor::tensor;
    /// let y = ReflectionPad2d::new((1, 0, 0, 1)).forward(&tensor![[[1.0, 2.0], [3.0, 4.0]]])?;
    /// assert_eq!(y, tensor![[[2.0, 1.0, 2.0], [4.0, 3.0, 4.0], [2.0, 1.0, 2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ReflectionPad2d 4 "reflect";
    /// A volume mirrored at its faces (`torch.nn.ReflectionPad3d`): `[N, C, D, H, W]` or
    /// `[C, D, H, W]`, padded left, right, above, below, in front and behind.
    ///
    /// ```
    /// use torsh_nn::{Module, ReflectionPad3d};
    /// use torsh_tensor::tensor;
    /// let y = ReflectionPad3d::new((1, 0, 0, 0, 0, 0)).forward(&tensor![[[[1.0, 2.0]]]])?;
    /// assert_eq!(y, tensor![[[[2.0, 1.0, 2.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ReflectionPad3d 6 "reflect";
    /// A signal whose ends are repeated (`torch.nn.ReplicationPad1d`): `[N, C, L]` or `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{Module, ReplicationPad1d};
    /// use torsh_tensor::tensor;
    /// let y = ReplicationPad1d::new((2, 1)).forward(&tensor![[1.0, 2.0]])?;
    /// assert_eq!(y, tensor![[1.0, 1.0, 1.0, 2.0, 2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ReplicationPad1d 2 "replicate";
    /// An image whose edges are repeated (`torch.nn.ReplicationPad2d`): `[N, C, H, W]` or
    /// `[C, H, W]`, padded left, right, above and below.
    ///
    /// ```
    /// use torsh_nn::{Module, ReplicationPad2d};
    /// use torsh_tensor::tensor;
    /// let y = ReplicationPad2d::new((1, 0, 0, 1)).forward(&tensor![[[1.0, 2.0]]])?;
    /// assert_eq!(y, tensor![[[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ReplicationPad2d 4 "replicate";
    /// A volume whose faces are repeated (`torch.nn.ReplicationPad3d`): `[N, C, D, H, W]` or
    /// `[C, D, H, W]`, padded left, right, above, below, in front and behind.
    ///
    /// ```
    /// use torsh_nn::{Module, ReplicationPad3d};
    /// use torsh_tensor::tensor;
    /// let y = ReplicationPad3d::new((1, 0, 0, 0, 0, 1)).forward(&tensor![[[[1.0, 2.0]]]])?;
    /// assert_eq!(y, tensor![[[[1.0, 1.0, 2.0]], [[1.0, 1.0, 2.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ReplicationPad3d 6 "replicate";
    /// A signal with its other end beyond each (`torch.nn.CircularPad1d`): `[N, C, L]` or
    /// `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{CircularPad1d, Module};
    /// use torsh_tensor::tensor;
    /// let y = CircularPad1d::new((2, 1)).forward(&tensor![[1.0, 2.0, 3.0]])?;
    /// assert_eq!(y, tensor![[2.0, 3.0, 1.0, 2.0, 3.0, 1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CircularPad1d 2 "circular";
    /// An image with its other side beyond each edge (`torch.nn.CircularPad2d`): `[N, C, H, W]` or
    /// `[C, H, W]`, padded left, right, above and below.
    ///
    /// ```
    /// use torsh_nn::{CircularPad2d, Module};
    /// use torsh_tensor::tensor;
    /// let y = CircularPad2d::new((1, 0, 0, 1)).forward(&tensor![[[1.0, 2.0], [3.0, 4.0]]])?;
    /// assert_eq!(y, tensor![[[2.0, 1.0, 2.0], [4.0, 3.0, 4.0], [2.0, 1.0, 2.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CircularPad2d 4 "circular";
    /// A volume with its other side beyond each face (`torch.nn.CircularPad3d`):
    /// `[N, C, D, H, W]` or `[C, D, H, W]`, padded left, right, above, below, in front and behind.
    ///
    /// ```
    /// use torsh_nn::{CircularPad3d, Module};
    /// use torsh_tensor::tensor;
    /// let y = CircularPad3d::new((1, 0, 0, 0, 0, 0)).forward(&tensor![[[[1.0, 2.0]]]])?;
    /// assert_eq!(y, tensor![[[[2.0, 1.0, 2.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CircularPad3d 6 "circular";
    /// Zeros around signals `[.., L]` (`torch.nn.ZeroPad1d`).
    ///
    /// ```
    /// use torsh_nn::{Module, ZeroPad1d};
    /// use torsh_tensor::tensor;
    /// assert_eq!(ZeroPad1d::new((1, 2)).forward(&tensor![5.0])?, tensor![0.0, 5.0, 0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ZeroPad1d 2 "constant";
    /// Zeros around images `[.., H, W]` (`torch.nn.ZeroPad2d`): left, right, above and below.
    ///
    /// ```
    /// use torsh_nn::{Module, ZeroPad2d};
    /// use torsh_tensor::tensor;
    /// let y = ZeroPad2d::new((1, 0, 1, 0)).forward(&tensor![[5.0]])?;
    /// assert_eq!(y, tensor![[0.0, 0.0], [0.0, 5.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ZeroPad2d 4 "constant";
    /// Zeros around volumes `[.., D, H, W]` (`torch.nn.ZeroPad3d`): left, right, above, below, in
    /// front and behind.
    ///
    /// ```
    /// use torsh_nn::{Module, ZeroPad3d};
    /// use torsh_tensor::tensor;
    /// let y = ZeroPad3d::new((0, 1, 0, 0, 1, 0)).forward(&tensor![[[5.0]]])?;
    /// assert_eq!(y, tensor![[[0.0, 0.0]], [[5.0, 0.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ZeroPad3d 6 "constant";
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident $n:tt;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            #[module(skip)]
            padding: Sizes<$n>,
            #[module(skip)]
            value: Scalar,
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// Adds `value` as often everywhere, or before and behind each dimension, from the
            /// last on; negative sizes cut off.
            #[doc = shows!(stringify!($name), "::new(2, 7)"; stringify!($name), "(padding=", sides!($n), ", value=7)")]
            pub fn new(padding: impl Into<Sizes<$n>>, value: impl Into<Scalar>) -> $name {
                $name {
                    padding: padding.into(),
                    value: value.into(),
                    training: Training::default(),
                    hooks: Hooks::new(),
                }
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| {
                    F::pad_with(x, self.padding.0, PadOptions::new().value(self.value))
                })
            }

            fn extra_repr(&self) -> String {
                format!("padding={}, value={}", self.padding, number(self.value))
            }
        }
    )*};
}

constants! {
    /// A number around signals `[.., L]` (`torch.nn.ConstantPad1d`).
    ///
    /// ```
    /// use torsh_nn::{ConstantPad1d, Module};
    /// use torsh_tensor::tensor;
    /// assert_eq!(ConstantPad1d::new((1, 2), 7).forward(&tensor![5.0])?, tensor![7.0, 5.0, 7.0, 7.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ConstantPad1d 2;
    /// A number around images `[.., H, W]` (`torch.nn.ConstantPad2d`): left, right, above and
    /// below.
    ///
    /// ```
    /// use torsh_nn::{ConstantPad2d, Module};
    /// use torsh_tensor::tensor;
    /// let y = ConstantPad2d::new((1, 0, 1, 0), 0.5).forward(&tensor![[5.0]])?;
    /// assert_eq!(y, tensor![[0.5, 0.5], [0.5, 5.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ConstantPad2d 4;
    /// A number around volumes `[.., D, H, W]` (`torch.nn.ConstantPad3d`): left, right, above,
    /// below, in front and behind.
    ///
    /// ```
    /// use torsh_nn::{ConstantPad3d, Module};
    /// use torsh_tensor::tensor;
    /// let y = ConstantPad3d::new((0, 1, 0, 0, 1, 0), 7).forward(&tensor![[[5.0]]])?;
    /// assert_eq!(y, tensor![[[7.0, 7.0]], [[5.0, 7.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ConstantPad3d 6;
}
