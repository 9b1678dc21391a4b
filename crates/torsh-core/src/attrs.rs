//! Attributes: the arguments of a call that are not tensors, as a struct of the kernel with named fields.
//!
//! An op passes its struct by reference ([`Attributes`]), the kernel reads it with
//! [`KernelArgs::attrs`](crate::KernelArgs::attrs), and the recorded graph keeps a copy
//! ([`SavedAttributes`]). A request for a different struct is an error. [`Attributes::fields`] lists the fields by
//! name, which is how calls are printed. [`read`] creates a struct from named fields, which is how a
//! saved call is loaded.
//!
//! ```
//! use torsh_core::attrs::{self, Attributes, Field};
//!
//! let call = attrs::Softmax { dim: 1 };
//! assert_eq!(attrs::display(&call).to_string(), "dim=1");
//! let loaded = attrs::read("Softmax", &[("dim", Field::Int(1))])?;
//! assert_eq!(loaded.get().downcast::<attrs::Softmax>().map(|a| a.dim), Some(1));
//! # Ok::<(), torsh_core::TorshError>(())
//! ```

mod families;
mod saved;
mod values;

use std::any::Any;
use std::fmt;

use smallvec::SmallVec;

use crate::{DType, Device, Generator, Result, Scalar, TorshError};

pub(crate) use families::read_steps;
pub use families::*;
pub use saved::SavedAttributes;
pub use values::{FieldType, Ints};

/// The most numbers that a pointwise row has.
pub const MAX_NUMBERS: usize = 4;

/// What a call is given beside its tensors: one of the structs of this module, or of
/// [`crate::pointwise::numbers`]. Made with [`attributes!`](crate::attributes).
pub trait Attributes: Any + fmt::Debug + Send + Sync {
    /// The struct's name.
    fn name(&self) -> &'static str;
    /// The fields with their names, in the order of the struct.
    fn fields(&self) -> Fields<'_>;
    /// A copy that owns what it holds.
    fn save(&self) -> SavedAttributes;
    /// Writes the numbers of a pointwise row, in its order, and returns how many there are; 0 for
    /// any other struct.
    #[inline]
    fn numbers(&self, to: &mut [Scalar; MAX_NUMBERS]) -> usize {
        let _ = to;
        0
    }
}

/// Names and values of a struct's fields.
pub type Fields<'a> = SmallVec<[(&'static str, Field<'a>); 8]>;

impl dyn Attributes {
    /// The struct, where it is a `T`.
    #[inline]
    pub fn downcast<T: Attributes>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The struct as a `T`.
    ///
    /// # Errors
    /// Where it is another struct: the op's record and its kernel do not go together.
    #[inline]
    pub fn expect<T: Attributes>(&self) -> Result<&T> {
        match self.downcast() {
            Some(a) => Ok(a),
            None => Err(self.mistaken(std::any::type_name::<T>())),
        }
    }

    #[cold]
    fn mistaken(&self, wanted: &str) -> TorshError {
        TorshError::invalid(
            "",
            format!(
                "the call has the attributes {}({}), the kernel reads {}",
                self.name(),
                display(self),
                wanted.rsplit("::").next().unwrap_or(wanted)
            ),
        )
    }

    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<Field<'_>> {
        self.fields()
            .into_iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value)
    }

    /// Whether there is nothing.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.downcast::<Nothing>().is_some()
    }
}

/// The attributes of a call that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

/// The attributes of a call that has none.
pub const NONE: &dyn Attributes = &Nothing;

impl Attributes for Nothing {
    fn name(&self) -> &'static str {
        "Nothing"
    }
    fn fields(&self) -> Fields<'_> {
        Fields::new()
    }
    #[inline]
    fn save(&self) -> SavedAttributes {
        SavedAttributes::NOTHING
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// An optional field that is not given.
    None,
    /// A flag.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A number of any kind.
    Scalar(Scalar),
    /// A list of integers.
    Ints(&'a [i64]),
    /// A list of sizes, or of dimensions counted from the start.
    Sizes(&'a [usize]),
    /// A list of real numbers.
    Floats(&'a [f64]),
    /// An element type.
    DType(DType),
    /// A device.
    Device(Device),
    /// Text: a word, as a reduction's name, or a message.
    Str(&'a str),
    /// Where random numbers come from.
    Generator(&'a Generator),
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::None => f.write_str("None"),
            Field::Bool(v) => write!(f, "{v}"),
            Field::Int(v) => write!(f, "{v}"),
            Field::Float(v) => write!(f, "{v:?}"),
            Field::Scalar(v) => write!(f, "{v}"),
            Field::Ints(v) => write!(f, "{v:?}"),
            Field::Sizes(v) => write!(f, "{v:?}"),
            Field::Floats(v) => write!(f, "{v:?}"),
            Field::DType(v) => write!(f, "{v}"),
            Field::Device(v) => write!(f, "{v}"),
            Field::Str(v) => write!(f, "'{v}'"),
            Field::Generator(_) => f.write_str("generator"),
        }
    }
}

/// Attributes as `dim=1, keepdim=true`.
pub fn display(attrs: &dyn Attributes) -> impl fmt::Display + '_ {
    struct Shown<'a>(&'a dyn Attributes);
    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for (i, (name, value)) in self.0.fields().into_iter().enumerate() {
                let separator = if i == 0 { "" } else { ", " };
                write!(f, "{separator}{name}={value}")?;
            }
            Ok(())
        }
    }
    Shown(attrs)
}

/// Makes a struct of named fields, by its name.
///
/// # Errors
/// Where there is no such struct, or the fields are not its own.
pub fn read(name: &str, fields: &[(&str, Field<'_>)]) -> Result<SavedAttributes> {
    if name == NONE.name() {
        return Ok(SavedAttributes::NOTHING);
    }
    let rows = [
        crate::pointwise::numbers::READERS,
        crate::steps::numbers::READERS,
    ];
    read_from(families::ALL.iter().chain(&rows), name, fields)
}

/// [`read`] from lists of structs.
pub fn read_from<'a>(
    lists: impl IntoIterator<Item = &'a &'a [Reader]>,
    name: &str,
    fields: &[(&str, Field<'_>)],
) -> Result<SavedAttributes> {
    match lists
        .into_iter()
        .flat_map(|l| l.iter())
        .find(|r| r.name == name)
    {
        Some(r) => (r.read)(fields),
        None => Err(TorshError::invalid(
            "attributes",
            format!("there are no attributes of the name '{name}'"),
        )),
    }
}

/// How a struct is made of its fields.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// The struct's name.
    pub name: &'static str,
    /// Makes it.
    pub read: fn(&[(&str, Field<'_>)]) -> Result<SavedAttributes>,
}

/// Field `name` of a struct as a `T`; what [`attributes!`](crate::attributes) writes.
#[doc(hidden)]
pub fn read_field<T: FieldType>(
    owner: &str,
    name: &str,
    fields: &[(&str, Field<'_>)],
) -> Result<T> {
    let given = fields.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    given.and_then(|v| T::read(&v)).ok_or_else(|| {
        TorshError::invalid(
            "attributes",
            match given {
                Some(v) => format!("{owner}.{name} cannot be {v}"),
                None => format!("{owner} misses the field '{name}'"),
            },
        )
    })
}

/// Defines structs of attributes: their fields are public, and they implement
/// [`Attributes`](crate::attrs::Attributes). `READERS` lists them for
/// [`read_from`](crate::attrs::read_from).
#[macro_export]
macro_rules! attributes {
    ($(
        $(#[$meta:meta])*
        $name:ident { $( $(#[$field_meta:meta])* $field:ident: $ty:ty ),* $(,)? }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug)]
            pub struct $name { $( $(#[$field_meta])* pub $field: $ty ),* }

            impl $crate::attrs::Attributes for $name {
                fn name(&self) -> &'static str {
                    stringify!($name)
                }
                fn fields(&self) -> $crate::attrs::Fields<'_> {
                    $crate::attrs::Fields::from_iter([
                        $((stringify!($field), $crate::attrs::FieldType::field(&self.$field))),*
                    ])
                }
                #[inline]
                fn save(&self) -> $crate::attrs::SavedAttributes {
                    $crate::attrs::SavedAttributes::new(self.clone())
                }
            }
        )*

        /// How the structs of this list are made of named fields.
        pub const READERS: &[$crate::attrs::Reader] = &[$($crate::attrs::Reader {
            name: stringify!($name),
            read: |fields| Ok($crate::attrs::Attributes::save(&$name {
                $($field: $crate::attrs::read_field(stringify!($name), stringify!($field), fields)?),*
            })),
        }),*];
    };
}

/// A word of a fixed set, as a field of attributes: an enum with PyTorch's spelling of each word.
#[macro_export]
macro_rules! words {
    ($(
        $(#[$meta:meta])*
        $name:ident { $( $(#[$word_meta:meta])* $word:ident = $text:literal ),+ $(,)? }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$word_meta])* $word ),+ }

        impl $name {
            /// PyTorch's word.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$word => $text),+ }
            }
            /// The value of PyTorch's word, where it is one.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($text => Some($name::$word),)+ _ => None }
            }
        }

        impl $crate::attrs::FieldType for $name {
            fn field(&self) -> $crate::attrs::Field<'_> {
                $crate::attrs::Field::Str(self.as_str())
            }
            fn read(field: &$crate::attrs::Field<'_>) -> Option<$name> {
                match field {
                    $crate::attrs::Field::Str(s) => $name::parse(s),
                    _ => None,
                }
            }
        }
    )*};
}
