//! The state of a run, and its checkpoints.

use std::path::Path;

use torsh_nn::Module;
use torsh_serialize::Value;
use torsh_tensor::{Result, TorshError};

use super::results::{EpochResults, History, Metrics, count, metrics_of};
use super::run::Run;
use super::{Pending, RunParts, Trainer};
use crate::checkpoint::{Checkpoint, Stateful};

/// Where a run is.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) epoch: usize,
    /// How many batches of the epoch were learned from.
    pub(super) batch: usize,
    pub(super) step: usize,
    /// From how many batches there are gradients that no step was made with.
    pub(super) pending_batches: usize,
    /// Whether all batches of the epoch were learned from, but it is not validated yet.
    pub(super) trained: bool,
    /// Whether the batches had predictions for the metrics.
    pub(super) predicted: bool,
    pub(super) last_loss: Option<f64>,
    loss_sum: f64,
    loss_weight: f64,
    pub(super) train_metrics: Metrics,
    pub(super) val_metrics: Metrics,
    pub(super) history: History,
    pub(super) best: Option<f64>,
    pub(super) best_epoch: Option<usize>,
    /// The last value of the monitored metric.
    pub(super) monitored: Option<f64>,
    /// What loaders that several ranks share draw their orders from.
    pub(super) order_seed: Option<u64>,
}

impl State {
    pub(super) fn add_loss(&mut self, loss: f64, items: f64) {
        self.last_loss = Some(loss);
        self.loss_sum += loss * items;
        self.loss_weight += items;
        let mean = self.mean_loss();
        match self.train_metrics.get_mut("loss") {
            Some(v) => *v = mean,
            None => drop(self.train_metrics.insert("loss".into(), mean)),
        }
    }

    pub(super) fn mean_loss(&self) -> f64 {
        self.loss_sum / self.loss_weight
    }

    pub(super) fn next_epoch(&mut self) {
        self.epoch += 1;
        self.batch = 0;
        self.trained = false;
        (self.loss_sum, self.loss_weight) = (0.0, 0.0);
    }

    fn to_value(&self) -> Value {
        let history = self.history.iter().map(EpochResults::to_value).collect();
        let metrics = self.train_metrics.iter();
        Value::from([
            ("batch", self.batch.into()),
            ("pending_batches", self.pending_batches.into()),
            ("trained", self.trained.into()),
            ("predicted", self.predicted.into()),
            ("last_loss", self.last_loss.into()),
            ("loss_sum", self.loss_sum.into()),
            ("loss_weight", self.loss_weight.into()),
            (
                "train_metrics",
                metrics.map(|(n, v)| (n, (*v).into())).collect(),
            ),
            ("history", Value::List(history)),
            ("best", self.best.into()),
            ("best_epoch", self.best_epoch.into()),
            ("monitored", self.monitored.into()),
            ("order_seed", self.order_seed.map(|s| s as i64).into()),
        ])
    }

    fn from_value(value: &Value, checkpoint: &Checkpoint) -> Result<State> {
        let float = |name: &str| match value.get(name)? {
            Value::None => Ok(None),
            v => v.as_float().map(Some),
        };
        let history = value.get("history")?.as_list()?.iter();
        Ok(State {
            epoch: checkpoint.epoch,
            batch: count(value, "batch")?,
            step: checkpoint.step,
            pending_batches: count(value, "pending_batches")?,
            trained: value.get("trained")?.as_bool()?,
            predicted: value.get("predicted")?.as_bool()?,
            last_loss: float("last_loss")?,
            loss_sum: value.get("loss_sum")?.as_float()?,
            loss_weight: value.get("loss_weight")?.as_float()?,
            train_metrics: metrics_of(value.get("train_metrics")?)?,
            val_metrics: Metrics::new(),
            history: history
                .map(EpochResults::from_value)
                .collect::<Result<_>>()?,
            best: float("best")?,
            best_epoch: match value.get("best_epoch")? {
                Value::None => None,
                _ => Some(count(value, "best_epoch")?),
            },
            monitored: float("monitored")?,
            order_seed: match value.get("order_seed") {
                Ok(Value::Int(seed)) => Some(*seed as u64),
                _ => None,
            },
        })
    }
}

/// A part whose state is known already.
struct Known(Value);

impl Stateful for Known {
    #[track_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(self.0.clone())
    }

    #[track_caller]
    fn load_state(&self, _state: &Value) -> Result<()> {
        Ok(())
    }
}

impl<M: Module, B> Trainer<M, B> {
    /// The parts that hold tensors.
    fn parts(&self) -> RunParts<'_> {
        RunParts {
            model: &self.model,
            optimizer: &*self.optimizer,
            scheduler: self.scheduler.as_ref().map(|(s, _)| &**s),
            scaler: self.scaler.as_ref(),
            ema: self.ema.as_ref().map(|ema| ema as &dyn Module),
        }
    }

    pub(super) fn metric_states(&self) -> Result<Value> {
        let states = self.metrics.iter();
        let states = states.map(|m| Ok((m.name(), m.state()?)));
        Ok(states.collect::<Result<Vec<_>>>()?.into_iter().collect())
    }

    pub(super) fn set_metric_states(&mut self, states: &Value) -> Result<()> {
        for m in &mut self.metrics {
            m.reset();
            m.merge(states.get(m.name())?)?;
        }
        Ok(())
    }

    fn make(&self, loader: Value) -> Result<Checkpoint> {
        let ranks = self.data_ranks();
        if self.state.pending_batches > 0 && ranks > 1 {
            return Err(TorshError::invalid(
                "Trainer",
                format!(
                    "a checkpoint of {ranks} ranks after {} of {} batches of a step: their gradients are not \
                     exchanged yet",
                    self.state.pending_batches, self.settings.accumulate
                ),
            )
            .with_hint("ask for checkpoints in on_step_end or on_epoch_end"));
        }
        let callbacks = self.callbacks.iter();
        let callbacks = callbacks.map(|c| Ok(Value::List(vec![c.name().into(), c.state()?])));
        let trainer = Known(Value::from([
            ("state", self.state.to_value()),
            ("metrics", self.metrics_of_ranks()?),
            ("callbacks", Value::List(callbacks.collect::<Result<_>>()?)),
            ("ranks", ranks.into()),
        ]));
        let (rng, loader) = self.states_of_ranks(loader)?;
        let (rng, loader) = (Known(rng), Known(loader));
        let mut parts = Checkpoint::builder().with("rng", &rng);
        parts = parts.with("trainer", &trainer).with("loader", &loader);
        if self.state.pending_batches > 0 {
            parts = parts.gradients(&self.model);
        }
        let mut checkpoint = parts.build()?.epoch(self.state.epoch).step(self.state.step);
        let last = self.state.history.last();
        let all = last.map(|e| [("train", &e.train_metrics), ("val", &e.val_metrics)]);
        for (of, metrics) in all.into_iter().flatten() {
            for (name, value) in metrics {
                checkpoint = checkpoint.metric(format!("{of}_{name}"), *value);
            }
        }
        checkpoint.config = self.settings.config.clone();
        Ok(checkpoint)
    }

    pub(super) fn save(&mut self, run: &Run<'_, B>, path: &Path) -> Result<()> {
        self.read_losses()?;
        self.write(path, run.train.save_state()?)
    }

    fn write(&self, path: &Path, loader: Value) -> Result<()> {
        let rest = self.make(loader)?;
        if let Some(strategy) = self.strategy() {
            return strategy.save(&self.parts(), &rest, path);
        }
        let checkpoint = self.parts().whole(&rest)?;
        match path.extension() {
            Some(_) => checkpoint.save(path),
            None => checkpoint.save_folder(path),
        }
    }

    /// Saves the run between two calls of [`fit`](Trainer::fit): one file where the path has an
    /// extension, else a folder.
    #[torsh_tensor::names_caller]
    pub fn save_checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        let loader = self
            .pending
            .as_ref()
            .map_or(Value::None, |p| p.loader.clone());
        self.write(path.as_ref(), loader)
    }

    /// Takes up a run from a checkpoint that a trainer of the same parts saved: the next
    /// [`fit`](Trainer::fit) goes on with the batch after it, and comes bit for bit to what the run
    /// would have come to.
    ///
    /// # Errors
    /// Those of [`Checkpoint::load`]; parts that only one of the two has, or that do not fit.
    #[torsh_tensor::names_caller]
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let checkpoint = match self.strategy() {
            Some(strategy) => strategy.load(&self.parts(), path.as_ref())?,
            None => Checkpoint::load(path)?,
        };
        let refuse = |why: String| Err(TorshError::invalid("Trainer::resume", why));
        let (Some(trainer), Some(loader), Some(rng)) = (
            checkpoint.part("trainer"),
            checkpoint.part("loader"),
            checkpoint.part("rng"),
        ) else {
            return refuse("the checkpoint is not of a trainer".to_string());
        };
        let mut state = State::from_value(trainer.get("state")?, &checkpoint)?;
        let saved_ranks = trainer.get("ranks").and_then(|_| count(trainer, "ranks"));
        let (saved_ranks, ranks) = (saved_ranks.unwrap_or(1), self.data_ranks());
        if saved_ranks != ranks {
            // A batch of each rank is as much as all ranks were given together.
            state.batch = state.batch * saved_ranks / ranks;
        }
        if self.strategy().is_none() {
            self.parts().restore(&checkpoint)?;
        }
        match checkpoint.part("gradients") {
            Some(_) => Checkpoint::builder()
                .gradients(&self.model)
                .restore(&checkpoint)?,
            None => self.optimizer.zero_grad(),
        }
        self.set_metrics_of_ranks(trainer.get("metrics")?)?;
        let mut saved: Vec<&[Value]> = Vec::new();
        for entry in trainer.get("callbacks")?.as_list()? {
            saved.push(entry.as_list()?);
        }
        for c in &mut self.callbacks {
            let of = |entry: &&[Value]| matches!(entry, [n, _] if n.as_str().is_ok_and(|n| n == c.name()));
            // A callback that the saved run did not have starts anew.
            if let Some(i) = saved.iter().position(of)
                && let [_, state] = saved.remove(i)
            {
                c.load_state(state)?;
            }
        }
        self.state = state;
        self.pending = Some(Pending {
            loader: loader.clone(),
            rng: Some(rng.clone()),
        });
        Ok(())
    }
}
