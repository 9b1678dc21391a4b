//! Layers of ToRSh, as `torch.nn`: the trait [`Module`], the methods of every module
//! ([`ModuleExt`]), layers, losses and their initialisation ([`init`]).

extern crate self as torsh_nn;

pub mod construct;
pub mod init;
mod layers;
pub mod module;
mod summary;
pub mod utils;

pub use layers::*;
pub use module::{
    Buffer, FieldMut, FieldRef, GradientCheckpointing, HookOptions, Hooks, IncompatibleKeys,
    LoadStateDictOptions, Module, ModuleExt, ModuleField, ModuleFields, Momentum, Parameter,
    RemovableHandle, StateDict, Training, register_module_forward_hook,
    register_module_forward_pre_hook, register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
};
pub use summary::{LayerSummary, ModelSummary, summary, summary_with};
pub use torsh_functional as functional;
pub use torsh_functional::{EmbeddingBagMode, InterpolateMode, Padding, Reduction, Size2};
pub use torsh_macros::Module;
