//! Models that tell how pixels move from one image to the next (`torchvision.models.optical_flow`).
//!
//! | constructors | model |
//! |---|---|
//! | [`raft_large`], [`raft_small`] | [`RAFT`] |

mod raft;

pub use raft::*;

pub use super::weights::enums::optical_flow::*;

use super::Entry;

/// The entries of the families.
pub(super) const FAMILIES: [&[Entry]; 1] = [raft::ENTRIES];
