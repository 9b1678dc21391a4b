//! Learning from batches, and judging on them.

use torsh_nn::{Module, ModuleExt};
use torsh_optim::{clip_grad_norm_, clip_grad_value_};
use torsh_tensor::{
    AnomalyOptions, Result, TorshError, detect_anomaly_guard, detect_anomaly_guard_with, no_grad,
    no_grad_guard,
};

use super::fit::Run;
use super::results::Metrics;
use super::{Loader, StepOutput, Stop, Trainer};
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
                let told = self.tell(run, |c, cx| c.on_epoch_start(cx))?;
                if let Some(stop) = self.obey(run, told)? {
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
        for batch in run.train.batches() {
            let batch = batch?;
            let told = self.tell(run, |c, cx| c.on_batch_start(cx))?;
            let mut stop = self.obey(run, told)?;
            self.backward(&batch)?;
            self.state.batch += 1;
            if self.state.pending_batches == self.settings.accumulate {
                stop = stop.or(self.step(run)?);
            }
            let told = self.tell(run, |c, cx| c.on_batch_end(cx))?;
            stop = stop.or(self.obey(run, told)?);
            if stop.is_none() && !self.steps_left() {
                stop = Some(Stop::MaxSteps);
            }
            if self.interrupted(run) {
                stop = Some(Stop::Interrupted);
            }
            if stop.is_some() {
                return Ok(stop);
            }
        }
        if self.state.batch == 0 {
            return Err(no_batches("training"));
        }
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

    /// The gradients of a batch, added to those that are there.
    fn backward(&mut self, batch: &B) -> Result<()> {
        if self.state.pending_batches == 0 {
            self.optimizer.zero_grad();
        }
        let _anomaly = self.settings.detect_anomaly.then(detect_anomaly_guard);
        let out = self.run_model(&self.model, batch)?;
        let loss = out.loss.detach().item::<f64>()?;
        if !loss.is_finite() {
            return Err(self.not_finite(loss, &out, batch));
        }
        let mut scaled = out.loss.clone();
        if self.settings.accumulate > 1 {
            scaled = scaled.div(self.settings.accumulate as f64)?;
        }
        if let Some(scaler) = &self.scaler {
            scaled = scaler.scale(&scaled)?;
        }
        scaled.backward().map_err(|e| self.at_this_step(e))?;
        self.state.pending_batches += 1;
        self.state.add_loss(loss, items(&out));
        self.state.predicted = out.prediction.is_some();
        if let Some((output, target)) = &out.prediction {
            let _no_grad = no_grad_guard();
            for m in &mut self.metrics {
                m.update(output, target)?;
            }
        }
        Ok(())
    }

    fn here(&self) -> String {
        let s = &self.state;
        format!("epoch {}, batch {}, step {}", s.epoch, s.batch, s.step)
    }

    /// An error of backward with its place in the run.
    #[cold]
    fn at_this_step(&self, e: TorshError) -> TorshError {
        e.renamed(&format!("Trainer, {}", self.here()))
    }

    /// The error for a loss that is no number. Where anomalies are looked for: with the first op of
    /// the forward pass that made one of numbers, else the first gradient that is none.
    #[cold]
    fn not_finite(&self, loss: f64, out: &StepOutput, batch: &B) -> TorshError {
        let what = format!("the loss is {loss} in {}", self.here());
        if !self.settings.detect_anomaly {
            return TorshError::autograd("Trainer", what).with_hint(
                "detect_anomaly(true) names the op; a lower learning rate or clip_grad_norm may help",
            );
        }
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
        let (norm, value) = (self.settings.clip_norm, self.settings.clip_value);
        if norm.is_some() || value.is_some() {
            if let Some(scaler) = &self.scaler {
                scaler.unscale_(&*self.optimizer)?;
            }
            let parameters = self.optimizer.parameters();
            if let Some(max) = norm {
                clip_grad_norm_(&parameters, max)?;
            }
            if let Some(max) = value {
                clip_grad_value_(&parameters, max)?;
            }
        }
        let told = self.tell(run, |c, cx| c.on_before_step(cx))?;
        self.obey(run, told)?;
        let made = match &self.scaler {
            Some(scaler) => {
                let made = scaler.step(&*self.optimizer)?;
                scaler.update()?;
                made
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
        let told = self.tell(run, |c, cx| c.on_step_end(cx))?;
        self.obey(run, told)
    }

    /// Adds the metrics to others, and starts them anew.
    fn measured(&mut self, into: &mut Metrics) -> Result<()> {
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
        data: &dyn Loader<Batch = B>,
    ) -> Result<Option<Metrics>> {
        self.metrics.iter_mut().for_each(|m| m.reset());
        self.model.eval();
        if let Some(ema) = &self.ema {
            ema.eval();
        }
        let (mut sum, mut weight) = (0.0, 0.0);
        self.state.predicted = false;
        for batch in data.batches() {
            let batch = batch?;
            let _no_grad = no_grad_guard();
            let model = self.ema.as_ref().map_or(&self.model, |ema| &ema.module);
            let out = self.run_model(model, &batch)?;
            let n = items(&out);
            sum += n * out.loss.item::<f64>()?;
            weight += n;
            if let Some((output, target)) = &out.prediction {
                self.state.predicted = true;
                for m in &mut self.metrics {
                    m.update(output, target)?;
                }
            }
            if self.interrupted(run) {
                self.metrics.iter_mut().for_each(|m| m.reset());
                return Ok(None);
            }
        }
        if weight == 0.0 {
            return Err(no_batches("validation"));
        }
        let mut metrics = Metrics::from([("loss".to_string(), sum / weight)]);
        self.measured(&mut metrics)?;
        Ok(Some(metrics))
    }
}
