//! The loops that the elements of each type have for products.

use half::{bf16, f16};
use num_complex::Complex;

use super::columns::ComplexRows;
use super::dots::VectorProduct;
use super::number::{Index, Number};
use super::plain::{RowsWork, SamplesWork, plain_rows, plain_samples};
use crate::simd::{Vectors, vectorized};

/// Elements that products have loops for: all numbers.
pub trait Products: Number {
    /// Some rows of a product; `None` if an index is out of range.
    #[doc(hidden)]
    fn rows<I: Index>(work: RowsWork<'_, '_, Self, I>) -> Option<()> {
        plain_rows(work)
    }
    /// Some elements of a sampled product; `None` if an index is out of range.
    #[doc(hidden)]
    fn samples<I: Index>(work: SamplesWork<'_, '_, Self, I>) -> Option<()> {
        plain_samples(work)
    }
}

macro_rules! products {
    (real: $($t:ty),*) => { $(
        impl Products for $t {
            fn rows<I: Index>(work: RowsWork<'_, '_, $t, I>) -> Option<()> {
                real_rows(work)
            }
            fn samples<I: Index>(work: SamplesWork<'_, '_, $t, I>) -> Option<()> {
                vectorized::<$t, _>(work)
            }
        }
    )* };
    (complex: $($t:ty),*) => { $(
        impl Products for Complex<$t> {
            fn rows<I: Index>(work: RowsWork<'_, '_, Self, I>) -> Option<()> {
                match work.is_of_a_vector() {
                    true => plain_rows(work),
                    false => vectorized::<$t, _>(ComplexRows(work)),
                }
            }
        }
    )* };
    (plain: $($t:ty),*) => { $(impl Products for $t {})* };
}
products!(real: f32, f64);
products!(complex: f32, f64);
products!(plain: bf16, f16, u8, i8, i16, i32, i64);

fn real_rows<T: Vectors + Number, I: Index>(work: RowsWork<'_, '_, T, I>) -> Option<()> {
    match work.is_of_a_vector() {
        true => vectorized::<T, _>(VectorProduct(work)),
        false => vectorized::<T, _>(work),
    }
}
