//! Heads of encoders, and the macros that declare models with them.

use torsh_nn::construct::{self, Construction};
use torsh_nn::{Dropout, Embedding, Hooks, Linear, Parameter};
use torsh_tensor::{Result, Tensor, TorshError};

use super::Spec;
use crate::blocks::{Activation, init, part};

part! {
    /// The classifier of RoBERTa and ELECTRA: two linear layers on each text's first token.
    pub ClassificationHead(s: &Spec, between: Activation) {
        dense: Linear = s.linear(s.width, s.width)?;
        dropout: Dropout = Dropout::new(s.head_dropout)?;
        out_proj: Linear = s.classifier()?;
        #[module(skip)]
        activation: Activation = between;
        hooks: Hooks = Hooks::new();
    }
    hooked |m, x| {
        let x = m.dropout.forward(&x.select(1, 0)?)?;
        let x = m.activation.apply(&m.dense.forward(&x)?)?;
        m.out_proj.forward(&m.dropout.forward(&x)?)
    }
}

/// A bias of zeros.
#[track_caller]
pub(crate) fn bias(size: usize) -> Result<Parameter> {
    let zeros = Tensor::zeros([size], construct::dtype(), construct::device())?;
    Parameter::with_requires_grad(zeros, true)
}

/// The layer that gives logits of tokens: with the weight of the embedding, and with a bias of its owner, where they are
/// tied.
#[track_caller]
pub(crate) fn decoder(
    words: &Embedding,
    bias: Option<&Parameter>,
    tied: bool,
    std: f64,
) -> Result<Linear> {
    let [vocab, width] = [words.weight.dims()[0], words.weight.dims()[1]];
    if !tied {
        return init::linear(width, vocab, true, std);
    }
    let make = || Linear::builder(1, 1).bias(false).build();
    let mut layer = Construction::new().draw_nothing().run(make)?;
    layer.weight = words.weight.clone();
    layer.bias = match bias {
        Some(bias) => Some(bias.clone()),
        None => Some(self::bias(vocab)?),
    };
    Ok(layer)
}

/// The logits of the first and last token of an answer, each `[batch, length]`, of both in one tensor.
#[track_caller]
pub(crate) fn spans(logits: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((logits.select(-1, 0)?, logits.select(-1, 1)?))
}

/// An error where a model that finds answers has another number of labels than 2.
#[track_caller]
pub(crate) fn check_spans(model: &'static str, labels: usize) -> Result<()> {
    if labels != 2 {
        let why =
            format!("num_labels = {labels}, and an answer has 2: its first and its last token");
        return Err(TorshError::invalid(model, why));
    }
    Ok(())
}

/// Declares the models of a family that have heads, and lists the architectures of the family. Each has the model under the
/// head in a field of its own name, and one of these heads:
///
/// * `masked(field: Head)`: the masked language model, by a head that is made of the embedding and the [`Spec`].
/// * `pooled()`: a classifier of texts on the pooler's vectors.
/// * `first(activation)`: a classifier of texts on the first token, [`ClassificationHead`].
/// * `tokens()`: a classifier of tokens.
/// * `answers()`: the first and the last token of an answer.
/// * `own(|s of config| { fields } logits |m, output, inputs| ..)`: its own layers, made of the [`Spec`] `s` of the
///   configuration, and what they compute.
///   With `spans` instead of `logits`, the last dimension of 2 becomes `start_logits` and `end_logits`.
///
/// ```text
/// task_models! {
///     bert: BertModel(BertConfig), spec spec, ignores ["embeddings.position_ids"];
///     /// Documentation.
///     BertForMaskedLM: masked(cls: BertMlmHead);
///     /// Documentation.
///     BertForTokenClassification: tokens();
/// }
/// ```
macro_rules! task_models {
    (
        $base:ident: $Base:ident($Config:ident), spec $spec:path, ignores $ignored:tt;
        $($(#[$doc:meta])* $name:ident: $kind:ident $head:tt;)*
    ) => {
        $($crate::blocks::encoder::task_model! {
            @$kind $head { $(#[$doc])* $name($base: $Base, $Config, $spec) }
        })*

        $crate::models::pretrained! {
            base stringify!($base), ignores $ignored;
            $Base($Config), $($name($Config)),*
        }
    };
}
pub(crate) use task_models;

/// A model of [`task_models`].
macro_rules! task_model {
    (@masked ($field:ident: $Head:ident) { $(#[$doc:meta])* $name:ident($base:ident: $($rest:tt)*) }) => {
        $crate::blocks::encoder::task_model! {
            $(#[$doc])* $name($base: $($rest)*), pooled false, |s| {
                /// The head.
                $field: $Head = $Head::new(&$base.embeddings.word_embeddings, s)?;
            }
            logits |m, output, _inputs| torsh_nn::Module::forward(&m.$field, &output.last_hidden_state)
        }
    };
    (@pooled () { $($head:tt)* }) => {
        $crate::blocks::encoder::task_model! {
            $($head)*, pooled true, |s| {
                /// Ahead of the classifier.
                dropout: torsh_nn::Dropout = torsh_nn::Dropout::new(s.head_dropout)?;
                /// The classifier.
                classifier: torsh_nn::Linear = s.classifier()?;
            }
            logits |m, output, _inputs| {
                let x = torsh_nn::Module::forward(&m.dropout, output.pooled()?)?;
                torsh_nn::Module::forward(&m.classifier, &x)
            }
        }
    };
    (@first ($activation:expr) { $($head:tt)* }) => {
        $crate::blocks::encoder::task_model! {
            $($head)*, pooled false, |s| {
                /// The classifier.
                classifier: $crate::models::ClassificationHead =
                    $crate::models::ClassificationHead::new(s, $activation)?;
            }
            logits |m, output, _inputs| torsh_nn::Module::forward(&m.classifier, &output.last_hidden_state)
        }
    };
    (@tokens () { $($head:tt)* }) => {
        $crate::blocks::encoder::task_model! {
            $($head)*, pooled false, |s| {
                /// Ahead of the classifier.
                dropout: torsh_nn::Dropout = torsh_nn::Dropout::new(s.head_dropout)?;
                /// The classifier.
                classifier: torsh_nn::Linear = s.classifier()?;
            }
            logits |m, output, _inputs| {
                let x = torsh_nn::Module::forward(&m.dropout, &output.last_hidden_state)?;
                torsh_nn::Module::forward(&m.classifier, &x)
            }
        }
    };
    (@answers () { $($head:tt)* }) => {
        $crate::blocks::encoder::task_model! {
            $($head)*, pooled false, |s| {
                /// Two numbers for each token.
                qa_outputs: torsh_nn::Linear = s.classifier()?;
            }
            spans |m, output, _inputs| torsh_nn::Module::forward(&m.qa_outputs, &output.last_hidden_state)
        }
    };
    (@own ($($own:tt)*) { $($head:tt)* }) => {
        $crate::blocks::encoder::task_model! { $($head)*, pooled false, $($own)* }
    };
    (
        $(#[$doc:meta])*
        $name:ident($base:ident: $Base:ident, $Config:ident, $spec:path), pooled $pooled:literal,
        |$s:ident $(of $c:ident)?| { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $value:expr;)* }
        $kind:ident |$m:ident, $output:ident, $inputs:ident| $logits:expr
    ) => {
        $crate::blocks::class! {
            $(#[$doc])*
            $name($Config), errors "Sizes that do not fit together."
            |config| first {
                $crate::blocks::encoder::task_model!(@check $kind, $name, config);
                $(let $c = config;)?
                let $s = &$spec(config)?;
            } {
                /// The model under the head.
                pub $base: $Base = $Base::made(config.clone(), $pooled)?;
                $($(#[$field_doc])* pub $field: $ty = $value;)*
                training: torsh_nn::Training = torsh_nn::Training::default();
            }
            forward |m, ids| m.logits($crate::blocks::encoder::TokenInputs::new(ids));
            named |m, inputs| {
                let inputs = $crate::blocks::encoder::TokenInputs::named(inputs)?;
                $crate::blocks::encoder::task_model!(@named $kind, m, inputs)
            }
        }

        impl $name {
            #[track_caller]
            fn logits(
                &self,
                $inputs: $crate::blocks::encoder::TokenInputs<'_>,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                let $m = self;
                let $output = &self.$base.forward_with($inputs)?;
                $logits
            }

            $crate::blocks::encoder::task_model!(@with $kind);
        }
    };
    (@check logits, $name:ident, $config:ident) => {};
    (@check spans, $name:ident, $config:ident) => {
        $crate::blocks::encoder::check_spans(stringify!($name), $config.num_labels)?;
    };
    (@with logits) => {
        /// The logits of the inputs.
        ///
        /// # Errors
        /// Ids outside of the vocabulary, more tokens than positions, shapes that differ.
        #[torsh_tensor::names_caller]
        pub fn forward_with(
            &self,
            inputs: $crate::blocks::encoder::TokenInputs<'_>,
        ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
            self.logits(inputs)
        }
    };
    (@with spans) => {
        /// The logits of an answer's first and last token, each `[batch, length]`.
        ///
        /// # Errors
        /// Ids outside of the vocabulary, more tokens than positions, shapes that differ.
        #[torsh_tensor::names_caller]
        pub fn forward_with(
            &self,
            inputs: $crate::blocks::encoder::TokenInputs<'_>,
        ) -> torsh_tensor::Result<(torsh_tensor::Tensor, torsh_tensor::Tensor)> {
            $crate::blocks::encoder::spans(&self.logits(inputs)?)
        }
    };
    (@named logits, $m:ident, $inputs:ident) => {
        Ok(vec![("logits", $m.logits($inputs)?)])
    };
    (@named spans, $m:ident, $inputs:ident) => {{
        let (start, end) = $m.forward_with($inputs)?;
        Ok(vec![("start_logits", start), ("end_logits", end)])
    }};
}
pub(crate) use task_model;

/// Declares an encoder without head, by its [`Spec`], its parts and what they compute of the rows of a [`Layout`]. With
/// `pooled` among the arguments of the parts, there is a method `without_pooler` besides.
///
/// ```text
/// encoder_model! {
///     /// Documentation.
///     BertModel(BertConfig), spec spec, errors "Heads that do not divide the width."
///     |s, pooled| {
///         /// The embeddings.
///         pub embeddings: BertEmbeddings = BertEmbeddings::new(s)?;
///         /// What makes a vector of a text.
///         pub pooler: Option<BertPooler> = pooled.then(|| BertPooler::new(s)).transpose()?;
///     }
///     positions |m| Some(m.config.max_position_embeddings);
///     /// The vectors of tokens.
///     run |m, inputs, layout| m.embeddings.run(inputs, layout)
///     pooler |m, output| m.pooler.as_ref().map(|p| p.forward(&output.last_hidden_state))
/// }
/// ```
macro_rules! encoder_model {
    (
        $(#[$doc:meta])*
        $name:ident($config:ident), spec $spec:path, errors $errors:literal
        |$s:ident $(of $c:ident)? $(, $pooled:ident)?| $(first { $($first:tt)* })? {
            $($(#[$meta:meta])* $field_vis:vis $field:ident: $ty:ty = $value:expr;)*
        }
        positions |$p:ident| $positions:expr;
        $(#[$run_doc:meta])*
        run |$m:ident, $inputs:ident, $layout:ident| $run:expr
        $(, pooler |$q:ident, $output:ident| $pooler:expr)?
    ) => {
        $(#[$doc])*
        #[derive(torsh_nn::Module)]
        pub struct $name {
            $($(#[$meta])* $field_vis $field: $ty,)*
            #[module(skip)]
            config: $config,
            training: torsh_nn::Training,
            hooks: torsh_nn::Hooks,
        }

        impl $name {
            /// A model with drawn weights.
            ///
            /// # Errors
            #[doc = $errors]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(config: $config) -> torsh_tensor::Result<Self> {
                Self::made(config, true)
            }

            $(
                /// A model with drawn weights that gives no `pooler_output`, as it is under most heads.
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($name), "::new`].")]
                #[torsh_tensor::names_caller(Self)]
                pub fn without_pooler(config: $config) -> torsh_tensor::Result<Self> {
                    let $pooled = false;
                    Self::made(config, $pooled)
                }
            )?

            /// With a pooler, where the model may have one.
            #[track_caller]
            pub(crate) fn made(config: $config, _pooled: bool) -> torsh_tensor::Result<Self> {
                $(let $pooled = _pooled;)?
                $(let $c = &config;)?
                let $s = &$spec(&config)?;
                $($($first)*)?
                $(let $field = $value;)*
                Ok($name {
                    $($field,)*
                    config,
                    training: torsh_nn::Training::default(),
                    hooks: torsh_nn::Hooks::new(),
                })
            }

            $(#[$run_doc])*
            ///
            /// # Errors
            /// Ids outside of the vocabulary, more tokens than positions where there is a limit, shapes that differ.
            #[torsh_tensor::names_caller]
            pub fn forward_with(
                &self,
                inputs: $crate::blocks::encoder::TokenInputs<'_>,
            ) -> torsh_tensor::Result<$crate::blocks::encoder::EncoderOutput> {
                let $p = self;
                let most: Option<usize> = $positions;
                let layout = $crate::blocks::encoder::Layout::new(stringify!($name), &inputs, most)?;
                let ($m, $inputs, $layout) = (self, &inputs, &layout);
                let x: torsh_tensor::Result<torsh_tensor::Tensor> = $run;
                let x = layout.unpack(x?)?;
                let output = $crate::blocks::encoder::EncoderOutput::of(x);
                $(
                    let mut output = output;
                    let ($q, $output) = (self, &output);
                    output.pooler_output = $pooler.transpose()?;
                )?
                Ok(output)
            }
        }

        impl torsh_nn::Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(
                &self,
                input_ids: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                self.hooks.run(self, input_ids, |ids| {
                    let inputs = $crate::blocks::encoder::TokenInputs::new(ids);
                    Ok(self.forward_with(inputs)?.last_hidden_state)
                })
            }
        }

        impl $crate::models::TextModel for $name {
            #[torsh_tensor::names_caller]
            fn forward_named(
                &self,
                inputs: &$crate::models::ModelInputs,
            ) -> torsh_tensor::Result<$crate::models::ModelOutputs> {
                let inputs = $crate::blocks::encoder::TokenInputs::named(inputs)?;
                Ok(self.forward_with(inputs)?.named())
            }
        }
    };
}
pub(crate) use encoder_model;
