//! Language models, tokenizers, generation, text data and metrics, and speech.
//!
//! * [`models`]: transformers with the names, keys and results of Hugging Face's library.
//! * [`blocks`]: what the models are built of: attention with its cache, rotary embeddings, feed-forward layers.
//! * [`generation`]: greedy and sampled continuations, beams, contrastive search, assisted and constrained decoding.
//! * [`tokenizers`]: `tokenizer.json` and its ancestors, vocabularies, chat templates, training.
//! * [`data`] and [`metrics`]: readers of text data sets; BLEU, chrF, TER, ROUGE, WER and others.
//! * [`speech`]: Whisper, log-mel spectrograms, voice activity detection.
//! * [`adapters`]: LoRA as `peft` stores it.
#![forbid(unsafe_code)]

pub mod adapters;
pub mod blocks;
pub mod config;
pub mod data;
pub mod generation;
pub mod metrics;
pub mod models;
pub mod sentence;
pub mod speech;
pub mod tokenizers;
