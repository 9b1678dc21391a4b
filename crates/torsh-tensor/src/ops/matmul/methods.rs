//! Products as methods.

use super::*;
use crate::AddmmOptions;

const PLAIN: &attrs::MatMul = &attrs::MatMul::PLAIN;

#[torsh_tensor::functions]
impl Tensor {
    /// The product of two tensors (`torch.matmul`): of vectors their inner product, of a matrix and a
    /// vector or another matrix the product, and of more dimensions the products of the matrices in
    /// the last two, for batch dimensions that broadcast. Dtypes must be equal. Errors: a 0-d
    /// operand, sizes that do not match, different dtypes, bools.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(a.matmul(&tensor![[0.0, 1.0], [1.0, 0.0]])?, tensor![[2.0, 1.0], [4.0, 3.0]]);
    /// assert_eq!(a.matmul(&tensor![1.0, 1.0])?, tensor![3.0, 7.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        call1(&MATMUL, &[Arg::T(self), Arg::T(other)], PLAIN)
    }

    /// The product of two matrices, `[n, m]` and `[m, p]` (`torch.mm`).
    ///
    /// Gives `[n, p]`. An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(a.mm(&tensor![[1.0], [10.0]])?, tensor![[21.0], [43.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn mm(&self, mat2: &Tensor) -> Result<Tensor> {
        call1(&MM, &[Arg::T(self), Arg::T(mat2)], PLAIN)
    }

    /// The products of two batches of matrices, `[b, n, m]` and `[b, m, p]` (`torch.bmm`).
    ///
    /// Gives `[b, n, p]`. An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let a = tensor![[[1.0, 2.0]], [[3.0, 4.0]]];
    /// let b = tensor![[[1.0], [1.0]], [[10.0], [0.0]]];
    /// assert_eq!(a.bmm(&b)?, tensor![[[3.0]], [[30.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn bmm(&self, mat2: &Tensor) -> Result<Tensor> {
        call1(&BMM, &[Arg::T(self), Arg::T(mat2)], PLAIN)
    }

    /// The product of a matrix `[n, m]` and a vector `[m]` (`torch.mv`).
    ///
    /// Gives `[n]`. An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(a.mv(&tensor![1.0, 10.0])?, tensor![21.0, 43.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn mv(&self, vec: &Tensor) -> Result<Tensor> {
        call1(&MV, &[Arg::T(self), Arg::T(vec)], PLAIN)
    }

    /// The sum of the products of two vectors (`torch.dot`). A 0-d tensor. Vectors of different
    /// lengths, other shapes, different dtypes and bools are errors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2, 3].dot(&tensor![4, 5, 6])?.item::<i64>()?, 32);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn dot(&self, tensor: &Tensor) -> Result<Tensor> {
        call1(&DOT, &[Arg::T(self), Arg::T(tensor)], PLAIN)
    }

    /// [`Tensor::dot`] with this vector conjugated (`torch.vdot`).
    ///
    /// An error for other than two vectors of one length and one dtype.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 2.0].vdot(&tensor![3.0, 4.0])?.item::<f32>()?, 11.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn vdot(&self, other: &Tensor) -> Result<Tensor> {
        call1(&DOT, &[Arg::T(&self.conj()?), Arg::T(other)], PLAIN).map_err(|e| e.renamed("vdot"))
    }

    /// Sums of products along the last dimension of both, of shape `[..input, ..other]` without it
    /// (`torch.inner`).
    ///
    /// A 0-d operand multiplies. An error where the last sizes or the dtypes differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(x.inner(&tensor![1.0, 10.0])?, tensor![21.0, 43.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn inner(&self, other: &Tensor) -> Result<Tensor> {
        if self.ndim() == 0 || other.ndim() == 0 {
            return self.mul(other);
        }
        let last = |t: &Tensor| t.dims()[t.ndim() - 1];
        if last(self) != last(other) {
            return Err(TorshError::shape(
                "inner",
                format!(
                    "the last dimension must match on both input tensors but got shapes {} and {}",
                    self.shape(),
                    other.shape()
                ),
            ));
        }
        self.tensordot(other, &[-1], &[-1])
            .map_err(|e| e.renamed("inner"))
    }

    /// The matrix of all products of elements of two vectors, `[n]` and `[m]` (`torch.outer`).
    ///
    /// Gives `[n, m]`; the dtypes promote. An error for other than vectors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].outer(&tensor![3, 4, 5])?, tensor![[3, 4, 5], [6, 8, 10]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn outer(&self, vec2: &Tensor) -> Result<Tensor> {
        for t in [self, vec2] {
            if t.ndim() != 1 {
                return Err(TorshError::shape(
                    "outer",
                    format!("expected 1-D vectors, got {}D", t.ndim()),
                ));
            }
        }
        self.unsqueeze(1)?.mul(vec2)
    }

    /// `input + mat1 @ mat2` (`torch.addmm`).
    ///
    /// `[n, m]` and `[m, p]` of one dtype; this tensor broadcasts to `[n, p]`, the result's shape. An
    /// error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (a, b) = (tensor![[1.0, 2.0]], tensor![[3.0], [4.0]]);
    /// assert_eq!(tensor![0.5].addmm(&a, &b)?, tensor![[11.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn addmm(&self, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
        self.addmm_with(mat1, mat2, AddmmOptions::default())
    }

    /// `beta * input + alpha * (mat1 @ mat2)`; with `beta` 0 this tensor is not read. Else as
    /// [`Tensor::addmm`].
    ///
    /// ```
    /// use torsh_tensor::{AddmmOptions, tensor};
    /// let (a, b) = (tensor![[1.0, 2.0]], tensor![[3.0], [4.0]]);
    /// let options = AddmmOptions::new().beta(2.0).alpha(0.5);
    /// assert_eq!(tensor![1.0].addmm_with(&a, &b, options)?, tensor![[7.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn addmm_with(
        &self,
        mat1: &Tensor,
        mat2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        sum_of(&ADDMM, self, mat1, mat2, options.beta, options.alpha)
    }

    /// `input + mat @ vec` (`torch.addmv`).
    ///
    /// `[n, m]` and `[m]` of one dtype; this tensor broadcasts to `[n]`, the result's shape. An error
    /// for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(tensor![100.0, 200.0].addmv(&a, &tensor![1.0, 1.0])?, tensor![103.0, 207.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn addmv(&self, mat: &Tensor, vec: &Tensor) -> Result<Tensor> {
        self.addmv_with(mat, vec, AddmmOptions::default())
    }

    /// `beta * input + alpha * (mat @ vec)`; with `beta` 0 this tensor is not read. Else as
    /// [`Tensor::addmv`].
    ///
    /// ```
    /// use torsh_tensor::{AddmmOptions, tensor};
    /// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// let options = AddmmOptions::new().beta(0.0).alpha(2.0);
    /// assert_eq!(tensor![9.0, 9.0].addmv_with(&a, &tensor![1.0, 1.0], options)?, tensor![6.0, 14.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn addmv_with(&self, mat: &Tensor, vec: &Tensor, options: AddmmOptions) -> Result<Tensor> {
        sum_of(&ADDMV, self, mat, vec, options.beta, options.alpha)
    }

    /// `input + batch1 @ batch2`, matrix by matrix (`torch.baddbmm`).
    ///
    /// `[b, n, m]` and `[b, m, p]` of one dtype; this tensor broadcasts to `[b, n, p]`, the result's
    /// shape. An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (a, b) = (tensor![[[1.0, 2.0]]], tensor![[[3.0], [4.0]]]);
    /// assert_eq!(tensor![[[1.0]]].baddbmm(&a, &b)?, tensor![[[12.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn baddbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        self.baddbmm_with(batch1, batch2, AddmmOptions::default())
    }

    /// `beta * input + alpha * (batch1 @ batch2)`; with `beta` 0 this tensor is not read. Else as
    /// [`Tensor::baddbmm`].
    ///
    /// ```
    /// use torsh_tensor::{AddmmOptions, tensor};
    /// let (a, b) = (tensor![[[1.0, 2.0]]], tensor![[[3.0], [4.0]]]);
    /// let options = AddmmOptions::new().beta(10.0).alpha(2.0);
    /// assert_eq!(tensor![[[1.0]]].baddbmm_with(&a, &b, options)?, tensor![[[32.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn baddbmm_with(
        &self,
        batch1: &Tensor,
        batch2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        sum_of(&BADDBMM, self, batch1, batch2, options.beta, options.alpha)
    }

    /// This tensor plus the sum over the batch of `batch1 @ batch2` (`torch.addbmm`).
    ///
    /// `[b, n, m]` and `[b, m, p]` of one dtype; this tensor broadcasts to `[n, p]`, the result's
    /// shape. An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (a, b) = (tensor![[[1.0]], [[2.0]]], tensor![[[3.0]], [[4.0]]]);
    /// // 1 + (1 * 3 + 2 * 4)
    /// assert_eq!(tensor![[1.0]].addbmm(&a, &b)?, tensor![[12.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn addbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        self.addbmm_with(batch1, batch2, AddmmOptions::default())
    }

    /// `beta * input` plus `alpha` times the sum over the batch of `batch1 @ batch2`; with `beta` 0
    /// this tensor is not read. Else as [`Tensor::addbmm`].
    ///
    /// ```
    /// use torsh_tensor::{AddmmOptions, tensor};
    /// let (a, b) = (tensor![[[1.0]], [[2.0]]], tensor![[[3.0]], [[4.0]]]);
    /// let options = AddmmOptions::new().beta(0.0);
    /// assert_eq!(tensor![[1.0]].addbmm_with(&a, &b, options)?, tensor![[11.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn addbmm_with(
        &self,
        batch1: &Tensor,
        batch2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        let (beta, alpha) = (options.beta, options.alpha);
        body(ADDBMM.autocast, [self, batch1, batch2], |[c, a, b]| {
            c.sum_of_batches(a, b, beta, alpha)
        })
    }

    fn sum_of_batches(
        &self,
        a: &Tensor,
        b: &Tensor,
        beta: Scalar,
        alpha: Scalar,
    ) -> Result<Tensor> {
        if a.ndim() != 3 || b.ndim() != 3 {
            return Err(TorshError::shape(
                "addbmm",
                format!(
                    "batch1 and batch2 must be 3D tensors, got {}D and {}D",
                    a.ndim(),
                    b.ndim()
                ),
            ));
        }
        if a.dims()[0] != b.dims()[0] || a.dims()[2] != b.dims()[1] {
            return Err(TorshError::shape(
                "addbmm",
                format!(
                    "incompatible sizes of batch1 {} and batch2 {}",
                    a.shape(),
                    b.shape()
                ),
            ));
        }
        if matches!(a.dtype(), DType::F16 | DType::BF16) && a.dims()[0] > 0 {
            // The half types round after each matrix of the batch, as PyTorch does.
            let mut sum = self.clone();
            for i in 0..a.dims()[0] {
                let beta = if i == 0 { beta } else { Scalar::Int(1) };
                sum = sum_of(
                    &ADDMM,
                    &sum,
                    &a.select(0, i)?,
                    &b.select(0, i)?,
                    beta,
                    alpha,
                )
                .map_err(|e| e.renamed("addbmm"))?;
            }
            return Ok(sum);
        }
        // The sum over the batch is part of one product.
        let terms = a.dims()[0] * a.dims()[2];
        let a = a.permute([1, 0, 2])?.reshape([a.dims()[1], terms])?;
        let b = b.reshape([terms, b.dims()[2]])?;
        sum_of(&ADDMM, self, &a, &b, beta, alpha).map_err(|e| e.renamed("addbmm"))
    }

    /// `input + outer(vec1, vec2)` (`torch.addr`).
    ///
    /// `[n]` and `[m]`; this tensor broadcasts to `[n, m]`, the result's shape; the dtypes promote.
    /// An error for other shapes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let m = tensor![[1.0, 1.0], [1.0, 1.0]];
    /// assert_eq!(m.addr(&tensor![1.0, 2.0], &tensor![3.0, 4.0])?, tensor![[4.0, 5.0], [7.0, 9.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn addr(&self, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor> {
        self.addr_with(vec1, vec2, AddmmOptions::default())
    }

    /// `beta * input + alpha * outer(vec1, vec2)`; with `beta` 0 this tensor is not read. Else as
    /// [`Tensor::addr`].
    ///
    /// ```
    /// use torsh_tensor::{AddmmOptions, tensor};
    /// let m = tensor![[1.0, 1.0], [1.0, 1.0]];
    /// let options = AddmmOptions::new().alpha(2.0);
    /// let y = m.addr_with(&tensor![1.0, 2.0], &tensor![3.0, 4.0], options)?;
    /// assert_eq!(y, tensor![[7.0, 9.0], [13.0, 17.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn addr_with(&self, vec1: &Tensor, vec2: &Tensor, options: AddmmOptions) -> Result<Tensor> {
        let (beta, alpha) = (options.beta, options.alpha);
        let dtype = self.dtype().promote(vec1.dtype()).promote(vec2.dtype());
        if !dtype.is_differentiable() && (alpha.is_float() || beta.is_float()) {
            return Err(TorshError::dtype(
                "addr",
                "for integral input tensors, alpha and beta must not be floating-point numbers",
            ));
        }
        for number in [beta, alpha] {
            check_number(number, dtype).map_err(|e| e.renamed("addr"))?;
        }
        // The factors are rounded to the result's dtype first, as PyTorch does.
        let number = |s: Scalar| Scalar::from_bytes(&s.to_bytes(dtype), dtype);
        let one = |s: Scalar| s.to_complex() == (1.0, 0.0);
        let scaled = if one(alpha) {
            vec1.clone()
        } else {
            vec1.mul(number(alpha))?
        };
        let outer = scaled.outer(vec2).map_err(|e| e.renamed("addr"))?;
        if !self.shape().can_broadcast_to(outer.shape()) {
            return Err(TorshError::shape(
                "addr",
                format!(
                    "input of shape {} does not broadcast to the outer product's shape {}",
                    self.shape(),
                    outer.shape()
                ),
            ));
        }
        if beta.to_complex() == (0.0, 0.0) {
            return outer.to_dtype(dtype);
        }
        if one(beta) {
            self.add(&outer)
        } else {
            self.mul(number(beta))?.add(&outer)
        }
    }

    /// `input @ weight.T + bias`: `[.., in]` and `[out, in]` give `[.., out]`
    /// (`torch.nn.functional.linear`).
    ///
    /// `bias` is `[out]` or `None`. An error for other shapes, and for dtypes that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (x, w, b) = (tensor![[1.0, 2.0]], tensor![[1.0, 1.0], [0.0, 3.0]], tensor![0.5, 0.0]);
    /// assert_eq!(x.linear(&w, Some(&b))?, tensor![[3.5, 6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn linear<'b>(
        &self,
        weight: &Tensor,
        bias: impl Into<Option<&'b Tensor>>,
    ) -> Result<Tensor> {
        const ATTRS: &attrs::MatMul = &attrs::MatMul {
            transpose_b: true,
            ..attrs::MatMul::PLAIN
        };
        match bias.into() {
            Some(b) => call1(&LINEAR, &[Arg::T(self), Arg::T(weight), Arg::T(b)], ATTRS),
            None => call1(&LINEAR, &[Arg::T(self), Arg::T(weight)], ATTRS),
        }
    }

    /// Sums of products over dimensions `dims` of this tensor and `other_dims` of the other
    /// (`torch.tensordot`), of the remaining dimensions of both.
    ///
    /// An error where the two lists or the sizes of their dimensions differ, and for dtypes that
    /// differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (a, b) = (tensor![[1.0, 2.0], [3.0, 4.0]], tensor![[1.0, 0.0], [0.0, 1.0]]);
    /// // Over the rows of `a` and the columns of `b`.
    /// assert_eq!(a.tensordot(&b, &[0], &[1])?, tensor![[1.0, 3.0], [2.0, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn tensordot(&self, other: &Tensor, dims: &[i64], other_dims: &[i64]) -> Result<Tensor> {
        if dims.len() != other_dims.len() {
            return Err(TorshError::invalid(
                "tensordot",
                format!(
                    "both dimension lists should have same length, got {} and {}",
                    dims.len(),
                    other_dims.len()
                ),
            ));
        }
        let read = |t: &Tensor, list: &[i64]| -> Result<Vec<usize>> {
            let mut out = Vec::with_capacity(list.len());
            for &d in list {
                if t.ndim() == 0 {
                    return Err(TorshError::index(
                        "tensordot",
                        format!("dimension specified as {d}, but the tensor has no dimensions"),
                    ));
                }
                let d = t.shape().dim(d).map_err(|e| e.renamed("tensordot"))?;
                if out.contains(&d) {
                    return Err(TorshError::invalid(
                        "tensordot",
                        format!("dim {d} appears multiple times in the list of dims"),
                    ));
                }
                out.push(d);
            }
            Ok(out)
        };
        let (p, q) = (read(self, dims)?, read(other, other_dims)?);
        // A dimension of size 1 broadcasts: the other's is summed first.
        let (mut a, mut b) = (self.clone(), other.clone());
        for (&i, &j) in p.iter().zip(&q) {
            match (self.dims()[i], other.dims()[j]) {
                (m, n) if m == n => {}
                (1, _) => b = b.sum_dim(j, true)?.to_dtype(other.dtype())?,
                (_, 1) => a = a.sum_dim(i, true)?.to_dtype(self.dtype())?,
                (m, n) => {
                    return Err(TorshError::shape(
                        "tensordot",
                        format!(
                            "contracted dimensions need to match, but first has size {m} in dim {i} and second has size {n} in dim {j}"
                        ),
                    ));
                }
            }
        }
        let rest = |t: &Tensor, list: &[usize]| {
            (0..t.ndim())
                .filter(|d| !list.contains(d))
                .collect::<Vec<usize>>()
        };
        let (ra, rb) = (rest(&a, &p), rest(&b, &q));
        let sizes =
            |t: &Tensor, list: &[usize]| list.iter().map(|&d| t.dims()[d]).collect::<Vec<usize>>();
        let count = |v: &[usize]| Shape::new(v).checked_numel(1);
        let shape = [sizes(&a, &ra), sizes(&b, &rb)].concat();
        let terms = count(&sizes(&a, &p))?;
        if count(&shape)? == 1 {
            // One number. (Autocast regions leave it alone, as PyTorch's do.)
            let left = a.permute([&ra[..], &p].concat())?.reshape([terms])?;
            let right = b.permute([&q[..], &rb].concat())?.reshape([terms])?;
            let sum = left.dot(&right).map_err(|e| e.renamed("tensordot"))?;
            return sum.reshape(shape);
        }
        let left = a
            .permute([&ra[..], &p].concat())?
            .reshape([count(&sizes(&a, &ra))?, terms])?;
        let right = b
            .permute([&q[..], &rb].concat())?
            .reshape([terms, count(&sizes(&b, &rb))?])?;
        left.mm(&right)
            .map_err(|e| e.renamed("tensordot"))?
            .reshape(shape)
    }
}
