//! Histograms, reductions of segments, and draws of counts.

mod draws;
pub(crate) mod methods;

use torsh_core::{DType, Result, TorshError};

use crate::options::options;
use crate::schema::Bound;
use crate::{IntoDim, ScatterReduceOptions, SearchsortedOptions, Tensor, Value};

use draws::{binomial, poisson};
pub(crate) use methods::RECORDS;

/// The bins of a histogram.
///
/// ```
/// use torsh_tensor::{HistogramBins, tensor};
/// let (counts, _) = tensor![1.0, 2.0, 5.0].histogram(HistogramBins::Edges(tensor![0.0, 3.0, 9.0]))?;
/// assert_eq!(counts, tensor![2.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub enum HistogramBins {
    /// So many, of one width.
    Count(i64),
    /// Those between these edges, in ascending order.
    Edges(Tensor),
}

macro_rules! from_count {
    ($($t:ty)*) => {$(
        impl From<$t> for HistogramBins {
            fn from(n: $t) -> HistogramBins {
                HistogramBins::Count(n as i64)
            }
        }
    )*};
}
from_count!(i64 i32 usize);

impl From<&Tensor> for HistogramBins {
    fn from(edges: &Tensor) -> HistogramBins {
        HistogramBins::Edges(edges.clone())
    }
}

options! {
    /// PyTorch's keyword arguments of `histogram` and `histogramdd`.
    ///
    /// ```
    /// use torsh_tensor::HistogramOptions;
    /// let options = HistogramOptions::new().range([0.0, 1.0]).density(true);
    /// assert_eq!((options.range.as_deref(), options.density), (Some(&[0.0, 1.0][..]), true));
    /// ```
    HistogramOptions {
        /// The limits of a number of bins, two for each coordinate. The default is those of the elements.
        range: Option<Vec<f64>> = None, impl Into<Vec<f64>> => |r| Some(r.into());
        /// What each element counts for. The default is 1.
        weight: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
        /// Whether the result is divided by its sum and by the widths of the bins.
        density: bool = false;
    }
}

options! {
    /// PyTorch's keyword arguments of `segment_reduce`.
    ///
    /// ```
    /// use torsh_tensor::{SegmentReduceOptions, tensor};
    /// let options = SegmentReduceOptions::new().offsets(tensor![0, 1, 3]).initial(10.0);
    /// let y = tensor![1.0, 2.0, 3.0].segment_reduce("sum", options)?;
    /// assert_eq!(y, tensor![11.0, 15.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SegmentReduceOptions {
        /// How long the segments are; along the last dimension, those before it are the data's.
        lengths: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
        /// In place of the lengths, where each segment begins and the last one ends.
        offsets: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
        /// The dimension, which is the last one of the lengths.
        axis: i64 = 0, impl IntoDim => |d| d.value();
        /// PyTorch's `unsafe`: whether the segments may leave elements at the end.
        unchecked: bool = false;
        /// What each reduction begins with; what changes nothing unless set.
        initial: Option<f64> = None, f64 => Some;
    }
}

fn invalid(text: impl Into<String>) -> TorshError {
    TorshError::invalid("", text.into())
}

/// The bins of a call by name.
fn bins(v: &Value) -> Result<HistogramBins> {
    match v {
        Value::Int(n) => Ok(HistogramBins::Count(*n)),
        Value::Tensor(t) => Ok(HistogramBins::Edges(t.clone())),
        v => Err(invalid(format!(
            "bins are a number or a tensor of edges, got {}",
            v.kind()
        ))),
    }
}

fn all_bins(v: &Value, coordinates: usize) -> Result<Vec<HistogramBins>> {
    match v.items() {
        Some(items) => items.iter().map(bins).collect(),
        None => {
            torsh_core::alloc::check(coordinates, size_of::<HistogramBins>())?;
            Ok(vec![bins(v)?; coordinates])
        }
    }
}

fn histogram_options(b: &Bound) -> HistogramOptions {
    HistogramOptions {
        range: b.opt_floats(2),
        weight: b.opt_tensor(3).cloned(),
        density: b.bool(4),
    }
}

/// A number of bins, which must be positive and fit into memory.
fn counted(n: i64) -> Result<usize> {
    match usize::try_from(n) {
        Ok(n) if n > 0 => {
            torsh_core::alloc::check(n, 8)?;
            Ok(n)
        }
        _ => Err(invalid(format!("bins must be > 0, but got {n}"))),
    }
}

/// The least and the greatest element, which must be finite.
fn limits(x: &Tensor) -> Result<(f64, f64)> {
    let (low, high) = x.aminmax()?;
    let (low, high) = (low.item::<f64>()?, high.item::<f64>()?);
    finite(low, high)?;
    Ok((low, high))
}

fn finite(low: f64, high: f64) -> Result<()> {
    match low.is_finite() && high.is_finite() {
        true => Ok(()),
        false => Err(invalid(format!("range of [{low}, {high}] is not finite"))),
    }
}

/// How much falls into each of `n` bins: `position` for each element, where `inside` is true. Sums of the half
/// types are float32.
fn tally(
    position: &Tensor,
    inside: &Tensor,
    weight: Option<&Tensor>,
    n: usize,
    dtype: DType,
) -> Result<Tensor> {
    let wide = if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let weight = match weight {
        Some(w) => w.to_dtype(wide)?.reshape([-1])?.where_zero(inside, false)?,
        None => inside.to_dtype(wide)?,
    };
    let position = position.where_zero(inside, false)?.to_dtype(DType::I64)?;
    let none = Tensor::zeros([n], wide, position.device())?;
    none.index_add(0, &position, &weight)?.to_dtype(dtype)
}

fn histc(x: &Tensor, bins: i64, min: f64, max: f64) -> Result<Tensor> {
    if !x.dtype().is_floating_point() {
        let text = format!("not implemented for {}", x.dtype());
        return Err(TorshError::dtype("", text).with_hint("convert it with to_dtype(DType::F32)"));
    }
    let n = counted(bins)?;
    finite(min, max)?;
    if min > max {
        return Err(invalid("max must be larger than min"));
    }
    if !x.device().has_data() {
        return Tensor::empty([n], x.dtype(), x.device());
    }
    // The half types round each step, as PyTorch's do.
    let values = x.detach().reshape([-1])?;
    let (mut low, mut high) = (min, max);
    if low == high && values.numel() > 0 {
        (low, high) = limits(&values)?;
    }
    if low == high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    let inside = values.ge(low)?.logical_and(&values.le(high)?)?;
    let position = values
        .sub(low)?
        .mul(n as f64)?
        .div(high - low)?
        .floor()?
        .clamp_max(n as f64 - 1.0)?;
    tally(&position, &inside, None, n, x.dtype())
}

/// The edges of bins of points `x`, a coordinate.
fn edges(x: &Tensor, bins: &HistogramBins, range: Option<&[f64]>) -> Result<Tensor> {
    match bins {
        HistogramBins::Count(n) => {
            let n = counted(*n)?;
            let (mut low, mut high) = match range {
                Some(r) => {
                    finite(r[0], r[1])?;
                    (r[0], r[1])
                }
                None if x.numel() > 0 && x.device().has_data() => limits(x)?,
                None => (0.0, 1.0),
            };
            if low > high {
                return Err(invalid("max must be larger than min"));
            }
            if low == high {
                (low, high) = (low - 0.5, high + 0.5);
            }
            Tensor::linspace(low, high, n + 1, x.dtype(), x.device())
        }
        HistogramBins::Edges(e) => {
            if e.ndim() != 1 || e.numel() < 2 {
                let text = format!(
                    "edges of bins are a vector of at least 2, got {:?}",
                    e.dims()
                );
                return Err(TorshError::shape("", text));
            }
            if e.dtype() != x.dtype() {
                let text = format!(
                    "input tensor and bins tensors should have same dtype, but got {} and {}",
                    x.dtype(),
                    e.dtype()
                );
                return Err(TorshError::dtype("", text));
            }
            Ok(e.detach())
        }
    }
}

fn histogram(
    x: &Tensor,
    bins: HistogramBins,
    options: &HistogramOptions,
) -> Result<(Tensor, Tensor)> {
    if let Some(w) = &options.weight
        && w.dims() != x.dims()
    {
        return Err(TorshError::shape(
            "",
            "if weight tensor is provided it should have the same shape as the input tensor",
        ));
    }
    let points = x.reshape([x.numel(), 1])?;
    let weight = options
        .weight
        .as_ref()
        .map(|w| w.reshape([-1]))
        .transpose()?;
    let options = HistogramOptions {
        weight,
        ..options.clone()
    };
    let (counts, mut edges) = histogramdd(&points, &[bins], &options)?;
    Ok((counts, edges.remove(0)))
}

fn histogramdd(
    x: &Tensor,
    bins: &[HistogramBins],
    options: &HistogramOptions,
) -> Result<(Tensor, Vec<Tensor>)> {
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return Err(
            TorshError::dtype("", format!("not implemented for {}", x.dtype()))
                .with_hint("convert it with to_dtype(DType::F32)"),
        );
    }
    let Some((&coordinates, before)) = x.dims().split_last() else {
        return Err(TorshError::shape(
            "",
            "input tensor should have at least 2 dimensions",
        ));
    };
    if bins.len() != coordinates {
        let text = format!(
            "The size of bins must be equal to the innermost dimension of the input: {} and {coordinates}",
            bins.len()
        );
        return Err(TorshError::shape("", text));
    }
    if options
        .range
        .as_ref()
        .is_some_and(|r| r.len() != 2 * coordinates)
    {
        return Err(invalid(format!(
            "for a {coordinates}-dimensional histogram, range should have {} elements",
            2 * coordinates
        )));
    }
    if let Some(w) = &options.weight {
        if w.dims() != before {
            return Err(TorshError::shape(
                "",
                "if weight tensor is provided it should have the same shape as the input tensor excluding its innermost dimension",
            ));
        }
        if w.dtype() != x.dtype() {
            let text = format!(
                "if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got {} and {}",
                x.dtype(),
                w.dtype()
            );
            return Err(TorshError::dtype("", text));
        }
    }
    let count: usize = before.iter().product();
    let points = x.detach().reshape([count, coordinates])?;
    let mut all_edges = Vec::with_capacity(coordinates);
    let mut sizes = Vec::with_capacity(coordinates);
    let mut inside = Tensor::ones([count], DType::Bool, x.device())?;
    let mut position = Tensor::zeros([count], DType::I64, x.device())?;
    let mut total = 1usize;
    for (d, bins) in bins.iter().enumerate() {
        let values = points.select(1, d)?.contiguous()?;
        let range = options.range.as_ref().map(|r| &r[2 * d..2 * d + 2]);
        let edges = edges(&values, bins, range)?;
        let n = edges.numel() - 1;
        total = total.saturating_mul(n);
        torsh_core::alloc::check(total, 8)?;
        if x.device().has_data() {
            let (first, last) = (edges.select(0, 0)?, edges.select(0, -1)?);
            inside = inside.logical_and(&values.ge(&first)?.logical_and(&values.le(&last)?)?)?;
            let options = SearchsortedOptions::new().right(true);
            // The last bin has its upper edge.
            let at = edges
                .searchsorted_with(&values, options)?
                .sub(1)?
                .clamp(0, n as i64 - 1)?;
            position = position.mul(n as i64)?.add(&at)?;
        }
        all_edges.push(edges);
        sizes.push(n);
    }
    let weight = options.weight.as_ref().map(|w| w.detach());
    let mut counts = match x.device().has_data() {
        true => tally(&position, &inside, weight.as_ref(), total, x.dtype())?,
        false => Tensor::empty([total], x.dtype(), x.device())?,
    };
    counts = counts.reshape(&sizes[..])?;
    if options.density {
        counts = counts.div(&counts.sum()?)?;
        for (d, edges) in all_edges.iter().enumerate() {
            let mut shape = vec![1i64; coordinates];
            shape[d] = -1;
            counts = counts.div(&edges.diff()?.reshape(&shape[..])?)?;
        }
    }
    Ok((counts, all_edges))
}

fn segment_reduce(x: &Tensor, reduce: &str, options: &SegmentReduceOptions) -> Result<Tensor> {
    if !x.dtype().is_floating_point() {
        return Err(
            TorshError::dtype("", format!("not implemented for {}", x.dtype()))
                .with_hint("convert it with to_dtype(DType::F32)"),
        );
    }
    let (kind, neutral) = match reduce {
        "sum" => ("sum", 0.0),
        "mean" => ("sum", 0.0),
        "prod" => ("prod", 1.0),
        "max" | "amax" => ("amax", f64::NEG_INFINITY),
        "min" | "amin" => ("amin", f64::INFINITY),
        other => {
            return Err(invalid(format!(
                "reduce argument must be either sum, prod, mean, max or min, got {other}"
            )));
        }
    };
    let lengths = match (&options.lengths, &options.offsets) {
        (Some(lengths), None) => lengths.clone(),
        (None, Some(offsets)) if offsets.ndim() > 0 && offsets.dims()[offsets.ndim() - 1] > 0 => {
            offsets.diff()?
        }
        (None, Some(_)) => return Err(TorshError::shape("", "offsets have at least one element")),
        (Some(_), Some(_)) => return Err(invalid("lengths and offsets cannot both be given")),
        (None, None) => return Err(invalid("Either lengths or offsets must be defined.")),
    };
    if !matches!(lengths.dtype(), DType::I64 | DType::I32) {
        return Err(TorshError::dtype(
            "",
            format!("lengths are int32 or int64, got {}", lengths.dtype()),
        ));
    }
    let axis = lengths.ndim().wrapping_sub(1);
    if lengths.ndim() == 0 || lengths.ndim() > x.ndim() {
        return Err(TorshError::shape(
            "",
            "lengths have one dimension or more, and no more than the data",
        ));
    }
    if x.dim("segment_reduce", options.axis)? != axis {
        return Err(invalid(format!(
            "Expected axis to be the last dimension of lengths but got {}.",
            options.axis
        )));
    }
    if x.dims()[..axis] != lengths.dims()[..axis] {
        return Err(TorshError::shape(
            "",
            format!(
                "lengths of shape {:?} do not fit data of shape {:?}",
                lengths.dims(),
                x.dims()
            ),
        ));
    }
    let (segments, n) = (lengths.dims()[axis], x.dims()[axis]);
    let mut shape = x.dims().to_vec();
    shape[axis] = segments;
    if !x.device().has_data() {
        return Tensor::empty(&shape[..], x.dtype(), x.device());
    }
    let batch: usize = x.dims()[..axis].iter().product();
    let inner: usize = x.dims()[axis + 1..].iter().product();
    let counts = lengths.detach().reshape([-1])?.to_vec::<i64>()?;
    // The segment of each element; the last number stands for none.
    let mut owner = Vec::with_capacity(batch * n);
    for (row, counts) in counts.chunks(segments.max(1)).enumerate().take(batch) {
        for (s, &count) in counts.iter().enumerate() {
            let Ok(count) = usize::try_from(count) else {
                return Err(invalid("lengths contains negative value!"));
            };
            if count > (row + 1) * n - owner.len() {
                return Err(invalid(
                    "Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1): they are longer",
                ));
            }
            owner.resize(owner.len() + count, (row * segments + s) as i64);
        }
        if owner.len() < (row + 1) * n && !options.unchecked {
            return Err(invalid(
                "Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
            ));
        }
        owner.resize((row + 1) * n, (batch * segments) as i64);
    }
    owner.resize(batch * n, (batch * segments) as i64);
    let index =
        Tensor::from_data_on(&owner, [batch * n, 1], x.device())?.expand([batch * n, inner])?;
    let rows = [batch * segments + 1, inner];
    let start = Tensor::full(
        rows,
        options.initial.unwrap_or(neutral),
        x.dtype(),
        x.device(),
    )?;
    let data = x.reshape([batch * n, inner])?;
    let joined = match kind {
        "sum" => start.scatter_add(0, &index, &data)?,
        "prod" => {
            start.scatter_reduce_with(0, &index, &data, "prod", ScatterReduceOptions::new())?
        }
        kind => extremes(&start, &index, &data, kind, options.initial.is_some())?,
    };
    let mut result = joined.narrow(0, 0, batch * segments)?;
    if reduce == "mean" {
        let lengths = lengths.reshape([-1, 1])?.to_dtype(x.dtype())?;
        // Of an empty segment the mean is what it began with, or nan.
        let divisor = match options.initial {
            Some(_) => lengths.clamp_min(1)?,
            None => lengths,
        };
        result = result.div(&divisor)?;
    }
    result.reshape(&shape[..])
}

/// The largest or smallest of each segment and of what it begins with. Equal elements share the gradient, and those that
/// are NaN where there are some; what a segment begins with takes no share.
fn extremes(
    start: &Tensor,
    index: &Tensor,
    data: &Tensor,
    kind: &str,
    bounded: bool,
) -> Result<Tensor> {
    let apart = ScatterReduceOptions::new().include_self(false);
    let of = |data: &Tensor| -> Result<Tensor> {
        let joined = start.scatter_reduce_with(0, index, data, kind, apart)?;
        if !bounded {
            return Ok(joined);
        }
        let begins = match kind {
            "amax" => joined.lt(start)?,
            _ => joined.gt(start)?,
        };
        Tensor::where_(&begins, start, &joined)
    };
    let nan = data.detach().isnan()?;
    if !nan.any()?.item::<bool>()? {
        return of(data);
    }
    let none = start.zeros_like()?;
    let count = none.scatter_add(0, index, &nan.to_dtype(data.dtype())?)?;
    let all = none.scatter_add(0, index, &data.where_zero(&nan, false)?)?;
    let mean = all.div(&count.clamp_min(1)?)?;
    let others = of(&data.where_zero(&nan, true)?)?;
    Tensor::where_(&count.gt(0)?, &mean, &others)
}
