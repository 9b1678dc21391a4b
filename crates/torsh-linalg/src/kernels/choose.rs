//! The choices of the kernels' algorithms. [`torsh_backend_cpu::operations`] prints, forces and tunes them with those of the
//! CPU backend.

use std::fmt;

use torsh_backend_cpu::operations::Algorithm;
use torsh_core::machine::{Level, Machine};

use super::tuning::{self, blocked};

torsh_backend_cpu::operations! {
    BatchAlgorithm, FactorAlgorithm, EighAlgorithm, SvdAlgorithm, EigAlgorithm, UpdateAlgorithm
}

/// Declares an algorithm's enum: its variants with their names, and the operation.
macro_rules! algorithms {
    ($(#[$doc:meta])* $name:ident of $op:literal { $($(#[$each:meta])* $variant:ident $text:literal,)* } $($rest:tt)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$each])* $variant,)*
        }

        impl Algorithm for $name {
            const OP: &'static str = $op;
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            $($rest)*
        }
    };
}

/// A batch of matrices to be decomposed or solved with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BatchProblem {
    pub count: usize,
    pub rows: usize,
    pub cols: usize,
    /// Whether there is an algorithm for the dtype that decomposes matrices side by side: for real numbers.
    pub real: bool,
}

impl fmt::Display for BatchProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BatchProblem {
            count,
            rows,
            cols,
            real,
        } = self;
        let kind = if *real { "real" } else { "complex" };
        write!(f, "{kind} count={count} rows={rows} cols={cols}")
    }
}

algorithms! {
    /// How a batch is decomposed.
    BatchAlgorithm of "linalg.batch" {
        /// A matrix in each lane of the vectors.
        Lanes "lanes",
        /// One matrix after the other.
        Single "single",
    }

    type Problem = BatchProblem;

    #[inline]
    fn accepts(self, p: &BatchProblem, machine: &Machine) -> bool {
        match self {
            Self::Lanes => {
                let side = p.rows.max(p.cols);
                let fits = p.rows.min(p.cols) > 0 && side <= tuning::LANES_SIDE;
                p.real && fits && machine.level > Level::Base
            }
            Self::Single => true,
        }
    }

    #[inline]
    fn choose(p: &BatchProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        match p.count >= tuning::FEWEST_LANES && Self::Lanes.accepts(p, machine) {
            true => (Self::Lanes, "small real matrices fill the lanes"),
            false => (Self::Single, "few, large or complex matrices, or no vectors"),
        }
    }

    fn examples() -> Vec<BatchProblem> {
        let real = |count, rows, cols| BatchProblem { count, rows, cols, real: true };
        vec![
            real(4096, 4, 4),
            real(4096, 8, 8),
            real(256, 32, 32),
            real(256, 33, 33),
            real(3, 8, 8),
            real(1, 512, 512),
            BatchProblem { real: false, ..real(4096, 8, 8) },
        ]
    }
}

/// A matrix to be factored, or a triangular system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FactorProblem {
    /// The smaller side.
    pub n: usize,
    /// Whether there is no nan and no infinity, which only the unblocked algorithms spread as LAPACK's do.
    pub finite: bool,
}

impl fmt::Display for FactorProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finite = if self.finite { "" } else { " nonfinite=1" };
        write!(f, "n={}{finite}", self.n)
    }
}

algorithms! {
    /// How LU, Cholesky and QR factor one matrix, and how a triangular system is solved.
    FactorAlgorithm of "linalg.factor" {
        /// Row by row, in LAPACK's unblocked order.
        Unblocked "unblocked",
        /// In blocks, with matrix products.
        Blocked "blocked",
    }

    type Problem = FactorProblem;

    #[inline]
    fn accepts(self, p: &FactorProblem, _: &Machine) -> bool {
        match self {
            Self::Unblocked => true,
            Self::Blocked => p.finite && p.n > 0,
        }
    }

    #[inline]
    fn choose(p: &FactorProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match (p.n <= tuning::SMALL, p.finite) {
            (true, _) => (Self::Unblocked, "too small for products"),
            (false, false) => (Self::Unblocked, "nan and infinity spread as in LAPACK"),
            (false, true) => (Self::Blocked, "products do most of the work"),
        }
    }

    fn examples() -> Vec<FactorProblem> {
        let finite = |n| FactorProblem { n, finite: true };
        vec![
            finite(8),
            finite(24),
            finite(25),
            finite(512),
            FactorProblem { n: 512, finite: false },
        ]
    }
}

/// A matrix whose eigenvalues or singular values are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpectralProblem {
    pub rows: usize,
    pub cols: usize,
    /// The bytes of a real number.
    pub bytes: usize,
    pub complex: bool,
}

impl fmt::Display for SpectralProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bits) = match self.complex {
            true => ("complex", 16 * self.bytes),
            false => ("float", 8 * self.bytes),
        };
        write!(f, "{kind}{bits} rows={} cols={}", self.rows, self.cols)
    }
}

/// Real and complex examples of square matrices.
fn squares() -> Vec<SpectralProblem> {
    let square = |n, bytes, complex| SpectralProblem {
        rows: n,
        cols: n,
        bytes,
        complex,
    };
    vec![
        square(100, 4, false),
        square(256, 4, false),
        square(256, 8, false),
        square(256, 4, true),
    ]
}

algorithms! {
    /// How the eigenvalues of one Hermitian matrix are computed.
    EighAlgorithm of "linalg.eigh" {
        /// By a tridiagonal matrix, and divide and conquer.
        Reduced "reduced",
        /// By faer.
        General "general",
    }

    type Problem = SpectralProblem;

    #[inline]
    fn accepts(self, p: &SpectralProblem, _: &Machine) -> bool {
        match self {
            Self::Reduced => !p.complex,
            Self::General => true,
        }
    }

    #[inline]
    fn choose(p: &SpectralProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match p.complex {
            false => (Self::Reduced, "the reduction is for real matrices"),
            true => (Self::General, "complex numbers"),
        }
    }

    fn examples() -> Vec<SpectralProblem> {
        squares()
    }
}

algorithms! {
    /// How the singular values of one matrix are computed.
    SvdAlgorithm of "linalg.svd" {
        /// By a bidiagonal matrix, whose vectors come from a product in double precision. A matrix with a large null space is
        /// left to the general algorithm.
        Reduced "reduced",
        /// By faer.
        General "general",
    }

    type Problem = SpectralProblem;

    #[inline]
    fn accepts(self, p: &SpectralProblem, _: &Machine) -> bool {
        match self {
            Self::Reduced => !p.complex && p.bytes == 4,
            Self::General => true,
        }
    }

    #[inline]
    fn choose(p: &SpectralProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        match Self::Reduced.accepts(p, machine) {
            true => (Self::Reduced, "double precision makes up for the squares"),
            false => (Self::General, "no wider precision, or complex numbers"),
        }
    }

    fn examples() -> Vec<SpectralProblem> {
        squares()
    }
}

algorithms! {
    /// How the eigenvalues of one matrix are computed.
    EigAlgorithm of "linalg.eig" {
        /// By double steps in float64. Where they do not converge, the general algorithm follows.
        DoubleSteps "double-steps",
        /// By faer.
        General "general",
    }

    type Problem = SpectralProblem;

    #[inline]
    fn accepts(self, p: &SpectralProblem, _: &Machine) -> bool {
        match self {
            Self::DoubleSteps => !p.complex,
            Self::General => true,
        }
    }

    #[inline]
    fn choose(p: &SpectralProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match !p.complex && p.rows <= tuning::DOUBLE_STEPS_SIDE {
            true => (Self::DoubleSteps, "small and real"),
            false => (Self::General, "large or complex"),
        }
    }

    fn examples() -> Vec<SpectralProblem> {
        squares()
    }
}

/// An update of a matrix by `k` products of a column and a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpdateProblem {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl fmt::Display for UpdateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m={} n={} k={}", self.m, self.n, self.k)
    }
}

algorithms! {
    /// How a reduction to two or three diagonals updates the rest of the matrix.
    UpdateAlgorithm of "linalg.update" {
        /// Row by row.
        Rows "rows",
        /// As a matrix product.
        Product "product",
    }

    type Problem = UpdateProblem;

    #[inline]
    fn accepts(self, _: &UpdateProblem, _: &Machine) -> bool {
        true
    }

    #[inline]
    fn choose(p: &UpdateProblem, _: &Machine, _: usize) -> (Self, &'static str) {
        match p.m * p.n * p.k <= blocked::ROWS_PRODUCTS {
            true => (Self::Rows, "a product takes longer to start"),
            false => (Self::Product, "a product reads the rows from its own panels"),
        }
    }

    fn examples() -> Vec<UpdateProblem> {
        [(100, 100, 8), (480, 480, 32)].map(|(m, n, k)| UpdateProblem { m, n, k }).to_vec()
    }
}
