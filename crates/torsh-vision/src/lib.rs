//! Models, operators, transforms, images and data sets, as torchvision.

#![forbid(unsafe_code)]

/// `FROM => TO, |value| result;`: `From` for each row.
macro_rules! conversions {
    ($($(#[$doc:meta])* $from:ty => $to:ty, |$value:pat_param| $result:expr;)*) => {$(
        $(#[$doc])*
        impl From<$from> for $to {
            fn from($value: $from) -> $to {
                $result
            }
        }
    )*};
}

/// `/// docs  FIELD: TYPE;`: a setter for each row, as [`torsh_tensor::option_setter`] makes it.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $ty:ty $(, $arg:ty => $convert:expr)?;)*) => {
        $(torsh_tensor::option_setter! { $(#[$doc])* $field: $ty $(, $arg => $convert)? })*
    };
}

pub mod datasets;
pub mod feature_extraction;
mod fetch;
pub mod io;
pub mod models;
pub mod ops;
mod scratch;
pub mod transforms;
pub mod utils;

pub use io::load_image;
pub use models::classify;
pub use transforms::preprocess_image;

/// Adds the models of this crate to the registry of `torsh-train`, for programs that make models from configurations
/// without the crate `torsh`. A second call changes nothing.
///
/// ```
/// torsh_vision::register();
/// assert!(torsh_train::registry::models().get("resnet18").is_ok());
/// ```
pub fn register() {
    models::register_models();
}
