//! Names of a state dict.

use crate::module::StateDict;

/// Takes a prefix off the names that begin with it, as `module.` of what `DistributedDataParallel` wrote
/// (`torch.nn.modules.utils.consume_prefix_in_state_dict_if_present`). The order stays.
///
/// ```
/// use torsh_nn::utils::consume_prefix_in_state_dict_if_present;
/// use torsh_nn::{Linear, ModuleExt, StateDict};
/// use torsh_tensor::tensor;
/// let mut state = StateDict::from([("module.weight", tensor![[1.0, 2.0]]), ("module.bias", tensor![3.0])]);
/// consume_prefix_in_state_dict_if_present(&mut state, "module.");
/// assert_eq!(state.keys().collect::<Vec<_>>(), ["weight", "bias"]);
/// Linear::new(2, 1).load_state_dict(&state)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn consume_prefix_in_state_dict_if_present(state: &mut StateDict, prefix: &str) {
    *state = std::mem::take(state)
        .into_iter()
        .map(|(name, tensor)| match name.strip_prefix(prefix) {
            Some(rest) => (rest.to_string(), tensor),
            None => (name, tensor),
        })
        .collect();
}
