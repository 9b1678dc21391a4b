//! The classes of a family of decoders: the model, with a head, and with a classifier.

/// Declares the three classes of a family, whose function `$spec` makes a [`Spec`](super::decoder::Spec) of its
/// configuration.
macro_rules! decoder_models {
    (
        $spec:path, $config:ident;
        $(#[$doc:meta])* $model:ident;
        $(#[$causal_doc:meta])* $causal:ident;
        $(#[$classifier_doc:meta])* $classifier:ident;
    ) => {
        $(#[$doc])*
        #[derive(torsh_nn::Module)]
        pub struct $model {
            /// The tokens' vectors.
            pub embed_tokens: torsh_nn::Embedding,
            /// The layers.
            pub layers: Vec<std::sync::Arc<$crate::models::DecoderLayer>>,
            /// Behind the last layer.
            pub norm: $crate::blocks::RmsNorm,
            #[module(skip)]
            decoder: $crate::models::decoder::Decoder,
            #[module(skip)]
            config: $config,
            training: torsh_nn::Training,
            hooks: torsh_nn::Hooks,
        }

        impl $model {
            /// A model with drawn weights.
            ///
            /// # Errors
            /// Sizes that do not fit together; the error names the fields.
            #[track_caller]
            pub fn new(config: $config) -> torsh_tensor::Result<Self> {
                let decoder = $crate::models::decoder::Decoder::new($spec(&config)?)?;
                Ok(Self {
                    embed_tokens: decoder.embedding()?,
                    layers: decoder.layers()?,
                    norm: decoder.norm()?,
                    decoder,
                    config,
                    training: torsh_nn::Training::default(),
                    hooks: torsh_nn::Hooks::new(),
                })
            }

            /// The last layer's result `[batch, tokens, hidden_size]` for the tokens of a step.
            ///
            /// # Errors
            /// Ids outside of the vocabulary, and a cache of another model.
            #[track_caller]
            pub fn forward_with(
                &self,
                step: $crate::generation::DecoderStep<'_>,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                self.decoder
                    .run((&self.embed_tokens, &self.layers, &self.norm), step)
            }

            /// Turns gradient checkpointing on or off: layers keep only their inputs, and compute the rest anew for the
            /// gradients.
            pub fn gradient_checkpointing(&self, on: bool) {
                self.decoder.checkpointing.set(on);
            }
        }

        $crate::models::causal::decoder!($model);

        $(#[$causal_doc])*
        #[derive(torsh_nn::Module)]
        pub struct $causal {
            /// The model.
            pub model: $model,
            /// To logits; its weight is the embedding's where `tie_word_embeddings` is set.
            pub lm_head: torsh_nn::Linear,
            #[module(skip)]
            config: $config,
            training: torsh_nn::Training,
            hooks: torsh_nn::Hooks,
        }

        impl $causal {
            /// A model with drawn weights.
            ///
            /// # Errors
            /// Sizes that do not fit together; the error names the fields.
            #[track_caller]
            pub fn new(config: $config) -> torsh_tensor::Result<Self> {
                let model = $model::new(config.clone())?;
                let tied = config.tie_word_embeddings;
                let std = config.initializer_range;
                let lm_head = $crate::models::causal::head(&model.embed_tokens, tied, std)?;
                Ok(Self {
                    model,
                    lm_head,
                    config,
                    training: torsh_nn::Training::default(),
                    hooks: torsh_nn::Hooks::new(),
                })
            }
        }

        impl torsh_nn::Module for $causal {
            /// The logits `[batch, tokens, vocabulary]` of token ids `[batch, tokens]`.
            #[track_caller]
            fn forward(
                &self,
                input_ids: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                use $crate::generation::GenerationModel as _;
                self.hooks.run(self, input_ids, |ids| {
                    let step = $crate::models::causal::whole_step(ids, None);
                    Ok(self.decode(step)?.logits)
                })
            }
        }

        impl $crate::models::TextModel for $causal {
            fn forward_named(
                &self,
                inputs: &$crate::models::ModelInputs,
            ) -> torsh_tensor::Result<$crate::models::ModelOutputs> {
                use $crate::generation::GenerationModel as _;
                let padding = $crate::models::causal::padding_of(inputs)?;
                let ids = inputs.input_ids()?;
                let step = $crate::models::causal::whole_step(ids, padding.as_ref());
                Ok(vec![("logits", self.decode(step)?.logits)])
            }

            fn as_generation(&self) -> Option<&dyn $crate::generation::GenerationModel> {
                Some(self)
            }
        }

        impl $crate::generation::GenerationModel for $causal {
            fn vocab_size(&self) -> usize {
                self.config.vocab_size
            }

            fn max_positions(&self) -> Option<usize> {
                self.model.decoder.max_positions()
            }

            fn special_tokens(&self) -> $crate::generation::SpecialTokens {
                $crate::generation::SpecialTokens {
                    bos: self.config.bos_token_id,
                    eos: self.config.eos_token_id.clone(),
                    pad: self.config.pad_token_id,
                    ..Default::default()
                }
            }

            fn new_cache(&self, kind: $crate::blocks::CacheKind) -> $crate::blocks::KvCache {
                self.model.decoder.new_cache(kind)
            }

            #[track_caller]
            fn decode(
                &self,
                step: $crate::generation::DecoderStep<'_>,
            ) -> torsh_tensor::Result<$crate::generation::DecoderOutput> {
                let wanted = step.logits;
                let hidden = self.model.forward_with(step)?;
                let last = $crate::models::causal::of_logits(&hidden, wanted)?;
                let logits = torsh_nn::Module::forward(&self.lm_head, &last)?;
                let logits = self.model.decoder.capped(logits)?;
                Ok($crate::generation::DecoderOutput { logits, hidden })
            }
        }

        $(#[$classifier_doc])*
        #[derive(torsh_nn::Module)]
        pub struct $classifier {
            /// The model.
            pub model: $model,
            /// To the scores of the classes.
            pub score: torsh_nn::Linear,
            #[module(skip)]
            config: $config,
            training: torsh_nn::Training,
            hooks: torsh_nn::Hooks,
        }

        impl $classifier {
            /// A model with drawn weights.
            ///
            /// # Errors
            /// Sizes that do not fit together; the error names the fields.
            #[track_caller]
            pub fn new(config: $config) -> torsh_tensor::Result<Self> {
                let (width, labels) = (config.hidden_size, config.num_labels);
                let std = config.initializer_range;
                Ok(Self {
                    model: $model::new(config.clone())?,
                    score: $crate::blocks::init::linear(width, labels, false, std)?,
                    config,
                    training: torsh_nn::Training::default(),
                    hooks: torsh_nn::Hooks::new(),
                })
            }

            /// The scores `[batch, num_labels]` at the last token of each text that is not `pad_token_id`.
            ///
            /// # Errors
            /// Ids outside of the vocabulary, and a batch without `pad_token_id`.
            #[track_caller]
            pub fn forward_with(
                &self,
                step: $crate::generation::DecoderStep<'_>,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                let pad = self.config.pad_token_id;
                let name = stringify!($classifier);
                let last = $crate::models::causal::last_tokens(name, step.input_ids, pad)?;
                let hidden = self.model.forward_with(step)?;
                let hidden = $crate::models::causal::rows_at(&hidden, &last)?;
                torsh_nn::Module::forward(&self.score, &hidden)
            }
        }

        impl torsh_nn::Module for $classifier {
            /// The scores `[batch, num_labels]` of token ids `[batch, tokens]`.
            #[track_caller]
            fn forward(
                &self,
                input_ids: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                self.hooks.run(self, input_ids, |ids| {
                    self.forward_with($crate::models::causal::whole_step(ids, None))
                })
            }
        }

        impl $crate::models::TextModel for $classifier {
            fn forward_named(
                &self,
                inputs: &$crate::models::ModelInputs,
            ) -> torsh_tensor::Result<$crate::models::ModelOutputs> {
                let padding = $crate::models::causal::padding_of(inputs)?;
                let ids = inputs.input_ids()?;
                let step = $crate::models::causal::whole_step(ids, padding.as_ref());
                Ok(vec![("logits", self.forward_with(step)?)])
            }
        }

        $crate::models::pretrained! {
            base "model", ignores ["rotary_emb.inv_freq"];
            $model($config), $causal($config), $classifier($config)
        }
    };
}
pub(super) use decoder_models;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use torsh_core::random::manual_seed;
    use torsh_nn::{Module, ModuleExt, Parameter};
    use torsh_tensor::{Result, Tensor, randint, tensor};

    use crate::blocks::{CacheKind, Padding};
    use crate::generation::{DecoderStep, GenerationModel, Logits};
    use crate::models::{LlamaConfig, LlamaModel, ModelInputs, TextModel, from_config};

    /// A small model of a family, with weights that are far from zero.
    fn model(architecture: &str, more: Value) -> Result<Box<dyn TextModel>> {
        let mut config = json!({
            "vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0,
            "initializer_range": 0.3, "max_position_embeddings": 32
        });
        if let (Value::Object(config), Value::Object(more)) = (&mut config, more) {
            config.extend(more);
        }
        manual_seed(7);
        let model = from_config(architecture, config)?;
        model.eval();
        Ok(model)
    }

    fn families() -> Vec<(&'static str, Value)> {
        let longrope = json!({
            "rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]
        });
        vec![
            ("LlamaForCausalLM", json!({ "attention_bias": true })),
            ("MistralForCausalLM", json!({ "sliding_window": 3 })),
            (
                "MixtralForCausalLM",
                json!({ "num_local_experts": 3, "sliding_window": 4 }),
            ),
            (
                "Qwen2ForCausalLM",
                json!({ "use_sliding_window": true, "sliding_window": 3, "max_window_layers": 1 }),
            ),
            ("Qwen3ForCausalLM", json!({ "head_dim": 8 })),
            ("GemmaForCausalLM", json!({ "head_dim": 8 })),
            (
                "Gemma2ForCausalLM",
                json!({ "head_dim": 8, "sliding_window": 3, "attn_logit_softcapping": 0.5 }),
            ),
            (
                "Gemma3ForCausalLM",
                json!({ "head_dim": 8, "sliding_window": 3, "sliding_window_pattern": 2 }),
            ),
            (
                "Phi3ForCausalLM",
                json!({ "partial_rotary_factor": 0.5, "rope_scaling": longrope, "sliding_window": 5 }),
            ),
        ]
    }

    fn generation(model: &dyn TextModel) -> &dyn GenerationModel {
        model.as_generation().expect("a model with a head")
    }

    /// The logits of all tokens, computed in steps of these sizes.
    fn in_steps(
        model: &dyn GenerationModel,
        ids: &Tensor,
        kind: CacheKind,
        steps: &[usize],
        padding: Option<&Padding>,
    ) -> Result<Tensor> {
        let (mut cache, mut at, mut all) = (model.new_cache(kind), 0, Vec::new());
        for &tokens in steps {
            let ids = ids.narrow(1, at, tokens)?;
            let step = DecoderStep {
                cache: Some(&mut cache),
                padding,
                logits: Logits::All,
                ..DecoderStep::new(&ids)
            };
            all.push(model.decode(step)?.logits);
            at += tokens;
        }
        torsh_tensor::cat(&all, 1)
    }

    fn near(a: &Tensor, b: &Tensor) -> Result<bool> {
        Ok(a.sub(b)?.abs()?.max()?.item::<f64>()? < 1e-4)
    }

    #[test]
    fn steps_give_what_the_whole_text_gives() -> Result<()> {
        for (architecture, config) in families() {
            let model = model(architecture, config)?;
            let ids = randint(1, 23, &[2, 10]);
            let whole = &model.forward_named(&ModelInputs::ids(ids.clone()))?[0].1;
            for kind in [CacheKind::Growing, CacheKind::Static { capacity: 10 }] {
                for steps in [&[10][..], &[1; 10], &[6, 1, 1, 2], &[2, 5, 3]] {
                    let found = in_steps(generation(&*model), &ids, kind, steps, None)?;
                    assert!(near(&found, whole)?, "{architecture} {kind:?} {steps:?}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn texts_that_outgrow_their_frequencies_are_computed_anew() -> Result<()> {
        let longrope = json!({
            "type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [3.0, 5.0]
        });
        let more = json!({ "original_max_position_embeddings": 6, "rope_scaling": longrope });
        let model = model("Phi3ForCausalLM", more)?;
        let model = generation(&*model);
        let ids = randint(1, 23, &[2, 10]);
        for kind in [CacheKind::Growing, CacheKind::Static { capacity: 10 }] {
            let whole = in_steps(model, &ids, kind, &[10], None)?.narrow(1, 6, 4)?;
            for steps in [&[1; 10][..], &[6, 4], &[5, 1, 2, 2], &[3, 3, 1, 3]] {
                let found = in_steps(model, &ids, kind, steps, None)?.narrow(1, 6, 4)?;
                assert!(near(&found, &whole)?, "{kind:?} {steps:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn padding_on_the_left_changes_nothing() -> Result<()> {
        for (architecture, config) in families() {
            let model = model(architecture, config)?;
            let model = generation(&*model);
            let ids = tensor![[0, 0, 0, 5, 6, 7, 8, 9, 10], [1, 2, 3, 4, 5, 6, 7, 8, 9]];
            let padding = Padding::new([3..9, 0..9]);
            let alone = ids.narrow(0, 0, 1)?.narrow(1, 3, 6)?;
            let wanted = in_steps(model, &alone, CacheKind::Growing, &[6], None)?;
            for steps in [&[9][..], &[5, 1, 1, 1, 1], &[4, 5]] {
                let found = in_steps(model, &ids, CacheKind::Growing, steps, Some(&padding))?;
                let found = found.narrow(0, 0, 1)?.narrow(1, 3, 6)?;
                assert!(near(&found, &wanted)?, "{architecture} {steps:?}");
                assert!(!torsh_tensor::has_nan(&found));
            }
        }
        Ok(())
    }

    #[test]
    fn checkpointed_layers_give_the_same_gradients() -> Result<()> {
        manual_seed(7);
        let model = LlamaModel::new(LlamaConfig {
            vocab_size: 23,
            hidden_size: 16,
            intermediate_size: 24,
            num_hidden_layers: 3,
            num_attention_heads: 4,
            num_key_value_heads: Some(2),
            initializer_range: 0.3,
            ..LlamaConfig::default()
        })?;
        let ids = tensor![[1, 2, 3, 4, 5]];
        let gradients = |on: bool| {
            model.gradient_checkpointing(on);
            model.zero_grad();
            model.forward(&ids)?.square()?.mean()?.backward()?;
            let of = |p: Parameter| p.grad().map(|g| g.copy()).transpose();
            model
                .parameters()
                .into_iter()
                .map(of)
                .collect::<Result<Vec<_>>>()
        };
        let plain = gradients(false)?;
        assert!(plain.iter().all(Option::is_some));
        assert_eq!(plain, gradients(true)?);
        Ok(())
    }

    #[test]
    fn classifiers_read_the_last_token() -> Result<()> {
        let model = model("LlamaForSequenceClassification", json!({ "num_labels": 3 }))?;
        let padded = model.forward(&tensor![[4, 5, 0, 0], [1, 2, 3, 4]])?;
        assert_eq!(padded.dims(), [2, 3]);
        let alone = model.forward(&tensor![[4, 5]])?;
        assert!(near(&padded.narrow(0, 0, 1)?, &alone)?);
        Ok(())
    }

    #[test]
    fn tokens_of_a_bidirectional_model_see_those_after_them() -> Result<()> {
        let of = |bidirectional| {
            let more = json!({
                "head_dim": 8, "sliding_window": 4, "use_bidirectional_attention": bidirectional
            });
            let model = model("Gemma3TextModel", more)?;
            let first = |last: i64| {
                let ids = Tensor::from_vec(vec![1, 2, last], [1, 3])?;
                model.forward(&ids)?.select(1, 0)
            };
            near(&first(3)?, &first(4)?)
        };
        assert_eq!((of(false)?, of(true)?), (true, false));
        Ok(())
    }

    #[test]
    fn sizes_that_do_not_fit_are_named() {
        for (architecture, more, names) in [
            (
                "LlamaModel",
                json!({ "num_attention_heads": 3 }),
                "num_attention_heads = 3",
            ),
            (
                "LlamaModel",
                json!({ "num_key_value_heads": 3 }),
                "num_key_value_heads = 3",
            ),
            (
                "LlamaModel",
                json!({ "partial_rotary_factor": 0.5 }),
                "partial_rotary_factor",
            ),
            (
                "LlamaModel",
                json!({ "rope_scaling": { "type": "linear" } }),
                "factor",
            ),
            (
                "LlamaModel",
                json!({ "rope_scaling": { "typo": 1 } }),
                "typo",
            ),
            (
                "MixtralModel",
                json!({ "num_experts_per_tok": 9 }),
                "num_experts_per_tok",
            ),
            (
                "Qwen2Model",
                json!({ "layer_types": ["full_attention"] }),
                "layer_types",
            ),
            (
                "Phi3Model",
                json!({ "rope_scaling": { "type": "linear" } }),
                "longrope",
            ),
            (
                "GemmaModel",
                json!({ "use_bidirectional_attention": true }),
                "bidirectional",
            ),
        ] {
            let error = model(architecture, more).err().map(|e| e.to_string());
            let named = error.as_ref().is_some_and(|e| e.contains(names));
            assert!(named, "{architecture} {names} {error:?}");
        }
    }

    #[test]
    fn all_parts_train() -> Result<()> {
        for (architecture, config) in families() {
            let model = model(architecture, config)?;
            model.train();
            let ids = tensor![[1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15, 16]];
            model.forward(&ids)?.square()?.mean()?.backward()?;
            let without = model
                .named_parameters()
                .into_iter()
                .filter(|(_, p)| !p.has_grad());
            let without: Vec<_> = without.map(|(name, _)| name).collect();
            assert!(without.is_empty(), "{architecture} {without:?}");
        }
        Ok(())
    }
}
