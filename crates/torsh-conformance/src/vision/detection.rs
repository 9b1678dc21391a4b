//! What detection models compute.

use torsh_vision::models::VisionModel;

use super::models::{Case, Problems};

/// Compares results, losses, gradients and a step.
pub(super) fn check(
    _case: &Case,
    _model: &mut Box<dyn VisionModel>,
    _problems: &mut Problems,
) -> Result<(), String> {
    Err("detection is not compared".into())
}
