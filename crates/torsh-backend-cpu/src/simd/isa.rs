//! Instructions that few processors have: those of AMX's tile unit ([`amx`]) and of AVX512-BF16 ([`bf16`]).
//!
//! Every use of them goes through here. In builds with the feature `unit-tests`, a software model (`model`) executes them where
//! the processor cannot, so that the packing, the blocks and the drivers around them are tested on any machine with
//! AVX-512. Other builds contain the instructions alone: the feature decides, so the choice costs nothing there.
//!
//! The instructions are described in Intel's "64 and IA-32 Architectures Software Developer's Manual" (SDM):
//! volume 1, chapter 18 ("Programming with Intel Advanced Matrix Extensions"), and volume 2 on the pages of
//! LDTILECFG, TILELOADD/TILELOADDT1, TILESTORED, TILEZERO, TILERELEASE, TDPBF16PS, VDPBF16PS, VCVTNEPS2BF16 and
//! VCVTNE2PS2BF16.

pub(crate) mod amx;
pub(crate) mod bf16;
#[cfg(feature = "unit-tests")]
pub(crate) mod model;
#[cfg(feature = "unit-tests")]
mod stand_in;
#[cfg(feature = "unit-tests")]
mod tests;

#[cfg(feature = "unit-tests")]
pub(crate) use stand_in::{by_model, machine, stand_in, with_and_without};
