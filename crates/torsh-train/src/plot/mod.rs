//! Line charts as PNG and SVG files: the curves of a training run ([`History::plot`]), and any
//! other series of numbers ([`Plot`]).
//!
//! A [`Plot`] has one or more [`Panel`]s, a panel has axes and one or more [`Series`]:
//!
//! ```
//! use torsh_train::plot::{Panel, Plot, Series};
//!
//! let observed = [(2020.0, 8.8), (2021.0, 29.6), (2022.0, 83.2), (2023.0, 125.5)];
//! let forecast = [(2021.0, 31.0), (2022.0, 71.5), (2023.0, 130.2)];
//! let panel = Panel::new("Sunspots")
//!     .x_label("year")
//!     .series(Series::new("observed", observed))
//!     .series(Series::new("forecast", forecast));
//! let path = std::env::temp_dir().join(format!("torsh-sunspots-{}.png", std::process::id()));
//! Plot::new().panel(panel).size(720, 440).save(&path)?;
//!
//! let image = torsh_data::read_image(&path)?;
//! assert_eq!(image.dims(), [3, 440, 720]);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! PNG files have their letters from Noto Sans, which is compiled in, so they are the same on every
//! machine; a character that Noto Sans lacks is drawn as a box. SVG files name the family
//! `sans-serif`, which the viewer chooses.

mod axis;
mod bitmap;
mod draw;
mod fonts;
mod history;

use std::path::Path;

use torsh_core::alloc;
use torsh_tensor::{Result, TorshError};

pub use history::PlotOptions;

#[cfg(doc)]
use crate::History;

/// Matplotlib's `tab10`.
const PALETTE: [[u8; 3]; 10] = [
    [31, 119, 180],
    [255, 127, 14],
    [44, 160, 44],
    [214, 39, 40],
    [148, 103, 189],
    [140, 86, 75],
    [227, 119, 194],
    [127, 127, 127],
    [188, 189, 34],
    [23, 190, 207],
];

/// The size of a panel where the plot's is not given.
const PANEL: (u32, u32) = (560, 400);
/// The height of the plot's title where its size is not given.
const TITLE: u32 = 44;
/// The smallest panel whose labels leave room for curves.
const LEAST: (u32, u32) = (240, 180);
/// The most pixels of a side, and of the whole.
const MOST: (u32, u64) = (16_384, 1 << 26);

/// Points that are joined by a line, in the order in which they are given.
///
/// A point with a coordinate that is NaN or infinite, beyond 1e300 in magnitude, or not positive
/// along a logarithmic axis is left out, and the line has a gap there.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    color: Option<[u8; 3]>,
    markers: Option<bool>,
}

impl Series {
    /// A series of points `(x, y)`. Its name is in the panel's legend; one without a name (`""`) is
    /// not.
    ///
    /// ```
    /// use torsh_train::plot::Series;
    /// let losses = [0.9, 0.4];
    /// let by_epoch = Series::new("loss", losses.iter().zip(1..).map(|(v, epoch)| (f64::from(epoch), *v)));
    /// assert_eq!(by_epoch, Series::new("loss", [(1.0, 0.9), (2.0, 0.4)]));
    /// ```
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        Series {
            name: name.into(),
            points: points.into_iter().collect(),
            color: None,
            markers: None,
        }
    }

    /// Red, green and blue of the line. By default each series of a panel has another one, from
    /// Matplotlib's ten.
    #[must_use]
    pub fn color(mut self, color: [u8; 3]) -> Self {
        self.color = Some(color);
        self
    }

    /// Whether each point gets a dot; by default where there are at most 40. A point without
    /// neighbours always has one, because no line would show it.
    #[must_use]
    pub fn markers(mut self, markers: bool) -> Self {
        self.markers = Some(markers);
        self
    }
}

/// Axes and the series along them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    title: String,
    x_label: String,
    y_label: String,
    log_x: bool,
    log_y: bool,
    series: Vec<Series>,
}

impl Panel {
    /// Returns a panel under a title (`""` for none), with linear axes and no series yet.
    ///
    /// ```
    /// use torsh_train::plot::{Panel, Plot};
    /// let error = Plot::new().panel(Panel::new("Loss")).to_svg().unwrap_err();
    /// assert!(error.to_string().contains("the panel `Loss` has no points"));
    /// ```
    pub fn new(title: impl Into<String>) -> Panel {
        Panel {
            title: title.into(),
            ..Panel::default()
        }
    }

    /// What the horizontal axis counts.
    #[must_use]
    pub fn x_label(mut self, label: impl Into<String>) -> Self {
        self.x_label = label.into();
        self
    }

    /// What the vertical axis counts, or its unit.
    #[must_use]
    pub fn y_label(mut self, label: impl Into<String>) -> Self {
        self.y_label = label.into();
        self
    }

    /// Whether the horizontal axis is logarithmic (off).
    #[must_use]
    pub fn log_x(mut self, log: bool) -> Self {
        self.log_x = log;
        self
    }

    /// Whether the vertical axis is logarithmic (off).
    #[must_use]
    pub fn log_y(mut self, log: bool) -> Self {
        self.log_y = log;
        self
    }

    /// Adds a series. Later ones are drawn over earlier ones.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Refuses what could only be an empty frame by mistake.
    #[track_caller]
    fn check(&self, number: usize) -> Result<()> {
        let name = match self.title.is_empty() {
            true => format!("panel {number}"),
            false => format!("the panel `{}`", self.title),
        };
        let points = || self.series.iter().flat_map(|s| &s.points);
        if points().next().is_none() {
            return Err(
                TorshError::invalid("Plot::save", format!("{name} has no points"))
                    .with_hint("add a series that has some, or leave the panel out"),
            );
        }
        let sides: [(bool, &str, fn(&(f64, f64)) -> f64); 2] =
            [(self.log_x, "x", |p| p.0), (self.log_y, "y", |p| p.1)];
        for (log, axis, of) in sides {
            let numbers = || points().map(of).filter(|v| !v.is_nan());
            if log && numbers().next().is_some() && numbers().all(|v| v <= 0.0) {
                return Err(TorshError::invalid(
                    "Plot::save",
                    format!(
                        "{name} has a logarithmic {axis} axis, but none of its values is positive"
                    ),
                )
                .with_hint("take a linear axis for it"));
            }
        }
        Ok(())
    }
}

/// One image of panels with line charts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    title: String,
    panels: Vec<Panel>,
    size: Option<(u32, u32)>,
    columns: Option<usize>,
}

/// What a path's extension asks for.
enum Format {
    Png,
    Svg,
}

impl Format {
    #[track_caller]
    fn of(path: &Path) -> Result<Format> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("png") => Ok(Format::Png),
            Some("svg") => Ok(Format::Svg),
            _ => Err(TorshError::invalid(
                "Plot::save",
                match extension.is_empty() {
                    true => format!("`{}` has no extension", path.display()),
                    false => format!("`{}` is of no format that is written", path.display()),
                },
            )
            .with_hint("plots are written as .png and as .svg")),
        }
    }
}

/// Where the panels are, in pixels.
struct Layout {
    size: (u32, u32),
    columns: u32,
    rows: u32,
    /// The size of letters and lines, 1 in a panel of the usual size.
    unit: f64,
}

impl Plot {
    /// A plot without a title and without panels yet.
    pub fn new() -> Plot {
        Plot::default()
    }

    /// The title over all panels.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Width and height of the image in pixels; by default 560 x 400 for each panel, and 44 more in
    /// height where there is a title. Letters and lines grow with the panels.
    #[must_use]
    pub fn size(mut self, width: u32, height: u32) -> Self {
        self.size = Some((width, height));
        self
    }

    /// How many panels stand side by side; by default two of four, else up to three.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = Some(columns);
        self
    }

    /// Adds a panel. They are placed in rows, in the order in which they are added.
    #[must_use]
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Writes the plot as PNG or SVG, as the path's extension says (`.png`, `.svg`). The file
    /// appears whole or not at all.
    ///
    /// # Errors
    /// A path with another extension or none; a plot without panels, a panel without points, a
    /// logarithmic axis without a positive value; a size that is too small for the panels or larger
    /// than 16384 pixels a side or 2^26 in all; a file that cannot be written.
    #[torsh_tensor::names_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        match Format::of(path)? {
            Format::Png => torsh_serialize::write_bytes(path, &self.to_png()?),
            Format::Svg => torsh_serialize::write_bytes(path, self.to_svg()?.as_bytes()),
        }
    }

    /// The plot as the bytes of a PNG file.
    ///
    /// # Errors
    /// Those of [`save`](Plot::save) but for the path's.
    #[torsh_tensor::names_caller]
    pub fn to_png(&self) -> Result<Vec<u8>> {
        let layout = self.layout()?;
        let (width, height) = layout.size;
        // Drawn larger, for soft edges.
        let pixels = u64::from(width) * u64::from(height);
        let factor = (1..=3).rev().find(|f| pixels * f * f <= MOST.1);
        let factor = factor.unwrap_or(1) as u32;
        let bytes = pixels as usize * 3;
        alloc::check(bytes * ((factor * factor) as usize + 2), 1)?;
        let fonts = fonts::Fonts::get()?;
        let mut canvas = bitmap::Canvas::new(layout.size, factor);
        draw::draw(canvas.backend(fonts), self, &layout, factor, fonts)?;
        canvas.png()
    }

    /// Draws the plot as the text of an SVG file.
    ///
    /// ```
    /// use torsh_train::plot::{Panel, Plot, Series};
    /// let panel = Panel::new("Loss").series(Series::new("train", [(1.0, 0.9), (2.0, 0.4)]));
    /// let svg = Plot::new().panel(panel).to_svg()?;
    /// assert!(svg.starts_with(r#"<svg width="560" height="400""#));
    /// assert!(Plot::new().to_svg().unwrap_err().to_string().contains("the plot has no panels"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`save`](Plot::save) but for the path's.
    #[torsh_tensor::names_caller]
    pub fn to_svg(&self) -> Result<String> {
        /// Coordinates are whole numbers, of this part of a pixel.
        const FACTOR: u32 = 4;
        let layout = self.layout()?;
        let fonts = fonts::Fonts::get()?;
        let (width, height) = layout.size;
        let (fine_width, fine_height) = (FACTOR * width, FACTOR * height);
        let mut svg = String::new();
        let backend =
            plotters::prelude::SVGBackend::with_string(&mut svg, (fine_width, fine_height));
        draw::draw(backend, self, &layout, FACTOR, fonts)?;
        let fine = format!(r#"<svg width="{fine_width}" height="{fine_height}""#);
        let shown = format!(r#"<svg width="{width}" height="{height}""#);
        Ok(svg.replacen(&fine, &shown, 1))
    }

    #[track_caller]
    fn layout(&self) -> Result<Layout> {
        let count = self.panels.len() as u32;
        if count == 0 {
            return Err(TorshError::invalid("Plot::save", "the plot has no panels")
                .with_hint("add one with `Plot::panel`"));
        }
        for (i, panel) in self.panels.iter().enumerate() {
            panel.check(i + 1)?;
        }
        let columns = match (self.columns, count) {
            (Some(0), _) => {
                return Err(TorshError::invalid("Plot::save", "the plot has 0 columns")
                    .with_hint("a plot has at least one"));
            }
            (Some(n), _) => (n.min(count as usize)) as u32,
            (None, 4) => 2,
            (None, n) => n.min(3),
        };
        let rows = count.div_ceil(columns);
        let title = if self.title.is_empty() { 0 } else { TITLE };
        let (width, height) = self
            .size
            .unwrap_or((columns * PANEL.0, rows * PANEL.1 + title));
        let (w, h) = (width / columns, height.saturating_sub(title) / rows);
        let refuse = |why: String, hint: String| {
            let message = format!("a plot of {width} x {height} pixels {why}");
            Err(TorshError::invalid("Plot::save", message).with_hint(hint))
        };
        if w < LEAST.0 || h < LEAST.1 {
            return refuse(
                format!("is too small for {count} panels in {rows} x {columns}"),
                format!(
                    "ask for at least {} x {}",
                    columns * LEAST.0,
                    rows * LEAST.1 + title
                ),
            );
        }
        if width.max(height) > MOST.0 || u64::from(width) * u64::from(height) > MOST.1 {
            return refuse(
                "is too large".into(),
                format!("ask for at most {} a side and {} in all", MOST.0, MOST.1),
            );
        }
        let unit = (f64::from(w) / f64::from(PANEL.0)).min(f64::from(h) / f64::from(PANEL.1));
        Ok(Layout {
            size: (width, height),
            columns,
            rows,
            unit: unit.max(0.75),
        })
    }
}
