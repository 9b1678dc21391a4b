//! Mamba (Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023).

use torsh_nn::{Embedding, Hooks, Linear, Module};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::causal::{causal_lm, decoder, head};
use super::mamba_config::MambaConfig;
use super::mamba_mixer::MambaMixer;
use super::pretrained;
use crate::blocks::{KvCache, LayerRun, Layers, RmsNorm, class, init, tokens};
use crate::generation::DecoderStep;

#[derive(Module)]
struct MambaBlock {
    norm: RmsNorm,
    mixer: MambaMixer,
    #[module(skip)]
    residual_in_fp32: bool,
    hooks: Hooks,
}

impl MambaBlock {
    fn run(
        &self,
        x: &Tensor,
        seen: Option<&Tensor>,
        cache: Option<&mut KvCache>,
    ) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let normed = self.norm.forward(&x.to_dtype(self.norm.weight.dtype())?)?;
            let past = match self.residual_in_fp32 {
                true => x.to_dtype(DType::F32)?,
                false => x.clone(),
            };
            past.add(self.mixer.run(&normed, seen, cache)?)
        })
    }
}

impl Module for MambaBlock {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, None, None)
    }
}

class! {
    /// The layers of Mamba, without a head.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{MambaConfig, MambaModel};
    /// let config = MambaConfig { hidden_size: 8, num_hidden_layers: 1, vocab_size: 11, ..Default::default() };
    /// let model = MambaModel::new(config)?;
    /// assert_eq!(model.forward(&tensor![[1, 2, 3]])?.dims(), [1, 3, 8]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MambaModel(MambaConfig), errors "A size of 0, and a scheme of drawing that is not there."
    |c| first {
        let invalid = |why: String| Err(TorshError::invalid("MambaConfig", why));
        let sizes = [c.intermediate_size(), c.state_size, c.conv_kernel, c.rank()];
        if sizes.contains(&0) {
            return invalid(format!(
                "hidden_size, expand, state_size, conv_kernel and time_step_rank are positive: {c:?}"
            ));
        }
        if !["random", "constant"].contains(&&*c.time_step_init_scheme) {
            let scheme = &c.time_step_init_scheme;
            return invalid(format!(
                "time_step_init_scheme is random or constant, not {scheme:?}"
            ));
        }
        let block = |layer| {
            Ok(MambaBlock {
                norm: RmsNorm::new(c.hidden_size, c.layer_norm_epsilon)?,
                mixer: MambaMixer::new(c, layer)?,
                residual_in_fp32: c.residual_in_fp32,
                hooks: Hooks::new(),
            })
        };
    } {
        embeddings: Embedding = init::embedding(c.vocab_size, c.hidden_size, None, c.initializer_range)?;
        layers: Layers<MambaBlock> = (0..c.num_hidden_layers).map(block).collect::<Result<_>>()?;
        norm_f: RmsNorm = RmsNorm::new(c.hidden_size, c.layer_norm_epsilon)?;
    }
}

impl MambaModel {
    /// The last layer's result `[batch, tokens, width]` for a step's tokens.
    ///
    /// # Errors
    /// Ids outside of the vocabulary.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, step: DecoderStep<'_>) -> Result<Tensor> {
        let x = tokens::vectors(&self.embeddings, step.input_ids)?;
        let (past, count) = (step.past(), x.size(1)?);
        let ranges = step.padding.map_or(&[][..], |p| p.ranges());
        let whole = |r: &std::ops::Range<usize>| r.start <= past && r.end >= past + count;
        let mut seen = None;
        if !ranges.iter().all(whole) {
            let at = past..past + count;
            let rows = ranges
                .iter()
                .flat_map(|r| at.clone().map(|p| r.contains(&p)));
            let rows: Vec<bool> = rows.collect();
            seen = Some(Tensor::from_vec(rows, [ranges.len(), count, 1])?.to_device(x.device())?);
        }
        let run = LayerRun::behind(step.cache);
        let x = self.layers.run_with(x, run, move |layer, _, x, cache| {
            layer.run(x, seen.as_ref(), cache)
        })?;
        self.norm_f.forward(&x)
    }
}

decoder!(MambaModel);

class! {
    /// Mamba with the head that tells the next token; its logits are float32.
    ///
    /// ```
    /// use torsh_nn::Module;
    /// use torsh_tensor::tensor;
    /// use torsh_text::models::{MambaConfig, MambaForCausalLM};
    /// let config = MambaConfig { hidden_size: 8, num_hidden_layers: 1, vocab_size: 11, ..Default::default() };
    /// let model = MambaForCausalLM::new(config)?;
    /// let logits = model.forward(&tensor![[1, 2, 3]])?;
    /// assert_eq!(logits.dims(), [1, 3, 11]);
    /// // A token sees none behind it.
    /// let longer = model.forward(&tensor![[1, 2, 3, 4]])?.narrow(1, 0, 3)?;
    /// assert!(longer.sub(&logits)?.abs()?.max()?.item::<f32>()? < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MambaForCausalLM(MambaConfig), errors "As [`MambaModel::new`]."
    |c| {
        backbone: MambaModel = MambaModel::new(c.clone())?;
        lm_head: Linear = head(&backbone.embeddings, c.tie_word_embeddings, c.initializer_range)?;
    }
}

/// [`MambaForCausalLM`], by its short name.
pub type Mamba = MambaForCausalLM;

causal_lm!(
    MambaForCausalLM of backbone,
    layers num_hidden_layers,
    positions |_| None,
    logits torsh_tensor::DType::F32
);

pretrained! {
    base "backbone", ignores [];
    MambaModel(MambaConfig), MambaForCausalLM(MambaConfig),
}
