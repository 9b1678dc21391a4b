//! Attributes of convolutions, `im2col` and `col2im`.

crate::attributes! {}
