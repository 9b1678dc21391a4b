//! Attributes of steps of optimizers.

crate::attributes! {}
