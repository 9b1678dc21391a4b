//! Names that older files have for weights.

use torsh_nn::StateDict;
use torsh_tensor::Result;

/// What is put in the place of what in a name, one after the other.
type Renames = &'static [(&'static str, &'static str)];

/// Each of these is tried on names that a model does not know.
const RENAMES: &[Renames] = &[
    // A name that lacks only the base model's prefix.
    &[],
    // Of ViT.
    &[
        ("encoder.layer.", "layers."),
        ("attention.attention.query", "attention.q_proj"),
        ("attention.attention.key", "attention.k_proj"),
        ("attention.attention.value", "attention.v_proj"),
        ("attention.output.dense", "attention.o_proj"),
        ("intermediate.dense", "mlp.fc1"),
        ("output.dense", "mlp.fc2"),
    ],
    // Of DINOv2.
    &[
        ("attention.attention.query", "attention.q_proj"),
        ("attention.attention.key", "attention.k_proj"),
        ("attention.attention.value", "attention.v_proj"),
        ("attention.output.dense", "attention.o_proj"),
        ("mlp.weights_out", "mlp.down_proj"),
    ],
    // Of weights by length and direction.
    &[
        (".weight_g", ".parametrizations.weight.original0"),
        (".weight_v", ".parametrizations.weight.original1"),
    ],
    // Of GPT-NeoX, whose head has this name in files to this day.
    &[("embed_out.weight", "lm_head.weight")],
    // Of Mamba.
    &[("embedding.weight", "embeddings.weight")],
];

/// Gives weights of older files the names that a model with the state dict `own` has for them; what it knows under no
/// name stays. The names of a file that begin with `base_prefix` go on to do so where the model has no head.
pub(super) fn renamed(own: &StateDict, state: &StateDict, base_prefix: &str) -> Result<StateDict> {
    let prefix = format!("{base_prefix}.");
    let known = |name: String| {
        let longer = format!("{prefix}{name}");
        let shorter = name.strip_prefix(&prefix);
        match own.contains_key(&longer) {
            true => Some(longer),
            false if shorter.is_some_and(|n| own.contains_key(n)) => Some(name),
            false => own.contains_key(&name).then_some(name),
        }
    };
    let newer = |name: &str| {
        RENAMES.iter().find_map(|renames| {
            let mut name = name.to_string();
            for (old, new) in *renames {
                name = name.replace(old, new);
            }
            known(name)
        })
    };
    let mut out = StateDict::new();
    for (name, tensor) in state.iter() {
        if own.contains_key(name) {
            out.insert(name, tensor.clone());
            continue;
        }
        if let Some(name) = newer(name) {
            out.insert(name, tensor.clone());
            continue;
        }
        // The gate and what it multiplies were one matrix.
        let halves = ["gate_proj", "up_proj"].map(|half| newer(&name.replace("weights_in", half)));
        match halves {
            [Some(gate), Some(up)] if name.contains("weights_in") => {
                for (name, half) in [gate, up].into_iter().zip(tensor.chunk(2, 0)?) {
                    out.insert(name, half);
                }
            }
            _ => {
                out.insert(name, tensor.clone());
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use torsh_nn::ModuleExt;
    use torsh_tensor::ones;

    use super::*;
    use crate::models::from_config;

    /// The names that a model has for those of a file.
    fn found(
        class: &str,
        config: serde_json::Value,
        base: &str,
        old: &[&str],
    ) -> Result<Vec<String>> {
        let own = from_config(class, config)?.state_dict();
        let mut state = StateDict::new();
        for name in old {
            state.insert(*name, ones([2]));
        }
        let mut names: Vec<_> = renamed(&own, &state, base)?
            .keys()
            .map(str::to_string)
            .collect();
        names.sort();
        Ok(names)
    }

    #[test]
    fn names_of_older_files_are_known() -> Result<()> {
        let sizes = json!({
            "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4,
            "image_size": 4, "patch_size": 4
        });
        let old = [
            "vit.encoder.layer.0.attention.attention.query.bias",
            "vit.encoder.layer.0.output.dense.weight",
        ];
        assert_eq!(
            found("ViTForImageClassification", sizes.clone(), "vit", &old)?,
            [
                "vit.layers.0.attention.q_proj.bias",
                "vit.layers.0.mlp.fc2.weight"
            ]
        );
        // A model without head.
        assert_eq!(
            found(
                "ViTModel",
                sizes,
                "vit",
                &["vit.encoder.layer.0.attention.output.dense.bias"]
            )?,
            ["vit.layers.0.attention.o_proj.bias"]
        );
        let sizes = json!({
            "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "image_size": 4, "patch_size": 4,
            "use_swiglu_ffn": true
        });
        let old = [
            "encoder.layer.0.mlp.weights_in.bias",
            "encoder.layer.0.mlp.weights_out.bias",
            "encoder.layer.0.attention.attention.key.bias",
        ];
        assert_eq!(
            found("Dinov2Model", sizes, "dinov2", &old)?,
            [
                "encoder.layer.0.attention.k_proj.bias",
                "encoder.layer.0.mlp.down_proj.bias",
                "encoder.layer.0.mlp.gate_proj.bias",
                "encoder.layer.0.mlp.up_proj.bias"
            ]
        );
        // The head of GPT-NeoX.
        let sizes = json!({
            "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4, "vocab_size": 5
        });
        assert_eq!(
            found(
                "GPTNeoXForCausalLM",
                sizes,
                "gpt_neox",
                &["embed_out.weight"]
            )?,
            ["lm_head.weight"]
        );
        // GPT-2's own file has no prefix, and names that nobody knows stay.
        let sizes = json!({ "n_embd": 4, "n_layer": 1, "n_head": 1, "vocab_size": 5 });
        assert_eq!(
            found(
                "GPT2LMHeadModel",
                sizes,
                "transformer",
                &["wte.weight", "h.0.other"]
            )?,
            ["h.0.other", "transformer.wte.weight"]
        );
        Ok(())
    }
}
