//! Order statistics along the reduced dimensions: median, k-th value, mode.

use std::cmp::Ordering;

use torsh_core::{DType, Kernel, KernelArgs, Result, TorshError, alloc, attrs, pool};

use super::load::{As, Load, Out, loader};
use super::plan::{ReducePlan, ReduceWalk};
use crate::machine::tuning::reduce::ORDER_GRAIN;

/// An element with its position.
#[derive(Clone, Copy)]
struct IndexedElement<T> {
    value: T,
    index: usize,
}

trait Value: Copy + PartialOrd + Send + Sync + 'static {
    fn is_nan(self) -> bool;
    /// # Safety
    /// `out` must have room for a result.
    unsafe fn put(self, out: Out);
}
macro_rules! value {
    ($t:ty, $nan:expr, $put:ident, $wide:ty) => {
        impl Value for $t {
            fn is_nan(self) -> bool {
                $nan(self)
            }
            unsafe fn put(self, out: Out) {
                // SAFETY: the caller's promise.
                unsafe { out.$put(1, |_| self as $wide) }
            }
        }
    };
}
value!(f32, |x: f32| x.is_nan(), real, f64);
value!(f64, |x: f64| x.is_nan(), real, f64);
value!(i64, |_| false, int, i64);

/// Ascending, NaN last.
fn ascending<T: Value>(a: &IndexedElement<T>, b: &IndexedElement<T>) -> Ordering {
    a.value
        .partial_cmp(&b.value)
        .unwrap_or_else(|| a.value.is_nan().cmp(&b.value.is_nan()))
}

/// Picks one of a result's elements, of which there is at least one.
type Pick<T> = fn(&mut [IndexedElement<T>], usize) -> IndexedElement<T>;

/// The lower median; the first NaN where there is one.
fn median<T: Value>(items: &mut [IndexedElement<T>], _: usize) -> IndexedElement<T> {
    if let Some(nan) = items.iter().find(|i| i.value.is_nan()) {
        return *nan;
    }
    let k = (items.len() - 1) / 2;
    *items.select_nth_unstable_by(k, ascending).1
}

/// The lower median of what is not NaN; NaN where nothing else is.
fn nanmedian<T: Value>(items: &mut [IndexedElement<T>], _: usize) -> IndexedElement<T> {
    let numbers = items.iter().filter(|i| !i.value.is_nan()).count();
    let k = numbers.saturating_sub(1) / 2;
    *items.select_nth_unstable_by(k, ascending).1
}

/// The k-th smallest, from 0; NaN last.
fn kth<T: Value>(items: &mut [IndexedElement<T>], k: usize) -> IndexedElement<T> {
    let k = k.min(items.len() - 1);
    *items.select_nth_unstable_by(k, ascending).1
}

/// The most frequent; of several the smallest.
fn most_frequent<T: Value>(items: &mut [IndexedElement<T>], _: usize) -> IndexedElement<T> {
    items.sort_unstable_by(|a, b| ascending(a, b).then(a.index.cmp(&b.index)));
    let (mut best, mut most, mut run) = (items[0], 0, 0);
    for (i, item) in items.iter().enumerate() {
        run += 1;
        let ends = items
            .get(i + 1)
            .is_none_or(|next| ascending(item, next) != Ordering::Equal);
        if ends {
            if run > most {
                (best, most) = (*item, run);
            }
            run = 0;
        }
    }
    best
}

/// `Median` and `KthValue`.
pub(crate) fn select(args: &KernelArgs<'_>) -> Result<()> {
    if args.inputs()[0].dtype() == DType::Bool {
        return Err(args.unsupported());
    }
    if args.kernel() == Kernel::KthValue {
        let k = args.attrs::<attrs::KthValue>()?.k;
        return by_type(args, kth, kth, kth, k.saturating_sub(1));
    }
    if args.attrs::<attrs::Median>()?.ignore_nan {
        by_type(args, nanmedian, nanmedian, nanmedian, 0)
    } else {
        by_type(args, median, median, median, 0)
    }
}

/// `Mode`.
pub(crate) fn mode(args: &KernelArgs<'_>) -> Result<()> {
    by_type(args, most_frequent, most_frequent, most_frequent, 0)
}

fn by_type(
    args: &KernelArgs<'_>,
    f32s: Pick<f32>,
    f64s: Pick<f64>,
    i64s: Pick<i64>,
    k: usize,
) -> Result<()> {
    let to = As::of(args.inputs()[0].dtype());
    let Some(load) = loader(args.inputs()[0].dtype(), to) else {
        return Err(args.unsupported());
    };
    match to {
        As::F32 => each(args, load, f32s, k, f32::NAN),
        As::F64 => each(args, load, f64s, k, f64::NAN),
        As::I64 => each(args, load, i64s, k, i64::MIN),
        _ => Err(args.unsupported()),
    }
}

/// Calls `pick` with the elements of each result.
fn each<T: Value>(
    args: &KernelArgs<'_>,
    load: Load,
    pick: Pick<T>,
    k: usize,
    none: T,
) -> Result<()> {
    let input = &args.inputs()[0];
    let plan = ReducePlan::new(input, args.outputs(), true);
    let (results, n) = (plan.results(), plan.count());
    let mut kept = plan.kept.clone();
    kept.push(plan.kept_in);
    let size = input.dtype().size() as isize;
    let bytes = n.checked_mul(size_of::<T>() + size_of::<IndexedElement<T>>());
    let room = bytes
        .ok_or_else(|| TorshError::out_of_memory(torsh_core::Device::Cpu, usize::MAX))?
        .next_multiple_of(64);
    let parts = pool::chunk_count(results, (ORDER_GRAIN / n.max(1)).max(1));
    let scratch = alloc::allocate(room * parts)?;
    let (x, s) = (input.ptr() as usize, scratch.ptr().as_ptr() as usize);
    let outs: Vec<(usize, DType)> = args
        .outputs()
        .iter()
        .map(|v| (v.ptr() as usize, v.dtype()))
        .collect();
    let rows = n / plan.red_in.n.max(1);
    pool::parallel_parts(results, parts, &|part, range| {
        let items = (s + part * room) as *mut IndexedElement<T>;
        let values = items.wrapping_add(n).cast::<T>();
        let mut walk = ReduceWalk::new(&kept, range.start);
        for _ in range {
            // SAFETY: each part has room for n items and n values; the offsets are of elements
            // of the operands.
            unsafe {
                let mut red = ReduceWalk::new(&plan.red, 0);
                for q in 0..rows {
                    let from = (x as *const u8).offset((walk.i + red.i) * size);
                    load(
                        from,
                        plan.red_in.i,
                        plan.red_in.n,
                        values.add(q * plan.red_in.n).cast(),
                    );
                    red.step();
                }
                for i in 0..n {
                    items.add(i).write(IndexedElement {
                        value: *values.add(i),
                        index: i,
                    });
                }
                let found = if n == 0 {
                    IndexedElement {
                        value: none,
                        index: 0,
                    }
                } else {
                    pick(std::slice::from_raw_parts_mut(items, n), k)
                };
                for (at, &(ptr, dtype)) in outs.iter().enumerate().take(2) {
                    let ptr = (ptr as *mut u8).offset(walk.o[at] * dtype.size() as isize);
                    let out = Out {
                        ptr,
                        stride: 1,
                        dtype,
                    };
                    if at == 0 {
                        found.value.put(out);
                    } else {
                        out.int(1, |_| found.index as i64);
                    }
                }
            }
            walk.step();
        }
    });
    Ok(())
}
