//! The tensor's methods of these ops.

use super::*;

macro_rules! fused {
    ($($name:ident $with:ident $inplace:ident $inplace_with:ident $kernel:ident $sign:literal $error:literal
        [$example:literal $with_example:literal $inplace_example:literal $inplace_with_example:literal];)*) => {
        #[torsh_tensor::functions(fused)]
        impl Tensor {$(
            #[doc = concat!("`input + tensor1 ", $sign, " tensor2` (`torch.", stringify!($name), "`).")]
            #[doc = concat!("\nThe shapes broadcast and the dtypes promote. An error where they do not", $error, ".")]
            #[doc = crate::options::example!($example)]
            #[function]
            #[track_caller]
            pub fn $name(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
                self.$with(tensor1, tensor2, AddcmulOptions::default())
            }

            #[doc = concat!("`input + value * tensor1 ", $sign, " tensor2`, by the option `value`; else as [`Tensor::", stringify!($name), "`].")]
            #[doc = crate::options::example!($with_example)]
            #[function]
            #[torsh_tensor::names_caller]
            pub fn $with(&self, tensor1: &Tensor, tensor2: &Tensor, options: AddcmulOptions) -> Result<Tensor> {
                let all = [self, tensor1, tensor2];
                multiple::<numbers::$kernel>(&parametric::$name, all, options.value, false)
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] in place; returns this tensor.")]
            #[doc = crate::options::example!($inplace_example)]
            #[track_caller]
            pub fn $inplace(&self, tensor1: &Tensor, tensor2: &Tensor) -> Result<Tensor> {
                self.$inplace_with(tensor1, tensor2, AddcmulOptions::default())
            }

            #[doc = concat!("[`Tensor::", stringify!($with), "`] in place; returns this tensor.")]
            #[doc = crate::options::example!($inplace_with_example)]
            #[torsh_tensor::names_caller]
            pub fn $inplace_with(&self, tensor1: &Tensor, tensor2: &Tensor, options: AddcmulOptions) -> Result<Tensor> {
                let all = [self, tensor1, tensor2];
                multiple::<numbers::$kernel>(&parametric::$name, all, options.value, true)
            }
        )*}
    };
}
fused! {
    addcmul addcmul_with addcmul_ addcmul_with_ Addcmul "*" ""
        ["# use torsh_tensor::tensor;\n\
            let y = tensor![1.0, 1.0].addcmul(&tensor![2.0, 3.0], &tensor![4.0, 5.0])?;\n\
            assert_eq!(y, tensor![9.0, 16.0]);"
        "use torsh_tensor::{AddcmulOptions, tensor};\n\
            let options = AddcmulOptions::new().value(0.5);\n\
            let y = tensor![1.0].addcmul_with(&tensor![2.0], &tensor![4.0], options)?;\n\
            assert_eq!(y, tensor![5.0]);"
        "# use torsh_tensor::tensor;\n\
            let x = tensor![1.0];\n\
            x.addcmul_(&tensor![2.0], &tensor![4.0])?;\n\
            assert_eq!(x, tensor![9.0]);"
        "use torsh_tensor::{AddcmulOptions, tensor};\n\
            let x = tensor![1.0];\n\
            x.addcmul_with_(&tensor![2.0], &tensor![4.0], AddcmulOptions::new().value(-1.0))?;\n\
            assert_eq!(x, tensor![-7.0]);"];
    addcdiv addcdiv_with addcdiv_ addcdiv_with_ Addcdiv "/" ", and for three integer tensors"
        ["# use torsh_tensor::tensor;\n\
            let y = tensor![1.0, 1.0].addcdiv(&tensor![2.0, 3.0], &tensor![4.0, 2.0])?;\n\
            assert_eq!(y, tensor![1.5, 2.5]);"
        "use torsh_tensor::{AddcmulOptions, tensor};\n\
            let options = AddcmulOptions::new().value(2.0);\n\
            let y = tensor![1.0].addcdiv_with(&tensor![2.0], &tensor![4.0], options)?;\n\
            assert_eq!(y, tensor![2.0]);"
        "# use torsh_tensor::tensor;\n\
            let x = tensor![1.0];\n\
            x.addcdiv_(&tensor![2.0], &tensor![4.0])?;\n\
            assert_eq!(x, tensor![1.5]);"
        "use torsh_tensor::{AddcmulOptions, tensor};\n\
            let x = tensor![1.0];\n\
            x.addcdiv_with_(&tensor![2.0], &tensor![4.0], AddcmulOptions::new().value(-2.0))?;\n\
            assert_eq!(x, tensor![0.0]);"];
}

#[torsh_tensor::functions]
impl Tensor {
    /// `self - alpha * other` (`torch.sub` with `alpha`).
    ///
    /// ```
    /// use torsh_tensor::{AddOptions, tensor};
    /// let y = tensor![10, 20].sub_with(&tensor![1, 2], AddOptions::new().alpha(3))?;
    /// assert_eq!(y, tensor![7, 14]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn sub_with<'a>(
        &self,
        other: impl Into<Operand<'a>>,
        options: AddOptions,
    ) -> Result<Tensor> {
        scaled::<numbers::SubAlpha>(
            &parametric::sub_alpha,
            self,
            other.into(),
            options.alpha,
            false,
        )
    }

    /// `other - input` (`torch.rsub`).
    ///
    /// The shapes broadcast and the dtypes promote; an error where they do not, and for bool tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].rsub(10)?, tensor![9, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn rsub<'a>(&self, other: impl Into<Operand<'a>>) -> Result<Tensor> {
        self.rsub_with(other, AddOptions::default())
    }

    /// `other - alpha * input`, by the option `alpha`; else as [`Tensor::rsub`].
    ///
    /// ```
    /// use torsh_tensor::{AddOptions, tensor};
    /// let y = tensor![1, 2].rsub_with(&tensor![10, 10], AddOptions::new().alpha(3))?;
    /// assert_eq!(y, tensor![7, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn rsub_with<'a>(
        &self,
        other: impl Into<Operand<'a>>,
        options: AddOptions,
    ) -> Result<Tensor> {
        scaled::<numbers::Rsub>(&parametric::rsub, self, other.into(), options.alpha, false)
    }

    /// `self += alpha * other` (`Tensor.add_` with `alpha`); returns this tensor.
    ///
    /// ```
    /// use torsh_tensor::{AddOptions, tensor};
    /// let x = tensor![1, 2];
    /// x.add_with_(&tensor![10, 20], AddOptions::new().alpha(2))?;
    /// assert_eq!(x, tensor![21, 42]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn add_with_<'a>(
        &self,
        other: impl Into<Operand<'a>>,
        options: AddOptions,
    ) -> Result<Tensor> {
        scaled::<numbers::AddAlpha>(
            &parametric::add_alpha,
            self,
            other.into(),
            options.alpha,
            true,
        )
    }

    /// `self -= alpha * other` (`Tensor.sub_` with `alpha`); returns this tensor.
    ///
    /// ```
    /// use torsh_tensor::{AddOptions, tensor};
    /// let x = tensor![10, 20];
    /// x.sub_with_(&tensor![1, 2], AddOptions::new().alpha(3))?;
    /// assert_eq!(x, tensor![7, 14]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn sub_with_<'a>(
        &self,
        other: impl Into<Operand<'a>>,
        options: AddOptions,
    ) -> Result<Tensor> {
        scaled::<numbers::SubAlpha>(
            &parametric::sub_alpha,
            self,
            other.into(),
            options.alpha,
            true,
        )
    }

    /// The quotient rounded by `"trunc"` (towards zero) or `"floor"` (down), or not at all
    /// (`torch.div` with `rounding_mode`).
    ///
    /// The shapes broadcast and the dtypes promote; integers stay integers where the quotient is
    /// rounded. An error for another word, for an integer division by 0 that is rounded, and for
    /// complex quotients that are rounded.
    ///
    /// ```
    /// use torsh_tensor::{DivOptions, tensor};
    /// let (x, trunc) = (tensor![-7, 7], DivOptions::new().rounding_mode("trunc"));
    /// assert_eq!(x.div_with(2, trunc)?, tensor![-3, 3]);
    /// assert_eq!(x.div_with(2, DivOptions::new().rounding_mode("floor"))?, tensor![-4, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn div_with<'a>(
        &self,
        other: impl Into<Operand<'a>>,
        options: DivOptions,
    ) -> Result<Tensor> {
        let mode = options.rounding_mode.as_deref();
        divide(Operand::Ref(self), other.into(), mode)
    }

    /// `input + weight * (end - input)`; the weight is a number or a tensor (`torch.lerp`).
    ///
    /// The shapes broadcast; floating-point or complex tensors of one dtype, an error for others.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (a, b) = (tensor![0.0, 10.0], tensor![4.0, 20.0]);
    /// assert_eq!(a.lerp(&b, 0.25)?, tensor![1.0, 12.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn lerp<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor> {
        lerp(self, end, weight.into(), false)
    }

    /// [`Tensor::lerp`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, 10.0];
    /// x.lerp_(&tensor![4.0, 20.0], 0.5)?;
    /// assert_eq!(x, tensor![2.0, 15.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn lerp_<'a>(&self, end: &Tensor, weight: impl Into<Operand<'a>>) -> Result<Tensor> {
        lerp(self, end, weight.into(), true)
    }

    /// Each element with nan replaced by 0 and the infinities by the dtype's largest and smallest
    /// number (`torch.nan_to_num`).
    ///
    /// Shape and dtype stay; integers come back as they are.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, f64::NAN, f64::INFINITY];
    /// assert_eq!(x.nan_to_num()?, tensor![1.0, 0.0, f32::MAX as f64]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nan_to_num(&self) -> Result<Tensor> {
        nan_to_num(self, None, None, None, false)
    }

    /// [`Tensor::nan_to_num`] with other replacements for nan, infinity and minus infinity.
    ///
    /// ```
    /// use torsh_tensor::{NanToNumOptions, tensor};
    /// let x = tensor![f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    /// let options = NanToNumOptions::new().nan(0.5).posinf(9.0).neginf(-9.0);
    /// assert_eq!(x.nan_to_num_with(options)?, tensor![0.5, 9.0, -9.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nan_to_num_with(&self, options: NanToNumOptions) -> Result<Tensor> {
        let o = options;
        nan_to_num(self, o.nan, o.posinf, o.neginf, false)
    }

    /// [`Tensor::nan_to_num`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, f64::NAN];
    /// x.nan_to_num_()?;
    /// assert_eq!(x, tensor![1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn nan_to_num_(&self) -> Result<Tensor> {
        nan_to_num(self, None, None, None, true)
    }

    /// [`Tensor::nan_to_num`] under another name.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, f64::NAN].replace_non_finite()?, tensor![1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn replace_non_finite(&self) -> Result<Tensor> {
        self.nan_to_num()
    }

    /// `log(x / (1 - x))` of each element, the inverse of `sigmoid` (`torch.logit`).
    ///
    /// Shape stays; integers give the default dtype. Elements outside [0, 1] give nan.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![0.5, 0.75].logit()?.allclose(&tensor![0.0, 1.098612])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn logit(&self) -> Result<Tensor> {
        logit(self, None, false)
    }

    /// [`Tensor::logit`] of each element limited to [`eps`, `1 - eps`].
    ///
    /// ```
    /// use torsh_tensor::{LogitOptions, tensor};
    /// let y = tensor![0.0, 1.0].logit_with(LogitOptions::new().eps(0.25))?;
    /// assert!(y.allclose(&tensor![-1.098612, 1.098612])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn logit_with(&self, options: LogitOptions) -> Result<Tensor> {
        logit(self, options.eps, false)
    }

    /// [`Tensor::logit`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.5, 0.75];
    /// x.logit_()?;
    /// assert!(x.allclose(&tensor![0.0, 1.098612])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn logit_(&self) -> Result<Tensor> {
        logit(self, None, true)
    }

    /// Each element rounded to `decimals` places, halves to even (`torch.round` with `decimals`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.2345, 6.789].round_decimals(2)?.allclose(&tensor![1.23, 6.79])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn round_decimals(&self, decimals: i64) -> Result<Tensor> {
        apply(
            &parametric::round_decimals,
            self,
            &[],
            &numbers::RoundDecimals {
                decimals: decimals.into(),
            },
            false,
        )
    }

    /// Whether the elements `x` and those of `other`, `y`, are equal within PyTorch's default
    /// tolerances (`torch.isclose`): `|x - y| <= 1e-8 + 1e-5 * |y|`.
    ///
    /// A bool tensor of the shape that both broadcast to. An error where the dtypes differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![1.0, 2.0].isclose(&tensor![1.000001, 2.1])?;
    /// assert_eq!(y, tensor![true, false]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn isclose(&self, other: &Tensor) -> Result<Tensor> {
        self.isclose_with(other, IscloseOptions::default())
    }

    /// Whether the elements differ by at most `atol + rtol * |other|`; two nans are close where
    /// `equal_nan`.
    ///
    /// Shapes, dtypes and errors as in [`Tensor::isclose`]; negative tolerances are errors.
    ///
    /// ```
    /// use torsh_tensor::{IscloseOptions, tensor};
    /// let options = IscloseOptions::new().atol(0.2).equal_nan(true);
    /// let y = tensor![2.0, f64::NAN].isclose_with(&tensor![2.1, f64::NAN], options)?;
    /// assert_eq!(y, tensor![true, true]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn isclose_with(&self, other: &Tensor, options: IscloseOptions) -> Result<Tensor> {
        let IscloseOptions {
            rtol,
            atol,
            equal_nan,
        } = options;
        for (name, v) in [("rtol", rtol), ("atol", atol)] {
            if v.is_nan() || v < 0.0 {
                return Err(TorshError::invalid(
                    "isclose",
                    format!("{name} must be greater than or equal to zero, but got {v}"),
                ));
            }
        }
        if self.dtype() != other.dtype() {
            return Err(TorshError::dtype(
                "isclose",
                format!("{} did not match {}", self.dtype(), other.dtype()),
            ));
        }
        if self.dtype().is_differentiable() {
            let numbers = numbers::Isclose {
                rtol: rtol.into(),
                atol: atol.into(),
                equal_nan: equal_nan.into(),
            };
            return apply(
                &parametric::isclose,
                self,
                &[Arg::T(other)],
                &numbers,
                false,
            );
        }
        if rtol == 0.0 && atol == 0.0 {
            return self.eq(other);
        }
        self.near_integers(other, options)
    }

    /// [`Tensor::isclose_with`] of integers, in the widest numbers of their device. Where those do
    /// not hold all integers, equal ones are close all the same.
    pub(crate) fn near_integers(&self, other: &Tensor, options: IscloseOptions) -> Result<Tensor> {
        let dtype = widest(self.device())?;
        let close = self
            .to_dtype(dtype)?
            .isclose_with(&other.to_dtype(dtype)?, options)?;
        match dtype {
            DType::F64 => Ok(close),
            _ => close.logical_or(&self.eq(other)?),
        }
    }

    /// The angle of each complex element in radians; of real ones 0, or pi for negative ones
    /// (`torch.angle`).
    ///
    /// The result has the operand's shape, and for complex tensors the real dtype of that size;
    /// integers give the default dtype, nan gives nan.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0, -1.0].angle()?.allclose(&tensor![0.0, 3.141593])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn angle(&self) -> Result<Tensor> {
        let x = if self.dtype().is_differentiable() {
            self.clone()
        } else {
            self.to_dtype(default_dtype())?
        };
        call1(&parametric::angle, &[Arg::T(&x)], NONE)
    }

    /// Powers computed in float64 or complex128, whatever the operands' dtypes (`torch.float_power`).
    ///
    /// The shapes broadcast; an error where they do not.
    ///
    /// ```
    /// # use torsh_tensor::{DType, tensor};
    /// let y = tensor![2, 3].float_power(2)?;
    /// assert_eq!((y.dtype(), y.to_vec::<f64>()?), (DType::F64, vec![4.0, 9.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn float_power<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<Tensor> {
        float_power(Operand::Ref(self), exponent.into())
    }
}
