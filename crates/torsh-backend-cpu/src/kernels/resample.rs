//! Interpolation of images to another size, one dimension after the other, by tables of positions
//! and weights.
//!
//! - `Resample`: `[n, c, d.., h, w]` into the same with other spatial sizes.
//! - `ResampleBackward`: its transpose.
//!
//! Both take [`attrs::Resample`].
//!
//! float32 and float64, and the half types through float32; uint8 to the nearest, and by fixed
//! point numbers for images.

mod bytes;
pub(crate) mod choose;
mod pass;
mod table;

use torsh_core::attrs::{self, ResampleMode as Mode};
use torsh_core::{DType, Kernel, KernelArgs, Result, View, pool};

use crate::kernels::spatial::three;
use crate::machine::choice::pick;
use crate::machine::tuning::resample::GRAIN;
use crate::memory::dense::{Dense, DenseOut, Ptr, Scratch};
use crate::memory::operands::{missing, operands};
use choose::{ResampleAlgorithm, ResampleProblem};
use pass::{Blend, BlendPairs, adjacent, both, memory_of_both, pairs, parts_of_both, pass};
use table::{ResampleAxis, ResampleTable};

/// Planes, and the sizes of both sides.
struct ResampleGeometry {
    planes: usize,
    spatial: usize,
    axes: [ResampleAxis; 3],
}

impl ResampleGeometry {
    fn new(args: &KernelArgs<'_>, image: &View<'_>, result: &View<'_>) -> Result<ResampleGeometry> {
        let (&[n, c, ref input @ ..], &[n2, c2, ref output @ ..]) = (image.shape(), result.shape())
        else {
            return Err(missing());
        };
        let (spatial, input, output) = (input.len(), three(input, 1)?, three(output, 1)?);
        let a = args.attrs::<attrs::Resample>()?;
        let (mode, scales) = (a.mode, [a.scales_d, a.scales_h, a.scales_w]);
        if [n, c] != [n2, c2] || input.contains(&0) {
            return Err(missing());
        }
        let axes = std::array::from_fn(|d| ResampleAxis {
            mode,
            input: input[d],
            output: output[d],
            align_corners: a.align_corners,
            antialias: a.antialias,
            // Dimensions in front that are not there stay as they are.
            scale: scales[d].filter(|_| d + spatial >= 3),
            image: spatial == 2,
            weights: match mode {
                Mode::Linear if spatial == 2 => DType::F32,
                _ => image.dtype(),
            },
        });
        Ok(ResampleGeometry {
            planes: n * c,
            spatial,
            axes,
        })
    }
}

pub(crate) fn resample(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [x]) = operands(args)?;
    let forward = args.kernel() == Kernel::Resample;
    let g = match forward {
        true => ResampleGeometry::new(args, x, out)?,
        false => ResampleGeometry::new(args, out, x)?,
    };
    let (mode, antialias) = (g.axes[2].mode, g.axes[2].antialias);
    let nearest = matches!(mode, Mode::Nearest | Mode::NearestExact);
    if out.numel() == 0 {
        return Ok(());
    }
    if nearest && forward {
        return match out.dtype() {
            DType::U8 => gather::<u8, f32>(args, &g),
            DType::F16 | DType::BF16 => gather::<u16, f32>(args, &g),
            DType::F32 => gather::<u32, f32>(args, &g),
            DType::F64 => gather::<u64, f64>(args, &g),
            _ => Err(args.unsupported()),
        };
    }
    match out.dtype() {
        DType::F32 => weighted::<f32>(args, &g, forward, DType::F32),
        DType::F64 => weighted::<f64>(args, &g, forward, DType::F64),
        DType::F16 | DType::BF16 if !antialias => weighted::<f32>(args, &g, forward, DType::F32),
        DType::U8 if forward && g.spatial == 2 => bytes::resample(args, &g),
        _ => Err(args.unsupported()),
    }
}

/// Copies the nearest elements, row by row.
fn gather<T: Copy + Send + Sync, W: num_traits::Float>(
    args: &KernelArgs<'_>,
    g: &ResampleGeometry,
) -> Result<()> {
    let x = Dense::new(&args.inputs()[0], args.inputs()[0].dtype())?;
    let out = DenseOut::new(&args.outputs()[0], args.outputs()[0].dtype())?;
    let (src, dst) = (x.ptr::<T>(), out.ptr::<T>());
    let index = |axis: &ResampleAxis| -> Vec<usize> {
        let table = axis.table::<W>();
        table.items.iter().map(|&(i, _)| i).collect()
    };
    let [zs, ys, xs] = [index(&g.axes[0]), index(&g.axes[1]), index(&g.axes[2])];
    let same = xs.len() == g.axes[2].input && xs.iter().enumerate().all(|(o, &i)| o == i);
    let (height, width) = (g.axes[1].input, g.axes[2].input);
    let size = g.axes[0].input * height * width;
    let rows = zs.len() * ys.len();
    let grain = GRAIN.div_ceil(xs.len().max(1));
    pool::parallel_for(g.planes * rows, grain, &|range| {
        let mut last = None;
        for unit in range {
            let (plane, row) = (unit / rows, unit % rows);
            let (z, y) = (zs[row / ys.len()], ys[row % ys.len()]);
            let at = plane * size + (z * height + y) * width;
            // SAFETY: positions lie inside the input, rows of the output are disjoint, and the
            // row before was written by this thread where `last` is there.
            unsafe {
                let out = dst.at((unit * xs.len()) as isize);
                if same {
                    std::ptr::copy_nonoverlapping(src.at(at as isize), out, xs.len());
                } else if last == Some(at) {
                    std::ptr::copy_nonoverlapping(out.sub(xs.len()), out, xs.len());
                } else {
                    let row = std::slice::from_raw_parts(src.at(at as isize), width);
                    for (o, &i) in xs.iter().enumerate() {
                        *out.add(o) = row[i];
                    }
                }
            }
            last = Some(at);
        }
    });
    out.finish()
}

/// One step of a resampling: a dimension's table, and the sizes around it.
struct Step<T> {
    table: ResampleTable<T>,
    /// The number of items of every element, where it is the same.
    uniform: Option<usize>,
    pairs: Option<Vec<BlendPairs<T>>>,
    input: usize,
    outer: usize,
    inner: usize,
}

impl<T> Step<T> {
    fn results(&self) -> usize
    where
        T: Copy,
    {
        self.outer * self.table.len() * self.inner
    }
}

fn weighted<T: Blend>(
    args: &KernelArgs<'_>,
    g: &ResampleGeometry,
    forward: bool,
    dtype: DType,
) -> Result<()> {
    let x = Dense::new(&args.inputs()[0], dtype)?;
    let out = DenseOut::new(&args.outputs()[0], dtype)?;
    let (src, dst) = (x.ptr::<T>(), out.ptr::<T>());
    let mut sizes = g.axes.map(|a| if forward { a.input } else { a.output });
    let ends = g.axes.map(|a| if forward { a.output } else { a.input });
    let (from, to) = (
        sizes.iter().product::<usize>(),
        ends.iter().product::<usize>(),
    );
    // What shrinks goes first, so that the rest has less to do.
    let shrinks = ends[0] * ends[1] < sizes[0] * sizes[1];
    let order = if shrinks { [0, 1, 2] } else { [2, 1, 0] };
    let mut steps: Vec<Step<T>> = Vec::new();
    for d in order {
        let axis = &g.axes[d];
        let table = axis.table::<T>();
        if table.is_identity(axis.input) {
            continue;
        }
        let table = match forward {
            true => table,
            false => table.transposed(axis.input),
        };
        let inner = sizes[d + 1..].iter().product();
        let uniform = table.uniform();
        steps.push(Step {
            pairs: (inner == 1 && uniform == Some(2))
                .then(|| pairs(&table.items))
                .flatten(),
            uniform,
            table,
            input: sizes[d],
            outer: sizes[..d].iter().product(),
            inner,
        });
        sizes[d] = ends[d];
    }
    if steps.is_empty() {
        // SAFETY: both hold as many elements, and do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(src.get(), dst.get(), g.planes * to) };
        return out.finish();
    }
    let work = steps.iter().map(|s| s.results() * 2).sum::<usize>().max(1);
    // The first two steps, where they are done together.
    let together = match &steps[..] {
        [along, down, ..] if adjacent(along, down) => Some([along, down]),
        _ => None,
    };
    let problem = ResampleProblem {
        dtype,
        planes: g.planes,
        from,
        to,
        passes: steps.len(),
        adjacent: together.is_some(),
    };
    let algorithm = pick::<ResampleAlgorithm>(&problem, pool::num_threads());
    let together = together.filter(|_| algorithm.together());
    let done = if together.is_some() { 2 } else { 0 };
    let all = 1.max(done)..steps.len();
    let between = all.map(|i| steps[i - 1].results()).max().unwrap_or(0);
    // Planes for each thread, or, where there are too few, parts of each plane.
    let parts = match pool::chunk_count(g.planes.saturating_mul(work), GRAIN) {
        parts if parts > g.planes => 1,
        parts => parts.max(1),
    };
    let (inner, lines) = match together {
        Some([along, down]) => {
            let inner = if parts == 1 {
                parts_of_both(along, down)
            } else {
                1
            };
            (inner, inner * memory_of_both(down))
        }
        None => (1, 0),
    };
    let streamed = algorithm.streams();
    let each = 2 * between + lines;
    let scratch = Scratch::<T>::new(parts * each)?;
    let scratch = Ptr::new(scratch.ptr());
    pool::parallel_parts(g.planes, parts, &|part, range| {
        let memory = scratch.at((part * each) as isize);
        let target = |plane: usize, i: usize| match i + 1 == steps.len() {
            true => dst.at((plane * to) as isize),
            false => memory.wrapping_add(lines + i % 2 * between),
        };
        for plane in range {
            let mut current = src.at((plane * from) as isize);
            // SAFETY: the memory is this part's, and holds the result of every step but the last;
            // planes are disjoint.
            unsafe {
                if let Some(first) = together {
                    let to = target(plane, 1);
                    both(
                        first,
                        current,
                        to,
                        (memory, inner),
                        streamed && steps.len() == 2,
                    );
                    current = to;
                }
                for (i, step) in steps.iter().enumerate().skip(done) {
                    let to = target(plane, i);
                    pass(step, current, to, streamed && i + 1 == steps.len());
                    current = to;
                }
            }
        }
    });
    out.finish()
}

#[cfg(feature = "unit-tests")]
mod tests;
