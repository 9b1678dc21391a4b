//! What the builders of detectors have in common.

use torsh_nn::StateDict;
use torsh_tensor::Result;

use crate::models::{Common, Weights};

/// The present name of a parameter that older checkpoints have, of a model with a feature pyramid.
pub(super) fn older_names(name: &str) -> Option<String> {
    let (start, kind) = name.rsplit_once('.')?;
    if start == "rpn.head.conv" {
        return Some(format!("rpn.head.conv.0.0.{kind}"));
    }
    if let Some(number) = start.strip_prefix("roi_heads.mask_head.mask_fcn") {
        let number: usize = number.parse().ok()?;
        return Some(format!(
            "roi_heads.mask_head.{}.0.{kind}",
            number.checked_sub(1)?
        ));
    }
    for blocks in ["backbone.fpn.inner_blocks.", "backbone.fpn.layer_blocks."] {
        if let Some(number) = start.strip_prefix(blocks)
            && number.parse::<usize>().is_ok()
        {
            return Some(format!("{start}.0.{kind}"));
        }
    }
    None
}

/// The same of RetinaNet, whose heads also changed.
pub(super) fn older_names_of_retinanet(name: &str) -> Option<String> {
    let (start, kind) = name.rsplit_once('.')?;
    for head in ["head.classification_head.conv", "head.regression_head.conv"] {
        if let Some(number) = start.strip_prefix(head).and_then(|n| n.strip_prefix('.'))
            && let Ok(number) = number.parse::<usize>()
        {
            return Some(format!("{head}.{}.0.{kind}", number / 2));
        }
    }
    older_names(name)
}

/// What the arguments say of the backbone's weights.
pub(super) struct Trained {
    /// Whether the backbone's weights are given rather than drawn.
    pub trained: bool,
    /// Whether its norms are batch norms that go on learning.
    pub batch_norm: bool,
}

/// Whether the backbone's weights are given, in the model's or in its own file. Its norms are batch norms where weights
/// are drawn, or where the file has the numbers of batches that only batch norms count.
pub(super) fn trained(common: &Common, backbone: &Weights) -> Result<Trained> {
    let state: Option<StateDict> = common.state()?;
    let counts = state.as_ref().is_some_and(|s| {
        s.keys()
            .any(|k| k.starts_with("backbone.body.") && k.ends_with("num_batches_tracked"))
    });
    let trained = state.is_some() || !backbone.is_none();
    Ok(Trained {
        trained,
        batch_norm: !trained || counts,
    })
}

/// How many of the backbone's parts are trained.
pub(super) fn trainable_layers(
    op: &'static str,
    trained: bool,
    wanted: Option<usize>,
    max: usize,
    default: usize,
) -> Result<usize> {
    match wanted {
        _ if !trained => Ok(max),
        None => Ok(default),
        Some(n) if n <= max => Ok(n),
        Some(n) => Err(torsh_tensor::TorshError::invalid(
            op,
            format!("trainable_backbone_layers is at most {max}, got {n}"),
        )),
    }
}
