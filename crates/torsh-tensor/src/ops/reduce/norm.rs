//! Vector norms and the distance of two tensors.

use smallvec::SmallVec;
use torsh_core::{DType, Kernel, Result, TorshError, attrs};

use super::{plan, restore};
use crate::call::{Arg, call1};
use crate::named::{Unknown, refused};
use crate::node::BackwardCx;
use crate::options::options;
use crate::record::{OpRecord, sample};
use crate::{IntoDims, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&NORM, &VECTOR_NORM, &DIST];

/// The op of the crate above that computes nuclear norms.
const MATRIX_NORM: &str = "linalg.matrix_norm";

options! {
    /// PyTorch's keyword arguments of `norm`.
    ///
    /// ```
    /// use torsh_tensor::{DType, NormOptions, NormOrd};
    /// let options = NormOptions::new();
    /// assert_eq!(options.p, NormOrd::Fro);
    /// assert!(!options.keepdim);
    /// assert_eq!(options.dtype, None);
    /// assert_eq!(options.p(0.25).p, NormOrd::Number(0.25));
    /// ```
    NormOptions {
        /// The order: 2 and "fro" are the Euclidean (Frobenius) norm; infinities, 0 and "nuc" of a matrix are possible too.
        p: NormOrd = NormOrd::Fro, impl Into<NormOrd> => Into::into;
        /// The dimensions to reduce; `None` for all.
        dim: Option<SmallVec<[i64; 6]>> = None, impl IntoDims => |d| d.dims();
        /// Whether reduced dimensions stay, at size 1.
        keepdim: bool = false;
        /// The dtype the operand is converted to first.
        dtype: Option<DType> = None, DType => Some;
    }
}

/// The order of a norm.
///
/// ```
/// use torsh_tensor::NormOrd;
/// assert_eq!((NormOrd::from("nuc"), NormOrd::from("inf")), (NormOrd::Nuc, NormOrd::from(f64::INFINITY)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormOrd {
    /// A number: of vectors any, of matrices 1, 2, infinity, or their negatives.
    Number(f64),
    /// Frobenius's norm: the root of the sum of the squared magnitudes.
    Fro,
    /// The nuclear norm: the sum of the singular values.
    Nuc,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(Unknown),
}

impl NormOrd {
    /// Itself, or an error where it was made of a string that is no order; `what` is the argument's name.
    #[doc(hidden)]
    #[torsh_tensor::names_caller]
    pub fn known(self, what: &str) -> Result<NormOrd> {
        match self {
            NormOrd::Unknown(word) => {
                let words = ["fro", "nuc", "inf", "-inf"];
                Err(refused(word.as_str(), what, words))
            }
            known => Ok(known),
        }
    }
}

/// The words "fro", "nuc", "inf" and "-inf". The function that gets another refuses it.
impl From<&str> for NormOrd {
    fn from(word: &str) -> NormOrd {
        match word {
            "fro" => NormOrd::Fro,
            "nuc" => NormOrd::Nuc,
            "inf" => NormOrd::Number(f64::INFINITY),
            "-inf" => NormOrd::Number(f64::NEG_INFINITY),
            other => NormOrd::Unknown(Unknown::new(other)),
        }
    }
}

macro_rules! orders {
    ($($number:ty)*) => {$(
        impl From<$number> for NormOrd {
            fn from(p: $number) -> NormOrd {
                NormOrd::Number(p.into())
            }
        }
    )*};
}
orders! { f64 f32 i8 i16 i32 u8 u16 u32 }

pub static NORM: OpRecord = OpRecord::new(
    "norm",
    "Vector norm over dimensions (all when none is named); a real number for complex ones.",
    "(Tensor input, Any p='fro', int[1]? dim=None, bool keepdim=False, *, Any out=None, ScalarType? dtype=None)",
)
.kernel(Kernel::Norm, |c| {
    let dtype = c.tensor(0)?.dtype();
    if !dtype.is_differentiable() {
        let text = format!("expected a floating point or complex tensor as input, got {dtype}");
        return Err(TorshError::dtype("", text));
    }
    plan::<attrs::Norm>(c, &[dtype.to_real()])
})
.grads(1, 1, |c| {
    // The count of what is not zero has no gradient.
    let g = if c.attrs::<attrs::Norm>()?.p == 0.0 { None } else { Some(backward(c)?) };
    Ok(SmallVec::from_iter([g]))
})
.by_name(|b| {
    let p = match b.value(1) {
        Value::None => NormOrd::Fro,
        Value::Str(s) => s.as_str().into(),
        _ => b.float(1).into(),
    };
    let o = NormOptions { p, dim: b.opt_ints(2).map(Into::into), keepdim: b.bool(3), dtype: b.dtype(5) };
    b.tensor(0)?.norm_with(o).map(Value::Tensor)
})
.samples(|s| {
    let x = s.real(&[2, 3])?;
    let mut calls = vec![sample![x.clone()]];
    for p in [2.0, 1.0, 3.0, 1.5, 0.5, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
        calls.push(sample![x.clone(), Value::Float(p), 1]);
    }
    Ok(calls)
});

static VECTOR_NORM: OpRecord = OpRecord::new(
    "linalg.vector_norm",
    "Vector norm over dimensions (all when none is named).",
    "(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)",
)
.by_name(|b| {
    let o = NormOptions {
        p: b.float(1).into(),
        dim: b.opt_ints(2).map(Into::into),
        keepdim: b.bool(3),
        dtype: b.dtype(4),
    };
    b.tensor(0)?.norm_with(o).map(Value::Tensor)
})
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, 3]]));

pub static DIST: OpRecord = OpRecord::new(
    "dist",
    "The p-norm of the difference of two tensors, which broadcast; a 0-d tensor.",
    "(Tensor input, Tensor other, Scalar p=2)",
)
.by_name(|b| {
    b.tensor(0)?
        .dist(b.tensor(1)?, b.float(2))
        .map(Value::Tensor)
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3])?, s.uniform(&[3], 3.0, 4.0)?],
        sample![s.real(&[2, 3])?, s.uniform(&[2, 3], 3.0, 4.0)?, 1.0],
    ])
});

/// PyTorch's `norm_backward`: at 0, where the norm has no derivative, the gradient is 0.
fn backward(c: &BackwardCx<'_>) -> Result<Tensor> {
    let &attrs::Norm { ref dims, p, .. } = c.attrs()?;
    let x = c.x()?;
    let g = restore::<attrs::Norm>(c, c.g())?;
    if p == 1.0 {
        return x.sgn()?.mul(&g);
    }
    let norm = restore::<attrs::Norm>(c, &c.out()?)?;
    let zero = norm.eq(0)?;
    if p == 2.0 {
        return g.mul(&x.div(&norm)?.where_zero(&zero, true)?);
    }
    let abs = x.abs()?;
    if p.is_infinite() {
        let nan = abs.isnan()?.logical_and(&norm.isnan()?)?;
        let mask = abs.eq(&norm)?.logical_or(&nan)?;
        let count = mask.sum_over(Some(dims), true, None)?;
        return x.sgn()?.mul(&g.div(&count)?.mul(&mask)?);
    }
    if p < 1.0 {
        let scaled = x
            .sgn()?
            .mul(&abs.pow(p - 1.0)?.where_zero(&abs.eq(0)?, true)?)?;
        return scaled.mul(&g)?.mul(&norm.pow(1.0 - p)?);
    }
    let scale = g.div(&norm.pow(p - 1.0)?)?.where_zero(&zero, true)?;
    let scaled = if p < 2.0 {
        // An infinite slope at 0 would make the derivative of the derivative NaN there.
        x.sgn()?.mul(&abs.pow(p - 1.0)?)?
    } else {
        x.mul(&abs.pow(p - 2.0)?)?
    };
    scaled.mul(&scale)
}

#[torsh_tensor::functions]
impl Tensor {
    /// Euclidean norm of all elements, a 0-d tensor (`torch.norm`). Floating-point and complex dtypes
    /// (a complex tensor has a real norm), else an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![3.0, 4.0].norm()?.item::<f32>()?, 5.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn norm(&self) -> Result<Tensor> {
        self.norm_with(NormOptions::default())
    }

    /// Euclidean norm over dimensions.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[3.0, 4.0], [6.0, 8.0]].norm_dim(1, false)?, tensor![5.0, 10.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn norm_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.norm_with(NormOptions {
            dim: dims.dims(),
            keepdim,
            ..NormOptions::default()
        })
    }

    /// Vector norm of any order, with PyTorch's keyword arguments: `p`, `dim`, `keepdim` and the
    /// `dtype` that the elements are converted to first.
    ///
    /// An error for integers, for a dimension out of range or named twice, for a string that is no
    /// order, and for `"nuc"` over other than two dimensions or without the crate `torsh-linalg`.
    ///
    /// ```
    /// use torsh_tensor::{NormOptions, tensor};
    /// assert_eq!(tensor![3.0, -4.0].norm_with(NormOptions::new().p(1.0))?.item::<f32>()?, 7.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn norm_with(&self, options: NormOptions) -> Result<Tensor> {
        let p = match options.p.known("p").map_err(|e| e.renamed("norm"))? {
            NormOrd::Number(p) => p,
            NormOrd::Nuc => return self.nuclear_norm(options),
            NormOrd::Fro | NormOrd::Unknown(_) => 2.0,
        };
        if p.is_nan() {
            let e = TorshError::invalid("norm", "p = nan is not the order of a norm");
            return Err(e.with_hint("p is a number, \"fro\", \"nuc\", \"inf\" or \"-inf\""));
        }
        let dims = if p < 0.0 || p == f64::INFINITY {
            // There is no norm of nothing: the least of no elements.
            self.nonempty_dims("norm", options.dim.as_deref())?
        } else {
            self.reduce_dims("norm", options.dim.as_deref())?
        };
        let x = self.cast(options.dtype)?;
        let keepdim = options.keepdim;
        call1(&NORM, &[Arg::T(&x)], &attrs::Norm { dims, keepdim, p })
    }

    /// The sum of the singular values of matrices, whose dimensions are all unless `dim` names two. An op of the crate
    /// above computes it.
    #[track_caller]
    fn nuclear_norm(&self, options: NormOptions) -> Result<Tensor> {
        let dim: SmallVec<[i64; 6]> = match options.dim {
            Some(dim) => dim,
            None => (0..self.ndim() as i64).collect(),
        };
        if dim.len() != 2 {
            let why = format!(
                "the nuclear norm is that of matrices, over two dimensions, not {} of {}",
                dim.len(),
                self.describe()
            );
            return Err(
                TorshError::shape("norm", why).with_hint("dim([-2, -1]) takes the last two")
            );
        }
        if crate::ops::entries(MATRIX_NORM).is_none() {
            let e = TorshError::invalid(
                "norm",
                "the nuclear norm is computed by torsh_linalg, which is not part of the program",
            );
            return Err(
                e.with_hint("enable the feature `linalg` of the crate torsh, or link the crate: use torsh_linalg as _;")
            );
        }
        let dim = Value::from(dim.iter().map(|&d| Value::Int(d)).collect::<Vec<_>>());
        let matrix = [
            self.into(),
            Value::Str("nuc".into()),
            dim,
            Value::Bool(options.keepdim),
        ];
        let dtype = options.dtype.map_or(Value::None, Value::DType);
        let norm = crate::ops::call(MATRIX_NORM, &matrix, &[("dtype", dtype)]);
        let norm = norm.map_err(|e| e.renamed("norm"))?;
        match norm {
            Value::Tensor(norm) => Ok(norm),
            other => Err(TorshError::invalid(
                "norm",
                format!("a norm is a tensor, not a {}", other.kind()),
            )),
        }
    }

    /// The p-norm of the difference to another tensor, with which this one broadcasts (`torch.dist`),
    /// a 0-d tensor.
    ///
    /// Floating-point or complex dtypes, which promote; an error for others, and for shapes that do
    /// not broadcast.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![0.0, 0.0].dist(&tensor![3.0, 4.0], 2.0)?.item::<f32>()?, 5.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn dist(&self, other: &Tensor, p: f64) -> Result<Tensor> {
        let difference = self.sub(other).map_err(|e| e.renamed("dist"))?;
        difference
            .norm_with(NormOptions {
                p: p.into(),
                ..NormOptions::default()
            })
            .map_err(|e| e.renamed("dist"))
    }
}
