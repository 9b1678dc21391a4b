//! Products as methods.

use super::*;
use crate::AddmmOptions;

const PLAIN: &attrs::MatMul = &attrs::MatMul::PLAIN;

impl Tensor {
    /// The product of two tensors (`torch.matmul`): of vectors their inner product, of a matrix
    /// and a vector or another matrix the product, and of more dimensions the products of the
    /// matrices in the last two, for batch dimensions that broadcast. Dtypes must be equal.
    #[track_caller]
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        call1(&MATMUL, &[Arg::T(self), Arg::T(other)], PLAIN)
    }

    /// The product of two matrices.
    #[track_caller]
    pub fn mm(&self, mat2: &Tensor) -> Result<Tensor> {
        call1(&MM, &[Arg::T(self), Arg::T(mat2)], PLAIN)
    }

    /// The products of two batches of matrices, `[b, n, m]` and `[b, m, p]`.
    #[track_caller]
    pub fn bmm(&self, mat2: &Tensor) -> Result<Tensor> {
        call1(&BMM, &[Arg::T(self), Arg::T(mat2)], PLAIN)
    }

    /// The product of a matrix and a vector.
    #[track_caller]
    pub fn mv(&self, vec: &Tensor) -> Result<Tensor> {
        call1(&MV, &[Arg::T(self), Arg::T(vec)], PLAIN)
    }

    /// The sum of the products of two vectors.
    #[track_caller]
    pub fn dot(&self, tensor: &Tensor) -> Result<Tensor> {
        call1(&DOT, &[Arg::T(self), Arg::T(tensor)], PLAIN)
    }

    /// [`Tensor::dot`] with this vector conjugated.
    #[track_caller]
    pub fn vdot(&self, other: &Tensor) -> Result<Tensor> {
        call1(&DOT, &[Arg::T(&self.conj()?), Arg::T(other)], PLAIN).map_err(|e| e.renamed("vdot"))
    }

    /// Sums of products along the last dimension of both, of shape `[..self, ..other]` without it.
    #[track_caller]
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

    /// The matrix of all products of elements of two vectors.
    #[track_caller]
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

    /// `self + mat1 @ mat2`; this tensor broadcasts.
    #[track_caller]
    pub fn addmm(&self, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
        self.addmm_with(mat1, mat2, AddmmOptions::default())
    }

    /// `beta * self + alpha * (mat1 @ mat2)`; with `beta` 0 this tensor is not read.
    #[track_caller]
    pub fn addmm_with(
        &self,
        mat1: &Tensor,
        mat2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        sum_of(&ADDMM, self, mat1, mat2, options.beta, options.alpha)
    }

    /// `self + mat @ vec`; this tensor broadcasts.
    #[track_caller]
    pub fn addmv(&self, mat: &Tensor, vec: &Tensor) -> Result<Tensor> {
        self.addmv_with(mat, vec, AddmmOptions::default())
    }

    /// `beta * self + alpha * (mat @ vec)`; with `beta` 0 this tensor is not read.
    #[track_caller]
    pub fn addmv_with(&self, mat: &Tensor, vec: &Tensor, options: AddmmOptions) -> Result<Tensor> {
        sum_of(&ADDMV, self, mat, vec, options.beta, options.alpha)
    }

    /// `self + batch1 @ batch2`; this tensor broadcasts.
    #[track_caller]
    pub fn baddbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        self.baddbmm_with(batch1, batch2, AddmmOptions::default())
    }

    /// `beta * self + alpha * (batch1 @ batch2)`; with `beta` 0 this tensor is not read.
    #[track_caller]
    pub fn baddbmm_with(
        &self,
        batch1: &Tensor,
        batch2: &Tensor,
        options: AddmmOptions,
    ) -> Result<Tensor> {
        sum_of(&BADDBMM, self, batch1, batch2, options.beta, options.alpha)
    }

    /// `self` plus the sum over the batch of `batch1 @ batch2`.
    #[track_caller]
    pub fn addbmm(&self, batch1: &Tensor, batch2: &Tensor) -> Result<Tensor> {
        self.addbmm_with(batch1, batch2, AddmmOptions::default())
    }

    /// `beta * self` plus `alpha` times the sum over the batch of `batch1 @ batch2`; with `beta` 0
    /// this tensor is not read.
    #[track_caller]
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

    /// `self + outer(vec1, vec2)`; this tensor broadcasts.
    #[track_caller]
    pub fn addr(&self, vec1: &Tensor, vec2: &Tensor) -> Result<Tensor> {
        self.addr_with(vec1, vec2, AddmmOptions::default())
    }

    /// `beta * self + alpha * outer(vec1, vec2)`; with `beta` 0 this tensor is not read.
    #[track_caller]
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

    /// `self @ weight.T + bias` (`torch.nn.functional.linear`): `[.., in]`, `[out, in]`, `[out]`.
    #[track_caller]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        const ATTRS: &attrs::MatMul = &attrs::MatMul {
            transpose_b: true,
            ..attrs::MatMul::PLAIN
        };
        match bias {
            Some(b) => call1(&LINEAR, &[Arg::T(self), Arg::T(weight), Arg::T(b)], ATTRS),
            None => call1(&LINEAR, &[Arg::T(self), Arg::T(weight)], ATTRS),
        }
    }

    /// Sums of products over dimensions `dims` of this tensor and `other_dims` of the other
    /// (`torch.tensordot`), of the remaining dimensions of both.
    #[track_caller]
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
