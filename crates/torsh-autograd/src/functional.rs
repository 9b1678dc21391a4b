//! Products with the Jacobian, and the Jacobian and Hessian themselves.

use torsh_tensor::{DType, Result, Tensor, TorshError, enable_grad, grad};

/// Fresh leaves with the data of `inputs`.
fn leaves(op: &'static str, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    inputs.iter().map(|t| leaf(op, t)).collect()
}

fn leaf(op: &'static str, t: &Tensor) -> Result<Tensor> {
    let x = t.detach();
    x.set_requires_grad(true).map_err(|e| e.renamed(op))?;
    Ok(x)
}

fn one<'a>(
    op: &'static str,
    v: &'a [Option<Tensor>],
    i: usize,
    like: &Tensor,
) -> Result<std::borrow::Cow<'a, Tensor>> {
    match v.get(i) {
        Some(Some(t)) => Ok(std::borrow::Cow::Borrowed(t)),
        Some(None) => Ok(std::borrow::Cow::Owned(Tensor::zeros(
            like.shape(),
            like.dtype(),
            like.device(),
        )?)),
        None => Err(TorshError::autograd(op, "a gradient is missing")),
    }
}

/// The value of `f` and the product of `v` with its Jacobian, `v^T J`: one gradient per input
/// (`torch.autograd.functional.vjp`). `v` has the output's shape.
///
/// ```
/// use torsh_autograd::vjp;
/// use torsh_tensor::Tensor;
/// let x = Tensor::from_data(&[1.0f64, 2.0], &[2])?;
/// let v = Tensor::from_data(&[1.0f64, 10.0], &[2])?;
/// let (y, g) = vjp(|x| x[0].mul(&x[0]), &[x], &v)?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 4.0]);
/// assert_eq!(g[0].to_vec::<f64>()?, [2.0, 40.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn vjp(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    v: &Tensor,
) -> Result<(Tensor, Vec<Tensor>)> {
    enable_grad(|| {
        let x = leaves("vjp", inputs)?;
        let y = f(&x)?;
        let g = if y.requires_grad() {
            grad(&[y.clone()], &x, &[Some(v.clone())], false, false, true)?
        } else {
            vec![None; x.len()]
        };
        let g = x
            .iter()
            .enumerate()
            .map(|(i, t)| one("vjp", &g, i, t).map(|c| c.into_owned()))
            .collect::<Result<_>>()?;
        Ok((y.detach(), g))
    })
}

/// The value of `f` and the product of its Jacobian with `v`, `J v`
/// (`torch.autograd.functional.jvp`): a tensor of the output's shape. `v` has one tensor per
/// input, of its shape.
#[torsh_tensor::names_caller]
pub fn jvp(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    v: &[Tensor],
) -> Result<(Tensor, Tensor)> {
    if inputs.len() != v.len() {
        return Err(TorshError::autograd(
            "jvp",
            format!("got {} inputs and {} tangents", inputs.len(), v.len()),
        ));
    }
    enable_grad(|| {
        let x = leaves("jvp", inputs)?;
        let y = f(&x)?;
        // u^T J is linear in u, so its derivative with respect to u, applied to v, is J v.
        let u = Tensor::zeros(y.shape(), y.dtype(), y.device())?.requires_grad_(true);
        if !y.requires_grad() {
            return Ok((y.detach(), Tensor::zeros(y.shape(), y.dtype(), y.device())?));
        }
        let g = grad(&[y.clone()], &x, &[Some(u.clone())], true, true, true)?;
        let (mut outs, mut weights) = (Vec::new(), Vec::new());
        for (g, v) in g.into_iter().zip(v) {
            if let Some(g) = g
                && g.requires_grad()
            {
                outs.push(g);
                weights.push(Some(v.clone()));
            }
        }
        if outs.is_empty() {
            return Ok((y.detach(), Tensor::zeros(y.shape(), y.dtype(), y.device())?));
        }
        let t = grad(&outs, &[u.clone()], &weights, false, false, true)?;
        Ok((y.detach(), one("jvp", &t, 0, &u)?.into_owned()))
    })
}

/// The Jacobian of `f` for each input, of shape `output shape + input shape`
/// (`torch.autograd.functional.jacobian`). With `create_graph` it can itself be differentiated.
#[torsh_tensor::names_caller]
pub fn jacobian(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    create_graph: bool,
) -> Result<Vec<Tensor>> {
    enable_grad(|| {
        let x: Vec<Tensor> = if create_graph {
            inputs
                .iter()
                .map(|t| {
                    if t.requires_grad() {
                        Ok(t.clone())
                    } else {
                        leaf("jacobian", t)
                    }
                })
                .collect::<Result<_>>()?
        } else {
            leaves("jacobian", inputs)?
        };
        let y = f(&x)?;
        jacobian_of(&y, &x, create_graph)
    })
}

fn jacobian_of(y: &Tensor, x: &[Tensor], create_graph: bool) -> Result<Vec<Tensor>> {
    let n = y.numel();
    let mut rows: Vec<Vec<Tensor>> = vec![Vec::with_capacity(n); x.len()];
    for k in 0..n {
        let g = if y.requires_grad() {
            let mut hot = vec![0f64; n];
            hot[k] = 1.0;
            let seed = Tensor::from_data(&hot, [n])?
                .to_dtype(y.dtype())?
                .reshape(y.shape())?;
            grad(&[y.clone()], x, &[Some(seed)], true, create_graph, true)?
        } else {
            vec![None; x.len()]
        };
        for (i, t) in x.iter().enumerate() {
            rows[i].push(one("jacobian", &g, i, t)?.into_owned());
        }
    }
    let mut out = Vec::with_capacity(x.len());
    for (t, r) in x.iter().zip(rows) {
        let mut shape: Vec<usize> = y.dims().to_vec();
        shape.extend_from_slice(t.dims());
        let all = if r.is_empty() {
            Tensor::zeros(&shape, t.dtype(), t.device())?
        } else {
            Tensor::stack(&r, 0)?.reshape(&shape)?
        };
        out.push(all);
    }
    Ok(out)
}

/// The Hessian of a one-element `f`: `h[i][j]` has shape `input i shape + input j shape`
/// (`torch.autograd.functional.hessian`).
///
/// ```
/// use torsh_autograd::hessian;
/// use torsh_tensor::Tensor;
/// let x = Tensor::from_data(&[1.0f64, 2.0], &[2])?;
/// let h = hessian(|x| x[0].mul(&x[0])?.mul(&x[0])?.sum(), &[x])?;
/// assert_eq!(h[0][0].to_vec::<f64>()?, [6.0, 0.0, 0.0, 12.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn hessian(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
) -> Result<Vec<Vec<Tensor>>> {
    enable_grad(|| {
        let x = leaves("hessian", inputs)?;
        let y = scalar_output("hessian", f(&x)?)?;
        let g = first_order("hessian", &y, &x)?;
        g.iter().map(|g| jacobian_of(g, &x, false)).collect()
    })
}

/// The value of a one-element `f` and the product of its Hessian with `v`
/// (`torch.autograd.functional.hvp`): one tensor per input. `v` has one tensor per input.
#[torsh_tensor::names_caller]
pub fn hvp(
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    v: &[Tensor],
) -> Result<(Tensor, Vec<Tensor>)> {
    if inputs.len() != v.len() {
        return Err(TorshError::autograd(
            "hvp",
            format!("got {} inputs and {} vectors", inputs.len(), v.len()),
        ));
    }
    enable_grad(|| {
        let x = leaves("hvp", inputs)?;
        let y = scalar_output("hvp", f(&x)?)?;
        let g = first_order("hvp", &y, &x)?;
        let (mut outs, mut weights) = (Vec::new(), Vec::new());
        for (g, v) in g.iter().zip(v) {
            if g.requires_grad() {
                outs.push(g.clone());
                weights.push(Some(v.clone()));
            }
        }
        let h = if outs.is_empty() {
            vec![None; x.len()]
        } else {
            grad(&outs, &x, &weights, false, false, true)?
        };
        let h = x
            .iter()
            .enumerate()
            .map(|(i, t)| one("hvp", &h, i, t).map(|c| c.into_owned()))
            .collect::<Result<_>>()?;
        Ok((y.detach(), h))
    })
}

fn scalar_output(op: &'static str, y: Tensor) -> Result<Tensor> {
    if y.numel() != 1 || y.dtype() == DType::Bool {
        return Err(TorshError::autograd(
            op,
            format!("the function must return one number, got {}", y.describe()),
        ));
    }
    Ok(y)
}

fn first_order(op: &'static str, y: &Tensor, x: &[Tensor]) -> Result<Vec<Tensor>> {
    if !y.requires_grad() {
        return x
            .iter()
            .map(|t| Tensor::zeros(t.shape(), t.dtype(), t.device()))
            .collect();
    }
    let g = grad(&[y.clone()], x, &[None], true, true, true)?;
    x.iter()
        .enumerate()
        .map(|(i, t)| one(op, &g, i, t).map(|c| c.into_owned()))
        .collect()
}
