//! Operators on sharded tensors: each where a rule gives the result's pieces from the operands' own.

use torsh_tensor::{Result, Shape, Tensor, TorshError};

use super::record::meets_pieces;
use super::{Placement, ShardedTensor};
use crate::ReduceOp;

const SUM: Placement = Placement::Partial(ReduceOp::Sum);

/// The error of an operator without a rule for its operands.
fn refuse(op: &'static str, operands: &[&ShardedTensor]) -> TorshError {
    let operands: Vec<String> = operands.iter().map(|t| t.describe()).collect();
    TorshError::invalid(op, format!("no rule for {}", operands.join(" and ")))
        .with_hint("redistribute the operands, or compute with full_tensor()")
}

/// What a pointwise operator does to parts of a sum.
#[derive(Clone, Copy, PartialEq)]
enum Parts {
    /// It commutes with sums.
    Linear,
    /// It does not.
    Other,
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $parts:ident $x:tt => $y:tt;)*) => {
        /// Pointwise operators of one operand.
        impl ShardedTensor {$(
            $(#[$doc])*
            #[doc = concat!(
                "\n```\nuse torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};\n",
                "use torsh_tensor::tensor;\n\nlet results = spawn(2, |_| {\n",
                "    let mesh = DeviceMesh::new(&[2], &[\"tp\"])?;\n",
                "    let t = distribute_tensor(&tensor!", stringify!($x), ", &mesh, &[Placement::Shard(0)])?;\n",
                "    t.", stringify!($name), "()?.full_tensor()\n})?;\n",
                "assert!(results[1].allclose(&tensor!", stringify!($y), ")?);\n",
                "# Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            ///
            /// # Errors
            /// Placements that the operator has no rule for; what the operator itself refuses.
            #[torsh_tensor::names_caller]
            pub fn $name(&self) -> Result<ShardedTensor> {
                self.unary(stringify!($name), Parts::$parts, |t| t.$name())
            }
        )*}
    };
}

unary! {
    /// Returns the negative of each element.
    neg Linear [1.0, -4.0] => [-1.0, 4.0];
    /// Returns the absolute value of each element.
    abs Other [1.0, -4.0] => [1.0, 4.0];
    /// Returns the exponential of each element.
    exp Other [0.0, 1.0] => [1.0, 2.718282];
    /// Returns the natural logarithm of each element.
    log Other [1.0, 2.718282] => [0.0, 1.0];
    /// Returns the square root of each element.
    sqrt Other [4.0, 9.0] => [2.0, 3.0];
    /// Returns the square of each element.
    square Other [2.0, -3.0] => [4.0, 9.0];
    /// Returns the hyperbolic tangent of each element.
    tanh Other [0.0, 1.0] => [0.0, 0.761594];
    /// Returns the logistic function of each element.
    sigmoid Other [0.0, 2.0] => [0.5, 0.880797];
    /// Returns 0 in the place of each negative element, and the others.
    relu Other [-1.0, 2.0] => [0.0, 2.0];
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $scalar:ident $parts:ident => $result:tt;)*) => {
        /// Pointwise operators of two operands. Shapes broadcast.
        impl ShardedTensor {$(
            $(#[$doc])*
            #[doc = concat!(
                "\n```\nuse torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};\n",
                "use torsh_tensor::{Tensor, tensor};\n\nlet results = spawn(2, |_| {\n",
                "    let mesh = DeviceMesh::new(&[2], &[\"tp\"])?;\n",
                "    let spread = |t: &Tensor| distribute_tensor(t, &mesh, &[Placement::Shard(0)]);\n",
                "    let (a, b) = (spread(&tensor![8.0, 6.0])?, spread(&tensor![2.0, 2.0])?);\n",
                "    a.", stringify!($name), "(&b)?.full_tensor()\n})?;\n",
                "assert_eq!(results[1], tensor!", stringify!($result), ");\n",
                "# Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            ///
            /// # Errors
            /// Other meshes, or placements that the operator has no rule for; what the operator itself refuses.
            #[torsh_tensor::names_caller]
            pub fn $name(&self, other: &ShardedTensor) -> Result<ShardedTensor> {
                self.binary(stringify!($name), other, |a, b| a.$name(b))
            }

            #[doc = concat!("[`ShardedTensor::", stringify!($name), "`] with a number.")]
            #[doc = concat!(
                "\n```\nuse torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};\n",
                "use torsh_tensor::tensor;\n\nlet results = spawn(2, |_| {\n",
                "    let mesh = DeviceMesh::new(&[2], &[\"tp\"])?;\n",
                "    let t = distribute_tensor(&tensor![8.0, 6.0], &mesh, &[Placement::Shard(0)])?;\n",
                "    t.", stringify!($scalar), "(2.0)?.full_tensor()\n})?;\n",
                "assert_eq!(results[1], tensor!", stringify!($result), ");\n",
                "# Ok::<(), torsh_tensor::TorshError>(())\n```"
            )]
            ///
            /// # Errors
            /// Placements that the operator has no rule for.
            #[torsh_tensor::names_caller]
            pub fn $scalar(&self, other: f64) -> Result<ShardedTensor> {
                self.unary(stringify!($name), Parts::$parts, |t| t.$name(other))
            }
        )*}
    };
}

binary! {
    /// The sum. A replicated operand is added to the first part of a partial one.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let pieces = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1.0], [2.0]], &mesh, &[Placement::Shard(0)])?;
    ///     let one = distribute_tensor(&tensor![10.0], &mesh, &[Placement::Replicate])?;
    ///     t.add(&one)?.to_local().item::<f32>()
    /// })?;
    /// assert_eq!(pieces, [11.0, 12.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// With equal placements:
    add add_scalar Other => [10.0, 8.0];
    /// Returns the difference of the operands.
    sub sub_scalar Other => [6.0, 4.0];
    /// Returns the product of the operands.
    mul mul_scalar Linear => [16.0, 12.0];
    /// Returns the quotient of the operands.
    div div_scalar Linear => [4.0, 3.0];
}

impl ShardedTensor {
    fn unary(
        &self,
        op: &'static str,
        parts: Parts,
        f: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<ShardedTensor> {
        let fine = |p: &Placement| match p {
            Placement::Partial(ReduceOp::Sum | ReduceOp::Avg) => parts == Parts::Linear,
            Placement::Partial(_) => false,
            _ => true,
        };
        if !self.placements.iter().all(fine) {
            return Err(refuse(op, &[self]));
        }
        Ok(self.with(f(&self.local)?, self.shape.clone(), self.placements.clone()))
    }

    fn binary(
        &self,
        op: &'static str,
        other: &ShardedTensor,
        f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<ShardedTensor> {
        let refuse = || refuse(op, &[self, other]);
        if !self.mesh.is_same(&other.mesh) {
            return Err(refuse());
        }
        let sums = matches!(op, "add" | "sub");
        let shape =
            torsh_tensor::broadcast_shapes(&[Shape::new(&self.shape), Shape::new(&other.shape)])
                .map_err(|_| refuse())?
                .dims()
                .to_vec();
        // The operands as they go in: parts stay parts beside a replicated operand in a sum.
        let (mut a, mut b) = (self.clone(), other.clone());
        for i in 0..self.placements.len() {
            if sums && a.placements[i] == SUM && b.placements[i] == Placement::Replicate {
                b = b.placed(i, SUM)?;
            } else if sums && b.placements[i] == SUM && a.placements[i] == Placement::Replicate {
                a = a.placed(i, SUM)?;
            }
        }
        let n = shape.len();
        let mut placements = Vec::new();
        for i in 0..a.placements.len() {
            // Which dimension of the result an operand is cut along.
            let cut = |t: &ShardedTensor| match t.placements[i] {
                Placement::Shard(d) => Some(d + n - t.ndim()),
                _ => None,
            };
            let size = |t: &ShardedTensor, d: usize| {
                (d + t.ndim()).checked_sub(n).map_or(1, |d| t.shape[d])
            };
            placements.push(match (a.placements[i], b.placements[i]) {
                (Placement::Replicate, Placement::Replicate) => Placement::Replicate,
                (Placement::Shard(_), Placement::Shard(_)) => match (cut(&a), cut(&b)) {
                    (Some(x), Some(y)) if x == y && size(&a, x) == size(&b, y) => {
                        Placement::Shard(x)
                    }
                    _ => return Err(refuse()),
                },
                (Placement::Shard(_), Placement::Replicate) => match cut(&a) {
                    Some(d) if size(&b, d) == 1 && size(&a, d) == shape[d] => {
                        b.local = meets_pieces(&b.local, self.mesh.group(i)?)?;
                        Placement::Shard(d)
                    }
                    _ => return Err(refuse()),
                },
                (Placement::Replicate, Placement::Shard(_)) => match cut(&b) {
                    Some(d) if size(&a, d) == 1 && size(&b, d) == shape[d] => {
                        a.local = meets_pieces(&a.local, self.mesh.group(i)?)?;
                        Placement::Shard(d)
                    }
                    _ => return Err(refuse()),
                },
                (SUM, SUM) if sums => SUM,
                // A product is linear in each operand; a quotient in the first.
                (SUM, Placement::Replicate) if matches!(op, "mul" | "div") => {
                    b.local = meets_pieces(&b.local, self.mesh.group(i)?)?;
                    SUM
                }
                (Placement::Replicate, SUM) if op == "mul" => {
                    a.local = meets_pieces(&a.local, self.mesh.group(i)?)?;
                    SUM
                }
                _ => return Err(refuse()),
            });
        }
        Ok(self.with(f(&a.local, &b.local)?, shape, placements))
    }

    /// The same with another placement along one dimension of the mesh.
    fn placed(&self, i: usize, p: Placement) -> Result<ShardedTensor> {
        let mut to = self.placements.clone();
        to[i] = p;
        self.redistribute(&to)
    }

    /// The matrix product. The last dimension of `self` meets the first but one of `other`, which has two dimensions, or as
    /// many as `self` and the same ones ahead of the last two.
    ///
    /// Along each dimension of the mesh: rows that are cut stay cut; columns of `other` that are cut become the result's; if
    /// both are cut where they meet, the result is `Partial(Sum)`.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let products = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let a = distribute_tensor(&tensor![[1.0, 2.0]], &mesh, &[Placement::Shard(1)])?;
    ///     let b = distribute_tensor(&tensor![[3.0], [4.0]], &mesh, &[Placement::Shard(0)])?;
    ///     let y = a.matmul(&b)?;
    ///     Ok((y.to_local().item::<f32>()?, y.full_tensor()?.item::<f32>()?))
    /// })?;
    /// assert_eq!(products, [(3.0, 11.0), (8.0, 11.0)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not go together; other placements or meshes.
    #[torsh_tensor::names_caller]
    pub fn matmul(&self, other: &ShardedTensor) -> Result<ShardedTensor> {
        const OP: &str = "matmul";
        let refuse = || refuse(OP, &[self, other]);
        let (n, m) = (self.ndim(), other.ndim());
        let batched = m > 2;
        let fits = n >= 2
            && m >= 2
            && self.shape[n - 1] == other.shape[m - 2]
            && (!batched || (n == m && self.shape[..n - 2] == other.shape[..m - 2]));
        if !fits || !self.mesh.is_same(&other.mesh) {
            return Err(refuse());
        }
        let mut shape = self.shape.clone();
        shape[n - 1] = other.shape[m - 1];
        let (mut a, mut b) = (self.local.clone(), other.local.clone());
        let mut placements = Vec::new();
        for (i, (p, q)) in self.placements.iter().zip(&other.placements).enumerate() {
            let group = self.mesh.group(i)?;
            placements.push(match (*p, *q) {
                (Placement::Replicate, Placement::Replicate) => Placement::Replicate,
                (Placement::Shard(d), Placement::Shard(e)) if d == n - 1 && e == m - 2 => SUM,
                (Placement::Shard(d), Placement::Shard(e)) if batched && d == e && d < n - 2 => {
                    Placement::Shard(d)
                }
                // (A batch that is cut on one side alone would meet another size.)
                (Placement::Shard(d), Placement::Replicate)
                    if d == n - 2 || (!batched && d < n - 2) =>
                {
                    b = meets_pieces(&b, group)?;
                    Placement::Shard(d)
                }
                (Placement::Replicate, Placement::Shard(e)) if e == m - 1 => {
                    a = meets_pieces(&a, group)?;
                    Placement::Shard(n - 1)
                }
                (SUM, Placement::Replicate) => {
                    b = meets_pieces(&b, group)?;
                    SUM
                }
                (Placement::Replicate, SUM) => {
                    a = meets_pieces(&a, group)?;
                    SUM
                }
                _ => return Err(refuse()),
            });
        }
        Ok(self.with(a.matmul(&b)?, shape, placements))
    }

    /// The linear layer: `self` times the transpose of `weight`, and `bias`.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let results = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let x = distribute_tensor(&tensor![[1.0, 2.0]], &mesh, &[Placement::Replicate])?;
    ///     let w = distribute_tensor(&tensor![[1.0, 0.0], [0.0, 1.0]], &mesh, &[Placement::Shard(0)])?;
    ///     let b = distribute_tensor(&tensor![0.5, 0.5], &mesh, &[Placement::Shard(0)])?;
    ///     x.linear(&w, Some(&b))?.full_tensor()?.to_vec::<f32>()
    /// })?;
    /// assert_eq!(results, [[1.5, 2.5], [1.5, 2.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ShardedTensor::matmul`] and [`ShardedTensor::add`].
    #[torsh_tensor::names_caller]
    pub fn linear(
        &self,
        weight: &ShardedTensor,
        bias: Option<&ShardedTensor>,
    ) -> Result<ShardedTensor> {
        if weight.ndim() != 2 {
            return Err(refuse("linear", &[self, weight]));
        }
        let y = self.matmul(&weight.transpose(0, 1)?)?;
        match bias {
            Some(b) => y.add(b),
            None => Ok(y),
        }
    }

    /// Returns the sum of all elements: partial where pieces are added.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let results = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1.0, 2.0], [3.0, 6.0]], &mesh, &[Placement::Shard(0)])?;
    ///     Ok((t.sum()?.to_local().item::<f32>()?, t.sum()?.full_tensor()?.item::<f32>()?))
    /// })?;
    /// assert_eq!(results, [(3.0, 12.0), (9.0, 12.0)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Parts of another operation than a sum.
    #[torsh_tensor::names_caller]
    pub fn sum(&self) -> Result<ShardedTensor> {
        let all: Vec<usize> = (0..self.ndim()).collect();
        self.sum_dim(&all, false)
    }

    /// The sums over dimensions: partial where a cut dimension is added.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let sums = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1.0, 2.0], [3.0, 4.0]], &mesh, &[Placement::Shard(0)])?;
    ///     Ok((t.sum_dim(&[0], false)?.full_tensor()?.to_vec::<f32>()?, t.sum_dim(&[1], false)?.to_local().item::<f32>()?))
    /// })?;
    /// assert_eq!(sums, [(vec![4.0, 6.0], 3.0), (vec![4.0, 6.0], 7.0)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Parts of another operation than a sum; a dimension that the tensor lacks.
    #[torsh_tensor::names_caller]
    pub fn sum_dim(&self, dims: &[usize], keepdim: bool) -> Result<ShardedTensor> {
        let (shape, placements) = self.reduced("sum", dims, keepdim)?;
        let local = match dims.is_empty() {
            true => self.local.clone(),
            false => self.local.sum_dim(dims, keepdim)?,
        };
        Ok(self.with(local, shape, placements))
    }

    /// Returns the mean of all elements: partial where pieces are added.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let results = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1.0, 2.0], [3.0, 6.0]], &mesh, &[Placement::Shard(0)])?;
    ///     t.mean()?.full_tensor()?.item::<f32>()
    /// })?;
    /// assert_eq!(results, [3.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Parts of another operation than a sum.
    #[torsh_tensor::names_caller]
    pub fn mean(&self) -> Result<ShardedTensor> {
        let all: Vec<usize> = (0..self.ndim()).collect();
        self.mean_dim(&all, false)
    }

    /// Returns the means over dimensions: partial where a cut dimension is added.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let results = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1.0, 2.0], [3.0, 6.0]], &mesh, &[Placement::Shard(0)])?;
    ///     t.mean_dim(&[0], false)?.full_tensor()
    /// })?;
    /// assert_eq!(results[0], tensor![2.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ShardedTensor::sum_dim`].
    #[torsh_tensor::names_caller]
    pub fn mean_dim(&self, dims: &[usize], keepdim: bool) -> Result<ShardedTensor> {
        let (shape, placements) = self.reduced("mean", dims, keepdim)?;
        // Pieces may differ in size, so sums are divided by the count of the whole.
        let count: usize = dims.iter().map(|d| self.shape[*d]).product();
        let local = match dims.is_empty() {
            true => self.local.clone(),
            false => self.local.sum_dim(dims, keepdim)?,
        };
        Ok(self.with(local.div(count as f64)?, shape, placements))
    }

    /// Shape and placements of a sum over dimensions.
    fn reduced(
        &self,
        op: &'static str,
        dims: &[usize],
        keepdim: bool,
    ) -> Result<(Vec<usize>, Vec<Placement>)> {
        if let Some(d) = dims.iter().find(|d| **d >= self.ndim()) {
            return Err(TorshError::index(
                op,
                format!("there is no dimension {d} in {}", self.describe()),
            ));
        }
        let mut placements = Vec::new();
        for p in &self.placements {
            placements.push(match *p {
                Placement::Shard(d) if dims.contains(&d) => SUM,
                Placement::Shard(d) if keepdim => Placement::Shard(d),
                Placement::Shard(d) => {
                    Placement::Shard(d - dims.iter().filter(|e| **e < d).count())
                }
                Placement::Partial(ReduceOp::Sum | ReduceOp::Avg) | Placement::Replicate => *p,
                Placement::Partial(_) => return Err(refuse(op, &[self])),
            });
        }
        let shape = self
            .shape
            .iter()
            .enumerate()
            .filter_map(|(d, n)| match dims.contains(&d) {
                true if keepdim => Some(1),
                true => None,
                false => Some(*n),
            });
        Ok((shape.collect(), placements))
    }

    /// Returns the tensor with two dimensions exchanged.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let results = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1.0, 2.0], [3.0, 6.0]], &mesh, &[Placement::Shard(0)])?;
    ///     t.transpose(0, 1)?.full_tensor()
    /// })?;
    /// assert_eq!(results[0], tensor![[1.0, 3.0], [2.0, 6.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A dimension that the tensor lacks.
    #[torsh_tensor::names_caller]
    pub fn transpose(&self, dim0: usize, dim1: usize) -> Result<ShardedTensor> {
        if dim0.max(dim1) >= self.ndim() {
            return Err(TorshError::index(
                "transpose",
                format!("{dim0} and {dim1} of {}", self.describe()),
            ));
        }
        let mut shape = self.shape.clone();
        shape.swap(dim0, dim1);
        let swapped = |p: &Placement| match *p {
            Placement::Shard(d) if d == dim0 => Placement::Shard(dim1),
            Placement::Shard(d) if d == dim1 => Placement::Shard(dim0),
            other => other,
        };
        let placements = self.placements.iter().map(swapped).collect();
        Ok(self.with(self.local.transpose(dim0, dim1)?, shape, placements))
    }

    /// The same elements in another shape, in which each dimension that is cut is still there, with as many elements ahead
    /// of it.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::Tensor;
    ///
    /// let shapes = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&Tensor::from_data(&[0f32; 12], [2, 6])?, &mesh, &[Placement::Shard(0)])?;
    ///     assert!(t.reshape(&[12]).is_err());
    ///     Ok(t.reshape(&[2, 3, 2])?.to_local().dims().to_vec())
    /// })?;
    /// assert_eq!(shapes, [[1, 3, 2], [1, 3, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Another number of elements, or a cut dimension that is split or joined.
    #[torsh_tensor::names_caller]
    pub fn reshape(&self, shape: &[usize]) -> Result<ShardedTensor> {
        let refuse = || {
            let e = refuse("reshape", &[self]);
            match e.info().map(|i| i.message.clone()) {
                Some(m) => TorshError::invalid("reshape", format!("{m} to {shape:?}"))
                    .with_hint("redistribute it, or reshape its full_tensor()"),
                None => e,
            }
        };
        if self.shape.iter().product::<usize>() != shape.iter().product::<usize>() {
            return Err(refuse());
        }
        let mut placements = Vec::new();
        let mut local = shape.to_vec();
        for p in &self.placements {
            placements.push(match *p {
                Placement::Shard(d) => {
                    let ahead: usize = self.shape[..d].iter().product();
                    let at = (0..shape.len()).find(|&e| {
                        shape[e] == self.shape[d] && shape[..e].iter().product::<usize>() == ahead
                    });
                    let e = at.ok_or_else(refuse)?;
                    local[e] = self.local.dims()[d];
                    Placement::Shard(e)
                }
                other => other,
            });
        }
        Ok(self.with(self.local.reshape(local)?, shape.to_vec(), placements))
    }

    /// Returns the softmax over a dimension that is not cut.
    ///
    /// ```
    /// use torsh_distributed::{DeviceMesh, Placement, distribute_tensor, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let results = spawn(2, |_| {
    ///     let mesh = DeviceMesh::new(&[2], &["tp"])?;
    ///     let t = distribute_tensor(&tensor![[1.0, 1.0], [3.0, 3.0]], &mesh, &[Placement::Shard(0)])?;
    ///     assert!(t.softmax(0).is_err()); // That dimension is cut.
    ///     t.softmax(1)?.full_tensor()
    /// })?;
    /// assert_eq!(results[0], tensor![[0.5, 0.5], [0.5, 0.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The dimension is cut, or the tensor partial.
    #[torsh_tensor::names_caller]
    pub fn softmax(&self, dim: usize) -> Result<ShardedTensor> {
        let fine =
            |p: &Placement| !matches!(p, Placement::Partial(_)) && *p != Placement::Shard(dim);
        if dim >= self.ndim() || !self.placements.iter().all(fine) {
            return Err(refuse("softmax", &[self]));
        }
        Ok(self.with(
            self.local.softmax(dim)?,
            self.shape.clone(),
            self.placements.clone(),
        ))
    }
}
