//! Normalisation of rows, for `layer_norm`, `group_norm`, `rms_norm` and `instance_norm`.
//!
//! The input, row-major, is `rows` rows of `n` elements. `spread` adjacent elements of a row share
//! a weight and a bias, and row `r` has the parameters of group `r % groups`: the weight has
//! `groups * n / spread` elements.
//!
//! - `RowNorm`: input, optional weight and bias into `(x - mean) * rstd * weight + bias`, and mean
//!   and `rstd = 1 / sqrt(var + eps)` of each row. Without `centred` the mean is taken to be 0.
//! - `RowNormBackward`: gradient, input, optional weight, mean and rstd into the gradients of input,
//!   weight and bias; those of the input, or of both others, are left out where not wanted.
//!
//! Real floating-point types; the half types compute in float32. Sums over a row end in float64,
//! those over rows in the element type within a block of rows.

pub(crate) mod choose;

use std::ops::Range;

use torsh_core::machine::machine;
use torsh_core::{DType, Kernel, KernelArgs, Result, attrs, pool};

use crate::kernels::batch_norm::{dots, gradient, sum};
use crate::machine::choice::pick;
use crate::machine::tuning::row_norm::{BLOCKS, GRAIN, PART, ROW, STREAM};
use crate::memory::blocks;
use crate::memory::dense::{Dense, DenseOut, Ptr, Scratch, wide};
use crate::memory::operands::{missing, operands};
use crate::memory::stream;
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::lanes;
use choose::{RowNormAlgorithm, RowNormProblem};

pub(crate) fn row_norm(args: &KernelArgs<'_>) -> Result<()> {
    let forward = args.kernel() == Kernel::RowNorm;
    match (wide(args.compute()), forward) {
        (DType::F32, true) => run::<f32>(args, DType::F32),
        (DType::F64, true) => run::<f64>(args, DType::F64),
        (DType::F32, false) => backward::<f32>(args, DType::F32),
        (DType::F64, false) => backward::<f64>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

// Loops over rows with a weight for each element, which may be null for none.
multiversion! {
    /// `y = (x - mean) * rstd * weight + bias`; `one` where all elements share a parameter.
    unsafe fn normalise<A, T: Real>(n: usize, x: *const T, y: *mut T, mean_rstd: [T; 2], parameters: [*const T; 2], one: bool) {
        let ([mean, rstd], [w, b]) = (mean_rstd, parameters);
        // SAFETY: the caller's promise.
        unsafe {
            match (w.is_null(), b.is_null()) {
                _ if one => {
                    let a = if w.is_null() { rstd } else { rstd * *w };
                    let b = if b.is_null() { T::ZERO } else { *b };
                    (0..n).for_each(|i| *y.add(i) = (*x.add(i) - mean).fma::<A>(a, b));
                }
                (true, true) => (0..n).for_each(|i| *y.add(i) = (*x.add(i) - mean) * rstd),
                (false, true) => (0..n).for_each(|i| *y.add(i) = (*x.add(i) - mean) * rstd * *w.add(i)),
                (true, false) => (0..n).for_each(|i| *y.add(i) = (*x.add(i) - mean).fma::<A>(rstd, *b.add(i))),
                (false, false) => (0..n).for_each(|i| {
                    *y.add(i) = ((*x.add(i) - mean) * rstd).fma::<A>(*w.add(i), *b.add(i));
                }),
            }
        }
    }
    /// The sum of `(x - mean)^2`, meanwhile asking for rows of `n` elements to read and, if not null,
    /// to write.
    unsafe fn squares_fetching<A, T: Real>(n: usize, x: *const T, mean: T, next: (*const T, *mut T)) -> f64 {
        let fetch = |i| {
            stream::prefetch_all::<T, { lanes::LANES }>(next.0.wrapping_add(i));
            if !next.1.is_null() {
                stream::prefetch_write_all::<T, { lanes::LANES }>(next.1.wrapping_add(i));
            }
        };
        // SAFETY: the caller's promise.
        unsafe { lanes::sum_with(n, fetch, |i| (*x.add(i) - mean) * (*x.add(i) - mean)) }
    }
    /// The sums of `g weight` and of `g weight (x - mean)`.
    unsafe fn weighted_dots<A, T: Real>(n: usize, g: *const T, x: *const T, weight: *const T, mean: T) -> [f64; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            match weight.is_null() {
                true => sums_of(n, mean, |i| *g.add(i), x),
                false => sums_of(n, mean, |i| *g.add(i) * *weight.add(i), x),
            }
        }
    }
    /// `y = a (g weight - c) + b (x - mean)` of `[a, b, c, mean]`.
    unsafe fn weighted_gradient<A, T: Real>(n: usize, g: *const T, x: *const T, weight: *const T, y: *mut T, abcm: [T; 4]) {
        let [a, b, c, mean] = abcm;
        // SAFETY: the caller's promise.
        unsafe {
            match weight.is_null() {
                true => (0..n).for_each(|i| {
                    *y.add(i) = a.fma::<A>(*g.add(i) - c, b * (*x.add(i) - mean));
                }),
                false => (0..n).for_each(|i| {
                    let g = *g.add(i) * *weight.add(i);
                    *y.add(i) = a.fma::<A>(g - c, b * (*x.add(i) - mean));
                }),
            }
        }
    }
    /// `dw += g (x - mean) rstd`, `db += g`.
    unsafe fn collect<A, T: Real>(n: usize, g: *const T, x: *const T, mean_rstd: [T; 2], dw: *mut T, db: *mut T) {
        let [mean, rstd] = mean_rstd;
        // SAFETY: the caller's promise.
        unsafe {
            (0..n).for_each(|i| {
                let g = *g.add(i);
                *dw.add(i) = g.fma::<A>((*x.add(i) - mean) * rstd, *dw.add(i));
                *db.add(i) = *db.add(i) + g;
            });
        }
    }
}

const LANES: usize = 16;

/// The sums of `g(i)` and of `g(i) (x[i] - mean)`: in lanes, then in float64.
///
/// # Safety
/// `x` must hold `n` elements.
#[inline(always)]
unsafe fn sums_of<T: Real>(n: usize, mean: T, g: impl Fn(usize) -> T, x: *const T) -> [f64; 2] {
    let mut total = [0.0; 2];
    let mut i = 0;
    // Blocks short enough that float32 lanes stay exact to a few units.
    while i < n {
        let end = n.min(i + 128 * LANES);
        let (mut plain, mut times) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        while i + LANES <= end {
            for l in 0..LANES {
                let g = g(i + l);
                plain[l] = plain[l] + g;
                // SAFETY: the caller's promise.
                times[l] = times[l] + g * (unsafe { *x.add(i + l) } - mean);
            }
            i += LANES;
        }
        let (plain, times) = (lanes::apart(plain), lanes::apart(times));
        total[0] += lanes::total_of(plain, T::to_f64);
        total[1] += lanes::total_of(times, T::to_f64);
        while i < end {
            let g = g(i);
            total[0] += g.to_f64();
            // SAFETY: the caller's promise.
            total[1] += (g * (unsafe { *x.add(i) } - mean)).to_f64();
            i += 1;
        }
    }
    total
}

/// How the elements lie.
#[derive(Clone, Copy)]
struct RowNormSizes {
    rows: usize,
    n: usize,
    groups: usize,
    spread: usize,
    centred: bool,
}

impl RowNormSizes {
    /// Checks that a tensor of so many elements is these rows. Those of an empty one may be longer
    /// than memory can be.
    fn check(self, numel: usize) -> Result<RowNormSizes> {
        let RowNormSizes { rows, n, .. } = self;
        let parts = n.checked_rem(self.spread) == Some(0) || rows == 0;
        match self.groups > 0 && self.spread > 0 && parts && rows.checked_mul(n) == Some(numel) {
            true => Ok(self),
            false => Err(missing()),
        }
    }

    /// Parameters of a row.
    fn each(&self) -> usize {
        self.n / self.spread
    }

    /// Parameters in all.
    fn parameters(&self) -> usize {
        self.groups.saturating_mul(self.each())
    }

    /// The first element of a row.
    fn at(&self, row: usize) -> isize {
        (row * self.n) as isize
    }

    /// The first parameter of a row.
    fn parameter(&self, row: usize) -> usize {
        row % self.groups * self.each()
    }
}

/// The parameters from one on, or null.
fn from<T>(p: Option<Ptr<T>>, i: usize) -> *const T {
    p.map_or(std::ptr::null(), |p| p.at(i as isize))
}

/// Adjacent results on their way past the caches.
#[repr(align(64))]
struct Past<T> {
    block: [T; STREAM],
    held: usize,
    /// Where the block goes.
    to: *mut T,
}

impl<T: Real> Past<T> {
    /// [`normalise`] for the results that follow those before.
    ///
    /// # Safety
    /// As there, and so many more must fit at `to`.
    unsafe fn normalise(
        &mut self,
        n: usize,
        x: *const T,
        mean_rstd: [T; 2],
        parameters: [*const T; 2],
        one: bool,
    ) {
        let mut done = 0;
        while done < n {
            let m = (n - done).min(STREAM - self.held);
            let of = |p: *const T| match p.is_null() || one {
                true => p,
                false => p.wrapping_add(done),
            };
            // SAFETY: the caller's promise; the block has room for `m` more.
            unsafe {
                let y = self.block.as_mut_ptr().add(self.held);
                normalise(m, x.add(done), y, mean_rstd, parameters.map(of), one);
                self.held += m;
                if self.held == STREAM {
                    self.write();
                }
            }
            done += m;
        }
    }

    /// Writes what is held.
    ///
    /// # Safety
    /// As [`Past::normalise`].
    unsafe fn write(&mut self) {
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = self.held * size_of::<T>();
            stream::copy(self.block.as_ptr().cast(), self.to.cast(), bytes);
            self.to = self.to.add(self.held);
        }
        self.held = 0;
    }
}

fn run<T: Real>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([out, mean_out, rstd_out], [input, weight, bias]) = operands(args)?;
    let a = args.attrs::<attrs::RowNorm>()?;
    let sizes = RowNormSizes {
        rows: a.rows,
        n: a.n,
        groups: a.groups,
        spread: a.spread,
        centred: a.centred,
    };
    let (sizes, eps) = (sizes.check(input.numel())?, a.eps);
    if sizes.rows == 0 {
        return Ok(());
    }
    let x = Dense::new(input, dtype)?;
    let weight = Dense::optional(Some(weight), dtype)?;
    let bias = Dense::optional(Some(bias), dtype)?;
    let result = DenseOut::new(out, dtype)?;
    let (mean_out, rstd_out) = (
        DenseOut::new(mean_out, dtype)?,
        DenseOut::new(rstd_out, dtype)?,
    );
    let (x, y) = (x.ptr::<T>(), result.ptr::<T>());
    let (means, rstds) = (mean_out.ptr::<T>(), rstd_out.ptr::<T>());
    let weight = weight.as_ref().map(Dense::ptr::<T>);
    let bias = bias.as_ref().map(Dense::ptr::<T>);
    let count = sizes.n as f64;
    let grain = (GRAIN / (sizes.n + ROW)).max(1);
    let problem = RowNormProblem {
        dtype,
        same: out.dtype() == dtype,
        rows: sizes.rows,
        n: sizes.n,
    };
    let algorithm = pick::<RowNormAlgorithm>(&problem, pool::num_threads());
    let (streams, fetch) = (algorithm.streams(), algorithm.prefetches());
    let fetch_places = !machine().few_fill_buffers;
    let back = blocks::backwards(sizes.rows * sizes.n);
    let some = |range: Range<usize>| {
        let mut past = streams.then(|| Past {
            block: [T::ZERO; STREAM],
            held: 0,
            to: y.at(sizes.at(range.start)),
        });
        for row in range {
            let next = (
                x.at(sizes.at(row + 1)).cast_const(),
                match fetch_places {
                    true => y.at(sizes.at(row + 1)),
                    false => std::ptr::null_mut(),
                },
            );
            let (x, y) = (x.at(sizes.at(row)), y.at(sizes.at(row)));
            // SAFETY: the operands have the sizes that the record planned.
            unsafe {
                let exact = match sizes.centred {
                    true => sum(sizes.n, x, None) / count,
                    false => 0.0,
                };
                let mean = T::c(exact);
                // What rounding the mean added to each squared distance.
                let off = exact - mean.to_f64();
                let squares = match fetch {
                    true => squares_fetching(sizes.n, x, mean, next),
                    false => sum(sizes.n, x, Some(mean)),
                };
                let var = squares / count - off * off;
                let var = if var < 0.0 { 0.0 } else { var };
                let rstd = T::c(1.0 / (var + eps).sqrt());
                *means.at(row as isize) = mean;
                *rstds.at(row as isize) = rstd;
                let first = sizes.parameter(row);
                let of = |p: usize| [from(weight, first + p), from(bias, first + p)];
                let one = sizes.spread > 1;
                let (pieces, n) = match one {
                    true => (sizes.each(), sizes.spread),
                    false => (1, sizes.n),
                };
                for p in 0..pieces {
                    let (x, y) = (x.add(p * n), y.add(p * n));
                    match &mut past {
                        Some(past) => past.normalise(n, x, [mean, rstd], of(p), one),
                        None => normalise(n, x, y, [mean, rstd], of(p), one),
                    }
                }
            }
        }
        if let Some(mut past) = past {
            // SAFETY: as above.
            unsafe { past.write() };
            stream::fence();
        }
    };
    let part = match back {
        true => (PART / (sizes.n * size_of::<T>()).max(1)).max(1),
        false => usize::MAX,
    };
    pool::parallel_for(sizes.rows, grain, &|range| {
        blocks::from_the_end(range, part, some);
    });
    result.finish()?;
    mean_out.finish()?;
    rstd_out.finish()
}

fn backward<T: Real>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([dx, dw, db], [g, input, weight, mean, rstd]) = operands(args)?;
    let a = args.attrs::<attrs::RowNormBackward>()?;
    let sizes = RowNormSizes {
        rows: a.rows,
        n: a.n,
        groups: a.groups,
        spread: a.spread,
        centred: a.centred,
    };
    let sizes = sizes.check(input.numel())?;
    let (to_input, to_parameters) = (a.input_grad, a.parameter_grads);
    let (g, x) = (Dense::new(g, dtype)?, Dense::new(input, dtype)?);
    let weight = Dense::optional(Some(weight), dtype)?;
    let (mean, rstd) = (Dense::new(mean, dtype)?, Dense::new(rstd, dtype)?);
    let dx = DenseOut::new(dx, dtype)?;
    let (dw, db) = (DenseOut::new(dw, dtype)?, DenseOut::new(db, dtype)?);
    let width = sizes.parameters();
    let blocks = match to_parameters {
        true => {
            (sizes.rows * sizes.n / (2 * GRAIN).max(width)).clamp(1, BLOCKS.min(sizes.rows.max(1)))
        }
        false => sizes.rows.max(1),
    };
    let sums = match to_parameters {
        true => Some(Scratch::<T>::new(2 * blocks * width)?),
        false => None,
    };
    let call = RowNormBackward {
        sizes,
        g: g.ptr(),
        x: x.ptr(),
        weight: weight.as_ref().map(Dense::ptr),
        mean: mean.ptr(),
        rstd: rstd.ptr(),
        dx: to_input.then(|| dx.ptr()),
    };
    let sums = sums.as_ref().map(|s| Ptr::new(s.ptr()));
    let grain = (2 * GRAIN * blocks / (sizes.rows * sizes.n).max(1)).max(1);
    pool::parallel_for(blocks, grain, &|range| {
        for b in range {
            let rows = b * sizes.rows / blocks..(b + 1) * sizes.rows / blocks;
            let sums = sums.map(|s| {
                // SAFETY: the scratch memory has `2 * width` values for each block.
                unsafe { std::slice::from_raw_parts_mut(s.at((2 * b * width) as isize), 2 * width) }
            });
            // SAFETY: the operands have the sizes that the record planned.
            unsafe { call.rows(rows, sums) };
        }
    });
    if let Some(sums) = sums {
        for (k, out) in [(0, &dw), (1, &db)] {
            let out = out.ptr::<T>();
            for p in 0..width {
                let of = |b: usize| ((2 * b + k) * width + p) as isize;
                // SAFETY: as above; the result has `width` elements.
                unsafe {
                    let total: f64 = (0..blocks).map(|b| (*sums.at(of(b))).to_f64()).sum();
                    *out.at(p as isize) = T::c(total);
                }
            }
        }
        dw.finish()?;
        db.finish()?;
    }
    match to_input {
        true => dx.finish(),
        false => Ok(()),
    }
}

/// The operands of one backward call.
struct RowNormBackward<T> {
    sizes: RowNormSizes,
    g: Ptr<T>,
    x: Ptr<T>,
    weight: Option<Ptr<T>>,
    mean: Ptr<T>,
    rstd: Ptr<T>,
    dx: Option<Ptr<T>>,
}

impl<T: Real> RowNormBackward<T> {
    /// The gradients of some rows; those of the parameters into `sums`, weight first.
    ///
    /// # Safety
    /// The operands must have the sizes.
    unsafe fn rows(&self, rows: Range<usize>, mut sums: Option<&mut [T]>) {
        let RowNormSizes { n, spread, .. } = self.sizes;
        let count = n as f64;
        let width = self.sizes.parameters();
        if let Some(sums) = &mut sums {
            sums.fill(T::ZERO);
        }
        for row in rows {
            // SAFETY: the caller's promise.
            unsafe {
                let (g, x) = (self.g.at(self.sizes.at(row)), self.x.at(self.sizes.at(row)));
                let (mean, rstd) = (*self.mean.at(row as isize), *self.rstd.at(row as isize));
                let first = self.sizes.parameter(row);
                let weight = |p: usize| from(self.weight, first + p);
                let mut total = [0.0f64; 2];
                if spread == 1 {
                    if let Some(sums) = &mut sums {
                        let dw = sums.as_mut_ptr().add(first);
                        collect(n, g, x, [mean, rstd], dw, dw.add(width));
                    }
                    if self.dx.is_some() {
                        total = weighted_dots(n, g, x, weight(0), mean);
                    }
                } else {
                    for p in 0..self.sizes.each() {
                        let mut part = [0.0; 2];
                        let (g, x) = (g.add(p * spread), x.add(p * spread));
                        dots(spread, g, x, &mean, part.as_mut_ptr(), true);
                        if let Some(sums) = &mut sums {
                            let dw = sums.as_mut_ptr().add(first + p);
                            *dw = *dw + T::c(part[1] * rstd.to_f64());
                            *dw.add(width) = *dw.add(width) + T::c(part[0]);
                        }
                        let w = self.weight.map_or(1.0, |_| (*weight(p)).to_f64());
                        total = [total[0] + w * part[0], total[1] + w * part[1]];
                    }
                }
                let Some(dx) = self.dx else { continue };
                let dx = dx.at(self.sizes.at(row));
                let s = rstd.to_f64();
                let b = T::c(-total[1] * s * s * s / count);
                let centre = match self.sizes.centred {
                    true => total[0] / count,
                    false => 0.0,
                };
                if spread == 1 {
                    weighted_gradient(n, g, x, weight(0), dx, [rstd, b, T::c(centre), mean]);
                } else {
                    let c = T::c(-centre * s);
                    for p in 0..self.sizes.each() {
                        let at = p * spread;
                        let a = self.weight.map_or(rstd, |_| rstd * *weight(p));
                        let abcm = [&a, &b, &c, &mean].map(|v| v as *const T);
                        gradient(spread, g.add(at), x.add(at), dx.add(at), abcm, true);
                    }
                }
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use torsh_core::{DType, Kernel, View, attrs};

    use crate::testing::run;

    /// Pieces of every length, with parameters for each element and for all, to any place.
    #[torsh_macros::unit_test]
    fn results_past_the_caches_are_the_same() {
        let x: Vec<f32> = (0..5000).map(|i| (i * 7919 % 1009) as f32).collect();
        let w: Vec<f32> = (0..5000).map(|i| 1.0 + (i % 7) as f32).collect();
        for (start, one) in [(0, false), (3, false), (5, true)] {
            let mut got = vec![0.0f32; 5000];
            let mut past = super::Past {
                block: [0.0; super::STREAM],
                held: 0,
                to: got[start..].as_mut_ptr(),
            };
            let (mut at, mut want) = (start, vec![0.0f32; start]);
            for n in [1, 15, 1008, 1, 1023, 2048, 100] {
                let of = [w[at..].as_ptr(), std::ptr::null()];
                // SAFETY: all lies within the vectors.
                unsafe { past.normalise(n, x[at..].as_ptr(), [2.0, 0.5], of, one) };
                let weight = |i: usize| w[if one { at } else { i }];
                want.extend((at..at + n).map(|i| (x[i] - 2.0) * 0.5 * weight(i)));
                at += n;
            }
            // SAFETY: as above.
            unsafe { past.write() };
            super::stream::fence();
            want.resize(got.len(), 0.0);
            assert_eq!(got, want);
        }
    }

    /// Layer norm of so many rows that they are taken from the last to the first every other time.
    #[torsh_macros::unit_test]
    fn rows_either_way() {
        let (rows, n) = (700usize, 515usize);
        let x: Vec<f32> = (0..rows * n)
            .map(|i| (i * 7919 % 1009) as f32 * 0.01)
            .collect();
        let w: Vec<f32> = (0..n).map(|i| 1.0 + (i % 7) as f32).collect();
        let b: Vec<f32> = (0..n).map(|i| (i % 5) as f32).collect();
        for _ in 0..3 {
            let mut out = vec![0.0f32; rows * n];
            let mut moments = vec![0.0f32; 2 * rows];
            let (means, rstds) = moments.split_at_mut(rows);
            let (all, each, row) = ([rows * n], [n], [rows]);
            fn view<'a>(ptr: *const f32, shape: &'a [usize; 1]) -> View<'a> {
                // SAFETY: the buffers of the test outlive the call.
                unsafe { View::new(ptr.cast_mut().cast(), DType::F32, shape, &[1]) }
            }
            let outputs = [
                view(out.as_mut_ptr(), &all),
                view(means.as_mut_ptr(), &row),
                view(rstds.as_mut_ptr(), &row),
            ];
            let inputs = [
                view(x.as_ptr(), &all),
                view(w.as_ptr(), &each),
                view(b.as_ptr(), &each),
            ];
            let attrs = attrs::RowNorm {
                rows,
                n,
                groups: 1,
                spread: 1,
                eps: 1e-5,
                centred: true,
            };
            run(Kernel::RowNorm, DType::F32, &outputs, &inputs, &attrs).expect("normalises");
            for (x, got) in x.chunks(n).zip(out.chunks(n)) {
                let mean = x.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
                let squares = x.iter().map(|&v| (f64::from(v) - mean).powi(2));
                let rstd = 1.0 / (squares.sum::<f64>() / n as f64 + 1e-5).sqrt();
                for i in 0..n {
                    let want = (f64::from(x[i]) - mean) * rstd * f64::from(w[i]) + f64::from(b[i]);
                    assert!((f64::from(got[i]) - want).abs() < 1e-4, "{} {want}", got[i]);
                }
            }
        }
    }
}
