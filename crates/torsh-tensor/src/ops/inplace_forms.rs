//! Forms of ops that write their result into the first operand.

use torsh_core::{Result, Scalar, TorshError};

use crate::record::OpRecord;
use crate::{
    AddmmOptions, DiagonalOptions, IndexReduceOptions, IntoDim, Operand, RreluOptions,
    ScatterReduceOptions, Tensor,
};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &ADDMM_,
    &ADDBMM_,
    &BADDBMM_,
    &ADDMV_,
    &ADDR_,
    &FLOAT_POWER_,
    &SCATTER_REDUCE_,
    &INDEX_REDUCE_,
    &ALPHA_DROPOUT_,
    &FEATURE_ALPHA_DROPOUT_,
    &FEATURE_DROPOUT_,
    &FILL_DIAGONAL_,
    &RRELU_,
];

/// Writes a result that was computed apart into `x`.
#[track_caller]
fn overwrite(op: &'static str, x: &Tensor, result: &Tensor) -> Result<Tensor> {
    x.named(op, crate::inplace::assign(x, result))?;
    Ok(x.clone())
}

#[track_caller]
fn fill_diagonal(x: &Tensor, value: Scalar, wrap: bool) -> Result<Tensor> {
    let refuse = |why: &str| x.named("fill_diagonal_", Err(TorshError::shape("", why)));
    let [rows, columns, ..] = *x.dims() else {
        return refuse("dimensions must larger than 1");
    };
    if x.ndim() > 2 && x.dims().iter().any(|&n| n != rows) {
        return refuse("all dimensions of input must be of equal length");
    }
    let written = |part: &Tensor| part.fill_(value).map_err(|e| e.renamed("fill_diagonal_"));
    if x.ndim() == 2 {
        let mut first = 0;
        loop {
            let part = x.narrow(0, first, rows - first)?;
            written(&part.diagonal()?)?;
            // Below the square one row stays as it is.
            first += columns + 1;
            if !wrap || first >= rows || columns == 0 {
                return Ok(x.clone());
            }
        }
    }
    // The diagonal of the first two dimensions, and of each further one with the last, which that is.
    let mut part = x.diagonal()?;
    while part.ndim() > 1 {
        let last = part.ndim() as i64 - 1;
        part = part.diagonal_with(DiagonalOptions::new().dim1(0).dim2(last))?;
    }
    written(&part)?;
    Ok(x.clone())
}

impl Tensor {
    /// [`Tensor::addmm`] in place. The shape and dtype stay; an error where the result has others, and for a
    /// leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 1.0], [1.0, 1.0]];
    /// x.addmm_(&tensor![[1.0, 0.0], [0.0, 1.0]], &tensor![[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(x, tensor![[2.0, 3.0], [4.0, 5.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn addmm_(&self, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
        let r = self.addmm(mat1, mat2)?;
        overwrite("addmm_", self, &r)
    }

    /// [`Tensor::addmm_with`] in place. The shape and dtype stay; an error where the result has others, and for
    /// a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::{AddmmOptions, tensor};
    /// let x = tensor![[1.0, 1.0], [1.0, 1.0]];
    /// x.addmm_with_(&tensor![[1.0, 0.0], [0.0, 1.0]], &tensor![[1.0, 2.0], [3.0, 4.0]], AddmmOptions::new().alpha(0).beta(2))?;
    /// assert_eq!(x, tensor![[1.0, 1.0], [1.0, 1.0]].mul(2.0)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn addmm_with_(
        &self,
        mat1: &Tensor,
        mat2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        let r = self.addmm_with(mat1, mat2, options)?;
        overwrite("addmm_", self, &r)
    }

    /// [`Tensor::addbmm`] in place. The shape and dtype stay; an error where the result has others, and for a
    /// leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1.0]];
    /// x.addbmm_(&tensor![[[2.0]], [[3.0]]], &tensor![[[4.0]], [[5.0]]])?;
    /// assert_eq!(x, tensor![[24.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn addbmm_(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        let r = self.addbmm(batch1, batch2)?;
        overwrite("addbmm_", self, &r)
    }

    /// [`Tensor::addbmm_with`] in place. The shape and dtype stay; an error where the result has others, and
    /// for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::{AddmmOptions, tensor};
    /// let x = tensor![[1.0]];
    /// x.addbmm_with_(&tensor![[[2.0]], [[3.0]]], &tensor![[[4.0]], [[5.0]]], AddmmOptions::new().alpha(0).beta(2))?;
    /// assert_eq!(x, tensor![[1.0]].mul(2.0)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn addbmm_with_(
        &self,
        batch1: &Tensor,
        batch2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        let r = self.addbmm_with(batch1, batch2, options)?;
        overwrite("addbmm_", self, &r)
    }

    /// [`Tensor::baddbmm`] in place. The shape and dtype stay; an error where the result has others, and for a
    /// leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1.0]]];
    /// x.baddbmm_(&tensor![[[2.0]]], &tensor![[[3.0]]])?;
    /// assert_eq!(x, tensor![[[7.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn baddbmm_(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        let r = self.baddbmm(batch1, batch2)?;
        overwrite("baddbmm_", self, &r)
    }

    /// [`Tensor::baddbmm_with`] in place. The shape and dtype stay; an error where the result has others, and
    /// for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::{AddmmOptions, tensor};
    /// let x = tensor![[[1.0]]];
    /// x.baddbmm_with_(&tensor![[[2.0]]], &tensor![[[3.0]]], AddmmOptions::new().alpha(0).beta(2))?;
    /// assert_eq!(x, tensor![[[1.0]]].mul(2.0)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn baddbmm_with_(
        &self,
        batch1: &Tensor,
        batch2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        let r = self.baddbmm_with(batch1, batch2, options)?;
        overwrite("baddbmm_", self, &r)
    }

    /// [`Tensor::addmv`] in place. The shape and dtype stay; an error where the result has others, and for a
    /// leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0];
    /// x.addmv_(&tensor![[2.0, 3.0]], &tensor![1.0, 1.0])?;
    /// assert_eq!(x, tensor![6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn addmv_(&self, mat: &Tensor, vec: &Tensor) -> Result<Tensor> {
        let r = self.addmv(mat, vec)?;
        overwrite("addmv_", self, &r)
    }

    /// [`Tensor::addmv_with`] in place. The shape and dtype stay; an error where the result has others, and for
    /// a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::{AddmmOptions, tensor};
    /// let x = tensor![1.0];
    /// x.addmv_with_(&tensor![[2.0, 3.0]], &tensor![1.0, 1.0], AddmmOptions::new().alpha(0).beta(2))?;
    /// assert_eq!(x, tensor![1.0].mul(2.0)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn addmv_with_(&self, mat: &Tensor, vec: &Tensor, options: AddmmOptions) -> Result<Tensor> {
        let r = self.addmv_with(mat, vec, options)?;
        overwrite("addmv_", self, &r)
    }

    /// [`Tensor::addr`] in place. The shape and dtype stay; an error where the result has others, and for a
    /// leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 1.0]];
    /// x.addr_(&tensor![2.0], &tensor![3.0, 4.0])?;
    /// assert_eq!(x, tensor![[7.0, 9.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn addr_(&self, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor> {
        let r = self.addr(vec1, vec2)?;
        overwrite("addr_", self, &r)
    }

    /// [`Tensor::addr_with`] in place. The shape and dtype stay; an error where the result has others, and for
    /// a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::{AddmmOptions, tensor};
    /// let x = tensor![[1.0, 1.0]];
    /// x.addr_with_(&tensor![2.0], &tensor![3.0, 4.0], AddmmOptions::new().alpha(0).beta(2))?;
    /// assert_eq!(x, tensor![[1.0, 1.0]].mul(2.0)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn addr_with_(
        &self,
        vec1: &Tensor,
        vec2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        let r = self.addr_with(vec1, vec2, options)?;
        overwrite("addr_", self, &r)
    }

    /// [`Tensor::float_power`] in place. This tensor is float64 or complex128, as the result; an error for
    /// other dtypes.
    ///
    /// ```
    /// # use torsh_tensor::{DType, tensor};
    /// let x = tensor![2.0, 3.0].to_dtype(DType::F64)?;
    /// x.float_power_(2)?;
    /// assert_eq!(x.to_vec::<f64>()?, [4.0, 9.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn float_power_<'a>(&self, exponent: impl Into<Operand<'a>>) -> Result<Tensor> {
        let r = self.float_power(exponent)?;
        overwrite("float_power_", self, &r)
    }

    /// [`Tensor::scatter_reduce_with`] in place. An error for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::{ScatterReduceOptions, tensor};
    /// let x = tensor![1, 2];
    /// x.scatter_reduce_(0, &tensor![0, 0], &tensor![5, 3], "amax", ScatterReduceOptions::new())?;
    /// assert_eq!(x, tensor![5, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn scatter_reduce_(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        src: &Tensor,
        reduce: &str,
        options: ScatterReduceOptions,
    ) -> Result<Tensor> {
        let r = self.scatter_reduce_with(dim, index, src, reduce, options)?;
        overwrite("scatter_reduce_", self, &r)
    }

    /// [`Tensor::index_reduce_with`] in place. An error for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::{IndexReduceOptions, tensor};
    /// let x = tensor![1, 2];
    /// x.index_reduce_(0, &tensor![0, 0], &tensor![5, 3], "prod", IndexReduceOptions::new())?;
    /// assert_eq!(x, tensor![15, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn index_reduce_(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        source: &Tensor,
        reduce: &str,
        options: IndexReduceOptions,
    ) -> Result<Tensor> {
        let r = self.index_reduce_with(dim, index, source, reduce, options)?;
        overwrite("index_reduce_", self, &r)
    }

    /// [`Tensor::alpha_dropout`] in place. An error for a probability that is none, and for a leaf that
    /// requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// x.alpha_dropout_(0.5, false)?;
    /// assert_eq!(x, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn alpha_dropout_(&self, p: f64, training: bool) -> Result<Tensor> {
        let r = self.alpha_dropout(p, training)?;
        overwrite("alpha_dropout_", self, &r)
    }

    /// [`Tensor::feature_alpha_dropout`] in place. An error for a probability that is none, and for a leaf that
    /// requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 2.0]];
    /// x.feature_alpha_dropout_(0.5, false)?;
    /// assert_eq!(x, tensor![[1.0, 2.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn feature_alpha_dropout_(&self, p: f64, training: bool) -> Result<Tensor> {
        let r = self.feature_alpha_dropout(p, training)?;
        overwrite("feature_alpha_dropout_", self, &r)
    }

    /// Zeroes each channel (dimension 1) with probability `p` and scales the others by `1 / (1 - p)`, in place
    /// (`torch.feature_dropout_`). An error for fewer than two dimensions, a probability that is none, and a leaf that
    /// requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 2.0]];
    /// x.feature_dropout_(1.0, true)?;
    /// assert_eq!(x, tensor![[0.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn feature_dropout_(&self, p: f64, train: bool) -> Result<Tensor> {
        let r = self.named(
            "feature_dropout_",
            super::feature_dropout::features(self, p, train),
        )?;
        overwrite("feature_dropout_", self, &r)
    }

    /// [`Tensor::rrelu_with`] in place. An error for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::{RreluOptions, tensor};
    /// let x = tensor![2.0, 4.0];
    /// x.rrelu_(RreluOptions::new())?;
    /// assert_eq!(x, tensor![2.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn rrelu_(&self, options: RreluOptions) -> Result<Tensor> {
        let r = self.rrelu_with(options)?;
        overwrite("rrelu_", self, &r)
    }

    /// Writes a number on the main diagonal, in place: the elements whose indices are all equal. With `wrap`,
    /// the diagonal of a tall matrix begins again below the square. An error for fewer than two dimensions, and
    /// for more than two of different sizes.
    ///
    /// ```
    /// # use torsh_tensor::{tensor, zeros};
    /// let x = zeros(&[2, 3]);
    /// x.fill_diagonal_(5.0, false)?;
    /// assert_eq!(x, tensor![[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn fill_diagonal_(&self, fill_value: impl Into<Scalar>, wrap: bool) -> Result<Tensor> {
        fill_diagonal(self, fill_value.into(), wrap)
    }
}

#[torsh_tensor::by_name(Tensor::addmm_with_(.., AddmmOptions))]
pub static ADDMM_: OpRecord = OpRecord::new(
    "addmm_",
    "The op addmm in place.",
    "(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1)",
);

#[torsh_tensor::by_name(Tensor::addbmm_with_(.., AddmmOptions))]
pub static ADDBMM_: OpRecord = OpRecord::new(
    "addbmm_",
    "The op addbmm in place.",
    "(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1)",
);

#[torsh_tensor::by_name(Tensor::baddbmm_with_(.., AddmmOptions))]
pub static BADDBMM_: OpRecord = OpRecord::new(
    "baddbmm_",
    "The op baddbmm in place.",
    "(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1)",
);

#[torsh_tensor::by_name(Tensor::addmv_with_(.., AddmmOptions))]
pub static ADDMV_: OpRecord = OpRecord::new(
    "addmv_",
    "The op addmv in place.",
    "(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1)",
);

#[torsh_tensor::by_name(Tensor::addr_with_(.., AddmmOptions))]
pub static ADDR_: OpRecord = OpRecord::new(
    "addr_",
    "The op addr in place.",
    "(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1)",
);

#[torsh_tensor::by_name(Tensor::float_power_)]
pub static FLOAT_POWER_: OpRecord = OpRecord::new(
    "float_power_",
    "The op float_power in place.",
    "(Tensor input, Operand exponent)",
);

#[torsh_tensor::by_name(Tensor::scatter_reduce_(.., ScatterReduceOptions))]
pub static SCATTER_REDUCE_: OpRecord = OpRecord::new(
    "scatter_reduce_",
    "The op scatter_reduce in place.",
    "(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)",
);

#[torsh_tensor::by_name(Tensor::index_reduce_(.., IndexReduceOptions))]
pub static INDEX_REDUCE_: OpRecord = OpRecord::new(
    "index_reduce_",
    "The op index_reduce in place.",
    "(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)",
);

#[torsh_tensor::by_name(Tensor::alpha_dropout_)]
pub static ALPHA_DROPOUT_: OpRecord = OpRecord::new(
    "alpha_dropout_",
    "The op alpha_dropout in place.",
    "(Tensor input, float p, bool train)",
);

#[torsh_tensor::by_name(Tensor::feature_alpha_dropout_)]
pub static FEATURE_ALPHA_DROPOUT_: OpRecord = OpRecord::new(
    "feature_alpha_dropout_",
    "The op feature_alpha_dropout in place.",
    "(Tensor input, float p, bool train)",
);

#[torsh_tensor::by_name(Tensor::feature_dropout_)]
pub static FEATURE_DROPOUT_: OpRecord = OpRecord::new(
    "feature_dropout_",
    "In training zeroes each channel (dimension 1) with probability p and scales the others by 1 / (1 - p), in place.",
    "(Tensor input, float p, bool train)",
);

#[torsh_tensor::by_name(Tensor::fill_diagonal_)]
pub static FILL_DIAGONAL_: OpRecord = OpRecord::new(
    "fill_diagonal_",
    "A number on the main diagonal, in place.",
    "(Tensor input, Scalar fill_value, bool wrap=False)",
);

#[torsh_tensor::by_name(Tensor::rrelu_(.., RreluOptions))]
pub static RRELU_: OpRecord = OpRecord::new(
    "rrelu_",
    "The op rrelu in place.",
    "(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False)",
);
