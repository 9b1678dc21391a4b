//! Saving checkpoints during training.

use std::path::{Path, PathBuf};

use torsh_serialize::Value;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, TorshError};

use super::{Callback, Context};
use crate::config::{CheckpointConfig, Mode};

/// Saves checkpoints: `epoch_0003.pt` after every so many epochs, and `best.pt`.
///
/// ```
/// use torsh_train::callbacks::ModelCheckpoint;
/// let callback = ModelCheckpoint::new("checkpoints")
///     .every_n_epochs(2)
///     .keep_last(3)
///     .best("accuracy", "max");
/// assert!(callback.best_path().ends_with("checkpoints/best.pt"));
/// ```
#[derive(Clone, Debug)]
pub struct ModelCheckpoint {
    folder: PathBuf,
    every_n_epochs: usize,
    every_n_steps: usize,
    keep_last: Option<usize>,
    best: Option<(String, Mode)>,
    best_value: Option<f64>,
    kept: Vec<PathBuf>,
}

/// Nothing to do in an epoch without a validation; an error where the metric is never there.
pub(super) fn unknown(who: &'static str, metric: &str, cx: &Context<'_>) -> Result<()> {
    if cx.has_validation && cx.val_metrics.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = cx.train_metrics.keys().map(String::as_str).collect();
    Err(
        TorshError::invalid(who, format!("there is no metric `{metric}`"))
            .with_hint(format!("there are {}", names.join(", "))),
    )
}

impl ModelCheckpoint {
    /// Into a folder, which is made where it is not there: after each epoch, and all stay.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        ModelCheckpoint {
            folder: folder.into(),
            every_n_epochs: 1,
            every_n_steps: 0,
            keep_last: None,
            best: None,
            best_value: None,
            kept: Vec::new(),
        }
    }

    /// Returns the callback that a configuration asks for; `None` where nothing is to be saved.
    ///
    /// ```
    /// use torsh_train::callbacks::ModelCheckpoint;
    /// use torsh_train::config::CheckpointConfig;
    /// assert!(ModelCheckpoint::from_config(&CheckpointConfig::default()).is_none()); // It names no folder.
    /// let config = CheckpointConfig { dir: Some("saved".into()), ..CheckpointConfig::default() };
    /// let callback = ModelCheckpoint::from_config(&config).expect("a folder is set");
    /// assert!(callback.best_path().ends_with("saved/best.pt"));
    /// ```
    pub fn from_config(config: &CheckpointConfig) -> Option<Self> {
        let mut out =
            ModelCheckpoint::new(config.dir.clone()?).every_n_epochs(config.every_n_epochs);
        out.keep_last = config.keep_last;
        if config.save_best {
            out = out.best(config.metric.clone(), config.mode);
        }
        Some(out)
    }

    /// After how many epochs; 0 for never.
    #[must_use]
    pub fn every_n_epochs(mut self, n: usize) -> Self {
        self.every_n_epochs = n;
        self
    }

    /// After how many steps, besides, as `step_00000100.pt`; 0 for never.
    #[must_use]
    pub fn every_n_steps(mut self, n: usize) -> Self {
        self.every_n_steps = n;
        self
    }

    /// How many of the regular checkpoints stay; the oldest go first.
    #[must_use]
    pub fn keep_last(mut self, n: usize) -> Self {
        self.keep_last = Some(n.max(1));
        self
    }

    /// Keeps the checkpoint of the epoch in which a metric was best: the lowest of the [`Mode`] "min", the highest of "max".
    /// A run refuses another string.
    #[must_use]
    pub fn best(mut self, metric: impl Into<String>, mode: impl Into<Mode>) -> Self {
        self.best = Some((metric.into(), mode.into()));
        self
    }

    /// Returns where the best is.
    ///
    /// ```
    /// use std::path::Path;
    /// use torsh_train::callbacks::ModelCheckpoint;
    /// assert_eq!(ModelCheckpoint::new("saved").best_path(), Path::new("saved").join("best.pt"));
    /// ```
    pub fn best_path(&self) -> PathBuf {
        self.folder.join("best.pt")
    }

    fn regular(&mut self, cx: &mut Context<'_>, name: String) {
        let path = self.folder.join(name);
        cx.save(&path);
        self.kept.retain(|p| *p != path);
        self.kept.push(path);
        let keep = self.keep_last.unwrap_or(usize::MAX);
        while self.kept.len() > keep {
            cx.remove(self.kept.remove(0));
        }
    }
}

fn text(path: &Path) -> Value {
    path.to_string_lossy().into_owned().into()
}

impl Callback for ModelCheckpoint {
    fn name(&self) -> &str {
        "model_checkpoint"
    }

    #[torsh_tensor::names_caller]
    fn on_fit_start(&mut self, _cx: &mut Context<'_>) -> Result<()> {
        if let Some((_, mode)) = self.best {
            mode.known().map_err(|e| e.renamed("ModelCheckpoint"))?;
        }
        std::fs::create_dir_all(&self.folder).map_err(|e| {
            let text = format!("{}: {e}", self.folder.display());
            TorshError::from(std::io::Error::new(e.kind(), text))
        })
    }

    #[torsh_tensor::names_caller]
    fn on_step_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        if self.every_n_steps > 0 && cx.step.is_multiple_of(self.every_n_steps) {
            self.regular(cx, format!("step_{:08}.pt", cx.step));
        }
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn on_epoch_end(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let done = cx.epoch + 1;
        if let Some((metric, mode)) = self.best.clone() {
            match cx.metric(&metric) {
                None => unknown("ModelCheckpoint", &metric, cx)?,
                Some(value) if mode.is_better(value, self.best_value, 0.0) => {
                    self.best_value = Some(value);
                    cx.save(self.best_path());
                }
                Some(_) => {}
            }
        }
        if self.every_n_epochs > 0 && done.is_multiple_of(self.every_n_epochs) {
            self.regular(cx, format!("epoch_{done:04}.pt"));
        }
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn state(&self) -> Result<Value> {
        let kept = self.kept.iter().map(|p| text(p)).collect();
        Ok(Value::from([
            ("best", self.best_value.into()),
            ("kept", Value::List(kept)),
        ]))
    }

    #[torsh_tensor::names_caller]
    fn load_state(&mut self, state: &Value) -> Result<()> {
        self.best_value = match state.get("best")? {
            Value::None => None,
            v => Some(v.as_float()?),
        };
        let kept = state.get("kept")?.as_list()?.iter();
        // Only files of this folder: a checkpoint must not name others to be removed. It may have been written on another
        // system, whose paths have other separators.
        let name = |v: &Value| {
            let name = v.as_str()?.rsplit(['/', '\\']).next();
            let name = Path::new(name.unwrap_or_default()).file_name();
            Ok(name.map(|n| self.folder.join(n)))
        };
        let kept = kept.map(name).collect::<Result<Vec<_>>>()?;
        self.kept = kept.into_iter().flatten().collect();
        Ok(())
    }
}
