//! Attributes of losses.

crate::attributes! {}
