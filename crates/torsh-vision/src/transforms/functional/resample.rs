//! Images of bytes in another size, in whole numbers, as PyTorch computes them: along the rows, then down the columns,
//! with a rounding to bytes in between.

use torsh_tensor::{InterpolateMode, Result, Tensor};

use super::bytes::{fast, like, pieces};

/// Where each result begins, and its weights.
struct Weights {
    starts: Vec<usize>,
    /// `taps` for each, of which the last ones may be 0.
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
        let taps = match longest {
            0..=4 => 4,
            5..=8 => 8,
            n => n.next_multiple_of(16),
        };
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
        pieces(&mut out, to.1, weights.taps / 4, |row, out| {
            along(&data[row * w..(row + 1) * w], out, &weights);
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

/// One row in another length.
fn along(row: &[u8], out: &mut [u8], weights: &Weights) {
    // So that the last windows have enough behind them.
    let mut padded = vec![0u8; row.len() + weights.taps];
    padded[..row.len()].copy_from_slice(row);
    match weights.taps {
        4 => fast(|| windows::<4>(&padded, out, weights)),
        8 => fast(|| windows::<8>(&padded, out, weights)),
        16 => fast(|| windows::<16>(&padded, out, weights)),
        32 => fast(|| windows::<32>(&padded, out, weights)),
        _ => fast(|| long_windows(&padded, out, weights)),
    }
}

#[inline(always)]
fn windows<const TAPS: usize>(row: &[u8], out: &mut [u8], weights: &Weights) {
    let (half, shift) = (weights.half(), weights.shift);
    let each = weights.values.chunks_exact(TAPS).zip(&weights.starts);
    for (out, (w, &start)) in out.iter_mut().zip(each) {
        let mut sum = half;
        let pixels = &row[start..start + TAPS];
        for j in 0..TAPS {
            sum += i32::from(pixels[j]) * i32::from(w[j]);
        }
        *out = (sum >> shift).clamp(0, 255) as u8;
    }
}

#[inline(always)]
fn long_windows(row: &[u8], out: &mut [u8], weights: &Weights) {
    let (half, shift) = (weights.half(), weights.shift);
    let each = weights
        .values
        .chunks_exact(weights.taps)
        .zip(&weights.starts);
    for (out, (w, &start)) in out.iter_mut().zip(each) {
        let mut sum = half;
        let pixels = row[start..start + weights.taps].chunks_exact(16);
        for (pixels, w) in pixels.zip(w.chunks_exact(16)) {
            for j in 0..16 {
                sum += i32::from(pixels[j]) * i32::from(w[j]);
            }
        }
        *out = (sum >> shift).clamp(0, 255) as u8;
    }
}

/// Row `y` of the result of a plane.
fn down(plane: &[u8], y: usize, out: &mut [u8], weights: &Weights) {
    let w = out.len();
    let mut sums = vec![weights.half(); w];
    let values = &weights.values[y * weights.taps..(y + 1) * weights.taps];
    let rows = plane.chunks_exact(w).skip(weights.starts[y]);
    let shift = weights.shift;
    for (row, &weight) in rows.zip(values) {
        if weight == 0 {
            continue;
        }
        let weight = i32::from(weight);
        fast(|| {
            for (sum, &v) in sums.iter_mut().zip(row) {
                *sum += i32::from(v) * weight;
            }
        });
    }
    fast(|| {
        for (out, &sum) in out.iter_mut().zip(&sums) {
            *out = (sum >> shift).clamp(0, 255) as u8;
        }
    });
}
