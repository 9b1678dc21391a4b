//! Images of bytes in another size, in whole numbers, as PyTorch computes them: along the rows, then down the columns,
//! with a rounding to bytes in between.

use torsh_backend_cpu::multiversion;
use torsh_backend_cpu::simd::bytes::{RUN, SIDE, WeightedRuns};
use torsh_tensor::{InterpolateMode, Result, Tensor};

use super::bytes::{like, pieces};
use super::tuning::{RESIZED_COLUMNS, RESIZED_ROWS};
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
        let runs = runs(&weights, w);
        pieces(
            &mut narrow,
            RESIZED_ROWS * to.1,
            weights.taps / 4,
            |block, out| {
                let first = block * RESIZED_ROWS;
                let rows = first..first + out.len() / to.1;
                along(&data[rows.start * w..rows.end * w], w, out, to.1, &runs);
            },
        );
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

/// The weights of rows, read as runs of adjacent pixels which all lie in a row, and how long a row must be.
fn runs(weights: &Weights, w: usize) -> (WeightedRuns, usize) {
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
    let runs = WeightedRuns {
        starts,
        weights: values,
        runs,
        half: weights.half(),
        shift: weights.shift,
    };
    (runs, width)
}

/// Rows of length `w` as rows of length `to`.
fn along(rows: &[u8], w: usize, out: &mut [u8], to: usize, (runs, wide): &(WeightedRuns, usize)) {
    if w == *wide {
        return runs.of_rows((rows, w), (out, to));
    }
    // Zeros behind make a row long enough.
    let mut padded = vec![0u8; rows.len() / w * wide];
    for (to, from) in padded.chunks_exact_mut(*wide).zip(rows.chunks_exact(w)) {
        to[..w].copy_from_slice(from);
    }
    runs.of_rows((&padded, *wide), (out, to));
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
        while x + RESIZED_COLUMNS <= w {
            down_columns::<RESIZED_COLUMNS>(rows, w, x, values, half, shift, out);
            x += RESIZED_COLUMNS;
        }
        // The last ones a second time rather than one by one.
        if x < w && w >= RESIZED_COLUMNS {
            down_columns::<RESIZED_COLUMNS>(rows, w, w - RESIZED_COLUMNS, values, half, shift, out);
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
