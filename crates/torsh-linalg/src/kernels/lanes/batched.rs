//! The algorithms of this module by number type.

use super::super::blocked::Blocked;
use super::cholesky::cholesky;
use super::exponential::exponential;
use super::jacobi::{eigh, svd};
use super::lu::{Sides, lu, solve, triangular};
use super::qr::qr;
use super::{Lane, Missed, Scratch};

/// The decompositions of a number type that run on a matrix per lane. By default there are none.
///
/// Each decomposes up to [`Batched::lanes`] matrices, and says which of them it left to the others' algorithms. Complex
/// matrices have none: a lane would need two registers for each element, and the batches that are large are real.
pub(crate) trait Batched: Blocked {
    /// The matrices that are decomposed side by side; 0 where they are not.
    fn lanes() -> usize {
        0
    }
    /// As [`lu`].
    fn lu_block(
        _: &[Self],
        _: (usize, usize),
        _: (&mut [Self], &mut [i32], &mut [i32]),
        _: &mut Scratch<Self>,
    ) -> Missed {
        Missed::MAX
    }
    /// As [`solve`].
    fn solve_block(
        _: (&[Self], usize),
        _: Sides<'_, Self>,
        _: &mut [Self],
        _: Option<(&mut [Self], &mut [i32])>,
        _: &mut [i32],
        _: &mut Scratch<Self>,
    ) -> Missed {
        Missed::MAX
    }
    /// As [`triangular`].
    fn triangular_block(
        _: (&[Self], usize),
        _: (bool, bool),
        _: (&[Self], usize),
        _: &mut [Self],
        _: &mut Scratch<Self>,
    ) -> Missed {
        Missed::MAX
    }
    /// As [`cholesky`].
    fn cholesky_block(
        _: (&[Self], usize),
        _: bool,
        _: &mut [Self],
        _: &mut Scratch<Self>,
    ) -> Missed {
        Missed::MAX
    }
    /// As [`qr`].
    fn qr_block(
        _: (&[Self], usize),
        _: (usize, usize),
        _: (&mut [Self], usize),
        _: (&mut [Self], usize),
        _: &mut Scratch<Self>,
    ) -> Missed {
        Missed::MAX
    }
    /// As [`eigh`].
    fn eigh_block(
        _: (&[Self], usize),
        _: bool,
        _: &mut [Self::R],
        _: Option<&mut [Self]>,
        _: &mut Scratch<Self>,
    ) -> Missed {
        Missed::MAX
    }
    /// As [`svd`].
    fn svd_block(
        _: &[Self],
        _: (usize, usize),
        _: &mut [Self::R],
        _: Option<(&mut [Self], &mut [Self])>,
        _: &mut Scratch<Self>,
    ) -> Missed {
        Missed::MAX
    }
    /// As [`exponential`].
    fn exponential_block(_: (&[Self], usize), _: &mut [Self], _: &mut Scratch<Self>) -> Missed {
        Missed::MAX
    }
}

impl Batched for num_complex::Complex<f32> {}
impl Batched for num_complex::Complex<f64> {}

macro_rules! batched {
    ($($t:ident),*) => {$(
        impl Batched for $t {
            fn lanes() -> usize {
                <$t as Lane>::lanes()
            }
            fn lu_block(
                a: &[Self],
                shape: (usize, usize),
                to: (&mut [Self], &mut [i32], &mut [i32]),
                work: &mut Scratch<Self>,
            ) -> Missed {
                lu(a, shape, to, work)
            }
            fn solve_block(
                a: (&[Self], usize),
                b: Sides<'_, Self>,
                x: &mut [Self],
                factors: Option<(&mut [Self], &mut [i32])>,
                info: &mut [i32],
                work: &mut Scratch<Self>,
            ) -> Missed {
                solve(a, b, x, factors, info, work)
            }
            fn triangular_block(
                a: (&[Self], usize),
                kind: (bool, bool),
                b: (&[Self], usize),
                x: &mut [Self],
                work: &mut Scratch<Self>,
            ) -> Missed {
                triangular(a, kind, b, x, work)
            }
            fn cholesky_block(
                a: (&[Self], usize),
                upper: bool,
                factor: &mut [Self],
                work: &mut Scratch<Self>,
            ) -> Missed {
                cholesky(a, upper, factor, work)
            }
            fn qr_block(
                a: (&[Self], usize),
                shape: (usize, usize),
                q: (&mut [Self], usize),
                r: (&mut [Self], usize),
                work: &mut Scratch<Self>,
            ) -> Missed {
                qr(a, shape, q, r, work)
            }
            fn eigh_block(
                a: (&[Self], usize),
                upper: bool,
                values: &mut [Self],
                columns: Option<&mut [Self]>,
                work: &mut Scratch<Self>,
            ) -> Missed {
                eigh(a, upper, values, columns, work)
            }
            fn svd_block(
                a: &[Self],
                shape: (usize, usize),
                s: &mut [Self],
                vectors: Option<(&mut [Self], &mut [Self])>,
                work: &mut Scratch<Self>,
            ) -> Missed {
                svd(a, shape, s, vectors, work)
            }
            fn exponential_block(
                a: (&[Self], usize),
                out: &mut [Self],
                work: &mut Scratch<Self>,
            ) -> Missed {
                exponential(a, out, work)
            }
        }
    )*};
}
batched!(f32, f64);
