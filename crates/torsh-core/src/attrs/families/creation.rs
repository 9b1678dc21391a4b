//! Attributes of fills, sequences, joins and random numbers.

crate::attributes! {}
