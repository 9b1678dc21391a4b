//! Definitions of structural ops in other ops, for devices without their kernels.
//!
//! Each is the formula that the op's kernel documents. Definitions run without recording, on operands
//! of full width (`OpRecord::definition`). Their results are converted to the dtypes and layouts of
//! the plan.

use smallvec::SmallVec;
use torsh_core::{DType, Result, attrs};

use crate::call::{Arg, DefinitionCx, Outputs, call1};
use crate::ops::conv::CONVOLUTION;
use crate::{BatchNormOptions, Tensor};

fn one(t: Tensor) -> Result<Outputs> {
    Ok(SmallVec::from_iter([t]))
}

/// The operand with a dimension for a reduction to run along, where it has none.
fn with_dim(x: Tensor) -> Result<Tensor> {
    match x.ndim() {
        0 => x.reshape([1]),
        _ => Ok(x),
    }
}

/// One result in the shape of the plan.
fn in_shape(c: &DefinitionCx<'_>, t: Tensor) -> Result<Outputs> {
    match c.outputs.first() {
        Some(spec) => one(t.reshape(&spec.shape)?),
        None => one(t),
    }
}

/// A tensor of one dimension as a factor along dimension `d` of one with `ndim`.
fn along(t: &Tensor, ndim: usize, d: usize) -> Result<Tensor> {
    let mut sizes = vec![1i64; ndim];
    sizes[d] = -1;
    t.reshape(&sizes[..])
}

/// Operand and its greatest element along a dimension, both finite where softmax is.
fn shifted(c: &DefinitionCx<'_>) -> Result<(Tensor, i64)> {
    let (x, d) = (with_dim(c.x()?)?, c.attrs::<attrs::Softmax>()?.dim as i64);
    match x.numel() {
        0 => Ok((x, d)),
        _ => Ok((x.sub(&x.amax(d, true)?)?, d)),
    }
}

pub(super) fn softmax(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let (x, d) = shifted(c)?;
    let e = x.exp()?;
    in_shape(c, e.div(&e.sum_dim(d, true)?)?)
}

pub(super) fn log_softmax(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let (x, d) = shifted(c)?;
    in_shape(c, x.sub(&x.exp()?.sum_dim(d, true)?.log()?)?)
}

pub(super) fn softmax_backward(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let (g, y) = (with_dim(c.x()?)?, with_dim(c.y()?)?);
    let d = c.attrs::<attrs::Softmax>()?.dim as i64;
    in_shape(c, y.mul(&g.sub(&g.mul(&y)?.sum_dim(d, true)?)?)?)
}

pub(super) fn log_softmax_backward(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let (g, y) = (with_dim(c.x()?)?, with_dim(c.y()?)?);
    let d = c.attrs::<attrs::Softmax>()?.dim as i64;
    in_shape(c, g.sub(&y.exp()?.mul(&g.sum_dim(d, true)?)?)?)
}

pub(super) fn logsumexp(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let mut x = c.x()?;
    if !x.dtype().is_differentiable() {
        x = x.to_dtype(torsh_core::default_dtype())?;
    }
    let dims = &c.attrs::<attrs::Reduce>()?.dims[..];
    if x.ndim() == 0 {
        return one(x);
    }
    if x.numel() == 0 {
        return in_shape(c, x.exp()?.sum_dim(dims, true)?.log()?);
    }
    let real = if x.is_complex() { x.real()? } else { x.clone() };
    let most = real.amax(dims, true)?;
    // Nothing is taken from infinities, which would be nan.
    let most = most.where_zero(&most.isinf()?, true)?;
    let sum = x.sub(&most)?.exp()?.sum_dim(dims, true)?;
    in_shape(c, sum.log()?.add(&most)?)
}

pub(super) fn nansum(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let (x, dims) = (c.x()?, &c.attrs::<attrs::Reduce>()?.dims[..]);
    let x = match x.dtype().is_differentiable() {
        true => x.where_zero(&x.isnan()?, true)?,
        false => x,
    };
    in_shape(c, reduced(&x, dims)?)
}

pub(super) fn count_nonzero(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let counted = c.x()?.ne(0)?.to_dtype(DType::I64)?;
    in_shape(c, reduced(&counted, &c.attrs::<attrs::Reduce>()?.dims)?)
}

/// The sum over just these dimensions.
fn reduced(x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    match dims {
        [] => x.to_dtype(match x.dtype().is_differentiable() {
            true => x.dtype(),
            false => DType::I64,
        }),
        _ => x.sum_dim(dims, true),
    }
}

pub(super) fn flip(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let mut x = c.x()?;
    for &d in c.attrs::<attrs::Flip>()?.dims.iter() {
        let Some(&n) = x.dims().get(d as usize) else {
            continue;
        };
        let back = Tensor::arange(n as i64 - 1, -1, -1, DType::I64, x.device())?;
        x = x.index_select(d, &back)?;
    }
    one(x)
}

pub(super) fn roll(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let mut x = c.x()?;
    let attrs::Roll { shifts, dims } = c.attrs()?;
    for (&shift, &d) in shifts.iter().zip(dims.iter()) {
        let n = x.dims().get(d as usize).copied().unwrap_or(0) as i64;
        let k = if n > 0 { shift.rem_euclid(n) } else { 0 };
        if k > 0 {
            x = Tensor::cat(&[x.narrow(d, n - k, k)?, x.narrow(d, 0, n - k)?], d)?;
        }
    }
    one(x)
}

pub(super) fn triangle(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let x = c.x()?;
    let &attrs::Triangle { diagonal, upper } = c.attrs()?;
    let [.., rows, columns] = *x.dims() else {
        return one(x);
    };
    let range = |n: usize| Tensor::arange(0, n as i64, 1, DType::I64, x.device());
    let above = range(columns)?.sub(&range(rows)?.unsqueeze(1)?)?;
    let kept = match upper {
        true => above.ge(diagonal)?,
        false => above.le(diagonal)?,
    };
    one(x.where_zero(&kept, false)?)
}

/// Mean and inverse standard deviation over dimensions, kept, and the operand less that mean.
fn moments(x: &Tensor, dims: &[i64], n: f64, eps: f64, centred: bool) -> Result<[Tensor; 4]> {
    let mean = match centred {
        true => x.sum_dim(dims, true)?.div(n)?,
        false => x.sum_dim(dims, true)?.zeros_like()?,
    };
    let apart = x.sub(&mean)?;
    let variance = apart.square()?.sum_dim(dims, true)?.div(n)?;
    let inverse = variance.add(eps)?.rsqrt()?;
    Ok([mean, variance, inverse, apart])
}

pub(super) fn row_norm(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let x = c.x()?;
    let &attrs::RowNorm {
        rows,
        n,
        groups,
        spread,
        eps,
        centred,
    } = c.attrs()?;
    // Samples, groups, parameters of a group, elements of a parameter.
    let parts = [rows / groups.max(1), groups, n / spread.max(1), spread];
    let split = x.reshape(parts)?;
    let [mean, _, inverse, apart] = moments(&split, &[2, 3], n as f64, eps, centred)?;
    let mut y = apart.mul(&inverse)?;
    let parameter = |t: &Tensor| t.reshape([groups, parts[2], 1]);
    if let Some(w) = c.opt_tensor(1) {
        y = y.mul(&parameter(w)?)?;
    }
    if let Some(b) = c.opt_tensor(2) {
        y = y.add(&parameter(b)?)?;
    }
    let each = |t: Tensor| t.reshape([rows]);
    Ok(SmallVec::from_iter([
        y.reshape(x.shape())?,
        each(mean)?,
        each(inverse)?,
    ]))
}

pub(super) fn row_norm_backward(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let (g, x) = (c.x()?, c.y()?);
    let &attrs::RowNormBackward {
        rows,
        n,
        groups,
        spread,
        centred,
        input_grad,
        parameter_grads,
    } = c.attrs()?;
    let parts = [rows / groups.max(1), groups, n / spread.max(1), spread];
    let each = |t: Tensor| t.reshape([parts[0], groups, 1, 1]);
    let (mean, inverse) = (each(c.tensor(3)?)?, each(c.tensor(4)?)?);
    let g = g.reshape(parts)?;
    let hat = x.reshape(parts)?.sub(&mean)?.mul(&inverse)?;
    let none = || Tensor::empty([0], g.dtype(), g.device());
    let input = match input_grad {
        false => none()?,
        true => {
            let mean_of = |t: &Tensor| t.sum_dim([2, 3], true)?.div(n as f64);
            let scaled = match c.opt_tensor(2) {
                Some(w) => g.mul(&w.reshape([groups, parts[2], 1])?)?,
                None => g.clone(),
            };
            let mut inner = scaled.sub(&hat.mul(&mean_of(&scaled.mul(&hat)?)?)?)?;
            if centred {
                inner = inner.sub(&mean_of(&scaled)?)?;
            }
            inner.mul(&inverse)?.reshape(x.shape())?
        }
    };
    let (mut weight, mut bias) = (none()?, none()?);
    if parameter_grads {
        let sum = |t: &Tensor| t.sum_dim([0, 3], false)?.reshape([groups * parts[2]]);
        (weight, bias) = (sum(&g.mul(&hat)?)?, sum(&g)?);
    }
    Ok(SmallVec::from_iter([input, weight, bias]))
}

/// The dimensions that statistics of channels are taken over, and how many elements each has.
fn of_channels(x: &Tensor) -> (Vec<i64>, f64) {
    let dims = (0..x.ndim() as i64).filter(|&d| d != 1).collect();
    (dims, (x.numel() / x.dims()[1].max(1)) as f64)
}

pub(super) fn batch_norm(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let x = c.x()?;
    let &attrs::BatchNorm {
        training,
        eps,
        variance: wanted,
        ..
    } = c.attrs()?;
    let (dims, count) = of_channels(&x);
    let [mean, variance, inverse, apart] = match (training, c.opt_tensor(3), c.opt_tensor(4)) {
        (false, Some(mean), Some(variance)) => {
            let each = |t: &Tensor| along(t, x.ndim(), 1);
            let (mean, variance) = (each(mean)?, each(variance)?);
            let inverse = variance.add(eps)?.rsqrt()?;
            let apart = x.sub(&mean)?;
            [mean, variance, inverse, apart]
        }
        _ => moments(&x, &dims, count, eps, true)?,
    };
    let mut y = apart.mul(&inverse)?;
    if let Some(w) = c.opt_tensor(1) {
        y = y.mul(&along(w, x.ndim(), 1)?)?;
    }
    if let Some(b) = c.opt_tensor(2) {
        y = y.add(&along(b, x.ndim(), 1)?)?;
    }
    let each = |t: Tensor| t.reshape([x.dims()[1]]);
    let mut outputs: Outputs = SmallVec::from_iter([y, each(mean)?, each(inverse)?]);
    if wanted {
        outputs.push(each(variance)?.mul(count / (count - 1.0))?);
    }
    Ok(outputs)
}

pub(super) fn batch_norm_activation(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let mut outputs = batch_norm(c)?;
    if let Some(other) = c.opt_tensor(5) {
        outputs[0] = outputs[0].add(other)?;
    }
    let &attrs::BatchNorm { min, max, .. } = c.attrs()?;
    if min.is_some() || max.is_some() {
        outputs[0] = outputs[0].clamp(min, max)?;
    }
    Ok(outputs)
}

pub(super) fn convolution_batch_norm(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let a = c.attrs::<attrs::ConvBatchNorm>()?;
    let args = [
        Arg::T(&c.tensor(0)?),
        Arg::T(&c.tensor(1)?),
        Arg::opt(c.opt_tensor(2)),
    ];
    let y = call1(&CONVOLUTION, &args, &a.convolution())?;
    let options = BatchNormOptions {
        weight: c.opt_tensor(3).cloned(),
        bias: c.opt_tensor(4).cloned(),
        eps: a.eps,
        ..BatchNormOptions::new()
    };
    let clamp = [
        a.min.unwrap_or(f64::NEG_INFINITY),
        a.max.unwrap_or(f64::INFINITY),
    ];
    let (mean, var) = (c.opt_tensor(5), c.opt_tensor(6));
    one(y.batch_norm_activation(mean, var, options, c.opt_tensor(7), clamp)?)
}

pub(super) fn batch_norm_backward(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let (g, x) = (c.x()?, c.y()?);
    let training = c.attrs::<attrs::BatchNormBackward>()?.training;
    let (dims, count) = of_channels(&x);
    let each = |t: Tensor| along(&t, x.ndim(), 1);
    let inverse = each(c.tensor(4)?)?;
    let hat = x.sub(&each(c.tensor(3)?)?)?.mul(&inverse)?;
    let bias = g.sum_dim(&dims[..], true)?;
    let weight = g.mul(&hat)?.sum_dim(&dims[..], true)?;
    let mut inner = g.clone();
    if training {
        let through = bias.add(&hat.mul(&weight)?)?.div(count)?;
        inner = inner.sub(&through)?;
    }
    let mut scale = inverse;
    if let Some(w) = c.opt_tensor(2) {
        scale = scale.mul(&along(w, x.ndim(), 1)?)?;
    }
    let flat = |t: Tensor| t.reshape([x.dims()[1]]);
    Ok(SmallVec::from_iter([
        inner.mul(&scale)?,
        flat(weight)?,
        flat(bias)?,
    ]))
}

/// The targets of a loss, with their dimension of classes at size 1.
struct Targets {
    /// The classes, 0 where none counts.
    class: Tensor,
    /// Whether a position counts.
    counts: Tensor,
    /// What a position counts: its class's weight, 0 where it does not count.
    weight: Tensor,
}

fn targets(
    target: &Tensor,
    weight: Option<&Tensor>,
    ignored: i64,
    d: i64,
    dtype: DType,
) -> Result<Targets> {
    let target = target.to_dtype(DType::I64)?.unsqueeze(d)?;
    let counts = target.ne(ignored)?;
    let class = target.where_zero(&counts, false)?;
    let weight = match weight {
        Some(w) => {
            let each = w.index_select(0, &class.reshape([class.numel()])?)?;
            each.reshape(class.shape())?.where_zero(&counts, false)?
        }
        None => counts.to_dtype(dtype)?,
    };
    Ok(Targets {
        class,
        counts,
        weight,
    })
}

fn class_dim(scores: &[usize]) -> i64 {
    i64::from(scores.len() > 1)
}

/// Losses of positions, whose dimension of classes has size 1, as the result.
fn reduce(losses: Tensor, whole: &Tensor, reduction: attrs::Reduction, d: i64) -> Result<Tensor> {
    match reduction {
        attrs::Reduction::None => losses.squeeze(d),
        attrs::Reduction::Mean => losses.sum()?.div(whole),
        attrs::Reduction::Sum => losses.sum(),
    }
}

/// The gradient of each position's loss, with a dimension of classes of size 1.
fn upstream(g: Tensor, whole: &Tensor, reduction: attrs::Reduction, d: i64) -> Result<Tensor> {
    match reduction {
        attrs::Reduction::None => g.unsqueeze(d),
        attrs::Reduction::Mean => g.div(whole),
        attrs::Reduction::Sum => Ok(g),
    }
}

pub(super) fn nll_loss(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let x = c.x()?;
    let &attrs::NllLoss {
        reduction,
        ignore_index,
    } = c.attrs()?;
    let d = class_dim(x.dims());
    let t = targets(&c.y()?, c.opt_tensor(2), ignore_index, d, x.dtype())?;
    let whole = t.weight.sum()?;
    let losses = x.gather(d, &t.class)?.mul(&t.weight)?.neg()?;
    let losses = losses.where_zero(&t.counts, false)?;
    Ok(SmallVec::from_iter([
        reduce(losses, &whole, reduction, d)?,
        whole,
    ]))
}

pub(super) fn nll_loss_backward(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let g = c.x()?;
    let attrs::NllLossBackward {
        reduction,
        ignore_index,
        output_shape,
    } = c.attrs()?;
    let d = i64::from(output_shape.len() > 1);
    let t = targets(&c.y()?, c.opt_tensor(2), *ignore_index, d, g.dtype())?;
    let each = upstream(g, &c.tensor(3)?, *reduction, d)?;
    let each = each.mul(&t.weight)?.neg()?.where_zero(&t.counts, false)?;
    let zeros = Tensor::zeros(&output_shape[..], each.dtype(), each.device())?;
    one(zeros.scatter(d, &t.class, &each)?)
}

pub(super) fn cross_entropy(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let x = c.x()?;
    let &attrs::CrossEntropy {
        reduction,
        ignore_index,
        label_smoothing: smoothing,
    } = c.attrs()?;
    let (d, weight) = (class_dim(x.dims()), c.opt_tensor(2));
    let classes = x.dims()[d as usize] as f64;
    let t = targets(&c.y()?, weight, ignore_index, d, x.dtype())?;
    let lse = x.logsumexp(d, true)?;
    let costs = lse.sub(&x)?;
    let mut losses = costs.gather(d, &t.class)?.mul(&t.weight)?;
    if smoothing != 0.0 {
        let all = match weight {
            Some(w) => costs.mul(&along(w, x.ndim(), d as usize)?)?,
            None => costs,
        };
        let spread = all.sum_dim(d, true)?.mul(smoothing / classes)?;
        losses = losses.mul(1.0 - smoothing)?.add(&spread)?;
    }
    let losses = losses.where_zero(&t.counts, false)?;
    let whole = t.weight.sum()?;
    Ok(SmallVec::from_iter([
        reduce(losses, &whole, reduction, d)?,
        lse.squeeze(d)?,
        whole,
    ]))
}

pub(super) fn cross_entropy_backward(c: &DefinitionCx<'_>) -> Result<Outputs> {
    let (g, x) = (c.x()?, c.y()?);
    let &attrs::CrossEntropy {
        reduction,
        ignore_index,
        label_smoothing: smoothing,
    } = c.attrs()?;
    let (d, weight) = (class_dim(x.dims()), c.opt_tensor(3));
    let classes = x.dims()[d as usize] as f64;
    let t = targets(&c.z()?, weight, ignore_index, d, x.dtype())?;
    let g = upstream(g, &c.tensor(5)?, reduction, d)?;
    // The share of each class in a position's loss.
    let mut share = x.zeros_like()?.scatter(d, &t.class, &t.weight)?;
    if smoothing != 0.0 {
        let mut all = t.counts.to_dtype(x.dtype())?.mul(smoothing / classes)?;
        if let Some(w) = weight {
            all = all.mul(&along(w, x.ndim(), d as usize)?)?;
        }
        share = share.mul(1.0 - smoothing)?.add(&all)?;
    }
    let p = x.sub(&c.tensor(4)?.unsqueeze(d)?)?.exp()?;
    let inner = p.mul(&share.sum_dim(d, true)?)?.sub(&share)?;
    one(g.mul(&inner)?.where_zero(&t.counts, false)?)
}
