//! Sums, means and maxima of bags of embeddings.

use smallvec::SmallVec;
use torsh_core::{DType, Kernel, Result, Shape, TorshError, attrs};

use super::embedding::check_indices;
use crate::call::{Arg, call, call1};
use crate::named::Named;
use crate::options::options;
use crate::record::{Backward, OpRecord, Plan, Spec, sample};
use crate::{BackwardCx, Grads, Tensor};

/// What becomes of the rows of a bag of embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EmbeddingBagMode {
    /// Their sum.
    Sum,
    /// Their mean; 0 without rows.
    #[default]
    Mean,
    /// Their largest elements; 0 without rows.
    Max,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(crate::named::Unknown),
}

crate::named! {
    EmbeddingBagMode, "mode",
    "sum" => EmbeddingBagMode::Sum,
    "mean" => EmbeddingBagMode::Mean,
    "max" => EmbeddingBagMode::Max,
}

impl EmbeddingBagMode {
    /// PyTorch's word.
    pub fn as_str(self) -> &'static str {
        self.word()
    }

    /// The mode as kernels take it.
    fn plain(self) -> Result<attrs::EmbeddingBagMode> {
        Ok(match self.known()? {
            EmbeddingBagMode::Sum => attrs::EmbeddingBagMode::Sum,
            EmbeddingBagMode::Max => attrs::EmbeddingBagMode::Max,
            EmbeddingBagMode::Mean | EmbeddingBagMode::Unknown(_) => attrs::EmbeddingBagMode::Mean,
        })
    }
}

pub(crate) const RECORDS: &[&OpRecord] = &[
    &EMBEDDING_BAG,
    &EMBEDDING_BAG_KERNEL,
    &EMBEDDING_BAG_BACKWARD,
];

#[torsh_tensor::by_name(embedding_bag(weight, input, &EmbeddingBagOptions))]
pub static EMBEDDING_BAG: OpRecord = OpRecord::new(
    "nn.functional.embedding_bag",
    "The sum, mean or maximum of the weight's rows that each bag of indices names: the rows of a 2-d input, or the parts of a 1-d one that start at offsets.",
    "(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float norm_type=2, bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None)",
)
.samples(|s| {
    // Rows are used once where frequency counts: else the gradient is not the derivative.
    let flat = Tensor::from_data(&[0i64, 3, 1, 1, 2], [5])?;
    let offsets = Tensor::from_data(&[0i64, 2, 2], [3])?;
    let rows = Tensor::from_data(&[0i64, 1, 2, 0], [2, 2])?;
    let once = Tensor::from_data(&[3i64, 0, 1, 2], [2, 2])?;
    let call = |input: &Tensor, weight: Tensor| sample![input, weight];
    let padded = Tensor::from_data(&[4i64, 0, 1, 4], [2, 2])?;
    Ok(vec![
        call(&rows, s.real(&[4, 3])?),
        call(&flat, s.real(&[4, 3])?)
            .kw("offsets", offsets.clone())
            .kw("mode", "sum")
            .kw("per_sample_weights", s.real(&[5])?),
        call(&flat, s.distinct(&[4, 3])?).kw("offsets", offsets).kw("mode", "max"),
        call(&once, s.real(&[4, 3])?).kw("scale_grad_by_freq", true),
        call(&padded, s.real(&[5, 3])?)
            .kw("mode", "sum")
            .kw("padding_idx", 4i64),
    ])
});

/// The kernel under [`EMBEDDING_BAG`]. Operands: weight, indices, offsets, a factor for each index.
/// Results: the bags, and for maxima the row of each element.
pub static EMBEDDING_BAG_KERNEL: OpRecord = OpRecord::new(
    "_embedding_bag",
    "Sums, means or maxima of the weight's rows that bags of indices name.",
    "(Tensor weight, Tensor indices, Tensor offsets, Tensor? per_sample_weights, *, str mode, int? padding_idx, bool include_last_offset, bool scale_grad_by_freq, bool sparse)",
)
.internal()
.kernel(Kernel::EmbeddingBag, |c| {
    let (weight, indices, offsets) = (c.tensor(0)?, c.tensor(1)?, c.tensor(2)?);
    check_indices(indices)?;
    check_indices(offsets)?;
    if !weight.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {}", weight.dtype()),
        ));
    }
    if let Some(t) = c.opt_tensor(3).filter(|t| t.dtype() != weight.dtype()) {
        return Err(TorshError::dtype(
            "",
            format!(
                "expected weight and per_sample_weights to have one dtype, got {} and {}",
                weight.dtype(),
                t.dtype()
            ),
        ));
    }
    let a = c.attrs::<attrs::EmbeddingBag>()?;
    let bags = offsets.numel() - usize::from(a.include_last_offset);
    let shape = Shape::new(&[bags, weight.dims()[1]]);
    let chosen = if a.mode == attrs::EmbeddingBagMode::Max {
        shape.clone()
    } else {
        Shape::new(&[0])
    };
    Ok(Plan::many(
        weight.dtype(),
        [
            Spec::new(shape, weight.dtype()),
            Spec::new(chosen, DType::I64),
        ],
    ))
})
.backward(Backward::Full {
    inputs: 0b1111,
    outputs: 0b10,
    constant: 0b10,
    formula: |c| {
        if crate::is_grad_enabled() || c.attrs::<attrs::EmbeddingBag>()?.sparse {
            return by_ops(c);
        }
        let factors = if c.has_input(3) {
            Some(c.input(3)?)
        } else {
            None
        };
        // The weight itself is read for the factors alone.
        let weight = if c.needs(3) { Some(c.input(0)?) } else { None };
        let (indices, offsets, chosen) = (c.input(1)?, c.input(2)?, c.output(1)?);
        let args = [
            Arg::T(c.g()),
            Arg::opt(weight.as_ref()),
            Arg::T(&indices),
            Arg::T(&offsets),
            Arg::opt(factors.as_ref()),
            Arg::T(&chosen),
        ];
        let a = c.attrs::<attrs::EmbeddingBag>()?;
        let attrs = attrs::EmbeddingBagBackward {
            mode: a.mode,
            padding_idx: a.padding_idx,
            include_last_offset: a.include_last_offset,
            scale_grad_by_freq: a.scale_grad_by_freq,
            num_weights: c.input_shape(0)[0],
            embedding_dim: c.input_shape(0)[1],
            weight_grad: c.needs(0),
            factors_grad: c.needs(3),
        };
        let mut grads = call(&EMBEDDING_BAG_BACKWARD, &args, &attrs)?.into_iter();
        let (to_weight, to_factors) = (grads.next(), grads.next());
        Ok(SmallVec::from_iter([
            to_weight.filter(|_| c.needs(0)),
            None,
            None,
            to_factors.filter(|_| c.needs(3)),
        ]))
    },
});

/// The gradients of [`EMBEDDING_BAG_KERNEL`] in one kernel, for when they are not differentiated
/// again.
pub static EMBEDDING_BAG_BACKWARD: OpRecord = OpRecord::new(
    "_embedding_bag_backward",
    "The gradients of embedding_bag.",
    "(Tensor grad_output, Tensor? weight, Tensor indices, Tensor offsets, Tensor? per_sample_weights, Tensor rows, *, str mode, int? padding_idx, bool include_last_offset, bool scale_grad_by_freq, int num_weights, int embedding_dim, bool weight_grad, bool factors_grad)",
)
.internal()
.kernel(Kernel::EmbeddingBagBackward, |c| {
    let dtype = c.tensor(0)?.dtype();
    let a = c.attrs::<attrs::EmbeddingBagBackward>()?;
    let sizes = [a.num_weights, a.embedding_dim];
    let of = |wanted: bool, shape: Shape| {
        Spec::new(if wanted { shape } else { Shape::new(&[0]) }, dtype)
    };
    let weight = of(a.weight_grad, Shape::new(&sizes));
    let factors = of(a.factors_grad, c.tensor(2)?.shape().clone());
    Ok(Plan::many(dtype, [weight, factors]))
});

/// The gradients in ops that have derivatives, with a row for each index.
fn by_ops(c: &BackwardCx<'_>) -> Result<Grads> {
    let a = c.attrs::<attrs::EmbeddingBag>()?;
    let (indices, device) = (c.input(1)?.to_dtype(DType::I64)?, c.g().device());
    let [rows, width] = [0, 1].map(|d| c.input_shape(0)[d]);
    let mut grads: Grads = SmallVec::from_iter([None, None, None, None]);
    let zeros = || Tensor::zeros([rows, width], c.g().dtype(), device);
    if a.mode == attrs::EmbeddingBagMode::Max {
        let chosen = c.output(1)?.detach();
        let g = c.g().where_zero(&chosen.lt(0)?, true)?;
        grads[0] = Some(zeros()?.scatter_add(0, &chosen.clamp_min(0)?, &g)?);
        return Ok(grads);
    }
    // Each index's bag, and its share in it; 0 where it does not count.
    let of: Vec<i64> = indices.to_vec()?;
    let mut starts: Vec<i64> = c.input(2)?.to_vec()?;
    if !a.include_last_offset {
        starts.push(of.len() as i64);
    }
    let mut occurs = vec![0u32; rows];
    of.iter().for_each(|&row| occurs[row as usize] += 1);
    let (mut bags, mut shares) = (vec![0i64; of.len()], vec![0f64; of.len()]);
    for (b, w) in starts.windows(2).enumerate() {
        let bag = w[0] as usize..w[1] as usize;
        let counts = |i: &usize| usize::try_from(of[*i]).ok() != a.padding_idx;
        let n = bag.clone().filter(counts).count() as f64;
        for i in bag.filter(counts) {
            bags[i] = b as i64;
            shares[i] = match a.mode {
                attrs::EmbeddingBagMode::Mean => 1.0 / n,
                _ => 1.0,
            };
            if a.scale_grad_by_freq {
                shares[i] /= f64::from(occurs[of[i] as usize]);
            }
        }
    }
    if starts.len() < 2 {
        // Without bags there is nothing to gather from.
        grads[0] = c.needs(0).then(zeros).transpose()?;
        grads[3] = c.needs(3).then(|| c.zeros(3)).transpose()?;
        return Ok(grads);
    }
    let n = of.len();
    let bags = Tensor::from_data_on(&bags, n, device)?;
    let shares = Tensor::on_host(&shares, [n, 1])?
        .to_dtype(c.g().dtype())?
        .to_device(device)?;
    let g = c.g().index_select(0, &bags)?.mul(&shares)?;
    if c.needs(0) {
        let scaled = match c.has_input(3) {
            true => g.mul(&c.input(3)?.unsqueeze(1)?)?,
            false => g.clone(),
        };
        grads[0] = Some(match a.sparse {
            true => {
                // How often a row is named is in the shares.
                let attrs = attrs::EmbeddingBackward {
                    padding_idx: a.padding_idx,
                    scale_grad_by_freq: false,
                    num_weights: rows,
                };
                let args = [Arg::T(&scaled), Arg::T(&indices)];
                crate::sparse::call1("_embedding_sparse_backward", &args, &attrs)?
            }
            false => zeros()?.index_add(0, &indices, &scaled)?,
        });
    }
    if c.needs(3) {
        let products = g.mul(&c.input(0)?.index_select(0, &indices)?)?;
        grads[3] = Some(products.sum_dim(1, false)?);
    }
    Ok(grads)
}

options! {
    /// PyTorch's keyword arguments of `F.embedding_bag`.
    ///
    /// ```
    /// use torsh_tensor::EmbeddingBagOptions;
    /// let options = EmbeddingBagOptions::new();
    /// assert_eq!(options.max_norm, None);
    /// assert_eq!(options.norm_type, 2.0);
    /// assert!(!options.scale_grad_by_freq);
    /// assert_eq!(options.max_norm(0.25).max_norm, Some(0.25));
    /// ```
    EmbeddingBagOptions {
        /// Where each bag of a 1-d input starts (int64 or int32), the first at 0.
        offsets: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Rows that are used and have a larger norm are scaled down to it first, in place.
        max_norm: Option<f64> = None, f64 => Some;
        /// The p of that norm.
        norm_type: f64 = 2.0;
        /// Whether gradients are divided by how often their row is used; not for maxima.
        scale_grad_by_freq: bool = false;
        /// What becomes of the rows of a bag.
        mode: EmbeddingBagMode = EmbeddingBagMode::Mean, impl Into<EmbeddingBagMode> => Into::into;
        /// Whether the gradient of the weight is a COO tensor of the used rows, for sums and means.
        sparse: bool = false;
        /// A factor for each index, for sums only.
        per_sample_weights: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether the last offset is the end of the last bag.
        include_last_offset: bool = false;
        /// The row that does not count, and gets no gradient; negative ones count from the end.
        padding_idx: Option<i64> = None, i64 => Some;
    }
}

fn embedding_bag(weight: &Tensor, input: &Tensor, o: &EmbeddingBagOptions) -> Result<Tensor> {
    let refuse = |why: String| Err(TorshError::invalid("", why));
    let mode = o.mode.plain()?;
    if o.sparse {
        crate::sparse::gradients_of_rows("embedding_bag", "sparse")?;
    }
    if o.sparse && mode == attrs::EmbeddingBagMode::Max {
        return refuse("embedding_bag of maxima has no sparse gradient; leave sparse at false, or take mode 'sum' or 'mean'".into());
    }
    if let Some(w) = o
        .per_sample_weights
        .as_ref()
        .filter(|w| w.shape() != input.shape())
    {
        return refuse(format!(
            "embedding_bag: If per_sample_weights ({}) is not None, then it must have the same shape as the input ({})",
            w.shape(),
            input.shape()
        ));
    }
    if weight.ndim() != 2 {
        return refuse(format!(
            "weight has to be a 2D Tensor, but got Tensor of dimension {}",
            weight.ndim()
        ));
    }
    check_indices(input)?;
    let (offsets, flat) = match (input.ndim(), &o.offsets) {
        (2, None) => {
            let (bags, each) = (input.dims()[0] as i64, input.dims()[1] as i64);
            let starts: Vec<i64> = (0..bags).map(|b| b * each).collect();
            (Tensor::from_data_on(&starts, bags, input.device())?, true)
        }
        (2, Some(_)) => {
            return refuse(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences".into(),
            );
        }
        (1, Some(offsets)) if offsets.ndim() == 1 => (offsets.clone(), false),
        (1, offsets) => {
            let got = offsets
                .as_ref()
                .map_or("None".to_string(), Tensor::describe);
            return refuse(format!("offsets has to be a 1D Tensor but got {got}"));
        }
        (n, _) => {
            return refuse(format!(
                "input has to be 1D or 2D Tensor, but got Tensor of dimension {n}"
            ));
        }
    };
    // A 2-d input's bags have no end of their own.
    let include_last = o.include_last_offset && !flat;
    if include_last && offsets.numel() == 0 {
        return refuse("include_last_offset: number of offsets should be at least 1".into());
    }
    if o.mode == EmbeddingBagMode::Max && o.scale_grad_by_freq {
        return refuse("max mode does not support scaling the gradient by the frequency".into());
    }
    if o.per_sample_weights.is_some() && o.mode != EmbeddingBagMode::Sum {
        return refuse(format!(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{}')",
            o.mode.as_str()
        ));
    }
    let rows = weight.dims()[0] as i64;
    let padding_idx = match o.padding_idx {
        Some(p) if p < -rows || p >= rows => {
            return refuse(format!(
                "padding_idx must be within the number of embeddings, -{rows} through {}, but got {p}",
                rows - 1
            ));
        }
        p => p.map(|p| if p < 0 { p + rows } else { p } as usize),
    };
    let indices = input.reshape([input.numel()])?;
    let factors = match &o.per_sample_weights {
        Some(w) => Some(w.reshape([w.numel()])?),
        None => None,
    };
    if let Some(max_norm) = o.max_norm {
        weight.renorm_rows(&indices, max_norm, o.norm_type)?;
    }
    call1(
        &EMBEDDING_BAG_KERNEL,
        &[
            Arg::T(weight),
            Arg::T(&indices),
            Arg::T(&offsets),
            Arg::opt(factors.as_ref()),
        ],
        &attrs::EmbeddingBag {
            mode,
            padding_idx,
            include_last_offset: include_last,
            scale_grad_by_freq: o.scale_grad_by_freq,
            sparse: o.sparse,
        },
    )
}

impl Tensor {
    /// The means of the rows of this weight that bags of indices name
    /// (`torch.nn.functional.embedding_bag(input, weight)`): a bag for each row of a 2-d `input`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let weight = tensor![[1.0, 2.0], [3.0, 6.0]];
    /// assert_eq!(weight.embedding_bag(&tensor![[0, 1], [1, 1]])?, tensor![[2.0, 4.0], [3.0, 6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A weight that is not 2-d, indices that are no integers or out of range.
    #[track_caller]
    pub fn embedding_bag(&self, input: &Tensor) -> Result<Tensor> {
        self.embedding_bag_with(input, EmbeddingBagOptions::default())
    }

    /// [`Tensor::embedding_bag`] with PyTorch's keyword arguments; with `offsets` the bags are
    /// parts of a 1-d `input`.
    ///
    /// ```
    /// use torsh_tensor::{EmbeddingBagMode, EmbeddingBagOptions, tensor};
    /// let weight = tensor![[1.0], [10.0], [100.0]];
    /// let options = EmbeddingBagOptions::new()
    ///     .offsets(&tensor![0, 2])
    ///     .mode(EmbeddingBagMode::Sum);
    /// assert_eq!(weight.embedding_bag_with(&tensor![0, 1, 2], options)?, tensor![[11.0], [100.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn embedding_bag_with(
        &self,
        input: &Tensor,
        options: EmbeddingBagOptions,
    ) -> Result<Tensor> {
        embedding_bag(self, input, &options).map_err(|e| e.renamed("embedding_bag"))
    }
}
