//! Attributes of attention and recurrent layers.

crate::attributes! {}
