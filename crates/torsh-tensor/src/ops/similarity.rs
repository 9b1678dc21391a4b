//! Directions of vectors: unit vectors, cosines and cross products.

use smallvec::SmallVec;
use torsh_core::{Kernel, Promotion, Result, TorshError, attrs};

use crate::call::{Arg, call1};
use crate::observe::composite;
use crate::options::options;
use crate::record::{OpRecord, Plan, sample};
use crate::{IntoDim, NormOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &COSINE_SIMILARITY,
    &PAIRWISE_DISTANCE,
    &NORMALIZE,
    &LINALG_CROSS,
    &CROSS,
];

#[torsh_tensor::by_name(Tensor::cosine_similarity_with(.., CosineSimilarityOptions))]
pub static COSINE_SIMILARITY: OpRecord = OpRecord::new(
    "nn.functional.cosine_similarity",
    "The cosine of the angle between vectors along a dimension, whose norms are taken to be eps at least.",
    "(Tensor x1, Tensor x2, int dim=1, float eps=1e-08)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 4])?, s.real(&[3, 4])?],
        sample![s.real(&[1, 2, 3])?, s.real(&[2, 1, 3])?, dim = -1],
    ])
});

#[torsh_tensor::by_name(Tensor::pairwise_distance_with(.., PairwiseDistanceOptions))]
pub static PAIRWISE_DISTANCE: OpRecord = OpRecord::new(
    "nn.functional.pairwise_distance",
    "The p-norms of the differences of vectors along the last dimension, with eps added to each difference.",
    "(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 4])?, s.distinct(&[3, 4])?],
        sample![s.real(&[2, 3])?, s.distinct(&[3])?, p = 3.0, keepdim = true],
    ])
});

#[torsh_tensor::by_name(Tensor::normalize_with(.., NormalizeOptions))]
pub static NORMALIZE: OpRecord = OpRecord::new(
    "nn.functional.normalize",
    "Vectors along a dimension divided by their p-norm, or by eps where that is larger.",
    "(Tensor input, float p=2.0, int dim=1, float eps=1e-12)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3, 4])?],
        sample![s.real(&[2, 3, 2])?, p = 3.0, dim = 0],
        sample![s.complex(&[2, 3])?],
    ])
});

#[torsh_tensor::by_name(Tensor::linalg_cross)]
pub static LINALG_CROSS: OpRecord = OpRecord::new(
    "linalg.cross",
    "The cross products of vectors of 3 elements along a dimension; the shapes broadcast.",
    "(Tensor input, Tensor other, *, int dim=-1)",
)
.kernel(Kernel::Cross, |c| {
    let (a, b) = (c.tensor(0)?, c.tensor(1)?);
    if a.dtype() != b.dtype() {
        return Err(TorshError::dtype(
            "",
            format!("expected scalar type {} but found {}", a.dtype(), b.dtype()),
        ));
    }
    Ok(Plan::one(a.dtype(), a.shape().clone(), a.dtype()))
})
.grads(0b11, 0, |c| {
    let (a, b, g) = (c.x()?, c.y()?, c.g());
    let product =
        |x: &Tensor, y: &Tensor| call1(&LINALG_CROSS, &[Arg::T(x), Arg::T(y)], c.attributes());
    Ok(SmallVec::from_iter([
        c.needs(0).then(|| product(&b.conj()?, g)).transpose()?,
        c.needs(1).then(|| product(g, &a.conj()?)).transpose()?,
    ]))
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3])?, s.real(&[1, 3])?],
        sample![s.complex(&[3, 2])?, s.complex(&[3, 2])?, dim = 0],
    ])
});

pub static CROSS: OpRecord = OpRecord::new(
    "cross",
    "The cross products of vectors of 3 elements along a dimension, by default the first of size 3; the shapes broadcast.",
    "(Tensor input, Tensor other, int? dim=None)",
)
.by_name(|b| {
    let (x, y) = (b.tensor(0)?, b.tensor(1)?);
    match b.opt_int(2) {
        Some(dim) => x.linalg_cross(y, dim),
        None => x.cross(y),
    }
    .map(Value::Tensor)
})
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, s.real(&[2, 3])?]]));

options! {
    /// PyTorch's keyword arguments of `F.cosine_similarity`.
    ///
    /// ```
    /// use torsh_tensor::CosineSimilarityOptions;
    /// let options = CosineSimilarityOptions::new();
    /// assert_eq!(options.dim, 1);
    /// assert_eq!(options.eps, 1e-8);
    /// assert_eq!(options.dim(3).dim, 3);
    /// ```
    CosineSimilarityOptions {
        /// The dimension of the vectors.
        dim: i64 = 1;
        /// What norms are at least taken to be.
        eps: f64 = 1e-8;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.pairwise_distance`.
    ///
    /// ```
    /// use torsh_tensor::PairwiseDistanceOptions;
    /// let options = PairwiseDistanceOptions::new();
    /// assert_eq!(options.p, 2.0);
    /// assert_eq!(options.eps, 1e-6);
    /// assert!(!options.keepdim);
    /// assert_eq!(options.p(0.25).p, 0.25);
    /// ```
    PairwiseDistanceOptions {
        /// The order of the norm.
        p: f64 = 2.0;
        /// Added to each difference.
        eps: f64 = 1e-6;
        /// Whether the last dimension stays, with size 1.
        keepdim: bool = false;
    }
}

options! {
    /// PyTorch's keyword arguments of `F.normalize`.
    ///
    /// ```
    /// use torsh_tensor::NormalizeOptions;
    /// let options = NormalizeOptions::new();
    /// assert_eq!(options.p, 2.0);
    /// assert_eq!(options.dim, 1);
    /// assert_eq!(options.eps, 1e-12);
    /// assert_eq!(options.p(0.25).p, 0.25);
    /// ```
    NormalizeOptions {
        /// The order of the norm.
        p: f64 = 2.0;
        /// The dimension of the vectors.
        dim: i64 = 1;
        /// What norms are at least taken to be.
        eps: f64 = 1e-12;
    }
}

fn cosine(a: &Tensor, b: &Tensor, options: &CosineSimilarityOptions) -> Result<Tensor> {
    let mut p = Promotion::default();
    p.tensor(a.dtype(), a.ndim());
    p.tensor(b.dtype(), b.ndim());
    let dtype = p.result()?.unwrap_or(a.dtype());
    if !dtype.is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("expected common dtype to be floating point, yet common dtype is {dtype}"),
        ));
    }
    crate::call::common_device(&[Arg::T(a), Arg::T(b)])?;
    let shape = a.shape().broadcast(b.shape())?;
    // Each vector is divided by its norm first, so that the result stays within [-1, 1].
    let unit = |t: &Tensor| -> Result<Tensor> {
        let t = match t.dtype().is_differentiable() {
            true => t.expand(&shape)?,
            false => t.to_dtype(dtype)?.expand(&shape)?,
        };
        let norm = t.norm_with(NormOptions::default().dim(options.dim).keepdim(true))?;
        // Gradients pass the limit as if it were not there.
        let norm = norm.copy()?;
        crate::no_grad(|| norm.clamp_min_(options.eps))?;
        t.div(&norm)
    };
    unit(a)?.mul(&unit(b)?)?.sum_dim(options.dim, false)
}

#[torsh_tensor::functions]
impl Tensor {
    /// The cosine of the angle between vectors along dimension 1; the shapes broadcast
    /// (`torch.nn.functional.cosine_similarity`).
    ///
    /// The result lacks that dimension; the dtypes promote. An error for integers, and for shapes
    /// that do not broadcast.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![[1.0, 0.0], [1.0, 1.0]].cosine_similarity(&tensor![[0.0, 1.0], [2.0, 2.0]])?;
    /// assert!(y.allclose(&tensor![0.0, 1.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = x1)]
    #[track_caller]
    pub fn cosine_similarity(&self, x2: &Tensor) -> Result<Tensor> {
        self.cosine_similarity_with(x2, CosineSimilarityOptions::default())
    }

    /// [`Tensor::cosine_similarity`] along another `dim`, or with another least product of norms
    /// `eps`.
    ///
    /// ```
    /// use torsh_tensor::{CosineSimilarityOptions, tensor};
    /// let options = CosineSimilarityOptions::new().dim(0);
    /// let y = tensor![3.0, 4.0].cosine_similarity_with(&tensor![4.0, 3.0], options)?;
    /// assert!((y.item::<f32>()? - 0.96).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = x1)]
    #[torsh_tensor::names_caller]
    pub fn cosine_similarity_with(
        &self,
        x2: &Tensor,
        options: CosineSimilarityOptions,
    ) -> Result<Tensor> {
        let run = || cosine(self, x2, &options);
        composite("cosine_similarity", &[self, x2], run).map_err(|e| e.renamed("cosine_similarity"))
    }

    /// The Euclidean distances of vectors along the last dimension; the shapes broadcast
    /// (`torch.nn.functional.pairwise_distance`).
    ///
    /// The result lacks that dimension. As in PyTorch, 1e-6 is added to each difference. Integers
    /// give the default dtype. An error for shapes that do not broadcast.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![[0.0, 0.0]].pairwise_distance(&tensor![[3.0, 4.0]])?;
    /// assert!(y.allclose(&tensor![5.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = x1)]
    #[track_caller]
    pub fn pairwise_distance(&self, x2: &Tensor) -> Result<Tensor> {
        self.pairwise_distance_with(x2, PairwiseDistanceOptions::default())
    }

    /// [`Tensor::pairwise_distance`] by another norm, with another number added to differences.
    ///
    /// ```
    /// use torsh_tensor::{PairwiseDistanceOptions, tensor};
    /// let options = PairwiseDistanceOptions::new().p(1.0).keepdim(true);
    /// let y = tensor![[0.0, 0.0]].pairwise_distance_with(&tensor![[3.0, 4.0]], options)?;
    /// assert!(y.allclose(&tensor![[7.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = x1)]
    #[torsh_tensor::names_caller]
    pub fn pairwise_distance_with(
        &self,
        x2: &Tensor,
        options: PairwiseDistanceOptions,
    ) -> Result<Tensor> {
        let PairwiseDistanceOptions { p, eps, keepdim } = options;
        let norm = NormOptions::default().p(p).dim(-1).keepdim(keepdim);
        composite("pairwise_distance", &[self, x2], || {
            self.sub(x2)?.add(eps)?.norm_with(norm)
        })
        .map_err(|e| e.renamed("pairwise_distance"))
    }

    /// Vectors along dimension 1 divided by their Euclidean norm (`torch.nn.functional.normalize`).
    ///
    /// Shape and dtype stay; vectors of zeros stay, too. An error for integers, and for fewer than
    /// two dimensions.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// assert_eq!(tensor![[3.0, 4.0]].normalize()?, tensor![[0.6, 0.8]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn normalize(&self) -> Result<Tensor> {
        self.normalize_with(NormalizeOptions::default())
    }

    /// [`Tensor::normalize`] with another norm `p`, dimension `dim` or least norm `eps`.
    ///
    /// ```
    /// use torsh_tensor::{NormalizeOptions, tensor};
    /// let y = tensor![1.0, 3.0].normalize_with(NormalizeOptions::new().p(1.0).dim(0))?;
    /// assert_eq!(y, tensor![0.25, 0.75]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn normalize_with(&self, options: NormalizeOptions) -> Result<Tensor> {
        let norm = NormOptions::default()
            .p(options.p)
            .dim(options.dim)
            .keepdim(true);
        composite("normalize", &[self], || {
            self.div(&self.norm_with(norm)?.clamp_min(options.eps)?)
        })
        .map_err(|e| e.renamed("normalize"))
    }

    /// The cross products of vectors along the first dimension of size 3 (`torch.cross` without
    /// `dim`; [`linalg_cross`](Tensor::linalg_cross) takes one). The shapes broadcast; every number type.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 0, 0].cross(&tensor![0, 1, 0])?, tensor![0, 0, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cross(&self, other: &Tensor) -> Result<Tensor> {
        match self.dims().iter().position(|&n| n == 3) {
            Some(dim) => self.linalg_cross(other, dim),
            None => {
                let e = TorshError::shape("", "no dimension of size 3 in input");
                self.named("cross", Err(e))
            }
        }
    }

    /// The cross products of vectors along a dimension of size 3 (`torch.linalg.cross`). The shapes
    /// broadcast; every number type. A dimension of another size is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let y = tensor![1, 0, 0].linalg_cross(&tensor![0, 1, 0], 0)?;
    /// assert_eq!(y, tensor![0, 0, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(name = cross_dim)]
    #[torsh_tensor::names_caller]
    pub fn linalg_cross(&self, other: &Tensor, dim: impl IntoDim) -> Result<Tensor> {
        let op = LINALG_CROSS.name;
        let refuse = |why: String| self.named(op, Err(TorshError::shape("", why)));
        if self.ndim() != other.ndim() {
            return refuse(format!(
                "inputs must have the same number of dimensions, got {} and {}",
                self.shape(),
                other.shape()
            ));
        }
        let d = self.dim(op, dim.value())?;
        if self.dims().get(d) != Some(&3) || other.dims().get(d) != Some(&3) {
            return refuse(format!(
                "inputs dimension {} must have length 3. Got {} and {}",
                dim.value(),
                self.shape(),
                other.shape()
            ));
        }
        let shape = self.named(op, self.shape().broadcast(other.shape()))?;
        let (a, b) = (self.expand(&shape)?, other.expand(&shape)?);
        call1(
            &LINALG_CROSS,
            &[Arg::T(&a), Arg::T(&b)],
            &attrs::Cross { dim: d },
        )
    }
}
