//! Attributes of matrix products and `cross`.

crate::attributes! {
    /// `Cross`: the vector product.
    Cross {
        /// The dimension of size 3, counted from the start.
        dim: usize,
    }
}
