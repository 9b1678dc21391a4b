//! Tensors whose elements may be masked.

use std::fmt;

use torsh_core::{DType, Device, Result, Scalar, TorshError};

use super::{MaskedOptions, MaskedVarOptions, reduce};
use crate::options::example;
use crate::{IntoDim, IntoDims, IntoIndex, IntoShape, Operand, Tensor};

/// A tensor and a mask of its shape: true where an element is there, false where it is masked.
///
/// Operations of elements leave the mask as it is; two masked tensors that are computed with each other have the
/// same mask. Reductions leave masked elements out, and their result is masked where all were. Gradients of masked
/// elements are 0, whatever their values are.
///
/// ```
/// use torsh_tensor::{masked::as_masked_tensor, tensor};
/// let x = tensor![4.0, -1.0, 9.0].requires_grad_(true);
/// let root = as_masked_tensor(&x, &tensor![true, false, true])?.sqrt()?;
/// assert_eq!(root.to_tensor(0.0)?, tensor![2.0, 0.0, 3.0]);
/// root.sum()?.to_tensor(0.0)?.backward()?;
/// assert!(x.grad().expect("a gradient").allclose(&tensor![0.25, 0.0, 0.166667])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct MaskedTensor {
    data: Tensor,
    mask: Tensor,
}

/// A masked tensor of a copy of `data` without its history, and a mask of the same shape.
///
/// # Errors
/// Where the shapes differ, or the mask is not of bools.
///
/// ```
/// use torsh_tensor::{masked::masked_tensor, tensor};
/// let x = masked_tensor(&tensor![1.0, 2.0], &tensor![true, false])?;
/// assert_eq!(x.to_tensor(-1.0)?, tensor![1.0, -1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn masked_tensor(data: &Tensor, mask: &Tensor) -> Result<MaskedTensor> {
    checked(
        "masked_tensor",
        &data.detach().copy()?,
        &mask.detach().copy()?,
    )
}

/// A masked tensor of `data` itself, to which its gradients go, and a mask of the same shape.
///
/// # Errors
/// Where the shapes differ, or the mask is not of bools.
///
/// ```
/// use torsh_tensor::{masked::as_masked_tensor, tensor};
/// let x = as_masked_tensor(&tensor![1.0, 2.0], &tensor![true, false])?;
/// assert_eq!(x.sum()?.to_tensor(0.0)?.item::<f32>()?, 1.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn as_masked_tensor(data: &Tensor, mask: &Tensor) -> Result<MaskedTensor> {
    checked("as_masked_tensor", data, &mask.detach())
}

#[track_caller]
fn checked(op: &'static str, data: &Tensor, mask: &Tensor) -> Result<MaskedTensor> {
    if mask.dtype() != DType::Bool {
        let text = format!("mask must have dtype bool, got {}", mask.dtype());
        return data.named(
            op,
            Err(TorshError::dtype("", text).with_hint("compare it with 0")),
        );
    }
    if data.dims() != mask.dims() {
        let text = format!(
            "data and mask must have the same shape, got {:?} and {:?}",
            data.dims(),
            mask.dims()
        );
        return data.named(
            op,
            Err(TorshError::shape("", text).with_hint("expand the mask")),
        );
    }
    Ok(MaskedTensor {
        data: data.clone(),
        mask: mask.clone(),
    })
}

/// What a masked tensor is computed with: a masked tensor of the same mask, a tensor or a number.
pub enum MaskedOperand<'a> {
    /// A masked tensor.
    Masked(&'a MaskedTensor),
    /// A tensor or a number.
    Plain(Operand<'a>),
}

impl<'a> From<&'a MaskedTensor> for MaskedOperand<'a> {
    fn from(t: &'a MaskedTensor) -> Self {
        MaskedOperand::Masked(t)
    }
}
macro_rules! plain_operands {
    ($($t:ty)*) => {$(
        impl<'a> From<$t> for MaskedOperand<'a> {
            fn from(v: $t) -> Self {
                MaskedOperand::Plain(v.into())
            }
        }
    )*};
}
plain_operands!(&'a Tensor Tensor Scalar bool i32 i64 f32 f64);

impl MaskedTensor {
    /// The data, in which masked elements have some value.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![1.0, 2.0], &tensor![true, false])?;
    /// assert_eq!(x.get_data(), tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn get_data(&self) -> Tensor {
        self.data.clone()
    }

    /// The mask: true where an element is there.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![1.0, 2.0], &tensor![true, false])?;
    /// assert_eq!(x.get_mask(), tensor![true, false]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn get_mask(&self) -> Tensor {
        self.mask.clone()
    }

    /// The data with a number in place of masked elements.
    ///
    /// # Errors
    /// Where the dtype has no such number.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![1, 2], &tensor![true, false])?;
    /// assert_eq!(x.to_tensor(0)?, tensor![1, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_tensor(&self, fill: impl Into<Scalar>) -> Result<Tensor> {
        let fill: Scalar = fill.into();
        self.data.masked_fill(&self.mask.logical_not()?, fill)
    }

    /// The sizes.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// assert_eq!(masked_tensor(&tensor![1, 2], &tensor![true, false])?.dims(), [2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn dims(&self) -> &[usize] {
        self.data.dims()
    }

    /// The element type.
    ///
    /// ```
    /// use torsh_tensor::{DType, masked::masked_tensor, tensor};
    /// assert_eq!(masked_tensor(&tensor![1, 2], &tensor![true, false])?.dtype(), DType::I64);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// Where the elements are.
    ///
    /// ```
    /// use torsh_tensor::{Device, masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![1, 2], &tensor![true, false])?;
    /// assert_eq!(x.device(), tensor![1].device());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn device(&self) -> Device {
        self.data.device()
    }

    /// Whether the data requires a gradient.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![1.0], &tensor![true])?.requires_grad_(true);
    /// assert!(x.requires_grad());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn requires_grad(&self) -> bool {
        self.data.requires_grad()
    }

    /// This tensor, whose data requires a gradient from here on, or not. Panics for integers.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![2.0, 3.0], &tensor![true, false])?.requires_grad_(true);
    /// x.mul(&x)?.sum()?.backward()?;
    /// let grad = x.grad().expect("a gradient");
    /// assert_eq!(grad.to_tensor(-1.0)?, tensor![4.0, -1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn requires_grad_(self, requires_grad: bool) -> MaskedTensor {
        MaskedTensor {
            data: self.data.requires_grad_(requires_grad),
            mask: self.mask,
        }
    }

    /// The gradient of the data, masked as the data is.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// assert!(masked_tensor(&tensor![2.0], &tensor![true])?.grad().is_none());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn grad(&self) -> Option<MaskedTensor> {
        let data = self.data.grad()?;
        Some(MaskedTensor {
            data,
            mask: self.mask.clone(),
        })
    }

    /// The gradients of the only element: [`Tensor::backward`] of the data, without masked elements.
    ///
    /// # Errors
    /// As [`Tensor::backward`].
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![2.0, 3.0], &tensor![true, false])?.requires_grad_(true);
    /// x.sum()?.backward()?;
    /// assert_eq!(x.grad().expect("a gradient").to_tensor(0.0)?, tensor![1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn backward(&self) -> Result<()> {
        self.to_tensor(0)?.backward()
    }

    /// The data, from which gradients reach only elements that are there: a derivative at a masked one may be nan,
    /// and would stay nan times 0.
    fn gated(&self) -> Result<Tensor> {
        match self.data.requires_grad() {
            true => Tensor::where_(&self.mask, &self.data, &self.data.detach()),
            false => Ok(self.data.clone()),
        }
    }

    fn of(&self, data: Result<Tensor>) -> Result<MaskedTensor> {
        Ok(MaskedTensor {
            data: data?,
            mask: self.mask.clone(),
        })
    }

    /// Data and mask through the same change of shape.
    fn both(&self, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<MaskedTensor> {
        Ok(MaskedTensor {
            data: f(&self.data)?,
            mask: f(&self.mask)?,
        })
    }

    #[track_caller]
    fn with(
        &self,
        op: &'static str,
        other: MaskedOperand<'_>,
        f: impl FnOnce(&Tensor, Operand<'_>) -> Result<Tensor>,
    ) -> Result<MaskedTensor> {
        let data = match other {
            MaskedOperand::Masked(other) => {
                if self.mask.dims() != other.mask.dims() || !self.mask.equal(&other.mask)? {
                    let e = TorshError::invalid("", "input masks must match")
                        .with_hint("fill one of the operands with to_tensor, or combine the masks");
                    return self.data.named(op, Err(e));
                }
                f(&self.gated()?, Operand::Owned(other.gated()?))
            }
            MaskedOperand::Plain(other) => f(&self.gated()?, other),
        };
        let data = data?;
        let mask = self.mask.expand(data.shape()).map_err(|e| e.renamed(op))?;
        Ok(MaskedTensor { data, mask })
    }

    #[track_caller]
    fn reduced(
        &self,
        dim: Option<Vec<i64>>,
        keepdim: bool,
        f: impl FnOnce(&Tensor, &Tensor, MaskedOptions) -> Result<Tensor>,
    ) -> Result<MaskedTensor> {
        let options = MaskedOptions {
            dim,
            keepdim,
            dtype: None,
        };
        let data = f(&self.data, &self.mask, options.clone())?;
        let counted = reduce::amax_with(&self.mask.to_dtype(DType::U8)?, None, options)?;
        Ok(MaskedTensor {
            data,
            mask: counted.to_dtype(DType::Bool)?,
        })
    }
}

macro_rules! unary {
    ($($name:ident)*) => {
        impl MaskedTensor {
            $(
                #[doc = concat!("[`Tensor::", stringify!($name), "`] of the elements; the mask stays.")]
                ///
                /// # Errors
                /// As the tensor's.
                #[doc = example!(concat!(
                    "use torsh_tensor::{masked::masked_tensor, tensor};\n",
                    "let x = masked_tensor(&tensor![0.5, 0.25], &tensor![true, false])?;\n",
                    "assert_eq!(x.", stringify!($name), "()?.get_data(), tensor![0.5, 0.25].", stringify!($name), "()?);"
                ))]
                #[torsh_tensor::names_caller]
                pub fn $name(&self) -> Result<MaskedTensor> {
                    self.of(self.gated()?.$name())
                }
            )*
        }
    };
}
unary!(abs acos asin asinh atan atanh ceil cos cosh deg2rad erf erfc erfinv exp exp2 expm1 floor frac
    isnan log log10 log1p log2 neg rad2deg reciprocal round rsqrt sigmoid sign sgn sin sinh sqrt square tan tanh trunc);

macro_rules! binary {
    ($($name:ident)*) => {
        impl MaskedTensor {
            $(
                #[doc = concat!("[`Tensor::", stringify!($name), "`] of the elements and a masked tensor, a tensor or a number; the mask stays.")]
                ///
                /// # Errors
                /// Where both have masks that differ, and as the tensor's.
                #[doc = example!(concat!(
                    "use torsh_tensor::{masked::masked_tensor, tensor};\n",
                    "let x = masked_tensor(&tensor![0.5, 2.0], &tensor![true, false])?;\n",
                    "let y = x.", stringify!($name), "(&x)?;\n",
                    "assert_eq!(y.get_data(), tensor![0.5, 2.0].", stringify!($name), "(&tensor![0.5, 2.0])?);\n",
                    "assert_eq!(y.get_mask(), tensor![true, false]);"
                ))]
                #[torsh_tensor::names_caller]
                pub fn $name<'a>(&self, other: impl Into<MaskedOperand<'a>>) -> Result<MaskedTensor> {
                    self.with(stringify!($name), other.into(), |x, y| x.$name(y))
                }
            )*
        }
    };
}
binary!(add sub mul div pow atan2 floor_divide fmod remainder maximum minimum fmax fmin logaddexp eq ne lt le gt ge);

macro_rules! reductions {
    ($($name:ident $by_dim:ident $with:ident;)*) => {
        impl MaskedTensor {
            $(
                #[doc = concat!("[`masked::", stringify!($name), "`](super::", stringify!($name), ") of all elements; masked where all are.")]
                ///
                /// # Errors
                /// As the function's.
                #[doc = example!(concat!(
                    "use torsh_tensor::{masked::{self, masked_tensor}, tensor};\n",
                    "let (x, mask) = (tensor![1.0, 2.0, 4.0], tensor![true, false, true]);\n",
                    "let y = masked_tensor(&x, &mask)?.", stringify!($name), "()?;\n",
                    "assert_eq!(y.get_data(), masked::", stringify!($name), "(&x, &mask)?);"
                ))]
                #[torsh_tensor::names_caller]
                pub fn $name(&self) -> Result<MaskedTensor> {
                    self.reduced(None, false, |x, mask, o| reduce::$with(x, mask, o.into()))
                }

                #[doc = concat!("[`MaskedTensor::", stringify!($name), "`] along dimensions; masked where all elements are.")]
                ///
                /// # Errors
                /// As the function's, and for a dimension that is not there.
                #[doc = example!(concat!(
                    "use torsh_tensor::{masked::masked_tensor, tensor};\n",
                    "let (x, mask) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[true, true], [false, false]]);\n",
                    "let y = masked_tensor(&x, &mask)?.", stringify!($by_dim), "(1, false)?;\n",
                    "assert_eq!(y.get_mask(), tensor![true, false]);"
                ))]
                #[torsh_tensor::names_caller]
                pub fn $by_dim(&self, dim: impl IntoDims, keepdim: bool) -> Result<MaskedTensor> {
                    let dim = dim.dims().map(|d| d.to_vec());
                    self.reduced(dim, keepdim, |x, mask, o| reduce::$with(x, mask, o.into()))
                }
            )*
        }
    };
}
reductions! {
    sum sum_dim sum_with;
    prod prod_dim prod_with;
    mean mean_dim mean_with;
    amax amax_dim amax_with;
    amin amin_dim amin_with;
    argmax argmax_dim argmax_with;
    argmin argmin_dim argmin_with;
    var var_dim var_with;
    std std_dim std_with;
}

impl From<MaskedOptions> for MaskedVarOptions {
    fn from(o: MaskedOptions) -> MaskedVarOptions {
        MaskedVarOptions {
            dim: o.dim,
            keepdim: o.keepdim,
            dtype: o.dtype,
            ..MaskedVarOptions::new()
        }
    }
}

macro_rules! shapes {
    ($($(#[doc = $doc:literal])+ $name:ident ($($arg:ident: $ty:ty),*) $x:literal, $call:literal => $result:literal;)*) => {
        impl MaskedTensor {
            $(
                $(#[doc = $doc])+
                ///
                /// # Errors
                /// As the tensor's.
                #[doc = example!(concat!(
                    "use torsh_tensor::{masked::masked_tensor, tensor};\n",
                    "let x = tensor!", $x, ";\n",
                    "let y = masked_tensor(&x, &x.gt(1)?)?.", $call, "?;\n",
                    "assert_eq!(y.to_tensor(0)?, tensor!", $result, ");"
                ))]
                #[torsh_tensor::names_caller]
                pub fn $name(&self, $($arg: $ty),*) -> Result<MaskedTensor> {
                    self.both(|t| t.$name($($arg.clone()),*))
                }
            )*
        }
    };
}
shapes! {
    /// [`Tensor::reshape`] of data and mask.
    reshape(shape: impl IntoShape + Clone) "[[1, 2], [3, 4]]", "reshape([4])" => "[0, 2, 3, 4]";
    /// [`Tensor::view`] of data and mask.
    view(shape: impl IntoShape + Clone) "[[1, 2], [3, 4]]", "view([4])" => "[0, 2, 3, 4]";
    /// [`Tensor::expand`] of data and mask.
    expand(shape: impl IntoShape + Clone) "[1, 2]", "expand([2, 2])" => "[[0, 2], [0, 2]]";
    /// [`Tensor::transpose`] of data and mask.
    transpose(dim0: impl IntoDim, dim1: impl IntoDim) "[[1, 2], [3, 4]]", "transpose(0, 1)" => "[[0, 3], [2, 4]]";
    /// [`Tensor::t`] of data and mask.
    t() "[[1, 2], [3, 4]]", "t()" => "[[0, 3], [2, 4]]";
    /// [`Tensor::unsqueeze`] of data and mask.
    unsqueeze(dim: impl IntoDim) "[1, 2]", "unsqueeze(0)" => "[[0, 2]]";
    /// [`Tensor::select`] of data and mask.
    select(dim: impl IntoDim, index: impl IntoDim) "[[1, 2], [3, 4]]", "select(1, 0)" => "[0, 3]";
    /// [`Tensor::narrow`] of data and mask.
    narrow(dim: impl IntoDim, start: impl IntoDim, length: impl IntoDim) "[1, 2, 3]", "narrow(0, 0, 2)" => "[0, 2]";
    /// [`Tensor::i`] of data and mask: `x.i((0, 1..3))`.
    i(index: impl IntoIndex + Clone) "[[1, 2], [3, 4]]", "i((.., 0))" => "[0, 3]";
}

impl MaskedTensor {
    /// Softmax of the elements that are there, along a dimension.
    ///
    /// # Errors
    /// For a dimension that is not there, and for integers.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![1.0, 5.0, 1.0], &tensor![true, false, true])?;
    /// assert_eq!(x.softmax(0)?.to_tensor(0.0)?, tensor![0.5, 0.0, 0.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn softmax(&self, dim: impl IntoDim) -> Result<MaskedTensor> {
        self.of(super::softmax(&self.data, dim, &self.mask))
    }

    /// The logarithm of [`MaskedTensor::softmax`].
    ///
    /// # Errors
    /// For a dimension that is not there, and for integers.
    ///
    /// ```
    /// use torsh_tensor::{masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![1.0, 5.0, 1.0], &tensor![true, false, true])?;
    /// assert!(x.log_softmax(0)?.to_tensor(0.0)?.allclose(&tensor![-0.693147, 0.0, -0.693147])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn log_softmax(&self, dim: impl IntoDim) -> Result<MaskedTensor> {
        self.of(super::log_softmax(&self.data, dim, &self.mask))
    }

    /// The elements in another dtype; the mask stays.
    ///
    /// # Errors
    /// As [`Tensor::to_dtype`].
    ///
    /// ```
    /// use torsh_tensor::{DType, masked::masked_tensor, tensor};
    /// let x = masked_tensor(&tensor![1, 2], &tensor![true, false])?;
    /// assert_eq!(x.to_dtype(DType::F32)?.to_tensor(0.0)?, tensor![1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn to_dtype(&self, dtype: DType) -> Result<MaskedTensor> {
        self.of(self.data.to_dtype(dtype))
    }
}

/// Masked tensors one behind the other along a dimension.
///
/// # Errors
/// As [`Tensor::cat`].
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let x = masked::masked_tensor(&tensor![1, 2], &tensor![true, false])?;
/// assert_eq!(masked::cat(&[x.clone(), x], 0)?.to_tensor(0)?, tensor![1, 0, 1, 0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn cat(tensors: &[MaskedTensor], dim: impl IntoDim) -> Result<MaskedTensor> {
    joined(tensors, |t| Tensor::cat(t, dim))
}

/// Masked tensors of one shape along a new dimension.
///
/// # Errors
/// As [`Tensor::stack`].
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let x = masked::masked_tensor(&tensor![1, 2], &tensor![true, false])?;
/// assert_eq!(masked::stack(&[x.clone(), x], 0)?.to_tensor(0)?, tensor![[1, 0], [1, 0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn stack(tensors: &[MaskedTensor], dim: impl IntoDim) -> Result<MaskedTensor> {
    joined(tensors, |t| Tensor::stack(t, dim))
}

fn joined(
    tensors: &[MaskedTensor],
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<MaskedTensor> {
    let (data, mask): (Vec<Tensor>, Vec<Tensor>) = tensors
        .iter()
        .map(|t| (t.data.clone(), t.mask.clone()))
        .unzip();
    Ok(MaskedTensor {
        data: f(&data)?,
        mask: f(&mask)?,
    })
}

/// Elements of `a` where the condition is true, of `b` elsewhere, each masked as it is there.
///
/// # Errors
/// As [`Tensor::where_`].
///
/// ```
/// use torsh_tensor::{masked, tensor};
/// let x = masked::masked_tensor(&tensor![1, 2], &tensor![true, false])?;
/// let y = masked::masked_tensor(&tensor![3, 4], &tensor![true, true])?;
/// let z = masked::where_(&tensor![true, false], &x, &y)?;
/// assert_eq!(z.to_tensor(0)?, tensor![1, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn where_(condition: &Tensor, a: &MaskedTensor, b: &MaskedTensor) -> Result<MaskedTensor> {
    Ok(MaskedTensor {
        data: Tensor::where_(condition, &a.gated()?, &b.gated()?)?,
        mask: Tensor::where_(condition, &a.mask, &b.mask)?,
    })
}

/// Prints as PyTorch does: `--` for masked elements.
impl fmt::Display for MaskedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Ok(text) => f.write_str(&text),
            Err(e) => write!(f, "MaskedTensor({e})"),
        }
    }
}

impl fmt::Debug for MaskedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|l| format!("  {l}")).collect();
    lines.join("\n")
}

fn element(v: Scalar) -> String {
    match v {
        Scalar::Float(v) => format!("{v:8.4}"),
        v => v.to_string(),
    }
}

impl MaskedTensor {
    fn text(&self) -> Result<String> {
        if !self.data.device().has_data() {
            return Ok(format!("MaskedTensor({})", self.data.describe()));
        }
        if self.data.ndim() == 0 {
            return Ok(match self.mask.item::<bool>()? {
                true => format!("MaskedTensor({}, True)", element(self.data.item_scalar()?)),
                false => "MaskedTensor(--, False)".to_string(),
            });
        }
        Ok(format!("MaskedTensor(\n{}\n)", indented(&self.rows()?)))
    }

    fn rows(&self) -> Result<String> {
        let parts = self.data.unbind(0)?.into_iter().zip(self.mask.unbind(0)?);
        if self.data.ndim() == 1 {
            let elements = parts.map(|(x, there)| {
                Ok(match there.item::<bool>()? {
                    true => Some(element(x.item_scalar()?)),
                    false => None,
                })
            });
            let elements = elements.collect::<Result<Vec<_>>>()?;
            let width = elements
                .iter()
                .map(|e| e.as_ref().map_or(8, String::len))
                .max();
            let width = width.unwrap_or(0);
            let shown = elements
                .into_iter()
                .map(|e| e.unwrap_or_else(|| format!("{:>width$}", "--")));
            return Ok(format!("[{}]", shown.collect::<Vec<_>>().join(", ")));
        }
        let rows = parts.map(|(data, mask)| Ok(indented(&MaskedTensor { data, mask }.rows()?)));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        Ok(format!("[\n{}\n]", rows.join(",\n")))
    }
}
