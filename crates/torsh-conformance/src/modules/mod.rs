//! The layers of `torch.nn`: how each is built and called.
//!
//! A layer is one entry in the file of its family, found by PyTorch's class name:
//!
//! ```text
//! "Linear" => one(
//!     Linear::builder(a.at(0, "in_features")?, a.at(1, "out_features")?)
//!         .bias(a.or(2, "bias", true)?)
//!         .build()?,
//! ),
//! ```
//!
//! `a` holds the constructor's arguments. `Args::at` reads a required one by its position and
//! PyTorch's name, `Args::or` one with a default, `Args::opt` one that may be `None`. What no
//! entry reads is a failure, so an argument of PyTorch is never ignored. The dtype needs no
//! argument: the runner calls `to_dtype` on what was built.
//!
//! `one` is a layer whose `forward` takes one tensor, `two` one whose `forward_with` takes an
//! input and a target, and `with` any other: its closure gets the layer and the arguments of
//! `forward` and returns the outputs in PyTorch's order, tuples flattened.
//!
//! The cases run a layer in each layout of its arguments; outputs, gradients of arguments and
//! parameters, and the whole state dict afterwards are compared.

mod activation;
mod args;
mod conv;
mod distance;
mod dropout;
mod embedding;
mod linear;
mod loss;
mod norm;
mod padding;
mod pool;
mod recurrent;
pub(crate) mod run;
mod shape;
mod transformer;

pub(crate) use args::Args;
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_tensor::{Device, Result, Tensor};

use crate::executor::{ModuleCall, ModuleOutcome};
use crate::torsh::{data, drawing, dtype, tensor, text};

/// Every family; a new file is named here.
const FAMILIES: &[fn(&str, &Args) -> Result<Option<Built>>] = &[
    activation::build,
    conv::build,
    distance::build,
    dropout::build,
    embedding::build,
    linear::build,
    loss::build,
    norm::build,
    padding::build,
    pool::build,
    recurrent::build,
    shape::build,
    transformer::build,
];

/// A layer, and how it is called.
pub(crate) type Built = Box<dyn Layer>;

/// A layer of any type, with its own way of being called.
pub(crate) trait Layer {
    /// The layer.
    fn module(&mut self) -> &mut dyn Module;

    /// Its outputs, in PyTorch's order.
    fn run(&self, call: &Args) -> Result<Vec<Tensor>>;
}

struct With<M, F>(M, F);

impl<M: Module, F: Fn(&M, &Args) -> Result<Vec<Tensor>>> Layer for With<M, F> {
    fn module(&mut self) -> &mut dyn Module {
        &mut self.0
    }

    fn run(&self, call: &Args) -> Result<Vec<Tensor>> {
        (self.1)(&self.0, call)
    }
}

/// A layer that is called by `call`.
fn with<M: Module>(layer: M, call: impl Fn(&M, &Args) -> Result<Vec<Tensor>> + 'static) -> Built {
    Box::new(With(layer, call))
}

/// A layer whose `forward` takes one tensor.
fn one<M: Module>(layer: M) -> Built {
    with(layer, |m: &M, c| {
        Ok(vec![m.forward(&c.at::<Tensor>(0, "input")?)?])
    })
}

/// A layer that takes an input and a target.
fn two<M: Module>(
    layer: M,
    forward: impl Fn(&M, &Tensor, &Tensor) -> Result<Tensor> + 'static,
) -> Built {
    with(layer, move |m, c| {
        let (input, target) = (c.at(0, "input")?, c.at(1, "target")?);
        Ok(vec![forward(m, &input, &target)?])
    })
}

/// Builds a layer, loads it, moves it to the device, runs it there forward and backward.
pub(crate) fn call(
    call: &ModuleCall,
    device: Device,
) -> Option<std::result::Result<ModuleOutcome, String>> {
    let done = run(call, device);
    let late = torsh_tensor::devices::synchronize(device).map_err(text);
    done.and_then(|outcome| late.map(|()| outcome)).transpose()
}

fn run(call: &ModuleCall, device: Device) -> std::result::Result<Option<ModuleOutcome>, String> {
    let init = Args::new(
        &call.module,
        &call.init_args,
        &call.init_kwargs,
        Device::Cpu,
    )?;
    let mut built = None;
    {
        let _drawing = drawing();
        for build in FAMILIES {
            built = build(&call.module, &init).map_err(text)?;
            if built.is_some() {
                break;
            }
        }
    }
    let Some(mut built) = built else {
        return Ok(None);
    };
    init.finish()?;
    let module = built.module();
    module.to_dtype(dtype(call.dtype)?).map_err(text)?;
    let mut state = StateDict::new();
    for (name, memory) in &call.state {
        state.insert(name.as_str(), tensor(memory, Device::Cpu)?);
    }
    module.load_state_dict(&state).map_err(text)?;
    module.to_device(device).map_err(text)?;
    module.set_training(call.training);
    let (names, parameters): (Vec<_>, Vec<_>) = module.named_parameters().into_iter().unzip();

    let forward = Args::new(&call.module, &call.args, &call.kwargs, device)?;
    let outputs = built.run(&forward).map_err(text)?;
    forward.finish()?;
    let (mut differentiated, mut seeds) = (Vec::new(), Vec::new());
    for (i, cotangent) in &call.cotangents {
        let output = outputs
            .get(*i)
            .ok_or_else(|| format!("there is no output {i}"))?;
        differentiated.push(output.clone());
        seeds.push(Some(tensor(cotangent, device)?));
    }
    let mut leaves = forward.leaves().to_vec();
    let arguments = leaves.len();
    leaves.extend(parameters.iter().map(Tensor::from));
    let grads = torsh_tensor::grad(&differentiated, &leaves, &seeds, false, false, true)
        .map_err(|e| format!("backward: {}", text(e)))?;
    let mut grads = grads
        .iter()
        .map(|g| g.as_ref().map(data).transpose())
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let param_grads = names.into_iter().zip(grads.split_off(arguments)).collect();
    let state = built.module().state_dict();
    Ok(Some(ModuleOutcome {
        outputs: outputs
            .iter()
            .map(data)
            .collect::<std::result::Result<_, _>>()?,
        grads,
        param_grads,
        state: state
            .iter()
            .map(|(name, t)| Ok((name.to_string(), data(t)?)))
            .collect::<std::result::Result<_, String>>()?,
    }))
}
