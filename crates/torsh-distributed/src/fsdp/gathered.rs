//! Optimizers that look at whole matrices.

use std::fmt;
use std::sync::Arc;

use torsh_nn::Parameter;
use torsh_optim::{Optimizer, OptimizerHooks, OptimizerState, Param, ParamGroup, StateValue};
use torsh_tensor::{Device, Result, Tensor, TorshError, no_grad};

use super::param::ShardedParam;
use super::unit::{Unit, owner};
use crate::ProcessGroup;
use crate::zero::{Part, state};

/// An optimizer of sharded parameters whose steps look at whole ones, as `Muon` and `Adafactor` do.
///
/// Each rank's inner optimizer has some of the parameters whole, chosen so that all ranks have about as many elements. A step
/// brings values and gradients of a parameter to its rank, which makes the inner step, and the new values back to the
/// pieces. So each rank holds its share of whole parameters, gradients and states. A clone is another handle.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, GatheringOptimizer, fully_shard, spawn};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_optim::{Adafactor, Optimizer};
/// use torsh_tensor::tensor;
///
/// let start = || Linear::builder(2, 3).bias(false).build();
/// let step = |layer: &Linear, optimizer: &dyn Optimizer| {
///     layer.forward(&tensor![[1.0, -2.0]])?.square()?.sum()?.backward()?;
///     optimizer.step()
/// };
/// let alone = start()?;
/// alone.weight.detach().fill_(0.5)?;
/// step(&alone, &Adafactor::new([&alone.weight], 0.1)?)?;
/// let both = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = start()?;
///     layer.weight.detach().fill_(0.5)?;
///     let handle = fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     let optimizer = GatheringOptimizer::new(layer.parameters(), |whole| Adafactor::new(whole, 0.1))?;
///     step(&layer, &optimizer)?;
///     handle.unshard()?;
///     layer.weight.detach().to_vec::<f32>()
/// })?;
/// assert_eq!(both[0], alone.weight.detach().to_vec::<f32>()?);
/// assert_eq!(both[0], both[1]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct GatheringOptimizer<O: Optimizer>(Arc<GatheringState<O>>);

struct GatheringState<O> {
    group: ProcessGroup,
    /// The pieces' units, and their numbers there.
    pieces: Vec<(Arc<Unit>, usize)>,
    /// Whole tensors; on the meta device where another rank has them.
    wholes: Vec<Tensor>,
    part: Part,
    optimizer: O,
}

impl<O: Optimizer> Clone for GatheringOptimizer<O> {
    fn clone(&self) -> Self {
        GatheringOptimizer(self.0.clone())
    }
}

impl<O: Optimizer> fmt::Debug for GatheringOptimizer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GatheringOptimizer({} parameters)", self.0.pieces.len())
    }
}

impl<O: Optimizer> GatheringOptimizer<O> {
    /// An optimizer of sharded parameters; `build` makes the inner one of the whole parameters of this rank. All ranks call
    /// it with the same parameters.
    ///
    /// # Errors
    /// No parameters; one that is not sharded, or over other ranks than the first; what `build` returns; `LBFGS`, which looks
    /// at all parameters at once.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        parameters: impl IntoIterator<Item = Parameter>,
        build: impl FnOnce(Vec<Param>) -> Result<O>,
    ) -> Result<Self> {
        const OP: &str = "GatheringOptimizer";
        let mut pieces: Vec<(Arc<Unit>, usize)> = Vec::new();
        for p in parameters {
            pieces.push(owner(&p).ok_or_else(|| {
                TorshError::invalid(
                    OP,
                    format!("{} is not a sharded parameter", p.tensor().describe()),
                )
                .with_hint(
                    "call fully_shard on its module first, or give it to an optimizer of its own",
                )
            })?);
        }
        let Some((first, _)) = pieces.first() else {
            return Err(
                TorshError::invalid(OP, "no parameters").with_hint("pass model.parameters()")
            );
        };
        let group = first.shard.clone();
        if let Some((other, _)) = pieces
            .iter()
            .find(|(u, _)| u.shard.ranks() != group.ranks())
        {
            return Err(TorshError::invalid(
                OP,
                format!(
                    "parameters of {} and {} are sharded over different ranks",
                    first.name, other.name
                ),
            )
            .with_hint("make an optimizer for each"));
        }
        let whole_on = |unit: &Unit, i: usize, here: bool| -> Result<Tensor> {
            let params = unit.params();
            let p = params.get(i).ok_or_else(|| gone(&unit.name))?;
            let device = if here { p.piece.device() } else { Device::Meta };
            let t = Tensor::zeros(p.shape.clone(), p.piece.dtype(), device)?;
            t.set_requires_grad(p.piece.requires_grad())?;
            Ok(t)
        };
        let make = |owned: &dyn Fn(usize) -> bool| -> Result<Vec<Tensor>> {
            pieces
                .iter()
                .enumerate()
                .map(|(n, (u, i))| whole_on(u, *i, owned(n)))
                .collect()
        };
        let as_group = |t: &[Tensor]| vec![t.iter().map(Param::from).collect::<Vec<_>>()];
        let plan = Part::new(OP, as_group(&make(&|_| false)?), group.size())?;
        let wholes = make(&|n| plan.owner(n) == group.rank())?;
        // The same shares, since sizes decide.
        let part = Part::new(OP, as_group(&wholes), group.size())?;
        let mut own = part.of_rank(group.rank())?;
        let optimizer = build(own.pop().unwrap_or_default())?;
        if optimizer.get_option(0, "history_size").is_some() {
            return Err(
                TorshError::invalid(OP, "LBFGS looks at all parameters at once")
                    .with_hint("use another optimizer"),
            );
        }
        part.check(OP, &optimizer)?;
        Ok(GatheringOptimizer(Arc::new(GatheringState {
            group,
            pieces,
            wholes,
            part,
            optimizer,
        })))
    }

    /// The optimizer of this rank's whole parameters.
    pub fn inner(&self) -> &O {
        &self.0.optimizer
    }

    /// Runs `f` on each parameter, with its whole tensor and the rank that has it.
    fn each(&self, f: impl Fn(&ShardedParam, &Tensor, usize) -> Result<()>) -> Result<()> {
        for (n, (unit, i)) in self.0.pieces.iter().enumerate() {
            let params = unit.params();
            let p = params.get(*i).ok_or_else(|| gone(&unit.name))?;
            f(p, &self.0.wholes[n], self.0.part.owner(n))?;
        }
        Ok(())
    }

    fn around(&self, step: impl FnOnce(&O) -> Result<()>) -> Result<()> {
        let group = &self.0.group;
        no_grad(|| {
            self.each(|p, whole, at| {
                if p.is_empty() {
                    return Ok(());
                }
                let join = |pieces: Option<Vec<Tensor>>| -> Result<Option<Tensor>> {
                    let Some(pieces) = pieces else {
                        return Ok(None);
                    };
                    let flat = Tensor::cat(&pieces, 0)?;
                    flat.narrow(0, 0, whole.numel())?
                        .reshape(whole.dims())
                        .map(Some)
                };
                if let Some(values) = join(group.gather(&p.padded, at)?)? {
                    whole.copy_(&values)?;
                }
                let grad = match p.piece.grad() {
                    Some(g) => {
                        let flat = Tensor::zeros([p.rows.padded()], g.dtype(), g.device())?;
                        let n = g.numel();
                        flat.narrow(0, 0, n)?.copy_(&g.reshape([n])?)?;
                        join(group.gather(&flat, at)?)?
                    }
                    None => None,
                };
                if at == group.rank() {
                    whole.set_grad(grad.map(|g| g.copy()).transpose()?)?;
                }
                Ok(())
            })
        })?;
        step(&self.0.optimizer)?;
        no_grad(|| {
            self.each(|p, whole, at| {
                if p.is_empty() {
                    return Ok(());
                }
                let n = p.rows.padded();
                let pieces = match at == group.rank() {
                    true => {
                        whole.set_grad(None)?;
                        let flat =
                            Tensor::zeros([n * group.size()], whole.dtype(), whole.device())?;
                        flat.narrow(0, 0, whole.numel())?
                            .copy_(&whole.detach().reshape([whole.numel()])?)?;
                        let cut = (0..group.size()).map(|r| flat.narrow(0, r * n, n));
                        Some(cut.collect::<Result<Vec<_>>>()?)
                    }
                    false => None,
                };
                group.scatter_(&p.padded, pieces.as_deref(), at).map(drop)
            })
        })
    }

    /// Brings the state of all parameters to all ranks, as
    /// [`ZeroRedundancyOptimizer::consolidate_state_dict`](crate::ZeroRedundancyOptimizer::consolidate_state_dict), and
    /// returns it. All ranks call it.
    ///
    /// # Errors
    /// The group failed.
    #[torsh_tensor::names_caller]
    pub fn full_state_dict(&self) -> Result<OptimizerState> {
        let own = self
            .0
            .part
            .to_whole(&self.0.optimizer.state_dict(), self.0.group.rank());
        state::consolidate(&self.0.group, &self.0.part, own)
    }
}

fn gone(unit: &str) -> TorshError {
    TorshError::invalid(
        "GatheringOptimizer",
        format!("a parameter of {unit} is gone"),
    )
}

impl<O: Optimizer + 'static> Optimizer for GatheringOptimizer<O> {
    #[torsh_tensor::names_caller]
    fn step(&self) -> Result<()> {
        self.around(|o| o.step())
    }

    #[torsh_tensor::names_caller]
    fn step_unless(&self, found_inf: &Tensor) -> Result<()> {
        self.around(|o| o.step_unless(found_inf))
    }

    #[torsh_tensor::names_caller]
    fn step_dyn(&self, closure: &mut dyn FnMut() -> Result<Tensor>) -> Result<Tensor> {
        let loss = torsh_tensor::enable_grad(closure)?;
        self.step()?;
        Ok(loss)
    }

    fn zero_grad(&self) {
        for (unit, i) in &self.0.pieces {
            if let Some(p) = unit.params().get(*i) {
                p.piece.zero_grad();
            }
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

    /// The pieces.
    fn param_groups(&self) -> Vec<Vec<Param>> {
        let pieces = self.0.pieces.iter();
        vec![
            pieces
                .filter_map(|(u, i)| u.params().get(*i).map(|p| Param::from(&p.parameter)))
                .collect(),
        ]
    }

    /// # Errors
    /// Always: parameters are shared out when it is made.
    #[torsh_tensor::names_caller]
    fn add_param_group(&self, _: ParamGroup) -> Result<()> {
        Err(TorshError::invalid(
            "GatheringOptimizer",
            "parameters are shared out when it is made, so none can be added",
        )
        .with_hint("make a new one"))
    }

    /// The state of this rank's parameters, under the numbers that they have among all;
    /// [`GatheringOptimizer::full_state_dict`] gives that of all.
    fn hooks(&self) -> OptimizerHooks {
        self.0.optimizer.hooks()
    }

    fn state_dict(&self) -> OptimizerState {
        self.0
            .part
            .to_whole(&self.0.optimizer.state_dict(), self.0.group.rank())
    }

    /// Takes this rank's part of a state of all parameters, which the inner optimizer alone may have saved.
    #[torsh_tensor::names_caller]
    fn load_state_dict(&self, state: &OptimizerState) -> Result<()> {
        let own = self
            .0
            .part
            .to_part("GatheringOptimizer", state, self.0.group.rank())?;
        self.0.optimizer.load_state_dict(&own)
    }
}
