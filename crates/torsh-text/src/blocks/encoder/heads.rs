//! Heads of encoders, and the macros that declare models with them.

use torsh_nn::construct::{self, Construction};
use torsh_nn::{Dropout, Embedding, Hooks, Linear, Module, Parameter};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::blocks::{Activation, init};

/// The classifier of RoBERTa and ELECTRA: two linear layers on each text's first token.
#[derive(Module)]
pub struct ClassificationHead {
    dense: Linear,
    dropout: Dropout,
    out_proj: Linear,
    #[module(skip)]
    activation: Activation,
    hooks: Hooks,
}

impl ClassificationHead {
    pub(crate) fn new(
        width: usize,
        labels: usize,
        dropout: f64,
        activation: Activation,
        std: f64,
    ) -> Result<ClassificationHead> {
        Ok(ClassificationHead {
            dense: init::linear(width, width, true, std)?,
            dropout: Dropout::new(dropout)?,
            out_proj: init::linear(width, labels, true, std)?,
            activation,
            hooks: Hooks::new(),
        })
    }
}

impl Module for ClassificationHead {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let x = self.dropout.forward(&x.select(1, 0)?)?;
            let x = self.activation.apply(&self.dense.forward(&x)?)?;
            self.out_proj.forward(&self.dropout.forward(&x)?)
        })
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

/// Declares a model with a head: an encoder in a field of its own name, the layers of the head, and what they compute.
///
/// ```text
/// task_model! {
///     /// Documentation.
///     BertForTokenClassification(bert: BertModel, BertConfig) = |c| BertModel::without_pooler(c.clone())?;
///     |encoder| {
///         /// The classifier.
///         classifier: Linear = init::linear(c.hidden_size, c.num_labels, true, c.initializer_range)?;
///     }
///     logits |m, output, inputs| m.classifier.forward(&output.last_hidden_state)
/// }
/// ```
///
/// With `spans` instead of `logits`, the last dimension of 2 becomes `start_logits` and `end_logits`.
macro_rules! task_model {
    (
        $(#[$doc:meta])*
        $name:ident($base:ident: $Base:ident, $Config:ident) = |$c:ident| $make:expr;
        |$encoder:ident| { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $value:expr;)* }
        $kind:ident |$m:ident, $output:ident, $inputs:ident| $logits:expr
    ) => {
        $(#[$doc])*
        #[derive(torsh_nn::Module)]
        pub struct $name {
            /// The model under the head.
            pub $base: $Base,
            $($(#[$field_doc])* pub $field: $ty,)*
            #[module(skip)]
            config: $Config,
            training: torsh_nn::Training,
            hooks: torsh_nn::Hooks,
        }

        impl $name {
            /// A model with drawn weights.
            ///
            /// # Errors
            /// Sizes that do not fit together.
            #[torsh_tensor::names_caller(Self)]
            pub fn new(config: $Config) -> torsh_tensor::Result<Self> {
                $crate::blocks::encoder::task_model!(@check $kind, $name, config);
                let $c = &config;
                let $encoder = $make;
                $(let $field = $value;)*
                Ok($name {
                    $base: $encoder,
                    $($field,)*
                    config,
                    training: torsh_nn::Training::default(),
                    hooks: torsh_nn::Hooks::new(),
                })
            }

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

        impl torsh_nn::Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(
                &self,
                input_ids: &torsh_tensor::Tensor,
            ) -> torsh_tensor::Result<torsh_tensor::Tensor> {
                self.hooks.run(self, input_ids, |ids| {
                    self.logits($crate::blocks::encoder::TokenInputs::new(ids))
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
                $crate::blocks::encoder::task_model!(@named $kind, self, inputs)
            }
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
    (@named logits, $self:ident, $inputs:ident) => {
        Ok(vec![("logits", $self.logits($inputs)?)])
    };
    (@named spans, $self:ident, $inputs:ident) => {{
        let (start, end) = $self.forward_with($inputs)?;
        Ok(vec![("start_logits", start), ("end_logits", end)])
    }};
}
pub(crate) use task_model;

/// Implements `Module` and `TextModel` for encoders with `forward_with(TokenInputs) -> Result<EncoderOutput>`.
macro_rules! encoder_model {
    ($name:ident) => {
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
