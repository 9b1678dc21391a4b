//! The only places where the tensor crate touches memory itself, or tells a kernel which memory it may
//! touch.
//!
//! A [`Tensor`]'s layout always lies within its storage: the code that creates a tensor checks it
//! (`Layout::check`, `call/views.rs`). The views created here rely on that; debug builds check it
//! again.

use std::panic::Location;

use torsh_core::backend::{HostBytes, HostBytesMut};
use torsh_core::{
    Attributes, Backend, CallSite, DType, Device, Element, Kernel, KernelArgs, KernelFn, Locks,
    Place, Result, Scalar, Storage, View, lock_all,
};

use crate::Tensor;
use crate::record::{OpRecord, Plan, PlanCx, Pointwise};

impl OpRecord {
    /// An op with its own plan and kernel, which anybody may call ([`OpRecord::call`]).
    ///
    /// # Safety
    /// What the plan accepts (how many operands, their dtypes and shapes, the attributes) and the
    /// results that it asks for (how many, their dtypes and shapes, the dtype to compute in) are what
    /// the kernel of the key documents: kernels read and write memory on the plan's word. Whatever
    /// else is called with the record, by whomever, the plan refuses with an error.
    #[must_use]
    pub const unsafe fn with_kernel(
        self,
        kernel: Kernel,
        plan: fn(&PlanCx<'_>) -> Result<Plan>,
    ) -> OpRecord {
        let mut record = self.kernel(kernel, plan);
        record.open = true;
        record
    }

    /// A pointwise op.
    ///
    /// # Safety
    /// The key is one of a row of `torsh_core::pointwise`, and the rule is the row's.
    #[must_use]
    pub const unsafe fn with_pointwise(self, rule: Pointwise, kernel: Kernel) -> OpRecord {
        self.pointwise(rule, kernel)
    }
}

/// The address of a tensor's first element.
#[inline]
fn element_ptr(t: &Tensor) -> *mut u8 {
    // The offset of a layout lies inside its storage (or is 0), so this stays in bounds; an
    // address is only computed here, nothing is read.
    t.storage()
        .ptr()
        .wrapping_add(t.memory_layout().offset * t.dtype().size())
}

/// A tensor as kernels see it.
#[inline(always)]
pub(crate) fn view(t: &Tensor) -> View<'_> {
    view_as(t, t.dims(), &t.memory_layout().strides)
}

/// A tensor's elements in another shape, which reaches none outside of its storage: with strides of
/// 0, or with dimensions of size 1 more or less.
#[inline(always)]
pub(crate) fn view_as<'a>(t: &'a Tensor, shape: &'a [usize], strides: &'a [isize]) -> View<'a> {
    // SAFETY: the elements lie within the tensor's storage, which lives as long as the tensor. The
    // storage's locks (see `run`) keep others from writing while a kernel runs; every pattern of bytes
    // is an element of every dtype.
    let view = unsafe { View::new(element_ptr(t), t.dtype(), shape, strides) };
    debug_assert!(
        lies_within(t, &view),
        "{view:?} leaves the storage of {}",
        t.describe()
    );
    view
}

/// Whether a view of a tensor reaches only bytes of its storage.
fn lies_within(t: &Tensor, view: &View<'_>) -> bool {
    let start = (t.memory_layout().offset * t.dtype().size()) as isize;
    let fits = |(low, high): (isize, isize)| {
        start + low >= 0 && start + high <= t.storage().bytes() as isize
    };
    view.shape().len() == view.strides().len() && view.reach().is_none_or(fits)
}

/// A number of a call: an element of any dtype, aligned for all of them.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(crate) struct Number(pub(crate) [u8; 16]);

/// A number in the caller's memory as an operand that is the same all over `shape`, whose strides
/// are 0.
#[inline]
pub(crate) fn number<'a>(
    number: &'a Number,
    dtype: DType,
    shape: &'a [usize],
    zeros: &'a [isize],
) -> View<'a> {
    debug_assert!(shape.len() == zeros.len() && zeros.iter().all(|&s| s == 0));
    // SAFETY: the 16 aligned bytes hold an element of any dtype, read as often as the shape says; they
    // are only read.
    unsafe { View::new(number.0.as_ptr().cast_mut(), dtype, shape, zeros) }
}

/// One call of a kernel, whose record's plan has checked the operands.
pub(crate) struct Launch<'a> {
    pub(crate) kernel: (Kernel, KernelFn),
    pub(crate) compute: DType,
    pub(crate) device: Device,
    pub(crate) outputs: &'a [View<'a>],
    pub(crate) inputs: &'a [View<'a>],
    pub(crate) attrs: &'a dyn Attributes,
    /// Which inputs are numbers made by [`number`]; a bit each.
    pub(crate) numbers: u32,
    /// Whether all other operands are row-major and of the first output's shape.
    pub(crate) one_layout: bool,
    /// The op and its caller.
    pub(crate) op: &'static str,
    pub(crate) at: &'static Location<'static>,
}

/// Locks the storages of a call (`true` for writing) and runs its kernel.
#[inline(always)]
pub(crate) fn run(launch: Launch<'_>, storages: &[(&Storage, bool)]) -> Result<()> {
    let guard: Locks<'_> = lock_all(storages);
    guard.usable()?;
    let site = CallSite {
        op: launch.op,
        location: launch.at,
    };
    // SAFETY: the views come from `view`, `view_as` and `number`, on tensors of this device, which
    // are locked until the call returns; the plan of the op's record, and the method that is the only
    // way to it where the record is not open, have checked what this kernel asks of their shapes and
    // dtypes and of the attributes; `numbers` are the views of `number`.
    let args = unsafe {
        KernelArgs::new(
            launch.kernel.0,
            launch.compute,
            launch.outputs,
            launch.inputs,
            launch.attrs,
        )
        .on(launch.device, site)
        .with_numbers(launch.numbers)
        .of_one_layout(launch.one_layout)
    };
    match launch.device.is_host() {
        true => launch.kernel.1(&args),
        false => run_on_device(launch.kernel.1, args, storages),
    }
}

/// [`run`] on a device that is not the host, whose storages are locked.
#[cold]
fn run_on_device(
    kernel: KernelFn,
    args: KernelArgs<'_>,
    storages: &[(&Storage, bool)],
) -> Result<()> {
    let (device, site) = (args.device(), args.site());
    // SAFETY: the device is the call's; an op that is made of others is named in their place.
    let args = unsafe { args.on(device, crate::check::site(site)) };
    using(device, storages, |_| kernel(&args))?;
    match crate::call::sync_checks() {
        true => torsh_backend::synchronize(device),
        false => Ok(()),
    }
}

/// Gives work to a device's current queue that uses storages (`true` for writing): what other queues
/// did with them comes first, and they remember this one.
#[cold]
fn using(
    device: Device,
    storages: &[(&Storage, bool)],
    work: impl FnOnce(&'static dyn Backend) -> Result<()>,
) -> Result<()> {
    let backend = torsh_backend::backend(device)?;
    let queue = backend.queue();
    let blocks = || storages.iter().filter_map(|(s, w)| Some((s.block()?, *w)));
    blocks().try_for_each(|(b, writes)| b.wait_for_others(queue, writes))?;
    work(backend)?;
    let now = backend.ticket();
    // SAFETY: the ticket was taken after the work was given to the queue.
    blocks().for_each(|(b, writes)| unsafe { b.used(now, writes) });
    Ok(())
}

/// Whether `bytes` bytes from a tensor's first element on lie within its storage.
fn has_bytes(t: &Tensor, bytes: usize) -> bool {
    let start = t.memory_layout().offset * t.dtype().size();
    // A tensor without elements may begin anywhere.
    bytes == 0
        || start
            .checked_add(bytes)
            .is_some_and(|end| end <= t.storage().bytes())
}

/// The bytes of a dense tensor.
fn place(t: &Tensor) -> Place<'_> {
    let bytes = t.numel() * t.dtype().size();
    assert!(has_bytes(t, bytes), "{} leaves its storage", t.describe());
    // SAFETY: these bytes are of the tensor's storage (asserted), which lives as long as the tensor;
    // the callers here have locked it, or it is fresh.
    unsafe { Place::new(element_ptr(t), bytes, t.device()) }
}

/// Whether two tensors are copied by copying their bytes.
fn alike(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype() && a.dims() == b.dims() && a.stride() == b.stride()
}

/// Copies a dense host tensor to a fresh tensor of a device with its layout.
pub(crate) fn upload(from: &Tensor, to: &Tensor) -> Result<()> {
    assert!(from.device().is_host() && alike(from, to));
    let guard = lock_all(&[(from.storage().as_ref(), false)]);
    guard.usable()?;
    let source = place(from);
    // SAFETY: the bytes of a dense host tensor, locked against writers.
    let source = unsafe { HostBytes::new(source.ptr(), source.bytes()) };
    let writes = [(to.storage().as_ref(), true)];
    using(to.device(), &writes, |b| b.upload(source, place(to)))
}

/// Copies a dense tensor of a device to a fresh host tensor with its layout, and waits for it.
pub(crate) fn download(from: &Tensor, to: &Tensor) -> Result<()> {
    assert!(to.device().is_host() && alike(from, to));
    let reads = [(from.storage().as_ref(), false)];
    let guard = lock_all(&reads);
    guard.usable()?;
    let target = place(to);
    // SAFETY: the bytes of a fresh dense host tensor, which nobody else has.
    let target = unsafe { HostBytesMut::new(target.ptr(), target.bytes()) };
    using(from.device(), &reads, |b| b.download(place(from), target))
}

/// Whether two devices are of one backend, which copies between them.
pub(crate) fn are_peers(a: Device, b: Device) -> Result<bool> {
    Ok(torsh_backend::backend(a)?.name() == torsh_backend::backend(b)?.name())
}

/// Copies a dense tensor to a fresh one of a peer of its device, with its layout. Nothing waits: both
/// devices' queues keep the order.
pub(crate) fn transfer(from: &Tensor, to: &Tensor) -> Result<()> {
    assert!(from.stride() == to.stride() && from.dtype() == to.dtype());
    let reads = [(from.storage().as_ref(), false)];
    let writes = [(to.storage().as_ref(), true)];
    let guard = lock_all(&reads);
    guard.usable()?;
    using(from.device(), &reads, |_| {
        using(to.device(), &writes, |b| b.copy(place(from), place(to)))
    })
}

/// Sets each byte of a dense tensor of a device.
pub(crate) fn fill(t: &Tensor, byte: u8) -> Result<()> {
    let writes = [(t.storage().as_ref(), true)];
    let guard = lock_all(&writes);
    guard.usable()?;
    using(t.device(), &writes, |b| b.fill(place(t), byte))
}

/// The value of a 0-d host tensor, as bytes of its dtype.
pub(crate) fn read_number(t: &Tensor) -> Number {
    let size = t.dtype().size();
    assert!(t.numel() == 1 && t.device().is_host() && has_bytes(t, size));
    let mut raw = [0u8; 16];
    let _guard = lock_all(&[(t.storage().as_ref(), false)]);
    // SAFETY: the element lies inside the storage (asserted), which is locked against writers.
    unsafe { std::ptr::copy_nonoverlapping(element_ptr(t), raw.as_mut_ptr(), size) }
    Number(raw)
}

/// Fills a fresh row-major host tensor with elements, or with their bytes.
pub(crate) fn write<T: Element>(t: &Tensor, from: &[T]) {
    let bytes = size_of_val(from);
    assert!(bytes == t.numel() * t.dtype().size() && t.device().is_host() && has_bytes(t, bytes));
    if bytes == 0 {
        return;
    }
    // SAFETY: `t` is on the host and has as many bytes (asserted); it is fresh, so nobody else has
    // them.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr().cast(), element_ptr(t), bytes) }
}

/// Copies the bytes of a row-major host tensor, whose storage the caller has locked.
pub(crate) fn read_bytes(t: &Tensor, to: &mut [u8]) {
    let bytes = t.numel() * t.dtype().size();
    assert!(to.len() == bytes && t.device().is_host() && has_bytes(t, bytes));
    if to.is_empty() {
        return;
    }
    // SAFETY: as many bytes of the storage follow the first element (asserted), locked against
    // writers.
    unsafe { std::ptr::copy_nonoverlapping(element_ptr(t), to.as_mut_ptr(), to.len()) }
}

/// Copies the elements of a row-major host tensor of dtype `T`, whose storage the caller has
/// locked.
pub(crate) fn read_elements<T: Element>(t: &Tensor, to: &mut [T]) {
    assert_eq!(t.dtype(), T::DTYPE);
    assert!(to.len() == t.numel() && t.device().is_host() && has_bytes(t, size_of_val(to)));
    if to.is_empty() {
        return;
    }
    if T::DTYPE == DType::Bool {
        let (from, to, n) = (element_ptr(t), to.as_mut_ptr().cast::<bool>(), to.len());
        for i in 0..n {
            // SAFETY: as below. `T` is `bool`, whose only patterns are 0 and 1, whatever byte the
            // tensor has.
            unsafe { to.add(i).write(*from.add(i) != 0) };
        }
        return;
    }
    // SAFETY: as in `read_bytes`; the dtype is `T`'s, for which every pattern is valid.
    unsafe { std::ptr::copy_nonoverlapping(element_ptr(t).cast::<T>(), to.as_mut_ptr(), to.len()) }
}

/// One element of a host tensor, at a position in its storage that its layout reaches; the caller
/// has locked the storage.
pub(crate) fn read_at(t: &Tensor, position: usize) -> Scalar {
    let size = t.dtype().size();
    assert!((position + 1) * size <= t.storage().bytes());
    let mut raw = [0u8; 16];
    // SAFETY: the element lies inside the storage (asserted) and is locked against writers.
    unsafe {
        std::ptr::copy_nonoverlapping(
            t.storage().ptr().add(position * size),
            raw.as_mut_ptr(),
            size,
        )
    }
    Scalar::from_bytes(&raw, t.dtype())
}
