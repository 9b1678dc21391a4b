//! Batch normalisation.

use smallvec::SmallVec;
use torsh_core::{DType, Kernel, Result, Shape, TorshError, attrs};

use super::definitions;
use crate::call::{Arg, call};
use crate::node::Grads;
use crate::options::options;
use crate::record::{Backward, OpRecord, Plan, PlanCx, Spec, sample};
use crate::{BackwardCx, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] =
    &[&BATCH_NORM, &BATCH_NORM_ACTIVATION, &BATCH_NORM_BACKWARD];

/// What statistics are held in.
pub(super) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    }
}

/// Results: the normalised input, mean, inverse standard deviation and, where wanted, the unbiased
/// variance.
fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let x = c.tensor(0)?;
    if x.ndim() < 2 {
        return Err(TorshError::shape(
            "",
            format!(
                "expected 2D or larger input with channels in dimension 1, got {}",
                x.shape()
            ),
        ));
    }
    if !x.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", x.dtype()),
        ));
    }
    let channels = x.dims()[1];
    for (i, name) in [
        (1, "weight"),
        (2, "bias"),
        (3, "running_mean"),
        (4, "running_var"),
    ] {
        if let Some(t) = c.opt_tensor(i) {
            if t.dims() != [channels] {
                return Err(TorshError::shape(
                    "",
                    format!(
                        "{name} should contain {channels} elements not {}",
                        t.shape()
                    ),
                ));
            }
            if t.dtype() != x.dtype() && t.dtype() != wide(x.dtype()) {
                return Err(TorshError::dtype(
                    "",
                    format!(
                        "expected scalar type {} but found {} for {name}",
                        x.dtype(),
                        t.dtype()
                    ),
                ));
            }
        }
    }
    let of = |shape: &Shape, dtype: DType| Spec::new(shape.clone(), dtype);
    // Statistics of the half types are rounded to them too, unless the parameters are float32.
    let half = (1..5).all(|i| c.opt_tensor(i).is_none_or(|t| t.dtype() == x.dtype()));
    let dtype = if half { x.dtype() } else { wide(x.dtype()) };
    let each = Shape::new(&[channels]);
    let mut outputs = vec![of(x.shape(), x.dtype()), of(&each, dtype), of(&each, dtype)];
    if c.attrs::<attrs::BatchNorm>()?.variance {
        outputs.push(of(&each, dtype));
    }
    Ok(Plan::many(x.dtype(), outputs))
}

#[torsh_tensor::by_name(Tensor::batch_norm_with(.., BatchNormOptions))]
pub static BATCH_NORM: OpRecord = OpRecord::new(
    "nn.functional.batch_norm",
    "Normalises each channel (dimension 1) by the batch's mean and variance in training, which move the running ones, or by the running ones.",
    "(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05)",
)
.kernel(Kernel::BatchNorm, plan)
.definition(definitions::batch_norm)
.backward(Backward::Full {
    inputs: 0b11,
    outputs: 0b110,
    constant: 0b1110,
    formula: |c| {
        if c.needs(3) || c.needs(4) {
            return Err(TorshError::autograd("batch_norm", "the running statistics have no derivative")
                .with_hint("detach() them"));
        }
        if crate::is_grad_enabled() {
            return by_ops(c);
        }
        let weight = if c.has_input(1) { Some(c.input(1)?) } else { None };
        let (x, mean, invstd) = (c.input(0)?, c.output(1)?, c.output(2)?);
        let args = [Arg::T(c.g()), Arg::T(&x), Arg::opt(weight.as_ref()), Arg::T(&mean), Arg::T(&invstd)];
        let training = c.attrs::<attrs::BatchNorm>()?.training;
        let grads = call(&BATCH_NORM_BACKWARD, &args, &attrs::BatchNormBackward { training })?;
        Ok(grads.into_iter().enumerate().map(|(i, g)| c.needs(i).then_some(g)).collect())
    },
})
.samples(|s| {
    let per_channel = |s: &mut crate::sample::Sampler| s.uniform(&[3], 0.5, 2.0);
    Ok(vec![
        sample![s.real(&[4, 3])?, Value::None, Value::None, weight = per_channel(s)?, bias = per_channel(s)?, training = true],
        sample![s.real(&[2, 3, 2, 5])?, Value::None, Value::None, training = true],
    ])
});

pub static BATCH_NORM_ACTIVATION: OpRecord = OpRecord::new(
    "_batch_norm_activation",
    "batch_norm by the running statistics, a tensor added to it, and the sum clamped.",
    "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, Tensor? other, *, bool training, float eps, bool variance, float? min, float? max)",
)
.internal()
.kernel(Kernel::BatchNorm, |c| {
    if let (x, Some(other)) = (c.tensor(0)?, c.opt_tensor(5))
        && (other.shape() != x.shape() || other.dtype() != x.dtype())
    {
        return Err(TorshError::shape(
            "",
            "the tensor to add is not of the input's kind",
        ));
    }
    plan(c)
})
.definition(definitions::batch_norm_activation);

/// The gradients of input, weight and bias in one kernel, for when they are not differentiated
/// again.
pub static BATCH_NORM_BACKWARD: OpRecord =
    OpRecord::new(
        "_batch_norm_backward",
        "The gradients of batch_norm.",
        "(Tensor grad_output, Tensor input, Tensor? weight, Tensor mean, Tensor invstd, *, bool training)",
    )
    .internal()
        .kernel(Kernel::BatchNormBackward, |c| {
            let x = c.tensor(1)?;
            let each = Shape::new(&[x.dims()[1]]);
            let spec = |shape: &Shape, dtype| Spec::new(shape.clone(), dtype);
            let dtype = wide(x.dtype());
            Ok(Plan::many(
                x.dtype(),
                [
                    spec(x.shape(), x.dtype()),
                    spec(&each, dtype),
                    spec(&each, dtype),
                ],
            ))
        })
        .definition(definitions::batch_norm_backward);

/// The gradients in ops that have derivatives.
fn by_ops(c: &BackwardCx<'_>) -> Result<Grads> {
    let x = c.input(0)?;
    let dtype = wide(x.dtype());
    let (x, g) = (x.to_dtype(dtype)?, c.g().to_dtype(dtype)?);
    let dims: Vec<i64> = (0..x.ndim() as i64).filter(|&d| d != 1).collect();
    let count = (x.numel() / x.dims()[1].max(1)) as f64;
    let mut along = vec![1i64; x.ndim()];
    along[1] = -1;
    let mean_of = |t: &Tensor| t.sum_dim(&dims[..], true)?.div(count);
    let &attrs::BatchNorm { training, eps, .. } = c.attrs()?;
    let (centred, invstd) = if training {
        let centred = x.sub(&mean_of(&x)?)?;
        let variance = mean_of(&centred.mul(&centred)?)?;
        let invstd = variance.add(eps)?.rsqrt()?;
        (centred, invstd)
    } else {
        (
            x.sub(&c.output(1)?.detach().reshape(&along[..])?)?,
            c.output(2)?.detach().reshape(&along[..])?,
        )
    };
    let hat = centred.mul(&invstd)?;
    let mut grads: Grads = SmallVec::from_iter([None, None, None]);
    if c.needs(0) {
        let mut inner = g.clone();
        if training {
            inner = inner
                .sub(&mean_of(&g)?)?
                .sub(&hat.mul(&mean_of(&g.mul(&hat)?)?)?)?;
        }
        let mut scale = invstd;
        if c.has_input(1) {
            scale = scale.mul(&c.input(1)?.to_dtype(dtype)?.reshape(&along[..])?)?;
        }
        grads[0] = Some(inner.mul(&scale)?);
    }
    if c.needs(1) {
        grads[1] = Some(g.mul(&hat)?.sum_dim(&dims[..], false)?);
    }
    if c.needs(2) {
        grads[2] = Some(g.sum_dim(&dims[..], false)?);
    }
    Ok(grads)
}

options! {
    /// PyTorch's keyword arguments of `batch_norm`.
    ///
    /// ```
    /// use torsh_tensor::BatchNormOptions;
    /// let options = BatchNormOptions::new();
    /// assert!(!options.training);
    /// assert_eq!(options.momentum, 0.1);
    /// assert_eq!(options.eps, 1e-5);
    /// assert!(options.training(true).training);
    /// ```
    BatchNormOptions {
        /// A factor for each channel.
        weight: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Added to each channel.
        bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the batch's own statistics are used, and the running ones moved.
        training: bool = false;
        /// How much a batch moves the running statistics.
        momentum: f64 = 0.1;
        /// Added to the variance.
        eps: f64 = 1e-5;
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// Each channel (dimension 1) less its running mean, over its standard deviation by the running
    /// variance (`torch.nn.functional.batch_norm`).
    ///
    /// Shape and dtype stay; the statistics are `[C]`. An error for other shapes, and for integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 10.0], [3.0, 30.0]];
    /// let y = x.batch_norm(&tensor![1.0, 10.0], &tensor![4.0, 100.0])?;
    /// let expected = tensor![[0.0, 0.0], [1.0, 2.0]];
    /// assert!(y.sub(&expected)?.abs()?.max()?.item::<f32>()? < 1e-4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn batch_norm(&self, running_mean: &Tensor, running_var: &Tensor) -> Result<Tensor> {
        self.batch_norm_with(running_mean, running_var, BatchNormOptions::default())
    }

    /// [`Tensor::batch_norm`] with options: a `weight` and `bias` `[C]`, `eps`, and `training`, in
    /// which the batch's own statistics count.
    ///
    /// In training the running statistics may be absent; where they are there, they move by
    /// `momentum`. An error, in training, for a single value for each channel.
    ///
    /// ```
    /// use torsh_tensor::{BatchNormOptions, tensor};
    /// let x = tensor![[1.0, 10.0], [3.0, 30.0]];
    /// let (mean, var) = (tensor![0.0, 0.0], tensor![1.0, 1.0]);
    /// let y = x.batch_norm_with(&mean, &var, BatchNormOptions::new().training(true))?;
    /// let expected = tensor![[-1.0, -1.0], [1.0, 1.0]];
    /// assert!(y.sub(&expected)?.abs()?.max()?.item::<f32>()? < 1e-4);
    /// // A tenth of the way to the batch's means, 2 and 20.
    /// assert!(mean.allclose(&tensor![0.2, 2.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn batch_norm_with<'m, 'v>(
        &self,
        running_mean: impl Into<Option<&'m Tensor>>,
        running_var: impl Into<Option<&'v Tensor>>,
        options: BatchNormOptions,
    ) -> Result<Tensor> {
        let (running_mean, running_var) = (running_mean.into(), running_var.into());
        let BatchNormOptions {
            weight,
            bias,
            training,
            momentum,
            eps,
        } = options;
        let (weight, bias) = (weight.as_ref(), bias.as_ref());
        let op = BATCH_NORM.name;
        if !training && (running_mean.is_none() || running_var.is_none()) {
            let message = "Expected running_mean and running_var to be defined when training=False";
            return self.named(op, Err(TorshError::invalid("", message)));
        }
        if training && self.ndim() >= 2 && self.numel() == self.dims()[1] && self.numel() > 0 {
            let message = format!(
                "Expected more than 1 value per channel when training, got input size {}",
                self.shape()
            );
            let e = TorshError::invalid("", message)
                .with_hint("for predictions call eval() on the model; for training use larger batches, or drop_last(true)");
            return self.named(op, Err(e));
        }
        if self.numel() == 0 {
            // There is nothing to normalise, whatever the shape.
            let mut out = self.copy()?;
            if let Some(w) = weight.filter(|w| w.numel() > 0) {
                out = out.mul(&w.select(0, 0)?)?;
            }
            return match bias.filter(|b| b.numel() > 0) {
                Some(b) => out.add(&b.select(0, 0)?),
                None => Ok(out),
            };
        }
        let moves = training && (running_mean.is_some() || running_var.is_some());
        let args = [
            Arg::T(self),
            Arg::opt(weight),
            Arg::opt(bias),
            Arg::opt(running_mean),
            Arg::opt(running_var),
        ];
        let attrs = attrs::BatchNorm {
            training,
            eps,
            variance: moves,
            min: None,
            max: None,
        };
        let results = call(&BATCH_NORM, &args, &attrs)?;
        if moves {
            crate::no_grad(|| {
                for (running, i) in [(running_mean, 1), (running_var, 3)] {
                    if let (Some(r), Some(new)) = (running, results.get(i)) {
                        r.mul_(1.0 - momentum)?.add_(&new.mul(momentum)?)?;
                    }
                }
                Ok(())
            })?;
        }
        results
            .into_iter()
            .next()
            .ok_or_else(|| TorshError::invalid(op, "the kernel gave no result"))
    }

    /// [`Tensor::batch_norm_with`], plus `residual` where there is one, clamped to `[least, most]`: the end of a
    /// convolutional block, whose activation is a ReLU (`[0, inf]`) or ReLU6 (`[0, 6]`).
    ///
    /// Where the running statistics are used and no gradient is recorded, all of it is one pass over memory, with the
    /// same results as the three operations. Elsewhere they run one after the other. A NaN stays one. The errors are
    /// those of [`Tensor::batch_norm_with`] and [`Tensor::add`].
    ///
    /// ```
    /// use torsh_tensor::{BatchNormOptions, no_grad, tensor};
    /// let x = tensor![[1.0, 10.0], [3.0, 30.0]];
    /// let (mean, var) = (tensor![2.0, 20.0], tensor![1.0, 1.0]);
    /// let options = BatchNormOptions::new().eps(0.0);
    /// let residual = tensor![[2.0, 4.0], [2.0, 4.0]];
    /// let relu = [0.0, f64::INFINITY];
    /// let y = no_grad(|| x.batch_norm_activation(&mean, &var, options, &residual, relu))?;
    /// assert_eq!(y, tensor![[1.0, 0.0], [3.0, 14.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn batch_norm_activation<'m, 'v, 'r>(
        &self,
        running_mean: impl Into<Option<&'m Tensor>>,
        running_var: impl Into<Option<&'v Tensor>>,
        options: BatchNormOptions,
        residual: impl Into<Option<&'r Tensor>>,
        clamp: [f64; 2],
    ) -> Result<Tensor> {
        let (running_mean, running_var) = (running_mean.into(), running_var.into());
        let residual = residual.into();
        let (weight, bias) = (options.weight.as_ref(), options.bias.as_ref());
        let all = [
            Some(self),
            running_mean,
            running_var,
            weight,
            bias,
            residual,
        ];
        let recorded = crate::is_grad_enabled() && all.iter().flatten().any(|t| t.requires_grad());
        let same = residual.is_none_or(|r| r.shape() == self.shape() && r.dtype() == self.dtype());
        let fused = !options.training && !recorded && same && self.numel() > 0;
        let (true, Some(mean), Some(var)) = (fused, running_mean, running_var) else {
            let y = self.batch_norm_with(running_mean, running_var, options)?;
            let y = match residual {
                Some(residual) => y.add(residual)?,
                None => y,
            };
            let [least, most] = clamp;
            return if least == 0.0 && most == f64::INFINITY {
                y.relu()
            } else {
                y.clamp(least, most)
            };
        };
        let args = [
            Arg::T(self),
            Arg::opt(weight),
            Arg::opt(bias),
            Arg::T(mean),
            Arg::T(var),
            Arg::opt(residual),
        ];
        let attrs = attrs::BatchNorm {
            training: false,
            eps: options.eps,
            variance: false,
            min: Some(clamp[0]),
            max: Some(clamp[1]),
        };
        let result = call(&BATCH_NORM_ACTIVATION, &args, &attrs)?
            .into_iter()
            .next();
        result.ok_or_else(|| TorshError::invalid(BATCH_NORM.name, "the kernel gave no result"))
    }
}
