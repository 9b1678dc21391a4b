//! Methods of the functions of this module.

use torsh_core::Result;

use super::*;
use crate::{IntoDim, IntoShape, Tensor};

#[torsh_tensor::functions]
impl Tensor {
    /// The derivative along each dimension, estimated from neighbouring elements one apart: central
    /// differences inside, one-sided ones at the ends (`torch.gradient`). One tensor of this shape
    /// for each dimension. Signed integers, floats and complex; an error for a dimension with fewer
    /// than two elements.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 4.0, 9.0, 16.0];
    /// assert_eq!(x.gradient()?, [tensor![3.0, 4.0, 6.0, 7.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn gradient(&self) -> Result<Vec<Tensor>> {
        self.gradient_with(GradientOptions::new())
    }

    /// [`Tensor::gradient`] with PyTorch's keyword arguments: the distances or coordinates of the
    /// elements, the dimensions, and the order of the estimates at the ends (`torch.gradient`).
    ///
    /// ```
    /// # use torsh_tensor::{GradientOptions, tensor};
    /// let x = tensor![1.0, 4.0, 9.0, 16.0];
    /// let options = GradientOptions::new().spacing(2.0).edge_order(2);
    /// assert_eq!(x.gradient_with(options)?, [tensor![1.0, 2.0, 3.0, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn gradient_with(&self, options: GradientOptions) -> Result<Vec<Tensor>> {
        gradient(self, &options)
    }

    /// The covariance matrix of variables in the rows and observations in the columns, with one
    /// observation less in the divisor (`torch.cov`). A 1-d tensor is one variable, whose variance is
    /// 0-d. Every number type but bool; an error for more than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]];
    /// assert_eq!(x.cov()?, tensor![[1.0, -1.0], [-1.0, 1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn cov(&self) -> Result<Tensor> {
        self.cov_with(CovOptions::new())
    }

    /// [`Tensor::cov`] with PyTorch's keyword arguments: the correction of the divisor, and weights
    /// of the observations (`torch.cov`). An error for weights of other shapes and dtypes, and for
    /// negative ones.
    ///
    /// ```
    /// # use torsh_tensor::{CovOptions, tensor};
    /// let x = tensor![[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]];
    /// let y = x.cov_with(CovOptions::new().correction(0))?;
    /// assert!(y.allclose(&tensor![[0.666667, -0.666667], [-0.666667, 0.666667]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cov_with(&self, options: CovOptions) -> Result<Tensor> {
        self.named("cov", cov(self, &options).map_err(|e| e.renamed("cov")))
    }

    /// Pearson's correlation coefficients of variables in the rows and observations in the columns
    /// (`torch.corrcoef`). Every number type but bool; an error for more than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]];
    /// assert!(x.corrcoef()?.allclose(&tensor![[1.0, -1.0], [-1.0, 1.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn corrcoef(&self) -> Result<Tensor> {
        self.named(
            "corrcoef",
            corrcoef(self).map_err(|e| e.renamed("corrcoef")),
        )
    }

    /// All choices of `r` elements of a vector, one a row, in order (`torch.combinations`). Every
    /// dtype; an error for other ranks than 1, and for a negative `r`.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].combinations(2, false)?, tensor![[1, 2], [1, 3], [2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn combinations(&self, r: i64, with_replacement: bool) -> Result<Tensor> {
        self.named(
            "combinations",
            combinations(self, r, with_replacement).map_err(|e| e.renamed("combinations")),
        )
    }

    /// The tensor rotated `k` times by 90 degrees in the plane of two dimensions, from the first
    /// towards the second (`torch.rot90`). Every dtype; an error for fewer than two dimensions, and
    /// for equal ones.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.rot90(1, [0, 1])?, tensor![[2, 4], [1, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn rot90(&self, k: i64, dims: [i64; 2]) -> Result<Tensor> {
        self.named(
            "rot90",
            rot90(self, k, &dims).map_err(|e| e.renamed("rot90")),
        )
    }

    /// The integral along a dimension by the trapezoidal rule, for points one apart
    /// (`torch.trapezoid`). The dimension goes away. Every number type but bool.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0, 3.0].trapezoid(-1)?.item::<f32>()?, 4.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn trapezoid(&self, dim: impl IntoDim) -> Result<Tensor> {
        trapezoid("trapezoid", self, None, 1.0, dim.value(), false)
    }

    /// [`Tensor::trapezoid`] for points at a distance or at coordinates (`torch.trapezoid`). An error
    /// for another number of coordinates.
    ///
    /// ```
    /// # use torsh_tensor::{TrapezoidSpacing, tensor};
    /// let y = tensor![1.0, 2.0, 3.0];
    /// let x = tensor![0.0, 1.0, 3.0];
    /// assert_eq!(y.trapezoid_with(-1, TrapezoidSpacing::At(x))?.item::<f32>()?, 6.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn trapezoid_with(&self, dim: impl IntoDim, spacing: TrapezoidSpacing) -> Result<Tensor> {
        spacing.apply("trapezoid", self, dim.value(), false)
    }

    /// The integrals up to each point along a dimension by the trapezoidal rule, for points one apart
    /// (`torch.cumulative_trapezoid`). One element less along the dimension. Every number type but
    /// bool.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0, 3.0].cumulative_trapezoid(-1)?, tensor![1.5, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cumulative_trapezoid(&self, dim: impl IntoDim) -> Result<Tensor> {
        trapezoid("cumulative_trapezoid", self, None, 1.0, dim.value(), true)
    }

    /// [`Tensor::cumulative_trapezoid`] for points at a distance or at coordinates
    /// (`torch.cumulative_trapezoid`). An error for another number of coordinates.
    ///
    /// ```
    /// # use torsh_tensor::{TrapezoidSpacing, tensor};
    /// let y = tensor![1.0, 2.0, 3.0];
    /// assert_eq!(y.cumulative_trapezoid_with(-1, TrapezoidSpacing::Step(2.0))?, tensor![3.0, 8.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cumulative_trapezoid_with(
        &self,
        dim: impl IntoDim,
        spacing: TrapezoidSpacing,
    ) -> Result<Tensor> {
        spacing.apply("cumulative_trapezoid", self, dim.value(), true)
    }

    /// Whether the imaginary part of each element is 0: bools of this shape (`torch.isreal`). Every
    /// dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let z = tensor![[1.0, 0.0], [1.0, 2.0]].view_as_complex()?;
    /// assert_eq!(z.isreal()?, tensor![true, false]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn isreal(&self) -> Result<Tensor> {
        isreal(self)
    }

    /// The operand: conjugation is done at once, so no tensor waits for it (`torch.resolve_conj`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// assert_eq!(x.resolve_conj(), x);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn resolve_conj(&self) -> Tensor {
        self.clone()
    }

    /// The operand: negation is done at once, so no tensor waits for it (`torch.resolve_neg`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 2.0];
    /// assert_eq!(x.resolve_neg(), x);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn resolve_neg(&self) -> Tensor {
        self.clone()
    }

    /// Whether a conjugation waits to be done: never (`torch.is_conj`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(!tensor![1.0].is_conj());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn is_conj(&self) -> bool {
        false
    }

    /// Whether a negation waits to be done: never (`torch.is_neg`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(!tensor![1.0].is_neg());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn is_neg(&self) -> bool {
        false
    }

    /// Whether the dtype has negative numbers (`torch.is_signed`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1].is_signed() && !tensor![true].is_signed());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn is_signed(&self) -> bool {
        self.dtype().is_signed()
    }

    /// Whether the only element is not 0 (`torch.is_nonzero`). An error for another number of
    /// elements.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![2.0].is_nonzero()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn is_nonzero(&self) -> Result<bool> {
        is_nonzero(self)
    }

    /// The dimensions in the order of memory, the one with the largest step first.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].t()?.dim_order(), [1, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn dim_order(&self) -> Vec<usize> {
        dim_order(self)
    }

    /// Mantissa and exponent of each element (`torch.frexp`): `x = mantissa * 2^exponent` with
    /// `0.5 <= |mantissa| < 1`. The mantissa has this dtype, the exponent is int32; zeros, infinities and
    /// nan are their own mantissas, with the exponent 0. Real floating-point dtypes.
    ///
    /// ```
    /// # use torsh_tensor::{DType, tensor};
    /// let (mantissa, exponent) = tensor![3.0, -8.0].frexp()?;
    /// assert_eq!(mantissa, tensor![0.75, -0.5]);
    /// assert_eq!(exponent, tensor![2, 4].to_dtype(DType::I32)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn frexp(&self) -> Result<(Tensor, Tensor)> {
        self.named("frexp", frexp(self).map_err(|e| e.renamed("frexp")))
    }

    /// The positions in a tensor of `shape` of elements that are counted row-major: one tensor of
    /// this shape for each dimension (`torch.unravel_index`). Integers; an error for other dtypes,
    /// and for a negative size.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let parts = tensor![5, 7].unravel_index([2, 4])?;
    /// assert_eq!(parts, [tensor![1, 1], tensor![1, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn unravel_index(&self, shape: impl IntoShape) -> Result<Vec<Tensor>> {
        self.named(
            "unravel_index",
            unravel_index(self, &shape.sizes()).map_err(|e| e.renamed("unravel_index")),
        )
    }

    /// The first `size` rows of [`Tensor::nonzero`], with `fill_value` in the rows that there are too
    /// few for: int64 of shape `[size, ndim]`, whatever the values (`torch.nonzero_static`). Every
    /// dtype; an error for a negative size.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 0, 2].nonzero_static(3, -1)?, tensor![[0], [2], [-1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nonzero_static(&self, size: impl IntoDim, fill_value: i64) -> Result<Tensor> {
        self.named(
            "nonzero_static",
            nonzero_static(self, size.value(), fill_value).map_err(|e| e.renamed("nonzero_static")),
        )
    }

    /// A copy of this tensor in which the slices of `source` are joined to those at the positions of
    /// `index` along a dimension, by `prod`, `mean`, `amax` or `amin` (`torch.index_reduce`). Every
    /// number type but complex; an error for other reductions, for shapes that do not fit, and for a
    /// position out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3];
    /// let y = x.index_reduce(0, &tensor![0, 0, 2], &tensor![4, 5, 6], "prod")?;
    /// assert_eq!(y, tensor![20, 2, 18]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn index_reduce(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        source: &Tensor,
        reduce: &str,
    ) -> Result<Tensor> {
        self.index_reduce_with(dim, index, source, reduce, IndexReduceOptions::new())
    }

    /// [`Tensor::index_reduce`] with PyTorch's keyword argument: whether the elements that are there
    /// take part (`torch.index_reduce`).
    ///
    /// ```
    /// # use torsh_tensor::{IndexReduceOptions, tensor};
    /// let x = tensor![1, 2];
    /// let options = IndexReduceOptions::new().include_self(false);
    /// assert_eq!(x.index_reduce_with(0, &tensor![0], &tensor![5], "amin", options)?, tensor![5, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn index_reduce_with(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        source: &Tensor,
        reduce: &str,
        options: IndexReduceOptions,
    ) -> Result<Tensor> {
        self.named(
            "index_reduce",
            index_reduce(
                self,
                dim.value(),
                index,
                source,
                reduce,
                options.include_self,
            )
            .map_err(|e| e.renamed("index_reduce")),
        )
    }

    /// Complex numbers of real parts, this tensor, and imaginary parts, with which it broadcasts
    /// (`torch.complex`). Both float32 or both float64; an error for other dtypes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let z = tensor![3.0].complex(&tensor![4.0])?;
    /// assert_eq!(z.abs()?, tensor![5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn complex(&self, imag: &Tensor) -> Result<Tensor> {
        complex(self, imag)
    }

    /// Complex numbers of absolute values, this tensor, and angles, with which it broadcasts
    /// (`torch.polar`). Both float32 or both float64; an error for other dtypes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let z = tensor![2.0].polar(&tensor![0.0])?;
    /// assert_eq!(z.real()?, tensor![2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn polar(&self, angle: &Tensor) -> Result<Tensor> {
        polar(self, angle)
    }
}
