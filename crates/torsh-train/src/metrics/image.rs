//! How much alike images are.

use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{Metric, MetricValue, count_of, named, nothing};

/// Refuses images of two shapes.
fn same_shape(name: &str, output: &Tensor, target: &Tensor) -> Result<()> {
    match output.shape() == target.shape() {
        true => Ok(()),
        false => Err(TorshError::shape(
            name.to_string(),
            format!(
                "the output ({}) has not the target's shape ({})",
                output.describe(),
                target.describe()
            ),
        )),
    }
}

/// The ratio of the signal's largest power to that of the error, in decibels, over all elements
/// (`torchmetrics.image.PeakSignalNoiseRatio`).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{Metric, PeakSignalNoiseRatio};
/// let mut psnr = PeakSignalNoiseRatio::new(1.0);
/// psnr.update(&tensor![0.1, 0.9], &tensor![0.0, 1.0])?;
/// assert!((psnr.compute()?.scalar()? - 20.0).abs() < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PeakSignalNoiseRatio {
    name: String,
    range: f64,
    squares: f64,
    elements: u64,
}

impl PeakSignalNoiseRatio {
    /// Returns the metric of images whose numbers span `data_range`: 1, or 255 for bytes.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{Metric, PeakSignalNoiseRatio};
    /// let mut psnr = PeakSignalNoiseRatio::new(255.0);
    /// psnr.update(&tensor![25.5], &tensor![0.0])?; // An error of a tenth of the range.
    /// assert!((psnr.compute()?.scalar()? - 20.0).abs() < 1e-9);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(data_range: f64) -> PeakSignalNoiseRatio {
        PeakSignalNoiseRatio {
            name: "psnr".into(),
            range: data_range,
            squares: 0.0,
            elements: 0,
        }
    }

    named!();
}

impl Metric for PeakSignalNoiseRatio {
    fn name(&self) -> &str {
        &self.name
    }

    #[torsh_tensor::names_caller]
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        same_shape(&self.name, output, target)?;
        let (a, b) = (
            output.detach().to_vec::<f64>()?,
            target.detach().to_vec::<f64>()?,
        );
        self.squares += a
            .iter()
            .zip(&b)
            .map(|(a, b)| (a - b) * (a - b))
            .sum::<f64>();
        self.elements += a.len() as u64;
        Ok(())
    }

    /// Infinite where all elements are equal.
    #[torsh_tensor::names_caller]
    fn compute(&self) -> Result<MetricValue> {
        match self.elements {
            0 => Err(nothing(&self.name)),
            n => {
                let mean = self.squares / n as f64;
                Ok(MetricValue::Scalar(
                    10.0 * (self.range * self.range / mean).log10(),
                ))
            }
        }
    }

    fn reset(&mut self) {
        (self.squares, self.elements) = (0.0, 0);
    }

    #[track_caller]
    fn state(&self) -> Result<Value> {
        Ok(Value::from([
            ("squares", self.squares.into()),
            ("elements", self.elements.into()),
        ]))
    }

    #[torsh_tensor::names_caller]
    fn merge(&mut self, state: &Value) -> Result<()> {
        let squares = state.get("squares")?.as_float()?;
        self.elements += count_of(&self.name, state.get("elements")?)?;
        self.squares += squares;
        Ok(())
    }
}

/// Elements of the window.
const WINDOW: usize = 11;
/// The standard deviation of the window's weights.
const SIGMA: f64 = 1.5;

/// The mean structural similarity of images `[n, c, h, w]`: 1 where they are the same (Wang and others, 2004;
/// `torchmetrics.image.StructuralSimilarityIndexMeasure`).
///
/// Means, variances and covariances are weighed by a Gaussian window of 11 by 11 pixels around each pixel of the image, which is
/// mirrored at its edges.
///
/// ```
/// use torsh_tensor::{arange, zeros};
/// use torsh_train::metrics::{Metric, StructuralSimilarity};
/// let x = arange(0.0, 256.0, 1.0).reshape([1, 1, 16, 16])?;
/// let mut ssim = StructuralSimilarity::new(255.0);
/// ssim.update(&x, &x)?;
/// assert!((ssim.compute()?.scalar()? - 1.0).abs() < 1e-9);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StructuralSimilarity {
    name: String,
    range: f64,
    inside: bool,
    sum: f64,
    images: u64,
}

impl StructuralSimilarity {
    /// Returns the metric of images whose numbers span `data_range`: 1, or 255 for bytes.
    ///
    /// ```
    /// use torsh_tensor::{ones, zeros};
    /// use torsh_train::metrics::{Metric, StructuralSimilarity};
    /// let mut ssim = StructuralSimilarity::new(1.0);
    /// ssim.update(&zeros([1, 1, 11, 11]), &ones([1, 1, 11, 11]))?; // Black and white.
    /// assert!((ssim.compute()?.scalar()? - 0.0001 / 1.0001).abs() < 1e-9);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(data_range: f64) -> StructuralSimilarity {
        StructuralSimilarity {
            name: "ssim".into(),
            range: data_range,
            inside: false,
            sum: 0.0,
            images: 0,
        }
    }

    /// Whether only windows count that fit into the image, as in Wang's own program and in scikit-image. The default is
    /// `false`.
    #[must_use]
    pub fn inside_only(mut self, yes: bool) -> Self {
        self.inside = yes;
        self
    }

    named!();
}

/// The weights of a line of the window.
fn weights() -> [f64; WINDOW] {
    let centre = (WINDOW / 2) as f64;
    let all: [f64; WINDOW] =
        std::array::from_fn(|i| (-((i as f64 - centre) / SIGMA).powi(2) / 2.0).exp());
    let sum: f64 = all.iter().sum();
    all.map(|w| w / sum)
}

/// A plane with its mirror images around it, as far as a window reaches.
fn mirrored(plane: &[f64], (h, w): (usize, usize)) -> Vec<f64> {
    let half = WINDOW / 2;
    let at = |i: usize, n: usize| {
        let back = 2 * (n - 1);
        let i = (i + back - half) % back.max(1);
        if i < n { i } else { back - i }
    };
    let mut out = Vec::with_capacity((h + 2 * half) * (w + 2 * half));
    for y in 0..h + 2 * half {
        let row = &plane[at(y, h) * w..][..w];
        out.extend((0..w + 2 * half).map(|x| row[at(x, w)]));
    }
    out
}

/// The weighted means of the windows that fit into a plane.
fn means(plane: &[f64], (h, w): (usize, usize), weights: &[f64; WINDOW]) -> Vec<f64> {
    let (oh, ow) = (h + 1 - WINDOW, w + 1 - WINDOW);
    let mut lines = vec![0.0; h * ow];
    for (line, row) in lines.chunks_exact_mut(ow).zip(plane.chunks_exact(w)) {
        for (k, weight) in weights.iter().enumerate() {
            for (to, v) in line.iter_mut().zip(&row[k..]) {
                *to += weight * v;
            }
        }
    }
    let mut out = vec![0.0; oh * ow];
    for (y, to) in out.chunks_exact_mut(ow).enumerate() {
        for (k, weight) in weights.iter().enumerate() {
            for (to, v) in to.iter_mut().zip(&lines[(y + k) * ow..]) {
                *to += weight * v;
            }
        }
    }
    out
}

/// The mean similarity of two planes.
fn similarity(a: &[f64], b: &[f64], size: (usize, usize), range: f64) -> f64 {
    let weights = weights();
    let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
    let of = |f: &dyn Fn(f64, f64) -> f64| {
        let product: Vec<f64> = a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect();
        means(&product, size, &weights)
    };
    let (ma, mb) = (of(&|a, _| a), of(&|_, b| b));
    let (aa, bb, ab) = (of(&|a, _| a * a), of(&|_, b| b * b), of(&|a, b| a * b));
    let n = ma.len();
    let sum: f64 = (0..n)
        .map(|i| {
            let (ma, mb) = (ma[i], mb[i]);
            let variances = (aa[i] - ma * ma).max(0.0) + (bb[i] - mb * mb).max(0.0);
            let covariance = ab[i] - ma * mb;
            (2.0 * ma * mb + c1) * (2.0 * covariance + c2)
                / ((ma * ma + mb * mb + c1) * (variances + c2))
        })
        .sum();
    sum / n as f64
}

impl Metric for StructuralSimilarity {
    fn name(&self) -> &str {
        &self.name
    }

    /// Errors: other than four dimensions, sides of less than 11 pixels.
    #[torsh_tensor::names_caller]
    fn update(&mut self, output: &Tensor, target: &Tensor) -> Result<()> {
        same_shape(&self.name, output, target)?;
        let [n, c, h, w] = *output.dims() else {
            let text = format!("images ({}) must be [n, c, h, w]", output.describe());
            return Err(TorshError::shape(self.name.clone(), text)
                .with_hint("add dimensions of size 1 with unsqueeze"));
        };
        if h < WINDOW || w < WINDOW {
            let text = format!(
                "images of {h} by {w} pixels are smaller than the window of {WINDOW} by {WINDOW}"
            );
            return Err(TorshError::shape(self.name.clone(), text));
        }
        let (a, b) = (
            output.detach().to_vec::<f64>()?,
            target.detach().to_vec::<f64>()?,
        );
        let planes = a.chunks_exact(h * w).zip(b.chunks_exact(h * w));
        let one = |(a, b): (&[f64], &[f64])| match self.inside {
            true => similarity(a, b, (h, w), self.range),
            false => {
                let (a, b) = (mirrored(a, (h, w)), mirrored(b, (h, w)));
                similarity(&a, &b, (h + WINDOW - 1, w + WINDOW - 1), self.range)
            }
        };
        let sum: f64 = planes.map(one).sum();
        if c > 0 {
            self.sum += sum / c as f64;
            self.images += n as u64;
        }
        Ok(())
    }

    #[torsh_tensor::names_caller]
    fn compute(&self) -> Result<MetricValue> {
        match self.images {
            0 => Err(nothing(&self.name)),
            n => Ok(MetricValue::Scalar(self.sum / n as f64)),
        }
    }

    fn reset(&mut self) {
        (self.sum, self.images) = (0.0, 0);
    }

    #[track_caller]
    fn state(&self) -> Result<Value> {
        Ok(Value::from([
            ("sum", self.sum.into()),
            ("images", self.images.into()),
        ]))
    }

    #[torsh_tensor::names_caller]
    fn merge(&mut self, state: &Value) -> Result<()> {
        let sum = state.get("sum")?.as_float()?;
        self.images += count_of(&self.name, state.get("images")?)?;
        self.sum += sum;
        Ok(())
    }
}
