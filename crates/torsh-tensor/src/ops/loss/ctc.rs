//! Connectionist temporal classification.

use smallvec::SmallVec;
use torsh_core::{DType, Kernel, Result, Shape, TorshError, attrs};

use super::Reduction;
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call, call1};
use crate::options::options;
use crate::record::{OpRecord, Plan, Spec, sample};
use crate::{IntoShape, Tensor, Value};

pub(super) const RECORDS: &[&OpRecord] = &[&CTC_LOSS, &CTC_LOSS_OF_BATCH, &CTC_LOSS_BACKWARD];

pub static CTC_LOSS: OpRecord = OpRecord::new(
    "nn.functional.ctc_loss",
    "The negative logarithm of the probability that log-probabilities [t, n, c] or [t, c] give to sequences of labels, summed over all ways to spread these over the time with blanks between them; the mean divides each by its target's length first.",
    "(Tensor log_probs, Tensor targets, Any input_lengths, Any target_lengths, int blank=0, str reduction='mean', bool zero_infinity=False)",
)
.autocast(Autocast::Fp32)
.by_name(|b| {
    let options = CtcLossOptions {
        blank: b.int(4),
        reduction: Reduction::of(b.str(5))?,
        zero_infinity: b.bool(6),
    };
    let inputs = given("input_lengths", b.value(2))?;
    let targets = given("target_lengths", b.value(3))?;
    b.tensor(0)?.ctc_loss_with(b.tensor(1)?, &inputs[..], &targets[..], options).map(Value::Tensor)
})
.samples(|s| {
    let scores = s.real(&[5, 2, 4])?.log_softmax(-1)?;
    let labels = Tensor::from_data(&[1i64, 2, 2, 3, 1, 1], [2, 3])?;
    let call = |inputs: [i64; 2], targets: [i64; 2]| {
        sample![scores.clone(), labels.clone(), inputs, targets]
    };
    Ok(vec![call([5, 5], [3, 2]), call([5, 4], [2, 0]).kw("reduction", "none")])
});

/// The losses of a batch. Results: the losses, the forward variables.
pub static CTC_LOSS_OF_BATCH: OpRecord =
    OpRecord::new(
        "_ctc_loss",
        "The losses of ctc_loss of a batch.",
        "(Tensor log_probs, Tensor targets, *, int[] input_lengths, int[] target_lengths, int blank, bool zero_infinity)",
    )
    .internal()
        .kernel(Kernel::CtcLoss, |c| {
            let x = c.tensor(0)?;
            let [time, n, _] = *x.dims() else {
                return Err(TorshError::shape("", "log_probs must be [t, n, c]"));
            };
            let lengths = &c.attrs::<attrs::CtcLoss>()?.target_lengths;
            let longest = lengths.iter().copied().max().unwrap_or(0);
            let states = 2 * usize::try_from(longest).unwrap_or(0) + 1;
            Ok(Plan::many(
                x.dtype(),
                [
                    Spec::new(Shape::new(&[n]), x.dtype()),
                    Spec::new(Shape::new(&[n, time, states]), x.dtype()),
                ],
            ))
        })
        .backward(crate::record::Backward::Full {
            inputs: 0b11,
            outputs: 0b11,
            constant: 0b10,
            formula: |c| {
                let (x, labels, losses, alpha) =
                    (c.input(0)?, c.input(1)?, c.output(0)?, c.output(1)?);
                let args = [
                    Arg::T(c.g()),
                    Arg::T(&x),
                    Arg::T(&labels),
                    Arg::T(&losses),
                    Arg::T(&alpha),
                ];
                let g = call1(&CTC_LOSS_BACKWARD, &args, c.attributes())?;
                Ok(SmallVec::from_iter([Some(g), None]))
            },
        });

/// The gradient of the log-probabilities, which has no derivative of its own (nor in PyTorch).
pub static CTC_LOSS_BACKWARD: OpRecord = OpRecord::new(
    "_ctc_loss_backward",
    "The gradient of the log-probabilities of ctc_loss.",
    "(Tensor grad_output, Tensor log_probs, Tensor targets, Tensor losses, Tensor log_alpha, *, int[] input_lengths, int[] target_lengths, int blank, bool zero_infinity)",
)
.internal()
.kernel(Kernel::CtcLossBackward, |c| {
    let x = c.tensor(1)?;
    Ok(Plan::one(x.dtype(), x.shape().clone(), x.dtype()))
});

options! {
    /// PyTorch's keyword arguments of `F.ctc_loss`.
    ///
    /// ```
    /// use torsh_tensor::{CtcLossOptions, Reduction};
    /// let options = CtcLossOptions::new();
    /// assert_eq!(options.blank, 0);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert!(!options.zero_infinity);
    /// assert_eq!(options.blank(3).blank, 3);
    /// ```
    CtcLossOptions {
        /// The label that stands between others and means none of them.
        blank: i64 = 0;
        /// How the losses become the result; the mean divides each by its target's length first.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
        /// Whether infinite losses, of targets too long for their inputs, count as 0.
        zero_infinity: bool = false;
    }
}

/// The lengths of sequences: integers, or a tensor of them.
pub trait IntoLengths {
    /// One length for each sequence.
    fn lengths(self) -> Result<Vec<i64>>;
}

impl<L: IntoShape> IntoLengths for L {
    fn lengths(self) -> Result<Vec<i64>> {
        Ok(self.sizes().to_vec())
    }
}

impl IntoLengths for &Tensor {
    fn lengths(self) -> Result<Vec<i64>> {
        if self.dtype().is_differentiable() || self.dtype() == DType::Bool {
            return Err(TorshError::dtype(
                "",
                format!("lengths must be integral, got {}", self.describe()),
            ));
        }
        self.to_vec::<i64>()
    }
}

fn given(name: &str, value: &Value) -> Result<Vec<i64>> {
    if let Value::Tensor(t) = value {
        return t.lengths();
    }
    let int = |v: &Value| match v {
        Value::Int(i) => Some(*i),
        _ => None,
    };
    value
        .items()
        .and_then(|items| items.iter().map(int).collect())
        .ok_or_else(|| {
            TorshError::invalid(
                "",
                format!(
                    "{name} must be integers or a tensor of them, not {}",
                    value.kind()
                ),
            )
        })
}

/// Checks the lengths of sequences against the sizes of a batch.
fn check_lengths(name: &str, lengths: &[i64], batch: usize, limit: Option<usize>) -> Result<()> {
    if lengths.len() != batch {
        return Err(TorshError::shape(
            "",
            format!(
                "{name} must be of size batch_size: there are {batch} sequences and {} lengths",
                lengths.len()
            ),
        ));
    }
    for &length in lengths {
        if length < 0 {
            return Err(TorshError::invalid(
                "",
                format!("Expected {name} to have value at least 0, but got value {length}"),
            ));
        }
        if let Some(limit) = limit
            && length as usize > limit
        {
            return Err(TorshError::invalid(
                "",
                format!("Expected {name} to have value at most {limit}, but got value {length}"),
            ));
        }
    }
    Ok(())
}

fn ctc_loss(
    x: &Tensor,
    targets: &Tensor,
    inputs: Vec<i64>,
    lengths: Vec<i64>,
    options: &CtcLossOptions,
) -> Result<Tensor> {
    let (batch, x) = match *x.dims() {
        [_, n, _] => (Some(n), x.clone()),
        [_, _] => (None, x.unsqueeze(1)?),
        _ => {
            return Err(TorshError::shape(
                "",
                format!(
                    "log_probs must be [t, n, c] or [t, c], got {}",
                    x.describe()
                ),
            ));
        }
    };
    if x.numel() == 0 {
        return Err(TorshError::shape("", "log_probs tensor must not be empty"));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", x.dtype()),
        ));
    }
    let (time, n, classes) = (x.dims()[0], x.dims()[1], x.dims()[2]);
    if options.blank < 0 || options.blank as usize >= classes {
        return Err(TorshError::invalid(
            "",
            format!(
                "blank must be in label range, from 0 to {}, got {}",
                classes - 1,
                options.blank
            ),
        ));
    }
    check_lengths("input_lengths", &inputs, n, Some(time))?;
    check_lengths("target_lengths", &lengths, n, None)?;
    let longest = lengths.iter().copied().max().unwrap_or(0) as usize;
    let total = lengths.iter().fold(0i64, |sum, &l| sum.saturating_add(l));
    let expected = match *targets.dims() {
        [count] if count as i64 == total => None,
        [count] => Some(format!(
            "Expected tensor to have size {total} at dimension 0, but got size {count} for targets"
        )),
        [rows, _] if rows != n => Some(format!(
            "Expected tensor to have size {n} at dimension 0, but got size {rows} for targets"
        )),
        [_, width] if width < longest => Some(format!(
            "Expected tensor to have size at least {longest} at dimension 1, but got size {width} for targets"
        )),
        [_, _] => None,
        _ => Some(format!(
            "targets must be [n, s] or all labels in one dimension, got {}",
            targets.describe()
        )),
    };
    if let Some(message) = expected {
        return Err(TorshError::shape("", message));
    }
    // PyTorch takes labels of a floating-point dtype too, which hold whole numbers.
    let targets = targets.to_dtype(DType::I64)?;
    let attrs = attrs::CtcLoss {
        input_lengths: inputs.into(),
        target_lengths: lengths.into(),
        blank: options.blank as usize,
        zero_infinity: options.zero_infinity,
    };
    let args = [Arg::T(&x), Arg::T(&targets)];
    let mut losses = call(&CTC_LOSS_OF_BATCH, &args, &attrs)?
        .into_iter()
        .next()
        .ok_or_else(|| TorshError::Other("_ctc_loss gave no result".into()))?;
    if options.zero_infinity {
        losses = losses.where_zero(&losses.eq(f64::INFINITY)?, true)?;
    }
    match options.reduction {
        Reduction::Mean => {
            let lengths: Vec<i64> = attrs.target_lengths.iter().map(|&l| l.max(1)).collect();
            let lengths = Tensor::from_data_on(&lengths, [n], x.device())?;
            losses.div(&lengths)?.mean()
        }
        Reduction::None if batch.is_none() => losses.squeeze(0),
        r => r.apply(losses),
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// The mean over a batch of the connectionist temporal classification loss, each divided by its
    /// target's length (`torch.nn.functional.ctc_loss`): log-probabilities `[t, n, c]` or `[t, c]`,
    /// float32 or float64; labels `[n, s]`, or all one after the other; and the lengths of both, as
    /// integers or a tensor.
    ///
    /// The gradient is, as PyTorch's, that of the scores whose log-softmax these log-probabilities
    /// are, and has no derivative of its own.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// // Two steps over a blank (0) and one label; three paths of probability 1/4 spell the label.
    /// let log_probs = tensor![[[0.5, 0.5]], [[0.5, 0.5]]].log()?;
    /// let loss = log_probs.ctc_loss(&tensor![[1]], [2], [1])?;
    /// assert!((loss.item::<f32>()? - 0.287682).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = log_probs)]
    #[torsh_tensor::names_caller]
    pub fn ctc_loss(
        &self,
        targets: &Tensor,
        input_lengths: impl IntoLengths,
        target_lengths: impl IntoLengths,
    ) -> Result<Tensor> {
        let options = CtcLossOptions::default();
        self.ctc_loss_with(targets, input_lengths, target_lengths, options)
    }

    /// [`Tensor::ctc_loss`] with another `blank` or `reduction`, or with infinite losses as 0
    /// (`zero_infinity`).
    ///
    /// ```
    /// use torsh_tensor::{CtcLossOptions, tensor};
    /// // The second label cannot be reached in one step.
    /// let log_probs = tensor![[[0.5, 0.5]]].log()?;
    /// let options = CtcLossOptions::new().zero_infinity(true);
    /// let loss = log_probs.ctc_loss_with(&tensor![[1, 1]], [1], [2], options)?;
    /// assert_eq!(loss.item::<f32>()?, 0.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = log_probs)]
    #[torsh_tensor::names_caller]
    pub fn ctc_loss_with(
        &self,
        targets: &Tensor,
        input_lengths: impl IntoLengths,
        target_lengths: impl IntoLengths,
        options: CtcLossOptions,
    ) -> Result<Tensor> {
        let loss = || {
            let (inputs, lengths) = (input_lengths.lengths()?, target_lengths.lengths()?);
            body(CTC_LOSS.autocast, [self], |[x]| {
                ctc_loss(x, targets, inputs, lengths, &options)
            })
        };
        loss().map_err(|e| e.renamed("ctc_loss"))
    }
}
