//! Stopping when a metric no longer improves.

use torsh_serialize::Value;
use torsh_tensor::Result;
use torsh_tensor::named::Named;

use super::{Callback, Context};
use crate::config::{EarlyStoppingConfig, Mode};

/// Ends a run when a metric has not become better for some epochs.
///
/// ```
/// use torsh_train::callbacks::EarlyStopping;
/// let callback = EarlyStopping::new(5).metric("accuracy").mode("max").min_delta(1e-3);
/// assert_eq!(callback.best(), None);
/// ```
#[derive(Clone, Debug)]
pub struct EarlyStopping {
    config: EarlyStoppingConfig,
    best: Option<f64>,
    bad_epochs: usize,
}

impl From<EarlyStoppingConfig> for EarlyStopping {
    fn from(config: EarlyStoppingConfig) -> Self {
        EarlyStopping {
            config,
            best: None,
            bad_epochs: 0,
        }
    }
}

impl EarlyStopping {
    /// Lets `patience` epochs in a row pass without a lower `loss`; the next such one is the last.
    pub fn new(patience: usize) -> Self {
        EarlyStoppingConfig {
            patience,
            ..EarlyStoppingConfig::default()
        }
        .into()
    }

    /// The metric that is watched: that of the validation, where there is one.
    #[must_use]
    pub fn metric(mut self, metric: impl Into<String>) -> Self {
        self.config.metric = metric.into();
        self
    }

    /// Whether it should fall or rise: a [`Mode`], "min" or "max". A run refuses another string.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<Mode>) -> Self {
        self.config.mode = mode.into();
        self
    }

    /// How much better is better (0).
    #[must_use]
    pub fn min_delta(mut self, min_delta: f64) -> Self {
        self.config.min_delta = min_delta;
        self
    }

    /// Returns the best value so far; `None` before the first epoch.
    ///
    /// ```
    /// use torsh_serialize::Value;
    /// use torsh_train::callbacks::{Callback, EarlyStopping};
    /// let mut callback = EarlyStopping::new(5);
    /// assert_eq!(callback.best(), None);
    /// callback.load_state(&Value::from([("best", Value::Float(0.25)), ("bad_epochs", Value::Int(2))]))?;
    /// assert_eq!(callback.best(), Some(0.25));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn best(&self) -> Option<f64> {
        self.best
    }
}

impl Callback for EarlyStopping {
    fn name(&self) -> &str {
        "early_stopping"
    }

    #[torsh_tensor::names_caller]
    fn on_fit_start(&mut self, _: &mut Context<'_>) -> Result<()> {
        let mode = self.config.mode.known();
        mode.map(drop).map_err(|e| e.renamed("EarlyStopping"))
    }

    #[torsh_tensor::names_caller]
    fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let c = &self.config;
        let Some(metric) = cx.metric(&c.metric) else {
            return super::model_checkpoint::unknown("EarlyStopping", &c.metric, cx);
        };
        if c.mode.is_better(metric, self.best, c.min_delta) {
            (self.best, self.bad_epochs) = (Some(metric), 0);
            return Ok(());
        }
        self.bad_epochs += 1;
        if self.bad_epochs > c.patience {
            let best = self.best.map_or("none".to_string(), |b| b.to_string());
            cx.stop(format!(
                "{} has not become better than {best} for {} epochs",
                c.metric, self.bad_epochs
            ));
        }
        Ok(())
    }

    #[track_caller]
    fn state(&self) -> Result<Value> {
        Ok(Value::from([
            ("best", self.best.into()),
            ("bad_epochs", self.bad_epochs.into()),
        ]))
    }

    #[torsh_tensor::names_caller]
    fn load_state(&mut self, state: &Value) -> Result<()> {
        self.best = match state.get("best")? {
            Value::None => None,
            v => Some(v.as_float()?),
        };
        self.bad_epochs = state.get("bad_epochs")?.as_int()?.unsigned_abs() as usize;
        Ok(())
    }
}
