//! Thresholds and block sizes of the kernels, in one place, as in the CPU backend's `machine/tuning.rs`.
//!
//! Each constant says its unit and what it decides. Numbers that follow from rounding, such as the most steps of an
//! iteration, stand where they are used. `choose.rs` has the choices of algorithms that read these.

/// The fewest matrices of a batch that are decomposed side by side: lanes without a matrix cost as much as those with one.
pub(crate) const FEWEST_LANES: usize = 4;

/// The largest side of matrices that are decomposed side by side: beyond, blocks of them leave the caches.
pub(crate) const LANES_SIDE: usize = 32;

/// Columns of vectors that are eliminated or summed together, in registers.
pub(crate) const LANES_COLUMNS: usize = 8;

/// The largest side for which unblocked algorithms are faster than blocked ones.
pub(crate) const SMALL: usize = 24;

/// The side of the squares in which a row-major matrix becomes a column-major one: a few cache lines of both.
pub(crate) const TRANSPOSE_TILE: usize = 16;

/// Sums of an inner product in plain loops, which do not wait for one another.
pub(crate) const DOT_SUMS: usize = 8;

/// Vectors of complex numbers that are computed side by side.
pub(crate) const COMPLEX_VECTORS: usize = 4;

/// Rows per column from which on QR makes a matrix square before its singular values are computed.
pub(crate) const TALL: usize = 2;

/// The largest side of real matrices whose eigenvalues are found by double steps.
pub(crate) const DOUBLE_STEPS_SIDE: usize = 100;

/// The products of numbers that are worth a thread of their own in faer's algorithms. faer's panels are short of work for two
/// threads before: on two cores of a Zen 4, QR and eigenvalues of 256 rows take up to five times as long with both, those
/// of 1,024 rows a fifth to a third less.
pub(crate) const GENERAL_THREAD: usize = 128 << 20;

/// Algorithms of one large matrix, in blocks.
pub(crate) mod blocked {
    /// Multiply-adds of a step's product that a thread of its own is worth: the caches of one core hold what one thread works
    /// on, and another's have to fetch it. On two cores of a Zen 5, LU of 256 rows takes 194 us where the steps are shared,
    /// and 147 where they are not.
    pub(crate) const SHARE: usize = 8 << 20;

    /// Rows or columns that are decomposed at once, in matrices of `n` rows: more of them make larger products, and leave
    /// less to the products.
    pub(crate) fn block(n: usize, complex: bool) -> usize {
        match n {
            _ if complex => 32,
            0..384 => 32,
            _ => 64,
        }
    }

    /// The most reflectors of a block of the reductions to two and three diagonals.
    pub(crate) const REFLECTORS: usize = 32;

    /// The reflectors of such a block, in matrices of `n` columns.
    pub(crate) fn reflectors(n: usize) -> usize {
        match n {
            0..128 => 8,
            _ => REFLECTORS,
        }
    }

    /// Reflectors of a product in QR.
    pub(crate) const PANEL: usize = 32;

    /// Products of numbers that a thread is started for, where a large matrix is multiplied with a vector.
    pub(crate) const VECTOR_THREAD: usize = 1 << 17;

    /// Numbers of a matrix up to which a reduction updates it on one thread. With two threads on two cores of a Zen 5,
    /// eigenvectors of 512 rows take 9.4 ms where the updates are shared, and 7.9 where they are not.
    pub(crate) const CACHED: usize = 1 << 19;

    /// The largest number of products for which rows are combined one by one: the product of matrices takes longer to start.
    pub(crate) const ROWS_PRODUCTS: usize = 1 << 17;

    /// LU: columns of a panel that are eliminated one by one, before the others of the panel are.
    pub(crate) const LU_INNER: usize = 16;

    /// LU: rows of a panel to which columns are applied at once, so that L1 holds them.
    pub(crate) const LU_ROWS: usize = 512;

    /// Cholesky: columns of the rest of the matrix that are updated at once, below the diagonal only, but for squares of this
    /// side.
    pub(crate) const CHOLESKY_COLUMNS: usize = 128;

    /// Triangular systems: columns of right-hand sides that are solved at once, so that L1 holds the rows of a block.
    pub(crate) const SYSTEM_COLUMNS: usize = 128;

    /// Triangular systems: multiply-adds of a block's solutions that a thread of its own is worth.
    pub(crate) const SYSTEM_BLOCK_THREAD: usize = 1 << 19;

    /// As [`SYSTEM_BLOCK_THREAD`], of a whole system's solutions, most of which are products.
    pub(crate) const SYSTEM_THREAD: usize = 1 << 22;
}

/// Eigenvectors of tridiagonal matrices.
pub(crate) mod tridiagonal {
    /// Divide and conquer: the rows up to which a part is left to the QL algorithm.
    pub(crate) const PART: usize = 64;

    /// Divide and conquer: roots, or other numbers of which each is made of all others, that are computed side by side.
    pub(crate) const ROOTS: usize = 16;

    /// Divide and conquer: groups of numbers times the numbers that each is made of, which a thread is started for.
    pub(crate) const ROOTS_THREAD: usize = 1 << 10;

    /// QL: the rotations that are collected before they are applied, so that a strip of the vectors stays in L1 for many
    /// sweeps.
    pub(crate) const COLLECTED: usize = 1 << 13;

    /// QL: numbers of a strip: with those of some hundred rows they fit L1.
    pub(crate) const STRIP: usize = 32;

    /// QL: rotations of vectors' numbers that are worth a thread of their own: each batch of rotations is shared.
    pub(crate) const ROTATIONS_THREAD: usize = 1 << 22;
}
