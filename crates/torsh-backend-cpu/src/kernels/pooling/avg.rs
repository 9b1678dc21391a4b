//! Averages over windows, and their transpose.

use std::ops::Range;

use num_complex::Complex;
use torsh_core::{DType, Kernel, KernelArgs, Result, attrs, pool};

use super::axis::{Divisor, PoolGeometry, PoolWindows, Window};
use super::choose::{PoolAlgorithm, PoolKind};
use super::lines::{self, LineWindows};
use super::runs::{PoolingRow, WindowRun, fits, means};
use super::{GRAIN, choose, each_row};
use crate::machine::tuning::pooling::LONG;
use crate::memory::dense::{Dense, DenseOut, Ptr, Scratch};
use crate::memory::operands::operands;

/// A number that can be averaged.
trait Average: Copy + Default + Send + Sync {
    fn plus(self, other: Self) -> Self;
    fn over(self, n: f64) -> Self;
    /// All means by [`lines`], past the caches or not; `None` for a type that these do not take.
    fn small(
        _: &PoolGeometry,
        _how: (LineWindows, bool),
        _: Divisor,
        _src: Ptr<Self>,
        _dst: Ptr<Self>,
    ) -> Option<Result<()>> {
        None
    }
    /// The means of a run of windows; whether there is this fast way.
    ///
    /// # Safety
    /// The windows lie inside of the plane.
    unsafe fn means(_row: &PoolingRow<Self>, _n: f64) -> bool {
        false
    }
}
macro_rules! average {
    ($($t:ty, $real:ty $(, $means:path $(, $small:path)?)?;)*) => {$(
        impl Average for $t {
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn over(self, n: f64) -> $t {
                self / n as $real
            }
            $($(fn small(
                g: &PoolGeometry,
                how: (LineWindows, bool),
                by: Divisor,
                src: Ptr<$t>,
                dst: Ptr<$t>,
            ) -> Option<Result<()>> {
                Some($small(g, how, Some(by), src, dst))
            })?
            unsafe fn means(row: &PoolingRow<$t>, n: f64) -> bool {
                // SAFETY: the caller's promise.
                unsafe { $means(row, n as $real) };
                true
            })?
        }
    )*};
}
average! {
    f32, f32, means, lines::pool;
    f64, f64, means;
    Complex<f32>, f32;
    Complex<f64>, f64;
}
impl Average for i64 {
    #[inline(always)]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn over(self, n: f64) -> i64 {
        match n as i64 {
            0 => 0,
            n => self.wrapping_div(n),
        }
    }
}

pub(crate) fn avg_pool(args: &KernelArgs<'_>) -> Result<()> {
    let ([out], [x]) = operands(args)?;
    let forward = matches!(args.kernel(), Kernel::AvgPool | Kernel::AdaptiveAvgPool);
    let asked = PoolWindows::new(args)?;
    let g = match forward {
        true => PoolGeometry::new(&asked, x, out)?,
        false => PoolGeometry::new(&asked, out, x)?,
    };
    let sliding = matches!(asked, PoolWindows::Sliding { .. });
    match out.dtype() {
        DType::F32 => run::<f32>(args, &g, forward, DType::F32),
        DType::F64 => run::<f64>(args, &g, forward, DType::F64),
        // As PyTorch, which has no half types for sliding windows in three dimensions, integers
        // for sliding windows alone, and complex numbers for the mean of the whole.
        DType::F16 | DType::BF16 if !(sliding && asked.spatial() == 3) => {
            run::<f32>(args, &g, forward, DType::F32)
        }
        DType::I64 if sliding => run::<i64>(args, &g, forward, DType::I64),
        DType::C64 if !sliding && g.out_pixels() == 1 => {
            run::<Complex<f32>>(args, &g, forward, DType::C64)
        }
        DType::C128 if !sliding && g.out_pixels() == 1 => {
            run::<Complex<f64>>(args, &g, forward, DType::C128)
        }
        _ => Err(args.unsupported()),
    }
}

fn run<T: Average>(
    args: &KernelArgs<'_>,
    g: &PoolGeometry,
    forward: bool,
    dtype: DType,
) -> Result<()> {
    let x = Dense::new(&args.inputs()[0], dtype)?;
    let out = DenseOut::new(&args.outputs()[0], dtype)?;
    let divisor = match args.kernel() {
        Kernel::AvgPool | Kernel::AvgPoolBackward => {
            Divisor::of_sliding(args.attrs::<attrs::AvgPool>()?)
        }
        _ => Divisor::Inside,
    };
    match forward {
        true => averages::<T>(g, dtype, divisor, x.ptr(), out.ptr())?,
        false => shares::<T>(g, divisor, x.ptr(), out.ptr())?,
    }
    out.finish()
}

/// The sum of a row, in as many parts as a register has lanes.
#[inline(always)]
fn sum<T: Average>(row: &[T]) -> T {
    if row.len() < LONG {
        return row.iter().fold(T::default(), |a, &v| a.plus(v));
    }
    let mut lanes = [T::default(); 8];
    let chunks = row.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &v) in lanes.iter_mut().zip(chunk) {
            *lane = lane.plus(v);
        }
    }
    let all = lanes.iter().chain(rest);
    all.fold(T::default(), |a, &v| a.plus(v))
}

/// Adds the rows of a window first, then along the sum.
fn averages<T: Average>(
    g: &PoolGeometry,
    dtype: DType,
    divisor: Divisor,
    src: Ptr<T>,
    dst: Ptr<T>,
) -> Result<()> {
    let [dz, dy, dx] = &g.axes;
    // Longer windows are summed in lanes of their own.
    let short = |r: &WindowRun| {
        let w = &dx.windows[r.first];
        let mut all = dx.windows[r.first..r.end].iter();
        w.end - w.start < LONG && all.all(|v| v.padded == w.padded)
    };
    let run = WindowRun::of(dx).filter(short);
    let (algorithm, small) = choose(g, PoolKind::Means, dtype, run);
    if let Some(how) = small
        && let Some(done) = T::small(g, how, divisor, src, dst)
    {
        return done;
    }
    let run = run.filter(|_| algorithm == PoolAlgorithm::Runs);
    let (height, width) = (dy.input, dx.input);
    let (rows, columns) = (dz.windows.len() * dy.windows.len(), dx.windows.len());
    let units = g.planes * rows;
    let grain = GRAIN.div_ceil((g.reads() / units.max(1)).max(1));
    let parts = pool::chunk_count(units, grain);
    let scratch = Scratch::<T>::new(parts * width)?;
    let scratch = Ptr::new(scratch.ptr());
    let size = g.in_pixels();
    pool::parallel_parts(units, parts, &|part, range| {
        each_row(g, range, |plane, z, y, unit| {
            let (wz, wy) = (dz.windows[z], dy.windows[y]);
            // SAFETY: the scratch row is this part's, the output's row this unit's, and windows lie
            // inside their plane.
            unsafe {
                let src = src.at((plane * size) as isize);
                let row = |z: usize, y: usize| {
                    std::slice::from_raw_parts(src.add((z * height + y) * width), width)
                };
                let dst = dst.at((unit * columns) as isize);
                let mut done = 0..0;
                if let Some(run) = run
                    && fits([wz, wy], [1; 2])
                {
                    let wx = dx.windows[run.first];
                    let row = PoolingRow {
                        src,
                        plane: size,
                        height,
                        width,
                        extents: [wz, wy, wx],
                        dilations: [1; 3],
                        run,
                        dst: dst.add(run.first),
                    };
                    if T::means(&row, divisor.of([wz, wy, wx])) {
                        done = run.first..run.end;
                    }
                }
                if !done.is_empty() {
                    // The few others one by one.
                    for x in (0..done.start).chain(done.end..columns) {
                        let wx = dx.windows[x];
                        let mut all = T::default();
                        for z in wz.start..wz.end {
                            for y in wy.start..wy.end {
                                let row = &row(z, y)[wx.start..wx.end];
                                all = row.iter().fold(all, |a, &v| a.plus(v));
                            }
                        }
                        *dst.add(x) = all.over(divisor.of([wz, wy, wx]));
                    }
                    return;
                }
                let one = (wz.end - wz.start) * (wy.end - wy.start) == 1;
                let added = if one {
                    row(wz.start, wy.start)
                } else {
                    let sums = scratch.at((part * width) as isize);
                    let sums = std::slice::from_raw_parts_mut(sums, width);
                    sums.fill(T::default());
                    for z in wz.start..wz.end {
                        for y in wy.start..wy.end {
                            for (s, &v) in sums.iter_mut().zip(row(z, y)) {
                                *s = s.plus(v);
                            }
                        }
                    }
                    sums
                };
                for x in 0..columns {
                    let wx = dx.windows[x];
                    *dst.add(x) = match wx.end - wx.start {
                        0 => T::default(),
                        _ => sum(&added[wx.start..wx.end]).over(divisor.of([wz, wy, wx])),
                    };
                }
            }
        });
    });
    Ok(())
}

/// Each input's share of the gradients of the windows that hold it, by rows of the input: the shares
/// of a row's windows are added first, then given to what they hold.
fn shares<T: Average>(g: &PoolGeometry, divisor: Divisor, grad: Ptr<T>, dst: Ptr<T>) -> Result<()> {
    let [dz, dy, dx] = &g.axes;
    let (zs, ys) = (dz.holders(), dy.holders());
    let (width, columns) = (dx.input, dx.windows.len());
    let units = g.planes * dz.input * dy.input;
    let grain = GRAIN.div_ceil(((g.reads() + g.planes * g.in_pixels()) / units.max(1)).max(1));
    let parts = pool::chunk_count(units, grain);
    let scratch = Scratch::<T>::new(parts * columns)?;
    let scratch = Ptr::new(scratch.ptr());
    // Windows whose shares are alike, and evenly apart.
    let run = WindowRun::of(dx).map_or(0..0, |r| r.first..r.end);
    let alike = |r: &Range<usize>| {
        let all = &dx.windows[r.clone()];
        all.iter().all(|w| w.padded == all[0].padded)
    };
    let run = if alike(&run) { run } else { 0..0 };
    pool::parallel_parts(units, parts, &|part, range| {
        let mut last = None;
        for unit in range {
            let (plane, row) = (unit / (dz.input * dy.input), unit % (dz.input * dy.input));
            let (z, y) = (row / dy.input, row % dy.input);
            // SAFETY: the scratch row is this part's, the output's row this unit's, and windows lie
            // inside their plane.
            unsafe {
                let sums = scratch.at((part * columns) as isize);
                let sums = std::slice::from_raw_parts_mut(sums, columns);
                // Rows in the same windows have the same sums.
                let held = (plane, zs[z], ys[y]);
                if last.replace(held) != Some(held) {
                    sums.fill(T::default());
                    let grad = grad.at((plane * g.out_pixels()) as isize);
                    for oz in zs[z].0..zs[z].1 {
                        for oy in ys[y].0..ys[y].1 {
                            let grad = grad.add((oz * dy.windows.len() + oy) * columns);
                            let grad = std::slice::from_raw_parts(grad, columns);
                            let windows = [dz.windows[oz], dy.windows[oy]];
                            add_shares(sums, grad, &dx.windows, &run, |wx| {
                                divisor.of([windows[0], windows[1], wx])
                            });
                        }
                    }
                }
                let dst = dst.at((unit * width) as isize);
                let dst = std::slice::from_raw_parts_mut(dst, width);
                dst.fill(T::default());
                give(dst, sums, &dx.windows, &run);
            }
        }
    });
    Ok(())
}

/// Adds each window's share to its sum; those of `alike` are over one number.
fn add_shares<T: Average>(
    sums: &mut [T],
    grad: &[T],
    windows: &[Window],
    alike: &Range<usize>,
    over: impl Fn(Window) -> f64,
) {
    if !alike.is_empty() {
        let n = over(windows[alike.start]);
        for (sum, &v) in sums[alike.clone()].iter_mut().zip(&grad[alike.clone()]) {
            *sum = sum.plus(v.over(n));
        }
    }
    for x in (0..alike.start).chain(alike.end..windows.len()) {
        sums[x] = sums[x].plus(grad[x].over(over(windows[x])));
    }
}

/// Adds each window's sum to the elements it holds; those of `alike` are evenly apart.
fn give<T: Average>(dst: &mut [T], sums: &[T], windows: &[Window], alike: &Range<usize>) {
    for x in (0..alike.start).chain(alike.end..windows.len()) {
        for d in &mut dst[windows[x].start..windows[x].end] {
            *d = d.plus(sums[x]);
        }
    }
    let [first, second, ..] = windows[alike.clone()] else {
        return;
    };
    let step = second.start - first.start;
    let sums = &sums[alike.clone()];
    if step == 2 && first.end - first.start == 2 {
        for (d, &sum) in dst[first.start..].chunks_exact_mut(2).zip(sums) {
            d[0] = d[0].plus(sum);
            d[1] = d[1].plus(sum);
        }
        return;
    }
    for tap in first.start..first.end {
        for (d, &sum) in dst[tap..].iter_mut().step_by(step).zip(sums) {
            *d = d.plus(sum);
        }
    }
}
