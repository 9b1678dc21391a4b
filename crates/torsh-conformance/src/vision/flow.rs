//! What models of optical flow compute.

use std::any::Any;

use torsh_nn::ModuleExt;
use torsh_tensor::{Tensor, no_grad};
use torsh_vision::models::VisionModel;
use torsh_vision::models::optical_flow::RAFT;

use super::models::{Case, Problems, compare_output, exact_weights, field, input, text};

/// How many updates the files have.
const UPDATES: usize = 3;

/// Compares the flow with initial weights, and the flows of three updates with exact ones.
pub(super) fn check(
    case: &Case,
    model: &mut Box<dyn VisionModel>,
    problems: &mut Problems,
) -> Result<(), String> {
    let any: &dyn Any = &**model;
    let raft = any
        .downcast_ref::<RAFT>()
        .ok_or_else(|| format!("{} is no RAFT", case.name()))?;
    raft.eval();
    let images = input(case)?;
    let flows = || -> Result<Vec<Tensor>, String> {
        no_grad(|| {
            let images = images.mul(2.0)?.sub(1.0)?;
            raft.forward_with(&images.narrow(0, 0, 1)?, &images.narrow(0, 1, 1)?, UPDATES)
        })
        .map_err(text)
    };
    let drawn = flows()?;
    let last = drawn.last().ok_or("there is no flow")?;
    let expected = field(field(&case.json, "eval_f32")?, "out")?;
    compare_output("eval_f32.out", last, expected, 1e-4, problems)?;
    exact_weights(case, &**model)?;
    let expected = field(&case.json, "eval_f32_exact")?;
    let expected = expected.as_array().ok_or("eval_f32_exact is no list")?;
    let exact = flows()?;
    if exact.len() != expected.len() {
        problems.add(format!("{} flows, not {}", exact.len(), expected.len()));
    }
    for (i, (flow, expected)) in exact.iter().zip(expected).enumerate() {
        let name = format!("eval_f32_exact.{i}");
        compare_output(&name, flow, field(expected, "out")?, 1e-4, problems)?;
    }
    Ok(())
}
