//! Adapters: LoRA as `peft` names and stores it.
//!
//! [`LoraModel`] wraps any model of this crate, or any other module. It freezes the model and gives each linear layer that
//! [`LoraConfig::target_modules`] names two small matrices that are trained in its place (Hu et al., "LoRA: Low-Rank
//! Adaptation of Large Language Models", 2021). What is trained is saved as `adapter_config.json` and
//! `adapter_model.safetensors`, which Python's `peft` loads, and the other way round.
//!
//! ```
//! use torsh_nn::{Linear, Module, ModuleExt, ReLU, Sequential};
//! use torsh_tensor::ones;
//! use torsh_text::adapters::{LoraConfig, LoraModel};
//!
//! let base = Sequential::new().add(Linear::new(4, 8)).add(ReLU::new()).add(Linear::new(8, 2));
//! let before = base.forward(&ones([1, 4]))?;
//! let model = LoraModel::new(base, LoraConfig::new().r(2).target_modules(["0", "2"]))?;
//! assert_eq!(model.trainable_parameters(), (2 * (4 + 8) + 2 * (8 + 2), 102));
//!
//! // Training begins at the model as it was, and changes the new matrices alone.
//! let y = model.forward(&ones([1, 4]))?;
//! assert_eq!(y, before);
//! y.sum()?.backward()?;
//! let trained: Vec<String> = model.named_parameters().into_iter().filter(|(_, p)| p.has_grad()).map(|(n, _)| n).collect();
//! assert_eq!(trained[0], "base_model.model.0.lora_A.default.weight");
//! assert_eq!(trained.len(), 4);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod config;
mod files;
mod layer;
mod model;
mod tied;

pub use config::{LoraBias, LoraConfig, LoraInit, TargetModules};
pub use layer::LoraLayer;
pub use model::LoraModel;

#[cfg(test)]
mod tests;
