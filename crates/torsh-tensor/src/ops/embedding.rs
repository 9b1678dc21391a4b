//! Embeddings and one-hot vectors.

use torsh_core::{DType, Dims, Kernel, Result, Shape, TorshError, attrs};

use super::index::one;

use crate::call::{Arg, call1, widest};
use crate::options::options;
use crate::record::{OpRecord, Plan, Sample, sample};
use crate::{BincountOptions, NormOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&ONE_HOT, &EMBEDDING, &EMBEDDING_BACKWARD];

#[torsh_tensor::by_name(Tensor::one_hot)]
pub static ONE_HOT: OpRecord = OpRecord::new(
    "nn.functional.one_hot",
    "Vectors that are 1 at each element's class and 0 elsewhere (int64).",
    "(Tensor input, int num_classes=-1)",
)
.kernel(Kernel::OneHot, |c| {
    let mut dims = Dims::from_slice(c.tensor(0)?.dims());
    dims.push(c.attrs::<attrs::OneHot>()?.num_classes);
    Ok(Plan::one(DType::I64, dims.into(), DType::I64))
})
.constant();

#[torsh_tensor::by_name(Tensor::embedding_with(weight, input, EmbeddingOptions))]
pub static EMBEDDING: OpRecord = OpRecord::new(
    "nn.functional.embedding",
    "The weight's rows that the indices name; rows of the padding index get no gradient.",
    "(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False)",
)
.kernel(Kernel::Embedding, |c| {
    let (weight, indices) = (c.tensor(0)?, c.tensor(1)?);
    if weight.ndim() != 2 {
        return Err(TorshError::shape("", format!("'weight' must be 2-D, got {}", weight.shape())));
    }
    check_indices(indices)?;
    let mut dims = Dims::from_slice(indices.dims());
    dims.push(weight.dims()[1]);
    Ok(Plan::one(weight.dtype(), dims.into(), weight.dtype()))
})
.grads(2, 0, |c| {
    let &attrs::Embedding { padding_idx, scale_grad_by_freq, sparse } = c.attrs()?;
    let num_weights = c.input_shape(0)[0];
    let attrs = attrs::EmbeddingBackward { padding_idx, scale_grad_by_freq, num_weights };
    let indices = c.y()?;
    let args = [Arg::T(c.g()), Arg::T(&indices)];
    Ok(one(0, match sparse {
        true => crate::sparse::call1("_embedding_sparse_backward", &args, &attrs)?,
        false => call1(&EMBEDDING_BACKWARD, &args, &attrs)?,
    }))
})
.samples(|s| {
    // The padding row is not used, and rows are used once: else the gradient is not the derivative.
    let indices = s.ints(&[2, 3], 0, 3)?;
    let once = Tensor::from_data(&[3i64, 0, 1], [3])?;
    Ok(vec![
        sample![indices.clone(), s.real(&[4, 3])?],
        sample![indices, s.real(&[4, 3])?, padding_idx = 3],
        sample![once, s.real(&[4, 3])?, scale_grad_by_freq = true],
    ])
});

pub(super) fn check_indices(indices: &Tensor) -> Result<()> {
    if matches!(indices.dtype(), DType::I64 | DType::I32) {
        return Ok(());
    }
    Err(TorshError::dtype(
        "",
        format!(
            "expected indices of int64 or int32, got {}",
            indices.dtype()
        ),
    ))
}

pub static EMBEDDING_BACKWARD: OpRecord = OpRecord::new(
    "embedding_dense_backward",
    "The gradient of an embedding's weight: the gradients of its uses, added up by row.",
    "(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq)",
)
.kernel(Kernel::EmbeddingBackward, |c| {
    let (g, indices) = (c.tensor(0)?, c.tensor(1)?);
    check_indices(indices)?;
    if g.ndim() != indices.ndim() + 1 || g.dims()[..indices.ndim()] != *indices.dims() {
        return Err(TorshError::shape(
            "",
            format!("a gradient of shape {} does not belong to indices of shape {}", g.shape(), indices.shape()),
        ));
    }
    let width = g.dims().last().copied().unwrap_or(1);
    Ok(Plan::one(
        g.dtype(),
        Shape::new(&[c.attrs::<attrs::EmbeddingBackward>()?.num_weights, width]),
        g.dtype(),
    ))
})
.grads(2, 0, |c| {
    let (indices, a) = (c.y()?, c.attrs::<attrs::EmbeddingBackward>()?);
    let every = attrs::Embedding { padding_idx: None, scale_grad_by_freq: false, sparse: false };
    let mut g = call1(
        &EMBEDDING,
        &[Arg::T(c.g()), Arg::T(&indices)],
        &every,
    )?;
    if a.scale_grad_by_freq {
        let counts = indices
            .reshape([indices.numel()])?
            .bincount_with(BincountOptions::default().minlength(a.num_weights as i64))?;
        let used = counts
            .to_dtype(g.dtype())?
            .take(&indices.to_dtype(DType::I64)?)?;
        g = g.div(&used.unsqueeze(-1)?)?;
    }
    if let Some(padding) = a.padding_idx {
        g = g.masked_fill(&indices.eq(padding as i64)?.unsqueeze(-1)?, 0)?;
    }
    Ok(one(0, g))
})
.by_name(|b| {
    let attrs = attrs::EmbeddingBackward {
        // Negative numbers stand for no row.
        padding_idx: usize::try_from(b.int(3)).ok(),
        scale_grad_by_freq: b.bool(4),
        num_weights: usize::try_from(b.int(2)).map_err(|_| {
            TorshError::invalid(
                "embedding_dense_backward",
                format!("num_weights must be non-negative, got {}", b.int(2)),
            )
        })?,
    };
    call1(&EMBEDDING_BACKWARD, &[Arg::T(b.tensor(0)?), Arg::T(b.tensor(1)?)], &attrs).map(Value::Tensor)
})
.samples(|s| {
    let indices = s.ints(&[2, 3], 0, 4)?;
    let call = |s: &mut crate::sample::Sampler, padding: i64, scale: bool| -> Result<Sample> {
        Ok(sample![s.real(&[2, 3, 2])?, indices.clone(), 4, padding, scale])
    };
    Ok(vec![call(s, -1, false)?, call(s, 1, true)?])
});

options! {
    /// PyTorch's keyword arguments of `F.embedding`.
    ///
    /// ```
    /// use torsh_tensor::EmbeddingOptions;
    /// let options = EmbeddingOptions::new();
    /// assert_eq!(options.max_norm, None);
    /// assert_eq!(options.norm_type, 2.0);
    /// assert!(!options.scale_grad_by_freq);
    /// assert_eq!(options.max_norm(0.25).max_norm, Some(0.25));
    /// ```
    #[derive(Copy)]
    EmbeddingOptions {
        /// The row whose gradient stays zero; negative ones count from the end.
        padding_idx: Option<i64> = None, i64 => Some;
        /// Rows that are used and have a larger norm are scaled down to it first, in place.
        max_norm: Option<f64> = None, f64 => Some;
        /// The p of that norm.
        norm_type: f64 = 2.0;
        /// Whether gradients are divided by how often their row is used.
        scale_grad_by_freq: bool = false;
        /// Whether the gradient of the weight is a COO tensor of the used rows. It comes with the feature `sparse`.
        sparse: bool = false;
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// A 1 in the place of each class along a new last dimension; as many classes as the greatest
    /// needs where `num_classes` is -1 (`torch.nn.functional.one_hot`).
    ///
    /// An int64 tensor `[..]` gives an int64 tensor `[.., classes]`. An error for other dtypes, and
    /// for classes out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![0, 2].one_hot(3)?, tensor![[1, 0, 0], [0, 0, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn one_hot(&self, num_classes: i64) -> Result<Tensor> {
        if self.dtype() != DType::I64 {
            return Err(TorshError::dtype(
                "one_hot",
                format!(
                    "one_hot is only applicable to index tensor of type int64, got {}",
                    self.dtype()
                ),
            ));
        }
        let classes = match num_classes {
            -1 if self.numel() == 0 => {
                return Err(TorshError::invalid(
                    "one_hot",
                    "Can not infer total number of classes from empty tensor.",
                ));
            }
            -1 => {
                let largest = self.to_vec::<i64>()?.into_iter().max().unwrap_or(0);
                largest.saturating_add(1).max(0) as usize
            }
            n if n < 0 => {
                return Err(TorshError::invalid(
                    "one_hot",
                    format!(
                        "num_classes must be positive or -1, got {n}: Class values must be smaller than num_classes."
                    ),
                ));
            }
            n => n as usize,
        };
        call1(
            &ONE_HOT,
            &[Arg::T(self)],
            &attrs::OneHot {
                num_classes: classes,
            },
        )
    }

    /// The rows of this weight that `indices` name, in their shape
    /// (`torch.nn.functional.embedding(indices, weight)`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let weight = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(weight.embedding(&tensor![1, 0, 1])?, tensor![[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A weight that is not 2-d, indices that are no integers or out of range.
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor) -> Result<Tensor> {
        self.embedding_with(indices, EmbeddingOptions::default())
    }

    /// [`Tensor::embedding`] with PyTorch's keyword arguments.
    ///
    /// ```
    /// use torsh_tensor::{EmbeddingOptions, tensor};
    /// let weight = tensor![[3.0, 4.0], [0.0, 1.0]];
    /// // The used row has the norm 5 and is scaled down, in the weight too.
    /// let rows = weight.embedding_with(&tensor![0], EmbeddingOptions::new().max_norm(2.5))?;
    /// assert!(rows.allclose(&tensor![[1.5, 2.0]])?);
    /// assert!(weight.allclose(&tensor![[1.5, 2.0], [0.0, 1.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn embedding_with(&self, indices: &Tensor, options: EmbeddingOptions) -> Result<Tensor> {
        let refuse = |text: String| Err(TorshError::invalid("embedding", text));
        if options.sparse {
            crate::sparse::gradients_of_rows("embedding", "sparse")?;
        }
        let rows = self.dims().first().copied().unwrap_or(0) as i64;
        let padding_idx = match options.padding_idx {
            Some(p) if p < -rows || p >= rows => {
                return refuse(format!(
                    "Padding_idx must be within num_embeddings, got {p} of {rows}"
                ));
            }
            p => p.map(|p| if p < 0 { p + rows } else { p } as usize),
        };
        if let Some(max_norm) = options.max_norm {
            self.renorm_rows(indices, max_norm, options.norm_type)
                .map_err(|e| e.renamed("embedding"))?;
        }
        let attrs = attrs::Embedding {
            padding_idx,
            scale_grad_by_freq: options.scale_grad_by_freq,
            sparse: options.sparse,
        };
        call1(&EMBEDDING, &[Arg::T(self), Arg::T(indices)], &attrs)
    }

    /// Scales the rows that are used and have a larger p-norm down to it, in place and unrecorded.
    pub(super) fn renorm_rows(&self, indices: &Tensor, max_norm: f64, p: f64) -> Result<()> {
        // In the second run of a checkpoint they are as its first one left them.
        if self.ndim() != 2 || !self.dtype().is_floating_point() || crate::checkpoint::runs_again()
        {
            return Ok(());
        }
        check_indices(indices)?;
        let index = indices.reshape([indices.numel()])?.to_dtype(DType::I64)?;
        crate::no_grad(|| {
            let weight = self.detach();
            let rows = weight.index_select(0, &index)?;
            let norms = rows.norm_with(NormOptions::default().p(p).dim(1).keepdim(true))?;
            let norms = norms.to_dtype(widest(norms.device())?)?;
            let scale = norms.add(1e-7)?.reciprocal()?.mul(max_norm)?;
            let scale = Tensor::where_(&norms.gt(max_norm)?, &scale, 1.0)?;
            // PyTorch rounds the factor before the product.
            let scaled = rows.mul(&scale.to_dtype(self.dtype())?)?;
            weight.index_copy_(0, &index, &scaled)?;
            Ok(())
        })
    }
}
