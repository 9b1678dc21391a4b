//! Attributes of normalisations.

crate::attributes! {}
