//! Runs golden cases computed by PyTorch against ToRSh: every operator's values, dtypes, shapes
//! and gradients, in several memory layouts, and the calls that PyTorch refuses.
//!
//! ```text
//! cargo run --release -p torsh-conformance -- DIR
//! ```
//!
//! `DIR` holds `ops/NAME.json` with `ops/NAME.safetensors`, `promotion.json`, `printing.json` and
//! `TIERS.json`, or is the `ops` directory itself, or a zip archive of the same layout. The
//! repository carries such an archive of the core tier (`golden/ops.zip`), made by
//! `torsh-conformance pack DIR FILE`.

#![forbid(unsafe_code)]

mod beside;
pub mod case;
pub mod cli;
pub mod compare;
pub mod executor;
pub mod layouts;
pub mod modules;
pub mod operators;
pub mod panics;
pub mod report;
pub mod runner;
pub mod source;
pub mod tensors;
pub mod tiers;
pub mod ties;
pub mod torsh;
