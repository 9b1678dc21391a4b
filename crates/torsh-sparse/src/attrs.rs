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

    /// A sparse matrix by rows.
    SparseWidth {
        /// How many columns it has.
        width: usize,
    }

    /// Elements of a product of two sparse matrices, at the places of a third.
    SparseTerms {
        /// Whether the first matrix is transposed.
        transposed_a: bool,
        /// Whether the second one is.
        transposed_b: bool,
        /// Whether the places are.
        transposed_c: bool,
    }

    /// How elements of a product of two sparse matrices are summed.
    SparseSums {
        /// Whether the second matrix is read by columns, for inner products.
        inner: bool,
        /// The bound of the second matrix's indices as it is read.
        width: usize,
    }

    /// All elements of a product of two sparse matrices.
    SparseMultiply {
        /// How many columns the product has.
        width: usize,
        /// How many elements there is room for.
        room: usize,
    }

    /// Stored elements grouped by an index.
    SparseGroup {
        /// How many groups there are.
        groups: usize,
        /// Whether the other indices are given by where rows begin.
        pointers: bool,
    }

    /// Checks of a list of coordinates.
    SparsePlaces {
        /// The sizes that they count in.
        sizes: Dims,
        /// Whether they must ascend.
        sorted: bool,
    }

    /// What lists of coordinates count in.
    SparseSizes {
        /// A size for each dimension.
        sizes: Dims,
    }

    /// Two lists of coordinates as one.
    SparseMerge {
        /// A size for each dimension.
        sizes: Dims,
        /// How many elements the merged list has.
        count: usize,
    }

    /// Lines of elements, and how long they are.
    SparseLines {
        /// How many matrices there are, of as many elements each.
        entries: usize,
        /// How many lines each has.
        lines: usize,
        /// How many positions a line has.
        width: usize,
    }

    /// Coordinates of the elements of lines.
    SparseCoordinates {
        /// How many matrices there are, of as many elements each.
        entries: usize,
        /// What the lines of all matrices together count in.
        sizes: Dims,
        /// Whether the index of a line comes before the other one.
        by_rows: bool,
    }

    /// A number of elements.
    SparseCount {
        /// How many.
        count: usize,
    }

    /// Softmax of runs of values.
    SparseSoftmax {
        /// Whether its logarithm is taken.
        log: bool,
    }

    /// The row of each place of a sampled product.
    SparseSampled {
        /// Whether rows are given by where they begin.
        pointers: bool,
    }

    /// Products with whole blocks.
    SparseBlocks {
        /// Rows of a block.
        rows: usize,
        /// Columns of a block.
        columns: usize,
        /// Whether blocks are listed by block columns, else by block rows.
        by_columns: bool,
        /// Whether the strided matrices are transposed, operands and result.
        transposed: bool,
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
