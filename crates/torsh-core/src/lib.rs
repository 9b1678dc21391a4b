//! The foundation of ToRSh: element types and their promotion, shapes and layouts, devices, errors,
//! storage and its allocator, the [`Backend`] trait, the kernel keys with the scalar definitions that
//! all backends share, the thread pool and the random generators.

pub mod alloc;
pub mod attrs;
pub mod backend;
pub mod cmath;
mod device;
mod dtype;
mod error;
mod git_lfs;
pub mod kernel;
pub mod machine;
mod mapped;
pub mod os;
mod pages;
pub mod pointwise;
pub mod pool;
pub mod random;
mod reserved;
mod scalar;
pub mod shape;
mod shared;
pub mod steps;
mod storage;
mod tensor_layout;
mod text;

pub use attrs::{Attributes, Ints, SavedAttributes};
pub use backend::{Backend, CallSite, DeviceBlock, DeviceProperties, Place};
pub use device::{Device, DeviceType, custom_name, name_custom};
pub use dtype::{DType, Element, Promotion, default_dtype, set_default_dtype};
pub use error::{ErrorInfo, IoError, Result, TorshError, at_caller};
pub use git_lfs::{check_git_lfs, check_git_lfs_file};
pub use kernel::{Kernel, KernelArgs, KernelFn, View};
pub use pages::Reserved;
pub use random::Generator;
pub use reserved::HeldStorage;
pub use scalar::Scalar;
pub use shape::{Dims, Layout, Shape, Strides};
pub use shared::{OnceBox, Shared, WeakShared};
pub use storage::{Locks, Owner, Storage, lock_all};
pub use tensor_layout::TensorLayout;
pub use text::without_bom;
