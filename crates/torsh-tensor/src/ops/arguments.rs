//! The optional arguments of ops with few of them.

use torsh_core::Generator;

use crate::{DType, Reduction, Scalar};

crate::options::options! {
    /// The optional arguments of `add`, `sub`, `rsub` and `index_add`.
    ///
    /// ```
    /// use torsh_tensor::{AddOptions, Scalar};
    /// let options = AddOptions::new();
    /// assert_eq!(options.alpha, Scalar::Int(1));
    /// assert_eq!(options.alpha(2).alpha, Scalar::Int(2));
    /// ```
    AddOptions {
        /// What is added or subtracted is multiplied with this. The default is 1.
        alpha: Scalar = Scalar::Int(1), impl Into<Scalar> => |v| v.into();
    }
}

crate::options::options! {
    /// The optional arguments of `addcmul` and `addcdiv`.
    ///
    /// ```
    /// use torsh_tensor::{AddcmulOptions, Scalar};
    /// let options = AddcmulOptions::new();
    /// assert_eq!(options.value, Scalar::Int(1));
    /// assert_eq!(options.value(2).value, Scalar::Int(2));
    /// ```
    AddcmulOptions {
        /// The product or quotient is multiplied with this. The default is 1.
        value: Scalar = Scalar::Int(1), impl Into<Scalar> => |v| v.into();
    }
}

crate::options::options! {
    /// The optional arguments of `addmm`, `addmv`, `addr`, `addbmm` and `baddbmm`.
    ///
    /// ```
    /// use torsh_tensor::{AddmmOptions, Scalar};
    /// let options = AddmmOptions::new();
    /// assert_eq!(options.beta, Scalar::Int(1));
    /// assert_eq!(options.alpha, Scalar::Int(1));
    /// assert_eq!(options.beta(2).beta, Scalar::Int(2));
    /// ```
    AddmmOptions {
        /// What the addend is multiplied with. The default is 1. With 0 it is not read.
        beta: Scalar = Scalar::Int(1), impl Into<Scalar> => |v| v.into();
        /// What the product is multiplied with. The default is 1.
        alpha: Scalar = Scalar::Int(1), impl Into<Scalar> => |v| v.into();
    }
}

crate::options::options! {
    /// The optional arguments of `div`.
    DivOptions {
        /// `trunc` (towards zero), `floor` (down), or not at all, as unless set.
        rounding_mode: Option<String> = None, &str => |m| Some(m.to_string());
    }
}

crate::options::options! {
    /// The optional arguments of `nan_to_num`.
    ///
    /// ```
    /// use torsh_tensor::NanToNumOptions;
    /// let options = NanToNumOptions::new();
    /// assert_eq!(options.nan, None);
    /// assert_eq!(options.posinf, None);
    /// assert_eq!(options.neginf, None);
    /// assert_eq!(options.nan(0.25).nan, Some(0.25));
    /// ```
    NanToNumOptions {
        /// What stands for nan. The default is 0.
        nan: Option<f64> = None, impl Into<Option<f64>> => |v| v.into();
        /// What stands for infinity. The default is the dtype's largest number.
        posinf: Option<f64> = None, impl Into<Option<f64>> => |v| v.into();
        /// What stands for minus infinity. The default is the dtype's smallest number.
        neginf: Option<f64> = None, impl Into<Option<f64>> => |v| v.into();
    }
}

crate::options::options! {
    /// The optional arguments of `logit`.
    ///
    /// ```
    /// use torsh_tensor::LogitOptions;
    /// let options = LogitOptions::new();
    /// assert_eq!(options.eps, None);
    /// assert_eq!(options.eps(0.25).eps, Some(0.25));
    /// ```
    LogitOptions {
        /// Elements are limited to `[eps, 1 - eps]` first. The default is no limit.
        eps: Option<f64> = None, impl Into<Option<f64>> => |v| v.into();
    }
}

crate::options::options! {
    /// The optional arguments of `softmax`, `log_softmax` and `softmin`.
    ///
    /// ```
    /// use torsh_tensor::{DType, SoftmaxOptions};
    /// let options = SoftmaxOptions::new();
    /// assert_eq!(options.dtype, None);
    /// assert_eq!(options.dtype(DType::F64).dtype, Some(DType::F64));
    /// ```
    SoftmaxOptions {
        /// What the tensor is converted to first. The default is no conversion.
        dtype: Option<DType> = None, impl Into<Option<DType>> => |v| v.into();
    }
}

crate::options::options! {
    /// The optional arguments of `cumsum` and `cumprod`.
    ///
    /// ```
    /// use torsh_tensor::{CumsumOptions, DType};
    /// let options = CumsumOptions::new();
    /// assert_eq!(options.dtype, None);
    /// assert_eq!(options.dtype(DType::F64).dtype, Some(DType::F64));
    /// ```
    CumsumOptions {
        /// What the tensor is converted to first. The default is int64 for bools and integers, and no
        /// conversion for others.
        dtype: Option<DType> = None, impl Into<Option<DType>> => |v| v.into();
    }
}

crate::options::options! {
    /// The optional arguments of `diagonal`.
    ///
    /// ```
    /// use torsh_tensor::DiagonalOptions;
    /// let options = DiagonalOptions::new();
    /// assert_eq!(options.offset, 0);
    /// assert_eq!(options.dim1, 0);
    /// assert_eq!(options.dim2, 1);
    /// assert_eq!(options.offset(3).offset, 3);
    /// ```
    DiagonalOptions {
        /// How far above the main diagonal, below it where negative. The default is 0.
        offset: i64 = 0;
        /// The dimension of the rows. The default is 0.
        dim1: i64 = 0;
        /// The dimension of the columns. The default is 1.
        dim2: i64 = 1;
    }
}

crate::options::options! {
    /// The optional arguments of `flatten`.
    ///
    /// ```
    /// use torsh_tensor::FlattenOptions;
    /// let options = FlattenOptions::new();
    /// assert_eq!(options.start_dim, 0);
    /// assert_eq!(options.end_dim, -1);
    /// assert_eq!(options.start_dim(3).start_dim, 3);
    /// ```
    FlattenOptions {
        /// The first dimension that is flattened. The default is 0.
        start_dim: i64 = 0;
        /// The last. The default is -1.
        end_dim: i64 = -1;
    }
}

crate::options::options! {
    /// The optional arguments of `pad`.
    PadOptions {
        /// `constant`, as unless set, `replicate`, `reflect` or `circular`.
        mode: String = "constant".to_string(), &str => |m| m.to_string();
        /// What is around, with the mode `constant`. The default is 0.
        value: Option<Scalar> = None, impl Into<Scalar> => |v| Some(v.into());
    }
}

crate::options::options! {
    /// The optional arguments of `leaky_relu`.
    ///
    /// ```
    /// use torsh_tensor::LeakyReluOptions;
    /// let options = LeakyReluOptions::new();
    /// assert_eq!(options.negative_slope, 0.01);
    /// assert_eq!(options.negative_slope(0.25).negative_slope, 0.25);
    /// ```
    LeakyReluOptions {
        /// What negative elements are multiplied with. The default is 0.01.
        negative_slope: f64 = 0.01;
    }
}

crate::options::options! {
    /// The optional arguments of `elu` and `celu`.
    ///
    /// ```
    /// use torsh_tensor::EluOptions;
    /// let options = EluOptions::new();
    /// assert_eq!(options.alpha, 1.0);
    /// assert_eq!(options.alpha(0.25).alpha, 0.25);
    /// ```
    EluOptions {
        /// What it tends to for negative elements, but for its sign. The default is 1.
        alpha: f64 = 1.0;
    }
}

crate::options::options! {
    /// The optional arguments of `hardtanh`.
    ///
    /// ```
    /// use torsh_tensor::HardtanhOptions;
    /// let options = HardtanhOptions::new();
    /// assert_eq!(options.min_val, -1.0);
    /// assert_eq!(options.max_val, 1.0);
    /// assert_eq!(options.min_val(0.25).min_val, 0.25);
    /// ```
    HardtanhOptions {
        /// The least result. The default is -1.
        min_val: f64 = -1.0;
        /// The largest result. The default is 1.
        max_val: f64 = 1.0;
    }
}

crate::options::options! {
    /// The optional arguments of `hardshrink` and `softshrink`.
    ///
    /// ```
    /// use torsh_tensor::ShrinkOptions;
    /// let options = ShrinkOptions::new();
    /// assert_eq!(options.lambd, 0.5);
    /// assert_eq!(options.lambd(0.25).lambd, 0.25);
    /// ```
    ShrinkOptions {
        /// How far from 0 elements become it. The default is 0.5.
        lambd: f64 = 0.5;
    }
}

crate::options::options! {
    /// The optional arguments of `softplus`.
    ///
    /// ```
    /// use torsh_tensor::SoftplusOptions;
    /// let options = SoftplusOptions::new();
    /// assert_eq!(options.beta, 1.0);
    /// assert_eq!(options.threshold, 20.0);
    /// assert_eq!(options.beta(0.25).beta, 0.25);
    /// ```
    SoftplusOptions {
        /// What elements are multiplied with, and results divided by. The default is 1.
        beta: f64 = 1.0;
        /// From which `beta * x` on elements are left as they are. The default is 20.
        threshold: f64 = 20.0;
    }
}

crate::options::options! {
    /// The optional arguments of `gelu`.
    GeluOptions {
        /// `none`, as unless set, or `tanh` for the formula with a hyperbolic tangent.
        approximate: String = "none".to_string(), &str => |a| a.to_string();
    }
}

crate::options::options! {
    /// The optional arguments of `multinomial`.
    ///
    /// ```
    /// use torsh_tensor::MultinomialOptions;
    /// let options = MultinomialOptions::new();
    /// assert!(!options.replacement);
    /// assert!(options.replacement(true).replacement);
    /// ```
    MultinomialOptions {
        /// Whether an index may be drawn again. The default is `false`.
        replacement: bool = false;
        /// The generator that is drawn from. The default is the default generator.
        generator: Option<Generator> = None, &Generator => |g| Some(g.clone());
    }
}

crate::options::options! {
    /// The optional argument of losses that have no other.
    ///
    /// ```
    /// use torsh_tensor::{LossOptions, Reduction};
    /// let options = LossOptions::new();
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.reduction(Reduction::Sum).reduction, Reduction::Sum);
    /// ```
    LossOptions {
        /// How the losses of elements become the result. The default is their mean.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}
