//! Training and validation over the batches of one epoch.

use torsh_nn::{Module, ModuleExt};
use torsh_optim::{clip_grad_norm_, clip_grad_value_};
use torsh_tensor::{
    AnomalyOptions, Result, TorshError, detect_anomaly_guard, detect_anomaly_guard_with, no_grad,
    no_grad_guard,
};

use super::losses::{Loss, Losses, interval};
use super::results::Metrics;
use super::run::Run;
use super::source::Source;
use super::{StepOutput, Stop, Trainer};
use crate::config::Interval;

/// How many items a batch has, where that is known.
fn items(out: &StepOutput) -> f64 {
    let target = out.prediction.as_ref().and_then(|(_, y)| y.dims().first());
    target.map_or(1.0, |&n| n as f64)
}

#[cold]
fn no_batches(what: &str) -> TorshError {
    TorshError::invalid("Trainer", format!("the {what} loader has no batches"))
        .with_hint("is the dataset empty, or smaller than a batch with drop_last?")
}

impl<M: Module, B> Trainer<M, B> {
    /// An epoch, or what is left of one; `None` where training goes on.
    pub(super) fn epoch(&mut self, run: &Run<'_, B>) -> Result<Option<Stop>> {
        if !self.state.trained {
            self.model.train();
            if self.state.batch == 0 {
                self.metrics.iter_mut().for_each(|m| m.reset());
                self.state.train_metrics.clear();
                self.state.val_metrics.clear();
                let requests = self.tell(run, |c, cx| c.on_epoch_start(cx))?;
                let stop = self.apply(run, requests)?;
                if let Some(stop) = self.agree(stop)? {
                    return Ok(Some(stop));
                }
            }
            if let Some(stop) = self.learn(run)? {
                return Ok(Some(stop));
            }
        }
        self.end_epoch(run)
    }

    /// The batches of an epoch.
    fn learn(&mut self, run: &Run<'_, B>) -> Result<Option<Stop>> {
        let batches_known = run.train.num_batches();
        let mut batches = self.open(run)?;
        let mut interrupted = false;
        loop {
            let batch = batches.next().transpose()?;
            let mut over = [batch.is_none()];
            if batches_known.is_none() {
                // The epoch ends for all ranks where one has no batch.
                self.any(&mut over)?;
            }
            let Some(batch) = batch.filter(|_| !over[0]) else {
                break;
            };
            let requests = self.tell(run, |c, cx| c.on_batch_start(cx))?;
            let mut stop = self.apply(run, requests)?;
            let next = self.state.batch + 1;
            let last = self.state.pending_batches + 1 == self.settings.accumulate
                || batches_known.is_none_or(|n| next >= n);
            self.backward(&batch, last)?;
            self.state.batch += 1;
            if self.state.pending_batches == self.settings.accumulate {
                stop = stop.or(self.step(run)?);
            }
            let requests = self.tell(run, |c, cx| c.on_batch_end(cx))?;
            stop = stop.or(self.apply(run, requests)?);
            if stop.is_none() && !self.steps_left() {
                stop = Some(Stop::MaxSteps);
            }
            interrupted |= self.interrupted(run);
            // Gradients that are not exchanged yet are in no checkpoint of several ranks.
            if interrupted && (self.state.pending_batches == 0 || self.strategy().is_none()) {
                stop = Some(Stop::Interrupted);
            }
            stop = self.agree(stop)?;
            if stop.is_some() {
                return Ok(stop);
            }
        }
        if self.state.batch == 0 {
            return Err(no_batches("training"));
        }
        self.read_losses()?;
        let mut stop = None;
        if self.state.pending_batches > 0 {
            stop = self.step(run)?;
        }
        let mut metrics = Metrics::from([("loss".to_string(), self.state.mean_loss())]);
        self.measured(&mut metrics)?;
        self.state.train_metrics = metrics;
        self.state.trained = true;
        Ok(stop)
    }

    /// The gradients of a batch, added to those that are there. `last`: a step comes next.
    fn backward(&mut self, batch: &B, last: bool) -> Result<()> {
        if self.state.pending_batches == 0 {
            self.optimizer.zero_grad();
        }
        // The losses go along: a strategy holds the model while it runs the batch.
        let mut losses = std::mem::take(&mut self.losses);
        let (mut read, mut made) = (Vec::new(), None);
        let ran = match self.strategy() {
            None => self
                .gradients(batch, &mut losses, &mut read)
                .map(|m| made = Some(m)),
            Some(strategy) => strategy.backward(&self.model, last, &mut || {
                made = Some(self.gradients(batch, &mut losses, &mut read)?);
                Ok(())
            }),
        };
        self.losses = losses;
        self.count_losses(read);
        ran?;
        let Some((out, own)) = made else {
            return Err(self.at_this_step(TorshError::invalid(
                "Trainer",
                "the strategy did not run the batch",
            )));
        };
        self.count_losses(own);
        self.state.pending_batches += 1;
        self.state.predicted = out.prediction.is_some();
        if let Some((output, target)) = &out.prediction {
            let _no_grad = no_grad_guard();
            for m in &mut self.metrics {
                m.update(output, target)?;
            }
        }
        Ok(())
    }

    /// The forward and backward pass of a batch: what the model made of it, and its loss if it was read. Losses
    /// of batches before it that were read as well are added to `counted`.
    fn gradients(
        &self,
        batch: &B,
        losses: &mut Losses,
        counted: &mut Vec<Loss<f64>>,
    ) -> Result<(StepOutput, Option<Loss<f64>>)> {
        let _anomaly = self.settings.detect_anomaly.then(detect_anomaly_guard);
        let out = self.run_model(&self.model, batch)?;
        // A loss that is no number is looked into while its batch is there.
        let every = match self.settings.detect_anomaly {
            true => 1,
            false => interval(self.settings.log_every, &out.loss),
        };
        let loss = Loss {
            value: out.loss.clone(),
            items: items(&out),
            batch: self.state.batch,
            step: self.state.step,
        };
        let mut own = None;
        if losses.add(loss, every)? {
            let mut read = match self.finite_losses(losses) {
                Err(e) if self.settings.detect_anomaly => return Err(self.why(e, &out, batch)),
                read => read?,
            };
            own = read.pop();
            counted.append(&mut read);
        }
        let mut scaled = out.loss.clone();
        if self.settings.accumulate > 1 {
            scaled = scaled.div(self.settings.accumulate as f64)?;
        }
        if let Some(scaler) = &self.scaler {
            scaled = scaler.scale(&scaled)?;
        }
        if let Err(e) = scaled.backward() {
            // The batch was not learned from.
            losses.forget_last();
            return Err(self.at_this_step(e));
        }
        Ok((out, own))
    }

    /// Reads the losses of the batches since the last time. An error for one that is no number.
    pub(super) fn read_losses(&mut self) -> Result<()> {
        let mut losses = std::mem::take(&mut self.losses);
        let read = self.finite_losses(&mut losses);
        self.losses = losses;
        self.count_losses(read?);
        Ok(())
    }

    fn finite_losses(&self, losses: &mut Losses) -> Result<Vec<Loss<f64>>> {
        let mut read = losses.take()?;
        self.over_ranks(&mut read)?;
        match read.iter().find(|l| !l.value.is_finite()) {
            Some(loss) => Err(self.not_finite(loss)),
            None => Ok(read),
        }
    }

    fn count_losses(&mut self, read: impl IntoIterator<Item = Loss<f64>>) {
        for loss in read {
            self.state.add_loss(loss.value, loss.items);
        }
    }

    fn at(&self, batch: usize, step: usize) -> String {
        format!("epoch {}, batch {batch}, step {step}", self.state.epoch)
    }

    /// An error of backward with its place in the run.
    #[cold]
    fn at_this_step(&self, e: TorshError) -> TorshError {
        let here = self.at(self.state.batch, self.state.step);
        e.renamed(&format!("Trainer, {here}"))
    }

    /// The error for a loss that is no number.
    #[cold]
    fn not_finite(&self, loss: &Loss<f64>) -> TorshError {
        let place = self.at(loss.batch, loss.step);
        let mut what = format!("the loss is {} in {place}", loss.value);
        if loss.batch < self.state.batch {
            what += &format!(
                ", which was read after batch {} (log_every)",
                self.state.batch
            );
        }
        TorshError::autograd("Trainer", what).with_hint(
            "detect_anomaly(true) names the op; a lower learning rate or clip_grad_norm may help",
        )
    }

    /// What made a loss that is no number, for the error that says so: the first op of the forward pass
    /// that made one of numbers, else the first gradient that is none.
    #[cold]
    fn why(&self, error: TorshError, out: &StepOutput, batch: &B) -> TorshError {
        let what = match error.info() {
            Some(i) if matches!(error, TorshError::Autograd(_)) => i.message.clone(),
            // It could not be read.
            _ => return error,
        };
        let forward = || {
            let options = AnomalyOptions::new().check_forward(true);
            let _checked = detect_anomaly_guard_with(options);
            self.run_model(&self.model, batch)
        };
        let Err(e) = forward().and_then(|_| out.loss.backward()) else {
            return TorshError::autograd("Trainer", what)
                .with_hint("no op made it of numbers: look at the inputs and the parameters");
        };
        let (why, hint) = match e.info() {
            Some(i) => (
                format!("{}: {} (at {})", i.op, i.message, i.location),
                i.hint.clone(),
            ),
            None => (e.to_string(), None),
        };
        let e = TorshError::autograd("Trainer", format!("{what}: {why}"));
        match hint {
            Some(hint) => e.with_hint(hint),
            None => e,
        }
    }

    /// A step of the optimizer.
    fn step(&mut self, run: &Run<'_, B>) -> Result<Option<Stop>> {
        if self.state.pending_batches < self.settings.accumulate {
            // The mean is over fewer batches.
            let factor = self.settings.accumulate as f64 / self.state.pending_batches as f64;
            no_grad(|| {
                for grad in self.optimizer.parameters().iter().filter_map(|p| p.grad()) {
                    grad.mul_(factor)?;
                }
                Ok(())
            })?;
        }
        if let Some(strategy) = self.strategy() {
            strategy.reduce_gradients(&self.optimizer.parameters())?;
        }
        let (norm, value) = (self.settings.clip_norm, self.settings.clip_value);
        if norm.is_some() || value.is_some() {
            if let Some(scaler) = &self.scaler {
                scaler.unscale_(&*self.optimizer)?;
            }
            let parameters = self.optimizer.parameters();
            if let Some(max) = norm {
                match self.strategy() {
                    Some(s) => s.clip_grad_norm(&self.model, &parameters, max)?,
                    None => drop(clip_grad_norm_(&parameters, max)?),
                }
            }
            if let Some(max) = value {
                clip_grad_value_(&parameters, max)?;
            }
        }
        let requests = self.tell(run, |c, cx| c.on_before_step(cx))?;
        self.apply(run, requests)?;
        let made = match &self.scaler {
            Some(scaler) => {
                let made = match self.strategy() {
                    Some(strategy) => strategy.scaled_step(scaler, &*self.optimizer)?,
                    None => scaler.step(&*self.optimizer)?,
                };
                scaler.update()?;
                let step_schedule = matches!(&self.scheduler, Some((_, Interval::Step)));
                // Only who follows the steps that were made has to know.
                (self.ema.is_none() && !step_schedule) || made.made()?
            }
            None => {
                self.optimizer.step()?;
                true
            }
        };
        self.state.pending_batches = 0;
        self.state.step += 1;
        if made {
            if let Some(ema) = &self.ema {
                ema.update_parameters(&self.model)?;
            }
            if let Some((scheduler, Interval::Step)) = &self.scheduler {
                scheduler.step()?;
            }
        }
        let requests = self.tell(run, |c, cx| c.on_step_end(cx))?;
        self.apply(run, requests)
    }

    /// Adds the metrics to others, and starts them anew.
    fn measured(&mut self, into: &mut Metrics) -> Result<()> {
        if self.state.predicted {
            self.merge_metrics()?;
        }
        for m in &mut self.metrics {
            // A training step without predictions feeds none.
            if self.state.predicted {
                into.extend(m.compute()?.curves(m.name()));
            }
            m.reset();
        }
        Ok(())
    }

    /// Loss and metrics on other data; `None` where training was interrupted.
    pub(super) fn validate(
        &mut self,
        run: &Run<'_, B>,
        data: &Source<'_, B>,
    ) -> Result<Option<Metrics>> {
        self.metrics.iter_mut().for_each(|m| m.reset());
        self.model.eval();
        if let Some(ema) = &self.ema {
            ema.eval();
        }
        let mut losses = Losses::default();
        let (mut sum, mut weight) = (0.0, 0.0);
        let mut add = |losses: &mut Losses| -> Result<()> {
            for loss in losses.take()? {
                sum += loss.items * loss.value;
                weight += loss.items;
            }
            Ok(())
        };
        self.state.predicted = false;
        let mut batches = data.batches();
        let mut held = None;
        for i in 0.. {
            let next = batches.next().transpose()?;
            let fresh = next.is_some();
            held = next.or(held);
            let mut answers = [fresh, i > 0 && self.interrupted(run)];
            self.any(&mut answers)?;
            if answers[1] {
                self.metrics.iter_mut().for_each(|m| m.reset());
                return Ok(None);
            }
            if !answers[0] {
                break;
            }
            // A rank whose part is over takes part in what the others' models exchange, with a batch that
            // does not count again.
            let Some(batch) = &held else {
                return Err(no_batches("validation").with_hint(format!(
                    "rank {} has no part of it: have at least as many items as ranks",
                    self.rank()
                )));
            };
            let _no_grad = no_grad_guard();
            let model = self.ema.as_ref().map_or(&self.model, |ema| &ema.module);
            let out = self.run_model(model, batch)?;
            if !fresh {
                continue;
            }
            let loss = Loss {
                value: out.loss.clone(),
                items: items(&out),
                batch: i,
                step: self.state.step,
            };
            if losses.add(loss, interval(self.settings.log_every, &out.loss))? {
                add(&mut losses)?;
            }
            if let Some((output, target)) = &out.prediction {
                self.state.predicted = true;
                for m in &mut self.metrics {
                    m.update(output, target)?;
                }
            }
        }
        add(&mut losses)?;
        if let Some(strategy) = self.strategy() {
            let mut sums = [sum, weight];
            strategy.sum(&mut sums)?;
            [sum, weight] = sums;
        }
        if weight == 0.0 {
            return Err(no_batches("validation"));
        }
        let mut metrics = Metrics::from([("loss".to_string(), sum / weight)]);
        self.measured(&mut metrics)?;
        Ok(Some(metrics))
    }
}
