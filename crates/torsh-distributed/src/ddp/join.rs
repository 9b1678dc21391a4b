//! Uneven inputs: ranks that have no more of them follow the others' steps.

use torsh_nn::Module;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::DistributedDataParallel;
use super::join_options::JoinOptions;
use super::reducer::{Joined, OP, Reducer, State};
use super::verify;

/// What the ranks said at the beginning of a step.
pub(super) struct Rows {
    /// The first rank that still trains.
    pub(super) first: usize,
    /// Whether any does.
    pub(super) any: bool,
    pub(super) buffers: bool,
    pub(super) sync: bool,
}

impl Reducer {
    /// Tells the others what this rank does next (nothing: `None`), and hears what they do.
    pub(super) fn shake(&self, s: &mut State, mine: Option<(bool, bool)>) -> Result<Rows> {
        let n = self.group.size();
        let row: [i64; 3] = match mine {
            Some((buffers, sync)) => [1, i64::from(buffers), i64::from(sync)],
            None => [0; 3],
        };
        let out = Tensor::zeros([n * 3], DType::I64, Device::Cpu)?;
        self.group
            .all_gather_into_(&out, &Tensor::from_data(&row, [3])?)?;
        let all = out.to_vec::<i64>()?;
        let of = |r: usize| (all[3 * r + 1] != 0, all[3 * r + 2] != 0);
        let active: Vec<usize> = (0..n).filter(|r| all[3 * r] != 0).collect();
        let Some(&first) = active.first() else {
            return Ok(Rows {
                first: 0,
                any: false,
                buffers: false,
                sync: false,
            });
        };
        if let Some(&other) = active.iter().find(|r| of(**r) != of(first)) {
            return Err(TorshError::invalid(
                "join",
                format!(
                    "ranks {first} and {other} of group {} make different steps: (buffers sent, gradients sent) are {:?} and {:?}",
                    self.group.name(),
                    of(first),
                    of(other)
                ),
            )
            .with_hint("no_sync() and training mode must be the same on all ranks in each step"));
        }
        let throw = s
            .join
            .as_ref()
            .is_some_and(|j| j.options.throw_on_early_termination);
        if throw && active.len() < n {
            let gone: Vec<usize> = (0..n).filter(|r| !active.contains(r)).collect();
            return Err(TorshError::invalid(
                "join",
                format!(
                    "ranks {gone:?} of group {} have no more inputs",
                    self.group.name()
                ),
            )
            .with_hint("give all ranks as many batches, or leave throw_on_early_termination out"));
        }
        let (buffers, sync) = of(first);
        if let Some(join) = &mut s.join {
            join.active = active;
        }
        Ok(Rows {
            first,
            any: true,
            buffers,
            sync,
        })
    }

    /// Follows the steps of the others until none trains.
    fn follow(&self) -> Result<Vec<usize>> {
        loop {
            let mut s = self.state();
            let rows = self.shake(&mut s, None)?;
            if !rows.any {
                let active = s.join.as_ref().map(|j| j.active.clone());
                return Ok(active.unwrap_or_default());
            }
            self.prepare(&mut s, rows.first, rows.buffers, rows.sync)?;
            if rows.sync {
                self.shadow(&mut s)?;
            }
        }
    }
}

/// Ends the join, however the closure ends.
struct Leave<'a>(&'a Reducer);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.state().join = None;
    }
}

/// Runs a training loop whose number of steps may differ from rank to rank (`DistributedDataParallel.join`). A rank whose
/// loop has ended follows the steps of the others, whose gradients are then divided by the number of all ranks; at the end
/// all ranks get the model of a rank that made the last step. What an optimizer remembers is not sent.
///
/// ```
/// use torsh_distributed::{DistributedDataParallel, join, spawn};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_tensor::tensor;
///
/// let weights = spawn(2, |group| {
///     let ddp = DistributedDataParallel::new(Linear::new(1, 1), group.rank())?;
///     torsh_nn::init::zeros_(&ddp.module().weight)?;
///     let optimizer = SGD::new(ddp.parameters(), 1.0)?;
///     join(&ddp, || {
///         // Rank 0 makes one step, rank 1 two.
///         for _ in 0..=group.rank() {
///             optimizer.zero_grad();
///             ddp.forward(&tensor![[1.0]])?.sum()?.backward()?;
///             optimizer.step()?;
///         }
///         Ok(())
///     })?;
///     ddp.module().weight.item::<f32>()
/// })?;
/// assert_eq!(weights, [-1.5, -1.5]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// An error of `f` or of the group; ranks that make different steps at the same time.
#[track_caller]
pub fn join<M: Module, T>(
    model: &DistributedDataParallel<M>,
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    join_with(model, JoinOptions::default(), f)
}

/// [`join`] with PyTorch's keyword arguments.
///
/// # Errors
/// As for [`join`]; with `throw_on_early_termination` that a rank has no more inputs.
#[torsh_tensor::names_caller]
pub fn join_with<M: Module, T>(
    model: &DistributedDataParallel<M>,
    options: JoinOptions,
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let reducer = model.reducer();
    if reducer.group.size() == 1 {
        return f();
    }
    {
        let mut s = reducer.state();
        if s.join.is_some() {
            return Err(TorshError::invalid(OP, "a join of this model is under way"));
        }
        s.join = Some(Joined {
            options,
            active: Vec::new(),
        });
    }
    let leave = Leave(reducer);
    let out = f()?;
    let last = reducer.follow()?;
    drop(leave);
    let src = last.first().copied().unwrap_or(0);
    verify::broadcast(
        &reducer.group,
        &model.all_parameters(),
        &reducer.buffers,
        src,
    )?;
    Ok(out)
}
