//! The curves of a training run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use torsh_tensor::{Result, TorshError};

use super::{PALETTE, Panel, Plot, Series};
use crate::{EpochResults, History, Metrics};

/// What [`History::plot_with`] may be told.
///
/// A panel is named as its numbers are in the history and in logs: `loss`, `learning_rate`, or the
/// metric's name.
///
/// ```
/// use torsh_train::plot::PlotOptions;
/// let options = PlotOptions::new().log_loss(true).metrics(["accuracy"]);
/// assert_eq!((options.log_loss, options.learning_rate, options.size), (true, true, None));
/// assert_eq!(options.metrics, Some(vec!["accuracy".to_string()]));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlotOptions {
    /// The title over all panels; none by default.
    pub title: Option<String>,
    /// Titles of panels, by the panel's name; by default that name.
    pub panel_titles: BTreeMap<String, String>,
    /// Width and height in pixels; by default 560 x 400 for each panel.
    pub size: Option<(u32, u32)>,
    /// How many panels stand side by side; by default two of four, else up to three.
    pub columns: Option<usize>,
    /// Whether the loss has a logarithmic axis.
    pub log_loss: bool,
    /// Whether the learning rate has a logarithmic axis.
    pub log_learning_rate: bool,
    /// Whether the metrics have logarithmic axes.
    pub log_metrics: bool,
    /// Whether the loss is shown.
    pub loss: bool,
    /// Whether the learning rate is shown.
    pub learning_rate: bool,
    /// The metrics that are shown, in this order; all of them where `None`.
    pub metrics: Option<Vec<String>>,
    /// Whether the numbers on the training data are shown.
    pub train: bool,
    /// Whether the numbers on the validation data are shown.
    pub validation: bool,
}

impl Default for PlotOptions {
    /// Everything, on linear axes.
    fn default() -> Self {
        PlotOptions {
            title: None,
            panel_titles: BTreeMap::new(),
            size: None,
            columns: None,
            log_loss: false,
            log_learning_rate: false,
            log_metrics: false,
            loss: true,
            learning_rate: true,
            metrics: None,
            train: true,
            validation: true,
        }
    }
}

impl PlotOptions {
    /// The defaults: everything, on linear axes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The title over all panels.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The title of the panel with this name (`loss`, `learning_rate` or a metric's), `""` for none.
    #[must_use]
    pub fn panel_title(mut self, panel: impl Into<String>, title: impl Into<String>) -> Self {
        self.panel_titles.insert(panel.into(), title.into());
        self
    }

    /// Width and height in pixels.
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Self {
        self.size = Some((width, height));
        self
    }

    /// How many panels stand side by side.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = Some(columns);
        self
    }

    /// Whether the loss has a logarithmic axis.
    #[must_use]
    pub fn log_loss(mut self, log: bool) -> Self {
        self.log_loss = log;
        self
    }

    /// Whether the learning rate has a logarithmic axis.
    #[must_use]
    pub fn log_learning_rate(mut self, log: bool) -> Self {
        self.log_learning_rate = log;
        self
    }

    /// Whether the metrics have logarithmic axes.
    #[must_use]
    pub fn log_metrics(mut self, log: bool) -> Self {
        self.log_metrics = log;
        self
    }

    /// Whether the loss is shown.
    #[must_use]
    pub fn loss(mut self, show: bool) -> Self {
        self.loss = show;
        self
    }

    /// Whether the learning rate is shown.
    #[must_use]
    pub fn learning_rate(mut self, show: bool) -> Self {
        self.learning_rate = show;
        self
    }

    /// The metrics that are shown, in this order; none for an empty list.
    #[must_use]
    pub fn metrics<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.metrics = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Whether the numbers on the training data are shown. The learning rate is not one of them.
    #[must_use]
    pub fn train(mut self, show: bool) -> Self {
        self.train = show;
        self
    }

    /// Whether the numbers on the validation data are shown.
    #[must_use]
    pub fn validation(mut self, show: bool) -> Self {
        self.validation = show;
        self
    }
}

fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match quoted.is_empty() {
        true => "none".into(),
        false => quoted.join(", "),
    }
}

impl History {
    /// Draws loss, metrics and learning rate over the epochs, each in a panel of its own, and
    /// writes them as PNG or SVG, as the path's extension says (`.png`, `.svg`). The file appears
    /// whole or not at all.
    ///
    /// Panels come in the order loss, metrics by name, learning rate. Epochs are counted from 1. The
    /// blue line is of the training data, the orange one of the validation data; an epoch without a
    /// validation has no point on it. A number that is NaN or infinite leaves a gap.
    ///
    /// ```
    /// # use torsh_data::{DataLoader, TensorDataset};
    /// # use torsh_functional as F;
    /// # use torsh_nn::{Linear, ModuleExt};
    /// # use torsh_optim::SGD;
    /// # use torsh_tensor::{Result, Tensor};
    /// use torsh_train::Trainer;
    /// use torsh_train::plot::PlotOptions;
    ///
    /// # let x = Tensor::from_fn([32, 1], |i| i[0] as f32 / 16.0 - 1.0)?;
    /// # let y = x.mul(2.0)?.sub(1.0)?;
    /// # let loader = DataLoader::builder(TensorDataset::new(x, y)).batch_size(8).build()?;
    /// # let model = Linear::new(1, 1);
    /// # let optimizer = SGD::new(model.parameters(), 0.2)?;
    /// # let folder = std::env::temp_dir().join(format!("torsh-curves-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let mut trainer = Trainer::builder(model, &optimizer)
    ///     .loss(|output, target| F::mse_loss(output, target))
    ///     .epochs(8)
    ///     .build()?;
    /// let history = trainer.fit(&loader, None)?.history;
    /// history.plot(folder.join("curve.png"))?;
    /// let options = PlotOptions::new().log_loss(true).learning_rate(false).size(600, 400);
    /// history.plot_with(folder.join("loss.png"), options)?;
    ///
    /// let image = torsh_data::read_image(folder.join("loss.png"))?;
    /// assert_eq!(image.dims(), [3, 400, 600]);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A history without epochs, and those of [`Plot::save`].
    #[track_caller]
    pub fn plot(&self, path: impl AsRef<Path>) -> Result<()> {
        self.plot_with(path, PlotOptions::default())
    }

    /// [`plot`](History::plot) with options.
    ///
    /// # Errors
    /// Those of [`plot`](History::plot); a metric or panel that is not there; options that leave
    /// nothing to show; a logarithmic axis for values none of which is positive.
    #[torsh_tensor::names_caller]
    pub fn plot_with(&self, path: impl AsRef<Path>, options: PlotOptions) -> Result<()> {
        self.to_plot(&options)?.save(path)
    }

    /// Returns the curves as a [`Plot`], to which other panels may be added.
    ///
    /// ```
    /// # use torsh_train::{EpochResults, Metrics};
    /// use torsh_train::{History, plot::PlotOptions};
    /// let epoch = |epoch, loss: f64| EpochResults {
    ///     epoch,
    ///     train_metrics: Metrics::from([("loss".into(), loss)]),
    ///     val_metrics: Metrics::new(),
    ///     learning_rate: 0.1,
    /// };
    /// let history: History = [epoch(0, 0.9), epoch(1, 0.4)].into_iter().collect();
    /// let svg = history.to_plot(&PlotOptions::new())?.to_svg()?;
    /// assert!(svg.starts_with(r#"<svg width="1120" height="400""#)); // Loss and learning rate.
    /// let error = History::default().to_plot(&PlotOptions::new()).unwrap_err();
    /// assert!(error.to_string().contains("the history has no epochs"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`plot_with`](History::plot_with) but for the file's.
    #[torsh_tensor::names_caller]
    pub fn to_plot(&self, options: &PlotOptions) -> Result<Plot> {
        let refuse = |why: String, hint: String| {
            Err(TorshError::invalid("History::plot", why).with_hint(hint))
        };
        if self.is_empty() {
            return refuse(
                "the history has no epochs".into(),
                "train for at least one with `Trainer::fit` first".into(),
            );
        }
        let all: BTreeSet<&str> = self
            .iter()
            .flat_map(|e| e.train_metrics.keys().chain(e.val_metrics.keys()))
            .map(String::as_str)
            .filter(|name| *name != "loss")
            .collect();
        let metrics: Vec<&str> = match &options.metrics {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => all.iter().copied().collect(),
        };
        if let Some(unknown) = metrics.iter().find(|name| !all.contains(*name)) {
            return refuse(
                format!("there is no metric `{unknown}`"),
                format!("the history has {}", names(all)),
            );
        }

        let mut plot = Plot::new().title(options.title.clone().unwrap_or_default());
        (plot.size, plot.columns) = (options.size, options.columns);
        let mut shown = Vec::new();
        let mut add = |name: &'_ str, title: &str, log: bool, series: Vec<Series>| {
            if !series.is_empty() {
                let title = options.panel_titles.get(name).map_or(title, String::as_str);
                let panel = Panel::new(title).x_label("epoch").log_y(log);
                plot.panels
                    .push(series.into_iter().fold(panel, Panel::series));
                shown.push(name.to_string());
            }
        };
        if options.loss {
            add("loss", "loss", options.log_loss, self.both("loss", options));
        }
        for name in metrics {
            add(name, name, options.log_metrics, self.both(name, options));
        }
        if options.learning_rate {
            let series = self.series("", PALETTE[2], |e| Some(e.learning_rate));
            add(
                "learning_rate",
                "learning rate",
                options.log_learning_rate,
                series.into_iter().collect(),
            );
        }
        let shown = shown.iter().map(String::as_str);
        if shown.len() == 0 {
            return refuse(
                "the options leave nothing to show".into(),
                format!(
                    "of loss, learning rate and metrics ({}) show some",
                    names(all)
                ),
            );
        }
        let titled = options.panel_titles.keys();
        for name in titled {
            if shown.clone().all(|n| n != name) {
                return refuse(
                    format!("a title is given for a panel `{name}`, which is not shown"),
                    format!("the panels are {}", names(shown)),
                );
            }
        }
        Ok(plot)
    }

    /// A number of each epoch that has it.
    fn series(
        &self,
        name: &str,
        color: [u8; 3],
        of: impl Fn(&EpochResults) -> Option<f64>,
    ) -> Option<Series> {
        let points = self.iter().map(|e| Some(((e.epoch + 1) as f64, of(e)?)));
        let series = Series::new(name, points.flatten()).color(color);
        (!series.points.is_empty()).then_some(series)
    }

    /// A metric on the training and on the validation data.
    fn both(&self, name: &str, options: &PlotOptions) -> Vec<Series> {
        type Of = fn(&EpochResults) -> &Metrics;
        let sides: [(bool, &str, [u8; 3], Of); 2] = [
            (options.train, "train", PALETTE[0], |e| &e.train_metrics),
            (options.validation, "validation", PALETTE[1], |e| {
                &e.val_metrics
            }),
        ];
        let shown = sides.into_iter().filter(|side| side.0);
        shown
            .filter_map(|(_, legend, color, of)| {
                self.series(legend, color, |e| of(e).get(name).copied())
            })
            .collect()
    }
}
