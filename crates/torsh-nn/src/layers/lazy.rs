//! Lazy layers, which infer the size of their input from the first one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use torsh_core::random::LocalGenerator;
use torsh_tensor::{Result, Tensor, TorshError};

use crate::layers::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, ConvTranspose1d,
    ConvTranspose2d, ConvTranspose3d, Factory, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d,
    Linear,
};
use crate::module::{
    Buffer, FieldMut, FieldRef, Module, ModuleField, ModuleFields, Parameter, Shared, StateDict,
};
use sealed::Infer;

mod sealed {
    use torsh_tensor::{Result, Tensor};

    /// A layer with a size that its input tells.
    pub trait Infer: crate::Module + Sized {
        /// The lazy layer's name.
        const LAZY: &'static str;
        /// The size that `x` has.
        fn features(x: &Tensor) -> Result<usize>;
    }
}

type Build<L> = dyn Fn(usize, Factory) -> Result<L> + Send + Sync;

/// A layer whose number of input features or channels is that of the first input
/// (`torch.nn.LazyLinear` and its like).
///
/// Until the first `forward` its parameters and running statistics are
/// [uninitialised](Parameter::uninitialized): without elements, left out of the state dict, and
/// refused by optimizers. `forward` draws them as the plain layer does; a state dict that is loaded
/// ahead of it gives them its shapes and values. From then on it is that layer, with the same
/// names in the state dict. `to_dtype`, `to_device`, `requires_grad_` and hooks of earlier hold.
///
/// ```
/// use torsh_nn::{LazyLinear, Module, ModuleExt};
/// use torsh_tensor::ones;
/// let layer = LazyLinear::builder(3).bias(false).build()?;
/// assert!(layer.layer().is_none() && layer.parameters()[0].is_uninitialized());
/// assert_eq!(layer.forward(&ones(&[2, 5]))?.dims(), [2, 3]);
/// assert_eq!(layer.parameters()[0].dims(), [3, 5]);
/// assert_eq!(layer.repr(), "Linear(in_features=5, out_features=3, bias=False)");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Lazy<L> {
    layer: L,
    build: Arc<Build<L>>,
    /// What is printed of it until it is initialised.
    repr: String,
    ready: AtomicBool,
    /// Held while it is initialised.
    turn: Mutex<()>,
}

/// The tensors of a layer.
fn tensors<L: ModuleFields>(layer: &L) -> Vec<(String, &Shared)> {
    let mut out = Vec::new();
    layer.visit_fields(&mut |name, field| match field {
        FieldRef::Parameter(p) => out.push((name.to_string(), p.shared())),
        FieldRef::Buffer(b) => out.push((name.to_string(), b.shared())),
        _ => {}
    });
    out
}

/// Draws without a trace in the default generator.
fn aside<T>(f: impl FnOnce() -> T) -> T {
    LocalGenerator::new(0).scope(f)
}

impl<L: Infer> Lazy<L> {
    /// A layer that `build` makes when the size is known.
    #[track_caller]
    pub(super) fn of(
        factory: Factory,
        build: impl Fn(usize, Factory) -> Result<L> + Send + Sync + 'static,
    ) -> Result<Lazy<L>> {
        // A layer of size 0 shows what is wrong with the other arguments, and all fields.
        let mut layer = aside(|| build(0, factory))?;
        let repr = layer.extra_repr();
        let mut failed = None;
        layer.visit_fields_mut(&mut |_, field| {
            let result = match field {
                FieldMut::Parameter(p) => Parameter::uninitialized_as(p, true).map(|new| *p = new),
                FieldMut::Buffer(b) if b.ndim() > 0 => {
                    Buffer::uninitialized_as(b, b.is_persistent()).map(|new| *b = new)
                }
                _ => Ok(()),
            };
            failed = failed.take().or(result.err());
        });
        match failed {
            Some(e) => Err(e),
            None => Ok(Lazy {
                layer,
                build: Arc::new(build),
                repr,
                ready: AtomicBool::new(false),
                turn: Mutex::new(()),
            }),
        }
    }

    /// The layer, once it is initialised.
    ///
    /// ```
    /// # use torsh_nn::{LazyLinear, Module};
    /// # use torsh_tensor::ones;
    /// let lazy = LazyLinear::new(3)?;
    /// assert_eq!(lazy.layer().map(|l| l.in_features()), None);
    /// lazy.forward(&ones([5]))?;
    /// assert_eq!(lazy.layer().map(|l| l.in_features()), Some(5));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn layer(&self) -> Option<&L> {
        self.ready.load(Ordering::Acquire).then_some(&self.layer)
    }

    /// Whether there are parameters or buffers whose shape is not known yet.
    ///
    /// ```
    /// # use torsh_nn::{LazyLinear, Module};
    /// # use torsh_tensor::ones;
    /// let lazy = LazyLinear::new(3)?;
    /// assert!(lazy.has_uninitialized_params());
    /// lazy.forward(&ones([5]))?;
    /// assert!(!lazy.has_uninitialized_params());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn has_uninitialized_params(&self) -> bool {
        let all = tensors(&self.layer);
        all.iter().any(|(_, t)| t.is_uninitialized())
    }

    /// Draws the parameters for an input of this size, as the first `forward` does. An error for an
    /// input of which the size cannot be told, or that does not go with parameters that were
    /// loaded.
    ///
    /// ```
    /// # use torsh_nn::{LazyLinear, ModuleExt};
    /// # use torsh_tensor::ones;
    /// let lazy = LazyLinear::new(3)?;
    /// lazy.initialize_parameters(&ones([5]))?;
    /// assert_eq!(lazy.num_parameters(), 3 * 5 + 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn initialize_parameters(&self, x: &Tensor) -> Result<()> {
        if self.ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let own = tensors(&self.layer);
        if let Some((_, first)) = own.first() {
            let n = L::features(x)?;
            let factory = Factory {
                device: first.tensor().device(),
                dtype: Some(first.tensor().dtype()),
            };
            let build = || (self.build)(n, factory);
            let made = match self.has_uninitialized_params() {
                true => build()?,
                false => aside(build)?,
            };
            let new = tensors(&made);
            for ((name, old), (_, new)) in own.iter().zip(&new) {
                let (old, new) = (old, new.tensor());
                if !old.is_uninitialized() && old.tensor().shape() != new.shape() {
                    return Err(TorshError::shape(
                        L::LAZY,
                        format!(
                            "{name} was loaded as {}, and an input of {} needs {}",
                            old.tensor().shape(),
                            x.shape(),
                            new.shape()
                        ),
                    ));
                }
            }
            for ((_, old), (_, new)) in own.iter().zip(&new) {
                if old.is_uninitialized() {
                    old.materialize(new.tensor())?;
                }
            }
        }
        self.ready.store(true, Ordering::Release);
        Ok(())
    }
}

impl<L: Infer> Module for Lazy<L> {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.initialize_parameters(x)?;
        self.layer.forward(x)
    }

    #[torsh_tensor::names_caller]
    fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
        self.layer.upgrade_state_dict(state, prefix)
    }

    fn extra_repr(&self) -> String {
        match self.layer() {
            Some(layer) => layer.extra_repr(),
            None => self.repr.clone(),
        }
    }
}

impl<L: Infer> ModuleFields for Lazy<L> {
    fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        self.layer.visit_fields(visitor);
    }

    fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        self.layer.visit_fields_mut(visitor);
    }

    fn type_name(&self) -> &'static str {
        match self.layer() {
            Some(layer) => layer.type_name(),
            None => L::LAZY,
        }
    }
}

impl<L: Infer> ModuleField for Lazy<L> {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor(name, FieldRef::Module(self));
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor(name, FieldMut::Module(self));
    }
}

/// The channels of an input of `single` dimensions, or one more for the batch.
#[track_caller]
fn channels(lazy: &'static str, x: &Tensor, single: usize) -> Result<usize> {
    match x.ndim().checked_sub(single) {
        Some(dim @ (0 | 1)) => Ok(x.dims()[dim]),
        _ => Err(TorshError::shape(
            lazy,
            format!(
                "expected {single}D (unbatched) or {}D (batched) input, got {}",
                single + 1,
                x.describe()
            ),
        )),
    }
}

macro_rules! lazy {
    ($($(#[$doc:meta])* $lazy:ident $layer:ident $features:ident $(($n:literal))?;)*) => {$(
        $(#[$doc])*
        pub type $lazy = Lazy<$layer>;

        impl Infer for $layer {
            const LAZY: &'static str = stringify!($lazy);
            #[torsh_tensor::names_caller]
            fn features(x: &Tensor) -> Result<usize> {
                $features(Self::LAZY, x $(, $n)?)
            }
        }
    )*};
}

lazy! {
    /// A [`Linear`] whose `in_features` is the size of the first input's last dimension.
    LazyLinear Linear last;
    /// A [`Conv1d`] whose `in_channels` is that of the first input.
    LazyConv1d Conv1d channels(2);
    /// A [`Conv2d`] whose `in_channels` is that of the first input.
    ///
    /// ```
    /// use torsh_nn::{LazyConv2d, Module};
    /// use torsh_tensor::ones;
    /// let conv = LazyConv2d::new(8, 3, 1, 1)?;
    /// assert_eq!(conv.forward(&ones(&[2, 4, 5, 5]))?.dims(), [2, 8, 5, 5]);
    /// assert_eq!(conv.layer().map(|c| c.weight.dims()), Some(&[8, 4, 3, 3][..]));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LazyConv2d Conv2d channels(3);
    /// A [`Conv3d`] whose `in_channels` is that of the first input.
    LazyConv3d Conv3d channels(4);
    /// A [`ConvTranspose1d`] whose `in_channels` is that of the first input.
    LazyConvTranspose1d ConvTranspose1d channels(2);
    /// A [`ConvTranspose2d`] whose `in_channels` is that of the first input.
    LazyConvTranspose2d ConvTranspose2d channels(3);
    /// A [`ConvTranspose3d`] whose `in_channels` is that of the first input.
    LazyConvTranspose3d ConvTranspose3d channels(4);
    /// A [`BatchNorm1d`] whose `num_features` is that of the first input.
    LazyBatchNorm1d BatchNorm1d features;
    /// A [`BatchNorm2d`] whose `num_features` is that of the first input.
    ///
    /// ```
    /// use torsh_nn::{LazyBatchNorm2d, Module};
    /// use torsh_tensor::ones;
    /// let norm = LazyBatchNorm2d::new()?;
    /// norm.forward(&ones(&[2, 4, 5, 5]))?;
    /// assert_eq!(norm.layer().and_then(|n| n.weight.as_ref()).map(|w| w.numel()), Some(4));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LazyBatchNorm2d BatchNorm2d features;
    /// A [`BatchNorm3d`] whose `num_features` is that of the first input.
    LazyBatchNorm3d BatchNorm3d features;
    /// An [`InstanceNorm1d`] whose `num_features` is that of the first input.
    LazyInstanceNorm1d InstanceNorm1d channels(2);
    /// An [`InstanceNorm2d`] whose `num_features` is that of the first input.
    LazyInstanceNorm2d InstanceNorm2d channels(3);
    /// An [`InstanceNorm3d`] whose `num_features` is that of the first input.
    LazyInstanceNorm3d InstanceNorm3d channels(4);
}

/// The size of the last dimension.
#[track_caller]
fn last(lazy: &'static str, x: &Tensor) -> Result<usize> {
    let last = x.dims().last().copied();
    last.ok_or_else(|| TorshError::shape(lazy, "the input has no dimensions"))
}

/// The size of dimension 1.
#[track_caller]
fn features(lazy: &'static str, x: &Tensor) -> Result<usize> {
    x.dims().get(1).copied().ok_or_else(|| {
        TorshError::shape(
            lazy,
            format!("expected at least 2 dimensions, got {}", x.describe()),
        )
    })
}
