//! The settings of a parameter group, by field and by PyTorch's name.

use torsh_tensor::{Result, TorshError};

use crate::StateValue;

/// The settings of an optimizer: a struct with PyTorch's field names.
///
/// ```
/// use torsh_optim::{Options, SgdOptions};
/// let mut o = SgdOptions::default();
/// o.set("momentum", &0.9.into())?;
/// assert_eq!(o.momentum, 0.9);
/// assert!(o.set("betas", &0.9.into()).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
        match v.as_floats()?[..] {
            [a, b] => Some((a, b)),
            _ => None,
        }
    }
}

impl Setting for (f64, f64, f64) {
    fn to_value(&self) -> StateValue {
        StateValue::Floats(vec![self.0, self.1, self.2])
    }
    fn from_value(v: &StateValue) -> Option<(f64, f64, f64)> {
        match v.as_floats()?[..] {
            [a, b, c] => Some((a, b, c)),
            _ => None,
        }
    }
}

impl Setting for i64 {
    fn to_value(&self) -> StateValue {
        StateValue::Int(*self)
    }
    fn from_value(v: &StateValue) -> Option<i64> {
        v.as_i64()
    }
}

impl Setting for usize {
    fn to_value(&self) -> StateValue {
        StateValue::Int(*self as i64)
    }
    fn from_value(v: &StateValue) -> Option<usize> {
        usize::try_from(v.as_i64()?).ok()
    }
}

impl Setting for String {
    fn to_value(&self) -> StateValue {
        StateValue::Str(self.clone())
    }
    fn from_value(v: &StateValue) -> Option<String> {
        v.as_str().map(str::to_string)
    }
}

impl<T: Setting> Setting for Option<T> {
    fn to_value(&self) -> StateValue {
        self.as_ref().map_or(StateValue::None, T::to_value)
    }
    fn from_value(v: &StateValue) -> Option<Option<T>> {
        match v {
            StateValue::None => Some(None),
            v => T::from_value(v).map(Some),
        }
    }
}

impl Setting for Vec<f64> {
    fn to_value(&self) -> StateValue {
        StateValue::Floats(self.clone())
    }
    fn from_value(v: &StateValue) -> Option<Vec<f64>> {
        v.as_floats()
    }
}

impl Setting for Vec<i64> {
    fn to_value(&self) -> StateValue {
        StateValue::List(self.iter().map(Setting::to_value).collect())
    }
    fn from_value(v: &StateValue) -> Option<Vec<i64>> {
        match v {
            StateValue::List(v) => v.iter().map(StateValue::as_i64).collect(),
            _ => None,
        }
    }
}

/// Adafactor's two epsilons, of which the first may be left to the dtype.
impl Setting for (Option<f64>, f64) {
    fn to_value(&self) -> StateValue {
        StateValue::List(vec![self.0.to_value(), self.1.to_value()])
    }
    fn from_value(v: &StateValue) -> Option<(Option<f64>, f64)> {
        match v {
            StateValue::Floats(v) => match v[..] {
                [a, b] => Some((Some(a), b)),
                _ => None,
            },
            StateValue::List(v) => match &v[..] {
                [a, b] => Some((Option::from_value(a)?, b.as_f64()?)),
                _ => None,
            },
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
    check_positive(optimizer, "weight_decay", weight_decay)
}

/// The checks of the optimizers with two decaying means.
pub(crate) fn check_adam(
    optimizer: &'static str,
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
) -> Result<()> {
    check_common(optimizer, lr, weight_decay)?;
    check_eps(optimizer, eps)?;
    for (i, b) in [betas.0, betas.1].into_iter().enumerate() {
        require(optimizer, (0.0..1.0).contains(&b), || {
            format!("Invalid beta parameter at index {i}: {b} (must be at least 0 and less than 1)")
        })?;
    }
    Ok(())
}

/// The check of what is added to a denominator.
pub(crate) fn check_eps(optimizer: &'static str, eps: f64) -> Result<()> {
    check_positive(optimizer, "epsilon", eps)
}

/// An error unless a setting is 0 or more.
pub(crate) fn check_positive(optimizer: &'static str, name: &str, value: f64) -> Result<()> {
    require(optimizer, value >= 0.0, || {
        format!("Invalid {name} value: {value} (must be 0 or more)")
    })
}

/// Defines the settings of an optimizer, and a builder method for each. A field's type is `f64`,
/// `bool`, `pair`, `triple`, `count`, `maybe_count`, `word` (which may be left out) or `epsilons`.
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

        impl $options {
            /// PyTorch's defaults.
            pub fn new() -> Self {
                Self::default()
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
    (@type triple) => { (f64, f64, f64) };
    (@type count) => { usize };
    (@type maybe_count) => { Option<usize> };
    (@type word) => { Option<String> };
    (@type epsilons) => { (Option<f64>, f64) };
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
    (@setter triple $name:ident $($doc:literal)+) => {
        $(#[doc = $doc])+
        pub fn $name(mut self, first: f64, second: f64, third: f64) -> Self {
            self.options.$name = (first, second, third);
            self
        }
    };
    (@setter count $name:ident $($doc:literal)+) => {
        $(#[doc = $doc])+
        pub fn $name(mut self, $name: usize) -> Self {
            self.options.$name = $name;
            self
        }
    };
    (@setter maybe_count $name:ident $($doc:literal)+) => {
        $(#[doc = $doc])+
        pub fn $name(mut self, $name: usize) -> Self {
            self.options.$name = Some($name);
            self
        }
    };
    (@setter word $name:ident $($doc:literal)+) => {
        $(#[doc = $doc])+
        pub fn $name(mut self, $name: &str) -> Self {
            self.options.$name = Some($name.to_string());
            self
        }
    };
    (@setter epsilons $name:ident $($doc:literal)+) => {
        $(#[doc = $doc])+
        pub fn $name(mut self, first: impl Into<Option<f64>>, second: f64) -> Self {
            self.options.$name = (first.into(), second);
            self
        }
    };
}
pub(crate) use options;
