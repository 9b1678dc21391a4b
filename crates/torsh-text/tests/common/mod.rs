//! A small model of each family.

use serde_json::{Value, json};
use torsh_tensor::{rand, randint};
use torsh_text::models::ModelInputs;

/// Tokens of each vocabulary.
pub const VOCABULARY: i64 = 40;

/// What a family reads.
#[derive(Clone, Copy)]
pub enum Reads {
    Ids,
    IdsOfBoth,
    Features,
    Images,
    IdsAndImages,
    Sound,
}

impl Reads {
    pub fn inputs(self) -> ModelInputs {
        let ids = || randint(3, VOCABULARY, &[2, 32]);
        let images = || rand([2, 3, 16, 16]);
        let mut inputs = ModelInputs::default();
        match self {
            Reads::Ids => inputs.input_ids = Some(ids()),
            Reads::IdsOfBoth => {
                inputs.input_ids = Some(ids());
                inputs.decoder_input_ids = Some(ids());
            }
            Reads::Features => {
                inputs.input_features = Some(rand([2, 4, 48]));
                inputs.decoder_input_ids = Some(ids());
            }
            Reads::Images => inputs.pixel_values = Some(images()),
            Reads::IdsAndImages => {
                inputs.input_ids = Some(ids());
                inputs.pixel_values = Some(images());
            }
            Reads::Sound => inputs.input_values = Some(rand([2, 320])),
        }
        inputs
    }
}

fn with(base: &Value, more: Value) -> Value {
    let mut all = base.clone();
    if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
        all.extend(more);
    }
    all
}

/// An architecture of each family, with the beginning of its names, a configuration with every kind of dropout that it
/// has, and what it reads.
pub fn families() -> Vec<(&'static str, &'static str, Value, Reads)> {
    let sizes = json!({
        "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
        "num_attention_heads": 2, "initializer_range": 0.2
    });
    let encoder = with(
        &sizes,
        json!({
            "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 40
        }),
    );
    let decoder = with(
        &sizes,
        json!({
            "pad_token_id": 0, "attention_dropout": 0.1, "max_position_embeddings": 40, "num_key_value_heads": 2
        }),
    );
    let image = json!({
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2,
        "image_size": 16, "patch_size": 4, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1
    });
    let of_clip = json!({
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2,
        "attention_dropout": 0.1
    });
    vec![
        ("Bert", "BertForMaskedLM", encoder.clone(), Reads::Ids),
        (
            "DistilBert",
            "DistilBertForMaskedLM",
            json!({
                "vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 64, "n_layers": 4, "n_heads": 2, "dropout": 0.1,
                "attention_dropout": 0.1, "max_position_embeddings": 40
            }),
            Reads::Ids,
        ),
        ("Roberta", "RobertaForMaskedLM", encoder.clone(), Reads::Ids),
        (
            "XLMRoberta",
            "XLMRobertaForMaskedLM",
            encoder.clone(),
            Reads::Ids,
        ),
        (
            "Albert",
            "AlbertForMaskedLM",
            with(
                &encoder,
                json!({ "embedding_size": 16, "num_hidden_groups": 2, "inner_group_num": 2 }),
            ),
            Reads::Ids,
        ),
        (
            "Electra",
            "ElectraForPreTraining",
            with(&encoder, json!({ "embedding_size": 16 })),
            Reads::Ids,
        ),
        (
            "ModernBert",
            "ModernBertForMaskedLM",
            with(
                &sizes,
                json!({
                    "pad_token_id": 0, "local_attention": 8, "global_attn_every_n_layers": 2, "attention_dropout": 0.1,
                    "embedding_dropout": 0.1, "mlp_dropout": 0.1
                }),
            ),
            Reads::Ids,
        ),
        (
            "GPT2",
            "GPT2LMHeadModel",
            json!({
                "vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 4, "n_head": 2, "n_positions": 40, "pad_token_id": 0,
                "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1
            }),
            Reads::Ids,
        ),
        (
            "GPTNeoX",
            "GPTNeoXForCausalLM",
            with(
                &sizes,
                json!({ "attention_dropout": 0.1, "hidden_dropout": 0.1 }),
            ),
            Reads::Ids,
        ),
        (
            "OPT",
            "OPTForCausalLM",
            json!({
                "vocab_size": VOCABULARY, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 4,
                "num_attention_heads": 2, "dropout": 0.1, "attention_dropout": 0.1, "layerdrop": 0.2
            }),
            Reads::Ids,
        ),
        (
            "Llama",
            "LlamaForCausalLM",
            with(&decoder, json!({ "num_key_value_heads": 1 })),
            Reads::Ids,
        ),
        (
            "Mistral",
            "MistralForCausalLM",
            with(&decoder, json!({ "sliding_window": 8 })),
            Reads::Ids,
        ),
        (
            "Mixtral",
            "MixtralForCausalLM",
            with(
                &decoder,
                json!({ "num_local_experts": 3, "router_jitter_noise": 0.1 }),
            ),
            Reads::Ids,
        ),
        ("Qwen2", "Qwen2ForCausalLM", decoder.clone(), Reads::Ids),
        (
            "Qwen3",
            "Qwen3ForCausalLM",
            with(&decoder, json!({ "head_dim": 16 })),
            Reads::Ids,
        ),
        (
            "Gemma",
            "GemmaForCausalLM",
            with(&decoder, json!({ "head_dim": 16 })),
            Reads::Ids,
        ),
        (
            "Gemma2",
            "Gemma2ForCausalLM",
            with(&decoder, json!({ "head_dim": 16, "sliding_window": 8 })),
            Reads::Ids,
        ),
        (
            "Gemma3",
            "Gemma3ForCausalLM",
            with(
                &decoder,
                json!({ "head_dim": 16, "sliding_window": 8, "sliding_window_pattern": 2 }),
            ),
            Reads::Ids,
        ),
        (
            "Phi3",
            "Phi3ForCausalLM",
            with(
                &decoder,
                json!({ "resid_pdrop": 0.1, "num_key_value_heads": 2 }),
            ),
            Reads::Ids,
        ),
        (
            "Mamba",
            "MambaForCausalLM",
            json!({ "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 4, "state_size": 4 }),
            Reads::Ids,
        ),
        (
            "T5",
            "T5ForConditionalGeneration",
            json!({
                "vocab_size": VOCABULARY, "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 3, "num_heads": 2,
                "dropout_rate": 0.1
            }),
            Reads::IdsOfBoth,
        ),
        (
            "Bart",
            "BartForConditionalGeneration",
            json!({
                "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 3, "decoder_layers": 3,
                "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 64,
                "decoder_ffn_dim": 64, "max_position_embeddings": 40, "dropout": 0.1, "attention_dropout": 0.1,
                "activation_dropout": 0.1, "encoder_layerdrop": 0.2, "decoder_layerdrop": 0.2
            }),
            Reads::IdsOfBoth,
        ),
        (
            "Whisper",
            "WhisperForConditionalGeneration",
            json!({
                "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 3, "decoder_layers": 3,
                "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 64,
                "decoder_ffn_dim": 64, "num_mel_bins": 4, "max_source_positions": 24, "max_target_positions": 40,
                "pad_token_id": 0, "dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1
            }),
            Reads::Features,
        ),
        (
            "CLIP",
            "CLIPModel",
            json!({
                "model_type": "clip",
                "projection_dim": 8,
                "text_config": with(&of_clip, json!({ "vocab_size": VOCABULARY, "eos_token_id": VOCABULARY - 1 })),
                "vision_config": with(&of_clip, json!({ "image_size": 16, "patch_size": 4 }))
            }),
            Reads::IdsAndImages,
        ),
        (
            "ViT",
            "ViTForImageClassification",
            image.clone(),
            Reads::Images,
        ),
        (
            "Dinov2",
            "Dinov2ForImageClassification",
            {
                let mut config = with(&image, json!({ "drop_path_rate": 0.2, "mlp_ratio": 2 }));
                config
                    .as_object_mut()
                    .map(|c| c.remove("intermediate_size"));
                config
            },
            Reads::Images,
        ),
        (
            "Wav2Vec2",
            "Wav2Vec2ForCTC",
            with(
                &sizes,
                json!({
                    "conv_dim": [8, 8], "conv_stride": [4, 2], "conv_kernel": [4, 2], "num_conv_pos_embeddings": 4,
                    "num_conv_pos_embedding_groups": 2, "hidden_dropout": 0.1, "attention_dropout": 0.1,
                    "activation_dropout": 0.1, "layerdrop": 0.2, "add_adapter": true
                }),
            ),
            Reads::Sound,
        ),
    ]
}
