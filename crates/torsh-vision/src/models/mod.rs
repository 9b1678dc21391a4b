//! The models of torchvision, under its names.
//!
//! A function of the architecture's name makes a model with drawn or given [`Weights`]; the builder of its type takes
//! torchvision's other arguments; [`get_model`] makes it by name. Parameters have torchvision's names, order, shapes and
//! initial values, and are drawn in its order: from the same seed come the same weights.
//!
//! Each model has an enum of its pretrained weights, as [`ResNet50Weights`], with their categories, their numbers and the
//! [`transforms`](WeightsInfo::transforms) that prepare images for them. torchvision's names are spelt without underscores
//! between letters: `ViT_B_16_Weights.IMAGENET1K_V1` is `ViTB16Weights::Imagenet1kV1`.
//!
//! ```
//! use torsh_nn::{Module, ModuleExt};
//! use torsh_tensor::rand;
//! use torsh_vision::models::{ResNet, Weights, resnet18};
//!
//! let model = resnet18(Weights::None)?;
//! model.eval();
//! assert_eq!(model.forward(&rand(&[1, 3, 64, 64]))?.dims(), [1, 1000]);
//! let small = ResNet::builder().layers([1, 1, 1, 1]).num_classes(10).build()?;
//! assert_eq!(small.num_parameters(), 4_910_922);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

// A family is one file: the model, which implements `VisionModel` and has a function `construct`; its builder, which
// `model_builder!` makes of a table of the arguments; the constructors and the registry's entries, which `constructors!`
// makes. `families` below lists the entries.

/// `forward!(TYPE, self, x, result)`: [`torsh_nn::Module`] of a type with hooks, by the result of `forward`.
macro_rules! forward {
    ($module:ty, $self:ident, $x:ident, $result:expr) => {
        impl torsh_nn::Module for $module {
            #[torsh_tensor::names_caller]
            fn forward(&$self, $x: &torsh_tensor::Tensor) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                $self.hooks.run($self, $x, |$x| $result)
            }
        }
    };
}

pub mod blocks;
pub mod optical_flow;
pub mod segmentation;
pub mod video;

mod alexnet;
mod builder;
mod checks;
mod classify;
mod common;
mod convnext;
mod densenet;
pub mod detection;
mod efficientnet;
mod efficientnet_lite;
mod googlenet;
mod inception;
mod maxvit;
mod mnasnet;
mod mobilenetv2;
mod mobilenetv3;
mod registry;
mod regnet;
mod reset;
mod resnet;
mod shifted_window;
mod shufflenetv2;
mod squeezenet;
mod swin_transformer;
mod vgg;
mod vision_transformer;
mod weights;
mod windows;

pub use alexnet::*;
pub use classify::{Classification, Guess, classify, classify_with};
pub use common::VisionModel;
pub(crate) use common::{Common, constructors};
pub use convnext::*;
pub use densenet::*;
pub use efficientnet::*;
pub use efficientnet_lite::*;
pub use googlenet::*;
pub use inception::*;
pub use maxvit::*;
pub use mnasnet::*;
pub use mobilenetv2::*;
pub use mobilenetv3::*;
pub(crate) use registry::Entry;
pub use registry::{
    ModelKind, ModelOptions, get_model, list_models, list_models_of, model_kind, register_models,
};
pub use regnet::*;
pub use resnet::*;
pub use shufflenetv2::*;
pub use squeezenet::*;
pub use swin_transformer::*;
pub use vgg::*;
pub use vision_transformer::*;
pub use weights::enums::classification::*;
pub(crate) use weights::info::voc_classes;
pub use weights::{Metric, Weights, WeightsInfo, get_model_weights, get_weight};

/// The entries of the families.
fn families() -> Vec<&'static [Entry]> {
    let mut all = vec![
        alexnet::ENTRIES,
        convnext::ENTRIES,
        densenet::ENTRIES,
        efficientnet::ENTRIES,
        efficientnet_lite::ENTRIES,
        googlenet::ENTRIES,
        inception::ENTRIES,
        maxvit::ENTRIES,
        mnasnet::ENTRIES,
        mobilenetv2::ENTRIES,
        mobilenetv3::ENTRIES,
        regnet::ENTRIES,
        resnet::ENTRIES,
        shufflenetv2::ENTRIES,
        squeezenet::ENTRIES,
        swin_transformer::ENTRIES,
        vgg::ENTRIES,
        vision_transformer::ENTRIES,
    ];
    all.extend(detection::entries());
    all.extend(optical_flow::FAMILIES);
    all.extend(segmentation::FAMILIES);
    all.extend(video::FAMILIES);
    all
}
