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
///
/// ```
/// use torsh_core::{DType, View};
///
/// let mut memory = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
/// // SAFETY: the array has the six elements that the view reaches, and lives longer.
/// let columns = unsafe { View::new(memory.as_mut_ptr().cast(), DType::F32, &[3, 2], &[1, 3]) };
/// assert_eq!((columns.numel(), columns.is_contiguous()), (6, false));
/// assert_eq!(columns.reach(), Some((0, 24)));
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
    ///
    /// ```
    /// use torsh_core::View;
    /// assert!(!View::ABSENT.is_present());
    /// ```
    #[inline]
    pub fn is_present(&self) -> bool {
        !self.ptr.is_null()
    }

    /// Returns the number of elements.
    ///
    /// ```
    /// use torsh_core::{DType, View};
    ///
    /// let mut memory = [1f32, 2.0, 3.0];
    /// // SAFETY: the array has the elements that the view reaches, and lives longer.
    /// let view = unsafe { View::new(memory.as_mut_ptr().cast(), DType::F32, &[2, 3], &[0, 1]) };
    /// assert_eq!(view.numel(), 6); // Each element of memory counts twice.
    /// ```
    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie row-major without gaps.
    ///
    /// ```
    /// use torsh_core::{DType, View};
    ///
    /// let mut memory = [1f32, 2.0, 3.0];
    /// // SAFETY: the array has the elements that the view reaches, and lives longer.
    /// let view = unsafe { View::new(memory.as_mut_ptr().cast(), DType::F32, &[2], &[2]) };
    /// assert!(!view.is_contiguous());
    /// ```
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        crate::shape::is_contiguous(self.shape, self.strides)
    }

    /// Returns the bytes from the lowest to one past the highest that the view reaches, relative to its
    /// first element; `None` where it reaches none.
    ///
    /// ```
    /// use torsh_core::{DType, View};
    ///
    /// let mut memory = [1f32, 2.0, 3.0];
    /// // SAFETY: the array has the elements that the view reaches, and lives longer.
    /// let last = memory.as_mut_ptr().wrapping_add(2).cast();
    /// let backwards = unsafe { View::new(last, DType::F32, &[3], &[-1]) };
    /// assert_eq!(backwards.reach(), Some((-8, 4)));
    /// ```
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
///
/// ```
/// use torsh_core::kernel::KernelKey;
/// use torsh_core::{DType, DeviceType, Kernel, KernelArgs, View, attrs};
///
/// static NEGATE: KernelKey = KernelKey::new("Negate", "demo").with_host(|call| {
///     let x = call.input::<f32>(0)?;
///     call.output::<f32>(0)?.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = -x);
///     Ok(())
/// });
/// let (mut x, mut y) = ([1f32, -2.0], [0f32; 2]);
/// // SAFETY: both arrays have two elements, and live longer than the views.
/// let input = [unsafe { View::new(x.as_mut_ptr().cast(), DType::F32, &[2], &[1]) }];
/// let output = [unsafe { View::new(y.as_mut_ptr().cast(), DType::F32, &[2], &[1]) }];
/// // SAFETY: the kernel checks what it is called with.
/// let args = unsafe { KernelArgs::new(Kernel::Extension(&NEGATE), DType::F32, &output, &input, attrs::NONE) };
/// let kernel = NEGATE.kernel(DeviceType::Cpu).expect("the key's kernel");
/// kernel(&args)?;
/// assert_eq!(y, [-1.0, 2.0]);
/// # Ok::<(), torsh_core::TorshError>(())
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
///
/// ```
/// use torsh_core::{DType, Kernel, KernelArgs, KernelFn, attrs};
///
/// let kernel: KernelFn = |args| Err(args.unsupported());
/// // SAFETY: the kernel touches no memory.
/// let args = unsafe { KernelArgs::new(Kernel::Sin, DType::I64, &[], &[], attrs::NONE) };
/// assert!(kernel(&args).unwrap_err().to_string().contains("not implemented for int64 on cpu"));
/// ```
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

    /// Returns the kernel's key, for one function that serves several.
    ///
    /// ```
    /// use torsh_core::{DType, Kernel, KernelArgs, attrs};
    ///
    /// // SAFETY: no kernel is called.
    /// let args = unsafe { KernelArgs::new(Kernel::Sin, DType::F32, &[], &[], attrs::NONE) };
    /// assert_eq!((args.kernel(), args.compute()), (Kernel::Sin, DType::F32));
    /// ```
    #[inline(always)]
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The dtype to compute in.
    #[inline(always)]
    pub fn compute(&self) -> DType {
        self.compute
    }

    /// Returns where the call runs, which is the CPU unless [`KernelArgs::on`] says otherwise.
    ///
    /// ```
    /// use torsh_core::{CallSite, DType, Device, Kernel, KernelArgs, attrs};
    ///
    /// // SAFETY: no kernel is called.
    /// let args = unsafe {
    ///     KernelArgs::new(Kernel::Sin, DType::F32, &[], &[], attrs::NONE)
    ///         .on(Device::Custom(1), CallSite::here("sin"))
    /// };
    /// assert_eq!((args.device(), args.site().op), (Device::Custom(1), "sin"));
    /// ```
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
    ///
    /// ```
    /// use torsh_core::{DType, Kernel, KernelArgs, attrs};
    ///
    /// // SAFETY: no kernel is called.
    /// let args = unsafe { KernelArgs::new(Kernel::Add, DType::F32, &[], &[], attrs::NONE).with_numbers(0b10) };
    /// assert!(args.is_number(1) && !args.is_number(0) && args.has_numbers());
    /// ```
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

    /// Returns the call's attributes, of the kernel's struct.
    ///
    /// ```
    /// use torsh_core::{DType, Kernel, KernelArgs, attrs};
    ///
    /// let softmax = attrs::Softmax { dim: 1 };
    /// // SAFETY: no kernel is called.
    /// let args = unsafe { KernelArgs::new(Kernel::Softmax, DType::F32, &[], &[], &softmax) };
    /// assert_eq!(args.attrs::<attrs::Softmax>()?.dim, 1);
    /// let error = args.attrs::<attrs::Sort>().unwrap_err();
    /// assert!(error.to_string().contains("the attributes Softmax(dim=1), the kernel reads Sort"));
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the call has another struct.
    #[inline]
    pub fn attrs<T: Attributes>(&self) -> Result<&'a T> {
        self.attrs.expect()
    }

    /// Returns the call's attributes, whatever they are.
    ///
    /// ```
    /// use torsh_core::{DType, Kernel, KernelArgs, attrs};
    ///
    /// let flip = attrs::Flip { dims: [0, 2].into() };
    /// // SAFETY: no kernel is called.
    /// let args = unsafe { KernelArgs::new(Kernel::Flip, DType::F32, &[], &[], &flip) };
    /// assert_eq!(attrs::display(args.attributes()).to_string(), "dims=[0, 2]");
    /// ```
    #[inline]
    pub fn attributes(&self) -> &'a dyn Attributes {
        self.attrs
    }

    /// Returns the numbers of a pointwise row's call, and how many there are.
    ///
    /// ```
    /// use torsh_core::pointwise::numbers::LeakyRelu;
    /// use torsh_core::{DType, Kernel, KernelArgs, Scalar};
    ///
    /// let call = LeakyRelu { negative_slope: Scalar::Float(0.1) };
    /// // SAFETY: no kernel is called.
    /// let args = unsafe { KernelArgs::new(Kernel::LeakyRelu, DType::F32, &[], &[], &call) };
    /// let (numbers, count) = args.row_numbers();
    /// assert_eq!(numbers[..count], [Scalar::Float(0.1)]);
    /// ```
    #[inline]
    pub fn row_numbers(&self) -> ([Scalar; MAX_NUMBERS], usize) {
        let mut numbers = [Scalar::Int(0); MAX_NUMBERS];
        let n = self.attrs.numbers(&mut numbers);
        (numbers, n)
    }

    /// Returns the inputs as errors name them: `float32[2, 3] cuda:0`, numbers by their value.
    ///
    /// ```
    /// use torsh_core::{DType, Kernel, KernelArgs, View, attrs};
    ///
    /// let mut x = [1f32, 2.0];
    /// // SAFETY: the array has the elements that the view reaches; no kernel is called.
    /// let inputs = [unsafe { View::new(x.as_mut_ptr().cast(), DType::F32, &[2], &[1]) }, View::ABSENT];
    /// let args = unsafe { KernelArgs::new(Kernel::Conv, DType::F32, &[], &inputs, attrs::NONE) };
    /// assert_eq!(args.operands(), ["float32[2] cpu", "None"]);
    /// ```
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
    ///
    /// ```
    /// use torsh_core::{CallSite, DType, Device, Kernel, KernelArgs, TorshError, attrs};
    ///
    /// // SAFETY: no kernel is called.
    /// let args = unsafe {
    ///     KernelArgs::new(Kernel::IndexSelect, DType::F32, &[], &[], attrs::NONE)
    ///         .on(Device::Custom(0), CallSite::here("index_select"))
    /// };
    /// let error = args.explain(TorshError::index("", "index 7 is out of range"));
    /// assert!(error.to_string().starts_with("index_select: index 7 is out of range\n"));
    /// ```
    #[must_use]
    #[cold]
    pub fn explain(&self, e: TorshError) -> TorshError {
        e.in_op(self.site.op, || self.operands(), self.site.location)
    }

    /// Returns the error for a dtype that the kernel does not support.
    ///
    /// ```
    /// use torsh_core::{DType, Kernel, KernelArgs, attrs};
    ///
    /// // SAFETY: no kernel is called.
    /// let args = unsafe { KernelArgs::new(Kernel::MatMul, DType::Bool, &[], &[], attrs::NONE) };
    /// assert!(args.unsupported().to_string().starts_with("not implemented for bool on cpu\n  hint: convert"));
    /// ```
    #[cold]
    pub fn unsupported(&self) -> TorshError {
        let what = format!("not implemented for {} on {}", self.compute, self.device);
        TorshError::dtype("", what)
            .with_hint("convert the operands to a dtype the operation has, as to_dtype(DType::F32)")
    }
}
