//! The tensor's methods that rearrange elements.

use super::*;

#[torsh_tensor::functions]
impl Tensor {
    /// A copy in reversed order along `dims` (`torch.flip`).
    ///
    /// Shape and dtype stay. An error for a dimension that is out of range or named twice.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].flip([0, 1])?, tensor![[4, 3], [2, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn flip(&self, dims: impl IntoDims) -> Result<Tensor> {
        let mut list: SmallVec<[i64; 6]> = SmallVec::new();
        for d in dims
            .dims()
            .unwrap_or_else(|| (0..self.ndim() as i64).collect())
        {
            let d = self.dim("flip", d)? as i64;
            if list.contains(&d) {
                return Err(TorshError::invalid(
                    "flip",
                    format!("dim {d} appears multiple times in the list of dims"),
                ));
            }
            list.push(d);
        }
        if self.ndim() == 0 {
            list.clear();
        }
        let dims = list[..].into();
        call1(&FLIP, &[Arg::T(self)], &attrs::Flip { dims })
    }

    /// A copy with the second dimension reversed (`torch.fliplr`).
    ///
    /// Shape and dtype stay. An error for fewer than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].fliplr()?, tensor![[2, 1], [4, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn fliplr(&self) -> Result<Tensor> {
        if self.ndim() < 2 {
            return Err(TorshError::shape(
                "fliplr",
                format!("Input must be >= 2-d, got {}", self.describe()),
            ));
        }
        self.flip(1)
    }

    /// A copy with the first dimension reversed (`torch.flipud`).
    ///
    /// Shape and dtype stay. An error for a 0-d tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].flipud()?, tensor![[3, 4], [1, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn flipud(&self) -> Result<Tensor> {
        if self.ndim() < 1 {
            return Err(TorshError::shape(
                "flipud",
                format!("Input must be >= 1-d, got {}", self.describe()),
            ));
        }
        self.flip(0)
    }

    /// The elements shifted along `dims`, one shift for each; without dimensions (`()`), of the
    /// flattened tensor (`torch.roll`). What leaves at one end comes in at the other.
    ///
    /// Shape and dtype stay. An error where shifts and dimensions differ in number, or a dimension is
    /// out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].roll(1, 0)?, tensor![3, 1, 2]);
    /// assert_eq!(tensor![[1, 2], [3, 4]].roll(1, ())?, tensor![[4, 1], [2, 3]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn roll(&self, shifts: impl IntoDims, dims: impl IntoDims) -> Result<Tensor> {
        let shifts = shifts.dims().unwrap_or_default();
        let dims = dims.dims().unwrap_or_default();
        if shifts.is_empty() {
            return Err(TorshError::invalid("roll", "`shifts` required"));
        }
        if dims.is_empty() && shifts.len() == 1 {
            let flat = self.reshape([self.numel()])?;
            let rolled = call1(
                &ROLL,
                &[Arg::T(&flat)],
                &attrs::Roll {
                    shifts: shifts[..].into(),
                    dims: [0].into(),
                },
            )?;
            return rolled.reshape(self.shape());
        }
        if dims.len() != shifts.len() {
            return Err(TorshError::invalid(
                "roll",
                format!(
                    "shifts and dimensions must align. shifts: {}, dims:{}",
                    shifts.len(),
                    dims.len()
                ),
            ));
        }
        let mut list: SmallVec<[i64; 6]> = SmallVec::new();
        for &d in &dims {
            if self.ndim() == 0 {
                return Err(TorshError::index(
                    "roll",
                    format!("Dimension specified as {d} but tensor has no dimensions"),
                ));
            }
            list.push(self.dim("roll", d)? as i64);
        }
        call1(
            &ROLL,
            &[Arg::T(self)],
            &attrs::Roll {
                shifts: shifts[..].into(),
                dims: list[..].into(),
            },
        )
    }

    /// The lower triangle of the matrices in the last two dimensions, up to `diagonal`; zeros
    /// elsewhere (`torch.tril`).
    ///
    /// Shape and dtype stay. An error for fewer than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.tril(0)?, tensor![[1, 0], [3, 4]]);
    /// assert_eq!(x.tril(-1)?, tensor![[0, 0], [3, 0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn tril(&self, diagonal: impl IntoDim) -> Result<Tensor> {
        call1(
            &TRIL,
            &[Arg::T(self)],
            &attrs::Triangle {
                diagonal: diagonal.value(),
                upper: false,
            },
        )
    }

    /// The upper triangle of the matrices in the last two dimensions, from `diagonal` on; zeros
    /// elsewhere (`torch.triu`).
    ///
    /// Shape and dtype stay. An error for fewer than two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// assert_eq!(x.triu(0)?, tensor![[1, 2], [0, 4]]);
    /// assert_eq!(x.triu(1)?, tensor![[0, 2], [0, 0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn triu(&self, diagonal: impl IntoDim) -> Result<Tensor> {
        call1(
            &TRIU,
            &[Arg::T(self)],
            &attrs::Triangle {
                diagonal: diagonal.value(),
                upper: true,
            },
        )
    }

    /// [`Tensor::tril`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// x.tril_(0)?;
    /// assert_eq!(x, tensor![[1, 0], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn tril_(&self, diagonal: impl IntoDim) -> Result<Tensor> {
        crate::ops::index::in_place(
            &TRIL,
            self,
            &[],
            &attrs::Triangle {
                diagonal: diagonal.value(),
                upper: false,
            },
        )
    }

    /// [`Tensor::triu`] in place; returns this tensor.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1, 2], [3, 4]];
    /// x.triu_(0)?;
    /// assert_eq!(x, tensor![[1, 2], [0, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn triu_(&self, diagonal: impl IntoDim) -> Result<Tensor> {
        crate::ops::index::in_place(
            &TRIU,
            self,
            &[],
            &attrs::Triangle {
                diagonal: diagonal.value(),
                upper: true,
            },
        )
    }

    /// The rows and columns of the lower triangle of a matrix, int64 `[2, n]`
    /// (`torch.tril_indices`).
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::tril_indices(2, 2, 0)?, tensor![[0, 1, 1], [0, 0, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn tril_indices(
        row: impl IntoDim,
        col: impl IntoDim,
        offset: impl IntoDim,
    ) -> Result<Tensor> {
        triangle_indices(row.value(), col.value(), offset.value(), false, None, None)
    }

    /// The rows and columns of the upper triangle of a matrix, int64 `[2, n]`
    /// (`torch.triu_indices`).
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::triu_indices(2, 2, 0)?, tensor![[0, 0, 1], [0, 1, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn triu_indices(
        row: impl IntoDim,
        col: impl IntoDim,
        offset: impl IntoDim,
    ) -> Result<Tensor> {
        triangle_indices(row.value(), col.value(), offset.value(), true, None, None)
    }

    /// The diagonal of a matrix as a copy, or the square matrix that has this vector on that diagonal
    /// (`torch.diag`).
    ///
    /// `diagonal` counts from the main one, upwards where positive. Keeps the dtype. An error for
    /// other than one or two dimensions.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2], [3, 4]].diag(0)?, tensor![1, 4]);
    /// assert_eq!(tensor![5, 6].diag(0)?, tensor![[5, 0], [0, 6]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn diag(&self, diagonal: impl IntoDim) -> Result<Tensor> {
        match self.ndim() {
            1 => self.diag_embed(diagonal, 0, 1),
            2 => diagonal_of(self, diagonal.value(), 0, 1)?.copy(),
            n => Err(TorshError::shape(
                "diag",
                format!("Supports 1D or 2D tensors. Got {n}D"),
            )),
        }
    }

    /// Matrices in the dimensions `dim1` and `dim2` of the result, whose diagonals are this tensor's
    /// last dimension (`torch.diag_embed`).
    ///
    /// Zeros elsewhere; keeps the dtype. An error where the two dimensions are one, or out of range.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1, 2]].diag_embed(0, -2, -1)?, tensor![[[1, 0], [0, 2]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn diag_embed(
        &self,
        offset: impl IntoDim,
        dim1: impl IntoDim,
        dim2: impl IntoDim,
    ) -> Result<Tensor> {
        let at = std::panic::Location::caller();
        let offset = offset.value();
        let wrap = |d: i64| {
            torsh_core::shape::wrap_dim(d, self.ndim() + 1)
                .map_err(|e| e.in_op("diag_embed", || vec![self.describe()], at))
        };
        let (a, b) = (dim1.value(), dim2.value());
        let (d1, d2) = (wrap(a)?, wrap(b)?);
        if d1 == d2 {
            return Err(TorshError::invalid(
                "diag_embed",
                format!("diagonal dimensions cannot be identical {a}, {b}"),
            ));
        }
        call1(
            &DIAG_EMBED,
            &[Arg::T(self)],
            &attrs::DiagEmbed {
                offset,
                dim1: d1,
                dim2: d2,
            },
        )
    }

    /// The square matrix whose diagonal is this tensor, flattened (`torch.diagflat`).
    ///
    /// Any shape; keeps the dtype. `offset` counts from the main diagonal, upwards where positive.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[1], [2]].diagflat(0)?, tensor![[1, 0], [0, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn diagflat(&self, offset: impl IntoDim) -> Result<Tensor> {
        self.reshape([self.numel()])?.diag_embed(offset, 0, 1)
    }

    /// Every position of `dim` repeated in place: `repeats` times, or as often as a 1-d tensor says
    /// for each; without `dim`, of the flattened tensor (`torch.repeat_interleave`).
    ///
    /// Keeps the dtype; counts are integers (int64 or int32). An error for negative counts, or for a
    /// number of counts that is neither 1 nor that of the positions.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1i64, 2], &[2])?;
    /// assert_eq!(x.repeat_interleave(2, None)?.to_vec::<i64>()?, [1, 1, 2, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn repeat_interleave<'a>(
        &self,
        repeats: impl Into<Operand<'a>>,
        dim: impl Into<Option<i64>>,
    ) -> Result<Tensor> {
        self.repeat_interleave_sized(repeats.into(), dim.into(), None)
    }

    #[track_caller]
    pub(super) fn repeat_interleave_sized(
        &self,
        repeats: Operand<'_>,
        dim: Option<i64>,
        size: Option<i64>,
    ) -> Result<Tensor> {
        let named = |e: TorshError| e.renamed("repeat_interleave");
        let (x, d) = match dim {
            Some(d) => (self.clone(), self.dim("repeat_interleave", d)?),
            None => (self.reshape([self.numel()])?, 0),
        };
        let x = if x.ndim() == 0 { x.reshape([1])? } else { x };
        let n = x.dims()[d];
        let repeats = match &repeats {
            Operand::Number(r) => {
                let r = r.to_i64();
                if r < 0 {
                    return Err(TorshError::invalid(
                        "repeat_interleave",
                        format!("Repeats must be non-negative, got {r}"),
                    ));
                }
                let total = (n as i64).saturating_mul(r);
                if size.is_some_and(|s| s != total) {
                    return Err(TorshError::invalid(
                        "repeat_interleave",
                        format!(
                            "Invalid output_size, expected {total} but got {}",
                            size.unwrap_or(0)
                        ),
                    ));
                }
                let mut wide = Dims::from_slice(x.dims());
                wide.insert(d + 1, r as usize);
                let mut flat = Dims::from_slice(x.dims());
                flat[d] = total as usize;
                let spread = x
                    .unsqueeze(d + 1)?
                    .expand(Shape::from(wide))
                    .map_err(named)?;
                return if r == 1 {
                    x.copy()
                } else {
                    spread.reshape(Shape::from(flat)).map_err(named)
                };
            }
            o => o.to_tensor()?,
        };
        if repeats.ndim() > 1 {
            return Err(TorshError::shape(
                "repeat_interleave",
                "repeats must be 0-dim or 1-dim tensor",
            ));
        }
        let repeats = if repeats.numel() == 1 {
            repeats.reshape([1])?.expand([n])?
        } else if repeats.numel() == n {
            repeats
        } else {
            return Err(TorshError::shape(
                "repeat_interleave",
                format!(
                    "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({d}) = {n}",
                    repeats.numel()
                ),
            ));
        };
        x.index_select(d, &positions(&repeats, size).map_err(named)?)
    }
}
