//! Identities, orthogonal and sparse matrices.

use torsh_core::Generator;
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, no_grad};

use super::{constant_, normal};

/// Puts numbers in a tensor's place, in its dtype.
pub(crate) fn write(tensor: &Tensor, values: Vec<f64>) -> Result<Tensor> {
    no_grad(|| {
        tensor.copy_(&Tensor::from_slice(
            &values,
            tensor.shape(),
            DType::F64,
            Device::Cpu,
        )?)
    })
}

/// The rows and columns of a 2-d tensor.
#[track_caller]
fn matrix(op: &'static str, tensor: &Tensor) -> Result<[usize; 2]> {
    <[usize; 2]>::try_from(tensor.dims()).map_err(|_| {
        TorshError::shape(
            op,
            format!(
                "only tensors with 2 dimensions are supported, got {}",
                tensor.describe()
            ),
        )
    })
}

/// Ones on the diagonal of a 2-d tensor, zeros elsewhere: a linear layer that keeps its inputs.
///
/// ```
/// use torsh_nn::init;
/// use torsh_tensor::{empty, tensor};
/// assert_eq!(init::eye_(&empty(&[2, 3]))?, tensor![[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn eye_(tensor: &Tensor) -> Result<Tensor> {
    let [rows, columns] = matrix("eye_", tensor)?;
    no_grad(|| {
        let eye = Tensor::eye_nm(rows, columns, tensor.dtype(), tensor.device())?;
        tensor.copy_(&eye)
    })
}

/// A convolution that keeps its inputs, or in each of `groups` groups as many of them as there are
/// outputs: a one in the middle of the window, zeros elsewhere. For 3, 4 or 5 dimensions.
///
/// ```
/// use torsh_nn::init;
/// use torsh_tensor::{empty, tensor};
/// let w = init::dirac_(&empty(&[2, 2, 3]), 1)?;
/// assert_eq!(w, tensor![[[0.0, 1.0, 0.0], [0.0; 3]], [[0.0; 3], [0.0, 1.0, 0.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn dirac_(tensor: &Tensor, groups: usize) -> Result<Tensor> {
    let [outputs, inputs, window @ ..] = tensor.dims() else {
        return Err(unsupported(tensor));
    };
    if !(1..=3).contains(&window.len()) {
        return Err(unsupported(tensor));
    }
    if groups == 0 || !outputs.is_multiple_of(groups) {
        return Err(TorshError::invalid(
            "dirac_",
            format!("dim 0 must be divisible by groups, got {outputs} and {groups}"),
        ));
    }
    if tensor.device() == Device::Meta {
        return Ok(tensor.clone());
    }
    let size: usize = window.iter().product();
    if size == 0 {
        return Ok(tensor.clone());
    }
    let middle = window.iter().fold(0, |at, n| at * n + n / 2);
    let own = outputs / groups;
    let mut values = vec![0.0; tensor.numel()];
    for group in 0..groups {
        for d in 0..own.min(*inputs) {
            values[((group * own + d) * inputs + d) * size + middle] = 1.0;
        }
    }
    write(tensor, values)
}

#[track_caller]
fn unsupported(tensor: &Tensor) -> TorshError {
    TorshError::shape(
        "dirac_",
        format!(
            "only tensors with 3, 4, or 5 dimensions are supported, got {}",
            tensor.describe()
        ),
    )
}

/// A matrix with orthonormal rows, or columns where it has fewer of these, times `gain` (1 in
/// PyTorch unless given); the trailing dimensions count as one (Saxe et al., 2013).
///
/// The matrix is the orthogonal factor of normal draws, computed in float64: PyTorch's computes in
/// the tensor's dtype, and differs in the last bits.
///
/// ```
/// use torsh_nn::init;
/// use torsh_tensor::{empty, eye};
/// let w = init::orthogonal_(&empty(&[3, 5]), 1.0)?;
/// let gram = w.matmul(&w.t()?)?;
/// assert!(gram.sub(&eye(3))?.abs()?.max()?.item::<f32>()? < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn orthogonal_(tensor: &Tensor, gain: f64) -> Result<Tensor> {
    orthogonal(tensor, gain, None)
}

/// [`orthogonal_`] from a generator.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::{eye, zeros};
/// let w = init::orthogonal_with(&zeros([2, 3]), 2.0, &torsh_core::Generator::new(7))?;
/// let gram = w.matmul(&w.t()?)?;
/// assert!(gram.sub(&eye(2).mul(4.0)?)?.abs()?.max()?.item::<f32>()? < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn orthogonal_with(tensor: &Tensor, gain: f64, generator: &Generator) -> Result<Tensor> {
    orthogonal(tensor, gain, Some(generator))
}

#[track_caller]
fn orthogonal(tensor: &Tensor, gain: f64, generator: Option<&Generator>) -> Result<Tensor> {
    if tensor.ndim() < 2 {
        return Err(TorshError::shape(
            "orthogonal_",
            format!(
                "only tensors with 2 or more dimensions are supported, got {}",
                tensor.describe()
            ),
        ));
    }
    if tensor.numel() == 0 || tensor.device() == Device::Meta {
        return Ok(tensor.clone());
    }
    let rows = tensor.dims()[0];
    let columns = tensor.numel() / rows;
    let draws = Tensor::empty([rows, columns], tensor.dtype(), tensor.device())?;
    let draws = normal(&draws, 0.0, 1.0, generator)?.to_vec::<f64>()?;
    // The shorter side's vectors are made orthonormal.
    let wide = rows < columns;
    let (count, length) = if wide {
        (rows, columns)
    } else {
        (columns, rows)
    };
    let index = |vector: usize, i: usize| match wide {
        true => vector * columns + i,
        false => i * columns + vector,
    };
    let mut vectors: Vec<Vec<f64>> = (0..count)
        .map(|v| (0..length).map(|i| draws[index(v, i)]).collect())
        .collect();
    orthonormalize(&mut vectors);
    let mut values = vec![0.0; draws.len()];
    for (v, vector) in vectors.iter().enumerate() {
        for (i, x) in vector.iter().enumerate() {
            values[index(v, i)] = x * gain;
        }
    }
    write(tensor, values)
}

/// Gram and Schmidt's process, each vector twice, which leaves no error of note: the orthogonal
/// factor whose triangular one has a positive diagonal.
pub(crate) fn orthonormalize(vectors: &mut [Vec<f64>]) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for i in 0..vectors.len() {
        let (before, rest) = vectors.split_at_mut(i);
        let vector = &mut rest[0];
        for _ in 0..2 {
            for other in before.iter() {
                let share = dot(other, vector);
                for (x, y) in vector.iter_mut().zip(other) {
                    *x -= share * y;
                }
            }
        }
        let norm = dot(vector, vector).sqrt();
        for x in vector.iter_mut() {
            *x /= norm;
        }
    }
}

/// Normal draws of spread `std` (0.01 in PyTorch unless given) in a 2-d tensor of which in every
/// column the share `sparsity`, drawn too, is 0 (Martens, 2010).
///
/// ```
/// use torsh_nn::init;
/// use torsh_tensor::{empty, tensor};
/// let w = init::sparse_(&empty(&[10, 2]), 0.35, 0.01)?;
/// assert_eq!(w.eq(0.0)?.sum_dim(0, false)?, tensor![4, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn sparse_(tensor: &Tensor, sparsity: f64, std: f64) -> Result<Tensor> {
    sparse(tensor, sparsity, std, None)
}

/// [`sparse_`] with the numbers from a generator; the zeros' places are the default generator's, as
/// in PyTorch.
///
/// ```
/// # use torsh_nn::init;
/// # use torsh_tensor::{tensor, zeros};
/// let w = init::sparse_with(&zeros([10, 2]), 0.35, 0.01, &torsh_core::Generator::new(7))?;
/// assert_eq!(w.eq(0.0)?.sum_dim(0, false)?, tensor![4, 4]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn sparse_with(
    tensor: &Tensor,
    sparsity: f64,
    std: f64,
    generator: &Generator,
) -> Result<Tensor> {
    sparse(tensor, sparsity, std, Some(generator))
}

#[track_caller]
fn sparse(
    tensor: &Tensor,
    sparsity: f64,
    std: f64,
    generator: Option<&Generator>,
) -> Result<Tensor> {
    let [rows, columns] = matrix("sparse_", tensor)?;
    if !(0.0..=1.0).contains(&sparsity) {
        return Err(TorshError::invalid(
            "sparse_",
            format!("sparsity is a share from 0 to 1, got {sparsity}"),
        ));
    }
    if tensor.device() == Device::Meta {
        return Ok(tensor.clone());
    }
    let zeros = (sparsity * rows as f64).ceil() as usize;
    normal(tensor, 0.0, std, generator)?;
    let mut empty = vec![false; rows * columns];
    for column in 0..columns {
        let order = Tensor::randperm(rows as i64, DType::I64, Device::Cpu)?.to_vec::<i64>()?;
        for &row in &order[..zeros] {
            empty[row as usize * columns + column] = true;
        }
    }
    if rows * columns == 0 {
        return constant_(tensor, 0);
    }
    let empty = Tensor::from_vec(empty, [rows, columns])?.to_device(tensor.device())?;
    no_grad(|| tensor.copy_(&tensor.masked_fill(&empty, 0)?))
}
