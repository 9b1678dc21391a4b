//! The checks of data parallel with COO gradients on threads.

use torsh_distributed_suite::coo::{combinations, layouts, no_sync, uneven, unused, whole_batch};
use torsh_tensor::Result;

use crate::on_all;

#[test]
fn coo_gradients_train_as_the_whole_batch() -> Result<()> {
    on_all(|g| whole_batch(g, 6))
}

#[test]
fn coo_gradients_accumulate_within_no_sync() -> Result<()> {
    on_all(no_sync)
}

#[test]
fn coo_gradients_of_unused_tables_are_none() -> Result<()> {
    on_all(unused)
}

#[test]
fn coo_and_strided_gradients_of_ranks_are_averaged() -> Result<()> {
    on_all(layouts)
}

#[test]
fn all_combinations_of_layouts_are_averaged() -> Result<()> {
    on_all(combinations)
}

#[test]
fn coo_gradients_of_uneven_inputs_are_averaged() -> Result<()> {
    on_all(uneven)
}
