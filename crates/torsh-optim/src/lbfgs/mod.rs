//! L-BFGS.

mod search;

use std::collections::VecDeque;

use torsh_tensor::ops::optim::step;
use torsh_tensor::{AddOptions, DType, Result, Tensor, TorshError};

use crate::fused::descent;
use crate::memory::{missing, real};
use crate::options::{check_common, options, require};
use crate::{Algorithm, Minimize, Optim, ParamState, StateValue};

/// The limited-memory BFGS method (`torch.optim.LBFGS`), with a line search if wanted.
///
/// Settings and defaults: `lr = 1`, `max_iter = 20`, `max_eval = max_iter * 5 / 4`,
/// `tolerance_grad = 1e-7`, `tolerance_change = 1e-9`, `history_size = 100`,
/// `line_search_fn = None` (or `"strong_wolfe"`), `maximize = false`. There is one group only, and
/// a step needs a closure, which it calls several times.
///
/// ```
/// use torsh_optim::{LBFGS, Optimizer};
/// use torsh_tensor::Tensor;
///
/// let w = Tensor::from_data(&[5.0f64, -3.0], [2])?.requires_grad_(true);
/// let optimizer = LBFGS::builder([&w]).line_search_fn("strong_wolfe").build()?;
/// let first = optimizer.step_closure(|| {
///     optimizer.zero_grad();
///     let loss = w.sub(1.0)?.square()?.sum()?;
///     loss.backward()?;
///     Ok(loss)
/// })?;
/// assert_eq!(first.item::<f64>()?, 32.0);
/// assert!(w.to_vec::<f64>()?.iter().all(|v| (v - 1.0).abs() < 1e-6));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type LBFGS = Optim<LbfgsAlgorithm>;

/// The update of [`LBFGS`].
#[derive(Debug)]
pub struct LbfgsAlgorithm;

options! {
    /// The settings of [`LBFGS`].
    ///
    /// ```
    /// use torsh_optim::LbfgsOptions;
    /// let o = LbfgsOptions::default();
    /// assert_eq!((o.lr, o.max_iter, o.history_size), (1.0, 20, 100));
    /// ```
    LbfgsOptions of LbfgsAlgorithm ("LBFGS") {
        /// The learning rate: the first try of a line search, or the step without one.
        lr: f64 = 1.0;
        /// The most iterations of a step.
        max_iter: count = 20;
        /// The most evaluations of a step; if not set, `max_iter * 5 / 4`.
        max_eval: maybe_count = None;
        /// The largest element of a gradient at which the search ends.
        tolerance_grad: f64 = 1e-7;
        /// The change of loss or parameters at which the search ends.
        tolerance_change: f64 = 1e-9;
        /// How many updates are remembered.
        history_size: count = 100;
        /// The line search: none, or `strong_wolfe`.
        line_search_fn: word = None;
        /// Whether to look for a maximum.
        maximize: bool = false;
    }
    validate |o| {
        check_common("LBFGS", o.lr, 0.0)?;
        let name = o.line_search_fn.as_deref();
        require("LBFGS", matches!(name, None | Some("strong_wolfe")), || {
            format!("only 'strong_wolfe' is supported, got {}", name.unwrap_or_default())
        })
    }
}

/// What L-BFGS remembers; it belongs to the first parameter.
#[derive(Debug, Default)]
pub struct LbfgsState {
    /// How often the loss was evaluated.
    pub func_evals: u64,
    /// How many iterations were done.
    pub n_iter: u64,
    /// The last direction, of all parameters as one vector, and the step along it.
    pub last: Option<(Tensor, f64)>,
    /// The last changes of the gradient.
    pub old_dirs: VecDeque<Tensor>,
    /// The last steps.
    pub old_stps: VecDeque<Tensor>,
    /// One over the product of each change and step.
    pub ro: VecDeque<f64>,
    /// The scale of the first guess of the inverse Hessian.
    pub h_diag: f64,
    /// The gradient and the loss before the last direction was taken.
    pub prev: Option<(Tensor, f64)>,
}

/// All parameters as one vector.
struct Flat<'a> {
    params: &'a [Tensor],
    maximize: bool,
}

impl Flat<'_> {
    /// All gradients; zeros where there is none.
    fn grad(&self) -> Result<Tensor> {
        let views = self
            .params
            .iter()
            .map(|p| {
                let g = match p.grad() {
                    Some(g) if !g.layout().is_strided() => {
                        return Err(crate::sparse::refused("LBFGS"));
                    }
                    Some(g) => g.detach(),
                    None => p.detach().full_like(0.0)?,
                };
                real(&g)?.reshape([-1])
            })
            .collect::<Result<Vec<_>>>()?;
        let flat = Tensor::cat(&views, 0)?;
        if self.maximize { flat.neg() } else { Ok(flat) }
    }

    /// Moves the parameters along a direction.
    fn walk(&self, length: f64, direction: &Tensor) -> Result<()> {
        let params: Vec<Tensor> = self.params.iter().map(real).collect::<Result<_>>()?;
        let mut start = 0;
        let mut parts = Vec::with_capacity(params.len());
        for p in &params {
            let part = direction.narrow(0, start, p.numel())?;
            parts.push(part.reshape(p.shape())?);
            start += p.numel();
        }
        let steps = params.iter().zip(&parts);
        let steps = steps.map(|(p, part)| descent(p, part, -length, 1.0));
        step(&steps.collect::<Vec<_>>())
    }

    fn copy(&self) -> Result<Vec<Tensor>> {
        self.params.iter().map(|p| p.detach().copy()).collect()
    }

    fn restore(&self, values: &[Tensor]) -> Result<()> {
        for (p, v) in self.params.iter().zip(values) {
            p.detach().copy_(v)?;
        }
        Ok(())
    }

    fn loss(&self, loss: &Tensor) -> Result<f64> {
        let loss = loss.item::<f64>()?;
        Ok(if self.maximize { -loss } else { loss })
    }
}

fn dot(a: &Tensor, b: &Tensor) -> Result<f64> {
    a.dot(b)?.item::<f64>()
}

/// The largest size of an element.
fn largest(t: &Tensor) -> Result<f64> {
    t.abs()?.max()?.item::<f64>()
}

/// The next direction: minus the gradient times the approximate inverse Hessian.
fn direction(s: &mut LbfgsState, o: &LbfgsOptions, grad: &Tensor) -> Result<Tensor> {
    let (Some((d, t)), Some((prev_grad, _))) = (&s.last, &s.prev) else {
        s.old_dirs.clear();
        s.old_stps.clear();
        s.ro.clear();
        s.h_diag = 1.0;
        return grad.neg();
    };
    // PyTorch keeps these numbers as tensors of the parameters' dtype.
    let round = |v: f64| {
        if grad.dtype() == DType::F64 {
            v
        } else {
            f64::from(v as f32)
        }
    };
    let y = grad.sub(prev_grad)?;
    let step = d.mul(*t)?;
    let ys = dot(&y, &step)?;
    if ys > 1e-10 {
        if s.old_dirs.len() >= o.history_size {
            s.old_dirs.pop_front();
            s.old_stps.pop_front();
            s.ro.pop_front();
        }
        s.h_diag = round(ys / dot(&y, &y)?);
        s.old_dirs.push_back(y);
        s.old_stps.push_back(step);
        s.ro.push_back(round(1.0 / ys));
    }
    let count = s.old_dirs.len();
    let mut al = vec![0.0; count];
    let q = grad.neg()?;
    for i in (0..count).rev() {
        al[i] = round(dot(&s.old_stps[i], &q)? * s.ro[i]);
        q.add_with_(&s.old_dirs[i], AddOptions::new().alpha(-al[i]))?;
    }
    let r = q.mul(s.h_diag)?;
    for i in 0..count {
        let be = round(dot(&s.old_dirs[i], &r)? * s.ro[i]);
        r.add_with_(&s.old_stps[i], AddOptions::new().alpha(round(al[i] - be)))?;
    }
    Ok(r)
}

fn minimize(
    o: &LbfgsOptions,
    params: &[Tensor],
    state: &mut Option<LbfgsState>,
    closure: &mut dyn FnMut() -> Result<Tensor>,
) -> Result<Tensor> {
    let s = state.get_or_insert_default();
    let flat = Flat {
        params,
        maximize: o.maximize,
    };
    let max_eval = o.max_eval.unwrap_or(o.max_iter * 5 / 4);
    let first = closure()?;
    let mut loss = flat.loss(&first)?;
    let mut evals = 1;
    s.func_evals += 1;
    let mut grad = flat.grad()?;
    if grad.numel() == 0 || largest(&grad)? <= o.tolerance_grad {
        return Ok(first);
    }
    for iteration in 1..=o.max_iter {
        s.n_iter += 1;
        let d = direction(s, o, &grad)?;
        let mut t = o.lr;
        if s.n_iter == 1 {
            t *= (1.0 / grad.abs()?.sum()?.item::<f64>()?).min(1.0);
        }
        let prev_loss = loss;
        s.prev = Some((grad.copy()?, loss));
        let slope = dot(&grad, &d)?;
        if slope > -o.tolerance_change {
            s.last = Some((d, t));
            break;
        }
        let mut spent = 0;
        if o.line_search_fn.is_some() {
            let start = flat.copy()?;
            let mut at = |t: f64| -> Result<(f64, Tensor)> {
                flat.walk(t, &d)?;
                let loss = closure().and_then(|l| flat.loss(&l));
                let grad = flat.grad();
                flat.restore(&start)?;
                Ok((loss?, grad?))
            };
            let found = search::strong_wolfe(
                &mut at,
                t,
                &d,
                search::Point {
                    t: 0.0,
                    loss,
                    grad: grad.copy()?,
                    slope,
                },
                o.tolerance_change,
                max_eval.saturating_sub(evals),
            )?;
            (loss, grad, t, spent) = (found.0.loss, found.0.grad, found.0.t, found.1);
            flat.walk(t, &d)?;
        } else {
            flat.walk(t, &d)?;
            if iteration != o.max_iter {
                loss = flat.loss(&closure()?)?;
                grad = flat.grad()?;
                spent = 1;
            }
        }
        let optimal = largest(&grad)? <= o.tolerance_grad;
        evals += spent;
        s.func_evals += spent as u64;
        let moved = largest(&d.mul(t)?)?;
        s.last = Some((d, t));
        if evals >= max_eval
            || optimal
            || moved <= o.tolerance_change
            || (loss - prev_loss).abs() < o.tolerance_change
        {
            break;
        }
    }
    Ok(first)
}

/// A vector of a saved state, in the parameters' dtype and device.
fn vector(v: &StateValue, param: &Tensor) -> Result<Tensor> {
    let t = v
        .as_tensor()
        .ok_or_else(|| TorshError::invalid("", "the state's vectors are no tensors"))?;
    let dtype = param.dtype().to_real();
    t.detach()
        .to_dtype(dtype)?
        .to_device(param.device())?
        .copy()
}

impl Algorithm for LbfgsAlgorithm {
    const NAME: &'static str = "LBFGS";
    type Options = LbfgsOptions;
    type State = LbfgsState;
    const MINIMIZE: Option<Minimize<Self>> = Some(minimize);

    fn check(_param: &Tensor, group: usize) -> Result<()> {
        require("LBFGS", group == 0, || {
            "doesn't support per-parameter options (parameter groups)".into()
        })
    }

    fn update(
        _options: &LbfgsOptions,
        _param: &Tensor,
        _grad: &Tensor,
        _state: &mut Option<LbfgsState>,
    ) -> Result<()> {
        Err(TorshError::invalid("", "a step is of all parameters"))
    }

    fn save(s: &LbfgsState) -> ParamState {
        let list = |v: &VecDeque<Tensor>| StateValue::List(v.iter().map(Into::into).collect());
        let mut out = ParamState::from([
            (
                "func_evals".to_string(),
                StateValue::Int(s.func_evals as i64),
            ),
            ("n_iter".to_string(), StateValue::Int(s.n_iter as i64)),
        ]);
        if let (Some((d, t)), Some((grad, loss))) = (&s.last, &s.prev) {
            out.extend([
                ("d".to_string(), d.into()),
                ("t".to_string(), (*t).into()),
                ("old_dirs".to_string(), list(&s.old_dirs)),
                ("old_stps".to_string(), list(&s.old_stps)),
                (
                    "ro".to_string(),
                    StateValue::Floats(s.ro.iter().copied().collect()),
                ),
                ("H_diag".to_string(), s.h_diag.into()),
                ("prev_flat_grad".to_string(), grad.into()),
                ("prev_loss".to_string(), (*loss).into()),
            ]);
        }
        out
    }

    fn load(saved: &ParamState, param: &Tensor) -> Result<Option<LbfgsState>> {
        let need = |name: &str| saved.get(name).ok_or_else(|| missing(name));
        let number = |name: &str| need(name)?.as_f64().ok_or_else(|| missing(name));
        let tensor = |name: &str| vector(need(name)?, param);
        let list = |name: &str| -> Result<VecDeque<Tensor>> {
            match need(name)? {
                StateValue::List(v) => v.iter().map(|v| vector(v, param)).collect(),
                _ => Err(missing(name)),
            }
        };
        let mut s = LbfgsState {
            func_evals: number("func_evals")? as u64,
            n_iter: number("n_iter")? as u64,
            ..LbfgsState::default()
        };
        if saved.contains_key("d") {
            s.last = Some((tensor("d")?, number("t")?));
            s.prev = Some((tensor("prev_flat_grad")?, number("prev_loss")?));
            s.old_dirs = list("old_dirs")?;
            s.old_stps = list("old_stps")?;
            s.ro = match need("ro")? {
                StateValue::Floats(v) => v.iter().copied().collect(),
                StateValue::List(v) => v
                    .iter()
                    .map(|v| v.as_f64().ok_or_else(|| missing("ro")))
                    .collect::<Result<_>>()?,
                _ => return Err(missing("ro")),
            };
            s.h_diag = number("H_diag")?;
            if s.old_dirs.len() != s.ro.len() || s.old_stps.len() != s.ro.len() {
                return Err(TorshError::invalid(
                    "",
                    "the state's old_dirs, old_stps and ro must be equally many",
                ));
            }
        }
        Ok(Some(s))
    }
}
