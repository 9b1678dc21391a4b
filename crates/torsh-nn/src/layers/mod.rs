//! Layers, containers and losses.

mod activation;
mod adaptive_pool;
mod batchnorm;
mod bilinear;
mod builder;
mod container;
mod conv;
mod conv_transpose;
mod cross_map;
mod distance;
mod dropout;
mod embedding;
mod embedding_bag;
mod examples;
mod fuse;
mod instance_norm;
mod lazy;
mod linear;
mod loss;
mod norm;
mod pad;
mod parameters;
mod pool;
mod rearrange;
mod rnn;
mod shape;
mod statistics;
mod transformer;
mod unpool;
mod upsample;

pub use activation::*;
pub use adaptive_pool::*;
pub use batchnorm::{
    BatchNorm1d, BatchNorm1dBuilder, BatchNorm2d, BatchNorm2dBuilder, BatchNorm3d,
    BatchNorm3dBuilder, LazyBatchNorm1dBuilder, LazyBatchNorm2dBuilder, LazyBatchNorm3dBuilder,
    SyncBatchNorm, SyncBatchNormBuilder,
};
pub use bilinear::{Bilinear, BilinearBuilder};
pub use container::{ModuleDict, ModuleList, Sequential};
pub use conv::*;
pub use conv_transpose::*;
pub use cross_map::{CrossMapLRN2d, CrossMapLRN2dBuilder};
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::*;
pub use embedding::{Embedding, EmbeddingBuilder};
pub use embedding_bag::*;
pub use fuse::{conv_norm_activation, conv_norm_add_activation, norm_activation};
pub use instance_norm::*;
pub use lazy::*;
pub use linear::{LazyLinearBuilder, Linear, LinearBuilder};
pub use loss::*;
pub use norm::*;
pub use pad::*;
pub use parameters::{ParameterDict, ParameterList};
pub use pool::*;
pub use rearrange::*;
pub use rnn::*;
pub use shape::{Flatten, Identity};
pub use statistics::StatisticsSync;
pub use transformer::*;
pub use unpool::*;
pub use upsample::*;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

/// Python's spelling of a bool, in what layers print.
fn python(b: bool) -> &'static str {
    if b { "True" } else { "False" }
}

/// Where a layer's tensors are made.
#[derive(Clone, Copy, Debug)]
struct Factory {
    device: Device,
    dtype: Option<DType>,
}

impl Default for Factory {
    fn default() -> Self {
        Factory {
            device: crate::construct::device(),
            dtype: crate::construct::own_dtype(),
        }
    }
}

impl Factory {
    fn dtype(&self) -> DType {
        self.dtype.unwrap_or_else(torsh_core::default_dtype)
    }

    fn empty(&self, shape: &[usize]) -> Result<Tensor> {
        crate::construct::weight(shape, self.dtype(), self.device)
    }

    fn full(&self, shape: &[usize], value: f64) -> Result<Tensor> {
        Tensor::full(shape, value, self.dtype(), self.device)
    }
}

/// The error of `forward` where one tensor is not enough.
#[track_caller]
#[cold]
fn needs_more(layer: &'static str, call: &str) -> TorshError {
    TorshError::invalid(layer, "forward takes one tensor, and this layer needs more")
        .with_hint(format!("call {call}"))
}

/// The setters of a builder for device and dtype; the layer and the builder's call are of their doc tests.
macro_rules! factory_setters {
    ($layer:ident $call:literal) => {
        /// Where the layer's tensors are made. The default is the default device.
        #[doc = $crate::layers::examples::tests!(
            "let layer = ", stringify!($layer), "::builder", $call, ".device(Device::Cpu).build()?;\n",
            "assert_eq!(layer.parameters()[0].device(), Device::Cpu);"
        )]
        #[must_use]
        pub fn device(mut self, device: impl Into<torsh_tensor::Device>) -> Self {
            self.factory.device = device.into();
            self
        }

        /// The dtype of the layer's tensors. The default is the default dtype.
        #[doc = $crate::layers::examples::tests!(
            "let layer = ", stringify!($layer), "::builder", $call, ".dtype(DType::F64).build()?;\n",
            "assert_eq!(layer.parameters()[0].dtype(), DType::F64);"
        )]
        #[must_use]
        pub fn dtype(mut self, dtype: torsh_tensor::DType) -> Self {
            self.factory.dtype = Some(dtype);
            self
        }
    };
}
use factory_setters;

/// A number as Python prints it: `1e-05`, `0.1`, `1.0`.
fn python_float(v: f64) -> String {
    let magnitude = v.abs();
    if v != 0.0 && !(1e-4..1e16).contains(&magnitude) && v.is_finite() {
        let text = format!("{v:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(e) => ('-', e),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    if v.fract() == 0.0 {
        format!("{v:.1}")
    } else {
        v.to_string()
    }
}
