//! Ops by PyTorch's names, those of all enabled features.
//!
//! ```
//! use torsh::{Value, ops, tensor};
//! let y = ops::call("mul", &[Value::from(&tensor![1.0, 2.0]), Value::Float(3.0)], &[])?;
//! assert_eq!(y.tensors()[0].to_vec::<f32>()?, [3.0, 6.0]);
//! assert!(ops::names().binary_search(&"softmax").is_ok());
//! # Ok::<(), torsh::TorshError>(())
//! ```

pub use torsh_tensor::ops::*;

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
