//! Attributes of linear algebra: decompositions and solvers of batches of matrices.
//!
//! The kernels of these keys read matrices in the last two dimensions of an operand; the dimensions before them are
//! the batch, which all operands and results share. They check all that they are called with.

torsh_core::words! {
    /// Which factors `LinalgQr` gives.
    QrMode {
        /// `Q` of as many columns as the smaller side has.
        Reduced = "reduced",
        /// A square `Q`.
        Complete = "complete",
        /// `R` alone; `Q` is empty.
        R = "r",
    }

    /// The method of `LinalgLstsq`, by the name of LAPACK's driver.
    LstsqDriver {
        /// QR; the matrix has full rank.
        Gels = "gels",
        /// A complete orthogonal factorisation.
        Gelsy = "gelsy",
        /// Singular values, by divide and conquer.
        Gelsd = "gelsd",
        /// Singular values.
        Gelss = "gelss",
    }
}

torsh_core::attributes! {
    /// `LinalgCholesky`: results are the factor and `info`, the order of the first leading minor that is not
    /// positive definite (int32; 0 where there is none).
    LinalgCholesky {
        /// Whether the factor is upper triangular, and the upper triangle is read.
        upper: bool,
    }

    /// `triangular_solve` of a sparse matrix.
    TriangularSolve {
        /// Whether the upper triangle is read.
        upper: bool,
        /// Whether the matrix is transposed.
        transpose: bool,
        /// Whether the diagonal is taken as ones.
        unitriangular: bool,
    }

    /// `LinalgLuFactor`: results are both factors in one matrix, the pivots (int32, from 1 on) and `info`, the
    /// position of the first zero on the diagonal of `U`.
    LinalgLuFactor {
        /// Whether rows are exchanged.
        pivot: bool,
    }

    /// `LinalgLuSolve`: operands are the factors, the pivots and the right-hand side.
    LinalgLuSolve {
        /// Whether `A X = B` is solved, else `X A = B`.
        left: bool,
        /// Whether `A` is replaced by its conjugate transpose.
        adjoint: bool,
    }

    /// `LinalgSolve`: operands are `A` and `B`, results the solution, the LU factors, the pivots and `info`. With `A` alone
    /// the results are its inverse and `info`.
    LinalgSolve {
        /// Whether `A X = B` is solved, else `X A = B`.
        left: bool,
    }

    /// `LinalgSolveTriangular`: operands are `A` and `B`.
    LinalgSolveTriangular {
        /// Whether `A` is upper triangular.
        upper: bool,
        /// Whether `A X = B` is solved, else `X A = B`.
        left: bool,
        /// Whether the diagonal of `A` is taken as ones, and not read.
        unitriangular: bool,
    }

    /// `LinalgQr`: results are `Q` and `R`.
    LinalgQr {
        /// Which factors.
        mode: QrMode,
    }

    /// `LinalgOrmqr`: operands are the reflectors, their factors and the matrix that is multiplied.
    LinalgOrmqr {
        /// Whether `Q` is the left factor.
        left: bool,
        /// Whether `Q` is conjugated and transposed.
        transpose: bool,
    }

    /// `LinalgEigh`: results are the eigenvalues and, where asked for, the eigenvectors.
    LinalgEigh {
        /// Whether the upper triangle is read, else the lower.
        upper: bool,
        /// Whether there are eigenvectors.
        vectors: bool,
    }

    /// `LinalgSvd`: results are `U`, the singular values and `Vh`, or the singular values alone.
    LinalgSvd {
        /// Whether `U` and `Vh` are square.
        full_matrices: bool,
        /// Whether there are singular vectors.
        vectors: bool,
    }

    /// `LinalgEig`: results are the eigenvalues and, where asked for, the eigenvectors, both complex.
    LinalgEig {
        /// Whether there are eigenvectors.
        vectors: bool,
    }

    /// `LinalgLdlFactor` (results are the factors, the pivots and `info`) and `LinalgLdlSolve` (operands are the
    /// factors, the pivots and the right-hand side).
    LinalgLdl {
        /// Whether the matrix is Hermitian, else symmetric.
        hermitian: bool,
    }

    /// `LinalgLstsq`: operands are `A` and `B`, results the solution, the ranks (int64) and the singular values.
    LinalgLstsq {
        /// Singular values below this part of the largest count as zero.
        rcond: f64,
        /// The method.
        driver: LstsqDriver,
    }

    /// `LinalgPinv`: operands are the matrix, the absolute and the relative tolerances of each matrix.
    LinalgPinv {
        /// Whether the matrix is Hermitian, of which the lower triangle is read.
        hermitian: bool,
    }
}
