//! ZeRO-1: each rank keeps the optimizer state of some parameters, makes their steps, and sends the results.

pub(crate) mod part;
pub(crate) mod state;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_optim::{Optimizer, OptimizerHooks, OptimizerState, Param, ParamGroup, StateValue};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::ProcessGroup;
pub(crate) use part::Part;

/// An optimizer whose state is split over the ranks (`torch.distributed.optim.ZeroRedundancyOptimizer`), for models whose
/// parameters and gradients are the same on all ranks, as after [`DistributedDataParallel`](crate::DistributedDataParallel).
///
/// Each rank's inner optimizer trains some of the parameters, chosen so that all ranks have about as many elements, and
/// sends them to the others. The result is that of the inner optimizer alone, bit for bit.
///
/// All ranks make it of the same parameters and call its steps and [`consolidate_state_dict`]. A clone is another handle.
///
/// [`consolidate_state_dict`]: ZeroRedundancyOptimizer::consolidate_state_dict
///
/// ```
/// use torsh_distributed::{ZeroRedundancyOptimizer, spawn};
/// use torsh_nn::Parameter;
/// use torsh_optim::{Adam, Optimizer};
/// use torsh_tensor::tensor;
///
/// let all = spawn(2, |g| {
///     let parameters = [Parameter::new(tensor![1.0, 2.0]), Parameter::new(tensor![3.0])];
///     let optimizer = ZeroRedundancyOptimizer::new(&parameters, &g, |own| Adam::new(own, 0.5))?;
///     for p in &parameters {
///         p.square()?.sum()?.backward()?;
///     }
///     optimizer.step()?;
///     assert_eq!(optimizer.own_parameters().len(), 1);
///     parameters[1].item::<f32>()
/// })?;
/// assert!(all[0] == all[1] && (all[0] - 2.5).abs() < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct ZeroRedundancyOptimizer<O: Optimizer>(Arc<ZeroState<O>>);

struct ZeroState<O> {
    group: ProcessGroup,
    part: Part,
    optimizer: O,
    whole: Mutex<Option<OptimizerState>>,
}

impl<O: Optimizer> Clone for ZeroRedundancyOptimizer<O> {
    fn clone(&self) -> Self {
        ZeroRedundancyOptimizer(self.0.clone())
    }
}

impl<O: Optimizer> fmt::Debug for ZeroRedundancyOptimizer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, all) = (self.own_parameters().len(), self.0.part.params().count());
        write!(f, "ZeroRedundancyOptimizer({own} of {all} parameters)")
    }
}

impl<O: Optimizer> ZeroRedundancyOptimizer<O> {
    /// An optimizer of `parameters`; `build` makes the inner one of this rank's share, where other settings than the share
    /// are the same on all ranks.
    ///
    /// # Errors
    /// No parameters; what `build` returns; an optimizer that needs all parameters at once, as `LBFGS`.
    #[torsh_tensor::names_caller(Self)]
    pub fn new<P: Into<Param>>(
        parameters: impl IntoIterator<Item = P>,
        group: &ProcessGroup,
        build: impl FnOnce(Vec<Param>) -> Result<O>,
    ) -> Result<Self> {
        let all = vec![parameters.into_iter().map(Into::into).collect()];
        Self::with_groups(all, group, |mut own| build(own.pop().unwrap_or_default()))
    }

    /// [`ZeroRedundancyOptimizer::new`] of several groups of parameters: `build` gets as many groups, of this rank's
    /// parameters.
    ///
    /// ```
    /// use torsh_distributed::{ZeroRedundancyOptimizer, spawn};
    /// use torsh_nn::Parameter;
    /// use torsh_optim::{Optimizer, ParamGroup, SGD};
    /// use torsh_tensor::tensor;
    ///
    /// let lrs = spawn(2, |g| {
    ///     let groups = vec![vec![Parameter::new(tensor![1.0]).into()], vec![Parameter::new(tensor![2.0]).into()]];
    ///     let optimizer = ZeroRedundancyOptimizer::with_groups(groups, &g, |own| {
    ///         let lrs = [0.1, 0.2];
    ///         let groups = own.into_iter().zip(lrs).map(|(p, lr)| ParamGroup::new(p).lr(lr));
    ///         SGD::builder(groups).build()
    ///     })?;
    ///     Ok(optimizer.group_lrs())
    /// })?;
    /// assert_eq!(lrs, [[0.1, 0.2], [0.1, 0.2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ZeroRedundancyOptimizer::new`]; `build` made another number of groups.
    #[torsh_tensor::names_caller(Self)]
    pub fn with_groups(
        parameters: Vec<Vec<Param>>,
        group: &ProcessGroup,
        build: impl FnOnce(Vec<Vec<Param>>) -> Result<O>,
    ) -> Result<Self> {
        const OP: &str = "ZeroRedundancyOptimizer";
        let part = Part::new(OP, parameters, group.size())?;
        let optimizer = build(part.of_rank(group.rank())?)?;
        if optimizer.get_option(0, "history_size").is_some() {
            return Err(
                TorshError::invalid(OP, "LBFGS looks at all parameters at once")
                    .with_hint("use it without ZeRO, or another optimizer"),
            );
        }
        part.check(OP, &optimizer)?;
        Ok(ZeroRedundancyOptimizer(Arc::new(ZeroState {
            group: group.clone(),
            part,
            optimizer,
            whole: Mutex::new(None),
        })))
    }

    /// The parameters whose steps this rank makes.
    pub fn own_parameters(&self) -> Vec<Tensor> {
        let own = self.0.part.owned_by(self.0.group.rank());
        own.map(|p| p.tensor().clone()).collect()
    }

    /// The optimizer of this rank's parameters.
    pub fn inner(&self) -> &O {
        &self.0.optimizer
    }

    /// Sends each rank's parameters to the others.
    fn send(&self) -> Result<()> {
        *self.0.whole.lock() = None;
        let group = &self.0.group;
        if group.size() == 1 {
            return Ok(());
        }
        no_grad(|| {
            let mut works = Vec::new();
            for rank in 0..group.size() {
                let tensors: Vec<Tensor> = self
                    .0
                    .part
                    .owned_by(rank)
                    .map(|p| p.tensor().detach())
                    .filter(|t| t.numel() > 0)
                    .collect();
                if !tensors.is_empty() {
                    works.push(group.broadcast_coalesced_async(&tensors, rank)?);
                }
            }
            works.iter().try_for_each(|w| w.wait())
        })
    }

    /// Brings the state of all parameters to rank `to`, or to all ranks for `None`: there,
    /// [`state_dict`](Optimizer::state_dict) then gives what the inner optimizer alone would, until the next step. All ranks
    /// call it.
    ///
    /// ```
    /// use torsh_distributed::{ZeroRedundancyOptimizer, spawn};
    /// use torsh_nn::Parameter;
    /// use torsh_optim::{Adam, Optimizer};
    /// use torsh_tensor::tensor;
    ///
    /// let counts = spawn(2, |g| {
    ///     let parameters = [Parameter::new(tensor![1.0, 2.0]), Parameter::new(tensor![3.0])];
    ///     let optimizer = ZeroRedundancyOptimizer::new(&parameters, &g, |own| Adam::new(own, 0.5))?;
    ///     for p in &parameters {
    ///         p.square()?.sum()?.backward()?;
    ///     }
    ///     optimizer.step()?;
    ///     let own = optimizer.state_dict().state.len();
    ///     optimizer.consolidate_state_dict(0)?;
    ///     Ok((own, optimizer.state_dict().state.len()))
    /// })?;
    /// assert_eq!(counts, [(1, 2), (1, 1)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The group failed; a rank that it does not have.
    #[torsh_tensor::names_caller]
    pub fn consolidate_state_dict(&self, to: impl Into<Option<usize>>) -> Result<()> {
        let inner = &self.0;
        let to = to.into();
        if let Some(rank) = to.filter(|r| *r >= inner.group.size()) {
            return Err(TorshError::index(
                "consolidate_state_dict",
                format!(
                    "there is no rank {rank} in a group of {}",
                    inner.group.size()
                ),
            ));
        }
        let own = inner
            .part
            .to_whole(&inner.optimizer.state_dict(), inner.group.rank());
        let whole = state::consolidate(&inner.group, &inner.part, own)?;
        let here = to.is_none_or(|rank| rank == inner.group.rank());
        *inner.whole.lock() = here.then_some(whole);
        Ok(())
    }
}

impl<O: Optimizer + 'static> Optimizer for ZeroRedundancyOptimizer<O> {
    #[torsh_tensor::names_caller]
    fn step(&self) -> Result<()> {
        self.0.optimizer.step()?;
        self.send()
    }

    #[torsh_tensor::names_caller]
    fn step_unless(&self, found_inf: &Tensor) -> Result<()> {
        self.0.optimizer.step_unless(found_inf)?;
        self.send()
    }

    #[torsh_tensor::names_caller]
    fn step_dyn(&self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
        let loss = self.0.optimizer.step_dyn(closure)?;
        self.send()?;
        Ok(loss)
    }

    fn zero_grad(&self) {
        for p in self.0.part.params() {
            p.tensor().zero_grad();
        }
    }

    fn group_lrs(&self) -> Vec<f64> {
        self.0.optimizer.group_lrs()
    }

    #[track_caller]
    fn set_group_lr(&self, group: usize, lr: f64) -> Result<()> {
        self.0.optimizer.set_group_lr(group, lr)
    }

    fn set_lr(&self, lr: f64) {
        self.0.optimizer.set_lr(lr)
    }

    fn get_option(&self, group: usize, name: &str) -> Option<StateValue> {
        self.0.optimizer.get_option(group, name)
    }

    #[track_caller]
    fn set_option(&self, group: usize, name: &str, value: StateValue) -> Result<()> {
        self.0.optimizer.set_option(group, name, value)
    }

    #[track_caller]
    fn set_extra(&self, group: usize, name: &str, value: StateValue) -> Result<()> {
        self.0.optimizer.set_extra(group, name, value)
    }

    fn handle(&self) -> Arc<dyn Optimizer> {
        Arc::new(self.clone())
    }

    fn id(&self) -> usize {
        self.0.optimizer.id()
    }

    fn param_groups(&self) -> Vec<Vec<Param>> {
        self.0.part.groups().to_vec()
    }

    /// # Errors
    /// Always: groups are given when it is made.
    #[torsh_tensor::names_caller]
    fn add_param_group(&self, _: ParamGroup) -> Result<()> {
        Err(TorshError::invalid(
            "ZeroRedundancyOptimizer",
            "parameters are shared out when it is made, so none can be added",
        )
        .with_hint("make a new one with ZeroRedundancyOptimizer::with_groups"))
    }

    /// The state of all parameters after [`ZeroRedundancyOptimizer::consolidate_state_dict`], else that of this rank's,
    /// under the numbers that they have among all.
    fn hooks(&self) -> OptimizerHooks {
        self.0.optimizer.hooks()
    }

    fn state_dict(&self) -> OptimizerState {
        if let Some(whole) = &*self.0.whole.lock() {
            return whole.clone();
        }
        self.0
            .part
            .to_whole(&self.0.optimizer.state_dict(), self.0.group.rank())
    }

    /// Takes this rank's part of a state of all parameters, which another number of ranks, or the inner optimizer alone, may
    /// have saved.
    #[torsh_tensor::names_caller]
    fn load_state_dict(&self, state: &OptimizerState) -> Result<()> {
        *self.0.whole.lock() = None;
        let own = self
            .0
            .part
            .to_part("ZeroRedundancyOptimizer", state, self.0.group.rank())?;
        self.0.optimizer.load_state_dict(&own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn;
    use torsh_nn::Parameter;
    use torsh_optim::{AdamW, LBFGS};

    fn parameters() -> Result<Vec<Parameter>> {
        [7usize, 3, 5]
            .iter()
            .map(|&n| {
                let data: Vec<f32> = (0..n).map(|i| i as f32 - 2.5).collect();
                Ok(Parameter::new(Tensor::from_vec(data, [n])?))
            })
            .collect()
    }

    fn steps(
        optimizer: &dyn Optimizer,
        parameters: &[Parameter],
        n: usize,
    ) -> Result<Vec<Vec<f32>>> {
        for _ in 0..n {
            optimizer.zero_grad();
            for p in parameters {
                p.square()?.sum()?.backward()?;
            }
            optimizer.step()?;
        }
        parameters
            .iter()
            .map(|p| p.detach().to_vec::<f32>())
            .collect()
    }

    #[test]
    fn it_saves_at_three_ranks_and_goes_on_at_two_and_alone() {
        let run = |n: usize| {
            spawn(n, move |g| {
                let p = parameters()?;
                let o = ZeroRedundancyOptimizer::new(&p, &g, |own| AdamW::new(own, 0.1))?;
                steps(&o, &p, 3)?;
                o.consolidate_state_dict(None)?;
                let state = o.state_dict();
                let after = steps(&o, &p, 2)?;
                Ok((state, after))
            })
        };
        let (state, after) = run(3).expect("runs").pop().expect("three");
        let alone = parameters().expect("values");
        let plain = AdamW::new(&alone, 0.1).expect("an optimizer");
        steps(&plain, &alone, 3).expect("steps");
        plain.load_state_dict(&state).expect("a state of all");
        assert_eq!(steps(&plain, &alone, 2).expect("steps"), after);
        let loaded = spawn(2, |g| {
            let p = parameters()?;
            let before = AdamW::new(&p, 0.1)?;
            steps(&before, &p, 3)?;
            let o = ZeroRedundancyOptimizer::new(&p, &g, |own| AdamW::new(own, 0.1))?;
            o.load_state_dict(&state)?;
            steps(&o, &p, 2)
        });
        assert_eq!(loaded.expect("runs"), [after.clone(), after]);
    }

    #[test]
    fn more_ranks_than_parameters_and_refusals() {
        let all = spawn(4, |g| {
            let p = parameters()?;
            assert!(ZeroRedundancyOptimizer::new(&p, &g, |own| LBFGS::new(own, 1.0)).is_err());
            let o = ZeroRedundancyOptimizer::new(&p, &g, |own| AdamW::new(own, 0.1))?;
            steps(&o, &p, 2)
        })
        .expect("runs");
        let alone = parameters().expect("values");
        let plain = AdamW::new(&alone, 0.1).expect("an optimizer");
        let plain = steps(&plain, &alone, 2).expect("steps");
        assert!(all.iter().all(|a| *a == plain));
    }
}
