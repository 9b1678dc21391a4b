//! Attributes of reductions, scans, sorting and softmax.

crate::attributes! {}
