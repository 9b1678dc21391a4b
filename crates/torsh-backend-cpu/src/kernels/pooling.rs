//! Pooling: maxima and averages over windows in one to three dimensions.
//!
//! All dimensions but the spatial ones, which are the last, count planes. Sizes are those of the
//! operands, so that `ceil_mode` shows in the output's. The attributes are the structs of
//! [`attrs`] with the kernels' names.
//!
//! - `MaxPool`: the maxima and, where a second output is wanted, their int64 indices in the
//!   flattened plane. As in PyTorch a nan is larger than any number, and of several the last one's
//!   index is taken. Real floating-point types and integers.
//! - `AdaptiveMaxPool`: the same over windows that share the input; floating-point types.
//! - `MaxPoolBackward`: the output's gradient and those indices into the input's gradient.
//! - `AvgPool`, `AvgPoolBackward`: averages and their transpose.
//! - `AdaptiveAvgPool`, `AdaptiveAvgPoolBackward`: the same over windows that share the input.

pub(crate) mod avg;
mod axis;
pub(crate) mod choose;
mod lines;
mod runs;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};
use torsh_core::{DType, Kernel, KernelArgs, Result, TorshError, View, attrs, pool};

use crate::machine::choice::pick;
use crate::machine::tuning::pooling::GRAIN;
use crate::memory::dense::{Dense, DenseOut, Ptr, wide};
use crate::memory::operands::{missing, operands};
use axis::{PoolGeometry, PoolWindows, Window};
use choose::{PoolAlgorithm, PoolKind, PoolProblem};
use lines::LineWindows;
use runs::{PoolingRow, WindowRun};

/// An element that has an order and a smallest value.
trait MaxPoolElement: Copy + Send + Sync {
    const LOWEST: Self;
    /// Whether `self` takes the place of the maximum so far.
    fn wins(self, best: Self) -> bool;
    /// All maxima by [`lines`], past the caches or not; `None` for a type that these do not take.
    fn small(
        _: &PoolGeometry,
        _how: (LineWindows, bool),
        _src: Ptr<Self>,
        _dst: Ptr<Self>,
    ) -> Option<Result<()>> {
        None
    }
    /// The maxima of a run of windows; whether there is this fast way.
    ///
    /// # Safety
    /// As for [`runs::maxima`].
    unsafe fn maxima(_row: &PoolingRow<Self>, _at: Option<*mut i64>) -> bool {
        false
    }
}
macro_rules! ordered {
    ($($t:ty: $lowest:expr, |$v:ident, $best:ident| $wins:expr $(, $maxima:path $(, $small:path)?)?;)*) => {$(
        impl MaxPoolElement for $t {
            const LOWEST: $t = $lowest;
            #[inline(always)]
            fn wins(self, $best: $t) -> bool {
                let $v = self;
                $wins
            }
            $($(fn small(
                g: &PoolGeometry,
                how: (LineWindows, bool),
                src: Ptr<$t>,
                dst: Ptr<$t>,
            ) -> Option<Result<()>> {
                Some($small(g, how, None, src, dst))
            })?
            unsafe fn maxima(row: &PoolingRow<$t>, at: Option<*mut i64>) -> bool {
                // SAFETY: the caller's promise.
                unsafe { $maxima(row, at) };
                true
            })?
        }
    )*};
}
ordered! {
        f32: f32::NEG_INFINITY, |v, best| (v > best) | v.is_nan(), runs::maxima_f32, lines::pool;
        f64: f64::NEG_INFINITY, |v, best| (v > best) | v.is_nan(), runs::maxima;
        f16: f16::NEG_INFINITY, |v, best| v.to_f32() > best.to_f32() || v.is_nan(), runs::maxima;
        bf16: bf16::NEG_INFINITY, |v, best| v.to_f32() > best.to_f32() || v.is_nan(), runs::maxima;
        u8: u8::MIN, |v, best| v > best;
        i8: i8::MIN, |v, best| v > best;
        i16: i16::MIN, |v, best| v > best;
        i32: i32::MIN, |v, best| v > best;
        i64: i64::MIN, |v, best| v > best;
}

/// Calls `f(plane, z, y, unit)` for each row of the output, by planes.
#[inline(always)]
fn each_row(g: &PoolGeometry, units: Range<usize>, mut f: impl FnMut(usize, usize, usize, usize)) {
    let (depth, height) = (g.axes[0].windows.len(), g.axes[1].windows.len());
    let rows = (depth * height).max(1);
    let (mut plane, row) = (units.start / rows, units.start % rows);
    let (mut z, mut y) = (row / height.max(1), row % height.max(1));
    for unit in units {
        f(plane, z, y, unit);
        y += 1;
        if y == height {
            (z, y) = (z + 1, 0);
        }
        if z == depth {
            (plane, z) = (plane + 1, 0);
        }
    }
}

/// The algorithm of a pooling, whose whole windows are `run`; for [`lines`] with the columns and
/// whether results go past the caches.
fn choose(
    g: &PoolGeometry,
    kind: PoolKind,
    dtype: DType,
    run: Option<WindowRun>,
) -> (PoolAlgorithm, Option<(LineWindows, bool)>) {
    let columns = match (dtype, kind) {
        (DType::F32, PoolKind::Maxima | PoolKind::Means) => LineWindows::of(&g.axes[2]),
        _ => None,
    };
    let problem = PoolProblem {
        dtype,
        kind,
        planes: g.planes,
        input: g.input(),
        output: g.output(),
        rows: g.rows(),
        small: columns.is_some(),
        run: run.map_or(0, |r| r.end - r.first),
    };
    let algorithm = pick::<PoolAlgorithm>(&problem, pool::num_threads());
    let streamed = match algorithm {
        PoolAlgorithm::Lines => Some(false),
        PoolAlgorithm::LinesStreamed => Some(true),
        PoolAlgorithm::Runs | PoolAlgorithm::Windows => None,
    };
    (algorithm, columns.zip(streamed))
}

pub(crate) fn max_pool(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [input]) = operands(args)?;
    let g = PoolGeometry::new(&PoolWindows::new(args)?, input, out)?;
    match input.dtype() {
        DType::F32 => run::<f32>(args, &g),
        DType::F64 => run::<f64>(args, &g),
        DType::F16 => run::<f16>(args, &g),
        DType::BF16 => run::<bf16>(args, &g),
        _ if args.kernel() == Kernel::AdaptiveMaxPool => Err(args.unsupported()),
        DType::U8 => run::<u8>(args, &g),
        DType::I8 => run::<i8>(args, &g),
        DType::I16 => run::<i16>(args, &g),
        DType::I32 => run::<i32>(args, &g),
        DType::I64 => run::<i64>(args, &g),
        DType::Bool | DType::C64 | DType::C128 => Err(args.unsupported()),
    }
}

fn run<T: MaxPoolElement>(args: &KernelArgs<'_>, g: &PoolGeometry) -> Result<()> {
    let input = Dense::new(&args.inputs()[0], args.inputs()[0].dtype())?;
    let out = DenseOut::new(&args.outputs()[0], args.outputs()[0].dtype())?;
    let indices = DenseOut::optional(args.outputs().get(1), DType::I64)?;
    let (src, dst) = (input.ptr::<T>(), out.ptr::<T>());
    let at = indices.as_ref().map(|i| i.ptr::<i64>());
    let [dz, dy, dx] = &g.axes;
    // Positions in vectors have 32 bits.
    let run = WindowRun::of(dx).filter(|_| g.in_pixels() <= u32::MAX as usize);
    let kind = match at {
        None => PoolKind::Maxima,
        Some(_) => PoolKind::Positions,
    };
    let (algorithm, small) = choose(g, kind, args.inputs()[0].dtype(), run);
    if let Some(how) = small
        && let Some(done) = T::small(g, how, src, dst)
    {
        done?;
        return out.finish();
    }
    let units = g.planes * dz.windows.len() * dy.windows.len();
    let run = run.filter(|_| algorithm == PoolAlgorithm::Runs);
    let grain = GRAIN.div_ceil((g.reads() / units.max(1)).max(1));
    let (columns, plane_size) = (dx.windows.len(), g.in_pixels());
    let dilations = [dz.dilation, dy.dilation, dx.dilation];
    pool::parallel_for(units, grain, &|range| {
        each_row(g, range, |plane, z, y, unit| {
            let first = unit * columns;
            // SAFETY: rows are disjoint, and windows lie inside their plane.
            unsafe {
                let src = src.at((plane * plane_size) as isize);
                let dst = dst.at(first as isize);
                let at = at.map(|i| i.at(first as isize));
                let (wz, wy) = (dz.windows[z], dy.windows[y]);
                let mut done = 0..0;
                if let Some(run) = run
                    && runs::fits([wz, wy], [dz.dilation, dy.dilation])
                {
                    let row = PoolingRow {
                        src,
                        plane: plane_size,
                        height: dy.input,
                        width: dx.input,
                        extents: [wz, wy, dx.windows[run.first]],
                        dilations,
                        run,
                        dst: dst.add(run.first),
                    };
                    if T::maxima(&row, at.map(|at| at.add(run.first))) {
                        done = run.first..run.end;
                    }
                }
                for which in [0..done.start, done.end..columns] {
                    if !which.is_empty() {
                        windows(g, [wz, wy], which, src, dst, at);
                    }
                }
            }
        });
    });
    if let Some(indices) = indices {
        indices.finish()?;
    }
    out.finish()
}

/// # Safety
/// `src` is to one plane, the others to one row of the output.
unsafe fn windows<T: MaxPoolElement>(
    g: &PoolGeometry,
    [wz, wy]: [Window; 2],
    which: Range<usize>,
    src: *const T,
    dst: *mut T,
    at: Option<*mut i64>,
) {
    let [dz, dy, dx] = &g.axes;
    // Once, since the compiler cannot know that the writes below leave them alone.
    let (height, width) = (dy.input, dx.input);
    let (deep, down, right) = (dz.dilation, dy.dilation, dx.dilation);
    for x in which {
        let wx = dx.windows[x];
        let first = (wz.start * height + wy.start) * width + wx.start;
        let (mut best, mut index) = (T::LOWEST, first);
        let mut z = wz.start;
        while z < wz.end {
            let mut y = wy.start;
            while y < wy.end {
                let row = (z * height + y) * width;
                let mut x = wx.start;
                while x < wx.end {
                    // SAFETY: the window is cut to the plane.
                    let v = unsafe { *src.add(row + x) };
                    if v.wins(best) {
                        (best, index) = (v, row + x);
                    }
                    x += right;
                }
                y += down;
            }
            z += deep;
        }
        // SAFETY: one element of each output's row.
        unsafe {
            *dst.add(x) = best;
            if let Some(at) = at {
                *at.add(x) = index as i64;
            }
        }
    }
}

pub(crate) fn max_pool_backward(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [grad, indices]) = operands(args)?;
    let n = args.attrs::<attrs::MaxPoolBackward>()?.spatial;
    match out.dtype() {
        DType::F32 | DType::F16 | DType::BF16 => backward::<f32>(n, out, grad, indices),
        DType::F64 => backward::<f64>(n, out, grad, indices),
        _ => Err(args.unsupported()),
    }
}

fn backward<T>(n: usize, out: &View<'_>, grad: &View<'_>, indices: &View<'_>) -> Result<()>
where
    T: Copy + Default + std::ops::Add<Output = T>,
{
    let (nd, gd) = (out.shape().len(), grad.shape().len());
    if nd < n
        || gd < n
        || grad.shape() != indices.shape()
        || out.shape()[..nd - n] != grad.shape()[..gd - n]
    {
        return Err(missing());
    }
    let dtype = wide(out.dtype());
    let result = DenseOut::new(out, dtype)?;
    let each: usize = grad.shape()[gd - n..].iter().product();
    let (grad, indices) = (Dense::new(grad, dtype)?, Dense::new(indices, DType::I64)?);
    let planes: usize = out.shape()[..nd - n].iter().product();
    let size: usize = out.shape()[nd - n..].iter().product();
    let (dst, src, at) = (result.ptr::<T>(), grad.ptr::<T>(), indices.ptr::<i64>());
    let outside = AtomicBool::new(false);
    pool::parallel_for(planes, (GRAIN / (size + each).max(1)).max(1), &|range| {
        for plane in range {
            // SAFETY: planes are disjoint, and an index is used only if it lies in its plane.
            unsafe {
                let dst = std::slice::from_raw_parts_mut(dst.at((plane * size) as isize), size);
                dst.fill(T::default());
                for i in plane * each..(plane + 1) * each {
                    match dst.get_mut(*at.at(i as isize) as usize) {
                        Some(o) => *o = *o + *src.at(i as isize),
                        None => outside.store(true, Ordering::Relaxed),
                    }
                }
            }
        }
    });
    if outside.into_inner() {
        let message = format!("an index is out of bounds for planes of {size} elements");
        return Err(TorshError::index("", message));
    }
    result.finish()
}

#[cfg(feature = "unit-tests")]
mod tests;
