//! Comparing derivatives with finite differences.

use torsh_core::attrs::NONE;
use torsh_tensor::call::Arg;
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{DType, Result, Tensor, TorshError, Value, enable_grad, grad, no_grad, ops};

torsh_tensor::options! {
    /// Tolerances of [`gradcheck`], and what it compares of sparse inputs; PyTorch's names and defaults.
    ///
    /// ```
    /// use torsh_autograd::{GradcheckOptions, gradcheck_with};
    /// use torsh_tensor::sparse::{Pattern, from_values, values};
    /// use torsh_tensor::{DType, Tensor, tensor};
    /// assert_eq!(GradcheckOptions::new().eps, 1e-6);
    /// let x = Tensor::from_data(&[0.3f64, 1.2], &[2])?.requires_grad_(true);
    /// let options = GradcheckOptions::new().fast_mode(true);
    /// assert!(gradcheck_with(|x| Ok(vec![x[0].sin()?]), &[x], options)?);
    /// // The stored element of a sparse matrix.
    /// let corner = Pattern::coo(&[2, 2], &tensor![[1], [1]], true)?;
    /// let x = from_values(&corner, &tensor![0.5].to_dtype(DType::F64)?)?.requires_grad_(true);
    /// let options = GradcheckOptions::new().masked(true);
    /// assert!(gradcheck_with(|x| Ok(vec![values(&x[0])?.sin()?]), &[x], options)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[derive(Copy)]
    GradcheckOptions {
        /// The step of the central difference. The default is 1e-6.
        eps: f64 = 1e-6;
        /// Absolute tolerance. The default is 1e-5.
        atol: f64 = 1e-5;
        /// Relative tolerance. The default is 1e-3.
        rtol: f64 = 1e-3;
        /// Whether the elements of a sparse input that are not stored are left alone. With `true` the stored values
        /// alone are changed and compared: the meaning of gradients that have the input's pattern. With `false`, the
        /// default, all elements of the dense shape are: that of strided gradients. Strided inputs are compared as ever.
        masked: bool = false;
        /// Whether the derivative of each input in one fixed direction is compared, which takes two calls of the
        /// function, in place of those by each of its elements. The default is `false`.
        fast_mode: bool = false;
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
/// Inputs and outputs may be sparse, of any layout. All elements of a sparse input are compared, those
/// that it does not store too, unless [`GradcheckOptions::masked`] says otherwise.
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

/// [`gradcheck`] with its tolerances, and with what is compared of sparse inputs.
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

/// [`gradgradcheck`] with its tolerances, and with what is compared of sparse inputs.
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

/// Fixed numbers between 0.3 and 1.7.
fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        0.3 + 1.4 * (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..n).map(next).collect()
}

/// Fixed numbers of a tensor's shape and dtype.
fn weights(like: &Tensor, seed: u64) -> Result<Tensor> {
    let parts = if like.is_complex() { 2 } else { 1 };
    from_parts(&numbers(like.numel() * parts, seed), like)
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

/// The numbers of a tensor, real and imaginary parts in turn; of a sparse one those of all elements.
fn parts_of(t: &Tensor) -> Result<Vec<f64>> {
    let t = match t.layout().is_strided() {
        true => t.detach(),
        false => sparse::call1("to_dense", &[Arg::T(&t.detach())], NONE)?,
    };
    if t.is_complex() {
        t.contiguous()?.view_as_real()?.to_vec()
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

/// What is changed of an input, number by number.
struct Changed {
    /// Where a sparse input's elements are.
    pattern: Option<Pattern>,
    /// The elements of a strided input, or the values of the pattern.
    values: Tensor,
}

impl Changed {
    /// The elements of an input: of a sparse one those that it stores if `masked`, else all.
    fn of(x: &Tensor, masked: bool) -> Result<Changed> {
        let x = x.detach();
        let Some(pattern) = x.pattern() else {
            return Ok(Changed {
                pattern: None,
                values: x,
            });
        };
        if masked {
            return Ok(Changed {
                pattern: Some(pattern),
                values: sparse::values(&x)?,
            });
        }
        // A tensor without zeros stores all of them in any layout.
        let ones = Tensor::ones(x.shape(), x.dtype(), x.device())?;
        let mut how = vec![
            ("layout", Value::from(pattern.layout())),
            ("dense_dim", Value::from(pattern.dense_dim())),
        ];
        if let Some([rows, columns]) = pattern.block() {
            how.push(("blocksize", vec![rows as i64, columns as i64].into()));
        }
        let all = ops::call("to_sparse", &[Value::from(&ones)], &how)?.tensors();
        let Some(all) = all.first() else {
            return Err(TorshError::failed("gradcheck", "to_sparse gave no result"));
        };
        Ok(Changed {
            pattern: all.pattern(),
            values: values_at(&x, all)?,
        })
    }

    /// An input with these numbers.
    fn with(&self, numbers: &[f64]) -> Result<Tensor> {
        let values = from_parts(numbers, &self.values)?;
        match &self.pattern {
            Some(pattern) => sparse::from_values(pattern, &values),
            None => Ok(values),
        }
    }

    /// The numbers of a gradient, strided or sparse, at the elements.
    fn read(&self, g: &Tensor) -> Result<Vec<f64>> {
        match &self.pattern {
            Some(pattern) => parts_of(&values_at(
                &g.detach(),
                &sparse::from_values(pattern, &self.values)?,
            )?),
            None => parts_of(g),
        }
    }
}

/// The values of a tensor, strided or sparse, at the elements of a sparse one.
fn values_at(x: &Tensor, places: &Tensor) -> Result<Tensor> {
    match (x.pattern(), places.pattern()) {
        (Some(have), Some(wanted)) if have.is_same(&wanted) && have.is_coalesced() => {
            sparse::values(x)
        }
        _ => sparse::call1("_sparse_values_at", &[Arg::T(x), Arg::T(places)], NONE),
    }
}

/// Refuses outputs that have not the shapes they had before a step.
fn same_outputs(
    op: &'static str,
    y: &[Tensor],
    w: &[Tensor],
    input: usize,
    changed: &Changed,
) -> Result<()> {
    if y.len() == w.len() && y.iter().zip(w).all(|(y, w)| y.shape() == w.shape()) {
        return Ok(());
    }
    let error = TorshError::autograd(
        op,
        format!("the outputs have another number or other shapes where input {input} changes"),
    );
    Err(match changed.pattern {
        Some(_) => error.with_hint(
            "masked(true) changes the stored values alone, where the function depends on the pattern",
        ),
        None => error,
    })
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
        let changed = no_grad(|| Changed::of(x, o.masked))?;
        let base = parts_of(&changed.values)?;
        let have = match g {
            Some(g) => no_grad(|| changed.read(g))?,
            None => vec![0.0; base.len()],
        };
        let at = |along: &dyn Fn(usize) -> f64, step: f64| -> Result<f64> {
            let moved = base.iter().enumerate();
            let moved: Vec<f64> = moved.map(|(k, b)| b + step * along(k)).collect();
            let mut x2 = leaves.clone();
            x2[i] = changed.with(&moved)?.requires_grad_(true);
            let y = differentiable(enable_grad(|| f(&x2))?);
            same_outputs(op, &y, &w, i, &changed)?;
            no_grad(|| loss(&y, &w))
        };
        let compare = |place: &str, have: f64, along: &dyn Fn(usize) -> f64| -> Result<()> {
            let want = (at(along, o.eps)? - at(along, -o.eps)?) / (2.0 * o.eps);
            match (have - want).abs() <= o.atol + o.rtol * want.abs() {
                true => Ok(()),
                false => Err(TorshError::autograd(
                    op,
                    format!(
                        "the gradient of input {i} ({}) is wrong {place}{}: the derivative gives {have}, finite differences {want}",
                        x.describe(),
                        match (&changed.pattern, o.masked) {
                            (None, _) => "",
                            (Some(_), true) => " of its stored values",
                            (Some(_), false) => " of its values with all elements stored",
                        },
                    ),
                )),
            }
        };
        if o.fast_mode && !base.is_empty() {
            let direction = numbers(base.len(), 101 + i as u64);
            let have = have.iter().zip(&direction).map(|(g, u)| g * u).sum();
            compare("in a direction", have, &|k| direction[k])?;
            continue;
        }
        for (k, &have) in have.iter().enumerate() {
            let one = |j: usize| if j == k { 1.0 } else { 0.0 };
            compare(&format!("at element {k}"), have, &one)?;
        }
    }
    Ok(true)
}
