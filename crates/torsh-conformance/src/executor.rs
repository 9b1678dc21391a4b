//! What runs the calls. The runner knows only this trait; ToRSh is one implementation, and the
//! runner's own tests bring others that err on purpose.

use crate::case::Value;
use crate::layouts::Memory;
use crate::tensors::TensorData;

/// One call by name.
#[derive(Clone, Debug)]
pub struct Call {
    /// PyTorch's name of the operator.
    pub op: String,
    /// Positional arguments, the input first.
    pub args: Vec<Value<Memory>>,
    /// Named arguments.
    pub kwargs: Vec<(String, Value<Memory>)>,
    /// The operator writes into its first argument, which must therefore be a copy of the leaf.
    pub writes: bool,
    /// If given, gradients are wanted: output number and cotangent.
    pub cotangents: Option<Vec<(usize, Memory)>>,
}

impl Call {
    /// The tensors that require grad, in the order of the arguments: the order of the gradients.
    pub fn leaves(&self) -> Vec<&Memory> {
        let kwargs = self.kwargs.iter().map(|(_, v)| v);
        let all = self.args.iter().chain(kwargs).flat_map(Value::tensors);
        all.filter(|m| m.requires_grad).collect()
    }
}

/// What came of a call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The result's tensors in order; a number or boolean is a 0-d tensor.
    pub outputs: Vec<TensorData>,
    /// One per leaf where gradients were wanted, `None` for no gradient; or why there are none.
    pub grads: Option<Result<Vec<Option<TensorData>>, String>>,
}

/// Runs calls. Panics are the runner's to catch.
pub trait Executor: Sync {
    /// Whether there is an operator of that name.
    fn has(&self, op: &str) -> bool;

    /// Runs one call.
    ///
    /// # Errors
    /// The error's text.
    fn call(&self, call: &Call) -> Result<Outcome, String>;

    /// What is printed for a tensor, or (`doubled`) for the tensor times 2.
    ///
    /// # Errors
    /// The error's text.
    fn print(&self, value: &Memory, doubled: bool) -> Result<String, String>;
}
