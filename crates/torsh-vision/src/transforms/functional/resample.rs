//! Images of bytes in another size, in whole numbers, as PyTorch computes them: along the rows, then down the columns,
//! with a rounding to bytes in between.

use torsh_backend_cpu::multiversion;
#[cfg(target_arch = "x86_64")]
use torsh_core::machine::{Level, machine};
use torsh_tensor::{InterpolateMode, Result, Tensor};

use super::bytes::{like, pieces};
use crate::scratch::Scratch;

/// Where each result begins, and its weights.
struct Weights {
    starts: Vec<usize>,
    /// `taps` for each, of which the last ones may be 0 and lie beyond the image.
    values: Vec<i16>,
    taps: usize,
    /// By how many bits they were shifted.
    shift: u32,
}

/// Half of the support of a mode.
fn reach(mode: InterpolateMode) -> usize {
    match mode {
        InterpolateMode::Bilinear => 1,
        InterpolateMode::Bicubic => 2,
        _ => 3,
    }
}

fn filter(mode: InterpolateMode, antialias: bool, x: f64) -> f64 {
    let x = x.abs();
    match mode {
        InterpolateMode::Bilinear => (1.0 - x).max(0.0),
        InterpolateMode::Bicubic => {
            let a = if antialias { -0.5 } else { -0.75 };
            if x < 1.0 {
                ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
            } else if x < 2.0 {
                (((x - 5.0) * x + 8.0) * x - 4.0) * a
            } else {
                0.0
            }
        }
        _ => {
            let sinc = |x: f64| {
                let x = x * std::f64::consts::PI;
                if x == 0.0 { 1.0 } else { x.sin() / x }
            };
            if x < 3.0 {
                sinc(x) * sinc(x / 3.0)
            } else {
                0.0
            }
        }
    }
}

impl Weights {
    fn new(mode: InterpolateMode, antialias: bool, from: usize, to: usize) -> Weights {
        let scale = from as f64 / to as f64;
        let reach = reach(mode);
        let mut most = 0.0f64;
        let rows: Vec<(usize, Vec<f64>)> = (0..to)
            .map(|i| match antialias {
                true => smooth(mode, reach, scale, i, from, &mut most),
                false => sharp(mode, reach, scale, i, from, &mut most),
            })
            .collect();
        let fits = |shift: u32| ((0.5 + most * f64::from(1u32 << (shift + 1))) as i64) < 1 << 15;
        let shift = (0..22).find(|&s| !fits(s)).unwrap_or(22);
        let longest = rows.iter().map(|(_, w)| w.len()).max().unwrap_or(1);
        let taps = longest;
        let mut values = vec![0i16; taps * to];
        for ((_, w), values) in rows.iter().zip(values.chunks_exact_mut(taps)) {
            for (&w, value) in w.iter().zip(values) {
                let w = w * f64::from(1u32 << shift);
                *value = (if w < 0.0 { w - 0.5 } else { w + 0.5 }) as i16;
            }
        }
        Weights {
            starts: rows.into_iter().map(|(start, _)| start).collect(),
            values,
            taps,
            shift,
        }
    }

    /// What rounds a sum.
    fn half(&self) -> i32 {
        (1 << self.shift) >> 1
    }
}

/// Weights of all that the result covers.
fn smooth(
    mode: InterpolateMode,
    reach: usize,
    scale: f64,
    i: usize,
    from: usize,
    most: &mut f64,
) -> (usize, Vec<f64>) {
    let stretch = scale.max(1.0);
    let support = reach as f64 * stretch;
    let longest = support.ceil() as usize * 2 + 1;
    let center = scale * (i as f64 + 0.5);
    let start = ((center - support + 0.5) as i64).max(0);
    let end = ((center + support + 0.5) as i64).min(from as i64);
    let n = ((end - start).max(0) as usize).min(longest);
    let inverse = if scale >= 1.0 { 1.0 / scale } else { 1.0 };
    let mut weights: Vec<f64> = (0..n)
        .map(|j| {
            let x = (j as f64 + start as f64 - center + 0.5) * inverse;
            filter(mode, true, x)
        })
        .collect();
    let sum: f64 = weights.iter().sum();
    if sum != 0.0 {
        for w in &mut weights {
            *w /= sum;
            *most = most.max(*w);
        }
    }
    (start as usize, weights)
}

/// Weights of the nearest pixels; what lies beyond the edge counts to the pixel there. `most` is at least what a weight
/// is while it is summed up.
fn sharp(
    mode: InterpolateMode,
    reach: usize,
    scale: f64,
    i: usize,
    from: usize,
    most: &mut f64,
) -> (usize, Vec<f64>) {
    let at = scale * (i as f64 + 0.5) - 0.5;
    let first = at.floor() as i64 - reach as i64 + 1;
    let part = at - at.floor();
    let last = from as i64 - 1;
    let start = first.clamp(0, last);
    let end = (first + 2 * reach as i64 - 1).clamp(0, last);
    let mut weights = vec![0.0; (end - start + 1) as usize];
    for j in 0..2 * reach as i64 {
        let pixel = (first + j).clamp(0, last);
        let x = (j + 1 - reach as i64) as f64 - part;
        let weight = &mut weights[(pixel - start) as usize];
        *weight += filter(mode, false, x);
        *most = most.max(*weight);
    }
    (start as usize, weights)
}

/// The images `[.., h, w]` of bytes as `[.., to]`.
pub(super) fn resize_bytes(
    image: &Tensor,
    (h, w): (usize, usize),
    to: (usize, usize),
    mode: InterpolateMode,
    antialias: bool,
    shape: &[usize],
) -> Result<Tensor> {
    let mut pixels = Scratch::new(image.numel());
    image.copy_to_slice::<u8>(&mut pixels)?;
    let mut data = &pixels[..];
    let planes = data.len() / (h * w);
    let mut narrow = Scratch::new(if to.1 != w { planes * h * to.1 } else { 0 });
    if to.1 != w {
        let weights = Weights::new(mode, antialias, w, to.1);
        let runs = Runs::new(&weights, w);
        pieces(&mut narrow, ROWS * to.1, weights.taps / 4, |block, out| {
            let first = block * ROWS;
            let rows = first..first + out.len() / to.1;
            along(&data[rows.start * w..rows.end * w], w, out, to.1, &runs);
        });
        data = &narrow;
    }
    if to.0 != h {
        let weights = Weights::new(mode, antialias, h, to.0);
        let w = to.1;
        let mut out = vec![0u8; planes * to.0 * w];
        pieces(&mut out, w, weights.taps, |row, out| {
            let (plane, y) = (row / to.0, row % to.0);
            down(&data[plane * h * w..(plane + 1) * h * w], y, out, &weights);
        });
        return like(image, &out, shape);
    }
    like(image, data, shape)
}

/// Rows that a thread takes at a time.
const ROWS: usize = 16;

/// So many columns are summed up side by side.
const COLUMNS: usize = 32;

/// Adjacent pixels of a row that are weighted at a time.
const RUN: usize = 16;

/// Results of a row that are computed side by side.
const SIDE: usize = 8;

/// [`Weights`] of rows that are read [`RUN`] pixels at a time, which all lie in the row.
struct Runs {
    /// A multiple of [`SIDE`], of which the last ones are not asked for.
    starts: Vec<usize>,
    /// `runs` for each result.
    values: Vec<[i16; RUN]>,
    runs: usize,
    /// How long a row must be.
    width: usize,
    half: i32,
    shift: u32,
}

impl Runs {
    /// The same weights for rows of `w` pixels, or as many as the runs of a result have.
    fn new(weights: &Weights, w: usize) -> Runs {
        let runs = weights.taps.div_ceil(RUN);
        let width = w.max(runs * RUN);
        let last = width - runs * RUN;
        let results = weights.starts.len().next_multiple_of(SIDE);
        let mut values = vec![[0i16; RUN]; runs * results];
        let each = weights.values.chunks_exact(weights.taps);
        let each = weights.starts.iter().zip(each);
        for ((&start, from), to) in each.zip(values.chunks_exact_mut(runs)) {
            let to = to.as_flattened_mut();
            let moved = start - start.min(last);
            let n = from.len().min(to.len() - moved);
            to[moved..moved + n].copy_from_slice(&from[..n]);
        }
        let mut starts: Vec<usize> = weights.starts.iter().map(|&s| s.min(last)).collect();
        starts.resize(results, 0);
        Runs {
            starts,
            values,
            runs,
            width,
            half: weights.half(),
            shift: weights.shift,
        }
    }
}

/// Rows of length `w` as rows of length `to`.
fn along(rows: &[u8], w: usize, out: &mut [u8], to: usize, runs: &Runs) {
    let wide = runs.width;
    if w < wide {
        // Zeros behind make a row long enough.
        let mut padded = vec![0u8; rows.len() / w * wide];
        for (to, from) in padded.chunks_exact_mut(wide).zip(rows.chunks_exact(w)) {
            to[..w].copy_from_slice(from);
        }
        return along(&padded, wide, out, to, runs);
    }
    #[cfg(target_arch = "x86_64")]
    if machine().level >= Level::Avx2
        && let Some(simd) = pulp::x86::V3::try_new()
    {
        return simd.vectorize(avx2::Along {
            simd,
            rows: (rows, w),
            out: (out, to),
            runs,
        });
    }
    for (row, out) in rows.chunks_exact(w).zip(out.chunks_exact_mut(to)) {
        let each = runs.starts.iter().zip(runs.values.chunks_exact(runs.runs));
        for (out, (&start, weights)) in out.iter_mut().zip(each) {
            let products = row[start..].iter().zip(weights.as_flattened());
            let sum = products.fold(runs.half, |sum, (&p, &w)| sum + i32::from(p) * i32::from(w));
            *out = byte(sum, runs.shift);
        }
    }
}

/// The same in AVX2: sums of products of pairs of 16-bit numbers.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::__m256i;

    use pulp::x86::V3;
    use pulp::{NullaryFnOnce, cast};

    use super::{RUN, Runs, SIDE};

    pub(super) struct Along<'a> {
        pub simd: V3,
        pub rows: (&'a [u8], usize),
        pub out: (&'a mut [u8], usize),
        pub runs: &'a Runs,
    }

    impl NullaryFnOnce for Along<'_> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            let Along {
                simd,
                rows: (rows, w),
                out: (out, to),
                runs,
            } = self;
            let (starts, _) = runs.starts.as_chunks::<SIDE>();
            for (row, out) in rows.chunks_exact(w).zip(out.chunks_exact_mut(to)) {
                match runs.runs {
                    // The usual number: the compiler unrolls what it knows.
                    1 => along_row::<1>(simd, row, starts, &runs.values, runs, out),
                    _ => along_row::<0>(simd, row, starts, &runs.values, runs, out),
                }
            }
        }
    }

    /// One row; `RUNS` is the number of runs, or 0 for any.
    #[inline(always)]
    fn along_row<const RUNS: usize>(
        simd: V3,
        row: &[u8],
        starts: &[[usize; SIDE]],
        values: &[[i16; RUN]],
        of: &Runs,
        out: &mut [u8],
    ) {
        let runs = if RUNS > 0 { RUNS } else { of.runs };
        let (avx2, sse2) = (simd.avx2, simd.sse2);
        let half: __m256i = cast([of.half; SIDE]);
        let shift = cast([u64::from(of.shift), 0]);
        for (starts, (values, out)) in starts
            .iter()
            .zip(values.chunks_exact(SIDE * runs).zip(out.chunks_mut(SIDE)))
        {
            let sum = |k: usize| -> __m256i {
                let mut sum: __m256i = cast([0i32; SIDE]);
                for run in 0..runs {
                    let Some(pixels) = row[starts[k] + run * RUN..].first_chunk::<RUN>() else {
                        return sum;
                    };
                    let pixels = avx2._mm256_cvtepu8_epi16(cast(*pixels));
                    let products = avx2._mm256_madd_epi16(pixels, cast(values[k * runs + run]));
                    sum = avx2._mm256_add_epi32(sum, products);
                }
                sum
            };
            // Two vectors become one with the sums of neighbours.
            let pairs = |k: usize| avx2._mm256_hadd_epi32(sum(k), sum(k + 1));
            let low = avx2._mm256_hadd_epi32(pairs(0), pairs(2));
            let high = avx2._mm256_hadd_epi32(pairs(4), pairs(6));
            let first = avx2._mm256_permute2x128_si256::<0x20>(low, high);
            let second = avx2._mm256_permute2x128_si256::<0x31>(low, high);
            let sums = avx2._mm256_add_epi32(avx2._mm256_add_epi32(first, second), half);
            // Rounded and narrowed, with values beyond a byte cut off.
            let sums = avx2._mm256_sra_epi32(sums, shift);
            let [low, high]: [std::arch::x86_64::__m128i; 2] = cast(sums);
            let words = sse2._mm_packs_epi32(low, high);
            let bytes: [u8; 16] = cast(sse2._mm_packus_epi16(words, words));
            match out.first_chunk_mut::<SIDE>() {
                Some(out) => out.copy_from_slice(&bytes[..SIDE]),
                None => out.iter_mut().zip(bytes).for_each(|(o, b)| *o = b),
            }
        }
    }
}

#[inline(always)]
fn byte(sum: i32, shift: u32) -> u8 {
    (sum >> shift).clamp(0, 255) as u8
}

/// Row `y` of the result of a plane.
fn down(plane: &[u8], y: usize, out: &mut [u8], weights: &Weights) {
    let w = out.len();
    let values = &weights.values[y * weights.taps..(y + 1) * weights.taps];
    let rows = &plane[weights.starts[y] * w..];
    let (half, shift) = (weights.half(), weights.shift);
    down_row(rows, w, values, half, shift, out);
}

multiversion! {
    fn down_row<A>(rows: &[u8], w: usize, values: &[i16], half: i32, shift: u32, out: &mut [u8]) {
        // Sums of so many columns stay in registers.
        let mut x = 0;
        while x + COLUMNS <= w {
            down_columns::<COLUMNS>(rows, w, x, values, half, shift, out);
            x += COLUMNS;
        }
        // The last ones a second time rather than one by one.
        if x < w && w >= COLUMNS {
            down_columns::<COLUMNS>(rows, w, w - COLUMNS, values, half, shift, out);
        } else {
            for x in x..w {
                down_columns::<1>(rows, w, x, values, half, shift, out);
            }
        }
    }
}

#[inline(always)]
fn down_columns<const N: usize>(
    rows: &[u8],
    w: usize,
    x: usize,
    values: &[i16],
    half: i32,
    shift: u32,
    out: &mut [u8],
) {
    let mut sums = [half; N];
    for (row, &weight) in rows.chunks_exact(w).zip(values) {
        if let Some(pixels) = row[x..].first_chunk::<N>() {
            let weight = i32::from(weight);
            for l in 0..N {
                sums[l] += i32::from(pixels[l]) * weight;
            }
        }
    }
    for (out, sum) in out[x..].iter_mut().zip(sums) {
        *out = byte(sum, shift);
    }
}
