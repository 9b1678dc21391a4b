//! Cross entropy of logits of which each rank has a part.

use torsh_functional::{CrossEntropyOptions, Reduction};
use torsh_tensor::{
    CustomBackward, DType, Device, Result, Tensor, TorshError, is_grad_enabled, no_grad,
    record_function, stack,
};

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;

const OP: &str = "vocab_parallel_cross_entropy";

/// [`F::cross_entropy`](torsh_functional::cross_entropy) of logits of which each rank of the group has a part of the
/// classes, in the order of ranks: `[N, classes / ranks]`, `[classes / ranks]` or `[N, classes / ranks, d1, ..]`. No rank
/// ever holds all of them. `target` has int64 classes, the same on all ranks; so is the result, a 0-d tensor.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::vocab_parallel_cross_entropy;
/// use torsh_functional as F;
/// use torsh_tensor::tensor;
///
/// let logits = tensor![[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 5.0]];
/// let target = tensor![2, 3];
/// let losses = spawn(2, |g| {
///     let part = logits.narrow(1, 2 * g.rank(), 2)?;
///     vocab_parallel_cross_entropy(&part, &target, &g)
/// })?;
/// let whole = F::cross_entropy(&logits, &target)?;
/// assert!(losses[0].allclose(&whole)? && losses[1] == losses[0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Shapes that do not go together, integer logits, a target that is not int64, and classes out of range.
#[track_caller]
pub fn vocab_parallel_cross_entropy(
    logits: &Tensor,
    target: &Tensor,
    group: &ProcessGroup,
) -> Result<Tensor> {
    vocab_parallel_cross_entropy_with(logits, target, group, CrossEntropyOptions::default())
}

/// [`vocab_parallel_cross_entropy`] with `ignore_index`, `label_smoothing` and another `reduction`.
///
/// ```
/// use torsh_distributed::spawn;
/// use torsh_distributed::tensor_parallel::vocab_parallel_cross_entropy_with;
/// use torsh_functional::{self as F, CrossEntropyOptions, Reduction};
/// use torsh_tensor::tensor;
///
/// let logits = tensor![[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 5.0]];
/// let target = tensor![2, -100];
/// let options = CrossEntropyOptions::new().label_smoothing(0.1).reduction(Reduction::Sum);
/// let losses = spawn(2, |g| {
///     let part = logits.narrow(1, 2 * g.rank(), 2)?;
///     vocab_parallel_cross_entropy_with(&part, &target, &g, options.clone())
/// })?;
/// assert!(losses[0].allclose(&F::cross_entropy_with(&logits, &target, options)?)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of [`vocab_parallel_cross_entropy`], weights of classes (which it does not have), and a `label_smoothing` outside
/// [0, 1].
#[torsh_tensor::names_caller]
pub fn vocab_parallel_cross_entropy_with(
    logits: &Tensor,
    target: &Tensor,
    group: &ProcessGroup,
    options: CrossEntropyOptions,
) -> Result<Tensor> {
    let smoothing = options.label_smoothing;
    check(logits, target, &options)?;
    let class_dim = usize::from(logits.ndim() > 1);
    let part = logits.dims()[class_dim];
    let classes = part * group.size();
    let found = no_grad(|| {
        let rows = rows(&logits.detach(), class_dim)?;
        let target = target.detach().reshape([-1])?;
        let ignored = target.eq(options.ignore_index)?;
        if target.device() != Device::Meta && target.numel() > 0 {
            let outside = target.lt(0i64)?.logical_or(&target.ge(classes as i64)?)?;
            let outside = outside.logical_and(&ignored.logical_not()?)?;
            if outside.any()?.item::<bool>()? {
                return Err(TorshError::index(
                    OP,
                    format!("a class of {} is not one of {classes}", target.describe()),
                ));
            }
        }
        let local = target.sub((part * group.rank()) as i64)?;
        let foreign = local.lt(0i64)?.logical_or(&local.ge(part as i64)?)?;
        let foreign = foreign.logical_or(&ignored)?;
        let local = local.masked_fill(&foreign, 0i64)?.unsqueeze(1)?;

        // In float32 at least, as the undivided loss.
        let most = rows.max_dim(1, true)?.0;
        let most = group.all_reduce_(&most, ReduceOp::Max)?;
        let shifted = rows.sub(&most)?;
        let hit = shifted
            .gather(1, &local)?
            .squeeze(1)?
            .masked_fill(&foreign, 0.0)?;
        let sum = shifted.sum_dim(1, false)?;
        let exp = shifted.exp()?;
        let sums = stack(&[&exp.sum_dim(1, false)?, &hit, &sum], 0)?;
        let sums = group.all_reduce_(&sums, ReduceOp::Sum)?;
        let total = sums.select(0, 0)?;
        let log = total.log()?;
        let plain = log.sub(&sums.select(0, 1)?)?;
        let losses = match smoothing == 0.0 {
            true => plain,
            false => {
                let even = log.sub(&sums.select(0, 2)?.div(classes as f64)?)?;
                plain.mul(1.0 - smoothing)?.add(&even.mul(smoothing)?)?
            }
        };
        let losses = losses.masked_fill(&ignored, 0.0)?;
        let counted = ignored.logical_not()?.to_dtype(losses.dtype())?;
        // What each row's gradient is multiplied by, but for the gradient of the result.
        let (loss, scale) = match options.reduction {
            Reduction::None => (losses.reshape(target_shape(logits, class_dim))?, counted),
            Reduction::Sum => (losses.sum()?, counted),
            _ => {
                let n = counted.sum()?;
                (
                    losses.sum()?.div(&n)?,
                    counted.div(&n)?.masked_fill(&ignored, 0.0)?,
                )
            }
        };
        let probabilities = exp.div(&total.unsqueeze(1)?)?;
        let saved = [probabilities, local, foreign, scale];
        Ok((loss.to_dtype(logits.dtype())?, saved))
    })?;
    let (loss, saved) = found;
    let node = Node {
        shape: logits.dims().to_vec(),
        class_dim,
        dtype: logits.dtype(),
        smoothing,
        classes,
    };
    let inputs = std::slice::from_ref(logits);
    let mut out = record_function(inputs, vec![loss], &saved, 0, Box::new(node))?;
    Ok(out.remove(0))
}

/// The shape of the target: that of the logits without the classes.
fn target_shape(logits: &Tensor, class_dim: usize) -> Vec<usize> {
    let mut shape = logits.dims().to_vec();
    shape.remove(class_dim);
    shape
}

/// One row of classes for each target.
fn rows(logits: &Tensor, class_dim: usize) -> Result<Tensor> {
    let part = logits.dims()[class_dim];
    let rows = logits.movedim(class_dim, -1)?;
    let rows = rows.reshape([(rows.numel() / part.max(1)) as i64, part as i64])?;
    match rows.dtype() {
        DType::F64 => Ok(rows),
        _ => rows.to_dtype(DType::F32),
    }
}

fn check(logits: &Tensor, target: &Tensor, options: &CrossEntropyOptions) -> Result<()> {
    if !logits.dtype().is_floating_point() {
        let text = format!("logits are floating point, not {}", logits.describe());
        return Err(TorshError::dtype(OP, text));
    }
    if target.dtype() != DType::I64 {
        let text = format!("target has int64 classes, not {}", target.describe());
        return Err(TorshError::dtype(OP, text));
    }
    let class_dim = usize::from(logits.ndim() > 1);
    if logits.ndim() == 0 || target_shape(logits, class_dim) != target.dims() {
        return Err(TorshError::shape(
            OP,
            format!(
                "logits {} and target {}: the target has the logits' shape without dimension {class_dim}",
                logits.describe(),
                target.describe()
            ),
        ));
    }
    if logits.dims()[class_dim] == 0 {
        let text = format!("a rank has no class: {}", logits.describe());
        return Err(TorshError::shape(OP, text));
    }
    if options.weight.is_some() {
        return Err(TorshError::invalid(OP, "there are no weights of classes")
            .with_hint("gather the logits and call F::cross_entropy_with"));
    }
    if !(0.0..=1.0).contains(&options.label_smoothing) {
        let text = format!(
            "label_smoothing is in [0, 1], not {}",
            options.label_smoothing
        );
        return Err(TorshError::invalid(OP, text));
    }
    match options.reduction {
        Reduction::None | Reduction::Mean | Reduction::Sum => Ok(()),
        other => Err(TorshError::invalid(
            OP,
            format!("there is no reduction {other:?}"),
        )),
    }
}

struct Node {
    shape: Vec<usize>,
    class_dim: usize,
    dtype: DType,
    smoothing: f64,
    classes: usize,
}

impl CustomBackward for Node {
    fn name(&self) -> &str {
        OP
    }

    fn backward(&self, grads: &[Option<Tensor>], saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        let ([Some(g)], [probabilities, local, foreign, scale]) = (grads, saved) else {
            return Ok(vec![None]);
        };
        if is_grad_enabled() {
            return Err(TorshError::autograd(OP, "there is no second derivative")
                .with_hint("gather the logits and call F::cross_entropy"));
        }
        let g = g.to_dtype(scale.dtype())?;
        let g = match g.ndim() {
            0 => g,
            _ => g.reshape([-1])?,
        };
        // The gradient of a row is its probabilities less what the target says.
        let even = self.smoothing / self.classes as f64;
        let rows = probabilities.sub(even)?;
        let hit = foreign
            .logical_not()?
            .to_dtype(rows.dtype())?
            .unsqueeze(1)?;
        let rows = rows.scatter_add_(1, local, &hit.mul(self.smoothing - 1.0)?)?;
        let rows = rows.mul_(&scale.mul(&g)?.unsqueeze(1)?)?;
        let mut moved = self.shape.clone();
        let part = moved.remove(self.class_dim);
        moved.push(part);
        let back = rows.reshape(moved)?.movedim(-1, self.class_dim)?;
        Ok(vec![Some(back.to_dtype(self.dtype)?.contiguous()?)])
    }
}
