//! Images of bytes in another size, in whole numbers, as PyTorch computes them: along the rows, then down the columns,
//! with a rounding to bytes in between.

use torsh_backend_cpu::multiversion;
use torsh_tensor::{InterpolateMode, Result, Tensor};

use super::bytes::{like, pieces};

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
    let mut data = image.to_vec::<u8>()?;
    let planes = data.len() / (h * w);
    if to.1 != w {
        let weights = Weights::new(mode, antialias, w, to.1);
        let mut out = vec![0u8; planes * h * to.1];
        pieces(&mut out, LANES * to.1, weights.taps / 4, |block, out| {
            let first = block * LANES;
            let rows = first..first + out.len() / to.1;
            along(&data[rows.start * w..rows.end * w], w, out, &weights);
        });
        data = out;
    }
    if to.0 != h {
        let weights = Weights::new(mode, antialias, h, to.0);
        let w = to.1;
        let mut out = vec![0u8; planes * to.0 * w];
        pieces(&mut out, w, weights.taps, |row, out| {
            let (plane, y) = (row / to.0, row % to.0);
            down(&data[plane * h * w..(plane + 1) * h * w], y, out, &weights);
        });
        data = out;
    }
    like(image, &data, shape)
}

/// So many rows are computed side by side, in the lanes of vectors.
const LANES: usize = 64;

/// So many columns are summed up side by side.
const COLUMNS: usize = 32;

/// Up to [`LANES`] rows of length `w` in another length.
fn along(rows: &[u8], w: usize, out: &mut [u8], weights: &Weights) {
    let to = weights.starts.len();
    let n = rows.len() / w;
    // Pixel by pixel, with those of all rows beside each other.
    let mut columns = vec![0u8; w * LANES];
    turn_all(rows, w, &mut columns[..]);
    let mut results = vec![0u8; to * LANES];
    weigh(&columns[..], &mut results[..], weights);
    turn_all_back(&results[..], to, n, out);
}

multiversion! {
    fn turn_all<A>(rows: &[u8], w: usize, columns: &mut [u8]) {
        let n = rows.len() / w;
        for first in (0..n).step_by(8) {
            let height = (n - first).min(8);
            turn(&rows[first * w..], w, height, &mut columns[first..]);
        }
    }
}

multiversion! {
    fn turn_all_back<A>(results: &[u8], to: usize, n: usize, out: &mut [u8]) {
        for first in (0..n).step_by(8) {
            let height = (n - first).min(8);
            turn_back(&results[first..], to, height, &mut out[first * to..]);
        }
    }
}

multiversion! {
    /// The sums for each result of all lanes.
    fn weigh<A>(columns: &[u8], results: &mut [u8], weights: &Weights) {
        let (columns, _) = columns.as_chunks::<LANES>();
        let (results, _) = results.as_chunks_mut::<LANES>();
        let (half, shift) = (weights.half(), weights.shift);
        let each = weights.values.chunks_exact(weights.taps).zip(&weights.starts);
        for (result, (w, &start)) in results.iter_mut().zip(each) {
            let mut sums = [half; LANES];
            for (pixels, &w) in columns[start..].iter().zip(w) {
                let w = i32::from(w);
                for l in 0..LANES {
                    sums[l] += i32::from(pixels[l]) * w;
                }
            }
            for l in 0..LANES {
                result[l] = byte(sums[l], shift);
            }
        }
    }
}

#[inline(always)]
fn byte(sum: i32, shift: u32) -> u8 {
    (sum >> shift).clamp(0, 255) as u8
}

/// Swaps parts of words that are `FAR` apart.
#[inline(always)]
fn swap<const FAR: usize, const G: usize>(a: &mut [[u64; G]; 8], mask: u64) {
    for first in (0..8).step_by(2 * FAR) {
        for i in first..first + FAR {
            for g in 0..G {
                let t = ((a[i][g] >> (8 * FAR)) ^ a[i + FAR][g]) & mask;
                a[i + FAR][g] ^= t;
                a[i][g] ^= t << (8 * FAR);
            }
        }
    }
}

/// Turns matrices of 8 x 8 bytes, `G` at a time; a word is a row.
#[inline(always)]
fn turn_words<const G: usize>(a: &mut [[u64; G]; 8]) {
    swap::<4, G>(a, 0x0000_0000_ffff_ffff);
    swap::<2, G>(a, 0x0000_ffff_0000_ffff);
    swap::<1, G>(a, 0x00ff_00ff_00ff_00ff);
}

/// `out[x * LANES + r] = rows[r * w + x]` of up to 8 rows.
#[inline(always)]
fn turn(rows: &[u8], w: usize, height: usize, out: &mut [u8]) {
    const G: usize = 4;
    let mut x = 0;
    while x + 8 * G <= w {
        let mut a = [[0u64; G]; 8];
        for (r, a) in a.iter_mut().enumerate().take(height) {
            let (words, _) = rows[r * w + x..r * w + x + 8 * G].as_chunks::<8>();
            for (a, word) in a.iter_mut().zip(words) {
                *a = u64::from_le_bytes(*word);
            }
        }
        turn_words(&mut a);
        for (c, a) in a.iter().enumerate() {
            for (g, a) in a.iter().enumerate() {
                let at = (x + 8 * g + c) * LANES;
                out[at..at + 8].copy_from_slice(&a.to_le_bytes());
            }
        }
        x += 8 * G;
    }
    for x in x..w {
        for r in 0..height {
            out[x * LANES + r] = rows[r * w + x];
        }
    }
}

/// `out[r * to + x] = results[x * LANES + r]` of up to 8 rows.
#[inline(always)]
fn turn_back(results: &[u8], to: usize, height: usize, out: &mut [u8]) {
    let mut x = 0;
    while x + 8 <= to {
        let mut a = [[0u64; 1]; 8];
        for (i, a) in a.iter_mut().enumerate() {
            let at = (x + i) * LANES;
            if let Some(word) = results[at..].first_chunk::<8>() {
                *a = [u64::from_le_bytes(*word)];
            }
        }
        turn_words(&mut a);
        for (r, a) in a.iter().enumerate().take(height) {
            out[r * to + x..r * to + x + 8].copy_from_slice(&a[0].to_le_bytes());
        }
        x += 8;
    }
    for x in x..to {
        for r in 0..height {
            out[r * to + x] = results[x * LANES + r];
        }
    }
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
