//! Attributes of pooling and resampling.

crate::attributes! {}
