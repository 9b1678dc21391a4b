//! The choke point: every op of every backend goes through one of the functions here.
//!
//! In order: read the thread's mode, promote, infer shapes, allocate, lock, run the kernel,
//! record. Nothing else in the crate allocates results, takes locks or makes nodes.

mod inplace;
mod recording;

use std::panic::Location;

use smallvec::SmallVec;
use torsh_core::{
    Attr, DType, Device, Kernel, KernelArgs, KernelFn, Layout, OnceBox, Promotion, Result, Scalar,
    Shape, Shared, Storage, Strides, TorshError, View, lock_all,
};

use crate::Tensor;
use crate::autocast::Autocast;
use crate::mode;
use crate::node::{Input, InputSpec, Kept, Kind, Node, Output, Saved, SavedArg};
use crate::observe;
use crate::record::{Backward, OpRecord, PlanCx, Pointwise, Rule, Spec, ViewCx};
use crate::tensor::{Creation, Inner, Memory, Meta, State, ViewOf};

pub use inplace::call_inplace;
pub(crate) use inplace::{update, write_fresh, write_into};
pub(crate) use recording::{attach, make_node};
use recording::{record_all, record_one, recording};

/// An operand of a call.
#[derive(Clone, Copy)]
pub enum Arg<'a> {
    /// A tensor.
    T(&'a Tensor),
    /// A number.
    N(Scalar),
    /// An optional operand that is not given.
    Absent,
}

impl<'a> Arg<'a> {
    /// An optional tensor.
    pub fn opt(t: Option<&'a Tensor>) -> Arg<'a> {
        t.map_or(Arg::Absent, Arg::T)
    }
}

/// The results of a call.
pub type Outputs = SmallVec<[Tensor; 2]>;

/// Uninitialised memory of a device.
#[inline]
pub(crate) fn allocate(device: Device, bytes: usize) -> Result<Shared<Storage>> {
    match device {
        Device::Cpu => Storage::shared_host(bytes),
        Device::Meta => Ok(Shared::new(Storage::meta(bytes))),
        d => Ok(Shared::new(torsh_backend::backend(d)?.allocate(bytes)?)),
    }
}

static ZERO_STRIDES: [isize; 64] = [0; 64];

#[cold]
#[inline(never)]
fn in_op(
    e: TorshError,
    record: &'static OpRecord,
    args: &[Arg<'_>],
    at: &'static Location<'static>,
) -> TorshError {
    e.in_op(record.base_name(), || describe(args), at)
}

fn describe(args: &[Arg<'_>]) -> Vec<String> {
    args.iter()
        .map(|a| match a {
            Arg::T(t) => t.describe(),
            Arg::N(n) => n.to_string(),
            Arg::Absent => "None".into(),
        })
        .collect()
}

/// The device all operands are on. 0-d CPU tensors go with any device, as in PyTorch.
#[inline]
pub(crate) fn common_device(args: &[Arg<'_>]) -> Result<Device> {
    let mut device: Option<Device> = None;
    for a in args {
        if let Arg::T(t) = a {
            let d = t.device();
            match device {
                None => device = Some(d),
                Some(have) if have == d => {}
                Some(have) => return mixed_devices(args, have),
            }
        }
    }
    Ok(device.unwrap_or_default())
}

#[cold]
fn mixed_devices(args: &[Arg<'_>], first: Device) -> Result<Device> {
    let mut device = None;
    for a in args {
        if let Arg::T(t) = a
            && !(t.ndim() == 0 && t.device() == Device::Cpu)
        {
            match device {
                None => device = Some(t.device()),
                Some(d) if d == t.device() => {}
                Some(d) => {
                    return Err(TorshError::device(
                        "",
                        format!(
                            "expected all tensors to be on the same device, but found {d} and {}",
                            t.device()
                        ),
                    )
                    .with_hint("move them with to_device(..) first"));
                }
            }
        }
    }
    let device = device.unwrap_or(first);
    if device.is_host() || device == Device::Meta {
        return Ok(device);
    }
    Err(TorshError::device(
        "",
        format!("a 0-d cpu tensor cannot yet be an operand on {device}"),
    ))
}

#[cold]
fn no_kernel(kernel: Kernel, device: Device) -> TorshError {
    TorshError::device(
        "",
        format!("the backend of {device} has no kernel {kernel:?}"),
    )
    .with_hint("move the operands to the CPU with to_device(Device::Cpu)")
}

#[cold]
fn no_data(device: Device) -> TorshError {
    TorshError::device(
        "",
        format!("a meta tensor has no data to compute with on {device}"),
    )
    .with_hint("make all operands meta tensors, or none")
}

#[inline]
fn find_kernel(record: &OpRecord, device: Device) -> Result<(Kernel, KernelFn)> {
    match record.kernel {
        Some(k) => match torsh_backend::kernel(device, k) {
            Some(f) => Ok((k, f)),
            None => Err(no_kernel(k, device)),
        },
        None => Err(TorshError::invalid("", "the op has no kernel of its own")),
    }
}

/// Runs an op and returns its only (or first) result.
#[inline]
#[track_caller]
pub fn call1(record: &'static OpRecord, args: &[Arg<'_>], attrs: &[Attr<'_>]) -> Result<Tensor> {
    let at = Location::caller();
    if mode::get() & mode::WATCHED != 0 {
        return watched(record, args, attrs, at).map(first);
    }
    let r = match record.rule {
        Rule::Pointwise(rule) => pointwise(record, rule, args, attrs, at),
        Rule::View(_) => view(record, args, attrs, at),
        _ => return Ok(first(dispatch(record, args, attrs, at)?)),
    };
    r.map_err(|e| in_op(e, record, args, at))
}

fn first(outputs: Outputs) -> Tensor {
    match outputs.into_iter().next() {
        Some(t) => t,
        None => unreachable!("every plan has at least one result"),
    }
}

/// A reduction of all elements of a tensor to a 0-d one of a dtype, without the plan of its shape;
/// the kernel sees a result without dimensions.
#[track_caller]
pub(crate) fn call_whole(
    record: &'static OpRecord,
    x: &Tensor,
    dtype: DType,
    attrs: &[Attr<'_>],
) -> Result<Tensor> {
    let (at, args) = (Location::caller(), [Arg::T(x)]);
    let usual = x.contiguous_flag() && x.device() == Device::Cpu;
    if !usual || mode::get() & mode::WATCHED != 0 {
        return call1(record, &args, attrs);
    }
    whole(record, x, dtype, attrs, at).map_err(|e| in_op(e, record, &args, at))
}

fn whole(
    record: &'static OpRecord,
    x: &Tensor,
    dtype: DType,
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let out = Tensor::uninit(Shape::default(), dtype, x.device())?;
    let (kernel, f) = find_kernel(record, x.device())?;
    let guard = lock_all(&[(x.storage().as_ref(), false)]);
    let r = f(&KernelArgs {
        kernel,
        compute: x.dtype(),
        outputs: &[view_of(&out)],
        inputs: &[view_of(x)],
        attrs,
    });
    drop(guard);
    r?;
    record_one(record, &[Arg::T(x)], attrs, out, at)
}

/// Runs an op and returns all its results.
#[track_caller]
pub fn call(record: &'static OpRecord, args: &[Arg<'_>], attrs: &[Attr<'_>]) -> Result<Outputs> {
    call_at(record, args, attrs, Location::caller())
}

fn call_at(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Outputs> {
    if mode::get() & mode::WATCHED != 0 {
        return watched(record, args, attrs, at);
    }
    dispatch(record, args, attrs, at)
}

/// A call while somebody watches or a region casts.
#[cold]
fn watched(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Outputs> {
    if record.autocast != Autocast::Keep && mode::get() & mode::AUTOCAST != 0 {
        return crate::autocast::call(record, args, attrs, at);
    }
    run_at(record, args, attrs, at)
}

/// Runs an op on operands as they are.
pub(crate) fn run_at(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Outputs> {
    let mode = mode::get();
    let run = || {
        let outs = dispatch(record, args, attrs, at)?;
        if mode & mode::CHECK_FORWARD != 0 {
            crate::anomaly::check(&outs, || crate::anomaly::clean(args, attrs))
                .map_err(|e| in_op(e, record, args, at))?;
        }
        Ok(outs)
    };
    match mode & mode::OBSERVE {
        0 => run(),
        _ => observe::op(record, args, attrs, at, run),
    }
}

fn dispatch(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Outputs> {
    let r = match record.rule {
        Rule::Pointwise(rule) => {
            pointwise(record, rule, args, attrs, at).map(|t| SmallVec::from_iter([t]))
        }
        Rule::View(_) | Rule::ViewAs(_) => {
            view(record, args, attrs, at).map(|t| SmallVec::from_iter([t]))
        }
        Rule::Kernel(plan) => structural(record, plan, args, attrs, at),
        Rule::Composite => Err(TorshError::invalid(
            "",
            "a composite op does not go through the choke point",
        )),
    };
    r.map_err(|e| in_op(e, record, args, at))
}

/// The first tensor, where all tensors are like it: row-major, of its shape, dtype and device, and
/// beside numbers that leave the dtype as it is. This is the common case, found in one pass.
#[inline]
fn uniform<'a>(args: &[Arg<'a>]) -> Option<&'a Tensor> {
    let mut first: Option<&'a Tensor> = None;
    let mut numbers = false;
    for a in args {
        match *a {
            Arg::T(t) => match first {
                None if t.contiguous_flag() => first = Some(t),
                Some(f) if t.is_same(f) => {}
                Some(f)
                    if t.contiguous_flag()
                        && t.dtype() == f.dtype()
                        && t.shape() == f.shape()
                        && t.device() == f.device() => {}
                _ => return None,
            },
            Arg::N(Scalar::Complex(..)) => return None,
            Arg::N(_) => numbers = true,
            Arg::Absent => {}
        }
    }
    first.filter(|f| !numbers || f.dtype().is_floating_point())
}

/// The promotion of all operands.
pub(crate) fn promotion(args: &[Arg<'_>]) -> Promotion {
    let mut p = Promotion::default();
    for a in args {
        match a {
            Arg::T(t) => p.tensor(t.dtype(), t.ndim()),
            Arg::N(n) => p.number(*n),
            Arg::Absent => {}
        }
    }
    p
}

/// The common dtype of a pointwise op's operands.
fn promoted(rule: Pointwise, args: &[Arg<'_>]) -> Result<DType> {
    let p = promotion(args);
    let d = match rule {
        Pointwise::Equality => p.result_or_complex64(),
        _ => p.result()?,
    };
    Ok(d.unwrap_or_else(torsh_core::default_dtype))
}

/// The dtype a pointwise op computes in, and its result's.
#[inline]
fn pointwise_dtypes(rule: Pointwise, promoted: DType, args: &[Arg<'_>]) -> Result<(DType, DType)> {
    Ok(match rule {
        Pointwise::Promote => (promoted, promoted),
        Pointwise::Number => {
            if args.iter().any(is_bool) {
                return Err(TorshError::dtype("", "the `-` operator, with a bool tensor is not supported")
                    .with_hint("to invert a mask use logical_not() or `!`; to compute, convert it with to_dtype(DType::I64)"));
            }
            (promoted, promoted)
        }
        Pointwise::Bool | Pointwise::Equality => (promoted, DType::Bool),
        Pointwise::Real => (promoted, promoted.to_real()),
        Pointwise::Float => {
            let d = if promoted.is_differentiable() {
                promoted
            } else {
                torsh_core::default_dtype()
            };
            (d, d)
        }
    })
}

fn is_bool(a: &Arg<'_>) -> bool {
    match a {
        Arg::T(t) => t.dtype() == DType::Bool,
        Arg::N(n) => matches!(n, Scalar::Bool(_)),
        Arg::Absent => false,
    }
}

/// The shape operands broadcast to; `None` where all have the first tensor's.
fn broadcast_shape(args: &[Arg<'_>]) -> Result<Shape> {
    let mut shape: Option<Shape> = None;
    for a in args {
        if let Arg::T(t) = a {
            shape = Some(match shape {
                None => t.shape().clone(),
                Some(s) => s.broadcast(t.shape())?,
            });
        }
    }
    Ok(shape.unwrap_or_default())
}

/// The strides of a pointwise result: the memory order of the first operand of that shape that is
/// dense but not row-major (channels-last stays channels-last), else row-major.
fn result_strides(shape: &Shape, args: &[Arg<'_>]) -> Option<Strides> {
    let mut strides = None;
    for a in args {
        if let Arg::T(t) = a
            && t.shape() == shape
        {
            if t.contiguous_flag() {
                return None;
            }
            if strides.is_none() {
                strides = Some(memory_order_strides(shape, t.stride()));
            }
        }
    }
    strides
}

/// Dense strides of `shape` whose dimensions lie in memory as those of `like` do.
pub(crate) fn memory_order_strides(shape: &Shape, like: &[isize]) -> Strides {
    let mut order: SmallVec<[usize; 6]> = (0..shape.ndim()).collect();
    // Stable, so that ties (and expanded dimensions, which order nothing) keep their order.
    order.sort_by(|&a, &b| {
        let (x, y) = (like[a], like[b]);
        if x == 0 || y == 0 || shape[a] == 1 || shape[b] == 1 {
            a.cmp(&b)
        } else {
            y.cmp(&x)
        }
    });
    let mut strides = Strides::from_elem(0, shape.ndim());
    let mut step = 1isize;
    for &d in order.iter().rev() {
        strides[d] = step;
        step *= shape[d].max(1) as isize;
    }
    strides
}

fn pointwise(
    record: &'static OpRecord,
    rule: Pointwise,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Tensor> {
    if let Some(first) = uniform(args) {
        let (compute, dtype) = pointwise_dtypes(rule, first.dtype(), args)?;
        let out = Tensor::uninit_like(first.layout(), dtype, first.device())?;
        run_pointwise(record, compute, &out, args, attrs, true, false)?;
        return record_one(record, args, attrs, out, at);
    }
    let device = common_device(args)?;
    let (compute, dtype) = pointwise_dtypes(rule, promoted(rule, args)?, args)?;
    let shape = broadcast_shape(args)?;
    let n = shape.checked_numel(dtype.size())?;
    let strides = result_strides(&shape, args).unwrap_or_else(|| shape.contiguous_strides());
    let storage = allocate(device, n * dtype.size())?;
    let out = Tensor::from_parts(storage, Layout::new(shape, strides, 0), dtype).made();
    run_pointwise(record, compute, &out, args, attrs, false, false)?;
    record_one(record, args, attrs, out, at)
}

/// The most operands a pointwise op has.
const MAX_OPERANDS: usize = 4;

/// Runs the kernel of a pointwise op into `out`. `same_shape` says that every tensor has the
/// result's shape and is row-major.
fn run_pointwise(
    record: &'static OpRecord,
    compute: DType,
    out: &Tensor,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    same_shape: bool,
    lock_out: bool,
) -> Result<()> {
    let device = out.device();
    if device == Device::Meta {
        return Ok(());
    }
    let (kernel, f) = find_kernel(record, device)?;
    let (shape, strides) = (out.dims(), out.stride());
    if shape.len() > ZERO_STRIDES.len() || args.len() > MAX_OPERANDS {
        return Err(TorshError::shape(
            "",
            format!("tensors have at most {} dimensions", ZERO_STRIDES.len()),
        ));
    }
    // Numbers are operands with stride 0. The half types compute in float32, numbers included.
    let number_dtype = if matches!(compute, DType::F16 | DType::BF16) {
        DType::F32
    } else {
        compute
    };
    let mut numbers = [[0u8; 16]; MAX_OPERANDS];
    for (i, a) in args.iter().enumerate() {
        match a {
            // Only the bytes that the kernel reads: it would wait for wider ones to be put together.
            Arg::N(v) if number_dtype == DType::F32 => {
                numbers[i][..4].copy_from_slice(&(v.to_f64() as f32).to_ne_bytes());
            }
            Arg::N(v) => numbers[i] = v.to_bytes(number_dtype),
            _ => {}
        }
    }
    let mut expanded: SmallVec<[Strides; 3]> = SmallVec::new();
    if !same_shape {
        expanded.extend(args.iter().map(|a| match a {
            Arg::T(t) => t.layout().broadcast_strides(out.shape()),
            _ => Strides::new(),
        }));
    }
    let mut inputs = [View::ABSENT; MAX_OPERANDS];
    let mut locks = [(out.storage().as_ref(), true); MAX_OPERANDS + 1];
    let mut locked = usize::from(lock_out);
    for (i, a) in args.iter().enumerate() {
        inputs[i] = match a {
            Arg::T(t) => {
                if t.device() == Device::Meta {
                    return Err(no_data(device));
                }
                locks[locked] = (t.storage().as_ref(), false);
                locked += 1;
                View {
                    ptr: element_ptr(t),
                    dtype: t.dtype(),
                    shape,
                    // The very slice of the result, by which the kernel knows the layout.
                    strides: if same_shape { strides } else { &expanded[i] },
                }
            }
            Arg::N(_) => View {
                ptr: numbers[i].as_ptr() as *mut u8,
                dtype: number_dtype,
                shape,
                strides: &ZERO_STRIDES[..shape.len()],
            },
            Arg::Absent => View::ABSENT,
        };
    }
    let outputs = [View {
        ptr: element_ptr(out),
        dtype: out.dtype(),
        shape,
        strides,
    }];
    let guard = lock_all(&locks[..locked]);
    let r = f(&KernelArgs {
        kernel,
        compute,
        outputs: &outputs,
        inputs: &inputs[..args.len()],
        attrs,
    });
    drop(guard);
    r
}

/// The address of a tensor's first element.
#[inline]
pub(crate) fn element_ptr(t: &Tensor) -> *mut u8 {
    // The offset of a layout lies inside its storage (or is 0), so this stays in bounds; an
    // address is only computed here, nothing is read.
    t.storage()
        .ptr()
        .wrapping_add(t.layout().offset * t.dtype().size())
}

/// A tensor as kernels see it.
#[inline]
fn view_of(t: &Tensor) -> View<'_> {
    View {
        ptr: element_ptr(t),
        dtype: t.dtype(),
        shape: t.dims(),
        strides: t.stride(),
    }
}

fn structural(
    record: &'static OpRecord,
    plan: fn(&PlanCx<'_>) -> Result<crate::record::Plan>,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Outputs> {
    let device = match attrs.iter().find_map(|a| {
        if let Attr::Device(d) = a {
            Some(*d)
        } else {
            None
        }
    }) {
        Some(d) => d,
        None => common_device(args)?,
    };
    match plan(&PlanCx { args, attrs }) {
        // A plan is large, so it is not moved.
        Ok(ref plan) => planned(record, plan, device, args, attrs, at),
        Err(e) => Err(e),
    }
}

/// [`structural`], of a plan.
#[inline]
fn planned(
    record: &'static OpRecord,
    plan: &crate::record::Plan,
    device: Device,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Outputs> {
    let mut outs = Outputs::new();
    for s in &plan.outputs {
        outs.push(allocate_spec(s, device)?);
    }
    run_structural(
        record,
        plan.compute,
        &plan.outputs,
        &outs,
        args,
        attrs,
        false,
    )?;
    record_all(record, args, attrs, outs, at)
}

fn allocate_spec(s: &Spec, device: Device) -> Result<Tensor> {
    match &s.strides {
        None => Tensor::uninit_of(&s.shape, s.dtype, device),
        Some(strides) => {
            let n = s.shape.checked_numel(s.dtype.size())?;
            let storage = allocate(device, n * s.dtype.size())?;
            let layout = Layout::new(s.shape.clone(), strides.clone(), 0);
            Ok(Tensor::from_parts(storage, layout, s.dtype).made())
        }
    }
}

fn run_structural(
    record: &'static OpRecord,
    compute: DType,
    specs: &[Spec],
    outs: &[Tensor],
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    lock_out: bool,
) -> Result<()> {
    let device = outs.first().map_or(Device::Cpu, Tensor::device);
    if device == Device::Meta {
        return Ok(());
    }
    let (kernel, f) = find_kernel(record, device)?;
    let mut locks: SmallVec<[(&Storage, bool); 4]> = SmallVec::new();
    let mut inputs: SmallVec<[View<'_>; 4]> = SmallVec::new();
    for a in args {
        inputs.push(match a {
            Arg::T(t) => {
                if t.device() == Device::Meta {
                    return Err(no_data(device));
                }
                locks.push((t.storage().as_ref(), false));
                view_of(t)
            }
            _ => View::ABSENT,
        });
    }
    let mut kernel_strides: SmallVec<[Option<Strides>; 2]> = SmallVec::new();
    for spec in specs {
        kernel_strides.push(spec.kernel_shape.as_ref().map(Shape::contiguous_strides));
    }
    let mut outputs: SmallVec<[View<'_>; 2]> = SmallVec::new();
    for (i, t) in outs.iter().enumerate() {
        if lock_out {
            locks.push((t.storage().as_ref(), true));
        }
        let (shape, strides) = match (
            specs.get(i).and_then(|s| s.kernel_shape.as_ref()),
            kernel_strides.get(i),
        ) {
            (Some(s), Some(Some(st))) => (s.dims(), st.as_slice()),
            _ => (t.dims(), t.stride()),
        };
        outputs.push(View {
            ptr: element_ptr(t),
            dtype: t.dtype(),
            shape,
            strides,
        });
    }
    let guard = lock_all(&locks);
    let r = f(&KernelArgs {
        kernel,
        compute,
        outputs: &outputs,
        inputs: &inputs,
        attrs,
    });
    drop(guard);
    r
}

fn view(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let Some(Arg::T(x)) = args.first() else {
        return Err(TorshError::invalid("", "a view needs a tensor"));
    };
    let cx = ViewCx {
        layout: x.layout(),
        dtype: x.dtype(),
        attrs,
    };
    let creation = if mode::is_grad_enabled() {
        Creation::Recorded
    } else {
        Creation::NoGrad
    };
    let dtype = x.dtype();
    let out = match record.rule {
        Rule::View(f) => make_view(x, dtype, creation, |layout| {
            f(&cx, layout)?;
            within(layout, dtype, x)
        })?,
        Rule::ViewAs(f) => {
            let (mut layout, dtype) = f(&cx)?;
            within(&mut layout, dtype, x)?;
            if record.is_differentiable() {
                make_view(x, dtype, creation, becomes(layout))?
            } else {
                // The bits as another dtype: nothing that autograd could follow.
                Tensor::from_parts(x.storage().clone(), layout, dtype)
            }
        }
        _ => return Err(TorshError::invalid("", "not a view")),
    };
    record_one(record, args, attrs, out, at)
}

/// Strides beyond this are none that memory could have.
const LONGEST: usize = isize::MAX as usize / 64;

/// Whether a layout without negative strides plainly lies inside of a storage, nothing overflowing
/// on the way: what [`check_view`] finds out of any layout.
#[inline]
fn lies_within(layout: &Layout, element_size: usize, storage: &Storage) -> bool {
    let (mut numel, mut last) = (element_size, layout.offset);
    for (&n, &s) in layout.shape.iter().zip(&layout.strides) {
        let s = s as usize;
        let (product, overflow) = numel.overflowing_mul(n);
        if n == 0 || overflow || s > LONGEST {
            return false;
        }
        let Some(span) = (n - 1).checked_mul(s) else {
            return false;
        };
        (numel, last) = (product, last.saturating_add(span));
    }
    numel <= isize::MAX as usize
        && last < storage.bytes() / element_size
        && storage.device() != Device::Meta
}

/// Refuses a view of a tensor that overflows or leaves its storage.
#[inline]
fn within(layout: &mut Layout, dtype: DType, x: &Tensor) -> Result<()> {
    match lies_within(layout, dtype.size(), x.storage()) {
        true => Ok(()),
        false => check_view(layout, dtype, x),
    }
}

/// What [`within`] does about layouts that are not plain.
#[cold]
fn check_view(layout: &mut Layout, dtype: DType, x: &Tensor) -> Result<()> {
    layout.check(dtype.size())?;
    // Where there is no second index its distance means nothing, but later views compute with it.
    for (&n, s) in layout.shape.iter().zip(&mut layout.strides) {
        if n <= 1 && s.unsigned_abs() > LONGEST {
            *s = 1;
        }
    }
    if let Some((_, end)) = layout.extent()
        && x.device() != Device::Meta
        && end * dtype.size() > x.storage().bytes()
    {
        return Err(TorshError::invalid(
            "",
            format!(
                "the view reaches element {end} of a storage of {} elements",
                x.storage().bytes() / dtype.size()
            ),
        ));
    }
    Ok(())
}

/// What one of several views takes: the tensor, its place in the graph and its node's record.
const VIEW_BYTES: usize =
    size_of::<crate::tensor::Inner>() + size_of::<Tensor>() + 3 * size_of::<Output>();

/// Several views of one tensor, recorded as the results of one node. Writing into one of them in
/// place is refused while gradients are recorded, as PyTorch refuses it.
#[track_caller]
pub(crate) fn call_views(
    record: &'static OpRecord,
    x: &Tensor,
    layouts: impl Iterator<Item = Layout>,
    attrs: &[Attr<'_>],
) -> Result<Outputs> {
    let at = Location::caller();
    let args = [Arg::T(x)];
    let creation = if mode::is_grad_enabled() {
        Creation::Multiple
    } else {
        Creation::NoGrad
    };
    // How many there are is a caller's number, which no storage bounds.
    let n = layouts.size_hint().0;
    torsh_core::alloc::check(n, VIEW_BYTES).map_err(|e| in_op(e.into(), record, &args, at))?;
    let outs: Outputs = layouts
        .map(|l| make_view(x, x.dtype(), creation, becomes(l)))
        .collect::<Result<_>>()?;
    if outs.is_empty() {
        return Ok(outs);
    }
    let record_them =
        || record_all(record, &args, attrs, outs, at).map_err(|e| in_op(e, record, &args, at));
    if mode::get() & mode::OBSERVE != 0 {
        return observe::op(record, &args, attrs, at, record_them);
    }
    record_them()
}

/// A change of a view's layout into one that is made already.
pub(crate) fn becomes(layout: Layout) -> impl FnOnce(&mut Layout) -> Result<()> {
    |l| {
        *l = layout;
        Ok(())
    }
}

/// A tensor of another layout on the same storage, which knows its base where gradients are
/// possible. The layout is that of `x` until `change` makes another of it, where it stays: to move
/// it would cost as much as the rest.
#[inline]
pub(crate) fn make_view(
    x: &Tensor,
    dtype: DType,
    creation: Creation,
    change: impl FnOnce(&mut Layout) -> Result<()>,
) -> Result<Tensor> {
    let inference = x.is_inference();
    let memory = || {
        if !dtype.is_differentiable() && !inference {
            return Memory::Own(x.storage().clone());
        }
        let version = x.version();
        Memory::View(match x.view_of() {
            Some(v) => ViewOf {
                base: v.base.clone(),
                creation: match v.creation {
                    Creation::Recorded => creation,
                    other => other,
                },
                version,
            },
            None => ViewOf {
                base: x.clone(),
                creation,
                version,
            },
        })
    };
    let mut out = Tensor(Shared::with(|| Inner {
        memory: memory(),
        layout: Layout::scalar(),
        dtype,
        contiguous: false,
        meta: OnceBox::new(),
    }));
    if let Some(inner) = Shared::get_mut(&mut out.0) {
        inner.layout.clone_from(x.layout());
        change(&mut inner.layout)?;
        inner.contiguous = inner.layout.is_contiguous();
        // A view is an inference tensor when its base is one, wherever it is made.
        if inference {
            let version = x.version();
            let state = State {
                view_version: version,
                ..State::default()
            };
            inner.meta = OnceBox::with(|| Meta::new(false, true, state));
        }
    }
    Ok(out)
}
