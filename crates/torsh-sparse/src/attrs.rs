//! Attributes of conversions.

use torsh_core::attrs::Ints;
use torsh_core::{Dims, TensorLayout};

torsh_core::words! {
    /// A layout, as attributes of calls keep it.
    LayoutWord {
        /// All elements.
        Strided = "strided",
        /// Coordinates.
        SparseCoo = "sparse_coo",
        /// Compressed rows.
        SparseCsr = "sparse_csr",
        /// Compressed columns.
        SparseCsc = "sparse_csc",
        /// Compressed rows of blocks.
        SparseBsr = "sparse_bsr",
        /// Compressed columns of blocks.
        SparseBsc = "sparse_bsc",
    }
}

impl From<LayoutWord> for TensorLayout {
    fn from(word: LayoutWord) -> TensorLayout {
        match word {
            LayoutWord::Strided => TensorLayout::Strided,
            LayoutWord::SparseCoo => TensorLayout::SparseCoo,
            LayoutWord::SparseCsr => TensorLayout::SparseCsr,
            LayoutWord::SparseCsc => TensorLayout::SparseCsc,
            LayoutWord::SparseBsr => TensorLayout::SparseBsr,
            LayoutWord::SparseBsc => TensorLayout::SparseBsc,
        }
    }
}

impl From<TensorLayout> for LayoutWord {
    fn from(layout: TensorLayout) -> LayoutWord {
        LayoutWord::parse(layout.name()).unwrap_or(LayoutWord::Strided)
    }
}

torsh_core::attributes! {
    /// `to_dense`.
    ToDense {
        /// Whether the gradient has the pattern of the operand, else all elements.
        masked_grad: bool,
    }

    /// Conversions between layouts: what the operand was, which is what its gradient becomes.
    ToSparse {
        /// The operand's layout.
        layout: LayoutWord,
        /// The sizes of its blocks; empty where it has none.
        blocksize: Dims,
        /// How many of its dimensions are dense.
        dense_dim: usize,
    }

    /// Products of a sparse and a dense matrix.
    SparseProduct {
        /// Whether the sparse matrix is transposed.
        transposed: bool,
        /// Whether it is conjugated.
        conjugated: bool,
    }

    /// Elements of a product of two sparse matrices, at the places of a third.
    SparseTerms {
        /// Whether the first matrix is transposed.
        transposed_a: bool,
        /// Whether the second one is.
        transposed_b: bool,
        /// Whether the places are.
        transposed_c: bool,
        /// Whether the second matrix is read by columns, for inner products.
        inner: bool,
    }

    /// Stored elements grouped by an index.
    SparseGroup {
        /// How many groups there are.
        groups: usize,
        /// Whether the other indices are given by where rows begin.
        pointers: bool,
    }

    /// The row of each place of a sampled product.
    SparseSampled {
        /// Whether rows are given by where they begin.
        pointers: bool,
    }

    /// The largest or smallest products.
    SparseExtremes {
        /// Whether the largest are taken.
        largest: bool,
    }

    /// Triangular systems.
    SparseTriangle {
        /// Whether the upper triangle is read.
        upper: bool,
        /// Whether the matrix is transposed.
        transposed: bool,
        /// Whether the diagonal is taken as ones.
        unit: bool,
    }

    /// `cat` of sparse tensors.
    SparseCat {
        /// The dimension along which they lie.
        dim: usize,
        /// Their sizes along it; -1 of one that is left out.
        sizes: Ints,
    }
}
