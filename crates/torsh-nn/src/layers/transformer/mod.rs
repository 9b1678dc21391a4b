//! Attention, and transformers.

mod attention;
mod layer;
mod stack;
mod whole;

pub use attention::{MultiheadAttention, MultiheadAttentionBuilder, MultiheadAttentionOptions};
pub use layer::{
    TransformerDecoderLayer, TransformerDecoderLayerBuilder, TransformerDecoderLayerOptions,
    TransformerEncoderLayer, TransformerEncoderLayerBuilder, TransformerEncoderLayerOptions,
};
pub use stack::{
    TransformerDecoder, TransformerDecoderBuilder, TransformerDecoderOptions, TransformerEncoder,
    TransformerEncoderBuilder, TransformerEncoderOptions,
};
pub use whole::{Transformer, TransformerBuilder, TransformerOptions};

/// What is between the two linear layers of a transformer's layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransformerActivation {
    /// [`ReLU`](crate::ReLU)
    #[default]
    ReLU,
    /// [`GELU`](crate::GELU)
    GELU,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    TransformerActivation, "activation",
    "relu" => TransformerActivation::ReLU,
    "gelu" => TransformerActivation::GELU,
}
