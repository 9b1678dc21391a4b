//! The settings of a parameter group, by field and by PyTorch's name.

use torsh_tensor::{Result, TorshError};

use crate::StateValue;

/// The settings of an optimizer: a struct with PyTorch's field names.
pub trait Options: Clone + Default + Send + 'static {
    /// The names, in PyTorch's order.
    const NAMES: &'static [&'static str];
    /// A setting by name.
    fn get(&self, name: &str) -> Option<StateValue>;
    /// Changes a setting; an error where there is none of this name, or the value does not fit.
    fn set(&mut self, name: &str, value: &StateValue) -> Result<()>;
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Changes the learning rate.
    fn set_lr(&mut self, lr: f64);
    /// An error where a value is out of range.
    fn validate(&self) -> Result<()>;
}

/// What a setting may be.
pub(crate) trait Setting: Sized {
    fn to_value(&self) -> StateValue;
    fn from_value(v: &StateValue) -> Option<Self>;
}

impl Setting for f64 {
    fn to_value(&self) -> StateValue {
        StateValue::Float(*self)
    }
    fn from_value(v: &StateValue) -> Option<f64> {
        v.as_f64()
    }
}

impl Setting for bool {
    fn to_value(&self) -> StateValue {
        StateValue::Bool(*self)
    }
    fn from_value(v: &StateValue) -> Option<bool> {
        v.as_bool()
    }
}

impl Setting for (f64, f64) {
    fn to_value(&self) -> StateValue {
        StateValue::Floats(vec![self.0, self.1])
    }
    fn from_value(v: &StateValue) -> Option<(f64, f64)> {
        match v.as_floats()? {
            [a, b] => Some((*a, *b)),
            _ => None,
        }
    }
}

#[cold]
pub(crate) fn bad_setting(
    optimizer: &'static str,
    name: &str,
    value: &StateValue,
    names: &[&str],
) -> TorshError {
    if names.contains(&name) {
        TorshError::invalid(optimizer, format!("the setting {name} cannot be {value:?}"))
    } else {
        TorshError::invalid(optimizer, format!("there is no setting {name}"))
            .with_hint(format!("the settings are {}", names.join(", ")))
    }
}

/// An error unless `ok`.
pub(crate) fn require(
    optimizer: &'static str,
    ok: bool,
    message: impl FnOnce() -> String,
) -> Result<()> {
    if ok {
        Ok(())
    } else {
        Err(TorshError::invalid(optimizer, message()))
    }
}

/// The checks that most optimizers share.
pub(crate) fn check_common(optimizer: &'static str, lr: f64, weight_decay: f64) -> Result<()> {
    require(optimizer, lr >= 0.0, || {
        format!("Invalid learning rate: {lr} (must be 0 or more)")
    })?;
    require(optimizer, weight_decay >= 0.0, || {
        format!("Invalid weight_decay value: {weight_decay} (must be 0 or more)")
    })
}

/// Defines the settings of an optimizer, and a builder method for each. A field's type is `f64`,
/// `bool` or `pair`.
macro_rules! options {
    (
        $(#[$meta:meta])*
        $options:ident of $algorithm:ident ($torch:literal) {
            $($(#[doc = $doc:literal])+ $name:ident: $kind:ident = $default:expr;)+
        }
        validate |$o:ident| $validate:expr
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub struct $options {
            $($(#[doc = $doc])+ pub $name: crate::options::options!(@type $kind),)+
        }

        impl Default for $options {
            fn default() -> Self {
                $options { $($name: $default,)+ }
            }
        }

        impl crate::Options for $options {
            const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            fn get(&self, name: &str) -> Option<crate::StateValue> {
                match name {
                    $(stringify!($name) => Some(crate::options::Setting::to_value(&self.$name)),)+
                    _ => None,
                }
            }

            fn set(&mut self, name: &str, value: &crate::StateValue) -> torsh_tensor::Result<()> {
                match name {
                    $(stringify!($name) => {
                        if let Some(v) = crate::options::Setting::from_value(value) {
                            self.$name = v;
                            return Ok(());
                        }
                    })+
                    _ => {}
                }
                Err(crate::options::bad_setting($torch, name, value, Self::NAMES))
            }

            fn lr(&self) -> f64 {
                self.lr
            }

            fn set_lr(&mut self, lr: f64) {
                self.lr = lr;
            }

            fn validate(&self) -> torsh_tensor::Result<()> {
                let $o = self;
                $validate
            }
        }

        impl crate::Builder<$algorithm> {
            $(crate::options::options!(@setter $kind $name $($doc)+);)+
        }
    };
    (@type f64) => { f64 };
    (@type bool) => { bool };
    (@type pair) => { (f64, f64) };
    (@setter f64 $name:ident $($doc:literal)+) => {
        $(#[doc = $doc])+
        pub fn $name(mut self, $name: f64) -> Self {
            self.options.$name = $name;
            self
        }
    };
    (@setter bool $name:ident $($doc:literal)+) => {
        $(#[doc = $doc])+
        pub fn $name(mut self, $name: bool) -> Self {
            self.options.$name = $name;
            self
        }
    };
    (@setter pair $name:ident $($doc:literal)+) => {
        $(#[doc = $doc])+
        pub fn $name(mut self, first: f64, second: f64) -> Self {
            self.options.$name = (first, second);
            self
        }
    };
}
pub(crate) use options;
