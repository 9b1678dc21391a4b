//! CPU kernels that crates above the tensor crate bring, for keys that the CPU backend has none for.
//!
//! Such a kernel is safe code: it gets the memory of its call as slices, through [`HostCall`], which checks dtypes and
//! layouts. So a crate that forbids `unsafe` can bring one, for the keys of [`Kernel::checks_operands`].

use std::borrow::Cow;
use std::sync::OnceLock;

use super::{Kernel, KernelArgs, KernelFn, View};
use crate::attrs::Attributes;
use crate::{DType, Element, Result, TorshError};

/// A CPU kernel of a crate above the tensor crate.
pub type HostKernel = fn(&mut HostCall<'_>) -> Result<()>;

static BROUGHT: [OnceLock<HostKernel>; Kernel::COUNT] = [const { OnceLock::new() }; Kernel::COUNT];

/// Brings the CPU kernel of a key, for the life of the process. The CPU backend asks for it last, so it replaces no
/// kernel of the backend. The first kernel of a key stays: a second call changes nothing.
///
/// ```
/// use torsh_core::Kernel;
/// use torsh_core::kernel::{bring, brought};
/// assert!(bring(Kernel::Add, |_| Ok(())).is_err());
/// assert!(brought(Kernel::Add).is_none());
/// ```
///
/// # Errors
/// If kernels of the key rely on what their callers check ([`Kernel::checks_operands`]).
pub fn bring(kernel: Kernel, f: HostKernel) -> Result<()> {
    if !kernel.checks_operands() {
        return Err(TorshError::invalid(
            "bring",
            format!("kernels of the key {kernel:?} rely on checks of their callers, so only the CPU backend has them"),
        )
        .with_hint("use a key of Kernel::checks_operands"));
    }
    BROUGHT[kernel as usize].get_or_init(|| f);
    Ok(())
}

/// The kernel that was brought for a key.
#[cold]
pub fn brought(kernel: Kernel) -> Option<KernelFn> {
    BROUGHT[kernel as usize].get().map(|_| run as KernelFn)
}

fn run(args: &KernelArgs<'_>) -> Result<()> {
    match BROUGHT[args.kernel() as usize].get() {
        Some(f) if args.device().is_host() => f(&mut HostCall { args, lent: 0 }),
        _ => Err(args.unsupported()),
    }
}

/// A call of a kernel in host memory, as safe code sees it.
pub struct HostCall<'a> {
    args: &'a KernelArgs<'a>,
    /// The outputs that were handed out; a bit each.
    lent: u64,
}

impl<'a> HostCall<'a> {
    /// The dtype to compute in.
    pub fn compute(&self) -> DType {
        self.args.compute()
    }

    /// The call's attributes, of the kernel's struct.
    ///
    /// # Errors
    /// Where the call has another struct.
    pub fn attrs<T: Attributes>(&self) -> Result<&'a T> {
        self.args.attrs()
    }

    /// The sizes of input `i`.
    ///
    /// # Errors
    /// Where the call has no such operand.
    pub fn input_shape(&self, i: usize) -> Result<&'a [usize]> {
        Ok(present(self.args.inputs(), i)?.shape())
    }

    /// The sizes of output `i`.
    ///
    /// # Errors
    /// Where the call has no such result.
    pub fn output_shape(&self, i: usize) -> Result<&'a [usize]> {
        Ok(present(self.args.outputs(), i)?.shape())
    }

    /// How many results the call has.
    pub fn outputs(&self) -> usize {
        self.args.outputs().len()
    }

    /// The elements of input `i`, row-major: the memory itself where it is that already, else a copy.
    ///
    /// # Errors
    /// Where the operand is absent or of another dtype. Bools are read as `u8`.
    pub fn input<T: Element>(&self, i: usize) -> Result<Cow<'a, [T]>> {
        let view = present(self.args.inputs(), i)?;
        of_dtype::<T>(view)?;
        let n = view.numel();
        if n == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        let first: *const T = view.ptr().cast();
        if view.is_contiguous() {
            // SAFETY: the view's elements are memory of the host, which nobody writes to while the kernel runs
            // (`View::new`), row-major (checked), aligned, and of `T`'s dtype (checked), for which every pattern is
            // an element: bools are refused.
            return Ok(Cow::Borrowed(unsafe {
                std::slice::from_raw_parts(first, n)
            }));
        }
        let mut copy = Vec::with_capacity(n);
        let (shape, strides) = (view.shape(), view.strides());
        let (inner, step) = (shape[shape.len() - 1], strides[shape.len() - 1]);
        let mut index = vec![0usize; shape.len() - 1];
        let mut row = 0isize;
        for _ in 0..n / inner {
            for k in 0..inner {
                // SAFETY: shape and strides of a view reach only its elements; as above.
                copy.push(unsafe { *first.wrapping_offset(row + k as isize * step) });
            }
            for d in (0..index.len()).rev() {
                index[d] += 1;
                row += strides[d];
                if index[d] < shape[d] {
                    break;
                }
                row -= strides[d] * shape[d] as isize;
                index[d] = 0;
            }
        }
        Ok(Cow::Owned(copy))
    }

    /// The elements of output `i`, all zero. Each output is handed out once.
    ///
    /// # Errors
    /// Where the call has no such result, it is of another dtype, is not row-major, or was handed out before.
    pub fn output<T: Element>(&mut self, i: usize) -> Result<&'a mut [T]> {
        let view = present(self.args.outputs(), i)?;
        of_dtype::<T>(view)?;
        let bit = 1u64.checked_shl(i as u32).unwrap_or(0);
        if bit == 0 || self.lent & bit != 0 || !view.is_contiguous() {
            return Err(TorshError::invalid(
                "",
                format!("output {i} of the kernel is not row-major, or was handed out before"),
            ));
        }
        self.lent |= bit;
        let n = view.numel();
        if n == 0 {
            return Ok(&mut []);
        }
        let first: *mut T = view.ptr().cast();
        // SAFETY: the view's elements are memory of the host that nobody else reads or writes while the kernel runs
        // (`View::new`), row-major (checked), of `T`'s dtype (checked), and handed out once (checked). Zeros are an
        // element of every dtype, so the slice is initialised.
        unsafe {
            std::ptr::write_bytes(first, 0, n);
            Ok(std::slice::from_raw_parts_mut(first, n))
        }
    }

    /// The error for a dtype that the kernel does not support.
    pub fn unsupported(&self) -> TorshError {
        self.args.unsupported()
    }
}

fn present<'v, 'a>(views: &'v [View<'a>], i: usize) -> Result<&'v View<'a>> {
    let view = views
        .get(i)
        .filter(|v| v.is_present() || v.shape().contains(&0));
    view.ok_or_else(|| {
        TorshError::invalid("", format!("the kernel was called without operand {i}"))
    })
}

fn of_dtype<T: Element>(view: &View<'_>) -> Result<()> {
    if view.dtype() != T::DTYPE || T::DTYPE == DType::Bool {
        return Err(TorshError::dtype(
            "",
            format!("the kernel reads {} as {}", view.dtype(), T::DTYPE),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attrs::NONE;

    fn doubled(call: &mut HostCall<'_>) -> Result<()> {
        let x = call.input::<f32>(0)?;
        let y = call.output::<f32>(0)?;
        assert!(
            call.output::<f32>(0).is_err(),
            "an output is handed out once"
        );
        assert!(call.input::<f64>(0).is_err() && call.input::<f32>(1).is_err());
        y.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    }

    #[test]
    fn a_brought_kernel_reads_strided_memory() -> Result<()> {
        bring(Kernel::LinalgMatrixExp, doubled)?;
        bring(Kernel::LinalgMatrixExp, |_| {
            Err(TorshError::invalid("", "the second"))
        })?;
        let f = brought(Kernel::LinalgMatrixExp).expect("brought");
        let (mut x, mut y) = ([1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [0f32; 6]);
        // SAFETY: both arrays live as long as the call, and have as many elements as the views.
        let (x, out) = unsafe {
            (
                View::new(x.as_mut_ptr().cast(), DType::F32, &[3, 2], &[1, 3]),
                View::new(y.as_mut_ptr().cast(), DType::F32, &[3, 2], &[2, 1]),
            )
        };
        // SAFETY: the key's kernels check what they are called with.
        let args = unsafe {
            KernelArgs::new(
                Kernel::LinalgMatrixExp,
                DType::F32,
                std::slice::from_ref(&out),
                std::slice::from_ref(&x),
                NONE,
            )
        };
        f(&args)?;
        assert_eq!(y, [2.0, 8.0, 4.0, 10.0, 6.0, 12.0]);
        Ok(())
    }
}
