//! Singular values, eigenvalues, and their vectors, of one matrix: of real ones by [`reduced`], of others and where that is
//! not exact enough by faer.
//!
//! Each matrix is scaled by a power of two first, so that its largest number is about 1: neither large nor small
//! numbers overflow or vanish when they are squared.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::{Mat, MatMut, MatRef, Par};
use num_complex::Complex;
use num_traits::Float;
use torsh_backend_cpu::operations::pick;
use torsh_core::{Result, TorshError, pool};

use super::batch::par;
use super::blocked::Blocked;
use super::choose::{EigAlgorithm, EighAlgorithm, SpectralProblem, SvdAlgorithm};
use super::field::{Field, Real, norm};
use super::francis::Schur;
use super::matrix_factor::{scale_to_one, to_columns};
use super::reduced::{self, Singular};

fn did_not_converge() -> TorshError {
    TorshError::failed("", "the iteration did not converge").with_hint(
        "the matrix is ill-conditioned or has too many repeated values; try it in float64",
    )
}

/// A number type whose matrices have singular values, and eigenvalues where they are Hermitian. Types without a reduction of
/// their own take the general algorithm.
pub(crate) trait Spectral: Blocked {
    /// As [`reduced::eigh`].
    fn reduced_eigh(work: &mut Eigh<Self>, a: &[Self], upper: bool) -> Result<()> {
        work.general(a, upper)
    }
    /// As [`reduced::svd`].
    fn reduced_svd(work: &mut Svd<Self>, a: &[Self]) -> Result<()> {
        work.general(a)
    }
}

impl Spectral for Complex<f32> {}
impl Spectral for Complex<f64> {}

impl Spectral for f32 {
    fn reduced_eigh(work: &mut Eigh<f32>, a: &[f32], upper: bool) -> Result<()> {
        let done = reduced::eigh((a, work.n), upper, &mut work.s, work.u.as_mut());
        done.then_some(()).ok_or_else(did_not_converge)
    }

    fn reduced_svd(work: &mut Svd<f32>, a: &[f32]) -> Result<()> {
        let (m, n) = work.size;
        let (u, v) = (work.u.as_mut(), work.v.as_mut());
        let s = &mut work.s;
        match reduced::svd((a, m, n), Singular { s, u, v }) {
            Some(()) => Ok(()),
            None => work.general(a),
        }
    }
}

impl Spectral for f64 {
    fn reduced_eigh(work: &mut Eigh<f64>, a: &[f64], upper: bool) -> Result<()> {
        let done = reduced::eigh((a, work.n), upper, &mut work.s, work.u.as_mut());
        done.then_some(()).ok_or_else(did_not_converge)
    }
}

/// A decomposition of a matrix of `T`, as its algorithms are chosen by.
fn problem<T: Field>(rows: usize, cols: usize) -> SpectralProblem {
    SpectralProblem {
        rows,
        cols,
        bytes: size_of::<T::R>(),
        complex: T::COMPLEX,
    }
}

/// What singular value decompositions of one size need.
pub(crate) struct Svd<T: Field> {
    size: (usize, usize),
    s: Diag<T>,
    u: Option<Mat<T>>,
    v: Option<Mat<T>>,
    kind: ComputeSvdVectors,
    par: Par,
    /// The matrix and the memory of faer's algorithm.
    general: Option<(Mat<T>, MemBuffer)>,
}

impl<T: Spectral> Svd<T> {
    /// For matrices of `m` rows and `n` columns; `vectors` says whether there are any, and whether they are all there.
    pub fn new(m: usize, n: usize, vectors: Option<bool>) -> Svd<T> {
        let k = m.min(n);
        let kind = match vectors {
            None => ComputeSvdVectors::No,
            Some(false) => ComputeSvdVectors::Thin,
            Some(true) => ComputeSvdVectors::Full,
        };
        let square =
            |side: usize| vectors.map(|full| Mat::zeros(side, if full { side } else { k }));
        Svd {
            size: (m, n),
            s: Diag::zeros(k),
            u: square(m),
            v: square(n),
            kind,
            par: par(m * n * k),
            general: None,
        }
    }

    /// Decomposes row-major finite `a`.
    pub fn run(&mut self, a: &[T]) -> Result<()> {
        let (m, n) = self.size;
        if m == 0 || n == 0 {
            for side in [&mut self.u, &mut self.v].into_iter().flatten() {
                let size = side.ncols();
                side.copy_from(Mat::<T>::identity(side.nrows(), size));
            }
            return Ok(());
        }
        match pick(&problem::<T>(m, n), pool::num_threads()) {
            SvdAlgorithm::Reduced => T::reduced_svd(self, a),
            SvdAlgorithm::General => self.general(a),
        }
    }

    /// [`run`](Self::run) by faer.
    fn general(&mut self, a: &[T]) -> Result<()> {
        let ((m, n), kind, par) = (self.size, self.kind, self.par);
        let (matrix, memory) = self.general.get_or_insert_with(|| {
            let need = svd::svd_scratch::<T>(m, n, kind, kind, par, Default::default());
            (Mat::zeros(m, n), MemBuffer::new(need))
        });
        to_columns(a, matrix);
        let scale = scale_to_one(matrix);
        svd::svd(
            matrix.as_ref(),
            self.s.as_mut(),
            self.u.as_mut().map(|u| u.as_mut()),
            self.v.as_mut().map(|v| v.as_mut()),
            par,
            MemStack::new(memory),
            Default::default(),
        )
        .map_err(|_| did_not_converge())?;
        let zero = <T::R as Field>::ZERO;
        for s in self.s.as_mut().column_vector_mut().iter_mut() {
            let v = s.re() * scale;
            *s = T::of(if v > zero { v } else { zero });
        }
        Ok(())
    }

    /// Singular value `i`.
    pub fn s(&self, i: usize) -> T::R {
        self.s.as_ref().column_vector()[i].re()
    }

    /// The left singular vectors, as columns.
    pub fn u(&self) -> Option<&Mat<T>> {
        self.u.as_ref()
    }

    /// The right singular vectors, as columns.
    pub fn v(&self) -> Option<&Mat<T>> {
        self.v.as_ref()
    }
}

/// What decompositions of Hermitian matrices of one size need.
pub(crate) struct Eigh<T: Field> {
    n: usize,
    s: Diag<T>,
    u: Option<Mat<T>>,
    par: Par,
    /// The matrix and the memory of faer's algorithm.
    general: Option<(Mat<T>, MemBuffer)>,
}

impl<T: Spectral> Eigh<T> {
    /// For matrices of `n` rows.
    pub fn new(n: usize, vectors: bool) -> Eigh<T> {
        Eigh {
            n,
            s: Diag::zeros(n),
            u: vectors.then(|| Mat::identity(n, n)),
            par: par(n * n * n / 2),
            general: None,
        }
    }

    /// Decomposes the matrix whose one triangle is that of row-major finite `a`.
    pub fn run(&mut self, a: &[T], upper: bool) -> Result<()> {
        let n = self.n;
        if n <= 1 {
            for (s, a) in self.s.as_mut().column_vector_mut().iter_mut().zip(a) {
                *s = T::of(a.re());
            }
            return Ok(());
        }
        match pick(&problem::<T>(n, n), pool::num_threads()) {
            EighAlgorithm::Reduced => T::reduced_eigh(self, a, upper),
            EighAlgorithm::General => self.general(a, upper),
        }
    }

    /// [`run`](Self::run) by faer.
    fn general(&mut self, a: &[T], upper: bool) -> Result<()> {
        let (n, par) = (self.n, self.par);
        let kind = match self.u {
            Some(_) => ComputeEigenvectors::Yes,
            None => ComputeEigenvectors::No,
        };
        let (matrix, memory) = self.general.get_or_insert_with(|| {
            let need = evd::self_adjoint_evd_scratch::<T>(n, kind, par, Default::default());
            (Mat::zeros(n, n), MemBuffer::new(need))
        });
        match upper {
            false => to_columns(a, matrix),
            // The upper triangle's rows are the columns of the lower one, conjugated.
            true => {
                for (j, row) in a.chunks_exact(n).enumerate() {
                    for (to, v) in matrix.col_as_slice_mut(j).iter_mut().zip(row) {
                        *to = Field::conj(*v);
                    }
                }
            }
        }
        for j in 0..n {
            let column = matrix.col_as_slice_mut(j);
            column[..j].fill(T::ZERO);
            column[j] = T::of(column[j].re());
        }
        let scale = scale_to_one(matrix);
        evd::self_adjoint_evd(
            matrix.as_ref(),
            self.s.as_mut(),
            self.u.as_mut().map(|u| u.as_mut()),
            par,
            MemStack::new(memory),
            Default::default(),
        )
        .map_err(|_| did_not_converge())?;
        for s in self.s.as_mut().column_vector_mut().iter_mut() {
            *s = T::of(s.re() * scale);
        }
        Ok(())
    }

    /// Eigenvalue `i`, ascending.
    pub fn s(&self, i: usize) -> T::R {
        self.s.as_ref().column_vector()[i].re()
    }

    /// The eigenvectors, as columns.
    pub fn u(&self) -> Option<&Mat<T>> {
        self.u.as_ref()
    }
}

/// A number type whose matrices have eigenvalues.
pub(crate) trait Eig: Field {
    /// The complex type of its width.
    type C: Field<R = Self::R>;
    /// The eigenvalues of a matrix and, where asked for, its eigenvectors, of length 1 with a real largest entry.
    fn eig(a: MatRef<'_, Self>, vectors: bool) -> Result<(Vec<Self::C>, Option<Mat<Self::C>>)>;
}

fn kinds(vectors: bool) -> (ComputeEigenvectors, ComputeEigenvectors) {
    let right = match vectors {
        true => ComputeEigenvectors::Yes,
        false => ComputeEigenvectors::No,
    };
    (ComputeEigenvectors::No, right)
}

/// Scales each column to length 1, with its largest entry real, as LAPACK's `geev`.
fn normalise<T: Field>(mut v: MatMut<'_, T>) {
    let n = v.nrows();
    for j in 0..v.ncols() {
        let length = norm((0..n).map(|i| v[(i, j)]));
        if !(length > <T::R as Field>::ZERO) || !Float::is_normal(length) {
            continue;
        }
        let by = <T::R as Field>::ONE / length;
        let square = |v: T| {
            let (re, im) = (v.re() * by, v.im() * by);
            re * re + im * im
        };
        let (mut largest, mut most) = (0, square(v[(0, j)]));
        for i in 1..n {
            let size = square(v[(i, j)]);
            if size > most {
                (largest, most) = (i, size);
            }
        }
        let top = v[(largest, j)];
        let real = top.im() == <T::R as Field>::ZERO;
        if real {
            (0..n).for_each(|i| v[(i, j)] = v[(i, j)].scaled(by));
            continue;
        }
        let phase = Field::conj(top).over(T::of(top.modulus())).scaled(by);
        (0..n).for_each(|i| v[(i, j)] *= phase);
        v[(largest, j)] = T::of(v[(largest, j)].re());
    }
}

/// As [`Eig::eig`], by double steps; nothing where they do not converge.
#[allow(clippy::type_complexity)]
fn double_steps<R: Field, C: Field<R = R::R>>(
    a: MatRef<'_, R>,
    vectors: bool,
) -> Option<(Vec<C>, Option<Mat<C>>)> {
    let n = a.nrows();
    let rows = (0..n * n).map(|i| a[(i / n, i % n)].re().wide()).collect();
    let schur = Schur::new(rows, n, vectors)?;
    let part = |v: f64| R::R::of_f64(v);
    let values: Vec<C> = schur
        .values
        .iter()
        .map(|&(re, im)| C::of_parts(part(re), part(im)))
        .collect();
    let u = vectors.then(|| {
        let rows = schur.vectors();
        let u = Mat::<R>::from_fn(n, n, |i, j| R::of(part(rows[j * n + i])));
        complex_columns(u.as_ref(), &values)
    });
    Some((values, u))
}

macro_rules! eig {
    ($($t:ident),*) => {$(
        impl Eig for $t {
            type C = Complex<$t>;
            fn eig(a: MatRef<'_, $t>, vectors: bool) -> Result<(Vec<Self::C>, Option<Mat<Self::C>>)> {
                let n = a.nrows();
                if let EigAlgorithm::DoubleSteps = pick(&problem::<$t>(n, n), pool::num_threads())
                    && let Some(found) = double_steps(a, vectors)
                {
                    return Ok(found);
                }
                let (left, right) = kinds(vectors);
                let par = par(n * n * n);
                let mut u = vectors.then(|| Mat::<$t>::identity(n, n));
                let (mut re, mut im) = (Diag::<$t>::zeros(n), Diag::<$t>::zeros(n));
                let need = evd::evd_scratch::<$t>(n, left, right, par, Default::default());
                evd::evd_real(
                    a,
                    re.as_mut(),
                    im.as_mut(),
                    None,
                    u.as_mut().map(|u| u.as_mut()),
                    par,
                    MemStack::new(&mut MemBuffer::new(need)),
                    Default::default(),
                )
                .map_err(|_| did_not_converge())?;
                let (re, im) = (re.as_ref().column_vector(), im.as_ref().column_vector());
                let values: Vec<Self::C> = (0..n).map(|i| Complex::new(re[i], im[i])).collect();
                let u = u.map(|u| complex_columns(u.as_ref(), &values));
                Ok((values, u))
            }
        }
        impl Eig for Complex<$t> {
            type C = Complex<$t>;
            fn eig(a: MatRef<'_, Self>, vectors: bool) -> Result<(Vec<Self::C>, Option<Mat<Self::C>>)> {
                let n = a.nrows();
                let (left, right) = kinds(vectors);
                let par = par(n * n * n);
                let mut u = vectors.then(|| Mat::<Self>::identity(n, n));
                let mut values = Diag::<Self>::zeros(n);
                if n == 1 {
                    values.as_mut().column_vector_mut()[0] = a[(0, 0)];
                } else if n > 1 {
                    let need = evd::evd_scratch::<Self>(n, left, right, par, Default::default());
                    evd::evd_cplx(
                        a,
                        values.as_mut(),
                        None,
                        u.as_mut().map(|u| u.as_mut()),
                        par,
                        MemStack::new(&mut MemBuffer::new(need)),
                        Default::default(),
                    )
                    .map_err(|_| did_not_converge())?;
                }
                if let Some(u) = &mut u {
                    normalise(u.as_mut());
                }
                let values = values.as_ref().column_vector();
                Ok(((0..n).map(|i| values[i]).collect(), u))
            }
        }
    )*};
}
eig!(f32, f64);

/// The eigenvectors of a real matrix: a pair of columns is the real and the imaginary part of two of them.
fn complex_columns<R: Field, C: Field<R = R::R>>(u: MatRef<'_, R>, values: &[C]) -> Mat<C> {
    let n = u.nrows();
    let zero = <R::R as Field>::ZERO;
    let mut v = Mat::<C>::zeros(n, n);
    let mut j = 0;
    while j < n {
        let pair = values[j].im() != zero && j + 1 < n;
        for i in 0..n {
            let im = if pair { u[(i, j + 1)].re() } else { zero };
            let w = C::of_parts(u[(i, j)].re(), im);
            v[(i, j)] = w;
            if pair {
                v[(i, j + 1)] = Field::conj(w);
            }
        }
        j += 1 + usize::from(pair);
    }
    normalise(v.as_mut());
    v
}
