//! Tensors as fields of modules: parameters and buffers.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use torsh_tensor::{DType, Device, Operand, Result, Tensor, TorshError};

pub(crate) struct Shared {
    /// Without elements, of the dtype and device to come, where it is not initialised.
    tensor: Tensor,
    /// What comes in the place of one that began uninitialised.
    later: Option<OnceLock<Tensor>>,
    /// Set when a module put another tensor in this one's place.
    replaced: AtomicBool,
    /// What modules see in the place of a piece of a parameter while they run.
    unsharded: OnceLock<Unsharded>,
}

/// All values of a parameter that is kept as a shard.
struct Unsharded {
    tensor: Tensor,
    shown: AtomicBool,
}

impl Shared {
    fn new(tensor: Tensor) -> Arc<Shared> {
        Arc::new(Shared {
            tensor,
            later: None,
            replaced: AtomicBool::new(false),
            unsharded: OnceLock::new(),
        })
    }

    fn uninitialized(empty: Tensor) -> Arc<Shared> {
        Arc::new(Shared {
            tensor: empty,
            later: Some(OnceLock::new()),
            replaced: AtomicBool::new(false),
            unsharded: OnceLock::new(),
        })
    }

    pub(crate) fn tensor(&self) -> &Tensor {
        if let Some(all) = self.unsharded.get()
            && all.shown.load(Ordering::Acquire)
        {
            return &all.tensor;
        }
        match &self.later {
            None => &self.tensor,
            Some(later) => later.get().unwrap_or(&self.tensor),
        }
    }

    pub(crate) fn is_uninitialized(&self) -> bool {
        self.later.as_ref().is_some_and(|t| t.get().is_none())
    }

    /// Gives an uninitialised tensor the data of `tensor`, of its own dtype and device.
    #[track_caller]
    pub(crate) fn materialize(&self, tensor: &Tensor) -> Result<()> {
        let (dtype, device) = (self.tensor.dtype(), self.tensor.device());
        let tensor = tensor.detach().to_dtype(dtype)?.to_device(device)?.detach();
        if self.tensor.requires_grad() {
            tensor.set_requires_grad(true)?;
        }
        let refuse = || TorshError::invalid("materialize", "the tensor is initialised already");
        let later = self.later.as_ref().ok_or_else(refuse)?;
        later.set(tensor).map_err(|_| refuse())
    }
}

/// A tensor of a module that is trained (`torch.nn.Parameter`).
///
/// Dereferences to its [`Tensor`]. `Clone` gives another handle of the same parameter: two fields
/// that hold clones are tied.
#[derive(Clone)]
pub struct Parameter(Arc<Shared>);

impl Parameter {
    /// A parameter with the data of `tensor` (shared, not copied) that asks for gradients.
    ///
    /// Panics, as [`Tensor::requires_grad_`] does, where the dtype cannot have gradients;
    /// [`Parameter::with_requires_grad`] gives an error instead.
    ///
    /// ```
    /// # use torsh_nn::Parameter;
    /// # use torsh_tensor::tensor;
    /// assert!(Parameter::new(tensor![1.0, 2.0]).requires_grad());
    /// ```
    #[track_caller]
    pub fn new(tensor: impl Into<Tensor>) -> Parameter {
        Parameter(Shared::new(tensor.into().detach().requires_grad_(true)))
    }

    /// A parameter that asks for gradients or not. An error where the dtype cannot have them.
    ///
    /// ```
    /// # use torsh_nn::Parameter;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Parameter::with_requires_grad(tensor![1, 2], false)?.to_vec::<i64>()?, [1, 2]);
    /// assert!(Parameter::with_requires_grad(tensor![1, 2], true).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn with_requires_grad(tensor: impl Into<Tensor>, requires_grad: bool) -> Result<Parameter> {
        let tensor = tensor.into().detach();
        tensor.set_requires_grad(requires_grad)?;
        Ok(Parameter(Shared::new(tensor)))
    }

    /// A parameter whose shape is not known yet (`torch.nn.UninitializedParameter`): a tensor
    /// without elements until [`Parameter::materialize`]. All its handles stay one parameter.
    ///
    /// ```
    /// use torsh_nn::Parameter;
    /// use torsh_tensor::{DType, Device, tensor};
    /// let p = Parameter::uninitialized(DType::F32, Device::Cpu)?;
    /// let other = p.clone();
    /// assert!(p.is_uninitialized() && p.numel() == 0);
    /// p.materialize(&tensor![1.0, 2.0])?;
    /// assert!(other.requires_grad() && other.to_vec::<f32>()? == [1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn uninitialized(dtype: DType, device: impl Into<Device>) -> Result<Parameter> {
        let empty = Tensor::empty([0], dtype, device.into())?;
        Parameter::uninitialized_as(&empty, true)
    }

    /// An uninitialised parameter of a tensor's dtype and device.
    #[track_caller]
    pub(crate) fn uninitialized_as(tensor: &Tensor, requires_grad: bool) -> Result<Parameter> {
        let empty = Tensor::empty([0], tensor.dtype(), tensor.device())?;
        empty.set_requires_grad(requires_grad)?;
        Ok(Parameter(Shared::uninitialized(empty)))
    }

    /// Whether the shape is not known yet.
    ///
    /// ```
    /// # use torsh_nn::Parameter;
    /// # use torsh_tensor::{DType, Device, tensor};
    /// assert!(Parameter::uninitialized(DType::F32, Device::Cpu)?.is_uninitialized());
    /// assert!(!Parameter::new(tensor![1.0]).is_uninitialized());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_uninitialized(&self) -> bool {
        self.0.is_uninitialized()
    }

    /// Gives an uninitialised parameter its data (shared, unless it is converted to the parameter's
    /// dtype and device). An error for one that has its data.
    ///
    /// ```
    /// # use torsh_nn::Parameter;
    /// # use torsh_tensor::{DType, Device, tensor};
    /// let p = Parameter::uninitialized(DType::F64, Device::Cpu)?;
    /// p.materialize(&tensor![1.0, 2.0])?;
    /// assert_eq!(p.to_vec::<f64>()?, [1.0, 2.0]);
    /// assert!(p.materialize(&tensor![1.0]).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn materialize(&self, tensor: &Tensor) -> Result<()> {
        self.0.materialize(tensor)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Gives a parameter that holds a shard of its values the tensor of all of them. [`Parameter::unshard`] puts it in the
    /// shard's place while modules run. For sharded training: optimizers and state dicts see the shard, modules see all.
    ///
    /// ```
    /// use torsh_nn::Parameter;
    /// use torsh_tensor::tensor;
    ///
    /// let shard = Parameter::new(tensor![1.0, 2.0]);
    /// shard.set_unsharded(&tensor![1.0, 2.0, 3.0, 4.0])?;
    /// assert_eq!(shard.numel(), 2);
    /// shard.unshard()?;
    /// assert_eq!(shard.numel(), 4);
    /// shard.reshard()?;
    /// assert_eq!(shard.numel(), 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// The parameter has such a tensor already.
    #[torsh_tensor::names_caller]
    pub fn set_unsharded(&self, all: &Tensor) -> Result<()> {
        let unsharded = Unsharded {
            tensor: all.clone(),
            shown: AtomicBool::new(false),
        };
        let refuse = |_| {
            TorshError::invalid(
                "set_unsharded",
                "the parameter has its unsharded tensor already",
            )
        };
        self.0.unsharded.set(unsharded).map_err(refuse)
    }

    /// Puts the tensor of [`Parameter::set_unsharded`] in the place of the shard.
    ///
    /// # Errors
    /// The parameter has none.
    #[torsh_tensor::names_caller]
    pub fn unshard(&self) -> Result<()> {
        self.show("unshard", true)
    }

    /// Puts the shard back in its place.
    ///
    /// # Errors
    /// As [`Parameter::unshard`].
    #[torsh_tensor::names_caller]
    pub fn reshard(&self) -> Result<()> {
        self.show("reshard", false)
    }

    #[track_caller]
    fn show(&self, op: &'static str, shown: bool) -> Result<()> {
        let refuse = || {
            TorshError::invalid(op, "the parameter has no unsharded tensor")
                .with_hint("call set_unsharded before")
        };
        let unsharded = self.0.unsharded.get().ok_or_else(refuse)?;
        unsharded.shown.store(shown, Ordering::Release);
        Ok(())
    }

    /// The tensor of [`Parameter::set_unsharded`].
    pub fn unsharded(&self) -> Option<&Tensor> {
        self.0.unsharded.get().map(|u| &u.tensor)
    }

    /// A stand-in with this very tensor, which may be the result of recorded ops.
    pub(crate) fn standing_in(tensor: Tensor) -> Parameter {
        Parameter(Shared::new(tensor))
    }

    /// The tensor.
    ///
    /// ```
    /// # use torsh_nn::Parameter;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Parameter::new(tensor![1.0, 2.0]).tensor().to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn tensor(&self) -> &Tensor {
        self.0.tensor()
    }

    /// Whether two handles are the same parameter.
    ///
    /// ```
    /// # use torsh_nn::Parameter;
    /// # use torsh_tensor::tensor;
    /// let p = Parameter::new(tensor![1.0]);
    /// assert!(p.is_same(&p.clone()));
    /// assert!(!p.is_same(&Parameter::new(tensor![1.0])));
    /// ```
    pub fn is_same(&self, other: &Parameter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that tells parameters apart while any handle of this one exists.
    ///
    /// ```
    /// # use torsh_nn::Parameter;
    /// # use torsh_tensor::tensor;
    /// let p = Parameter::new(tensor![1.0]);
    /// assert_eq!(p.id(), p.clone().id());
    /// ```
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// False once a module has put another tensor in this one's place (`to_dtype`, `to_device`):
    /// whoever still trains this handle trains nothing.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt};
    /// # use torsh_tensor::DType;
    /// let mut layer = Linear::new(2, 3);
    /// let before = layer.weight.clone();
    /// layer.to_dtype(DType::F64)?;
    /// assert_eq!((before.is_current(), layer.weight.is_current()), (false, true));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_current(&self) -> bool {
        !self.0.replaced.load(Ordering::Acquire)
    }

    /// Says that another parameter is in this one's place, for code that exchanges the parameters of a module: an
    /// optimizer that has this one answers with an error, see [`Parameter::is_current`].
    ///
    /// ```
    /// # use torsh_nn::Parameter;
    /// # use torsh_tensor::tensor;
    /// let p = Parameter::new(tensor![1.0]);
    /// p.mark_replaced();
    /// assert!(!p.is_current());
    /// ```
    pub fn mark_replaced(&self) {
        self.0.replaced.store(true, Ordering::Release);
    }
}

/// A tensor of a module that is saved with it but not trained, as running statistics.
///
/// Dereferences to its [`Tensor`]. `Clone` gives another handle of the same buffer.
///
/// ```
/// # use torsh_nn::Buffer;
/// # use torsh_tensor::tensor;
/// let b = Buffer::new(tensor![1.0, 2.0]);
/// b.clone().add_(1.0)?;
/// assert_eq!(b.to_vec::<f32>()?, [2.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct Buffer {
    shared: Arc<Shared>,
    persistent: bool,
}

impl Buffer {
    /// A buffer with the data of `tensor` (shared, not copied) that is part of the state dict.
    ///
    /// ```
    /// # use torsh_nn::Buffer;
    /// # use torsh_tensor::tensor;
    /// let b = Buffer::new(tensor![1.0]);
    /// assert_eq!((b.is_persistent(), b.requires_grad()), (true, false));
    /// ```
    pub fn new(tensor: impl Into<Tensor>) -> Buffer {
        Buffer {
            shared: Shared::new(tensor.into().detach()),
            persistent: true,
        }
    }

    /// A buffer that moves with its module but is not part of the state dict.
    ///
    /// ```
    /// # use torsh_nn::Buffer;
    /// # use torsh_tensor::tensor;
    /// assert!(!Buffer::non_persistent(tensor![1.0]).is_persistent());
    /// ```
    pub fn non_persistent(tensor: impl Into<Tensor>) -> Buffer {
        Buffer {
            persistent: false,
            ..Buffer::new(tensor)
        }
    }

    /// A buffer whose shape is not known yet (`torch.nn.UninitializedBuffer`), of a tensor's dtype
    /// and device.
    #[track_caller]
    pub(crate) fn uninitialized_as(tensor: &Tensor, persistent: bool) -> Result<Buffer> {
        let empty = Tensor::empty([0], tensor.dtype(), tensor.device())?;
        Ok(Buffer {
            shared: Shared::uninitialized(empty),
            persistent,
        })
    }

    /// Whether the shape is not known yet.
    ///
    /// ```
    /// # use torsh_nn::{Buffer, LazyBatchNorm1d, ModuleExt};
    /// # use torsh_tensor::tensor;
    /// assert!(!Buffer::new(tensor![1.0]).is_uninitialized());
    /// assert!(LazyBatchNorm1d::new()?.buffers()[0].is_uninitialized());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_uninitialized(&self) -> bool {
        self.shared.is_uninitialized()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn standing_in(tensor: Tensor, persistent: bool) -> Buffer {
        Buffer {
            shared: Shared::new(tensor),
            persistent,
        }
    }

    /// The tensor.
    ///
    /// ```
    /// # use torsh_nn::Buffer;
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Buffer::new(tensor![1.0, 2.0]).tensor().to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn tensor(&self) -> &Tensor {
        self.shared.tensor()
    }

    /// Whether the state dict has it.
    ///
    /// ```
    /// # use torsh_nn::Buffer;
    /// # use torsh_tensor::tensor;
    /// assert!(Buffer::new(tensor![1.0]).is_persistent());
    /// ```
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Whether two handles are the same buffer.
    ///
    /// ```
    /// # use torsh_nn::Buffer;
    /// # use torsh_tensor::tensor;
    /// let b = Buffer::new(tensor![1.0]);
    /// assert!(b.is_same(&b.clone()));
    /// ```
    pub fn is_same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// A number that tells buffers apart while any handle of this one exists.
    ///
    /// ```
    /// # use torsh_nn::Buffer;
    /// # use torsh_tensor::tensor;
    /// let b = Buffer::new(tensor![1.0]);
    /// assert_eq!(b.id(), b.clone().id());
    /// ```
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.shared) as usize
    }

    /// False once a module has put another tensor in this one's place.
    ///
    /// ```
    /// # use torsh_nn::{BatchNorm1d, ModuleExt};
    /// # use torsh_tensor::DType;
    /// let mut norm = BatchNorm1d::new(2)?;
    /// let before = norm.buffers()[0].clone();
    /// norm.to_dtype(DType::F64)?;
    /// assert!(!before.is_current());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_current(&self) -> bool {
        !self.shared.replaced.load(Ordering::Acquire)
    }

    pub(crate) fn mark_replaced(&self) {
        self.shared.replaced.store(true, Ordering::Release);
    }
}

macro_rules! as_tensor {
    ($($ty:ident),*) => {$(
        impl Deref for $ty {
            type Target = Tensor;

            fn deref(&self) -> &Tensor {
                self.tensor()
            }
        }

        impl AsRef<Tensor> for $ty {
            fn as_ref(&self) -> &Tensor {
                self.tensor()
            }
        }

        impl<'a> From<&'a $ty> for Operand<'a> {
            fn from(p: &'a $ty) -> Self {
                Operand::Ref(p.tensor())
            }
        }

        impl From<&$ty> for Tensor {
            fn from(p: &$ty) -> Tensor {
                p.tensor().clone()
            }
        }

        impl From<$ty> for Tensor {
            fn from(p: $ty) -> Tensor {
                p.tensor().clone()
            }
        }

        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($ty), " containing:\n{:?}"), self.tensor())
            }
        }
    )*};
}

as_tensor!(Parameter, Buffer);
