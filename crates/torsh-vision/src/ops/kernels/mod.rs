//! The CPU's kernels. They check all that they are called with (`KernelKey`), and are compiled for float32 and
//! float64.

mod choose;
mod deform;
mod nms;
mod rois;
mod rotated;
mod tuning;

use std::ops::{AddAssign, Range};

use num_traits::Float;
use torsh_backend_cpu::matmul::Factor;
use torsh_backend_cpu::shares::{Parts, share};
use torsh_core::kernel::HostCall;
use torsh_core::{DType, Element, Result, TorshError};

/// A floating-point number of the kernels.
pub(super) trait Real: Element + Float + Factor + AddAssign + Default + 'static {
    /// The number of the type that is nearest.
    fn of(v: f64) -> Self;
    /// A whole number.
    fn whole(v: usize) -> Self;
    /// The number in float64.
    fn wide(self) -> f64;
    /// The largest number of the type that is not above `v`.
    fn below(v: f64) -> Self;
    /// A number by which scores sort from high to low, nan first.
    fn falling(self) -> u64;
}

macro_rules! real {
    ($t:ident $bits:ident $sign:expr) => {
        impl Real for $t {
            #[inline(always)]
            fn of(v: f64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn whole(v: usize) -> $t {
                v as $t
            }
            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
            fn below(v: f64) -> $t {
                let near = v as $t;
                if f64::from(near) > v {
                    near.next_down()
                } else {
                    near
                }
            }
            #[inline(always)]
            fn falling(self) -> u64 {
                if self.is_nan() {
                    return 0;
                }
                // Adding 0 makes -0 the same as 0.
                let bits = (self + 0.0).to_bits();
                let rising = if bits >> $sign == 1 {
                    !bits
                } else {
                    bits | 1 << $sign
                };
                u64::from(!rising)
            }
        }
    };
}
real!(f32 u32 31);
real!(f64 u64 63);

/// Calls a kernel in the dtype of the call.
macro_rules! dispatch {
    ($f:path) => {
        |c| match c.compute() {
            DType::F32 => $f(c, std::marker::PhantomData::<f32>),
            DType::F64 => $f(c, std::marker::PhantomData::<f64>),
            _ => Err(c.unsupported()),
        }
    };
}

/// The keys of the kernels.
pub(crate) mod keys {
    use super::*;

    torsh_core::kernel_keys! {
        NMS "VisionNms" dispatch!(nms::nms);
        BOX_IOU_ROTATED "VisionBoxIouRotated" dispatch!(rotated::box_iou);
        ROI_ALIGN "VisionRoiAlign" dispatch!(rois::align);
        ROI_ALIGN_BACKWARD "VisionRoiAlignBackward" dispatch!(rois::align_backward);
        ROI_POOL "VisionRoiPool" dispatch!(rois::pool);
        ROI_POOL_BACKWARD "VisionRoiPoolBackward" dispatch!(rois::pool_backward);
        PS_ROI_ALIGN "VisionPsRoiAlign" dispatch!(rois::ps_align);
        PS_ROI_ALIGN_BACKWARD "VisionPsRoiAlignBackward" dispatch!(rois::ps_align_backward);
        PS_ROI_POOL "VisionPsRoiPool" dispatch!(rois::ps_pool);
        PS_ROI_POOL_BACKWARD "VisionPsRoiPoolBackward" dispatch!(rois::ps_pool_backward);
        DEFORM_CONV "VisionDeformConv" dispatch!(deform::forward);
        DEFORM_CONV_BACKWARD "VisionDeformConvBackward" dispatch!(deform::backward);
    }
}

/// What is compiled for the processor's widest vectors.
pub(super) trait Work {
    /// What comes of it.
    type Output;
    /// Does it; to be inlined, so that it is compiled for the instruction set.
    fn run(self) -> Self::Output;
}

torsh_backend_cpu::multiversion! {
    /// Does the work with the processor's widest vectors.
    pub(super) fn widest<A, W: Work>(w: W) -> W::Output {
        w.run()
    }
}

/// Calls `f` for ranges of the items of a result, `each` elements for every one, with their part of it; on several threads
/// where `ns` nanoseconds for an item are worth it. The first error of a range is returned.
pub(super) fn shares<T: Send>(
    out: &mut [T],
    each: usize,
    ns: usize,
    f: impl Fn(Range<usize>, &mut [T]) -> Result<()> + Sync,
) -> Result<()> {
    let count = out.len().checked_div(each).unwrap_or(0);
    share(count, ns, Parts::new(out, each), |range, part| {
        f(range, part.into_slice())
    })
}

/// The sizes of an input of `N` dimensions.
pub(super) fn sizes<const N: usize>(c: &HostCall<'_>, i: usize) -> Result<[usize; N]> {
    let shape = c.input_shape(i)?;
    <[usize; N]>::try_from(shape).map_err(|_| {
        TorshError::shape(
            "",
            format!(
                "operand {i} of the kernel has {} dimensions, not {N}",
                shape.len()
            ),
        )
    })
}

/// The error of operands or attributes that do not go together.
pub(super) fn mismatch() -> TorshError {
    TorshError::shape("", "the sizes of the kernel's operands do not go together")
}
