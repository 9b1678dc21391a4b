//! Loops over sparse matrices, as safe functions on slices. They are the kernels of the crate `torsh-sparse`; the table of
//! this crate does not list them, so that programs without sparse tensors do not contain them.
//!
//! A sparse matrix is given by rows ([`Rows`]): where each row's stored elements begin, their columns, and their values,
//! which may lie in another order. Stored elements of one place add up, and their order within a row does not matter unless
//! a function says so.
//!
//! Every index is checked against its bound, and one that is out of range is an error. Results do not depend on the number
//! of threads: a row, a segment or a column is summed by one thread, in the order in which its elements are stored.
//!
//! ```
//! use std::mem::MaybeUninit;
//! use torsh_backend_cpu::sparse::{Rows, product};
//! // [[0, 2], [3, 0]] times a column.
//! let a = Rows::new(&[0i64, 1, 2], &[1, 0], &[2.0f32, 3.0], None, 2)?;
//! let mut out = [MaybeUninit::uninit(); 2];
//! product(a, &[10.0, 100.0], 1, &mut out)?;
//! // SAFETY: every element was written.
//! assert_eq!(out.map(|v| unsafe { v.assume_init() }), [200.0, 30.0]);
//! # Ok::<(), torsh_core::TorshError>(())
//! ```

mod blocks;
pub(crate) mod choose;
mod columns;
mod dense;
mod dots;
mod extremes;
mod group;
mod lines;
mod lists;
mod marks;
mod merge;
mod multiply;
mod number;
mod order;
mod pattern;
mod plain;
mod product;
mod rows;
mod sampled;
mod segments;
mod softmax;
mod split;
#[cfg(feature = "unit-tests")]
mod tests;
mod triangle;
mod tuning;
mod vectors;

pub use blocks::{BlockLines, BlockNumber, block_product, block_sampled_product};
pub use choose::{by_blocks, by_inner_products};
pub use dense::{count_stored, fill_lines, fill_places, stored, zeroed};
pub use extremes::{Extreme, extremes};
pub use group::{Minors, group};
pub use lines::{are_lines, coordinates, line_pointers};
pub use lists::Coordinates;
pub use merge::{find_places, merge_places};
pub use multiply::{fills, product_bounds, sparse_product};
pub use number::{Index, Number, Ordered};
pub use order::{sort_indices, unique_indices};
pub use pattern::{masked_inner_products, masked_product, product_pattern};
pub use product::product;
pub use rows::{Majors, Rows};
pub use sampled::sampled_product;
pub use segments::segment_sums;
pub use softmax::{Softmax, run_softmax, run_totals};
pub use triangle::{Triangle, solve};
pub use vectors::Products;
