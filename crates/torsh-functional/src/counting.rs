//! Histograms, segments, and counts that are drawn.

use torsh_core::Generator;
use torsh_tensor::{HistogramBins, HistogramOptions, Result, SegmentReduceOptions, Tensor};

/// How many elements lie in each of `bins` bins of one width from `min` to `max`, or from the least to the
/// greatest element where both are equal (`torch.histc`). Elements outside are left out; the last bin has its
/// upper edge. The result has this dtype. Real floating-point dtypes; an error for others, for less than one
/// bin, and for limits that are not finite.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![1.0, 2.0, 1.0, 4.0];
/// assert_eq!(F::histc(&x, 3, 0.0, 3.0)?, tensor![0.0, 2.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn histc(input: &Tensor, bins: i64, min: f64, max: f64) -> Result<Tensor> {
    input.histc(bins, min, max)
}

/// The histogram of the elements and the edges of its bins (`torch.histogram`). `bins` is their number, between
/// the least and the greatest element, or their edges in ascending order. float32 and float64; an error for
/// other dtypes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let (counts, edges) = F::histogram(&tensor![1.0, 2.0, 4.0], 3)?;
/// assert_eq!((counts, edges), (tensor![1.0, 1.0, 1.0], tensor![1.0, 2.0, 3.0, 4.0]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn histogram(input: &Tensor, bins: impl Into<HistogramBins>) -> Result<(Tensor, Tensor)> {
    input.histogram(bins)
}

/// [`Tensor::histogram`] with PyTorch's keyword arguments: the range of a number of bins, a weight for each
/// element, and whether the result is a density, whose integral is 1 (`torch.histogram`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{HistogramOptions, tensor};
/// let x = tensor![1.0, 2.0, 3.0];
/// let options = HistogramOptions::new().weight(tensor![1.0, 2.0, 5.0]);
/// assert_eq!(F::histogram_with(&x, 2, options)?.0, tensor![1.0, 7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn histogram_with(
    input: &Tensor,
    bins: impl Into<HistogramBins>,
    options: HistogramOptions,
) -> Result<(Tensor, Tensor)> {
    input.histogram_with(bins, options)
}

/// The histogram of points whose coordinates are along the last dimension, and the edges of the bins of each
/// coordinate (`torch.histogramdd`). float32 and float64; an error for other dtypes, and where the bins of a
/// coordinate are missing.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{HistogramBins, tensor};
/// let x = tensor![[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]];
/// let (counts, edges) = F::histogramdd(&x, &[HistogramBins::Count(2), HistogramBins::Count(2)])?;
/// assert_eq!(counts, tensor![[0.0, 1.0], [1.0, 1.0]]);
/// assert_eq!(edges[0], tensor![0.0, 1.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn histogramdd(input: &Tensor, bins: &[HistogramBins]) -> Result<(Tensor, Vec<Tensor>)> {
    input.histogramdd(bins)
}

/// [`Tensor::histogramdd`] with PyTorch's keyword arguments: two limits for each coordinate, a weight for each
/// point, and whether the result is a density (`torch.histogramdd`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{HistogramBins, HistogramOptions, tensor};
/// let x = tensor![[0.5], [1.5]];
/// let options = HistogramOptions::new().range([0.0, 4.0]);
/// assert_eq!(F::histogramdd_with(&x, &[HistogramBins::Count(4)], options)?.0, tensor![1.0, 1.0, 0.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn histogramdd_with(
    input: &Tensor,
    bins: &[HistogramBins],
    options: HistogramOptions,
) -> Result<(Tensor, Vec<Tensor>)> {
    input.histogramdd_with(bins, options)
}

/// Segments of a dimension, one behind the other, each reduced to one element by `sum`, `mean`, `max`, `min` or
/// `prod` (`torch.segment_reduce`). The options give the lengths of the segments or their offsets, and what
/// each reduction begins with. Real floating-point dtypes; an error for negative lengths, and for lengths that
/// do not add up to the dimension.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{SegmentReduceOptions, tensor};
/// let x = tensor![1.0, 2.0, 3.0, 4.0];
/// let options = SegmentReduceOptions::new().lengths(tensor![1, 3]);
/// assert_eq!(F::segment_reduce(&x, "sum", options)?, tensor![1.0, 9.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn segment_reduce(
    input: &Tensor,
    reduce: &str,
    options: SegmentReduceOptions,
) -> Result<Tensor> {
    input.segment_reduce(reduce, options)
}

/// Draws from Poisson distributions with these rates: PyTorch's own draws after the same `manual_seed`
/// (`torch.poisson`). The result has this shape and dtype. Real floating-point dtypes; an error for others, and
/// for a negative rate.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// assert_eq!(F::poisson(&zeros(&[2]))?, tensor![0.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn poisson(input: &Tensor) -> Result<Tensor> {
    input.poisson()
}

/// [`Tensor::poisson`] from a generator (`torch.poisson`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::full;
/// let generator = torsh_core::Generator::new(1);
/// let x = F::poisson_with(&full(&[5], 3.0), &generator)?;
/// // What PyTorch draws.
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 1.0, 2.0, 4.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn poisson_with(input: &Tensor, generator: &Generator) -> Result<Tensor> {
    input.poisson_with(generator)
}

/// Draws of how many of this many trials succeed, each with a probability of `prob`, with which it broadcasts:
/// PyTorch's own draws after the same `manual_seed` (`torch.binomial`). Real floating-point dtypes, the same
/// for both; an error for others.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = F::binomial(&tensor![10.0, 7.0], &tensor![0.0, 1.0])?;
/// assert_eq!(x, tensor![0.0, 7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn binomial(input: &Tensor, prob: &Tensor) -> Result<Tensor> {
    input.binomial(prob)
}

/// [`Tensor::binomial`] from a generator (`torch.binomial`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::full;
/// let generator = torsh_core::Generator::new(1);
/// let x = F::binomial_with(&full(&[5], 10.0), &full(&[5], 0.3), &generator)?;
/// // What PyTorch draws.
/// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 2.0, 4.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn binomial_with(input: &Tensor, prob: &Tensor, generator: &Generator) -> Result<Tensor> {
    input.binomial_with(prob, generator)
}
