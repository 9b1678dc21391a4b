//! The choke point: every op of every backend goes through one of the functions here.
//!
//! In order: read the thread's mode, promote, infer shapes, allocate, lock, run the kernel,
//! record. Nothing else in the crate allocates results, takes locks or makes nodes.

mod inplace;
mod pointwise;
mod recording;
mod views;

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
use pointwise::{broadcast_shape, pointwise, pointwise_dtypes, promoted, run_pointwise, uniform};
pub(crate) use pointwise::{memory_order_strides, promotion};
pub(crate) use recording::{attach, make_node};
use recording::{record_all, record_one, recording};
use views::view;
pub(crate) use views::{becomes, call_views, make_view};

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
