//! Builders of layers, and printing a layer's arguments.

use torsh_functional::Sizes;
use torsh_tensor::{Result, Scalar, TorshError};

/// A builder: what must be given, then PyTorch's other arguments with their defaults and a setter
/// each. The layer keeps it.
///
/// A field is `name: type = default;`, with `, argument => conversion` behind the default where
/// its setter takes something else. `infers size: LazyBuilder` makes a builder of the lazy layer
/// too, which finds that size.
///
/// `calls "(3)" shows ["3, eps=1e-05"]` is of the doc test of the builder: its arguments, and what the
/// layer prints in its parentheses. `@ ".eps(0.1)" ["3, eps=0.1"]` ahead of a field is of the
/// setter's. With `before "in_features=" 3` all prints begin so. Where a size is inferred, that is
/// it, a lazy layer prints a 0 there, and `lazily "()"` are the arguments of its builder.
macro_rules! builder {
    ($name:ident of $layer:ident infers $size:ident: $lazy:ident lazily $lazy_call:literal { $($required:ident: $required_ty:ty),* }
        calls $call:literal before $before:literal $given:literal shows [$($shown:expr),+] {
        $($(#[$doc:meta])* $(@ $set:literal [$($text:expr),+])? $field:ident: $ty:ty = $default:expr $(, $arg:ty => $convert:expr)?;)*
    }) => {
        builder! {
            $name of $layer { $($required: $required_ty),* } calls $call before $before $given shows [$($shown),+] {
                $($(#[$doc])* $(@ $set [$($text),+])? $field: $ty = $default $(, $arg => $convert)?;)*
            }
        }

        #[doc = concat!("Builds a [`", stringify!($layer), "`] that finds `", stringify!($size), "` itself.")]
        #[doc = $crate::layers::examples::shows!(
            "Lazy", stringify!($layer), "::builder", $lazy_call, ".build()?";
            "Lazy", stringify!($layer), "(", $before, "0", $($shown),+, ")"
        )]
        #[derive(Clone, Debug)]
        pub struct $lazy($name);

        impl $lazy {
            $($crate::layers::builder::forward_setter! {
                $(#[$doc])*
                $(#[doc = $crate::layers::examples::shows!(
                    "Lazy", stringify!($layer), "::builder", $lazy_call, $set, ".build()?";
                    "Lazy", stringify!($layer), "(", $before, "0", $($text),+, ")"
                )])?
                $field: $ty $(, $arg)?
            })*

            /// Where the layer's tensors are made. The default is the default device.
            #[doc = $crate::layers::examples::shows!(
                "Lazy", stringify!($layer), "::builder", $lazy_call, ".device(Device::Cpu).build()?";
                "Lazy", stringify!($layer), "(", $before, "0", $($shown),+, ")"
            )]
            #[must_use]
            pub fn device(self, device: impl Into<torsh_tensor::Device>) -> Self {
                Self(self.0.device(device))
            }

            /// The dtype of the layer's tensors. The default is the default dtype.
            #[doc = $crate::layers::examples::shows!(
                "Lazy", stringify!($layer), "::builder", $lazy_call, ".dtype(DType::F64).build()?";
                "Lazy", stringify!($layer), "(", $before, "0", $($shown),+, ")"
            )]
            #[must_use]
            pub fn dtype(self, dtype: torsh_tensor::DType) -> Self {
                Self(self.0.dtype(dtype))
            }

            /// Makes the layer, whose weights are drawn when its input is known. The same errors
            /// as the plain layer's.
            #[doc = $crate::layers::examples::shows!(
                "Lazy", stringify!($layer), "::builder", $lazy_call, ".build()?";
                "Lazy", stringify!($layer), "(", $before, "0", $($shown),+, ")"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> torsh_tensor::Result<$crate::layers::Lazy<$layer>> {
                $crate::layers::Lazy::of(self.0.factory, move |size, factory| {
                    let mut builder = self.0.clone();
                    (builder.$size, builder.factory) = (size, factory);
                    builder.build()
                })
            }
        }
    };
    ($name:ident of $layer:ident { $($required:ident: $required_ty:ty),* }
        calls $call:literal before $before:literal $given:literal shows [$($shown:expr),+] {
        $($(#[$doc:meta])* $(@ $set:literal [$($text:expr),+])? $field:ident: $ty:ty = $default:expr $(, $arg:ty => $convert:expr)?;)*
    }) => {
        builder! {
            $name of $layer { $($required: $required_ty),* } calls $call shows [$before, $given, $($shown),+] {
                $($(#[$doc])* $(@ $set [$before, $given, $($text),+])? $field: $ty = $default $(, $arg => $convert)?;)*
            }
        }
    };
    ($name:ident of $layer:ident { $($required:ident: $required_ty:ty),* } calls $call:literal shows [$($shown:expr),+] {
        $($(#[$doc:meta])* $(@ $set:literal [$($text:expr),+])? $field:ident: $ty:ty = $default:expr $(, $arg:ty => $convert:expr)?;)*
    }) => {
        #[doc = concat!("Builds a [`", stringify!($layer), "`].")]
        #[doc = $crate::layers::examples::shows!(
            stringify!($layer), "::builder", $call, ".build()?"; stringify!($layer), "(", $($shown),+, ")"
        )]
        #[derive(Clone, Debug)]
        pub struct $name {
            $($required: $required_ty,)*
            $($field: $ty,)*
            #[allow(dead_code)]
            factory: $crate::layers::Factory,
        }

        impl $name {
            fn with($($required: $required_ty),*) -> $name {
                $name {
                    $($required,)*
                    $($field: $default,)*
                    factory: $crate::layers::Factory::default(),
                }
            }

            $(torsh_tensor::option_setter! {
                $(#[$doc])*
                $(#[doc = $crate::layers::examples::shows!(
                    stringify!($layer), "::builder", $call, $set, ".build()?"; stringify!($layer), "(", $($text),+, ")"
                )])?
                $field: $ty $(, $arg => $convert)?
            })*
        }
    };
}

/// A setter that is another builder's.
macro_rules! forward_setter {
    ($(#[$doc:meta])* $field:ident: $ty:ty) => {
        $crate::layers::builder::forward_setter! { $(#[$doc])* $field: $ty, $ty }
    };
    ($(#[$doc:meta])* $field:ident: $ty:ty, $arg:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $field(self, $field: $arg) -> Self {
            Self(self.0.$field($field))
        }
    };
}

/// A layer without parameters: what it was built from, and its computation.
macro_rules! stateless {
    ($(#[$doc:meta])* $name:ident $builder:ident |$self:ident, $x:ident| $forward:expr, $repr:expr) => {
        $(#[$doc])*
        #[derive($crate::Module)]
        pub struct $name {
            #[module(skip)]
            options: $builder,
            training: $crate::Training,
            hooks: $crate::Hooks,
        }

        impl $name {
            fn of(options: $builder) -> $name {
                $name {
                    options,
                    training: $crate::Training::default(),
                    hooks: $crate::Hooks::new(),
                }
            }
        }

        impl $crate::Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&$self, x: &torsh_tensor::Tensor) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                $self.hooks.run($self, x, |$x| $forward)
            }

            fn extra_repr(&$self) -> String {
                $repr
            }
        }
    };
}

pub(super) use {builder, forward_setter, stateless};

/// An error where one of the sizes is not positive.
#[track_caller]
pub(super) fn positive<const N: usize>(
    layer: &'static str,
    sizes: &[(&str, Sizes<N>)],
) -> Result<()> {
    match sizes.iter().find(|(_, s)| s.0.iter().any(|&v| v <= 0)) {
        None => Ok(()),
        Some((name, size)) => Err(TorshError::invalid(
            layer,
            format!("{name} must be positive, got {size}"),
        )),
    }
}

/// An error where one of the sizes is negative.
#[track_caller]
pub(super) fn not_negative<const N: usize>(
    layer: &'static str,
    name: &str,
    size: Sizes<N>,
) -> Result<()> {
    match size.0.iter().all(|&v| v >= 0) {
        true => Ok(()),
        false => Err(TorshError::invalid(
            layer,
            format!("{name} must not be negative, got {size}"),
        )),
    }
}

/// Sizes as PyTorch prints what was given: one number where all are equal.
pub(super) fn compact<const N: usize>(s: Sizes<N>) -> String {
    if s.0.iter().all(|v| *v == s.0[0]) {
        s.0[0].to_string()
    } else {
        s.to_string()
    }
}

/// A tuple as Python prints it.
pub(super) fn tuple<T: ToString>(items: &[T]) -> String {
    let text: Vec<String> = items.iter().map(T::to_string).collect();
    match text.len() {
        1 => format!("({},)", text.concat()),
        _ => format!("({})", text.join(", ")),
    }
}

/// A number as Python prints it.
pub(super) fn number(v: Scalar) -> String {
    match v {
        Scalar::Float(v) => super::python_float(v),
        Scalar::Bool(b) => super::python(b).into(),
        v => v.to_string(),
    }
}
