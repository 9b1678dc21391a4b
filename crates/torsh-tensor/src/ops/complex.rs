//! Complex tensors seen as real ones and back: views with another dtype.

use torsh_core::attrs::NONE;
use torsh_core::{DType, Dims, Layout, Result, Scalar, Strides, TorshError};

use crate::Tensor;
use crate::autocast::Autocast;
use crate::call::{Arg, call1};
use crate::record::{InputGrad, OpRecord, sample};

pub(crate) const RECORDS: &[&OpRecord] = &[&REAL, &IMAG, &VIEW_AS_REAL, &VIEW_AS_COMPLEX];

/// The layout of one part (0 real, 1 imaginary) of each element, counted in real elements.
fn part(l: &Layout, which: usize) -> Layout {
    Layout::new(
        l.shape.clone(),
        // Strides of tensors without elements may be anything; `Layout::check` refuses what lies outside.
        l.strides
            .iter()
            .map(|s| s.saturating_mul(2))
            .collect::<Strides>(),
        l.offset.saturating_mul(2).saturating_add(which),
    )
}

fn complex_only(dtype: DType) -> Result<DType> {
    if dtype.is_complex() {
        return Ok(dtype.to_real());
    }
    Err(TorshError::dtype(
        "",
        format!("is only implemented for tensors with complex dtypes, got {dtype}"),
    ))
}

#[torsh_tensor::by_name(Tensor::real)]
pub static REAL: OpRecord = OpRecord::new(
    "real",
    "A view of the real parts; a real tensor itself.",
    "(Tensor input)",
)
.view_as(|c| Ok((part(c.layout, 0), complex_only(c.dtype)?)))
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| c.g().to_dtype(c.input_dtype(0)),
}])
.samples(|s| Ok(vec![sample![s.complex(&[2, 3])?]]));

#[torsh_tensor::by_name(Tensor::imag)]
pub static IMAG: OpRecord =
    OpRecord::new("imag", "A view of the imaginary parts.", "(Tensor input)")
        .view_as(|c| Ok((part(c.layout, 1), complex_only(c.dtype)?)))
        .grad(&[InputGrad {
            inputs: 0,
            outputs: 0,
            formula: |c| {
                c.g()
                    .to_dtype(c.input_dtype(0))?
                    .mul(Scalar::Complex(0.0, 1.0))
            },
        }])
        .samples(|s| Ok(vec![sample![s.complex(&[2, 3])?]]));

/// `view_as_complex` of a tensor that may lie in memory as no complex one can: then of a copy.
pub(crate) fn in_pairs(t: &Tensor) -> Result<Tensor> {
    let t = t.contiguous()?;
    if t.storage_offset() % 2 == 1 {
        return t.copy()?.view_as_complex();
    }
    t.view_as_complex()
}

#[torsh_tensor::by_name(Tensor::view_as_real)]
pub static VIEW_AS_REAL: OpRecord = OpRecord::new(
    "view_as_real",
    "A view of a complex tensor as a real one with a last dimension of 2.",
    "(Tensor input)",
)
.view_as(|c| {
    let dtype = complex_only(c.dtype)?;
    let mut l = part(c.layout, 0);
    let mut dims = Dims::from_slice(l.shape.dims());
    dims.push(2);
    l.shape = dims.into();
    l.strides.push(1);
    Ok((l, dtype))
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| in_pairs(c.g()),
}])
.samples(|s| Ok(vec![sample![s.complex(&[2, 3])?]]));

/// The inverse of [`VIEW_AS_REAL`].
#[torsh_tensor::by_name(Tensor::view_as_complex)]
pub static VIEW_AS_COMPLEX: OpRecord = OpRecord::new(
    "view_as_complex",
    "A view of a real tensor with a last dimension of 2 as a complex one.",
    "(Tensor input)",
)
.autocast(Autocast::Fp32)
.view_as(|c| {
    let l = c.layout;
    let n = l.shape.ndim();
    if !matches!(c.dtype, DType::F32 | DType::F64) {
        return Err(TorshError::dtype(
            "",
            format!(
                "is only supported for float32 and float64 tensors, got {}",
                c.dtype
            ),
        ));
    }
    if n == 0 || l.shape[n - 1] != 2 {
        return Err(TorshError::shape(
            "",
            format!(
                "Tensor must have a last dimension of size 2, got {}",
                l.shape
            ),
        ));
    }
    if l.strides[n - 1] != 1 || l.strides[..n - 1].iter().any(|s| s % 2 != 0) || l.offset % 2 != 0 {
        return Err(TorshError::shape(
            "",
            "the two parts of each number must lie side by side, at even positions",
        )
        .with_hint("call contiguous() first"));
    }
    Ok((
        Layout::new(
            l.shape.dims()[..n - 1].into(),
            l.strides[..n - 1]
                .iter()
                .map(|s| s / 2)
                .collect::<Strides>(),
            l.offset / 2,
        ),
        c.dtype.to_complex(),
    ))
})
.grad(&[InputGrad {
    inputs: 0,
    outputs: 0,
    formula: |c| c.g().view_as_real(),
}])
.samples(|s| Ok(vec![sample![s.real(&[3, 2])?]]));

#[torsh_tensor::functions]
impl Tensor {
    /// A view of the real parts (`torch.real`); a real tensor comes back as it is.
    ///
    /// The result has the operand's shape and, of a complex tensor, the real dtype of that size.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let z = tensor![[1.0, 2.0], [3.0, 4.0]].view_as_complex()?;
    /// assert_eq!(z.real()?, tensor![1.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn real(&self) -> Result<Tensor> {
        if !self.dtype().is_complex() {
            return Ok(self.clone());
        }
        call1(&REAL, &[Arg::T(self)], NONE)
    }

    /// A view of the imaginary parts (`torch.imag`); an error for a real tensor.
    ///
    /// The result has the operand's shape and the real dtype of that size.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let z = tensor![[1.0, 2.0], [3.0, 4.0]].view_as_complex()?;
    /// assert_eq!(z.imag()?, tensor![2.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn imag(&self) -> Result<Tensor> {
        call1(&IMAG, &[Arg::T(self)], NONE)
    }

    /// A view of a complex tensor as a real one with a last dimension of 2 (`torch.view_as_real`).
    ///
    /// An error for a real tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let z = tensor![[1.0, 2.0]].view_as_complex()?;
    /// assert_eq!(z.conj()?.view_as_real()?, tensor![[1.0, -2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn view_as_real(&self) -> Result<Tensor> {
        call1(&VIEW_AS_REAL, &[Arg::T(self)], NONE)
    }

    /// A view of a real tensor with a last dimension of 2 as a complex one (`torch.view_as_complex`).
    ///
    /// `[.., 2]` of float32 gives `[..]` of complex64, float64 complex128. An error for other dtypes
    /// or sizes, and where the two parts do not lie side by side.
    ///
    /// ```
    /// # use torsh_tensor::{DType, tensor};
    /// let z = tensor![[3.0, 4.0]].view_as_complex()?;
    /// assert_eq!(z.dtype(), DType::C64);
    /// assert_eq!(z.abs()?, tensor![5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn view_as_complex(&self) -> Result<Tensor> {
        call1(&VIEW_AS_COMPLEX, &[Arg::T(self)], NONE)
    }

    /// Whether the dtype is complex.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(!tensor![1.0].is_complex());
    /// assert!(tensor![1.0, 2.0].view_as_complex()?.is_complex());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_complex(&self) -> bool {
        self.dtype().is_complex()
    }

    /// Whether the dtype is real floating point.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0].is_floating_point());
    /// assert!(!tensor![1].is_floating_point());
    /// ```
    pub fn is_floating_point(&self) -> bool {
        self.dtype().is_floating_point()
    }
}
