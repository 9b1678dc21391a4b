//! The whole training run.

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, TorshError};

use super::interrupt::Listening;
use super::ranks::own_of;
use super::results::Metrics;
use super::run::Run;
use super::source::Source;
use super::{EpochResults, Loader, Pending, Stop, Trainer, TrainingResults};
use crate::callbacks::{Callback, Context, Request};
use crate::checkpoint::{Rng, Stateful};

/// What callbacks asked for.
#[derive(Default)]
pub(super) struct Requests {
    requests: Vec<Request>,
    stop: Option<String>,
}

impl<M: Module, B> Trainer<M, B> {
    /// Trains until all epochs are done, a callback or a signal ends it, or the steps are used up.
    /// A run that was stopped goes on with the next call.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Tensor, tensor};
    /// # use torsh_train::{Stop, Trainer};
    /// # let model = Embedding::new(3, 1)?;
    /// # let sgd = SGD::new(model.parameters(), 0.5)?;
    /// # let mut trainer = Trainer::builder(model, &sgd)
    /// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    /// #     .epochs(2).build()?;
    /// # let batches = vec![tensor![0, 1, 2]];
    /// let results = trainer.fit(&batches, None)?;
    /// assert_eq!((results.final_epoch, results.steps, results.stop), (2, 2, Stop::Finished));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// What the loader, the model, the optimizer or a callback report; a loss that is NaN or
    /// infinite, with its epoch, batch and step; a loader without batches.
    #[torsh_tensor::names_caller]
    pub fn fit(
        &mut self,
        train: &dyn Loader<Batch = B>,
        val: Option<&dyn Loader<Batch = B>>,
    ) -> Result<TrainingResults> {
        let listening = match self.settings.interrupt {
            Some(_) => Some(Listening::start()?),
            None => None,
        };
        let share = self.share();
        let val = val.map(|val| Source::new(val, share, false));
        let run = Run {
            train: Source::new(train, share, true)?,
            val: val.transpose()?,
            listening,
        };
        let stop = self.run(&run).inspect_err(|e| {
            // What can be read still counts; a second error says nothing that the first does not. Other
            // processes do not answer any more.
            if self.strategy.is_none() {
                let _ = self.read_losses();
            }
            for c in &mut self.callbacks {
                c.on_error(e);
            }
        })?;
        Ok(TrainingResults {
            history: self.state.history.clone(),
            best_metric: self.state.best,
            best_epoch: self.state.best_epoch,
            final_epoch: self.state.epoch,
            steps: self.state.step,
            stop,
        })
    }

    fn run(&mut self, run: &Run<'_, B>) -> Result<Stop> {
        self.start_ranks()?;
        if let Some(pending) = self.pending.take() {
            let rank = self.rank();
            let loader = own_of(&pending.loader, rank).or(own_of(&pending.loader, 0));
            if let Some(loader) = loader.filter(|l| !l.is_none()) {
                run.train.load_state(loader, self.state.batch)?;
            }
            // A rank that the saved run did not have goes on with its own random numbers.
            if let Some(rng) = pending.rng.as_ref().and_then(|r| own_of(r, rank)) {
                Rng.load_state(rng)?;
            }
        }
        let requests = self.tell(run, |c, cx| c.on_fit_start(cx))?;
        let stop = self.apply(run, requests)?;
        let mut stop = self.agree(stop)?;
        while stop.is_none() && self.state.epoch < self.settings.epochs {
            stop = match self.steps_left() {
                false => Some(Stop::MaxSteps),
                true => self.epoch(run)?,
            };
        }
        self.read_losses()?;
        if stop == Some(Stop::Interrupted)
            && let Some(path) = self.settings.interrupt.clone()
        {
            self.save(run, &path)?;
        }
        if self.state.batch > 0 {
            let loader = run.train.save_state()?;
            self.pending = Some(Pending { loader, rng: None });
        }
        let requests = self.tell(run, |c, cx| c.on_fit_end(cx))?;
        self.apply(run, requests)?;
        Ok(stop.unwrap_or(Stop::Finished))
    }

    pub(super) fn steps_left(&self) -> bool {
        self.settings.max_steps.is_none_or(|n| self.state.step < n)
    }

    /// Whether a signal or a handle asks for the end.
    pub(super) fn interrupted(&self, run: &Run<'_, B>) -> bool {
        self.stop.take() || run.listening.as_ref().is_some_and(Listening::interrupted)
    }

    /// Tells the callbacks of an event.
    pub(super) fn tell(
        &mut self,
        run: &Run<'_, B>,
        event: impl Fn(&mut dyn Callback, &mut Context<'_>) -> Result<()>,
    ) -> Result<Requests> {
        if self.callbacks.is_empty() {
            return Ok(Requests::default());
        }
        let first = self.rank() == 0;
        let mut callbacks = std::mem::take(&mut self.callbacks);
        let lrs = self.optimizer.group_lrs();
        let mut cx = Context {
            epoch: self.state.epoch,
            epochs: self.settings.epochs,
            batch: self.state.batch,
            batches: run.train.num_batches(),
            step: self.state.step,
            loss: self.state.last_loss,
            train_metrics: &self.state.train_metrics,
            val_metrics: &self.state.val_metrics,
            has_validation: run.val.is_some(),
            learning_rates: &lrs,
            model: &self.model,
            optimizer: &*self.optimizer,
            logged: Metrics::new(),
            requests: Vec::new(),
            stop: None,
        };
        let result = callbacks
            .iter_mut()
            .filter(|c| first || c.on_every_rank())
            .try_for_each(|c| event(&mut **c, &mut cx));
        let requests = Requests {
            requests: std::mem::take(&mut cx.requests),
            stop: cx.stop.take(),
        };
        self.callbacks = callbacks;
        result.map(|()| requests)
    }

    /// Does what the callbacks asked for.
    pub(super) fn apply(&mut self, run: &Run<'_, B>, requests: Requests) -> Result<Option<Stop>> {
        for request in requests.requests {
            match request {
                Request::Save(path) => {
                    self.save(run, &path)?;
                    let first = self.rank() == 0;
                    let callbacks = self.callbacks.iter_mut();
                    for c in callbacks.filter(|c| first || c.on_every_rank()) {
                        c.on_checkpoint(&path)?;
                    }
                }
                // Rank 0 removes.
                Request::Remove(_) if self.rank() > 0 => {}
                Request::Remove(path) => {
                    let removed = match path.is_dir() {
                        true => std::fs::remove_dir_all(&path),
                        false => torsh_serialize::files::remove(&path),
                    };
                    match removed {
                        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                            let text = format!("{}: {e}", path.display());
                            return Err(std::io::Error::new(e.kind(), text).into());
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(requests.stop.map(Stop::Callback))
    }

    /// Validation, schedule and record of an epoch whose batches were all learned from.
    pub(super) fn end_epoch(&mut self, run: &Run<'_, B>) -> Result<Option<Stop>> {
        let done = self.state.epoch + 1;
        let due = done.is_multiple_of(self.settings.validate_every) || done >= self.settings.epochs;
        self.state.val_metrics.clear();
        if let Some(val) = run.val.as_ref().filter(|_| due) {
            let rng = Rng.save_state()?;
            let requests = self.tell(run, |c, cx| c.on_validation_start(cx))?;
            self.apply(run, requests)?;
            let Some(metrics) = self.validate(run, val)? else {
                // The validation is made anew when training goes on, with the same numbers.
                Rng.load_state(&rng)?;
                return Ok(Some(Stop::Interrupted));
            };
            self.state.val_metrics = metrics;
            let requests = self.tell(run, |c, cx| c.on_validation_end(cx))?;
            self.apply(run, requests)?;
        }
        let learning_rate = self.optimizer.get_lr();
        self.follow_metric(run.val.is_some())?;
        self.state.history.push(EpochResults {
            epoch: self.state.epoch,
            train_metrics: self.state.train_metrics.clone(),
            val_metrics: self.state.val_metrics.clone(),
            learning_rate,
        });
        let requests = self.tell(run, |c, cx| c.on_epoch_end(cx))?;
        // Checkpoints that callbacks ask for begin with the next epoch.
        self.state.next_epoch();
        let stop = self.apply(run, requests)?;
        self.agree(stop)
    }

    /// Notes the best epoch, and makes the scheduler's step.
    fn follow_metric(&mut self, validated: bool) -> Result<()> {
        let (name, mode) = self.settings.monitor.clone();
        let (of, plain) = match (name.strip_prefix("train_"), name.strip_prefix("val_")) {
            (Some(plain), _) => (&self.state.train_metrics, plain),
            (_, Some(plain)) => (&self.state.val_metrics, plain),
            _ if validated => (&self.state.val_metrics, &*name),
            _ => (&self.state.train_metrics, &*name),
        };
        let metric = of.get(plain).copied();
        if metric.is_none() && !(validated && self.state.val_metrics.is_empty()) {
            let names: Vec<&str> = of.keys().map(String::as_str).collect();
            return Err(TorshError::invalid(
                "Trainer",
                format!("the monitored metric `{name}` is not there"),
            )
            .with_hint(format!("there are {}", names.join(", "))));
        }
        if let Some(value) = metric {
            if mode.is_better(value, self.state.best, 0.0) {
                self.state.best = Some(value);
                self.state.best_epoch = Some(self.state.epoch);
            }
            self.state.monitored = Some(value);
        }
        match (&self.scheduler, self.state.monitored) {
            (Some((s, crate::config::Interval::Epoch)), Some(metric)) => s.step_metric(metric),
            (Some((s, crate::config::Interval::Epoch)), None) => s.step(),
            _ => Ok(()),
        }
    }

    /// Judges the model (its average, where there is one) on data without learning from it: `loss`
    /// and the metrics.
    ///
    /// ```
    /// # use torsh_nn::{Embedding, Module, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Tensor, tensor};
    /// # use torsh_train::{Stop, Trainer};
    /// # let model = Embedding::new(3, 1)?;
    /// # let sgd = SGD::new(model.parameters(), 0.5)?;
    /// # let mut trainer = Trainer::builder(model, &sgd)
    /// #     .training_step(|model: &Embedding, words: &Tensor| Ok(model.forward(words)?.square()?.sum()?.into()))
    /// #     .epochs(2).build()?;
    /// # let batches = vec![tensor![0, 1, 2]];
    /// trainer.fit(&batches, None)?;
    /// assert_eq!(trainer.evaluate(&batches)?["loss"], 0.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn evaluate(&mut self, data: &dyn Loader<Batch = B>) -> Result<Metrics> {
        let run = Run {
            train: Source::new(data, self.share(), false)?,
            val: None,
            listening: None,
        };
        let was_training = self.model.is_training();
        let kept = self.metric_states()?;
        let metrics = self.validate(&run, &run.train);
        self.model.set_training(was_training);
        self.set_metric_states(&kept)?;
        metrics?.ok_or_else(|| TorshError::invalid("Trainer", "the evaluation was stopped"))
    }
}
