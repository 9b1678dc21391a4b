//! Progress bars.

use indicatif::{ProgressDrawTarget, ProgressStyle};
use torsh_tensor::{Result, TorshError};

use super::{Callback, Context};

/// A bar over the whole run on the terminal, with the loss and the time that is left, and a line
/// for each epoch. It shows nothing where standard error is no terminal.
///
/// ```
/// use torsh_train::callbacks::{Callback, ProgressBar};
/// assert_eq!(ProgressBar::new().name(), "progress_bar");
/// ```
#[derive(Default)]
pub struct ProgressBar {
    target: Option<ProgressDrawTarget>,
    bar: Option<indicatif::ProgressBar>,
}

impl std::fmt::Debug for ProgressBar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgressBar").finish_non_exhaustive()
    }
}

impl ProgressBar {
    /// On standard error.
    pub fn new() -> Self {
        Self::default()
    }

    /// On another terminal.
    #[must_use]
    pub fn target(mut self, target: ProgressDrawTarget) -> Self {
        self.target = Some(target);
        self
    }

    fn style(known: bool) -> Result<ProgressStyle> {
        let template = match known {
            true => "{prefix} [{bar:32}] {pos}/{len} {msg}, {per_sec}, all done in {eta}",
            false => "{prefix} {spinner} {pos} {msg}, {per_sec}, for {elapsed}",
        };
        ProgressStyle::with_template(template)
            .map(|s| s.progress_chars("=> "))
            .map_err(|e| TorshError::Other(e.to_string()))
    }
}

/// Numbers for people: `train_loss 0.1234, val_accuracy 0.9876`.
fn shown(values: &[(String, f64)]) -> String {
    let each = values.iter().map(|(name, v)| format!("{name} {v:.4}"));
    each.collect::<Vec<_>>().join(", ")
}

impl Callback for ProgressBar {
    fn name(&self) -> &str {
        "progress_bar"
    }

    fn on_every_rank(&self) -> bool {
        false
    }

    #[torsh_tensor::names_caller]
    fn on_fit_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let done = cx.batches.map_or(0, |n| n * cx.epoch) + cx.batch;
        let bar = match cx.batches {
            Some(n) => indicatif::ProgressBar::new((n * cx.epochs) as u64),
            None => indicatif::ProgressBar::new_spinner(),
        };
        if let Some(target) = self.target.take() {
            bar.set_draw_target(target);
        }
        bar.set_style(Self::style(cx.batches.is_some())?);
        bar.set_position(done as u64);
        // What was done before the run was resumed took no time of this one.
        bar.reset_eta();
        self.bar = Some(bar);
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn on_epoch_start(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if let Some(bar) = &self.bar {
            bar.set_prefix(format!("epoch {}/{}", cx.epoch + 1, cx.epochs));
        }
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn on_batch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if let Some(bar) = &self.bar {
            if let Some(loss) = cx.train_metrics.get("loss").or(cx.loss.as_ref()) {
                bar.set_message(format!("loss {loss:.4}"));
            }
            bar.inc(1);
        }
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if let Some(bar) = &self.bar {
            let line = format!(
                "epoch {}/{}: {}",
                cx.epoch + 1,
                cx.epochs,
                shown(&cx.values())
            );
            bar.println(line);
        }
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn on_fit_end(&mut self, _cx: &mut Context<'_>) -> Result<()> {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        Ok(())
    }

    fn on_error(&mut self, _error: &TorshError) {
        if let Some(bar) = self.bar.take() {
            bar.abandon();
        }
    }
}
