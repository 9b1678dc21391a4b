//! Doc tests of methods that macros write: the rows hold calls and results as data.

/// A doc test of these lines; the pieces of a line are joined.
macro_rules! tests {
    ($($piece:expr),+ $(,)?) => {
        concat!(
            "\n\n```\n# use torsh_nn::*;\n# use torsh_tensor::{DType, Device, Tensor, ones, tensor, zeros};\n",
            $($piece),+,
            "\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
        )
    };
}

/// A doc test that a layer, made by a call, prints as a text.
macro_rules! shows {
    ($($call:expr),+; $($text:expr),+ $(,)?) => {
        $crate::layers::examples::tests!(
            "let layer = ", $($call),+, ";\nassert_eq!(layer.repr(), \"", $($text),+, "\");"
        )
    };
}

/// A number as a layer of one, two or three dimensions prints it for all: `(2,)`, `(2, 2)`, `(2, 2, 2)`.
macro_rules! each {
    (1 $number:literal) => {
        concat!("(", $number, ",)")
    };
    (2 $number:literal) => {
        concat!("(", $number, ", ", $number, ")")
    };
    (3 $number:literal) => {
        concat!("(", $number, ", ", $number, ", ", $number, ")")
    };
}

/// Adds dimensions of size 1 to `[1, n]`, ahead of the last, as images and volumes have.
macro_rules! unsqueezed {
    (1) => {
        ""
    };
    (2) => {
        ".unsqueeze(1)?"
    };
    (3) => {
        ".unsqueeze(1)?.unsqueeze(1)?"
    };
}

/// A window of this size in the last dimension.
macro_rules! last {
    (1 $size:literal) => {
        $size
    };
    (2 $size:literal) => {
        concat!("(1, ", $size, ")")
    };
    (3 $size:literal) => {
        concat!("(1, 1, ", $size, ")")
    };
}

/// A spatial size of which all dimensions but the last are 1.
macro_rules! size {
    (1 $size:literal) => {
        concat!("[", $size, "]")
    };
    (2 $size:literal) => {
        concat!("[1, ", $size, "]")
    };
    (3 $size:literal) => {
        concat!("[1, 1, ", $size, "]")
    };
}

pub(super) use {each, last, shows, size, tests, unsqueezed};
