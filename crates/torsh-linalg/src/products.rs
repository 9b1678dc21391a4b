//! Powers, exponentials and products of matrices.

use smallvec::smallvec;
use std::borrow::Borrow;
use torsh_core::{DType, Shape};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, sample};
use torsh_tensor::{Autocast, Result, Tensor, TorshError, Value};

use crate::help::{NONE, check_square, eye_like, sides, squares, within};
use crate::kernels::keys;
use crate::options::{DiagonalOptions, OldVanderOptions, VanderOptions, VecdotOptions};
use crate::solve::{inv, regular};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &MATRIX_POWER,
    &MATRIX_EXP,
    &MULTI_DOT,
    &CHAIN_MATMUL,
    &VECDOT,
    &DIAGONAL,
    &VANDER,
    &OLD_VANDER,
];

#[torsh_tensor::by_name(matrix_power)]
static MATRIX_POWER: OpRecord = OpRecord::new(
    "linalg.matrix_power",
    "Whole powers of square matrices; negative ones are powers of the inverse.",
    "(Tensor A, int n)",
)
.samples(|s| {
    let [a, z] = regular(s, &[3, 3])?;
    Ok(vec![sample![&a, 3], sample![a, -2], sample![z, 2]])
});

#[torsh_tensor::by_name(matrix_exp)]
static MATRIX_EXP: OpRecord = OpRecord::new(
    "linalg.matrix_exp",
    "The exponentials of square matrices.",
    "(Tensor A)",
)
.with_key(&keys::MATRIX_EXP, |c| {
    let a = squares(c, 0)?;
    Ok(Plan::one(a.dtype(), a.shape().clone(), a.dtype()))
})
.autocast(Autocast::Fp32)
.grads(1, 0, |c| {
    // The derivative of the exponential in the direction of the gradient is a block of that of a block matrix.
    let (ah, g) = (c.input(0)?.adjoint()?, c.g());
    let n = sides(g).0;
    let zero = ah.zeros_like()?;
    let above = Tensor::cat(&[ah.clone(), g.clone()], -1)?;
    let below = Tensor::cat(&[zero, ah], -1)?;
    let whole = matrix_exp(&Tensor::cat(&[above, below], -2)?)?;
    Ok(smallvec![Some(whole.narrow(-2, 0, n)?.narrow(-1, n, n)?)])
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 2])?],
        sample![s.real(&[2, 2, 2])?.mul(0.1)?],
        sample![s.complex(&[2, 2])?],
    ])
});

#[torsh_tensor::by_name(multi_dot)]
static MULTI_DOT: OpRecord = OpRecord::new(
    "linalg.multi_dot",
    "The product of several matrices, in the order that takes the fewest multiplications.",
    "(Tensor[] tensors)",
)
.samples(|s| {
    let shapes: [&[&[usize]]; 3] = [
        &[&[2, 3], &[3, 2]],
        &[&[2], &[2, 4], &[4, 2], &[2]],
        &[&[2, 3], &[3, 4], &[4]],
    ];
    shapes
        .iter()
        .map(|all| {
            let list = all
                .iter()
                .map(|x| Ok(Value::Tensor(s.real(x)?)))
                .collect::<Result<Vec<_>>>()?;
            Ok(sample![Value::List(list)])
        })
        .collect()
});

#[torsh_tensor::by_name(chain_matmul)]
static CHAIN_MATMUL: OpRecord = OpRecord::new(
    "chain_matmul",
    "The product of several matrices, in the order that takes the fewest multiplications; linalg.multi_dot has replaced it.",
    "(Tensor[1] matrices)",
)
.samples(|s| {
    let list = [s.real(&[2, 3])?, s.real(&[3, 2])?, s.real(&[2, 2])?];
    Ok(vec![sample![Value::List(list.map(Value::Tensor).into())]])
});

#[torsh_tensor::by_name(vecdot_with(.., VecdotOptions))]
static VECDOT: OpRecord = OpRecord::new(
    "linalg.vecdot",
    "The dot products of vectors along a dimension, the first ones conjugated.",
    "(Tensor x, Tensor y, *, int dim=-1)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 3])?, s.real(&[3])?],
        sample![s.complex(&[3, 2])?, s.complex(&[3, 1])?, dim = 0],
    ])
});

#[torsh_tensor::by_name(diagonal_with(.., DiagonalOptions))]
static DIAGONAL: OpRecord = OpRecord::new(
    "linalg.diagonal",
    "A view of the diagonals of matrices, as a last dimension.",
    "(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1)",
)
.samples(|s| Ok(vec![sample![s.real(&[2, 3, 3])?, offset = 1]]));

#[torsh_tensor::by_name(vander_with(.., VanderOptions { n: N }))]
static VANDER: OpRecord = OpRecord::new(
    "linalg.vander",
    "The powers 0 to N - 1 of each number, along a new last dimension.",
    "(Tensor x, *, int? N=None)",
)
.samples(|s| {
    Ok(vec![
        sample![s.real(&[3])?],
        sample![s.complex(&[2, 2])?, N = 4],
    ])
});

#[torsh_tensor::by_name(old_vander_with(.., OldVanderOptions { n: N, increasing }))]
static OLD_VANDER: OpRecord = OpRecord::new(
    "vander",
    "The powers of each number of a vector, along a new last dimension, the highest first.",
    "(Tensor x, int? N=None, bool increasing=False)",
)
.samples(|s| Ok(vec![sample![s.real(&[3])?]]));

/// Whole powers of square matrices (`torch.linalg.matrix_power`), by repeated squaring; negative ones are powers of the
/// inverse.
///
/// It squares and multiplies, so it takes about `2 log2(n)` products.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let a = tensor![[1.0, 1.0], [0.0, 1.0]];
/// assert_eq!(linalg::matrix_power(&a, 5)?, tensor![[1.0, 5.0], [0.0, 1.0]]);
/// assert_eq!(linalg::matrix_power(&a, -1)?, tensor![[1.0, -1.0], [0.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices, or `n` is negative and a matrix is singular.
#[torsh_tensor::names_caller]
pub fn matrix_power(a: &Tensor, n: i64) -> Result<Tensor> {
    within("linalg.matrix_power", &[a], || {
        check_square(a)?;
        let mut left = n.unsigned_abs();
        if left == 0 {
            let result = a.copy()?;
            result.copy_(&eye_like(a, sides(a).0)?.expand(a.shape())?)?;
            return Ok(result);
        }
        let mut square = if n < 0 { inv(a)? } else { a.clone() };
        let mut result: Option<Tensor> = None;
        loop {
            if left & 1 == 1 {
                result = Some(match result {
                    None => square.clone(),
                    Some(r) => r.matmul(&square)?,
                });
            }
            left >>= 1;
            if left == 0 {
                break;
            }
            square = square.matmul(&square)?;
        }
        match result {
            Some(r) if n == 1 => r.copy(),
            Some(r) => Ok(r),
            None => Ok(square),
        }
    })
}

/// The exponentials of square matrices (`torch.linalg.matrix_exp`): scaling by a power of two, the Padé approximant of the
/// order that the norm needs, and squaring. A nan or infinity makes all of the result nan.
///
/// It solves `x' = A x`, by `x(t) = exp(t A) x(0)`. The cost is that of a handful of products and of one [`solve`](crate::solve),
/// and of one product more each time the norm doubles.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let e = linalg::matrix_exp(&tensor![[0.0, 1.0], [0.0, 0.0]])?;
/// assert!(e.allclose(&tensor![[1.0, 1.0], [0.0, 1.0]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` is not a batch of square matrices of a floating-point or complex dtype.
#[torsh_tensor::names_caller]
pub fn matrix_exp(a: &Tensor) -> Result<Tensor> {
    if matches!(a.dtype(), DType::F16 | DType::BF16) {
        // Alone among these functions it has the half types, which round once.
        let wide = MATRIX_EXP.call1(&[Arg::T(&a.to_dtype(DType::F32)?)], NONE)?;
        return wide.to_dtype(a.dtype());
    }
    MATRIX_EXP.call1(&[Arg::T(a)], NONE)
}

/// The product of two or more matrices (`torch.linalg.multi_dot`), in the order that takes the fewest multiplications. The
/// first may be a row, and the last a column, given as vectors.
///
/// Dynamic programming finds the order; the result of another one may differ in the last digits.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let x = linalg::multi_dot(&[tensor![1.0, 2.0], tensor![[1.0, 0.0], [0.0, 2.0]], tensor![1.0, 1.0]])?;
/// assert_eq!(x.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If there are fewer than two, one has another number of dimensions, or the sizes, dtypes or devices do not go together.
#[torsh_tensor::names_caller]
pub fn multi_dot<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Tensor> {
    let all: Vec<&Tensor> = tensors.iter().map(Borrow::borrow).collect();
    within("linalg.multi_dot", &all, || {
        let count = all.len();
        if count < 2 {
            let text = format!("expected at least 2 tensors, got {count}");
            return Err(TorshError::invalid("", text));
        }
        let mut list: Vec<Tensor> = all.iter().map(|t| (*t).clone()).collect();
        for (i, t) in all.iter().enumerate() {
            let ends = i == 0 || i == count - 1;
            if t.dtype() != all[0].dtype() || t.device() != all[0].device() {
                let text = format!(
                    "tensor {i} is {} and tensor 0 is {}",
                    t.describe(),
                    all[0].describe()
                );
                return Err(TorshError::dtype(
                    "",
                    format!("all tensors must have one dtype and device: {text}"),
                ));
            }
            if !(t.ndim() == 2 || ends && t.ndim() == 1) {
                let what = if ends {
                    "1 or 2 dimensions"
                } else {
                    "2 dimensions"
                };
                let text = format!("tensor {i} must have {what}, got {}", t.shape());
                return Err(TorshError::shape("", text));
            }
        }
        let (row, column) = (all[0].ndim() == 1, all[count - 1].ndim() == 1);
        if row {
            list[0] = list[0].unsqueeze(0)?;
        }
        if column {
            list[count - 1] = list[count - 1].unsqueeze(-1)?;
        }
        for i in 1..count {
            if list[i - 1].dims()[1] != list[i].dims()[0] {
                let text = format!(
                    "tensors {} and {i} with shapes {} and {} cannot be multiplied",
                    i - 1,
                    all[i - 1].shape(),
                    all[i].shape()
                );
                return Err(TorshError::shape("", text));
            }
        }
        let mut product = in_order(&list, &best_order(&list), 0, count - 1)?;
        if row {
            product = product.squeeze(0)?;
        }
        if column {
            product = product.squeeze(-1)?;
        }
        Ok(product)
    })
}

/// Where to split each run of matrices, by dynamic programming.
fn best_order(list: &[Tensor]) -> Vec<Vec<usize>> {
    let n = list.len();
    let mut sizes: Vec<f64> = list.iter().map(|t| t.dims()[0] as f64).collect();
    sizes.push(list[n - 1].dims()[1] as f64);
    let mut cost = vec![vec![0f64; n]; n];
    let mut split = vec![vec![0usize; n]; n];
    for length in 1..n {
        for i in 0..n - length {
            let j = i + length;
            cost[i][j] = f64::INFINITY;
            for k in i..j {
                let c = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
                if c < cost[i][j] {
                    (cost[i][j], split[i][j]) = (c, k);
                }
            }
        }
    }
    split
}

fn in_order(list: &[Tensor], split: &[Vec<usize>], i: usize, j: usize) -> Result<Tensor> {
    if i == j {
        return Ok(list[i].clone());
    }
    let k = split[i][j];
    in_order(list, split, i, k)?.matmul(&in_order(list, split, k + 1, j)?)
}

/// The product of matrices (`torch.chain_matmul`), in the order that takes the fewest multiplications.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::{eye, tensor};
/// let a = tensor![[1.0, 2.0], [3.0, 4.0]];
/// assert_eq!(linalg::chain_matmul(&[a.clone(), eye(2), eye(2)])?, a);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If there is none, one has not two dimensions, or the sizes do not go together.
#[torsh_tensor::names_caller]
pub fn chain_matmul<T: Borrow<Tensor>>(matrices: &[T]) -> Result<Tensor> {
    let all: Vec<&Tensor> = matrices.iter().map(Borrow::borrow).collect();
    within("chain_matmul", &all, || {
        if let Some(i) = all.iter().position(|t| t.ndim() != 2) {
            let text = format!("matrix {i} must have 2 dimensions, got {}", all[i].shape());
            return Err(TorshError::shape("", text));
        }
        match all[..] {
            [] => Err(TorshError::invalid("", "expected at least 1 matrix")),
            [one] => Ok(one.clone()),
            _ => multi_dot(&all),
        }
    })
}

/// The diagonals of the matrices of the last two dimensions (`torch.linalg.diagonal`), as a view.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::diagonal(&tensor![[1, 2], [3, 4]])?, tensor![1, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` has fewer than two dimensions.
#[track_caller]
pub fn diagonal(a: &Tensor) -> Result<Tensor> {
    diagonal_with(a, DiagonalOptions::new())
}

/// [`diagonal`] with PyTorch's keyword arguments: other dimensions, and other diagonals than the main one.
///
/// ```
/// use torsh_linalg::{self as linalg, DiagonalOptions};
/// use torsh_tensor::tensor;
/// let above = linalg::diagonal_with(&tensor![[1, 2], [3, 4]], DiagonalOptions::new().offset(1))?;
/// assert_eq!(above, tensor![2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `a` has fewer than two dimensions, or the two are one.
#[torsh_tensor::names_caller]
pub fn diagonal_with(a: &Tensor, options: DiagonalOptions) -> Result<Tensor> {
    let DiagonalOptions { offset, dim1, dim2 } = options;
    let options = torsh_tensor::DiagonalOptions { offset, dim1, dim2 };
    within("linalg.diagonal", &[a], || a.diagonal_with(options))
}

/// The dot products of vectors along the last dimension, those of `x` conjugated (`torch.linalg.vecdot`). The shapes broadcast.
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let d = linalg::vecdot(&tensor![[1.0, 2.0], [3.0, 4.0]], &tensor![1.0, 1.0])?;
/// assert_eq!(d, tensor![3.0, 7.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If the dtypes differ, are neither floating point nor complex, or the shapes do not broadcast.
#[track_caller]
pub fn vecdot(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    vecdot_with(x, y, VecdotOptions::new())
}

/// [`vecdot`] along another dimension.
///
/// ```
/// use torsh_linalg::{self as linalg, VecdotOptions};
/// use torsh_tensor::tensor;
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
/// assert_eq!(linalg::vecdot_with(&x, &x, VecdotOptions { dim: 0 })?, tensor![10.0, 20.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`vecdot`].
#[torsh_tensor::names_caller]
pub fn vecdot_with(x: &Tensor, y: &Tensor, options: VecdotOptions) -> Result<Tensor> {
    within("linalg.vecdot", &[x, y], || {
        if x.dtype() != y.dtype() || !x.dtype().is_differentiable() {
            let text = format!(
                "expected vectors of one floating point or complex dtype, got {} and {}",
                x.dtype(),
                y.dtype()
            );
            return Err(TorshError::dtype("", text));
        }
        if x.ndim() == 1 && x.shape() == y.shape() && [-1, 0].contains(&options.dim) {
            // The products are not rounded.
            return x.vdot(y);
        }
        x.conj()?.mul(y)?.sum_dim(options.dim, false)
    })
}

/// The powers `0` to `n - 1` of each of the `n` numbers of vectors along the last dimension, along a new last dimension
/// (`torch.linalg.vander`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// let v = linalg::vander(&tensor![2.0, 3.0, 4.0])?;
/// assert_eq!(v, tensor![[1.0, 2.0, 4.0], [1.0, 3.0, 9.0], [1.0, 4.0, 16.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If there would be fewer than two powers, or the dtype is bool.
#[track_caller]
pub fn vander(x: &Tensor) -> Result<Tensor> {
    vander_with(x, VanderOptions::new())
}

/// [`vander`] with `n` powers.
///
/// ```
/// use torsh_linalg::{self as linalg, VanderOptions};
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::vander_with(&tensor![2, 3], VanderOptions::new().n(3))?, tensor![[1, 2, 4], [1, 3, 9]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`vander`].
#[torsh_tensor::names_caller]
pub fn vander_with(x: &Tensor, options: VanderOptions) -> Result<Tensor> {
    within("linalg.vander", &[x], || {
        if x.dtype() == DType::Bool {
            return Err(TorshError::dtype(
                "",
                "expected floating point, complex or integer numbers, got bool",
            ));
        }
        let x = if x.ndim() == 0 {
            x.unsqueeze(-1)?
        } else {
            x.clone()
        };
        let n = options.n.unwrap_or(x.dims()[x.ndim() - 1] as i64);
        if n <= 1 {
            return Err(TorshError::invalid(
                "",
                format!("N must be greater than 1, got {n}"),
            ));
        }
        powers(&x, n)
    })
}

/// The powers 0 to `n - 1`, `n` above 1.
fn powers(x: &Tensor, n: i64) -> Result<Tensor> {
    let count = usize::try_from(n).unwrap_or(usize::MAX);
    let with = |k: usize| Shape::from([x.dims(), &[k]].concat());
    with(count).checked_numel(16)?;
    let higher = x.unsqueeze(-1)?.expand(with(count - 1))?.cumprod(-1)?;
    let ones = Tensor::ones(with(1), higher.dtype(), higher.device())?;
    Tensor::cat(&[ones, higher], -1)
}

/// The powers `n - 1` to `0` of each of the `n` numbers of a vector, along a new last dimension (`torch.vander`).
///
/// ```
/// use torsh_linalg as linalg;
/// use torsh_tensor::tensor;
/// assert_eq!(linalg::old_vander(&tensor![2.0, 3.0, 4.0])?, tensor![[4.0, 2.0, 1.0], [9.0, 3.0, 1.0], [16.0, 4.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `x` is no vector, or the number of powers is negative.
#[track_caller]
pub fn old_vander(x: &Tensor) -> Result<Tensor> {
    old_vander_with(x, OldVanderOptions::new())
}

/// [`old_vander`] with options.
///
/// ```
/// use torsh_linalg::{self as linalg, OldVanderOptions};
/// use torsh_tensor::tensor;
/// let options = OldVanderOptions::new().n(2).increasing(true);
/// assert_eq!(linalg::old_vander_with(&tensor![2, 3], options)?, tensor![[1, 2], [1, 3]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`old_vander`].
#[torsh_tensor::names_caller]
pub fn old_vander_with(x: &Tensor, options: OldVanderOptions) -> Result<Tensor> {
    within("vander", &[x], || {
        if x.ndim() != 1 {
            return Err(TorshError::shape(
                "",
                format!("x must be a vector, got {}", x.shape()),
            ));
        }
        let n = options.n.unwrap_or(x.numel() as i64);
        let all = match n {
            0 => Tensor::zeros([x.numel(), 0], x.dtype(), x.device())?,
            1 => Tensor::ones([x.numel(), 1], x.dtype(), x.device())?,
            2.. => powers(x, n)?,
            _ => {
                return Err(TorshError::invalid(
                    "",
                    format!("N must not be negative, got {n}"),
                ));
            }
        };
        if options.increasing {
            Ok(all)
        } else {
            all.flip(-1)
        }
    })
}
