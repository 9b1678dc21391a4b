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

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use smallvec::SmallVec;
use torsh_core::{DType, Kernel, KernelArgs, Result, Shape, View, alloc, attrs, pool};

use crate::kernels::exp_rows::ExpRows;
#[cfg(target_arch = "x86_64")]
use crate::kernels::exp_rows::{exp_sum_512, scale_512, softmax_past_512};
use crate::kernels::reduce::fold;
use crate::kernels::reduce::load::{As, BFloat16, Float16, Half, Load, Store, loader, storer};
use crate::kernels::reduce::plan::{Dim, DimList, ReduceWalk, merge, order};
use crate::machine::choice::pick;
use crate::memory::dense::Dense;
use crate::memory::stream;
use crate::multiversion;
use crate::simd::Arch;
use crate::simd::lanes;
use crate::vmath::VMath;

use crate::machine::tuning::softmax::{GRAIN, TILE, WIDTH};
use choose::{SoftmaxAlgorithm, SoftmaxProblem};
use rows::*;

multiversion! {
    unsafe fn row_fn<A, O: Op>(x: *const u8, y: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { O::row::<A>(x.cast(), y.cast(), dst.cast(), n) }
    }
    unsafe fn tile_fn<A, O: Op>(x: *const u8, xs: isize, y: *const u8, ys: isize, dst: *mut u8, ds: isize, n: usize, w: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let of = [RowAddresses { ptr: x.cast(), stride: xs }, RowAddresses { ptr: y.cast(), stride: ys }];
            O::tile::<A>(of, RowAddresses { ptr: dst.cast(), stride: ds }, [n, w])
        }
    }
}

type SoftmaxRowFn = unsafe fn(*const u8, *const u8, *mut u8, usize);
type SoftmaxTileFn = unsafe fn(*const u8, isize, *const u8, isize, *mut u8, isize, usize, usize);

fn loops<O: Op>() -> (SoftmaxRowFn, SoftmaxTileFn) {
    (row_fn::select::<O>(), tile_fn::select::<O>())
}

/// Softmax or its logarithm of single lines, for kernels that find the lines by themselves.
#[derive(Clone, Copy)]
pub(crate) struct LineSoftmax<T> {
    row: SoftmaxRowFn,
    tile: SoftmaxTileFn,
    of: PhantomData<T>,
}

macro_rules! line_softmax {
    ($($t:ident)*) => { $(
        impl LineSoftmax<$t> {
            /// The loops for this processor.
            pub(crate) fn new(log: bool) -> LineSoftmax<$t> {
                let (row, tile) = match log {
                    true => loops::<LogSoft<$t>>(),
                    false => loops::<Soft<$t>>(),
                };
                LineSoftmax { row, tile, of: PhantomData }
            }
        }
    )* };
}
line_softmax! { f32 f64 }

impl<T> LineSoftmax<T> {
    /// Writes the softmax of each of `w` columns of as many rows as there are.
    pub(crate) fn run(&self, x: &[T], to: &mut [T], w: usize) {
        assert_eq!(x.len(), to.len());
        if x.is_empty() {
            return;
        }
        let (n, step) = (x.len() / w, w as isize);
        let (x, to) = (x.as_ptr().cast::<u8>(), to.as_mut_ptr().cast::<u8>());
        if w == 1 {
            // SAFETY: both have `n` numbers of the type that the loops are for.
            return unsafe { (self.row)(x, x, to, n) };
        }
        for first in (0..w).step_by(WIDTH) {
            let at = first * size_of::<T>();
            // SAFETY: both have `n` rows of `w` numbers, of which the loops get at most `WIDTH` columns from `first` on.
            unsafe {
                let (x, to) = (x.add(at), to.add(at));
                (self.tile)(x, step, x, step, to, step, n, WIDTH.min(w - first));
            }
        }
    }
}

pub(crate) fn softmax(args: &KernelArgs<'_>) -> Result<()> {
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
            loops::<LogSoft<f32, Rounded<Float16>>>()
        }
        Kernel::LogSoftmax if last && x.dtype() == DType::BF16 => {
            loops::<LogSoft<f32, Rounded<BFloat16>>>()
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
            let walk = ReduceWalk::new(&nest.outer, unit / blocks);
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

#[cfg(feature = "unit-tests")]
mod tests;
