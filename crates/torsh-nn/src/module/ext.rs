//! Methods of every module.

use std::collections::HashSet;
#[cfg(feature = "files")]
use std::path::Path;

use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use crate::module::fields::{as_dyn, own_hooks};
use crate::module::hooks::methods::{hook_methods, hooks};
use crate::module::replace::{self, When, replace};
use crate::module::{
    Buffer, FieldRef, HookOptions, IncompatibleKeys, LoadStateDictOptions, Module, Parameter,
    RemovableHandle, StateDict, functional_call, show, state, walk,
};

/// The conveniences of every module, a `Box<dyn Module>` included.
///
/// Names of parameters, buffers and modules are PyTorch's: the fields' names joined by dots, with
/// the index or key of an item of a container (`blocks.0.weight`).
///
/// ```
/// # use torsh_nn::{Linear, ModuleExt, ReLU, Sequential};
/// let net = Sequential::new().add(Linear::new(4, 8)).add(ReLU::new()).add(Linear::new(8, 2));
/// assert_eq!(net.num_parameters(), 4 * 8 + 8 + 8 * 2 + 2);
/// assert_eq!(net.state_dict().keys().last(), Some("2.bias"));
/// ```
pub trait ModuleExt: Module {
    /// The parameters of this module and all below it; tied ones once.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// let sizes: Vec<usize> = Linear::new(2, 3).parameters().iter().map(|p| p.numel()).collect();
    /// assert_eq!(sizes, [6, 3]);
    /// ```
    fn parameters(&self) -> Vec<Parameter> {
        self.named_parameters()
            .into_iter()
            .map(|(_, p)| p)
            .collect()
    }

    /// The parameters with their names; tied ones once, under their first name.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, ReLU, Sequential};
    /// let net = Sequential::new().add(Linear::new(2, 3)).add(ReLU::new());
    /// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["0.weight", "0.bias"]);
    /// ```
    fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let (mut out, mut seen) = (Vec::new(), HashSet::new());
        walk(self, &mut |name, field| {
            if let FieldRef::Parameter(p) = field
                && seen.insert(p.id())
            {
                out.push((name.to_string(), p.clone()));
            }
        });
        out
    }

    /// The buffers of this module and all below it, those that are not saved too.
    ///
    /// ```
    /// # use torsh_nn::{BatchNorm1d, ModuleExt};
    /// # use torsh_tensor::tensor;
    /// let buffers = BatchNorm1d::new(2)?.buffers();
    /// assert_eq!(*buffers[0], tensor![0.0, 0.0]);
    /// assert_eq!(*buffers[1], tensor![1.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn buffers(&self) -> Vec<Buffer> {
        self.named_buffers().into_iter().map(|(_, b)| b).collect()
    }

    /// The buffers with their names; those that fields share once.
    ///
    /// ```
    /// # use torsh_nn::{BatchNorm1d, ModuleExt};
    /// let norm = BatchNorm1d::new(2)?;
    /// let names: Vec<String> = norm.named_buffers().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["running_mean", "running_var", "num_batches_tracked"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        let (mut out, mut seen) = (Vec::new(), HashSet::new());
        walk(self, &mut |name, field| {
            if let FieldRef::Buffer(b) = field
                && seen.insert(b.id())
            {
                out.push((name.to_string(), b.clone()));
            }
        });
        out
    }

    /// The modules one level below.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, ModuleFields, ReLU, Sequential};
    /// let net = Sequential::new().add(Linear::new(2, 3)).add(ReLU::new());
    /// let names: Vec<&str> = net.children().iter().map(|m| m.type_name()).collect();
    /// assert_eq!(names, ["Linear", "ReLU"]);
    /// ```
    fn children(&self) -> Vec<&dyn Module> {
        self.named_children().into_iter().map(|(_, m)| m).collect()
    }

    /// The modules one level below, with their names.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, ReLU, Sequential};
    /// let net = Sequential::new().add(Linear::new(2, 3)).add(ReLU::new());
    /// assert_eq!(net.named_children()[1].0, "1");
    /// ```
    fn named_children(&self) -> Vec<(String, &dyn Module)> {
        let mut out = Vec::new();
        self.visit_fields(&mut |name, field| {
            if let FieldRef::Module(m) = field {
                out.push((name.to_string(), m));
            }
        });
        out
    }

    /// This module and all below it.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, ModuleFields, ReLU, Sequential};
    /// let net = Sequential::new().add(Sequential::new().add(ReLU::new()));
    /// let names: Vec<&str> = net.modules().iter().map(|m| m.type_name()).collect();
    /// assert_eq!(names, ["Sequential", "Sequential", "ReLU"]);
    /// ```
    fn modules(&self) -> Vec<&dyn Module> {
        self.named_modules().into_iter().map(|(_, m)| m).collect()
    }

    /// This module, under the empty name, and all below it.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, ReLU, Sequential};
    /// let net = Sequential::new().add(Sequential::new().add(ReLU::new()));
    /// let names: Vec<String> = net.named_modules().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["", "0", "0.0"]);
    /// ```
    fn named_modules(&self) -> Vec<(String, &dyn Module)> {
        let mut out = Vec::new();
        self.visit_field("", &mut |name, field| {
            if let FieldRef::Module(m) = field {
                out.push((name.to_string(), m));
            }
        });
        walk(self, &mut |name, field| {
            if let FieldRef::Module(m) = field {
                out.push((name.to_string(), m));
            }
        });
        out
    }

    /// The module of this name (`blocks.0`), the module itself for an empty one. An error where
    /// there is none.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, ModuleFields, ReLU, Sequential};
    /// let net = Sequential::new().add(Linear::new(2, 3)).add(ReLU::new());
    /// assert_eq!(net.get_submodule("1")?.type_name(), "ReLU");
    /// assert!(net.get_submodule("2").is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    fn get_submodule(&self, name: &str) -> Result<&dyn Module> {
        self.named_modules()
            .into_iter()
            .find(|(n, _)| n == name)
            .map(|(_, m)| m)
            .ok_or_else(|| {
                TorshError::invalid(
                    "get_submodule",
                    format!("{} has no module `{name}`", self.type_name()),
                )
            })
    }

    /// The parameter of this name. An error where there is none.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, Sequential};
    /// let net = Sequential::new().add(Linear::new(2, 3));
    /// assert_eq!(net.get_parameter("0.weight")?.dims(), [3, 2]);
    /// assert!(net.get_parameter("weight").is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    fn get_parameter(&self, name: &str) -> Result<Parameter> {
        let mut found = None;
        walk(self, &mut |n, field| {
            if let FieldRef::Parameter(p) = field
                && n == name
            {
                found = Some(p.clone());
            }
        });
        found.ok_or_else(|| {
            TorshError::invalid(
                "get_parameter",
                format!("{} has no parameter `{name}`", self.type_name()),
            )
        })
    }

    /// Switches to training mode, this module and all below it.
    ///
    /// ```
    /// # use torsh_nn::{Dropout, Module, ModuleExt};
    /// # use torsh_tensor::tensor;
    /// let layer = Dropout::new(1.0)?;
    /// layer.train();
    /// assert_eq!(layer.forward(&tensor![1.0, 2.0])?, tensor![0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn train(&self) -> &Self {
        self.set_training(true)
    }

    /// Switches to evaluation mode: dropout drops nothing, batch norm uses its running statistics.
    ///
    /// ```
    /// # use torsh_nn::{Dropout, Module, ModuleExt};
    /// # use torsh_tensor::tensor;
    /// let layer = Dropout::new(1.0)?;
    /// layer.eval();
    /// assert_eq!(layer.forward(&tensor![1.0, 2.0])?, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn eval(&self) -> &Self {
        self.set_training(false)
    }

    /// Switches the mode of this module and all below it.
    ///
    /// ```
    /// # use torsh_nn::{Dropout, Module, ModuleExt, Sequential};
    /// # use torsh_tensor::tensor;
    /// let net = Sequential::new().add(Dropout::new(1.0)?);
    /// net.set_training(false);
    /// assert_eq!(net.forward(&tensor![1.0, 2.0])?, tensor![1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn set_training(&self, training: bool) -> &Self {
        walk(self, &mut |_, field| {
            if let FieldRef::Training(t) = field {
                t.set(training);
            }
        });
        self
    }

    /// The mode of this module: its own, else that of the first module below it that has one. A
    /// module without layers is in training mode.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// let layer = Linear::new(2, 3);
    /// assert!(layer.is_training());
    /// assert!(!layer.eval().is_training());
    /// ```
    fn is_training(&self) -> bool {
        let mut own = None;
        self.visit_fields(&mut |name, field| {
            if let FieldRef::Training(t) = field
                && !name.contains('.')
            {
                own.get_or_insert(t.get());
            }
        });
        own.unwrap_or_else(|| {
            let mut first = None;
            walk(self, &mut |_, field| {
                if let FieldRef::Training(t) = field {
                    first.get_or_insert(t.get());
                }
            });
            first.unwrap_or(true)
        })
    }

    /// The parameters and saved buffers by name. They share their memory with the module's. Those
    /// of lazy layers that are not initialised are left out.
    ///
    /// ```
    /// # use torsh_nn::{BatchNorm1d, ModuleExt};
    /// # use torsh_tensor::tensor;
    /// let norm = BatchNorm1d::new(2)?;
    /// norm.state_dict()["weight"].fill_(3.0)?;
    /// assert_eq!(norm.weight.as_deref(), Some(&tensor![3.0, 3.0]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn state_dict(&self) -> StateDict {
        state::state_dict(self)
    }

    /// Copies the tensors of a state dict into this module's, and initialises those of lazy layers.
    /// An error that lists every missing, unexpected and mis-shaped name leaves the module as it
    /// was. So does an error where fields hold the same parameter (tied weights) and the state dict has different tensors
    /// for them, of which PyTorch keeps the last; [`assign_state_dict`](ModuleExt::assign_state_dict) takes them apart.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module, ModuleExt, StateDict};
    /// # use torsh_tensor::tensor;
    /// let layer = Linear::builder(2, 1).bias(false).build()?;
    /// layer.load_state_dict(&StateDict::from([("weight", tensor![[3.0, 4.0]])]))?;
    /// assert_eq!(layer.forward(&tensor![1.0, 10.0])?, tensor![43.0]);
    /// assert!(layer.load_state_dict(&StateDict::new()).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    fn load_state_dict(&self, from: &StateDict) -> Result<()> {
        state::load(self, from, &LoadStateDictOptions::default()).map(|_| ())
    }

    /// [`load_state_dict`](ModuleExt::load_state_dict) with options; with `strict(false)` only the
    /// names that both have are loaded, and the others are returned.
    ///
    /// ```
    /// # use torsh_nn::{Linear, LoadStateDictOptions, ModuleExt, StateDict};
    /// # use torsh_tensor::tensor;
    /// let state = StateDict::from([("scale", tensor![1.0])]);
    /// let keys = Linear::new(2, 3).load_state_dict_with(&state, LoadStateDictOptions::new().strict(false))?;
    /// assert_eq!(keys.missing_keys, ["weight", "bias"]);
    /// assert_eq!(keys.unexpected_keys, ["scale"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    fn load_state_dict_with(
        &self,
        from: &StateDict,
        options: LoadStateDictOptions,
    ) -> Result<IncompatibleKeys> {
        state::load(self, from, &options)
    }

    /// [`load_state_dict`](ModuleExt::load_state_dict) that copies as little as it can (`assign=True` of PyTorch):
    /// tensors of a parameter's dtype and device take its place with their memory. A checkpoint whose file is mapped
    /// is then in memory once. An optimizer that was made before trains nothing, and says so.
    ///
    /// Fields that hold the same parameter (tied weights) go on to do so where the state dict has equal tensors for them.
    /// Where it has different ones, each keeps its own, and a line on the standard error says so.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, StateDict};
    /// # use torsh_tensor::tensor;
    /// let mut layer = Linear::new(2, 1);
    /// let state = StateDict::from([("weight", tensor![[1.0, 4.0]]), ("bias", tensor![2.0])]);
    /// layer.assign_state_dict(&state)?;
    /// assert!(layer.weight.shares_storage(&state["weight"]) && layer.weight.requires_grad());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`load_state_dict`](ModuleExt::load_state_dict), and parameters that somebody else holds.
    #[torsh_tensor::names_caller]
    fn assign_state_dict(&mut self, from: &StateDict) -> Result<()> {
        state::assign(self, from)
    }

    /// Writes the state dict to a file as [`StateDict::save`] does, whole or not at all: safetensors, or
    /// what the path's extension says. With the feature `files`.
    #[cfg(feature = "files")]
    #[torsh_tensor::names_caller]
    fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.state_dict().save(path)
    }

    /// Loads a file that holds a state dict (safetensors, `.pt`, `.npz`) as
    /// [`load_state_dict`](ModuleExt::load_state_dict) does. With the feature `files`.
    #[cfg(feature = "files")]
    #[torsh_tensor::names_caller]
    fn load(&self, path: impl AsRef<Path>) -> Result<()> {
        let state = StateDict::load(path)?;
        self.load_state_dict(&state).map_err(|e| {
            match e.info().and_then(|i| i.hint.clone()) {
                // What it says is to be done with the state dict, which is not at hand.
                Some(hint) => e.with_hint(format!(
                    "StateDict::load(path) reads the state dict; {hint}"
                )),
                None => e,
            }
        })
    }

    /// Removes the gradients of all parameters.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module, ModuleExt};
    /// # use torsh_tensor::ones;
    /// let layer = Linear::new(2, 3);
    /// layer.forward(&ones([2]))?.sum()?.backward()?;
    /// assert_eq!(layer.weight.grad(), Some(ones([3, 2])));
    /// layer.zero_grad();
    /// assert_eq!(layer.weight.grad(), None);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    fn zero_grad(&self) {
        for p in self.parameters() {
            p.zero_grad();
        }
    }

    /// Freezes all parameters (`false`), or lets them be trained again.
    ///
    /// Panics where a parameter's dtype cannot have gradients.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// let layer = Linear::new(2, 3);
    /// layer.requires_grad_(false);
    /// assert!(!layer.weight.requires_grad());
    /// ```
    #[track_caller]
    fn requires_grad_(&self, requires_grad: bool) -> &Self {
        for p in self.parameters() {
            p.tensor().clone().requires_grad_(requires_grad);
        }
        self
    }

    /// Turns gradient checkpointing on or off (`gradient_checkpointing_enable()` and `_disable()` of
    /// Hugging Face's models): layers keep their inputs alone, and compute the rest again in the
    /// backward pass. It saves memory for about a third more time, and changes no result.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// let error = Linear::new(2, 3).gradient_checkpointing(true).map_err(|e| e.to_string());
    /// assert!(error.is_err_and(|e| e.contains("Linear has no layers that can be checkpointed")));
    /// ```
    ///
    /// # Errors
    /// Turned on for a module without a field [`GradientCheckpointing`](crate::GradientCheckpointing), here or below.
    #[torsh_tensor::names_caller]
    fn gradient_checkpointing(&self, on: bool) -> Result<()> {
        let mut found = false;
        walk(self, &mut |_, field| {
            if let FieldRef::GradientCheckpointing(switch) = field {
                switch.set(on);
                found = true;
            }
        });
        if found || !on {
            return Ok(());
        }
        let why = format!(
            "{} has no layers that can be checkpointed",
            self.type_name()
        );
        Err(TorshError::invalid("gradient_checkpointing", why).with_hint(
            "give it a field `checkpointing: GradientCheckpointing`, and run its layers by `self.checkpointing.run(..)`",
        ))
    }

    /// The number of elements of all parameters, tied ones counted once. Lazy layers that are not
    /// initialised have none.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// assert_eq!(Linear::new(784, 10).num_parameters(), 784 * 10 + 10);
    /// ```
    fn num_parameters(&self) -> usize {
        self.parameters().iter().map(|p| p.numel()).sum()
    }

    /// [`forward`](Module::forward) into a tensor that is there, of the result's shape; an error
    /// for another.
    ///
    /// The write is recorded as [`Tensor::copy_`] is; for inference call it under `no_grad`.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, ReLU};
    /// # use torsh_tensor::{tensor, zeros};
    /// let out = zeros([2]);
    /// ReLU::new().forward_into(&tensor![-1.0, 2.0], &out)?;
    /// assert_eq!(out, tensor![0.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    fn forward_into(&self, x: &Tensor, out: &Tensor) -> Result<()> {
        let y = self.forward(x)?;
        if y.shape() != out.shape() {
            return Err(TorshError::shape(
                "forward_into",
                format!(
                    "the result of {} is {} and the output {}",
                    self.type_name(),
                    y.describe(),
                    out.describe()
                ),
            ));
        }
        out.copy_(&y).map(|_| ())
    }

    /// Runs `forward` between the module's forward hooks, as [`forward`](Module::forward) of a layer does. For a module
    /// with a second way to compute, such as a step of a language model with a cache. A module without hooks runs
    /// `forward` alone.
    ///
    /// # Errors
    /// The error of a hook or of `forward`.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, ReLU};
    /// # use torsh_tensor::tensor;
    /// let layer = ReLU::new();
    /// let _handle = layer.register_forward_hook(|_, _, y| y.neg().map(Some))?;
    /// assert_eq!(layer.run_with_hooks(&tensor![2.0], |x| x.mul(3.0))?, tensor![-6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    fn run_with_hooks(
        &self,
        x: &Tensor,
        forward: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match (own_hooks(self), as_dyn(self)) {
            (Some(hooks), Some(module)) => hooks.run(module, x, forward),
            _ => forward(x),
        }
    }

    hook_methods!();

    /// [`forward`](Module::forward) with other tensors in the place of parameters and buffers
    /// (`torch.func.functional_call`); gradients flow into them. Names that are not given keep
    /// their tensors; a tied one may be given under any of its names. An error for a name that the
    /// module lacks.
    ///
    /// Takes the module exclusively, as its fields are exchanged until the call is over.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, StateDict};
    /// # use torsh_tensor::tensor;
    /// let mut layer = Linear::builder(2, 1).bias(false).build()?;
    /// let other = StateDict::from([("weight", tensor![[3.0, 4.0]])]);
    /// assert_eq!(layer.functional_call(&other, &tensor![1.0, 10.0])?, tensor![43.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    fn functional_call(&mut self, tensors: &StateDict, x: &Tensor) -> Result<Tensor> {
        functional_call::functional_call(self, tensors, x)
    }

    /// Moves parameters, buffers and gradients to a device.
    ///
    /// Parameters that move are replaced: an optimizer made before refuses to go on. An error where
    /// the device is not there, which leaves the module as it was.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// # use torsh_tensor::Device;
    /// let mut layer = Linear::new(2, 3);
    /// layer.to_device(Device::Cpu)?;
    /// assert_eq!(layer.weight.device(), Device::Cpu);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    fn to_device(&mut self, device: impl Into<Device>) -> Result<()> {
        let device = device.into();
        replace("to_device", self, When::Different, |t| t.to_device(device))
    }

    /// Moves parameters, buffers and gradients to a device without their values, as `torch.nn.Module.to_empty`: what they
    /// hold is undefined until it is written. A model of the meta device gets memory so, which `load_state_dict` fills.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module, ModuleExt, StateDict};
    /// # use torsh_tensor::{Device, tensor};
    /// let mut layer = Linear::builder(2, 1).bias(false).device(Device::Meta).build()?;
    /// layer.to_empty(Device::Cpu)?;
    /// layer.load_state_dict(&StateDict::from([("weight", tensor![[3.0, 4.0]])]))?;
    /// assert_eq!(layer.forward(&tensor![1.0, 10.0])?, tensor![43.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_device`](ModuleExt::to_device).
    #[track_caller]
    fn to_empty(&mut self, device: impl Into<Device>) -> Result<()> {
        replace::to_empty(self, device.into())
    }

    /// Puts another module in the place of one below this, named as for [`get_submodule`](ModuleExt::get_submodule). A
    /// module of a container and a field of type `Box<dyn Module>` take any module, another field one of its type.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module, ModuleExt, ReLU, Tanh, sequential};
    /// # use torsh_tensor::tensor;
    /// let mut net = sequential![Tanh::new(), sequential![Tanh::new()]];
    /// net.set_submodule("0", ReLU::new())?;
    /// net.set_submodule("1.0", ReLU::new())?;
    /// assert_eq!(net.forward(&tensor![-1.0, 2.0])?, tensor![0.0, 2.0]);
    /// assert!(net.set_submodule("2", ReLU::new()).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No module of this name, a field of another type, and a module that somebody else holds.
    #[track_caller]
    fn set_submodule(&mut self, name: &str, module: impl Module) -> Result<()> {
        replace::set_submodule(self, name, module)
    }

    /// Converts floating-point and complex parameters, buffers and gradients to a dtype.
    ///
    /// Parameters that change are replaced: an optimizer made before refuses to go on. An error for
    /// a dtype that is neither floating point nor complex.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module, ModuleExt};
    /// # use torsh_tensor::{DType, ones};
    /// let mut layer = Linear::new(2, 3);
    /// layer.to_dtype(DType::F64)?;
    /// assert_eq!(layer.forward(&ones([2]).to_dtype(DType::F64)?)?.dtype(), DType::F64);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    fn to_dtype(&mut self, dtype: DType) -> Result<()> {
        if !dtype.is_differentiable() {
            return Err(TorshError::dtype(
                "to_dtype",
                format!("a module's dtype is floating point or complex, not {dtype}"),
            ));
        }
        replace("to_dtype", self, When::Different, |t| {
            if t.dtype().is_differentiable() {
                t.to_dtype(dtype)
            } else {
                Ok(t.clone())
            }
        })
    }

    /// The module and those below it, as PyTorch prints them.
    ///
    /// ```
    /// # use torsh_nn::{ModuleExt, ReLU, Sequential};
    /// assert_eq!(Sequential::new().add(ReLU::new()).repr(), "Sequential(\n  (0): ReLU()\n)");
    /// ```
    fn repr(&self) -> String {
        let mut text = String::new();
        self.visit_field("", &mut |_, field| {
            if let FieldRef::Module(m) = field {
                text = show::show(m);
            }
        });
        text
    }
}

impl<M: Module + ?Sized> ModuleExt for M {}
