//! Calls on devices: the device and the memory of a call, and the replacement of missing kernels by
//! definitions or by the CPU.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::{Mutex, RwLock};
use torsh_core::{Attributes, CallSite};

use super::*;
use crate::observe::Work;
use crate::record::Definition;
use torsh_core::attrs::{Assert, NONE};

/// The behaviour of a call whose op has neither a kernel on its device nor a definition in other
/// ops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The call returns an error that names op, dtype and device.
    #[default]
    Refuse,
    /// The CPU computes the op: operands are copied to it and results back.
    Cpu,
}

static FALLBACK: AtomicU8 = AtomicU8::new(0);

/// Sets the behaviour if a device has no kernel for an op, for all threads.
///
/// ```
/// use torsh_tensor::devices::{Fallback, fallback, set_fallback};
/// assert_eq!(fallback(), Fallback::Refuse);
/// set_fallback(Fallback::Cpu);
/// # set_fallback(Fallback::Refuse);
/// ```
pub fn set_fallback(to: Fallback) {
    FALLBACK.store(to as u8, Ordering::Relaxed);
}

/// The behaviour if a device has no kernel for an op.
///
/// ```
/// use torsh_tensor::devices::{Fallback, fallback};
/// assert!(matches!(fallback(), Fallback::Refuse));
/// ```
pub fn fallback() -> Fallback {
    match FALLBACK.load(Ordering::Relaxed) {
        0 => Fallback::Refuse,
        _ => Fallback::Cpu,
    }
}

static DEFAULT_DEVICE: RwLock<Device> = RwLock::new(Device::Cpu);
static DEFAULT_IS_CPU: AtomicBool = AtomicBool::new(true);

/// The default device of new tensors (`torch.get_default_device`): the CPU, unless
/// [`set_default_device`] set another.
///
/// ```
/// use torsh_tensor::{Device, default_device};
/// assert_eq!(default_device(), Device::Cpu);
/// ```
#[inline]
pub fn default_device() -> Device {
    match DEFAULT_IS_CPU.load(Ordering::Relaxed) {
        true => Device::Cpu,
        false => *DEFAULT_DEVICE.read(),
    }
}

/// Sets the default device of new tensors (`torch.set_default_device`), for all threads: for
/// `zeros`, `tensor!`, [`Tensor::from_data`], layers and so on. Functions that read files or load
/// data still create CPU tensors.
///
/// ```
/// use torsh_tensor::{Device, default_device, set_default_device};
/// assert_eq!(default_device(), Device::Cpu);
/// set_default_device(Device::Cpu)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the device is not available.
pub fn set_default_device(device: impl Into<Device>) -> Result<()> {
    let device = device.into();
    if device.has_data() {
        torsh_backend::backend(device)?;
    }
    *DEFAULT_DEVICE.write() = device;
    DEFAULT_IS_CPU.store(device.is_host(), Ordering::Relaxed);
    Ok(())
}

type Counts = Mutex<BTreeMap<&'static str, u64>>;

static FALLBACKS: Counts = Mutex::new(BTreeMap::new());
static DEFINED: Counts = Mutex::new(BTreeMap::new());

/// The ops that the CPU computed for a device without their kernel, with their counts.
///
/// ```
/// use torsh_tensor::devices::fallbacks;
/// // The CPU has every kernel, so nothing was computed there for another device.
/// assert!(fallbacks().is_empty());
/// ```
pub fn fallbacks() -> Vec<(&'static str, u64)> {
    FALLBACKS.lock().iter().map(|(n, c)| (*n, *c)).collect()
}

/// The ops that were computed by their definition in other ops, with their counts.
///
/// ```
/// use torsh_tensor::devices::definitions_used;
/// # use torsh_tensor::tensor;
/// tensor![1.0].mish()?;
/// // The CPU has a kernel for it.
/// assert!(definitions_used().iter().all(|(op, _)| !op.contains("mish")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn definitions_used() -> Vec<(&'static str, u64)> {
    DEFINED.lock().iter().map(|(n, c)| (*n, *c)).collect()
}

/// Counts one more; whether it is the first.
fn count(counts: &Counts, record: &'static OpRecord) -> bool {
    let mut counts = counts.lock();
    let n = counts.entry(record.name).or_default();
    *n += 1;
    *n == 1
}

static SYNC_CHECKS: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 2;

/// Makes every call on a device wait for its completion and return its own error. A bad index is
/// then reported by the call that uses it, not by the next wait. This is slow; use it to find
/// errors. The environment variable `TORSH_SYNC_CHECKS=1` enables it from the start.
///
/// ```
/// use torsh_tensor::devices::{set_sync_checks, sync_checks};
/// set_sync_checks(true);
/// assert!(sync_checks());
/// ```
pub fn set_sync_checks(on: bool) {
    SYNC_CHECKS.store(u8::from(on), Ordering::Relaxed);
}

/// Whether every call on a device waits; see [`set_sync_checks`].
///
/// ```
/// use torsh_tensor::devices::{set_sync_checks, sync_checks};
/// set_sync_checks(false);
/// assert!(!sync_checks());
/// ```
pub fn sync_checks() -> bool {
    match SYNC_CHECKS.load(Ordering::Relaxed) {
        UNKNOWN => {
            let on = std::env::var_os("TORSH_SYNC_CHECKS").is_some_and(|v| v == "1");
            set_sync_checks(on);
            on
        }
        on => on == 1,
    }
}

/// Uninitialised memory of a device, for elements of a dtype.
#[inline]
pub(crate) fn allocate(device: Device, dtype: DType, bytes: usize) -> Result<Shared<Storage>> {
    match device {
        Device::Cpu => Storage::shared_host(bytes),
        Device::Meta => Ok(Shared::new(Storage::meta(bytes))),
        d => on_device(d, dtype, bytes),
    }
}

/// Whether tensors of a dtype can live on a device.
pub(crate) fn holds(device: Device, dtype: DType) -> Result<bool> {
    Ok(!device.has_data() || torsh_backend::backend(device)?.supports(dtype))
}

/// The dtype for computations that need precision: float64, or float32 if the device lacks float64.
pub(crate) fn widest(device: Device) -> Result<DType> {
    Ok(match holds(device, DType::F64)? {
        true => DType::F64,
        false => DType::F32,
    })
}

#[cold]
fn on_device(device: Device, dtype: DType, bytes: usize) -> Result<Shared<Storage>> {
    let backend = torsh_backend::backend(device)?;
    if !backend.supports(dtype) {
        return Err(
            TorshError::dtype("", format!("{device} has no {dtype}")).with_hint(match dtype {
                DType::F64 => "use DType::F32, or keep the tensor on the CPU",
                DType::C128 => {
                    "use DType::C64 where the device has it, or keep the tensor on the CPU"
                }
                _ => "keep the tensor on the CPU, or convert it to a dtype that the device has",
            }),
        );
    }
    let storage = backend.allocate(bytes)?;
    // Views are checked against these two.
    if storage.device() != device || storage.bytes() < bytes {
        return Err(TorshError::failed(
            "",
            format!(
                "{device} was asked for {bytes} bytes and gave {} of {}",
                storage.bytes(),
                storage.device()
            ),
        ));
    }
    Ok(Shared::new(storage))
}

/// The device of a call. 0-d CPU tensors are numbers on any device, as in PyTorch.
#[inline]
pub(crate) fn common_device(args: &[Arg<'_>]) -> Result<Device> {
    let mut device: Option<Device> = None;
    for a in args {
        if let Arg::T(t) = a {
            let d = t.device();
            match device {
                None => device = Some(d),
                Some(have) if have == d => {}
                Some(have) => return of_several(args, have),
            }
        }
    }
    Ok(device.unwrap_or_default())
}

#[cold]
fn of_several(args: &[Arg<'_>], first: Device) -> Result<Device> {
    let mut device = None;
    for a in args {
        if let Arg::T(t) = a
            && !is_number(t)
        {
            match device {
                None => device = Some(t.device()),
                Some(d) if d == t.device() => {}
                Some(d) => return Err(mixed(d, t.device())),
            }
        }
    }
    Ok(device.unwrap_or(first))
}

/// Whether a tensor beside those of another device is a number of the call.
pub(crate) fn is_number(t: &Tensor) -> bool {
    t.ndim() == 0 && t.device() == Device::Cpu && !t.storage().is_released()
}

#[cold]
pub(super) fn mixed(a: Device, b: Device) -> TorshError {
    TorshError::device(
        "",
        format!("expected all tensors to be on the same device, but found {a} and {b}"),
    )
    .with_hint("move them with to_device(..) first")
}

/// The error for a tensor that is neither on the device of its call nor a number of it.
#[cold]
pub(crate) fn misplaced(t: &Tensor, device: Device) -> TorshError {
    if t.device() == Device::Meta {
        return TorshError::device(
            "",
            format!("a meta tensor has no data to compute with on {device}"),
        )
        .with_hint("make all operands meta tensors, or none");
    }
    mixed(device, t.device())
}

/// The kernel of an op on a device in a dtype; `None` where the device lacks it.
#[inline]
pub(super) fn find_kernel(
    record: &OpRecord,
    device: Device,
    compute: DType,
) -> Result<Option<(Kernel, KernelFn)>> {
    match record.kernel {
        Some(k) => Ok(torsh_backend::kernel(device, k, compute).map(|f| (k, f))),
        None => Err(TorshError::invalid("", "the op has no kernel of its own")),
    }
}

/// Whether a device that computes lacks the kernel of an op in a dtype. (The CPU's are looked up where they run.)
#[inline]
pub(super) fn lacks_kernel(record: &OpRecord, device: Device, compute: DType) -> Result<bool> {
    let computes = !device.is_host() && device.has_data();
    Ok(computes && find_kernel(record, device, compute)?.is_none())
}

#[cold]
fn no_kernel(record: &OpRecord, device: Device, compute: DType) -> TorshError {
    if let Err(e) = torsh_backend::backend(device) {
        return e;
    }
    TorshError::device(
        "",
        format!(
            "{device} has no kernel for '{}' in {compute}",
            record.base_name()
        ),
    )
    .with_hint("call set_fallback(Fallback::Cpu) to compute such ops on the CPU, or move the operands there with to_device(Device::Cpu)")
}

/// The context of a definition: the operands and arguments of the call, and the shapes and dtypes
/// of its results.
pub struct DefinitionCx<'a> {
    pub(crate) args: &'a [Arg<'a>],
    pub(crate) attrs: &'a dyn Attributes,
    /// The results' shapes and dtypes, as the op's plan says.
    pub outputs: &'a [Spec],
}

impl<'a> DefinitionCx<'a> {
    /// Operand `i`, a tensor or a number.
    pub fn operand(&self, i: usize) -> Result<crate::Operand<'a>> {
        match self.args.get(i) {
            Some(Arg::T(t)) => Ok(crate::Operand::Ref(t)),
            Some(Arg::N(n)) => Ok(crate::Operand::Number(*n)),
            _ => Err(TorshError::invalid(
                "",
                format!("operand {i} must be given"),
            )),
        }
    }
    /// Operand `i` as a tensor: a number becomes a 0-d one of the CPU.
    pub fn tensor(&self, i: usize) -> Result<Tensor> {
        self.operand(i)?.to_tensor()
    }
    /// Operand `i`, where given.
    pub fn opt_tensor(&self, i: usize) -> Option<&'a Tensor> {
        match self.args.get(i) {
            Some(Arg::T(t)) => Some(t),
            _ => None,
        }
    }
    /// The first operand.
    pub fn x(&self) -> Result<Tensor> {
        self.tensor(0)
    }
    /// The second operand.
    pub fn y(&self) -> Result<Tensor> {
        self.tensor(1)
    }
    /// The third operand.
    pub fn z(&self) -> Result<Tensor> {
        self.tensor(2)
    }
    /// How many operands there are, absent ones included.
    pub fn len(&self) -> usize {
        self.args.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }
    /// The call's attributes, of the op's struct.
    ///
    /// # Errors
    /// If the call has another struct.
    pub fn attrs<T: Attributes>(&self) -> Result<&'a T> {
        self.attrs.expect()
    }
    /// A number of a pointwise row's call, by its name in the row.
    ///
    /// # Errors
    /// If the row has no number of that name.
    pub fn number(&self, name: &str) -> Result<Scalar> {
        match self.attrs.field(name) {
            Some(torsh_core::attrs::Field::Scalar(s)) => Ok(s),
            _ => Err(TorshError::invalid(
                "",
                format!("the definition reads the number '{name}', which the call does not have"),
            )),
        }
    }
    /// The device of the call.
    pub fn device(&self) -> Device {
        common_device(self.args).unwrap_or_default()
    }
}

/// Gives a device the check that a 0-d bool of it is true, whose failure it reports later; false
/// where it has no kernel for that.
#[cold]
pub(crate) fn assert_later(
    holds: &Tensor,
    failure: impl Fn() -> Assert,
    site: CallSite,
) -> Result<bool> {
    let device = holds.device();
    let Some(f) = torsh_backend::kernel(device, Kernel::Assert, DType::Bool) else {
        return Ok(false);
    };
    let launch = Launch {
        kernel: (Kernel::Assert, f),
        compute: DType::Bool,
        device,
        outputs: &[],
        inputs: &[raw::view(holds)],
        attrs: &failure(),
        numbers: 0,
        one_layout: false,
        op: site.op,
        at: site.location,
    };
    raw::run(launch, &[(holds.storage().as_ref(), false)])?;
    Ok(true)
}

/// The results of an op whose kernel the device lacks: by its definition in other ops, or on the
/// CPU, or an error.
#[cold]
pub(super) fn without_kernel(
    record: &'static OpRecord,
    compute: DType,
    (device, specs): (Device, &[Spec]),
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Outputs> {
    // The ops of a definition are neither recorded nor cast, because the op itself is.
    let _mode = mode::guard(
        mode::NO_GRAD,
        mode::AUTOCAST | mode::CHECKPOINT | mode::CHECK_FORWARD,
    );
    if let Some(definition) = record.definition {
        count(&DEFINED, record);
        return told(Work::Definition(record), args, attrs, at, || {
            let run = || defined(record, definition, compute, specs, args, attrs);
            crate::check::within(site_of(record, at), run)
        });
    }
    fall_back(record, device, compute)?;
    told(Work::Fallback(record), args, attrs, at, || {
        let outs = specs
            .iter()
            .map(|s| allocate_spec(s, Device::Cpu))
            .collect::<Result<Outputs>>()?;
        on_cpu(record, compute, specs, &outs, args, attrs, at)?;
        outs.iter()
            .map(|t| crate::transfer::moved(t, device).map_err(|e| of_op(e, record, at)))
            .collect()
    })
}

/// Runs the replacement of a kernel, and tells observers what it is.
fn told<T>(
    work: Work<'_>,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    match mode::get() & mode::OBSERVE {
        0 => f(),
        _ => observe::scope(work, args, attrs, Some(at), &[], f),
    }
}

fn site_of(record: &'static OpRecord, location: &'static Location<'static>) -> CallSite {
    CallSite {
        op: record.base_name(),
        location,
    }
}

/// An error of a copy to or from the CPU, as one of the op that is computed there; one of earlier work
/// has an op and a caller of its own.
fn of_op(e: TorshError, record: &OpRecord, at: &'static Location<'static>) -> TorshError {
    match e.info().is_some_and(|i| i.op == "to_device") {
        true => e.renamed(record.base_name()).at(at),
        false => e,
    }
}

/// Whether an op may be computed on the CPU for a device, which is counted; else the error.
fn fall_back(record: &'static OpRecord, device: Device, compute: DType) -> Result<()> {
    // Neither the CPU nor a missing device has a fallback.
    let none = device.is_host() || torsh_backend::backend(device).is_err();
    if none || fallback() == Fallback::Refuse {
        return Err(no_kernel(record, device, compute));
    }
    if count(&FALLBACKS, record) {
        eprintln!(
            "warning: {device} has no kernel for '{}', which is computed on the CPU; devices::fallbacks() counts such calls",
            record.base_name()
        );
    }
    Ok(())
}

/// Runs an op's kernel on the CPU, on copies of operands that are elsewhere.
fn on_cpu(
    record: &'static OpRecord,
    compute: DType,
    specs: &[Spec],
    outs: &[Tensor],
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<()> {
    let copies = changed(args, |t| t.host(record.base_name()).map(Some))
        .map_err(|e| of_op(e, record, at))?;
    let args = replaced(args, &copies);
    match (record.rule, outs.first()) {
        (Rule::Pointwise(_), Some(out)) => {
            run_pointwise::<false>(record, compute, out, &args, attrs, false, at)
        }
        _ => run_structural(record, compute, specs, outs, &args, attrs, true, at),
    }
}

/// An op that writes into tensors of a device without its kernel.
#[cold]
pub(super) fn write_without_kernel(
    record: &'static OpRecord,
    compute: DType,
    targets: &[Tensor],
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<()> {
    let device = targets.first().map_or(Device::Cpu, Tensor::device);
    let _mode = mode::guard(
        mode::NO_GRAD,
        mode::AUTOCAST | mode::CHECKPOINT | mode::CHECK_FORWARD,
    );
    if let Some(definition) = record.definition {
        count(&DEFINED, record);
        let specs: SmallVec<[Spec; 2]> = targets
            .iter()
            .map(|t| Spec::new(t.shape().clone(), t.dtype()))
            .collect();
        return told(Work::Definition(record), args, attrs, at, || {
            let run = || defined(record, definition, compute, &specs, args, attrs);
            let results = crate::check::within(site_of(record, at), run)?;
            targets
                .iter()
                .zip(&results)
                .try_for_each(|(to, from)| overwrite(to, from))
        });
    }
    fall_back(record, device, compute)?;
    told(Work::Fallback(record), args, attrs, at, || {
        let copies = targets
            .iter()
            .map(|t| t.host(record.base_name()))
            .collect::<Result<SmallVec<[Tensor; 2]>>>()
            .map_err(|e| of_op(e, record, at))?;
        on_cpu(record, compute, &[], &copies, args, attrs, at)?;
        for (to, from) in targets.iter().zip(&copies) {
            let moved = crate::transfer::moved(from, device).map_err(|e| of_op(e, record, at))?;
            overwrite(to, &moved)?;
        }
        Ok(())
    })
}

/// Copies a result over a tensor that is there, of its shape, without counting the write.
pub(super) fn overwrite(to: &Tensor, from: &Tensor) -> Result<()> {
    let (record, outs) = (&crate::ops::copy::COPY_, std::slice::from_ref(to));
    let (args, at) = ([Arg::T(from)], Location::caller());
    run_structural(record, to.dtype(), &[], outs, &args, NONE, true, at)
}

/// Runs a definition. The half types compute in float32, as kernels do, and round once at the end.
fn defined(
    record: &'static OpRecord,
    definition: Definition,
    compute: DType,
    specs: &[Spec],
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Outputs> {
    let wide = match compute {
        DType::F16 | DType::BF16 => DType::F32,
        d => d,
    };
    let pointwise = matches!(record.rule, Rule::Pointwise(_));
    let compares = matches!(
        record.rule,
        Rule::Pointwise(Pointwise::Bool | Pointwise::Equality)
    );
    let cast = |t: &Tensor| -> Result<Option<Tensor>> {
        let half = matches!(t.dtype(), DType::F16 | DType::BF16);
        match t.dtype() != wide && (pointwise || half && wide == DType::F32) {
            true => t.to_dtype(wide).map(Some),
            false => Ok(None),
        }
    };
    let casts = changed(args, cast)?;
    let args: SmallVec<[Arg<'_>; 4]> = args
        .iter()
        .zip(&casts)
        .map(|(a, c)| match (a, c) {
            (_, Some(c)) => Arg::T(c),
            // What is compared becomes a half-precision value first, as in kernels.
            (Arg::N(n), None) if compares && compute != wide => {
                Arg::N(Scalar::from_bytes(&n.to_bytes(compute), compute))
            }
            _ => *a,
        })
        .collect();
    let results = definition(&DefinitionCx {
        args: &args,
        attrs,
        outputs: specs,
    })?;
    if results.len() != specs.len() {
        return Err(TorshError::invalid(
            "",
            format!(
                "the definition gave {} results, not {}",
                results.len(),
                specs.len()
            ),
        ));
    }
    results
        .into_iter()
        .zip(specs)
        .map(|(t, s)| conform(t, s))
        .collect()
}

/// A result as the op's plan says it is: of its dtype and layout, with memory of its own.
fn conform(t: Tensor, spec: &Spec) -> Result<Tensor> {
    let t = t.to_dtype(spec.dtype)?;
    if t.shape() != &spec.shape {
        return Err(TorshError::invalid(
            "",
            format!(
                "the definition gave a result of shape {}, not {}",
                t.shape(),
                spec.shape
            ),
        ));
    }
    let fits = match &spec.strides {
        None => t.contiguous_flag(),
        Some(s) => t.stride() == s.as_slice(),
    };
    if fits && t.owns_buffer() {
        return Ok(t);
    }
    let out = allocate_spec(spec, t.device())?;
    overwrite(&out, &t)?;
    Ok(out)
}
