//! The tensor's methods that sort, find and count.

use super::*;

#[torsh_tensor::functions]
impl Tensor {
    /// The elements sorted along the last dimension, and the positions they had (int64); stable, nan
    /// is the greatest (`torch.sort`).
    ///
    /// Both have the operand's shape. An error for complex tensors.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[3.0f32, 1.0, 2.0], &[3])?;
    /// let (values, indices) = x.sort()?;
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn sort(&self) -> Result<(Tensor, Tensor)> {
        self.sort_with(SortOptions::default())
    }

    /// [`Tensor::sort`] along another dimension, or the other way round.
    ///
    /// An error for a dimension out of range.
    ///
    /// ```
    /// use torsh_tensor::{SortOptions, Tensor};
    /// let x = Tensor::from_data(&[3.0f32, 1.0, 2.0], &[3])?;
    /// let (values, indices) = x.sort_with(SortOptions::default().descending(true))?;
    /// assert_eq!(values.to_vec::<f32>()?, [3.0, 2.0, 1.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn sort_with(&self, options: SortOptions) -> Result<(Tensor, Tensor)> {
        let dim = self.dim("sort", options.dim)?;
        let descending = options.descending;
        pair(call(
            &SORT,
            &[Arg::T(self)],
            &attrs::Sort { dim, descending },
        )?)
    }

    /// The positions of the elements in sorted order along the last dimension (int64;
    /// `torch.argsort`).
    ///
    /// The result has the operand's shape. An error for complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![3, 1, 2].argsort()?, tensor![1, 2, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn argsort(&self) -> Result<Tensor> {
        self.argsort_with(SortOptions::default())
    }

    /// [`Tensor::argsort`] along another dimension, or the other way round.
    ///
    /// An error for a dimension out of range.
    ///
    /// ```
    /// use torsh_tensor::{SortOptions, tensor};
    /// let order = tensor![3, 1, 2].argsort_with(SortOptions::new().descending(true))?;
    /// assert_eq!(order, tensor![0, 2, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn argsort_with(&self, options: SortOptions) -> Result<Tensor> {
        let dim = self.dim("argsort", options.dim)?;
        let descending = options.descending;
        let out = call(
            &SORT,
            &[Arg::T(&self.detach())],
            &attrs::Sort { dim, descending },
        );
        Ok(pair(out.map_err(|e| e.renamed("argsort"))?)?.1)
    }

    /// The elements sorted along the first dimension (`torch.msort`).
    ///
    /// Shape and dtype stay. An error for complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![[3, 1], [2, 4]].msort()?, tensor![[2, 1], [3, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn msort(&self) -> Result<Tensor> {
        Ok(self.sort_with(SortOptions::default().dim(0))?.0)
    }

    /// The `k` largest elements along the last dimension, sorted, and their positions (int64;
    /// `torch.topk`).
    ///
    /// An error for complex tensors, and where the dimension has fewer than `k` elements.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![3, 1, 4, 2].topk(2)?, (tensor![4, 3], tensor![2, 0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn topk(&self, k: impl IntoDim) -> Result<(Tensor, Tensor)> {
        self.topk_with(k, TopkOptions::default())
    }

    /// [`Tensor::topk`] along another dimension, or of the smallest.
    ///
    /// ```
    /// use torsh_tensor::{TopkOptions, tensor};
    /// let least = tensor![3, 1, 4, 2].topk_with(2, TopkOptions::new().largest(false))?;
    /// assert_eq!(least, (tensor![1, 2], tensor![1, 3]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn topk_with(&self, k: impl IntoDim, options: TopkOptions) -> Result<(Tensor, Tensor)> {
        let attrs = attrs::Topk {
            dim: self.dim("topk", options.dim)?,
            largest: options.largest,
            k: k.value(),
        };
        pair(call(&TOPK, &[Arg::T(self)], &attrs)?)
    }

    /// Whether each element is among the test elements, as a bool tensor (`torch.isin`).
    ///
    /// ```
    /// # use torsh_tensor::{Tensor, tensor};
    /// assert_eq!(Tensor::isin(&tensor![1, 2, 3], &tensor![2, 5])?, tensor![false, true, false]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn isin<'a>(
        elements: impl Into<Operand<'a>>,
        test_elements: impl Into<Operand<'a>>,
    ) -> Result<Tensor> {
        Tensor::isin_with(elements, test_elements, IsinOptions::default())
    }

    /// [`Tensor::isin`], or whether it is not.
    ///
    /// ```
    /// use torsh_tensor::{IsinOptions, Tensor, tensor};
    /// let options = IsinOptions::new().invert(true);
    /// assert_eq!(Tensor::isin_with(&tensor![1, 2], 2, options)?, tensor![true, false]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn isin_with<'a>(
        elements: impl Into<Operand<'a>>,
        test_elements: impl Into<Operand<'a>>,
        options: IsinOptions,
    ) -> Result<Tensor> {
        let (elements, test) = (elements.into(), test_elements.into());
        if matches!((&elements, &test), (Operand::Number(_), Operand::Number(_))) {
            let text = "elements and test_elements are both numbers: one must be a tensor";
            return Err(TorshError::invalid("isin", text).with_hint("compare numbers with =="));
        }
        let dtype = promoted(&elements, &test)?;
        let (elements, test) = (
            elements.to_tensor()?.to_dtype(dtype)?,
            test.to_tensor()?.to_dtype(dtype)?,
        );
        call1(
            &ISIN,
            &[Arg::T(&elements), Arg::T(&test)],
            &attrs::Isin {
                invert: options.invert,
            },
        )
    }

    /// Where each of `values` (a tensor or a number) would be inserted into this sorted sequence to
    /// keep it sorted, before equal elements (`torch.searchsorted`).
    ///
    /// The sequence is 1-d, or has the values' leading dimensions; the result is an int64 tensor of
    /// the values' shape. An error for other shapes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 3, 5].searchsorted(&tensor![0, 3, 9])?, tensor![0, 1, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn searchsorted<'a>(&self, values: impl Into<Operand<'a>>) -> Result<Tensor> {
        self.searchsorted_with(values, SearchsortedOptions::default())
    }

    /// [`Tensor::searchsorted`] behind equal elements, as int32, or in a sequence that another tensor
    /// sorts.
    ///
    /// ```
    /// use torsh_tensor::{SearchsortedOptions, tensor};
    /// let options = SearchsortedOptions::new().right(true);
    /// assert_eq!(tensor![1, 3, 5].searchsorted_with(&tensor![0, 3, 9], options)?, tensor![0, 2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn searchsorted_with<'a>(
        &self,
        values: impl Into<Operand<'a>>,
        options: SearchsortedOptions,
    ) -> Result<Tensor> {
        let SearchsortedOptions {
            right,
            side,
            out_int32,
            sorter,
        } = options;
        let right = behind(side.as_deref(), right);
        let right = right.map_err(|e| e.renamed("searchsorted"))?;
        search(self, values.into(), sorter.as_ref(), right, out_int32)
    }

    /// The bucket between the sorted 1-d `boundaries` that each element falls into
    /// (`torch.bucketize`): the number of boundaries below it.
    ///
    /// An int64 tensor of the operand's shape. An error where `boundaries` is not 1-d, and for
    /// complex tensors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![0, 3, 9].bucketize(&tensor![1, 3, 5])?, tensor![0, 1, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor) -> Result<Tensor> {
        self.bucketize_with(boundaries, SearchsortedOptions::default())
    }

    /// [`Tensor::bucketize`] with elements that equal a boundary in the bucket behind it (`right`), or
    /// as int32.
    ///
    /// ```
    /// use torsh_tensor::{SearchsortedOptions, tensor};
    /// let options = SearchsortedOptions::new().right(true);
    /// assert_eq!(tensor![0, 3, 9].bucketize_with(&tensor![1, 3, 5], options)?, tensor![0, 2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn bucketize_with(
        &self,
        boundaries: &Tensor,
        options: SearchsortedOptions,
    ) -> Result<Tensor> {
        let SearchsortedOptions {
            right,
            side,
            out_int32,
            sorter,
        } = options;
        if sorter.is_some() || side.is_some() {
            return Err(TorshError::invalid(
                "bucketize",
                "sorter and side are arguments of searchsorted",
            ));
        }
        bucketize(Operand::Ref(self), boundaries, right, out_int32)
    }

    /// How often each integer from 0 on occurs in this 1-d tensor (int64; `torch.bincount`).
    ///
    /// The result has one element more than the largest integer. An error for other dtypes, other
    /// dimensions, and negative integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 3, 1].bincount()?, tensor![0, 2, 0, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn bincount(&self) -> Result<Tensor> {
        self.bincount_with(BincountOptions::default())
    }

    /// [`Tensor::bincount`] with weights that are summed instead, or with at least `minlength` bins.
    ///
    /// Weights have the operand's shape; float32 ones give float32, others float64.
    ///
    /// ```
    /// use torsh_tensor::{BincountOptions, tensor};
    /// let options = BincountOptions::new().minlength(4);
    /// assert_eq!(tensor![1, 1].bincount_with(options)?, tensor![0, 2, 0, 0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn bincount_with(&self, options: BincountOptions) -> Result<Tensor> {
        let BincountOptions { weights, minlength } = options;
        let weights = weights.as_ref();
        let refuse = |text: String| Err(TorshError::invalid("bincount", text));
        if !self.dtype().is_integer() {
            return Err(TorshError::dtype(
                "bincount",
                format!("not implemented for {}", self.dtype()),
            ));
        }
        if minlength < 0 {
            return refuse(format!("minlength should be >= 0, got {minlength}"));
        }
        if self.ndim() != 1 {
            return refuse(format!(
                "bincount only supports 1-d non-negative integral inputs, got {}",
                self.describe()
            ));
        }
        if let Some(w) = weights
            && (w.ndim() != 1 || w.numel() != self.numel())
        {
            return refuse(format!(
                "weights should be 1-d and have the same length as input, got {} and {}",
                w.shape(),
                self.shape()
            ));
        }
        if self.numel() == 0 {
            return Tensor::zeros([minlength], DType::I64, self.device());
        }
        let weights = match weights {
            Some(w) if w.dtype() == DType::F32 => Some(w.detach()),
            Some(w) => Some(w.detach().to_dtype(widest(w.device())?)?),
            None => None,
        };
        let largest = self.max()?.item::<i64>()?;
        let bins = largest.saturating_add(1).max(minlength).max(1);
        call1(
            &BINCOUNT,
            &[Arg::T(self), Arg::opt(weights.as_ref())],
            &attrs::Bincount {
                bins: bins as usize,
            },
        )
    }

    /// Whether both tensors have one shape and equal elements (`torch.equal`); dtypes promote.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0, 2.0].equal(&tensor![1, 2])?);
    /// assert!(!tensor![1.0, 2.0].equal(&tensor![1.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        if self.shape() != other.shape() {
            return Ok(false);
        }
        let dtype = self.dtype().promote(other.dtype());
        let (a, b) = (
            self.detach().to_dtype(dtype)?,
            other.detach().to_dtype(dtype)?,
        );
        call1(&EQUAL, &[Arg::T(&a), Arg::T(&b)], NONE)?.item::<bool>()
    }

    /// Whether `|input - other| <= 1e-8 + 1e-5 * |other|` everywhere (`torch.allclose`).
    ///
    /// The shapes broadcast. An error where they do not, or where the dtypes differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![1.0].allclose(&tensor![1.000001])?);
    /// assert!(!tensor![1.0].allclose(&tensor![1.001])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn allclose(&self, other: &Tensor) -> Result<bool> {
        self.allclose_with(other, IscloseOptions::default())
    }

    /// [`Tensor::allclose`] with other tolerances; with `equal_nan`, nan equals nan.
    ///
    /// An error for negative tolerances.
    ///
    /// ```
    /// use torsh_tensor::{IscloseOptions, tensor};
    /// let options = IscloseOptions::new().atol(0.01);
    /// assert!(tensor![1.0].allclose_with(&tensor![1.001], options)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn allclose_with(&self, other: &Tensor, options: IscloseOptions) -> Result<bool> {
        if self.dtype() != other.dtype() {
            return Err(TorshError::dtype(
                "allclose",
                format!("{} did not match {}", self.dtype(), other.dtype()),
            ));
        }
        let close = match self.dtype().is_differentiable() {
            true => call1(
                &crate::ops::pointwise::parametric::isclose,
                &[Arg::T(&self.detach()), Arg::T(&other.detach())],
                &Isclose {
                    rtol: options.rtol.into(),
                    atol: options.atol.into(),
                    equal_nan: options.equal_nan.into(),
                },
            ),
            false => self.near_integers(other, options),
        }
        .map_err(|e| e.renamed("allclose"))?;
        Ok(crate::ops::masked::count(&close)? == close.numel())
    }
}
