//! Autocast: inside a region, ops compute in a suitable dtype (`torch.autocast`).
//!
//! The [`Autocast`] class of an op's record says how its operands are cast. The dispatcher casts the
//! operands of ops that have a kernel; [`body`] casts those of composite ops. The ops inside a composite
//! op then run as if outside of a region. Backward runs outside, too: it uses the recorded dtypes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::Location;

use smallvec::SmallVec;
use torsh_core::attrs::{CopyTo, MemoryFormat};
use torsh_core::{Attributes, DType, Device, Result, Shared, TorshError, WeakShared};

use crate::Tensor;
use crate::call::{Arg, Outputs, changed, replaced, run_at};
use crate::mode::{self, AUTOCAST, ModeGuard};
use crate::ops::copy::TO_DTYPE;
use crate::options::options;
use crate::record::OpRecord;
use crate::tensor::Inner;

/// What an op does with its floating-point operands in an autocast region, float64 excepted, which
/// is never cast. The classes are those of PyTorch 2.15's CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Autocast {
    /// They stay as they are.
    #[default]
    Keep,
    /// They become the region's dtype: products and convolutions, which gain from it.
    Lower,
    /// They become float32: losses and long sums, which need its range or precision.
    Fp32,
    /// They become the widest of their dtypes.
    Promote,
}

options! {
    /// PyTorch's keyword arguments of `torch.autocast`. A dtype alone converts into them.
    ///
    /// ```
    /// use torsh_tensor::{AutocastOptions, DType};
    /// let options = AutocastOptions::new();
    /// assert_eq!(options.dtype, None);
    /// assert!(options.enabled);
    /// assert_eq!(options.dtype(DType::F64).dtype, Some(DType::F64));
    /// ```
    AutocastOptions {
        /// The dtype to compute in: bfloat16 or float16. By default that of the region around, and
        /// outside of any the device's ([`get_autocast_dtype`]).
        dtype: Option<DType> = None, DType => Some;
        /// Whether ops cast at all: `false` switches a region off inside of another.
        enabled: bool = true;
        /// Whether casts of parameters are kept until the outermost region ends; by default as
        /// around, and outside of any region they are.
        cache_enabled: Option<bool> = None, bool => Some;
    }
}

impl From<DType> for AutocastOptions {
    fn from(dtype: DType) -> Self {
        AutocastOptions::new().dtype(dtype)
    }
}

const KINDS: usize = 5;

/// A device's place in the tables here; the meta device has none.
fn kind(device: Device) -> Option<usize> {
    match device {
        Device::Cpu => Some(0),
        Device::Cuda(_) => Some(1),
        Device::Metal => Some(2),
        Device::Wgpu(_) => Some(3),
        Device::Custom(_) => Some(4),
        Device::Meta => None,
    }
}

/// What a region says, for each kind of device.
#[derive(Clone, Copy)]
pub(crate) struct State {
    enabled: [bool; KINDS],
    dtypes: [DType; KINDS],
    cache: bool,
}

/// The cast of a parameter.
struct Cast {
    /// Keeps the address, which is the key, from being another tensor's.
    source: WeakShared<Inner>,
    version: u64,
    /// Whether gradients flow through it to the parameter.
    recorded: bool,
    result: Tensor,
}

thread_local! {
    static STATE: Cell<State> = const {
        Cell::new(State {
            enabled: [false; KINDS],
            dtypes: [DType::BF16, DType::F16, DType::F16, DType::F16, DType::F16],
            cache: true,
        })
    };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static CACHE: RefCell<HashMap<(usize, DType), Cast>> = RefCell::new(HashMap::new());
}

/// The thread's state, which is off in backward and inside of ops whatever the region says.
pub(crate) fn state() -> State {
    let mut s = STATE.get();
    if mode::get() & AUTOCAST == 0 {
        s.enabled = [false; KINDS];
    }
    s
}

/// Ends the region when dropped.
#[must_use = "the region ends when the guard is dropped"]
pub struct AutocastGuard {
    before: State,
    _mode: ModeGuard,
}

impl std::fmt::Debug for AutocastGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AutocastGuard")
    }
}

impl Drop for AutocastGuard {
    fn drop(&mut self) {
        STATE.set(self.before);
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            clear_autocast_cache();
        }
    }
}

/// Begins a region with a state: a new one, or that of a checkpoint's first run.
pub(crate) fn enter(state: State) -> AutocastGuard {
    let (on, off) = match state.enabled.contains(&true) {
        true => (AUTOCAST, 0),
        false => (0, AUTOCAST),
    };
    let before = STATE.replace(state);
    DEPTH.set(DEPTH.get() + 1);
    AutocastGuard {
        before,
        _mode: mode::guard(on, off),
    }
}

fn check_dtype(dtype: DType) -> Result<DType> {
    match dtype {
        DType::BF16 | DType::F16 => Ok(dtype),
        d => Err(
            TorshError::dtype("autocast", format!("{d} is not a dtype to cast down to"))
                .with_hint("use DType::BF16 or DType::F16"),
        ),
    }
}

fn device_kind(device: Device) -> Result<usize> {
    kind(device).ok_or_else(|| {
        TorshError::invalid(
            "autocast",
            format!("tensors on {device} have no data to cast"),
        )
    })
}

/// A region on one device until the guard is dropped; see [`autocast_with`].
///
/// ```
/// use torsh_tensor::{DType, Device, autocast_guard, tensor};
/// let x = tensor![[1.0, 2.0]];
/// let region = autocast_guard(Device::Cpu, DType::BF16)?;
/// assert_eq!(x.matmul(&x.t()?)?.dtype(), DType::BF16);
/// drop(region);
/// assert_eq!(x.matmul(&x.t()?)?.dtype(), DType::F32);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn autocast_guard(
    device: impl Into<Device>,
    options: impl Into<AutocastOptions>,
) -> Result<AutocastGuard> {
    let (device, options) = (device.into(), options.into());
    let at = device_kind(device)?;
    torsh_backend::backend(device)?;
    let mut s = state();
    if let Some(dtype) = options.dtype {
        s.dtypes[at] = match options.enabled {
            true => check_dtype(dtype)?,
            false => dtype,
        };
    }
    s.enabled[at] = options.enabled;
    s.cache = options.cache_enabled.unwrap_or(s.cache);
    Ok(enter(s))
}

/// Runs `f` with mixed precision (`torch.autocast`): matrix products, convolutions, attention and
/// LSTMs compute in bfloat16 (float16 on GPUs), losses and some others in float32, whatever
/// floating-point dtype but float64 their operands have. `OPERATORS.md` has each op's class.
/// Gradients flow through the casts, so float32 parameters get float32 gradients.
///
/// Call it around the forward pass and the loss; call `backward` outside. Regions belong to their
/// thread. A parameter is cast once: the cast is kept until the outermost region ends.
///
/// ```
/// use torsh_tensor::{DType, autocast, tensor};
/// let w = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad_(true);
/// let x = tensor![[1.0, 0.5]];
/// let y = autocast(|| x.matmul(&w)?.tanh())?;
/// assert_eq!(y.dtype(), DType::BF16);
/// y.to_dtype(DType::F32)?.sum()?.backward()?;
/// assert_eq!(w.grad().expect("w took part").dtype(), DType::F32);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn autocast<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut s = state();
    s.enabled = [true; KINDS];
    let _region = enter(s);
    f()
}

/// [`autocast`] on one device, with a dtype or with [`AutocastOptions`].
///
/// ```
/// use torsh_tensor::{AutocastOptions, DType, Device, autocast_with, tensor};
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
/// let (lower, whole) = autocast_with(Device::Cpu, DType::F16, || {
///     let off = AutocastOptions::new().enabled(false);
///     Ok((x.mm(&x)?, autocast_with(Device::Cpu, off, || x.mm(&x))?))
/// })?;
/// assert_eq!((lower.dtype(), whole.dtype()), (DType::F16, DType::F32));
/// assert_eq!(lower.to_vec::<f32>()?, [7.0, 10.0, 15.0, 22.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A dtype other than bfloat16 and float16, a device that is not there, or what `f` returns.
#[torsh_tensor::names_caller]
pub fn autocast_with<T>(
    device: impl Into<Device>,
    options: impl Into<AutocastOptions>,
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let _region = autocast_guard(device, options)?;
    f()
}

/// Whether ops on a device cast their operands on this thread (`torch.is_autocast_enabled`).
///
/// ```
/// use torsh_tensor::{Device, autocast, is_autocast_enabled};
/// assert!(!is_autocast_enabled(Device::Cpu));
/// autocast(|| {
///     assert!(is_autocast_enabled(Device::Cpu));
///     Ok(())
/// })?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn is_autocast_enabled(device: impl Into<Device>) -> bool {
    kind(device.into()).is_some_and(|at| state().enabled[at])
}

/// The dtype a region on a device computes in where none is named (`torch.get_autocast_dtype`):
/// the innermost region's, else bfloat16 on the CPU and float16 on GPUs.
///
/// ```
/// use torsh_tensor::{DType, Device, get_autocast_dtype};
/// assert_eq!(get_autocast_dtype(Device::Cpu)?, DType::BF16);
/// assert!(get_autocast_dtype(Device::Meta).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// The meta device, which has none.
#[torsh_tensor::names_caller]
pub fn get_autocast_dtype(device: impl Into<Device>) -> Result<DType> {
    Ok(STATE.get().dtypes[device_kind(device.into())?])
}

/// Sets the dtype of [`get_autocast_dtype`] for this thread (`torch.set_autocast_dtype`); inside of
/// a region until it ends.
///
/// ```
/// use torsh_tensor::{DType, Device, get_autocast_dtype, set_autocast_dtype};
/// set_autocast_dtype(Device::Cpu, DType::F16)?;
/// assert_eq!(get_autocast_dtype(Device::Cpu)?, DType::F16);
/// assert!(set_autocast_dtype(Device::Cpu, DType::I64).is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A dtype other than bfloat16 and float16; the meta device.
#[torsh_tensor::names_caller]
pub fn set_autocast_dtype(device: impl Into<Device>, dtype: DType) -> Result<()> {
    let mut s = STATE.get();
    s.dtypes[device_kind(device.into())?] = check_dtype(dtype)?;
    STATE.set(s);
    Ok(())
}

/// Whether casts of parameters are kept within a region (`torch.is_autocast_cache_enabled`).
///
/// ```
/// use torsh_tensor::is_autocast_cache_enabled;
/// assert!(is_autocast_cache_enabled());
/// ```
pub fn is_autocast_cache_enabled() -> bool {
    STATE.get().cache
}

/// Drops the casts of parameters kept on this thread (`torch.clear_autocast_cache`), which the end
/// of the outermost region does too.
pub fn clear_autocast_cache() {
    // Taken out first: dropping a tensor may run anything.
    drop(CACHE.take());
}

/// The region's dtype where `t` is one of those it casts.
pub(crate) fn lower(t: &Tensor) -> Option<DType> {
    let at = kind(t.device())?;
    let s = state();
    (s.enabled[at] && matches!(t.dtype(), DType::F32 | DType::F16 | DType::BF16))
        .then_some(s.dtypes[at])
}

/// `t` in the dtype an op of a class computes in; `None` where it has it already, or is not cast.
fn cast(
    t: &Tensor,
    class: Autocast,
    widest: DType,
    at: &'static Location<'static>,
) -> Result<Option<Tensor>> {
    let Some(lower) = lower(t) else {
        return Ok(None);
    };
    let to = match class {
        Autocast::Keep => return Ok(None),
        Autocast::Lower => lower,
        Autocast::Fp32 => DType::F32,
        Autocast::Promote => widest,
    };
    if to == t.dtype() {
        return Ok(None);
    }
    // Parameters: what many calls of a region share.
    let leaf = to == lower && t.dtype() == DType::F32 && t.requires_grad() && t.is_leaf();
    if leaf && STATE.get().cache && t.view_of().is_none() {
        return cached(t, to, at).map(Some);
    }
    convert(t, to, at).map(Some)
}

fn convert(t: &Tensor, to: DType, at: &'static Location<'static>) -> Result<Tensor> {
    let attrs = CopyTo {
        dtype: to,
        memory_format: MemoryFormat::Preserve,
    };
    run_at(&TO_DTYPE, &[Arg::T(t)], &attrs, at).map(|mut o| o.swap_remove(0))
}

fn cached(t: &Tensor, to: DType, at: &'static Location<'static>) -> Result<Tensor> {
    let key = (Shared::as_ptr(&t.0) as usize, to);
    let recorded = mode::is_grad_enabled();
    let have = CACHE.with_borrow(|c| {
        let have = c.get(&key)?;
        let same = have.source.strong_count() > 0 && have.version == t.version();
        (same && (have.recorded || !recorded)).then(|| have.result.clone())
    });
    if let Some(have) = have {
        return Ok(have);
    }
    let result = convert(t, to, at)?;
    let entry = Cast {
        source: Shared::downgrade(&t.0),
        version: t.version(),
        recorded,
        result: result.clone(),
    };
    let old = CACHE.with_borrow_mut(|c| c.insert(key, entry));
    drop(old);
    Ok(result)
}

/// The widest dtype of operands that promote.
fn widest<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> DType {
    let mut dtypes = tensors.filter(|t| lower(t).is_some()).map(Tensor::dtype);
    let first = dtypes.next().unwrap_or(DType::F32);
    match dtypes.all(|d| d == first) {
        true => first,
        false => DType::F32,
    }
}

/// A call of an op with a class, inside of a region.
#[cold]
pub(crate) fn call(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Outputs> {
    let class = record.autocast;
    let tensors = args.iter().filter_map(|a| match a {
        Arg::T(t) => Some(*t),
        _ => None,
    });
    let widest = match class {
        Autocast::Promote => widest(tensors),
        _ => DType::F32,
    };
    let casts = changed(args, |t| cast(t, class, widest, at))?;
    run_at(record, &replaced(args, &casts), attrs, at)
}

/// The body of a composite op: in a region it gets its operands cast as the op's class asks, and
/// the ops it is made of run as outside of any region.
#[track_caller]
pub(crate) fn body<R, const N: usize>(
    class: Autocast,
    tensors: [&Tensor; N],
    f: impl FnOnce([&Tensor; N]) -> Result<R>,
) -> Result<R> {
    if mode::get() & AUTOCAST == 0 {
        return f(tensors);
    }
    let at = Location::caller();
    let casts = tensors
        .iter()
        .map(|t| cast(t, class, DType::F32, at))
        .collect::<Result<SmallVec<[Option<Tensor>; 4]>>>()?;
    let _off = off();
    f(std::array::from_fn(|i| {
        casts[i].as_ref().unwrap_or(tensors[i])
    }))
}

/// [`body`] with an operand that may be absent.
#[track_caller]
pub(crate) fn body_opt<R, const N: usize>(
    class: Autocast,
    tensors: [&Tensor; N],
    more: Option<&Tensor>,
    f: impl FnOnce([&Tensor; N], Option<&Tensor>) -> Result<R>,
) -> Result<R> {
    if mode::get() & AUTOCAST == 0 {
        return f(tensors, more);
    }
    let cast = more
        .map(|t| cast(t, class, DType::F32, Location::caller()))
        .transpose()?
        .flatten();
    body(class, tensors, |tensors| f(tensors, cast.as_ref().or(more)))
}

/// `t` in the region's dtype.
pub(crate) fn lowered(t: &Tensor, at: &'static Location<'static>) -> Result<Tensor> {
    Ok(cast(t, Autocast::Lower, DType::F32, at)?.unwrap_or_else(|| t.clone()))
}

/// No casts until the guard is dropped.
pub(crate) fn off() -> ModeGuard {
    mode::guard(0, AUTOCAST)
}
