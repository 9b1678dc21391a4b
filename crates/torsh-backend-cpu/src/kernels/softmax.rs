//! Softmax, log-softmax and their backwards along one dimension, each in one pass over memory.
//!
//! | key | inputs | output |
//! |---|---|---|
//! | `Softmax`, `LogSoftmax` | x | y, x's shape and dtype |
//! | `SoftmaxBackward`, `LogSoftmaxBackward` | gradient of y, y | gradient of x |
//!
//! All real floating-point dtypes; half types compute in float32. A row along the dimension is
//! kept in cache between its passes; along other dimensions a tile of neighbouring rows is.

pub(crate) mod choose;
mod rows;

use std::mem::MaybeUninit;

use smallvec::SmallVec;
use torsh_core::{DType, Kernel, KernelArgs, KernelFn, Result, Shape, View, alloc, attrs, pool};

use crate::kernels::exp_rows::ExpRows;
#[cfg(target_arch = "x86_64")]
use crate::kernels::exp_rows::{exp_sum_512, scale_512, softmax_past_512};
use crate::kernels::reduce::fold::{self, Half, ToBF16, ToF16};
use crate::kernels::reduce::level::{by_level, index};
use crate::kernels::reduce::load::{As, Load, Store, loader, storer};
use crate::kernels::reduce::plan::{Dim, DimList, Walk, merge, order};
use crate::machine::choice::pick;
use crate::memory::dense::Dense;
use crate::memory::stream;
use crate::simd::lanes;
use crate::simd::{Arch, fma64};
use crate::vmath::VMath;

use crate::machine::tuning::softmax::{GRAIN, TILE, WIDTH};
use choose::{SoftmaxAlgorithm, SoftmaxProblem};
use rows::*;

/// The kernel of a key of this module.
pub(crate) fn kernel(k: Kernel) -> Option<KernelFn> {
    match k {
        Kernel::Softmax
        | Kernel::LogSoftmax
        | Kernel::SoftmaxBackward
        | Kernel::LogSoftmaxBackward => Some(softmax),
        _ => None,
    }
}

const MAGIC: f64 = 6_755_399_441_055_744.0;
const LN2_HI: f64 = 0.693_147_180_369_123_8;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;

/// e^x within about an ulp, as straight-line code that vectorises: reduction by multiples of
/// ln 2, and the Taylor polynomial to degree 13 on |r| <= ln(2)/2.
#[inline(always)]
pub(crate) fn exp64<A: Arch>(x: f64) -> f64 {
    // Beyond these the result is inf or 0 anyway; the comparisons let nan through.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let n = fma64::<A>(x, std::f64::consts::LOG2_E, MAGIC) - MAGIC;
    let r = fma64::<A>(-n, LN2_LO, fma64::<A>(-n, LN2_HI, x));
    const C: [f64; 12] = [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
    ];
    let mut q = C[0];
    for c in &C[1..] {
        q = fma64::<A>(q, r, *c);
    }
    let p = 1.0 + fma64::<A>(r * r, q, r);
    // 2^n in two factors, so that a subnormal result is rounded once.
    let half = fma64::<A>(n, 0.5, MAGIC);
    let rest = (n - (half - MAGIC)) + MAGIC;
    let scale = |t: f64| f64::from_bits(t.to_bits().wrapping_add(1023) << 52);
    p * scale(half) * scale(rest)
}

by_level! {
    fn row_fn<A, O: Op>(x: *const u8, y: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { O::row::<A>(x.cast(), y.cast(), dst.cast(), n) }
    }
}
by_level! {
    fn tile_fn<A, O: Op>(x: *const u8, xs: isize, y: *const u8, ys: isize, dst: *mut u8, ds: isize, n: usize, w: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            O::tile::<A>(
                Rows { ptr: x.cast(), stride: xs },
                Rows { ptr: y.cast(), stride: ys },
                Rows { ptr: dst.cast(), stride: ds },
                n,
                w,
            )
        }
    }
}

type RowFn = unsafe fn(*const u8, *const u8, *mut u8, usize);
type TileFn = unsafe fn(*const u8, isize, *const u8, isize, *mut u8, isize, usize, usize);

fn loops<O: Op>() -> (RowFn, TileFn) {
    (
        row_fn::table::<O>()[index()],
        tile_fn::table::<O>()[index()],
    )
}

fn softmax(args: &KernelArgs<'_>) -> Result<()> {
    let x = &args.inputs()[0];
    let y = args.inputs().get(1).filter(|v| v.is_present()).unwrap_or(x);
    let out = &args.outputs()[0];
    let dim = args.attrs::<attrs::Softmax>()?.dim;
    // Rows that go to adjacent elements from others are copied before, all at once: one by one they
    // would be read across the caches' lines.
    let last = dim + 1 >= x.shape().len();
    let apart =
        |v: &View<'_>| v.shape().last().is_some_and(|&n| n > 1) && v.strides().last() != Some(&1);
    if last && !apart(out) && args.inputs().iter().any(apart) {
        let strides = Shape::new(x.shape()).contiguous_strides();
        let copies = args.inputs().iter().map(|v| Dense::new(v, v.dtype()));
        let copies = copies.collect::<Result<SmallVec<[Dense; 2]>>>()?;
        // SAFETY: the copies are row-major, of the operands' shapes, and outlive the call.
        let views = args.inputs().iter().zip(&copies).map(|(v, copy)| unsafe {
            View::new(copy.ptr::<u8>().get(), v.dtype(), v.shape(), &strides)
        });
        let inputs: SmallVec<[View<'_>; 2]> = views.collect();
        // SAFETY: the call's own, with copies in place of the inputs.
        return softmax(&unsafe {
            KernelArgs::new(
                args.kernel(),
                args.compute(),
                args.outputs(),
                &inputs,
                args.attributes(),
            )
        });
    }
    let to = match x.dtype() {
        DType::F64 => As::F64,
        DType::F32 | DType::F16 | DType::BF16 => As::F32,
        _ => return Err(args.unsupported()),
    };
    let (Some(load), Some(load_y), Some(store)) = (
        loader(x.dtype(), to),
        loader(y.dtype(), to),
        storer(to, out.dtype()),
    ) else {
        return Err(args.unsupported());
    };
    let wide = to == As::F64;
    let (row, tile) = match args.kernel() {
        Kernel::Softmax if wide => loops::<Soft<f64>>(),
        Kernel::Softmax => loops::<Soft<f32>>(),
        Kernel::LogSoftmax if wide => loops::<LogSoft<f64>>(),
        Kernel::LogSoftmax if last && x.dtype() == DType::F16 => {
            loops::<LogSoft<f32, Rounded<ToF16>>>()
        }
        Kernel::LogSoftmax if last && x.dtype() == DType::BF16 => {
            loops::<LogSoft<f32, Rounded<ToBF16>>>()
        }
        Kernel::LogSoftmax => loops::<LogSoft<f32>>(),
        Kernel::SoftmaxBackward if wide => loops::<SoftBackward<f64>>(),
        Kernel::SoftmaxBackward => loops::<SoftBackward<f32>>(),
        _ if wide => loops::<LogSoftBackward<f64>>(),
        _ => loops::<LogSoftBackward<f32>>(),
    };
    if out.numel() == 0 {
        return Ok(());
    }
    let native = [x, y, out]
        .iter()
        .all(|v| matches!(v.dtype(), DType::F32 | DType::F64));
    let nest = Nest::new(x, y, out, dim);
    let elem = if wide { 8 } else { 4 };
    let n = nest.along.n;
    let size = |v: &View<'_>| v.dtype().size() as isize;
    let sizes = [size(x), size(y), size(out)];
    let (a, k) = (nest.along, nest.inner);
    let unit = |d: Dim| d.i == 1 && d.o == [1, 1];
    let problem = SoftmaxProblem {
        native: native.then_some(x.dtype()),
        is_softmax: args.kernel() == Kernel::Softmax,
        n,
        across: k.n,
        rows: nest.outer.iter().map(|d| d.n).product::<usize>() * k.n,
        across_is_closer: a.i.unsigned_abs() > k.i.unsigned_abs(),
        adjacent_along: unit(a),
        adjacent_across: unit(k),
    };
    let algorithm = pick::<SoftmaxAlgorithm>(&problem, pool::num_threads());
    let (tiles, direct) = (algorithm.is_tiled(), algorithm.is_direct());
    let width = if tiles {
        (TILE / (n * elem)).clamp(16, WIDTH).min(k.n)
    } else {
        1
    };
    let blocks = k.n.div_ceil(width);
    let units = nest.outer.iter().map(|d| d.n).product::<usize>() * blocks;
    let parts = pool::chunk_count(units, (GRAIN / (n * width)).max(1));
    let bytes = n * elem;
    let past = algorithm == SoftmaxAlgorithm::RowsStreamed;
    // Room for both operands of a unit, the first of which takes the result.
    let room = if past {
        bytes
    } else if direct {
        0
    } else {
        (2 * n * width * elem).next_multiple_of(64)
    };
    let scratch = alloc::allocate(room * parts)?;
    let addresses = [
        x.ptr() as usize,
        y.ptr() as usize,
        out.ptr() as usize,
        scratch.ptr().as_ptr() as usize,
    ];
    let two = args.inputs().len() > 1;
    pool::parallel_parts(units, parts, &|part, range| {
        let [xp, yp, op, sp] = addresses.map(|a| a as *mut u8);
        for unit in range {
            let walk = Walk::new(&nest.outer, unit / blocks);
            let first = (unit % blocks) * width;
            let w = width.min(k.n - first);
            let f = first as isize;
            // SAFETY: offsets of elements of the operands; scratch has the room computed above,
            // one per part.
            unsafe {
                let x = xp.offset((walk.i + f * k.i) * sizes[0]);
                let y = yp.offset((walk.o[1] + f * k.o[1]) * sizes[1]);
                let o = op.offset((walk.o[0] + f * k.o[0]) * sizes[2]);
                if direct && tiles {
                    tile(x, a.i, y, a.o[1], o, a.o[0], n, w);
                } else if past && o.addr().is_multiple_of(stream::LINE) {
                    #[cfg(target_arch = "x86_64")]
                    softmax_past_512(x.cast(), sp.add(part * room).cast(), o.cast(), n);
                } else if direct {
                    row(x, y, o, n);
                } else {
                    let bx = sp.add(part * room);
                    let by = if two { bx.add(n * w * elem) } else { bx };
                    let step = (w * elem) as isize;
                    let one = !tiles;
                    gather(load, x, a.i, k.i, sizes[0], bx, n, w, one, step);
                    if two {
                        gather(load_y, y, a.o[1], k.o[1], sizes[1], by, n, w, one, step);
                    }
                    if one {
                        row(bx, by, bx, n);
                    } else {
                        tile(bx, w as isize, by, w as isize, bx, w as isize, n, w);
                    }
                    scatter(store, bx, o, a.o[0], k.o[0], sizes[2], n, w, one, step);
                }
            }
        }
        if past {
            stream::fence();
        }
    });
    Ok(())
}

/// Reads a row (`one`), or `n` rows of `w` elements.
#[allow(clippy::too_many_arguments)]
unsafe fn gather(
    load: Load,
    x: *const u8,
    along: isize,
    across: isize,
    size: isize,
    to: *mut u8,
    n: usize,
    w: usize,
    one: bool,
    step: isize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if one {
            return load(x, along, n, to);
        }
        for r in 0..n as isize {
            load(x.offset(r * along * size), across, w, to.offset(r * step));
        }
    }
}

/// Writes what [`gather`] reads.
#[allow(clippy::too_many_arguments)]
unsafe fn scatter(
    store: Store,
    from: *const u8,
    o: *mut u8,
    along: isize,
    across: isize,
    size: isize,
    n: usize,
    w: usize,
    one: bool,
    step: isize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if one {
            return store(from, n, o, along);
        }
        for r in 0..n as isize {
            store(from.offset(r * step), w, o.offset(r * along * size), across);
        }
    }
}

/// The dimension, the innermost other one, and the rest; `i` are the strides of x, `o` those of
/// the output and of y.
struct Nest {
    outer: DimList,
    inner: Dim,
    along: Dim,
}

impl Nest {
    fn new(x: &View<'_>, y: &View<'_>, out: &View<'_>, dim: usize) -> Nest {
        let at = |d: usize| Dim {
            n: x.shape()[d],
            i: x.strides()[d],
            o: [out.strides()[d], y.strides()[d]],
        };
        let mut outer: DimList = (0..x.shape().len())
            .filter(|&d| d != dim && x.shape()[d] != 1)
            .map(at)
            .collect();
        order(&mut outer);
        merge(&mut outer);
        let inner = outer.pop().unwrap_or(Dim::ONE);
        let along = if dim < x.shape().len() {
            at(dim)
        } else {
            Dim {
                n: 1,
                i: 1,
                o: [1, 1],
            }
        };
        Nest {
            outer,
            inner,
            along,
        }
    }
}

#[cfg(test)]
mod tests;
