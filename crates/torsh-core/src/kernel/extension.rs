//! Kernel keys of crates above this one, and their kernels as safe code.
//!
//! [`Kernel`] lists the keys of the core. A crate above it declares further keys as statics, [`KernelKey`], with a name
//! and kernels for devices. Nothing is registered: the static has all that a lookup asks for.
//!
//! A kernel in host memory is safe code: it gets the memory of its call as slices, through [`HostCall`], which checks
//! dtypes and layouts. So a crate that forbids `unsafe` can have one.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::MaybeUninit;

use parking_lot::RwLock;

use super::{Kernel, KernelArgs, KernelFn, View};
use crate::attrs::Attributes;
use crate::{DType, DeviceType, Element, Result, TorshError};

/// A kernel in host memory, of a crate above this one.
///
/// ```
/// use torsh_core::Result;
/// use torsh_core::kernel::{HostCall, HostKernel, KernelKey};
///
/// fn double(call: &mut HostCall<'_>) -> Result<()> {
///     let x = call.input::<f32>(0)?;
///     call.output::<f32>(0)?.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = 2.0 * x);
///     Ok(())
/// }
/// const KERNEL: HostKernel = double;
/// static DOUBLE: KernelKey = KernelKey::new("Double", "demo").with_host(KERNEL);
/// assert!(DOUBLE.kernel(torsh_core::DeviceType::Cpu).is_some());
/// ```
pub type HostKernel = fn(&mut HostCall<'_>) -> Result<()>;

/// A kernel key that a crate above this one declares, as a static. [`Kernel::Extension`] is the key of calls.
///
/// Every kernel of such a key checks what it is called with: the number of operands and results, their dtypes, shapes and
/// layouts, and the attributes. So safe code may pair the key with a plan.
///
/// ```
/// use torsh_core::DeviceType;
/// use torsh_core::kernel::KernelKey;
/// use torsh_core::Kernel;
/// static DOUBLE: KernelKey = KernelKey::new("Double", "demo").with_host(|call| {
///     let x = call.input::<f32>(0)?;
///     let y = call.output::<f32>(0)?;
///     y.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = 2.0 * x);
///     Ok(())
/// });
/// let key = Kernel::Extension(&DOUBLE);
/// assert_eq!(format!("{key:?}"), "Double");
/// assert!(DOUBLE.kernel(DeviceType::Cpu).is_some() && DOUBLE.kernel(DeviceType::Cuda).is_none());
/// ```
pub struct KernelKey {
    name: &'static str,
    package: &'static str,
    host: Option<HostKernel>,
    /// A kernel for the CPU that sees addresses.
    cpu: Option<KernelFn>,
    devices: RwLock<Vec<(DeviceType, KernelFn)>>,
}

impl KernelKey {
    /// Returns a key without kernels. `name` is unique in `package`, the name of the crate.
    ///
    /// ```
    /// use torsh_core::kernel::KernelKey;
    /// static DOUBLE: KernelKey = KernelKey::new("Double", "demo");
    /// assert!(DOUBLE.kernel(torsh_core::DeviceType::Cpu).is_none());
    /// ```
    pub const fn new(name: &'static str, package: &'static str) -> KernelKey {
        KernelKey {
            name,
            package,
            host: None,
            cpu: None,
            devices: RwLock::new(Vec::new()),
        }
    }

    /// Returns the key with a kernel for the CPU.
    ///
    /// ```
    /// use torsh_core::kernel::KernelKey;
    /// static NOTHING: KernelKey = KernelKey::new("Nothing", "demo").with_host(|_| Ok(()));
    /// assert!(NOTHING.kernel(torsh_core::DeviceType::Cpu).is_some());
    /// ```
    #[must_use]
    pub const fn with_host(mut self, kernel: HostKernel) -> KernelKey {
        self.host = Some(kernel);
        self
    }

    /// Returns the key with a kernel for the CPU that reads operands where they lie, of whatever strides, and writes results
    /// that are not zeroed first: for kernels of the CPU's backend that only some programs need, and that therefore stand
    /// in no table that every program links.
    ///
    /// # Safety
    /// As for [`KernelKey::add`].
    ///
    /// ```
    /// use torsh_core::kernel::KernelKey;
    /// // SAFETY: the kernel touches no memory.
    /// static REFUSES: KernelKey = unsafe { KernelKey::new("Refuses", "demo").with_cpu(|args| Err(args.unsupported())) };
    /// assert!(REFUSES.kernel(torsh_core::DeviceType::Cpu).is_some());
    /// ```
    #[must_use]
    pub const unsafe fn with_cpu(mut self, kernel: KernelFn) -> KernelKey {
        self.cpu = Some(kernel);
        self
    }

    /// Returns the name, as `LinalgCholesky`.
    ///
    /// ```
    /// use torsh_core::kernel::KernelKey;
    /// static DOUBLE: KernelKey = KernelKey::new("Double", "demo");
    /// assert_eq!((DOUBLE.name(), DOUBLE.package()), ("Double", "demo"));
    /// ```
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The crate that declares the key.
    pub const fn package(&self) -> &'static str {
        self.package
    }

    /// Adds the kernel for a type of device, for the life of the process. The first kernel of a type stays: a second call
    /// changes nothing, and the CPU's is that of [`KernelKey::with_host`] if there is one.
    ///
    /// # Safety
    /// The kernel checks all that it is called with. Kernels of the keys of [`Kernel::ALL`] rely on checks of their callers.
    ///
    /// ```
    /// use torsh_core::DeviceType;
    /// use torsh_core::kernel::KernelKey;
    /// static TWICE: KernelKey = KernelKey::new("Twice", "demo");
    /// // SAFETY: the kernel touches no memory.
    /// unsafe { TWICE.add(DeviceType::Custom, |args| Err(args.unsupported())) };
    /// assert!(TWICE.kernel(DeviceType::Custom).is_some());
    /// ```
    pub unsafe fn add(&self, device: DeviceType, kernel: KernelFn) {
        let mut devices = self.devices.write();
        if devices.iter().all(|(d, _)| *d != device) {
            devices.push((device, kernel));
        }
    }

    /// Returns the kernel for a type of device; `None` where the key has none.
    ///
    /// ```
    /// use torsh_core::DeviceType;
    /// use torsh_core::kernel::KernelKey;
    /// static NOTHING: KernelKey = KernelKey::new("Nothing", "demo").with_host(|_| Ok(()));
    /// assert!(NOTHING.kernel(DeviceType::Cpu).is_some() && NOTHING.kernel(DeviceType::Cuda).is_none());
    /// ```
    pub fn kernel(&self, device: DeviceType) -> Option<KernelFn> {
        if device == DeviceType::Cpu && self.host.is_some() {
            return Some(run);
        }
        if device == DeviceType::Cpu && self.cpu.is_some() {
            return self.cpu;
        }
        let devices = self.devices.read();
        devices.iter().find(|(d, _)| *d == device).map(|(_, k)| *k)
    }
}

/// Declares statics that are [`KernelKey`](crate::kernel::KernelKey)s of the crate, each with its name and its kernel for the
/// CPU.
///
/// ```
/// torsh_core::kernel_keys! {
///     DOUBLE "Double" |call| {
///         let x = call.input::<f32>(0)?;
///         call.output::<f32>(0)?.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = 2.0 * x);
///         Ok(())
///     };
/// }
/// assert_eq!(DOUBLE.name(), "Double");
/// ```
#[macro_export]
macro_rules! kernel_keys {
    ($($name:ident $text:literal $kernel:expr;)*) => {$(
        pub(crate) static $name: $crate::kernel::KernelKey =
            $crate::kernel::KernelKey::new($text, env!("CARGO_PKG_NAME")).with_host($kernel);
    )*};
}

impl PartialEq for KernelKey {
    fn eq(&self, other: &KernelKey) -> bool {
        std::ptr::eq(self, other) || self.cmp(other) == Ordering::Equal
    }
}

impl Eq for KernelKey {}

impl PartialOrd for KernelKey {
    fn partial_cmp(&self, other: &KernelKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KernelKey {
    fn cmp(&self, other: &KernelKey) -> Ordering {
        (self.package, self.name).cmp(&(other.package, other.name))
    }
}

impl Hash for KernelKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.package, self.name).hash(state);
    }
}

impl fmt::Debug for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn run(args: &KernelArgs<'_>) -> Result<()> {
    match args.kernel() {
        Kernel::Extension(KernelKey { host: Some(f), .. }) if args.device().is_host() => {
            f(&mut HostCall { args, borrowed: 0 })
        }
        _ => Err(args.unsupported()),
    }
}

/// A call of a kernel in host memory, as safe code sees it.
///
/// ```
/// # use torsh_core::{DType, DeviceType, Kernel, KernelArgs, Result, View, attrs};
/// # fn run(key: &'static KernelKey, mut x: [f32; 4], shape: &[usize], strides: &[isize]) -> Result<[f32; 4]> {
/// #     let mut y = [0f32; 4];
/// #     // SAFETY: the views reach the arrays' four elements, and the arrays live longer.
/// #     let input = [unsafe { View::new(x.as_mut_ptr().cast(), DType::F32, shape, strides) }];
/// #     let output = [unsafe { View::new(y.as_mut_ptr().cast(), DType::F32, &[4], &[1]) }];
/// #     // SAFETY: the key's kernel checks what it is called with.
/// #     let args = unsafe { KernelArgs::new(Kernel::Extension(key), DType::F32, &output, &input, attrs::NONE) };
/// #     key.kernel(DeviceType::Cpu).expect("its kernel")(&args).map(|()| y)
/// # }
/// use torsh_core::kernel::KernelKey;
///
/// static REVERSED: KernelKey = KernelKey::new("Reversed", "demo").with_host(|call| {
///     assert_eq!((call.input_shape(0)?, call.output_shape(0)?, call.outputs()), (&[4][..], &[4][..], 1));
///     let x = call.input::<f32>(0)?;
///     call.output::<f32>(0)?.iter_mut().zip(x.iter().rev()).for_each(|(y, x)| *y = *x);
///     Ok(())
/// });
/// assert_eq!(run(&REVERSED, [1.0, 2.0, 3.0, 4.0], &[4], &[1])?, [4.0, 3.0, 2.0, 1.0]);
/// # Ok::<(), torsh_core::TorshError>(())
/// ```
pub struct HostCall<'a> {
    args: &'a KernelArgs<'a>,
    /// The outputs that were handed out; a bit each.
    borrowed: u64,
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

    /// Returns the elements of input `i`, row-major: the memory itself where it is that already, else a copy.
    ///
    /// ```
    /// # use torsh_core::{DType, DeviceType, Kernel, KernelArgs, Result, View, attrs};
    /// # fn run(key: &'static KernelKey, mut x: [f32; 4], shape: &[usize], strides: &[isize]) -> Result<[f32; 4]> {
    /// #     let mut y = [0f32; 4];
    /// #     // SAFETY: the views reach the arrays' four elements, and the arrays live longer.
    /// #     let input = [unsafe { View::new(x.as_mut_ptr().cast(), DType::F32, shape, strides) }];
    /// #     let output = [unsafe { View::new(y.as_mut_ptr().cast(), DType::F32, &[4], &[1]) }];
    /// #     // SAFETY: the key's kernel checks what it is called with.
    /// #     let args = unsafe { KernelArgs::new(Kernel::Extension(key), DType::F32, &output, &input, attrs::NONE) };
    /// #     key.kernel(DeviceType::Cpu).expect("its kernel")(&args).map(|()| y)
    /// # }
    /// use torsh_core::kernel::KernelKey;
    ///
    /// static ROWS: KernelKey = KernelKey::new("Rows", "demo").with_host(|call| {
    ///     let x = call.input::<f32>(0)?; // A transposed matrix comes as a row-major copy.
    ///     call.output::<f32>(0)?.copy_from_slice(&x);
    ///     Ok(())
    /// });
    /// assert_eq!(run(&ROWS, [1.0, 2.0, 3.0, 4.0], &[2, 2], &[1, 2])?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
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

    /// The elements of input `i` as they lie, where they fill their memory: without gaps and overlaps, in any order of the
    /// dimensions. The strides, in elements, say which. `None` for other layouts.
    ///
    /// ```
    /// # use torsh_core::{DType, DeviceType, Kernel, KernelArgs, Result, View, attrs};
    /// # fn run(key: &'static KernelKey, mut x: [f32; 4], shape: &[usize], strides: &[isize]) -> Result<[f32; 4]> {
    /// #     let mut y = [0f32; 4];
    /// #     // SAFETY: the views reach the arrays' four elements, and the arrays live longer.
    /// #     let input = [unsafe { View::new(x.as_mut_ptr().cast(), DType::F32, shape, strides) }];
    /// #     let output = [unsafe { View::new(y.as_mut_ptr().cast(), DType::F32, &[4], &[1]) }];
    /// #     // SAFETY: the key's kernel checks what it is called with.
    /// #     let args = unsafe { KernelArgs::new(Kernel::Extension(key), DType::F32, &output, &input, attrs::NONE) };
    /// #     key.kernel(DeviceType::Cpu).expect("its kernel")(&args).map(|()| y)
    /// # }
    /// use torsh_core::kernel::KernelKey;
    ///
    /// static LIES: KernelKey = KernelKey::new("Lies", "demo").with_host(|call| {
    ///     let (x, strides) = call.input_as_it_lies::<f32>(0)?.expect("it fills its memory");
    ///     assert_eq!(strides, [1, 2]);
    ///     call.output::<f32>(0)?.copy_from_slice(x);
    ///     Ok(())
    /// });
    /// assert_eq!(run(&LIES, [1.0, 2.0, 3.0, 4.0], &[2, 2], &[1, 2])?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`HostCall::input`].
    pub fn input_as_it_lies<T: Element>(&self, i: usize) -> Result<Option<(&'a [T], &'a [isize])>> {
        let view = present(self.args.inputs(), i)?;
        of_dtype::<T>(view)?;
        let n = view.numel();
        if n == 0 {
            return Ok(Some((&[], view.strides())));
        }
        if !is_dense(view) {
            return Ok(None);
        }
        // SAFETY: the view's elements are `n` different ones (checked) in the `n` places from the first on, memory of the
        // host, which nobody writes to while the kernel runs (`View::new`), aligned, and of `T`'s dtype (checked), for which
        // every pattern is an element: bools are refused.
        let all = unsafe { std::slice::from_raw_parts(view.ptr().cast(), n) };
        Ok(Some((all, view.strides())))
    }

    /// Returns the elements of output `i`, all zero. Each output is handed out once.
    ///
    /// ```
    /// # use torsh_core::{DType, DeviceType, Kernel, KernelArgs, Result, View, attrs};
    /// # fn run(key: &'static KernelKey, mut x: [f32; 4], shape: &[usize], strides: &[isize]) -> Result<[f32; 4]> {
    /// #     let mut y = [0f32; 4];
    /// #     // SAFETY: the views reach the arrays' four elements, and the arrays live longer.
    /// #     let input = [unsafe { View::new(x.as_mut_ptr().cast(), DType::F32, shape, strides) }];
    /// #     let output = [unsafe { View::new(y.as_mut_ptr().cast(), DType::F32, &[4], &[1]) }];
    /// #     // SAFETY: the key's kernel checks what it is called with.
    /// #     let args = unsafe { KernelArgs::new(Kernel::Extension(key), DType::F32, &output, &input, attrs::NONE) };
    /// #     key.kernel(DeviceType::Cpu).expect("its kernel")(&args).map(|()| y)
    /// # }
    /// use torsh_core::kernel::KernelKey;
    ///
    /// static FIRST: KernelKey = KernelKey::new("First", "demo").with_host(|call| {
    ///     let x = call.input::<f32>(0)?[0];
    ///     call.output::<f32>(0)?[0] = x; // The others are 0.
    ///     assert!(call.output::<f32>(0).is_err(), "it was handed out before");
    ///     Ok(())
    /// });
    /// assert_eq!(run(&FIRST, [7.0, 2.0, 3.0, 4.0], &[4], &[1])?, [7.0, 0.0, 0.0, 0.0]);
    /// # Ok::<(), torsh_core::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Where the call has no such result, it is of another dtype, is not row-major, or was handed out before.
    pub fn output<T: Element>(&mut self, i: usize) -> Result<&'a mut [T]> {
        let all = self.output_uninit::<T>(i)?;
        let (first, n) = (all.as_mut_ptr().cast::<T>(), all.len());
        // SAFETY: the slice is handed out once. Zeros are an element of every dtype, so it is initialised.
        unsafe {
            std::ptr::write_bytes(first, 0, n);
            Ok(std::slice::from_raw_parts_mut(first, n))
        }
    }

    /// The memory of output `i`, for a kernel that writes every element. Each output is handed out once.
    ///
    /// # Errors
    /// As [`HostCall::output`].
    pub fn output_uninit<T: Element>(&mut self, i: usize) -> Result<&'a mut [MaybeUninit<T>]> {
        let view = present(self.args.outputs(), i)?;
        of_dtype::<T>(view)?;
        let bit = 1u64.checked_shl(i as u32).unwrap_or(0);
        if bit == 0 || self.borrowed & bit != 0 || !view.is_contiguous() {
            return Err(TorshError::invalid(
                "",
                format!("output {i} of the kernel is not row-major, or was handed out before"),
            ));
        }
        self.borrowed |= bit;
        let n = view.numel();
        if n == 0 {
            return Ok(&mut []);
        }
        // SAFETY: the view's elements are memory of the host that nobody else reads or writes while the kernel runs
        // (`View::new`), row-major (checked), of `T`'s dtype (checked), and handed out once (checked).
        Ok(unsafe { std::slice::from_raw_parts_mut(view.ptr().cast(), n) })
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

/// Whether the elements fill the memory from the first on, without gaps and overlaps.
fn is_dense(view: &View<'_>) -> bool {
    let mut order: Vec<usize> = (0..view.shape().len()).collect();
    order.retain(|&d| view.shape()[d] != 1);
    order.sort_by_key(|&d| view.strides()[d]);
    let mut next = 1;
    order.iter().all(|&d| {
        let here = view.strides()[d] == next;
        next *= view.shape()[d] as isize;
        here
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
        let (all, strides) = call.input_as_it_lies::<f32>(0)?.expect("dense");
        assert_eq!(
            (all, strides),
            (&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0][..], &[1isize, 3][..])
        );
        let y = call.output::<f32>(0)?;
        assert!(
            call.output_uninit::<f32>(0).is_err(),
            "an output is handed out once"
        );
        assert!(call.input::<f64>(0).is_err() && call.input::<f32>(1).is_err());
        y.iter_mut().zip(x.iter()).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    }

    static DOUBLED: KernelKey = KernelKey::new("Doubled", "tests").with_host(doubled);

    #[test]
    fn a_kernel_of_another_crate_reads_strided_memory() -> Result<()> {
        // SAFETY: the kernel touches no memory.
        unsafe { DOUBLED.add(DeviceType::Cpu, |args| Err(args.unsupported())) };
        let f = DOUBLED.kernel(DeviceType::Cpu).expect("the host's");
        let key = Kernel::Extension(&DOUBLED);
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
                key,
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

    #[test]
    fn keys_are_compared_by_their_names() {
        static OTHER: KernelKey = KernelKey::new("Other", "tests");
        assert_eq!(Kernel::Extension(&DOUBLED), Kernel::Extension(&DOUBLED));
        assert_ne!(Kernel::Extension(&DOUBLED), Kernel::Extension(&OTHER));
        assert!(Kernel::Extension(&DOUBLED) > Kernel::Add);
        assert_eq!(Kernel::Extension(&OTHER).index(), Kernel::COUNT);
        assert!(Kernel::ALL.iter().enumerate().all(|(i, k)| k.index() == i));
    }
}
