//! The trait of all models, and what goes in and out by name.

use torsh_nn::Module;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::generation::GenerationModel;

/// What a model reads, by the names that Hugging Face's library has for its arguments.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::models::ModelInputs;
/// let inputs = ModelInputs::ids(tensor![[101, 7, 102]]);
/// assert_eq!(inputs.input_ids()?.dims(), [1, 3]);
/// assert!(inputs.pixel_values().is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ModelInputs {
    /// Token ids `[batch, length]` (int64).
    pub input_ids: Option<Tensor>,
    /// 1 for tokens and 0 for padding, `[batch, length]`.
    pub attention_mask: Option<Tensor>,
    /// The number of each token's part in a pair of texts, `[batch, length]` (int64).
    pub token_type_ids: Option<Tensor>,
    /// Token ids of the decoder `[batch, length]` (int64).
    pub decoder_input_ids: Option<Tensor>,
    /// Images `[batch, channels, height, width]`.
    pub pixel_values: Option<Tensor>,
    /// A log-mel spectrogram `[batch, mel bins, frames]`.
    pub input_features: Option<Tensor>,
    /// Sound `[batch, samples]`.
    pub input_values: Option<Tensor>,
}

macro_rules! wanted {
    ($($name:ident),*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`, which the model needs.")]
            ///
            /// # Errors
            /// It was not given.
            #[torsh_tensor::names_caller]
            pub fn $name(&self) -> Result<&Tensor> {
                self.$name.as_ref().ok_or_else(|| {
                    TorshError::invalid("forward", concat!("the model needs ", stringify!($name)))
                })
            }
        )*
    };
}

impl ModelInputs {
    /// Token ids alone.
    pub fn ids(input_ids: Tensor) -> ModelInputs {
        ModelInputs {
            input_ids: Some(input_ids),
            ..ModelInputs::default()
        }
    }

    wanted!(
        input_ids,
        decoder_input_ids,
        pixel_values,
        input_features,
        input_values
    );
}

/// What a model computes, by the names of Hugging Face's library: `last_hidden_state`, `pooler_output`, `logits`, ..
pub type ModelOutputs = Vec<(&'static str, Tensor)>;

/// A model of this crate by its architecture's name, with inputs and outputs by name.
///
/// Every model has a method `forward_with` or [`GenerationModel::decode`] with arguments of its own types besides;
/// this trait is for programs that do not know which model they have.
pub trait TextModel: Module {
    /// Computes all outputs.
    ///
    /// # Errors
    /// An input that the model needs and was not given, and whatever its own functions refuse.
    fn forward_named(&self, inputs: &ModelInputs) -> Result<ModelOutputs>;

    /// The model as one that continues texts, where it is one.
    fn as_generation(&self) -> Option<&dyn GenerationModel> {
        None
    }
}
