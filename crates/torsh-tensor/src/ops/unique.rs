//! Distinct elements: `unique` and `unique_consecutive`.

use torsh_core::{DType, Device, Result, TorshError};

use crate::options::options;
use crate::record::OpRecord;
use crate::{SortOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&UNIQUE, &UNIQUE_CONSECUTIVE];

#[torsh_tensor::by_name(Tensor::unique_with(.., UniqueOptions))]
pub static UNIQUE: OpRecord = OpRecord::new(
    "unique",
    "The distinct elements, sorted, or the distinct slices along a dimension; with the place of each element among them and how often each occurs.",
    "(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None)",
)
.constant();

#[torsh_tensor::by_name(Tensor::unique_consecutive_with(.., UniqueConsecutiveOptions))]
pub static UNIQUE_CONSECUTIVE: OpRecord = OpRecord::new(
    "unique_consecutive",
    "The elements, or slices along a dimension, without those equal to the one before; with the place of each element among them and how often each occurs.",
    "(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None)",
)
.constant();

options! {
    /// PyTorch's keyword arguments of `unique`.
    ///
    /// ```
    /// use torsh_tensor::UniqueOptions;
    /// let options = UniqueOptions::new();
    /// assert!(options.sorted);
    /// assert!(!options.return_inverse);
    /// assert!(!options.return_counts);
    /// assert!(!options.sorted(false).sorted);
    /// ```
    #[derive(Copy)]
    UniqueOptions {
        /// Whether the result is in ascending order, which it always is.
        sorted: bool = true;
        /// Whether to say where in the result each element went.
        return_inverse: bool = false;
        /// Whether to count.
        return_counts: bool = false;
        /// The dimension whose slices are compared; none compares elements.
        dim: Option<i64> = None, impl crate::IntoDim => |d| Some(d.value());
    }
}

options! {
    /// PyTorch's keyword arguments of `unique_consecutive`.
    ///
    /// ```
    /// use torsh_tensor::UniqueConsecutiveOptions;
    /// let options = UniqueConsecutiveOptions::new();
    /// assert!(!options.return_inverse);
    /// assert!(!options.return_counts);
    /// assert!(options.return_inverse(true).return_inverse);
    /// ```
    #[derive(Copy)]
    UniqueConsecutiveOptions {
        /// Whether to say where in the result each element went.
        return_inverse: bool = false;
        /// Whether to count.
        return_counts: bool = false;
        /// The dimension whose slices are compared; none compares elements.
        dim: Option<i64> = None, impl crate::IntoDim => |d| Some(d.value());
    }
}

/// What [`Tensor::unique_with`] and [`Tensor::unique_consecutive_with`] find.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The distinct elements, 1-d; with a dimension, the distinct slices in a tensor of the input's
    /// other sizes.
    pub values: Tensor,
    /// For each element (with a dimension: each slice) its place in `values`, int64, if asked for.
    pub inverse: Option<Tensor>,
    /// How often each of `values` occurs, int64, if asked for.
    pub counts: Option<Tensor>,
}

impl From<Unique> for Value {
    fn from(u: Unique) -> Value {
        if u.inverse.is_none() && u.counts.is_none() {
            return Value::Tensor(u.values);
        }
        let all = [Some(u.values), u.inverse, u.counts];
        Value::Tuple(all.into_iter().flatten().map(Value::Tensor).collect())
    }
}

/// What is asked for besides the values.
#[derive(Clone, Copy)]
struct Wanted {
    inverse: bool,
    counts: bool,
}

/// One int64.
fn ints(value: i64, device: Device) -> Result<Tensor> {
    Tensor::full([1], value, DType::I64, device)
}

fn cat(parts: &[Tensor]) -> Result<Tensor> {
    Tensor::cat(parts, 0)
}

/// Runs of equal rows. `order` says where row `i` was before sorting.
fn runs(rows: &Tensor, order: Option<&Tensor>, wanted: Wanted) -> Result<Unique> {
    let n = rows.dims()[0] as i64;
    if n == 0 {
        let none = || Tensor::zeros([0], DType::I64, rows.device());
        return Ok(Unique {
            values: rows.clone(),
            inverse: wanted.inverse.then(none).transpose()?,
            counts: wanted.counts.then(none).transpose()?,
        });
    }
    let mut differs = rows.narrow(0, 1, n - 1)?.ne(&rows.narrow(0, 0, n - 1)?)?;
    if rows.ndim() > 1 {
        differs = differs.flatten(1)?.any_dim(1, false)?;
    }
    let first = Tensor::ones([1], DType::Bool, rows.device())?;
    let starts = cat(&[first, differs])?;
    let at = starts.nonzero()?.squeeze(1)?;
    let counts = wanted.counts.then(|| {
        let ends = cat(&[
            at.narrow(0, 1, at.numel() as i64 - 1)?,
            ints(n, rows.device())?,
        ])?;
        ends.sub(&at)
    });
    let group = || starts.cumsum(0)?.sub(1);
    let inverse = wanted.inverse.then(|| match order {
        Some(order) => order.zeros_like()?.scatter(0, order, &group()?),
        None => group(),
    });
    Ok(Unique {
        values: rows.index_select(0, &at)?,
        inverse: inverse.transpose()?,
        counts: counts.transpose()?,
    })
}

/// The rows of a matrix in lexicographic order, and where each was: stable sorts by a column each,
/// the last one first.
fn sort_rows(rows: &Tensor) -> Result<Tensor> {
    let columns = rows.dims()[1] as i64;
    let mut order: Option<Tensor> = None;
    for c in (0..columns).rev() {
        let column = rows.select(1, c)?;
        let by = |keys: &Tensor| keys.argsort_with(SortOptions::default().dim(0));
        order = Some(match order {
            Some(o) => o.index_select(0, &by(&column.index_select(0, &o)?)?)?,
            None => by(&column)?,
        });
    }
    // Without columns all rows are equal.
    order.map_or_else(
        || Tensor::zeros([rows.dims()[0]], DType::I64, rows.device()),
        Ok,
    )
}

/// Tensors compared along a dimension, or element by element, as rows of one more tensor.
fn distinct(
    op: &'static str,
    x: &Tensor,
    dim: Option<i64>,
    find: impl FnOnce(&Tensor) -> Result<Unique>,
) -> Result<Unique> {
    if !x.device().has_data() {
        return Err(TorshError::device(
            op,
            "the shape of the result depends on the elements, which a meta tensor does not have",
        )
        .with_hint("compute it on a device with data"));
    }
    if x.is_complex() {
        let text = format!(
            "{} has no order, which equal elements are found by",
            x.dtype()
        );
        return Err(TorshError::dtype(op, text)
            .with_hint("take the unique rows of view_as_real along a dimension"));
    }
    let x = x.detach();
    let Some(dim) = dim else {
        let mut u = find(&x.reshape(-1)?)?;
        if let Some(inverse) = &mut u.inverse {
            *inverse = inverse.reshape(x.shape())?;
        }
        return Ok(u);
    };
    if x.ndim() == 0 {
        let text = format!("dimension specified as {dim}, but the tensor has no dimensions");
        return Err(TorshError::index(op, text));
    }
    let d = x.dim(op, dim)?;
    let sizes = x.dims();
    if sizes.iter().enumerate().any(|(i, &n)| n == 0 && i != d) {
        let text = format!(
            "dimensions other than {d} must not be empty, got {}",
            x.shape()
        );
        return Err(TorshError::shape(op, text));
    }
    let mut u = find(&x.movedim(d as i64, 0)?)?;
    u.values = u.values.movedim(0, d as i64)?.contiguous()?;
    Ok(u)
}

#[torsh_tensor::functions]
impl Tensor {
    /// The distinct elements, sorted, in one dimension (`torch.unique`). NaN equals nothing, so each
    /// is distinct. The result has no derivative.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[3i64, 1, 2, 1], &[2, 2])?;
    /// assert_eq!(x.unique()?.to_vec::<i64>()?, [1, 2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn unique(&self) -> Result<Tensor> {
        Ok(self.unique_with(UniqueOptions::default())?.values)
    }

    /// [`Tensor::unique`] of the slices along a dimension, in lexicographic order; with the place of
    /// each element (of the input's shape, or one for each slice) and the numbers of occurrences.
    ///
    /// ```
    /// use torsh_tensor::{Tensor, UniqueOptions};
    /// let x = Tensor::from_data(&[3i64, 1, 2, 1], &[4])?;
    /// let u = x.unique_with(UniqueOptions::default().return_inverse(true).return_counts(true))?;
    /// assert_eq!(u.inverse.unwrap().to_vec::<i64>()?, [2, 0, 1, 0]);
    /// assert_eq!(u.counts.unwrap().to_vec::<i64>()?, [2, 1, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn unique_with(&self, options: UniqueOptions) -> Result<Unique> {
        let wanted = Wanted {
            inverse: options.return_inverse,
            counts: options.return_counts,
        };
        distinct("unique", self, options.dim, |rows| {
            if rows.ndim() == 1 {
                let (sorted, order) = rows.sort_with(SortOptions::default().dim(0))?;
                return runs(&sorted, Some(&order), wanted);
            }
            let order = sort_rows(&rows.flatten(1)?)?;
            runs(&rows.index_select(0, &order)?, Some(&order), wanted)
        })
        .map_err(|e| e.renamed("unique"))
    }

    /// The elements in one dimension without those equal to the one before
    /// (`torch.unique_consecutive`). The result has no derivative.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1i64, 1, 2, 2, 1], &[5])?;
    /// assert_eq!(x.unique_consecutive()?.to_vec::<i64>()?, [1, 2, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn unique_consecutive(&self) -> Result<Tensor> {
        Ok(self
            .unique_consecutive_with(UniqueConsecutiveOptions::default())?
            .values)
    }

    /// [`Tensor::unique_consecutive`] of the slices along a dimension, or with the places of the
    /// elements and the lengths of the runs.
    ///
    /// An error for a dimension out of range.
    ///
    /// ```
    /// use torsh_tensor::{UniqueConsecutiveOptions, tensor};
    /// let options = UniqueConsecutiveOptions::new().return_counts(true);
    /// let runs = tensor![1, 1, 2, 1].unique_consecutive_with(options)?;
    /// assert_eq!(runs.values, tensor![1, 2, 1]);
    /// assert_eq!(runs.counts, Some(tensor![2, 1, 1]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn unique_consecutive_with(&self, options: UniqueConsecutiveOptions) -> Result<Unique> {
        let wanted = Wanted {
            inverse: options.return_inverse,
            counts: options.return_counts,
        };
        distinct("unique_consecutive", self, options.dim, |rows| {
            runs(rows, None, wanted)
        })
        .map_err(|e| e.renamed("unique_consecutive"))
    }
}
