//! Gathering and scattering as methods.

use super::*;

#[torsh_tensor::functions]
impl Tensor {
    pub(super) fn reshape_if(self, shape: &Shape) -> Result<Tensor> {
        if self.shape() == shape {
            Ok(self)
        } else {
            self.reshape(shape)
        }
    }

    /// For every element of `index` (int64 or int32, as many dimensions), this tensor's element at
    /// that position of `dim` (`torch.gather`).
    ///
    /// The result has the shape of `index`, which in other dimensions may be smaller than the
    /// tensor's. An error for larger ones, and for indices out of range.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let y = x.gather(1, &Tensor::from_data(&[0i64, 0, 1, 0], &[2, 2])?)?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 4.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn gather(&self, dim: impl IntoDim, index: &Tensor) -> Result<Tensor> {
        self.gather_with(dim, index, GatherOptions::default())
    }

    /// [`Tensor::gather`], where with the option `sparse_grad` this tensor's gradient is a COO tensor of its shape. The
    /// gradient has an element for each one of `index`, all of its dimensions are sparse, and it is not coalesced. The
    /// default is a strided gradient.
    ///
    /// An error in a program without the feature `sparse`.
    ///
    /// ```
    /// use torsh_tensor::{GatherOptions, tensor};
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// let options = GatherOptions::new().sparse_grad(false);
    /// assert_eq!(x.gather_with(1, &tensor![[0, 0], [1, 0]], options)?, tensor![[1.0, 1.0], [4.0, 3.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn gather_with(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        options: GatherOptions,
    ) -> Result<Tensor> {
        if options.sparse_grad {
            crate::sparse::gradients_of_rows("gather", "sparse_grad")?;
        }
        let d = self.dim("gather", dim.value())?;
        call1(
            &GATHER,
            &[Arg::T(self), Arg::T(index)],
            &attrs::Gather {
                dim: d,
                negative: false,
                sparse_grad: options.sparse_grad,
            },
        )
    }

    /// The elements at `indices` (int64, negative from the end) along `dim`, both broadcast in the
    /// other dimensions; without `dim`, of the flattened tensor (`torch.take_along_dim`).
    ///
    /// An error for indices out of range, and for a different number of dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[30, 10], [5, 20]];
    /// assert_eq!(x.take_along_dim(&x.argsort()?, 1)?, tensor![[10, 30], [5, 20]]);
    /// assert_eq!(x.take_along_dim(&tensor![3], None)?, tensor![20]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn take_along_dim(&self, indices: &Tensor, dim: impl Into<Option<i64>>) -> Result<Tensor> {
        if indices.dtype() != DType::I64 {
            return Err(TorshError::dtype(
                "take_along_dim",
                format!(
                    "dtype of indices should be int64 but got {}",
                    indices.dtype()
                ),
            ));
        }
        let Some(dim) = dim.into() else {
            let args = [&self.reshape([-1i64])?, &indices.reshape([-1i64])?];
            return call1(
                &GATHER,
                &args.map(Arg::T),
                &attrs::Gather {
                    dim: 0,
                    negative: true,
                    sparse_grad: false,
                },
            );
        };
        let at = std::panic::Location::caller();
        let operands = || vec![self.describe(), indices.describe()];
        if self.ndim() != indices.ndim() {
            return Err(TorshError::shape(
                "",
                format!(
                    "input and indices should have the same number of dimensions, but got {} dimensions for input, and {} dimensions for indices",
                    self.ndim(),
                    indices.ndim()
                ),
            )
            .in_op("take_along_dim", operands, at));
        }
        let d = self.dim("take_along_dim", dim)?;
        let sized = |t: &Tensor, n: usize| -> Shape {
            let mut dims = Dims::from_slice(t.dims());
            if let Some(x) = dims.get_mut(d) {
                *x = n;
            }
            dims.into()
        };
        let both = sized(self, 1)
            .broadcast(&sized(indices, 1))
            .map_err(|e| e.in_op("take_along_dim", operands, at))?;
        let with = |n: usize| -> Shape {
            let mut dims = Dims::from_slice(both.dims());
            if let Some(x) = dims.get_mut(d) {
                *x = n;
            }
            dims.into()
        };
        let x = self.expand(with(self.dims().get(d).copied().unwrap_or(1)))?;
        let index = indices.expand(with(indices.dims().get(d).copied().unwrap_or(1)))?;
        call1(
            &GATHER,
            &[Arg::T(&x), Arg::T(&index)],
            &attrs::Gather {
                dim: d,
                negative: true,
                sparse_grad: false,
            },
        )
    }

    fn scatter_call(
        &self,
        op: &'static str,
        dim: i64,
        index: &Tensor,
        src: &Operand<'_>,
        reduce: Option<ScatterUpdate>,
        write: bool,
    ) -> Result<Tensor> {
        let d = self.dim(op, dim)?;
        let (tensor, value) = match src {
            Operand::Number(n) => {
                check_number(*n, self.dtype()).map_err(|e| e.renamed(op))?;
                (None, Some(*n))
            }
            o => (Some(o.to_tensor()?), None),
        };
        let record = if reduce.is_none() {
            &SCATTER
        } else {
            &SCATTER_REDUCING
        };
        let source = Arg::opt(tensor.as_ref());
        let attrs = attrs::Scatter {
            dim: d,
            reduce,
            value,
        };
        if write {
            in_place(record, self, &[Arg::T(index), source], &attrs)
        } else {
            call1(record, &[Arg::T(self), Arg::T(index), source], &attrs)
        }
    }

    /// This tensor with the elements of `src` (a tensor of the same dtype, or one number) at the
    /// positions of `dim` that `index` names per element (`torch.scatter`).
    ///
    /// `index` (int64 or int32) has as many dimensions, and is nowhere larger than `src`, nor but for
    /// `dim` than this tensor. An error for others and for positions out of range.
    ///
    /// ```
    /// use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::zeros(&[2, 3], DType::F32, Device::Cpu)?;
    /// let y = x.scatter(1, &Tensor::from_data(&[2i64, 0], &[2, 1])?, 1.0)?;
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn scatter<'a>(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        src: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        self.scatter_call("scatter", dim.value(), index, &src.into(), None, false)
    }

    /// [`Tensor::scatter`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0];
    /// x.scatter_(0, &tensor![2, 0], &tensor![5, 6])?;
    /// assert_eq!(x, tensor![6, 0, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn scatter_<'a>(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        src: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        self.scatter_call("scatter_", dim.value(), index, &src.into(), None, true)
    }

    /// [`Tensor::scatter`] that adds (`"add"`) or multiplies (`"multiply"`) what it writes into the
    /// elements of this tensor; not differentiable, as in PyTorch.
    ///
    /// An error for another word.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3];
    /// assert_eq!(x.scatter_with(0, &tensor![1, 1], 10, "add")?, tensor![1, 22, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn scatter_with<'a>(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        src: impl Into<Operand<'a>>,
        reduce: &str,
    ) -> Result<Tensor> {
        let Some(update) = ScatterUpdate::parse(reduce) else {
            return Err(TorshError::invalid(
                "scatter",
                format!("reduce argument must be either add or multiply, got {reduce}"),
            ));
        };
        self.scatter_call(
            "scatter",
            dim.value(),
            index,
            &src.into(),
            Some(update),
            false,
        )
    }

    /// Adds the elements of `src` to the positions of `dim` that `index` names per element
    /// (`torch.scatter_add`). The index is int32 or int64 and has this tensor's number of dimensions;
    /// it is no larger than `src`, and apart from `dim` no larger than this tensor. The source has
    /// this tensor's dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3];
    /// assert_eq!(x.scatter_add(0, &tensor![0, 0, 2], &tensor![10, 20, 30])?, tensor![31, 2, 33]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn scatter_add(&self, dim: impl IntoDim, index: &Tensor, src: &Tensor) -> Result<Tensor> {
        let d = self.dim("scatter_add", dim.value())?;
        call1(
            &SCATTER_ADD,
            &[Arg::T(self), Arg::T(index), Arg::T(src)],
            &attrs::Gather {
                dim: d,
                negative: false,
                sparse_grad: false,
            },
        )
    }

    /// [`Tensor::scatter_add`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2];
    /// x.scatter_add_(0, &tensor![1, 1], &tensor![10, 20])?;
    /// assert_eq!(x, tensor![1, 32]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn scatter_add_(&self, dim: impl IntoDim, index: &Tensor, src: &Tensor) -> Result<Tensor> {
        let d = self.dim("scatter_add_", dim.value())?;
        in_place(
            &SCATTER_ADD,
            self,
            &[Arg::T(index), Arg::T(src)],
            &attrs::Gather {
                dim: d,
                negative: false,
                sparse_grad: false,
            },
        )
    }

    /// Reduces the elements of `src` into the positions of `dim` that `index` names per element:
    /// `reduce` is `"sum"`, `"prod"`, `"mean"`, `"amax"` or `"amin"`, in which this tensor's own
    /// elements take part (`torch.scatter_reduce`).
    ///
    /// Shapes, dtypes and errors as in [`Tensor::scatter`]; an error for another word.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![5, 5];
    /// assert_eq!(x.scatter_reduce(0, &tensor![0, 0, 1], &tensor![1, 9, 2], "amax")?, tensor![9, 5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn scatter_reduce(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        src: &Tensor,
        reduce: &str,
    ) -> Result<Tensor> {
        self.scatter_reduce_with(dim, index, src, reduce, ScatterReduceOptions::default())
    }

    /// [`Tensor::scatter_reduce`], where with the option `include_self` false this tensor's own
    /// elements take no part.
    ///
    /// ```
    /// use torsh_tensor::{ScatterReduceOptions, tensor};
    /// let x = tensor![5, 5];
    /// let options = ScatterReduceOptions::new().include_self(false);
    /// let y = x.scatter_reduce_with(0, &tensor![0, 0, 1], &tensor![1, 9, 2], "amin", options)?;
    /// assert_eq!(y, tensor![1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn scatter_reduce_with(
        &self,
        dim: impl IntoDim,
        index: &Tensor,
        src: &Tensor,
        reduce: &str,
        options: ScatterReduceOptions,
    ) -> Result<Tensor> {
        let d = self.dim("scatter_reduce", dim.value())?;
        let attrs = attrs::ScatterReduce {
            dim: d,
            reduce: reduction(reduce)?,
            include_self: options.include_self,
        };
        call1(
            &SCATTER_REDUCE,
            &[Arg::T(self), Arg::T(index), Arg::T(src)],
            &attrs,
        )
    }
}
