//! What a unit of a convolution's work does with its results while they are in the caches: batch norm by the
//! running statistics, the addition of a residual, and a clamp.

use std::ops::Range;

use torsh_core::{DType, Result, View, attrs};

use crate::kernels::batch_norm::by_running;
use crate::memory::dense::{Dense, Ptr};
use crate::memory::operands::missing;
use crate::multiversion;
use crate::simd::FloatVector;

/// What the sums of a convolution start from, and what is done with its results: data, which each algorithm applies to
/// the blocks that it completes.
pub(super) struct Epilogue<'a, T> {
    /// A number for each channel, zero where there are none.
    pub bias: Option<Ptr<T>>,
    /// For float32 only.
    pub affine: Option<&'a Affine>,
}

impl<T> Clone for Epilogue<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Epilogue<'_, T> {}

impl<'a, T> Epilogue<'a, T> {
    /// Sums that start from these numbers, and are the results.
    pub fn bias(bias: Option<Ptr<T>>) -> Epilogue<'a, T> {
        Epilogue { bias, affine: None }
    }

    /// Finishes results in place, where anything is done with them: of a range of planes, counted through all images and
    /// never of two, a range of pixels, of which the first is at the address, with `pitch` numbers from plane to plane.
    ///
    /// # Safety
    /// They must be there and complete, and no other thread use them.
    pub unsafe fn finish(
        &self,
        planes: Range<usize>,
        pixels: Range<usize>,
        at: *mut T,
        pitch: usize,
    ) {
        if let Some(affine) = self.affine {
            // SAFETY: the caller's promise; only float32 has one.
            unsafe { affine.finish(planes, pixels, at.cast(), pitch) };
        }
    }
}

/// A batch norm by its running statistics, and what follows it: `clamp(factor * x + summand + residual)`.
pub(super) struct Affine {
    /// The factor and the summand of each channel.
    factors: [Vec<f32>; 2],
    /// A tensor of the result's shape, and what holds it.
    residual: Option<Ptr<f32>>,
    _holds: Option<Dense>,
    clamp: [f32; 2],
    /// Pixels of a plane.
    pixels: usize,
}

impl Affine {
    /// Of the operands after the convolution's: weight, bias, running mean and running variance of the batch norm,
    /// and the residual.
    pub fn new(
        inputs: &[View<'_>],
        a: &attrs::ConvBatchNorm,
        channels: usize,
        pixels: usize,
    ) -> Result<Affine> {
        let operand = |i: usize| Dense::optional(inputs.get(i), DType::F32);
        let [weight, bias, mean, var] = [operand(0)?, operand(1)?, operand(2)?, operand(3)?];
        fn numbers(d: &Option<Dense>, channels: usize) -> Option<&[f32]> {
            d.as_ref().map(|d| {
                // SAFETY: the operand has a number for each channel.
                unsafe { std::slice::from_raw_parts(d.ptr::<f32>().get(), channels) }
            })
        }
        let of = |d| numbers(d, channels);
        let (Some(mean), Some(var)) = (of(&mean), of(&var)) else {
            return Err(missing());
        };
        let residual = operand(4)?;
        Ok(Affine {
            factors: by_running([mean, var], [of(&weight), of(&bias)], a.eps),
            residual: residual.as_ref().map(|r| r.ptr()),
            _holds: residual,
            clamp: [
                a.min.unwrap_or(f64::NEG_INFINITY) as f32,
                a.max.unwrap_or(f64::INFINITY) as f32,
            ],
            pixels,
        })
    }

    /// # Safety
    /// As [`Epilogue::finish`].
    unsafe fn finish(
        &self,
        planes: Range<usize>,
        pixels: Range<usize>,
        at: *mut f32,
        pitch: usize,
    ) {
        let [a, b] = &self.factors;
        let first = planes.start % a.len();
        let residual = self.residual.as_ref().map(|r| {
            let from = (planes.start * self.pixels + pixels.start) as isize;
            r.at(from).cast_const()
        });
        let rows = Rows {
            rows: planes.len(),
            n: pixels.len(),
            at,
            pitch,
            factors: [a[first..].as_ptr(), b[first..].as_ptr()],
            residual,
            residual_pitch: self.pixels,
            clamp: self.clamp,
        };
        // SAFETY: the caller's promise; the planes are of one image, so their channels follow each other.
        unsafe { finish_rows(&rows) };
    }
}

/// Rows of results, each of one channel.
struct Rows {
    rows: usize,
    n: usize,
    at: *mut f32,
    pitch: usize,
    factors: [*const f32; 2],
    residual: Option<*const f32>,
    residual_pitch: usize,
    clamp: [f32; 2],
}

multiversion! {
    /// `y = clamp(a y + b + residual)`, with what each row has for `a` and `b`.
    ///
    /// # Safety
    /// The pointers are valid for what the fields say.
    unsafe fn finish_rows<L>(x: &Rows) {
        // SAFETY: the caller's promise; the processor has the level.
        unsafe {
            match x.residual {
                Some(_) => rows::<L::F32, true>(x),
                None => rows::<L::F32, false>(x),
            }
        }
    }
}

/// # Safety
/// As [`finish_rows`].
#[inline(always)]
unsafe fn rows<V: FloatVector<T = f32>, const RESIDUAL: bool>(x: &Rows) {
    // SAFETY: the caller's promise.
    unsafe {
        let [least, most] = x.clamp.map(|v| V::splat(v));
        for row in 0..x.rows {
            let [a, b] = x.factors.map(|f| V::splat(*f.add(row)));
            let at = x.at.wrapping_add(row * x.pitch);
            let residual = match x.residual {
                Some(from) => from.wrapping_add(row * x.residual_pitch),
                None => at,
            };
            // A NaN stays one.
            let value = |y: V, residual: V| {
                let mut y = b.add_product(a, y);
                if RESIDUAL {
                    y = y.add(residual);
                }
                most.min(least.max(y))
            };
            let whole = x.n / V::N * V::N;
            for i in (0..whole).step_by(V::N) {
                let to = at.wrapping_add(i);
                value(V::load(to), V::load(residual.wrapping_add(i))).store(to);
            }
            if whole < x.n {
                let (to, left, zero) = (at.wrapping_add(whole), x.n - whole, V::splat(0.0));
                let y = V::load_part(to, 0, left, zero);
                let residual = V::load_part(residual.wrapping_add(whole), 0, left, zero);
                value(y, residual).store_first(left, to);
            }
        }
    }
}

/// For tests: adds its place among all results to each of them, so that each shows whether it was finished once. `places`
/// are these numbers, of planes of `size`.
#[cfg(feature = "unit-tests")]
pub(super) fn adding(places: &mut [f32], size: usize) -> Affine {
    let channels = places.len() / size.max(1);
    for (i, place) in places.iter_mut().enumerate() {
        *place = i as f32;
    }
    Affine {
        factors: [vec![1.0; channels], vec![0.0; channels]],
        residual: Some(Ptr::new(places.as_mut_ptr())),
        _holds: None,
        clamp: [f32::NEG_INFINITY, f32::INFINITY],
        pixels: size,
    }
}
