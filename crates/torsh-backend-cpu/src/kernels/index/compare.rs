//! Whether two tensors hold the same.

use std::sync::atomic::{AtomicBool, Ordering};

use torsh_core::{KernelArgs, Result, pool};

use super::walk::{IndexPtr, IndexWalk};
use super::{GRAIN, by_dtype};

/// `equal`: inputs two tensors of one shape and dtype; the output is a 0-d bool. NaN equals
/// nothing.
pub(crate) fn equal(args: &KernelArgs<'_>) -> Result<()> {
    let (a, b) = (&args.inputs()[0], &args.inputs()[1]);
    let differ = AtomicBool::new(false);
    by_dtype!(a.dtype(), T => {
        let (x, y) = (IndexPtr::<T>::of(a), IndexPtr::<T>::of(b));
        let walk = IndexWalk::new(a.shape(), [a.strides(), b.strides()]);
        pool::parallel_for(walk.numel(), GRAIN, &|range| {
            walk.run(range, |[s, t], n, [ss, ts]| {
                if differ.load(Ordering::Relaxed) {
                    return;
                }
                let mut same = true;
                for j in 0..n as isize {
                    // SAFETY: the walk stays within both.
                    same &= unsafe { *x.at(s + j * ss) == *y.at(t + j * ts) };
                }
                if !same {
                    differ.store(true, Ordering::Relaxed);
                }
            });
        });
    });
    // SAFETY: the output is one bool.
    unsafe { *args.outputs()[0].ptr().cast::<bool>() = !differ.into_inner() };
    Ok(())
}
