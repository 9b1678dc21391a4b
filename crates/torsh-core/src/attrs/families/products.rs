//! Attributes of matrix products and `cross`.

use crate::Scalar;

crate::attributes! {
    /// `MatMul`: `alpha` times the product of two matrices, plus a third operand where there is one.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::MatMul { transpose_b: true, ..attrs::MatMul::PLAIN };
    /// assert_eq!(attrs::display(&call).to_string(), "alpha=1, transpose_a=false, transpose_b=true");
    /// ```
    MatMul {
        /// A factor of the product.
        alpha: Scalar,
        /// Whether the first matrix comes with its last two dimensions swapped. A vector has none.
        transpose_a: bool,
        /// The same of the second matrix.
        transpose_b: bool,
    }

    /// `MatMul` of `addmm`, `addmv` and `baddbmm`: `beta * input + alpha * (mat1 @ mat2)`. The input
    /// is not read where `beta` is 0.
    ///
    /// ```
    /// use torsh_core::{Scalar, attrs};
    /// let call = attrs::AddMm { beta: Scalar::Int(1), alpha: Scalar::Float(0.5) };
    /// assert_eq!(attrs::display(&call).to_string(), "beta=1, alpha=0.5");
    /// ```
    AddMm {
        /// A factor of what is added to the product.
        beta: Scalar,
        /// A factor of the product.
        alpha: Scalar,
    }

    /// `Cross`: the vector product.
    Cross {
        /// The dimension of size 3, counted from the start.
        dim: usize,
    }
}

impl MatMul {
    /// The product of two matrices as they are.
    pub const PLAIN: MatMul = MatMul {
        alpha: Scalar::Int(1),
        transpose_a: false,
        transpose_b: false,
    };
}
