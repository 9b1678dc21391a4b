//! Running a step of a pipeline.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use super::exchange::{Exchange, Lane, gradient_lane, input_lane};
use super::stage::PipelineStage;
use super::trace::{TraceAction, TraceEvent};
use super::weights::{Recorder, Split, Waiting};
use crate::ddp::NoSync;
use crate::group::ProcessGroup;
use crate::plan::{Action, Schedule as Order};

const OP: &str = "Schedule::step";

/// The order in which a rank works on micro-batches, and its stages.
///
/// All ranks of the stages' group make the same schedule and call [`Schedule::step`] together. The last stage's rank has
/// the loss:
///
/// ```
/// use torsh_distributed::pipeline::{PipelineStage, Schedule, split_into_stages};
/// use torsh_distributed::spawn;
/// use torsh_functional as F;
/// use torsh_nn::{Linear, Module, ModuleExt, ReLU, sequential};
/// use torsh_core::random::LocalGenerator;
/// use torsh_tensor::{ones, tensor};
///
/// let model = || LocalGenerator::new(1).scope(|| sequential![Linear::new(3, 4), ReLU::new(), Linear::new(4, 2)]);
/// let (x, y) = (ones([4, 3]), tensor![0, 1, 0, 1]);
/// let grads = spawn(2, |g| {
///     let part = split_into_stages(model(), 2)?.swap_remove(g.rank());
///     let schedule = Schedule::one_f_one_b(PipelineStage::on(part, g.rank(), 2, &g)?, 2);
///     let loss = schedule.step(&x, &y, F::cross_entropy)?;
///     assert_eq!(loss.is_some(), g.rank() == 1);
///     Ok(schedule.stages()[0].module().parameters()[0].grad())
/// })?;
/// // The same as without stages.
/// let whole = model();
/// for i in 0..2 {
///     let (x, y) = (x.narrow(0, 2 * i, 2)?, y.narrow(0, 2 * i, 2)?);
///     F::cross_entropy(&whole.forward(&x)?, &y)?.div(2.0)?.backward()?;
/// }
/// assert_eq!(grads[0], whole.parameters()[0].grad());
/// assert_eq!(grads[1], whole.parameters()[2].grad());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Schedule {
    stages: Vec<PipelineStage>,
    order: Order,
    micro_batches: usize,
    recorders: Mutex<Vec<Recorder>>,
    last: Mutex<Last>,
}

/// What is known of the last step.
#[derive(Default)]
struct Last {
    events: Vec<TraceEvent>,
    span: Duration,
    most_held: usize,
}

/// A micro-batch whose backward pass is to come.
struct Held {
    input: Option<Tensor>,
    out: Tensor,
    split: Option<Split>,
}

/// The work of one step.
struct Step<'a> {
    exchange: Exchange,
    held: HashMap<(usize, usize), Held>,
    waiting: HashMap<(usize, usize), Waiting>,
    x: Vec<Tensor>,
    y: Vec<Tensor>,
    losses: Vec<Option<Tensor>>,
    /// Keeps the modules of each stage from averaging gradients.
    quiet: Vec<Vec<NoSync<'static>>>,
    loss_fn: &'a dyn Fn(&Tensor, &Tensor) -> Result<Tensor>,
    begin: Instant,
    events: Vec<TraceEvent>,
    most_held: usize,
}

impl Schedule {
    /// All forward passes, then all backward passes (Y. Huang et al., "GPipe", 2019).
    ///
    /// ```
    /// # use torsh_distributed::pipeline::{PipelineStage, Schedule};
    /// # use torsh_distributed::{plan, spawn};
    /// # use torsh_functional as F;
    /// # use torsh_nn::{Linear, init};
    /// # use torsh_tensor::{ones, zeros};
    /// let losses = spawn(2, |g| {
    ///     let part = Linear::builder(1, 1).bias(false).build()?;
    ///     init::constant_(&part.weight, 3.0)?;
    ///     let stage = PipelineStage::on(part, g.rank(), 2, &g)?;
    ///     let schedule = Schedule::gpipe(stage, 2);
    ///     assert_eq!(schedule.order(), plan::Schedule::GPipe);
    ///     let loss = schedule.step(&ones([4, 1]), &zeros([4, 1]), |p, y| F::mse_loss(p, y))?;
    ///     loss.map(|l| l.item::<f32>()).transpose()
    /// })?;
    /// assert_eq!(losses, [None, Some(81.0)]); // 3 times 3, squared.
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn gpipe(stage: PipelineStage, micro_batches: usize) -> Schedule {
        Schedule::of(vec![stage], Order::GPipe, micro_batches)
    }

    /// A backward pass as soon as there can be one (D. Narayanan et al., "PipeDream", 2019): as fast as GPipe, and a rank
    /// holds at most as many micro-batches as there are stages from its own to the last, however many a step has.
    pub fn one_f_one_b(stage: PipelineStage, micro_batches: usize) -> Schedule {
        Schedule::of(vec![stage], Order::OneFOneB, micro_batches)
    }

    /// [`Schedule::one_f_one_b`] with several stages on a rank, which makes the idle part of a step that many times smaller
    /// and sends that many times as much. Stage `i` is on rank `i % ranks`; the stages are given in ascending order, and
    /// `micro_batches` is a multiple of the ranks.
    pub fn interleaved(stages: Vec<PipelineStage>, micro_batches: usize) -> Schedule {
        Schedule::of(stages, Order::Interleaved, micro_batches)
    }

    /// Backward passes in two parts: the input's gradient, which the stage before waits for, and those of the weights, for
    /// which nobody waits and which fill the time in which a rank would be idle (P. Qi et al., "Zero bubble pipeline
    /// parallelism", 2023: ZB-H1).
    ///
    /// A layer's weights wait if the layer has hooks, as all of `torsh_nn` have, and nothing else uses them.
    ///
    /// ```
    /// # use torsh_distributed::pipeline::{PipelineStage, Schedule};
    /// # use torsh_distributed::{plan, spawn};
    /// # use torsh_functional as F;
    /// # use torsh_nn::{Linear, init};
    /// # use torsh_tensor::{ones, zeros};
    /// let losses = spawn(2, |g| {
    ///     let part = Linear::builder(1, 1).bias(false).build()?;
    ///     init::constant_(&part.weight, 3.0)?;
    ///     let stage = PipelineStage::on(part, g.rank(), 2, &g)?;
    ///     let schedule = Schedule::zero_bubble(stage, 2);
    ///     assert_eq!(schedule.order(), plan::Schedule::ZeroBubble);
    ///     let loss = schedule.step(&ones([4, 1]), &zeros([4, 1]), |p, y| F::mse_loss(p, y))?;
    ///     loss.map(|l| l.item::<f32>()).transpose()
    /// })?;
    /// assert_eq!(losses, [None, Some(81.0)]); // 3 times 3, squared.
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn zero_bubble(stage: PipelineStage, micro_batches: usize) -> Schedule {
        Schedule::of(vec![stage], Order::ZeroBubble, micro_batches)
    }

    fn of(stages: Vec<PipelineStage>, order: Order, micro_batches: usize) -> Schedule {
        Schedule {
            stages,
            order,
            micro_batches,
            recorders: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// This rank's stages.
    pub fn stages(&self) -> &[PipelineStage] {
        &self.stages
    }

    /// What the ranks do in which order.
    pub fn order(&self) -> Order {
        self.order
    }

    fn group(&self) -> Result<&ProcessGroup> {
        let first = self.stages.first();
        let refuse = || TorshError::invalid(OP, "there is no stage");
        Ok(&first.ok_or_else(refuse)?.group)
    }

    /// This rank's actions; an error where the stages do not fit the schedule.
    fn actions(&self) -> Result<Vec<Action>> {
        let group = self.group()?;
        let (n, p) = (self.stages[0].stages, group.size());
        for (i, s) in self.stages.iter().enumerate() {
            let right = i * p + group.rank();
            if s.index != right || s.stages != n || self.stages.len() * p != n {
                return Err(TorshError::invalid(
                    OP,
                    format!(
                        "rank {} of {p} has {} stages of {n}, and the one at place {i} is stage {} of {}",
                        group.rank(),
                        self.stages.len(),
                        s.index,
                        s.stages
                    ),
                )
                .with_hint(format!(
                    "with {n} stages on {p} ranks give stages rank, rank + {p}, .. in this order"
                )));
            }
        }
        self.order
            .order(group.rank(), p, self.micro_batches, self.stages.len())
            .map_err(|e| e.renamed(OP))
    }

    /// The micro-batches of a batch.
    fn cut(&self, what: &str, t: Option<&Tensor>) -> Result<Vec<Tensor>> {
        let m = self.micro_batches;
        let Some(t) = t else {
            return Err(TorshError::invalid(
                OP,
                format!("this rank's stage needs {what}, which is None"),
            ));
        };
        let size = t.dims().first().copied().unwrap_or(0);
        if size == 0 || size % m != 0 {
            return Err(TorshError::shape(
                OP,
                format!(
                    "{what} is {}, and {m} micro-batches do not divide its first dimension",
                    t.describe()
                ),
            )
            .with_hint(
                "the mean over micro-batches is that of the batch where all are of one size",
            ));
        }
        (0..m)
            .map(|i| t.narrow(0, i * (size / m), size / m))
            .collect()
    }

    /// A forward and backward pass of all micro-batches. The first stage's rank needs the input `x`, the last one's the
    /// target `y`, both with the batch in dimension 0; other ranks may give `None`. Gradients are added to those that are
    /// there: those of the mean over micro-batches of `loss_fn(result, target)`, a 0-d tensor. That mean is what the last
    /// stage's rank gets, and the others get `None`.
    ///
    /// # Errors
    /// Micro-batches that do not divide the batch, a missing `x` or `y`, stages that are not this rank's, stages that make
    /// tensors of different shapes for the micro-batches, a loss of several elements, and those of the modules and of
    /// sending.
    #[torsh_tensor::names_caller]
    pub fn step<'t>(
        &self,
        x: impl Into<Option<&'t Tensor>>,
        y: impl Into<Option<&'t Tensor>>,
        loss_fn: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Option<Tensor>> {
        let actions = self.actions()?;
        let first = self.stages.iter().any(PipelineStage::is_first);
        let last = self.stages.iter().any(PipelineStage::is_last);
        if self.order == Order::ZeroBubble && self.recorders.lock().is_empty() {
            let made = self.stages.iter().map(|s| Recorder::new(&*s.module));
            *self.recorders.lock() = made.collect::<Result<_>>()?;
        }
        let mut step = Step {
            exchange: Exchange::new(self.group()?),
            held: HashMap::new(),
            waiting: HashMap::new(),
            x: if first {
                self.cut("x", x.into())?
            } else {
                Vec::new()
            },
            y: if last {
                self.cut("y", y.into())?
            } else {
                Vec::new()
            },
            losses: vec![None; self.micro_batches],
            quiet: Vec::with_capacity(self.stages.len()),
            loss_fn: &loss_fn,
            begin: Instant::now(),
            events: Vec::with_capacity(actions.len()),
            most_held: 0,
        };
        for s in &self.stages {
            step.quiet.push(s.begin_step()?);
        }
        for (i, action) in actions.iter().enumerate() {
            match *action {
                Action::Forward { micro, part } => {
                    self.forward(&mut step, part, micro, &actions[i + 1..])?
                }
                Action::Backward { micro, part } => {
                    self.backward(&mut step, part, micro, &actions[i + 1..])?
                }
                Action::Weights { micro, part } => self.weights(&mut step, part, micro)?,
            }
            if !actions[i + 1..]
                .iter()
                .any(|next| part_of(next) == part_of(action))
            {
                self.stages[part_of(action)].average()?;
            }
        }
        step.exchange.finish()?;
        for s in &self.stages {
            s.reduce_shared()?;
        }
        *self.last.lock() = Last {
            span: step.begin.elapsed(),
            events: step.events,
            most_held: step.most_held,
        };
        if !last {
            return Ok(None);
        }
        no_grad(|| {
            let mut total: Option<Tensor> = None;
            for loss in step.losses.into_iter().flatten() {
                total = Some(match total {
                    None => loss,
                    Some(sum) => sum.add(&loss)?,
                });
            }
            Ok(total)
        })
    }

    /// Makes room for what the next actions wait for, so that it comes while this one computes.
    fn look_ahead(&self, step: &mut Step<'_>, next: &[Action]) -> Result<()> {
        for action in next.iter().take(2) {
            let (lane, part) = match *action {
                Action::Forward { part, .. } => (input_lane(&self.stages[part]), part),
                Action::Backward { part, .. } => (gradient_lane(&self.stages[part]), part),
                Action::Weights { .. } => (None, 0),
            };
            if let Some(lane) = lane {
                step.exchange.expect(lane, self.stages[part].device)?;
            }
        }
        Ok(())
    }

    fn forward(
        &self,
        step: &mut Step<'_>,
        part: usize,
        micro: usize,
        next: &[Action],
    ) -> Result<()> {
        let stage = &self.stages[part];
        let input = match input_lane(stage) {
            None => step.x[micro].clone(),
            Some(lane) => {
                let t = step.exchange.receive(lane, stage.device)?.detach();
                if step.exchange.returns_gradient(lane.stage) && t.dtype().is_differentiable() {
                    t.set_requires_grad(true)?;
                }
                t
            }
        };
        self.look_ahead(step, next)?;
        let target = stage.is_last().then(|| step.y[micro].clone());
        let micro_batches = self.micro_batches as f64;
        let recorders = self.recorders.lock();
        // Hooks of the module see whole passes.
        let recorder = match stage.communicates() {
            true => None,
            false => recorders.get(part),
        };
        let held = step.timed(TraceAction::Forward, stage.index, micro, |step| {
            let run = || {
                let y = stage.module.forward(&input)?;
                let Some(target) = &target else { return Ok(y) };
                let loss = (step.loss_fn)(&y, target)?;
                if loss.numel() != 1 {
                    let text = format!("the loss is {}, and must be one number", loss.describe());
                    return Err(TorshError::shape(OP, text));
                }
                loss.div(micro_batches)
            };
            let (out, split) = match recorder {
                Some(r) => r.run(run).map(|(out, split)| (out, Some(split)))?,
                None => (run()?, None),
            };
            Ok(Held {
                input: input.requires_grad().then(|| input.clone()),
                out,
                split,
            })
        })?;
        match stage.is_last() {
            true => step.losses[micro] = Some(held.out.detach().reshape(())?),
            false => {
                let lane = Lane {
                    stage: stage.index,
                    forward: true,
                };
                step.exchange.send(lane, &held.out)?;
            }
        }
        step.held.insert((part, micro), held);
        step.most_held = step.most_held.max(step.held.len() + step.waiting.len());
        Ok(())
    }

    fn backward(
        &self,
        step: &mut Step<'_>,
        part: usize,
        micro: usize,
        next: &[Action],
    ) -> Result<()> {
        let stage = &self.stages[part];
        let Some(held) = step.held.remove(&(part, micro)) else {
            let text = format!(
                "micro-batch {micro} has not run forward through stage {}",
                stage.index
            );
            return Err(TorshError::invalid(OP, text));
        };
        let grad = match gradient_lane(stage) {
            Some(lane) if held.out.requires_grad() => {
                Some(step.exchange.receive(lane, stage.device)?)
            }
            _ => None,
        };
        self.look_ahead(step, next)?;
        let Held { input, out, split } = held;
        if micro + 1 == self.micro_batches {
            step.quiet[part].clear();
            stage.before_last_backward(&out)?;
        }
        let index = stage.index;
        let (back, waiting) = step.timed(TraceAction::Backward, index, micro, |_| {
            // A stage that trains nothing and gets nothing that is trained.
            if !out.requires_grad() && !stage.is_last() {
                return Ok((None, None));
            }
            match split {
                Some(split) => {
                    let (back, waiting) = split.backward(&out, grad, input.as_ref())?;
                    Ok((back, Some(waiting)))
                }
                None => {
                    out.backward_with(grad, false, false)?;
                    Ok((input.as_ref().and_then(Tensor::grad), None))
                }
            }
        })?;
        if let Some(waiting) = waiting {
            step.waiting.insert((part, micro), waiting);
        }
        if let (Some(input), Some(_)) = (&input, input_lane(stage)) {
            let back = match back {
                Some(g) => g,
                None => Tensor::zeros(input.shape(), input.dtype(), input.device())?,
            };
            let lane = Lane {
                stage: index,
                forward: false,
            };
            step.exchange.send(lane, &back)?;
        }
        Ok(())
    }

    /// The gradients of the weights, where they wait.
    fn weights(&self, step: &mut Step<'_>, part: usize, micro: usize) -> Result<()> {
        let Some(work) = step.waiting.remove(&(part, micro)) else {
            return Ok(());
        };
        step.timed(TraceAction::Weights, self.stages[part].index, micro, |_| {
            work.run()
        })
    }

    /// A forward pass without gradients: the last stage's rank gets the whole batch's results, the others `None`.
    ///
    /// ```
    /// use torsh_distributed::pipeline::{PipelineStage, Schedule};
    /// use torsh_distributed::spawn;
    /// use torsh_nn::ReLU;
    /// use torsh_tensor::tensor;
    ///
    /// let y = spawn(2, |g| {
    ///     let stage = PipelineStage::on(ReLU::new(), g.rank(), 2, &g)?;
    ///     Schedule::gpipe(stage, 2).eval(&tensor![-1.0, 1.0])
    /// })?;
    /// assert_eq!(y, [None, Some(tensor![0.0, 1.0])]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Schedule::step`].
    #[torsh_tensor::names_caller]
    pub fn eval<'t>(&self, x: impl Into<Option<&'t Tensor>>) -> Result<Option<Tensor>> {
        self.actions()?;
        let x = match self.stages.iter().any(PipelineStage::is_first) {
            true => self.cut("x", x.into())?,
            false => Vec::new(),
        };
        let mut exchange = Exchange::new(self.group()?);
        let mut results = Vec::new();
        no_grad(|| {
            for stage in &self.stages {
                for micro in 0..self.micro_batches {
                    let input = match input_lane(stage) {
                        None => x[micro].clone(),
                        Some(lane) => exchange.receive(lane, stage.device)?,
                    };
                    let y = stage.module.forward(&input)?;
                    match stage.is_last() {
                        true => results.push(y),
                        false => {
                            let lane = Lane {
                                stage: stage.index,
                                forward: true,
                            };
                            exchange.send(lane, &y)?;
                        }
                    }
                }
            }
            exchange.finish()?;
            match results.is_empty() {
                true => Ok(None),
                false => torsh_tensor::cat(&results, 0).map(Some),
            }
        })
    }

    /// What this rank did in the last step, in order.
    ///
    /// ```
    /// use torsh_distributed::pipeline::{PipelineStage, Schedule, TraceAction::*};
    /// use torsh_distributed::spawn;
    /// use torsh_functional as F;
    /// use torsh_nn::Linear;
    /// use torsh_tensor::{ones, zeros};
    ///
    /// let done = spawn(2, |g| {
    ///     let stage = PipelineStage::on(Linear::new(1, 1), g.rank(), 2, &g)?;
    ///     let schedule = Schedule::one_f_one_b(stage, 2);
    ///     schedule.step(&ones([2, 1]), &zeros([2, 1]), |p, y| F::mse_loss(p, y))?;
    ///     Ok(schedule.trace().iter().map(|e| e.action).collect::<Vec<_>>())
    /// })?;
    /// assert_eq!(done[0], [Forward, Forward, Backward, Backward]);
    /// assert_eq!(done[1], [Forward, Backward, Forward, Backward]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn trace(&self) -> Vec<TraceEvent> {
        self.last.lock().events.clone()
    }

    /// How many micro-batches' activations this rank held at once in the last step, at most.
    ///
    /// ```
    /// use torsh_distributed::pipeline::{PipelineStage, Schedule};
    /// use torsh_distributed::spawn;
    /// use torsh_functional as F;
    /// use torsh_nn::Linear;
    /// use torsh_tensor::{ones, zeros};
    ///
    /// let held = spawn(2, |g| {
    ///     let stage = PipelineStage::on(Linear::new(1, 1), g.rank(), 2, &g)?;
    ///     let schedule = Schedule::one_f_one_b(stage, 8);
    ///     schedule.step(&ones([8, 1]), &zeros([8, 1]), |p, y| F::mse_loss(p, y))?;
    ///     Ok(schedule.most_held())
    /// })?;
    /// assert_eq!(held, [2, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn most_held(&self) -> usize {
        self.last.lock().most_held
    }

    /// What part of the last step the ranks were idle, all together: 1 less the time that they computed, over the longest
    /// time that a rank was in the step and their number. All ranks call it, and get the same number. Compare it with
    /// [`ideal_bubble`](super::ideal_bubble): stages of different size, sending and other programs add to it.
    ///
    /// # Errors
    /// No step was made, and those of [`all_gather`](ProcessGroup::all_gather).
    #[torsh_tensor::names_caller]
    pub fn bubble(&self) -> Result<f64> {
        let mine = {
            let last = self.last.lock();
            let busy: Duration = last.events.iter().map(|e| e.end - e.start).sum();
            [busy.as_secs_f64(), last.span.as_secs_f64()]
        };
        let all = self
            .group()?
            .all_gather(&Tensor::from_vec(mine.to_vec(), [2])?)?;
        let (mut busy, mut span) = (0.0, 0.0f64);
        for rank in &all {
            let numbers = rank.to_vec::<f64>()?;
            busy += numbers[0];
            span = span.max(numbers[1]);
        }
        if span == 0.0 {
            let text = "no step was made";
            return Err(TorshError::invalid("Schedule::bubble", text).with_hint("call step first"));
        }
        Ok(1.0 - busy / (span * all.len() as f64))
    }
}

fn part_of(action: &Action) -> usize {
    match *action {
        Action::Forward { part, .. }
        | Action::Backward { part, .. }
        | Action::Weights { part, .. } => part,
    }
}

impl<'a> Step<'a> {
    /// Runs an action and notes when.
    fn timed<T>(
        &mut self,
        action: TraceAction,
        stage: usize,
        micro_batch: usize,
        f: impl FnOnce(&mut Step<'a>) -> Result<T>,
    ) -> Result<T> {
        let start = self.begin.elapsed();
        let done = f(self);
        self.events.push(TraceEvent {
            action,
            stage,
            micro_batch,
            start,
            end: self.begin.elapsed(),
        });
        done
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule")
            .field("order", &self.order)
            .field("micro_batches", &self.micro_batches)
            .field("stages", &self.stages)
            .finish()
    }
}
