//! Losses that ask for a margin: of embeddings, rankings and triplets.

use torsh_core::attrs::NONE;
use torsh_core::pointwise::numbers;
use torsh_core::{Result, TorshError};

use super::{Reduction, in_steps, methods};
use crate::autocast::{Autocast, body};
use crate::call::{Arg, call1};
use crate::ops::pointwise::parametric;
use crate::options::options;
use crate::record::{OpRecord, Sample, sample};
use crate::{LossOptions, PairwiseDistanceOptions, Tensor, Value};

pub(super) const RECORDS: &[&OpRecord] = &[
    &HINGE_EMBEDDING_LOSS,
    &SOFT_MARGIN_LOSS,
    &MARGIN_RANKING_LOSS,
    &COSINE_EMBEDDING_LOSS,
    &TRIPLET_MARGIN_LOSS,
];

#[torsh_tensor::by_name(Tensor::hinge_embedding_loss_with(.., HingeEmbeddingLossOptions))]
pub static HINGE_EMBEDDING_LOSS: OpRecord = OpRecord::new(
    "nn.functional.hinge_embedding_loss",
    "The input where the target is 1, and what it misses of the margin where the target is -1; the mean or sum.",
    "(Tensor input, Tensor target, float margin=1.0, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let y = Tensor::from_data(&[1i64, -1, -1, 1, 1, -1], [2, 3])?;
    let call = |x: Tensor| sample![x, y.clone()];
    Ok(vec![call(s.real(&[2, 3])?), call(s.real(&[2, 3])?).kw("margin", 2.5).kw("reduction", "none")])
});

#[torsh_tensor::by_name(Tensor::soft_margin_loss_with(.., LossOptions))]
pub static SOFT_MARGIN_LOSS: OpRecord = OpRecord::new(
    "nn.functional.soft_margin_loss",
    "The logarithm of 1 + exp(-target * input) for targets 1 and -1; the mean or sum.",
    "(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(super::calls);

#[torsh_tensor::by_name(Tensor::margin_ranking_loss_with(.., MarginRankingLossOptions))]
pub static MARGIN_RANKING_LOSS: OpRecord = OpRecord::new(
    "nn.functional.margin_ranking_loss",
    "What the difference of two scores misses of the margin: of being above it where the target is 1, below it where the target is -1; the mean or sum.",
    "(Tensor input1, Tensor input2, Tensor target, float margin=0, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let y = Tensor::from_data(&[1i64, -1, -1, 1, 1, -1], [2, 3])?;
    let (a, b) = (s.real(&[2, 3])?, s.distinct(&[2, 3])?);
    let call = || sample![a.clone(), b.clone(), y.clone()];
    Ok(vec![call(), call().kw("margin", 2.5).kw("reduction", "none")])
});

#[torsh_tensor::by_name(Tensor::cosine_embedding_loss_with(.., CosineEmbeddingLossOptions))]
pub static COSINE_EMBEDDING_LOSS: OpRecord = OpRecord::new(
    "nn.functional.cosine_embedding_loss",
    "1 less the cosine of two vectors where the target is 1, and the cosine's excess over the margin where the target is -1; the mean or sum.",
    "(Tensor input1, Tensor input2, Tensor target, float margin=0, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let y = Tensor::from_data(&[1i64, -1, -1], [3])?;
    let one = Tensor::from_data(&[-1i64], ())?;
    Ok(vec![
        sample![s.real(&[3, 4])?, s.real(&[3, 4])?, y.clone()],
        sample![s.real(&[3, 4])?, s.real(&[3, 4])?, y, margin = -0.9, reduction = "none"],
        sample![s.real(&[4])?, s.real(&[4])?, one, margin = -0.8],
    ])
});

#[torsh_tensor::by_name(Tensor::triplet_margin_loss_with(.., TripletMarginLossOptions))]
pub static TRIPLET_MARGIN_LOSS: OpRecord = OpRecord::new(
    "nn.functional.triplet_margin_loss",
    "What the distance to negative misses of exceeding that to positive by the margin; with swap the distance between these two counts where it is smaller; the mean or sum.",
    "(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float eps=1e-06, bool swap=False, bool? size_average=None, bool? reduce=None, str reduction='mean')",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let mut call = |p: f64| -> Result<Sample> {
        let rows = [s.real(&[3, 4])?, s.distinct(&[3, 4])?, s.uniform(&[3, 4], 0.1, 2.0)?];
        Ok(Sample::new(rows.map(Value::Tensor)).kw("p", p))
    };
    Ok(vec![call(2.0)?, call(3.0)?.kw("swap", true).kw("margin", 4.0).kw("reduction", "none")])
});

options! {
    /// PyTorch's keyword arguments of `F.hinge_embedding_loss`.
    ///
    /// ```
    /// use torsh_tensor::{HingeEmbeddingLossOptions, Reduction};
    /// let options = HingeEmbeddingLossOptions::new();
    /// assert_eq!(options.margin, 1.0);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.margin(0.25).margin, 0.25);
    /// ```
    HingeEmbeddingLossOptions {
        /// How large distances of unlike pairs are asked to be.
        margin: f64 = 1.0;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.margin_ranking_loss`.
    ///
    /// ```
    /// use torsh_tensor::{MarginRankingLossOptions, Reduction};
    /// let options = MarginRankingLossOptions::new();
    /// assert_eq!(options.margin, 0.0);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.margin(0.25).margin, 0.25);
    /// ```
    MarginRankingLossOptions {
        /// How far apart the scores are asked to be.
        margin: f64 = 0.0;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.cosine_embedding_loss`.
    ///
    /// ```
    /// use torsh_tensor::{CosineEmbeddingLossOptions, Reduction};
    /// let options = CosineEmbeddingLossOptions::new();
    /// assert_eq!(options.margin, 0.0);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// assert_eq!(options.margin(0.25).margin, 0.25);
    /// ```
    CosineEmbeddingLossOptions {
        /// The cosine up to which unlike pairs cost nothing.
        margin: f64 = 0.0;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.triplet_margin_loss`.
    ///
    /// ```
    /// use torsh_tensor::{Reduction, TripletMarginLossOptions};
    /// let options = TripletMarginLossOptions::new();
    /// assert_eq!(options.margin, 1.0);
    /// assert_eq!(options.p, 2.0);
    /// assert_eq!(options.eps, 1e-6);
    /// assert_eq!(options.margin(0.25).margin, 0.25);
    /// ```
    TripletMarginLossOptions {
        /// By how much the distances are asked to differ; above 0.
        margin: f64 = 1.0;
        /// The order of the norm that distances are.
        p: f64 = 2.0;
        /// Added to each difference.
        eps: f64 = 1e-6;
        /// Whether the distance of the positive and the negative vector counts where it is smaller.
        swap: bool = false;
        /// How the losses become the result.
        reduction: Reduction = Reduction::Mean, impl Into<Reduction> => Into::into;
    }
}

fn hinge_embedding_loss(
    x: &Tensor,
    y: &Tensor,
    options: &HingeEmbeddingLossOptions,
) -> Result<Tensor> {
    // The labels choose; no gradient reaches them.
    let losses = if in_steps(x) {
        let far = x.neg()?.add(options.margin)?.clamp_min(0.0)?;
        let far = far.where_zero(&y.eq(1)?, true)?;
        far.add(&x.where_zero(&y.eq(-1)?, true)?)?
    } else {
        call1(
            &parametric::hinge_elementwise,
            &[Arg::T(x), Arg::T(&y.detach())],
            &numbers::HingeElementwise {
                margin: options.margin.into(),
            },
        )?
    };
    options.reduction.apply(losses)
}

fn margin_ranking_loss(
    a: &Tensor,
    b: &Tensor,
    y: &Tensor,
    options: &MarginRankingLossOptions,
) -> Result<Tensor> {
    if a.ndim() != b.ndim() || a.ndim() != y.ndim() {
        return Err(TorshError::shape(
            "",
            format!(
                "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {}, input2: {}, target: {}",
                a.shape(),
                b.shape(),
                y.shape()
            ),
        ));
    }
    let whole = |t: &&Tensor| t.dtype().is_floating_point() && !in_steps(t);
    let losses = if [a, b, y].iter().all(whole) {
        call1(
            &parametric::margin_ranking_elementwise,
            &[Arg::T(a), Arg::T(b), Arg::T(y)],
            &numbers::MarginRankingElementwise {
                margin: options.margin.into(),
            },
        )?
    } else {
        // Integers wrap, as PyTorch's do, before the margin makes them real numbers.
        y.neg()?
            .mul(&a.sub(b)?)?
            .add(options.margin)?
            .clamp_min(0.0)?
    };
    options.reduction.apply(losses)
}

fn cosine_embedding_loss(
    a: &Tensor,
    b: &Tensor,
    y: &Tensor,
    options: &CosineEmbeddingLossOptions,
) -> Result<Tensor> {
    let refuse = |why: String| Err(TorshError::shape("", why));
    if y.ndim() > 1 {
        return refuse(format!(
            "0D or 1D target tensor expected, multi-target not supported, got {}",
            y.shape()
        ));
    }
    if a.ndim() != y.ndim() + 1 || b.ndim() != y.ndim() + 1 {
        return refuse(format!(
            "{}D target tensor expects {}D input tensors, but found inputs with sizes {} and {}.",
            y.ndim(),
            y.ndim() + 1,
            a.shape(),
            b.shape()
        ));
    }
    let dim = y.ndim();
    let dot = |a: &Tensor, b: &Tensor| a.mul(b)?.sum_dim(dim, false);
    // PyTorch's own small number here, unlike cosine_similarity's.
    let squares = dot(a, a)?.add(1e-12)?.mul(&dot(b, b)?.add(1e-12)?)?;
    let cosine = dot(a, b)?.div(&squares.sqrt()?)?;
    let alike = cosine.neg()?.add(1.0)?.where_zero(&y.eq(1)?, false)?;
    let unlike = cosine
        .sub(options.margin)?
        .clamp_min(0.0)?
        .where_zero(&y.eq(-1)?, false)?;
    options.reduction.apply(alike.add(&unlike)?)
}

fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    options: &TripletMarginLossOptions,
) -> Result<Tensor> {
    let TripletMarginLossOptions { margin, p, eps, .. } = *options;
    if margin.is_nan() || margin <= 0.0 {
        return Err(TorshError::invalid(
            "",
            format!("margin must be greater than 0, got {margin:?}"),
        ));
    }
    if anchor.ndim() != positive.ndim() || anchor.ndim() != negative.ndim() {
        return Err(TorshError::shape(
            "",
            format!(
                "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {}D, positive {}D, and negative {}D inputs",
                anchor.ndim(),
                positive.ndim(),
                negative.ndim()
            ),
        ));
    }
    let norm = PairwiseDistanceOptions::default().p(p).eps(eps);
    let distance = |a: &Tensor, b: &Tensor| a.pairwise_distance_with(b, norm.clone());
    let near = distance(anchor, positive)?;
    let mut far = distance(anchor, negative)?;
    if options.swap {
        far = far.minimum(&distance(positive, negative)?)?;
    }
    let losses = near.add(margin)?.sub(&far)?.clamp_min(0.0)?;
    options.reduction.apply(losses)
}

methods! {
    /// The mean of the input where the target is 1, and of what it misses of the margin 1 where the
    /// target is -1 (`torch.nn.functional.hinge_embedding_loss`).
    ///
    /// The shapes broadcast; an error where they do not.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let loss = tensor![0.5, 0.25].hinge_embedding_loss(&tensor![1.0, -1.0])?;
    /// // (0.5 + (1 - 0.25)) / 2
    /// assert_eq!(loss.item::<f32>()?, 0.625);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    hinge_embedding_loss
    /// [`Tensor::hinge_embedding_loss`] with another `margin` or `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{HingeEmbeddingLossOptions, Reduction, tensor};
    /// let options = HingeEmbeddingLossOptions::new().margin(2.0).reduction(Reduction::None);
    /// let losses = tensor![0.5, 0.25].hinge_embedding_loss_with(&tensor![1.0, -1.0], options)?;
    /// assert_eq!(losses, tensor![0.5, 1.75]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    hinge_embedding_loss_with (target) HingeEmbeddingLossOptions Fp32;
    /// The mean of `max(0, -target * (input1 - input2))` for targets 1 and -1
    /// (`torch.nn.functional.margin_ranking_loss`).
    ///
    /// The shapes broadcast; an error where their dimensions differ in number, or they do not.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// // The target 1 asks for the first operand to be the larger one.
    /// let loss = tensor![1.0, 2.0].margin_ranking_loss(&tensor![2.0, 1.0], &tensor![1.0, 1.0])?;
    /// assert_eq!(loss.item::<f32>()?, 0.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    margin_ranking_loss
    /// [`Tensor::margin_ranking_loss`] with a `margin` or another `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{MarginRankingLossOptions, Reduction, tensor};
    /// let options = MarginRankingLossOptions::new().margin(0.5).reduction(Reduction::None);
    /// let losses = tensor![1.0, 2.0].margin_ranking_loss_with(&tensor![2.0, 1.0], &tensor![1.0, 1.0], options)?;
    /// assert_eq!(losses, tensor![1.5, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    margin_ranking_loss_with (other, target) MarginRankingLossOptions Fp32;
    /// The mean of 1 less the cosine of two vectors where the target is 1, and of a positive cosine
    /// where it is -1 (`torch.nn.functional.cosine_embedding_loss`).
    ///
    /// `[N, D]` and targets `[N]`, or `[D]` and a 0-d target; an error for other shapes.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, y) = (tensor![[1.0, 0.0]], tensor![[0.0, 1.0]]);
    /// let loss = x.cosine_embedding_loss(&y, &tensor![1.0])?;
    /// assert_eq!(loss.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    cosine_embedding_loss
    /// [`Tensor::cosine_embedding_loss`] with a `margin` for the target -1, or another `reduction`.
    ///
    /// ```
    /// use torsh_tensor::{CosineEmbeddingLossOptions, tensor};
    /// let x = tensor![[1.0, 0.0]];
    /// let options = CosineEmbeddingLossOptions::new().margin(0.25);
    /// let loss = x.cosine_embedding_loss_with(&x, &tensor![-1.0], options)?;
    /// assert!((loss.item::<f32>()? - 0.75).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    cosine_embedding_loss_with (other, target) CosineEmbeddingLossOptions Fp32;
    /// The mean of what the distance to `negative` misses of exceeding that to `positive` by 1
    /// (`torch.nn.functional.triplet_margin_loss`).
    ///
    /// `[.., D]` all three, with shapes that broadcast; an error where they do not.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let anchor = tensor![[0.0, 0.0]];
    /// // At distances of 1 and 1.5, half of the margin is missed.
    /// let loss = anchor.triplet_margin_loss(&tensor![[0.0, 1.0]], &tensor![[0.0, 1.5]])?;
    /// assert!((loss.item::<f32>()? - 0.5).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    triplet_margin_loss
    /// [`Tensor::triplet_margin_loss`] with options: `margin`, the norm `p`, `eps`, `swap` and
    /// another `reduction`.
    ///
    /// An error for a margin that is not above 0.
    ///
    /// ```
    /// use torsh_tensor::{TripletMarginLossOptions, tensor};
    /// let options = TripletMarginLossOptions::new().margin(2.0);
    /// let anchor = tensor![[0.0, 0.0]];
    /// let loss = anchor.triplet_margin_loss_with(&tensor![[0.0, 1.0]], &tensor![[0.0, 1.5]], options)?;
    /// assert!((loss.item::<f32>()? - 1.5).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    triplet_margin_loss_with (positive, negative) TripletMarginLossOptions Fp32;
}

#[torsh_tensor::functions]
impl Tensor {
    /// The mean of `log(1 + exp(-target * input))` for targets 1 and -1, a 0-d tensor
    /// (`torch.nn.functional.soft_margin_loss`).
    ///
    /// The shapes broadcast; an error where they do not.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let loss = tensor![0.0, 0.0].soft_margin_loss(&tensor![1.0, -1.0])?;
    /// assert!((loss.item::<f32>()? - 2f32.ln()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn soft_margin_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.soft_margin_loss_with(target, LossOptions::default())
    }

    /// [`Tensor::soft_margin_loss`] with another reduction.
    ///
    /// ```
    /// use torsh_tensor::{LossOptions, Reduction, tensor};
    /// let options = LossOptions::new().reduction(Reduction::None);
    /// let losses = tensor![0.0, 1.0].soft_margin_loss_with(&tensor![1.0, -1.0], options)?;
    /// assert!(losses.allclose(&tensor![0.693147, 1.313262])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn soft_margin_loss_with(&self, target: &Tensor, options: LossOptions) -> Result<Tensor> {
        let run = |[x, y]: [&Tensor; 2]| {
            let losses = if in_steps(x) {
                y.neg()?.mul(x)?.exp()?.log1p()?
            } else {
                let args = [Arg::T(x), Arg::T(y)];
                call1(&parametric::soft_margin_elementwise, &args, NONE)?
            };
            options.reduction.apply(losses)
        };
        body(SOFT_MARGIN_LOSS.autocast, [self, target], run)
            .map_err(|e| e.renamed("soft_margin_loss"))
    }
}
