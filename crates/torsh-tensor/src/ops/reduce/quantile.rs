//! Quantiles.

use torsh_core::attrs::Assert;
use torsh_core::{CallSite, DType, Result, TorshError};

use crate::autocast::{Autocast, body};
use crate::check::{check, named};
use crate::named::Named;
use crate::options::options;
use crate::record::{OpRecord, Sample, sample};
use crate::{Bound, Operand, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&QUANTILE, &NANQUANTILE];

/// What lies between two elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// A weighted mean of the two.
    #[default]
    Linear,
    /// The smaller.
    Lower,
    /// The larger.
    Higher,
    /// Their mean.
    Midpoint,
    /// The nearer, the one of even rank where both are as near.
    Nearest,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(crate::named::Unknown),
}

crate::named! {
    Interpolation, "interpolation",
    "linear" => Interpolation::Linear,
    "lower" => Interpolation::Lower,
    "higher" => Interpolation::Higher,
    "midpoint" => Interpolation::Midpoint,
    "nearest" => Interpolation::Nearest,
}

options! {
    /// PyTorch's keyword arguments of `quantile` and `nanquantile`.
    ///
    /// ```
    /// use torsh_tensor::QuantileOptions;
    /// let options = QuantileOptions::new();
    /// assert!(!options.keepdim);
    /// assert!(options.keepdim(true).keepdim);
    /// ```
    #[derive(Copy)]
    QuantileOptions {
        /// The dimension; `None` for all elements.
        dim: Option<i64> = None, impl crate::IntoDim => |d| Some(d.value());
        /// Whether the reduced dimension stays, at size 1.
        keepdim: bool = false;
        /// What lies between two elements.
        interpolation: Interpolation = Interpolation::default(), impl Into<Interpolation> => Into::into;
    }
}

const SCHEMA: &str = "(Tensor input, Operand q, int? dim=None, bool keepdim=False, *, str interpolation='linear', Any out=None)";

fn options(b: &Bound) -> Result<QuantileOptions> {
    Ok(QuantileOptions {
        dim: b.opt_int(2),
        keepdim: b.bool(3),
        interpolation: Interpolation::from(b.str(4)),
    })
}

fn samples(s: &mut crate::sample::Sampler) -> Result<Vec<Sample>> {
    let x = s.distinct(&[3, 4])?;
    Ok(vec![sample![x.clone(), 0.4], sample![x, 0.7, 1]])
}

pub static QUANTILE: OpRecord = OpRecord::new(
    "quantile",
    "The q-th quantiles of all elements or along a dimension, NaN where there is one; several q make a first dimension.",
    SCHEMA,
)
.autocast(Autocast::Fp32)
.by_name(|b| b.tensor(0)?.quantile_with(b.operand(1)?, options(b)?).map(Value::Tensor))
.samples(samples);

pub static NANQUANTILE: OpRecord = OpRecord::new(
    "nanquantile",
    "The q-th quantiles of all elements or along a dimension, of what is not NaN.",
    SCHEMA,
)
.autocast(Autocast::Fp32)
.by_name(|b| {
    b.tensor(0)?
        .nanquantile_with(b.operand(1)?, options(b)?)
        .map(Value::Tensor)
})
.samples(samples);

#[torsh_tensor::functions]
impl Tensor {
    /// The q-th quantile of all elements, `q` in [0, 1] a number or a tensor of this dtype; between
    /// two elements it interpolates (`torch.quantile`).
    ///
    /// A 0-d tensor; of several `q` (1-d) a 1-d tensor. An error for other dtypes than float32 and
    /// float64, for no elements, and for `q` outside [0, 1].
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, 1.0, 2.0, 3.0, 4.0];
    /// assert_eq!(x.quantile(0.25)?.item::<f32>()?, 1.0);
    /// assert_eq!(x.quantile(&tensor![0.5, 1.0])?, tensor![2.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn quantile<'a>(&self, q: impl Into<Operand<'a>>) -> Result<Tensor> {
        self.quantile_with(q, QuantileOptions::default())
    }

    /// [`Tensor::quantile`] with PyTorch's keyword arguments: `dim`, `keepdim` and `interpolation`.
    ///
    /// Several `q` become the result's first dimension.
    ///
    /// ```
    /// use torsh_tensor::{Interpolation, QuantileOptions, tensor};
    /// let x = tensor![[0.0, 1.0], [2.0, 3.0]];
    /// let options = QuantileOptions::new().dim(1).interpolation(Interpolation::Lower);
    /// assert_eq!(x.quantile_with(0.5, options)?, tensor![0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn quantile_with<'a>(
        &self,
        q: impl Into<Operand<'a>>,
        options: QuantileOptions,
    ) -> Result<Tensor> {
        self.any_quantiles(&QUANTILE, q.into(), options)
    }

    /// The q-th quantile of all elements that are not nan (`torch.nanquantile`).
    ///
    /// Shapes, dtypes and errors as in [`Tensor::quantile`].
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, f64::NAN, 1.0, 2.0];
    /// assert_eq!(x.nanquantile(0.5)?.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn nanquantile<'a>(&self, q: impl Into<Operand<'a>>) -> Result<Tensor> {
        self.nanquantile_with(q, QuantileOptions::default())
    }

    /// [`Tensor::nanquantile`] with PyTorch's keyword arguments: `dim`, `keepdim` and
    /// `interpolation`.
    ///
    /// ```
    /// use torsh_tensor::{QuantileOptions, tensor};
    /// let x = tensor![[0.0, f64::NAN], [2.0, 3.0]];
    /// assert_eq!(x.nanquantile_with(0.5, QuantileOptions::new().dim(1))?, tensor![0.0, 2.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nanquantile_with<'a>(
        &self,
        q: impl Into<Operand<'a>>,
        options: QuantileOptions,
    ) -> Result<Tensor> {
        self.any_quantiles(&NANQUANTILE, q.into(), options)
    }

    #[track_caller]
    fn any_quantiles(
        &self,
        record: &'static OpRecord,
        q: Operand<'_>,
        options: QuantileOptions,
    ) -> Result<Tensor> {
        let (op, skip_nan) = (record.name, std::ptr::eq(record, &NANQUANTILE));
        named(op, self, || match q {
            Operand::Number(n) => body(record.autocast, [self], |[x]| {
                let q = Tensor::scalar(n, x.dtype(), x.device())?;
                x.quantiles(op, &q, options, skip_nan)
            }),
            q => body(record.autocast, [self, &q.to_tensor()?], |[x, q]| {
                x.quantiles(op, q, options, skip_nan)
            }),
        })
    }

    #[track_caller]
    fn quantiles(
        &self,
        op: &'static str,
        q: &Tensor,
        options: QuantileOptions,
        skip_nan: bool,
    ) -> Result<Tensor> {
        let refuse = |e: TorshError| self.named::<Tensor>(op, Err(e));
        if self.numel() == 0 {
            return refuse(TorshError::invalid("", "input tensor must be non-empty"));
        }
        if !matches!(self.dtype(), DType::F32 | DType::F64) {
            let text = format!(
                "input tensor must be either float or double dtype, got {}",
                self.dtype()
            );
            return refuse(TorshError::dtype("", text));
        }
        if q.ndim() > 1 {
            let text = format!("q must be a scalar or 1D tensor, got {}", q.describe());
            return refuse(TorshError::shape("", text));
        }
        if q.dtype() != self.dtype() {
            let text = format!(
                "q tensor must be same dtype as the input tensor, got {}",
                q.describe()
            );
            return refuse(TorshError::dtype("", text));
        }
        let inside = q.ge(0)?.logical_and(&q.le(1)?)?;
        let fine = check(&inside, CallSite::here(op), || {
            Assert::value("q values must be in the range [0, 1]")
        });
        if let Err(e) = fine {
            return refuse(e);
        }
        // The dimension last, sorted: NaN at the end.
        let d = match options.dim {
            Some(d) => Some(self.dim(op, d)?),
            None => None,
        };
        let line = match d {
            Some(_) if self.ndim() == 0 => self.reshape([1])?,
            Some(d) => self.transpose(d, -1)?,
            None => self.reshape([self.numel()])?,
        };
        let sorted = line.sort()?.0;
        let last = (sorted.dims()[sorted.ndim() - 1] - 1) as f64;
        let nan = sorted.isnan()?;
        let qs = if q.ndim() == 0 {
            q.unsqueeze(0)?
        } else {
            q.clone()
        };
        let ranks = if skip_nan {
            let numbers = nan.logical_not()?.sum_dim(-1, true)?;
            qs.mul(&numbers.sub(1)?.to_dtype(self.dtype())?)?
                .maximum(0.0)?
        } else {
            let last = Tensor::scalar(last, self.dtype(), self.device())?;
            Tensor::where_(&nan.any_dim(-1, true)?, &last, &qs.mul(&last)?)?
        };
        let ranks = match options.interpolation.known()? {
            Interpolation::Lower => ranks.floor()?,
            Interpolation::Higher => ranks.ceil()?,
            Interpolation::Nearest => ranks.round()?,
            _ => ranks,
        };
        let below = ranks.to_dtype(DType::I64)?;
        let mut values = sorted.gather(-1, &below)?;
        if matches!(
            options.interpolation,
            Interpolation::Linear | Interpolation::Midpoint
        ) {
            let above = sorted.gather(-1, &ranks.ceil()?.to_dtype(DType::I64)?)?;
            let weights = match options.interpolation {
                Interpolation::Linear => ranks.sub(&below)?,
                _ => ranks.full_like(0.5)?,
            };
            values = values.lerp(&above, &weights)?;
        }
        // The quantiles are last: first if there are several, else away; the dimension back.
        if q.ndim() == 0 {
            values = values.squeeze(-1)?;
        } else {
            values = values.movedim(-1, 0)?;
        }
        let lead = q.ndim();
        match d {
            _ if self.ndim() == 0 => Ok(values),
            Some(d) => {
                // The transposition put the last dimension where `d` was.
                let kept = values.unsqueeze(-1)?.transpose(d + lead, -1)?;
                if options.keepdim {
                    Ok(kept)
                } else {
                    kept.squeeze(d + lead)
                }
            }
            None if options.keepdim => {
                let mut sizes = vec![1usize; self.ndim()];
                if lead == 1 {
                    sizes.insert(0, q.numel());
                }
                values.reshape(sizes)
            }
            None => Ok(values),
        }
    }
}
