//! Sums, means and counts as methods.

use super::*;

#[torsh_tensor::functions]
impl Tensor {
    /// Sum of all elements, a 0-d tensor; integers and bools add up in int64 (`torch.sum`).
    ///
    /// Any shape; of no elements 0.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 2.0], [3.0, 4.0]].sum()?.item::<f32>()?, 10.0);
    /// assert_eq!(tensor![true, false, true].sum()?.item::<i64>()?, 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sum(&self) -> Result<Tensor> {
        self.sum_over(None, false, None)
    }

    /// Sum over dimensions: all of them where `dims` is empty.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`; integers and bools add up in int64. An
    /// error for a dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.sum_dim(0, false)?, tensor![4, 6]);
    /// assert_eq!(x.sum_dim(1, true)?, tensor![[3], [7]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sum_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.sum_over(dims.dims().as_deref(), keepdim, None)
    }

    /// Sum with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` to add up in.
    ///
    /// An error for a dimension out of range or named twice.
    ///
    /// ```
    /// use torsh_tensor::{DType, SumOptions, tensor};
    /// let sum = tensor![1, 2].sum_with(SumOptions::new().dtype(DType::F64))?;
    /// assert_eq!((sum.dtype(), sum.item::<f64>()?), (DType::F64, 3.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sum_with(&self, options: SumOptions) -> Result<Tensor> {
        self.sum_over(options.dim.as_deref(), options.keepdim, options.dtype)
    }

    /// Mean of all elements, a 0-d tensor (`torch.mean`).
    ///
    /// Keeps the dtype; an error for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0, 6.0].mean()?.item::<f32>()?, 3.0);
    /// assert!(tensor![1, 2].mean().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn mean(&self) -> Result<Tensor> {
        self.mean_with(SumOptions::default())
    }

    /// Mean over dimensions: all of them where `dims` is empty.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, 3.0], [5.0, 7.0]].mean_dim(0, false)?, tensor![3.0, 5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn mean_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.mean_with(SumOptions {
            dim: dims.dims(),
            keepdim,
            dtype: None,
        })
    }

    /// Mean with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` that the elements are
    /// converted to first.
    ///
    /// An error where the dtype is not floating-point or complex, and for a dimension out of range.
    ///
    /// ```
    /// use torsh_tensor::{DType, SumOptions, tensor};
    /// let mean = tensor![1, 2].mean_with(SumOptions::new().dtype(DType::F32))?;
    /// assert_eq!(mean.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn mean_with(&self, options: SumOptions) -> Result<Tensor> {
        let dims = self.reduce_dims("mean", options.dim.as_deref())?;
        if let Some(d) = options.dtype
            && !d.is_differentiable()
        {
            let text = format!(
                "could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {d}"
            );
            return self.named("mean", Err(TorshError::dtype("", text)));
        }
        let x = self.cast(options.dtype)?;
        let attrs = attrs::Reduce {
            dims,
            keepdim: options.keepdim,
        };
        let whole = attrs.dims.len() == self.ndim() && !options.keepdim;
        if whole && x.dtype().is_differentiable() {
            return call_whole(&MEAN, &x, x.dtype(), &attrs);
        }
        call1(&MEAN, &[Arg::T(&x)], &attrs)
    }

    /// Sum of all elements in which nan counts as 0, a 0-d tensor (`torch.nansum`).
    ///
    /// Integers and bools add up in int64; an error for complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, f64::NAN, 2.0].nansum()?.item::<f32>()?, 3.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn nansum(&self) -> Result<Tensor> {
        self.nansum_with(SumOptions::default())
    }

    /// Sum over dimensions in which nan counts as 0.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for complex tensors, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, f64::NAN], [2.0, 3.0]].nansum_dim(1, false)?, tensor![1.0, 5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nansum_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.nansum_with(SumOptions {
            dim: dims.dims(),
            keepdim,
            dtype: None,
        })
    }

    /// [`Tensor::nansum`] with PyTorch's keyword arguments: `dim`, `keepdim` and the `dtype` to add
    /// up in.
    ///
    /// ```
    /// use torsh_tensor::{SumOptions, tensor};
    /// let x = tensor![[1.0, f64::NAN]];
    /// assert_eq!(x.nansum_with(SumOptions::new().dim(1).keepdim(true))?, tensor![[1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nansum_with(&self, options: SumOptions) -> Result<Tensor> {
        let dims = self.reduce_dims("nansum", options.dim.as_deref())?;
        let attrs = attrs::Reduce {
            dims,
            keepdim: options.keepdim,
        };
        let out = call1(&NANSUM, &[Arg::T(&self.cast(options.dtype)?)], &attrs)?;
        out.cast(options.dtype)
    }

    /// Mean of all elements that are not nan, a 0-d tensor (`torch.nanmean`); nan where there is
    /// none.
    ///
    /// Keeps the dtype; an error for integers and bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, f64::NAN, 2.0].nanmean()?.item::<f32>()?, 1.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn nanmean(&self) -> Result<Tensor> {
        self.nanmean_with(SumOptions::default())
    }

    /// Mean over dimensions of the elements that are not nan.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for integers, and for a
    /// dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1.0, f64::NAN], [2.0, 4.0]].nanmean_dim(1, false)?, tensor![1.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nanmean_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.nanmean_with(SumOptions {
            dim: dims.dims(),
            keepdim,
            dtype: None,
        })
    }

    /// [`Tensor::nanmean`] with PyTorch's keyword arguments: `dim`, `keepdim` and `dtype`; an error
    /// for integers.
    ///
    /// ```
    /// use torsh_tensor::{SumOptions, tensor};
    /// let x = tensor![[1.0, f64::NAN, 2.0]];
    /// assert_eq!(x.nanmean_with(SumOptions::new().dim(1))?, tensor![1.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn nanmean_with(&self, options: SumOptions) -> Result<Tensor> {
        if !self.dtype().is_differentiable() {
            let text = format!(
                "expected input to have floating point or complex dtype but got {}",
                self.dtype()
            );
            return self.named("nanmean", Err(TorshError::dtype("", text)));
        }
        let dims = self.reduce_dims("nanmean", options.dim.as_deref())?;
        let numbers = self.isnan()?.logical_not()?;
        let count = numbers.sum_over(Some(&dims), options.keepdim, None)?;
        self.nansum_with(options)
            .map_err(|e| e.renamed("nanmean"))?
            .div(&count)
    }

    #[track_caller]
    pub(super) fn count_nonzero_over(&self, dims: Option<&[i64]>) -> Result<Tensor> {
        let dims = self.reduce_dims("count_nonzero", dims)?;
        call1(
            &COUNT_NONZERO,
            &[Arg::T(self)],
            &attrs::Reduce {
                dims,
                keepdim: false,
            },
        )
    }

    /// How many elements are not zero, a 0-d int64 tensor (`torch.count_nonzero`).
    ///
    /// Any shape and dtype; nan counts.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![0, 3, 4].count_nonzero()?.item::<i64>()?, 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn count_nonzero(&self) -> Result<Tensor> {
        self.count_nonzero_over(None)
    }

    /// How many elements are not zero, over dimensions, which are lost (int64).
    ///
    /// An error for a dimension out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[0, 3], [5, 4]].count_nonzero_dim(0)?, tensor![1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn count_nonzero_dim(&self, dims: impl IntoDims) -> Result<Tensor> {
        self.count_nonzero_over(dims.dims().as_deref())
    }

    #[track_caller]
    pub(super) fn truth(
        &self,
        record: &'static OpRecord,
        dims: Option<&[i64]>,
        keepdim: bool,
    ) -> Result<Tensor> {
        let dims = self.reduce_dims(record.name, dims)?;
        call1(record, &[Arg::T(self)], &attrs::Reduce { dims, keepdim })
    }

    /// Whether any element is not zero (nan is not), as a 0-d bool tensor; false of no elements
    /// (`torch.any`).
    ///
    /// Any shape and dtype; uint8 gives uint8, as in PyTorch.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![0.0, 2.0].any()?.item::<bool>()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn any(&self) -> Result<Tensor> {
        self.truth(&ANY, None, false)
    }

    /// Whether any element is not zero, over dimensions: all of them where `dims` is empty.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for a dimension out of range or
    /// named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[0, 0], [0, 7]].any_dim(1, false)?, tensor![false, true]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn any_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.truth(&ANY, dims.dims().as_deref(), keepdim)
    }

    /// Whether no element is zero, as a 0-d bool tensor; true of no elements (`torch.all`).
    ///
    /// Any shape and dtype; uint8 gives uint8, as in PyTorch. nan is not zero.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(!tensor![0.0, 2.0].all()?.item::<bool>()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn all(&self) -> Result<Tensor> {
        self.truth(&ALL, None, false)
    }

    /// Whether no element is zero, over dimensions: all of them where `dims` is empty.
    ///
    /// Loses `dims`, or keeps them as size 1 with `keepdim`. An error for a dimension out of range or
    /// named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 0], [6, 7]].all_dim(1, false)?, tensor![false, true]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn all_dim(&self, dims: impl IntoDims, keepdim: bool) -> Result<Tensor> {
        self.truth(&ALL, dims.dims().as_deref(), keepdim)
    }

    /// Sums what broadcasting from `shape` to this tensor's shape would repeat
    /// (`Tensor.sum_to_size`).
    ///
    /// The result has that shape. An error where `shape` does not broadcast to the tensor's.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.sum_to_size([2, 1])?, tensor![[3], [7]]);
    /// assert!(x.sum_to_size([3]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sum_to_size(&self, shape: impl IntoShape) -> Result<Tensor> {
        let shape = self.named("sum_to_size", shape.shape())?;
        if !shape.can_broadcast_to(self.shape()) {
            let text = format!("size {shape} is not expandable to size {}", self.shape());
            return self.named("sum_to_size", Err(TorshError::shape("", text)));
        }
        // As in PyTorch, whose sum of bools is int64 even of one.
        if shape.ndim() == 0 {
            self.sum()
        } else {
            self.sum_to(&shape)
        }
    }

    /// Sum of the diagonal of a matrix, a 0-d tensor (`torch.trace`).
    ///
    /// Integers add up in int64. An error for other than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].trace()?.item::<i64>()?, 5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn trace(&self) -> Result<Tensor> {
        if self.ndim() != 2 {
            let text = format!("expected a matrix, but got tensor with dim {}", self.ndim());
            return self.named("trace", Err(TorshError::shape("", text)));
        }
        body(TRACE.autocast, [self], |[x]| x.diagonal()?.sum())
    }

    /// Sums what broadcasting from `shape` to this tensor's shape repeated.
    pub(crate) fn sum_to(&self, shape: &Shape) -> Result<Tensor> {
        if self.shape() == shape {
            return Ok(self.clone());
        }
        let lead = self.ndim() - shape.ndim();
        let mut dims: SmallVec<[i64; 6]> = (0..lead as i64).collect();
        for d in 0..shape.ndim() {
            if shape[d] == 1 && self.dims()[lead + d] != 1 {
                dims.push((lead + d) as i64);
            }
        }
        let sum = if dims.is_empty() {
            self.clone()
        } else {
            self.sum_over(Some(&dims), true, None)?
        };
        sum.reshape(shape)
    }
}
