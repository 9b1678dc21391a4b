//! Activation functions with arguments: parameters, and PyTorch's `inplace`.

use torsh_core::attrs::NONE;
use torsh_core::pointwise::numbers;
use torsh_core::{Result, Scalar, TorshError};

use super::clamp::limits;
use super::pointwise::{parametric, unary};
use super::pointwise_extra::apply;
use crate::autocast::{Autocast, body};
use crate::call::Arg;
use crate::record::{OpRecord, Sample, sample};
use crate::schema::Bound;
use crate::{
    EluOptions, GeluOptions, HardtanhOptions, LeakyReluOptions, Operand, ShrinkOptions,
    SoftplusOptions, Tensor, Value,
};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &RELU,
    &RELU6,
    &SILU,
    &SELU,
    &HARDSWISH,
    &HARDSIGMOID,
    &MISH,
    &LEAKY_RELU,
    &ELU,
    &CELU,
    &HARDTANH,
    &THRESHOLD,
    &GELU,
    &SOFTSHRINK,
    &TANHSHRINK,
    &GLU,
    &PRELU,
    &TORCH_PRELU,
];

fn inputs(s: &mut crate::sample::Sampler) -> Result<Vec<Sample>> {
    Ok(vec![sample![s.real(&[2, 3])?]])
}

macro_rules! plain {
    ($($id:ident $name:literal $row:ident $inplace:ident $x:tt $(=> $exact:tt)? $(~ $close:tt)?),* $(,)?) => {
        $(
            #[doc = concat!("`", $name, "` with `inplace`.")]
            #[torsh_tensor::by_name(apply(&unary::$row, input, &[], NONE, inplace))]
            pub static $id: OpRecord = OpRecord::new(
                concat!($name, ".inplace"),
                "The activation of each element; with inplace=True written over the operand.",
                "(Tensor input, bool inplace=False)",
            )
            .overload()
            .samples(inputs);
        )*
        impl Tensor {
            $(
                #[doc = concat!("[`", stringify!($row), "`](Tensor::", stringify!($row), ") in place; returns this tensor.")]
                #[doc = torsh_core::row_example!(inplace $inplace $x $(=> $exact)? $(~ $close)?)]
                #[torsh_tensor::names_caller]
                pub fn $inplace(&self) -> Result<Tensor> {
                    apply(&unary::$row, self, &[], NONE, true)
                }
            )*
        }
    };
}
plain! {
    RELU "nn.functional.relu" relu relu_ [-1.0, 2.0] => [0.0, 2.0],
    RELU6 "nn.functional.relu6" relu6 relu6_ [-1.0, 2.0, 8.0] => [0.0, 2.0, 6.0],
    SILU "nn.functional.silu" silu silu_ [0.0, 1.0] ~ [0.0, 0.731059],
    SELU "nn.functional.selu" selu selu_ [-1.0, 1.0] ~ [-1.111331, 1.050701],
    HARDSWISH "nn.functional.hardswish" hardswish hardswish_ [-4.0, 1.0, 4.0] ~ [0.0, 0.666667, 4.0],
    HARDSIGMOID "nn.functional.hardsigmoid" hardsigmoid hardsigmoid_ [-4.0, 0.0, 4.0] => [0.0, 0.5, 1.0],
    MISH "nn.functional.mish" mish mish_ [0.0, 1.0] ~ [0.0, 0.865098],
}

macro_rules! with_numbers {
    ($($id:ident $name:literal $schema:literal $n:literal $f:ident),* $(,)?) => {$(
        #[doc = concat!("`", $name, "` with `inplace`.")]
        pub static $id: OpRecord = OpRecord::new(
            concat!($name, ".inplace"),
            "The activation of each element; with inplace=True written over the operand.",
            $schema,
        )
        .overload()
        .by_name(|b: &Bound| {
            let numbers: Vec<f64> = (0..$n).map(|i| b.float(i + 1)).collect();
            $f(b.tensor(0)?, &numbers, b.bool($n + 1)).map(Value::Tensor)
        })
        .samples(inputs);
    )*};
}
with_numbers! {
    LEAKY_RELU "nn.functional.leaky_relu" "(Tensor input, float negative_slope=0.01, bool inplace=False)" 1 leaky_relu,
    ELU "nn.functional.elu" "(Tensor input, float alpha=1.0, bool inplace=False)" 1 elu,
    CELU "nn.functional.celu" "(Tensor input, float alpha=1.0, bool inplace=False)" 1 celu,
    HARDTANH "nn.functional.hardtanh" "(Tensor input, float min_val=-1.0, float max_val=1.0, bool inplace=False)" 2 hardtanh,
    SOFTSHRINK "nn.functional.softshrink" "(Tensor input, float lambd=0.5)" 1 softshrink,
}

pub static THRESHOLD: OpRecord = OpRecord::new(
    "nn.functional.threshold",
    "Each element where above `threshold`, `value` elsewhere; with inplace=True written over the operand.",
    "(Tensor input, float threshold, float value, bool inplace=False)",
)
.by_name(|b| threshold(b.tensor(0)?, b.scalar(1), b.scalar(2), b.bool(3)).map(Value::Tensor))
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, 0.55, 2.0]]));

#[torsh_tensor::by_name(Tensor::gelu_with(.., GeluOptions))]
pub static GELU: OpRecord = OpRecord::new(
    "nn.functional.gelu",
    "x times the probability that a standard normal number is below it, of each element, exact (\"none\") or by the \"tanh\" formula.",
    "(Tensor input, *, str approximate='none')",
)
.samples(|s| {
    let x = s.real(&[2, 3])?;
    Ok(vec![sample![x.clone()], sample![x, approximate = "tanh"]])
});

#[torsh_tensor::by_name(Tensor::tanhshrink)]
pub static TANHSHRINK: OpRecord = OpRecord::new(
    "nn.functional.tanhshrink",
    "x - tanh(x) of each element.",
    "(Tensor input)",
)
.samples(inputs);

#[torsh_tensor::by_name(Tensor::glu)]
pub static GLU: OpRecord = OpRecord::new(
    "nn.functional.glu",
    "The first half of a dimension times the sigmoid of the second half.",
    "(Tensor input, int dim=-1)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 4])?],
        sample![s.real(&[2, 4])?, 0],
    ])
});

const PRELU_DOC: &str =
    "Each element where positive, times `weight` (one, or one for each channel) elsewhere.";

fn prelu_samples(s: &mut crate::sample::Sampler) -> Result<Vec<Sample>> {
    let x = s.real(&[2, 3, 2])?;
    Ok(vec![
        sample![x.clone(), s.uniform(&[1], 0.1, 0.9)?],
        sample![x, s.uniform(&[3], 0.1, 0.9)?],
    ])
}

#[torsh_tensor::by_name(Tensor::prelu)]
pub static PRELU: OpRecord = OpRecord::new(
    "nn.functional.prelu",
    PRELU_DOC,
    "(Tensor input, Tensor weight)",
)
.autocast(Autocast::Lower)
.samples(prelu_samples);

#[torsh_tensor::by_name(Tensor::prelu)]
pub static TORCH_PRELU: OpRecord =
    OpRecord::new("prelu", PRELU_DOC, "(Tensor input, Tensor weight)")
        .autocast(Autocast::Lower)
        .samples(prelu_samples);

#[track_caller]
fn leaky_relu(x: &Tensor, p: &[f64], inplace: bool) -> Result<Tensor> {
    apply(
        &parametric::leaky_relu,
        x,
        &[],
        &numbers::LeakyRelu {
            negative_slope: p[0].into(),
        },
        inplace,
    )
}

#[track_caller]
fn elu(x: &Tensor, p: &[f64], inplace: bool) -> Result<Tensor> {
    apply(
        &parametric::elu,
        x,
        &[],
        &numbers::Elu { alpha: p[0].into() },
        inplace,
    )
}

#[track_caller]
fn celu(x: &Tensor, p: &[f64], inplace: bool) -> Result<Tensor> {
    if p[0] == 0.0 {
        return Err(TorshError::invalid("celu", "alpha cannot be 0 for CELU"));
    }
    apply(
        &parametric::celu,
        x,
        &[],
        &numbers::Celu { alpha: p[0].into() },
        inplace,
    )
}

#[track_caller]
fn hardtanh(x: &Tensor, p: &[f64], inplace: bool) -> Result<Tensor> {
    if p[0] > p[1] {
        return Err(TorshError::invalid(
            "hardtanh",
            format!(
                "min_val cannot be greater than max_val, got {} and {}",
                p[0], p[1]
            ),
        ));
    }
    let [low, high] = [p[0], p[1]].map(|limit| Some(Scalar::Float(limit)));
    let (low, high) = limits("hardtanh", low, high, x.dtype())?;
    let limits = numbers::Hardtanh {
        min_val: low.unwrap_or(p[0].into()),
        max_val: high.unwrap_or(p[1].into()),
    };
    apply(&parametric::hardtanh, x, &[], &limits, inplace)
}

#[track_caller]
fn softshrink(x: &Tensor, p: &[f64], inplace: bool) -> Result<Tensor> {
    let largest = x.dtype().finite_range().1;
    if !(p[0] >= 0.0 && p[0] <= largest) {
        return Err(TorshError::invalid(
            "softshrink",
            format!(
                "lambda must be in range [0, {largest:e}] for input dtype {}, but found {}",
                x.dtype(),
                p[0]
            ),
        ));
    }
    apply(
        &parametric::softshrink,
        x,
        &[],
        &numbers::Softshrink { lambd: p[0].into() },
        inplace,
    )
}

#[track_caller]
fn threshold(x: &Tensor, threshold: Scalar, value: Scalar, inplace: bool) -> Result<Tensor> {
    apply(
        &parametric::threshold,
        x,
        &[],
        &numbers::Threshold { threshold, value },
        inplace,
    )
}

/// The doc test of a method or function that takes one option: `x.method` or `F::function` with `,`.
macro_rules! options_example {
    ($note:literal, [$functional:literal $call:literal] $method:ident [$($comma:literal)?] $options:ident $x:tt $set:ident $value:literal $z:tt) => {
        crate::options::example!(concat!(
            "use torsh_tensor::{",
            stringify!($options),
            $functional,
            ", tensor};\n",
            "let x = tensor!",
            stringify!($x),
            ";\n",
            "let y = ",
            $call,
            stringify!($method),
            "(",
            $($comma,)?
            stringify!($options),
            "::new().",
            stringify!($set),
            "(",
            stringify!($value),
            "))?;\n",
            $note,
            "assert!(y.allclose(&tensor!",
            stringify!($z),
            ")?);"
        ))
    };
}

/// The doc test of a function of one operand.
macro_rules! function_example {
    ($name:ident $x:tt ~ $y:tt) => {
        crate::options::example!(concat!(
            "# use torsh_tensor::{functional as F, tensor};\n",
            "let y = F::",
            stringify!($name),
            "(&tensor!",
            stringify!($x),
            ")?;\n",
            "assert!(y.allclose(&tensor!",
            stringify!($y),
            ")?);"
        ))
    };
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $name:ident $with:ident $inplace:ident $inplace_with:ident $f:ident $options:ident($($p:ident),+)
        [$x:tt ~ $y:tt, $set:ident $value:literal ~ $z:tt];)*) => {
        impl Tensor {
            $(
                $(#[doc = $doc])+
                #[doc = torsh_core::row_example!(method $name $x ~ $y)]
                #[track_caller]
                pub fn $name(&self) -> Result<Tensor> {
                    self.$with($options::default())
                }

                #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") with PyTorch's further arguments.")]
                #[doc = options_example!("", ["" "x."] $with [] $options $x $set $value $z)]
                #[track_caller]
                pub fn $with(&self, options: $options) -> Result<Tensor> {
                    $f(self, &[$(options.$p),+], false)
                }

                #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), ") in place; returns this tensor.")]
                #[doc = torsh_core::row_example!(inplace $inplace $x ~ $y)]
                #[torsh_tensor::names_caller]
                pub fn $inplace(&self) -> Result<Tensor> {
                    self.$inplace_with($options::default())
                }

                #[doc = concat!("[`", stringify!($with), "`](Tensor::", stringify!($with), ") in place; returns this tensor.")]
                #[doc = options_example!("// `x` itself.\n", ["" "x."] $inplace_with [] $options $x $set $value $z)]
                #[track_caller]
                pub fn $inplace_with(&self, options: $options) -> Result<Tensor> {
                    $f(self, &[$(options.$p),+], true)
                }
            )*
        }

        /// The functions of these methods.
        pub(crate) mod plain {
            use super::*;

            pub(crate) const NAMES: &[&str] = &[$(stringify!($name), stringify!($with)),*];

            $(
                $(#[doc = $doc])+
                #[doc = function_example!($name $x ~ $y)]
                #[track_caller]
                pub fn $name<'a>(input: impl Into<Operand<'a>>) -> Result<Tensor> {
                    $with(input, $options::default())
                }

                #[doc = concat!("[`", stringify!($name), "`] with PyTorch's further arguments.")]
                #[doc = options_example!("", [", functional as F" "F::"] $with ["&x, "] $options $x $set $value $z)]
                #[torsh_tensor::names_caller]
                pub fn $with<'a>(input: impl Into<Operand<'a>>, options: $options) -> Result<Tensor> {
                    match input.into() {
                        Operand::Ref(x) => x.$with(options),
                        Operand::Owned(x) => x.$with(options),
                        number => number.to_tensor()?.$with(options),
                    }
                }
            )*
        }
    };
}
methods! {
    /// Each element where positive, times 0.01 elsewhere (`F.leaky_relu`). Shape and dtype
    /// stay; an error for integers, bools and complex numbers.
    leaky_relu leaky_relu_with leaky_relu_ leaky_relu_with_ leaky_relu LeakyReluOptions(negative_slope)
        [[-2.0, 3.0] ~ [-0.02, 3.0], negative_slope 0.1 ~ [-0.2, 3.0]];
    /// Each element where positive, `exp(x) - 1` elsewhere (`F.elu`). Shape and dtype
    /// stay; an error for integers, bools and complex numbers.
    elu elu_with elu_ elu_with_ elu EluOptions(alpha)
        [[-1.0, 2.0] ~ [-0.632121, 2.0], alpha 2.0 ~ [-1.264241, 2.0]];
    /// Each element where positive, `alpha * (exp(x / alpha) - 1)` elsewhere, with an `alpha` of 1
    /// (`F.celu`). Shape and dtype stay; an error for integers, bools and complex numbers, and for an
    /// `alpha` of 0.
    celu celu_with celu_ celu_with_ celu EluOptions(alpha)
        [[-1.0, 2.0] ~ [-0.632121, 2.0], alpha 2.0 ~ [-0.786939, 2.0]];
    /// Each element limited to [-1, 1] (`F.hardtanh`). Shape and dtype
    /// stay; an error for bools and complex numbers.
    hardtanh hardtanh_with hardtanh_ hardtanh_with_ hardtanh HardtanhOptions(min_val, max_val)
        [[-2.0, 0.5] ~ [-1.0, 0.5], min_val 0.0 ~ [0.0, 0.5]];
    /// Each element moved towards 0 by 0.5, and 0 nearer to it (`F.softshrink`). Shape and dtype
    /// stay; an error for integers, bools and complex numbers.
    softshrink softshrink_with softshrink_ softshrink_with_ softshrink ShrinkOptions(lambd)
        [[-2.0, 0.25] ~ [-1.5, 0.0], lambd 1.0 ~ [-1.0, 0.0]];
}

#[torsh_tensor::functions]
impl Tensor {
    /// `value` for elements that are not above `threshold`, themselves for others
    /// (`torch.nn.functional.threshold`).
    ///
    /// Shape and dtype stay; an error for bools and complex numbers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![-1.0, 0.5, 2.0];
    /// assert_eq!(x.threshold(1.0, -9.0)?, tensor![-9.0, -9.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[torsh_tensor::names_caller]
    pub fn threshold(
        &self,
        threshold: impl Into<Scalar>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        self::threshold(self, threshold.into(), value.into(), false)
    }

    /// [`Tensor::threshold`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![-1.0, 0.5, 2.0];
    /// x.threshold_(1.0, 0.0)?;
    /// assert_eq!(x, tensor![0.0, 0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn threshold_(
        &self,
        threshold: impl Into<Scalar>,
        value: impl Into<Scalar>,
    ) -> Result<Tensor> {
        self::threshold(self, threshold.into(), value.into(), true)
    }

    /// `x`, and 0 within 0.5 of 0 (`torch.nn.functional.hardshrink`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![-1.0, 0.25, 2.0];
    /// assert_eq!(x.hardshrink()?, tensor![-1.0, 0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[track_caller]
    pub fn hardshrink(&self) -> Result<Tensor> {
        self.hardshrink_with(ShrinkOptions::default())
    }

    /// 0 where an element is in [`-lambd`, `lambd`], itself elsewhere.
    ///
    /// ```
    /// use torsh_tensor::{ShrinkOptions, tensor};
    /// let x = tensor![-1.0, 0.25, 2.0];
    /// let y = x.hardshrink_with(ShrinkOptions::new().lambd(1.5))?;
    /// assert_eq!(y, tensor![0.0, 0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[torsh_tensor::names_caller]
    pub fn hardshrink_with(&self, options: ShrinkOptions) -> Result<Tensor> {
        apply(
            &parametric::hardshrink,
            self,
            &[],
            &numbers::Hardshrink {
                lambd: options.lambd.into(),
            },
            false,
        )
    }

    /// `x - tanh(x)` of each element (`torch.nn.functional.tanhshrink`).
    ///
    /// Shape stays; integers give the default dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, 1.0];
    /// assert!(x.tanhshrink()?.allclose(&tensor![0.0, 0.238406])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[torsh_tensor::names_caller]
    pub fn tanhshrink(&self) -> Result<Tensor> {
        self.sub(self.tanh()?)
    }

    /// `log(1 + exp(x))`, linear above 20 (`torch.nn.functional.softplus`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, 1.0, 30.0];
    /// assert!(x.softplus()?.allclose(&tensor![0.693147, 1.313262, 30.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[track_caller]
    pub fn softplus(&self) -> Result<Tensor> {
        self.softplus_with(SoftplusOptions::default())
    }

    /// [`Tensor::softplus`] with `log(1 + exp(beta * x)) / beta`, linear where `beta * x` is above
    /// `threshold`.
    ///
    /// ```
    /// use torsh_tensor::{SoftplusOptions, tensor};
    /// let x = tensor![0.0, 2.0];
    /// let y = x.softplus_with(SoftplusOptions::new().beta(2.0).threshold(3.0))?;
    /// // 2 * 2.0 is above the threshold.
    /// assert!(y.allclose(&tensor![0.346574, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[torsh_tensor::names_caller]
    pub fn softplus_with(&self, options: SoftplusOptions) -> Result<Tensor> {
        apply(
            &parametric::softplus,
            self,
            &[],
            &numbers::Softplus {
                beta: options.beta.into(),
                threshold: options.threshold.into(),
            },
            false,
        )
    }

    /// `x` times the probability that a standard normal draw is below it
    /// (`torch.nn.functional.gelu`).
    ///
    /// Shape and dtype stay; an error for integers, bools and complex numbers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![-1.0, 0.0, 1.0];
    /// assert!(x.gelu()?.allclose(&tensor![-0.158655, 0.0, 0.841345])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[torsh_tensor::names_caller]
    pub fn gelu(&self) -> Result<Tensor> {
        apply(&parametric::gelu_erf, self, &[], NONE, false).map_err(|e| e.renamed("gelu"))
    }

    /// [`Tensor::gelu`], exact (`"none"`) or by a hyperbolic tangent (`"tanh"`); an error for another
    /// word.
    ///
    /// ```
    /// use torsh_tensor::{GeluOptions, tensor};
    /// let x = tensor![-1.0, 0.0, 1.0];
    /// let y = x.gelu_with(GeluOptions::new().approximate("tanh"))?;
    /// assert!(y.allclose(&tensor![-0.158808, 0.0, 0.841192])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[torsh_tensor::names_caller]
    pub fn gelu_with(&self, options: GeluOptions) -> Result<Tensor> {
        match options.approximate.as_str() {
            "none" => self.gelu(),
            "tanh" => {
                apply(&parametric::gelu_tanh, self, &[], NONE, false).map_err(|e| e.renamed("gelu"))
            }
            other => Err(TorshError::invalid(
                "gelu",
                format!("approximate argument must be either none or tanh, got {other}"),
            )),
        }
    }

    /// The first half of a dimension times the sigmoid of the second (`torch.nn.functional.glu`).
    ///
    /// The dimension's size halves; keeps the dtype. An error for an odd size, and for a dimension
    /// out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0, 0.0, 0.0];
    /// // sigmoid(0) is 0.5.
    /// assert_eq!(x.glu(0)?, tensor![0.5, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn glu(&self, dim: impl crate::IntoDim) -> Result<Tensor> {
        if self.ndim() == 0 {
            return self.named(
                "glu",
                Err(TorshError::shape(
                    "",
                    "glu does not support 0-dimensional tensors",
                )),
            );
        }
        let d = self.dim("glu", dim.value())?;
        let n = self.dims()[d];
        if !n.is_multiple_of(2) {
            let e = TorshError::shape(
                "",
                format!("Halving dimension must be even, but dimension {d} is size {n}"),
            );
            return self.named("glu", Err(e));
        }
        if !self.dtype().is_differentiable() {
            let text = format!(
                "glu of {} is not defined: it takes floating point numbers",
                self.dtype()
            );
            return self.named("glu", Err(TorshError::dtype("", text)));
        }
        let half = n / 2;
        self.narrow(d, 0, half)?
            .mul(self.narrow(d, half, half)?.sigmoid()?)
    }

    /// `x`, and `weight * x` for negative elements; `weight` has one element or one for each channel
    /// (dimension 1; `torch.nn.functional.prelu`).
    ///
    /// Shape and dtype stay. An error for a weight of another number of elements or another dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[-1.0, 2.0], [-3.0, -4.0]];
    /// assert_eq!(x.prelu(&tensor![0.5, 0.25])?, tensor![[-0.5, 2.0], [-1.5, -1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn prelu(&self, weight: &Tensor) -> Result<Tensor> {
        body(PRELU.autocast, [self, weight], |[x, w]| x.leaky(w))
    }

    #[track_caller]
    fn leaky(&self, weight: &Tensor) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let refuse = |why: String| {
            Err(TorshError::invalid("", why).in_op(
                "prelu",
                || vec![self.describe(), weight.describe()],
                at,
            ))
        };
        if weight.dtype() != self.dtype() {
            return refuse(format!(
                "Type promoting not supported. Got {} and {}",
                self.dtype(),
                weight.dtype()
            ));
        }
        if weight.ndim() > 1 {
            return refuse(format!(
                "Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
                weight.ndim()
            ));
        }
        let mut w = weight.clone();
        if weight.numel() != 1 {
            if self.ndim() == 0 {
                return refuse("Not allow zero-dim input tensor.".into());
            }
            let channels = self.dims().get(1).copied().unwrap_or(1);
            if channels != weight.numel() {
                return refuse(format!(
                    "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = {channels}.",
                    weight.numel()
                ));
            }
            let mut shape = vec![1usize; self.ndim()];
            if let Some(c) = shape.get_mut(1) {
                *c = channels;
            }
            w = w.reshape(shape)?;
        } else if self.ndim() == 0 {
            w = w.reshape(())?;
        }
        apply(&parametric::prelu_kernel, self, &[Arg::T(&w)], NONE, false)
            .map_err(|e| e.renamed("prelu"))
    }
}
