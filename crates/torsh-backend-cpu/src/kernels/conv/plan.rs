//! How a direct convolution goes through its image: bands of padded rows, and where the taps of each
//! result lie in them.

use smallvec::{SmallVec, smallvec};

use super::columns::Geometry;
use super::direct_loops::Loops;
use super::element::ConvKind;
use crate::machine::tuning::conv_direct::{BAND, MOST};
use crate::memory::stream;

/// The longest stride that has places of its own in the padded rows.
pub(super) const STRIDE: usize = 8;

/// Taps and where they are, counted from the window's start.
type Taps = SmallVec<[(usize, usize); 8]>;

/// One dimension of the result. The gradient of the input of a strided convolution has phases:
/// results `spread` apart that take the same taps.
#[derive(Debug)]
pub(super) struct ConvAxis {
    pub input: usize,
    pub output: usize,
    /// Where the first window starts, and the step to that of the next result of a phase.
    pub start: isize,
    pub step: usize,
    pub spread: usize,
    /// The length of the windows.
    extent: usize,
    pub phases: SmallVec<[Taps; 2]>,
}

impl ConvAxis {
    /// Of a convolution.
    pub fn forward(g: &Geometry, d: usize) -> ConvAxis {
        ConvAxis {
            input: g.input[d],
            output: g.output[d],
            start: -(g.padding[d] as isize),
            step: g.stride[d],
            spread: 1,
            extent: (g.kernel[d] - 1) * g.dilation[d] + 1,
            phases: smallvec![(0..g.kernel[d]).map(|k| (k, k * g.dilation[d])).collect()],
        }
    }

    /// Of its transpose: position `i` takes tap `k` of output `(i + padding - k dilation) / stride`,
    /// where that is a whole number.
    pub fn transposed(g: &Geometry, d: usize) -> ConvAxis {
        let spread = g.stride[d];
        let at = |phase: usize, k: usize| {
            let from = (phase + g.padding[d]) as isize - (k * g.dilation[d]) as isize;
            (from % spread as isize == 0).then(|| from / spread as isize)
        };
        let all = || (0..spread).flat_map(|r| (0..g.kernel[d]).filter_map(move |k| at(r, k)));
        let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        let phase = |r| {
            let tap = |k| at(r, k).map(|at| (k, (at - least) as usize));
            (0..g.kernel[d]).filter_map(tap).collect()
        };
        ConvAxis {
            input: g.output[d],
            output: g.input[d],
            start: least,
            step: 1,
            spread,
            extent: (most - least) as usize + 1,
            phases: (0..spread).map(phase).collect(),
        }
    }

    /// Results of a phase.
    pub fn results(&self, phase: usize) -> usize {
        self.output.saturating_sub(phase).div_ceil(self.spread)
    }

    /// The places that taps have, ascending.
    pub fn offsets(&self) -> SmallVec<[usize; 8]> {
        let mut all: SmallVec<[usize; 8]> = self.phases.iter().flatten().map(|t| t.1).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Their places modulo the step.
    pub fn taken(&self) -> SmallVec<[usize; 8]> {
        let places = || self.phases.iter().flatten().map(|t| t.1 % self.step);
        (0..self.step)
            .filter(|&at| places().any(|place| place == at))
            .collect()
    }

    /// The place of the last tap in rows that a step separates: how much longer they are than results.
    pub fn beyond(&self) -> usize {
        (self.extent - 1) / self.step
    }

    /// The input positions of `n` results of a phase.
    pub fn reach(&self, n: usize) -> usize {
        (n - 1) * self.step + self.extent
    }
}

/// The dimensions of a convolution, or with [`ConvKind::Transposed`] of its transpose; `None` where a
/// stride is too long for padded rows, or a window or padding is longer than `most`.
pub(super) fn axes(g: &Geometry, kind: ConvKind, most: usize) -> Option<[ConvAxis; 3]> {
    let fits = |d: usize| {
        let far = g.kernel[d].checked_mul(g.dilation[d]);
        g.stride[d] <= STRIDE && far.is_some_and(|n| n <= most) && g.padding[d] <= most
    };
    (0..3).all(fits).then(|| {
        std::array::from_fn(|d| match kind {
            ConvKind::Transposed => ConvAxis::transposed(g, d),
            _ => ConvAxis::forward(g, d),
        })
    })
}

/// Fewer columns, of whole vectors, where a band of all of them would be too large, but not fewer than
/// half of `least`.
pub(super) fn narrowed(
    mut columns: usize,
    lanes: usize,
    least: usize,
    is_large: impl Fn(usize) -> bool,
) -> usize {
    while columns > least && is_large(columns) {
        columns = columns.div_ceil(2).next_multiple_of(lanes);
    }
    columns
}

/// A direct convolution of `planes` groups of `channels` planes each into `outs` planes each, cut into
/// bands.
pub(super) struct Grid {
    pub planes: usize,
    pub groups: usize,
    pub channels: usize,
    pub outs: usize,
    pub axes: [ConvAxis; 3],
    /// The planes along the first dimension that a result takes.
    pub depths: SmallVec<[usize; 8]>,
    /// Rows and columns of results that are done with one band.
    pub rows: usize,
    pub columns: usize,
    /// How many bands there are, by dimension.
    pub bands: [usize; 3],
}

impl Grid {
    /// A convolution, or with [`ConvKind::Transposed`] its transpose, in bands of so many rows and columns.
    pub fn new(
        g: &Geometry,
        kind: ConvKind,
        axes: [ConvAxis; 3],
        [rows, columns]: [usize; 2],
    ) -> Grid {
        let (channels, outs) = g.channels(kind);
        let [z, y, x] = &axes;
        Grid {
            planes: g.images * g.groups,
            groups: g.groups,
            channels,
            outs,
            depths: z.offsets(),
            rows,
            columns,
            // An empty result has no rows or columns.
            bands: [
                z.results(0),
                y.results(0).div_ceil(rows.max(1)),
                x.results(0).div_ceil(columns.max(1)),
            ],
            axes,
        }
    }

    /// The padded plane of a channel, for a place along the first dimension.
    pub fn line(&self, channel: usize, place: usize) -> usize {
        channel * self.depths.len() + self.depths.iter().position(|&d| d == place).unwrap_or(0)
    }

    /// The bands of a plane.
    pub fn bands(&self) -> usize {
        self.bands.iter().product()
    }

    /// Band `index` of a plane.
    pub fn band(&self, plane: usize, index: usize) -> Band {
        let ([_, y, x], [_, ys, xs]) = (&self.axes, self.bands);
        let first = [index / xs % ys * self.rows, index % xs * self.columns];
        Band {
            plane,
            z: index / xs / ys,
            first,
            count: [
                self.rows.min(y.results(0) - first[0]),
                self.columns.min(x.results(0) - first[1]),
            ],
        }
    }

    /// Where padded plane `index` of a band starts in the image, and whether the image has it: for
    /// each channel there is one for each of the depths.
    pub fn source(&self, band: &Band, index: usize) -> (isize, bool) {
        let ([z, y, x], depths) = (&self.axes, &self.depths);
        let channel = band.plane * self.channels + index / depths.len();
        let depth = z.start + (band.z * z.step + depths[index % depths.len()]) as isize;
        let plane = (channel * z.input) as isize + depth;
        let inside = (0..z.input as isize).contains(&depth);
        (plane * (y.input * x.input) as isize, inside)
    }
}

/// Part of a plane: its band along each dimension.
pub(super) struct Band {
    pub plane: usize,
    pub z: usize,
    /// The first result of each phase along the others, and how many.
    pub first: [usize; 2],
    pub count: [usize; 2],
}

/// Puts results of several phases, each in a line of its own, next to one another: result `j` of a phase
/// goes to place `j * phases + phase`.
///
/// # Safety
/// Each phase's line must hold as many results as `columns` says, `to` have room for them.
#[inline(always)]
pub(super) unsafe fn interleave<T: Copy>(
    loops: &Loops<T>,
    phases: usize,
    columns: impl Fn(usize) -> usize,
    from: impl Fn(usize) -> *const T,
    to: *mut T,
) {
    let pairs = if phases == 2 { columns(1) } else { 0 };
    // SAFETY: the caller's promise.
    unsafe {
        (loops.weave)(pairs, [from(0), from(1)], to);
        for phase in 0..phases {
            for j in pairs..columns(phase) {
                *to.add(j * phases + phase) = *from(phase).add(j);
            }
        }
    }
}

/// The terms of the results of some phases.
#[derive(Debug)]
pub(super) struct Phase {
    /// The first of [`BandPlan::terms`], and how many.
    pub first: usize,
    pub count: usize,
}

/// One term of a result: an input channel and a tap.
#[derive(Debug)]
pub(super) struct Term {
    pub channel: usize,
    pub tap: usize,
}

/// The bands of a direct convolution, before the terms of its results are listed.
pub(super) struct Bands {
    grid: Grid,
    /// Numbers of a padded row.
    width: usize,
}

impl Bands {
    /// The bands of a convolution, or with [`ConvKind::Transposed`] of its transpose, for vectors of `lanes`
    /// numbers of `size` bytes; `None` where the windows are too large for bands.
    pub fn new(g: &Geometry, kind: ConvKind, lanes: usize, size: usize) -> Option<Bands> {
        let axes = axes(g, kind, MOST)?;
        let [z, y, x] = &axes;
        let lines = g.channels(kind).0 * z.offsets().len();
        // Whole vectors of results, with what their last taps reach beyond.
        let width = |columns: usize| {
            let reach = columns.next_multiple_of(lanes) + x.extent.div_ceil(x.step);
            reach.next_multiple_of(lanes)
        };
        let bytes = |rows: usize, columns: usize| {
            (lines * y.reach(rows)).saturating_mul(width(columns) * x.step * size)
        };
        // All columns and as many rows as fit, but no band whose greater part is in the next too.
        let mut rows = y.results(0);
        let columns = narrowed(x.results(0), lanes, 128, |n| bytes(1, n) > 2 * BAND);
        while rows > 1 && bytes(rows, columns) > BAND && rows * y.step > 2 * y.extent {
            rows = rows.div_ceil(2);
        }
        while rows > 1 && bytes(rows, columns) > MOST {
            rows = rows.div_ceil(2);
        }
        if bytes(rows, columns) > MOST {
            return None;
        }
        Some(Bands {
            width: width(columns),
            grid: Grid::new(g, kind, axes, [rows, columns]),
        })
    }
}

/// A direct convolution in bands.
pub(super) struct BandPlan {
    pub grid: Grid,
    /// The places modulo the step that are taken in a row.
    pub places: SmallVec<[usize; 8]>,
    /// A padded row, of which there is one for each place modulo the step.
    pub width: usize,
    /// Numbers of all padded rows for one row of the image, for one plane of it, and for a band.
    pub line: usize,
    pub plane: usize,
    pub band: usize,
    pub all: Terms,
}

impl BandPlan {
    /// The plan of bands.
    pub fn new(g: &Geometry, Bands { grid, width }: Bands) -> BandPlan {
        let [_, y, x] = &grid.axes;
        let line = x.step * width;
        let plane = y.reach(grid.rows) * line;
        BandPlan {
            places: x.taken(),
            width,
            line,
            plane,
            band: grid.channels * grid.depths.len() * plane,
            all: Terms::new(&grid, g.kernel, |channel, [pz, py, px]| {
                let at = px % x.step * width + px / x.step;
                grid.line(channel, pz) * plane + py * line + at
            }),
            grid,
        }
    }

    /// Whether the results, of numbers of `size` bytes, are to be written past the caches: only where
    /// they are well beyond them, since what adds up many terms has time to write lines back.
    pub fn streams(&self, size: usize) -> bool {
        let Grid {
            planes, outs, axes, ..
        } = &self.grid;
        let results: usize = axes.iter().map(|a| a.output).product();
        axes[2].spread == 1 && stream::pays(planes * outs * results * size / 2)
    }
}

/// The terms of all phases.
#[derive(Debug, Default)]
pub(super) struct Terms {
    /// By phases of all three dimensions, the last one's in order.
    pub phases: Vec<Phase>,
    pub terms: Vec<Term>,
    /// Where each term is in a band, counted from the result's place.
    pub offsets: Vec<usize>,
}

impl Terms {
    /// Those of a grid, where `place` says where a tap of a channel is, from its places along each
    /// dimension.
    pub fn new(
        grid: &Grid,
        [_, height, width]: [usize; 3],
        place: impl Fn(usize, [usize; 3]) -> usize,
    ) -> Terms {
        let [z, y, x] = &grid.axes;
        let mut all = Terms::default();
        for (tz, ty) in z
            .phases
            .iter()
            .flat_map(|z| y.phases.iter().map(move |y| (z, y)))
        {
            for tx in &x.phases {
                let first = all.terms.len();
                for channel in 0..grid.channels {
                    for &(kz, pz) in tz {
                        for &(ky, py) in ty {
                            for &(kx, px) in tx {
                                let tap = (kz * height + ky) * width + kx;
                                all.terms.push(Term { channel, tap });
                                all.offsets.push(place(channel, [pz, py, px]));
                            }
                        }
                    }
                }
                let count = all.terms.len() - first;
                all.phases.push(Phase { first, count });
            }
        }
        all
    }
}
