//! Datasets and data loaders of ToRSh, as torch.utils.data.
//!
//! ```
//! use torsh_data::{DataLoader, TensorDataset};
//! use torsh_tensor::Tensor;
//!
//! let x = Tensor::from_data(&[0.0f32, 1.0, 2.0, 3.0, 4.0], &[5, 1])?;
//! let y = Tensor::from_data(&[0i64, 10, 20, 30, 40], &[5])?;
//! let loader = DataLoader::builder(TensorDataset::new(x, y)).batch_size(2).shuffle(true).seed(0).build()?;
//! assert_eq!(loader.len(), 3);
//! let mut seen = Vec::new();
//! for (x, y) in &loader {
//!     assert_eq!(x.dims()[0], y.dims()[0]);
//!     seen.extend(y.to_vec::<i64>()?);
//! }
//! seen.sort();
//! assert_eq!(seen, [0, 10, 20, 30, 40]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

/// `/// docs  FIELD: TYPE;`: a setter for each row, as [`torsh_tensor::option_setter`] makes it.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $ty:ty $(, $arg:ty => $convert:expr)?;)*) => {
        $(torsh_tensor::option_setter! { $(#[$doc])* $field: $ty $(, $arg => $convert)? })*
    };
}

#[doc(hidden)]
pub mod codec;
mod collate;
mod combine;
pub mod csv;
mod dataset;
mod guard;
pub mod idx;
mod image;
mod image_folder;
mod iterable;
mod loader;
#[cfg(feature = "parquet")]
pub mod parquet;
mod position;
mod sampler;
mod streams;
mod subset;
mod table;
mod tensor_dataset;
pub mod transforms;
pub mod vision;
mod worker_info;
mod workers;

pub use collate::{Collate, CollateFn, DefaultCollate, Fetch, OnDevice, ToDevice, Unbatched};
pub use combine::{ChainDataset, ConcatDataset, Datasets, MapDataset, StackDataset};
pub use dataset::Dataset;
pub use image::{decode_image, encode_png, read_image, write_png};
pub use image_folder::{IMG_EXTENSIONS, ImageFolder, find_classes, make_dataset};
pub use iterable::{IterableDataset, IterableLoader, ShardedIterable};
pub use loader::{Batches, DataLoader, DataLoaderBuilder, TryBatches};
pub use sampler::{
    BatchSampler, DistributedSampler, RandomSampler, Sampler, SequentialSampler, Share,
    SubsetRandomSampler, WeightedRandomSampler,
};
pub use subset::{Lengths, Subset, random_split, random_split_with};
pub use tensor_dataset::{TensorDataset, Tensors};
pub use worker_info::{WorkerInfo, get_worker_info};
