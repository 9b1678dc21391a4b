//! PyTorch's keyword arguments, with its defaults.

use smallvec::SmallVec;
use torsh_core::DType;
use torsh_tensor::named::{Named, Unknown};
use torsh_tensor::{IntoDims, NormOrd, Result, Tensor, named, options};

use crate::attrs;

/// Which parts of a QR decomposition are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QrMode {
    /// As many columns of Q as the smaller side of the matrix.
    Reduced,
    /// All columns of Q.
    Complete,
    /// R alone; Q is empty.
    R,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(Unknown),
}

named! {
    QrMode, "mode",
    "reduced" => QrMode::Reduced,
    "complete" => QrMode::Complete,
    "r" => QrMode::R,
}

impl QrMode {
    /// PyTorch's word.
    pub fn as_str(self) -> &'static str {
        self.word()
    }

    /// The mode as kernels take it.
    pub(crate) fn plain(self) -> Result<attrs::QrMode> {
        Ok(match self.known()? {
            QrMode::Complete => attrs::QrMode::Complete,
            QrMode::R => attrs::QrMode::R,
            QrMode::Reduced | QrMode::Unknown(_) => attrs::QrMode::Reduced,
        })
    }
}

/// A limit for small singular values: one for all matrices, or a tensor of one for each.
#[derive(Clone, Debug)]
pub enum Tolerance {
    /// For all matrices.
    Number(f64),
    /// For each matrix, of a shape that broadcasts with the batch.
    Tensor(Tensor),
}

impl From<f64> for Tolerance {
    fn from(v: f64) -> Tolerance {
        Tolerance::Number(v)
    }
}

impl From<&Tensor> for Tolerance {
    fn from(t: &Tensor) -> Tolerance {
        Tolerance::Tensor(t.clone())
    }
}

impl From<Tensor> for Tolerance {
    fn from(t: Tensor) -> Tolerance {
        Tolerance::Tensor(t)
    }
}

options! {
    /// The keyword arguments of `cholesky`, `cholesky_solve` and `cholesky_inverse`.
    CholeskyOptions {
        /// Whether the factor is upper triangular. The default is lower.
        upper: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.cholesky_ex`.
    CholeskyExOptions {
        /// Whether the factor is upper triangular. The default is lower.
        upper: bool = false;
        /// Whether a matrix that is not positive definite is an error. The default is `false`.
        check_errors: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.lu` and `linalg.lu_factor`.
    LuOptions {
        /// Whether rows are exchanged. The default is `true`.
        pivot: bool = true;
    }
}

options! {
    /// The keyword arguments of `linalg.lu_factor_ex`.
    LuFactorExOptions {
        /// Whether rows are exchanged. The default is `true`.
        pivot: bool = true;
        /// Whether a zero on the diagonal of `U` is an error. The default is `false`.
        check_errors: bool = false;
    }
}

options! {
    /// The keyword arguments of `lu_unpack`.
    LuUnpackOptions {
        /// Whether `L` and `U` are wanted. The default is `true`.
        unpack_data: bool = true;
        /// Whether `P` is wanted. The default is `true`.
        unpack_pivots: bool = true;
    }
}

options! {
    /// The keyword arguments of `linalg.lu_solve`.
    LuSolveOptions {
        /// Whether `A X = B` is solved, else `X A = B`. The default is `true`.
        left: bool = true;
        /// Whether `A` is conjugated and transposed. The default is `false`.
        adjoint: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.solve`.
    SolveOptions {
        /// Whether `A X = B` is solved, else `X A = B`. The default is `true`.
        left: bool = true;
    }
}

options! {
    /// The keyword arguments of `linalg.solve_ex`.
    SolveExOptions {
        /// Whether `A X = B` is solved, else `X A = B`. The default is `true`.
        left: bool = true;
        /// Whether a singular matrix is an error. The default is `false`.
        check_errors: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.inv_ex`.
    InvExOptions {
        /// Whether a singular matrix is an error. The default is `false`.
        check_errors: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.solve_triangular`.
    SolveTriangularOptions {
        /// Whether `A X = B` is solved, else `X A = B`. The default is `true`.
        left: bool = true;
        /// Whether the diagonal of `A` is taken as ones, and not read. The default is `false`.
        unitriangular: bool = false;
    }
}

options! {
    /// The keyword arguments of `triangular_solve`.
    TriangularSolveOptions {
        /// Whether `A` is upper triangular. The default is `true`.
        upper: bool = true;
        /// Whether `A` is transposed. The default is `false`.
        transpose: bool = false;
        /// Whether the diagonal of `A` is taken as ones, and not read. The default is `false`.
        unitriangular: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.qr`.
    QrOptions {
        /// Which factors. The default is the reduced ones.
        mode: QrMode = QrMode::Reduced, impl Into<QrMode> => Into::into;
    }
}

options! {
    /// The keyword arguments of `ormqr`.
    OrmqrOptions {
        /// Whether `Q` is the left factor. The default is `true`.
        left: bool = true;
        /// Whether `Q` is conjugated and transposed. The default is `false`.
        transpose: bool = false;
    }
}

/// A triangle, 'L' or 'U', as a char or a string, whose first character counts.
pub trait IntoUplo {
    /// The character.
    fn uplo(self) -> char;
}
impl IntoUplo for char {
    fn uplo(self) -> char {
        self
    }
}
impl IntoUplo for &str {
    fn uplo(self) -> char {
        self.chars().next().unwrap_or(' ')
    }
}

options! {
    /// The keyword arguments of `linalg.eigh` and `linalg.eigvalsh`.
    EighOptions {
        /// The triangle that is read: `'L'` (lower) unless set, or `'U'`.
        uplo: char = 'L', impl IntoUplo => |u| u.uplo();
    }
}

options! {
    /// The keyword arguments of `linalg.svd`.
    SvdOptions {
        /// Whether `U` and `Vh` are square. The default is `true`.
        full_matrices: bool = true;
        /// A method of cuSOLVER; an error on other devices.
        driver: Option<String> = None, &str => |d| Some(d.to_string());
    }
}

options! {
    /// The keyword arguments of `linalg.svdvals`.
    SvdvalsOptions {
        /// A method of cuSOLVER; an error on other devices.
        driver: Option<String> = None, &str => |d| Some(d.to_string());
    }
}

options! {
    /// The keyword arguments of `svd`.
    OldSvdOptions {
        /// Whether only as many vectors are there as singular values. The default is `true`.
        some: bool = true;
        /// Whether vectors are computed, else they are zero. The default is `true`.
        compute_uv: bool = true;
    }
}

options! {
    /// The keyword arguments of `linalg.ldl_factor` and `linalg.ldl_solve`.
    LdlOptions {
        /// Whether the matrix is Hermitian, else symmetric. The default is `false`.
        hermitian: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.ldl_factor_ex`.
    LdlFactorExOptions {
        /// Whether the matrix is Hermitian, else symmetric. The default is `false`.
        hermitian: bool = false;
        /// Whether a factor that is zero is an error. The default is `false`.
        check_errors: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.lstsq`.
    LstsqOptions {
        /// Singular values below this part of the largest count as zero. The default is the dtype's precision times the
        /// larger side.
        rcond: Option<f64> = None, impl Into<Option<f64>> => |v| v.into();
        /// `gelsy`, as unless set, `gels` (full rank only), `gelsd` or `gelss`.
        driver: Option<String> = None, &str => |d| Some(d.to_string());
    }
}

options! {
    /// The keyword arguments of `linalg.pinv` and `linalg.matrix_rank`.
    PinvOptions {
        /// Singular values up to this count as zero. The default is 0.
        atol: Option<Tolerance> = None, impl Into<Tolerance> => |v| Some(v.into());
        /// Singular values up to this part of the largest count as zero; the larger side times the dtype's precision unless `atol` is set.
        rtol: Option<Tolerance> = None, impl Into<Tolerance> => |v| Some(v.into());
        /// Whether the matrices are Hermitian, of which the lower triangle is read. The default is `false`.
        hermitian: bool = false;
    }
}

options! {
    /// The keyword arguments of `linalg.norm`.
    NormOptions {
        /// The order. The default is the 2-norm of all elements.
        ord: Option<NormOrd> = None, impl Into<NormOrd> => |o| Some(o.into());
        /// The dimensions: one for vectors, two for matrices. The default is all.
        dim: Option<SmallVec<[i64; 6]>> = None, impl IntoDims => |d| d.dims();
        /// Whether reduced dimensions stay, at size 1. The default is `false`.
        keepdim: bool = false;
        /// The dtype the operand is converted to first.
        dtype: Option<DType> = None, impl Into<Option<DType>> => |v| v.into();
    }
}

options! {
    /// The keyword arguments of `linalg.vector_norm`.
    VectorNormOptions {
        /// The order: 2 unless set; infinities and 0 are possible too.
        ord: f64 = 2.0, impl Into<f64> => |p| p.into();
        /// The dimensions. The default is all.
        dim: Option<SmallVec<[i64; 6]>> = None, impl IntoDims => |d| d.dims();
        /// Whether reduced dimensions stay, at size 1. The default is `false`.
        keepdim: bool = false;
        /// The dtype the operand is converted to first.
        dtype: Option<DType> = None, impl Into<Option<DType>> => |v| v.into();
    }
}

options! {
    /// The keyword arguments of `linalg.matrix_norm`.
    MatrixNormOptions {
        /// The order. The default is Frobenius's.
        ord: NormOrd = NormOrd::Fro, impl Into<NormOrd> => |o| o.into();
        /// The dimensions of the matrices. The default is the last two.
        dim: [i64; 2] = [-2, -1];
        /// Whether reduced dimensions stay, at size 1. The default is `false`.
        keepdim: bool = false;
        /// The dtype the operand is converted to first.
        dtype: Option<DType> = None, impl Into<Option<DType>> => |v| v.into();
    }
}

options! {
    /// The keyword arguments of `linalg.cond`.
    CondOptions {
        /// The order of the norm. The default is 2.
        p: Option<NormOrd> = None, impl Into<NormOrd> => |o| Some(o.into());
    }
}

options! {
    /// The keyword arguments of `linalg.diagonal`.
    DiagonalOptions {
        /// How far above the main diagonal; below it where negative.
        offset: i64 = 0;
        /// The dimension of the rows.
        dim1: i64 = -2;
        /// The dimension of the columns.
        dim2: i64 = -1;
    }
}

options! {
    /// The keyword arguments of `linalg.vecdot`.
    VecdotOptions {
        /// The dimension of the vectors. The default is the last.
        dim: i64 = -1;
    }
}

options! {
    /// The keyword arguments of `linalg.vander`.
    VanderOptions {
        /// The number of powers. The default is that of the numbers.
        n: Option<i64> = None, impl Into<Option<i64>> => |v| v.into();
    }
}

options! {
    /// The keyword arguments of `vander`.
    OldVanderOptions {
        /// The number of powers. The default is that of the numbers.
        n: Option<i64> = None, impl Into<Option<i64>> => |v| v.into();
        /// Whether powers ascend. The default is `false`.
        increasing: bool = false;
    }
}

options! {
    /// The keyword arguments of `svd_lowrank`.
    SvdLowrankOptions {
        /// How many singular values. The default is 6.
        q: i64 = 6;
        /// How many iterations. The default is 2.
        niter: i64 = 2;
        /// What is subtracted from the matrix first.
        m: Option<Tensor> = None, &Tensor => |m| Some(m.clone());
    }
}

options! {
    /// The keyword arguments of `pca_lowrank`.
    PcaLowrankOptions {
        /// How many components. The default is 6, or fewer for a small matrix.
        q: Option<i64> = None, impl Into<Option<i64>> => |v| v.into();
        /// Whether the mean of each column is subtracted first. The default is `true`.
        center: bool = true;
        /// How many iterations. The default is 2.
        niter: i64 = 2;
    }
}

options! {
    /// The keyword arguments of `lobpcg`.
    LobpcgOptions {
        /// How many eigenvalues; as many as `x` has columns, else 1, unless set.
        k: Option<i64> = None, impl Into<Option<i64>> => |v| v.into();
        /// The matrix `B` of the problem `A x = l B x`. The default is the identity.
        b: Option<Tensor> = None, &Tensor => |m| Some(m.clone());
        /// Where the iteration starts. The default is random.
        x: Option<Tensor> = None, &Tensor => |m| Some(m.clone());
        /// The number of columns that are iterated. The default is `k`.
        n: Option<i64> = None, impl Into<Option<i64>> => |v| v.into();
        /// A preconditioner.
        ik: Option<Tensor> = None, &Tensor => |m| Some(m.clone());
        /// The most iterations; 1000 unless set, -1 for as many as it takes (at most 10,000).
        niter: Option<i64> = None, impl Into<Option<i64>> => |v| v.into();
        /// The residual at which an eigenvalue is good. The default is the root of the dtype's precision.
        tol: Option<f64> = None, impl Into<Option<f64>> => |v| v.into();
        /// Whether the largest eigenvalues are wanted. The default is `true`.
        largest: Option<bool> = None, impl Into<Option<bool>> => |v| v.into();
    }
}
