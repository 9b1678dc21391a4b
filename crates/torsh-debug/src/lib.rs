//! Inspection of tensors, gradients and models during development, and checks of external data:
//! inputs, outputs and model files.
//!
//! | here | what |
//! |---|---|
//! | [`debug_tensor`], [`debug_gradients`] | print a report and return it |
//! | [`validate_model_inputs`], [`validate_input_tensor`], [`validate_model_output`] | refuse tensors |
//! | [`validate_model_state`] | refuses a model whose parameters are not finite |
//! | [`sanitize_model_input`], [`safe_division`] | compute what cannot go wrong |
//! | [`safe_load_model`], [`secure_model_loading`] | load files within limits |
//!
//! A wrong value is an error that names it; unusual values are returned as [`Warning`]s.
#![forbid(unsafe_code)]

mod file;
mod gradients;
mod hash;
mod input;
mod model;
mod report;

pub use file::{
    ModelConstraints, load_model_with_constraints, safe_load_model, secure_model_loading,
    validate_model_architecture,
};
pub use gradients::{
    GradientEntry, GradientLimits, GradientReport, GradientState, debug_gradients,
    debug_gradients_with,
};
pub use hash::{compute_file_hash, load_expected_hash, save_expected_hash, verify_model_checksum};
pub use input::{
    InputLimits, SanitizeOptions, safe_division, sanitize_model_input, sanitize_model_input_with,
    validate_input_tensor, validate_input_tensor_with, validate_model_inputs,
    validate_model_output,
};
pub use model::{
    ModelStateLimits, validate_model_state, validate_model_state_with, validate_model_structure,
};
pub use report::{TensorReport, debug_tensor};
pub use torsh_tensor::{TensorStats, tensor_stats};

use std::fmt;

/// Something unusual that is no error: what it is about, the value, and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// The parameter's or argument's name.
    pub field: String,
    /// The value that is unusual.
    pub value: f64,
    /// What is unusual about it.
    pub message: String,
}

impl Warning {
    fn new(field: impl Into<String>, value: f64, message: impl Into<String>) -> Warning {
        Warning {
            field: field.into(),
            value,
            message: message.into(),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({:.4e})", self.field, self.message, self.value)
    }
}
