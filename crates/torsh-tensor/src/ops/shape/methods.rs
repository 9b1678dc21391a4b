//! The tensor's methods that change its shape.

use super::*;

#[torsh_tensor::functions]
impl Tensor {
    #[track_caller]
    pub(crate) fn named<T>(&self, op: &'static str, r: Result<T>) -> Result<T> {
        let at = std::panic::Location::caller();
        r.map_err(|e| e.in_op(op, || vec![self.describe()], at))
    }

    /// A view in which dimensions of size 1 are repeated; `-1` keeps a size (`Tensor.expand`).
    ///
    /// `shape` may have more dimensions in front. An error where a size other than 1 would change.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1], [2]].expand([2, 3])?, tensor![[1, 1, 1], [2, 2, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn expand(&self, shape: impl IntoShape) -> Result<Tensor> {
        let sizes = shape.sizes();
        let lead = sizes.len().wrapping_sub(self.ndim());
        let mut size = Dims::new();
        for (i, &s) in sizes.iter().enumerate() {
            if s == -1 && lead <= i {
                size.push(self.dims()[i - lead]);
            } else if s >= 0 {
                size.push(s as usize);
            } else {
                let e = TorshError::shape(
                    "",
                    format!(
                        "the expanded size {s} isn't allowed in a leading, non-existing dimension {i}"
                    ),
                );
                return self.named("expand", Err(e));
            }
        }
        let size = size.into();
        call1(&EXPAND, &[Arg::T(self)], &attrs::Expand { size })
    }

    /// A view of another shape; an error where that needs a copy (`Tensor.view`). One size may be
    /// `-1`.
    ///
    /// An error, too, where the number of elements differs. [`Tensor::reshape`] copies where it
    /// must.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2, 3], [4, 5, 6]];
    /// assert_eq!(x.view([3, -1])?, tensor![[1, 2], [3, 4], [5, 6]]);
    /// // The elements of the transpose are not in this order in memory.
    /// assert!(x.t()?.view([6]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn view(&self, shape: impl IntoShape) -> Result<Tensor> {
        let size = self.named("view", infer(&shape.sizes(), self.numel()))?;
        call1(&VIEW, &[Arg::T(self)], &attrs::View { size })
    }

    /// The elements in another shape (`torch.reshape`).
    ///
    /// A view where the layout allows it, else a copy; one size may be `-1`. An error where the
    /// number of elements differs.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2, 3], [4, 5, 6]];
    /// assert_eq!(x.t()?.reshape([6])?, tensor![1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn reshape(&self, shape: impl IntoShape) -> Result<Tensor> {
        let size = self.named("reshape", infer(&shape.sizes(), self.numel()))?;
        if size == *self.shape() {
            return Ok(self.clone());
        }
        let attrs = attrs::View { size };
        if let Some(reshaped) = crate::call::by_rule("reshape", &[Arg::T(self)], &attrs) {
            return reshaped;
        }
        if self.memory_layout().reshape(&attrs.size).is_some() {
            return call1(&VIEW, &[Arg::T(self)], &attrs);
        }
        call1(&VIEW, &[Arg::T(&self.contiguous()?)], &attrs)
    }

    /// The dimensions in another order (`torch.permute`).
    ///
    /// A view. An error where `dims` does not name every dimension once.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1, 2, 3], [4, 5, 6]]];
    /// assert_eq!(x.permute([2, 0, 1])?, tensor![[[1, 4]], [[2, 5]], [[3, 6]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn permute(&self, dims: impl IntoDims) -> Result<Tensor> {
        let given = dims.dims().unwrap_or_default();
        let dims = self.named("permute", self.order(&given))?;
        self.permuted(dims)
    }

    /// A view with the dimensions in an order, which has each of them once.
    #[track_caller]
    pub(super) fn permuted(&self, dims: Dims) -> Result<Tensor> {
        call1(&PERMUTE, &[Arg::T(self)], &attrs::Permute { dims })
    }

    fn order(&self, dims: &[i64]) -> Result<Dims> {
        if dims.len() != self.ndim() {
            return Err(TorshError::invalid(
                "",
                format!(
                    "number of dimensions in the tensor input does not match the length of the desired ordering of dimensions: {} is not {}",
                    self.ndim(),
                    dims.len()
                ),
            ));
        }
        let mut order = Dims::new();
        for &d in dims {
            let d = self.shape().dim(d)?;
            if order.contains(&d) {
                return Err(TorshError::invalid(
                    "",
                    format!("duplicate dim {d} in the order {dims:?}"),
                ));
            }
            order.push(d);
        }
        Ok(order)
    }

    /// Two dimensions exchanged (`torch.transpose`).
    ///
    /// A view. An error for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].transpose(0, 1)?, tensor![[1, 3], [2, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn transpose(&self, dim0: impl IntoDim, dim1: impl IntoDim) -> Result<Tensor> {
        let dim0 = self.dim("transpose", dim0.value())?;
        let dim1 = self.dim("transpose", dim1.value())?;
        let attrs = attrs::Transpose { dim0, dim1 };
        call1(&TRANSPOSE, &[Arg::T(self)], &attrs)
    }

    /// A view without the named dimensions of size 1; `None` removes all of that size. Dimensions of
    /// another size stay. A dimension that is out of range or named twice is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1], [2]]];
    /// assert_eq!(x.squeeze(0)?, tensor![[1], [2]]);
    /// assert_eq!(x.squeeze(None)?, tensor![1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn squeeze(&self, dim: impl IntoDims) -> Result<Tensor> {
        let mut drop = Dims::new();
        match dim.dims() {
            None => drop.extend((0..self.ndim()).filter(|&d| self.dims()[d] == 1)),
            Some(list) => {
                for d in list {
                    let d = self.dim("squeeze", d)?;
                    if drop.contains(&d) {
                        let e = TorshError::invalid(
                            "",
                            format!("dim {d} appears multiple times in the list of dims"),
                        );
                        return self.named("squeeze", Err(e));
                    }
                    drop.push(d);
                }
            }
        }
        call1(&SQUEEZE, &[Arg::T(self)], &attrs::Squeeze { dim: drop })
    }

    pub(crate) fn squeeze_dim(&self, dim: usize) -> Result<Tensor> {
        let dim = Dims::from_slice(&[dim]);
        call1(&SQUEEZE, &[Arg::T(self)], &attrs::Squeeze { dim })
    }

    /// A view with a dimension of size 1 put in before `dim`. `dim` counts the new dimension: it is
    /// at most the number of dimensions there are, -1 puts it last; another one is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].unsqueeze(1)?, tensor![[1], [2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn unsqueeze(&self, dim: impl IntoDim) -> Result<Tensor> {
        let dim = self.named(
            "unsqueeze",
            torsh_core::shape::wrap_dim(dim.value(), self.ndim() + 1),
        )?;
        call1(&UNSQUEEZE, &[Arg::T(self)], &attrs::Unsqueeze { dim })
    }

    /// A view of one index of a dimension, which is removed (`torch.select`).
    ///
    /// A negative index counts from the end. An error for a 0-d tensor, and for a dimension or index
    /// out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].select(1, 0)?, tensor![1, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn select(&self, dim: impl IntoDim, index: impl IntoDim) -> Result<Tensor> {
        if self.ndim() == 0 {
            return self.named(
                "select",
                Err(TorshError::index(
                    "",
                    "select() cannot be applied to a 0-dim tensor.",
                )),
            );
        }
        let dim = self.dim("select", dim.value())?;
        let (n, i) = (self.dims()[dim] as i64, index.value());
        if i < -n || i >= n {
            let e = TorshError::index(
                "",
                format!("index {i} is out of bounds for dimension {dim} with size {n}"),
            );
            return self.named("select", Err(e));
        }
        let index = if i < 0 { i + n } else { i } as usize;
        call1(&SELECT, &[Arg::T(self)], &attrs::Select { dim, index })
    }

    /// A view of `len` indices of a dimension from `start` on (`torch.narrow`).
    ///
    /// A negative `start` counts from the end. An error where the part does not lie in the dimension.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3, 4].narrow(0, 1, 2)?, tensor![2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn narrow(
        &self,
        dim: impl IntoDim,
        start: impl IntoDim,
        len: impl IntoDim,
    ) -> Result<Tensor> {
        if self.ndim() == 0 {
            return self.named(
                "narrow",
                Err(TorshError::index(
                    "",
                    "narrow() cannot be applied to a 0-dim tensor.",
                )),
            );
        }
        let d = self.dim("narrow", dim.value())?;
        let (n, start, len) = (self.dims()[d] as i64, start.value(), len.value());
        let from = if start < 0 {
            start.saturating_add(n)
        } else {
            start
        };
        if len < 0 {
            return self.named(
                "narrow",
                Err(TorshError::invalid("", "length must be non-negative.")),
            );
        }
        if from < 0 || from > n || from.saturating_add(len) > n {
            let e = TorshError::index(
                "",
                format!("start ({start}) + length ({len}) exceeds dimension size ({n})."),
            );
            return self.named("narrow", Err(e));
        }
        let attrs = attrs::Slice {
            dim: d,
            start: from as usize,
            length: len as usize,
            step: 1,
        };
        call1(&SLICE, &[Arg::T(self)], &attrs)
    }

    /// A view of the indices from `start` to below `end`, as Python's slices clamp them.
    ///
    /// Negative bounds count from the end. An error for a dimension out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3, 4];
    /// assert_eq!(x.slice(0, 1, 3)?, tensor![2, 3]);
    /// assert_eq!(x.slice(0, -2, 100)?, tensor![3, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn slice(
        &self,
        dim: impl IntoDim,
        start: impl IntoDim,
        end: impl IntoDim,
    ) -> Result<Tensor> {
        self.slice_step(dim.value(), Some(start.value()), Some(end.value()), 1)
    }

    /// A view of the indices `start`, `start + step`, ... below `end`, as Python's slices clamp
    /// them; `step` must be positive.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1, 2, 3, 4, 5];
    /// assert_eq!(x.slice_step(0, Some(1), None, 2)?, tensor![2, 4]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn slice_step(
        &self,
        dim: i64,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    ) -> Result<Tensor> {
        if self.ndim() == 0 {
            return self.named(
                "slice",
                Err(TorshError::index(
                    "",
                    "slice() cannot be applied to a 0-dim tensor.",
                )),
            );
        }
        if step <= 0 {
            return self.named(
                "slice",
                Err(TorshError::invalid(
                    "",
                    format!("slice step must be positive, got {step}"),
                )),
            );
        }
        let d = self.dim("slice", dim)?;
        let n = self.dims()[d] as i64;
        let clamp = |v: i64| {
            if v < 0 {
                v.saturating_add(n).max(0)
            } else {
                v.min(n)
            }
        };
        let start = clamp(start.unwrap_or(0));
        let end = clamp(end.unwrap_or(n)).max(start);
        let len = (end - start).div_euclid(step) + i64::from((end - start).rem_euclid(step) != 0);
        let attrs = attrs::Slice {
            dim: d,
            start: start as usize,
            length: len as usize,
            step: step as usize,
        };
        call1(&SLICE, &[Arg::T(self)], &attrs)
    }

    /// The layout of every `step`-th index of dimension `d` from `start` on, `len` of them.
    pub(super) fn window(&self, d: usize, [start, len, step]: [usize; 3]) -> Layout {
        let mut window = self.memory_layout().clone();
        let mut dims = Dims::from_slice(window.shape.dims());
        dims[d] = len;
        if len > 0 {
            window.offset += start * window.strides[d] as usize;
        }
        window.strides[d] = stepped(window.strides[d], step as isize);
        window.shape = dims.into();
        window
    }

    /// This tensor (row-major, one that nobody else needs) with `src` in a window of dimension
    /// `d`: the derivative of `select` and `slice`.
    pub(super) fn scatter_window(
        &self,
        src: &Tensor,
        d: usize,
        start: usize,
        step: usize,
    ) -> Result<Tensor> {
        let window = self.window(d, [start, src.dims()[d], step]);
        if !mode::is_grad_enabled() {
            self.as_strided_raw(&window)?.copy_(src)?;
            return Ok(self.clone());
        }
        crate::ops::strided::put(
            &self.reshape([-1i64])?,
            Some(src.clone()),
            self.memory_layout(),
            &window,
            (false, false),
        )
    }
}
