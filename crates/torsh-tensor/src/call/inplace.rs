//! Calls that write into a tensor.

use super::*;
use crate::observe::Work;

/// Runs an op in place on `target`, which is also its first operand.
///
/// Pointwise ops write straight into the target; any other op is computed and then copied over.
#[track_caller]
pub(crate) fn call_inplace(
    record: &'static OpRecord,
    target: &Tensor,
    rest: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<()> {
    let at = Location::caller();
    let mut args: SmallVec<[Arg<'_>; 3]> = SmallVec::from_iter([Arg::T(target)]);
    args.extend_from_slice(rest);
    let run = || {
        inplace_at(record, target, &args, attrs, at)
            .map_err(|e| in_op(e, record, &args, at).in_place(record.base_name()))
    };
    if mode::get() & mode::OBSERVE != 0 {
        let (work, targets) = (Work::InPlace(record), std::slice::from_ref(target));
        return observe::scope(work, &args, attrs, Some(at), targets, run);
    }
    run()
}

/// Whether a derivative that will be wanted reads the operand that is about to be written over.
fn reads_target(record: &OpRecord, args: &[Arg<'_>]) -> bool {
    match record.backward {
        Backward::PerInput(list) => args
            .iter()
            .zip(list)
            .any(|(a, g)| matches!(a, Arg::T(t) if t.requires_grad()) && g.inputs & 1 != 0),
        Backward::Full { inputs, .. } => inputs & 1 != 0,
        _ => false,
    }
}

/// A copy of a tensor that has its history: what an in-place op keeps of its target.
pub(super) fn snapshot(target: &Tensor) -> Result<Tensor> {
    let copy = target.copy_stored()?;
    Ok(match target.gradient_edge() {
        Some(e) => attach(copy, e.node, e.output_nr),
        None => copy,
    })
}

fn inplace_at(
    record: &'static OpRecord,
    target: &Tensor,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<()> {
    let wanted = args
        .iter()
        .any(|a| matches!(a, Arg::T(t) if t.requires_grad()));
    if sparse::any(args) {
        return sparse::update(record, target, args, attrs, at);
    }
    crate::inplace::check(target, wanted)?;
    common_device(args)?;
    let old;
    let mut operands: SmallVec<[Arg<'_>; 3]> = SmallVec::from_slice(args);
    if recording(record, args) && reads_target(record, args) {
        old = snapshot(target)?;
        operands[0] = Arg::T(&old);
    }
    let args = operands.as_slice();
    let Rule::Pointwise(rule) = record.rule else {
        let value = first(run_at(record, args, attrs, at)?);
        return crate::inplace::assign(target, &value);
    };
    let simple = uniform(args).filter(|f| target.contiguous_flag() && f.shape() == target.shape());
    let common = match simple {
        Some(f) => f.dtype(),
        None => promoted(rule, args)?,
    };
    let (compute, dtype) = pointwise_dtypes(rule, common, args)?;
    if !dtype.can_cast(target.dtype()) {
        return Err(TorshError::dtype(
            "",
            format!(
                "result type {dtype} can't be cast to the desired output type {}",
                target.dtype()
            ),
        )
        .with_hint("use the op that is not in place"));
    }
    if simple.is_none() {
        check_fits(target, &broadcast_shape(args)?)?;
    }
    for a in args {
        if let Arg::T(t) = a {
            crate::inplace::check_overlap(target, t)?;
        }
    }
    let versions: SmallVec<[u64; 3]> = args
        .iter()
        .map(|a| if let Arg::T(t) = a { t.version() } else { 0 })
        .collect();
    // The target is one of the operands, which are gone afterwards.
    let clean = mode::get() & mode::CHECK_FORWARD != 0 && crate::anomaly::clean(args, attrs)?;
    match simple {
        Some(_) => run_pointwise::<true>(record, compute, target, args, attrs, true, at),
        None => run_pointwise::<false>(record, compute, target, args, attrs, true, at),
    }?;
    target.storage().bump_version();
    if clean {
        crate::anomaly::check(std::slice::from_ref(target), || Ok(true))?;
    }
    let node = if recording(record, args) && target.dtype().is_differentiable() {
        Some(make_node(
            record,
            args,
            attrs,
            std::slice::from_ref(target),
            at,
            Some(&versions),
        )?)
    } else {
        None
    };
    crate::inplace::rebase(target, node)
}

/// Refuses a result of another shape than the target's.
fn check_fits(target: &Tensor, shape: &Shape) -> Result<()> {
    if shape == target.shape() {
        return Ok(());
    }
    Err(TorshError::shape(
        "",
        format!(
            "output with shape {} doesn't match the broadcast shape {shape}",
            target.shape()
        ),
    ))
}

/// Fills a device's dense tensor with a number whose bytes are all the same, as 0, without a kernel;
/// false where the call is another.
#[cold]
fn fill_bytes(t: &Tensor, attrs: &dyn Attributes) -> Result<bool> {
    let Some(&torsh_core::attrs::Fill { value }) = attrs.downcast() else {
        return Ok(false);
    };
    let bytes = value.to_bytes(t.dtype());
    let bytes = &bytes[..t.dtype().size()];
    let one = bytes.iter().all(|b| *b == bytes[0]);
    if !one || !t.device().has_data() || !t.memory_layout().is_dense() {
        return Ok(false);
    }
    if t.numel() > 0 {
        raw::fill(t, bytes[0])?;
    }
    Ok(true)
}

/// Runs a kernel that writes into tensors that are there, telling observers.
#[inline]
fn write(
    work: Work<'_>,
    (record, compute): (&'static OpRecord, DType),
    targets: &[Tensor],
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    lock_out: bool,
    at: &'static Location<'static>,
) -> Result<()> {
    if sparse::any(args) || targets.iter().any(|t| !t.is_strided()) {
        let all: SmallVec<[Arg<'_>; 4]> = targets
            .iter()
            .map(Arg::T)
            .chain(args.iter().copied())
            .collect();
        let op = record.base_name();
        return Err(in_op(sparse::no_rule(op, &all), record, &all, at));
    }
    let run = || {
        let written = match targets {
            [t] if !t.device().is_host() => fill_bytes(t, attrs),
            _ => Ok(false),
        };
        match written {
            Ok(true) => Ok(()),
            Ok(false) => run_structural(record, compute, &[], targets, args, attrs, lock_out, at),
            Err(e) => Err(e),
        }
        .map_err(|e| in_op(e, record, args, at))
    };
    if mode::get() & mode::OBSERVE != 0 {
        return observe::scope(work, args, attrs, Some(at), targets, run);
    }
    run()
}

/// Runs a kernel that writes into a tensor that is already there (fills, copies, draws): nothing
/// is recorded, the version is counted.
#[track_caller]
pub(crate) fn write_into(
    record: &'static OpRecord,
    compute: DType,
    target: &Tensor,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<()> {
    let (at, targets) = (Location::caller(), std::slice::from_ref(target));
    let work = Work::InPlace(record);
    write(work, (record, compute), targets, args, attrs, true, at)?;
    target.storage().bump_version();
    Ok(())
}

/// [`write_into`] for a kernel that updates several tensors at once.
#[track_caller]
pub(crate) fn update(
    record: &'static OpRecord,
    targets: &[Tensor],
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<()> {
    let at = Location::caller();
    let compute = targets.first().map_or(DType::F32, Tensor::dtype);
    let work = Work::InPlace(record);
    write(work, (record, compute), targets, args, attrs, true, at)?;
    for t in targets {
        t.storage().bump_version();
    }
    Ok(())
}

/// [`write_into`] for a tensor nobody has seen yet: the write is not counted.
#[track_caller]
pub(crate) fn write_fresh(
    record: &'static OpRecord,
    target: &Tensor,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
) -> Result<()> {
    let (at, targets) = (Location::caller(), std::slice::from_ref(target));
    let (work, compute) = (Work::Op(record), target.dtype());
    write(work, (record, compute), targets, args, attrs, false, at)
}
