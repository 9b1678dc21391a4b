//! Masked reductions.

use torsh_core::{DType, Result, TorshError};

use super::{Identity, broadcast, filled, in_dtype, records};
use crate::options::options;
use crate::record::OpRecord;
use crate::{IntoDim, IntoDims, NormOptions, SumOptions, Tensor, Value};

options! {
    /// The keyword arguments of masked reductions.
    ///
    /// ```
    /// use torsh_tensor::masked::MaskedOptions;
    /// let options = MaskedOptions::new().dim(1).keepdim(true);
    /// assert_eq!((options.dim, options.keepdim, options.dtype), (Some(vec![1]), true, None));
    /// ```
    MaskedOptions {
        /// The dimensions that are reduced. The default is all.
        dim: Option<Vec<i64>> = None, impl IntoDims => |d| d.dims().map(|d| d.to_vec());
        /// Whether they stay, at size 1.
        keepdim: bool = false;
        /// The dtype of the result.
        dtype: Option<DType> = None, DType => Some;
    }
}

options! {
    /// The keyword arguments of the masked variance and standard deviation.
    ///
    /// ```
    /// use torsh_tensor::masked::MaskedVarOptions;
    /// assert_eq!(MaskedVarOptions::new().correction, 1.0);
    /// ```
    MaskedVarOptions {
        /// The dimensions that are reduced. The default is all.
        dim: Option<Vec<i64>> = None, impl IntoDims => |d| d.dims().map(|d| d.to_vec());
        /// What is taken from the number of elements that count before dividing by it.
        correction: f64 = 1.0;
        /// Whether they stay, at size 1.
        keepdim: bool = false;
        /// The dtype of the result.
        dtype: Option<DType> = None, DType => Some;
    }
}

/// The dimensions of an option, counted from the start; all without them.
#[track_caller]
fn dims(op: &'static str, x: &Tensor, dim: Option<&[i64]>) -> Result<Vec<i64>> {
    let Some(list) = dim.filter(|d| !d.is_empty()) else {
        return Ok((0..x.ndim() as i64).collect());
    };
    let mut found = Vec::with_capacity(list.len());
    for &d in list {
        let at = x.dim(op, d)? as i64;
        if found.contains(&at) {
            let text = format!("dim={d} appears multiple times in the list of dims");
            return x.named(op, Err(TorshError::invalid("", text)));
        }
        found.push(at);
    }
    found.sort_unstable();
    Ok(found)
}

fn summed(x: &Tensor, dims: &[i64], keepdim: bool, dtype: Option<DType>) -> Result<Tensor> {
    if x.ndim() == 0 {
        let whole = x.dtype().is_integer() || x.dtype() == DType::Bool;
        return match dtype.or(whole.then_some(DType::I64)) {
            Some(d) => x.to_dtype(d),
            None => Ok(x.clone()),
        };
    }
    let mut options = SumOptions::new().keepdim(keepdim);
    options.dim = Some(dims.iter().copied().collect());
    options.dtype = dtype;
    x.sum_with(options)
}

/// How many elements count, along dimensions.
fn counted(x: &Tensor, mask: Option<&Tensor>, dims: &[i64], keepdim: bool) -> Result<Tensor> {
    let mask = match mask {
        Some(mask) => broadcast(x, mask)?,
        None => Tensor::ones(x.shape(), DType::Bool, x.device())?,
    };
    summed(&mask, dims, keepdim, None)
}

/// What a reduction does with its operand, of which only what counts is left.
#[derive(Clone, Copy)]
enum Reduction {
    Sum,
    Prod,
    Amax,
    Amin,
    Mean,
    LogSumExp,
    ArgMax,
    ArgMin,
}

#[track_caller]
fn reduced(
    op: &'static str,
    which: Reduction,
    x: &Tensor,
    mask: Option<&Tensor>,
    options: &MaskedOptions,
) -> Result<Tensor> {
    let list = dims(op, x, options.dim.as_deref())?;
    let (keepdim, dtype) = (options.keepdim, options.dtype);
    let run = || match which {
        Reduction::Sum => summed(&filled(x, mask, Identity::Zero)?, &list, keepdim, dtype),
        Reduction::Prod => {
            let whole = x.dtype().is_integer() || x.dtype() == DType::Bool;
            let mut y = filled(x, mask, Identity::One)?;
            y = in_dtype(y, dtype.or(whole.then_some(DType::I64)))?;
            if x.ndim() == 0 {
                return Ok(y);
            }
            for &d in list.iter().rev() {
                y = y.prod_dim(d, keepdim)?;
            }
            Ok(y)
        }
        Reduction::Amax => in_dtype(
            filled(x, mask, Identity::Lowest)?.amax(&list, keepdim)?,
            dtype,
        ),
        Reduction::Amin => in_dtype(
            filled(x, mask, Identity::Highest)?.amin(&list, keepdim)?,
            dtype,
        ),
        Reduction::Mean => {
            let to = dtype.unwrap_or(x.dtype());
            if !to.is_differentiable() {
                let text = format!(
                    "the dtype of a mean must be either a floating point or complex dtype. Got: {to}"
                );
                return Err(TorshError::dtype("", text));
            }
            let total = summed(&filled(x, mask, Identity::Zero)?, &list, keepdim, dtype)?;
            total.div(&counted(x, mask, &list, keepdim)?)
        }
        Reduction::LogSumExp => {
            let y = filled(x, mask, Identity::Lowest)?;
            let y = match x.ndim() {
                // The exponential and the logarithm of one element, in the dtype that they compute in.
                0 => y.reshape([1])?.logsumexp(0, false)?,
                _ => y.logsumexp(&list, keepdim)?,
            };
            y.to_dtype(dtype.unwrap_or(x.dtype()))
        }
        Reduction::ArgMax | Reduction::ArgMin => {
            let most = matches!(which, Reduction::ArgMax);
            let identity = if most {
                Identity::Lowest
            } else {
                Identity::Highest
            };
            let y = filled(x, mask, identity)?;
            let at = match (options.dim.as_deref(), most) {
                (None | Some([]), true) => y.argmax(),
                (None | Some([]), false) => y.argmin(),
                (Some(&[d]), true) => y.argmax_dim(d, keepdim),
                (Some(&[d]), false) => y.argmin_dim(d, keepdim),
                _ => Err(TorshError::invalid("", "takes one dimension")),
            };
            let mut at = at?;
            if keepdim && options.dim.as_deref().is_none_or(<[i64]>::is_empty) {
                at = at.reshape(vec![1i64; x.ndim()])?;
            }
            at.to_dtype(dtype.unwrap_or(x.dtype()))
        }
    };
    x.named(op, run().map_err(|e| e.renamed(op)))
}

/// Reductions of the elements that count: a function without and one with options, and the record of both. A row has
/// documentation, names, what is done, and the results of `[[1, 2], [3, 4]]` without the 2: of all, and by rows.
macro_rules! reductions {
    ($($(#[$doc:meta])+ $name:ident $with:ident $record:ident $which:ident [$whole:literal, $rows:tt] $($constant:ident)?;)*) => {$(
        $(#[$doc])+
        ///
        /// The mask broadcasts with the operand, or is `None`; an error where it does not.
        #[doc = example!($name "" $whole)]
        #[torsh_tensor::names_caller]
        pub fn $name<'m>(input: &Tensor, mask: impl Into<Option<&'m Tensor>>) -> Result<Tensor> {
            let options = MaskedOptions::new();
            reduced($record.name, Reduction::$which, input, mask.into(), &options)
        }

        #[doc = concat!("[`", stringify!($name), "`] along dimensions, and in another dtype.")]
        ///
        /// An error for a dimension that is not there.
        #[doc = example!($with "MaskedOptions" $rows)]
        #[torsh_tensor::names_caller]
        pub fn $with<'m>(
            input: &Tensor,
            mask: impl Into<Option<&'m Tensor>>,
            options: MaskedOptions,
        ) -> Result<Tensor> {
            reduced($record.name, Reduction::$which, input, mask.into(), &options)
        }

        pub static $record: OpRecord = OpRecord::new(
            concat!("masked.", stringify!($name)),
            concat!(stringify!($name), " of the elements that a mask lets count."),
            "(Tensor input, int[1]? dim=None, *, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)",
        )
        $(.$constant())?
        .by_name(|b| $with(b.tensor(0)?, b.opt_tensor(4), records::options(b, 1)).map(Value::Tensor))
        .samples(|s| records::calls(s, &[]));
    )*};
}

/// The doc test of a row: of all elements, or with options of the rows.
macro_rules! example {
    ($name:ident "" $whole:literal) => {
        crate::options::example!(concat!(
            "use torsh_tensor::{masked, tensor};\n",
            "let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);\n",
            "assert!((masked::",
            stringify!($name),
            "(&x, &mask)?.item::<f32>()? - ",
            stringify!($whole),
            ").abs() < 1e-6);"
        ))
    };
    ($name:ident $options:literal $rows:tt) => {
        crate::options::example!(concat!(
            "use torsh_tensor::{masked::{self, ",
            $options,
            "}, tensor};\n",
            "let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);\n",
            "let y = masked::",
            stringify!($name),
            "(&x, &mask, ",
            $options,
            "::new().dim(1))?;\n",
            "assert!(y.allclose(&tensor!",
            stringify!($rows),
            ")?);"
        ))
    };
}

reductions! {
    /// The sum of the elements that count; integers and bools add up in int64, and no elements
    /// give 0. Every dtype.
    sum sum_with SUM Sum [8.0, [1.0, 7.0]];
    /// The product of the elements that count; integers and bools multiply in int64, and no elements
    /// give 1. Every dtype.
    prod prod_with PROD Prod [12.0, [1.0, 12.0]];
    /// The greatest element that counts; of nothing minus infinity, or the least number of an
    /// integer dtype. Real dtypes.
    amax amax_with AMAX Amax [4.0, [1.0, 4.0]];
    /// The least element that counts; of nothing infinity, or the greatest number of an integer
    /// dtype. Real dtypes.
    amin amin_with AMIN Amin [1.0, [1.0, 3.0]];
    /// The mean of the elements that count; of nothing nan. Floating-point and complex dtypes.
    mean mean_with MEAN Mean [2.6666667, [1.0, 3.5]];
    /// The logarithm of the sum of the exponentials of the elements that count; of nothing minus
    /// infinity. Number dtypes.
    logsumexp logsumexp_with LOGSUMEXP LogSumExp [4.349012, [1.0, 4.313262]];
    /// The position of the greatest element that counts, in the dtype of the operand; of all
    /// elements, counted row-major, unless a dimension is named. Real dtypes.
    argmax argmax_with ARGMAX ArgMax [3.0, [0.0, 1.0]] constant;
    /// The position of the least element that counts, in the dtype of the operand; of all elements,
    /// counted row-major, unless a dimension is named. Real dtypes.
    argmin argmin_with ARGMIN ArgMin [0.0, [0.0, 0.0]] constant;
}

#[track_caller]
fn vector_norm(
    op: &'static str,
    x: &Tensor,
    ord: f64,
    mask: Option<&Tensor>,
    options: &MaskedOptions,
) -> Result<Tensor> {
    let list = dims(op, x, options.dim.as_deref())?;
    let identity = if ord == f64::NEG_INFINITY {
        Identity::Highest
    } else {
        Identity::Zero
    };
    let run = || {
        let y = filled(x, mask, identity)?;
        let mut o = NormOptions::new().p(ord).keepdim(options.keepdim);
        o.dim = Some(list.iter().copied().collect());
        o.dtype = options.dtype;
        match x.ndim() {
            0 => y.reshape([1])?.norm_with(NormOptions {
                dim: None,
                keepdim: false,
                ..o
            }),
            _ => y.norm_with(o),
        }
    };
    x.named(op, run().map_err(|e| e.renamed(op)))
}

/// The vector norm of order `ord` of the elements that count; of nothing 0, and of order minus infinity infinity.
///
/// Floating-point and complex dtypes. The mask broadcasts with the operand, or is `None`.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![3.0, 7.0, 4.0], tensor![true, false, true]);
/// assert_eq!(masked::norm(&x, 2.0, &mask)?.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn norm<'m>(input: &Tensor, ord: f64, mask: impl Into<Option<&'m Tensor>>) -> Result<Tensor> {
    vector_norm(
        "masked.norm",
        input,
        ord,
        mask.into(),
        &MaskedOptions::new(),
    )
}

/// [`norm`] along dimensions, and in another dtype.
///
/// An error for a dimension that is not there.
///
/// ```
/// use torsh_tensor::{masked::{self, MaskedOptions}, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::norm_with(&x, 1.0, &mask, MaskedOptions::new().dim(1))?;
/// assert_eq!(y, tensor![1.0, 7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn norm_with<'m>(
    input: &Tensor,
    ord: f64,
    mask: impl Into<Option<&'m Tensor>>,
    options: MaskedOptions,
) -> Result<Tensor> {
    vector_norm("masked.norm", input, ord, mask.into(), &options)
}

#[track_caller]
fn middle(x: &Tensor, dim: i64, mask: Option<&Tensor>, options: &MaskedOptions) -> Result<Tensor> {
    let op = "masked.median";
    let d = x.dim(op, dim)?;
    let run = || {
        let floating = x.dtype().is_floating_point();
        let y = if floating {
            x.clone()
        } else {
            x.to_dtype(DType::F32)?
        };
        let (values, _) = filled(&y, mask, Identity::Nan)?.nanmedian_dim(d, options.keepdim)?;
        if floating {
            return Ok(values);
        }
        let site = torsh_core::CallSite::here(op);
        crate::check::check(&values.detach().isnan()?.logical_not()?, site, || {
            torsh_core::attrs::Assert::value(
                "expects no fully masked out rows if dtype is not floating point",
            )
        })?;
        values.to_dtype(options.dtype.unwrap_or(x.dtype()))
    };
    x.named(op, run().map_err(|e| e.renamed(op)))
}

/// The median of the elements that count along a dimension, the lower of two; of nothing nan.
///
/// Real dtypes. An error for integers where a row has no element that counts, and for a dimension out of range.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// assert_eq!(masked::median(&x, 1, &mask)?, tensor![1.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn median<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
) -> Result<Tensor> {
    middle(input, dim.value(), mask.into(), &MaskedOptions::new())
}

/// [`median`] with the options `keepdim` and `dtype`.
///
/// ```
/// use torsh_tensor::{masked::{self, MaskedOptions}, tensor};
/// let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);
/// let y = masked::median_with(&x, 1, &mask, MaskedOptions::new().keepdim(true))?;
/// assert_eq!(y, tensor![[1.0], [3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn median_with<'m>(
    input: &Tensor,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
    options: MaskedOptions,
) -> Result<Tensor> {
    middle(input, dim.value(), mask.into(), &options)
}

#[track_caller]
fn spread(
    op: &'static str,
    x: &Tensor,
    mask: Option<&Tensor>,
    options: &MaskedVarOptions,
    root: bool,
) -> Result<Tensor> {
    let list = dims(op, x, options.dim.as_deref())?;
    let run = || {
        let float = |d: DType| if d.is_differentiable() { d } else { DType::F32 };
        let dtype = options.dtype.unwrap_or_else(|| float(x.dtype()));
        let compute = float(dtype);
        let count = counted(x, mask, &list, true)?;
        let total = summed(&filled(x, mask, Identity::Zero)?, &list, true, Some(dtype))?;
        let apart = x.sub(&total.div(&count)?)?;
        // What does not count has no part, whatever its square is.
        let squares = filled(&apart.mul(&apart.conj()?)?, mask, Identity::Zero)?;
        let squares = summed(&squares, &list, options.keepdim, Some(compute))?;
        let mut count = if options.keepdim {
            count
        } else {
            count.reshape(squares.shape())?
        };
        if options.correction != 0.0 {
            count = count
                .to_dtype(compute.to_real())?
                .sub(options.correction)?
                .clamp_min(0)?;
        }
        let y = squares.div(&count)?.to_dtype(dtype)?;
        if root { y.sqrt() } else { Ok(y) }
    };
    x.named(op, run().map_err(|e| e.renamed(op)))
}

/// The variance and its root: rows as those of [`reductions`].
macro_rules! spreads {
    ($($(#[$doc:meta])+ $name:ident $with:ident $record:ident $root:ident [$whole:literal, $first:tt $second:literal];)*) => {$(
        $(#[$doc])+
        ///
        /// The mask broadcasts with the operand, or is `None`; an error where it does not.
        #[doc = example!($name "" $whole)]
        #[torsh_tensor::names_caller]
        pub fn $name<'m>(input: &Tensor, mask: impl Into<Option<&'m Tensor>>) -> Result<Tensor> {
            spread($record.name, input, mask.into(), &MaskedVarOptions::new(), $root)
        }

        #[doc = concat!("[`", stringify!($name), "()`] with the other options: dimensions, correction, dtype.")]
        ///
        /// An error for a dimension that is not there.
        #[doc = crate::options::example!(concat!(
            "use torsh_tensor::{masked::{self, MaskedVarOptions}, tensor};\n",
            "let (x, mask) = (tensor![[1.0, 3.0], [3.0, 4.0]], tensor![[true, true], [true, true]]);\n",
            "let y = masked::", stringify!($with), "(&x, &mask, MaskedVarOptions::new().dim(1))?;\n",
            "assert!(y.allclose(&tensor![", stringify!($first), ", ", stringify!($second), "])?);"
        ))]
        #[torsh_tensor::names_caller]
        pub fn $with<'m>(
            input: &Tensor,
            mask: impl Into<Option<&'m Tensor>>,
            options: MaskedVarOptions,
        ) -> Result<Tensor> {
            spread($record.name, input, mask.into(), &options, $root)
        }

        pub static $record: OpRecord = OpRecord::new(
            concat!("masked.", stringify!($name)),
            concat!(stringify!($name), " of the elements that a mask lets count."),
            "(Tensor input, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, bool? keepdim=False, ScalarType? dtype=None, Tensor? mask=None)",
        )
        .by_name(|b| $with(b.tensor(0)?, b.opt_tensor(6), records::spread(b)?).map(Value::Tensor))
        .samples(|s| records::calls(s, &[]));
    )*};
}

spreads! {
    /// The variance of the elements that count, with one of them less in the divisor; of fewer than
    /// two nan. Number dtypes; integers give float32.
    var var_with VAR false [2.3333333, 2.0 0.5];
    /// The standard deviation of the elements that count, with one of them less in the divisor; of
    /// fewer than two nan. Number dtypes; integers give float32.
    std std_with STD true [1.5275252, 1.414214 0.707107];
}
