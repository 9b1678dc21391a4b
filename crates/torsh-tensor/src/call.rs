//! The dispatcher: every op call of every backend goes through a function of this module.
//!
//! A call finds the common device, promotes dtypes, infers shapes, allocates the results, locks the
//! storages, runs the kernel, and records a node if an operand requires a gradient. The thread's mode
//! byte says whether gradients are recorded, and whether observers, autocast or checks of results
//! require the slower path `watched`.
//!
//! Ops that are not expressed as one kernel call (copies, transfers between devices, random fills,
//! custom functions) use the building blocks exported here: `allocate`, `write_into`, `make_node`
//! and `attach`. `raw.rs` locks storages for single reads and writes by the host.

mod devices;
mod inplace;
mod open;
mod pointwise;
mod recording;
pub(crate) mod sparse;
mod views;

use std::panic::Location;

use smallvec::SmallVec;
use torsh_core::{
    Attributes, DType, Device, Kernel, KernelFn, Layout, OnceBox, Promotion, Result, Scalar, Shape,
    Shared, Storage, Strides, TorshError, View,
};

use crate::Tensor;
use crate::autocast::Autocast;
use crate::memory::{Creation, Memory, ViewOf};
use crate::mode;
use crate::node::{Input, InputSpec, Kind, Node, Output, Saved, SavedArg};
use crate::observe;
use crate::raw::{self, Launch};
use crate::record::{Backward, OpRecord, PlanCx, Pointwise, Rule, Spec, ViewCx};
use crate::tensor::{Inner, Meta, State};

pub use devices::{
    DefinitionCx, Fallback, default_device, definitions_used, fallback, fallbacks,
    set_default_device, set_fallback, set_sync_checks, sync_checks,
};
pub(crate) use devices::{
    allocate, assert_later, common_device, holds, is_number, misplaced, widest,
};
use devices::{find_kernel, lacks_kernel, without_kernel, write_without_kernel};
use inplace::snapshot;
pub(crate) use inplace::{call_inplace, update, write_fresh, write_into};
use pointwise::{broadcast_shape, pointwise, pointwise_dtypes, promoted, run_pointwise, uniform};
pub(crate) use pointwise::{memory_order_strides, promotion};
pub(crate) use recording::{attach, make_node};
use recording::{record_all, record_one, recording};
pub(crate) use sparse::{by_rule, call1 as call_rule, in_place_by_rule, no_rule};
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
    ///
    /// ```
    /// use torsh_tensor::call::Arg;
    /// # use torsh_tensor::tensor;
    /// assert!(matches!(Arg::opt(Some(&tensor![1.0])), Arg::T(_)));
    /// assert!(matches!(Arg::opt(None), Arg::Absent));
    /// ```
    pub fn opt(t: Option<&'a Tensor>) -> Arg<'a> {
        t.map_or(Arg::Absent, Arg::T)
    }
}

/// The tensors of a call's operands after a function changed them; `None` for unchanged ones.
pub(crate) fn changed(
    args: &[Arg<'_>],
    mut change: impl FnMut(&Tensor) -> Result<Option<Tensor>>,
) -> Result<SmallVec<[Option<Tensor>; 4]>> {
    let mut all = SmallVec::new();
    for a in args {
        all.push(match a {
            Arg::T(t) => change(t)?,
            _ => None,
        });
    }
    Ok(all)
}

/// The operands of a call, with the tensors that [`changed`] returned in their places.
pub(crate) fn replaced<'a>(
    args: &[Arg<'a>],
    changes: &'a [Option<Tensor>],
) -> SmallVec<[Arg<'a>; 4]> {
    let pairs = args.iter().zip(changes);
    pairs.map(|(a, c)| c.as_ref().map_or(*a, Arg::T)).collect()
}

/// The results of a call.
pub type Outputs = SmallVec<[Tensor; 2]>;

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

/// [`in_op`] of an op without a record.
#[cold]
fn in_op_named(
    e: TorshError,
    op: &'static str,
    args: &[Arg<'_>],
    at: &'static Location<'static>,
) -> TorshError {
    e.in_op(op, || describe(args), at)
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

/// Runs an op and returns its only (or first) result.
#[inline]
#[track_caller]
pub(crate) fn call1(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Tensor> {
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
    attrs: &dyn Attributes,
) -> Result<Tensor> {
    let (at, args) = (Location::caller(), [Arg::T(x)]);
    let device = x.device();
    let usual = x.contiguous_flag() && device.has_data();
    if !usual || mode::get() & mode::WATCHED != 0 {
        return call1(record, &args, attrs);
    }
    whole(record, (x, device), dtype, attrs, at).map_err(|e| in_op(e, record, &args, at))
}

#[inline]
fn whole(
    record: &'static OpRecord,
    (x, device): (&Tensor, Device),
    dtype: DType,
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let Some(kernel) = find_kernel(record, device, x.dtype())? else {
        return Ok(first(dispatch(record, &[Arg::T(x)], attrs, at)?));
    };
    let out = Tensor::uninit(Shape::default(), dtype, device)?;
    let launch = Launch {
        kernel,
        compute: x.dtype(),
        device,
        outputs: &[raw::view(&out)],
        inputs: &[raw::view(x)],
        attrs,
        numbers: 0,
        one_layout: false,
        op: record.base_name(),
        at,
    };
    // A device keeps account of what its queues write.
    let locks = [
        (x.storage().as_ref(), false),
        (out.storage().as_ref(), true),
    ];
    raw::run(launch, &locks[..1 + usize::from(!device.is_host())])?;
    record_one(record, &[Arg::T(x)], attrs, out, at)
}

/// Runs an op and returns all its results.
#[track_caller]
pub(crate) fn call(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<Outputs> {
    call_at(record, args, attrs, Location::caller())
}

fn call_at(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Outputs> {
    if mode::get() & mode::WATCHED != 0 {
        return watched(record, args, attrs, at);
    }
    dispatch(record, args, attrs, at)
}

/// A call with active observers, an autocast region or checks of results.
#[cold]
fn watched(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Outputs> {
    if record.autocast != Autocast::Keep && mode::get() & mode::AUTOCAST != 0 {
        return crate::autocast::call(record, args, attrs, at);
    }
    run_at(record, args, attrs, at)
}

/// Runs an op without observers, casts or checks.
pub(crate) fn run_at(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
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
    attrs: &dyn Attributes,
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
            "a composite op does not go through the dispatcher",
        )),
    };
    r.map_err(|e| in_op(e, record, args, at))
}

fn structural(
    record: &'static OpRecord,
    plan: fn(&PlanCx<'_>) -> Result<crate::record::Plan>,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Outputs> {
    if sparse::any(args) {
        return sparse::dispatch(record, args, attrs);
    }
    match plan(&PlanCx { args, attrs }) {
        // A plan is large, so it is not moved.
        Ok(ref plan) => planned(record, plan, args, attrs, at),
        Err(e) => Err(e),
    }
}

/// [`structural`], of a plan.
#[inline]
fn planned(
    record: &'static OpRecord,
    plan: &crate::record::Plan,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Outputs> {
    let device = match plan.device {
        Some(d) => d,
        None => common_device(args)?,
    };
    if lacks_kernel(record, device, plan.compute)? {
        let (compute, specs) = (plan.compute, (device, &plan.outputs[..]));
        let outs = without_kernel(record, compute, specs, args, attrs, at)?;
        return record_all(record, args, attrs, outs, at);
    }
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
        at,
    )?;
    record_all(record, args, attrs, outs, at)
}

fn allocate_spec(s: &Spec, device: Device) -> Result<Tensor> {
    match &s.strides {
        None => Tensor::uninit_of(&s.shape, s.dtype, device),
        Some(strides) => {
            let n = s.shape.checked_numel(s.dtype.size())?;
            let layout = Layout::new(s.shape.clone(), strides.clone(), 0);
            if strides.len() != s.shape.ndim() || !layout.is_dense() {
                return Err(ill_planned(s));
            }
            let storage = allocate(device, s.dtype, n * s.dtype.size())?;
            Ok(Tensor::from_parts(storage, layout, s.dtype).made())
        }
    }
}

/// The error for a plan whose strides need more elements than its shape has, or whose shape for the
/// kernel has another number of elements.
#[cold]
fn ill_planned(s: &Spec) -> TorshError {
    let kernel = s.kernel_shape.as_ref().map(Shape::to_string);
    TorshError::invalid(
        "",
        format!(
            "the plan asks for {}{} with strides {:?} and, for the kernel, the shape {}, which do not go together",
            s.dtype,
            s.shape,
            s.strides.as_deref().unwrap_or_default(),
            kernel.as_deref().unwrap_or("it has"),
        ),
    )
}

/// The positions and values of the numbers in a device's call: 0-d CPU tensors among its operands.
#[cold]
fn numbers_of(args: &[Arg<'_>], device: Device) -> SmallVec<[(usize, raw::Number); 1]> {
    // There is a bit for each of the first 32 operands.
    args.iter()
        .enumerate()
        .take(32)
        .filter_map(|(i, a)| match a {
            Arg::T(t) if t.device() != device && is_number(t) => Some((i, raw::read_number(t))),
            _ => None,
        })
        .collect()
}

fn run_structural(
    record: &'static OpRecord,
    compute: DType,
    specs: &[Spec],
    outs: &[Tensor],
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    lock_out: bool,
    at: &'static Location<'static>,
) -> Result<()> {
    let device = outs.first().map_or(Device::Cpu, Tensor::device);
    if !device.has_data() {
        return Ok(());
    }
    let Some(kernel) = find_kernel(record, device, compute)? else {
        return write_without_kernel(record, compute, outs, args, attrs, at);
    };
    let numbers = match device.is_host() {
        true => SmallVec::new(),
        false => numbers_of(args, device),
    };
    let mut locks: SmallVec<[(&Storage, bool); 4]> = SmallVec::new();
    let mut inputs: SmallVec<[View<'_>; 4]> = SmallVec::new();
    for (i, a) in args.iter().enumerate() {
        inputs.push(match a {
            Arg::T(t) if t.device() == device => {
                locks.push((t.storage().as_ref(), false));
                raw::view(t)
            }
            Arg::T(t) => match numbers.iter().find(|n| n.0 == i) {
                Some((_, number)) => raw::number(number, t.dtype(), &[], &[]),
                None => return Err(misplaced(t, device)),
            },
            _ => View::ABSENT,
        });
    }
    let mut kernel_strides: SmallVec<[Option<Strides>; 2]> = SmallVec::new();
    for spec in specs {
        kernel_strides.push(spec.kernel_shape.as_ref().map(Shape::contiguous_strides));
    }
    let mut outputs: SmallVec<[View<'_>; 2]> = SmallVec::new();
    for (i, t) in outs.iter().enumerate() {
        // A device keeps account of what its queues write.
        if lock_out || !device.is_host() {
            locks.push((t.storage().as_ref(), true));
        }
        let (shape, strides) = match (
            specs.get(i).and_then(|s| s.kernel_shape.as_ref()),
            kernel_strides.get(i),
        ) {
            (Some(s), Some(Some(st))) => {
                // The kernel sees a row-major result of as many elements.
                let numel = s.dims().iter().try_fold(1usize, |n, &d| n.checked_mul(d));
                if numel != Some(t.numel()) || !t.contiguous_flag() {
                    return Err(ill_planned(&specs[i]));
                }
                (s.dims(), st.as_slice())
            }
            _ => (t.dims(), t.stride()),
        };
        outputs.push(raw::view_as(t, shape, strides));
    }
    let launch = Launch {
        kernel,
        compute,
        device,
        outputs: &outputs,
        inputs: &inputs,
        attrs,
        numbers: numbers.iter().fold(0, |bits, (i, _)| bits | 1 << i),
        one_layout: false,
        op: record.base_name(),
        at,
    };
    raw::run(launch, &locks)
}
