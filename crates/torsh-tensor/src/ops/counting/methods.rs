//! Methods of the functions of this module, and their records.

use torsh_core::{Generator, Result};

use super::*;
use crate::record::{OpRecord, sample};
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &HISTC,
    &HISTOGRAM,
    &HISTOGRAMDD,
    &SEGMENT_REDUCE,
    &POISSON,
    &BINOMIAL,
];

#[torsh_tensor::functions]
impl Tensor {
    /// How many elements lie in each of `bins` bins of one width from `min` to `max`, or from the
    /// least to the greatest element where both are equal (`torch.histc`). Elements outside are left
    /// out; the last bin has its upper edge. The result has this dtype. Real floating-point dtypes;
    /// an error for others, for less than one bin, and for limits that are not finite.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 1.0, 4.0];
    /// assert_eq!(x.histc(3, 0.0, 3.0)?, tensor![0.0, 2.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn histc(&self, bins: i64, min: f64, max: f64) -> Result<Tensor> {
        self.named(
            "histc",
            histc(self, bins, min, max).map_err(|e| e.renamed("histc")),
        )
    }

    /// The histogram of the elements and the edges of its bins (`torch.histogram`). `bins` is their
    /// number, between the least and the greatest element, or their edges in ascending order. float32
    /// and float64; an error for other dtypes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (counts, edges) = tensor![1.0, 2.0, 4.0].histogram(3)?;
    /// assert_eq!((counts, edges), (tensor![1.0, 1.0, 1.0], tensor![1.0, 2.0, 3.0, 4.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn histogram(&self, bins: impl Into<HistogramBins>) -> Result<(Tensor, Tensor)> {
        self.histogram_with(bins, HistogramOptions::new())
    }

    /// [`Tensor::histogram`] with PyTorch's keyword arguments: the range of a number of bins, a
    /// weight for each element, and whether the result is a density, whose integral is 1
    /// (`torch.histogram`).
    ///
    /// ```
    /// # use torsh_tensor::{HistogramOptions, tensor};
    /// let x = tensor![1.0, 2.0, 3.0];
    /// let options = HistogramOptions::new().weight(tensor![1.0, 2.0, 5.0]);
    /// assert_eq!(x.histogram_with(2, options)?.0, tensor![1.0, 7.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn histogram_with(
        &self,
        bins: impl Into<HistogramBins>,
        options: HistogramOptions,
    ) -> Result<(Tensor, Tensor)> {
        self.named(
            "histogram",
            histogram(self, bins.into(), &options).map_err(|e| e.renamed("histogram")),
        )
    }

    /// The histogram of points whose coordinates are along the last dimension, and the edges of the
    /// bins of each coordinate (`torch.histogramdd`). float32 and float64; an error for other dtypes,
    /// and where the bins of a coordinate are missing.
    ///
    /// ```
    /// # use torsh_tensor::{HistogramBins, tensor};
    /// let x = tensor![[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]];
    /// let (counts, edges) = x.histogramdd(&[HistogramBins::Count(2), HistogramBins::Count(2)])?;
    /// assert_eq!(counts, tensor![[0.0, 1.0], [1.0, 1.0]]);
    /// assert_eq!(edges[0], tensor![0.0, 1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn histogramdd(&self, bins: &[HistogramBins]) -> Result<(Tensor, Vec<Tensor>)> {
        self.histogramdd_with(bins, HistogramOptions::new())
    }

    /// [`Tensor::histogramdd`] with PyTorch's keyword arguments: two limits for each coordinate, a
    /// weight for each point, and whether the result is a density (`torch.histogramdd`).
    ///
    /// ```
    /// # use torsh_tensor::{HistogramBins, HistogramOptions, tensor};
    /// let x = tensor![[0.5], [1.5]];
    /// let options = HistogramOptions::new().range([0.0, 4.0]);
    /// assert_eq!(x.histogramdd_with(&[HistogramBins::Count(4)], options)?.0, tensor![1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn histogramdd_with(
        &self,
        bins: &[HistogramBins],
        options: HistogramOptions,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        self.named(
            "histogramdd",
            histogramdd(self, bins, &options).map_err(|e| e.renamed("histogramdd")),
        )
    }

    /// Segments of a dimension, one behind the other, each reduced to one element by `sum`, `mean`,
    /// `max`, `min` or `prod` (`torch.segment_reduce`). The options give the lengths of the segments
    /// or their offsets, and what each reduction begins with. Real floating-point dtypes; an error
    /// for negative lengths, and for lengths that do not add up to the dimension.
    ///
    /// ```
    /// # use torsh_tensor::{SegmentReduceOptions, tensor};
    /// let x = tensor![1.0, 2.0, 3.0, 4.0];
    /// let options = SegmentReduceOptions::new().lengths(tensor![1, 3]);
    /// assert_eq!(x.segment_reduce("sum", options)?, tensor![1.0, 9.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn segment_reduce(&self, reduce: &str, options: SegmentReduceOptions) -> Result<Tensor> {
        self.named(
            "segment_reduce",
            segment_reduce(self, reduce, &options).map_err(|e| e.renamed("segment_reduce")),
        )
    }
}

crate::ops::random::draws! {
    draws:
    /// Draws from Poisson distributions with these rates: PyTorch's own draws after the same
    /// `manual_seed` (`torch.poisson`). The result has this shape and dtype. Real floating-point
    /// dtypes; an error for others, and for a negative rate.
    ///
    /// ```
    /// # use torsh_tensor::{tensor, zeros};
    /// assert_eq!(zeros(&[2]).poisson()?, tensor![0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    @function " (`torch.poisson`)" poisson poisson_with (&self)
        |generator| self.named("poisson", poisson(self, generator).map_err(|e| e.renamed("poisson"))),
        "# use torsh_tensor::full;\n\
            let generator = torsh_core::Generator::new(1);\n\
            let x = full(&[5], 3.0).poisson_with(&generator)?;\n\
            // What PyTorch draws.\n\
            assert_eq!(x.to_vec::<f32>()?, [1.0, 1.0, 2.0, 4.0, 2.0]);";
    /// Draws of how many of this many trials succeed, each with a probability of `prob`, with which
    /// it broadcasts: PyTorch's own draws after the same `manual_seed` (`torch.binomial`). Real
    /// floating-point dtypes, the same for both; an error for others.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![10.0, 7.0].binomial(&tensor![0.0, 1.0])?;
    /// assert_eq!(x, tensor![0.0, 7.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    @function " (`torch.binomial`)" binomial binomial_with (&self, prob: &Tensor)
        |generator| self.named("binomial", binomial(self, prob, generator).map_err(|e| e.renamed("binomial"))),
        "# use torsh_tensor::full;\n\
            let generator = torsh_core::Generator::new(1);\n\
            let x = full(&[5], 10.0).binomial_with(&full(&[5], 0.3), &generator)?;\n\
            // What PyTorch draws.\n\
            assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 2.0, 4.0, 2.0]);";
}

pub static HISTC: OpRecord = OpRecord::new(
    "histc",
    "How many elements lie in each of some bins.",
    "(Tensor input, int bins=100, Scalar min=0, Scalar max=0)",
)
.constant()
.by_name(|b| {
    b.tensor(0)?
        .histc(b.int(1), b.float(2), b.float(3))
        .map(Value::Tensor)
});

pub static HISTOGRAM: OpRecord = OpRecord::new(
    "histogram",
    "The histogram of the elements and its edges.",
    "(Tensor input, Any bins, *, float[]? range=None, Tensor? weight=None, bool density=False)",
)
.constant()
.by_name(|b| {
    b.tensor(0)?
        .histogram_with(bins(b.value(1))?, histogram_options(b))
        .map(Value::from)
});

pub static HISTOGRAMDD: OpRecord = OpRecord::new(
    "histogramdd",
    "The histogram of points and the edges of each coordinate.",
    "(Tensor input, Any bins, *, float[]? range=None, Tensor? weight=None, bool density=False)",
)
.constant()
.by_name(|b| {
    let x = b.tensor(0)?;
    let all = all_bins(b.value(1), x.dims().last().copied().unwrap_or(0))?;
    let (counts, edges) = x.histogramdd_with(&all, histogram_options(b))?;
    Ok(Value::Tuple(vec![
        counts.into(),
        Value::Tuple(edges.into_iter().map(Value::from).collect()),
    ]))
});

#[torsh_tensor::by_name(Tensor::segment_reduce(.., SegmentReduceOptions { lengths, offsets, axis, unchecked: unsafe, initial }))]
pub static SEGMENT_REDUCE: OpRecord = OpRecord::new("segment_reduce", "Segments of a dimension, each reduced to one element.", "(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None)")
.samples(|s| { let x = s.distinct(&[6, 2])?; let lengths = Tensor::from_data(&[2i64, 1, 3], [3])?; Ok(["sum", "mean", "max", "min", "prod"].into_iter().map(|r| sample![&x, r, lengths = &lengths]).collect()) });

pub static POISSON: OpRecord = OpRecord::new(
    "poisson",
    "Draws from Poisson distributions.",
    "(Tensor input, Generator? generator=None)",
)
.constant()
.by_name(|b| {
    let x = b.tensor(0)?;
    let y = poisson(x, b.generator(1)).map_err(|e| e.renamed("poisson"));
    x.named("poisson", y).map(Value::Tensor)
});

pub static BINOMIAL: OpRecord = OpRecord::new(
    "binomial",
    "Draws from binomial distributions.",
    "(Tensor count, Tensor prob, Generator? generator=None)",
)
.constant()
.by_name(|b| {
    let x = b.tensor(0)?;
    let y = binomial(x, b.tensor(1)?, b.generator(2)).map_err(|e| e.renamed("binomial"));
    x.named("binomial", y).map(Value::Tensor)
});
