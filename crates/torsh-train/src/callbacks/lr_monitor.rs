//! Logging the learning rate.

use std::sync::Arc;

use parking_lot::Mutex;
use torsh_tensor::Result;

use super::{Callback, Context};

/// Remembers the learning rates of each step, and logs them as `lr` (`lr.0`, `lr.1`, .. of several
/// groups) for the loggers after it. A clone reads the same course.
///
/// ```
/// use torsh_train::callbacks::LearningRateMonitor;
/// let monitor = LearningRateMonitor::new();
/// assert!(monitor.history().is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct LearningRateMonitor {
    history: Arc<Mutex<Vec<(usize, Vec<f64>)>>>,
}

impl LearningRateMonitor {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of each step, from 1, and the learning rates with which it was made.
    pub fn history(&self) -> Vec<(usize, Vec<f64>)> {
        self.history.lock().clone()
    }
}

impl Callback for LearningRateMonitor {
    fn name(&self) -> &str {
        "lr_monitor"
    }

    #[torsh_tensor::names_caller]
    fn on_before_step(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let entry = (cx.step + 1, cx.learning_rates.to_vec());
        self.history.lock().push(entry);
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let last = self.history.lock().last().map(|(_, lrs)| lrs.clone());
        match last.as_deref() {
            None => {}
            Some([lr]) => cx.log("lr", *lr),
            Some(lrs) => {
                for (i, lr) in lrs.iter().enumerate() {
                    cx.log(format!("lr.{i}"), *lr);
                }
            }
        }
        Ok(())
    }
}
