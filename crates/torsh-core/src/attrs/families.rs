//! The structs, by family of kernels.

// Each file has a list of its structs, `READERS`.
#![allow(ambiguous_glob_reexports)]

mod checks;
mod convolutions;
mod creation;
mod indexing;
mod losses;
mod networks;
mod norms;
mod pooling;
mod products;
mod reductions;
mod steps;
mod transforms;

pub use checks::*;
pub use convolutions::*;
pub use creation::*;
pub use indexing::*;
pub use losses::*;
pub use networks::*;
pub use norms::*;
pub use pooling::*;
pub use products::*;
pub use reductions::*;
pub(crate) use steps::read_steps;
pub use steps::*;
pub use transforms::*;

use super::Reader;

/// All structs of this module.
pub(super) const ALL: &[&[Reader]] = &[
    checks::READERS,
    convolutions::READERS,
    creation::READERS,
    indexing::READERS,
    losses::READERS,
    networks::READERS,
    norms::READERS,
    pooling::READERS,
    products::READERS,
    reductions::READERS,
    steps::READERS,
    transforms::READERS,
];
