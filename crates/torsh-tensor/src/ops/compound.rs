//! Products and sums of whole blocks, and scales, written in other ops.

use smallvec::SmallVec;
use torsh_core::{DType, Device, Result, TorshError};

use crate::record::{OpRecord, sample};
use crate::{IntoDim, NormOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &KRON,
    &BLOCK_DIAG,
    &LDEXP,
    &LDEXP_,
    &RENORM,
    &RENORM_,
    &GROUPED_MM,
];

#[torsh_tensor::by_name(Tensor::kron)]
pub static KRON: OpRecord = OpRecord::new(
    "kron",
    "The Kronecker product: a block a[i, j, ..] * b for every element of a.",
    "(Tensor input, Tensor other)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, s.real(&[3])?]]));

#[torsh_tensor::by_name(Tensor::block_diag)]
pub static BLOCK_DIAG: OpRecord = OpRecord::new(
    "block_diag",
    "A matrix with the given ones along its diagonal and zeros elsewhere.",
    "(Tensor[1] tensors)",
)
.samples(|s| {
    let (x, y) = (s.real(&[2, 3])?, s.real(&[2])?);
    Ok(vec![sample![vec![x, y]]])
});

#[torsh_tensor::by_name(Tensor::ldexp)]
pub static LDEXP: OpRecord = OpRecord::new(
    "ldexp",
    "input * 2 ** other.",
    "(Tensor input, Tensor other)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3])?, s.real(&[3])?]]));

/// [`LDEXP`] in place.
#[torsh_tensor::by_name(Tensor::ldexp_)]
pub static LDEXP_: OpRecord = OpRecord::new(
    "ldexp_",
    "The op ldexp in place.",
    "(Tensor input, Tensor other)",
);

#[torsh_tensor::by_name(Tensor::renorm)]
pub static RENORM: OpRecord = OpRecord::new(
    "renorm",
    "Scales each part along a dimension whose p-norm exceeds maxnorm to that norm.",
    "(Tensor input, float p, int dim, float maxnorm)",
)
.samples(|s| {
    let call = |x: Tensor, p| sample![x, Value::Float(p), 0, 0.5];
    Ok(vec![
        call(s.real(&[2, 3])?, 2.0),
        call(s.real(&[3, 2, 2])?, 1.5),
    ])
});

/// [`RENORM`] in place.
#[torsh_tensor::by_name(Tensor::renorm_)]
pub static RENORM_: OpRecord = OpRecord::new(
    "renorm_",
    "The op renorm in place.",
    "(Tensor input, float p, int dim, float maxnorm)",
);

pub static GROUPED_MM: OpRecord = OpRecord::new(
    "nn.functional.grouped_mm",
    "The product of each group of rows or columns with its own matrix; offs has the end of each group.",
    "(Tensor mat_a, Tensor mat_b, *, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None)",
)
.by_name(|b| {
    if matches!(b.value(3), Value::Tensor(_)) {
        return Err(TorshError::invalid("", "bias is not supported, as in PyTorch").with_hint("add it to the result"));
    }
    let y = b.tensor(0)?.grouped_mm(b.tensor(1)?, b.opt_tensor(2))?;
    match b.dtype(4) {
        Some(dtype) => y.to_dtype(dtype).map(Value::Tensor),
        None => Ok(Value::Tensor(y)),
    }
});

/// Of integers in the default dtype.
fn power_of_two(exponents: &Tensor) -> Result<Tensor> {
    let dtype = match exponents.dtype() {
        dtype if dtype.is_differentiable() => dtype,
        _ => torsh_core::default_dtype(),
    };
    Tensor::scalar(2.0, dtype, exponents.device())?.pow(exponents)
}

#[track_caller]
fn renorm(op: &'static str, x: &Tensor, p: f64, dim: impl IntoDim, maxnorm: f64) -> Result<Tensor> {
    let refuse = |e: TorshError| x.named(op, Err(e));
    if x.ndim() < 2 {
        let text = format!(
            "input needs at least 2 dimensions, got {} dimensions",
            x.ndim()
        );
        return refuse(TorshError::shape("", text));
    }
    let dim = x.dim(op, dim.value())?;
    // Also for a p or maxnorm that is not a number.
    if !(p > 0.0) {
        return refuse(TorshError::invalid(
            "",
            format!("non-positive norm p={p} is not supported"),
        ));
    }
    if !(maxnorm >= 0.0) {
        return refuse(TorshError::invalid(
            "",
            format!("expected maxnorm to be >= 0 but got {maxnorm}"),
        ));
    }
    let scaled = || {
        let others: SmallVec<[i64; 6]> =
            (0..x.ndim() as i64).filter(|&d| d != dim as i64).collect();
        let half = matches!(x.dtype(), DType::F16 | DType::BF16);
        let norms = |x: &Tensor| {
            x.norm_with(NormOptions {
                p: p.into(),
                dim: Some(others.clone()),
                keepdim: true,
                dtype: half.then_some(DType::F32),
            })
        };
        let measured = crate::no_grad(|| norms(x))?;
        let large = measured.gt(maxnorm)?;
        // The norm of a part that stays as it is, such as one with nan, has no gradient.
        let norms = match crate::is_grad_enabled() && x.requires_grad() {
            true => norms(&x.where_zero(&large, false)?)?,
            false => measured,
        };
        let factor = norms.add(1e-7)?.reciprocal()?.mul(maxnorm)?;
        let factor = Tensor::where_(&large, factor, 1.0)?;
        x.mul(&factor.to_dtype(x.dtype().to_real())?)
    };
    x.named(op, scaled())
}

/// The ends of groups, checked against the size that they divide.
fn ends(offs: &Tensor, size: usize) -> Result<Vec<usize>> {
    if offs.ndim() != 1 || !matches!(offs.dtype(), DType::I32 | DType::I64) {
        let text = format!(
            "offs must be a vector of int32, got {}{:?}",
            offs.dtype(),
            offs.dims()
        );
        return Err(TorshError::invalid("", text));
    }
    let mut last = 0;
    let end = |e: i64| {
        let fits = usize::try_from(e).ok().filter(|&e| e >= last && e <= size);
        let end = fits.ok_or_else(|| {
            let text = format!("offs must ascend from 0 to at most {size}, got {e} after {last}");
            TorshError::invalid("", text)
        })?;
        last = end;
        Ok(end)
    };
    offs.to_vec::<i64>()?.into_iter().map(end).collect()
}

fn grouped_mm(a: &Tensor, b: &Tensor, offs: Option<&Tensor>) -> Result<Tensor> {
    let refuse = |text: String| Err(TorshError::shape("", text));
    if !matches!(a.ndim(), 2 | 3) || !matches!(b.ndim(), 2 | 3) {
        return refuse(format!(
            "mat_a and mat_b must be 2D or 3D, got {a:?} and {b:?}"
        ));
    }
    if a.dtype() != b.dtype() {
        let text = format!(
            "mat_a and mat_b must have one dtype, got {} and {}",
            a.dtype(),
            b.dtype()
        );
        return Err(TorshError::dtype("", text));
    }
    let (inner, of) = (a.dims()[a.ndim() - 1], b.dims()[b.ndim() - 2]);
    if inner != of {
        return refuse(format!(
            "contraction dimension of mat_a and mat_b must match, got {inner} and {of}"
        ));
    }
    let Some(offs) = offs else {
        return match (a.ndim(), b.ndim()) {
            (3, 3) if a.dims()[0] == b.dims()[0] => a.bmm(b),
            (3, 3) => refuse(format!(
                "batch sizes have to match, got {} and {}",
                a.dims()[0],
                b.dims()[0]
            )),
            _ => Err(TorshError::invalid(
                "",
                "offs is needed where an operand is 2D",
            )),
        };
    };
    // Which dimension of which operand the groups divide.
    let (size, groups) = match (a.ndim(), b.ndim()) {
        (2, 3) => (a.dims()[0], Some(b.dims()[0])),
        (3, 2) => (b.dims()[1], Some(a.dims()[0])),
        (2, 2) => (inner, None),
        _ => {
            return Err(TorshError::invalid(
                "",
                "offs must be absent where both operands are 3D",
            ));
        }
    };
    let ends = ends(offs, size)?;
    if groups.is_some_and(|n| n != ends.len()) {
        return refuse(format!(
            "offs has {} groups, the batch {}",
            ends.len(),
            groups.unwrap_or(0)
        ));
    }
    let starts = [0].into_iter().chain(ends.iter().copied());
    let parts = starts.zip(&ends).enumerate().map(|(g, (start, &end))| {
        let n = end - start;
        match (a.ndim(), b.ndim()) {
            (2, 3) => a.narrow(0, start, n)?.matmul(&b.select(0, g)?),
            (3, 2) => a.select(0, g)?.matmul(&b.narrow(1, start, n)?),
            _ => a.narrow(1, start, n)?.matmul(&b.narrow(0, start, n)?),
        }
    });
    let mut parts = parts.collect::<Result<Vec<_>>>()?;
    let rest = size - ends.last().copied().unwrap_or(0);
    let (rows, columns) = (a.dims()[a.ndim() - 2], b.dims()[b.ndim() - 1]);
    let zeros = |shape: [usize; 2]| Tensor::zeros(shape, a.dtype(), a.device());
    match (a.ndim(), b.ndim()) {
        (2, 3) => {
            // Rows of no group are zeros.
            parts.push(zeros([rest, columns])?);
            Tensor::cat(&parts, 0)
        }
        (3, 2) => {
            parts.push(zeros([rows, rest])?);
            Tensor::cat(&parts, 1)
        }
        _ if parts.is_empty() => Tensor::zeros([0, rows, columns], a.dtype(), a.device()),
        _ => Tensor::stack(&parts, 0),
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// The Kronecker product (`torch.kron`): the sizes are the products of those of both, the operand
    /// of fewer dimensions getting ones ahead; element `[i * m + k, ..]` is `x[i, ..] * other[k, ..]`
    /// with `x` this tensor.
    ///
    /// # Errors
    /// Where the sizes' products overflow, or the devices differ.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let y = tensor![[1, 2]].kron(&tensor![[1, 1], [0, 1]])?;
    /// assert_eq!(y, tensor![[1, 1, 2, 2], [0, 1, 0, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn kron(&self, other: &Tensor) -> Result<Tensor> {
        let n = self.ndim().max(other.ndim());
        // Every dimension becomes two: that of `self`, then that of `other`.
        let spread = |t: &Tensor, second: usize| {
            let mut shape = vec![1; 2 * n];
            let ahead = n - t.ndim();
            for (d, &size) in t.dims().iter().enumerate() {
                shape[2 * (ahead + d) + second] = size;
            }
            t.reshape(&shape[..])
        };
        let run = || {
            let y = spread(self, 0)?.mul(&spread(other, 1)?)?;
            let pairs = y.dims().chunks(2).map(|p| p[0] * p[1]);
            y.reshape(&pairs.collect::<Vec<usize>>()[..])
        };
        self.named("kron", run())
    }

    /// A matrix with the given ones along its diagonal and zeros elsewhere (`torch.block_diag`). A
    /// vector is a row, a number a matrix of one element; of no tensor it is `[1, 0]`. The dtype is
    /// the promoted one.
    ///
    /// # Errors
    /// For a tensor of more than two dimensions.
    ///
    /// ```
    /// use torsh_tensor::{Tensor, tensor};
    /// let y = Tensor::block_diag(&[tensor![[1, 2]], tensor![[3], [4]]])?;
    /// assert_eq!(y, tensor![[1, 2, 0], [0, 0, 3], [0, 0, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller(Self)]
    pub fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
        let Some(first) = tensors.first() else {
            return Tensor::empty([1, 0], torsh_core::default_dtype(), Device::Cpu);
        };
        let run = || {
            let blocks = tensors.iter().enumerate().map(|(i, t)| match t.ndim() {
                0 | 1 => t.reshape([1, t.numel()]),
                2 => Ok(t.clone()),
                n => {
                    let text =
                        format!("Input tensors must have 2 or fewer dimensions. Input {i} has {n} dimensions");
                    Err(TorshError::shape("", text))
                }
            });
            let blocks = blocks.collect::<Result<Vec<_>>>()?;
            let columns: usize = blocks.iter().map(|b| b.dims()[1]).sum();
            let mut before = 0;
            let mut rows = Vec::with_capacity(blocks.len());
            for block in blocks {
                let (m, n) = (block.dims()[0], block.dims()[1]);
                let zeros = |n| Tensor::zeros([m, n], block.dtype(), block.device());
                let after = columns - before - n;
                rows.push(Tensor::cat(
                    &[zeros(before)?, block.clone(), zeros(after)?],
                    1,
                )?);
                before += n;
            }
            Tensor::cat(&rows, 0)
        };
        first.named("block_diag", run())
    }

    /// This tensor times `2 ** other`, broadcast (`torch.ldexp`). Integers become the default dtype.
    ///
    /// # Errors
    /// Where the shapes do not broadcast.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 3.0].ldexp(&tensor![4, -1])?, tensor![16.0, 1.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn ldexp(&self, other: &Tensor) -> Result<Tensor> {
        let run = || self.mul(&power_of_two(other)?);
        self.named("ldexp", run())
    }

    /// [`Tensor::ldexp`] in place. The shape and dtype stay; an error where the result has others, and for a leaf that
    /// requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 3.0];
    /// x.ldexp_(&tensor![4, -1])?;
    /// assert_eq!(x, tensor![16.0, 1.5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn ldexp_(&self, other: &Tensor) -> Result<Tensor> {
        let run = || self.mul_(&power_of_two(other)?);
        self.named("ldexp_", run())
    }

    /// Each part along dimension `dim` whose `p`-norm exceeds `maxnorm`, scaled to that norm; the
    /// others as they are (`torch.renorm`).
    ///
    /// # Errors
    /// For fewer than two dimensions, a `p` that is not positive and a negative `maxnorm`.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let y = tensor![[3.0, 4.0], [0.3, 0.4]].renorm(2.0, 0, 1.0)?;
    /// assert!(y.allclose(&tensor![[0.6, 0.8], [0.3, 0.4]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn renorm(&self, p: f64, dim: impl IntoDim, maxnorm: f64) -> Result<Tensor> {
        renorm("renorm", self, p, dim, maxnorm)
    }

    /// [`Tensor::renorm`] in place. An error also for a leaf that requires a gradient.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[3.0, 4.0], [0.3, 0.4]];
    /// x.renorm_(2.0, 0, 1.0)?;
    /// assert!(x.allclose(&tensor![[0.6, 0.8], [0.3, 0.4]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn renorm_(&self, p: f64, dim: impl IntoDim, maxnorm: f64) -> Result<Tensor> {
        let r = renorm("renorm_", self, p, dim, maxnorm)?;
        self.named("renorm_", crate::inplace::assign(self, &r))?;
        Ok(self.clone())
    }

    /// The product of each group of rows or columns with its own matrix, as a mixture of experts
    /// needs it (`torch.nn.functional.grouped_mm`). `offs` has the end of each group, ascending:
    ///
    /// | this tensor | `mat_b` | groups are of | result |
    /// |---|---|---|---|
    /// | `[m, k]` | `[g, k, n]` | its rows | `[m, n]` |
    /// | `[g, m, k]` | `[k, n]` | columns of `mat_b` | `[m, n]` |
    /// | `[m, k]` | `[k, n]` | the inner dimension | `[g, m, n]` |
    /// | `[g, m, k]` | `[g, k, n]` | the batch; without `offs` | `[g, m, n]` |
    ///
    /// Rows and columns behind the last end are zeros.
    ///
    /// # Errors
    /// For other shapes, and ends that do not ascend or are beyond the size.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let (x, experts) = (tensor![[1.0], [2.0], [3.0]], tensor![[[10.0]], [[100.0]]]);
    /// let y = x.grouped_mm(&experts, Some(&tensor![1, 3]))?;
    /// assert_eq!(y, tensor![[10.0], [200.0], [300.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(input = mat_a)]
    #[torsh_tensor::names_caller]
    pub fn grouped_mm(&self, mat_b: &Tensor, offs: Option<&Tensor>) -> Result<Tensor> {
        self.named("grouped_mm", grouped_mm(self, mat_b, offs))
    }
}
