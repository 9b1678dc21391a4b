//! The number types that blocks of matrices are decomposed in side by side.

use num_complex::Complex;
use torsh_backend_cpu::simd::{FloatVector, Simd, VectorWork, lanes_of, vectorized};

use super::super::blocked::Blocked;
use super::{Block, Missed};

/// A number type of batches of matrices.
pub(crate) trait Batched: Blocked {
    /// The matrices that are decomposed side by side; 1 where they are not.
    fn lanes() -> usize;
    /// Decomposes up to [`Batched::lanes`] matrices, and says which of them it left to the algorithms for one.
    fn side_by_side<B: Block<Self>>(block: B) -> Missed;
}

/// A block in the vectors of a real type. A processor without vectors leaves every matrix.
struct InVectors<B>(B);

macro_rules! batched {
    ($($t:ident),*) => {$(
        impl<B: Block<$t>> VectorWork<$t> for InVectors<B> {
            type Output = Missed;
            #[inline(always)]
            fn run<V: FloatVector<T = $t>>(self, l: Simd<V>) -> Missed {
                self.0.run(l)
            }
            fn plain(self) -> Missed {
                Missed::MAX
            }
        }

        impl Batched for $t {
            fn lanes() -> usize {
                lanes_of::<$t>()
            }
            fn side_by_side<B: Block<$t>>(block: B) -> Missed {
                vectorized(InVectors(block))
            }
        }

        // A lane would need two registers for each element, and the batches that are large are real.
        impl Batched for Complex<$t> {
            fn lanes() -> usize {
                1
            }
            fn side_by_side<B: Block<Complex<$t>>>(_: B) -> Missed {
                Missed::MAX
            }
        }
    )*};
}
batched!(f32, f64);
