//! Files of sparse matrices: SciPy's `.npz` and Matrix Market's `.mtx`.
//!
//! `.pt` files have sparse tensors beside others ([`pt`](crate::pt)); safetensors and plain NumPy files have none. As
//! elsewhere, no file is trusted: all indices are checked against the shape, and a file that speaks of more elements than it
//! holds takes no memory for them.

pub(crate) mod check;
mod mtx;
mod npz;
mod write;

pub use mtx::{read_mtx, read_mtx_bytes};
pub use npz::{NpzOptions, load_npz, load_npz_bytes, save_npz, save_npz_with};
pub use write::{MtxOptions, MtxSymmetry, write_mtx, write_mtx_with};
