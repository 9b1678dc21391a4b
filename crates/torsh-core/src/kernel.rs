//! The arguments of a kernel call.

use std::fmt;

use crate::attrs::{Attributes, MAX_NUMBERS};
use crate::backend::CallSite;
use crate::{DType, Device, Result, Scalar, TorshError};

pub use crate::pointwise::Kernel;

mod extension;

pub use extension::{HostCall, HostKernel, KernelKey};

/// One operand of a kernel: memory, dtype and layout.
///
/// Only the `unsafe` [`View::new`] creates a view of memory, because a kernel reads and writes that
/// memory. So code without `unsafe` cannot call a kernel on invalid memory:
///
/// ```compile_fail,E0451
/// use torsh_core::{DType, View};
/// let view = View { ptr: 8 as *mut u8, dtype: DType::F32, shape: &[4], strides: &[1] };
/// ```
///
/// ```compile_fail,E0133
/// use torsh_core::{DType, View};
/// let view = View::new(8 as *mut u8, DType::F32, &[4], &[1]);
/// ```
#[derive(Clone, Copy)]
pub struct View<'a> {
    ptr: *mut u8,
    dtype: DType,
    shape: &'a [usize],
    strides: &'a [isize],
}

impl<'a> View<'a> {
    /// The operand for an optional input that is not given.
    pub const ABSENT: View<'static> = View {
        ptr: std::ptr::null_mut(),
        dtype: DType::U8,
        shape: &[],
        strides: &[],
    };

    /// Memory as an operand: `ptr` is the first element (the offset of a layout is in it), `strides`
    /// are in elements.
    ///
    /// # Safety
    /// Every element that shape and strides reach from `ptr` on is memory of the device that the
    /// view's kernel runs on, aligned as its allocations are, and stays so for `'a`. For an input it
    /// was written (with whatever bytes: every pattern is an element of every dtype, and a bool is
    /// true unless its byte is 0), and nobody writes to it while the kernel runs; for an output nobody
    /// else reads or writes it. `shape` and `strides` are of one length.
    #[inline(always)]
    pub const unsafe fn new(
        ptr: *mut u8,
        dtype: DType,
        shape: &'a [usize],
        strides: &'a [isize],
    ) -> View<'a> {
        View {
            ptr,
            dtype,
            shape,
            strides,
        }
    }

    /// The first element.
    #[inline(always)]
    pub const fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// The element type.
    #[inline(always)]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes.
    #[inline(always)]
    pub const fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// The strides, in elements.
    #[inline(always)]
    pub const fn strides(&self) -> &'a [isize] {
        self.strides
    }

    /// Whether the optional input was given.
    #[inline]
    pub fn is_present(&self) -> bool {
        !self.ptr.is_null()
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie row-major without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        crate::shape::is_contiguous(self.shape, self.strides)
    }

    /// The bytes from the lowest to one past the highest that the view reaches, relative to its
    /// first element; `None` where it reaches none.
    pub fn reach(&self) -> Option<(isize, isize)> {
        if self.shape.contains(&0) {
            return None;
        }
        let size = self.dtype.size() as isize;
        let (mut low, mut high) = (0, 0);
        for (&n, &stride) in self.shape.iter().zip(self.strides) {
            let span = (n as isize - 1) * stride;
            *if span < 0 { &mut low } else { &mut high } += span;
        }
        Some((low * size, (high + 1) * size))
    }
}

// SAFETY: a view only names memory; whoever reads or writes it through the pointer is `unsafe` code,
// which sees to it that threads do so apart.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{:?} strides {:?}",
            self.dtype, self.shape, self.strides
        )
    }
}

/// The arguments of a kernel call. Outputs are allocated but not zeroed, and locked for writing;
/// inputs are locked for reading. The op's rules have checked shapes and dtypes.
///
/// A kernel is a safe function of this struct: the caller of the `unsafe` [`KernelArgs::new`]
/// promises the facts on which the kernel relies. Further facts that a kernel does not check are
/// stated by `unsafe` functions, too:
///
/// ```compile_fail,E0133
/// use torsh_core::KernelArgs;
/// fn forged(args: KernelArgs<'_>) -> KernelArgs<'_> {
///     args.of_one_layout(true)
/// }
/// ```
///
/// ```compile_fail,E0133
/// use torsh_core::KernelArgs;
/// fn forged(args: KernelArgs<'_>) -> KernelArgs<'_> {
///     args.with_numbers(1)
/// }
/// ```
///
/// ```compile_fail,E0133
/// use torsh_core::{CallSite, Device, KernelArgs};
/// fn forged(args: KernelArgs<'_>) -> KernelArgs<'_> {
///     args.on(Device::Custom(0), CallSite::here("add"))
/// }
/// ```
pub struct KernelArgs<'a> {
    kernel: Kernel,
    compute: DType,
    device: Device,
    outputs: &'a [View<'a>],
    inputs: &'a [View<'a>],
    attrs: &'a dyn Attributes,
    numbers: u32,
    one_layout: bool,
    site: CallSite,
}

/// A kernel. For an unsupported dtype it returns the error of [`KernelArgs::unsupported`].
pub type KernelFn = fn(&KernelArgs<'_>) -> Result<()>;

impl<'a> KernelArgs<'a> {
    /// A call of `kernel` on the CPU, computing in `compute` (the promoted dtype for pointwise
    /// ops), which writes `outputs` and reads `inputs`.
    ///
    /// # Safety
    /// The views fulfil what [`View::new`] asks for as long as the call runs, and number, dtypes
    /// and shapes of operands and attributes are those that the kernel documents: what the plan of
    /// the op's record has checked.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn new(
        kernel: Kernel,
        compute: DType,
        outputs: &'a [View<'a>],
        inputs: &'a [View<'a>],
        attrs: &'a dyn Attributes,
    ) -> KernelArgs<'a> {
        KernelArgs {
            kernel,
            compute,
            device: Device::Cpu,
            outputs,
            inputs,
            attrs,
            numbers: 0,
            one_layout: false,
            site: CallSite::here(""),
        }
    }

    /// The call on another device, and which op it is of: a device whose work is not waited for
    /// names it in errors that come later.
    ///
    /// # Safety
    /// The views are of memory of that device, or, where the kernel is another device's that computes
    /// for this one, of memory that the kernel can read.
    #[inline(always)]
    #[must_use]
    pub unsafe fn on(mut self, device: Device, site: CallSite) -> KernelArgs<'a> {
        self.device = device;
        self.site = site;
        self
    }

    /// Says which inputs are plain numbers of the caller, in host memory on every device; a bit
    /// each.
    ///
    /// # Safety
    /// These inputs are one element in host memory, aligned for its dtype, with strides of 0.
    #[inline(always)]
    #[must_use]
    pub unsafe fn with_numbers(mut self, numbers: u32) -> KernelArgs<'a> {
        self.numbers = numbers;
        self
    }

    /// Says that all operands but numbers are row-major and of the first output's shape.
    ///
    /// # Safety
    /// They are: kernels do not look again.
    #[inline(always)]
    #[must_use]
    pub unsafe fn of_one_layout(mut self, one_layout: bool) -> KernelArgs<'a> {
        self.one_layout = one_layout;
        self
    }

    /// The kernel's key, for one function that serves several.
    #[inline(always)]
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The dtype to compute in.
    #[inline(always)]
    pub fn compute(&self) -> DType {
        self.compute
    }

    /// Where the call runs.
    #[inline(always)]
    pub fn device(&self) -> Device {
        self.device
    }

    /// The op of the call and its caller.
    #[inline(always)]
    pub fn site(&self) -> CallSite {
        self.site
    }

    /// The outputs.
    #[inline(always)]
    pub fn outputs(&self) -> &'a [View<'a>] {
        self.outputs
    }

    /// The inputs.
    #[inline(always)]
    pub fn inputs(&self) -> &'a [View<'a>] {
        self.inputs
    }

    /// Whether input `i` is a plain number of the caller: one element in host memory, read with
    /// stride 0, whatever the device.
    #[inline(always)]
    pub fn is_number(&self, i: usize) -> bool {
        i < 32 && self.numbers >> i & 1 == 1
    }

    /// Whether any input is such a number.
    #[inline(always)]
    pub fn has_numbers(&self) -> bool {
        self.numbers != 0
    }

    /// Whether all operands but numbers are row-major and of the first output's shape.
    #[inline(always)]
    pub fn one_layout(&self) -> bool {
        self.one_layout
    }

    /// The call's attributes, of the kernel's struct.
    ///
    /// # Errors
    /// Where the call has another struct.
    #[inline]
    pub fn attrs<T: Attributes>(&self) -> Result<&'a T> {
        self.attrs.expect()
    }

    /// The call's attributes, whatever they are.
    #[inline]
    pub fn attributes(&self) -> &'a dyn Attributes {
        self.attrs
    }

    /// The numbers of a pointwise row's call, and how many there are.
    #[inline]
    pub fn row_numbers(&self) -> ([Scalar; MAX_NUMBERS], usize) {
        let mut numbers = [Scalar::Int(0); MAX_NUMBERS];
        let n = self.attrs.numbers(&mut numbers);
        (numbers, n)
    }

    /// The inputs as errors name them: `float32[2, 3] cuda:0`, numbers by their value.
    #[cold]
    pub fn operands(&self) -> Vec<String> {
        let all = self.inputs.iter().enumerate();
        all.map(|(i, v)| match (v.is_present(), self.is_number(i)) {
            (false, _) => "None".to_string(),
            (true, true) => {
                let mut bytes = [0u8; 16];
                // SAFETY: a number is one element of the dtype in host memory, of 16 bytes at most.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        v.ptr.cast_const(),
                        bytes.as_mut_ptr(),
                        v.dtype.size(),
                    );
                }
                Scalar::from_bytes(&bytes, v.dtype).to_string()
            }
            (true, false) => format!("{}{:?} {}", v.dtype, v.shape, self.device),
        })
        .collect()
    }

    /// Adds op, operands and call site to an error of this call. Deferred errors need this, because
    /// the dispatcher can no longer add them.
    #[must_use]
    #[cold]
    pub fn explain(&self, e: TorshError) -> TorshError {
        e.in_op(self.site.op, || self.operands(), self.site.location)
    }

    /// The error for a dtype that the kernel does not support.
    #[cold]
    pub fn unsupported(&self) -> TorshError {
        let what = format!("not implemented for {} on {}", self.compute, self.device);
        TorshError::dtype("", what)
            .with_hint("convert the operands to a dtype the operation has, as to_dtype(DType::F32)")
    }
}
