//! Data sets on disk, as `torchvision.datasets`.
//!
//! | data set | targets | downloaded |
//! |---|---|---|
//! | [`MNIST`], [`FashionMNIST`], [`KMNIST`], [`EMNIST`] | class | yes |
//! | [`CIFAR10`], [`CIFAR100`], [`SVHN`], [`STL10`] | class | yes |
//! | [`Caltech101`], [`Flowers102`], [`Food101`], [`Imagenette`] | class | yes |
//! | [`OxfordIIITPet`], [`OxfordIIITPetSegmentation`] | breed or species; trimap | yes |
//! | [`VOCSegmentation`], [`VOCDetection`] | class of each pixel; [`VOCAnnotation`] | yes |
//! | [`CocoDetection`], [`CocoCaptions`] | [`CocoAnnotation`]s; sentences | no |
//! | [`ImageFolder`], [`DatasetFolder`] | class, by the folder | no |
//! | [`FakeData`] | class | random numbers |
//!
//! A builder has torchvision's arguments, and the files lie where torchvision puts them. An image is uint8
//! `[channels, height, width]`; `transform` changes images, `target_transform` targets, and `transforms` both together.
//! All are a [`Dataset`](torsh_data::Dataset), which a [`DataLoader`](torsh_data::DataLoader) loads.
//!
//! ```
//! use torsh_data::DataLoader;
//! use torsh_tensor::DType;
//! use torsh_vision::datasets::FakeData;
//! use torsh_vision::transforms::ToDtype;
//!
//! let data = FakeData::new(6).image_size([3, 8, 8]).transform(ToDtype::new(DType::F32).scale(true));
//! let loader = DataLoader::builder(data).batch_size(4).build()?;
//! let mut sizes = Vec::new();
//! for (images, classes) in &loader {
//!     assert_eq!((images.dims()[1..].to_vec(), images.dtype()), (vec![3, 8, 8], DType::F32));
//!     sizes.push(classes.numel());
//! }
//! assert_eq!(sizes, [4, 2]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! # Downloads
//!
//! With `download(true)`, archives that are in the root are unpacked, and files that are not there are downloaded by the
//! feature `hub`. Their MD5 is torchvision's. [`extract_archive`] unpacks archives by itself.
//!
//! # Hostile files
//!
//! A file that is damaged, cut off, or claims what it cannot hold is an error that names the file and the place. Memory grows
//! with a file's length, not with what it claims. Archives cannot write outside of the folder that they are unpacked into.

mod archive;
mod cifar;
mod coco;
mod coco_fields;
mod common;
mod fake;
mod files;
mod folder;
mod mat;
mod mnist;
mod stl10;
mod svhn;
mod voc;

pub use archive::{ExtractOptions, extract_archive, extract_archive_with};
pub use cifar::{CIFAR10, CIFAR10Builder, CIFAR100, CIFAR100Builder};
pub use coco::{
    CocoAnnotation, CocoCaptions, CocoCaptionsBuilder, CocoCategory, CocoDetection,
    CocoDetectionBuilder, CocoSegmentation,
};
pub use fake::FakeData;
pub use files::{
    Caltech101, Caltech101Builder, Flowers102, Flowers102Builder, Flowers102Split, Food101,
    Food101Builder, Food101Split, Imagenette, ImagenetteBuilder, ImagenetteSize, ImagenetteSplit,
    OxfordIIITPet, OxfordIIITPetBuilder, OxfordIIITPetSegmentation, OxfordIIITPetSplit,
    OxfordIIITPetTarget,
};
pub use folder::{DatasetFolder, DatasetFolderBuilder};
pub use mat::read_mat;
pub use mnist::{
    EMNIST, EMNISTBuilder, EMNISTSplit, FashionMNIST, FashionMNISTBuilder, KMNIST, KMNISTBuilder,
    MNIST, MNISTBuilder,
};
pub use stl10::{STL10, STL10Builder, STL10Split};
pub use svhn::{SVHN, SVHNBuilder, SVHNSplit};
pub use torsh_data::ImageFolder;
pub use torsh_data::vision::Mnist;
pub use voc::{
    VOCAnnotation, VOCDetection, VOCDetectionBuilder, VOCImageSet, VOCObject, VOCSegmentation,
    VOCSegmentationBuilder, VOCYear, parse_voc_xml,
};
