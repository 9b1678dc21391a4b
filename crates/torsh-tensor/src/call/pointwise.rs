//! Pointwise ops: promotion, broadcasting, the layout of the result, and the call of the kernel.

use super::*;

/// The first tensor, where all tensors are like it: row-major, of its shape, dtype and device, and
/// beside numbers that leave the dtype as it is. This is the common case, found in one pass.
#[inline(always)]
pub(super) fn uniform<'a>(args: &[Arg<'a>]) -> Option<&'a Tensor> {
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
pub(super) fn promoted(rule: Pointwise, args: &[Arg<'_>]) -> Result<DType> {
    let p = promotion(args);
    let d = match rule {
        Pointwise::Equality => p.result_or_complex64(),
        _ => p.result()?,
    };
    Ok(d.unwrap_or_else(torsh_core::default_dtype))
}

/// The dtype a pointwise op computes in, and its result's.
#[inline]
pub(super) fn pointwise_dtypes(
    rule: Pointwise,
    promoted: DType,
    args: &[Arg<'_>],
) -> Result<(DType, DType)> {
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
pub(super) fn broadcast_shape(args: &[Arg<'_>]) -> Result<Shape> {
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

pub(super) fn pointwise(
    record: &'static OpRecord,
    rule: Pointwise,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let Some(first) = uniform(args) else {
        return broadcast_pointwise(record, rule, args, attrs, at);
    };
    let (compute, dtype) = pointwise_dtypes(rule, first.dtype(), args)?;
    if lacks_kernel(record, first.device(), compute)? {
        let spec = (first.device(), &Spec::new(first.shape().clone(), dtype));
        return pointwise_without_kernel(record, compute, spec, args, attrs, at);
    }
    let out = Tensor::uninit_like(first.memory_layout(), dtype, first.device())?;
    run_pointwise::<true>(record, compute, &out, args, attrs, false, at)?;
    record_one(record, args, attrs, out, at)
}

/// [`pointwise`] of operands of several shapes, dtypes or layouts.
#[inline(never)]
fn broadcast_pointwise(
    record: &'static OpRecord,
    rule: Pointwise,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    if sparse::any(args) {
        return sparse::dispatch(record, args, attrs).map(first);
    }
    let device = common_device(args)?;
    let (compute, dtype) = pointwise_dtypes(rule, promoted(rule, args)?, args)?;
    let shape = broadcast_shape(args)?;
    let n = shape.checked_numel(dtype.size())?;
    let strides = result_strides(&shape, args).unwrap_or_else(|| shape.contiguous_strides());
    if lacks_kernel(record, device, compute)? {
        let spec = Spec {
            strides: Some(strides),
            ..Spec::new(shape, dtype)
        };
        return pointwise_without_kernel(record, compute, (device, &spec), args, attrs, at);
    }
    let storage = allocate(device, dtype, n * dtype.size())?;
    let out = Tensor::from_parts(storage, Layout::new(shape, strides, 0), dtype).made();
    run_pointwise::<false>(record, compute, &out, args, attrs, false, at)?;
    record_one(record, args, attrs, out, at)
}

/// The result of a pointwise op on a device without its kernel.
#[cold]
fn pointwise_without_kernel(
    record: &'static OpRecord,
    compute: DType,
    (device, spec): (Device, &Spec),
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    let specs = (device, std::slice::from_ref(spec));
    let out = first(without_kernel(record, compute, specs, args, attrs, at)?);
    record_one(record, args, attrs, out, at)
}

/// The most operands a pointwise op has.
const MAX_OPERANDS: usize = 4;

/// Runs the kernel of a pointwise op into `out`. `UNIFORM` says that all tensors are on the device of
/// the result, row-major and of its shape ([`uniform`]): the common case is compiled apart, without
/// what the others need.
#[inline(always)]
pub(super) fn run_pointwise<const UNIFORM: bool>(
    record: &'static OpRecord,
    compute: DType,
    out: &Tensor,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    lock_out: bool,
    at: &'static Location<'static>,
) -> Result<()> {
    let device = out.device();
    if !device.has_data() {
        return Ok(());
    }
    let Some(kernel) = find_kernel(record, device, compute)? else {
        return write_without_kernel(record, compute, std::slice::from_ref(out), args, attrs, at);
    };
    let (shape, strides) = (out.dims(), out.stride());
    if shape.len() > ZERO_STRIDES.len() || args.len() > MAX_OPERANDS {
        return Err(too_many(shape.len(), args.len()));
    }
    let zeros = &ZERO_STRIDES[..shape.len()];
    // Numbers are operands with stride 0. The half types compute in float32, numbers included.
    let number_dtype = if matches!(compute, DType::F16 | DType::BF16) {
        DType::F32
    } else {
        compute
    };
    let mut numbers = [raw::Number([0u8; 16]); MAX_OPERANDS];
    for (a, number) in args.iter().zip(&mut numbers) {
        match a {
            // Only the bytes that the kernel reads: it would wait for wider ones to be put together.
            Arg::N(v) if number_dtype == DType::F32 => {
                number.0[..4].copy_from_slice(&(v.to_f64() as f32).to_ne_bytes());
            }
            Arg::N(v) => number.0 = v.to_bytes(number_dtype),
            // A 0-d tensor of the CPU beside a device's is a number of the call.
            Arg::T(t) if !UNIFORM && t.device() != device => match is_number(t) {
                true => *number = raw::read_number(t),
                false => return Err(misplaced(t, device)),
            },
            _ => {}
        }
    }
    let mut expanded: SmallVec<[Strides; 3]> = SmallVec::new();
    if !UNIFORM {
        expanded.extend(args.iter().map(|a| match a {
            Arg::T(t) => t.memory_layout().broadcast_strides(out.shape()),
            _ => Strides::new(),
        }));
    }
    let mut of_caller = 0;
    let mut inputs = [View::ABSENT; MAX_OPERANDS];
    let mut locks = [(out.storage().as_ref(), true); MAX_OPERANDS + 1];
    // A device keeps account of what its queues write.
    let mut locked = usize::from(lock_out || !device.is_host());
    for (i, (a, number)) in args.iter().zip(&numbers).enumerate() {
        inputs[i] = match a {
            Arg::T(t) if !UNIFORM && t.device() != device => {
                of_caller |= 1 << i;
                raw::number(number, t.dtype(), shape, zeros)
            }
            Arg::T(t) => {
                locks[locked] = (t.storage().as_ref(), false);
                locked += 1;
                let strides = if UNIFORM { strides } else { &expanded[i] };
                raw::view_as(t, shape, strides)
            }
            Arg::N(_) => {
                of_caller |= 1 << i;
                raw::number(number, number_dtype, shape, zeros)
            }
            Arg::Absent => View::ABSENT,
        };
    }
    let launch = Launch {
        kernel,
        compute,
        device,
        outputs: &[raw::view(out)],
        inputs: &inputs[..args.len()],
        attrs,
        numbers: of_caller,
        one_layout: UNIFORM,
        op: record.base_name(),
        at,
    };
    raw::run(launch, &locks[..locked])
}

#[cold]
fn too_many(dims: usize, operands: usize) -> TorshError {
    TorshError::shape(
        "",
        format!(
            "{operands} operands of {dims} dimensions: there are at most {MAX_OPERANDS}, and {} dimensions",
            ZERO_STRIDES.len()
        ),
    )
}
