//! What the models share: attention and its masks, the cache of keys and values, rotary embeddings, feed-forward
//! layers.

mod activation;
mod attention;
mod cache;
mod conv1d;
pub(crate) mod cross;
mod eager_attention;
pub(crate) mod encoder;
mod feed_forward;
pub(crate) mod init;
mod layers;
pub(crate) mod moe;
mod norm;
mod part;
pub(crate) mod relative;
pub(crate) mod rotary;
pub(crate) mod tokens;

pub use activation::Activation;
pub use attention::{AttentionMask, Padding, attend, join_heads, split_heads};
pub use cache::{CacheKind, KvCache};
pub use conv1d::Conv1D;
pub use cross::{SeqToSeqAttention, SeqToSeqLayer};
pub(crate) use eager_attention::{AttentionSteps, attend_with};
pub use feed_forward::{FusedGatedMlp, GatedMlp};
pub(crate) use layers::LayerRun;
pub use layers::Layers;
pub use moe::{Experts, MixtureOfExperts, Router};
pub use norm::RmsNorm;
pub(crate) use part::{class, part};
pub use relative::{RelativeAttention, relative_position_bucket};
pub use rotary::{LayerRopeParameters, RopeParameters, RopeType, RotaryEmbedding, rotate_half};
