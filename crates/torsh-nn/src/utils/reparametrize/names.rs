//! The names under which PyTorch keeps what a parameter is computed from, and state dicts that have others.

use torsh_tensor::{DType, Result, Tensor, no_grad};

use super::as_matrix;
use crate::module::StateDict;

/// Which of PyTorch's two functions of a name a layer follows.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::utils) enum Form {
    /// `torch.nn.utils`: `weight_g` beside the other parameters.
    Hook,
    /// `torch.nn.utils.parametrizations`: `parametrizations.weight.original0`.
    Parametrization,
}

impl Form {
    const ALL: [Form; 2] = [Form::Hook, Form::Parametrization];

    /// The names of `g` and `v` of a weight norm.
    pub(super) fn weight_norm(self, name: &str) -> [String; 2] {
        match self {
            Form::Hook => ["g", "v"].map(|end| format!("{name}_{end}")),
            Form::Parametrization => {
                ["0", "1"].map(|end| format!("parametrizations.{name}.original{end}"))
            }
        }
    }

    /// The names of the original, `u` and `v` of a spectral norm.
    pub(super) fn spectral_norm(self, name: &str) -> [String; 3] {
        match self {
            Form::Hook => ["orig", "u", "v"].map(|end| format!("{name}_{end}")),
            Form::Parametrization => {
                ["original", "0._u", "0._v"].map(|end| format!("parametrizations.{name}.{end}"))
            }
        }
    }
}

/// Gives what is there under all names of one of the forms the names of `own`.
fn rename<const N: usize>(
    state: &mut StateDict,
    prefix: &str,
    own: &[String; N],
    names: impl Fn(Form) -> [String; N],
) {
    if own
        .iter()
        .any(|name| state.contains_key(&format!("{prefix}{name}")))
    {
        return;
    }
    for form in Form::ALL {
        let others = names(form).map(|name| format!("{prefix}{name}"));
        if others.iter().all(|name| state.contains_key(name)) {
            for (other, own) in others.iter().zip(own) {
                if let Some(t) = state.remove(other) {
                    state.insert(format!("{prefix}{own}"), t);
                }
            }
        }
    }
}

/// Brings a weight norm's entries of a state dict under the names of `form`.
pub(super) fn upgrade_weight_norm(state: &mut StateDict, prefix: &str, form: Form, name: &str) {
    rename(state, prefix, &form.weight_norm(name), |form| {
        form.weight_norm(name)
    });
}

/// Brings a spectral norm's entries of a state dict under the names of `form`, for an original like `weight` whose
/// dimension `dim` counts the outputs.
pub(super) fn upgrade_spectral_norm(
    state: &mut StateDict,
    prefix: &str,
    form: Form,
    name: &str,
    weight: &Tensor,
    dim: usize,
) -> Result<()> {
    add_v(state, &format!("{prefix}{name}"), weight, dim)?;
    vectors_of_a_vector(state, prefix, form, name, weight)?;
    let own = form.spectral_norm(name);
    rename(state, prefix, &own, |form| form.spectral_norm(name));
    Ok(())
}

/// Before PyTorch 1.0 a state dict had the computed weight in the place of `v`, which follows from it: `u` is the unit
/// vector along `W v`, and the weight is the original over `u · W v`.
fn add_v(state: &mut StateDict, key: &str, weight: &Tensor, dim: usize) -> Result<()> {
    let get = |end: &str| state.get(&format!("{key}{end}")).cloned();
    let (Some(original), Some(computed), Some(u)) = (get("_orig"), get(""), get("_u")) else {
        return Ok(());
    };
    // The weight itself may be a piece, as of a sharded module.
    if original.ndim() != weight.ndim()
        || computed.shape() != original.shape()
        || u.dims() != [original.dims()[dim]]
    {
        // The load says what does not fit.
        return Ok(());
    }
    let v = no_grad(|| {
        let exact = |t: &Tensor| t.detach().to_dtype(DType::F64);
        let (original, u) = (exact(&original)?, exact(&u)?);
        let sigma = original.div(&exact(&computed)?)?.mean()?;
        let matrix = as_matrix(&original, dim)?;
        let v = shortest(&matrix, &u)?;
        let scale = sigma.div(&u.matmul(&matrix.matmul(&v)?)?)?;
        v.mul(&scale)?.to_dtype(weight.dtype())
    })?;
    state.remove(key);
    state.insert(format!("{key}_v"), v);
    Ok(())
}

/// The shortest `x` for which `matrix · x` is nearest to `y`, by conjugate gradients.
fn shortest(matrix: &Tensor, y: &Tensor) -> Result<Tensor> {
    let back = matrix.t()?;
    let mut x = Tensor::zeros([matrix.dims()[1]], y.dtype(), y.device())?;
    let mut rest = y.copy()?;
    let mut slope = back.matmul(&rest)?;
    let mut direction = slope.copy()?;
    let mut size = slope.dot(&slope)?.item::<f64>()?;
    let enough = size * 1e-28;
    for _ in 0..2 * matrix.dims()[0].min(matrix.dims()[1]) {
        let moved = matrix.matmul(&direction)?;
        let length = moved.dot(&moved)?.item::<f64>()?;
        if size <= enough || length == 0.0 {
            break;
        }
        let step = size / length;
        x = x.add(&direction.mul(step)?)?;
        rest = rest.sub(&moved.mul(step)?)?;
        slope = back.matmul(&rest)?;
        let next = slope.dot(&slope)?.item::<f64>()?;
        direction = slope.add(&direction.mul(next / size)?)?;
        size = next;
    }
    Ok(x)
}

/// `torch.nn.utils.parametrizations.spectral_norm` keeps no `u` and `v` of a weight with one dimension, whose norm is its
/// length; `torch.nn.utils.spectral_norm` does.
fn vectors_of_a_vector(
    state: &mut StateDict,
    prefix: &str,
    form: Form,
    name: &str,
    weight: &Tensor,
) -> Result<()> {
    let names = Form::ALL.map(|form| form.spectral_norm(name).map(|n| format!("{prefix}{n}")));
    let [[hook, u, v], [original, ..]] = &names;
    if weight.ndim() != 1 {
        return Ok(());
    }
    match form {
        Form::Hook => {
            let Some(t) = state.get(original).cloned() else {
                return Ok(());
            };
            if state.contains_key(hook) || t.shape() != weight.shape() {
                return Ok(());
            }
            let unit = no_grad(|| t.detach().div(&t.detach().norm()?))?;
            let one = Tensor::ones([1], weight.dtype(), weight.device())?;
            state.remove(original);
            state.extend([(hook.clone(), t), (u.clone(), unit), (v.clone(), one)]);
        }
        Form::Parametrization => {
            if let Some(t) = state.remove(hook) {
                state.insert(original.clone(), t);
                state.remove(u);
                state.remove(v);
            }
        }
    }
    Ok(())
}
