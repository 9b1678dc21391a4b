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
///
/// ```
/// use torsh_core::attrs::{self, Attributes};
///
/// let call = attrs::Reduce { dims: [0, 1].into(), keepdim: true };
/// assert_eq!((call.name(), call.fields().len()), ("Reduce", 2));
/// let saved = call.save();
/// assert_eq!(saved.get().downcast::<attrs::Reduce>().map(|a| a.keepdim), Some(true));
/// assert!(saved.get().downcast::<attrs::Sum>().is_none());
/// ```
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
///
/// ```
/// use torsh_core::attrs::{self, Attributes};
///
/// let call = attrs::Sort { dim: 1, descending: true };
/// let names: Vec<&str> = call.fields().iter().map(|(name, _)| *name).collect();
/// assert_eq!(names, ["dim", "descending"]);
/// ```
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
///
/// ```
/// use torsh_core::attrs::{Attributes, NONE, Nothing};
/// assert!(NONE.is_none() && Nothing.fields().is_empty());
/// ```
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
///
/// ```
/// use torsh_core::attrs::Field;
/// assert_eq!(Field::Ints(&[1, 2]).to_string(), "[1, 2]");
/// assert_eq!(Field::Str("mean").to_string(), "'mean'");
/// ```
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

/// Shows attributes as `dim=1, keepdim=true`.
///
/// ```
/// use torsh_core::attrs;
/// let call = attrs::KthValue { dims: [1].into(), keepdim: false, k: 3 };
/// assert_eq!(attrs::display(&call).to_string(), "dims=[1], keepdim=false, k=3");
/// ```
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

/// Makes a struct of this module of named fields, by its name.
///
/// ```
/// use torsh_core::attrs::{self, Field};
/// let saved = attrs::read("OneHot", &[("num_classes", Field::Int(10))])?;
/// assert_eq!(saved.get().expect::<attrs::OneHot>()?.num_classes, 10);
/// let error = attrs::read("OneHot", &[]).unwrap_err();
/// assert!(error.to_string().contains("OneHot misses the field 'num_classes'"));
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
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
///
/// ```
/// use torsh_core::attrs::{self, Field};
/// torsh_core::attributes! {
///     /// The attributes of `Scale`.
///     Scale {
///         /// The factor.
///         by: f64,
///     }
/// }
/// let saved = attrs::read_from(&[READERS], "Scale", &[("by", Field::Float(2.0))])?;
/// assert_eq!(attrs::display(saved.get()).to_string(), "by=2.0");
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
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

/// How a struct is made of its fields. The list `READERS` that [`attributes!`](crate::attributes) writes has one for
/// each.
///
/// ```
/// use torsh_core::attrs::{Field, Reader};
/// torsh_core::attributes! {
///     /// The attributes of `Scale`.
///     Scale {
///         /// The factor.
///         by: f64,
///     }
/// }
/// let reader: &Reader = &READERS[0];
/// assert_eq!(reader.name, "Scale");
/// assert!((reader.read)(&[("by", Field::Bool(true))]).unwrap_err().to_string().contains("Scale.by cannot be true"));
/// ```
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
///
/// ```
/// use torsh_core::attrs::{self, Attributes};
/// torsh_core::attributes! {
///     /// The attributes of `Clip`.
///     Clip {
///         /// The least result.
///         low: f64,
///         /// The greatest one, if there is a limit.
///         high: Option<f64>,
///     }
/// }
/// let call = Clip { low: 0.5, high: None };
/// assert_eq!(call.name(), "Clip");
/// assert_eq!(attrs::display(&call).to_string(), "low=0.5, high=None");
/// ```
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

/// Defines words of a fixed set, as fields of attributes: enums with PyTorch's spelling of each word.
///
/// A list that begins with the path of the public module that has the enums, as `in "my_crate::attrs";`, has an
/// example in the documentation of each enum and of `parse`.
///
/// ```
/// torsh_core::words! {
///     /// What becomes of a value that is out of range.
///     Outside {
///         /// It becomes the limit.
///         Clip = "clip",
///         /// It begins anew at the other limit.
///         Wrap = "wrap",
///     }
/// }
/// assert_eq!(Outside::Clip.as_str(), "clip");
/// assert_eq!((Outside::parse("wrap"), Outside::parse("drop")), (Some(Outside::Wrap), None));
/// ```
#[macro_export]
macro_rules! words {
    (in $home:tt; $($list:tt)*) => {
        $crate::words! { @list [$home] $($list)* }
    };
    (@list [$home:tt] $(
        $(#[$meta:meta])*
        $name:ident { $( $(#[$word_meta:meta])* $word:ident = $text:literal ),+ $(,)? }
    )*) => {$(
        $(#[$meta])*
        #[doc = $crate::words_example!(as_str $home $name $($word $text)+)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[$word_meta])* $word ),+ }

        impl $name {
            /// Returns PyTorch's word, as the example of the enum shows.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$word => $text),+ }
            }
            /// Returns the value of PyTorch's word; `None` for other words.
            #[doc = $crate::words_example!(parse $home $name $($word $text)+)]
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
    ($($list:tt)*) => {
        $crate::words! { @list [""] $($list)* }
    };
}

/// The text of the example of an enum of words, or of its `parse`; none where the path of its module is not given.
#[doc(hidden)]
#[macro_export]
macro_rules! words_example {
    ($form:ident "" $name:ident $($word:ident $text:literal)+) => {
        ""
    };
    (as_str $home:tt $name:ident $($word:ident $text:literal)+) => {
        concat!(
            "\n```\nuse ", $home, "::", stringify!($name), ";\n",
            $("assert_eq!(", stringify!($name), "::", stringify!($word), ".as_str(), \"", $text, "\");\n",)+
            "```"
        )
    };
    (parse $home:tt $name:ident $($word:ident $text:literal)+) => {
        concat!(
            "\n```\nuse ", $home, "::", stringify!($name), ";\n",
            $(
                "assert_eq!(", stringify!($name), "::parse(\"", $text, "\"), ",
                "Some(", stringify!($name), "::", stringify!($word), "));\n",
            )+
            "assert_eq!(", stringify!($name), "::parse(\"no such word\"), None);\n```"
        )
    };
}
