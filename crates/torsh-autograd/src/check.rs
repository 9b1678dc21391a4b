//! Comparing derivatives with finite differences.

use torsh_tensor::{DType, Result, Tensor, TorshError, enable_grad, grad, no_grad};

/// Tolerances of [`gradcheck`]; PyTorch's names and defaults.
#[derive(Clone, Copy, Debug)]
pub struct GradcheckOptions {
    /// The step of the central difference.
    pub eps: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Relative tolerance.
    pub rtol: f64,
}

impl Default for GradcheckOptions {
    fn default() -> Self {
        GradcheckOptions {
            eps: 1e-6,
            atol: 1e-5,
            rtol: 1e-3,
        }
    }
}

impl GradcheckOptions {
    /// PyTorch's defaults.
    ///
    /// ```
    /// assert_eq!(torsh_autograd::GradcheckOptions::new().eps, 1e-6);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`GradcheckOptions::eps`].
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }
    /// Sets [`GradcheckOptions::atol`].
    #[must_use]
    pub fn atol(mut self, atol: f64) -> Self {
        self.atol = atol;
        self
    }
    /// Sets [`GradcheckOptions::rtol`].
    #[must_use]
    pub fn rtol(mut self, rtol: f64) -> Self {
        self.rtol = rtol;
        self
    }
}

/// Compares the gradients of `f` with central differences, for every element of every input that
/// requires grad (float64 or complex128); `Ok(true)`, or an error that says where they differ. A
/// device without float64 is checked in float32, with [`gradcheck_with`], a step of 1e-3 or more and
/// tolerances to match.
///
/// The outputs are weighed with fixed random numbers into one real number whose gradient, in
/// PyTorch's convention for complex inputs, is compared element by element.
///
/// ```
/// use torsh_autograd::gradcheck;
/// use torsh_tensor::Tensor;
/// let x = Tensor::from_data(&[0.3f64, 1.2], &[2])?.requires_grad_(true);
/// assert!(gradcheck(|x| Ok(vec![x[0].sin()?]), &[x])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn gradcheck(f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) -> Result<bool> {
    gradcheck_with(f, inputs, GradcheckOptions::default())
}

/// [`gradcheck`] with its tolerances.
#[torsh_tensor::names_caller]
pub fn gradcheck_with(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: GradcheckOptions,
) -> Result<bool> {
    check("gradcheck", &f, inputs, options)
}

/// Compares the second derivatives of `f` with central differences of the first.
#[torsh_tensor::names_caller]
pub fn gradgradcheck(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
) -> Result<bool> {
    gradgradcheck_with(f, inputs, GradcheckOptions::default())
}

/// [`gradgradcheck`] with its tolerances.
#[torsh_tensor::names_caller]
pub fn gradgradcheck_with(
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: GradcheckOptions,
) -> Result<bool> {
    let n = inputs.len();
    let outputs = differentiable(enable_grad(|| f(inputs))?);
    if outputs.is_empty() {
        return Ok(true);
    }
    let mut all: Vec<Tensor> = inputs.to_vec();
    for (k, y) in outputs.iter().enumerate() {
        all.push(weights(y, 31 + k as u64)?.requires_grad_(true));
    }
    let wanted: Vec<usize> = (0..n).filter(|&i| inputs[i].requires_grad()).collect();
    let first = |x: &[Tensor]| -> Result<Vec<Tensor>> {
        enable_grad(|| {
            let y = differentiable(f(&x[..n])?);
            let g: Vec<Option<Tensor>> = x[n..].iter().map(|t| Some(t.clone())).collect();
            let leaves: Vec<Tensor> = wanted.iter().map(|&i| x[i].clone()).collect();
            let found = grad(&y, &leaves, &g, true, true, true)?;
            Ok(found.into_iter().flatten().collect())
        })
    };
    // A gradient that is constant (of sign, floor and kin) has nothing left to differentiate.
    if differentiable(first(&all)?).is_empty() {
        return Ok(true);
    }
    check("gradgradcheck", &first, &all, options)
}

fn differentiable(v: Vec<Tensor>) -> Vec<Tensor> {
    v.into_iter().filter(|t| t.requires_grad()).collect()
}

/// Fixed numbers between 0.3 and 1.7 of a tensor's shape and dtype.
fn weights(like: &Tensor, seed: u64) -> Result<Tensor> {
    let parts = if like.is_complex() { 2 } else { 1 };
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let v: Vec<f64> = (0..like.numel() * parts)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            0.3 + 1.4 * (state >> 11) as f64 / (1u64 << 53) as f64
        })
        .collect();
    from_parts(&v, like)
}

/// The real number whose gradient is compared: Re(sum(conj(w) * y)) over all outputs.
fn loss(outputs: &[Tensor], w: &[Tensor]) -> Result<f64> {
    let mut sum = 0.0;
    for (y, w) in outputs.iter().zip(w) {
        let (y, w) = (parts_of(y)?, parts_of(w)?);
        sum += y.iter().zip(&w).map(|(a, b)| a * b).sum::<f64>();
    }
    Ok(sum)
}

/// The numbers of a tensor, real and imaginary parts in turn.
fn parts_of(t: &Tensor) -> Result<Vec<f64>> {
    if t.is_complex() {
        t.detach().contiguous()?.view_as_real()?.to_vec()
    } else {
        t.to_vec()
    }
}

/// A tensor of these numbers, of the shape, dtype and device of another.
fn from_parts(v: &[f64], like: &Tensor) -> Result<Tensor> {
    let (mut shape, dtype) = (like.dims().to_vec(), like.dtype().to_real());
    if like.is_complex() {
        shape.push(2);
        return Tensor::from_slice(v, &shape, dtype, like.device())?.view_as_complex();
    }
    Tensor::from_slice(v, &shape, dtype, like.device())
}

/// The least step whose differences mean something in float32.
const LEAST_F32_STEP: f64 = 1e-3;

fn check(
    op: &'static str,
    f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    o: GradcheckOptions,
) -> Result<bool> {
    let leaves: Vec<Tensor> = inputs
        .iter()
        .map(|t| {
            if t.requires_grad() {
                t.detach().requires_grad_(true)
            } else {
                t.clone()
            }
        })
        .collect();
    for t in leaves.iter().filter(|t| t.requires_grad()) {
        let fine = match t.dtype() {
            DType::F64 | DType::C128 => true,
            DType::F32 | DType::C64 => o.eps >= LEAST_F32_STEP,
            _ => false,
        };
        if !fine {
            return Err(TorshError::autograd(
                op,
                format!("inputs must be float64 or complex128, got {}", t.describe()),
            )
            .with_hint(
                "in float32 finite differences need a step of 1e-3 or more, as eps(1e-2), and tolerances to match",
            ));
        }
    }
    let outputs = differentiable(enable_grad(|| f(&leaves))?);
    if outputs.is_empty() {
        return Err(TorshError::autograd(
            op,
            "no output requires grad: nothing is differentiated",
        ));
    }
    let w = outputs
        .iter()
        .enumerate()
        .map(|(k, y)| weights(y, 7 + k as u64))
        .collect::<Result<Vec<_>>>()?;
    let wanted: Vec<usize> = (0..leaves.len())
        .filter(|&i| leaves[i].requires_grad())
        .collect();
    let targets: Vec<Tensor> = wanted.iter().map(|&i| leaves[i].clone()).collect();
    let seeds: Vec<Option<Tensor>> = w.iter().map(|t| Some(t.clone())).collect();
    let analytic = grad(&outputs, &targets, &seeds, false, false, true)?;
    for (&i, g) in wanted.iter().zip(&analytic) {
        let x = &leaves[i];
        let have = match g {
            Some(g) => parts_of(g)?,
            None => vec![0.0; x.numel() * if x.is_complex() { 2 } else { 1 }],
        };
        let base = parts_of(x)?;
        for k in 0..base.len() {
            let at = |step: f64| -> Result<f64> {
                let mut moved = base.clone();
                moved[k] += step;
                let mut x2 = leaves.clone();
                x2[i] = from_parts(&moved, x)?.requires_grad_(true);
                let y = differentiable(enable_grad(|| f(&x2))?);
                no_grad(|| loss(&y, &w))
            };
            let want = (at(o.eps)? - at(-o.eps)?) / (2.0 * o.eps);
            let close = (have[k] - want).abs() <= o.atol + o.rtol * want.abs();
            if !close {
                return Err(TorshError::autograd(
                    op,
                    format!(
                        "the gradient of input {i} ({}) is wrong at element {k}: the derivative gives {}, finite differences {want}",
                        x.describe(),
                        have[k]
                    ),
                ));
            }
        }
    }
    Ok(true)
}
