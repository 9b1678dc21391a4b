//! Runs golden cases computed by PyTorch against ToRSh: every operator's and layer's values,
//! dtypes, shapes and gradients, in several memory layouts; the calls that PyTorch refuses; random
//! numbers, optimizers, schedulers and whole training runs.
//!
//! ```text
//! cargo run --release -p torsh-conformance -- DIR
//! ```
//!
//! A value passes within the default tolerances of `torch.testing.assert_close`. A case with other
//! values passes where the same call in float64 shows that ToRSh's are as near to the exact ones
//! as PyTorch's ([`exact`]), or within a tolerance of [`compare::EXCEPTIONS`], which says why. The
//! report counts both, and lists them with `--verbose`.
//!
//! `--device NAME` runs the same cases on another device ([`device`]), `mock` among them. Cases that need
//! a dtype that the device lacks are left out and counted.
//!
//! `DIR` holds `ops/NAME.json` with `ops/NAME.safetensors`, `promotion.json`, `printing.json`,
//! `TIERS.json`, `modules` and `training`, or is one of these directories itself, or a zip archive
//! of the same layout. The repository carries such archives of the core tier of operators, of the
//! modules, of the training files and of the special functions ([`special`], which have a command of their own), and of sparse tensors ([`sparse`], likewise)
//! (`golden/*.zip`), made by `torsh-conformance pack DIR FILE`. `golden/points.zip` is made by `golden/points.py`: results
//! and gradients at special points ([`points`]).

#![forbid(unsafe_code)]

// Their ops are called by name.
use torsh_linalg as _;
use torsh_sparse as _;
use torsh_vision as _;

pub mod bits;
pub mod book;
pub mod case;
pub mod cli;
pub mod compare;
pub mod device;
mod dtypes_and_printing;
pub mod exact;
pub mod executor;
pub mod layouts;
pub mod modules;
pub mod operators;
pub mod panics;
pub mod parts;
pub mod points;
pub mod pretrained;
pub mod report;
pub mod runner;
pub mod section;
pub mod source;
pub mod sparse;
pub mod special;
pub mod tensors;
pub mod text;
pub mod tiers;
pub mod ties;
pub mod torsh;
pub mod training;
pub mod vision;
