//! Transformers and Mamba with the names, keys and results of Hugging Face's library, one file per family.

mod auto;
mod bart;
mod bart_classifier;
mod decoder;
mod decoder_layer;
mod decoder_models;
mod decoder_spec;
mod gemma;
mod gemma2;
mod gemma3;
mod llama;
mod mistral;
mod mixtral;
mod phi3;
mod pretrained;
mod qwen2;
mod qwen3;
mod seq2seq;
mod t5;
mod t5_config;
mod t5_layers;
pub(crate) mod text_model;
mod whisper;
mod whisper_config;
mod whisper_layers;

pub use auto::{AutoModel, architectures, from_config};
pub use bart::{BartConfig, BartForConditionalGeneration, BartModel, BartStack};
pub use bart_classifier::BartForSequenceClassification;
pub use decoder_layer::{DecoderAttention, DecoderLayer};
pub use decoder_spec::LayerType;
pub use gemma::{GemmaConfig, GemmaForCausalLM, GemmaForSequenceClassification, GemmaModel};
pub use gemma2::{Gemma2Config, Gemma2ForCausalLM, Gemma2ForSequenceClassification, Gemma2Model};
pub use gemma3::{
    Gemma3ForCausalLM, Gemma3TextConfig, Gemma3TextForSequenceClassification, Gemma3TextModel,
};
pub use llama::{LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, LlamaModel};
pub use mistral::{
    MistralConfig, MistralForCausalLM, MistralForSequenceClassification, MistralModel,
};
pub use mixtral::{
    MixtralConfig, MixtralForCausalLM, MixtralForSequenceClassification, MixtralModel,
};
pub use phi3::{Phi3Config, Phi3ForCausalLM, Phi3ForSequenceClassification, Phi3Model};
pub(crate) use pretrained::{Class, adapt, is_new_head, pretrained};
pub use qwen2::{Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification, Qwen2Model};
pub use qwen3::{Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification, Qwen3Model};
pub use t5::{T5EncoderModel, T5ForConditionalGeneration, T5Model};
pub use t5_config::T5Config;
pub use t5_layers::{T5LayerNorm, T5Stack};
pub use text_model::{ModelInputs, ModelOutputs, TextModel};
pub use whisper::{WhisperForConditionalGeneration, WhisperModel};
pub use whisper_config::WhisperConfig;
pub use whisper_layers::{WhisperDecoder, WhisperEncoder};
mod albert;
mod bert;
mod distilbert;
mod electra;
mod modernbert;
mod roberta;
pub use crate::blocks::encoder::{
    BertEmbeddings, BertEncoder, BertLayer, BertPooler, ClassificationHead, EncoderOutput,
    TokenInputs,
};
pub use albert::{
    AlbertConfig, AlbertForMaskedLM, AlbertForQuestionAnswering, AlbertForSequenceClassification,
    AlbertForTokenClassification, AlbertLayer, AlbertLayerGroup, AlbertMLMHead, AlbertModel,
    AlbertTransformer,
};
pub use bert::{
    BERT, BertConfig, BertForMaskedLM, BertForQuestionAnswering, BertForSequenceClassification,
    BertForTokenClassification, BertMlmHead, BertModel,
};
pub use distilbert::{
    DistilBertConfig, DistilBertForMaskedLM, DistilBertForQuestionAnswering,
    DistilBertForSequenceClassification, DistilBertForTokenClassification, DistilBertLayer,
    DistilBertModel, DistilBertTransformer,
};
pub use electra::{
    ElectraConfig, ElectraDiscriminatorPredictions, ElectraForMaskedLM, ElectraForPreTraining,
    ElectraForQuestionAnswering, ElectraForSequenceClassification, ElectraForTokenClassification,
    ElectraGeneratorPredictions, ElectraModel,
};
pub use modernbert::{
    ClassifierPooling, ModernBertConfig, ModernBertForMaskedLM, ModernBertForQuestionAnswering,
    ModernBertForSequenceClassification, ModernBertForTokenClassification, ModernBertLayer,
    ModernBertModel, ModernBertPredictionHead,
};
pub use roberta::{
    RobertaConfig, RobertaEmbeddings, RobertaForMaskedLM, RobertaForQuestionAnswering,
    RobertaForSequenceClassification, RobertaForTokenClassification, RobertaLMHead, RobertaModel,
};
mod audio;
mod causal;
mod clip;
mod clip_encoder;
mod clip_text;
mod clip_vision;
mod dinov2;
mod encoder_layers;
mod gpt2;
mod gpt_neox;
mod mamba;
mod mamba_config;
mod mamba_mixer;
mod opt;
mod renamed_weights;
mod vit;
mod wav2vec2;
mod wav2vec2_adapter;
mod wav2vec2_config;
mod wav2vec2_features;
mod wav2vec2_layers;
pub use audio::{ctc_greedy_decode, normalize_sound};
pub use clip::{CLIP, CLIPConfig, CLIPModel, CLIPOutput};
pub use clip_text::{CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTextOutput};
pub use clip_vision::{
    CLIPVisionConfig, CLIPVisionModel, CLIPVisionModelWithProjection, CLIPVisionOutput,
};
pub use dinov2::{Dinov2, Dinov2Config, Dinov2ForImageClassification, Dinov2Model};
pub use encoder_layers::ImageSize;
pub use gpt_neox::{GPTNeoX, GPTNeoXConfig, GPTNeoXForCausalLM, GPTNeoXModel};
pub use gpt2::{GPT2, GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel, GPT2Model};
pub use mamba::{Mamba, MambaForCausalLM, MambaModel};
pub use mamba_config::{MambaConfig, TimeStepRank};
pub use opt::{OPT, OPTConfig, OPTForCausalLM, OPTModel};
pub use vit::{ViT, ViTConfig, ViTForImageClassification, ViTModel, ViTOutput};
pub use wav2vec2::{Wav2Vec2, Wav2Vec2ForCTC, Wav2Vec2Model, Wav2Vec2Output};
pub use wav2vec2_config::Wav2Vec2Config;
