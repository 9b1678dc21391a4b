//! The table of operators, with those of the crates that this one was built with.

use torsh_tensor::record::OpRecord;
use torsh_tensor::{Result, Value};

pub use torsh_tensor::ops::*;

/// Adds the ops of the enabled features to the table.
fn register_all() {
    #[cfg(feature = "linalg")]
    torsh_linalg::register();
    #[cfg(feature = "vision")]
    torsh_vision::ops::register();
}

/// Calls an op by PyTorch's name with PyTorch's arguments, as [`torsh_tensor::ops::call`]; the ops of all enabled
/// features are there.
///
/// ```
/// use torsh::{Value, ops, tensor};
/// let y = ops::call("mul", &[Value::from(&tensor![1.0, 2.0]), Value::Float(3.0)], &[])?;
/// assert_eq!(y.tensors()[0].to_vec::<f32>()?, [3.0, 6.0]);
/// # Ok::<(), torsh::TorshError>(())
/// ```
///
/// # Errors
/// If there is no op of the name, no signature takes the arguments, or the op refuses them. For an op of a feature
/// that is not enabled, the error names the feature.
#[torsh_tensor::names_caller]
pub fn call(name: &str, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Value> {
    register_all();
    torsh_tensor::ops::call(name, args, kwargs)
}

/// The names ops are called by, sorted.
///
/// ```
/// assert!(torsh::ops::names().binary_search(&"softmax").is_ok());
/// ```
pub fn names() -> Vec<&'static str> {
    register_all();
    torsh_tensor::ops::names()
}

/// The records (overloads) of a name.
///
/// ```
/// assert!(torsh::ops::find("no_such_op").is_none());
/// ```
pub fn find(name: &str) -> Option<Vec<&'static OpRecord>> {
    register_all();
    torsh_tensor::ops::find(name)
}

/// Every record of the table.
///
/// ```
/// assert!(torsh::ops::records().any(|r| r.base_name() == "add"));
/// ```
pub fn records() -> impl Iterator<Item = &'static OpRecord> {
    register_all();
    torsh_tensor::ops::records()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_by_name_finds_the_ops_of_features() {
        let error = call("linalg.svd", &[], &[])
            .expect_err("no operand")
            .to_string();
        match cfg!(feature = "linalg") {
            true => assert!(error.contains("misses 'A'"), "{error}"),
            false => assert!(
                error.starts_with("linalg.svd: built without the feature `linalg`"),
                "{error}"
            ),
        }
    }
}
