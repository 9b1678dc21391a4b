//! The classes of a family of decoders: the model, with a head, and with a classifier.

/// The example of a class: a small model, of which `$small` has the fields that the family has besides; or its
/// configuration alone.
macro_rules! example {
    ($config:ident, $model:ident, $small:tt, $uses:literal, $shows:literal) => {
        $crate::models::decoder_models::example! {
            $config, $model, $small, $uses,
            config concat!("let model = ", stringify!($model), "::new(config)?;\n", $shows)
        }
    };
    ($config:ident, $model:ident, ($($small:tt)*), $uses:literal, config $shows:expr) => {
        concat!(
            "```\nuse torsh_nn::Module;\nuse torsh_tensor::tensor;\n", $uses,
            "use torsh_text::models::{", stringify!($config), ", ", stringify!($model), "};\n",
            "let config = ", stringify!($config), " {\n",
            "    vocab_size: 11, hidden_size: 8, intermediate_size: 12, num_hidden_layers: 2, num_attention_heads: 2,\n",
            "    ", stringify!($($small)*), ", ..Default::default()\n};\n",
            $shows, "\n# Ok::<(), torsh_tensor::TorshError>(())\n```"
        )
    };
}
pub(super) use example;

/// Declares the three classes of a family, whose function `$spec` makes a [`Spec`](super::decoder_spec::Spec) of its
/// configuration. `$small` are the fields that a small model for the examples of the classes needs.
macro_rules! decoder_models {
    (
        $spec:path, $config:ident, small { $($small:tt)* };
        $(#[$doc:meta])* $model:ident;
        $(#[$causal_doc:meta])* $causal:ident;
        $(#[$classifier_doc:meta])* $classifier:ident;
    ) => {
        $(#[$doc])*
        ///
        #[doc = $crate::models::decoder_models::example! {
            $config, $model, ($($small)*),
            "",
            "assert_eq!(model.forward(&tensor![[1, 2, 3]])?.dims(), [1, 3, 8]);"
        }]
        #[derive(torsh_nn::Module)]
        pub struct $model {
            /// The tokens' vectors.
            pub embed_tokens: torsh_nn::Embedding,
            /// The layers.
            pub layers: $crate::blocks::Layers<$crate::models::DecoderLayer>,
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
            /// Makes a model with drawn weights.
            ///
            /// # Errors
            /// Sizes that do not fit together; the error names the fields.
            ///
            #[doc = $crate::models::decoder_models::example! {
                $config, $model, ($($small)*),
                "",
                config concat!(
                    "let model = ", stringify!($model), "::new(", stringify!($config),
                    " { num_key_value_heads: Some(3), ..config });\n",
                    "let why = \"num_attention_heads = 2 is not divisible by num_key_value_heads = 3\";\n",
                    "assert!(model.is_err_and(|e| e.to_string().contains(why)));"
                )
            }]
            #[torsh_tensor::names_caller(Self)]
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

            /// Gives the last layer's result `[batch, tokens, hidden_size]` for the tokens of a step.
            ///
            /// # Errors
            /// Ids outside of the vocabulary, and a cache of another model.
            ///
            #[doc = $crate::models::decoder_models::example! {
                $config, $model, ($($small)*),
                "use torsh_text::blocks::{CacheKind, KvCache};\nuse torsh_text::generation::DecoderStep;\n",
                "let whole = model.forward_with(DecoderStep::new(&tensor![[1, 2, 3]]))?;\n\
                 // In two steps, of which the second one sees the tokens of the cache.\n\
                 let mut cache = KvCache::new([CacheKind::Growing; 2]);\n\
                 model.forward_with(DecoderStep { cache: Some(&mut cache), ..DecoderStep::new(&tensor![[1, 2]]) })?;\n\
                 let last = model.forward_with(DecoderStep { cache: Some(&mut cache), ..DecoderStep::new(&tensor![[3]]) })?;\n\
                 let difference = last.sub(&whole.narrow(1, 2, 1)?)?;\n\
                 assert!(difference.abs()?.max()?.item::<f32>()? < 1e-5);"
            }]
            #[track_caller]
            pub fn forward_with(
                &self,
                step: $crate::generation::DecoderStep<'_>,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                self.decoder
                    .run((&self.embed_tokens, &self.layers, &self.norm), step)
            }
        }

        $crate::models::causal::decoder!($model);

        $(#[$causal_doc])*
        ///
        #[doc = $crate::models::decoder_models::example! {
            $config, $causal, ($($small)*),
            "use torsh_text::generation::{DecoderStep, GenerationModel};\n",
            "let logits = model.forward(&tensor![[1, 2, 3]])?;\n\
             // A step has the logits of the last token.\n\
             let next = model.decode(DecoderStep::new(&tensor![[1, 2, 3]]))?.logits;\n\
             assert!(next.allclose(&logits.narrow(1, 2, 1)?)?);"
        }]
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
            /// Makes a model with drawn weights.
            ///
            /// # Errors
            /// Sizes that do not fit together; the error names the fields.
            ///
            #[doc = $crate::models::decoder_models::example! {
                $config, $causal, ($($small)*),
                "",
                config concat!(
                    "let config = ", stringify!($config), " { tie_word_embeddings: true, ..config };\n",
                    "let model = ", stringify!($causal), "::new(config)?;\n",
                    "assert!(model.lm_head.weight.shares_storage(&model.model.embed_tokens.weight));"
                )
            }]
            #[torsh_tensor::names_caller(Self)]
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

        $crate::models::causal::causal_lm! {
            $causal of model,
            positions |m| m.model.decoder.max_positions(),
            cache |m, kind| m.model.decoder.new_cache(kind),
            logits |m, last| m.model.decoder.capped(torsh_nn::Module::forward(&m.lm_head, last)?)
        }

        $(#[$classifier_doc])*
        ///
        #[doc = $crate::models::decoder_models::example! {
            $config, $classifier, ($($small)*),
            "",
            config concat!(
                "let config = ", stringify!($config), " { pad_token_id: Some(0), num_labels: 3, ..config };\n",
                "let model = ", stringify!($classifier), "::new(config)?;\n",
                "let scores = model.forward(&tensor![[1, 2], [3, 0]])?;\n",
                "assert_eq!(scores.dims(), [2, 3]);\n",
                "// The second text is scored at its last token ahead of the padding.\n",
                "let difference = scores.narrow(0, 1, 1)?.sub(&model.forward(&tensor![[3]])?)?;\n",
                "assert!(difference.abs()?.max()?.item::<f32>()? < 1e-5);"
            )
        }]
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
            /// Makes a model with drawn weights.
            ///
            /// # Errors
            /// Sizes that do not fit together; the error names the fields.
            ///
            #[doc = $crate::models::decoder_models::example! {
                $config, $classifier, ($($small)*),
                "use torsh_nn::ModuleExt;\n",
                config concat!(
                    "let model = ", stringify!($classifier), "::new(", stringify!($config),
                    " { num_labels: 3, ..config })?;\n",
                    "assert_eq!(model.num_parameters(), model.model.num_parameters() + 3 * 8);"
                )
            }]
            #[torsh_tensor::names_caller(Self)]
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

            /// Gives the scores `[batch, num_labels]` at the last token of each text that is not `pad_token_id`.
            ///
            /// # Errors
            /// Ids outside of the vocabulary, and a batch without `pad_token_id`.
            ///
            #[doc = $crate::models::decoder_models::example! {
                $config, $classifier, ($($small)*),
                "use torsh_text::generation::DecoderStep;\n",
                config concat!(
                    "let model = ", stringify!($classifier), "::new(", stringify!($config),
                    " { pad_token_id: None, ..config })?;\n",
                    "let scores = model.forward_with(DecoderStep::new(&tensor![[1, 2], [3, 4]]));\n",
                    "let why = \"a batch of 2 texts, and the configuration has no pad_token_id\";\n",
                    "assert!(scores.is_err_and(|e| e.to_string().contains(why)));"
                )
            }]
            #[torsh_tensor::names_caller]
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
            #[torsh_tensor::names_caller]
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
            #[torsh_tensor::names_caller]
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
mod tests;
