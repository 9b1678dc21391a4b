//! Which optimizers train pieces as they would train wholes.

use torsh_optim::Optimizer;
use torsh_tensor::{Result, TorshError};

use super::unit::owner_of_piece;

/// An error if an optimizer that trains pieces of sharded parameters needs whole ones.
///
/// Most optimizers treat each element by itself, so pieces are as good. `Muon` and `Adafactor` look at whole matrices:
/// [`GatheringOptimizer`](crate::GatheringOptimizer) runs them. `LBFGS` looks at all parameters at once and is refused.
///
/// ```
/// use torsh_distributed::{DeviceMesh, FullyShardOptions, check_optimizer, fully_shard, spawn};
/// use torsh_nn::Linear;
/// use torsh_optim::{AdamW, LBFGS};
///
/// let fine = spawn(2, |_| {
///     let mesh = DeviceMesh::new(&[2], &["dp"])?;
///     let mut layer = Linear::new(2, 3);
///     fully_shard(&mut layer, &mesh, FullyShardOptions::default())?;
///     let parameters = [&layer.weight];
///     let (adam, lbfgs) = (AdamW::new(parameters, 0.1)?, LBFGS::new(parameters, 1.0)?);
///     Ok((check_optimizer(&adam).is_ok(), check_optimizer(&lbfgs).is_ok()))
/// })?;
/// assert_eq!(fine, [(true, false); 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As above.
#[torsh_tensor::names_caller]
pub fn check_optimizer(optimizer: &dyn Optimizer) -> Result<()> {
    let Some((name, hint)) = needs_wholes(optimizer) else {
        return Ok(());
    };
    let pieces = optimizer.parameters();
    let Some((unit, i)) = pieces.iter().find_map(owner_of_piece) else {
        return Ok(());
    };
    let params = unit.params();
    let parameter = params.get(i).map_or("", |p| p.name.as_str());
    Err(TorshError::invalid(
        name,
        format!(
            "it needs whole parameters, and {parameter} of {} is a piece of {:?}",
            unit.name,
            params.get(i).map(|p| p.shape.clone()).unwrap_or_default()
        ),
    )
    .with_hint(hint))
}

/// The name of an optimizer that does not treat each element by itself, told by its settings, and what to use.
pub(super) fn needs_wholes(optimizer: &dyn Optimizer) -> Option<(&'static str, &'static str)> {
    let gathering = "run it by GatheringOptimizer::new(parameters, |wholes| ..)";
    let settings = [
        ("history_size", "LBFGS", "use AdamW or SGD"),
        ("beta2_decay", "Adafactor", gathering),
        ("ns_steps", "Muon", gathering),
    ];
    settings
        .into_iter()
        .find(|(setting, ..)| optimizer.get_option(0, setting).is_some())
        .map(|(_, name, hint)| (name, hint))
}
