//! Mixtures of experts.

use torsh_core::DType;
use torsh_functional as F;
use torsh_nn::{Hooks, Module, Parameter, StateDict, Training, construct, init};
use torsh_tensor::{Result, Tensor, TorshError};

use super::Activation;
use super::feed_forward::halves;

/// Sizes of a mixture of experts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MixtureOptions {
    pub(crate) width: usize,
    pub(crate) inner: usize,
    pub(crate) experts: usize,
    /// How many experts compute each token.
    pub(crate) per_token: usize,
    pub(crate) activation: Activation,
    /// In training mode, inputs are multiplied by numbers that lie so far around 1.
    pub(crate) jitter: f64,
    pub(crate) std: f64,
}

/// Feed-forward layers of which a router picks some for each token (Jiang et al., "Mixtral of Experts", 2024).
///
/// ```
/// use torsh_nn::{ModuleExt, Module};
/// use torsh_text::models::{MixtralConfig, MixtralModel};
/// let config = MixtralConfig {
///     vocab_size: 11, hidden_size: 8, intermediate_size: 4, num_hidden_layers: 1, num_attention_heads: 2,
///     num_key_value_heads: Some(1), num_local_experts: 3, ..Default::default()
/// };
/// let model = MixtralModel::new(config)?;
/// let mixture = &model.layers[0].mlp;
/// assert_eq!(mixture.state_dict().keys().collect::<Vec<_>>(), ["gate.weight", "experts.gate_up_proj", "experts.down_proj"]);
/// assert_eq!(mixture.forward(&torsh_tensor::ones([2, 5, 8]))?.dims(), [2, 5, 8]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct MixtureOfExperts {
    /// Scores the experts.
    pub gate: Router,
    /// The experts.
    pub experts: Experts,
    #[module(skip)]
    jitter: f64,
    training: Training,
    hooks: Hooks,
}

/// Scores experts.
#[derive(Module)]
pub struct Router {
    /// `[experts, width]`
    pub weight: Parameter,
    #[module(skip)]
    per_token: usize,
}

/// Feed-forward layers with a gate, whose weights are stacked.
#[derive(Module)]
pub struct Experts {
    /// `[experts, 2 * inner, width]`: to the numbers that the activation gets, and behind them those that these
    /// multiply.
    pub gate_up_proj: Parameter,
    /// `[experts, width, inner]`: back to the width.
    pub down_proj: Parameter,
    #[module(skip)]
    activation: Activation,
}

fn drawn(shape: &[usize], std: f64) -> Result<Parameter> {
    let weight = Tensor::empty(shape, construct::dtype(), construct::device())?;
    let weight = Parameter::new(weight);
    init::normal_(&weight, 0.0, std)?;
    Ok(weight)
}

impl MixtureOfExperts {
    #[track_caller]
    pub(crate) fn new(o: &MixtureOptions) -> Result<MixtureOfExperts> {
        if o.per_token == 0 || o.per_token > o.experts {
            return Err(TorshError::invalid(
                "MixtureOfExperts",
                format!("{} of {} experts for each token", o.per_token, o.experts),
            )
            .with_hint("num_experts_per_tok lies between 1 and the number of experts"));
        }
        Ok(MixtureOfExperts {
            gate: Router {
                weight: drawn(&[o.experts, o.width], o.std)?,
                per_token: o.per_token,
            },
            experts: Experts {
                gate_up_proj: drawn(&[o.experts, 2 * o.inner, o.width], o.std)?,
                down_proj: drawn(&[o.experts, o.width, o.inner], o.std)?,
                activation: o.activation,
            },
            jitter: o.jitter,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

impl Module for MixtureOfExperts {
    /// `[.., width]` of `[.., width]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let mut tokens = x.reshape([-1, x.size(-1)? as i64])?;
            if self.training.get() && self.jitter > 0.0 {
                let noise = Tensor::empty(tokens.shape(), tokens.dtype(), tokens.device())?;
                noise.uniform_(1.0 - self.jitter, 1.0 + self.jitter)?;
                tokens = tokens.mul(&noise)?;
            }
            let (shares, picked) = self.gate.pick(&tokens)?;
            self.experts
                .mix(&tokens, &shares, &picked)?
                .reshape(x.shape())
        })
    }
}

impl Router {
    /// The shares of the experts of each token, which add up to 1, and the experts: `[tokens, per_token]`.
    fn pick(&self, tokens: &Tensor) -> Result<(Tensor, Tensor)> {
        let scores = self.forward(tokens)?.to_dtype(DType::F32)?;
        let (best, picked) = scores.softmax(-1)?.topk(self.per_token)?;
        let sum = best.sum_dim(-1, true)?;
        Ok((best.div(&sum)?, picked))
    }
}

impl Module for Router {
    /// The scores `[tokens, experts]` of tokens `[tokens, width]`.
    #[torsh_tensor::names_caller]
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        F::linear(tokens, &self.weight, None)
    }
}

impl Experts {
    /// What the picked experts make of tokens `[tokens, width]`, times their shares.
    fn mix(&self, tokens: &Tensor, shares: &Tensor, picked: &Tensor) -> Result<Tensor> {
        let per_token = picked.size(-1)?;
        let mut places = vec![Vec::new(); self.gate_up_proj.dims()[0]];
        for (place, expert) in picked.to_vec::<i64>()?.into_iter().enumerate() {
            places[expert as usize].push(place as i64);
        }
        let shares = shares.reshape([-1, 1])?;
        let mut sum = tokens.zeros_like()?;
        for (expert, places) in places.iter().enumerate() {
            if places.is_empty() {
                continue;
            }
            let index =
                |all: Vec<i64>| Tensor::from_data(&all, [all.len()])?.to_device(tokens.device());
            let rows = index(places.iter().map(|p| p / per_token as i64).collect())?;
            let x = tokens.index_select(0, &rows)?;
            let expert = expert as i64;
            let inner = F::linear(&x, &self.gate_up_proj.select(0, expert)?, None)?;
            let (gate, up) = halves(&inner)?;
            let inner = self.activation.apply(&gate)?.mul(&up)?;
            let y = F::linear(&inner, &self.down_proj.select(0, expert)?, None)?;
            let y = y.mul(&shares.index_select(0, &index(places.clone())?)?)?;
            sum = sum.index_add(0, &rows, &y.to_dtype(tokens.dtype())?)?;
        }
        Ok(sum)
    }
}

impl Module for Experts {
    /// An error: experts need shares.
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(
            TorshError::invalid("Experts", "a router says which experts compute a token")
                .with_hint("call the MixtureOfExperts that has them"),
        )
    }
}

/// Gives the tensors of files that have each expert's weights by themselves, as Mixtral's on disk
/// (`block_sparse_moe.experts.0.w1`), the names and shapes of [`MixtureOfExperts`].
///
/// # Errors
/// A mixture that lacks a weight of an expert.
pub(crate) fn stack_experts(state: StateDict) -> Result<StateDict> {
    const OLD: &str = ".block_sparse_moe.";
    if !state.keys().any(|name| name.contains(OLD)) {
        return Ok(state);
    }
    let mut out = StateDict::new();
    for (name, tensor) in state.iter() {
        let Some((layer, rest)) = name.split_once(OLD) else {
            out.insert(name, tensor.clone());
            continue;
        };
        if rest != "experts.0.w1.weight" {
            if !rest.starts_with("experts.") {
                out.insert(format!("{layer}.mlp.{rest}"), tensor.clone());
            }
            continue;
        }
        // Once for each layer: all its experts.
        let weight = |expert: usize, part: &str| {
            let name = format!("{layer}{OLD}experts.{expert}.{part}.weight");
            state
                .get(&name)
                .ok_or_else(|| TorshError::format("state dict", format!("{name} is missing")))
        };
        let count = (0..).take_while(|&e| weight(e, "w1").is_ok()).count();
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for expert in 0..count {
            up.push(Tensor::cat(
                &[weight(expert, "w1")?, weight(expert, "w3")?],
                0,
            )?);
            down.push(weight(expert, "w2")?);
        }
        let experts = format!("{layer}.mlp.experts");
        out.insert(format!("{experts}.gate_up_proj"), Tensor::stack(&up, 0)?);
        out.insert(format!("{experts}.down_proj"), Tensor::stack(&down, 0)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use torsh_tensor::{tensor, zeros};

    use super::*;

    #[test]
    fn picked_experts_add_up_by_their_shares() -> Result<()> {
        let mixture = MixtureOfExperts::new(&MixtureOptions {
            width: 1,
            inner: 1,
            experts: 3,
            per_token: 2,
            activation: Activation::Linear,
            jitter: 0.0,
            std: 0.0,
        })?;
        torsh_tensor::no_grad(|| {
            // Scores 0, 1, 2 times the token; expert e computes (e + 1) * x * x.
            mixture.gate.weight.copy_(&tensor![[0.0], [1.0], [2.0]])?;
            mixture.experts.gate_up_proj.fill_(1.0)?;
            mixture
                .experts
                .down_proj
                .copy_(&tensor![[[1.0]], [[2.0]], [[3.0]]])
        })?;
        let y = mixture.forward(&tensor![[1.0], [-1.0]])?.to_vec::<f32>()?;
        let share = 1.0 / (1.0 + (-1.0f32).exp());
        let wanted = [
            3.0 * share + 2.0 * (1.0 - share),
            1.0 * share + 2.0 * (1.0 - share),
        ];
        assert!(
            y.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-5),
            "{y:?} {wanted:?}"
        );
        Ok(())
    }

    #[test]
    fn single_experts_are_stacked() -> Result<()> {
        let mut state = StateDict::new();
        state.insert("layers.0.block_sparse_moe.gate.weight", zeros([2, 4]));
        for e in 0..2 {
            for (part, shape) in [("w1", [3, 4]), ("w2", [4, 3]), ("w3", [3, 4])] {
                let name = format!("layers.0.block_sparse_moe.experts.{e}.{part}.weight");
                state.insert(name, zeros(shape));
            }
        }
        let missing = {
            let mut state = state.clone();
            state.remove("layers.0.block_sparse_moe.experts.1.w2.weight");
            stack_experts(state).err().map(|e| e.to_string())
        };
        assert!(missing.is_some_and(|e| e.contains("experts.1.w2")));
        let state = stack_experts(state)?;
        let shapes: Vec<_> = state.iter().map(|(name, t)| (name, t.dims())).collect();
        assert_eq!(
            shapes,
            [
                ("layers.0.mlp.gate.weight", &[2, 4][..]),
                ("layers.0.mlp.experts.gate_up_proj", &[2, 6, 4]),
                ("layers.0.mlp.experts.down_proj", &[2, 4, 3]),
            ]
        );
        Ok(())
    }
}
