//! Masked operations whose result has the operand's shape.

use torsh_core::{DType, Result};

use super::{Identity, filled, norm_with, records};
use crate::masked::MaskedOptions;
use crate::options::options;
use crate::record::OpRecord;
use crate::{CumsumOptions, IntoDim, SoftmaxOptions, Tensor, Value};

options! {
    /// The keyword arguments of the masked `normalize`.
    ///
    /// ```
    /// use torsh_tensor::masked::MaskedNormalizeOptions;
    /// assert_eq!(MaskedNormalizeOptions::new().eps, 1e-12);
    /// ```
    MaskedNormalizeOptions {
        /// The least divisor.
        eps: f64 = 1e-12;
        /// The dtype of the norms.
        dtype: Option<DType> = None, DType => Some;
    }
}

#[track_caller]
fn along(
    op: &'static str,
    x: &Tensor,
    dim: i64,
    mask: Option<&Tensor>,
    identity: Identity,
    f: impl FnOnce(&Tensor, usize) -> Result<Tensor>,
) -> Result<Tensor> {
    let d = x.dim(op, dim)?;
    let run = || f(&filled(x, mask, identity)?, d);
    x.named(op, run().map_err(|e| e.renamed(op)))
}

/// Operations along a dimension: a function without and one with options, and the record of both. A row has documentation,
/// names, its samples, the options, what changes nothing, the method that does it, and an expression whose value an example
/// shows.
macro_rules! along {
    ($($(#[$doc:meta])+ $name:ident $with:ident $record:ident $samples:ident $options:ident $identity:ident
        |$input:ident, $x:ident, $d:ident, $o:ident| $apply:expr, [$shown:literal $value:tt];)*) => {$(
        $(#[$doc])+
        ///
        /// The mask broadcasts with the operand, or is `None`. An error for a dimension out of range.
        #[doc = crate::options::example!(concat!(
            "use torsh_tensor::{masked, tensor};\n",
            "let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);\n",
            "let y = masked::", stringify!($name), "(&x, 1, &mask)?;\n",
            "assert!(", $shown, ".allclose(&tensor!", stringify!($value), ")?);"
        ))]
        #[track_caller]
        pub fn $name<'m>(
            input: &Tensor,
            dim: impl IntoDim,
            mask: impl Into<Option<&'m Tensor>>,
        ) -> Result<Tensor> {
            $with(input, dim, mask, $options::new())
        }

        #[doc = concat!("[`", stringify!($name), "`] with the option `dtype`, in which it computes.")]
        #[doc = crate::options::example!(concat!(
            "use torsh_tensor::{DType, ", stringify!($options), ", masked, tensor};\n",
            "let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, false], [true, true]]);\n",
            "let y = masked::", stringify!($with), "(&x, 1, &mask, ", stringify!($options), "::new().dtype(DType::F64))?;\n",
            "assert_eq!(y.dtype(), DType::F64);\n",
            "assert!(", $shown, ".to_dtype(DType::F32)?.allclose(&tensor!", stringify!($value), ")?);"
        ))]
        #[torsh_tensor::names_caller]
        pub fn $with<'m>(
            $input: &Tensor,
            dim: impl IntoDim,
            mask: impl Into<Option<&'m Tensor>>,
            $o: $options,
        ) -> Result<Tensor> {
            let f = |$x: &Tensor, $d: usize| $apply;
            along($record.name, $input, dim.value(), mask.into(), Identity::$identity, f)
        }

        pub static $record: OpRecord = OpRecord::new(
            concat!("masked.", stringify!($name)),
            concat!(stringify!($name), " of the elements that a mask lets count."),
            "(Tensor input, int dim, *, ScalarType? dtype=None, Tensor? mask=None)",
        )
        .by_name(|b| {
            let options = $options::new().dtype(b.dtype(2));
            $with(b.tensor(0)?, b.int(1), b.opt_tensor(3), options).map(Value::Tensor)
        })
        .samples(|s| records::$samples(s, &[Value::Int(1)]));
    )*};
}

along! {
    /// The sums of the elements that count up to each along a dimension, in the dtype of the operand.
    cumsum cumsum_with CUMSUM calls CumsumOptions Zero
        |input, x, d, options| accumulated(input, options, |o| x.cumsum_with(d, o)),
        ["y" [[1.0, 1.0], [3.0, 7.0]]];
    /// The products of the elements that count up to each along a dimension, in the dtype of the operand.
    cumprod cumprod_with CUMPROD calls CumsumOptions One
        |input, x, d, options| accumulated(input, options, |o| x.cumprod_with(d, o)),
        ["y" [[1.0, 1.0], [3.0, 12.0]]];
    /// Softmax of the elements that count along a dimension; others get 0, and a row without any nan.
    softmax softmax_with SOFTMAX calls SoftmaxOptions Lowest
        |input, x, d, options| x.softmax_with(d, options),
        ["y" [[1.0, 0.0], [0.268941, 0.731059]]];
    /// The logarithm of [`softmax`] along a dimension.
    log_softmax log_softmax_with LOG_SOFTMAX unmasked SoftmaxOptions Lowest
        |input, x, d, options| x.log_softmax_with(d, options),
        ["y.exp()?" [[1.0, 0.0], [0.268941, 0.731059]]];
    /// [`softmax`] of the negative elements that count.
    softmin softmin_with SOFTMIN calls SoftmaxOptions Highest
        |input, x, d, options| x.softmin_with(d, options),
        ["y" [[1.0, 0.0], [0.731059, 0.268941]]];
}

/// A running sum or product, in the dtype that the options ask for or else the operand's.
#[track_caller]
fn accumulated(
    input: &Tensor,
    options: CumsumOptions,
    run: impl FnOnce(CumsumOptions) -> Result<Tensor>,
) -> Result<Tensor> {
    let to = options.dtype.unwrap_or(input.dtype());
    run(CumsumOptions::new().dtype(to))?.to_dtype(to)
}

/// The elements that count divided by their norm of order `ord` along a dimension; others become 0.
///
/// Floating-point and complex dtypes. The mask broadcasts with the operand, or is `None`.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, mask) = (tensor![3.0, 7.0, 4.0], tensor![true, false, true]);
/// assert!(masked::normalize(&x, 2.0, 0, &mask)?.allclose(&tensor![0.6, 0.0, 0.8])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn normalize<'m>(
    input: &Tensor,
    ord: f64,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
) -> Result<Tensor> {
    normalize_with(input, ord, dim, mask, MaskedNormalizeOptions::new())
}

/// [`normalize`] with the least divisor, and the dtype of the norms.
///
/// ```
/// use torsh_tensor::{masked::{self, MaskedNormalizeOptions}, tensor};
/// let x = tensor![3.0, 4.0];
/// let y = masked::normalize_with(&x, 2.0, 0, None, MaskedNormalizeOptions::new().eps(10.0))?;
/// assert!(y.allclose(&tensor![0.3, 0.4])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn normalize_with<'m>(
    input: &Tensor,
    ord: f64,
    dim: impl IntoDim,
    mask: impl Into<Option<&'m Tensor>>,
    options: MaskedNormalizeOptions,
) -> Result<Tensor> {
    let mask = mask.into();
    let f = |x: &Tensor, d: usize| {
        let mut o = MaskedOptions::new().dim(d).keepdim(true);
        o.dtype = options.dtype;
        let norm = norm_with(input, ord, mask, o)?;
        let norm = if input.ndim() == 0 {
            norm.reshape(())?
        } else {
            norm
        };
        x.div(&norm.clamp_min(options.eps)?)
    };
    along(
        "masked.normalize",
        input,
        dim.value(),
        mask,
        Identity::Zero,
        f,
    )
}

/// The logarithm of the sum of the exponentials of two tensors, each with a mask of its own; what does not count is
/// minus infinity.
///
/// Real floating-point dtypes. Masks broadcast with their tensors, or are `None`.
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let (x, y) = (tensor![0.0, 1.0], tensor![0.0, 2.0]);
/// let z = masked::logaddexp(&x, &y, None, &tensor![true, false])?;
/// assert!(z.allclose(&tensor![0.693147, 1.0])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn logaddexp<'m, 'n>(
    input: &Tensor,
    other: &Tensor,
    input_mask: impl Into<Option<&'m Tensor>>,
    other_mask: impl Into<Option<&'n Tensor>>,
) -> Result<Tensor> {
    logaddexp_with(input, other, input_mask, other_mask, MaskedOptions::new())
}

/// [`logaddexp`] with the option `dtype`; the others have no part.
///
/// ```
/// use torsh_tensor::{DType, masked::{self, MaskedOptions}, tensor};
/// let x = tensor![0.0];
/// let z = masked::logaddexp_with(&x, &x, None, None, MaskedOptions::new().dtype(DType::F64))?;
/// assert_eq!(z.dtype(), DType::F64);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn logaddexp_with<'m, 'n>(
    input: &Tensor,
    other: &Tensor,
    input_mask: impl Into<Option<&'m Tensor>>,
    other_mask: impl Into<Option<&'n Tensor>>,
    options: MaskedOptions,
) -> Result<Tensor> {
    let op = "masked.logaddexp";
    let run = || {
        let x = filled(input, input_mask.into(), Identity::Lowest)?;
        let y = filled(other, other_mask.into(), Identity::Lowest)?;
        x.logaddexp(&y)?
            .to_dtype(options.dtype.unwrap_or(input.dtype()))
    };
    input.named(op, run().map_err(|e| e.renamed(op)))
}
