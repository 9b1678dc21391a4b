//! How a convolution on a matrix unit goes through its images: its bands, sheets and words.

use std::ops::Range;

use smallvec::SmallVec;

use super::PAIRS;
use crate::kernels::conv::columns::Geometry;
use crate::kernels::conv::plan::STRIDE;
use crate::kernels::matmul::amx::tiles::{SIDE, STEP};
use crate::kernels::matmul::amx::{OF_STEP, SplitParts};
use crate::machine::tuning::conv as tuning;
use crate::machine::tuning::conv_amx::{BAND, FEW, KERNELS};

/// Words of one row and column modulo the strides: the row, and channel and column of either number.
pub(super) struct Sheet {
    pub(super) row: usize,
    pub(super) terms: [Option<(usize, usize)>; 2],
}

/// A pair of terms: where its word is from that of a result on, and its weights' places in a kernel.
pub(super) struct Word {
    pub(super) at: usize,
    pub(super) weights: [Option<usize>; 2],
}

/// How a convolution goes through its images.
pub(super) struct AmxConvPlan {
    pub(super) padded_planes: Vec<Sheet>,
    pub(super) words: Vec<Word>,
    /// Steps of all words, and those that are summed for all kernels before the next ones are.
    pub(super) steps: usize,
    pub(super) chain: usize,
    /// Rows of results of a band, bands of an image, and images of a band.
    pub(super) rows: usize,
    pub(super) bands: usize,
    pub(super) together: usize,
    /// Rows of a sheet beyond those of results.
    pub(super) beyond: usize,
    /// Words of a row, a sheet, an image and all images of a band.
    pub(super) pitch: usize,
    pub(super) padded_plane: usize,
    pub(super) image: usize,
    pub(super) part: usize,
}

/// Whether AMX can compute a convolution: of two dimensions, with short strides, whose packed kernels
/// and bands fit L2.
pub(in crate::kernels::conv) fn accepts(g: &Geometry, parts: usize) -> bool {
    let one = [g.input[0], g.output[0], g.kernel[0]] == [1; 3] && g.padding[0] == 0;
    let sane = |d: usize| {
        let far = g.kernel[d].checked_mul(g.dilation[d]);
        far.is_some_and(|n| n <= 1 << 20) && g.padding[d] <= 1 << 20
    };
    let strides = g.stride[1] <= STRIDE && g.stride[2] <= 2;
    one && !g.is_pointwise() && strides && sane(1) && sane(2) && Cut::new(g, parts).is_some()
}

/// Whether splitting and packing, `(m + n) k`, are repaid by `m n k` multiply-adds, and few of AMX's
/// rows are empty.
pub(in crate::kernels::conv) fn pays(g: &Geometry) -> bool {
    let pixels = g.images * g.out_pixels();
    let least = pixels
        .saturating_add(g.out_channels)
        .saturating_mul(tuning::AMX_RATIO);
    g.window() >= 2 * STEP
        && 4 * g.out_channels.next_multiple_of(SIDE) <= 5 * g.out_channels
        && pixels.saturating_mul(g.out_channels) >= least
}

/// The bands of a convolution, before its sheets and words are listed.
pub(super) struct Cut {
    /// Columns of a kernel whose pairs are of one channel.
    beside: usize,
    /// Places that are taken along rows, and along columns by either kind of pair.
    rows_taken: SmallVec<[usize; 8]>,
    columns: [SmallVec<[usize; 8]>; 2],
    steps: usize,
    rows: usize,
    bands: usize,
    together: usize,
    beyond: usize,
    pitch: usize,
}

/// Where tap `k` along dimension `d` lies: its place modulo the stride, and the step.
fn place(g: &Geometry, d: usize, k: usize) -> (usize, usize) {
    let at = k * g.dilation[d];
    (at % g.stride[d], at / g.stride[d])
}

/// The first channels of the pairs of a kind: of one channel and two columns, or of two channels.
fn units(channels: usize, beside: usize, kind: usize) -> std::iter::StepBy<Range<usize>> {
    let all = if beside > 0 || kind == 1 { channels } else { 0 };
    (0..all).step_by(1 + kind)
}

impl Cut {
    /// The bands for `parts` threads; `None` where kernels or bands are too large.
    pub(super) fn new(g: &Geometry, parts: usize) -> Option<Cut> {
        let place = |d: usize, k: usize| place(g, d, k);
        let (channels, [_, height, width]) = (g.in_channels, g.kernel);
        // Columns whose pairs are of one channel.
        let beside = if channels % 2 == 1 { width / 2 * 2 } else { 0 };
        let steps = (height * (beside / 2 * channels + (width - beside) * channels.div_ceil(2)))
            .div_ceil(PAIRS);
        let kernels = (g.out_channels.div_ceil(SIDE) * OF_STEP).checked_mul(steps)?;
        if kernels > KERNELS {
            return None;
        }
        let taken = |d: usize, all: &mut dyn Iterator<Item = usize>| {
            let mut places: SmallVec<[usize; 8]> = all.map(|k| place(d, k).0).collect();
            places.sort_unstable();
            places.dedup();
            places
        };
        let rows_taken = taken(1, &mut (0..height));
        let columns = [
            taken(2, &mut (0..beside).step_by(2)),
            taken(2, &mut (beside..width)),
        ];
        let padded_planes: usize = (0..2)
            .map(|kind| {
                let of_kind = units(channels, beside, kind).count();
                of_kind * rows_taken.len() * columns[kind].len()
            })
            .sum();
        let beyond = place(1, height - 1).1;
        let pitch = g.output[2] + (0..width).map(|k| place(2, k).1).max().unwrap_or(0);
        let bytes = |rows: usize| (rows + beyond) * pitch * padded_planes * 12;
        // Bands of whole panels, and no more than fit.
        let (height_out, width_out) = (g.output[1], g.output[2]);
        let mut bands = 1;
        let mut rows = height_out;
        let tasks = g.images * g.groups;
        // No thread is to wait for another's last band.
        let uneven = |bands: usize| {
            let all = tasks * bands;
            !all.is_multiple_of(parts) && all < 4 * parts
        };
        while rows > 1 && (bytes(rows) > BAND || uneven(bands)) {
            bands += 1;
            rows = height_out.div_ceil(bands);
        }
        let whole = (1..=SIDE).find(|n| (n * width_out).is_multiple_of(SIDE));
        let whole = whole.unwrap_or(1);
        let more = rows.next_multiple_of(whole).min(height_out);
        if bands > 1 && rows >= whole && !uneven(height_out.div_ceil(more)) {
            rows = more;
        }
        bands = height_out.div_ceil(rows);
        if bytes(rows) > 2 * BAND {
            return None;
        }
        let together = match bands == 1 && g.out_pixels() < FEW {
            true => (FEW / g.out_pixels().max(1) + 1)
                .min(BAND / bytes(rows).max(1))
                .min(g.images / parts.div_ceil(g.groups)),
            false => 1,
        };
        Some(Cut {
            beside,
            rows_taken,
            columns,
            steps,
            rows,
            bands,
            together: together.max(1),
            beyond,
            pitch,
        })
    }
}

impl AmxConvPlan {
    pub(super) fn new(g: &Geometry, cut: Cut) -> AmxConvPlan {
        let Cut {
            beside,
            rows_taken,
            columns,
            steps,
            rows,
            bands,
            together,
            beyond,
            pitch,
        } = cut;
        let (channels, [_, height, width]) = (g.in_channels, g.kernel);
        let place = |d: usize, k: usize| place(g, d, k);
        let units = |kind: usize| units(channels, beside, kind);
        let mut padded_planes = Vec::new();
        for kind in 0..2 {
            for c in units(kind) {
                for &row in &rows_taken {
                    for &column in &columns[kind] {
                        let second = match kind {
                            0 => Some((c, column + g.dilation[2])),
                            _ => (c + 1 < channels).then_some((c + 1, column)),
                        };
                        let terms = [Some((c, column)), second];
                        padded_planes.push(Sheet { row, terms });
                    }
                }
            }
        }
        let padded_plane = (rows + beyond) * pitch;
        let image = padded_plane * padded_planes.len();
        let nth = |all: &[usize], at: usize| all.iter().position(|&p| p == at).unwrap_or(0);
        let taps = g.taps();
        let mut words = Vec::new();
        let mut from = 0;
        for kind in 0..2 {
            let some = if kind == 0 { 0..beside } else { beside..width };
            for c in units(kind) {
                for ky in 0..height {
                    let (row, y) = place(1, ky);
                    for kx in some.clone().step_by(2 - kind) {
                        let (column, x) = place(2, kx);
                        let nth = nth(&rows_taken, row) * columns[kind].len()
                            + nth(&columns[kind], column);
                        let weight = c * taps + ky * width + kx;
                        let second = match kind {
                            0 => Some(weight + 1),
                            _ => (c + 1 < channels).then_some(weight + taps),
                        };
                        words.push(Word {
                            at: (from + nth) * padded_plane + y * pitch + x,
                            weights: [Some(weight), second],
                        });
                    }
                }
                from += rows_taken.len() * columns[kind].len();
            }
        }
        AmxConvPlan {
            padded_planes,
            words,
            steps,
            chain: SplitParts::Three.chain(steps * STEP) / STEP,
            rows,
            bands,
            together,
            beyond,
            pitch,
            padded_plane,
            image,
            // The last row's vectors may reach beyond it. An odd number of cache lines, so that parts
            // do not meet in the same places of the cache.
            part: ((together * image + PAIRS).div_ceil(16) | 1) * 16,
        }
    }

    /// Bytes of a panel of packed kernels.
    pub(super) fn kernels(&self) -> usize {
        self.steps * OF_STEP
    }
}
