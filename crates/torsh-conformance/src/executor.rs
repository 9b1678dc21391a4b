//! The executor of calls. The runner knows only this trait. ToRSh implements it, and the runner's own
//! tests have implementations that make mistakes on purpose.

use crate::case::{After, Value};
use crate::layouts::Memory;
use crate::parts::{Operand, Parts};
use crate::tensors::{Dtype, TensorData};
use crate::training::optim::{Stepped, Steps};
use crate::training::random::Draw;
use crate::training::runs::{Run, Trained};
use crate::training::schedule::{Rates, Schedule};

/// One call by name.
#[derive(Clone, Debug)]
pub struct Call<M = Memory> {
    /// PyTorch's name of the operator.
    pub op: String,
    /// Positional arguments, the input first.
    pub args: Vec<Value<M>>,
    /// Named arguments.
    pub kwargs: Vec<(String, Value<M>)>,
    /// The operator writes into its first argument, which must therefore be a copy of the leaf.
    pub writes: bool,
    /// If given, gradients are wanted: output number and cotangent.
    pub cotangents: Option<Vec<(usize, M)>>,
    /// What is applied to each output before it is returned and differentiated; `None` where the output is not
    /// compared. Empty where outputs stay as they are.
    pub after: Vec<Option<Vec<After>>>,
    /// The eigenvalues in whose order the first output, and the columns of the second, are put first.
    pub eigenvalues: Option<TensorData>,
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
pub struct Outcome<D = TensorData> {
    /// The result's tensors in order; a number or boolean is a 0-d tensor.
    pub outputs: Vec<D>,
    /// One per leaf where gradients were wanted, `None` for no gradient; or why there are none.
    pub grads: Option<Result<Vec<Option<D>>, String>>,
}

/// A layer to be built, loaded and run.
#[derive(Clone, Debug)]
pub struct ModuleCall {
    /// PyTorch's name of the class, as `Conv2d`.
    pub module: String,
    /// The dtype of its parameters.
    pub dtype: Dtype,
    /// Whether it is in training mode.
    pub training: bool,
    /// The constructor's positional arguments.
    pub init_args: Vec<Value<Memory>>,
    /// The constructor's named arguments.
    pub init_kwargs: Vec<(String, Value<Memory>)>,
    /// Parameters and buffers by name.
    pub state: Vec<(String, Memory)>,
    /// What `forward` takes.
    pub args: Vec<Value<Memory>>,
    /// What `forward` takes by name.
    pub kwargs: Vec<(String, Value<Memory>)>,
    /// Output number and cotangent.
    pub cotangents: Vec<(usize, Memory)>,
}

/// What came of a layer.
#[derive(Clone, Debug)]
pub struct ModuleOutcome {
    /// The outputs in order.
    pub outputs: Vec<TensorData>,
    /// One per argument that requires grad, `None` for no gradient.
    pub grads: Vec<Option<TensorData>>,
    /// One per parameter, by name.
    pub param_grads: Vec<(String, Option<TensorData>)>,
    /// Parameters and buffers afterwards, by name.
    pub state: Vec<(String, TensorData)>,
}

/// Runs calls. Panics are the runner's to catch.
pub trait Executor: Sync {
    /// Whether there is an operator of that name.
    fn has(&self, op: &str) -> bool;

    /// Why tensors of a dtype cannot be used, where they cannot: cases that need one are left out.
    fn lacks(&self, _dtype: Dtype) -> Option<String> {
        None
    }

    /// Why printing, random numbers, optimizers, schedulers and training runs are left out, where
    /// they are.
    fn only_calls(&self) -> Option<String> {
        None
    }

    /// What there is to tell of the calls so far, a line each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Runs one call.
    ///
    /// # Errors
    /// The error's text.
    fn call(&self, call: &Call) -> Result<Outcome, String>;

    /// Runs one call in float64 or complex128, whose results count as exact.
    ///
    /// # Errors
    /// The error's text.
    fn exact(&self, call: &Call) -> Result<Outcome, String> {
        self.call(call)
    }

    /// Builds a layer, loads its state, runs it forward and backward; `None` where there is no
    /// such layer. An error's text where it fails.
    fn module(&self, _call: &ModuleCall) -> Option<Result<ModuleOutcome, String>> {
        None
    }

    /// Draws after seeding the generator; `None` where there is no such function.
    fn draw(&self, _draw: &Draw) -> Option<Result<TensorData, String>> {
        None
    }

    /// Makes an optimizer's steps; `None` where there is no such optimizer.
    fn optimize(&self, _steps: &Steps) -> Option<Result<Stepped, String>> {
        None
    }

    /// Follows a scheduler; `None` where there is no such scheduler.
    fn schedule(&self, _schedule: &Schedule) -> Option<Result<Rates, String>> {
        None
    }

    /// Trains a model; `None` where a layer of it or the optimizer does not exist.
    fn train(&self, _run: &Run) -> Option<Result<Trained, String>> {
        None
    }

    /// What is printed for a tensor, or (`doubled`) for the tensor times 2.
    ///
    /// # Errors
    /// The error's text.
    fn print(&self, value: &Memory, doubled: bool) -> Result<String, String>;

    /// Runs one call whose operands, results and gradients may be sparse.
    ///
    /// # Errors
    /// The error's text; by default that there are no sparse tensors.
    fn sparse(&self, _call: &Call<Operand<Memory>>) -> Result<Outcome<Operand>, String> {
        Err("there are no sparse tensors here".to_string())
    }

    /// What is printed for a sparse tensor, or (`doubled`) for the tensor times 2.
    ///
    /// # Errors
    /// The error's text; by default that there are no sparse tensors.
    fn print_sparse(&self, _value: &Parts<Memory>, _doubled: bool) -> Result<String, String> {
        Err("there are no sparse tensors here".to_string())
    }
}
