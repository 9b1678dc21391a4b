//! A PyTorch-compatible deep learning framework.
//!
//! Names, argument orders, defaults and semantics are PyTorch's, in Rust's notation. Methods that can
//! fail return [`Result`].
//!
//! # Quick start
//!
//! A network that learns the exclusive or:
//!
//! ```
//! # #[cfg(all(feature = "nn", feature = "optim"))]
//! # fn main() -> torsh::Result<()> {
//! use torsh::prelude::*;
//!
//! #[derive(Module)]
//! struct Net {
//!     fc1: Linear,
//!     fc2: Linear,
//! }
//!
//! impl Module for Net {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         self.fc2.forward(&F::tanh(self.fc1.forward(x)?)?)
//!     }
//! }
//!
//! manual_seed(0);
//! let net = Net { fc1: Linear::new(2, 8), fc2: Linear::new(8, 1) };
//! let x = tensor![[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]];
//! let y = tensor![[0.0], [1.0], [1.0], [0.0]];
//! let optimizer = Adam::new(net.parameters(), 0.05)?;
//! for _ in 0..200 {
//!     optimizer.zero_grad();
//!     F::mse_loss(&net.forward(&x)?, &y)?.backward()?;
//!     optimizer.step()?;
//! }
//! let learned = no_grad(|| net.forward(&x))?.round()?;
//! assert_eq!(learned, y);
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "nn", feature = "optim")))]
//! # fn main() {}
//! ```
//!
//! # Devices
//!
//! [`Device`] names a device, [`DeviceExt`] asks it, [`Tensor::to_device`] moves a tensor there.
//! [`Stream`] and [`Event`] order and time its work:
//!
//! ```
//! use torsh::prelude::*;
//! use torsh::{Stream, stream};
//!
//! let device = Device::best_available();
//! let side = Stream::new(device)?;
//! let x = ones(&[4]).to_device(device)?;
//! let y = stream(&side, || x.mul(2.0))?;
//! // Work of another stream waits for what it needs, on the device.
//! assert_eq!(y.sum()?.item::<f32>()?, 8.0);
//! # Ok::<(), torsh::TorshError>(())
//! ```
//!
//! # Features
//!
//! All but `distributed`, `hub`, `parquet`, `plots`, `linalg`, `text`, `vision`, `gif`, `webp` and `bmp` are on by default and add to
//! each other: `nn`, `optim`, `data`, `functional`, `special`, `sparse`, `train`, `profiler`, `debug`, `distributed`, `hub`, `parquet`, `plots`,
//! `linalg`, `text`, `vision`, and `gif`, `webp`, `bmp` for image files of these formats. The feature `full` is all of them.

extern crate self as torsh;

mod device;
#[cfg(feature = "hub")]
pub mod hub;
mod info;
pub mod ops;
pub mod prelude;
mod rng;
pub mod testing;
mod threads;
#[cfg(feature = "train")]
pub mod train;

/// Automatic differentiation, as `torch.autograd`.
pub mod autograd {
    pub use torsh_autograd::*;
}

pub use device::{DeviceExt, DeviceManager};
pub use info::{DeviceInfo, Info, info};
pub use rng::{get_rng_state, get_rng_state_of, set_rng_state, set_rng_state_of};
pub use threads::{get_num_threads, set_num_threads};
pub use torsh_core::alloc;
pub use torsh_core::random;
pub use torsh_core::random::{default_generator, initial_seed, manual_seed, seed};
pub use torsh_core::{Generator, default_dtype, set_default_dtype};
pub use torsh_serialize as serialize;
pub use torsh_serialize::{load, save};
pub use torsh_tensor::*;
pub use torsh_tensor::{checkpoint as activation_checkpoint, checkpoint as gradient_checkpoint};

#[cfg(feature = "data")]
pub use torsh_data as data;
#[cfg(feature = "debug")]
pub use torsh_debug as debug;
#[cfg(feature = "distributed")]
pub use torsh_distributed as distributed;
#[cfg(feature = "functional")]
pub use torsh_functional as functional;
#[cfg(feature = "linalg")]
pub use torsh_linalg as linalg;
#[cfg(feature = "nn")]
pub use torsh_nn as nn;
#[cfg(feature = "optim")]
pub use torsh_optim as optim;
#[cfg(feature = "profiler")]
pub use torsh_profiler as profiler;
#[cfg(feature = "special")]
pub use torsh_special as special;
#[cfg(feature = "text")]
pub use torsh_text as text;
#[cfg(feature = "train")]
pub use torsh_train::{checkpoint, memory, metrics};
#[cfg(feature = "vision")]
pub use torsh_vision as vision;
/// Sparse tensors, as `torch.sparse`, and files of sparse matrices.
#[cfg(feature = "sparse")]
pub mod sparse {
    pub use torsh_serialize::sparse::{
        MtxOptions, MtxSymmetry, NpzOptions, load_npz, load_npz_bytes, read_mtx, read_mtx_bytes,
        save_npz, save_npz_with, write_mtx, write_mtx_with,
    };
    pub use torsh_sparse::*;
}
