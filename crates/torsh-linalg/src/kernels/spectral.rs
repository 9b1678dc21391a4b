//! Singular values, eigenvalues, and their vectors, of one matrix by faer.
//!
//! Each matrix is scaled by a power of two first, so that its largest number is about 1: neither large nor small
//! numbers overflow or vanish when they are squared.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::{Mat, MatMut, MatRef, Par};
use num_complex::Complex;
use num_traits::Float;
use torsh_core::{Result, TorshError};

use super::batch::par;
use super::factor::{scale_to_one, to_columns};
use super::field::{Field, norm};

fn did_not_converge() -> TorshError {
    TorshError::failed("", "the iteration did not converge").with_hint(
        "the matrix is ill-conditioned or has too many repeated values; try it in float64",
    )
}

/// What singular value decompositions of one size need.
pub(crate) struct Svd<T: Field> {
    a: Mat<T>,
    s: Diag<T>,
    u: Option<Mat<T>>,
    v: Option<Mat<T>>,
    par: Par,
    memory: MemBuffer,
}

impl<T: Field> Svd<T> {
    /// For matrices of `m` rows and `n` columns; `vectors` says whether there are any, and whether they are all there.
    pub fn new(m: usize, n: usize, vectors: Option<bool>) -> Svd<T> {
        let k = m.min(n);
        let kind = match vectors {
            None => ComputeSvdVectors::No,
            Some(false) => ComputeSvdVectors::Thin,
            Some(true) => ComputeSvdVectors::Full,
        };
        let par = par(m * n * k);
        let need = svd::svd_scratch::<T>(m, n, kind, kind, par, Default::default());
        let square =
            |side: usize| vectors.map(|full| Mat::zeros(side, if full { side } else { k }));
        Svd {
            a: Mat::zeros(m, n),
            s: Diag::zeros(k),
            u: square(m),
            v: square(n),
            par,
            memory: MemBuffer::new(need),
        }
    }

    /// Decomposes row-major finite `a`.
    pub fn run(&mut self, a: &[T]) -> Result<()> {
        let (m, n) = self.a.shape();
        if m == 0 || n == 0 {
            for side in [&mut self.u, &mut self.v].into_iter().flatten() {
                let size = side.ncols();
                side.copy_from(Mat::<T>::identity(side.nrows(), size));
            }
            return Ok(());
        }
        to_columns(a, &mut self.a);
        let scale = scale_to_one(&mut self.a);
        svd::svd(
            self.a.as_ref(),
            self.s.as_mut(),
            self.u.as_mut().map(|u| u.as_mut()),
            self.v.as_mut().map(|v| v.as_mut()),
            self.par,
            MemStack::new(&mut self.memory),
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
    a: Mat<T>,
    s: Diag<T>,
    u: Option<Mat<T>>,
    par: Par,
    memory: MemBuffer,
}

impl<T: Field> Eigh<T> {
    /// For matrices of `n` rows.
    pub fn new(n: usize, vectors: bool) -> Eigh<T> {
        let kind = match vectors {
            true => ComputeEigenvectors::Yes,
            false => ComputeEigenvectors::No,
        };
        let par = par(n * n * n / 2);
        let need = match n {
            0 | 1 => StackReq::EMPTY,
            _ => evd::self_adjoint_evd_scratch::<T>(n, kind, par, Default::default()),
        };
        Eigh {
            a: Mat::zeros(n, n),
            s: Diag::zeros(n),
            u: vectors.then(|| Mat::identity(n, n)),
            par,
            memory: MemBuffer::new(need),
        }
    }

    /// Decomposes the matrix whose one triangle is that of row-major finite `a`.
    pub fn run(&mut self, a: &[T], upper: bool) -> Result<()> {
        let n = self.a.nrows();
        match upper {
            false => to_columns(a, &mut self.a),
            // The upper triangle's rows are the columns of the lower one, conjugated.
            true => {
                for (j, row) in a.chunks_exact(n.max(1)).enumerate() {
                    for (to, v) in self.a.col_as_slice_mut(j).iter_mut().zip(row) {
                        *to = Field::conj(*v);
                    }
                }
            }
        }
        for j in 0..n {
            let column = self.a.col_as_slice_mut(j);
            column[..j].fill(T::ZERO);
            column[j] = T::of(column[j].re());
        }
        if n <= 1 {
            for i in 0..n {
                self.s.as_mut().column_vector_mut()[i] = self.a[(i, i)];
            }
            return Ok(());
        }
        let scale = scale_to_one(&mut self.a);
        evd::self_adjoint_evd(
            self.a.as_ref(),
            self.s.as_mut(),
            self.u.as_mut().map(|u| u.as_mut()),
            self.par,
            MemStack::new(&mut self.memory),
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
        if !(length > <T::R as Field>::ZERO) || !Float::is_finite(length) {
            continue;
        }
        let mut largest = 0;
        for i in 1..n {
            if v[(i, j)].modulus() > v[(largest, j)].modulus() {
                largest = i;
            }
        }
        let top = v[(largest, j)];
        let size = top.modulus();
        let real = top.im() == <T::R as Field>::ZERO;
        let phase = match real {
            true => T::ONE,
            false => Field::conj(top).over(T::of(size)),
        };
        for i in 0..n {
            v[(i, j)] = v[(i, j)].over(T::of(length)) * phase;
        }
        if !real {
            v[(largest, j)] = T::of(v[(largest, j)].re());
        }
    }
}

macro_rules! eig {
    ($($t:ident),*) => {$(
        impl Eig for $t {
            type C = Complex<$t>;
            fn eig(a: MatRef<'_, $t>, vectors: bool) -> Result<(Vec<Self::C>, Option<Mat<Self::C>>)> {
                let n = a.nrows();
                let (left, right) = kinds(vectors);
                let par = par(n * n * n);
                let mut u = vectors.then(|| Mat::<$t>::identity(n, n));
                let (mut re, mut im) = (Diag::<$t>::zeros(n), Diag::<$t>::zeros(n));
                if n == 1 {
                    re.as_mut().column_vector_mut()[0] = a[(0, 0)];
                } else if n > 1 {
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
                }
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
