//! Attributes of gathers, scatters, masks and embeddings.

crate::attributes! {}
