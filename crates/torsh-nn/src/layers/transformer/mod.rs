//! Attention, and transformers.

mod attention;

pub use attention::{MultiheadAttention, MultiheadAttentionBuilder, MultiheadAttentionOptions};
