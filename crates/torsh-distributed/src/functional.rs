//! Collectives with gradients, as records of the graph (`torch.distributed.nn.functional`).
//!
//! The gradients are those of the sum of all ranks' losses. All ranks call the forms, and their backward passes, in the
//! same order.

use torsh_tensor::{CustomBackward, Device, Result, Tensor, TorshError, no_grad, record_function};

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;

/// A form whose gradient is another one.
struct Form<F> {
    name: &'static str,
    backward: F,
}

impl<F: Fn(&Tensor) -> Result<Tensor> + Send + Sync> CustomBackward for Form<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn backward(&self, grads: &[Option<Tensor>], _saved: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        match grads {
            [Some(g)] => Ok(vec![Some((self.backward)(g)?)]),
            // The other ranks send all the same, so a missing gradient cannot be left out.
            _ => Err(TorshError::autograd(
                self.name,
                "the result got no gradient on this rank",
            )),
        }
    }
}

/// Records a result with its gradient.
#[track_caller]
fn record(
    name: &'static str,
    t: &Tensor,
    forward: impl FnOnce(&Tensor) -> Result<Tensor>,
    backward: impl Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    let out = no_grad(|| forward(&t.detach()))?;
    let form = Form { name, backward };
    let mut outs = record_function(std::slice::from_ref(t), vec![out], &[], 0, Box::new(form))?;
    outs.pop()
        .ok_or_else(|| TorshError::autograd(name, "the function has no result"))
}

/// A dimension that counts from 0.
fn dim_of(op: &'static str, what: &str, t: &Tensor, dim: i64) -> Result<usize> {
    let n = t.ndim() as i64;
    let d = if dim < 0 { dim + n } else { dim };
    match usize::try_from(d) {
        Ok(d) if d < t.ndim() => Ok(d),
        _ => Err(TorshError::index(
            op,
            format!("{what} is {dim}, and {} has {n} dimensions", t.describe()),
        )),
    }
}

fn empty(shape: &[usize], like: &Tensor) -> Result<Tensor> {
    let device = match like.device() {
        Device::Meta => Device::Meta,
        _ => Device::Cpu,
    };
    Tensor::empty(shape, like.dtype(), device)
}

/// Refuses a reduction without a gradient.
fn check_op(name: &'static str, op: ReduceOp) -> Result<()> {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => Ok(()),
        _ => Err(TorshError::invalid(
            name,
            format!("the reduction {op} has no gradient here"),
        )
        .with_hint("use ReduceOp::Sum or ReduceOp::Avg, or the method of the group, which records nothing")),
    }
}

/// The sum or mean of a tensor over all ranks, a new tensor. Its gradient is the same reduction of the ranks' gradients.
///
/// ```
/// use torsh_distributed::{ReduceOp, functional, spawn};
/// use torsh_tensor::tensor;
///
/// let gradients = spawn(2, |g| {
///     let x = tensor![1.0, 2.0].requires_grad_(true);
///     let y = functional::all_reduce(&x, ReduceOp::Sum, &g)?;
///     y.mul(g.rank() as f64 + 1.0)?.sum()?.backward()?;
///     Ok(x.grad().expect("used"))
/// })?;
/// assert_eq!(gradients[0], tensor![3.0, 3.0]); // 1 from rank 0, 2 from rank 1
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Another reduction than Sum and Avg; and as [`ProcessGroup::all_reduce_`].
#[torsh_tensor::names_caller]
pub fn all_reduce(t: &Tensor, op: ReduceOp, group: &ProcessGroup) -> Result<Tensor> {
    const NAME: &str = "functional::all_reduce";
    check_op(NAME, op)?;
    let g = group.clone();
    record(
        "DistributedAllReduce",
        t,
        |t| group.all_reduce_(&t.copy()?, op),
        move |grad| all_reduce(grad, op, &g),
    )
}

/// The tensors of all ranks, one behind the other along a dimension. Its gradient is the sum of the ranks' gradients for
/// this rank's part.
///
/// ```
/// use torsh_distributed::{functional, spawn};
/// use torsh_tensor::tensor;
///
/// let all = spawn(2, |g| functional::all_gather(&tensor![[1.0], [2.0]].mul(g.rank() as f64 + 1.0)?, 1, &g))?;
/// assert_eq!(all[0], tensor![[1.0, 2.0], [2.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A dimension that is not there; different shapes of the ranks; and as [`ProcessGroup::all_gather_into_`].
#[torsh_tensor::names_caller]
pub fn all_gather(t: &Tensor, dim: i64, group: &ProcessGroup) -> Result<Tensor> {
    let d = dim_of("functional::all_gather", "dim", t, dim)?;
    let g = group.clone();
    record(
        "DistributedAllGather",
        t,
        |t| gather_along(t, d, group),
        move |grad| reduce_scatter(grad, d as i64, ReduceOp::Sum, &g),
    )
}

/// All ranks' tensors along a dimension, without a record.
fn gather_along(t: &Tensor, d: usize, group: &ProcessGroup) -> Result<Tensor> {
    let n = group.size();
    let mut shape = vec![n];
    shape.extend_from_slice(t.dims());
    let all = empty(&shape, t)?;
    group.all_gather_into_(&all, &t.contiguous()?)?;
    // From [ranks, .., rows, ..] to [.., ranks * rows, ..].
    let mut order: Vec<usize> = (1..=t.ndim()).collect();
    order.insert(d, 0);
    let mut whole = t.dims().to_vec();
    whole[d] *= n;
    all.permute(&order[..])?.reshape(&whole[..])
}

/// The sum or mean of the ranks' tensors, of which each rank gets its part along a dimension. Its gradient is that of all
/// parts.
///
/// ```
/// use torsh_distributed::{ReduceOp, functional, spawn};
/// use torsh_tensor::tensor;
///
/// let parts = spawn(2, |g| functional::reduce_scatter(&tensor![[1.0, 2.0]], -1, ReduceOp::Sum, &g))?;
/// assert_eq!((&parts[0], &parts[1]), (&tensor![[2.0]], &tensor![[4.0]]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A dimension that is not there or that the ranks do not divide; another reduction than Sum and Avg; and as
/// [`ProcessGroup::reduce_scatter_`].
#[torsh_tensor::names_caller]
pub fn reduce_scatter(t: &Tensor, dim: i64, op: ReduceOp, group: &ProcessGroup) -> Result<Tensor> {
    const NAME: &str = "functional::reduce_scatter";
    check_op(NAME, op)?;
    let d = dim_of(NAME, "dim", t, dim)?;
    divides(NAME, t, d, group)?;
    let g = group.clone();
    let n = group.size();
    record(
        "DistributedReduceScatter",
        t,
        |t| {
            let blocks = blocks_along(t, d, n)?;
            let out = empty(&blocks.dims()[1..], t)?;
            group.reduce_scatter_(&out, &blocks, op)
        },
        move |grad| {
            let all = all_gather(grad, d as i64, &g)?;
            match op {
                ReduceOp::Avg => all.div(n as f64),
                _ => Ok(all),
            }
        },
    )
}

fn divides(op: &'static str, t: &Tensor, d: usize, group: &ProcessGroup) -> Result<()> {
    if t.dims()[d].is_multiple_of(group.size()) {
        return Ok(());
    }
    let message = format!(
        "the {} ranks of group {} do not divide dimension {d} of {}",
        group.size(),
        group.name(),
        t.describe()
    );
    Err(TorshError::shape(op, message).with_hint("pad it"))
}

/// From `[.., ranks * rows, ..]` to `[ranks, .., rows, ..]`, contiguous.
fn blocks_along(t: &Tensor, d: usize, n: usize) -> Result<Tensor> {
    let mut shape = t.dims().to_vec();
    shape[d] /= n;
    shape.insert(d, n);
    let mut order: Vec<usize> = (0..shape.len()).filter(|&k| k != d).collect();
    order.insert(0, d);
    t.reshape(&shape[..])?.permute(&order[..])?.contiguous()
}

/// Cuts a dimension among the ranks and puts what comes from them together along another one, as sequence and expert
/// parallelism need it. Its gradient is the way back.
///
/// ```
/// use torsh_distributed::{functional, spawn};
/// use torsh_tensor::tensor;
///
/// let got = spawn(2, |g| functional::all_to_all(&tensor![[1, 2]].add(10 * g.rank() as i64)?, 1, 0, &g))?;
/// assert_eq!((&got[0], &got[1]), (&tensor![[1], [11]], &tensor![[2], [12]]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Dimensions that are not there; one to split that the ranks do not divide; and as
/// [`ProcessGroup::all_to_all_single_`].
#[torsh_tensor::names_caller]
pub fn all_to_all(
    t: &Tensor,
    split_dim: i64,
    concat_dim: i64,
    group: &ProcessGroup,
) -> Result<Tensor> {
    const NAME: &str = "functional::all_to_all";
    let split = dim_of(NAME, "split_dim", t, split_dim)?;
    let concat = dim_of(NAME, "concat_dim", t, concat_dim)?;
    divides(NAME, t, split, group)?;
    let (g, n) = (group.clone(), group.size());
    record(
        "DistributedAllToAll",
        t,
        |t| {
            let send = blocks_along(t, split, n)?;
            let got = empty(send.dims(), t)?;
            group.all_to_all_single_(&got, &send)?;
            let mut order: Vec<usize> = (1..=t.ndim()).collect();
            order.insert(concat, 0);
            let mut shape = send.dims()[1..].to_vec();
            shape[concat] *= n;
            got.permute(&order[..])?.reshape(&shape[..])
        },
        move |grad| all_to_all(grad, concat as i64, split as i64, &g),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn;
    use torsh_tensor::{DType, randn};

    /// Compares gradients with differences of the sum of all ranks' losses.
    fn check(
        n: usize,
        shape: &[usize],
        f: impl Fn(&Tensor, &ProcessGroup) -> Result<Tensor> + Send + Sync,
    ) -> Result<()> {
        spawn(n, |g| {
            let x = randn(shape).to_dtype(DType::F64)?;
            let weights = f(&x, &g)?;
            let weights = randn(weights.shape()).to_dtype(DType::F64)?;
            let loss = |x: &Tensor| f(x, &g)?.pow(2.0)?.mul(&weights)?.sum();
            let total = |x: &Tensor| {
                let l = no_grad(|| loss(x))?;
                g.all_reduce_(&l, ReduceOp::Sum)?.item::<f64>()
            };
            let leaf = x.copy()?.requires_grad_(true);
            loss(&leaf)?.backward()?;
            let grad = leaf.grad().expect("used").flatten(0)?;
            for r in 0..n {
                for i in 0..x.numel() {
                    let eps = 1e-5;
                    let moved = |by: f64| {
                        let y = x.copy()?;
                        if g.rank() == r {
                            y.flatten(0)?.narrow(0, i, 1)?.add_(by)?;
                        }
                        total(&y)
                    };
                    let slope = (moved(eps)? - moved(-eps)?) / (2.0 * eps);
                    if g.rank() == r {
                        let ours = grad.narrow(0, i, 1)?.item::<f64>()?;
                        assert!(
                            (ours - slope).abs() < 1e-6,
                            "rank {r}, element {i}: {ours} and {slope}"
                        );
                    }
                }
            }
            Ok(())
        })
        .map(|_| ())
    }

    #[test]
    fn gradients_are_those_of_all_losses() -> Result<()> {
        for n in [1, 2, 3] {
            check(n, &[2, 3], |x, g| all_reduce(x, ReduceOp::Sum, g))?;
            check(n, &[2, 2], |x, g| all_reduce(x, ReduceOp::Avg, g))?;
            check(n, &[2, 3], |x, g| all_gather(x, 0, g))?;
            check(n, &[2, 3], |x, g| all_gather(x, -1, g))?;
            check(n, &[2, n, 2], |x, g| reduce_scatter(x, 1, ReduceOp::Sum, g))?;
            check(n, &[2 * n, 2], |x, g| {
                reduce_scatter(x, 0, ReduceOp::Avg, g)
            })?;
            check(n, &[2, 2 * n], |x, g| all_to_all(x, 1, 0, g))?;
            check(n, &[n, 2], |x, g| all_to_all(x, 0, 0, g))?;
        }
        Ok(())
    }

    #[test]
    fn others_have_none() -> Result<()> {
        spawn(2, |g| {
            let e = all_reduce(&randn(&[2]), ReduceOp::Max, &g).expect_err("no gradient");
            assert!(e.to_string().contains("max"), "{e}");
            assert!(reduce_scatter(&randn(&[3]), 0, ReduceOp::Sum, &g).is_err());
            Ok(())
        })
        .map(|_| ())
    }
}
